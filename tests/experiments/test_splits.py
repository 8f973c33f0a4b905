"""Splits: every row is on one side, and nobody is on both."""

import numpy as np
import pytest

from kexpfam.experiments import splits
from kexpfam.experiments.splits import (
    BY_PERSON,
    DISTINCT,
    Split,
    conditional_split,
    halves,
    in_units,
    joint_split,
    nine_tenths,
    nine_tenths_of,
)

DATA = np.random.default_rng(0).normal(3.0, 2.0, size=(101, 3))


class Loaded:
    def __init__(self, data, groups=None):
        self.data, self.groups = data, groups


def sorted_rows(*parts):
    joined = np.concatenate(parts)
    return joined[np.lexsort(joined.T)]


@pytest.mark.parametrize(("divide", "tested"), [(halves, 51), (nine_tenths, 10)])
def test_every_row_is_on_one_side(divide, tested):
    train, test = divide(DATA, 5)
    assert len(test) == tested
    np.testing.assert_array_equal(sorted_rows(train, test), sorted_rows(DATA))
    assert not np.array_equal(divide(DATA, 6).test, test)
    np.testing.assert_array_equal(divide(DATA, 5).test, test)


def test_units_are_those_of_all_rows():
    scaled = in_units(DATA)
    np.testing.assert_allclose(scaled.mean(axis=0), 0.0, atol=1e-14)
    np.testing.assert_allclose(scaled.std(axis=0), 1.0)


@pytest.mark.parametrize("seed", range(20))
def test_nobody_is_on_both_sides(seed):
    groups = np.repeat(np.arange(12), np.arange(5, 17))
    data = np.column_stack([groups, np.arange(len(groups))]).astype(float)
    train, test = nine_tenths_of(groups, data, seed)
    assert not set(train[:, 0]) & set(test[:, 0])
    np.testing.assert_array_equal(sorted_rows(train, test), sorted_rows(data))
    assert len(set(test[:, 0])) == 1 or len(test) <= len(data) / 10


def test_a_limit_cuts_training_rows_only():
    split = Split(DATA[:90], DATA[90:])
    assert split.limited(None) is split
    train, test = split.limited(7)
    assert len(train) == 7
    assert test is split.test


def test_readings_of_a_set(monkeypatch):
    repeated = np.concatenate([DATA, DATA[:40]])
    groups = np.repeat(np.arange(47), 3)
    monkeypatch.setattr(splits, "load_benchmark", lambda name: Loaded(repeated, groups))
    assert sum(map(len, joint_split("toy", 0))) == 141
    distinct = joint_split("toy" + DISTINCT, 0)
    assert sum(map(len, distinct)) == 101
    assert len(np.unique(np.concatenate(distinct), axis=0)) == 101
    assert len(joint_split("toy" + BY_PERSON, 0).test) == 12
    assert len(conditional_split("toy", 0).train) == 70
    monkeypatch.setattr(splits, "load_benchmark", lambda name: Loaded(repeated))
    with pytest.raises(ValueError, match="rows of toy do not come from persons"):
        joint_split("toy" + BY_PERSON, 0)
