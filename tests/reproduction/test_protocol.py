"""Splits: every row is on one side, and nobody is on both; losses, by hand."""

import numpy as np
import pytest

from reproduction import protocol
from reproduction.protocol import (
    BY_PERSON,
    DISTINCT,
    halves,
    in_units,
    joint_split,
    losses,
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


def test_readings_of_a_set(monkeypatch):
    repeated = np.concatenate([DATA, DATA[:40]])
    groups = np.repeat(np.arange(47), 3)
    monkeypatch.setattr(
        protocol, "load_benchmark", lambda name: Loaded(repeated, groups)
    )
    assert sum(map(len, joint_split("toy", 0))) == 141
    distinct = joint_split("toy" + DISTINCT, 0)
    assert sum(map(len, distinct)) == 101
    assert len(np.unique(np.concatenate(distinct), axis=0)) == 101
    assert len(joint_split("toy" + BY_PERSON, 0).test) == 12
    monkeypatch.setattr(protocol, "load_benchmark", lambda name: Loaded(repeated))
    with pytest.raises(ValueError, match="rows of toy do not come from persons"):
        joint_split("toy" + BY_PERSON, 0)


LOGS = np.array([[-1.0, -2.0], [-50.0, 3.0]])


def test_joint_losses_add_up_over_factors():
    found = losses(LOGS, vanishing=False)
    assert found["nll"] == pytest.approx((3.0 + 47.0) / 2)
    assert found["worst"] == 47.0
    assert found["below_floor"] == 1


def test_where_densities_vanish_each_factor_has_a_floor():
    found = losses(LOGS, vanishing=True)
    assert found["nll"] == found["nll_floored"] == pytest.approx((3.0 + 17.0) / 2)
    assert found["worst"] == 17.0
    vanished = losses(np.array([[-np.inf]]), vanishing=True)
    assert vanished["nll"] == 20.0


def test_what_is_not_a_number_is_a_failure():
    with pytest.raises(ValueError, match="1 log densities are not numbers"):
        losses(np.array([[np.nan], [0.0]]), vanishing=False)
