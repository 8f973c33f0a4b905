"""Many densities, some at a time: what is needed for a block is forgotten with it."""

import itertools
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from kexpfam._parallel import on_threads, threads_of
from kexpfam._progress import Progress
from kexpfam._typing import Array
from kexpfam.distributions.univariate import BLOCK_ROWS

Result = TypeVar("Result")


def in_blocks(
    densities: Callable[[Array], Any],
    X: Array,
    work: Callable[[Any, slice], Result],
    *,
    n_jobs: int | None,
    progress: Progress | None = None,
    block_rows: int = BLOCK_ROWS,
) -> list[Result]:
    """What `work` makes of the densities of some rows at a time, on all cores.

    What is needed for a block is forgotten with it, so that the cost of a row and the
    memory do not depend on their number. `work` takes densities and which rows they are
    of; `progress` is called with blocks done and all blocks, by whoever did one.
    """
    starts = range(0, max(len(X), 1), block_rows)
    blocks = [slice(start, min(start + block_rows, len(X))) for start in starts]
    lock, done = threading.Lock(), itertools.count(1)

    def result(rows: slice) -> Result:
        found = work(densities(X[rows]), rows)
        if progress is not None:
            with lock:
                progress(next(done), len(blocks))
        return found

    # Entered once, not again by everything that is small.
    with threads_of(n_jobs):
        return on_threads(result, blocks, n_jobs)
