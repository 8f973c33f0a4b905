"""Candidates: fits that are validated on the same rows, each without its fold."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from kexpfam._typing import Array
from kexpfam.base_densities import BaseDensity
from kexpfam.family import SOLVERS, CoordinateRows, Criterion, HeldOutProblem
from kexpfam.kernels import JointKernel
from kexpfam.selection.spec import RESIDUAL_BASES, LambdaPath


@dataclass(frozen=True, eq=False)
class Candidate:
    """One fit among many.

    Attributes:
        coordinates: Which coordinates of the rows it is fitted in, by name; or the
            name of an expert.
        base: Base density there; None for an expert of another kind.
        kernel: Joint kernel, or None without one.
        lam: λ; infinity without a kernel.
        method: How T is fitted, the name of a solver; "none" for a base density alone,
            and "expert" for another estimator.
        held_out: Log density of every row under fits without its fold, in the user's
            units, (n,); or the negative of its score, if that is the criterion. Empty
            if the candidate came from a file.
        below: Mass below every row under the same fits, (n,), of experts; None for
            others, where it is found when it is needed.
    """

    coordinates: str
    base: BaseDensity | None
    kernel: JointKernel | None
    lam: float
    method: str
    held_out: Array
    below: Array | None = None

    def mean(self, weights: Array) -> float:
        """Mean held-out log density.

        Raises:
            ValueError: The candidate came from a file, which keeps no rows.
        """
        if not len(self.held_out):
            raise ValueError(
                "A candidate that was loaded from a file has no held-out log densities "
                "of rows; their mean is the `held_out` of its member."
            )
        return float(np.average(self.held_out, weights=weights))

    def standard_error(self, weights: Array) -> float:
        """Its standard error, from the std over rows; 0 if a fit failed."""
        mean = self.mean(weights)
        if not np.isfinite(mean):
            return 0.0
        variance = np.average((self.held_out - mean) ** 2, weights=weights)
        return float(np.sqrt(variance / weights.sum()))


def bases_alone(
    name: str, rows: CoordinateRows, bases: Sequence[BaseDensity] = RESIDUAL_BASES
) -> Iterator[Candidate]:
    """Base densities without a kernel part, in coordinates with this name."""
    for base in bases:
        log_p = base.log_density(rows.U) + rows.log_abs_det_jacobian
        yield Candidate(name, base, None, np.inf, "none", log_p)


@dataclass(frozen=True)
class Task:
    """Families of one kernel to validate, one for each λ; in any thread or process."""

    coordinates: str  # Name of the coordinates
    problem: HeldOutProblem  # Rows there, in folds, with their base density
    path: LambdaPath
    method: str  # Name of the solver
    criterion: Criterion
    offset: Array  # What is added to what the criterion says: log |du/dy|, (n,)

    def candidates(self) -> list[Candidate]:
        """Validate them."""
        kernel, lams = self.path.kernel, self.path.lams
        solver = SOLVERS[self.method]
        held_out = solver.held_out(self.problem, kernel, lams, self.criterion)
        held_out = held_out + self.offset
        return [
            Candidate(
                self.coordinates, self.problem.base, kernel, lam, self.method, row
            )
            for lam, row in zip(lams, held_out, strict=True)
        ]
