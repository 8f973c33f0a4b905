"""Rows that come piece by piece: what `KCEF.partial_fit` keeps, adds and forgets.

As long as the rows are few they are kept, and the model is the one that `fit` makes of
all of them: what can be chosen is chosen from all that is known. From 20,000 on
the design is frozen, the rows are summed and given up, and new rows are only added to
the sums. Neither depends on how the rows were split, nor on their order.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kexpfam.blocks import BLOCK_ROWS, Block
from kexpfam.models.neighbourhood import Neighbourhood
from kexpfam.models.running import Running


class Stream(ABC):
    """What is known of all rows so far."""

    @property
    @abstractmethod
    def weight(self) -> float:
        """Sum of the weights of the rows, less what was forgotten."""

    @abstractmethod
    def plus(self, rows: Block) -> "Stream":
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
        """Refuse rows of another shape.

        Raises:
            ValueError: They have other columns than those before.
        """
        if (x, y) != self.columns:
            raise ValueError(
                f"X and y must have {self.columns[0]} and {self.columns[1]} column(s) "
                f"as before, got {x} and {y}."
            )


@dataclass(frozen=True, eq=False)
class Kept(Stream):
    """Rows that are still known one by one.

    Attributes:
        rows: All of them.
    """

    rows: Block

    @property
    def weight(self) -> float:
        return float(self.rows.weights.sum())

    @property
    def columns(self) -> tuple[int, int]:
        return self.rows.X.shape[1], self.rows.Y.shape[1]

    def plus(self, rows: Block) -> "Kept":
        mine = self.rows
        return Kept(
            Block(
                np.concatenate([mine.X, rows.X]),
                np.concatenate([mine.Y, rows.Y]),
                np.concatenate([mine.weights, rows.weights]),
            )
        )

    def forgetting(self, factor: float) -> "Kept":
        return Kept(replace(self.rows, weights=self.rows.weights * factor))

    def merged(self, other: Stream) -> Stream:
        if isinstance(other, Kept):
            return self.plus(other.rows)
        return other.plus(self.rows)

    def emptied(self) -> "Kept":
        rows = self.rows
        return Kept(Block(rows.X[:0], rows.Y[:0], rows.weights[:0]))


@dataclass(frozen=True, eq=False)
class Summed(Stream):
    """Sums, for a design that stays.

    Attributes:
        running: Design and sums.
        neighbourhood: Where the rows are that the design was chosen on.
    """

    running: Running
    neighbourhood: Neighbourhood

    @property
    def weight(self) -> float:
        return self.running.weight

    @property
    def columns(self) -> tuple[int, int]:
        return self.running.design.chart.p, self.running.design.chart.d

    def plus(self, rows: Block) -> "Summed":
        running = self.running
        for start in range(0, len(rows), BLOCK_ROWS):
            part = slice(start, start + BLOCK_ROWS)
            block = Block(rows.X[part], rows.Y[part], rows.weights[part])
            running = running.added(block)
        return replace(self, running=running)

    def forgetting(self, factor: float) -> "Summed":
        if factor == 1.0:
            return self
        return replace(self, running=self.running.forgetting(factor))

    def merged(self, other: Stream) -> "Summed":
        if isinstance(other, Kept):
            return self.plus(other.rows)
        assert isinstance(other, Summed)
        return replace(self, running=self.running.merged(other.running))

    def emptied(self) -> "Summed":
        return replace(self, running=self.running.emptied())


def check_forgetting(value: Any) -> float:
    """A factor above 0 and at most 1.

    Raises:
        ValueError: It is something else.
    """
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not number or not 0 < value <= 1:
        raise ValueError(
            f"forgetting must be a number above 0 and at most 1, got {value!r}; 0.99 "
            f"lets what was seen before count 0.99 times as much."
        )
    return float(value)
