"""Densities of one variable: everything from one quadrature."""

import functools
import warnings
from typing import Any, Self

import numpy as np

from kexpfam._typing import Array, ArrayLike, RandomState
from kexpfam._validation import (
    as_generator,
    check_confidence,
    check_count,
    check_probability,
)
from kexpfam.distributions.interface import Coordinates, Density, UnnormalizedDensity
from kexpfam.distributions.regions import highest_density_region
from kexpfam.errors import NormalizationWarning
from kexpfam.partition import PanelDensity, integrate_panels, starting_edges
from kexpfam.roots import bracketed_roots

# An error of log Z above this is worth a warning: it would show in a printed figure.
_WORST_ERROR = 1e-6

# Rows that are normalised together; their panels are shared with all others.
BLOCK_ROWS = 1024


class UnivariateDensity(Density):
    """n densities of one variable, normalised by adaptive quadrature."""

    def __init__(
        self,
        tilted: UnnormalizedDensity,
        coordinates: Coordinates,
        panels: PanelDensity,
        *,
        single: bool = False,
    ) -> None:
        """Use `normalize` to build one from unnormalised densities."""
        self._tilted = tilted
        self._coordinates = coordinates
        self._panels = panels
        self._single = single

    @classmethod
    def normalize(
        cls,
        tilted: UnnormalizedDensity,
        coordinates: Coordinates,
        resolution: float,
        *,
        single: bool = False,
    ) -> Self:
        """Normalise densities; `resolution` is the smallest feature of log p."""
        panels = _integrate(tilted, resolution)
        worst = float(np.max(panels.error, initial=0.0))
        if worst > _WORST_ERROR:
            known = f"to {worst:.1e} only" if np.isfinite(worst) else "hardly at all"
            warnings.warn(
                f"log Z(x) is known {known} for "
                f"{int(np.sum(panels.error > _WORST_ERROR))} of {len(panels.error)} "
                f"densities: they have spikes too narrow to resolve. Raise "
                f"regularization or the lengthscale of y.",
                NormalizationWarning,
                stacklevel=3,
            )
        return cls(tilted, coordinates, panels, single=single)

    @property
    def log_partition(self) -> Array:
        return self._out(self._panels.log_partition)

    @property
    def log_partition_error(self) -> Array:
        return self._out(self._panels.error)

    def cdf(self, y: ArrayLike) -> Array:
        """Probability of a value up to y; the same shapes as `logpdf`.

        Example:
            >>> import numpy as np
            >>> from kexpfam import KEF
            >>> data = np.random.default_rng(0).normal(size=(200, 1))
            >>> p = KEF().fit(data).distribution()
            >>> bool(abs(p.cdf(p.ppf(0.3)) - 0.3) < 1e-10)
            True
        """
        Y, shape = self._points(y)
        return self._panels.cdf(self._to_kernel(Y)).reshape(shape)[()]

    def sf(self, y: ArrayLike) -> Array:
        """Probability of a value above y."""
        Y, shape = self._points(y)
        return self._panels.sf(self._to_kernel(Y)).reshape(shape)[()]

    def ppf(self, q: ArrayLike) -> Array:
        """Quantiles: the value with probability q below it; shapes as in `logpdf`."""
        levels, shape = self._points(q)
        levels = levels[:, :, 0]
        check_probability("q", levels)
        low, high = self._coordinates.support[0]
        y = self._to_user(self._panels.ppf(levels))
        y = np.where(levels == 0, low, np.where(levels == 1, high, y))
        return y.reshape(shape)[()]

    def mean(self) -> Array:
        if self._tilted.base.tail_index <= 1:
            return self._out(np.full(len(self._tilted), np.nan))
        return self._out(self._to_user(self._u_mean[:, None])[:, 0])

    def std(self) -> Array:
        if self._tilted.base.tail_index <= 2:
            return self._out(np.full(len(self._tilted), np.inf))
        centered = self._panels.nodes - self._u_mean[:, None, None]
        return self._out(np.sqrt(self._panels.integral(centered**2)) * self._scale)

    def median(self) -> Array:
        """The value with probability one half below it."""
        return self.ppf(0.5)

    def mode(self) -> Array:
        """Where the density is largest; the leftmost if there are several."""
        if not len(self._tilted):
            return np.empty(0)
        peak = self._panels.log_density.reshape(len(self._tilted), -1).argmax(axis=1)
        nodes = np.concatenate(
            [
                self._panels.edges[:1],
                self._panels.nodes.ravel(),
                self._panels.edges[-1:],
            ]
        )
        u = _stationary_point(self._tilted, nodes[peak], nodes[peak + 2])
        return self._out(self._to_user(u[:, None])[:, 0])

    def interval(self, confidence: float = 0.9) -> Array:
        """Central interval: equal probability outside on either side, (n, 2)."""
        confidence = check_confidence(confidence)
        tails = np.array([0.5 * (1.0 - confidence), 0.5 * (1.0 + confidence)])
        return self.ppf(tails if self._single else tails[None])

    def hpd(self, confidence: float = 0.9) -> list[Array] | Array:
        """Highest-density region: the smallest set with this probability.

        Returns:
            For each density an array (k, 2) of intervals, more than one if it is
            multimodal; the array itself for a single density.
        """
        confidence = check_confidence(confidence)
        if confidence == 1.0:
            whole = self.support.reshape(-1, 1, 2)
            return whole[0] if self._single else list(whole)
        regions = [
            self._coordinates.rows([r]).to_user(
                highest_density_region(self._panels.rows(np.array([r])), confidence)[
                    ..., None
                ]
            )
            for r in range(len(self._tilted))
        ]
        flat = [region[..., 0] for region in regions]
        return flat[0] if self._single else flat

    def entropy(self) -> Array:
        # A log density of −inf has density zero, and 0 log 0 = 0.
        log_p = np.maximum(self._panels.log_density, -1e300)
        return self._out(-self._panels.integral(log_p) + self._coordinates.log_volume)

    def rvs(self, size: int = 1, random_state: RandomState = None) -> Array:
        """Independent draws by inverting the distribution function, (n, size)."""
        check_count("size", size)
        levels = as_generator(random_state).random((len(self._tilted), size))
        return self._out(self._to_user(self._panels.ppf(levels)))

    def plot(self, ax: Any = None, **line: Any) -> Any:
        """Draw the densities; returns the matplotlib Axes."""
        from kexpfam.display import plot_densities

        return plot_densities(self, ax=ax, **line)

    def _rows(self, index: Any, *, single: bool) -> Self:
        return type(self)(
            self._tilted.rows(index),
            self._coordinates.rows(index),
            self._panels.rows(index),
            single=single,
        )

    def _log_density(self, U: Array) -> Array:
        log_p, accurate = self._panels.logpdf(U[..., 0])
        row, column = np.nonzero(~accurate)
        if len(row):
            rest = self._tilted.rows(row).log_unnormalized(U[row, column, None])
            log_p[row, column] = rest[:, 0] - self._panels.log_partition[row]
        return log_p

    @property
    def _scale(self) -> Array:
        return self._coordinates.scale[:, 0]

    @functools.cached_property
    def _u_mean(self) -> Array:
        return self._panels.integral(self._panels.nodes)

    def _to_user(self, u: Array) -> Array:
        return self._coordinates.to_user(u[..., None])[..., 0]

    def _to_kernel(self, Y: Array) -> Array:
        return self._coordinates.to_kernel(Y)[..., 0]


