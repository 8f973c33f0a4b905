"""Bands that hold a whole curve, and regions of x where densities are wrong."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom, norm

from kexpfam.base_densities import GaussianBase
from kexpfam.display import PITDisplay, RegionCalibrationDisplay
from kexpfam.display.pit import pit_values, simultaneous_band
from kexpfam.distributions import ClosedFormDensity, MixedDensity


class Normal:
    """y ~ N(first column, 1), whatever else there is."""

    def given(self, X):
        x = np.asarray(X, dtype=float)[:, 0]
        return ClosedFormDensity(GaussianBase(1.0), x, np.ones(len(x)))


class HalfZero:
    def given(self, X):
        ones = np.ones(len(X))
        rest = ClosedFormDensity(GaussianBase(1.0), 9.0 * ones, ones)
        return MixedDensity([0.0], np.full((len(X), 1), 0.5), rest)


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, size=(600, 2))
    return X, X[:, 0] + rng.normal(size=600)


def test_pit_values_are_those_of_the_distribution_function(rows):
    X, y = rows
    np.testing.assert_allclose(pit_values(Normal(), X, y), norm.cdf(y - X[:, 0]))


def test_pit_values_in_the_jump_of_an_atom_are_even():
    u = pit_values(HalfZero(), np.zeros((2000, 1)), np.zeros(2000))
    assert 0.0 <= u.min() < u.max() <= 0.5
    assert u.mean() == pytest.approx(0.25, abs=0.01)


def test_the_band_holds_a_whole_curve_as_often_as_it_says():
    points = np.arange(1, 20) / 20
    low, high = simultaneous_band(80, points, 0.9)
    # Other draws than those that it was found by.
    u = np.sort(np.random.default_rng(1).random((2000, 80)))
    shares = np.array([np.searchsorted(own, points) for own in u]) / 80
    inside = np.all((shares >= low) & (shares <= high), axis=1)
    assert inside.mean() == pytest.approx(0.9, abs=0.025)
    pointwise = binom.ppf([[0.05], [0.95]], 80, points) / 80
    assert np.all(low <= pointwise[0])
    assert np.all(high >= pointwise[1])


def test_a_calibrated_model_is_inside_and_a_shifted_one_is_not(rows):
    X, y = rows
    display = PITDisplay.from_estimator(Normal(), X, y)
    assert display.inside_
    assert display.figure_ is display.ax_.figure
    assert not PITDisplay.from_estimator(Normal(), X, y + 0.4).inside_
    assert "outside" in PITDisplay.from_predictions(np.full(50, 0.5)).line_.get_label()


def test_wrong_values_are_refused(rows):
    X, y = rows
    with pytest.raises(ValueError, match="pit must be a flat list"):
        PITDisplay.from_predictions([[0.1]])
    with pytest.raises(ValueError, match="y must have 600 rows like X"):
        pit_values(Normal(), X, y[1:])
    with pytest.raises(ValueError, match="y contains NaN"):
        pit_values(Normal(), X, np.where(y > 2, np.nan, y))
    with pytest.raises(ValueError, match="pit must be one per row"):
        RegionCalibrationDisplay.from_predictions(X, [0.5])


def test_the_region_where_densities_are_wrong_is_found(rows):
    X, y = rows
    far = X[:, 0] > 1.2
    found = RegionCalibrationDisplay.from_estimator(Normal(), X, y + 1.5 * far)
    assert found.x_label == "x0"  # on which densities depend
    assert found.wrong_[-1, -1]  # much above where it should be
    assert not found.wrong_[:4].any()
    assert found.observed.sum() == 600
    assert not RegionCalibrationDisplay.from_estimator(Normal(), X, y).wrong_.any()


def test_each_category_is_a_region():
    X = pd.DataFrame({"city": ["Rome", "Oslo", None] * 20})
    found = RegionCalibrationDisplay.from_predictions(X, np.linspace(0, 1, 60))
    assert found.names == ("Oslo", "Rome")
    np.testing.assert_array_equal(found.observed.sum(axis=1), [20, 20])


def test_a_constant_column_is_one_region():
    X, pit = np.ones((40, 1)), np.arange(40) / 40
    found = RegionCalibrationDisplay.from_predictions(X, pit)
    assert found.observed.tolist() == [[8.0] * 5]
