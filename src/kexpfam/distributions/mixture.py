"""Weighted averages of densities of one variable.

p(y) = Σ_c w_c p_c(y) with the same weights at every condition. Density, distribution
function and moments are sums over the components. Quantiles are roots between the
quantiles of the components. Mode, highest-density region and entropy come from panels
in y that are cut wherever a component's panels are, so that they resolve the sum.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
from scipy import special

from kexpfam._typing import Array, ArrayLike
from kexpfam._validation import as_numbers
from kexpfam.distributions.one_column import OneColumnDensity
from kexpfam.distributions.row_panels import (
    RowPanels,
    evaluate_on_panels,
    merged_edges,
)
from kexpfam.roots import bracketed_roots

# Weights may miss a sum of one by rounding, and are then divided by their sum.
_SUM_TOLERANCE = 1e-6

# A point is a quantile if the mass beyond it is right up to this share.
_LEVEL_TOLERANCE = 1e-13

# Panels of a component are followed outwards until less than this mass is left.
_NEGLIGIBLE = 1e-15


class MixtureDensity(OneColumnDensity):
    """n densities of one variable, each an average of the same k kinds of density.

    Args:
        components: Densities at the same n conditions, or k single densities.
        weights: One per component, not negative, with sum one, (k,).

    Example:
        >>> import numpy as np
        >>> from kexpfam.base_densities import GaussianBase
        >>> from kexpfam.distributions import ClosedFormDensity
        >>> left, right = (
        ...     ClosedFormDensity(GaussianBase(1.0), np.array([c]), np.ones(1))
        ...     for c in (-3.0, 3.0)
        ... )
        >>> p = MixtureDensity([left, right], [0.5, 0.5])
        >>> p.std().round(4)
        array([3.1623])
    """

    def __init__(
        self, components: Sequence[OneColumnDensity], weights: ArrayLike
    ) -> None:
        shares = as_numbers("weights", weights)
        _check(components, shares)
        kept = np.flatnonzero(shares > 0)
        self._components = tuple(components[int(c)] for c in kept)
        self._weights = shares[kept] / shares.sum()
        self._single = components[0]._single

    @property
    def components(self) -> tuple[OneColumnDensity, ...]:
        """The components with positive weight."""
        return self._components

    @property
    def weights(self) -> Array:
        """Their weights, (k,)."""
        return self._weights.copy()

    @property
    def log_partition(self) -> Array:
        """Zero: components are normalised, and so is their average."""
        return self._out(np.zeros(self._n))

    @property
    def log_partition_error(self) -> Array:
        """Error of the log of the total mass, from those of the components."""
        errors = self._gather("log_partition_error")
        return self._out(special.logsumexp(errors, axis=0, b=self._weights[:, None]))

    def mean(self) -> Array:
        return self._out(self._weights @ self._means)

    def std(self) -> Array:
        # The law of total variance, relative to the largest term, which may be huge.
        deviations = self._gather("std")
        offsets = np.abs(self._means - self._weights @ self._means)
        largest = np.maximum(deviations, offsets).max(axis=0)
        finite = np.isfinite(largest)
        unit = np.where(finite & (largest > 0), largest, 1.0)
        squares = (deviations / unit) ** 2 + (offsets / unit) ** 2
        std = unit * np.sqrt(self._weights @ squares)
        return self._out(np.where(np.isinf(deviations).any(axis=0), np.inf, std))

    def mode(self) -> Array:
        """Where the density is largest; the leftmost if there are several."""
        if not self._n:
            return np.empty(0)
        return self._out(
            self._panels.peaks(
                lambda y: self._log_pdf(y[..., None]),
                lambda y: self._gradient(y[..., None])[..., 0],
            )
        )

    def entropy(self) -> Array:
        return self._out(self._panels.entropy())

    @property
    def _n(self) -> int:
        return self._components[0]._n

    @property
    def _ends(self) -> Array:
        ends = np.stack([part._ends for part in self._components])
        low, high = ends[..., 0].min(axis=0), ends[..., 1].max(axis=0)
        return np.stack([low, high], axis=-1)

    def _log_pdf(self, Y: Array) -> Array:
        return special.logsumexp(self._log_terms(Y), axis=0)

    def _gradient(self, Y: Array) -> Array:
        terms = self._log_terms(Y)
        log_p = special.logsumexp(terms, axis=0)
        # Where no component has density, there is no slope.
        nowhere = np.isneginf(log_p)
        shares = np.exp(terms - np.where(nowhere, 0.0, log_p))
        total = np.zeros(Y.shape)
        for share, part in zip(shares, self._components, strict=True):
            slope = np.where(share[..., None] > 0, part._gradient(Y), 0.0)
            total += share[..., None] * slope
        return np.where(nowhere[..., None], np.nan, total)

    def _cdf(self, y: Array) -> Array:
        return self._average(lambda part: part._cdf(y))

    def _sf(self, y: Array) -> Array:
        return self._average(lambda part: part._sf(y))

    def _rough_pdf(self, y: Array) -> Array:
        return self._average(lambda part: part._rough_pdf(y))

    def _average(self, values: Callable[[OneColumnDensity], Array]) -> Array:
        """Σ w_c of something of each component."""
        total = self._weights[0] * values(self._components[0])
        for weight, part in zip(self._weights[1:], self._components[1:], strict=True):
            total += weight * values(part)
        return total

    def _ppf(self, levels: Array) -> Array:
        def excess(y: Array) -> Array:
            """Mass below y minus the level, from the tail that is smaller."""
            upper = 1.0 - levels - self._sf(y)
            return np.where(levels > 0.5, upper, self._cdf(y) - levels)

        low, high = self._brackets(levels, excess)
        y = bracketed_roots(
            lambda y: excess(y.reshape(levels.shape)).ravel(),
            low.ravel(),
            high.ravel(),
        )
        return y.reshape(levels.shape)

    def _brackets(
        self, levels: Array, excess: Callable[[Array], Array]
    ) -> tuple[Array, Array]:
        """Points around the quantiles, as near as one component alone can tell.

        Some component has less than the level below the quantile, and some has more.
        And F ≥ w F_c, so the quantile is not above that of component c at level/w; the
        same holds for the upper tails. The second pair is of the right width even if
        components are far apart; levels near one may be rounded too much for it.
        """
        outer, inner = [], []
        q = levels.shape[1]
        for weight, part in zip(self._weights, self._components, strict=True):
            below, above = levels / weight, (1.0 - levels) / weight
            inside = np.where(below < 1, below, 0.5), np.where(above < 1, above, 0.5)
            y = part._ppf(np.hstack([levels, inside[0], 1.0 - inside[1]]))
            outer.append(y[:, :q])
            high = np.where(below < 1, y[:, q : 2 * q], np.inf)
            low = np.where(above < 1, y[:, 2 * q :], -np.inf)
            inner.append([low, high])
        far_low, far_high = np.min(outer, axis=0), np.max(outer, axis=0)
        low = np.max([pair[0] for pair in inner], axis=0)
        high = np.min([pair[1] for pair in inner], axis=0)
        low, high = np.maximum(low, far_low), np.minimum(high, far_high)
        # An end that is the quantile but for rounding may be on its wrong side.
        rounding = _LEVEL_TOLERANCE * np.minimum(levels, 1.0 - levels)
        at_low, at_high = excess(low), excess(high)
        found = np.where(np.abs(at_low) <= rounding, low, np.nan)
        found = np.where(np.abs(at_high) <= rounding, high, found)
        low = np.where(at_low <= 0, low, far_low)
        high = np.where(at_high >= 0, high, far_high)
        known = ~np.isnan(found)
        return np.where(known, found, low), np.where(known, found, high)

    def _draws(self, size: int, rng: np.random.Generator) -> Array:
        shape = (self._n, size)
        chosen = rng.choice(len(self._components), size=shape, p=self._weights)
        draws = np.empty(shape)
        for c, part in enumerate(self._components):
            mine = chosen == c
            # Each row takes as many as it needs of the most that any row needs.
            most = int(mine.sum(axis=1).max(initial=0))
            position = np.cumsum(mine, axis=1) - 1
            row, column = np.nonzero(mine)
            draws[row, column] = part._draws(most, rng)[row, position[row, column]]
        return draws

    def _region(self, row: int, confidence: float) -> Array:
        return self._panels.region(row, confidence)

    def _edges(self) -> Array:
        parts = []
        for part in self._components:
            edges = part._edges()
            near = (part._cdf(edges) > _NEGLIGIBLE) & (part._sf(edges) > _NEGLIGIBLE)
            # One edge more on either side; those beyond are moved there.
            first = np.maximum(near.argmax(axis=1) - 1, 0)
            last = edges.shape[1] - np.maximum(near[:, ::-1].argmax(axis=1), 1)
            row = np.arange(len(edges))
            ends = edges[row, first], edges[row, last]
            parts.append(np.clip(edges, ends[0][:, None], ends[1][:, None]))
        return merged_edges(parts)

    def _rows(self, index: Any, *, single: bool) -> Self:
        parts = [part._rows(index, single=single) for part in self._components]
        return type(self)(parts, self._weights)

    def _log_terms(self, Y: Array) -> Array:
        """Log w_c p_c, (k, n, q)."""
        log_weights = np.log(self._weights)
        return np.stack(
            [
                log_weight + part._log_pdf(Y)
                for log_weight, part in zip(log_weights, self._components, strict=True)
            ]
        )

    def _gather(self, name: str) -> Array:
        """A number of every component and row, (k, n)."""
        values = []
        for part in self._components:
            value = getattr(part, name)
            value = value() if callable(value) else value
            values.append(np.reshape(value, self._n))
        return np.array(values)

    @functools.cached_property
    def _means(self) -> Array:
        return self._gather("mean")

    @functools.cached_property
    def _panels(self) -> RowPanels:
        return evaluate_on_panels(
            lambda rows, y: self._rows(rows, single=False)._rough_pdf(y), self._edges()
        )


def _check(components: Sequence[OneColumnDensity], weights: Array) -> None:
    if not components or weights.shape != (len(components),):
        raise ValueError(
            f"weights must have one number per component, got shape {weights.shape} "
            f"for {len(components)} components."
        )
    right_sum = abs(weights.sum() - 1.0) <= _SUM_TOLERANCE
    if not (np.all(weights >= 0) and right_sum):
        raise ValueError(
            f"weights must not be negative and sum to one, got {weights.tolist()!r}."
        )
    kinds = {(part._n, part._single) for part in components}
    if len(kinds) > 1:
        raise ValueError(
            f"components must be densities at the same conditions, got "
            f"{', '.join(repr(part) for part in components)}."
        )
