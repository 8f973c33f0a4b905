"""What a `KCEF` chose, among what, and why; and what the final fit needs of it."""

from dataclasses import dataclass

import numpy as np

from kexpfam._typing import Array, Indices
from kexpfam.kernels import JointKernel
from kexpfam.models.chart import Charted
from kexpfam.models.family import TrainingRows
from kexpfam.models.wording import kernel_in_words, short
from kexpfam.selection import Candidate, SearchResult

# A candidate is worth its mean held-out log density minus so many standard errors:
# with few rows the best mean is often a lucky one.
CAUTION = 0.5


@dataclass(frozen=True, eq=False)
class Selection:
    """What a `KCEF` chose, among what, and why.

    Attributes:
        path: All candidates, in the order in which they were tried.
        chosen: The one that was taken.
        weights: Row weights, in the order of the candidates' `held_out`.
        n_folds: Number of folds.
        active_bounds: Ends of the grid that the choice lies on, by name.
        reason: Why the search stopped.
        caution: How many standard errors were subtracted from the mean log density.
    """

    path: tuple[Candidate, ...]
    chosen: Candidate
    weights: Array
    n_folds: int
    active_bounds: tuple[str, ...]
    reason: str
    caution: float = CAUTION
    objective: str = "likelihood"

    def merit(self, candidate: Candidate) -> float:
        """Mean held-out log density, minus some standard errors."""
        error = candidate.standard_error(self.weights)
        return candidate.mean(self.weights) - self.caution * error

    def table(self, rows: int = 5) -> str:
        """The best candidates by mean minus `caution` errors, one in each line."""
        ranked = sorted(self.path, key=self.merit, reverse=True)[:rows]
        lines = [f"{'log p':>8}  {'± error':>8}  base; kernel; regularization"]
        for candidate in ranked:
            mean, error = (
                candidate.mean(self.weights),
                candidate.standard_error(self.weights),
            )
            lines.append(f"{mean:8.4f}  {error:8.4f}  {_in_words(candidate)}")
        return "\n".join(lines)

    def __str__(self) -> str:
        active = ", ".join(self.active_bounds) or "none"
        return "\n".join(
            [
                f"grid by held-out {self.objective} in {self.n_folds} folds: "
                f"{self.chosen.mean(self.weights):.5g} after {len(self.path)} trials",
                f"  chosen: {_in_words(self.chosen)}",
                f"  stopped: {self.reason}",
                f"  ends of the grid that are active: {active}",
                *(f"  {line}" for line in self.table().splitlines()),
            ]
        )


def _in_words(candidate: Candidate) -> str:
    lam = "" if np.isinf(candidate.lam) else f"; {candidate.lam:.3g}"
    base = f"{candidate.chart}, {short(candidate.base)}"
    return f"{base}; {kernel_in_words(candidate.kernel)}{lam}"


@dataclass(frozen=True, eq=False)
class Choice:
    """Everything that is needed for the final fit.

    Attributes:
        charted: All training rows in the chosen chart.
        rows: The same in the units of the user, and in the same order.
        kernel: Chosen kernel.
        lam: Chosen λ.
        centers: Rows at which the basis of the judged fits is; None for exact fits.
        result: How it was found.
    """

    charted: Charted
    rows: TrainingRows
    kernel: JointKernel
    lam: float
    centers: Indices | None
    result: Selection | SearchResult
