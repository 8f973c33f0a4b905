"""Cholesky with a diagnosis, row blocks and buffers."""

import threading
import warnings

import numpy as np
import pytest
from scipy import linalg as scipy_linalg

from kexpfam._linalg import (
    BLOCK_BYTES,
    BufferPool,
    block_height,
    for_each_row_block,
    ridge_cholesky,
)
from kexpfam.errors import ConditioningWarning, IllConditionedError
from tests.tolerances import ROUNDING, assert_close


def semidefinite(size, rank, seed=0):
    factor = np.random.default_rng(seed).normal(size=(size, rank))
    return factor @ factor.T


@pytest.mark.parametrize("size", [1, 2, 17])
@pytest.mark.parametrize("columns", [None, 1, 3])
def test_solution_equals_numpy(size, columns):
    A = semidefinite(size, size + 2)
    shape = (size,) if columns is None else (size, columns)
    rhs = np.random.default_rng(1).normal(size=shape)
    before = rhs.copy()
    factor = ridge_cholesky(A.copy(), 0.5, remedy="none")
    expected = np.linalg.solve(A + 0.5 * np.eye(size), rhs)
    solution = factor.solve(rhs)
    assert solution.shape == expected.shape
    assert_close(solution, expected, 1e-10)  # condition number up to 1e3
    np.testing.assert_array_equal(rhs, before)


def test_factor_is_the_upper_cholesky_factor():
    A = semidefinite(6, 8)
    factor = ridge_cholesky(A.copy(), 0.1, remedy="none")
    expected = scipy_linalg.cholesky(A + 0.1 * np.eye(6))
    assert_close(np.triu(factor.upper), expected)


def test_only_the_lower_triangle_is_read():
    A = semidefinite(9, 12)
    rhs = np.arange(9.0)
    expected = np.linalg.solve(A + 0.2 * np.eye(9), rhs)
    half = A.copy()
    half[np.triu_indices(9, 1)] = np.nan
    assert_close(ridge_cholesky(half, 0.2, remedy="none").solve(rhs), expected, 1e-10)


def test_the_matrix_is_factorised_in_place():
    A = semidefinite(5, 5)
    factor = ridge_cholesky(A, 0.1, remedy="none")
    assert np.shares_memory(factor.upper, A)


def test_rcond_is_a_lower_bound_of_the_reciprocal_condition_number():
    A = semidefinite(10, 4)
    factor = ridge_cholesky(A.copy(), 0.3, remedy="none")
    assert factor.ridge == 0.3
    true = 1.0 / np.linalg.cond(A + 0.3 * np.eye(10))
    assert true / 10 < factor.rcond <= true * (1 + ROUNDING)


def test_a_tiny_ridge_is_raised_and_the_warning_gives_the_numbers():
    A = semidefinite(40, 3)
    with pytest.warns(ConditioningWarning) as caught:
        factor = ridge_cholesky(A.copy(), 1e-30, remedy="do something")
    (warning,) = caught
    text = str(warning.message)
    assert text.startswith("The 40x40 system is nearly singular")
    assert f"reciprocal condition number {factor.rcond:.1e}" in text
    assert f"its ridge 1.0e-30 was raised to {factor.ridge:.1e}" in text
    assert text.endswith("do something.")
    assert factor.ridge > 1e-30
    rhs = A @ np.ones(40)
    assert np.all(np.isfinite(factor.solve(rhs)))


def test_a_small_but_sufficient_ridge_warns_without_raising_it():
    A = semidefinite(4, 2)
    ridge = 5e-14 * np.trace(A)
    with pytest.warns(ConditioningWarning) as caught:
        factor = ridge_cholesky(A.copy(), ridge, remedy="r")
    assert "raised" not in str(caught[0].message)
    assert factor.ridge == ridge


def test_a_sound_system_does_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ridge_cholesky(semidefinite(20, 3), 1e-6, remedy="none")


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("place", [(2, 2), (3, 1)], ids=["diagonal", "below"])
def test_entries_that_are_not_finite_raise(value, place):
    A = semidefinite(5, 7)
    A[place] = value
    with pytest.raises(IllConditionedError, match=r"5x5 system.*; lower it\.$"):
        ridge_cholesky(A, 0.1, remedy="lower it")


