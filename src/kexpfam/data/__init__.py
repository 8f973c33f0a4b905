"""Data on their way in: rows in memory, and sources of blocks."""

from kexpfam.data.arrays import ArraySource
from kexpfam.data.censoring import response_limits
from kexpfam.data.dask import DaskSource
from kexpfam.data.memory import (
    DEFAULT_BUDGET,
    block_rows,
    parse_memory,
    peak_resident,
    resident_now,
)
from kexpfam.data.modelled import (
    by_name,
    column_numbers,
    complete_numbers,
    complete_rows,
    modelled_numbers,
    modelled_rows,
    observed_beside,
    response_numbers,
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
    ChangedSource,
    Part,
    Rows,
    Source,
    UnconditionalSource,
)
from kexpfam.data.sources import (
    adopt,
    as_source,
    coded_rows,
    conditional_rows,
    conditions,
    note_columns,
    rows_in_memory,
    taken_out,
    training_data,
)
from kexpfam.data.tables import ParquetSource, PolarsSource
from kexpfam.data.training import TrainingRows, distinct_rows, in_row_order

__all__ = [
    "BLOCK_ROWS",
    "DEFAULT_BUDGET",
    "Accumulator",
    "ArraySource",
    "ChangedSource",
    "DaskSource",
    "ParquetSource",
    "Part",
    "PolarsSource",
    "RowHashes",
    "RowSample",
    "Rows",
    "Sample",
    "Source",
    "TrainingRows",
    "UnconditionalSource",
    "adopt",
    "as_source",
    "block_rows",
    "by_name",
    "coded_rows",
    "column_numbers",
    "complete_numbers",
    "complete_rows",
    "conditional_rows",
    "conditions",
    "distinct_hashes",
    "distinct_rows",
    "in_row_order",
    "modelled_numbers",
    "modelled_rows",
    "note_columns",
    "observed_beside",
    "parse_memory",
    "peak_resident",
    "reduce_blocks",
    "resident_now",
    "response_limits",
    "response_numbers",
    "row_hashes",
    "rows_in_memory",
    "taken_out",
    "training_data",
]
