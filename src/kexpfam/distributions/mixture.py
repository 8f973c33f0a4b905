"""Weighted averages of densities of one variable.

p(y) = Σ_c w_c p_c(y) with the same weights at every condition. Density, distribution
function and moments are sums over the components. Quantiles are roots between the
quantiles of the components. Mode, highest-density region and entropy come from cells
in y that are cut wherever a component's cells are, so that they resolve the sum.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
from scipy import special

from kexpfam._parallel import cached_property
from kexpfam._typing import Array, ArrayLike, Indices, Mask
from kexpfam._validation import as_numbers
from kexpfam.distributions.one_column import (
    OneColumnDensity,
    TabulatedDensity,
    outline_levels,
)
from kexpfam.distributions.tabulation import merged_edges
from kexpfam.partition import CellDensity, cells_holding
from kexpfam.sampling import Run, Sampler, SamplingReport


class MixtureDensity(TabulatedDensity):
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
        stds = self._gather("std")
        offsets = np.abs(self._means - self._weights @ self._means)
        largest = np.maximum(stds, offsets).max(axis=0)
        finite = np.isfinite(largest)
        unit = np.where(finite & (largest > 0), largest, 1.0)
        squares = (stds / unit) ** 2 + (offsets / unit) ** 2
        std = unit * np.sqrt(self._weights @ squares)
        return self._out(np.where(np.isinf(stds).any(axis=0), np.inf, std))

    def tabulated(self) -> CellDensity:
        """The same densities on cells, whose values cost little at many points.

        Its `pdf`, `logpdf` and `cdf` take (n, q) points, and are right to about 1e-10
        of the mass of a cell; those of the mixture itself are exact.
        """
        return self._cells

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

    def _cdf(self, y: Array, rows: Indices | None = None) -> Array:
        return self._average(lambda part: part._cdf(y, rows))

    def _sf(self, y: Array, rows: Indices | None = None) -> Array:
        return self._average(lambda part: part._sf(y, rows))

    def _rough_pdf(self, y: Array, rows: Indices | None = None) -> Array:
        return self._average(lambda part: part._rough_pdf(y, rows))

    def _tail_and_pdf(
        self, y: Array, rows: Indices, upper: Mask
    ) -> tuple[Array, Array]:
        both = self._average(lambda part: np.stack(part._tail_and_pdf(y, rows, upper)))
        return both[0], both[1]

    def _average(self, values: Callable[[OneColumnDensity], Array]) -> Array:
        """Σ w_c of something of each component."""
        total = self._weights[0] * values(self._components[0])
        for weight, part in zip(self._weights[1:], self._components[1:], strict=True):
            total += weight * values(part)
        return total

    def _ppf(self, levels: Array) -> Array:
        q = levels.shape[1]
        row = np.repeat(np.arange(self._n), q)
        level, y = levels.ravel(), np.full(levels.size, np.nan)
        # Up to so many levels, cells of the components are the cheaper brackets.
        if q > 8 or "_cells" in self.__dict__:
            y = self._corrected(levels)
        rest = np.flatnonzero(np.isnan(y))
        guess = self._about(level[rest, None], row[rest])[:, 0]
        y[rest] = self._solved(level[rest], row[rest], guess)
        return y.reshape(levels.shape)

    def _corrected(self, levels: Array) -> Array:
        """Quantiles from cells, after one step of Newton's method, (n q,).

        NaN where they were so far away that one step is not enough.
        """
        row, level = np.repeat(np.arange(self._n), levels.shape[1]), levels.ravel()
        y, left, right = (part.ravel() for part in self._cells.quantiles(levels))
        gap, slope = self._excess_and_slope(y, level, row)
        # If the mass beyond a point is right up to this share, and the next step is so
        # small a share of the cell, one step makes it right up to rounding.
        small = 1e-6
        near = np.abs(gap) <= small * np.minimum(level, 1.0 - level)
        # In a gap between components the slope is small, and is another nearby.
        near &= np.abs(gap) <= small * (right - left) * slope
        near &= slope > 0
        return np.where(near, y - gap / np.where(near, slope, 1.0), np.nan)

    def _draws(self, size: int, rng: np.random.Generator) -> Array:
        return self._dealt(size, rng, lambda part, most: part._draws(most, rng))

    def _run(self, sampler: Sampler, size: int, rng: np.random.Generator) -> Run:
        reports: list[SamplingReport] = []

        def draw(part: OneColumnDensity, most: int) -> Array:
            run = part._run(sampler, most, rng)
            # log Z of components in coordinates of their own cannot be put together.
            if isinstance(run.report, SamplingReport):
                reports.append(run.report)
            return run.draws

        draws = self._dealt(size, rng, draw)
        return Run(draws, SamplingReport.worst_of(reports) if reports else None)

    def _dealt(
        self,
        size: int,
        rng: np.random.Generator,
        draw: Callable[[OneColumnDensity, int], Array],
    ) -> Array:
        """Draws (n, size, 1), each from a component chosen by weight."""
        shape = (self._n, size)
        chosen = rng.choice(len(self._components), size=shape, p=self._weights)
        draws = np.empty((*shape, 1))
        for c, part in enumerate(self._components):
            mine = chosen == c
            # Each row takes as many as it needs of the most that any row needs.
            most = int(mine.sum(axis=1).max(initial=0))
            position = np.cumsum(mine, axis=1) - 1
            row, column = np.nonzero(mine)
            if most:
                draws[row, column] = draw(part, most)[row, position[row, column]]
        return draws

    def _around(
        self, levels: Array, rows: Indices | None = None
    ) -> tuple[Array, Array]:
        # Some component has less than the level below the quantile, and some has more.
        ends = [part._around(levels, rows) for part in self._components]
        lows, highs = zip(*ends, strict=True)
        return functools.reduce(np.minimum, lows), functools.reduce(np.maximum, highs)

    def _about(self, levels: Array, rows: Indices | None = None) -> Array:
        return self._average(lambda part: part._about(levels, rows))

    def _breaks(self) -> Array:
        return np.unique(np.concatenate([p._breaks() for p in self._components]))

    def _bounds(self) -> Array:
        return np.concatenate([part._bounds() for part in self._components])

    def _outline(self) -> Array:
        """Points of the outlines of the components, thinned by their mass.

        The narrowest component keeps more, since the mode may be its own.
        """
        parts = [part._outline() for part in self._components]
        weights = [
            np.full(part.shape[1], weight / part.shape[1])
            for weight, part in zip(self._weights, parts, strict=True)
        ]
        points = np.concatenate(parts, axis=1)
        order = np.argsort(points, axis=1)
        points = np.take_along_axis(points, order, axis=1)
        below = np.cumsum(np.concatenate(weights)[order], axis=1)
        count = len(outline_levels())
        shares = np.tile(np.linspace(0.0, 1.0, count), (self._n, 1))
        place = cells_holding(below, shares) + 1
        place[:, 0] = 0
        place = np.minimum(place, points.shape[1] - 1)
        return merged_edges(
            [np.take_along_axis(points, place, axis=1), self._narrowest(parts)]
        )

    def _narrowest(self, outlines: list[Array]) -> Array:
        """The middle of the outline of the component that is likely highest, (n, k)."""
        heights, middles = [], []
        for weight, outline in zip(self._weights, outlines, strict=True):
            size = outline.shape[1]
            middle = outline[:, size // 3 : size - size // 3]
            width = np.maximum(np.ptp(middle, axis=1), np.finfo(float).tiny)
            heights.append(weight / width)
            middles.append(
                middle[:, np.linspace(0, middle.shape[1] - 1, 5).astype(int)]
            )
        highest = np.argmax(heights, axis=0)
        return np.stack(middles, axis=1)[np.arange(self._n), highest]

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

    @cached_property
    def _means(self) -> Array:
        return self._gather("mean")


def _check(components: Sequence[OneColumnDensity], weights: Array) -> None:
    if not components or weights.shape != (len(components),):
        raise ValueError(
            f"weights must have one number per component, got shape {weights.shape} "
            f"for {len(components)} components."
        )
    for part in components:
        if not isinstance(part, OneColumnDensity):
            raise TypeError(
                f"components must be densities of one variable, as given(X) returns "
                f"them for one column of y; got {type(part).__name__}."
            )
        if part.measure != "lebesgue":
            raise TypeError(
                f"components must be densities without atoms, got "
                f"{type(part).__name__}; average "
                f"the probabilities of atoms, and the densities beside them."
            )
    # They may miss it by rounding, and are then divided by their sum.
    right_sum = abs(weights.sum() - 1.0) <= 1e-6
    if not (np.all(weights >= 0) and right_sum):
        raise ValueError(
            f"weights must not be negative and sum to one, got {weights.tolist()!r}."
        )
    kinds = {(part._n, part._single) for part in components}
    if len(kinds) > 1:
        raise ValueError(
            f"components must be densities at the same conditions, got "
            f"{', '.join(f'{part._n} densities' for part in components)}."
        )
