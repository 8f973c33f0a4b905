"""Lazy Polars queries, read in ranges of rows, or batch by batch while Polars computes.

If the plan of a query hands a range of rows down to the files, as it does for columns
of Parquet files, each range is a part, and little memory is used. Otherwise, as for a
query that filters or joins, Polars would have to compute the rows before a range again:
then the whole query is one part. Polars reads ahead in it without regard to who waits
(Polars issue 28569; Polars 2.1 held most of a file of 200 MB), so that it is better to
write what a large query gives to Parquet files first, with `LazyFrame.sink_parquet`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kexpfam._optional import is_instance, needed
from kexpfam.blocks.block import Block, Part, Source, checked
from kexpfam.blocks.columns import Columns, choose_columns
from kexpfam.blocks.memory import BLOCK_ROWS
from kexpfam.errors import MissingDependencyError

# Blocks of a range: opening the files should take less time than reading it.
_BLOCKS = 8

# A range of rows that nobody else asks for, to look for in a plan.
_OFFSET, _LENGTH = 7919, 104729


@dataclass(frozen=True)
class PolarsQuery(Part):
    """All rows of a lazy frame.

    Attributes:
        frame: A `polars.LazyFrame` with the rows and columns that are needed.
        columns: What the columns are.
        rows: Most rows of a block.
        start: Number of the first row in the whole query.
    """

    frame: Any
    columns: Columns
    rows: int
    start: int

    def read(self) -> Iterator[Block]:
        batches = self.frame.collect_batches(
            chunk_size=self.rows, maintain_order=True, lazy=True
        )
        start = self.start
        for batch in batches:
            # Polars does not promise the size of a batch.
            for piece in batch.iter_slices(self.rows):
                block = self._block(piece, start)
                start += len(piece)
                if len(block):
                    yield block

    def _block(self, batch: Any, start: int) -> Block:
        chosen = self.columns
        for name in chosen.all:
            if batch[name].null_count():
                row = start + int(batch[name].is_null().arg_max())
                raise ValueError(
                    f"Column {name!r} must have a number in every row, but it has none "
                    f"in row {row} of the query; drop or fill such rows."
                )
        weight = chosen.weight
        return checked(
            _matrix(batch, chosen.features),
            _matrix(batch, chosen.responses),
            None if weight is None else _matrix(batch, (weight,))[:, 0],
            lambda argument, row, column: (
                f"row {start + row} of the query{chosen.inside(argument, column)}"
            ),
        )


def _matrix(batch: Any, names: Sequence[str]) -> Any:
    values = np.empty((len(batch), len(names)))
    for i, name in enumerate(names):
        values[:, i] = batch[name].to_numpy()
    return values


class PolarsSource(Source):
    """Rows of a `polars.LazyFrame`, which is computed anew each time they are read.

    Args:
        frame: The lazy frame. Its rows must come in the same order each time.
        y: The name of a column, or several.
        sample_weight: The name of a column, or None for weights of one.
        features: Names of the columns of X; None for all numeric ones that are neither
            y nor weights.
        rows: Most rows of a block.

    Raises:
        ValueError: Names that do not exist, or columns without numbers.
    """

    def __init__(
        self,
        frame: Any,
        y: str | Sequence[str],
        sample_weight: str | None = None,
        features: Sequence[str] | None = None,
        *,
        rows: int = BLOCK_ROWS,
    ) -> None:
        pl = needed("polars", "to read lazy frames")
        if not hasattr(pl.LazyFrame, "collect_batches"):
            raise MissingDependencyError(
                f"polars 1.34 or later is needed to read lazy frames in batches, this "
                f"is {pl.__version__}; upgrade it, or write the data to Parquet files."
            )
        schema = frame.collect_schema()
        chosen = choose_columns(
            schema.names(),
            {n for n, t in schema.items() if t.is_numeric() or t == pl.Boolean},
            y=y,
            sample_weight=sample_weight,
            features=features,
        )
        self._frame, self._columns = frame.select(chosen.all), chosen
        self.rows_per_block = rows
        self.n_features = len(chosen.features)
        self.n_responses = len(chosen.responses)
        self.feature_names = chosen.features
        self.n_rows = None
        if _hands_ranges_down(self._frame):
            self.n_rows = int(self._frame.select(pl.len()).collect().item())

    @property
    def parts(self) -> Sequence[PolarsQuery]:
        rows = self.rows_per_block
        if self.n_rows is None:
            return [PolarsQuery(self._frame, self._columns, rows, 0)]
        step = _BLOCKS * rows
        return [
            PolarsQuery(self._frame.slice(start, step), self._columns, rows, start)
            for start in range(0, self.n_rows, step)
        ]


def _hands_ranges_down(frame: Any) -> bool:
    """Whether a range of rows is read from one scan of files, and no other row.

    It is read off the text of a plan. Should that text change, nothing is found.
    """
    plan = frame.slice(_OFFSET, _LENGTH).explain()
    found = f"SLICE: Positive {{ offset: {_OFFSET}, len: {_LENGTH} }}"
    return plan.count(" SCAN ") == 1 and "Parquet SCAN " in plan and found in plan


def is_lazy_frame(value: Any) -> bool:
    """Whether it is a lazy Polars frame."""
    return is_instance(value, "polars", "LazyFrame")
