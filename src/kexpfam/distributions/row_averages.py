"""Averages of densities of one variable over neighbouring rows.

p_a(y) = Σ_i w_i p_{am+i}(y): n densities out of nm, with the same m weights. A marginal
is such an average of conditional densities. Everything is computed for all nm rows at
once.
"""

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from scipy import special

from kexpfam._typing import Array, Indices
from kexpfam.distributions.one_column import OneColumnDensity, TabulatedDensity
from kexpfam.sampling import Run, Sampler


class RowAverageDensity(TabulatedDensity):
    """n densities of one variable, each the average of m out of nm.

    Args:
        parts: The nm densities; those of one average are neighbours.
        weights: Of those that are averaged, with sum one, (m,).
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
        self, parts: OneColumnDensity, weights: Array, *, single: bool = False
    ) -> None:
        self._parts = parts
        self._weights = weights
        self._single = single

    @property
    def log_partition(self) -> Array:
        """Zero: what is averaged is normalised."""
        return self._out(np.zeros(self._n))

    @property
    def log_partition_error(self) -> Array:
        """Error of the log of the total mass, from those of the parts."""
        errors = self._split(self._parts.log_partition_error)
        return self._out(special.logsumexp(errors, axis=1, b=self._weights))

    def mean(self) -> Array:
        return self._out(self._split(self._parts.mean()) @ self._weights)

    def std(self) -> Array:
        means, stds = self._split(self._parts.mean()), self._split(self._parts.std())
        offsets = means - (means @ self._weights)[:, None]
        return self._out(np.sqrt((stds**2 + offsets**2) @ self._weights))

    @property
    def _m(self) -> int:
        return len(self._weights)

    @property
    def _n(self) -> int:
        return self._parts._n // self._m

    @property
    def _ends(self) -> Array:
        ends = self._split(self._parts._ends)
        return np.stack([ends[..., 0].min(axis=1), ends[..., 1].max(axis=1)], axis=-1)

    def _log_pdf(self, Y: Array) -> Array:
        terms = self._split(self._parts._log_pdf(self._spread(Y)))
        return special.logsumexp(terms, axis=1, b=self._weights[:, None])

    def _gradient(self, Y: Array) -> Array:
        points = self._spread(Y)
        terms = self._split(self._parts._log_pdf(points))
        shares = special.softmax(terms + np.log(self._weights)[:, None], axis=1)
        slopes = self._split(self._parts._gradient(points))
        return np.sum(shares[..., None] * slopes, axis=1)

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
        low, high = self._parts._around(self._spread(levels), self._all(rows))
        return self._split(low).min(axis=1), self._split(high).max(axis=1)

    def _breaks(self) -> Array:
        return self._parts._breaks()

    def _draws(self, size: int, rng: np.random.Generator) -> Array:
        levels = rng.random((self._n, size))
        # The largest double below one is a level, zero is not.
        return self._ppf(np.maximum(levels, np.finfo(float).tiny))[..., None]

    def _run(self, sampler: Sampler, size: int, rng: np.random.Generator) -> Run:
        return Run(self._draws(size, rng))  # independent: no sampler does better

    def _rows(self, index: Any, *, single: bool) -> Self:
        index = np.arange(self._n)[index]
        parts = self._parts._rows(self._all(index), single=False)
        return type(self)(parts, self._weights, single=single)

    def _all(self, rows: Indices | None) -> Indices | None:
        """Rows of the parts that belong to some of the averages."""
        if rows is None:
            return None
        return (np.asarray(rows)[:, None] * self._m + np.arange(self._m)).ravel()

    def _spread(self, values: Array) -> Array:
        """The same points for every part of an average."""
        return np.repeat(values, self._m, axis=0)

    def _split(self, values: Array) -> Array:
        """One axis for the averages, one for their parts."""
        return np.reshape(values, (-1, self._m, *np.shape(values)[1:]))

    def _over(
        self, method: Callable[..., Array], y: Array, rows: Indices | None
    ) -> Array:
        """Averages of what a method says at points, (k, q) -> (k, q)."""
        values = self._split(method(self._spread(y), self._all(rows)))
        return np.einsum("m,kmq->kq", self._weights, values)
