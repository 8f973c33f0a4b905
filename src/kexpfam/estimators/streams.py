"""Fits that go on: rows can be added piece by piece, forgotten, and merged.

As long as the rows are few they are kept, and the model is the one that `fit` makes of
all of them: what can be chosen is chosen from all that is known. From 20,000 on the
design is frozen, the rows are summed and given up, and new rows are only added to the
sums. Neither depends on how the rows were split, nor on their order. Coefficients are
solved for when they are asked for, with λ and the number of centres judged anew, so
that λ falls as rows come in.
"""

import functools
import operator
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kexpfam.data import BLOCK_ROWS, Rows
from kexpfam.errors import DegenerateDataError
from kexpfam.kernels import JointKernel
from kexpfam.models.design import Design, FoldSums, Judges
from kexpfam.models.family import FittedFamily
from kexpfam.models.finishing import (
    LAM_FACTORS,
    Components,
    choose_components,
    leading_basis,
    leading_functions,
)
from kexpfam.models.neighbourhood import Neighbourhood
from kexpfam.models.solvers import untuned_lambda
from kexpfam.persistence import saved_fit
from kexpfam.score_matching import Summation


@saved_fit({"start": "positive"})
@dataclass(frozen=True)
class LambdaRule:
    """How λ is found.

    Attributes:
        objective: "likelihood" or "score", by which λ is judged; None if it is not.
        start: λ that was chosen with the design, or given by the user; None for the
            untuned rule, which knows the number of rows.
        given: Whether the user gave it, so that it stays.
    """

    objective: str | None
    start: float | None
    given: bool = False

    def check_saved(self) -> None:
        """Refuse other objectives."""
        if self.objective not in ("likelihood", "score", None):
            raise ValueError("λ is judged by something unknown")

    def first(self, kernel: JointKernel, weight: float) -> float:
        """λ for rows of this total weight, if it is not judged."""
        if self.start is not None:
            return self.start
        return untuned_lambda(kernel, np.array([weight]), "score")

    def lams(self, kernel: JointKernel, weight: float) -> list[float]:
        """What to try with rows of this total weight."""
        factors = (1.0,) if self.given else LAM_FACTORS
        return [self.first(kernel, weight) * factor for factor in factors]


@dataclass(frozen=True, eq=False)
class Running:
    """Sums over all rows so far.

    Attributes:
        design: What they are sums for.
        sums: Over the rows of each fold.
        judges: Rows that λ is judged on.
        rule: How λ is found.
        sizes: Numbers of centres that are judged, few first.
        free: Whether any of them may be taken, or only the last.
        settled: Whether λ and centres were judged together with the design, and no
            rows have come since.
    """

    design: Design
    sums: FoldSums
    judges: Judges
    rule: LambdaRule
    sizes: tuple[int, ...]
    free: bool = True
    settled: bool = False

    @property
    def weight(self) -> float:
        """Sum of the weights of all rows, as far as they are not forgotten."""
        return sum(own.weight for own in self.sums)

    def added(self, block: Rows) -> "Running":
        """With more rows, of which none has helped to choose the design."""
        more = self.design.add_block(self.design.start(), block)
        judges = self.judges.plus(Judges.of_block(self.design, block))
        return replace(self.plus(more), judges=judges)

    def merged(self, other: "Running") -> "Running":
        """With the rows of another one, of the same design."""
        if not self.design.agrees_with(other.design):
            raise ValueError(
                "The models do not share a design (chart, kernel and centres), so "
                "their sums cannot be added; make both with `emptied()` of one model."
            )
        judges = self.judges.plus(other.judges)
        return replace(self.plus(other.sums), judges=judges)

    def emptied(self) -> "Running":
        """The same design without rows."""
        sums, judges = self.design.start(), self.judges.emptied()
        return replace(self, sums=sums, judges=judges, settled=False)

    def forgetting(self, factor: float) -> "Running":
        """All rows so far count `factor` times as much."""
        sums = tuple(own * factor for own in self.sums)
        judges = self.judges.forgetting(factor)
        return replace(self, sums=sums, judges=judges, settled=False)

    def solved(
        self, n_jobs: int | None = None
    ) -> tuple[FittedFamily, Components | None]:
        """The family, and how λ and the number of centres were chosen, if they were."""
        if self.weight <= 0:
            raise DegenerateDataError(
                "The model has seen no rows yet; add some with partial_fit."
            )
        components = self.components()
        lam, size = (
            self.rule.first(self.design.basis.kernel, self.weight),
            self.sizes[-1],
        )
        if components is not None:
            lam = components.chosen.regularization
            size = components.chosen.n_components
        basis = leading_basis(self.design.basis, size)
        index = leading_functions(self.design.basis, size)
        total = Summation.finished(functools.reduce(operator.add, self.sums))
        alpha = total.of_functions(index).solve(basis.gram(), lam)
        family = FittedFamily(
            self.design.chart,
            self.design.base,
            basis.expansion(alpha, n_jobs),
            lam,
            float("nan"),
            self.design.seed,
        )
        return family, components

    def components(self) -> Components | None:
        """How λ and the number of centres are chosen; None if they are not."""
        if self.rule.objective is None or self.settled:
            return None
        return choose_components(
            self.design,
            self.sums,
            self.judges,
            objective=self.rule.objective,
            lams=self.rule.lams(self.design.basis.kernel, self.weight),
            sizes=self.sizes,
            free=self.free,
        )

    def narrowed(self) -> "Running":
        """Only as many centres as pay, and twice as many for the rows to come."""
        found = self.components() if self.free and len(self.sizes) > 1 else None
        if found is None:
            return self
        best = found.chosen.n_components
        return self.limited([s for s in self.sizes if best <= s <= 2 * best])

    def limited(self, sizes: Sequence[int]) -> "Running":
        """Only some numbers of centres, and no more centres than the last."""
        index = leading_functions(self.design.basis, sizes[-1])
        basis = leading_basis(self.design.basis, sizes[-1])
        return replace(
            self,
            design=replace(self.design, basis=basis),
            sums=tuple(own.of_functions(index) for own in self.sums),
            sizes=tuple(sizes),
        )

    def plus(self, more: FoldSums) -> "Running":
        """With sums over other rows."""
        sums = tuple(map(operator.add, self.sums, more))
        return replace(self, sums=sums, settled=False)


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
class Kept(Stream):
    """Rows that are still known one by one.

    Attributes:
        rows: All of them.
    """

    rows: Rows

    @property
    def weight(self) -> float:
        return float(self.rows.weights.sum())

    @property
    def columns(self) -> tuple[int, int]:
        return self.rows.X.shape[1], self.rows.Y.shape[1]

    def plus(self, rows: Rows) -> "Kept":
        mine = self.rows
        return Kept(
            Rows(
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
        return Kept(Rows(rows.X[:0], rows.Y[:0], rows.weights[:0]))


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

    def plus(self, rows: Rows) -> "Summed":
        running = self.running
        for start in range(0, len(rows), BLOCK_ROWS):
            part = slice(start, start + BLOCK_ROWS)
            block = Rows(rows.X[part], rows.Y[part], rows.weights[part])
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
    """A factor above 0 and at most 1."""
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not number or not 0 < value <= 1:
        raise ValueError(
            f"forgetting must be a number above 0 and at most 1, got {value!r}; 0.99 "
            f"lets what was seen before count 0.99 times as much."
        )
    return float(value)
