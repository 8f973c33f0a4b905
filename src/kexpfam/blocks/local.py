"""Sums over the rows of a source, on the threads of this process.

Thread t of T reads the parts t, t + T, ... into a sum of its own, and the sums are
combined in order. So the result depends on the number of threads only, and not on which
of them was faster.
"""

import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from kexpfam.blocks.block import Accumulator, Part, S
from kexpfam.blocks.threads import one_blas_thread

Progress = Callable[[int, int], None]

# Seconds between looks for Ctrl-C, on systems where it does not end a wait.
_WAIT = 0.2


def reduce_locally(
    parts: Sequence[Part],
    accumulator: Accumulator[S],
    threads: int,
    progress: Progress | None,
) -> S:
    """The sum over all parts; `progress` is called from the calling thread."""
    threads = max(1, min(threads, len(parts)))
    with one_blas_thread():
        if threads > 1:
            return _on_threads(parts, accumulator, threads, progress)
        state = accumulator.start()
        for done, part in enumerate(parts, start=1):
            for block in part.read():
                state = accumulator.add(state, block)
            if progress is not None:
                progress(done, len(parts))
        return state


def _on_threads(
    parts: Sequence[Part],
    accumulator: Accumulator[S],
    threads: int,
    progress: Progress | None,
) -> S:
    stop = threading.Event()
    # One entry for each finished part, and None for each thread that ended.
    finished: queue.SimpleQueue[int | None] = queue.SimpleQueue()

    def work(thread: int) -> S:
        state = accumulator.start()
        try:
            for number in range(thread, len(parts), threads):
                for block in parts[number].read():
                    if stop.is_set():
                        return state
                    state = accumulator.add(state, block)
                finished.put(number)
        except BaseException:
            stop.set()
            raise
        finally:
            finished.put(None)
        return state

    with ThreadPoolExecutor(threads) as executor:
        try:
            workers = [executor.submit(work, thread) for thread in range(threads)]
            _watch(finished, threads, len(parts), progress)
        finally:
            stop.set()  # also after Ctrl-C, or an error of `progress`
    return _combined(workers, accumulator)


def _watch(
    finished: "queue.SimpleQueue[int | None]",
    threads: int,
    total: int,
    progress: Progress | None,
) -> None:
    done = 0
    while threads:
        try:
            number = finished.get(timeout=_WAIT)
        except queue.Empty:
            continue
        if number is None:
            threads -= 1
            continue
        done += 1
        if progress is not None:
            progress(done, total)


def _combined(workers: Sequence["Future[S]"], accumulator: Accumulator[S]) -> S:
    state = workers[0].result()
    for worker in workers[1:]:
        state = accumulator.combine(state, worker.result())
    return state
