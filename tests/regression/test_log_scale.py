"""The log scale of residuals: its optimum, what it recovers, what it does not see."""

import numpy as np
import pytest

from kexpfam.regression import LogScaleSpec, fit_log_scale
from kexpfam.regression.log_scale import _fit_path, squared_distances
from tests.oracles.regression import slow_log_scale
from tests.tolerances import assert_close


def wedge(n, seed=0):
    """Residuals with log scale x on [−1, 1]."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, size=(n, 1))
    return x, np.exp(x[:, 0]) * rng.normal(size=n)


def test_every_penalty_reaches_the_optimum_of_a_general_minimiser():
    rng = np.random.default_rng(4)
    F = rng.normal(size=(50, 6))
    squares = np.exp(F[:, 0]) * rng.chisquare(1, size=50) + 1e-3
    weights = rng.uniform(0.5, 2.0, 50)
    spec = LogScaleSpec()
    taus = np.array(spec.penalties)
    intercepts, coefficients, *_ = _fit_path(F, squares, weights, taus, spec)
    for j, tau in enumerate(taus):
        expected = slow_log_scale(F, squares, weights, tau)
        found = np.append(intercepts[j], coefficients[:, j])
        # Steps end when they gain 1e-4 nats, a hundredth of a standard error.
        assert_close(found, expected, 0.01, scale=1.0)


def test_weights_count_rows():
    x, r = wedge(40)
    F = np.column_stack([x, x**2])
    weights = np.where(np.arange(40) < 10, 3.0, 1.0)
    repeated = np.repeat(np.arange(40), weights.astype(int))
    rest = np.array([0.5, 8.0]), LogScaleSpec()
    one = _fit_path(F, r**2, weights, *rest)
    other = _fit_path(F[repeated], r[repeated] ** 2, np.ones(len(repeated)), *rest)
    for found, expected in zip(one, other, strict=True):
        assert_close(found, expected, 1e-9)


def test_a_known_scale_is_recovered():
    x, r = wedge(2000)
    fit = fit_log_scale(x, 0 * r, r, np.ones(2000), np.random.default_rng(0))
    grid = np.linspace(-0.9, 0.9, 7)[:, None]
    found = fit.model.at(grid, np.zeros(7))
    # A straight line would have a standard error of 0.03; bumps cost some more.
    assert_close(found, grid[:, 0], 0.15, scale=1.0)
    assert np.corrcoef(fit.held_out, x[:, 0])[0, 1] > 0.97


def test_a_constant_scale_stays_constant():
    rng = np.random.default_rng(1)
    X, r = rng.normal(size=(80, 4)), 3.0 * rng.normal(size=80)
    fit = fit_log_scale(X, 0 * r, r, np.ones(80), rng)
    assert np.ptp(fit.values) < 0.5
    assert abs(fit.values.mean() - np.log(3.0)) < 0.3


def test_the_scale_can_follow_the_mean():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(500, 3))
    mean = np.sin(3 * X[:, 0]) * X[:, 1]
    r = np.exp(0.8 * mean) * rng.normal(size=500)
    fit = fit_log_scale(X, mean, r, np.ones(500), rng)
    assert np.corrcoef(fit.held_out, mean)[0, 1] > 0.9


@pytest.mark.parametrize("penalty", [0.5, 8.0])
def test_held_out_values_do_not_depend_on_the_own_residual(penalty):
    x, r = wedge(40)

    def held_out(residuals):
        rng = np.random.default_rng(7)
        spec = LogScaleSpec(penalties=(penalty,))
        return fit_log_scale(
            x, x[:, 0], residuals, np.ones(40), rng, spec=spec
        ).held_out

    before = held_out(r)
    folds = np.random.default_rng(7).permutation(40) % 5
    for i in (0, 13):
        changed = r.copy()
        changed[i] = 50.0
        after = held_out(changed)
        same = folds == folds[i]
        np.testing.assert_array_equal(after[same], before[same])
        assert np.all(after[~same] != before[~same])


def test_the_scale_does_not_leave_its_range_by_more_than_the_margin():
    x, r = wedge(200)
    fit = fit_log_scale(x, x[:, 0], r, np.ones(200), np.random.default_rng(0))
    far = fit.model.at(np.array([[1e9], [-1e9]]), np.array([1e9, -1e9]))
    assert far.max() <= fit.held_out.max() + 0.5
    assert far.min() >= fit.held_out.min() - 0.5
    assert far.max() > fit.values.max() - 1e-12


@pytest.mark.parametrize("zeros", [1, 15, 30])
def test_residuals_of_zero_are_safe(zeros):
    x, r = wedge(30)
    r[:zeros] = 0.0
    fit = fit_log_scale(x, x[:, 0], r, np.ones(30), np.random.default_rng(0))
    for values in (fit.values, fit.held_out):
        assert np.all(np.isfinite(np.exp(values)))


def test_an_enormous_residual_is_safe():
    x, r = wedge(30)
    r[3] = 1e8
    fit = fit_log_scale(x, x[:, 0], r, np.ones(30), np.random.default_rng(0))
    assert np.all(np.isfinite(np.exp(2 * fit.held_out)))


def test_distances_equal_loops():
    rng = np.random.default_rng(0)
    A, B = rng.normal(size=(4, 3)), rng.normal(size=(5, 3))
    expected = [[np.sum((a - b) ** 2) for b in B] for a in A]
    assert_close(squared_distances(A, B), expected)
    assert squared_distances(A, A).min() >= 0.0


def test_many_rows_are_given_the_scale_that_some_of_them_teach():
    X, mean, residuals = np.random.default_rng(7).normal(size=(3, 300))
    X = X[:, None]

    def fit(r):
        rng = np.random.default_rng(2)
        spec = LogScaleSpec(most_rows=100)
        return fit_log_scale(X, mean, r, np.ones(300), rng, spec=spec)

    whole = fit(residuals)
    taught = np.sort(np.random.default_rng(2).permutation(300)[:100])
    others = np.setdiff1d(np.arange(300), taught)
    assert_close(whole.held_out[others], whole.model.at(X, mean)[others])
    assert np.all(whole.held_out[taught] != whole.values[taught])
    # Held out means: no residual of another row has been looked at.
    changed = residuals.copy()
    changed[others] = 1e3
    np.testing.assert_array_equal(fit(changed).held_out, whole.held_out)


def test_chunks_of_rows_do_not_show():
    X, mean, residuals = np.random.default_rng(8).normal(size=(3, 100))
    X = X[:, None]
    rng, spec = np.random.default_rng(2), LogScaleSpec(penalties=(1.0,))
    model = fit_log_scale(X, mean, residuals, np.ones(100), rng, spec=spec).model
    whole = model.at(X, mean)
    assert_close(model.at(X, mean, 7 * len(model.coefficients)), whole)
    assert model.at(X[:0], mean[:0]).shape == (0,)
