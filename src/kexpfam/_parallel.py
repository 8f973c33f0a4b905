"""The one policy of threads, and the helpers that follow it.

- Work in pieces runs on threads of this process: as many as `n_jobs` says. If that
  says nothing, a surrounding `joblib.parallel_config` does, and without one there is a
  thread for each core, as BLAS has them; inside a worker of joblib there is one.
  Results are in the order of the pieces, whoever was faster.
- BLAS runs single-threaded meanwhile, so that cores are not claimed twice, and a thread
  that is one of many starts no others.
- A fit runs with one BLAS thread, but for factorisations that take long: threads of
  BLAS wait for each other, on a busy machine for longer than most products take.
- Whole fits, which are independent of each other, are `shared_out` by joblib: one after
  another unless `n_jobs` or a surrounding `joblib.parallel_config` says more. That may
  send them to other processes, or to a cluster.
- An error of a piece, or Ctrl-C, is raised here, and pieces not yet begun are dropped.
- Nothing here, and no value that is computed once, leaves a lock behind in a process
  that is forked while other threads work: such a lock would never be released.
"""

import functools
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from joblib import Parallel, cpu_count, delayed, effective_n_jobs
from joblib.parallel import get_active_backend
from threadpoolctl import ThreadpoolController, threadpool_limits

Item = TypeVar("Item")
Result = TypeVar("Result")

if TYPE_CHECKING or sys.version_info >= (3, 12):
    from functools import cached_property as cached_property  # noqa: PLC0414
else:

    def cached_property(function: Callable[[Any], Result]) -> Any:
        """What later versions of Python have: two threads may both compute a value.

        The one of 3.11 holds a lock for all objects of a class meanwhile.
        """
        found = functools.cached_property(function)
        found.lock = nullcontext()
        return found


@functools.cache
def _threadpools() -> ThreadpoolController:
    # Looking up the loaded BLAS libraries takes milliseconds, so it is done once.
    return ThreadpoolController()


def _blas_libraries() -> list[Any]:
    return _threadpools().select(user_api="blas").lib_controllers


def _blas_threads() -> int:
    return max((library.num_threads for library in _blas_libraries()), default=1)


def _set_blas_threads(threads: int) -> None:
    for library in _blas_libraries():
        library.set_num_threads(threads)


def _one_thread() -> Any:
    return _threadpools().limit(limits=1, user_api="blas")


@functools.cache
def _each_thread_counts() -> bool:
    # OpenBLAS has one number for the process, unless it is built with OpenMP.
    return any(
        library["user_api"] == "blas"
        and (library["internal_api"], library.get("threading_layer"))
        != ("openblas", "pthreads")
        for library in _threadpools().info()
    )


class _ThisThread(threading.local):
    """What a thread knows of itself."""

    limited = False  # whether it is inside `single_threaded_blas`
    alone = False  # whether it is one of many, and starts no others
    threads: int | None = None  # what `n_jobs=None` means inside `threads_of`


