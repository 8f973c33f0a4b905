"""Candidates: fits that compete, each with what it says about rows it has not seen."""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from kexpfam._typing import Array
from kexpfam.base_densities import BaseDensity, GaussianBase, StudentBase
from kexpfam.errors import IllConditionedError
from kexpfam.kernels import JointKernel
from kexpfam.likelihood import log_densities_along_path
from kexpfam.score_matching import statistics
from kexpfam.selection.held_out import Remainder, log_densities_by_score
from kexpfam.selection.problem import HeldOutProblem

# Base densities that compete without a kernel part: the second for outliers. A t with
# five degrees of freedom and this scale has nearly unit deviation where most data are.
BASES_ALONE = (GaussianBase(scale=1.0), StudentBase(scale=0.85, df=5.0))


@dataclass(frozen=True, eq=False)
class Candidate:
    """One fit among many.

    Attributes:
        chart: Which chart of the rows it is fitted in, by name.
        base: Base density in that chart.
        kernel: Joint kernel, or None for the base density alone.
        lam: λ; infinity for the base density alone.
        method: "score", "likelihood" or "none": how T is fitted.
        held_out: Log density of every row under fits without its fold, in the user's
            units, (n,); or the negative of its score, if that is the objective. Empty
            if the candidate came from a file.
    """

    chart: str
    base: BaseDensity
    kernel: JointKernel | None
    lam: float
    method: str
    held_out: Array

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
        """Its standard error, from the spread over rows; 0 if a fit failed."""
        mean = self.mean(weights)
        if not np.isfinite(mean):
            return 0.0
        variance = np.average((self.held_out - mean) ** 2, weights=weights)
        return float(np.sqrt(variance / weights.sum()))


@dataclass(frozen=True)
class Line:
    """A kernel and the values of λ to try with it.

    Attributes:
        kernel: The joint kernel.
        lams: λ in increasing order.
    """

    kernel: JointKernel
    lams: tuple[float, ...]


def bases_alone(
    chart: str,
    U: Array,
    log_abs_det_jacobian: Array,
    bases: Sequence[BaseDensity] = BASES_ALONE,
) -> Iterator[Candidate]:
    """Base densities without a kernel part.

    Args:
        chart: Name of the chart.
        U: Held-out responses in the chart, (n, d).
        log_abs_det_jacobian: Log |du/dy| of each row, (n,).
        bases: The densities.
    """
    for base in bases:
        log_p = base.log_density(U) + log_abs_det_jacobian
        yield Candidate(chart, base, None, np.inf, "none", log_p)


def tilted(
    chart: str,
    problem: HeldOutProblem,
    log_abs_det_jacobian: Array,
    lines: Sequence[Line],
    *,
    method: str = "score",
    objective: str = "likelihood",
    remainder: Remainder | None = None,
) -> Iterator[Candidate]:
    """Families of one chart and base density, one for each kernel and λ.

    Args:
        chart: Name of the chart.
        problem: Rows in the chart, in folds, with their base density.
        log_abs_det_jacobian: Log |du/dy| of each row, (n,).
        lines: Kernels and values of λ.
        method: How families are fitted: "score" matching or "likelihood".
        objective: How they are judged: "likelihood", or by the paper's "score", whose
            negative takes the place of the log density.
        remainder: What is left of a density fitted by score matching, and is judged by
            likelihood in its place; None for all of it.
    """
    for line in lines:
        if objective == "score":
            worth = -held_out_scores(problem, line.kernel, line.lams)
        elif method == "score":
            worth = log_abs_det_jacobian + log_densities_by_score(
                problem.basis(line.kernel),
                problem.rows,
                problem.base,
                problem.sample,
                line.lams,
                problem.reach,
                remainder,
            )
        else:
            worth = _by_likelihood(problem, line) + log_abs_det_jacobian
        for lam, row in zip(line.lams, worth, strict=True):
            yield Candidate(chart, problem.base, line.kernel, lam, method, row)


def _by_likelihood(problem: HeldOutProblem, line: Line) -> Array:
    sample = problem.sample
    # Warm starts go from smooth fits to rough ones.
    log_p = log_densities_along_path(
        problem.basis(line.kernel),
        problem.base,
        sample.X,
        sample.Y,
        sample.weights,
        problem.folds,
        line.lams[::-1],
    )
    return log_p[::-1]


def held_out_scores(
    problem: HeldOutProblem, kernel: JointKernel, lams: Sequence[float]
) -> Array:
    """Score of each row under low-rank fits without its fold, (l, n).

    Σ_i [½ g_i (∂_iT)² + g_i ∂_i²T + drift_i ∂_iT], theory (2); infinity where a fit
    failed.
    """
    basis, sample = problem.basis(kernel), problem.sample
    per_fold = [statistics(basis, problem.sample.part(fold)) for fold in problem.folds]
    total = sum(per_fold[1:], start=per_fold[0])
    R = basis.gram()
    scores = np.zeros((len(lams), len(sample.Y)))
    for fold, own in zip(problem.folds, per_fold, strict=True):
        alphas = np.full((basis.size, len(lams)), np.nan)
        for k, lam in enumerate(lams):
            with contextlib.suppress(IllConditionedError):
                alphas[:, k] = (total - own).solve(R, lam)
        pairs = basis.pairs(sample.X[fold], sample.Y[fold])
        for i in range(sample.Y.shape[1]):
            gradient = basis.features(pairs, 1, i) @ alphas
            curvature = basis.features(pairs, 2, i) @ alphas
            g, gsm_linear = (
                sample.gsm_weights[fold, i, None],
                sample.gsm_linear[fold, i, None],
            )
            terms = g * (0.5 * gradient**2 + curvature) + gsm_linear * gradient
            scores[:, fold] += terms.T
    return np.nan_to_num(scores, nan=np.inf, posinf=np.inf)
