"""Pinball loss with a ridge penalty: against quadratic programs and scikit-learn."""

import numpy as np
import pytest
from scipy import optimize
from sklearn.isotonic import isotonic_regression
from sklearn.linear_model import QuantileRegressor

from kexpfam.baselines.pinball import Effort, PinballRidge, isotonic

LEVELS = np.array([0.1, 0.5, 0.8])
EXACT = Effort(tolerance=1e-9, most_steps=200_000)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(12, 3))
    shares = rng.uniform(0.5, 2.0, size=12)
    return features, features[:, 0] + rng.normal(size=12), shares / shares.sum()


def loss(f, y, shares, levels, coefficients, lam):
    """What is minimised, written as in the paper."""
    total = 0.0
    for t, level in enumerate(levels):
        for i in range(len(y)):
            over = y[i] - f[i, t]
            total += shares[i] * (level * over if over > 0 else (level - 1) * over)
        total += 0.5 * lam * float(coefficients[:, t] @ coefficients[:, t])
    return total


def program(features, y, shares, levels, lam):
    """The same as a quadratic program with a slack for each row and level."""
    (n, r), t = features.shape, len(levels)

    def parts(v):
        return v[: r * t].reshape(r, t), v[r * t : r * t + t], v[-n * t :].reshape(n, t)

    def f(v):
        w, b, _ = parts(v)
        return features @ w + b

    def value(v):
        w, _, slack = parts(v)
        return shares @ slack.sum(axis=1) + 0.5 * lam * np.sum(w**2)

    def above(v):
        over, slack = y[:, None] - f(v), parts(v)[2]
        high, low = slack - levels * over, slack - (levels - 1) * over
        return np.concatenate([high, low, np.diff(f(v), axis=1)], axis=1).ravel()

    start = np.zeros(r * t + t + n * t)
    start[r * t : r * t + t] = np.quantile(y, levels)
    start[-n * t :] = 5.0
    found = optimize.minimize(
        value,
        start,
        constraints={"type": "ineq", "fun": above},
        method="SLSQP",
        options={"maxiter": 1000, "ftol": 1e-12},
    )
    assert found.success
    return f(found.x), found.fun


@pytest.mark.parametrize("lam", [0.01, 0.3])
def test_functions_are_those_of_a_quadratic_program(rows, lam):
    features, y, shares = rows
    (found,) = PinballRidge(*rows).path(LEVELS, np.array([lam]), EXACT)
    assert found.converged
    f, value = program(features, y, shares, LEVELS, lam)
    own = loss(found.at(features), y, shares, LEVELS, found.coefficients, lam)
    assert own == pytest.approx(value, abs=1e-6)
    np.testing.assert_allclose(found.at(features), f, atol=1e-3)


def test_without_a_penalty_it_is_the_linear_regression_of_scikit_learn(rows):
    features, y, shares = rows
    for level in LEVELS:  # one by one: there they may cross
        (found,) = PinballRidge(*rows).path(np.array([level]), np.array([1e-9]), EXACT)
        other = QuantileRegressor(quantile=level, alpha=0.0)
        other.fit(features, y, sample_weight=shares)
        line = other.predict(features)[:, None]
        expected = loss(line, y, shares, [level], np.zeros((1, 1)), 0.0)
        own = loss(found.at(features), y, shares, [level], np.zeros((1, 1)), 0.0)
        assert own == pytest.approx(expected, abs=1e-5)


def test_with_a_large_penalty_quantiles_are_those_of_y(rows):
    features, y, _ = rows
    equal = PinballRidge(features, y, np.full(12, 1 / 12))
    (found,) = equal.path(np.array([0.3]), np.array([1e6]))
    # The fourth of twelve: 0.3 of the mass is reached there.
    np.testing.assert_allclose(found.intercepts, np.sort(y)[3], atol=1e-4)
    np.testing.assert_allclose(found.coefficients, 0.0, atol=1e-5)


def test_a_path_is_separate_fits(rows):
    problem = PinballRidge(*rows)
    lams = np.array([1.0, 0.1, 0.01])
    for lam, found in zip(lams, problem.path(LEVELS, lams), strict=True):
        (alone,) = problem.path(LEVELS, np.array([lam]))
        np.testing.assert_allclose(found.at(rows[0]), alone.at(rows[0]), atol=1e-4)


def test_functions_do_not_cross_at_the_rows():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(40, 1))
    features = np.hstack([x, x**2, np.sin(5 * x), np.cos(5 * x)])
    y = rng.normal(size=40)
    levels = np.array([0.4, 0.45, 0.5, 0.55])
    shares = np.full(40, 1 / 40)
    problem = PinballRidge(features, y, shares)
    (found,) = problem.path(levels, np.array([1e-4]))
    assert np.diff(found.at(features), axis=1).min() > -1e-4
    alone = [problem.path(levels[[t]], np.array([1e-4]))[0] for t in range(4)]
    crossing = np.hstack([one.at(features) for one in alone])
    assert np.diff(crossing, axis=1).min() < -1e-2


def test_a_limit_on_steps_is_told(rows):
    few = Effort(tolerance=1e-12, most_steps=3)
    (found,) = PinballRidge(*rows).path(LEVELS, np.array([0.1]), few)
    assert (found.steps, found.converged) == (3, False)


def test_isotonic_rows_are_those_of_scikit_learn():
    values = np.random.default_rng(0).normal(size=(50, 7))
    expected = np.array([isotonic_regression(row) for row in values])
    np.testing.assert_allclose(isotonic(values), expected, atol=1e-12)
