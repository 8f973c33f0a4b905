"""Atoms, counts and rounding of y: found where they are, and nowhere else."""

import numpy as np
import pytest

from kexpfam.selection.discrete import (
    find_atoms,
    has_few_values,
    looks_counted,
    rounding_width,
)

CONTINUOUS = {
    "normal": lambda rng: rng.normal(size=500),
    "exponential": lambda rng: rng.exponential(size=500),
    "t(2)": lambda rng: rng.standard_t(2, size=500),
    "uniform": lambda rng: rng.uniform(size=500),
    "to .1": lambda rng: rng.normal(size=500).round(1),
    "to .5": lambda rng: (2 * rng.normal(size=500)).round() / 2,
    "exponential to .1": lambda rng: rng.exponential(size=500).round(1),
    "lognormal to .1": lambda rng: rng.lognormal(size=500).round(1),
    "share to .01": lambda rng: rng.beta(2, 2, size=500).round(2),
}


@pytest.mark.parametrize("name", CONTINUOUS)
def test_no_atom_is_found_in_200_continuous_samples(name):
    for seed in range(200):
        assert not len(find_atoms(CONTINUOUS[name](np.random.default_rng(seed))))


@pytest.mark.parametrize(
    ("share", "digits"), [(0.03, 15), (0.03, 2), (0.1, 1), (0.4, 1), (0.9, 1)]
)
def test_an_atom_is_found(share, digits):
    for seed in range(10):
        rng = np.random.default_rng(seed)
        y = rng.lognormal(1.5, 0.7, size=600).round(digits)
        y[rng.random(600) < share] = 0.0
        assert find_atoms(y).tolist() == [0.0]


def test_caps_and_both_ends_are_found():
    rng = np.random.default_rng(0)
    y = np.clip(rng.normal(0.5, 0.5, size=500), 0.0, 1.0)
    assert find_atoms(y).tolist() == [0.0, 1.0]
    assert find_atoms(np.minimum(rng.gamma(4.0, 8.0, size=500), 50.0)).tolist() == [
        50.0
    ]


def test_heaps_and_values_without_a_density_are_no_atoms():
    rng = np.random.default_rng(0)
    y = rng.uniform(20, 80, size=2000).round(1)
    heaped = rng.random(2000) < 0.5
    y[heaped] = (y[heaped] / 5).round() * 5
    assert not len(find_atoms(y))  # half of the rows to whole fives
    few = rng.choice([0.0, 10.0, 20.0, 30.0], p=[0.85, 0.05, 0.05, 0.05], size=500)
    assert not len(find_atoms(few))
    assert not len(find_atoms(np.zeros(100)))
    assert not len(find_atoms(np.zeros(10)))


@pytest.mark.parametrize("mean", [0.5, 3.0, 10.0])
def test_counts_are_found(mean):
    rng = np.random.default_rng(0)
    assert looks_counted(1.0 * rng.poisson(mean, size=500))


def test_what_is_no_count_is_not_one():
    rng = np.random.default_rng(0)
    assert not looks_counted(rng.normal(size=500).round())  # negative
    assert not looks_counted(rng.uniform(0, 9, size=500).round(1))
    assert not looks_counted(rng.lognormal(6, 1, size=500).round())  # many values
    assert not looks_counted(10.0 * rng.poisson(3.0, size=500))  # in steps of ten
    assert not looks_counted(np.full(50, 3.0))
    assert not looks_counted(1.0 * (np.arange(50) == 7))  # one row differs


@pytest.mark.parametrize("width", [0.001, 0.1, 0.25, 0.5, 1.0, 5.0, 100.0])
def test_widths_of_rounding_are_found(width):
    rng = np.random.default_rng(1)
    y = np.round(rng.normal(3.0, 1.5, size=300) * 30 * width / width) * width
    found = rounding_width(y)
    assert found == pytest.approx(width)


def test_what_is_not_rounded_has_no_width():
    rng = np.random.default_rng(1)
    assert rounding_width(rng.normal(size=100)) == 0.0
    assert rounding_width(np.zeros(5)) == 0.0


def test_numbers_far_from_zero_are_not_rounded_by_being_there():
    y = np.random.default_rng(0).normal(size=200)
    for far in (1e6, 1e9, 1e12, -1e12):
        assert rounding_width(far + y) == 0.0
        assert rounding_width(far + y.round(1)) == 0.1


def test_few_values_are_told_from_rounded_ones():
    rng = np.random.default_rng(0)
    affairs = rng.choice([0.0, 1.0, 2.0, 3.0, 7.0, 12.0], size=400)
    assert has_few_values(affairs)
    assert has_few_values(rng.choice([0.0, 0.5, 2.25], size=60))
    assert not has_few_values(affairs[:50])  # too few rows for each
    assert not has_few_values(rng.normal(size=500).round())  # its ends are tails
    assert not has_few_values(rng.normal(size=500))
    assert not has_few_values(np.full(50, 3.0))
