"""The λ-path of the exact estimator against refits with the fold removed."""

import numpy as np
import pytest
from scipy import integrate

from kexpfam.family import LogDensities, RowScores, cross_validated
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
        score_matching_loss(
            refit(problem, kernel, lam, fold), problem.sample.part(fold)
        )
        for fold in folds
    ]
    return sum(parts) / total


def held_out_scores(problem, kernel):
    """Mean score of rows under the fits of the path, for each λ."""
    path = ExactPath.of(kernel, problem)
    criterion = RowScores(problem, path.basis)
    found = cross_validated(path.without_folds(LAMS), criterion)
    return -found @ problem.mean_weights


@pytest.mark.parametrize("kernel", KERNELS, ids=["gauss", "matern-rq", "sum"])
@pytest.mark.parametrize("weighted", [False, True])
def test_held_out_scores_equal_refits_without_the_fold(kernel, weighted):
    problem = make_problem(n=24, weighted=weighted)
    fast = held_out_scores(problem, kernel)
    slow = [slow_score(problem, kernel, lam, problem.folds) for lam in LAMS]
    assert_close(fast, slow, SOLVE)


def test_held_out_scores_equal_refits_for_several_columns_of_y():
    problem = make_problem(n=15, d=2, weighted=True)
    fast = held_out_scores(problem, KERNELS[0])
    slow = [slow_score(problem, KERNELS[0], lam, problem.folds) for lam in LAMS]
    assert_close(fast, slow, SOLVE)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("d", [1, 2])
def test_coefficients_without_a_fold_are_those_of_the_exact_fit(weighted, d):
    problem = make_problem(n=24, d=d, weighted=weighted)
    path = ExactPath.of(KERNELS[0], problem)
    for fold, alphas in zip(problem.folds, path.without_folds(LAMS), strict=True):
        keep = np.delete(np.arange(24), fold)
        for lam, alpha in zip(LAMS, alphas.T, strict=True):
            zeroth, *rest = alpha.reshape(1 + 2 * d, 24)
            first, second = np.array(rest[:d]).T, np.array(rest[d:]).T
            T = refit(problem, KERNELS[0], lam, fold)
            assert not zeroth.any()
            assert not first[fold].any()
            assert not second[fold].any()
            assert_close(first[keep], T.first, SOLVE)
            assert_close(second[keep], T.second, SOLVE)


def test_rows_of_weight_zero_count_nowhere():
    problem = make_problem(n=24, weighted=True)
    problem.sample.weights[5] = 0.0
    slow = [slow_score(problem, KERNELS[0], lam, problem.folds) for lam in LAMS]
    assert_close(held_out_scores(problem, KERNELS[0]), slow, SOLVE)


@pytest.mark.parametrize("kernel", KERNELS, ids=["gauss", "matern-rq", "sum"])
def test_held_out_log_densities_approach_those_of_refits_normalised_by_a_sum(kernel):
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
    path = ExactPath.of(kernel, problem)
    criterion = LogDensities.of(problem, path.basis, nodes=fine, dtype=np.float64)
    fast = cross_validated(path.without_folds([1.0, 0.03]), criterion)
    np.testing.assert_allclose(fast[1, rows], slow, atol=5e-5)
    assert np.abs(fast[0] - fast[1]).max() > 0.05  # λ matters
