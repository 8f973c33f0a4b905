"""Which kinds of data are read block by block."""

from collections.abc import Callable
from typing import Any

import numpy as np

from kexpfam._parallel import thread_count
from kexpfam.data.arrays import ArraySource
from kexpfam.data.dask import DaskSource, is_dask_array, is_dask_frame
from kexpfam.data.memory import DEFAULT_BUDGET, block_rows
from kexpfam.data.rows import Source, UnconditionalSource
from kexpfam.data.tables import ParquetSource, PolarsSource, is_lazy_frame, is_parquet


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
        X: A `numpy.memmap`; a path of Parquet files or a `pyarrow.dataset.Dataset`; a
            `polars.LazyFrame`; a Dask array or data frame; or a `Source`, which is
            returned as it is.
        y: For a memmap and a Dask array, an array; otherwise the name of a column of X
            or several, or for a Dask data frame a Dask series. None for a `Source`.
        sample_weight: Row weights, in the same form as y.
        memory_budget: Bytes, of which blocks take a small part.
        n_jobs: How many threads will read at the same time; None for all cores.

    Returns:
        None if X is an array or a data frame in memory.

    Raises:
        ValueError: What was given does not fit together.

    Example:
        >>> as_source(np.zeros((3, 2)), np.zeros(3)) is None
        True
    """
    if isinstance(X, Source):
        if y is not None or sample_weight is not None:
            raise ValueError(
                "y and sample_weight must be None if X is a source, which has them."
            )
        return X
    kinds: tuple[tuple[Callable[[Any], bool], Callable[..., Source]], ...] = (
        (lambda value: isinstance(value, np.memmap), ArraySource),
        (is_parquet, ParquetSource),
        (is_lazy_frame, PolarsSource),
        (lambda value: is_dask_array(value) or is_dask_frame(value), DaskSource),
    )
    for applies, kind in kinds:
        if applies(X):
            source: Source = kind(X, y, sample_weight)
            columns = source.n_features + source.n_responses + 1
            rows = block_rows(columns, memory_budget, thread_count(n_jobs))
            source.rows_per_block = rows
            return source
    return None


def as_unconditional_source(
    X: Any,
    sample_weight: Any = None,
    *,
    memory_budget: int = DEFAULT_BUDGET,
    n_jobs: int | None = None,
) -> UnconditionalSource | None:
    """The same for rows that are all responses: no columns of X, those given are y.

    Args:
        X: As in `as_source`; of tables, all numeric columns but the weights.
        sample_weight: Row weights: an array, or for a table the name of a column.
        memory_budget: As in `as_source`.
        n_jobs: As in `as_source`.

    Example:
        >>> as_unconditional_source(np.zeros((3, 2))) is None
        True
    """
    if isinstance(X, UnconditionalSource):
        return X
    has_columns = isinstance(X, np.memmap) or is_dask_array(X)
    nothing = None if isinstance(X, Source) else X[..., :0] if has_columns else ()
    source = as_source(
        X, nothing, sample_weight, memory_budget=memory_budget, n_jobs=n_jobs
    )
    return None if source is None else UnconditionalSource(source)
