"""The λ-path of the exact estimator against refits with the fold removed."""

import numpy as np
import pytest
from scipy import integrate

from kexpfam.kernels import Gaussian, Matern, RationalQuadratic, separable
from kexpfam.partition import Nodes
from kexpfam.score_matching import ScoreSample, fit_exact, score_matching_loss
from kexpfam.selection.exact_path import ExactPath
from tests.selection.cases import BASE, make_problem
from tests.tolerances import SOLVE, assert_close

LAMS = [3e-3, 0.03, 1.0]

KERNELS = [
    separable(Gaussian(0.8), Gaussian(0.7)),
    separable(Matern(1.0, nu=1.5), RationalQuadratic(0.6)),
    separable(Gaussian(1.0), Matern(1.0, nu=2.5))
    + separable(Gaussian(3.0), Gaussian(2.0)),
]


def refit(problem, kernel, lam, fold):
    """T fitted exactly to the other rows, with the penalty held fixed.

    Their weights sum to 1 − w_V; scaled up to one, the same problem has λ/(1 − w_V).
    """
    sample, n = problem.sample, len(problem.sample.Y)
    keep = np.setdiff1d(np.arange(n), np.arange(n)[fold])
    weights = problem.mean_weights[keep]
    rest = ScoreSample(
        sample.X[keep],
        sample.Y[keep],
        weights / weights.sum(),
        sample.gsm_linear[keep],
        sample.gsm_weights[keep],
    )
    return fit_exact(kernel, rest, lam / weights.sum()).T


def slow_score(problem, kernel, lam, folds):
    total = problem.sample.weights.sum()
    parts = [
        score_matching_loss(refit(problem, kernel, lam, fold), problem.part(fold))
        for fold in folds
    ]
    return sum(parts) / total


@pytest.mark.parametrize("kernel", KERNELS, ids=["gauss", "matern-rq", "sum"])
@pytest.mark.parametrize("weighted", [False, True])
def test_held_out_scores_equal_refits_without_the_fold(kernel, weighted):
    problem = make_problem(n=24, weighted=weighted)
    fast = ExactPath.of(kernel, problem).held_out_scores(LAMS)
    slow = [slow_score(problem, kernel, lam, problem.folds) for lam in LAMS]
    assert_close(fast, slow, SOLVE)


def test_held_out_scores_equal_refits_for_several_columns_of_y():
    problem = make_problem(n=15, d=2, weighted=True)
    fast = ExactPath.of(KERNELS[0], problem).held_out_scores(LAMS)
    slow = [slow_score(problem, KERNELS[0], lam, problem.folds) for lam in LAMS]
    assert_close(fast, slow, SOLVE)


@pytest.mark.parametrize("weighted", [False, True])
def test_coefficients_of_all_rows_equal_the_exact_fit(weighted):
    problem = make_problem(n=24, weighted=weighted)
    path = ExactPath.of(KERNELS[0], problem)
    for lam in LAMS:
        T = fit_exact(KERNELS[0], problem.sample, lam).T
        beta = (
            T.first + problem.sample.weights[:, None] * problem.sample.gsm_linear / lam
        )
        assert_close(path.coefficients(lam), beta, SOLVE)


def test_rows_of_weight_zero_count_nowhere():
    problem = make_problem(n=24, weighted=True)
    problem.sample.weights[5] = 0.0
    path = ExactPath.of(KERNELS[0], problem)
    slow = [slow_score(problem, KERNELS[0], lam, problem.folds) for lam in LAMS]
    assert_close(path.held_out_scores(LAMS), slow, SOLVE)


@pytest.mark.parametrize("kernel", KERNELS, ids=["gauss", "matern-rq", "sum"])
def test_held_out_log_densities_approach_those_of_refits_normalised_by_a_sum(
    kernel, monkeypatch
):
    problem = make_problem(n=12, n_folds=3, weighted=True)
    rows, slow = [0, 6, 11], []  # one of each fold
    points = np.arange(-12.0, 12.0, 0.002)
    for a, fold in zip(rows, problem.folds, strict=True):
        T, x = refit(problem, kernel, 0.03, fold), problem.sample.X[a : a + 1]

        def log_tilted(u, x=x, T=T):
            U = np.reshape(u, (-1, 1))
            return BASE.log_density(U) + T.value(np.repeat(x, len(U), axis=0), U)

        z = integrate.trapezoid(np.exp(log_tilted(points)), points)
        slow.append(log_tilted(problem.sample.Y[a, 0])[0] - np.log(z))
    # Fine nodes everywhere: 0.002²/8 times second derivatives of up to a hundred.
    fine = Nodes(points, np.full(len(points), np.log(0.002)))
    monkeypatch.setattr(Nodes, "covering", lambda *_: fine)
    fast = ExactPath.of(kernel, problem).held_out_log_densities([1.0, 0.03])
    np.testing.assert_allclose(fast[1, rows], slow, atol=5e-5)
    assert np.abs(fast[0] - fast[1]).max() > 0.05  # λ matters


def test_path_says_what_needs_one_column():
    path = ExactPath.of(KERNELS[0], make_problem(n=12, d=2))
    with pytest.raises(ValueError, match="one column of y, got 2"):
        path.held_out_log_densities(LAMS)
