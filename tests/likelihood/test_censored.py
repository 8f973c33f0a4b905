"""The likelihood of censored rows against quadrature and differences."""

import numpy as np
import pytest
from scipy import integrate, optimize, stats

from kexpfam.base_densities import GaussianBase
from kexpfam.kernels import Constant, Gaussian, separable
from kexpfam.likelihood import (
    CensoredRows,
    PenalizedLikelihood,
    censored_log_scores,
    censored_nodes,
    censored_objective,
    censored_path,
)
from kexpfam.partition import Nodes
from kexpfam.regression import fit_censored_linear, normal_log_masses
from kexpfam.score_matching import Basis

BASE = GaussianBase(scale=1.5)


def _rows(n=12, seed=0):
    rng = np.random.default_rng(seed)
    X, u = rng.normal(size=(n, 1)), rng.normal(size=n)
    lower, upper = u.copy(), u.copy()
    upper[:3], lower[3:5] = np.inf, -np.inf
    lower[5:7], upper[5:7] = u[5:7] - 0.3, u[5:7] + 0.7
    return CensoredRows(X, lower, upper, u, rng.uniform(0.5, 2.0, n))


def _basis(rows, kernel_x=None):
    kernel = separable(kernel_x or Gaussian(1.0), Gaussian(0.8))
    return Basis(kernel, rows.X[::2], rows.likely[::2, None], derivatives=False)


@pytest.fixture
def problem():
    rows = _rows()
    basis = _basis(rows)
    nodes = censored_nodes(BASE, rows, 0.8)
    return rows, basis, nodes, censored_objective(basis, BASE, rows, 0.1, nodes)


def test_weights_of_intervals_integrate_lines_exactly():
    nodes = Nodes.trapezoidal(np.array([-1.0, 0.0, 0.5, 2.0]))
    lower = np.array([-np.inf, -0.7, 0.1, 0.6, 2.5])
    upper = np.array([np.inf, 1.1, 0.2, np.inf, 3.0])
    low, high = np.clip(lower, -1.0, 2.0), np.clip(upper, -1.0, 2.0)
    weights = nodes.interval_weights(lower, upper)
    np.testing.assert_allclose(weights.sum(axis=1), high - low, atol=1e-14)
    expected = 0.5 * (high**2 - low**2)
    np.testing.assert_allclose(weights @ nodes.points, expected, atol=1e-14)


def test_objective_equals_quadrature(problem):
    rows, basis, _, objective = problem
    beta = 0.3 * np.random.default_rng(1).normal(size=basis.size)
    alpha = objective.alpha(beta)
    total = 0.0
    for x, low, high, w in zip(
        rows.X, rows.lower, rows.upper, rows.weights, strict=True
    ):

        def density(u, x=x):
            point = np.array([[u]])
            T = basis.features(basis.pairs(x[None], point), 0, 0)[0] @ alpha
            return np.exp(T + BASE.log_density(point)[0])

        z = integrate.quad(density, -15.0, 15.0, limit=200)[0]
        if low == high:
            total -= w * np.log(density(low) / z)
        else:
            part = integrate.quad(density, max(low, -15.0), min(high, 15.0), limit=200)
            total -= w * np.log(part[0] / z)
    total = total / rows.weights.sum()
    # log q0 of observed rows is a constant that the objective leaves out.
    share = rows.weights * rows.exact / rows.weights.sum()
    total += share @ BASE.log_density(rows.likely[:, None])
    expected = total + 0.05 * beta @ beta
    # Masses of intervals are those of functions linear between nodes.
    assert abs(objective.at(beta).value - expected) < 1e-4


def test_gradient_equals_differences(problem):
    _, basis, _, objective = problem
    beta = 0.3 * np.random.default_rng(2).normal(size=basis.size)
    found = objective.at(beta).gradient
    expected = optimize.approx_fprime(beta, lambda b: objective.at(b).value, 1e-6)
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_curvature_of_steps_is_not_below_the_hessian(problem):
    _, basis, _, objective = problem
    beta = 0.3 * np.random.default_rng(3).normal(size=basis.size)
    H = optimize.approx_fprime(beta, lambda b: objective.at(b).gradient, 1e-6)
    bound = objective.hessian(objective.at(beta)) - 0.5 * (H + H.T)
    assert np.linalg.eigvalsh(bound).min() > -1e-5


