"""Gaussian process regression against explicit inverses and explicit refits."""

import numpy as np
import pytest

from kexpfam.regression import (
    GaussianProcess,
    GaussianProcessSpec,
    Hyperparameters,
    InducingProcess,
    fit_gaussian_process,
    process_given,
)
from kexpfam.regression.process import covariance, maximise_log_posterior
from tests.oracles.regression import SMALLEST_NOISE, slow_prediction
from tests.regression.cases import awkward_rows
from tests.simulations import waves
from tests.tolerances import SOLVE, assert_close

H = Hyperparameters(0.7, 0.3, 0.15, np.array([0.8, 2.5]))


@pytest.fixture
def rows():
    rng = np.random.default_rng(11)
    X = rng.normal([3.0, -1.0], [2.0, 0.1], size=(25, 2))
    y = 5.0 + np.sin(X[:, 0]) + 0.2 * rng.normal(size=25)
    return X, y


def prior(p):
    return GaussianProcessSpec().prior(p)[0]


def standard(process, X, y):
    return process.x_scaling.forward(X), process.y_scaling.forward(y[:, None])[:, 0]


@pytest.mark.parametrize("varying", [False, True], ids=["constant", "varying"])
@pytest.mark.parametrize("weighted", [False, True], ids=["equal", "weighted"])
def test_leave_one_out_equals_a_fit_without_the_row(rows, varying, weighted):
    X, y = rows
    rng = np.random.default_rng(1)
    log_scale = 0.6 * rng.normal(size=25) if varying else None
    weights = rng.uniform(0.3, 3.0, 25) if weighted else None
    fit = fit_gaussian_process(
        X, y, weights=weights, log_scale=log_scale, start=H, max_iterations=0
    )
    Z, u = standard(fit.process, X, y)
    noise = 0.15 * np.ones(25)
    noise = noise if log_scale is None else noise * np.exp(2 * log_scale)
    noise = noise if weights is None else noise / weights
    assert_close(fit.process.noise, noise + SMALLEST_NOISE)
    center, scale = fit.process.y_scaling.center[0], fit.process.y_scaling.scale[0]
    for i in range(25):
        rest = np.arange(25) != i
        mean, variance = slow_prediction(H, Z[rest], u[rest], noise[rest], Z[i : i + 1])
        assert_close(fit.held_out_mean[i], center + scale * mean[0], SOLVE)
        assert_close(fit.held_out_variance[i], scale**2 * variance[0], SOLVE)


def test_predictions_equal_the_oracle(rows):
    X, y = rows
    process = fit_gaussian_process(X, y, start=H, max_iterations=0).process
    new = np.array([[2.0, -1.1], [9.0, -0.5], [3.0, 3.0]])
    Z, u = standard(process, X, y)
    mean, variance = slow_prediction(
        H, Z, u, np.full(25, 0.15), process.x_scaling.forward(new)
    )
    center, scale = process.y_scaling.center[0], process.y_scaling.scale[0]
    found = process.predict(new)
    assert_close(found[0], center + scale * mean, SOLVE)
    assert_close(found[1], scale**2 * variance, SOLVE)
    assert_close(process.noise_variance, scale**2 * 0.15)


@pytest.fixture(scope="module")
def many():
    """A process on as many rows as have their variance reduced in few directions."""
    rng = np.random.default_rng(4)
    X = rng.uniform(-1, 1, size=(1000, 2))
    y = np.sin(3 * X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size=1000)
    weights = rng.uniform(0.5, 2.0, size=1000)
    fit = fit_gaussian_process(X, y, weights=weights, start=H, max_iterations=0)
    return fit.process, standard(fit.process, X, y)[1]


def test_variances_in_few_directions_equal_those_by_explicit_solution(many):
    process, u = many
    assert len(process._reduced.directions) < 300
    K = covariance(H, process.X, process.X) + np.diag(process.noise)
    near = np.random.default_rng(5).uniform(-1, 1, size=(200, 2))
    # Anywhere the relative error is below the trace of what the directions leave of the
    # rows' covariance in units of their noise; near the rows it is far smaller.
    anywhere = 1000 * GaussianProcessSpec().reduced_tolerance
    for new, most in ((near, 1e-7), (2.5 * near, anywhere), (40 * near, anywhere)):
        Z = process.x_scaling.forward(new)
        k = covariance(H, Z, process.X)
        mean = k @ np.linalg.solve(K, u)
        variance = H.prior_variance(Z) - np.sum(k * np.linalg.solve(K, k.T).T, axis=1)
        found = process.standard_predict(Z)
        assert_close(found[0], mean, SOLVE)
        error = (found[1] - variance) / (variance + process.noise.min())
        # Never too small, but for covariances that are found from those of few rows.
        assert error.min() > -1e-7
        assert np.all(error < most)


