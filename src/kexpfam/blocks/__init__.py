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
from kexpfam.blocks.fingerprint import (
    Fingerprints,
    RowSample,
    Sample,
    distinct_prints,
    fingerprints,
)
from kexpfam.blocks.memory import (
    DEFAULT_BUDGET,
    block_rows,
    parse_memory,
    peak_resident,
    resident_now,
)
from kexpfam.blocks.reduction import reduce_blocks
from kexpfam.blocks.sources import as_source, as_unconditional_source
from kexpfam.blocks.tables import ParquetSource, PolarsSource

__all__ = [
    "BLOCK_ROWS",
    "DEFAULT_BUDGET",
    "Accumulator",
    "ArraySource",
    "Block",
    "DaskSource",
    "Fingerprints",
    "ParquetSource",
    "Part",
    "PolarsSource",
    "RowSample",
    "Sample",
    "Source",
    "UnconditionalSource",
    "as_source",
    "as_unconditional_source",
    "block_rows",
    "distinct_prints",
    "fingerprints",
    "parse_memory",
    "peak_resident",
    "reduce_blocks",
    "resident_now",
]
