"""Averages of neighbouring densities of any kind: of several columns, or with atoms.

Those of one column without atoms are in `row_averages`.
"""

from collections.abc import Hashable
from typing import Any, NoReturn, Self

import numpy as np

from kexpfam._typing import Array
from kexpfam.distributions.interface import Density, SeveralColumns
from kexpfam.distributions.mixed import MixedDensity
from kexpfam.distributions.one_column import OneColumnDensity
from kexpfam.distributions.row_averages import (
    Parts,
    RowAverageDensity,
    gradient_of_average,
)
from kexpfam.sampling import Run, Sampler


class RowAverageColumns(SeveralColumns):
    """n densities of d ≥ 2 variables, each the average of neighbours among N.

    Args:
        parts: The N densities; those of one average are neighbours.
        groups: Which are averaged.
        single: Whether the leading axis is dropped.
    """

    def __init__(self, parts: Any, groups: Parts, *, single: bool = False) -> None:
        self._parts = parts
        self._groups = groups
        self._single = single
        self.measure = parts.measure

    @property
    def names(self) -> tuple[Hashable, ...]:
        """Names of the columns, as `marginal` takes them."""
        found: tuple[Hashable, ...] = self._parts.names
        return found

    @property
    def _column_names(self) -> list[str]:
        found: list[str] = self._parts._column_names
        return found

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

    def cov(self) -> Array:
        """Covariance matrix, (n, d, d), by the law of total covariance."""
        means = self._parts.mean()
        offsets = means - self._groups.spread(self._groups.mean(means))
        between = offsets[:, :, None] * offsets[:, None, :]
        return self._out(self._groups.mean(self._parts.cov() + between))

    def entropy(self) -> Array:
        """Differential entropy in nats, from 1000 draws."""
        draws = self._draws(1000, np.random.default_rng(0))
        return self._out(-self._log_pdf(draws).mean(axis=1))

    def mode(self) -> NoReturn:
        """Not available for averages of several columns."""
        raise NotImplementedError(
            f"mode is not available for {self._d} columns where values of X are not "
            f"known; draw with rvs() and take the draw with the largest logpdf."
        )

    def marginal(self, column: Hashable) -> OneColumnDensity:
        """The densities of one column, averages of those of the parts."""
        found = averaged(self._parts.marginal(column), self._groups)
        assert isinstance(found, OneColumnDensity)
        return found._rows(np.arange(self._n), single=self._single)

    @property
    def _n(self) -> int:
        return len(self._groups.sizes)

    @property
    def _d(self) -> int:
        d: int = self._parts._d
        return d

    @property
    def _ends(self) -> Array:
        ends, groups = self._parts._ends, self._groups
        both = groups.least(ends[..., 0]), groups.greatest(ends[..., 1])
        return np.stack(both, axis=-1)

    def _log_pdf(self, Y: Array) -> Array:
        return self._groups.log_mean(self._parts._log_pdf(self._groups.spread(Y)))

    def _gradient(self, Y: Array) -> Array:
        return gradient_of_average(self._parts, self._groups, Y)

    def _draws(self, size: int, rng: np.random.Generator) -> Array:
        # Each part draws as many as any; each draw of an average is of one of its own.
        drawn = self._parts._draws(size, rng)
        ends = np.cumsum(self._groups.weights)
        before = ends[self._groups.starts] - self._groups.weights[self._groups.starts]
        levels = before[:, None] + rng.random((self._n, size))
        chosen = np.searchsorted(ends, levels, side="right")
        last = self._groups.starts + self._groups.sizes - 1
        chosen = np.clip(chosen, self._groups.starts[:, None], last[:, None])
        found: Array = drawn[chosen, np.arange(size)]
        return found

    def _run(self, sampler: Sampler, size: int, rng: np.random.Generator) -> Run:
        return Run(self._draws(size, rng))

    def _rows(self, index: Any, *, single: bool) -> Self:
        some = np.arange(self._n)[index]
        parts = self._parts._rows(self._groups.indices(some), single=False)
        return type(self)(parts, self._groups[some], single=single)


def averaged(parts: Any, groups: Parts) -> Density:
    """Averages of neighbours, of whatever kind of density they are.

    Of laws with atoms probabilities are averaged, and densities beside them with the
    shares that they have.
    """
    if isinstance(parts, SeveralColumns):
        return RowAverageColumns(parts, groups)
    if not isinstance(parts, MixedDensity):
        return RowAverageDensity(parts, groups.weights, groups.sizes)
    pi, rest = groups.mean(parts.atoms.probabilities), parts.density
    if rest is not None:
        shares = groups.weights * parts.continuous_share
        total = np.add.reduceat(shares, groups.starts)
        # Where nothing is beside the atoms, what is there does not count.
        some = groups.spread(total) > 0
        shares = np.where(some, shares, groups.weights)
        shares /= groups.spread(np.add.reduceat(shares, groups.starts))
        rest = RowAverageDensity(rest, shares, groups.sizes)
    else:
        pi = pi / pi.sum(axis=1, keepdims=True)
    return MixedDensity(parts.atoms.values, pi, rest)
