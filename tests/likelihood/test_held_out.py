"""Held-out log densities against fits made one by one."""

import numpy as np
import pytest

from kexpfam.base_densities import GaussianBase
from kexpfam.family import SOLVERS, HeldOutProblem, LogDensities
from kexpfam.family.cross_validation import LOWEST_LOG_DENSITY
from kexpfam.likelihood import fit_likelihood
from kexpfam.score_matching import ScoreSample
from tests.likelihood.test_fit import BASE, density_of, make_basis, waves
from tests.tolerances import assert_close

LAMS = [1e-3, 1e-2, 1e-1]


def held_out(X, U, weights, folds, lams, base=BASE):
    """Log densities of rows under fits at the first 15 of them, without their fold."""
    sample = ScoreSample(X, U, weights, base.grad_log_density(U), np.ones_like(U))
    problem = HeldOutProblem(sample, folds, np.arange(15), base, reach=0.0)
    kernel = make_basis(X, U).kernel
    return SOLVERS["likelihood"].held_out(problem, kernel, lams, LogDensities.of)


@pytest.mark.parametrize("conditional", [True, False])
def test_log_densities_of_rows_are_those_of_fits_without_their_fold(conditional):
    X, U = waves(45)
    X = X if conditional else np.empty((45, 0))
    weights = np.random.default_rng(3).uniform(0.5, 2.0, 45)
    basis = make_basis(X, U, 15)
    folds = [slice(0, 15), slice(15, 31), slice(31, 45)]
    found = held_out(X, U, weights, folds, LAMS)
    expected = np.empty((3, 45))
    for fold in folds:
        rest = np.delete(np.arange(45), fold)
        for k, lam in enumerate(LAMS):
            fit = fit_likelihood(basis, BASE, X[rest], U[rest], weights[rest], lam)
            expected[k, fold] = density_of(fit.T, BASE, X[fold]).logpdf(U[fold, 0])
    # Interpolation of log p between nodes ℓ/16 apart, and a looser tolerance.
    assert_close(found, expected, 5e-3, scale=1.0)


def test_the_order_of_lambdas_does_not_matter():
    X, U = waves(40)
    folds = [slice(0, 20), slice(20, 40)]
    down = held_out(X, U, np.ones(40), folds, LAMS[::-1])
    up = held_out(X, U, np.ones(40), folds, LAMS)
    assert_close(up[::-1], down, 1e-3, scale=1.0)


def test_a_point_that_no_fit_explains_costs_what_it_costs_within_the_bound():
    X, U = waves(40)
    U[3] = 60.0
    folds = [slice(0, 20), slice(20, 40)]
    found = held_out(X, U, np.ones(40), folds, [1e-2], GaussianBase(0.5))
    assert np.isfinite(found).all()
    # N(0, 0.5²) at 60 is exp(−7200)
    assert LOWEST_LOG_DENSITY <= found.min() < -7000.0
