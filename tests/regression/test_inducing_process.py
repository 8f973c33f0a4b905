"""Processes with inducing points against matrices between all rows, and refits."""

import copy
import dataclasses

import numpy as np
import pytest

from kexpfam import _linalg
from kexpfam._linalg import BLOCK_BYTES
from kexpfam.regression import (
    GaussianProcess,
    GaussianProcessSpec,
    Hyperparameters,
    InducingProcess,
    InducingSpec,
    Scaling,
    fit_gaussian_process,
)
from kexpfam.regression.inducing_process import _prior_factor, _sums, condition_on_sums
from tests.oracles.regression import SMALLEST_NOISE, slow_inducing_prediction
from tests.tolerances import ROUNDING, SOLVE, assert_close

H = Hyperparameters(0.7, 0.3, 0.15, np.array([0.8, 2.5]))
AS_IS = Scaling(np.zeros(2), np.ones(2)), Scaling(np.zeros(1), np.ones(1))


def rows_of(n, seed=11):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    y = np.sin(2 * X[:, 0]) + 0.4 * rng.normal(size=n)
    return X, y, rng.uniform(0.05, 0.6, n)


# Far enough from each other for the oracle to invert their covariance.
GRID = np.stack(np.meshgrid(np.arange(-2.4, 2.5, 0.8), [-2.0, 0.0, 2.0]), 2)
GRID = GRID.reshape(-1, 2)


def conditioned(X, y, noise, points, **options):
    """The process, and leave-one-out means and variances."""
    process, _, *left_out = condition_on_sums(
        X, y, noise + SMALLEST_NOISE, H, *AS_IS, points, **options
    )
    return process, left_out


def above(rows):
    """Inducing points take over from so many rows on."""
    return GaussianProcessSpec(most_exact_rows=rows)


def test_left_out_predictions_equal_a_refit_without_the_row():
    X, y, noise = rows_of(30)
    points = X[:7]
    _, (left_out_mean, left_out_variance) = conditioned(X, y, noise, points)
    for i in range(30):
        rest = np.arange(30) != i
        mean, variance = slow_inducing_prediction(
            H, points, X[rest], y[rest], noise[rest], X[i : i + 1]
        )
        assert_close(left_out_mean[i], mean[0], SOLVE)
        assert_close(left_out_variance[i], variance[0], SOLVE)


def test_means_equal_the_oracle():
    X, y, noise = rows_of(30)
    points, new = X[:7] + 0.1, np.array([[0.3, -1.0], [2.0, 2.0], [-9.0, 0.5]])
    process, _ = conditioned(X, y, noise, points)
    mean, _ = slow_inducing_prediction(H, points, X, y, noise, new)
    assert_close(process.predict(new)[0], mean, SOLVE)


def test_variances_are_never_too_small_and_hardly_too_large():
    X, y, noise = rows_of(400)
    points = GRID
    process, _ = conditioned(X, y, noise, points)
    new = np.random.default_rng(1).normal(size=(300, 2)) * 1.5
    for at, judged in ((X, True), (new, False)):
        _, variance = process.predict(at)
        _, exact = slow_inducing_prediction(H, points, X, y, noise, at)
        assert np.all(variance >= exact - SOLVE)
        if judged:  # the promise is for the average of the rows, by their precision
            excess = np.average(variance - exact, weights=1.0 / noise)
            assert 0 < excess < 0.1 * np.average(exact, weights=1.0 / noise)
    assert len(process.directions) < len(GRID)  # else nothing was left out


def test_all_directions_give_the_exact_variance():
    spec = InducingSpec(share_of_noise=0.0, share_of_variance=0.0)
    X, y, noise = rows_of(40)
    points, new = X[:9], np.array([[0.3, -1.0], [2.0, 2.0], [-9.0, 0.5]])
    process, _ = conditioned(X, y, noise, points, spec=spec)
    _, exact = slow_inducing_prediction(H, points, X, y, noise, new)
    assert_close(process.predict(new)[1], exact, SOLVE)


