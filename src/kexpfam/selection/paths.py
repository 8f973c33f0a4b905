"""Held-out losses along λ for one kernel, with everything else computed once."""

import contextlib
from collections.abc import Callable, Sequence

import numpy as np

from kexpfam._typing import Array
from kexpfam.errors import IllConditionedError
from kexpfam.kernels import JointKernel, SumOfProducts
from kexpfam.score_matching import statistics
from kexpfam.selection.exact_path import ExactPath
from kexpfam.selection.held_out import held_out_log_densities
from kexpfam.selection.problem import HeldOutProblem

# Losses (l,) of one kernel for each λ.
LossPath = Callable[[HeldOutProblem, SumOfProducts, Sequence[float]], Array]


def low_rank_likelihoods(
    problem: HeldOutProblem, kernel: SumOfProducts, lams: Sequence[float]
) -> Array:
    """Mean negative log density of held-out rows under low-rank fits, (l,)."""
    log_p = held_out_log_densities(
        problem.basis(kernel),
        problem.rows,
        problem.base,
        problem.sample,
        lams,
        problem.reach,
    )
    return -(log_p @ problem.mean_weights)


def low_rank_scores(
    problem: HeldOutProblem, kernel: SumOfProducts, lams: Sequence[float]
) -> Array:
    """Score of held-out rows under low-rank fits, (l,); infinity where one failed."""
    return held_out_scores(problem, kernel, lams) @ problem.mean_weights


def held_out_scores(
    problem: HeldOutProblem, kernel: JointKernel, lams: Sequence[float]
) -> Array:
    """Score of each row under low-rank fits without its fold, (l, n).

    Σ_i [½ g_i (∂_iT)² + g_i ∂_i²T + drift_i ∂_iT], theory (2); infinity where a fit
    failed.
    """
    basis, sample = problem.basis(kernel), problem.sample
    per_fold = [statistics(basis, problem.part(fold)) for fold in problem.folds]
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
            g, drift = sample.diffusion[fold, i, None], sample.drift[fold, i, None]
            terms = g * (0.5 * gradient**2 + curvature) + drift * gradient
            scores[:, fold] += terms.T
    return np.nan_to_num(scores, nan=np.inf, posinf=np.inf)


def exact_likelihoods(
    problem: HeldOutProblem, kernel: SumOfProducts, lams: Sequence[float]
) -> Array:
    """Mean negative log density of held-out rows under exact fits, (l,)."""
    log_p = ExactPath.of(kernel, problem).held_out_log_densities(lams)
    return -(log_p @ problem.mean_weights)


def exact_scores(
    problem: HeldOutProblem, kernel: SumOfProducts, lams: Sequence[float]
) -> Array:
    """Score of held-out rows under exact fits, (l,)."""
    return ExactPath.of(kernel, problem).held_out_scores(lams)
