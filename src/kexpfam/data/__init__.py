"""Rows of (X, y, weights) that are read block by block, and sums over them."""

from kexpfam.data.arrays import ArraySource
from kexpfam.data.dask import DaskSource
from kexpfam.data.memory import (
    DEFAULT_BUDGET,
    block_rows,
    parse_memory,
    peak_resident,
    resident_now,
)
from kexpfam.data.reduction import reduce_blocks
from kexpfam.data.row_hashes import (
    RowHashes,
    RowSample,
    Sample,
    distinct_hashes,
    row_hashes,
)
from kexpfam.data.rows import (
    BLOCK_ROWS,
    Accumulator,
    Part,
    Rows,
    Source,
    UnconditionalSource,
)
from kexpfam.data.sources import (
    as_source,
    note_columns,
    training_data,
    training_rows,
)
from kexpfam.data.tables import ParquetSource, PolarsSource

__all__ = [
    "BLOCK_ROWS",
    "DEFAULT_BUDGET",
    "Accumulator",
    "ArraySource",
    "DaskSource",
    "ParquetSource",
    "Part",
    "PolarsSource",
    "RowHashes",
    "RowSample",
    "Rows",
    "Sample",
    "Source",
    "UnconditionalSource",
    "as_source",
    "block_rows",
    "distinct_hashes",
    "note_columns",
    "parse_memory",
    "peak_resident",
    "reduce_blocks",
    "resident_now",
    "row_hashes",
    "training_data",
    "training_rows",
]
