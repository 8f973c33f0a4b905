"""Columns that cannot help are known, those that tell too much are asked about."""

import numpy as np
import pytest

from kexpfam.tables import as_table
from kexpfam.tables.suspects import fixes_response, why_useless

N = 40
RNG = np.random.default_rng(0)


@pytest.mark.parametrize(
    ("name", "cells", "why"),
    [
        ("x", np.full(N, 3.0), "is always 3"),
        ("x", ["Peru"] * N, "is always Peru"),
        ("x", [None] * N, "has no values"),
        ("x", [3.0] * (N - 1) + [None], None),  # where it is missing may help
        ("rownames", np.arange(1, N + 1), "counts rows"),
        ("Unnamed: 0", RNG.permutation(N), "counts rows"),
        ("id", 7 * np.arange(N), "counts rows"),
        ("id", np.arange(N) // 2, None),  # of persons with two rows
        ("id", np.arange(N) + 0.5, None),
        ("index", np.arange(N), "counts rows"),
        ("index", 3 * np.arange(N), None),  # may be measured
        ("time", np.arange(N), None),
        ("x", [f"person {i}" for i in range(N)], "has another value in every row"),
        ("x", [f"person {i // 2}" for i in range(N)], None),
        ("x", [f"2024-{1 + i // 28:02d}-{1 + i % 28:02d}" for i in range(N)], None),
        ("x", ["a", "b", "c"], None),  # too few to tell
    ],
)
def test_columns_that_cannot_help_are_known(name, cells, why):
    assert why_useless(as_table({name: cells}), name, grouped=False) == why


def test_categories_of_numbers_that_are_all_different_are_not_identifiers():
    table = as_table({"code": np.arange(N)})
    assert why_useless(table, "code", grouped=True) is None


@pytest.mark.parametrize("digits", [1, 2, 6])
@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_a_rounded_monotone_function_is_a_leak(digits, sign):
    x = RNG.normal(size=500)
    y = (sign * np.exp(x)).round(digits)
    assert fixes_response(x.round(4), y, groups=False)


def test_no_leak_is_found_in_chance_and_in_close_relations():
    for seed in range(200):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=60)
        assert not fixes_response(x, rng.normal(size=60), groups=False)
        assert not fixes_response(x, x + 0.05 * rng.normal(size=60), groups=False)
        groups = rng.integers(0, 10, 60).astype(float)
        assert not fixes_response(groups, rng.integers(0, 3, 60) * 1.0, groups=True)


def test_categories_that_fix_y_are_leaks_if_they_repeat():
    groups = np.repeat(np.arange(20.0), 3)
    assert fixes_response(groups, np.sin(groups), groups=True)
    assert not fixes_response(np.arange(60.0), np.sin(groups), groups=True)
    assert not fixes_response(groups[:20], np.sin(groups[:20]), groups=True)
