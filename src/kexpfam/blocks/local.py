"""Sums over the rows of a source, on the threads of this process.

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

from kexpfam._parallel import on_threads, single_threaded_blas
from kexpfam.blocks.block import Accumulator, Block, Part, S

Progress = Callable[[int, int], None]

# Seconds between looks for an error elsewhere, and for Ctrl-C on systems where it does
# not end a wait.
_WAIT = 0.2


def reduce_locally(
    parts: Sequence[Part],
    accumulator: Accumulator[S],
    threads: int,
    progress: Progress | None,
) -> S:
    """The sum over all parts; `progress` is called from the calling thread."""
    with single_threaded_blas():
        if threads > 1 and len(parts) >= threads:
            return _in_turn(parts, accumulator, threads, progress)
        blocks = _read(parts, progress)
        if threads > 1:
            return _dealt(blocks, accumulator, threads)
        state = accumulator.start()
        for block in blocks:
            state = accumulator.add(state, block)
        return state


def _read(parts: Sequence[Part], progress: Progress | None) -> Iterator[Block]:
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

    def blocks_of(thread: int, stop: threading.Event) -> Generator[Block, None, None]:
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


def _dealt(blocks: Iterator[Block], accumulator: Accumulator[S], threads: int) -> S:
    """The calling thread reads for all."""
    # One waits while one is worked on: no more, because blocks take memory.
    hands: list[queue.Queue[Block | None]] = [queue.Queue(1) for _ in range(threads)]

    def blocks_of(thread: int, stop: threading.Event) -> Generator[Block, None, None]:
        while not stop.is_set():
            try:
                block = hands[thread].get(timeout=_WAIT)
            except queue.Empty:
                continue
            if block is None:
                return
            yield block

    def give(thread: int, block: Block | None, stop: threading.Event) -> None:
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
    blocks_of: Callable[[int, threading.Event], Generator[Block, None, None]],
    meanwhile: Callable[[threading.Event], None],
) -> S:
    """Sums of the blocks of each thread, combined in order of the threads.

    Args:
        accumulator: The sum.
        threads: How many.
        blocks_of: What a thread has to add; the event says that it should end.
        meanwhile: What the calling thread does, until the threads are done.
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
