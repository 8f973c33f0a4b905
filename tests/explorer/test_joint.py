"""The page of a joint density shows its graph, and draws given what is held fixed."""

import itertools
import re

import numpy as np
import pandas as pd
import pytest

from kexpfam import KCEF, FactorizedDensity
from kexpfam.cli.explore import view_of
from kexpfam.cli.model_files import load_table_model
from kexpfam.display.svg import LETTER
from kexpfam.explorer import (
    ExplorerError,
    JointSubject,
    JointView,
    Question,
    number_control,
)
from kexpfam.explorer.joint import _edges, pairs_picture, share_outside
from kexpfam.tables import as_table


def test_the_description_has_a_slider_for_each_column(joint_view):
    found = joint_view.description(Question({}))
    assert found["kind"] == "joint"
    assert [c["name"] for c in found["controls"]] == ["area", "rooms", "price"]


def test_the_graph_has_a_box_for_each_column_and_an_arrow_for_each_edge(joint_view):
    picture = joint_view.graph(Question({"width": 400}))["picture"]
    assert picture.count('class="node"') == 3
    assert picture.count('class="arrow"') == 3  # of the full graph of three
    for name in ("area", "rooms", "price"):
        assert f">{name}</text>" in picture


def test_free_draws_are_those_of_the_model(joint_view):
    drawn, worth = joint_view.drawn({})
    expected = joint_view.subject.model.sample(len(drawn), random_state=0)
    np.testing.assert_array_equal(drawn, expected)
    assert worth is None


def test_what_is_held_fixed_stays_and_the_others_follow(joint_view):
    small, worth = joint_view.drawn({"area": 40.0})
    large, _ = joint_view.drawn({"area": 140.0})
    assert worth is None  # the first column has no ancestors: draws are exact
    assert np.all(small[:, 0] == 40.0)
    assert large[:, 2].mean() > small[:, 2].mean() + 100.0


def test_evidence_on_a_child_is_weighted_and_says_what_it_is_worth(joint_view):
    cheap, worth = joint_view.drawn({"price": 130.0})
    dear, _ = joint_view.drawn({"price": 330.0})
    assert worth is not None
    assert 1.0 <= worth <= 1000.0
    assert dear[:, 0].mean() > cheap[:, 0].mean() + 40.0


def test_data_are_not_shown_beside_conditional_draws(joint_view):
    free = joint_view.pairs(Question({}))["picture"]
    fixed = joint_view.pairs(Question({"given": {"area": 60.0}}))["picture"]
    assert 'class="seen-bar"' in free
    assert 'class="seen-bar"' not in fixed


def test_an_unknown_column_is_refused(joint_view):
    with pytest.raises(ExplorerError, match="no column 'city'"):
        joint_view.pairs(Question({"given": {"city": 1.0}}))


def test_conditions_are_always_held_fixed(saved):
    model = FactorizedDensity(
        factor=KCEF(select=None), exogenous=[0], random_state=0
    ).fit(saved.Y)
    names = ("area", "rooms", "price")
    view = JointView(JointSubject(model, names, "", saved.Y))
    always = [c["always"] for c in view.description(Question({}))["controls"]]
    assert always == [True, False, False]
    assert len(np.unique(view.drawn({})[0][:, 0])) == 1
    assert "node given" in view.graph(Question({}))["picture"]
    without = JointView(JointSubject(model, names, "", saved.Y[:0]))
    with pytest.raises(ExplorerError, match="say --data"):
        without.description(Question({}))


@pytest.fixture(scope="module")
def houses():
    """A joint density with conditions that are texts and dates, and its data."""
    rng = np.random.default_rng(0)
    city = rng.choice(["Lima", "Oslo", "Rome"], 90)
    a = rng.normal(size=90) + 3.0 * (city == "Oslo")
    frame = pd.DataFrame({"city": city, "a": a, "b": a + rng.normal(size=90)})
    frame["day"] = pd.Timestamp("2024-01-31") + pd.to_timedelta(np.arange(90), "D")
    model = FactorizedDensity(
        factor=KCEF(select=None), exogenous=["city", "day"], random_state=0
    )
    return model.fit(frame), frame


def test_conditions_that_are_texts_are_lists(houses):
    model, frame = houses
    rows = model._columns.rows(frame)
    view = JointView(JointSubject(model, tuple(frame.columns), "", rows))
    controls = {c["name"]: c for c in view.description(Question({}))["controls"]}
    assert controls["city"]["categories"] == ("Lima", "Oslo", "Rome")
    assert controls["city"]["start"] == frame["city"].mode()[0]
    assert controls["a"]["categories"] == ()
    oslo, _ = view.drawn({"city": "Oslo"})
    lima, _ = view.drawn({"city": "Lima"})
    assert set(oslo[:, 0]) == {1.0}
    assert oslo[:, 1].mean() > lima[:, 1].mean() + 2.0
    weighted, worth = view.drawn({"city": "Oslo", "b": 3.0})
    assert set(weighted[:, 0]) == {1.0}
    assert worth > 20.0
    answer = view.pairs(Question({"given": {"city": "Rome"}}))
    assert "Lima" in answer["picture"]
    assert {row[0] for row in answer["draws"]} == {"Rome"}
    day = controls["day, days from 2024-01-31"]
    assert (day["low"], day["always"]) == (0.0, True)
    later, _ = view.drawn({"day, days from 2024-01-31": 29.0})
    assert set(later[:, 3]) == {rows[29, 3]}
    assert all(row[3].startswith("2024-0") for row in answer["draws"])
    with pytest.raises(ExplorerError, match="'Bonn' is not a category of 'city'"):
        view.pairs(Question({"given": {"city": "Bonn"}}))


