"""Where pictures begin: at a row that occurs, and what is said where few are near."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from kexpfam.explorer import ConditionalView, report
from kexpfam.explorer.numbers import curve_numbers
from kexpfam.explorer.questions import Question
from kexpfam.explorer.typical import Block, typical_of, typical_place
from kexpfam.explorer.wording import FEW_NEAR, FEW_ROWS, near_note

BLOCKS = [Block((0,), False), Block((1,), False), Block((2, 3), True)]


def two_kinds(n=40, seed=0):
    """Rows of A around (0, 0) and of B around (10, 10), with one more of A."""
    rng = np.random.default_rng(seed)
    is_a = np.arange(2 * n + 1) <= n
    numbers = rng.normal(size=(len(is_a), 2)) + 10.0 * ~is_a[:, None]
    return np.column_stack([numbers, is_a, ~is_a])


def slow_place(X, wanted):
    """Nearest row to wanted numbers and a category, by a loop."""
    deviation = X.std(axis=0)
    best, least = -1, np.inf
    for i, row in enumerate(X):
        distance = sum(((row[j] - wanted[j]) / deviation[j]) ** 2 for j in (0, 1))
        distance += row[2] != wanted[2]
        if distance < least:
            best, least = i, distance
    return best


def test_the_typical_row_is_nearest_to_medians_and_modes():
    X = two_kinds()
    wanted = [np.median(X[:, 0]), np.median(X[:, 1]), 1.0]
    assert typical_place(X, BLOCKS) == slow_place(X, wanted)


def test_a_given_category_takes_a_typical_row_of_its_own():
    X = two_kinds()
    of_b = X[X[:, 3] == 1.0]
    place = typical_place(X, BLOCKS, {2: [0.0, 1.0]})
    assert X[place, 3] == 1.0
    middle = np.median(of_b[:, :2], axis=0)
    distances = (((of_b[:, :2] - middle) / X[:, :2].std(axis=0)) ** 2).sum(axis=1)
    np.testing.assert_array_equal(X[place], of_b[np.argmin(distances)])


def test_a_given_number_takes_the_nearest_row():
    X = two_kinds()
    place = typical_place(X, BLOCKS, {1: [11.3]})
    assert place == np.argmin(np.abs(X[:, 1] - 11.3))


def test_a_category_that_does_not_occur_leaves_all_rows():
    X = two_kinds()[:10]
    assert 0 <= typical_place(X, BLOCKS, {2: [0.0, 1.0]}) < 10


def test_without_features_any_row_is_typical():
    assert typical_place(np.empty((3, 0)), []) == 0


def test_controls_begin_at_a_row_of_the_data(view):
    subject = view.subject
    place = typical_of(subject)
    np.testing.assert_array_equal(subject.row({})[0], subject.X[place])


def test_without_data_controls_begin_at_medians(view):
    subject = view.subject
    alone = replace(subject, X=subject.X[:0], y=subject.y[:0])
    assert typical_of(alone) is None
    assert ConditionalView(alone).subject.controls == alone.controls


@pytest.mark.parametrize("count", [None, FEW_ROWS, 50.0])
def test_nothing_is_said_where_enough_rows_are_near(count):
    assert near_note(count) == ""


@pytest.mark.parametrize(
    ("count", "words"), [(0.1, "0 training rows are"), (1.4, "1 ")]
)
def test_few_rows_are_counted(count, words):
    assert near_note(count).startswith(f"about {words}")


def test_the_page_says_where_a_density_is_extrapolated(view):
    far = view.density(Question({"values": {"area": 5000.0}}))
    assert far["near_note"] == near_note(far["near"]) != ""
    assert view.density(Question({}))["near_note"] == ""


def test_curves_are_veiled_exactly_where_few_rows_are_near(view):
    subject = view.subject
    area = subject.control("area")
    wide = replace(area, low=area.low - 200.0, high=area.high + 200.0)
    found = curve_numbers(subject.model, subject.row({}), wide)
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


def test_the_report_warns_of_extrapolation(view):
    subject = view.subject
    area, *others = subject.controls
    alone = replace(
        subject,
        X=subject.X[:0],
        y=subject.y[:0],
        controls=(replace(area, start=5000.0), *others),
    )
    text = report(ConditionalView(alone))
    assert near_note(0.0) in text
    assert FEW_NEAR in text
    assert "a typical row" in report(view)
    assert near_note(0.0) not in report(view)


def test_models_without_memory_of_rows_are_not_judged(view):
    model = SimpleNamespace(given=view.subject.model.given)
    silent = ConditionalView(replace(view.subject, model=model))
    assert silent.near(view.subject.row({})) is None