def _integrate(tilted: UnnormalizedDensity, resolution: float) -> PanelDensity:
    """Panels good for all rows, found block by block."""
    low, high = tilted.base.column_support(0)
    extend = (not np.isfinite(low), not np.isfinite(high))
    data = tilted.responses[:, 0]
    base_low, base_high = tilted.base.column_range(0)
    # Nothing is added beyond a finite end, so the panels have to reach it.
    edges = starting_edges(
        min(base_low, float(data.min())) if extend[0] else low,
        max(base_high, float(data.max())) if extend[1] else high,
        data,
        resolution,
    )
    if len(tilted) <= BLOCK_ROWS:
        return _integrate_block(tilted, edges, extend)
    # A block is dropped when it is done, with the kernel matrix that it holds.
    starts = range(0, len(tilted), BLOCK_ROWS)
    blocks = [slice(start, start + BLOCK_ROWS) for start in starts]
    done = []
    for block in blocks:
        done.append(_integrate_block(tilted.rows(block), edges, extend))
        edges = done[-1].edges
    # Earlier blocks have coarser panels; the last ones suit all.
    for k, block in enumerate(blocks):
        if len(done[k].edges) != len(edges):
            done[k] = _integrate_block(tilted.rows(block), edges, extend)
    return PanelDensity(
        edges,
        np.concatenate([part.log_density for part in done]),
        np.concatenate([part.log_partition for part in done]),
        np.concatenate([part.error for part in done]),
    )


def _integrate_block(
    tilted: UnnormalizedDensity, edges: Array, extend: tuple[bool, bool]
) -> PanelDensity:
    return integrate_panels(
        lambda u: tilted.on_grid(u[:, None]),
        edges,
        extend=extend,
        tail_index=tilted.base.tail_index,
        rounding=tilted.rounding,
    )


def _stationary_point(tilted: UnnormalizedDensity, low: Array, high: Array) -> Array:
    """The zero of d log p/du between two points around a peak, one per row.

    If the slope does not change sign the peak is at an end, which happens at the edge
    of a bounded support.
    """

    def slope(u: Array) -> Array:
        return tilted.gradient(u[:, None, None])[:, 0, 0]

    f_low, f_high = slope(low), slope(high)
    u = np.where(f_low <= 0, low, high)
    bracketed = np.flatnonzero((f_low > 0) & (f_high < 0))
    rows = tilted.rows(bracketed)
    u[bracketed] = bracketed_roots(
        lambda v: rows.gradient(v[:, None, None])[:, 0, 0],
        low[bracketed],
        high[bracketed],
    )
    return u
