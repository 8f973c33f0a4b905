"""Averages of p(y|x) along a column, against sums over rows by loops."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import polars as pl
import pytest

from kexpfam import KCEF
from kexpfam.base_densities import GaussianBase
from kexpfam.display import ConditionalDensityDisplay
from kexpfam.display.along import (
    AlongSpec,
    AveragedDensities,
    _without_strips,
    averaged_along,
    column_relevance,
    local_linear_weights,
)
from kexpfam.display.condition_rows import ConditionRows
from kexpfam.display.conditions import runs_of
from kexpfam.distributions import ClosedFormDensity, MixedDensity


class Normal:
    """y ~ N(a + 3 b, 1) for the columns a and b; c does not matter."""

    def given(self, X):
        X = np.asarray(X, dtype=float)
        return ClosedFormDensity(
            GaussianBase(1.0), X[:, 0] + 3.0 * X[:, 1], np.ones(len(X))
        )


class ByCity:
    """y ~ N(0, 1) in Oslo, N(5, 1) in Rome."""

    def given(self, X):
        centers = [5.0 if city == "Rome" else 0.0 for city in X["city"]]
        return ClosedFormDensity(GaussianBase(1.0), np.array(centers), np.ones(len(X)))


class Counts:
    """P(y = 1) = x."""

    def given(self, X):
        x = np.asarray(X, dtype=float)[:, 0]
        return MixedDensity([0.0, 1.0, 2.0], np.column_stack([1 - x, x, 0 * x]))


@pytest.fixture
def X():
    rng = np.random.default_rng(0)
    a = rng.uniform(-1.0, 1.0, 90)
    return np.column_stack([a, a + 0.2 * rng.normal(size=90), rng.normal(size=90)])


def test_the_average_is_a_local_line_through_the_rows_as_they_are(X):
    spec = AlongSpec(places=5, span=0.0, least=8, reach=0.0)
    found = averaged_along(
        ConditionRows.of(Normal(), X), 0, ends=(-0.8, 0.8), spec=spec
    )
    for k, place in enumerate(found.places):
        offset = X[:, 0] - place
        reach = 1.5 * np.sort(np.abs(offset))[7]
        weights = np.clip(1.0 - np.abs(offset / reach) ** 3, 0.0, None) ** 3
        A = np.column_stack([np.ones(len(X)), offset])
        F = np.stack([Normal().given(row[None])[0].cdf(found.edges) for row in X])
        line = np.linalg.solve(A.T @ (weights[:, None] * A), A.T @ (weights * F.T).T)
        expected = np.sort(np.clip(line[0], 0.0, 1.0))
        np.testing.assert_allclose(found.cdf[k], expected, atol=1e-7)


def test_no_row_is_moved_along_columns_that_go_together(X):
    class Watched(Normal):
        def given(self, rows):
            known = {row.tobytes() for row in X}
            assert {row.tobytes() for row in np.asarray(rows)} <= known
            return super().given(rows)

    averaged_along(ConditionRows.of(Watched(), X), 0, ends=(-2.0, 2.0))


def test_a_constant_neighbourhood_is_averaged():
    x = np.array([0.0, 0.0, 0.0, 5.0])
    weights = local_linear_weights(np.array([0.0, 4.0]), x, near=3)
    np.testing.assert_allclose(weights[0], [1 / 3, 1 / 3, 1 / 3, 0.0])
    np.testing.assert_allclose(weights.sum(axis=1), 1.0)


def test_each_of_few_values_is_a_place():
    rng = np.random.default_rng(0)
    X = np.column_stack([np.arange(60.0) % 4, rng.normal(size=60)])
    found = averaged_along(ConditionRows.of(Normal(), X), 0)
    assert found.places.tolist() == [0.0, 1.0, 2.0, 3.0]
    for k, place in enumerate(found.places):
        p = Normal().given(X[X[:, 0] == place])
        np.testing.assert_allclose(found.cdf[k], p.cdf(found.edges[None]).mean(axis=0))


def test_rows_unlike_those_of_the_fit_are_marked(X):
    model = KCEF(select=None).fit(X[:, :2], X[:, 0])
    moved = X[:, :2].copy()
    moved[moved[:, 0] > 0, 1] -= 4.0
    rows = ConditionRows.of(model, moved)
    found = averaged_along(rows, 0)
    assert not found.few[found.places < -0.3].any()
    assert found.few[found.places > 0.3].all()


def test_quantiles_means_and_heights_follow_from_the_distribution_functions(X):
    found = averaged_along(ConditionRows.of(Normal(), X), 0, ends=(-0.5, 0.5))
    levels = np.array([0.05, 0.5, 0.95])
    for own, quantiles in zip(found.cdf, found.quantiles(levels), strict=True):
        np.testing.assert_allclose(np.interp(quantiles, found.edges, own), levels)
    # Symmetric densities: means are medians, but for rows of other b.
    np.testing.assert_allclose(found.mean(), found.quantiles(levels)[:, 1], atol=0.05)
    # b follows a, so that y has a slope of 4, where one typical row has 1.
    assert np.polyfit(found.places, found.mean(), 1)[0] == pytest.approx(4.0, abs=0.5)
    edges, heights = found.heights(np.array([]))
    assert np.all(heights @ np.diff(edges) > 0.95)


def test_lines_outside_of_the_shown_range_make_it_longer(X):
    found = averaged_along(ConditionRows.of(Normal(), X), 0)
    plain, _ = found.heights(np.array([]))
    far = found.edges[-2]
    assert plain[-1] < far <= found.heights(np.array([far]))[0][-1]


def test_lines_far_outside_leave_room_for_the_rest():
    edges = np.linspace(-100.0, 110.0, 211)
    cdf = np.clip(edges / 10.0, 0.0, 1.0)[None]
    found = AveragedDensities(
        np.zeros(1), edges, cdf, slice(100, 111), np.zeros(1, bool)
    )
    shown, _ = found.heights(np.array([-90.0, 12.0]))
    assert shown[0] >= -7.0
    assert 12.0 <= shown[-1] <= 13.0


def test_gaps_in_a_column_are_few(X):
    X[:, 0] = np.where(X[:, 0] > 0, 1.0 + X[:, 0], -1.0 + X[:, 0])
    found = averaged_along(ConditionRows.of(Normal(), X), 0)
    assert found.few[np.abs(found.places) < 0.5].all()
    assert not found.few[np.abs(found.places) > 1.3].any()


def test_categories_are_averaged_over_rows_of_their_own():
    X = pd.DataFrame({"city": ["Oslo", "Rome"] * 20, "size": np.arange(40.0)})
    found = averaged_along(ConditionRows.of(ByCity(), X), 0)
    np.testing.assert_allclose(found.mean(), [0.0, 5.0], atol=0.01)
    assert not found.few.any()


def test_counted_values_have_whole_quantiles():
    X = np.linspace(0.05, 0.95, 40)[:, None]
    found = averaged_along(ConditionRows.of(Counts(), X), 0)
    medians = found.quantiles(np.array([0.5]))[:, 0]
    assert set(medians) <= {0.0, 1.0}
    np.testing.assert_array_equal(medians[[0, -1]], [0.0, 1.0])
    np.testing.assert_allclose(
        found.mean(), found.cdf[:, -1] - found.cdf[:, 1], atol=1e-9
    )


class Claims:
    """Zero with probability 0.4, and else a density from zero on."""

    def __init__(self, X):
        y = np.random.default_rng(1).exponential(size=len(X))
        self.rest = KCEF(select=None, lower=0.0).fit(X, y)

    def given(self, X):
        return MixedDensity([0.0], np.full((len(X), 1), 0.4), self.rest.given(X))


@pytest.mark.parametrize("columns", [1, 2])
def test_a_probability_of_the_least_value_is_seen_below_it(columns):
    X = np.random.default_rng(0).uniform(size=(60, columns))
    display = ConditionalDensityDisplay.of_estimator(Claims(X), X, np.zeros(60))
    bottom, zero = display.y_edges[:2]
    assert bottom < zero == 0.0
    np.testing.assert_allclose(display.density[:, 0] * (zero - bottom), 0.4)
    assert display.density[:, 0].min() > 3 * display.density[:, 1].max()


def test_strips_of_a_few_places_are_not_hatched():
    few = np.zeros(200, dtype=bool)
    few[[5, 6, 198, 199]] = few[100:110] = True
    found = _without_strips(few, AlongSpec())
    assert np.flatnonzero(found).tolist() == list(range(100, 110))


def test_relevance_is_in_the_order_of_the_effects(X):
    X[:, 1] = np.random.default_rng(1).uniform(-1.0, 1.0, len(X))
    shares = column_relevance(ConditionRows.of(Normal(), X), 3)
    assert shares.sum() == pytest.approx(1.0)
    assert shares[1] > 2 * shares[0] > shares[2] == 0.0


def test_rows_keep_their_kind_and_order(X):
    for library in (pd, pl):
        frame = library.DataFrame(
            {"b": [1.0, 2.0], "day": ["2024-01-01", "2024-02-01"]}
        )
        rows = ConditionRows.of(None, frame)
        assert rows.is_date(1)
        assert not rows.categories(1)
        moved = rows.frame(np.array([1]), 0, np.array([7.0]))
        assert type(moved) is type(frame)
        assert list(moved["b"]) == [7.0]
        assert np.diff(rows.positions(1)).tolist() == [31.0]
    sizes = pd.Categorical(["L", "S"], ["S", "M", "L"], ordered=True)
    rows = ConditionRows.of(None, pd.DataFrame({"size": sizes}))
    assert rows.categories(0) == ("S", "M", "L")
    assert rows.positions(0).tolist() == [2.0, 0.0]


def test_flat_and_empty_rows_are_refused():
    for bad in (np.arange(3.0), np.empty((0, 2))):
        with pytest.raises(ValueError, match="X must have rows and columns"):
            ConditionRows.of(None, bad)


class TestDisplay:
    def test_the_most_relevant_column_is_taken(self, X):
        X[:, 1] = np.random.default_rng(1).uniform(-1.0, 1.0, len(X))
        y = X[:, 0] + 3.0 * X[:, 1]
        display = ConditionalDensityDisplay.from_estimator(Normal(), X, y)
        assert display.ax_.get_xlabel() == "x1"
        assert display.ax_.get_title("left") == "averaged over rows with similar x1"
        assert len(display.data) == len(X)
        assert display.mean.shape == display.x.shape

    def test_a_column_is_chosen_by_name_or_number(self, X):
        frame = pd.DataFrame(X, columns=["a", "b", "c"])
        for along, name in (("c", "c"), (0, "a"), (-2, "b")):
            display = ConditionalDensityDisplay.from_estimator(
                Normal(), frame, along=along
            )
            assert display.ax_.get_xlabel() == name

    def test_gaps_are_left_out_of_the_dots(self, X):
        y = X[:, 0].copy()
        y[:5] = np.nan
        display = ConditionalDensityDisplay.from_estimator(Normal(), X, y, along=0)
        assert len(display.data) == len(X) - 5

    def test_categories_have_names_and_lines_of_their_own(self):
        X = pd.DataFrame({"city": ["Oslo", "Rome"] * 20})
        display = ConditionalDensityDisplay.from_estimator(
            ByCity(), X, pd.Series(np.zeros(40), name="price")
        )
        labels = [tick.get_text() for tick in display.ax_.get_xticklabels()]
        assert labels == ["Oslo", "Rome"]
        line = display.quantile_lines_[2].get_ydata()
        np.testing.assert_allclose(line[[0, 1, 3, 4]], [0, 0, 5, 5], atol=0.02)
        assert np.isnan(line[2])
        assert display.ax_.get_ylabel() == "price"

    def test_draws_again(self, X):
        display = ConditionalDensityDisplay.from_estimator(Normal(), X, along=0)
        _, ax = plt.subplots()
        assert display.plot(ax).ax_ is ax


def test_values_with_few_rows_each_are_smoothed_as_numbers_are():
    rng = np.random.default_rng(0)
    day = np.repeat(np.arange(20.0), 3)
    X = np.column_stack([day, rng.normal(size=60)])
    found = averaged_along(ConditionRows.of(Normal(), X), 0)
    assert len(found.places) == AlongSpec().places
    assert not found.few[20:-20].any()
    # Means of three rows are off by 3 / √3; lines through twenty and more by less.
    off = found.quantiles(np.array([0.5]))[:, 0] - found.places
    apart = 3.0 * X[:, 1].reshape(20, 3).mean(axis=1)
    assert np.sqrt(np.mean(off**2)) < 0.7 * np.sqrt(np.mean(apart**2))
    often = averaged_along(ConditionRows.of(Normal(), np.repeat(X, 3, axis=0)), 0)
    np.testing.assert_array_equal(often.places, np.arange(20.0))


def test_few_rows_that_are_evenly_spread_are_not_too_few():
    x = np.linspace(0.0, 1.0, 20)
    X = np.column_stack([x, x])
    assert not averaged_along(ConditionRows.of(Normal(), X), 0).few.any()
    apart = np.concatenate([X, X + 1.6])
    found = averaged_along(ConditionRows.of(Normal(), apart), 0)
    assert found.few[np.abs(found.places - 1.3) < 0.05].all()
    assert len(runs_of(found.few)) == 1
