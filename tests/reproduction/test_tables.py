"""Means, tests and tables, against SciPy and by hand."""

import numpy as np
import pytest
from scipy import stats

from reproduction.record import Record, Task
from reproduction.tables import (
    Sample,
    at_or_below,
    best_methods,
    cell,
    in_words,
    mean_and_error,
    paired_p_value,
    rounded,
    samples,
    table,
    values,
)


def sample_of(*values, first=0):
    return Sample(dict(enumerate(values, start=first)))


def record(case, method, split, error=None, **figures):
    return Record(Task("toy", case, method, split), figures, error, 1.0, {})


def test_standard_error_is_that_of_a_mean():
    values = np.random.default_rng(0).normal(size=12)
    found = sample_of(*values)
    assert found.mean == pytest.approx(values.mean())
    assert found.standard_error == pytest.approx(stats.sem(values))
    assert sample_of(1.0).standard_error == 0.0


def test_failed_tasks_have_no_figures_and_do_not_count():
    found = samples(
        [
            record("a", "m", 0, nll=1.0),
            record("a", "m", 1, error="ValueError: no"),
            record("a", "m", 2, nll=3.0),
        ],
        "nll",
    )
    assert found["a"]["m"].values == {0: 1.0, 2: 3.0}


def test_p_values_are_those_of_a_paired_test_on_shared_splits():
    rng = np.random.default_rng(1)
    first, second = rng.normal(size=8), rng.normal(size=10) + 0.5
    expected = stats.ttest_rel(first, second[:8]).pvalue
    found = paired_p_value(sample_of(*first), sample_of(*second))
    assert found == pytest.approx(expected)
    shifted = Sample({k + 100: v for k, v in enumerate(second)})
    assert paired_p_value(sample_of(*first), shifted) == 1.0


def test_constant_differences_are_certain():
    assert paired_p_value(sample_of(1.0, 2.0), sample_of(1.0, 2.0)) == 1.0
    assert paired_p_value(sample_of(1.0, 2.0), sample_of(2.0, 3.0)) == 0.0


def test_the_best_are_those_that_chance_could_have_exchanged():
    rng = np.random.default_rng(2)
    base = rng.normal(size=20)
    methods = {
        "good": sample_of(*base),
        "same": sample_of(*(base + 0.01 * rng.normal(size=20))),
        "worse": sample_of(*(base + 1.0 + 0.01 * rng.normal(size=20))),
        "once": sample_of(base[0] + 0.1),
    }
    assert best_methods(methods) == {"good", "same"}
    assert best_methods({}) == set()


def test_cells_tell_how_many_splits_there_were_unless_all():
    full = sample_of(1.0, 1.2)
    assert cell(full, expected=2) == "1.10 ± 0.10"
    assert cell(full, expected=3) == "1.10 ± 0.10 (2)"
    assert cell(sample_of(0.5), bold=True) == "**0.50**"
    assert cell(sample_of(-0.001)) == "0.00"
    assert cell(None) == ""


def test_reached_means_to_the_printed_digits():
    assert at_or_below(sample_of(0.5649), 0.56)
    assert not at_or_below(sample_of(0.5651), 0.56)


def test_means_in_words_have_their_standard_error():
    mean, error = mean_and_error([1.0, 2.0, 6.0])
    assert mean == 3.0
    assert error == pytest.approx(np.sqrt(((4 + 1 + 9) / 2) / 3))
    assert in_words([1.0, 2.0, 6.0], 2) == "3.00 ± 1.53"
    assert (in_words([0.5]), in_words([])) == ("0.500", "–")


def test_values_leave_out_other_methods_and_what_was_not_finite():
    some = [record("a", "m", 0, x=1.0), record("a", "m", 1, x=None)]
    assert values([*some, record("a", "other", 0, x=2.0)], "m", "x") == [1.0]
    assert rounded(np.nan) is None
    assert rounded(0.123456789) == 0.123457


def test_a_table_has_its_first_column_on_the_left():
    assert (
        table(["n", "KL"], [["50", "0.1"]]) == "| n | KL |\n| :-- | --: |\n| 50 | 0.1 |"
    )


def test_a_mean_over_a_few_easy_splits_is_not_the_best():
    rng = np.random.default_rng(3)
    base = np.sort(rng.normal(size=20))
    methods = {
        "all": sample_of(*base),
        "easy": sample_of(*(base[:3] + 1.0 + 0.01 * rng.normal(size=3))),
    }
    assert methods["easy"].mean < methods["all"].mean
    assert best_methods(methods) == {"all"}
    methods["better"] = sample_of(*(base[:3] - 1.0 + 0.01 * rng.normal(size=3)))
    assert best_methods(methods) == {"all", "better"}
