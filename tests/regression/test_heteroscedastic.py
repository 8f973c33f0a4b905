"""The process with noise of varying width, put together from its parts."""

import numpy as np
import pytest

from kexpfam.base_densities import GaussianBase, GaussianProcessBase
from kexpfam.regression import fit_gaussian_process, fit_heteroscedastic, fit_log_scale
from tests.tolerances import assert_close


@pytest.fixture
def rows():
    rng = np.random.default_rng(21)
    x = rng.uniform(-1, 1, size=(120, 1))
    return x, np.sin(3 * x[:, 0]) + 0.2 * np.exp(x[:, 0]) * rng.normal(size=120)


def test_it_equals_its_three_steps(rows):
    X, y = rows
    weights = np.ones(120)
    first = fit_gaussian_process(X, y)
    fit = fit_heteroscedastic(first, X, y, weights, np.random.default_rng(3))
    std = np.sqrt(first.held_out_variance + first.process.noise_variance)
    residuals = (y - first.held_out_mean) / std
    scale = fit_log_scale(
        X,
        first.process.predict(X)[0],
        residuals,
        weights,
        np.random.default_rng(3),
        least_mean_unit=0.2 * y.std(),
    )
    second = fit_gaussian_process(
        X,
        y,
        weights=weights,
        log_scale=scale.values,
        start=first.process.hyperparameters,
        max_iterations=10,
    )
    assert_close(fit.held_out_mean, second.held_out_mean)
    assert_close(fit.held_out_variance, second.held_out_variance)
    assert_close(fit.held_out_log_scale, scale.held_out)
    mean, _ = second.process.predict(X)
    assert_close(fit.log_scale.at(X, mean), scale.model.at(X, mean))


def test_the_width_follows_the_noise(rows):
    X, y = rows
    fit = fit_heteroscedastic(
        fit_gaussian_process(X, y), X, y, np.ones(120), np.random.default_rng(0)
    )
    process = fit.process
    new = np.array([[-0.8], [0.8]])
    mean, _ = process.predict(new)
    deviation = np.sqrt(process.noise_variance) * np.exp(fit.log_scale.at(new, mean))
    # truth: 0.09 and 0.45; a deviation from some thirty rows is known to 13 percent
    assert_close(np.log(deviation), np.log(0.2) + new[:, 0], 0.4, scale=1.0)


def test_widths_of_many_magnitudes_are_bounded():
    rng = np.random.default_rng(1)
    x = rng.uniform(-1, 1, size=(80, 1))
    y = np.exp(15 * x[:, 0]) * rng.normal(size=80)
    first = fit_gaussian_process(x, y)
    fit = fit_heteroscedastic(first, x, y, np.ones(80), rng)
    assert np.ptp(fit.held_out_log_scale) <= 8.0
    grid = np.linspace(-1, 1, 50)[:, None]
    assert np.ptp(fit.log_scale.at(grid, np.zeros(50))) <= 8.0
    assert np.all(np.isfinite(fit.held_out_mean))


def test_the_scale_does_not_know_the_response_in_advance():
    # Held-out means move against the row's own response; where x says nothing, a scale
    # that followed them would find every residual, and new rows would get nonsense.
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(800, 1)), rng.exponential(size=800)
    train = slice(0, 401)
    base = GaussianProcessBase(GaussianBase(1.0), heteroscedastic=True)
    fit = base.cross_fit(x[train], y[train, None], np.ones(401), rng)
    location, scale = fit.model.at(x[401:])
    z = (y[401:, None] - location) / scale
    claimed = np.mean(0.5 * fit.residuals**2 + fit.log_scale)
    found = np.mean(0.5 * z**2 + np.log(scale))
    # The standard error of the difference is about 0.1.
    assert abs(found - claimed) < 0.4