def test_far_away_the_linear_part_keeps_its_exact_variance():
    X, y, noise = rows_of(400)
    points, far = GRID, np.array([[60.0, -80.0], [0.0, 500.0]])
    process, _ = conditioned(X, y, noise, points)
    mean, exact = slow_inducing_prediction(H, points, X, y, noise, far)
    assert_close(process.predict(far)[0], mean, SOLVE)
    assert_close(process.predict(far)[1], exact, SOLVE)


def test_with_all_rows_as_points_it_is_the_exact_process():
    X, y, _ = rows_of(30)
    exact = fit_gaussian_process(X, y, start=H, max_iterations=0)
    scalings = exact.process.x_scaling, exact.process.y_scaling
    Z, u = scalings[0].forward(X), scalings[1].forward(y[:, None])[:, 0]
    noise = np.full(30, 0.15 + SMALLEST_NOISE)
    process, fitted, mean, variance = condition_on_sums(Z, u, noise, H, *scalings, Z)
    new = X[:5] + 0.2
    # The covariance of the points alone, without noise, has a condition of 1e7 here.
    assert_close(process.predict(new)[0], exact.process.predict(new)[0], 1e-5)
    assert_close(fitted, exact.fitted_mean, 1e-5)
    assert_close(mean, exact.held_out_mean, 1e-5)
    assert_close(variance, exact.held_out_variance, 1e-5)


@pytest.mark.parametrize("size", [2000, 2001])
def test_it_takes_over_above_two_thousand_rows(size):
    x = np.linspace(0, 6, size)[:, None]
    y = np.sin(x[:, 0]) + np.random.default_rng(0).normal(0, 0.1, size)
    fit = fit_gaussian_process(x, y)
    expected = GaussianProcess if size == 2000 else InducingProcess
    assert type(fit.process) is expected
    # A dozen free coefficients leave deviations of 0.1·√(12/2000) = 0.008.
    assert np.sqrt(np.mean((fit.fitted_mean - np.sin(x[:, 0])) ** 2)) < 0.02
    # A variance from 400 rows has a deviation of seven percent.
    assert_close(fit.process.noise_variance, 0.01, 0.25)


def test_it_is_near_the_exact_process_and_honest_about_every_row():
    X, y, _ = rows_of(600)
    log_scale = 0.5 * X[:, 1]
    weights = np.random.default_rng(2).uniform(0.5, 2.0, 600)
    both = [
        fit_gaussian_process(
            X,
            y,
            weights=weights,
            log_scale=log_scale,
            start=H,
            max_iterations=0,
            spec=above(limit),
        )
        for limit in (600, 599)
    ]
    exact, inducing = both
    assert isinstance(inducing.process, InducingProcess)
    assert len(inducing.process.inducing) < 100
    # The points leave three coefficients' worth of variance unexplained, where some
    # forty describe the function; where it is, means differ by less than is unknown.
    squares = (inducing.held_out_mean - exact.held_out_mean) ** 2
    assert np.mean(squares / inducing.held_out_variance) < 0.1
    ratio = inducing.held_out_variance / exact.held_out_variance
    assert 1.0 < np.mean(ratio) < 1.5
    assert_close(inducing.process.noise_variance, exact.process.noise_variance)
    assert_close(inducing.process.lengthscales, exact.process.lengthscales)


def test_units_of_x_and_y_do_not_matter():
    X, y, _ = rows_of(300)
    options = {"start": H, "max_iterations": 0, "spec": above(100)}
    one = fit_gaussian_process(X, y, **options)
    other = fit_gaussian_process(X * [1e3, 1e-4] + 7.0, 50.0 - 20.0 * y, **options)
    assert_close(other.held_out_mean, 50.0 - 20.0 * one.held_out_mean, SOLVE)
    assert_close(other.held_out_variance, 400.0 * one.held_out_variance, SOLVE)


