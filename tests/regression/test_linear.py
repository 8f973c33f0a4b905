"""Linear mean and log scale against a general minimiser and explicit folds."""

import numpy as np
import pytest

from kexpfam.regression import fit_linear
from kexpfam.regression.linear import LinearSpec, _fit_problems, _grams
from tests.oracles.regression import slow_linear
from tests.regression.cases import engel_like
from tests.tolerances import assert_close


@pytest.mark.parametrize(("rho", "tau"), [(0.1, 0.3), (1.0, 3.0), (10.0, 1e4)])
def test_a_problem_reaches_the_optimum_of_a_general_minimiser(rho, tau):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 2))
    y = X[:, 0] + np.exp(0.5 * X[:, 1]) * rng.normal(size=60)
    weights = rng.uniform(0.5, 2.0, 60)
    D = np.column_stack([np.ones(60), X])
    b, c = _fit_problems(D, y, weights[None], np.array([rho]), np.array([tau]))
    expected_b, expected_c, _ = slow_linear(X, y, weights, rho, tau)
    # Rounds end when they gain a thousandth of a nat: far below a standard error.
    assert_close(b[0], expected_b, 0.02, scale=1.0)
    assert_close(c[0], expected_c, 0.02, scale=1.0)


def test_held_out_values_equal_fits_without_the_fold():
    x, y = engel_like(80)
    fit = fit_linear(x, y, np.ones(80), np.random.default_rng(4))
    folds = np.random.default_rng(4).permutation(80) % 5
    z, u = (x - x.mean()) / x.std(), (y - y.mean()) / y.std()
    for k in range(5):
        out = folds == k
        b, c, _ = slow_linear(z[~out], u[~out], np.ones((~out).sum()), *fit.penalties)
        location = y.mean() + y.std() * (b[0] + b[1] * z[out, 0])
        values = c[0] + c[1] * z[~out, 0]
        log_scale = np.clip(
            c[0] + c[1] * z[out, 0], values.min() - 0.5, values.max() + 0.5
        )
        assert_close(fit.held_out_location[out], location, 0.01)
        expected = np.log(y.std()) + log_scale
        assert_close(fit.held_out_log_scale[out], expected, 0.02, scale=1.0)


def test_a_known_line_and_width_are_recovered():
    x, y = engel_like(2000)
    fit = fit_linear(x, y, np.ones(2000), np.random.default_rng(0))
    location, log_scale = fit.model.at(np.array([[0.5], [1.5]]))
    # about three standard errors
    assert_close(location, [3.5, 6.5], 0.02)
    assert_close(log_scale, np.log(0.3) + np.array([0.5, 1.5]), 0.12, scale=1.0)


def test_a_constant_width_stays_constant():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(100, 3))
    y = X @ [1.0, 2.0, 0.0] + rng.normal(size=100)
    fit = fit_linear(X, y, np.ones(100), rng)
    _, log_scale = fit.model.at(X)
    assert np.ptp(log_scale) < 0.6


def test_weights_count_rows():
    x, y = engel_like(40)
    z, u = (x - x.mean()) / x.std(), (y - y.mean()) / y.std()
    D = np.column_stack([np.ones(40), z])
    weights = np.where(np.arange(40) < 10, 3.0, 1.0)
    repeated = np.repeat(np.arange(40), weights.astype(int))
    rho, tau = np.array([1.0]), np.array([3.0])
    one = _fit_problems(D, u, weights[None], rho, tau)
    other = _fit_problems(D[repeated], u[repeated], np.ones((1, 60)), rho, tau)
    assert_close(one[0], other[0], 1e-8)
    assert_close(one[1], other[1], 1e-8)


def test_few_rows_get_ten_folds_and_many_five():
    for n, n_folds in ((60, 10), (61, 5)):
        x, y = engel_like(n)
        fit = fit_linear(x, y, np.ones(n), np.random.default_rng(1))
        folds = np.random.default_rng(1).permutation(n) % n_folds
        # Locations of one fold lie on one line.
        for k in range(n_folds):
            rows = folds == k
            design = np.column_stack([np.ones(rows.sum()), x[rows]])
            line = np.linalg.lstsq(design, fit.held_out_location[rows])[0]
            assert_close(design @ line, fit.held_out_location[rows], 1e-9)


def test_products_in_chunks_equal_loops():
    rng = np.random.default_rng(0)
    D, W = rng.normal(size=(20, 3)), rng.uniform(size=(4, 20))
    expected = np.array([D.T @ np.diag(w) @ D for w in W])
    assert_close(_grams(D, W), expected)
    assert_close(_grams(D, W, 7 * 9), expected)


@pytest.mark.parametrize(("n", "p"), [(4, 1), (4, 11), (30, 50)])
def test_few_rows_and_many_columns_are_safe(n, p):
    rng = np.random.default_rng(n)
    X = np.column_stack([rng.normal(size=(n, p)), np.ones(n)])
    fit = fit_linear(X, rng.normal(size=n), np.ones(n), rng)
    location, log_scale = fit.model.at(1e300 * np.ones((1, p + 1)))
    for values in (fit.held_out_location, fit.held_out_log_scale, location, log_scale):
        assert np.all(np.isfinite(values))


@pytest.mark.parametrize("y", [np.linspace(0, 1, 20), np.full(20, 2.0)])
def test_exact_lines_are_safe(y):
    x = np.linspace(0, 1, 20)[:, None]
    fit = fit_linear(x, y, np.ones(20), np.random.default_rng(0))
    assert np.all(np.isfinite(fit.held_out_log_scale))
    assert_close(fit.held_out_location, y, 0.05)


def test_weights_that_leave_one_fold_are_safe():
    x, y = engel_like(50)
    weights = np.zeros(50)
    weights[np.random.default_rng(2).permutation(50) % 10 == 0] = 1.0
    fit = fit_linear(x, y, weights, np.random.default_rng(2))
    assert np.all(np.isfinite(fit.held_out_log_scale))


def test_rows_without_weight_may_be_far_away():
    # An exponential of their log scale overflowed although they do not count.
    rng = np.random.default_rng(23)
    X = rng.normal(size=(30, 2))
    y = X[:, 0].copy()
    weights = np.where(rng.random(30) < 0.5, 1.0, 0.0)
    X[:, 1] = rng.standard_cauchy(30) ** 3
    fit = fit_linear(X, y, weights, rng)
    assert np.all(np.isfinite(fit.held_out_location))
    assert np.all(np.isfinite(np.exp(fit.held_out_log_scale)))


@pytest.mark.parametrize("scale", [0.0, 0.6])
def test_many_columns_have_the_optima_of_few(scale):
    rng = np.random.default_rng(6)
    X = rng.normal(size=(300, 6))
    y = X[:, 0] + np.exp(scale * X[:, 1]) * rng.normal(size=300)
    weights = rng.uniform(0.5, 2.0, 300)
    exact, found = (
        fit_linear(
            X, y, weights, np.random.default_rng(0), LinearSpec(many_columns=many)
        )
        for many in (60, 1)
    )
    assert found.penalties == exact.penalties
    # Rounds end when none gains a thousandth of a nat, one fold after another here.
    for name in ("held_out_location", "held_out_log_scale"):
        assert_close(getattr(found, name), getattr(exact, name), 0.01, scale=1.0)
    assert_close(found.model.location, exact.model.location, 0.01, scale=1.0)
