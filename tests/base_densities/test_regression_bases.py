"""Gaussian process and linear bases: held-out residuals, models, and names."""

import numpy as np
import pytest

from kexpfam import KCEF
from kexpfam.base_densities import (
    GaussianBase,
    GaussianProcessBase,
    LinearBase,
    LocationScaleBase,
    MarginalBase,
    StudentBase,
    TransformedBase,
    UniformBase,
    fit_processes,
    resolve_base,
)
from kexpfam.base_densities.conditional import standard_residuals
from kexpfam.regression import fit_heteroscedastic, fit_linear
from tests.oracles.regression import slow_prediction
from tests.regression.cases import engel_like
from tests.tolerances import SOLVE, assert_close

BASES = {
    "constant": GaussianProcessBase(),
    "varying": GaussianProcessBase(heteroscedastic=True),
    "linear": LinearBase(),
    "scikit-learn": LocationScaleBase(),
}


@pytest.fixture(params=BASES)
def base(request):
    return BASES[request.param]


@pytest.fixture
def rows():
    rng = np.random.default_rng(31)
    X = rng.uniform(-1, 1, size=(50, 2))
    noise = np.exp(X[:, :1]) * rng.normal(size=(50, 2)) * [0.3, 3.0]
    Y = np.column_stack([np.sin(3 * X[:, 0]), 10.0 - 20.0 * X[:, 1]]) + noise
    return X, Y, rng.uniform(0.5, 2.0, 50)


def rng():
    return np.random.default_rng(5)


def test_residuals_have_unit_deviation_and_mean_zero(base, rows):
    X, Y, weights = rows
    fit = base.cross_fit(X, Y, weights, rng())
    assert fit.residuals.shape == fit.log_scale.shape == (50, 2)
    second_moment = np.average(fit.residuals**2, axis=0, weights=weights)
    assert_close(second_moment, np.ones(2))
    if not isinstance(base, LocationScaleBase):
        assert_close(
            np.average(fit.residuals, axis=0, weights=weights), [0, 0], 1e-9, scale=1.0
        )


def test_held_out_locations_do_not_know_their_row(base, rows):
    X, Y, weights = rows
    fit = base.cross_fit(X, Y, weights, rng())
    location, scale = fit.model.at(X)
    held_out = Y - fit.residuals * np.exp(fit.log_scale)
    # Each row pulls its own prediction towards it, so without it errors are larger.
    errors = np.abs(Y - held_out) - np.abs(Y - location)
    assert np.all(errors.mean(axis=0) > 0)
    # But location and scale describe the same regression.
    assert np.all(np.abs(held_out - location) < 1.5 * scale)
    assert np.all(np.abs(fit.log_scale - np.log(scale)) < 1.0)


def test_held_out_densities_are_the_noise_with_the_held_out_scale(rows):
    X, Y, weights = rows
    fit = LocationScaleBase(cv=4).cross_fit(X, Y, weights, rng())
    folds = rng().permutation(50) % 4
    assert fit.log_scale.shape == Y.shape
    assert np.all(fit.log_scale == fit.log_scale[0])  # no scale regressor
    held_out = Y - fit.residuals * np.exp(fit.log_scale)
    out = folds == 2
    refit = LocationScaleBase(cv=4).cross_fit(X[~out], Y[~out], weights[~out], rng())
    assert_close(held_out[out], refit.model.at(X[out])[0], 1e-9)


def test_constant_noise_equals_explicit_fits_without_the_row(rows):
    X, Y, weights = rows
    processes = fit_processes(X, Y, weights)
    fit = BASES["constant"].cross_fit(X, Y, weights, rng(), processes)
    center, unit = fit.model.center, fit.model.unit
    for column, part in enumerate(processes):
        process = part.process
        h, Z = process.hyperparameters, process.X
        u = process.y_scaling.forward(Y[:, column : column + 1])[:, 0]
        scale = process.y_scaling.scale[0]
        for i in (0, 17):
            rest = np.arange(50) != i
            mean, variance = slow_prediction(
                h, Z[rest], u[rest], h.noise_variance / weights[rest], Z[i : i + 1]
            )
            # a new response has the noise of weight one, whatever the row's weight
            deviation = scale * np.sqrt(variance[0] + h.noise_variance)
            residual = scale * (u[i] - mean[0]) / deviation
            expected = (residual - center[column]) / unit[column]
            assert_close(fit.residuals[i, column], expected, SOLVE, scale=1.0)
            expected = np.log(deviation * unit[column])
            assert_close(fit.log_scale[i, column], expected, SOLVE, scale=1.0)