def test_an_indefinite_matrix_raises_and_says_what_was_added():
    A = np.diag([1.0, -2.0, 3.0])
    with pytest.raises(
        IllConditionedError,
        match=r"not positive definite.*1.0e-01 was added.*; help\.$",
    ):
        ridge_cholesky(A, 0.1, remedy="help")


def row_length(height):
    """Numbers in a row, of which so many rows are a block."""
    return BLOCK_BYTES // (8 * height)


@pytest.mark.parametrize("n_rows", [0, 1, 7, 64, 65])
@pytest.mark.parametrize("height", [1, 3, 64, 1000])
@pytest.mark.parametrize("n_jobs", [1, 2, None])
def test_row_blocks_cover_every_row_once(n_rows, height, n_jobs):
    visits = np.zeros(n_rows, dtype=int)
    heights = []

    def work(rows, empty):
        visits[rows] += 1
        heights.append(rows.stop - rows.start)

    for_each_row_block(n_rows, row_length(height), work, n_jobs=n_jobs)
    np.testing.assert_array_equal(visits, 1)
    assert max(heights, default=0) <= height


def test_row_blocks_start_with_the_last_rows():
    starts = []
    for_each_row_block(
        10, row_length(4), lambda rows, empty: starts.append(rows.start), n_jobs=1
    )
    assert starts == [8, 4, 0]


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_an_exception_in_a_row_block_reaches_the_caller(n_jobs):
    def work(rows, empty):
        if rows.start == 5:
            raise ZeroDivisionError("row block five")

    with pytest.raises(ZeroDivisionError, match="row block five"):
        for_each_row_block(20, row_length(1), work, n_jobs=n_jobs)


def test_two_jobs_run_on_two_threads():
    both = threading.Barrier(2, timeout=10)  # breaks if one thread does all the work
    for_each_row_block(2, row_length(1), lambda rows, empty: both.wait(), n_jobs=2)


def test_a_thread_keeps_its_temporaries_while_another_works():
    others_are_done = threading.Event()
    calls, kept = [], []

    def work(rows, empty):
        calls.append(rows)
        first = len(calls) == 1
        buffer = empty((1, 10))
        buffer[...] = 1.0 if first else -1.0
        if first:  # hold the buffer until the other thread has used its own twice
            assert others_are_done.wait(10)
            kept.append(buffer.copy())
        elif len(calls) == 3:
            others_are_done.set()

    for_each_row_block(3, row_length(1), work, n_jobs=2)
    np.testing.assert_array_equal(kept, np.ones((1, 1, 10)))


def test_row_block_rows_fill_the_given_bytes_and_are_never_zero():
    assert [block_height(length, 8 * 100) for length in (10, 33, 101)] == [10, 3, 1]
    assert block_height(0, 8 * 100) == 100
    assert block_height(1) == BLOCK_BYTES // 8


def test_pool_hands_out_disjoint_arrays_of_any_size_until_recycled():
    pool = BufferPool()
    # Small ones, one larger than all before together, and none at all.
    shapes = [(2, 3), (1, 4), (0, 5), (700, 1000), (3, 2), (900, 1000), (2, 3)]
    for _ in range(2):
        arrays = [pool.empty(shape) for shape in shapes]
        for value, array in enumerate(arrays):
            array[...] = value
        for value, (array, shape) in enumerate(zip(arrays, shapes, strict=True)):
            assert array.shape == shape
            assert array.dtype == np.float64
            np.testing.assert_array_equal(array, value)
        pool.recycle()


def test_pool_hands_out_the_same_memory_after_it_is_recycled():
    pool = BufferPool()
    first = pool.empty((20, 30))
    pool.recycle()
    assert np.shares_memory(pool.empty((30, 20)), first)
    assert not np.shares_memory(pool.empty((30, 20)), first)
