"""Data on their way in: tables, their coding, rows in memory, and sources of blocks."""

from kexpfam.data.arrays import ArraySource
from kexpfam.data.censoring import response_limits
from kexpfam.data.coding import Coded, Feature, TableCoder
from kexpfam.data.columns import Table, TableError, as_table
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
    rows_in_memory,
    training_data,
)
from kexpfam.data.tables import ParquetSource, PolarsSource
from kexpfam.data.training import TrainingRows, distinct_rows

__all__ = [
    "BLOCK_ROWS",
    "DEFAULT_BUDGET",
    "Accumulator",
    "ArraySource",
    "Coded",
    "DaskSource",
    "Feature",
    "ParquetSource",
    "Part",
    "PolarsSource",
    "RowHashes",
    "RowSample",
    "Rows",
    "Sample",
    "Source",
    "Table",
    "TableCoder",
    "TableError",
    "TrainingRows",
    "UnconditionalSource",
    "as_source",
    "as_table",
    "block_rows",
    "distinct_hashes",
    "distinct_rows",
    "note_columns",
    "parse_memory",
    "peak_resident",
    "reduce_blocks",
    "resident_now",
    "response_limits",
    "row_hashes",
    "rows_in_memory",
    "training_data",
]
