"""Bases that contain the exact solution give the exact solution."""

import numpy as np
import pytest

from kexpfam.kernels import Constant, Gaussian, RationalQuadratic, separable
from kexpfam.score_matching import (
    Basis,
    ScoreSample,
    fit_exact,
    fit_low_rank,
)
from tests.oracles.span import fit_in_span, whitening
from tests.selection.cases import make_sample
from tests.tolerances import SOLVE, assert_close

KERNELS = {
    "gaussian": separable(Gaussian(0.8), Gaussian(0.7)),
    "rational quadratic": separable(RationalQuadratic(1.0), RationalQuadratic(0.8)),
    "sum": separable(Constant(), Gaussian(1.0)) + separable(Gaussian(1.0), Gaussian()),
}

# Features of unit functions have errors of eps/√ε, where ε is the smallest eigenvalue
# of the Gram matrix: 1e-9 to 1e-13 for the kernels here.
WELL_CONDITIONED = 1e-10

every_kernel = pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)


def bounded_sample(n, d, seed):
    """Uneven weights, and a gsm_weights that vanishes at the edge y = −3."""
    sample = make_sample(n, 2, d, seed=seed, weighted=True)
    Y = np.maximum(sample.Y, -2.9)
    g, slope = -np.expm1(-(Y + 3.0) / 2.0), np.exp(-(Y + 3.0) / 2.0) / 2.0
    return ScoreSample(sample.X, Y, sample.weights, slope - g * Y / 2.25, g)


def assert_same_function(T, expected, d, tolerance, p=2):
    query = make_sample(30, p, d, seed=9)
    for name in ("value", "gradient", "second_derivative"):
        found, true = (getattr(f, name)(query.X, query.Y) for f in (T, expected))
        assert_close(found, true, tolerance)


@every_kernel
@pytest.mark.parametrize("make", [make_sample, bounded_sample])
@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("lam", [0.1, 1e-3])
def test_second_derivatives_at_all_rows_give_the_exact_fit(lam, d, make, kernel):
    sample = make(40, d=d, seed=1)
    basis = Basis(kernel, sample.X, sample.Y, derivatives=2)
    exact = fit_exact(kernel, sample, lam).T
    assert_same_function(fit_in_span(basis, sample, lam), exact, d, WELL_CONDITIONED)


def test_a_singular_basis_gives_the_exact_fit_too():
    """Without x forty rows have about fifteen functions that differ in 16 digits."""
    sample = make_sample(40, 0, 1, seed=1)
    kernel = separable(Constant(), Gaussian(1.5))
    basis = Basis(kernel, sample.X, sample.Y, derivatives=2)
    W = whitening(basis.exact_gram())
    assert W.shape[1] < basis.size / 2
    exact = fit_exact(kernel, sample, 0.01).T
    # Dropped functions have norms up to √(16 eps) = 6e-8 times their coefficients.
    assert_same_function(fit_in_span(basis, sample, 0.01), exact, 1, SOLVE, p=0)


def test_first_derivatives_at_all_rows_are_exact_there_and_nowhere_else():
    """C sees only ∂T at the rows, so the fit is the exact one projected on the span."""
    sample, query = make_sample(40, 2, 1, seed=1), make_sample(30, 2, 1, seed=9)
    kernel = KERNELS["gaussian"]
    exact = fit_exact(kernel, sample, 0.1).T
    found = fit_in_span(Basis(kernel, sample.X, sample.Y, 1), sample, 0.1)
    for name in ("value", "gradient"):
        at_rows = [getattr(T, name)(sample.X, sample.Y) for T in (found, exact)]
        assert_close(*at_rows, WELL_CONDITIONED)
        elsewhere = [getattr(T, name)(query.X, query.Y) for T in (found, exact)]
        assert np.abs(np.subtract(*elsewhere)).max() > 0.01 * np.abs(elsewhere).max()


@pytest.mark.parametrize("derivatives", [0, 1, 2])
def test_a_few_centres_give_the_solution_of_the_normal_equations(derivatives):
    sample = make_sample(60, 2, 2, seed=4, weighted=True)
    basis = Basis(KERNELS["gaussian"], sample.X[:6], sample.Y[:6], derivatives)
    found = fit_in_span(basis, sample, 0.05)
    # The jitter of the normal equations, 1e-9, is relative to a mean that second
    # derivatives raise above the smallest eigenvalue by a few powers of ten.
    assert_same_function(found, fit_low_rank(basis, sample, 0.05), 2, 1e-5)


@pytest.mark.parametrize("derivatives", [-1, 3, 0.5])
def test_an_order_that_no_basis_has_is_refused(derivatives):
    sample = make_sample(5)
    with pytest.raises(ValueError, match=r"derivatives must be 0, 1 or 2"):
        Basis(KERNELS["gaussian"], sample.X, sample.Y, derivatives)
