"""Arrays and memmaps: the same rows in any blocking, checked as they are read."""

import os
import signal
import threading

import numpy as np
import pytest

from kexpfam.data import ArraySource, Rows, as_source, reduce_blocks
from tests.data.accumulators import AllRows, Failing, Moments, RowCount
from tests.data.cases import assert_holds, assert_sums, read_all


@pytest.mark.parametrize("size", [1, 7, 100, 999, 1000, 5000])
def test_any_blocking_yields_the_rows_whose_weight_is_not_zero(rows, size):
    source = ArraySource(*rows, rows=size)
    assert max(len(block) for block in read_all(source)) <= size
    assert_holds(source, rows)


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
@pytest.mark.parametrize("size", [30, 1000])
def test_sums_on_threads_equal_a_loop_over_rows(rows, threads, size):
    assert_sums(ArraySource(*rows, rows=size), rows, n_jobs=threads)


def test_sums_are_the_same_bits_for_the_same_number_of_threads(rows):
    source = ArraySource(*rows, rows=13)
    first = reduce_blocks(source, Moments(6), n_jobs=3)
    for _ in range(5):
        again = reduce_blocks(source, Moments(6), n_jobs=3)
        np.testing.assert_array_equal(first, again)


def test_threads_take_parts_in_turn(rows):
    _, y, _ = rows
    numbers = np.arange(1000.0)[:, None]
    got = reduce_blocks(ArraySource(numbers, y, rows=100), AllRows(), n_jobs=3)
    starts = [int(block[0, 0]) // 100 for block in got]
    assert starts == [0, 3, 6, 9, 1, 4, 7, 2, 5, 8]


@pytest.mark.parametrize("threads", [1, 4])
def test_progress_counts_every_part_once(rows, threads):
    calls = []
    source = ArraySource(*rows, rows=90)
    reduce_blocks(
        source,
        RowCount(3, 2),
        n_jobs=threads,
        progress=lambda done, total: calls.append((done, total)),
    )
    assert calls == [(done, 12) for done in range(1, 13)]


@pytest.mark.parametrize("threads", [1, 4])
def test_an_error_in_one_thread_is_raised(rows, threads):
    numbers = np.arange(1000.0)[:, None]
    source = ArraySource(numbers, numbers, rows=10)
    with pytest.raises(ArithmeticError, match="asked to fail"):
        reduce_blocks(source, Failing(500.0), n_jobs=threads)


@pytest.mark.parametrize(("threads", "size"), [(1, 10), (4, 10), (4, 600)])
def test_an_error_before_the_first_block_is_raised(rows, threads, size):
    class Broken(Moments):
        def start(self):
            raise MemoryError("no room for a sum")

    with pytest.raises(MemoryError, match="no room"):
        reduce_blocks(ArraySource(*rows, rows=size), Broken(6), n_jobs=threads)


@pytest.mark.parametrize("threads", [1, 4])
def test_an_error_stops_the_other_threads_soon(threads):
    numbers = np.arange(4000.0)[:, None]
    read = []

    class Counting(Failing):
        def add(self, state, block):
            read.append(block)
            return super().add(state, block)

    with pytest.raises(ArithmeticError):
        reduce_blocks(
            ArraySource(numbers[::-1], numbers, rows=1),
            Counting(3900.0),
            n_jobs=threads,
        )
    assert len(read) < 1000


@pytest.mark.parametrize(("threads", "size"), [(1, 1), (3, 1), (3, 600)])
def test_ctrl_c_ends_the_reduction_soon(rows, threads, size):
    # 1000 blocks, or two that are dealt, that would take from 6 to 60 seconds.
    slow = Moments(6, seconds=0.06 if size == 1 else 3.0)
    pressed = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    seen = []
    pressed.start()
    with pytest.raises(KeyboardInterrupt):
        reduce_blocks(
            ArraySource(*rows, rows=size),
            slow,
            n_jobs=threads,
            progress=lambda done, total: seen.append(done),
        )
    assert len(seen) < 500


@pytest.mark.parametrize("threads", [1, 3])
def test_an_interrupt_while_waiting_ends_the_reduction(rows, threads):
    def interrupt(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        reduce_blocks(
            ArraySource(*rows, rows=5), Moments(6), n_jobs=threads, progress=interrupt
        )


@pytest.mark.parametrize(
    ("argument", "value", "wanted"),
    [
        ("X", np.nan, r"X must hold finite numbers only, got nan in row 777, column 1"),
        ("X", np.inf, r"X must hold finite numbers only, got inf in row 777, column 1"),
        ("y", -np.inf, r"y must hold finite .*, got -inf in row 777, column 1"),
        ("sample_weight", -2.0, r"sample_weight .* from 0 on, got -2.0 in row 777;"),
        ("sample_weight", np.nan, r"sample_weight .* from 0 on, got nan in row 777;"),
    ],
)
def test_bad_values_are_named_with_argument_and_row(rows, argument, value, wanted):
    arrays = dict(
        zip(("X", "y", "sample_weight"), (a.copy() for a in rows), strict=True)
    )
    arrays[argument][(777, 1)[: arrays[argument].ndim]] = value
    with pytest.raises(ValueError, match=wanted):
        reduce_blocks(ArraySource(**arrays, rows=100), RowCount(3, 2))


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        ({"X": np.zeros(1000)}, "X must have two dimensions"),
        ({"y": np.zeros(999)}, "y must have as many rows as X, 1000"),
        ({"y": np.zeros((1000, 2, 2))}, "one or two dimensions"),
        ({"sample_weight": np.ones((1000, 1))}, r"sample_weight must have shape"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(rows, change, wanted):
    arrays = dict(zip(("X", "y", "sample_weight"), rows, strict=True))
    with pytest.raises(ValueError, match=wanted):
        ArraySource(**(arrays | change))


def test_text_is_refused(rows):
    text = np.array([["a"]] * 1000)
    with pytest.raises(ValueError, match="X must hold real numbers"):
        read_all(ArraySource(text, rows[1]))


@pytest.mark.parametrize("dtype", ["float32", "int64", "bool"])
def test_other_numbers_become_float64(dtype):
    X = np.array([[0, 1], [1, 1]], dtype=dtype)
    (block,) = read_all(ArraySource(X, X[:, 0]))
    assert block.X.dtype == block.Y.dtype == np.float64
    np.testing.assert_array_equal(block.X, X.astype(float))


def test_blocks_are_copies(rows):
    X = rows[0].copy()
    (block,) = read_all(ArraySource(X, rows[1]))
    X[:] = 0.0
    np.testing.assert_array_equal(block.X, rows[0])


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("mode", ["r", "r+", "c"])
def test_memmaps_are_read_like_arrays_and_kept_as_they_are(rows, tmp_path, order, mode):
    X, y, weights = rows
    path = tmp_path / "X.bin"
    stored = np.memmap(path, dtype=float, mode="w+", shape=X.shape, order=order)
    stored[:] = X
    stored.flush()
    mapped = np.memmap(path, dtype=float, mode=mode, shape=X.shape, order=order)
    expected = X.copy()
    if mode != "r":
        mapped[3, 1] = expected[3, 1] = 4.0
    for view in (
        slice(None),
        slice(5, 900),
        slice(None, None, 2),
        slice(None, None, -1),
    ):
        source = as_source(mapped[view], y[view], weights[view], n_jobs=2)
        assert isinstance(source, ArraySource)
        assert_sums(source, (expected[view], y[view], weights[view]), n_jobs=2)
    np.testing.assert_array_equal(mapped, expected)


def test_arrays_in_memory_are_no_source(rows):
    assert as_source(rows[0], rows[1]) is None
    assert as_source(rows[0].tolist(), rows[1]) is None


def test_a_source_is_its_own_source(rows):
    source = ArraySource(*rows)
    assert as_source(source, None) is source


def test_no_rows_at_all_give_the_empty_sum():
    source = ArraySource(np.empty((0, 3)), np.empty(0))
    summary = reduce_blocks(source, RowCount(3, 1))
    assert summary.n_rows == 0
    assert summary.total_weight == 0.0


def test_the_summary_is_that_of_the_rows(rows):
    X, y, weights = rows
    summary = reduce_blocks(ArraySource(*rows, rows=64), RowCount(3, 2), n_jobs=2)
    kept = weights > 0
    assert summary.n_rows == kept.sum()
    assert summary.total_weight == weights.sum()
    np.testing.assert_array_equal(summary.X_min, X[kept].min(axis=0))
    np.testing.assert_array_equal(summary.X_max, X[kept].max(axis=0))
    np.testing.assert_array_equal(summary.Y_min, y[kept].min(axis=0))
    np.testing.assert_array_equal(summary.Y_max, y[kept].max(axis=0))
    assert isinstance(read_all(ArraySource(*rows))[0], Rows)
