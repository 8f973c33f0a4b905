"""Which kinds of data are read block by block."""

from typing import Any

import numpy as np

from kexpfam.blocks.arrays import ArraySource
from kexpfam.blocks.block import Source
from kexpfam.blocks.memory import DEFAULT_BUDGET, block_rows
from kexpfam.linalg import thread_count


def as_source(
    X: Any,
    y: Any,
    sample_weight: Any = None,
    *,
    memory_budget: int = DEFAULT_BUDGET,
    n_jobs: int | None = None,
) -> Source | None:
    """Rows to be read block by block, or None for data that are in memory anyway.

    Args:
        X: A `numpy.memmap`, or a `Source`, which is returned as it is.
        y: The responses.
        sample_weight: Row weights in the same form.
        memory_budget: Bytes, of which blocks take a small part.
        n_jobs: How many threads will read at the same time; None for all cores.

    Returns:
        None if X is an array or a data frame in memory.
    """
    if isinstance(X, Source):
        return X
    if isinstance(X, np.memmap):
        columns = X.shape[-1] + 2
        rows = block_rows(columns, memory_budget, thread_count(n_jobs))
        return ArraySource(X, y, sample_weight, rows=rows)
    return None
