"""Effects of repeated values: found where rows share them, honest, and looked up."""

import numpy as np
import pandas as pd
import pytest

from kexpfam import KCEF
from kexpfam.summaries import ColumnKinds, LearnedSummary, fold_of_rows
from kexpfam.summaries.repeats import fit_repeats
from kexpfam.tables.coding import Coding

BOTH = np.arange(2)


def batches(n, seed=0, count=60):
    """y is off by 1 or so in each batch, whose number says nothing else."""
    effects = np.random.default_rng(99).normal(size=count)
    rng = np.random.default_rng(seed)
    batch = rng.integers(count, size=n)
    X = np.column_stack([np.sqrt(batch + 2.0), rng.uniform(-1, 1, size=n)])
    return X, np.sin(3 * X[:, 1]) + effects[batch] + 0.2 * rng.normal(size=n), batch


def test_rows_with_one_value_share_an_effect_that_new_rows_have():
    X, y, _ = batches(900)
    left = y - np.sin(3 * X[:, 1])
    repeats, held_out = fit_repeats(X, left, np.ones(900), BOTH)
    assert [own.column for own in repeats.columns] == [0]
    new, truth, _ = batches(900, seed=1)
    error = np.std(truth - np.sin(3 * new[:, 1]) - repeats.at(new)[:, 0])
    assert error == pytest.approx(0.2, rel=0.1)
    assert np.std(left - held_out[:, 0]) == pytest.approx(error, rel=0.1)


def test_there_are_none_where_values_say_nothing_or_little():
    found = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        X = rng.integers(40, size=(400, 2)).astype(float)
        small = 0.1 * np.sin(X[:, 0]) + rng.normal(size=400)
        for left in (rng.standard_t(3.0, size=400), small):
            found += fit_repeats(X, left, np.ones(400), BOTH) is not None
    assert found == 0


def test_effects_of_a_row_have_not_seen_its_part_of_the_rows():
    X, y, _ = batches(600)
    fold = fold_of_rows(600)
    other = np.where(fold == 2, y + 0.3, y)
    before, after = (fit_repeats(X, each, np.ones(600), BOTH) for each in (y, other))
    np.testing.assert_array_equal(before[1][fold == 2, 1], after[1][fold == 2, 1])
    # What the rows of a part change is the mean of all, around which shifts are.
    shifts = [
        found[1][fold == 2, 0] - np.mean(each)
        for found, each in zip((before, after), (y, other), strict=True)
    ]
    np.testing.assert_allclose(*shifts, atol=1e-12)


def test_values_are_the_same_up_to_rounding_and_new_ones_have_no_rows():
    X, y, _ = batches(600)
    repeats, _ = fit_repeats(X, y, np.ones(600), BOTH)
    rounded = X * (1.0 + 1e-13)
    np.testing.assert_array_equal(repeats.at(rounded), repeats.at(X))
    unknown = repeats.at(np.array([[-5.0, 0.0], [3.3, 0.0], [99.0, 0.0]]))
    np.testing.assert_allclose(unknown, np.tile([np.mean(y), 0.0], (3, 1)))
    counts = np.unique(X[:, 0], return_inverse=True, return_counts=True)
    np.testing.assert_allclose(repeats.at(X)[:, 1], np.log1p(counts[2][counts[1]]))


def test_weights_are_counts_of_rows():
    X, y, _ = batches(300, count=20)
    weights = np.random.default_rng(1).integers(1, 4, size=300).astype(float)
    once, _ = fit_repeats(X, y, weights, BOTH)
    times = weights.astype(int)
    copies = np.repeat(X, times, axis=0), np.repeat(y, times)
    repeated, _ = fit_repeats(*copies, np.ones(times.sum()), BOTH)
    np.testing.assert_allclose(once.at(X)[:, 1], repeated.at(X)[:, 1])
    np.testing.assert_allclose(once.at(X)[:, 0], repeated.at(X)[:, 0], atol=0.05)


@pytest.mark.parametrize("location", ["stack", "gaussian_process"])
def test_a_summary_with_effects_predicts_new_rows_as_it_promises(location):
    X, y, _ = batches(900, count=150)
    summary, rng = LearnedSummary(location, cells=0), np.random.default_rng(0)
    fit = summary.cross_fit(X, y[:, None], np.ones(900), rng)
    assert [own.column for own in fit.summary.repeats.columns] == [0]
    new, truth, _ = batches(900, seed=1, count=150)
    found, width = fit.model.at(fit.summary.at(new))
    left = truth - found[:, 0]
    assert np.std(left) < 0.4  # 0.86 and 0.97 without effects, 0.2 if they were known
    assert np.std(left / width[:, 0]) == pytest.approx(1.0, abs=0.2)


def test_densities_are_wider_where_a_value_is_new_if_some_rows_had_one_alone():
    rng = np.random.default_rng(0)
    n, alone = 900, np.arange(900) < 180
    batch = np.where(alone, 1000 + np.arange(n), rng.integers(40, size=n))
    effects = 2.0 * np.random.default_rng(9).normal(size=2000)
    X = np.column_stack([np.sin(1.0 + 7.0 * batch), rng.uniform(-1, 1, size=n)])
    y = X[:, 1] + effects[batch] + 0.2 * rng.normal(size=n)
    model = KCEF(features=LearnedSummary(cells=0), select=None, random_state=0)
    model.fit(X, y)
    asked = np.array([500 + np.arange(40), np.arange(40)])
    known, new = (
        model.given(np.column_stack([np.sin(1.0 + 7.0 * own), np.zeros(40)])).std()
        for own in asked[::-1]
    )
    assert np.median(new) > 1.5 * np.median(known)


def test_means_of_categories_are_no_values_that_come_back():
    rng = np.random.default_rng(0)
    shop = np.array([f"s{k}" for k in range(40)])[rng.integers(40, size=600)]
    coding = Coding.learn(pd.DataFrame({"size": rng.normal(size=600), "shop": shop}))
    assert coding.kinds == ColumnKinds(means=(1,))
    X, y, _ = batches(900)
    kinds = ColumnKinds(means=(0,))
    summary = LearnedSummary("extra_trees", cells=0, kinds=kinds)
    fit = summary.cross_fit(X, y[:, None], np.ones(900), np.random.default_rng(0))
    assert fit.summary.repeats is None
