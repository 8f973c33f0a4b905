"""Means and tables of records."""

import math

from kexpfam.experiments.summary import (
    in_words,
    mean_and_error,
    rounded,
    values,
)
from kexpfam.experiments.task import Record, Task


def record(method, figures, error=None):
    return Record(Task("s", "c", method, 0), figures, error, 0.0, {})


def test_the_standard_error_is_that_of_the_mean():
    mean, error = mean_and_error([1.0, 2.0, 6.0])
    assert mean == 3.0
    assert math.isclose(error, math.sqrt(((4 + 1 + 9) / 2) / 3))
    assert in_words([1.0, 2.0, 6.0], 2) == "3.00 ± 1.53"


def test_values_leave_out_other_methods_and_what_was_not_finite():
    some = [record("a", {"x": 1.0}), record("a", {"x": None}), record("b", {"x": 2.0})]
    assert values(some, "a", "x") == [1.0]
    assert rounded(math.nan) is None
