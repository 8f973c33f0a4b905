"""Averages of densities over neighbouring rows.

p_a(y) = Σ_i w_i p_i(y) over the parts i of an average, which follow each other. A
marginal is such an average of conditional densities, and so is a density where a column
of x is not known: of the densities at values that the column may have. Everything is
computed for the parts of all averages at once.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from kexpfam._parallel import cached_property
from kexpfam._typing import Array, Indices
from kexpfam.distributions.interface import Density
from kexpfam.distributions.one_column import OneColumnDensity, TabulatedDensity
from kexpfam.sampling import Run, Sampler


@dataclass(frozen=True, eq=False)
class Parts:
    """Which of N neighbours are averaged, and with what weights.

    Attributes:
        weights: Of all parts, with sum one in each average, (N,).
        sizes: How many parts each average has, one at least, (n,).
    """

    weights: Array
    sizes: Indices

    @cached_property
    def starts(self) -> Indices:
        """The first part of each average, (n,)."""
        return np.cumsum(self.sizes) - self.sizes

    def spread(self, values: Array) -> Array:
        """What belongs to averages, for every part of them."""
        return np.repeat(values, self.sizes, axis=0)

    def mean(self, values: Array) -> Array:
        """Weighted means of what belongs to parts, (N, ...) -> (n, ...)."""
        weights = self.weights.reshape(-1, *[1] * (values.ndim - 1))
        return np.add.reduceat(weights * values, self.starts, axis=0)

    def least(self, values: Array) -> Array:
        """The smallest over the parts of each average."""
        return np.minimum.reduceat(values, self.starts, axis=0)

    def greatest(self, values: Array) -> Array:
        """The largest."""
        return np.maximum.reduceat(values, self.starts, axis=0)

    def log_mean(self, terms: Array) -> Array:
        """Logs of weighted means of exp(terms), without overflow."""
        top = self.greatest(terms)
        top = np.where(np.isfinite(top), top, 0.0)
        with np.errstate(divide="ignore"):
            return top + np.log(self.mean(np.exp(terms - self.spread(top))))

    def variance(self, means: Array, variances: Array) -> Array:
        """Those of the averages, by the law of total variance."""
        offsets = means - self.spread(self.mean(means))
        return self.mean(variances + offsets**2)

    def indices(self, averages: Indices) -> Indices:
        """The parts of some averages, one after the other."""
        sizes = self.sizes[averages]
        inside = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        return np.repeat(self.starts[averages], sizes) + inside

    def __getitem__(self, averages: Indices) -> "Parts":
        return Parts(self.weights[self.indices(averages)], self.sizes[averages])


class RowAverageDensity(TabulatedDensity):
    """n densities of one variable, each the average of neighbours among N.

    Args:
        parts: The N densities; those of one average are neighbours.
        weights: Of those that are averaged, with sum one: the same of each average,
            (m,), or of all parts, (N,), if sizes are given.
        sizes: How many parts each average has, (n,); None for m.
        single: Whether the leading axis is dropped.

    Example:
        >>> import numpy as np
        >>> from kexpfam.base_densities import GaussianBase
        >>> from kexpfam.distributions import ClosedFormDensity
        >>> centers = np.array([-3.0, 3.0, 0.0, 1.0])
        >>> parts = ClosedFormDensity(GaussianBase(1.0), centers, np.ones(4))
        >>> RowAverageDensity(parts, np.array([0.5, 0.5])).std().round(4)
        array([3.1623, 1.118 ])
    """

    def __init__(
        self,
        parts: OneColumnDensity,
        weights: Array,
        sizes: Indices | None = None,
        *,
        single: bool = False,
    ) -> None:
        if sizes is None:
            sizes = np.full(parts._n // len(weights), len(weights))
            weights = np.tile(weights, len(sizes))
        self._parts = parts
        self._groups = Parts(weights, sizes)
        self._single = single

    @property
    def log_partition(self) -> Array:
        """Zero: what is averaged is normalised."""
        return self._out(np.zeros(self._n))

    @property
    def log_partition_error(self) -> Array:
        """Error of the log of the total mass, from those of the parts."""
        return self._out(self._groups.log_mean(self._parts.log_partition_error))

    def mean(self) -> Array:
        return self._out(self._groups.mean(self._parts.mean()))

    def std(self) -> Array:
        means, stds = self._parts.mean(), self._parts.std()
        return self._out(np.sqrt(self._groups.variance(means, stds**2)))

    @property
    def _n(self) -> int:
        return len(self._groups.sizes)

    @property
    def _ends(self) -> Array:
        ends, groups = self._parts._ends, self._groups
        both = groups.least(ends[..., 0]), groups.greatest(ends[..., 1])
        return np.stack(both, axis=-1)

    def _log_pdf(self, Y: Array) -> Array:
        return self._groups.log_mean(self._parts._log_pdf(self._groups.spread(Y)))

    def _gradient(self, Y: Array) -> Array:
        return gradient_of_average(self._parts, self._groups, Y)

    def _cdf(self, y: Array, rows: Indices | None = None) -> Array:
        return self._over(self._parts._cdf, y, rows)

    def _sf(self, y: Array, rows: Indices | None = None) -> Array:
        return self._over(self._parts._sf, y, rows)

    def _rough_pdf(self, y: Array, rows: Indices | None = None) -> Array:
        return self._over(self._parts._rough_pdf, y, rows)

    def _around(
        self, levels: Array, rows: Indices | None = None
    ) -> tuple[Array, Array]:
        # Some part has less than the level below the quantile, and some has more.
        groups, own = self._of(rows)
        low, high = self._parts._around(groups.spread(levels), own)
        return groups.least(low), groups.greatest(high)

    def _breaks(self) -> Array:
        return self._parts._breaks()

    def _bounds(self) -> Array:
        return self._parts._bounds()

    def _draws(self, size: int, rng: np.random.Generator) -> Array:
        levels = rng.random((self._n, size))
        # The largest double below one is a level, zero is not.
        return self._ppf(np.maximum(levels, np.finfo(float).tiny))[..., None]

    def _run(self, sampler: Sampler, size: int, rng: np.random.Generator) -> Run:
        return Run(self._draws(size, rng))  # independent: no sampler does better

    def _rows(self, index: Any, *, single: bool) -> Self:
        groups, own = self._of(np.arange(self._n)[index])
        parts = self._parts._rows(own, single=False)
        return type(self)(parts, groups.weights, groups.sizes, single=single)

    def _of(self, rows: Indices | None) -> tuple[Parts, Indices | None]:
        """Some of the averages, and which parts are theirs."""
        if rows is None:
            return self._groups, None
        index = np.asarray(rows)
        return self._groups[index], self._groups.indices(index)

    def _over(
        self, method: Callable[..., Array], y: Array, rows: Indices | None
    ) -> Array:
        """Averages of what a method says at points, (k, q) -> (k, q)."""
        groups, own = self._of(rows)
        return groups.mean(method(groups.spread(y), own))


def gradient_of_average(parts: Density, groups: Parts, Y: Array) -> Array:
    """Σ_i w_i p_i ∇log p_i / Σ_i w_i p_i, (n, q, d)."""
    points = groups.spread(Y)
    terms = parts._log_pdf(points)
    shares = np.exp(terms - groups.spread(groups.log_mean(terms)))
    return groups.mean(shares[..., None] * parts._gradient(points))
