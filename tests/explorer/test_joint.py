"""The page of a joint density shows its graph, and draws given what is held fixed."""

import numpy as np
import pytest

from kexpfam import KCEF, FactorizedDensity
from kexpfam.explorer import ExplorerError, JointSubject, JointView
from kexpfam.explorer.questions import Question


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
