"""Groups of columns, and rows that may exchange values."""

import numpy as np
import pytest
from scipy.stats import spearmanr

from kexpfam.explanation.similarity import (
    collinear_groups,
    cycled,
    dependence,
    marginal_donors,
    similar_donors,
)


@pytest.mark.parametrize("seed", range(5))
def test_exchanges_are_permutations_within_groups_without_fixed_points(seed):
    rng = np.random.default_rng(seed)
    groups = rng.integers(0, 6, 40)
    found = cycled(groups, rng)
    assert sorted(found) == list(range(40))
    counts = np.bincount(groups, minlength=6)
    assert counts.min() > 1, "the case below is another one"
    np.testing.assert_array_equal(groups[found], groups)
    assert not np.any(found == np.arange(40))


@pytest.mark.parametrize(
    "groups", [[0, 1, 1, 1], [0, 0, 1], [0, 1, 2], [0, 0, 1, 2, 2], [0, 1]]
)
def test_a_row_that_is_alone_exchanges_with_a_neighbouring_group(groups):
    found = cycled(np.array(groups), np.random.default_rng(0))
    assert sorted(found) == list(range(len(groups)))
    assert not np.any(found == np.arange(len(groups)))


def test_one_row_has_only_itself():
    assert marginal_donors(1, np.random.default_rng(0)).tolist() == [0]


def test_dependence_of_numbers_is_the_rank_correlation():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(60, 3)) @ rng.normal(size=(3, 3))
    expected = np.abs(spearmanr(Z).statistic)
    found = dependence(Z, [[0], [1], [2]])
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_a_number_that_categories_fix_goes_with_them():
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 3, 200)
    one_hot = np.eye(3)[kind]
    Z = np.column_stack(
        [one_hot, np.array([5.0, 1.0, 9.0])[kind], rng.normal(size=200)]
    )
    D = dependence(Z, [[0, 1, 2], [3], [4]])
    assert D[0, 1] > 0.8
    assert D[:2, 2].max() < 0.2
    assert collinear_groups(D) == [[0, 1], [2]]


def test_many_categories_of_few_rows_do_not_go_with_noise():
    rng = np.random.default_rng(0)
    one_hot = np.eye(12)[rng.integers(0, 12, 40)]
    D = dependence(np.column_stack([one_hot, rng.normal(size=40)]), [range(12), [12]])
    assert D[0, 1] < 0.4


def test_constants_depend_on_nothing():
    Z = np.column_stack([np.ones(9), np.arange(9.0)])
    np.testing.assert_array_equal(dependence(Z, [[0], [1]]), np.eye(2))


def test_one_column_is_a_group():
    assert collinear_groups(np.eye(1)) == [[0]]


def test_similar_rows_have_nearly_the_value_of_a_copy():
    rng = np.random.default_rng(0)
    a = rng.normal(size=1000)
    Z = np.column_stack([a, a + 0.01 * rng.normal(size=1000), rng.normal(size=1000)])
    donors = similar_donors(Z, [0], rng)
    assert np.std(Z[donors, 0] - a) < 0.25, "of 1.41 among all rows"


def test_similar_rows_have_any_value_of_a_column_that_nothing_predicts():
    # A tree that was grown on the same rows would find leaves of equal noise.
    rng = np.random.default_rng(1)
    Z = rng.normal(size=(400, 5))
    gaps = [np.std(Z[similar_donors(Z, [0], rng), 0] - Z[:, 0]) for _ in range(20)]
    assert np.mean(gaps) == pytest.approx(np.sqrt(2) * Z[:, 0].std(), rel=0.05)


def test_groups_are_exchanged_together_and_given_the_other_columns():
    rng = np.random.default_rng(2)
    c = rng.normal(size=800)
    Z = np.column_stack([c + 0.3 * rng.normal(size=800), c, rng.normal(size=800)])
    donors = similar_donors(Z, [0, 2], rng)
    left = Z[donors, 0] - c  # what c does not tell of it
    assert np.std(left) == pytest.approx(0.3, rel=0.25)


def test_without_other_columns_any_row_may_exchange():
    rng = np.random.default_rng(0)
    Z = np.arange(50.0)[:, None]
    donors = similar_donors(Z, [0], rng)
    assert sorted(donors) == list(range(50))
    assert not np.any(donors == np.arange(50))