class _SharedLimit:
    """One thread for BLAS, from the first that asks for it until the last is done.

    The number of BLAS threads often belongs to the whole process. If each thread set
    and restored it on its own, the first to end would restore it under the others, and
    the last might restore what another had set. threadpoolctl lets only the thread that
    set a limit change or lift it, so a thread that does nothing else holds it.
    """

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Have no users: at first, and in a forked process, where theirs are not."""
        self._lock, self._users = threading.Lock(), 0
        self._asked: SimpleQueue[int | None] = SimpleQueue()
        self._done: SimpleQueue[None] = SimpleQueue()
        self._holder = threading.Thread()
        self._threads_before = 1

    def __enter__(self) -> None:
        with self._lock:
            if self._users == 0:
                self._holder = threading.Thread(target=self._hold, daemon=True)
                self._holder.start()
                self._done.get()
            self._users += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0:
                self._asked.put(None)
                self._holder.join()

    def _hold(self) -> None:
        self._threads_before = _blas_threads()
        with _one_thread():
            self._done.put(None)
            while (threads := self._asked.get()) is not None:
                _set_blas_threads(threads)
                self._done.put(None)

    @contextmanager
    def lifted(self) -> Iterator[None]:
        """Inside it BLAS has its threads back, unless another thread is limited."""
        if self._users != 1:
            yield
            return
        self._ask(self._threads_before)
        try:
            # Of some libraries each thread has a number of its own.
            with _threadpools().limit(limits=self._threads_before, user_api="blas"):
                yield
        finally:
            self._ask(1)

    def _ask(self, threads: int) -> None:
        self._asked.put(threads)
        self._done.get()


_blas_limit = _SharedLimit()
_this_thread = _ThisThread()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_blas_limit.begin)


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """Inside it BLAS uses one thread, for work too small to be shared."""
    if _this_thread.limited:
        yield
        return
    # Of some libraries each thread has a number of its own.
    with _blas_limit, _one_thread():
        _this_thread.limited = True
        try:
            yield
        finally:
            _this_thread.limited = False


@contextmanager
def threads_of(n_jobs: int | None) -> Iterator[None]:
    """A fit or a prediction: BLAS uses one thread, and all inside it as many as said.

    What is too deep inside to be told `n_jobs` has None, which means the same there.
    """
    before, _this_thread.threads = _this_thread.threads, thread_count(n_jobs)
    try:
        with single_threaded_blas():
            yield
    finally:
        _this_thread.threads = before


@contextmanager
def blas_on_all_cores() -> Iterator[None]:
    """Inside it BLAS has its threads back, for one long piece of work in a fit.

    Not in a thread that is one of many.
    """
    if _this_thread.alone or not _this_thread.limited:
        yield
        return
    with _blas_limit.lifted():
        yield


def single_threaded_openmp() -> Any:
    """Inside it OpenMP uses one thread, as in the trees of scikit-learn."""
    # Looked up anew: a library that needs OpenMP may have been loaded just now.
    return threadpool_limits(limits=1, user_api="openmp")


@contextmanager
def _already_limited() -> Iterator[None]:
    """Inside it this thread knows that another has limited BLAS, and holds it."""
    before, _this_thread.limited = _this_thread.limited, True
    try:
        yield
    finally:
        _this_thread.limited = before


@contextmanager
def one_of_many_threads() -> Iterator[None]:
    """Inside it this thread starts no others: there is one for every core already."""
    before, _this_thread.alone = _this_thread.alone, True
    try:
        yield
    finally:
        _this_thread.alone = before


@functools.cache
def _cores() -> int:
    # Those that this process may use, limits of containers included. It reads files.
    return int(cpu_count())


def thread_count(n_jobs: int | None) -> int:
    """Number of threads that `n_jobs` stands for, counted as scikit-learn does.

    Negative numbers count from all cores downwards: −1 is all of them, −2 all but one.
    None is the number of the fit or prediction that this is part of, or that a
    surrounding `joblib.parallel_config` gives, at most that of the cores; inside a
    worker of joblib, where others work beside it, it is one, and without either it is
    all cores.

    Raises:
        ValueError: It is not a whole number, or zero.

    Example:
        >>> import joblib
        >>> with joblib.parallel_config(n_jobs=1):
        ...     thread_count(None)
        1
    """
    whole = isinstance(n_jobs, int | np.integer) and not isinstance(n_jobs, bool)
    if n_jobs is not None and (not whole or n_jobs == 0):
        raise ValueError(
            f"n_jobs must be a whole number other than 0, or None for what "
            f"joblib.parallel_config says, and all cores without it; got {n_jobs!r}."
        )
    if _this_thread.alone:
        return 1
    if n_jobs is None and _this_thread.threads is not None:
        return _this_thread.threads
    if n_jobs is None:
        backend, around = get_active_backend()
        if around is None:
            return 1 if backend.nesting_level else _cores()
        return min(_counted(around), _cores())
    return _counted(n_jobs)


def _counted(n_jobs: int) -> int:
    return max(1, _cores() + 1 + n_jobs) if n_jobs < 0 else n_jobs


def on_threads(
    work: Callable[[Item], Result],  # May not write to what others read
    items: Iterable[Item],  # They are begun in this order
    n_jobs: int | None = None,  # Number of threads, as `thread_count` has it
    *,
    # What the calling thread does; None to work as one of the threads, so that one
    # fewer has to be started
    meanwhile: Callable[[], None] | None = None,
) -> list[Result]:
    """Results of all items in their order, whatever the number of threads.

    Example:
        >>> on_threads(abs, [-3, 2, -1], n_jobs=2)
        [3, 2, 1]
    """
    waiting = list(enumerate(items))[::-1]
    results: dict[int, Result] = {}
    threads = min(thread_count(n_jobs), len(waiting))
    if threads <= 1 and meanwhile is None:
        return [work(item) for _, item in reversed(waiting)]

    def work_through() -> None:
        # Setting a limit takes as long as starting a thread.
        limit = _one_thread() if _each_thread_counts() else nullcontext()
        with limit, one_of_many_threads(), _already_limited():
            while waiting:
                try:
                    number, item = waiting.pop()  # atomic, so threads need no lock
                except IndexError:
                    return
                try:
                    results[number] = work(item)
                except BaseException:
                    waiting.clear()
                    raise

    with single_threaded_blas(), ThreadPoolExecutor(threads) as executor:
        others = [
            executor.submit(work_through) for _ in range(threads - (meanwhile is None))
        ]
        try:
            (meanwhile or work_through)()
            for other in others:
                other.result()
        except BaseException:
            waiting.clear()
            raise
    return [results[number] for number in range(len(results))]


def shared_out(
    work: Callable[..., Result],  # Of a module, so that other processes know it
    calls: Sequence[tuple[Any, ...]],  # Arguments of each call
    # Number of workers, as joblib counts them; None for the number that a surrounding
    # `joblib.parallel_config` gives, and one without it
    n_jobs: int | None,
    *,
    prefer: str = "threads",  # Or "processes", if work holds the interpreter
) -> Iterator[list[Result]]:
    """Results of a function in the order of its calls, some at a time.

    Example:
        >>> [results for results in shared_out(pow, [(2, 3), (3, 2)], n_jobs=1)]
        [[8], [9]]
    """
    # Told outright: joblib forgets the number of jobs of a parallel_config without a
    # backend if threads are preferred.
    workers = effective_n_jobs(n_jobs)
    if workers == 1:
        for call in calls:
            yield [_alone(work, *call)]
        return
    # So many calls before results are looked at: with more, Ctrl-C would lose more, and
    # with fewer, workers would wait for each other more often.
    size = 4 * workers
    with Parallel(n_jobs=workers, prefer=prefer) as parallel:
        for start in range(0, len(calls), size):
            chunk = calls[start : start + size]
            yield parallel(delayed(_alone)(work, *call) for call in chunk)


def _alone(work: Callable[..., Result], *arguments: Any) -> Result:
    with single_threaded_blas(), one_of_many_threads():
        return work(*arguments)
