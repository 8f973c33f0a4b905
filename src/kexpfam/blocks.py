"""The former name of `kexpfam.data`, for code that was written with it."""

from kexpfam.data import (
    Accumulator,
    ArraySource,
    DaskSource,
    ParquetSource,
    Part,
    PolarsSource,
    RowSample,
    Source,
    UnconditionalSource,
    as_source,
    parse_memory,
    peak_resident,
    reduce_blocks,
    resident_now,
)
from kexpfam.data import Rows as Block

__all__ = [
    "Accumulator",
    "ArraySource",
    "Block",
    "DaskSource",
    "ParquetSource",
    "Part",
    "PolarsSource",
    "RowSample",
    "Source",
    "UnconditionalSource",
    "as_source",
    "parse_memory",
    "peak_resident",
    "reduce_blocks",
    "resident_now",
]
