"""Lazy Polars queries, read batch by batch while Polars computes them.

A query is one part: to split it by rows, Polars would have to compute the rows before
each piece again. Polars reads ahead on threads of its own.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kexpfam.blocks.block import Block, Part, Source, checked
from kexpfam.blocks.columns import Columns, choose_columns
from kexpfam.blocks.memory import BLOCK_ROWS
from kexpfam.blocks.optional import is_instance, needed
from kexpfam.errors import MissingDependencyError


@dataclass(frozen=True)
class PolarsQuery(Part):
    """All rows of a lazy frame.

    Attributes:
        frame: A `polars.LazyFrame` with the columns that are needed.
        columns: What they are.
        rows: Most rows of a block.
    """

    frame: Any
    columns: Columns
    rows: int

    def read(self) -> Iterator[Block]:
        batches = self.frame.collect_batches(
            chunk_size=self.rows, maintain_order=True, lazy=True
        )
        start = 0
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

    @property
    def parts(self) -> Sequence[PolarsQuery]:
        return [PolarsQuery(self._frame, self._columns, self.rows_per_block)]


def is_lazy_frame(value: Any) -> bool:
    """Whether it is a lazy Polars frame."""
    return is_instance(value, "polars", "LazyFrame")
