"""Where pictures begin: at a row that occurs, and what is said where few are near."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np

from kexpfam.display import FEW_NEAR, FEW_ROWS, near_note
from kexpfam.explorer import ConditionalView, Question, report


def test_controls_begin_at_a_row_of_the_data(view):
    subject = view.subject
    place = subject.typical_row()
    np.testing.assert_array_equal(subject.row({})[0], subject.X[place])


def test_without_data_controls_begin_at_medians(alone):
    assert alone.typical_row() is None
    starts = {control.name: control.start for control in alone.controls}
    shown = ConditionalView(alone).subject.controls
    assert {control.name: control.start for control in shown} == starts


def test_the_page_says_where_a_density_is_extrapolated(view):
    far = view.density(Question({"values": {"area": 5000.0}}))
    assert far["near_note"] == near_note(far["near"]) != ""
    assert view.density(Question({}))["near_note"] == ""


def test_curves_are_veiled_exactly_where_few_rows_are_near(view):
    subject = view.subject
    area = subject.control("area")
    wide = replace(area, low=area.low - 200.0, high=area.high + 200.0)
    found = subject.along(wide, subject.row({}))
    X = np.repeat(subject.row({}), len(found.places), axis=0)
    X[:, 0] = found.places
    np.testing.assert_array_equal(found.few, subject.model.reliability(X) < FEW_ROWS)
    assert found.few[0]
    assert found.few[-1]
    assert not found.few.all()
    others = [c for c in subject.controls if c.name != "area"]
    far = ConditionalView(replace(subject, controls=(wide, *others)))
    answer = far.curve(Question({"feature": "area"}))
    assert answer["few"]
    assert answer["picture"].count('class="few"') == 2


def test_the_report_warns_of_extrapolation(view, alone):
    area, *others = alone.controls
    far = replace(alone, controls=(replace(area, start=5000.0), *others))
    text = report(ConditionalView(far))
    assert near_note(0.0) in text
    assert FEW_NEAR in text
    assert "a typical row" in report(view)
    assert near_note(0.0) not in report(view)


def test_models_without_memory_of_rows_are_not_judged(view):
    model = SimpleNamespace(given=view.subject.model.given)
    silent = ConditionalView(replace(view.subject, model=model))
    assert silent.near(view.subject.row({})) is None
