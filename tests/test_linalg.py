"""Cholesky with a diagnosis, conjugate gradients, row blocks and buffers."""

import itertools
import threading
import warnings

import numpy as np
import pytest
from scipy import linalg as scipy_linalg

from kexpfam._linalg import (
    BLOCK_BYTES,
    BufferPool,
    block_height,
    conjugate_gradients,
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


def test_temporaries_of_a_block_lie_one_after_the_other_without_gaps():
    """Eight of a size fill a piece of memory, the first and any later one."""
    pool, size = BufferPool(), 2**16 + 8
    starts = [pool.empty((1, size)).ctypes.data for _ in range(24)]
    steps = np.diff(starts).reshape(-1)
    within = np.arange(23) % 8 != 7
    np.testing.assert_array_equal(steps[within], 8 * size)
    pool.recycle()
    again = [pool.empty((1, size)).ctypes.data for _ in range(24)]
    assert again == starts


def test_blocks_are_as_many_for_each_thread_and_no_higher_than_they_have_to_be():
    for n_rows, n_jobs, height in itertools.product((5, 64, 101), (1, 2, 3), (2, 7)):
        sizes = []
        for_each_row_block(
            n_rows,
            row_length(height),
            lambda rows, empty, sizes=sizes: sizes.append(rows.stop - rows.start),
            n_jobs=n_jobs,
        )
        least = -(-n_rows // height)
        whole = -(-least // n_jobs) * n_jobs if least > 1 else 1
        assert least <= len(sizes) <= whole
        # All but one have the same height, and it is the least for so many blocks.
        assert max(sizes) == -(-n_rows // whole)
        assert len(set(sizes)) <= 2


def energy_minima(A, rhs, P, start):
    """Where ‖z − z*‖_A is least in each Krylov space of P⁻¹A, by least squares."""
    exact, inverse = np.linalg.solve(A, rhs), np.linalg.inv(P)
    root = np.linalg.cholesky(A).T
    power, basis = inverse @ (rhs - A @ start), []
    for _ in range(len(rhs)):
        basis.append(power / np.linalg.norm(power))
        Q, _ = np.linalg.qr(np.stack(basis, axis=1))
        c, *_ = np.linalg.lstsq(root @ Q, root @ (exact - start), rcond=None)
        yield start + Q @ c
        power = inverse @ (A @ basis[-1])


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("started", [False, True])
def test_conjugate_gradients_minimise_the_energy_in_every_krylov_space(seed, started):
    rng = np.random.default_rng(seed)
    A = semidefinite(6, 12, seed) + 0.5 * np.eye(6)
    P = np.diag(rng.uniform(0.5, 2.0, 6))
    rhs, start = rng.normal(size=6), rng.normal(size=6) * started
    path = conjugate_gradients(
        lambda v: A @ v,
        rhs,
        lambda v: np.linalg.solve(P, v),
        start.copy() if started else None,
    )
    steps = list(itertools.islice(path, 7))
    assert_close(steps[0].solution, start)
    for step, best in zip(steps[1:], energy_minima(A, rhs, P, start), strict=True):
        assert_close(step.solution, best, 1e-7)  # of ever more parallel powers
    for step in steps:
        residual = rhs - A @ step.solution
        assert_close(step.residual, residual, ROUNDING, scale=10.0)
        square = residual @ np.linalg.solve(P, residual)
        assert_close(step.square, square, 1e-9, scale=1.0 + square)


def test_conjugate_gradients_end_where_there_is_no_direction_to_go_in():
    singular = np.diag([1.0, 0.0])

    def path(A, rhs):
        return list(conjugate_gradients(lambda v: A @ v, rhs, np.copy))

    # No residual; one that A maps to nothing; and a step that would not be finite.
    assert len(path(np.eye(2), np.zeros(2))) == 1
    assert len(path(singular, np.array([0.0, 1.0]))) == 1
    assert len(path(-np.eye(2), np.ones(2))) == 1
    assert len(path(np.diag([np.inf, 1.0]), np.ones(2))) == 1
    assert len(path(np.eye(2), np.ones(2))) == 2


def test_many_small_temporaries_share_one_piece_of_memory():
    """Of four MiB at least, from which on NumPy asks for huge pages."""
    pool = BufferPool()
    starts = np.array([pool.empty((1, 64)).ctypes.data for _ in range(2**13)])
    np.testing.assert_array_equal(np.diff(starts), 8 * 64)
    assert abs(pool.empty((1, 64)).ctypes.data - starts[0]) >= 2**22
