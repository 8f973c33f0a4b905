"""The objective against integrals and finite differences."""

from dataclasses import replace

import numpy as np
import pytest

from kexpfam.base_densities import (
    GaussianBase,
    StudentBase,
    TruncatedBase,
    UniformBase,
)
from kexpfam.kernels import Constant, Gaussian, JointKernel, Matern, separable
from kexpfam.likelihood import PenalizedLikelihood, quadrature_nodes
from kexpfam.likelihood.objective import distinct
from kexpfam.score_matching import Basis
from tests.oracles.likelihood import slow_objective
from tests.tolerances import DIFFERENCES, ROUNDING, assert_close

PRODUCT = separable(Gaussian(0.7), Gaussian(0.6))
SUM = PRODUCT + separable(Constant(), Matern(1.0))
BASES = {
    "gaussian": (GaussianBase(2.0), [-18, -3, 0, 3, 18]),
    "student": (StudentBase(1.5, df=4.0), [-np.inf, -6, 0, 6, np.inf]),
    "half": (TruncatedBase(GaussianBase(2.0), lower=-2.6), [-2.6, 0, 3, 18]),
    "interval": (UniformBase(-2.6, 2.7), [-2.6, 0, 2.7]),
}
LAM = 0.03

# Log Z on the nodes that a fit begins with: 1e-6 is what is promised.
NODES = 1e-6


def make_rows(n=5, p=1, seed=3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    U = rng.uniform(-2.0, 2.0, size=(n, 1))
    return X, U, rng.uniform(0.5, 2.0, size=n)


def make_problem(kernel=PRODUCT, base=None, *, derivatives=True, rows=None):
    X, U, weights = make_rows() if rows is None else rows
    base = GaussianBase(2.0) if base is None else base
    basis = Basis(kernel, X[:4], U[:4], derivatives)
    nodes = quadrature_nodes(base, U, kernel.resolution)
    return basis, PenalizedLikelihood.of(basis, base, X, U, weights, LAM, nodes)


def some_point(problem, seed=5):
    return 2.0 * np.random.default_rng(seed).normal(size=len(problem.mean))


@pytest.mark.parametrize("name", BASES)
def test_value_equals_integrals_row_by_row(name):
    base, breaks = BASES[name]
    rows = make_rows()
    basis, problem = make_problem(SUM, base)
    beta = some_point(problem)
    expected = slow_objective(basis, base, *rows, LAM, problem.alpha(beta), breaks)
    assert_close(problem.at(beta).value, expected, NODES, scale=1.0)


@pytest.mark.parametrize("kernel", [PRODUCT, SUM], ids=["product", "sum"])
@pytest.mark.parametrize("derivatives", [True, False])
def test_gradient_and_hessian_equal_differences(kernel, derivatives):
    _, problem = make_problem(kernel, derivatives=derivatives)
    beta, h = some_point(problem), 1e-5
    state = problem.at(beta)
    steps = h * np.eye(len(beta))
    ahead = [problem.at(beta + e) for e in steps]
    behind = [problem.at(beta - e) for e in steps]
    pairs = list(zip(ahead, behind, strict=True))
    slope = [(a.value - b.value) / (2 * h) for a, b in pairs]
    curvature = [(a.gradient - b.gradient) / (2 * h) for a, b in pairs]
    assert_close(state.gradient, slope, DIFFERENCES)
    assert_close(problem.hessian(state), curvature, DIFFERENCES)


@pytest.mark.parametrize("kernel", [PRODUCT, SUM], ids=["product", "sum"])
def test_products_with_the_hessian_equal_the_hessian(kernel):
    _, problem = make_problem(kernel)
    state, v = problem.at(some_point(problem)), some_point(problem, 6)
    assert_close(problem.hessian_product(state, v), problem.hessian(state) @ v, 1e-9)


def test_blocks_of_the_hessian_do_not_matter():
    _, problem = make_problem(SUM)
    state = problem.at(some_point(problem))
    whole = problem.hessian(state)
    again = replace(problem, parts=replace(problem.parts, block_numbers=2000))
    assert len(again.parts._pair_blocks) > 1
    assert_close(again.hessian(state), whole, ROUNDING)


def test_rough_covariance_of_all_rows_and_many_draws_is_the_hessian():
    _, problem = make_problem(SUM)
    state = problem.at(some_point(problem))
    rough = problem.rough_covariance(state, len(problem.share), 4000)
    exact = problem.hessian(state) - LAM * np.eye(len(rough))
    # Four thousand levels of a distribution on a few hundred nodes.
    assert_close(rough, exact, 0.02)


@pytest.mark.parametrize("rounded", [False, True], ids=["distinct", "tied"])
def test_the_objective_without_a_fold_is_that_of_the_other_rows(rounded):
    X, U, weights = make_rows(9)
    X = np.round(X) if rounded else X
    basis, problem = make_problem(SUM, rows=(X, U, weights))
    rest = np.delete(np.arange(9), slice(2, 5))
    nodes = quadrature_nodes(GaussianBase(2.0), U, SUM.resolution)
    rows = X[rest], U[rest], weights[rest]
    own = PenalizedLikelihood.of(basis, GaussianBase(2.0), *rows, LAM, nodes)
    found = problem.without(slice(2, 5), basis, X, U, weights)
    beta = some_point(problem)
    assert_close(found.at(beta).value, own.at(beta).value)
    assert_close(found.at(beta).gradient, own.at(beta).gradient)


def test_equal_conditions_are_one_condition():
    X, U, weights = make_rows()
    X = np.round(X)
    assert len(distinct(X, weights)[0]) < len(X)
    basis, problem = make_problem(rows=(X, U, weights))
    beta = some_point(problem)
    base, breaks = BASES["gaussian"]
    alpha = problem.alpha(beta)
    expected = slow_objective(basis, base, X, U, weights, LAM, alpha, breaks)
    assert_close(problem.at(beta).value, expected, NODES, scale=1.0)


def test_no_condition_is_one_condition():
    X, share = distinct(np.empty((5, 0)), np.full(5, 0.2))
    assert X.shape == (1, 0)
    assert share == pytest.approx([1.0])


def test_other_kernels_are_refused():
    class Other(JointKernel):
        def at(self, X, Y, X2, Y2, empty=np.empty):
            return PRODUCT.at(X, Y, X2, Y2, empty)

        resolution = 0.6

    with pytest.raises(TypeError, match="sum of such to be fitted by likelihood"):
        make_problem(Other())
