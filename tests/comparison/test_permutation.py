"""The permutation test: exact, and fast without being anything else."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from kexpfam.comparison import mmd_test
from kexpfam.comparison.permutation import divisions, mmd_of_divisions
from kexpfam.comparison.samples import TILE, kernel_for
from kexpfam.kernels import Gaussian, Matern
from tests.oracles.comparison import slow_mmd
from tests.tolerances import STANDARD_ERRORS, assert_close


def gaussian(a, b):
    return np.exp(-0.5 * np.sum((a - b) ** 2) / 0.8**2)


def test_statistics_equal_a_loop_over_permutations_and_pairs():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(7, 2)), rng.normal(0.5, 1.0, size=(11, 2))
    result = mmd_test(X, Y, kernel=Gaussian(0.8), n_permutations=40, random_state=3)
    groups = divisions(7, 11, 40, np.random.default_rng(3)).astype(bool)
    pooled = np.concatenate([X, Y])
    expected = [slow_mmd(gaussian, pooled[g], pooled[~g]) for g in groups.T]
    assert_close(result.statistic, expected[0])
    assert_close(result.null, np.sort(expected[1:]))
    as_large = sum(value >= expected[0] for value in expected[1:])
    assert result.p_value == (1 + as_large) / 41


def test_several_tiles_equal_the_whole_matrix():
    rng = np.random.default_rng(1)
    m, n = TILE + 9, TILE // 2
    X, Y = rng.normal(size=(m, 3)), rng.normal(size=(n, 3))
    result = mmd_test(X, Y, kernel=Matern(1.0), n_permutations=5, random_state=4)
    pooled = np.concatenate([X, Y])
    K = Matern(1.0)(pooled, pooled)
    np.fill_diagonal(K, 0.0)
    W = divisions(m, n, 5, np.random.default_rng(4))
    V = W / m - (1.0 - W) / n
    unequal = np.einsum("ag,ag->g", V, K @ V)  # biased, but for its own pairs
    within = np.einsum("ag,ag->g", W, K @ W) * (1 / (m * (m - 1)) - 1 / m**2)
    outside = np.einsum("ag,ag->g", 1 - W, K @ (1 - W))
    expected = unequal + within + outside * (1 / (n * (n - 1)) - 1 / n**2)
    assert_close(result.statistic, expected[0], 1e-9)  # means that nearly cancel
    assert_close(result.null, np.sort(expected[1:]), 1e-9)


def test_divisions_are_those_of_the_sizes():
    groups = divisions(3, 5, 200, np.random.default_rng(5))
    assert groups.shape == (8, 201)
    assert_array_equal(groups[:, 0], [1, 1, 1, 0, 0, 0, 0, 0])
    assert_array_equal(groups.sum(axis=0), 3)
    # Each row is as often in the first group: 3/8, but for chance.
    share = groups[:, 1:].mean(axis=1)
    error = np.sqrt(3 / 8 * 5 / 8 / 200)
    assert np.abs(share - 3 / 8).max() < STANDARD_ERRORS * error


def test_the_p_value_is_exact_over_all_divisions():
    """With all divisions instead of random ones, p-values are uniform ranks."""
    rows = np.array([0.0, 0.4, 1.1, 1.7, 2.9, 5.0])[:, None]
    chosen = [
        np.isin(np.arange(6), which) for which in itertools.combinations(range(6), 3)
    ]
    groups = np.column_stack([[1, 1, 1, 0, 0, 0], *chosen]).astype(float)
    kernel = kernel_for(None, rows)
    p_values = [
        mmd_of_divisions(kernel, rows[first], rows[~first], groups).p_value
        for first in chosen
    ]
    # Equal groups come in pairs, a division and its mirror image, with equal p.
    ranks = np.repeat(np.arange(2, 22, 2), 2)
    assert_close(np.sort(p_values), (1 + ranks) / 21)


@pytest.mark.slow
def test_size_is_that_of_the_level():
    rng = np.random.default_rng(6)
    p = [
        mmd_test(
            rng.exponential(size=15),
            rng.exponential(size=25),
            n_permutations=99,
            random_state=rng,
        ).p_value
        for _ in range(400)
    ]
    for level in (0.05, 0.2):
        error = np.sqrt(level * (1 - level) / 400)
        assert abs(np.mean(np.array(p) <= level) - level) < STANDARD_ERRORS * error


def test_power_grows_with_the_effect():
    rng = np.random.default_rng(7)
    X, noise = rng.normal(size=(2, 100, 2))
    statistics = [
        mmd_test(X, noise + shift, n_permutations=200, random_state=0)
        for shift in (0.0, 0.5, 1.0)
    ]
    assert statistics[0].p_value > 0.05
    assert statistics[2].p_value == 1 / 201
    values = [result.statistic for result in statistics]
    assert values == sorted(values)


def test_a_difference_in_scale_alone_is_seen():
    rng = np.random.default_rng(8)
    result = mmd_test(rng.normal(size=200), 2.0 * rng.normal(size=150), random_state=0)
    assert result.p_value < 0.01


def test_samples_without_spread_cannot_be_told_apart():
    assert mmd_test(np.ones(5), np.ones(7), random_state=0).p_value == 1.0


def test_the_same_seed_gives_the_same_result():
    rng = np.random.default_rng(9)
    X, Y = rng.normal(size=(2, 30))
    one, other = (mmd_test(X, Y, random_state=1) for _ in range(2))
    assert_array_equal(one.null, other.null)
    assert len(mmd_test(X, Y, max_rows=10, n_permutations=3).null) == 3


def test_the_sentence_names_the_permutations():
    rng = np.random.default_rng(10)
    result = mmd_test(*rng.normal(size=(2, 30)), n_permutations=50, random_state=0)
    assert str(result).endswith("for samples of one distribution (50 permutations)")


def test_wrong_input_is_refused():
    with pytest.raises(ValueError, match=r"n_permutations must be .* from 1 on, got 0"):
        mmd_test(np.ones(3), np.ones(3), n_permutations=0)
    with pytest.raises(ValueError, match=r"second has 1 rows, and .* at least 2"):
        mmd_test(np.ones(3), np.ones(1))
    with pytest.raises(ValueError, match="second has 2 columns, but first has 1"):
        mmd_test(np.ones(3), np.ones((3, 2)))