def test_without_censored_rows_it_is_the_likelihood():
    rows = _rows()
    rows = CensoredRows(rows.X, rows.likely, rows.likely, rows.likely, rows.weights)
    basis, nodes = _basis(rows), censored_nodes(BASE, rows, 0.8)
    own = censored_objective(basis, BASE, rows, 0.1, nodes)
    other = PenalizedLikelihood.of(
        basis, BASE, rows.X, rows.likely[:, None], rows.weights, 0.1, nodes
    )
    beta = np.random.default_rng(4).normal(size=basis.size)
    for name in ("value", "gradient"):
        found = getattr(own.at(beta), name)
        np.testing.assert_allclose(found, getattr(other.at(beta), name), rtol=1e-12)
    assert own.intervals is None


def test_a_path_ends_where_the_gradient_is_zero_and_lowers_the_objective(problem):
    rows, basis, nodes, objective = problem
    (alpha,) = censored_path(basis, BASE, rows, [0.1], nodes)
    state = objective.at(objective.beta(alpha))
    assert np.linalg.norm(state.gradient) < 1e-5 * objective.scale
    assert state.value < objective.at(np.zeros(basis.size)).value


def test_scores_are_minus_the_objective_without_penalty(problem):
    rows, basis, nodes, objective = problem
    beta = 0.3 * np.random.default_rng(5).normal(size=basis.size)
    scores = censored_log_scores(basis, BASE, rows, objective.alpha(beta), nodes)
    share = rows.weights / rows.weights.sum()
    log_q0 = np.where(rows.exact, BASE.log_density(rows.likely[:, None]), 0.0)
    expected = objective.at(beta).value - 0.05 * beta @ beta
    assert np.isclose(-share @ (scores - log_q0), expected, atol=1e-12)


def test_a_constant_kernel_of_x_sees_the_mass_beyond_the_limits():
    rng = np.random.default_rng(6)
    u = np.where(rng.random(800) < 0.5, -1.0, 1.0) + 0.2 * rng.normal(size=800)
    limit = rng.uniform(-1.5, 2.5, 800)
    lower, upper = np.minimum(u, limit), np.where(u > limit, np.inf, u)
    likely = np.where(u > limit, limit + 0.3, u)
    X, ones = np.empty((800, 0)), np.ones(800)
    rows = CensoredRows(X, lower, upper, likely, ones)
    basis = _basis(rows.part(np.arange(80)), Constant())
    nodes = censored_nodes(BASE, rows, 0.8)
    (alpha,) = censored_path(basis, BASE, rows, [1e-3], nodes)
    above = CensoredRows(X[:1], np.zeros(1), np.full(1, np.inf), np.ones(1), ones[:1])
    mass = np.exp(censored_log_scores(basis, BASE, above, alpha, nodes)[0])
    assert abs(mass - 0.5) < 0.06  # the share above zero of what was recorded is 0.37


# --- the regression -------------------------------------------------------------------


def test_normal_masses_and_their_derivatives():
    lower = np.array([0.3, -np.inf, 1.0, -0.2, 30.0, -40.0])
    upper = np.array([0.3, 0.5, np.inf, 0.9, np.inf, -35.0])
    mean, log_scale = np.full(6, 0.1), np.full(6, -0.2)
    value, of_mean, of_scale = normal_log_masses(lower, upper, mean, log_scale)
    law = stats.norm(0.1, np.exp(-0.2))
    assert np.isclose(value[0], law.logpdf(0.3))
    expected = [law.logcdf(0.5), law.logsf(1.0), np.log(law.cdf(0.9) - law.cdf(-0.2))]
    np.testing.assert_allclose(value[1:4], expected)
    np.testing.assert_allclose(value[4], law.logsf(30.0))
    np.testing.assert_allclose(value[5], law.logcdf(-35.0), rtol=1e-6)
    step = 1e-6
    for found, move in ((of_mean, (step, 0.0)), (of_scale, (0.0, step))):
        up = normal_log_masses(lower, upper, mean + move[0], log_scale + move[1])[0]
        down = normal_log_masses(lower, upper, mean - move[0], log_scale - move[1])[0]
        expected = (up - down) / (2 * step)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_a_censored_regression_is_not_biased():
    rng = np.random.default_rng(7)
    X = rng.normal(size=(3000, 1))
    y = 1.0 + 2.0 * X[:, 0] + np.exp(0.3 * X[:, 0]) * rng.normal(size=3000)
    limit = rng.normal(1.5, 1.0, 3000)
    lower, upper = np.minimum(y, limit), np.where(y > limit, np.inf, y)
    model = fit_censored_linear(X, lower, upper, np.ones(3000))
    location, log_scale = model.at(np.array([[0.0], [1.0]]))
    np.testing.assert_allclose(location, [1.0, 3.0], atol=0.12)
    np.testing.assert_allclose(log_scale, [0.0, 0.3], atol=0.08)