def test_a_row_without_weight_is_predicted_like_a_new_one():
    X, y, _ = rows_of(300)
    y[4] = 100.0
    weights = np.where(np.arange(300) == 4, 0.0, 1.0)
    options = {"start": H, "max_iterations": 0, "spec": above(100)}
    fit = fit_gaussian_process(X, y, weights=weights, **options)
    rest = weights > 0
    without = fit_gaussian_process(X[rest], y[rest], **options)
    mean, _ = without.process.predict(X[4:5])
    # It still counts a millionth, and is a hundred deviations away.
    assert_close(fit.held_out_mean[4], mean[0], 0.02, scale=1.0)


def test_threads_do_not_change_a_bit_of_the_sums(monkeypatch):
    X, y, noise = rows_of(500)
    found = []
    for threads in (1, 2, 5):
        monkeypatch.setattr(_linalg, "thread_count", lambda _, n=threads: n)
        process, _ = conditioned(X, y, noise, X[:20])
        found.append((process.coefficients, process.directions))
    for coefficients, directions in found[1:]:
        np.testing.assert_array_equal(coefficients, found[0][0])
        np.testing.assert_array_equal(directions, found[0][1])


def test_row_blocks_do_not_show():
    X, y, noise = rows_of(500)
    process, _ = conditioned(X, y, noise, X[:20])
    new = X[::3] + 0.1
    whole = process.predict(new)
    # Every row so often that each of the parts of a sum has several blocks.
    times = 8 * BLOCK_BYTES // (8 * 23 * 500) + 1
    many, often = np.tile(X, (times, 1)), (np.tile(y, times), np.tile(noise, times))
    W = _prior_factor(H, X[:20])
    A, b, unexplained = _sums(H, X[:20], W, X, y, noise)
    found = _sums(H, X[:20], W, many, *often)
    assert_close(found[0], times * A, SOLVE)
    assert_close(found[1], times * b, SOLVE)
    assert_close(found[2], np.tile(unexplained, times), ROUNDING)
    for left_out in conditioned(many, *often, X[:20])[1]:
        assert_close(left_out, np.tile(left_out[:500], times), SOLVE)
    for one, other in zip(
        whole, process.predict(np.tile(new, (times, 1))), strict=True
    ):
        assert_close(other, np.tile(one, times), ROUNDING)


@pytest.mark.parametrize("weight", [1e-9, 1.0, 1e9])
def test_extreme_weights_and_no_noise_are_safe(weight):
    x = np.linspace(0, 3, 90)[:, None]
    weights = np.where(np.arange(90) % 2, weight, 1.0)
    fit = fit_gaussian_process(x, np.sin(2 * x[:, 0]), weights=weights, spec=above(50))
    assert np.abs(fit.held_out_mean - np.sin(2 * x[:, 0]))[1:-1].max() < 0.02
    assert np.all(fit.held_out_variance > 0)


def test_without_columns_of_x_it_is_the_mean():
    y = np.random.default_rng(3).normal(5.0, 2.0, 200)
    fit = fit_gaussian_process(np.empty((200, 0)), y, spec=above(100))
    mean, variance = fit.process.predict(np.empty((2, 0)))
    assert_close(mean, np.full(2, y.mean()), 1e-3)
    assert np.all(variance > 0)
    assert np.all(np.isfinite(fit.held_out_mean))


def test_no_rows_are_predicted_as_none():
    X, y, noise = rows_of(40)
    process, _ = conditioned(X, y, noise, X[:5])
    assert [part.shape for part in process.predict(np.empty((0, 2)))] == [(0,), (0,)]


def test_directions_are_found_once_and_when_a_variance_is_asked_for():
    process, _ = conditioned(*rows_of(60), GRID)
    assert "directions" not in vars(process)
    first = process.predict(GRID)
    assert process.directions is process.directions
    again = dataclasses.replace(process).predict(GRID)
    np.testing.assert_array_equal(first, again)
    with pytest.raises(AttributeError, match="has no attribute 'direction'"):
        process.direction  # noqa: B018


def test_a_copy_made_before_a_variance_is_asked_for_gives_the_same():
    process, _ = conditioned(*rows_of(60), GRID)
    copied = copy.deepcopy(process)
    np.testing.assert_array_equal(copied.predict(GRID), process.predict(GRID))
