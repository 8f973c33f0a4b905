"""Streams: rows that come piece by piece, are forgotten, and merged.

As long as the rows are few they are kept, and the model is the one that `fit` makes of
all of them: what can be chosen is chosen from all that is known. From 20,000 on
coordinates, kernel and centres are frozen, the rows become sufficient statistics and
are given up, and new rows are only added to these. Neither depends on how the rows were
split, nor on their order. Coefficients are solved for when they are asked for, with λ
and the number of centres chosen anew, so that λ falls as rows come in.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kexpfam._parallel import cached_property
from kexpfam.data import BLOCK_ROWS, Rows
from kexpfam.family import FoldStatistics
from kexpfam.family.neighbourhood import Neighbourhood


class Stream(ABC):
    """What is known of all rows so far."""

    @property
    @abstractmethod
    def weight(self) -> float:
        """Sum of the weights of the rows, less what was forgotten."""

    @abstractmethod
    def plus(self, rows: Rows) -> "Stream":
        """With more rows."""

    @abstractmethod
    def forgetting(self, factor: float) -> "Stream":
        """All rows so far count `factor` times as much."""

    @abstractmethod
    def merged(self, other: "Stream") -> "Stream":
        """With the rows of another stream."""

    @abstractmethod
    def emptied(self) -> "Stream":
        """Without its rows."""

    @property
    @abstractmethod
    def columns(self) -> tuple[int, int]:
        """Columns of x and of y."""

    def require_columns(self, x: int, y: int) -> None:
        """Refuse rows of another shape than those before."""
        if (x, y) != self.columns:
            raise ValueError(
                f"X and y must have {self.columns[0]} and {self.columns[1]} column(s) "
                f"as before, got {x} and {y}."
            )


@dataclass(frozen=True, eq=False)
class KeptRows(Stream):
    """Rows that are still known one by one."""

    rows: Rows

    @property
    def weight(self) -> float:
        return float(self.rows.weights.sum())

    @property
    def columns(self) -> tuple[int, int]:
        return self.rows.X.shape[1], self.rows.Y.shape[1]

    def plus(self, rows: Rows) -> "KeptRows":
        return KeptRows(Rows.concatenate([self.rows, rows]))

    def forgetting(self, factor: float) -> "KeptRows":
        return KeptRows(replace(self.rows, weights=self.rows.weights * factor))

    def merged(self, other: Stream) -> Stream:
        if isinstance(other, KeptRows):
            return self.plus(other.rows)
        return other.plus(self.rows)

    def emptied(self) -> "KeptRows":
        return KeptRows(self.rows[:0])


@dataclass(frozen=True, eq=False)
class SummedRows(Stream):
    """Sufficient statistics of rows, which were given up unless they are few."""

    # Of few rows they are made when more come, or when they are saved
    sums: FoldStatistics | Callable[[], FoldStatistics]
    neighbourhood: Neighbourhood  # Of the rows that their spec was chosen on

    @cached_property
    def statistics(self) -> FoldStatistics:
        """C and b of every fold."""
        return self.sums() if callable(self.sums) else self.sums

    @property
    def weight(self) -> float:
        return self.statistics.weight

    @property
    def columns(self) -> tuple[int, int]:
        return self.statistics.spec.coordinates.p, self.statistics.spec.coordinates.d

    def plus(self, rows: Rows) -> "SummedRows":
        statistics = self.statistics
        for start in range(0, len(rows), BLOCK_ROWS):
            statistics = statistics.added(rows[start : start + BLOCK_ROWS])
        return replace(self, sums=statistics)

    def forgetting(self, factor: float) -> "SummedRows":
        if factor == 1.0:
            return self
        return replace(self, sums=self.statistics.forgetting(factor))

    def merged(self, other: Stream) -> "SummedRows":
        if isinstance(other, KeptRows):
            return self.plus(other.rows)
        assert isinstance(other, SummedRows)
        return replace(self, sums=self.statistics.merged(other.statistics))

    def emptied(self) -> "SummedRows":
        return replace(self, sums=self.statistics.emptied())


def check_forgetting(value: Any) -> float:
    """A factor above 0 and at most 1."""
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not number or not 0 < value <= 1:
        raise ValueError(
            f"forgetting must be a number above 0 and at most 1, got {value!r}; 0.99 "
            f"lets what was seen before count 0.99 times as much."
        )
    return float(value)
