"""RowHashes depend on content alone, and so do the samples they choose."""

import numpy as np
import pytest

from kexpfam.data import (
    ArraySource,
    Rows,
    RowSample,
    distinct_hashes,
    reduce_blocks,
    row_hashes,
)

MASK = 2**64 - 1


def slow_fingerprint(row, seed):
    """Chained splitmix64, with Python's own integers."""
    golden = 0x9E3779B97F4A7C15
    value = (seed * golden + 1) & MASK
    for number in row:
        value ^= int(np.float64(number + 0.0).view(np.uint64))
        value = (value + golden) & MASK
        value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & MASK
        value ^= value >> 31
    return value


def slow_sample(X, Y, weights, size, seed):
    """Sort everything by row_hash, content and weight, and take the first."""
    rows = [
        (slow_fingerprint([*x, *y], seed), *(x + 0.0), *(y + 0.0), weight)
        for x, y, weight in zip(X, Y, weights, strict=True)
    ]
    return np.array([row[1:] for row in sorted(rows)[:size]])


@pytest.fixture(scope="module", params=["different", "repeated", "all equal"])
def rows(request):
    rng = np.random.default_rng(5)
    n = 700
    X, Y = rng.normal(size=(n, 2)), rng.normal(size=(n, 1))
    if request.param == "repeated":
        # 12 different rows, with zeros of both signs and several weights each
        X = rng.choice([-0.0, 0.0, 1.0, -1.0], size=(n, 2))
        Y = rng.choice([0.0, -0.0, 2.0], size=(n, 1))
    elif request.param == "all equal":
        X, Y = np.ones((n, 2)), np.zeros((n, 1))
    return X, Y, rng.choice([0.5, 1.0, 3.0], size=n)


@pytest.mark.parametrize("seed", [0, 1, 2**40])
def test_fingerprints_are_those_of_a_loop_over_rows(rows, seed):
    X, Y, _ = rows
    slow = [slow_fingerprint([*x, *y], seed) for x, y in zip(X, Y, strict=True)]
    assert row_hashes(X, Y, seed).tolist() == slow


def test_zeros_of_both_signs_are_equal():
    X = np.array([[0.0], [-0.0]])
    first, second = row_hashes(X, X, seed=3)
    assert first == second


def test_places_of_values_matter():
    x, y = np.array([[1.0, 2.0]]), np.array([[3.0]])
    hashes = [row_hashes(a, b, 0)[0] for a, b in ((x, y), (x[:, ::-1], y))]
    hashes += [row_hashes(y, y, 0)[0], row_hashes(x, y, 1)[0]]
    assert len(set(hashes)) == 4


def test_every_bit_is_set_in_half_of_the_fingerprints():
    # Neighbouring numbers, which differ in few bits: 20 000 draws of a fair coin stay
    # within five standard deviations, 0.018, for each of 64 bits.
    numbers = np.arange(20_000.0)[:, None]
    hashes = row_hashes(numbers, np.zeros_like(numbers), seed=0)
    bits = (hashes[:, None] >> np.arange(64, dtype=np.uint64)) & np.uint64(1)
    assert np.abs(bits.mean(axis=0) - 0.5).max() < 0.018
    assert len(np.unique(hashes)) == len(hashes)


def as_table(sample):
    return np.column_stack([sample.X, sample.Y, sample.weights])


@pytest.mark.parametrize("size", [1, 40, 699, 700, 5000])
def test_the_sample_of_different_rows_is_the_same_for_any_order_and_split(size):
    rng = np.random.default_rng(5)
    rows = rng.normal(size=(700, 2)), rng.normal(size=(700, 1)), rng.uniform(size=700)
    expected = slow_sample(*rows, size, seed=9)
    for block, threads in ((1, 3), (33, 1), (33, 2), (700, 1)):
        order = rng.permutation(len(rows[0]))
        source = ArraySource(*(array[order] for array in rows), rows=block)
        sample = reduce_blocks(source, RowSample(size, seed=9), n_jobs=threads)
        np.testing.assert_array_equal(as_table(sample), expected)


def test_the_sample_of_any_rows_is_the_same_for_any_order_of_blocks(rows):
    blocks = [
        next(part.read())
        for part in ArraySource(*(array.copy() for array in rows), rows=70).parts
    ]
    sampler, found = RowSample(100, seed=9), []
    for order in (range(10), reversed(range(10)), (3, 1, 4, 0, 5, 9, 2, 6, 8, 7)):
        state = sampler.start()
        for k in order:
            state = sampler.add(state, blocks[k])
        found.append(as_table(state))
        assert len(state) == 100
        assert not np.signbit(found[-1][found[-1] == 0]).any()
    np.testing.assert_array_equal(found[1], found[0])
    np.testing.assert_array_equal(found[2], found[0])


def test_copies_in_a_block_have_prints_of_their_own(rows):
    X, Y, weights = rows
    block = Rows(X, Y, weights)
    hashes = distinct_hashes(block, seed=2)
    assert len(np.unique(hashes)) == len(hashes)
    # One copy keeps the row_hash of the row.
    assert set(row_hashes(X, Y, 2).tolist()) <= set(hashes.tolist())
    np.testing.assert_array_equal(distinct_hashes(block, seed=2), hashes)


def test_rows_that_repeat_are_sampled_in_proportion():
    X = np.repeat(np.arange(10.0), 400)[:, None]
    order = np.random.default_rng(0).permutation(len(X))
    source = ArraySource(X[order], X[order], rows=500)
    sample = reduce_blocks(source, RowSample(1000, seed=0))
    counts = np.bincount(sample.X[:, 0].astype(int), minlength=10)
    assert np.abs(counts - 100).max() < 50  # five deviations


def test_the_sample_never_holds_more_than_its_size(rows):
    sampler = RowSample(20, seed=1)
    state = sampler.start()
    for part in ArraySource(*rows, rows=50).parts:
        for block in part.read():
            state = sampler.add(state, block)
            assert len(state) <= 20
            # and no view of something larger
            assert all(a.base is None or a.base.size <= a.size for a in (state.X,))


def test_other_seeds_give_other_samples():
    X = np.arange(1000.0)[:, None]
    source = ArraySource(X, X)
    first, second = (
        reduce_blocks(source, RowSample(50, seed=seed)).X for seed in (1, 2)
    )
    # 50 of 1000: 2.5 rows in common are expected, and 15 would be a wonder
    assert np.intersect1d(first, second).size < 15


def test_a_sample_of_sorted_rows_is_spread_over_them():
    X = np.linspace(0.0, 1.0, 20_000)[:, None]
    sample = reduce_blocks(ArraySource(X, X), RowSample(1000, seed=0))
    # mean of 1000 uniform numbers: standard deviation 0.009
    assert abs(sample.X.mean() - 0.5) < 0.04


@pytest.mark.parametrize("arguments", [(0, 1), (10, -1), (2.5, 0)])
def test_sizes_and_seeds_that_are_none_are_refused(arguments):
    with pytest.raises(ValueError, match="must be a whole number"):
        RowSample(*arguments)
