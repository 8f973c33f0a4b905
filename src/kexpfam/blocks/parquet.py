"""Parquet files, read in batches of rows.

A row group is decoded in batches from a small buffer for each column, and not as a
whole: row groups are often larger than what should be held of them.
"""

import glob
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kexpfam._optional import is_instance, needed
from kexpfam._typing import Array
from kexpfam.blocks.block import Block, Part, Source, checked
from kexpfam.blocks.columns import Columns, choose_columns
from kexpfam.blocks.memory import BLOCK_ROWS

# Bytes of a file that are read at once for each column; smaller was no slower.
_BUFFER = 2**16


@dataclass(frozen=True)
class RowGroup(Part):
    """One row group of one file.

    Attributes:
        fragment: A `pyarrow.dataset.ParquetFileFragment`, the whole file.
        number: Which row group of the file.
        start: Number of its first row in the file.
        columns: What to read.
        rows: Most rows of a block.
    """

    fragment: Any
    number: int
    start: int
    columns: Columns
    rows: int

    def read(self) -> Iterator[Block]:
        import pyarrow as pa

        start = self.start
        for batch in self._batches():
            block = self._block(batch, start)
            start += batch.num_rows
            if len(block):
                yield block
        # The pool would keep what it may use again, up to a whole row group.
        pa.default_memory_pool().release_unused()

    def _batches(self) -> Iterator[Any]:
        stored = set(self.fragment.physical_schema.names)
        with self.fragment.open() as stream, open_parquet(stream) as file:
            # Threads are for parts: inside a part they would hold more batches at once.
            yield from file.iter_batches(
                batch_size=self.rows,
                row_groups=[self.number],
                columns=[name for name in self.columns.all if name in stored],
                use_threads=False,
            )

    def _block(self, batch: Any, start: int) -> Block:
        chosen, n = self.columns, batch.num_rows
        X = np.empty((n, len(chosen.features)))
        Y = np.empty((n, len(chosen.responses)))
        for values, names in ((X, chosen.features), (Y, chosen.responses)):
            for i, name in enumerate(names):
                values[:, i] = self._column(batch, name, start)
        weights = None
        if chosen.weight is not None:
            weights = np.array(self._column(batch, chosen.weight, start))
        return checked(
            X,
            Y,
            weights,
            lambda argument, row, column: (
                f"row {start + row} of {self.fragment.path}"
                f"{chosen.inside(argument, column)}"
            ),
        )

    def _column(self, batch: Any, name: str, start: int) -> Array | float:
        if name not in batch.schema.names:
            return self._constant(name)
        column = batch.column(name)
        if column.null_count:
            row = start + int(np.argmax(column.is_null().to_numpy(False)))
            raise _missing(name, row, self.fragment.path)
        return as_floats(column)

    def _constant(self, name: str) -> float:
        """Value of a column that is in the name of the file's folder, and not in it."""
        import pyarrow.dataset as ds

        keys = ds.get_partition_keys(self.fragment.partition_expression)
        if keys.get(name) is None:
            raise _missing(name, self.start, self.fragment.path)
        return float(keys[name])


def _missing(name: str, row: int, path: str) -> ValueError:
    return ValueError(
        f"Column {name!r} must have a number in every row, but it has none in row "
        f"{row} of {path}; drop or fill such rows."
    )


def open_parquet(file: Any) -> Any:
    """A `pyarrow.parquet.ParquetFile` that holds little of the file at a time.

    Args:
        file: A path or a stream.
    """
    parquet = needed("pyarrow.parquet", "to read Parquet files", "parquet")
    return parquet.ParquetFile(file, buffer_size=_BUFFER, pre_buffer=False)


def as_floats(column: Any) -> Array:
    """A numeric column of a batch, NaN for what is missing, (n,)."""
    # Booleans and decimals come as objects; None becomes NaN.
    return np.asarray(column.to_numpy(zero_copy_only=False)).astype(float, copy=False)


def is_numeric(kind: Any) -> bool:
    """Whether columns of a type of pyarrow are numbers."""
    import pyarrow as pa

    types = pa.types
    return (
        types.is_integer(kind)
        or types.is_floating(kind)
        or types.is_boolean(kind)
        or types.is_decimal(kind)
    )


class ParquetSource(Source):
    """Rows of one or many Parquet files.

    Args:
        path_or_dataset: A path, a folder, a pattern with *, or a
            `pyarrow.dataset.Dataset`.
        y: The name of a column, or several.
        sample_weight: The name of a column, or None for weights of one.
        features: Names of the columns of X; None for all numeric ones that are neither
            y nor weights.
        rows: Most rows of a block.

    Raises:
        ValueError: Names that do not exist, or columns without numbers.
        FileNotFoundError: There is no such file.
    """

    def __init__(
        self,
        path_or_dataset: Any,
        y: str | Sequence[str],
        sample_weight: str | None = None,
        features: Sequence[str] | None = None,
        *,
        rows: int = BLOCK_ROWS,
    ) -> None:
        dataset = _dataset(path_or_dataset)
        self._columns = choose_columns(
            dataset.schema.names,
            {field.name for field in dataset.schema if is_numeric(field.type)},
            y=y,
            sample_weight=sample_weight,
            features=features,
        )
        self.rows_per_block = rows
        self._fragments = _parquet_fragments(dataset)
        self.n_features = len(self._columns.features)
        self.n_responses = len(self._columns.responses)
        self.feature_names = tuple(self._columns.features)
        self.n_rows = sum(f.metadata.num_rows for f in self._fragments)

    @property
    def parts(self) -> Sequence[RowGroup]:
        return [
            RowGroup(fragment, number, start, self._columns, self.rows_per_block)
            for fragment in self._fragments
            for number, start in _row_groups(fragment)
        ]


def is_parquet(value: Any) -> bool:
    """Whether it is what a `ParquetSource` reads: a path or a dataset."""
    return isinstance(value, str | Path) or is_instance(
        value, "pyarrow.dataset", "Dataset"
    )


def _dataset(data: Any) -> Any:
    ds = needed("pyarrow.dataset", "to read Parquet files", "parquet")
    if isinstance(data, ds.Dataset):
        return data
    if not isinstance(data, str | Path):
        raise ValueError(
            f"X must be a path, a pattern or a pyarrow dataset, got {data!r:.80}."
        )
    text = str(Path(data).expanduser()) if "://" not in str(data) else str(data)
    paths: Any = text
    if any(sign in text for sign in "*?[") and not Path(text).exists():
        paths = sorted(glob.glob(text, recursive=True))
        if not paths:
            raise FileNotFoundError(
                f"X must name Parquet files, but {text!r} has none."
            )
    return ds.dataset(paths, format="parquet", partitioning="hive")


def _parquet_fragments(dataset: Any) -> list[Any]:
    import pyarrow.dataset as ds

    try:
        fragments = list(dataset.get_fragments())
    except ValueError as error:  # pyarrow says so for datasets with a filter
        raise ValueError(f"X must be a dataset of files: {error}.") from error
    for fragment in fragments:
        if not isinstance(fragment, ds.ParquetFileFragment):
            raise ValueError(
                f"X must be a dataset of Parquet files, got "
                f"{type(fragment).__name__}; write it to Parquet first."
            )
    return fragments


def _row_groups(fragment: Any) -> Iterator[tuple[int, int]]:
    """Number and first row in the file of the row groups of a fragment."""
    kept = {group.id for group in fragment.row_groups}
    start = 0
    for number in range(fragment.metadata.num_row_groups):
        if number in kept:
            yield number, start
        start += fragment.metadata.row_group(number).num_rows