def test_the_command_shows_joint_densities_with_texts(houses, tmp_path):
    model, frame = houses
    model.save(tmp_path / "houses.kexpfam")
    found = load_table_model(tmp_path / "houses.kexpfam")
    frame = frame.copy()
    frame.loc[3, "city"] = None
    view = view_of(found, as_table(frame[["b", "day", "a", "city"]]))
    assert view.subject.names == tuple(frame.columns)
    assert view.subject.rows.shape == (89, 4)
    answer = view.pairs(Question({"given": {"city": "Rome", "b": 0.5}}))
    assert "picture" in answer


@pytest.mark.parametrize(
    "values",
    [
        np.arange(1.0, 7.0),
        np.arange(23.0),
        np.random.default_rng(0).normal(size=500),
        np.random.default_rng(1).lognormal(8.0, 1.0, 300),
    ],
)
def test_bins_are_equally_wide_and_hold_the_range_of_the_slider(values):
    control = number_control("x", 0, values)
    edges = _edges(control)
    np.testing.assert_allclose(np.diff(edges), edges[1] - edges[0])
    assert edges[0] < control.low
    assert edges[-1] > control.high


def test_whole_numbers_fill_their_bins_alike():
    values = np.repeat(np.arange(1.0, 7.0), 5)
    counts, _ = np.histogram(values, _edges(number_control("x", 0, values)))
    np.testing.assert_array_equal(counts, 5)


def test_the_caption_counts_draws_outside_the_axes(joint_view):
    answer = joint_view.pairs(Question({}))
    drawn = np.array(answer["draws"])
    columns = joint_view._axes
    edges = [_edges(c) for c in columns]
    outside = sum(
        any(v < e[0] or v > e[-1] for v, e in zip(row, edges, strict=True))
        for row in drawn
    )
    assert outside > 0
    assert share_outside(drawn, columns) == outside / len(drawn)
    assert f"{100 * outside / len(drawn):.1f} % of the draws" in answer["note"]


def test_axes_hold_all_data_unless_a_row_is_far_away(saved, joint_view):
    assert share_outside(saved.Y, joint_view._axes) == 0.0
    far = saved.Y.copy()
    far[0, 0] = 1e6
    model = joint_view.subject.model
    view = JointView(JointSubject(model, joint_view.subject.names, "", far))
    assert share_outside(far, view._axes) == 1 / len(far)
    slider, axis = view._controls[0], view._axes[0]
    assert axis.high - slider.high <= 0.5 * (slider.high - slider.low)


@pytest.mark.parametrize("width", [320.0, 340.0, 640.0])
def test_names_below_neighbouring_columns_do_not_meet(width):
    names = [f"a_rather_long_name_{i}" for i in range(4)]
    columns = [number_control(n, i, np.arange(9.0)) for i, n in enumerate(names)]
    picture = pairs_picture(np.empty((0, 4)), np.ones((3, 4)), columns, width)
    found = re.findall(r'<text class="label( small)?" x="([\d.]+)".*?>(.*?)<', picture)
    assert len(found) == 4
    # Bold letters are at most this wide on average, at 12.5 and at 11 pixels.
    spans = [
        (float(x) + side * 0.5 * (6.6 if small else 7.4) * len(name))
        for small, x, name in found
        for side in (-1, 1)
    ]
    assert spans == sorted(spans)


@pytest.mark.parametrize("width", [330.0, 900.0])
def test_labels_of_neighbours_do_not_touch(width):
    values = np.linspace(0.0, 100.0, 50)
    columns = [number_control(name, i, values) for i, name in enumerate("abcd")]
    none = np.empty((0, 4))
    draws = np.column_stack([values] * 4)
    svg = pairs_picture(none, draws, columns, width)
    found = re.findall(
        r'class="tick" x="([\d.]+)" y="([\d.]+)" text-anchor="middle">(\d+)<', svg
    )
    ends = sorted(
        (float(x) - 0.5 * LETTER * len(text), float(x) + 0.5 * LETTER * len(text))
        for x, _, text in found
    )
    assert len(ends) >= 4
    assert all(a[1] + 4.0 <= b[0] for a, b in itertools.pairwise(ends))
