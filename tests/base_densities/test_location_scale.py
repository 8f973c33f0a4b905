"""Bases around scikit-learn regressors: cross-fitted residuals, location and scale."""

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.neighbors import KNeighborsRegressor
from sklearn.tree import DecisionTreeRegressor

from kexpfam.base_densities import (
    GaussianBase,
    LocationScaleBase,
    StudentBase,
    UniformBase,
)
from tests.tolerances import assert_close


@pytest.fixture
def rows():
    rng = np.random.default_rng(17)
    X = rng.uniform(-1, 1, size=(60, 2))
    noise = (0.2 + 0.5 * (X[:, :1] > 0)) * rng.normal(size=(60, 1))
    Y = 2.0 * X[:, :1] - X[:, 1:] + noise
    return X, Y, np.ones(60)


def cross_fit(rows, *regressors, seed=0, **options):
    """A base around regressors, fitted to rows (X, Y, weights)."""
    base = LocationScaleBase(*regressors, **options)
    return base.cross_fit(*rows, np.random.default_rng(seed))


def folds_of(seed, n, cv):
    """The documented protocol: a random permutation dealt out in turn."""
    return np.random.default_rng(seed).permutation(n) % cv


def test_residuals_equal_out_of_fold_errors_computed_by_hand(rows):
    X, Y, _ = rows
    fit = cross_fit(rows, LinearRegression(), cv=4, seed=2)
    folds = folds_of(2, 60, 4)
    errors = np.empty(60)
    for k in range(4):
        out = folds == k
        design = np.column_stack([np.ones((~out).sum()), X[~out]])
        coefficients = np.linalg.lstsq(design, Y[~out, 0])[0]
        errors[out] = Y[out, 0] - coefficients[0] - X[out] @ coefficients[1:]
    unit = np.sqrt(np.mean(errors**2))
    assert_close(fit.residuals[:, 0], errors / unit, 1e-9)


def test_residuals_with_a_scale_regressor_equal_the_same_by_hand(rows):
    X, Y, _ = rows
    fit = cross_fit(rows, LinearRegression(), KNeighborsRegressor(7), cv=3, seed=2)
    folds = folds_of(2, 60, 3)
    errors, log_scale = np.empty(60), np.empty(60)
    for k in range(3):
        out = folds == k
        model = LinearRegression().fit(X[~out], Y[~out, 0])
        errors[out] = Y[out, 0] - model.predict(X[out])
    tiny = 1e-3 * np.sqrt(np.mean(errors**2))
    target = np.log(np.abs(errors) + tiny) + 0.6351814227307391  # −E log|N(0, 1)|
    for k in range(3):
        out = folds == k
        model = KNeighborsRegressor(7).fit(X[~out], target[~out])
        log_scale[out] = model.predict(X[out])
    residuals = errors / np.exp(log_scale)
    unit = np.sqrt(np.mean(residuals**2))
    assert_close(fit.residuals[:, 0], residuals / unit, 1e-9)
    location, scale = fit.model.at(X)
    assert_close(location[:, 0], LinearRegression().fit(X, Y[:, 0]).predict(X), 1e-9)
    final = KNeighborsRegressor(7).fit(X, target).predict(X)
    final = np.clip(final, log_scale.min() - 0.5, log_scale.max() + 0.5)
    assert_close(scale[:, 0], unit * np.exp(final), 1e-9)


def test_the_model_uses_the_regression_on_all_rows_and_one_unit(rows):
    X, Y, _ = rows
    fit = cross_fit(rows, LinearRegression())
    new = np.array([[0.0, 0.0], [3.0, -3.0]])
    location, scale = fit.model.at(new)
    assert location.shape == scale.shape == (2, 1)
    assert_close(location[:, 0], LinearRegression().fit(X, Y[:, 0]).predict(new), 1e-9)
    assert np.all(scale == scale[0])
    assert_close(np.sqrt(np.mean(fit.residuals**2)), 1.0)


def test_a_regressor_that_interpolates_does_not_shrink_the_residuals(rows):
    X, Y, _ = rows
    tree = DecisionTreeRegressor(random_state=0)
    assert np.ptp(tree.fit(X, Y).predict(X) - Y[:, 0]) == 0.0  # it does interpolate
    fit = cross_fit(rows, tree)
    _, scale = fit.model.at(X)
    # The noise has deviation 0.5 on average, and a tree adds as much of its own.
    assert scale.min() > 0.3
    assert np.median(np.abs(fit.residuals * scale)) > 0.1


def test_the_scale_follows_the_noise(rows):
    fit = cross_fit(rows, LinearRegression(), KNeighborsRegressor(15))
    _, scale = fit.model.at(np.array([[-0.6, 0.0], [0.6, 0.0]]))
    assert scale[1, 0] > 1.7 * scale[0, 0]  # truth: 0.7 / 0.2


def test_the_scale_does_not_extrapolate_beyond_its_margin(rows):
    fit = cross_fit(rows, LinearRegression(), LinearRegression())
    _, near = fit.model.at(rows[0])
    _, far = fit.model.at(np.array([[1e3, 0.0], [-1e3, 0.0]]))
    # At most e^½ beyond the range of the held-out predictions, which is near that of
    # the predictions on all rows.
    assert far.max() < 3.0 * near.max()
    assert far.min() > near.min() / 3.0


def test_weights_reach_the_regressor(rows):
    X, Y, _ = rows
    weights = np.where(X[:, 0] > 0, 1.0, 1e-6)
    fit = cross_fit((X, Y + 5.0 * (X[:, :1] < 0), weights), LinearRegression())
    used = X[:, 0] > 0
    expected = LinearRegression().fit(X[used], Y[used, 0]).predict(X[used])
    location, _ = fit.model.at(X[used])
    assert_close(location[:, 0], expected, 1e-3)  # the others still count a millionth


def test_several_columns_are_fitted_together(rows):
    X, Y, weights = rows
    both = np.concatenate([Y, -2.0 * Y + 1.0], axis=1)
    fit = cross_fit((X, both, weights), LinearRegression())
    assert fit.residuals.shape == (60, 2)
    assert_close(fit.residuals[:, 1], -fit.residuals[:, 0], 1e-9)
    _, scale = fit.model.at(X)
    assert_close(scale[:, 1], 2.0 * scale[:, 0], 1e-9)


def test_the_default_regressor_is_linear(rows):
    fit = cross_fit(rows)
    points = np.array([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]])
    location, _ = fit.model.at(points)
    assert_close(location[2] - location[1], location[1] - location[0], 1e-9)
    assert abs(location[1, 0] - location[0, 0] - 1.0) < 0.5  # truth: 2 − 1


def test_the_folds_are_fixed_by_the_generator(rows):
    one, same, other = (cross_fit(rows, seed=seed).residuals for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert np.any(one != other)


def test_bad_arguments_are_named(rows):
    with pytest.raises(ValueError, match="cv must be at least 2 folds, got 1"):
        LocationScaleBase(cv=1)
    with pytest.raises(ValueError, match="has a bounded support"):
        LocationScaleBase(noise=UniformBase(-1.0, 1.0))
    with pytest.raises(ValueError, match=r"cv=5\) needs at least 5 rows, got 3"):
        cross_fit([part[:3] for part in rows])


def test_noise_is_any_unbounded_base():
    assert LocationScaleBase(noise=StudentBase(1.0, df=4.0)).noise.tail_index == 4.0
    assert isinstance(LocationScaleBase().noise, GaussianBase)
