"""The log posterior of the hyperparameters, its gradient, and its maximum."""

import numpy as np
import pytest
from scipy.optimize import minimize

from kexpfam.errors import IllConditionedError
from kexpfam.regression import GaussianProcessSpec, Hyperparameters
from kexpfam.regression.process import (
    NegativeLogPosterior,
    factorise,
    maximise_log_posterior,
)
from tests.oracles.regression import slow_log_posterior
from tests.tolerances import DIFFERENCES, SOLVE, assert_close


def prior_of(p):
    """Prior means of θ, and the bounds of the search."""
    mean, _, bounds = GaussianProcessSpec().prior(p)
    return mean, bounds


@pytest.fixture
def rows():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(30, 3))
    y = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + 0.3 * rng.normal(size=30)
    return X, y, np.exp(rng.normal(size=30))


def some_thetas(p):
    """Points all over the region that is searched."""
    rng = np.random.default_rng(5)
    mean, bounds = prior_of(p)
    low, high = bounds.T
    middle = rng.uniform(0.6 * low + 0.4 * high, 0.2 * low + 0.8 * high, (6, 3 + p))
    return [mean, *middle]


@pytest.mark.parametrize("theta", some_thetas(3))
def test_the_value_equals_the_oracle(rows, theta):
    value, _ = NegativeLogPosterior(*rows)(theta)
    expected = -slow_log_posterior(Hyperparameters.from_logs(theta), *rows)
    assert_close(value, expected, SOLVE)


@pytest.mark.parametrize("theta", some_thetas(3))
def test_the_gradient_equals_differences(rows, theta):
    posterior = NegativeLogPosterior(*rows)
    _, gradient = posterior(theta)
    step = 1e-5
    differences = [
        (posterior(theta + e)[0] - posterior(theta - e)[0]) / (2 * step)
        for e in step * np.eye(len(theta))
    ]
    assert_close(gradient, differences, DIFFERENCES)


def test_an_evaluation_does_not_depend_on_the_one_before(rows):
    posterior = NegativeLogPosterior(*rows)
    one, other = some_thetas(3)[:2]
    first = posterior(one)
    posterior(other)
    again = posterior(one)
    assert first[0] == again[0]
    np.testing.assert_array_equal(first[1], again[1])


def test_the_search_ends_near_the_maximum(rows):
    X, y, factors = rows
    found = maximise_log_posterior(X, y, factors, prior_of(3)[0], 40)
    posterior = NegativeLogPosterior(X, y, factors)
    options = {"ftol": 1e-15, "gtol": 1e-8, "maxiter": 1000}
    best = minimize(
        posterior,
        found,
        jac=True,
        method="L-BFGS-B",
        bounds=prior_of(3)[1],
        options=options,
    )
    # A hundredth of a nat is nothing that data could show.
    assert posterior(found)[0] < best.fun + 0.01


def test_no_iterations_return_the_start_inside_the_bounds(rows):
    start = prior_of(3)[0] + np.array([0.5, -100.0, 0.0, 0.1, 0.2, 100.0])
    found = maximise_log_posterior(*rows, start, 0)
    low, high = prior_of(3)[1].T
    np.testing.assert_array_equal(found, np.clip(start, low, high))
    assert found[1] == low[1]
    assert found[5] == high[5]


def test_without_information_the_prior_decides():
    # x is constant, so the lengthscale changes nothing but its prior.
    found = maximise_log_posterior(
        np.zeros((20, 1)),
        np.random.default_rng(0).normal(size=20),
        np.ones(20),
        prior_of(1)[0] + 1.0,
        100,
    )
    # to the square root of the tolerance in nats
    assert abs(found[3] - np.log(2.0)) < 0.1
    assert abs(found[1] - np.log(0.5)) < 0.2


def test_hyperparameters_survive_their_logarithms():
    theta = some_thetas(4)[1]
    assert_close(Hyperparameters.from_logs(theta).logs(), theta)


def test_a_matrix_that_is_not_positive_definite_is_reported():
    with pytest.raises(IllConditionedError, match="covariance of a Gaussian process"):
        factorise(-np.eye(3), np.zeros(3))
