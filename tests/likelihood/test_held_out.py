"""Held-out log densities against fits made one by one."""

import numpy as np
import pytest

from kexpfam.base_densities import GaussianBase
from kexpfam.likelihood import fit_likelihood, log_densities_along_path
from kexpfam.likelihood.fit import LOWEST_LOG_DENSITY
from tests.likelihood.test_fit import BASE, density_of, make_basis, waves
from tests.tolerances import assert_close

LAMS = [1e-1, 1e-2, 1e-3]


@pytest.mark.parametrize("conditional", [True, False])
def test_each_row_is_judged_by_a_fit_without_its_fold(conditional):
    X, U = waves(45)
    X = X if conditional else np.empty((45, 0))
    weights = np.random.default_rng(3).uniform(0.5, 2.0, 45)
    basis = make_basis(X, U, 15)
    folds = [slice(0, 15), slice(15, 31), slice(31, 45)]
    found = log_densities_along_path(basis, BASE, X, U, weights, folds, LAMS)
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
    basis, ones = make_basis(X, U, 15), np.ones(40)
    folds = [slice(0, 20), slice(20, 40)]
    down = log_densities_along_path(basis, BASE, X, U, ones, folds, LAMS)
    up = log_densities_along_path(basis, BASE, X, U, ones, folds, LAMS[::-1])
    assert_close(up[::-1], down, 1e-3, scale=1.0)


def test_a_point_that_no_fit_explains_costs_what_it_costs_within_the_bound():
    X, U = waves(40)
    U[3] = 60.0
    basis, ones = make_basis(X, U, 15), np.ones(40)
    folds = [slice(0, 20), slice(20, 40)]
    base = GaussianBase(0.5)
    found = log_densities_along_path(basis, base, X, U, ones, folds, [1e-2])
    assert np.isfinite(found).all()
    # N(0, 0.5²) at 60 is exp(−7200)
    assert LOWEST_LOG_DENSITY <= found.min() < -7000.0
