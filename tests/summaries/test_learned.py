"""Learned summaries: honest for training rows, and coordinates of a family."""

import numpy as np
import pytest
from scipy import integrate, stats
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.linear_model import LinearRegression

from kexpfam import KCEF, AutoKCEF, load
from kexpfam.base_densities import GaussianBase, StudentBase, TransformedBase
from kexpfam.errors import CannotSaveError
from kexpfam.summaries import LearnedSummary
from kexpfam.summaries.learned import SPEC, fit_student


def steps(n, seed=0):
    """A step in x₁, and a width that jumps with x₂; x₃ says nothing."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n, 3))
    scale = np.where(X[:, 1] > 0, 1.0, 0.2)
    return X, np.sign(X[:, 0]) + scale * rng.normal(size=n), scale


@pytest.fixture(scope="module")
def cross_fit():
    X, y, _ = steps(600)
    summary, rng = LearnedSummary("extra_trees"), np.random.default_rng(0)
    return summary.cross_fit(X, y[:, None], np.ones(600), rng)


@pytest.fixture(scope="module")
def model():
    X, y, _ = steps(400)
    return KCEF(features=LearnedSummary("extra_trees"), random_state=0).fit(X, y)


def test_location_and_scale_of_new_rows_are_those_of_the_truth(cross_fit):
    X, _, scale = steps(300, seed=1)
    location, width = cross_fit.model.at(cross_fit.summary.at(X))
    clear = np.abs(X[:, :2]).min(axis=1) > 0.2  # away from the jumps
    error = np.abs(location[:, 0] - np.sign(X[:, 0]))[clear]
    assert np.median(error) < 0.2
    ratio = np.log(width[:, 0] / scale)[clear]
    assert abs(np.median(ratio)) < 0.25
    assert np.std(ratio) < 0.6 * np.std(np.log(scale))


def test_residuals_of_training_rows_are_as_wide_as_those_of_new_rows(cross_fit):
    X, y, _ = steps(600, seed=1)
    location, width = cross_fit.model.at(cross_fit.summary.at(X))
    new = (y - location[:, 0]) / width[:, 0]
    assert np.std(cross_fit.residuals) == pytest.approx(1.0)
    assert np.std(new) == pytest.approx(1.0, abs=0.15)


def test_residuals_and_log_scales_give_the_responses_back(cross_fit):
    _, y, _ = steps(600)
    location, width = cross_fit.model.at(cross_fit.Z)
    np.testing.assert_allclose(np.log(width), cross_fit.log_scale, rtol=0, atol=1e-9)
    np.testing.assert_allclose(
        location + width * cross_fit.residuals, y[:, None], atol=1e-9
    )


def test_held_out_summaries_are_standardised_and_differ_from_fitted_ones(cross_fit):
    X, _, _ = steps(600)
    np.testing.assert_allclose(cross_fit.Z.mean(axis=0), 0.0, atol=1e-9)
    np.testing.assert_allclose(cross_fit.Z.std(axis=0), 1.0, atol=1e-9)
    assert np.abs(cross_fit.Z - cross_fit.summary.at(X)).max() > 0.1


def test_probabilities_of_cells_sum_to_one(cross_fit):
    X, _, _ = steps(50, seed=2)
    Z = cross_fit.summary.at(X) * cross_fit.summary.z_scale + cross_fit.summary.z_center
    np.testing.assert_allclose(Z[:, 2:].sum(axis=1), 1.0, atol=1e-6)
    assert Z[:, 2:].min() > -0.1  # on few principal components of them


def test_a_student_density_is_the_most_likely_one():
    u = 0.7 * np.random.default_rng(0).standard_t(4.0, size=4000)
    found = fit_student(u, np.ones(4000), SPEC.degrees)
    assert isinstance(found, StudentBase)
    assert found.df in (3.0, 4.0, 5.0)
    assert found.scale == pytest.approx(stats.t.fit(u, f0=found.df, floc=0.0)[2], 1e-3)


def test_a_family_on_a_summary_integrates_to_one(model):
    X, _, _ = steps(3, seed=3)
    for one in model.given(X):
        area, _ = integrate.quad(
            lambda y, one=one: float(one.pdf(y)), -9, 9, points=[-1, 0, 1], limit=400
        )
        assert area == pytest.approx(1.0, abs=1e-4)


def test_a_family_on_a_summary_is_saved_bit_for_bit(model, tmp_path):
    X, y, _ = steps(40, seed=4)
    model.save(tmp_path / "m.kexpfam")
    loaded = load(tmp_path / "m.kexpfam")
    np.testing.assert_array_equal(loaded.score_samples(X, y), model.score_samples(X, y))
    assert loaded.features == model.features


def test_steps_are_described_better_by_a_summary_than_by_raw_columns(model):
    X, y, scale = steps(500, seed=5)
    plain = KCEF(random_state=0).fit(*steps(400)[:2])
    truth = stats.norm.logpdf(y, np.sign(X[:, 0]), scale).mean()
    assert model.score(X, y) > plain.score(X, y)
    assert model.score(X, y) > truth - 0.25


def test_the_average_takes_a_summary_where_trees_are_right(tmp_path):
    X, y, _ = steps(500)
    model = AutoKCEF(random_state=0).fit(X, y)
    summaries = [m.weight for m in model.members_ if "summary" in m.coordinates]
    assert sum(summaries) > 0.5
    model.save(tmp_path / "a.kexpfam")
    new, there, _ = steps(30, seed=6)
    np.testing.assert_array_equal(
        load(tmp_path / "a.kexpfam").score_samples(new, there),
        model.score_samples(new, there),
    )


def test_base_is_the_noise_or_a_transform():
    X, y, _ = steps(120)
    summary = LearnedSummary("extra_trees")
    noisy = KCEF(features=summary, base=GaussianBase(scale=1.0), random_state=0)
    assert noisy.fit(X, y).base_ == GaussianBase(scale=1.0)
    skewed = KCEF(features=summary, base=TransformedBase(), random_state=0)
    assert np.isfinite(skewed.fit(X, np.exp(y)).score(X, np.exp(y)))
    with pytest.raises(ValueError, match="features bring a location and scale"):
        KCEF(features=summary, base="gaussian_process").fit(X, y)
    with pytest.raises(TypeError, match="features must be a LearnedSummary"):
        KCEF(features="trees").fit(X, y)


def test_regressors_of_scikit_learn_predict_location_and_law(tmp_path):
    X, y, _ = steps(150)
    summary = LearnedSummary(
        LinearRegression(), law=ExtraTreesRegressor(20, random_state=0), cells=4
    )
    model = KCEF(features=summary, random_state=0).fit(X, y)
    assert np.isfinite(model.score(X, y))
    with pytest.raises(CannotSaveError, match="LinearRegression"):
        model.save(tmp_path / "m.kexpfam")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"location": "forest"}, "location must be one of 'extra_trees'"),
        ({"cells": 1}, "cells must be at least 2"),
    ],
)
def test_options_that_mean_nothing_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        LearnedSummary(**options)


def test_too_few_rows_are_refused():
    X, y, _ = steps(15)
    with pytest.raises(ValueError, match="at least 20 rows"):
        KCEF(features=LearnedSummary()).fit(X, y)


def test_rows_that_come_later_are_added():
    X, y, _ = steps(1200)
    model = KCEF(features=LearnedSummary("extra_trees"), random_state=0).fit(X, y)
    new = steps(300, seed=7)[:2]
    before = model.score(*new)
    model.partial_fit(*steps(800, seed=8)[:2])
    assert model.n_rows_ == 2000
    assert model.score(*new) > before - 0.05


@pytest.mark.slow
def test_a_summary_keeps_what_it_promises_where_x_repeats():
    # Summaries that leave out single rows promised 1.2 nats more than they kept.
    rng = np.random.default_rng(0)

    def draw(n):
        x = rng.integers(12, size=(n, 1)) / 12.0
        return x, np.sin(6.0 * x[:, 0]) + rng.gamma(2.0, size=n)

    model = AutoKCEF(experts=["summaries"], random_state=0).fit(*draw(1200))
    promised = max(member.held_out for member in model.members_)
    assert model.score(*draw(5000)) > promised - 0.1