def test_rough_functions_keep_their_exact_variance():
    rng = np.random.default_rng(6)
    X, y = rng.uniform(-1, 1, size=(1000, 2)), rng.normal(size=1000)
    rough = Hyperparameters(1.0, 0.1, 1e-3, np.full(2, 0.05))
    process = fit_gaussian_process(X, y, start=rough, max_iterations=0).process
    assert process._reduced is None


@pytest.mark.parametrize("size", [25, 1000])
def test_the_mean_alone_is_that_of_a_prediction(rows, many, size):
    X, y = rows
    process = fit_gaussian_process(X, y).process if size == 25 else many[0]
    new = X + 0.1
    assert_close(process.mean(new), process.predict(new)[0], SOLVE)


def test_the_fitted_mean_is_the_prediction_of_the_training_rows(rows):
    X, y = rows
    fit = fit_gaussian_process(X, y)
    assert_close(fit.fitted_mean, fit.process.predict(X)[0])


def test_the_factor_is_found_again_from_the_fields(rows):
    X, y = rows
    process = fit_gaussian_process(X, y).process
    fields = {name: getattr(process, name) for name in process.__dataclass_fields__}
    again = GaussianProcess(**fields)
    assert "_factor" not in vars(again)
    for one, other in zip(process.predict(X), again.predict(X), strict=True):
        assert_close(one, other)


def test_chunks_of_new_rows_do_not_show(rows):
    X, y = rows
    process = fit_gaussian_process(X, y).process
    whole = process.predict(X)
    center, scale = process.y_scaling.center, process.y_scaling.scale
    mean, variance = process.standard_predict(process.x_scaling.forward(X), 3 * 25)
    assert_close(center + scale * mean, whole[0])
    assert_close(scale**2 * variance, whole[1])


def test_units_of_x_and_y_do_not_matter(rows):
    X, y = rows
    one = fit_gaussian_process(X, y)
    other = fit_gaussian_process(X * [1e3, 1e-4] + 7.0, 50.0 - 20.0 * y)
    # The searches end at the same point up to rounding that they amplify.
    assert_close(
        other.process.lengthscales, one.process.lengthscales * [1e3, 1e-4], 1e-4
    )
    assert_close(other.held_out_mean, 50.0 - 20.0 * one.held_out_mean, 1e-4)
    assert_close(other.held_out_variance, 400.0 * one.held_out_variance, 1e-4)


def test_a_weight_of_two_predicts_like_two_equal_rows(rows):
    X, y = rows
    weights = np.where(np.arange(25) % 3 == 0, 2.0, 1.0)
    twice = np.repeat(np.arange(25), weights.astype(int))
    one = fit_gaussian_process(X, y, weights=weights, start=H, max_iterations=0)
    other = fit_gaussian_process(X[twice], y[twice], start=H, max_iterations=0)
    new = np.array([[2.0, -1.1], [9.0, -0.5]])
    for a, b in zip(one.process.predict(new), other.process.predict(new), strict=True):
        assert_close(a, b, SOLVE)


def test_a_row_without_weight_is_predicted_like_a_new_one(rows):
    X, y = rows
    y = y.copy()
    y[4] = 100.0
    weights = np.where(np.arange(25) == 4, 0.0, 1.0)
    fit = fit_gaussian_process(X, y, weights=weights)
    rest = weights > 0
    without = fit_gaussian_process(X[rest], y[rest])
    mean, variance = without.process.predict(X[4:5])
    # It still counts a millionth, and is a hundred deviations away.
    assert_close(fit.held_out_mean[4], mean[0], 0.01)
    assert_close(fit.held_out_variance[4], variance[0], 0.05)


def test_irrelevant_columns_get_long_lengthscales():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(150, 3))
    y = np.sin(3 * X[:, 1]) + 0.1 * rng.normal(size=150)
    ell = fit_gaussian_process(X, y).process.lengthscales
    assert ell[1] < 1.5
    assert min(ell[0], ell[2]) > 3.0


