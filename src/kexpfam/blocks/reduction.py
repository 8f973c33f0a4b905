"""Sums over all rows of a source, on threads or on a Dask cluster."""

from typing import Any

from kexpfam._parallel import thread_count
from kexpfam.blocks.block import Accumulator, S, Source
from kexpfam.blocks.cluster import reduce_on_dask, uses_dask
from kexpfam.blocks.local import Progress, reduce_locally
from kexpfam.blocks.unconditional import OfTurnedBlocks, UnconditionalSource


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
        >>> from kexpfam.blocks import ArraySource, RowSample
        >>> source = ArraySource(np.zeros((20_000, 2)), np.ones(20_000))
        >>> len(reduce_blocks(source, RowSample(100, seed=0), n_jobs=2))
        100
    """
    if isinstance(source, UnconditionalSource):
        source, accumulator = source.rows, OfTurnedBlocks(accumulator)
    if uses_dask(source, client):
        return reduce_on_dask(
            source, accumulator, n_jobs=n_jobs, progress=progress, client=client
        )
    return reduce_locally(source.parts, accumulator, thread_count(n_jobs), progress)
