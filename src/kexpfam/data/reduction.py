"""Sums over all rows of a source, on threads or on a Dask cluster.

Thread t of T reads the parts t, t + T, ... into a sum of its own, and the sums are
combined in order. So the result depends on the number of threads only, and not on which
of them was faster. A source of fewer parts than threads is read by the calling thread
instead, which deals its blocks to the others, in turn again.
"""

import contextlib
import functools
import queue
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any

from kexpfam._parallel import (
    on_threads,
    one_of_many_threads,
    single_threaded_blas,
    thread_count,
)
from kexpfam._progress import Progress
from kexpfam.data.dask import DaskSource, reduce_on_dask
from kexpfam.data.rows import (
    Accumulator,
    ChangedSource,
    OfChangedBlocks,
    Part,
    Rows,
    S,
    Source,
)

# Seconds between looks for an error elsewhere, and for Ctrl-C on systems where it does
# not end a wait.
_WAIT = 0.2

# What a thread reads: its number, and an event that says that it should end.
BlocksOf = Callable[[int, threading.Event], Generator[Rows, None, None]]


def reduce_blocks(
    source: Source,
    accumulator: Accumulator[S],
    *,
    n_jobs: int | None = None,
    progress: Progress | None = None,
    client: Any = None,
) -> S:
    """The sum of an accumulator over all blocks of a source.

    Partitions of a `DaskSource` are computed by the given client, or else the scheduler
    that Dask uses by default: the current client if there is one, or what
    `dask.config` says. Other sources are read by threads of this process unless a
    client is given, which gets their parts sent: those of a `ParquetSource` are names
    of files that it must be able to open, those of an `ArraySource` are the rows.

    BLAS runs single-threaded meanwhile. On threads the result depends on their number,
    within rounding, on Dask on the partitions, and on nothing else.

    Args:
        source: What to read.
        accumulator: What to make of it.
        n_jobs: Number of threads; None for all cores.
        progress: Called as `progress(done_parts, all_parts)`, from this thread.
        client: A `distributed.Client`, or None.

    Raises:
        ValueError: The data hold something that is no finite number.

    Example:
        >>> import numpy as np
        >>> from kexpfam.data import ArraySource, RowSample
        >>> source = ArraySource(np.zeros((20_000, 2)), np.ones(20_000))
        >>> len(reduce_blocks(source, RowSample(100, seed=0), n_jobs=2))
        100
    """
    while isinstance(source, ChangedSource):
        accumulator = OfChangedBlocks(accumulator, source.change)
        source = source.rows
    if client is not None or isinstance(source, DaskSource):
        return reduce_on_dask(
            source, accumulator, n_jobs=n_jobs, progress=progress, client=client
        )
    parts, threads = source.parts, thread_count(n_jobs)
    with single_threaded_blas():
        if threads > 1 and len(parts) >= threads:
            return _in_turn(parts, accumulator, threads, progress)
        blocks = _read(parts, progress)
        if threads > 1:
            return _dealt(blocks, accumulator, threads)
        with one_of_many_threads():
            return functools.reduce(accumulator.add, blocks, accumulator.start())


def _read(parts: Sequence[Part], progress: Progress | None) -> Iterator[Rows]:
    for done, part in enumerate(parts, start=1):
        yield from part.read()
        if progress is not None:
            progress(done, len(parts))


def _in_turn(
    parts: Sequence[Part],
    accumulator: Accumulator[S],
    threads: int,
    progress: Progress | None,
) -> S:
    """Every thread reads its own parts."""
    # One entry for each finished part, and None for each thread that ended.
    finished: queue.SimpleQueue[int | None] = queue.SimpleQueue()

    def blocks_of(thread: int, stop: threading.Event) -> Generator[Rows, None, None]:
        try:
            for number in range(thread, len(parts), threads):
                yield from parts[number].read()
                finished.put(number)
        finally:
            finished.put(None)

    def watch(stop: threading.Event) -> None:
        done, running = 0, threads
        while running and not stop.is_set():
            try:
                number = finished.get(timeout=_WAIT)
            except queue.Empty:
                continue
            running -= number is None
            done += number is not None
            if number is not None and progress is not None:
                progress(done, len(parts))

    return _on_threads(accumulator, threads, blocks_of, watch)


def _dealt(blocks: Iterator[Rows], accumulator: Accumulator[S], threads: int) -> S:
    """The calling thread reads for all."""
    # One waits while one is worked on: no more, because blocks take memory.
    hands: list[queue.Queue[Rows | None]] = [queue.Queue(1) for _ in range(threads)]

    def blocks_of(thread: int, stop: threading.Event) -> Generator[Rows, None, None]:
        while not stop.is_set():
            try:
                block = hands[thread].get(timeout=_WAIT)
            except queue.Empty:
                continue
            if block is None:
                return
            yield block

    def give(thread: int, block: Rows | None, stop: threading.Event) -> None:
        while not stop.is_set():
            try:
                hands[thread].put(block, timeout=_WAIT)
                break
            except queue.Full:
                continue

    def deal(stop: threading.Event) -> None:
        for number, block in enumerate(blocks):
            give(number % threads, block, stop)
            if stop.is_set():
                return
        for thread in range(threads):
            give(thread, None, stop)

    return _on_threads(accumulator, threads, blocks_of, deal)


def _on_threads(
    accumulator: Accumulator[S],
    threads: int,
    blocks_of: BlocksOf,
    meanwhile: Callable[[threading.Event], None],
) -> S:
    """Sums of the blocks of each thread, combined in order of the threads.

    The calling thread does `meanwhile`.
    """
    stop = threading.Event()

    def work(thread: int) -> S:
        try:
            # Closed, so that a part given up half-way is known to be.
            with contextlib.closing(blocks_of(thread, stop)) as blocks:
                state = accumulator.start()
                for block in blocks:
                    if stop.is_set():
                        break
                    state = accumulator.add(state, block)
            return state
        except BaseException:
            stop.set()
            raise

    def look() -> None:
        try:
            meanwhile(stop)
        except BaseException:
            stop.set()  # an error of reading or of `progress`, or Ctrl-C
            raise

    states = on_threads(work, range(threads), threads, meanwhile=look)
    return functools.reduce(accumulator.combine, states)
