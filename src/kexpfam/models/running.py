"""A low-rank fit that goes on: rows can be added, forgotten, and merged.

It is a design and sums. The coefficients are solved for when they are asked for, with λ
and the number of centres judged anew, so that λ falls as rows come in.
"""

import functools
import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from kexpfam.blocks import Block
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

    def added(self, block: Block) -> "Running":
        """With more rows, of which none has helped to choose the design."""
        more = self.design.add_block(self.design.start(), block)
        judges = self.judges.plus(Judges.of_block(self.design, block))
        return replace(self.plus(more), judges=judges)

    def merged(self, other: "Running") -> "Running":
        """With the rows of another one.

        Raises:
            ValueError: The other has another design.
        """
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
        """The family, and how λ and the number of centres were chosen, if they were.

        Raises:
            DegenerateDataError: There are no rows.
        """
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