def test_many_rows_learn_hyperparameters_from_some_and_predict_from_all():
    X, y = waves(450, seed=8, noise=0.2, half_width=2.0)
    fit = fit_gaussian_process(X, y)
    h = fit.process.hyperparameters
    Z, u = standard(fit.process, X, y)
    theta, order = prior(1), np.random.default_rng(20180611).permutation(450)
    for rows in (order[:120], order[:400]):
        theta = maximise_log_posterior(Z[rows], u[rows], np.ones(len(rows)), theta, 40)
    np.testing.assert_array_equal(h.logs(), np.log(np.exp(theta)))
    rest = np.arange(450) != 449
    noise = np.full(449, h.noise_variance)
    mean, variance = slow_prediction(h, Z[rest], u[rest], noise, Z[449:])
    center, scale = fit.process.y_scaling.center[0], fit.process.y_scaling.scale[0]
    assert_close(fit.held_out_mean[449], center + scale * mean[0], SOLVE)
    assert_close(fit.held_out_variance[449], scale**2 * variance[0], SOLVE)
    again = fit_gaussian_process(X, y)
    np.testing.assert_array_equal(again.held_out_mean, fit.held_out_mean)


def test_a_search_can_go_on_where_another_ended(rows):
    X, y = rows
    first = fit_gaussian_process(X, y).process.hyperparameters
    process = fit_gaussian_process(X[1:], y[1:], start=first, max_iterations=7).process
    Z, u = standard(process, X[1:], y[1:])
    theta = maximise_log_posterior(Z, u, np.ones(24), first.logs(), 7)
    assert_close(process.hyperparameters.logs(), theta)


@pytest.mark.parametrize(("n", "p"), [(4, 1), (4, 11), (12, 50), (60, 50)], ids=str)
def test_few_rows_and_many_columns_are_safe(n, p):
    rng = np.random.default_rng(n + p)
    X, y = rng.normal(size=(n, p)), rng.normal(size=n)
    fit = fit_gaussian_process(X, y)
    assert np.all(np.isfinite(fit.held_out_mean))
    assert np.all(fit.held_out_variance > 0)


@pytest.mark.parametrize(
    ("most_exact_rows", "kind"), [(80, GaussianProcess), (20, InducingProcess)]
)
def test_repeated_rows_constant_columns_and_outliers_are_safe(most_exact_rows, kind):
    X, responses = awkward_rows()
    spec = GaussianProcessSpec(most_exact_rows=most_exact_rows)
    for y in responses:
        fit = fit_gaussian_process(X, y, spec=spec)
        assert isinstance(fit.process, kind)
        assert np.all(np.isfinite(fit.held_out_mean))
        assert np.all(fit.held_out_variance > 0)
        assert np.all(np.isfinite(fit.process.lengthscales))
        mean, variance = fit.process.predict(np.array([[1e300, 0.0, -1e200]]))
        assert np.all(np.isfinite(mean))
        assert np.all(variance > 0)


@pytest.mark.parametrize("most_exact_rows", [80, 20], ids=["exact", "inducing"])
def test_a_process_alone_is_that_of_a_fit_without_a_search(rows, most_exact_rows):
    X, y = rows
    spec = GaussianProcessSpec(most_exact_rows=most_exact_rows)
    weights = np.linspace(0.5, 2.0, len(y))
    fit = fit_gaussian_process(
        X, y, weights=weights, start=H, max_iterations=0, spec=spec
    )
    alone = process_given(X, y, weights, H, spec)
    for there, expected in zip(alone.predict(X), fit.process.predict(X), strict=True):
        np.testing.assert_array_equal(there, expected)
    assert_close(fit.fitted_mean, alone.mean(X))


def test_predictions_far_away_are_finite_and_uncertain(rows):
    X, y = rows
    process = fit_gaussian_process(X, y).process
    mean, variance = process.predict(np.array([[1e300, 0.0], [-1e300, 1e200]]))
    assert np.all(np.isfinite(mean))
    assert np.all(np.isfinite(variance))
    assert np.all(variance > process.predict(X)[1].max())


def test_a_smooth_curve_without_noise_is_learned():
    x = np.linspace(0, 3, 40)[:, None]
    fit = fit_gaussian_process(x, np.sin(2 * x[:, 0]))
    assert np.abs(fit.held_out_mean - np.sin(2 * x[:, 0]))[1:-1].max() < 0.01
