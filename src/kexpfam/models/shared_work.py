"""Independent pieces of work, shared out by joblib.

By default it is done piece by piece. With `n_jobs` there are threads of this process.
With or without it, `joblib.parallel_config(backend="dask")` around a fit sends the work
to a cluster, and `backend="loky"` to other processes. Whoever does it, a piece is
computed with one BLAS thread, and gives the same numbers.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from joblib import Parallel, delayed, effective_n_jobs

from kexpfam.linalg import one_of_many_threads, single_threaded_blas

R = TypeVar("R")

# Pieces that a worker gets before results are looked at, on average. With more, Ctrl-C
# would lose more, and with fewer, workers would wait for each other more often.
_PIECES = 4


def shared_out(
    work: Callable[..., R],
    calls: Sequence[tuple[Any, ...]],
    n_jobs: int | None,
    *,
    prefer: str = "threads",
) -> Iterator[list[R]]:
    """Results of a function in the order of its calls, some at a time.

    Args:
        work: A function of a module, so that other processes know it.
        calls: Arguments of each call.
        n_jobs: Number of workers, as joblib counts them; None for the number that a
            surrounding `joblib.parallel_config` gives, and one without it.
        prefer: "threads", or "processes" for work that holds the interpreter.

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
    size = _PIECES * workers
    with Parallel(n_jobs=workers, prefer=prefer) as parallel:
        for start in range(0, len(calls), size):
            chunk = calls[start : start + size]
            yield parallel(delayed(_alone)(work, *call) for call in chunk)


def _alone(work: Callable[..., R], *arguments: Any) -> R:
    with single_threaded_blas(), one_of_many_threads():
        return work(*arguments)
