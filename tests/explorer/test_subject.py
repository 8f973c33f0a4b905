"""Where pictures begin: at a row that occurs, and what is said where few are near."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np

from kexpfam.display import EXTRAPOLATION, UNLIKE
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
    assert far["note"] == UNLIKE
    assert view.density(Question({}))["note"] == ""


def test_curves_are_veiled_exactly_where_no_row_is_like_them(view):
    subject = view.subject
    area = subject.control("area")
    wide = replace(area, low=area.low - 200.0, high=area.high + 200.0)
    found = subject.along(wide, subject.row({}))
    X = np.repeat(subject.row({}), len(found.places), axis=0)
    X[:, 0] = found.places
    np.testing.assert_array_equal(found.few, subject.model.extrapolates(X))
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
    assert UNLIKE in text
    assert EXTRAPOLATION in text
    assert "a typical row" in report(view)
    assert UNLIKE not in report(view)


def test_models_without_memory_of_rows_are_not_judged(view):
    model = SimpleNamespace(given=view.subject.model.given)
    silent = ConditionalView(replace(view.subject, model=model))
    assert silent.near(view.subject.row({})) is None
    assert not silent.subject.unlike(view.subject.row({"area": 5000.0})).any()
