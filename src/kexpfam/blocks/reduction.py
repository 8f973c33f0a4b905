"""Sums over all rows of a source, on threads or on a Dask cluster."""

from typing import Any

from kexpfam.blocks.block import Accumulator, S, Source
from kexpfam.blocks.local import Progress, reduce_locally
from kexpfam.linalg import thread_count


def reduce_blocks(
    source: Source,
    accumulator: Accumulator[S],
    *,
    n_jobs: int | None = None,
    progress: Progress | None = None,
    client: Any = None,
) -> S:
    """The sum of an accumulator over all blocks of a source.

    BLAS runs single-threaded meanwhile. On threads the result depends on their number,
    within rounding, and on nothing else.

    Args:
        source: What to read.
        accumulator: What to make of it.
        n_jobs: Number of threads; None for all cores.
        progress: Called as `progress(done_parts, all_parts)`, from this thread.
        client: A `distributed.Client`; None for threads.

    Raises:
        ValueError: The data hold something that is no finite number.

    Example:
        >>> import numpy as np
        >>> from kexpfam.blocks import ArraySource, RowCount
        >>> source = ArraySource(np.zeros((20_000, 2)), np.ones(20_000))
        >>> reduce_blocks(source, RowCount(2, 1), n_jobs=2).n_rows
        20000
    """
    return reduce_locally(source.parts, accumulator, thread_count(n_jobs), progress)
