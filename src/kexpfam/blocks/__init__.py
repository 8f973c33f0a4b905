"""Rows of (X, y, weights) that are read block by block, and sums over them."""

from kexpfam.blocks.arrays import ArraySource
from kexpfam.blocks.block import (
    BLOCK_ROWS,
    Accumulator,
    Block,
    Part,
    Source,
    UnconditionalSource,
)
from kexpfam.blocks.dask import DaskSource
from kexpfam.blocks.memory import (
    DEFAULT_BUDGET,
    block_rows,
    parse_memory,
    peak_resident,
    resident_now,
)
from kexpfam.blocks.reduction import reduce_blocks
from kexpfam.blocks.row_hashes import (
    RowHashes,
    RowSample,
    Sample,
    distinct_hashes,
    row_hashes,
)
from kexpfam.blocks.sources import as_source, as_unconditional_source
from kexpfam.blocks.tables import ParquetSource, PolarsSource

__all__ = [
    "BLOCK_ROWS",
    "DEFAULT_BUDGET",
    "Accumulator",
    "ArraySource",
    "Block",
    "DaskSource",
    "ParquetSource",
    "Part",
    "PolarsSource",
    "RowHashes",
    "RowSample",
    "Sample",
    "Source",
    "UnconditionalSource",
    "as_source",
    "as_unconditional_source",
    "block_rows",
    "distinct_hashes",
    "parse_memory",
    "peak_resident",
    "reduce_blocks",
    "resident_now",
    "row_hashes",
]
