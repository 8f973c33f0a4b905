"""Importance sampling where it works, tempered particles for the few rows where not."""

from dataclasses import dataclass

import numpy as np

from kexpfam._typing import Array, Indices, Mask
from kexpfam.partition.importance import ImportanceEstimate
from kexpfam.partition.tempered import TemperedEstimate


@dataclass(frozen=True, eq=False)
class MixedEstimate:
    """log Z of n rows, by one of two methods each.

    Attributes:
        importance: Estimates of all rows, not used where there is a better one.
        tempered: Estimates of some rows.
        place: Where a row is found in `tempered`, −1 where it is not, (n,).
    """

    importance: ImportanceEstimate
    tempered: TemperedEstimate
    place: Indices

    def rows(self, index: Indices) -> "MixedEstimate":
        """Only these rows."""
        place = self.place[index]
        return MixedEstimate(self.importance.rows(index), self.tempered, place)

    @property
    def is_tempered(self) -> Mask:
        """Which rows are from tempered particles, (n,) of bool."""
        return self.place >= 0

    @property
    def log_partition(self) -> Array:
        """Log Z, (n,)."""
        return self._mixed("log_partition")

    @property
    def error(self) -> Array:
        """Standard error of log Z, (n,)."""
        return self._mixed("error")

    @property
    def effective_draws(self) -> Array:
        """Effective number of draws behind log Z, (n,)."""
        return self._mixed("effective_draws")

    @property
    def tail_index(self) -> Array:
        """Pareto k̂ of importance weights, not a number where there are none, (n,)."""
        return self._mixed("tail_index")

    @property
    def log_mean(self) -> Array:
        """Mean of the log unnormalised density, (n,)."""
        return self._mixed("log_mean")

    @property
    def mean(self) -> Array:
        """(n, d)."""
        return self._mixed("mean")

    @property
    def covariance(self) -> Array:
        """(n, d, d)."""
        return self._mixed("covariance")

    def _mixed(self, name: str) -> Array:
        values = np.array(getattr(self.importance, name), dtype=float)
        chosen = self.is_tempered
        values[chosen] = getattr(self.tempered, name)[self.place[chosen]]
        return values