def test_varying_noise_uses_the_scale_that_other_rows_give(rows):
    X, Y, weights = rows
    y = Y[:, :1]
    processes = fit_processes(X, y, weights)
    fit = BASES["varying"].cross_fit(X, y, weights, rng(), processes)
    part = fit_heteroscedastic(processes[0], X, y[:, 0], weights, rng())
    process = part.process
    h, Z = process.hyperparameters, process.X
    u = process.y_scaling.forward(y)[:, 0]
    scale = process.y_scaling.scale[0]
    for i in (0, 17, 30):
        rest = np.arange(50) != i
        mean, variance = slow_prediction(
            h, Z[rest], u[rest], process.noise[rest] - 1e-8, Z[i : i + 1]
        )
        noise = h.noise_variance * np.exp(2 * part.held_out_log_scale[i])
        deviation = scale * np.sqrt(variance[0] + noise)
        residual = scale * (u[i] - mean[0]) / deviation
        expected = (residual - fit.model.center[0]) / fit.model.unit[0]
        assert_close(fit.residuals[i, 0], expected, SOLVE, scale=1.0)
        expected = np.log(deviation * fit.model.unit[0])
        assert_close(fit.log_scale[i, 0], expected, SOLVE, scale=1.0)


def test_models_fold_centre_and_unit_into_the_regression(rows):
    X, Y, weights = rows
    processes = fit_processes(X, Y, weights)
    fit = BASES["constant"].cross_fit(X, Y, weights, rng(), processes)
    location, scale = fit.model.at(X[:3])
    for column, part in enumerate(processes):
        mean, variance = part.process.predict(X[:3])
        deviation = np.sqrt(variance + part.process.noise_variance)
        center, unit = fit.model.center[column], fit.model.unit[column]
        assert_close(location[:, column], mean + center * deviation)
        assert_close(scale[:, column], unit * deviation)
    linear = LinearBase().cross_fit(X, Y[:, :1], weights, rng())
    model = fit_linear(X, Y[:, 0], weights, rng()).model
    mean, log_scale = model.at(X[:3])
    location, scale = linear.model.at(X[:3])
    center, unit = linear.model.center[0], linear.model.unit[0]
    assert_close(location[:, 0], mean + center * np.exp(log_scale))
    assert_close(scale[:, 0], unit * np.exp(log_scale))


@pytest.mark.parametrize("name", ["constant", "varying"])
def test_bases_can_share_the_processes_of_the_rows(name, rows):
    X, Y, weights = rows
    fit = BASES[name].cross_fit(X, Y, weights, rng())
    shared = BASES[name].cross_fit(X, Y, weights, rng(), fit_processes(X, Y, weights))
    np.testing.assert_array_equal(shared.residuals, fit.residuals)
    np.testing.assert_array_equal(shared.log_scale, fit.log_scale)


def test_fits_of_folds_can_start_at_the_fit_of_all_rows(rows):
    X, Y, weights = rows
    processes = fit_processes(X, Y, weights)
    # Without a step they are where they start.
    again = fit_processes(X, Y, weights, start=processes, max_iterations=0)
    for one, other in zip(processes, again, strict=True):
        start, end = (fit.process.hyperparameters.logs() for fit in (one, other))
        assert_close(end, start)


def test_columns_are_independent_regressions(rows):
    X, Y, weights = rows
    for base in (BASES["constant"], BASES["linear"]):
        both = base.cross_fit(X, Y[:, ::-1], weights, rng())
        alone = base.cross_fit(X, Y[:, 1:], weights, rng())
        assert_close(both.residuals[:, :1], alone.residuals)
        assert_close(both.model.at(X)[0][:, :1], alone.model.at(X)[0])


@pytest.mark.parametrize("name", ["constant", "varying", "linear"])
def test_models_far_away_are_finite(name, rows):
    X, Y, weights = rows
    fit = BASES[name].cross_fit(X, Y, weights, rng())
    location, scale = fit.model.at(np.array([[1e200, -1e200], [1e9, 0.0], [5.0, 5.0]]))
    assert np.all(np.isfinite(location))
    assert np.all(np.isfinite(scale))
    assert np.all(scale > 0)


