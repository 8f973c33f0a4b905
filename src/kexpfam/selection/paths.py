"""Held-out losses along λ for one kernel, with everything else computed once."""

from collections.abc import Callable, Sequence

import numpy as np

from kexpfam._typing import Array
from kexpfam.errors import IllConditionedError
from kexpfam.kernels import SumOfProducts
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
        [problem.base],
        [problem.sample],
        list(lams),
        problem.reach,
    )
    return -(log_p[0] @ problem.mean_weights)


def low_rank_scores(
    problem: HeldOutProblem, kernel: SumOfProducts, lams: Sequence[float]
) -> Array:
    """Score of held-out rows under low-rank fits, (l,); infinity where one failed."""
    basis = problem.basis(kernel)
    per_fold = [statistics(basis, problem.part(fold)) for fold in problem.folds]
    total = sum(per_fold[1:], start=per_fold[0])
    R = basis.gram()
    losses = np.zeros(len(lams))
    for own in per_fold:
        rest = total - own
        for k, lam in enumerate(lams):
            try:
                alpha = rest.solve(R, lam)
            except IllConditionedError:
                losses[k] = np.inf
                continue
            # (2) in terms of (16): ½ αᵀCα + bᵀα over the fold
            losses[k] += (0.5 * alpha @ own.C @ alpha + own.b @ alpha) / total.weight
    return losses


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
