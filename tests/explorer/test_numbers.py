"""What the page shows is what the model says."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from kexpfam.base_densities import GaussianBase
from kexpfam.display import averaged_along
from kexpfam.display.numbers import (
    LEVELS,
    DensityGrid,
    density_numbers,
    modes,
    region_near,
)
from kexpfam.distributions import ClosedFormDensity, MixedDensity
from kexpfam.explanation import ModelColumns
from kexpfam.explanation.importance import importance
from kexpfam.explorer import ConditionalView, Question, number_control

# Quantiles by Newton's method and by bracketing differ by rounding.
SAME = {"rtol": 1e-9}


@pytest.mark.parametrize("level", [0.5, 0.8, 0.9, 0.95])
@pytest.mark.parametrize("highest", [False, True])
def test_numbers_are_those_of_the_density(view, level, highest):
    model, row = view.subject.model, view.subject.row({"area": 80.0, "city": "Oslo"})
    found = density_numbers(model, row, view.axis, level=level, highest=highest)
    p = model.given(row)[0]
    np.testing.assert_allclose(found.quantiles, p.ppf(np.array(LEVELS)), **SAME)
    np.testing.assert_allclose(found.interval, p.interval(level), **SAME)
    expected = p.hpd(level) if highest else p.interval(level)[None]
    np.testing.assert_allclose(found.region, expected, **SAME)
    np.testing.assert_allclose(found.pdf, p.pdf(found.grid))
    np.testing.assert_allclose(found.cdf, p.cdf(found.grid))
    assert (found.mean, found.std) == (p.mean(), p.std())
    assert np.all(np.diff(found.grid) > 0)


def test_quantiles_in_a_gap_between_modes_are_those_of_the_density(two_modes):
    # The level at which the left mode ends lies where the density nearly vanishes.
    row = np.zeros((1, 1))
    found = density_numbers(two_modes, row, (-4.0, 4.0), level=0.2)
    p = two_modes.given(row)[0]
    # The first is near zero, where a relative error means nothing.
    near = {"rtol": 1e-9, "atol": 1e-8}
    np.testing.assert_allclose(found.interval, p.ppf(np.array([0.4, 0.6])), **near)
    np.testing.assert_allclose(found.quantiles, p.ppf(np.array(LEVELS)), **near)


def test_tail_probability_between_points_of_the_grid_has_four_digits(view):
    # The page draws a straight line between points of the distribution function.
    model, row = view.subject.model, view.subject.row({})
    found = density_numbers(model, row, view.axis)
    t = np.linspace(*found.axis, 1001)
    exact = model.given(row)[0].cdf(t)
    np.testing.assert_allclose(np.interp(t, found.grid, found.cdf), exact, atol=2e-4)


def test_the_highest_mode_is_that_of_the_density(view):
    model, row = view.subject.model, view.subject.row({})
    found = density_numbers(model, row, view.axis)
    p = model.given(row)[0]
    # A parabola through three points is right to a small part of their distance.
    close = np.diff(found.grid).max() / 20
    assert found.modes[0].place == pytest.approx(p.mode(), abs=close)
    assert sum(mode.mass for mode in found.modes) == pytest.approx(1.0)


def test_two_modes_have_the_masses_of_their_sides(two_modes):
    p = two_modes.given(np.zeros((1, 1)))[0]
    grid = np.linspace(-5.0, 5.0, 300)
    high, low = modes(DensityGrid(grid, p.pdf(grid), p.cdf(grid)))
    # The logarithm of a normal density is a parabola.
    assert high.place == pytest.approx(2.0, abs=1e-6)
    assert low.place == pytest.approx(-2.0, abs=1e-6)
    assert high.height == pytest.approx(0.6 / (0.4 * np.sqrt(2 * np.pi)), rel=1e-6)
    assert (high.mass, low.mass) == pytest.approx((0.6, 0.4), abs=1e-6)


@pytest.mark.parametrize("level", [0.3, 0.5, 0.8, 0.95])
def test_regions_of_two_intervals_have_equal_heights_and_the_mass(two_modes, level):
    row = np.zeros((1, 1))
    found = density_numbers(two_modes, row, (-4.0, 4.0), level=level, highest=True)
    p = two_modes.given(row)[0]
    np.testing.assert_allclose(found.region, p.hpd(level), rtol=1e-8)
    assert np.diff(p.cdf(found.region.ravel()))[::2].sum() == pytest.approx(level)
    heights = p.pdf(found.region.ravel())
    np.testing.assert_allclose(heights, heights[0], rtol=1e-8)


def test_a_region_that_ends_with_the_grid_is_left_to_the_density(two_modes):
    p = two_modes.given(np.zeros((1, 1)))[0]
    grid = np.linspace(-2.0, 2.0, 200)  # which ends at the modes
    found = region_near(p, 0.9, DensityGrid(grid, p.pdf(grid), p.cdf(grid)))
    np.testing.assert_array_equal(found, p.hpd(0.9))


def test_a_density_beyond_the_axis_makes_it_longer(two_modes):
    found = density_numbers(two_modes, np.zeros((1, 1)), (1.0, 8.0))
    assert found.axis[1] == 8.0
    assert 0.0 < found.cdf[0] < 0.01


def test_zoom_shows_nearly_all_of_the_density_and_no_more(view):
    model, row = view.subject.model, view.subject.row({})
    found = density_numbers(model, row, (-1e4, 1e4), zoom=True)
    mass = found.cdf[-1] - found.cdf[0]
    assert 0.99 < mass < 0.9999


def test_an_axis_that_is_filled_stays_and_another_does_not(view):
    model, row = view.subject.model, view.subject.row({})
    low, high = density_numbers(model, row, (0.0, 1.0), zoom=True).axis
    wide = high - low
    for kept, stays in (
        ((low - 0.3 * wide, high + 0.3 * wide), True),
        ((low - wide, high + wide), False),  # much too wide
        ((low + 0.2 * wide, high + 0.2 * wide), False),  # the density is cut off
    ):
        found = density_numbers(model, row, (0.0, 1.0), zoom=True, kept=kept)
        assert (found.axis == kept) == stays
        assert stays or found.axis == (low, high)


def test_the_middle_is_within_a_standard_deviation_of_a_normal_density(two_modes):
    model = SimpleNamespace(
        given=lambda X: ClosedFormDensity(GaussianBase(2.0), np.ones(1), np.ones(1))
    )
    found = density_numbers(model, np.zeros((1, 1)), (-6.0, 8.0))
    np.testing.assert_allclose(found.middle, [-1.0, 3.0], atol=1e-4)


def test_averaged_curves_are_those_of_the_display(view):
    subject = view.subject
    control = subject.control("city")
    found = view.averaged(control)
    assert view.averaged(control) is found  # once
    rows = subject.rows_to_average()
    place = subject.controls.index(control)
    assert rows.categories(place) == control.categories
    whole = averaged_along(rows, place)
    np.testing.assert_allclose(found.mean, whole.mean())
    np.testing.assert_allclose(found.quantiles, whole.quantiles(np.array(LEVELS)))


def test_controls_come_in_the_order_of_their_relevance(view):
    shares = [control.relevance for control in view.subject.controls]
    assert shares == sorted(shares, reverse=True)
    assert sum(shares) == pytest.approx(1.0)
    told = view.description(Question({}))["controls"]
    assert [control["relevance"] for control in told] == shares


def test_with_observations_controls_come_in_the_order_of_their_importance(view):
    subject = view.subject
    own = ConditionalView(subject)
    answer = own.importance(Question({}))
    losses = [control["loss"][0] for control in answer["controls"]]
    assert losses == sorted(losses, reverse=True)
    assert 0 < answer["rows"] <= own.spec.scored
    rows = own._observed[: own.spec.rows]
    columns = ModelColumns(
        tuple(control.name for control in own.subject.controls),
        tuple(control.columns for control in own.subject.controls),
        (None,) * len(own.subject.controls),
        np.asarray,
        subject.model.given,
    )
    found = importance(
        columns,
        subject.X[rows],
        subject.y[rows],
        max_rows=own.spec.scored,
        random_state=0,
    )
    for control in own.ranked().controls:
        loss = found.loss(control.name)
        assert control.loss == (loss.value, loss.standard_error)
    assert own.learn_importance() is own.learn_importance()  # once


def test_without_observations_there_is_no_importance(view):
    blank = replace(view.subject, y=np.full(len(view.subject.X), np.nan))
    own = ConditionalView(blank)
    assert own.learn_importance() is None
    assert own.importance(Question({}))["rows"] == 0


def test_curves_are_quantiles_with_other_features_unchanged(view):
    subject = view.subject
    control = subject.control("area")
    row = subject.row({"rooms": 2.0, "city": "Rome"})
    found = subject.along(control, row)
    X = np.repeat(row, len(found.places), axis=0)
    X[:, 0] = found.places
    np.testing.assert_allclose(
        found.quantiles, subject.model.predict_quantiles(X, LEVELS), **SAME
    )
    np.testing.assert_allclose(found.mean, subject.model.predict(X), **SAME)


def test_curves_along_categories_have_one_column_at_a_time(view):
    subject = view.subject
    found = subject.along(subject.control("city"), subject.row({}))
    rows = [subject.row({"city": c}) for c in ("Lima", "Oslo", "Rome")]
    expected = subject.model.predict(np.vstack(rows))
    np.testing.assert_allclose(found.mean, expected, **SAME)


def test_the_axis_comes_from_draws_if_nothing_was_observed(view):
    known = view.subject.axis()
    blank = replace(view.subject, y=np.full(len(view.subject.X), np.nan))
    np.testing.assert_allclose(blank.axis(), known, atol=0.5 * np.ptp(known))


def test_training_rows_are_recognised(view):
    assert view.subject.trained_share() == 1.0
    others = replace(view.subject, X=view.subject.X + 0.123)
    assert others.trained_share() == 0.0


def test_density_answer_is_that_of_its_numbers(view):
    fields = {"values": {"area": 100.0}, "level": 0.8, "region": "hpd"}
    answer = view.density(Question(fields))
    p = view.subject.model.given(view.subject.row({"area": 100.0}))[0]
    np.testing.assert_allclose(answer["region"], p.hpd(0.8), **SAME)
    near = view.subject.model.reliability(view.subject.row({"area": 100.0}))[0]
    assert answer["near"] == pytest.approx(near)
    assert answer["std"] == p.std()
    moving = view.density(Question({**fields, "moving": True}))
    assert np.isnan(moving.pop("std"))
    answer.pop("std")
    assert moving == answer


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (np.arange(10.0), (0.0, 9.0, 1.0)),
        (np.linspace(0.0, 1.0, 101), (0.01, 0.99, 0.002)),
        (np.full(5, 3.0), (2.0, 4.0, 1.0)),
        (np.array([0.0, 0.0, 1.0]), (0.0, 1.0, 1.0)),
    ],
)
def test_sliders_have_round_ends_and_begin_on_a_step(values, expected):
    control = number_control("x", 0, values)
    assert (control.low, control.high, control.step) == pytest.approx(expected)
    steps = (float(control.start) - control.low) / control.step
    assert steps == pytest.approx(round(steps), abs=1e-6)
    assert control.low <= float(control.start) <= control.high


@pytest.mark.parametrize("axis", [(0.0, 8.0), (-1.0, 9.0)])
@pytest.mark.parametrize("zoom", [False, True])
def test_a_mass_function_has_no_curve_and_no_modes(axis, zoom):
    # Points of the grid may be values with a mass: these are stems.
    values = np.arange(10.0)
    masses = np.exp(-0.5 * values)[None] / np.exp(-0.5 * values).sum()
    model = SimpleNamespace(given=lambda X: MixedDensity(values, masses))
    found = density_numbers(model, np.zeros((1, 1)), axis, zoom=zoom)
    assert not found.pdf.any()
    assert found.modes == ()
    np.testing.assert_allclose(found.atoms, np.column_stack([values, masses[0]]))


def test_an_atom_is_no_part_of_the_curve_beside_it():
    def given(X):
        rest = ClosedFormDensity(GaussianBase(1.0), np.zeros(len(X)), np.ones(len(X)))
        return MixedDensity([4.0], [[0.3]], rest)

    model = SimpleNamespace(given=given)
    found = density_numbers(model, np.zeros((1, 1)), (-4.0, 4.0))
    assert found.grid[-1] == 4.0
    assert found.pdf.max() == pytest.approx(0.7 / np.sqrt(2.0 * np.pi), rel=1e-3)
    assert len(found.modes) == 1