@pytest.mark.parametrize("name", ["constant", "varying", "linear"])
@pytest.mark.parametrize(("n", "p"), [(4, 1), (4, 11), (9, 50)])
def test_few_rows_and_many_columns_are_safe(name, n, p):
    generator = np.random.default_rng(n)
    X, Y = generator.normal(size=(n, p)), generator.normal(size=(n, 1))
    fit = BASES[name].cross_fit(X, Y, np.ones(n), rng())
    for part in (fit.residuals, fit.log_scale, *fit.model.at(X)):
        assert np.all(np.isfinite(part))


@pytest.mark.parametrize("name", ["constant", "varying", "linear"])
def test_repeated_rows_and_rounded_responses_are_safe(name):
    generator = np.random.default_rng(1)
    X = np.repeat(generator.normal(size=(8, 2)), 5, axis=0)
    X[:, 1] = 1.0
    for Y in (np.round(X[:, :1]), np.repeat(generator.normal(size=(8, 1)), 5, axis=0)):
        fit = BASES[name].cross_fit(X, Y, np.ones(40), rng())
        for part in (fit.residuals, fit.log_scale, *fit.model.at(X)):
            assert np.all(np.isfinite(part))


def test_calibrated_on_new_rows_of_engel_like_data():
    x, y = engel_like(2200, seed=3)
    y = y[:, None]
    train, test = slice(0, 200), slice(200, None)
    noise = GaussianBase(1.0)
    truth = noise.log_density((y[test] - 2 - 3 * x[test]) / (0.3 * np.exp(x[test])))
    truth = np.mean(truth - np.log(0.3) - x[test, 0])
    for name in ("varying", "linear"):
        fit = BASES[name].cross_fit(x[train], y[train], np.ones(200), rng())
        location, scale = fit.model.at(x[test])
        found = noise.log_density((y[test] - location) / scale) - np.log(scale[:, 0])
        # Four or so parameters from 200 rows cost half a nat each, over 200 rows.
        assert truth - np.mean(found) < 0.06
        held_out = noise.log_density(fit.residuals) - fit.log_scale[:, 0]
        # Held-out densities foretell new ones, up to the standard error of 200 rows.
        assert abs(np.mean(held_out) - np.mean(found)) < 0.2


# With one location for its two branches, their masses are wrong on either side.
@pytest.mark.filterwarnings("ignore::kexpfam.errors.BlindnessWarning")
@pytest.mark.parametrize("name", ["gaussian_process", "heteroscedastic", "linear"])
def test_an_exponential_family_takes_them_as_base(name, curve):
    x, y = curve
    model = KCEF(select=None, base=resolve_base(name), random_state=0).fit(x, y)
    assert np.all(np.isfinite(model.score_samples(x, y)))
    assert np.corrcoef(model.predict(x), y)[0, 1] > 0.0


def test_names_stand_for_bases():
    assert resolve_base("gaussian") == GaussianBase(scale=2.0)
    assert resolve_base("gaussian_process") == GaussianProcessBase()
    assert resolve_base("heteroscedastic") == GaussianProcessBase(heteroscedastic=True)
    assert resolve_base("linear") == LinearBase()
    assert resolve_base("yeo_johnson") == TransformedBase("yeo_johnson")
    assert resolve_base("gaussianize") == TransformedBase("gaussianize")
    assert resolve_base("marginal") == MarginalBase()
    assert resolve_base("student") == StudentBase()
    base = UniformBase(0.0, 1.0)
    assert resolve_base(base) is base
    assert resolve_base(BASES["linear"]) is BASES["linear"]


def test_bad_arguments_are_named(rows):
    X, Y, weights = rows
    with pytest.raises(ValueError, match=r"base='bell' is not .* 'gaussian', 'normal"):
        resolve_base("bell")
    with pytest.raises(TypeError, match="base must be one of the names 'gaussian'"):
        resolve_base(2.0)
    for make in (GaussianProcessBase, LinearBase):
        with pytest.raises(ValueError, match="has a bounded support"):
            make(noise=UniformBase(-1.0, 1.0))
        with pytest.raises(ValueError, match="needs at least 4 rows, got 3"):
            make().cross_fit(X[:3], Y[:3], weights[:3], rng())


def test_residuals_that_are_all_zero_have_a_unit():
    zeros = np.zeros((3, 1))
    values, _, _, unit = standard_residuals(zeros, zeros, zeros, np.ones(3))
    assert np.all(values == 0)
    assert np.all(unit > 0)
