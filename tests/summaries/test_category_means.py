"""Means of categories: shrunk as by hand, and held out for the rows of a fit."""

import math

import numpy as np
import pytest
from scipy import stats

from kexpfam import KCEF
from kexpfam.summaries import (
    differ,
    fold_of_rows,
    held_out_codes,
    log_deviations,
    shrunk_means,
)
from kexpfam.tables import Coding
from kexpfam.tables.columns import as_table
from tests.oracles.target_means import held_out_codes_slow, shrunk_means_slow

W = np.ones(300)


def draws(n=60, k=7, effect=1.0, seed=0):
    rng = np.random.default_rng(seed)
    groups = rng.integers(0, k - 1, n)  # the last has no rows
    y = effect * rng.normal(size=k)[groups] + rng.normal(size=n)
    return groups, k, y, rng.uniform(0.5, 2.0, n)


@pytest.mark.parametrize("effect", [0.0, 0.5, 20.0])
@pytest.mark.parametrize("seed", range(3))
def test_means_are_shrunk_as_by_hand(effect, seed):
    groups, k, y, w = draws(effect=effect, seed=seed)
    found = shrunk_means(groups, k, np.column_stack([y, -y]), w)
    expected = shrunk_means_slow(groups, k, y, w)
    np.testing.assert_allclose(found, np.column_stack([expected, -expected]))


def test_held_out_means_are_those_of_the_other_parts():
    groups, k, y, w = draws()
    expected = held_out_codes_slow(groups, k, y, w, fold_of_rows(len(y)))
    found = held_out_codes(groups, k, y[:, None], w)
    np.testing.assert_allclose(found[:, 0], expected)


def test_codes_of_a_row_do_not_know_its_response():
    groups, k, y, w = draws()
    other = y.copy()
    other[3] += 100.0
    shift = np.average(other, weights=w) - np.average(y, weights=w)
    found, changed = (held_out_codes(groups, k, v[:, None], w) for v in (y, other))
    np.testing.assert_allclose(changed[3] - found[3], shift)  # the same for all rows


def test_noise_is_not_learned_from_hundreds_of_categories():
    """Codes of categories that say nothing are hardly correlated with y."""
    rng = np.random.default_rng(1)
    n = 1500
    shop = [f"shop {i}" for i in rng.integers(0, 150, n)]
    y = rng.normal(size=(n, 1))
    table = as_table({"shop": shop, "x": rng.normal(size=n)})
    coding = Coding.learn(table, Y=y)
    X = coding.training(table, y)
    if "shop: mean of y" in coding.columns:
        code = X[:, coding.columns.index("shop: mean of y")]
        assert abs(np.corrcoef(code, y[:, 0])[0, 1]) < 0.08
    # As a plain mean of all rows is: it has seen y.
    naive = np.array([y[np.array(shop) == s].mean() for s in shop])
    assert np.corrcoef(naive, y[:, 0])[0, 1] > 0.2


def test_rare_and_new_categories_share_a_mean():
    rng = np.random.default_rng(2)
    often = np.repeat([f"v{i}" for i in range(10)], 12)
    rare = [f"rare {i}" for i in range(9)]
    labels = np.concatenate([often, rare])
    y = np.concatenate([np.repeat(np.arange(10.0), 12), np.full(9, 40.0)])
    y = (y + 0.1 * rng.normal(size=len(y)))[:, None]
    coding = Coding.learn({"v": labels}, Y=y)
    with pytest.warns(UserWarning, match=r"1 row of column 'v'.*\('new'\)"):
        X = coding.transform({"v": ["rare 3", "new", "v4"]}).X
    np.testing.assert_allclose(X[:, 0], [40.0, 40.0, 4.0], atol=0.3)
    assert coding.feature("v").value(X[2]) == "v4"


def log_deviations_slow(groups, k, y, w):
    means = held_out_codes_slow(groups, k, y, w, fold_of_rows(len(y)))
    left = [v - m for v, m in zip(y, means, strict=True)]
    size = math.sqrt(sum(a * b**2 for a, b in zip(w, left, strict=True)) / sum(w))
    return [0.5 * math.log(r**2 + (1e-3 * size) ** 2) for r in left]


def test_log_deviations_are_those_by_hand():
    groups, k, y, w = draws()
    found = log_deviations(groups, k, y[:, None], w)[:, 0]
    np.testing.assert_allclose(found, log_deviations_slow(groups, k, y, w))


def test_groups_that_are_alike_seldom_seem_to_differ():
    rng = np.random.default_rng(0)
    alarms, found = 0, 0
    for _ in range(200):
        groups, y = rng.integers(0, 20, 300), rng.normal(size=(300, 1))
        scale = np.exp(0.6 * rng.normal(size=20))[groups, None]
        alarms += differ(groups, 20, log_deviations(groups, 20, y, W), W)
        far = log_deviations(groups, 20, y * scale, W)
        found += differ(groups, 20, far, W)
    assert alarms <= 2
    assert found >= 190


def spread_only(n, seed):
    """Thirty categories with the same mean of y, and far from the same spread."""
    rng = np.random.default_rng(seed)
    city = rng.integers(0, 30, n)
    scale = np.exp(1.5 * np.sin(7.0 * city))
    table = {"city": [f"c{k}" for k in city], "x": rng.normal(size=n)}
    return table, scale * rng.normal(size=n), scale


def test_a_category_that_changes_only_the_spread_is_not_lost():
    table, y, scale = spread_only(600, 0)
    coding = Coding.learn(table, Y=y[:, None])
    assert coding.columns == ["city: mean of y", "city: spread of y", "x"]
    codes = coding.transform(table).X[:, 1]
    assert np.corrcoef(codes, np.log(scale))[0, 1] > 0.9
    held_out = coding.training(as_table(table), y[:, None])[:, 1]
    assert np.corrcoef(held_out, np.log(scale))[0, 1] > 0.8
    model = KCEF(base="heteroscedastic", select=None).fit(table, y)
    new, truth, true_scale = spread_only(400, 1)
    best = stats.norm.logpdf(truth, scale=true_scale).mean()
    alone = stats.norm.logpdf(truth, scale=y.std()).mean()
    # Without the column nothing tells of the spread, and the mean of y says nothing.
    assert model.score(new, truth) > 0.5 * (best + alone)


def test_a_spread_that_is_the_same_has_no_column():
    rng = np.random.default_rng(0)
    city = rng.integers(0, 30, 600)
    y = 1.0 * (city % 5) + rng.normal(size=600)
    coding = Coding.learn({"city": [f"c{k}" for k in city]}, Y=y[:, None])
    assert coding.columns == ["city: mean of y"]
