"""Median distances against loops over pairs."""

import itertools

import numpy as np
import pytest

from kexpfam._heuristics import median_distance, median_filler
from tests.tolerances import assert_close

POINTS = np.random.default_rng(0).normal(size=(12, 2))


def test_it_is_the_median_over_all_pairs():
    pairs = [np.linalg.norm(a - b) for a, b in itertools.combinations(POINTS, 2)]
    assert_close(median_distance(POINTS), np.median(pairs))
    assert_close(median_distance(POINTS, np.full(12, 3.0)), np.median(pairs))


def test_a_weight_of_two_equals_two_rows():
    counts = np.arange(12) % 3 + 1
    repeated = np.repeat(POINTS, counts, axis=0)
    found = median_distance(POINTS, counts.astype(float))
    assert_close(found, median_distance(repeated))


@pytest.mark.parametrize("unit", [1e-300, 1e300, 5e-324])
def test_only_ratios_of_weights_matter(unit):
    counts = np.arange(12) % 3 + 1.0
    assert_close(
        median_distance(POINTS, unit * counts), median_distance(POINTS, counts)
    )


def test_rows_of_weight_zero_are_not_there():
    weights = np.where(np.arange(12) < 7, 1.0, 0.0)
    wild = np.where(weights[:, None] > 0, POINTS, 1e9)
    assert_close(median_distance(wild, weights), median_distance(POINTS[:7]))


@pytest.mark.parametrize(
    ("points", "weights"),
    [
        (np.ones((5, 2)), None),
        (np.zeros((5, 0)), None),
        (POINTS[:1], None),
        (POINTS, np.eye(12)[3]),
    ],
    ids=["all alike", "no columns", "one row", "one row with weight"],
)
def test_without_positive_distances_it_is_one(points, weights):
    assert median_distance(points, weights) == 1.0


def test_many_rows_are_thinned_out_with_little_change():
    many = np.random.default_rng(1).normal(size=(2000, 1))
    # The median of |a − b| for two normal numbers is 0.6745·√2; 250 rows tell it to
    # a few per cent.
    assert abs(median_distance(many) / (0.6745 * np.sqrt(2)) - 1.0) < 0.1


def test_only_open_lengthscales_are_filled_in():
    fill = median_filler(POINTS, np.ones(12), 0.5)
    assert_close(fill("median"), 0.5 * median_distance(POINTS))
    assert fill(0.3) == 0.3
    assert fill((1.0, 2.0)) == (1.0, 2.0)
