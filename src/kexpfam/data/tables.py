"""Tables: Parquet files and lazy Polars queries, and which of their columns are what.

A row group of a file is decoded in batches from a small buffer for each column, and not
as a whole: row groups are often larger than what should be held of them.

If the plan of a query hands a range of rows down to the files, as it does for columns
of Parquet files, each range is a part, and little memory is used. Otherwise, as for a
query that filters or joins, Polars would have to compute the rows before a range again:
then the whole query is one part. Polars reads ahead in it without regard to who waits
(Polars issue 28569; Polars 2.1 held most of a file of 200 MB), so that it is better to
write what a large query gives to Parquet files first, with `LazyFrame.sink_parquet`.
"""

import glob
import re
from abc import abstractmethod
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kexpfam._optional import is_instance, needed
from kexpfam._typing import Array
from kexpfam.data.rows import BLOCK_ROWS, Part, Rows, Source, checked
from kexpfam.errors import MissingDependencyError, TableWarning, warn_caller


@dataclass(frozen=True)
class Columns:
    """Names of the columns of a table that are read."""

    features: tuple[Any, ...]
    responses: tuple[Any, ...]  # empty if y is not in the table
    weight: Any  # or None

    @property
    def all(self) -> tuple[Any, ...]:
        """All of them, each once."""
        weight = () if self.weight is None else (self.weight,)
        return tuple(dict.fromkeys((*self.features, *self.responses, *weight)))

    def inside(self, argument: str, column: int) -> str:
        """What a message says about a column of "X", "y" or "sample_weight"."""
        if argument == "sample_weight":
            return f", column {self.weight!r}"
        names = self.features if argument == "X" else self.responses
        return f", column {names[column]!r}"


def choose_columns(
    present: Sequence[Any],
    numeric: Collection[Any],
    *,
    y: Any,
    sample_weight: Any,
    features: Iterable[Any] | None,
    index: Collection[str] = (),
) -> Columns:
    """The columns that are meant; without `features`, all of numbers that are left.

    An index is none of them unless it is asked for. Of others that are left out for
    what they hold a warning tells.
    """
    responses = _names("y", y)
    weights = () if sample_weight is None else (sample_weight,)
    taken = {*responses, *weights, *index}
    if features is None:
        chosen = tuple(c for c in present if c in numeric and c not in taken)
    else:
        chosen = _names("features", features)
    if not chosen:
        raise ValueError("X must have at least one numeric column besides y.")
    known = set(present)
    for argument, names in (
        ("y", responses),
        ("sample_weight", weights),
        ("features", chosen),
    ):
        for name in names:
            if not isinstance(name, Hashable) or name not in known:
                listed = ", ".join(repr(column) for column in present)
                raise ValueError(
                    f"{argument} must name columns of the table, got {name!r:.80}; "
                    f"there are {listed:.400}."
                )
            if name not in numeric:
                raise ValueError(
                    f"{argument} must name columns of numbers, but {name!r} holds "
                    f"something else."
                )
    name, times = Counter((*responses, *weights, *chosen)).most_common(1)[0]
    if times > 1:
        raise ValueError(
            f"Column {name!r} can be one of features, y and sample_weight only, and "
            f"only once."
        )
    odd = [c for c in present if c not in numeric and c not in taken]
    if features is None and odd:
        warn_caller(
            f"Columns that hold no numbers were left out: "
            f"{', '.join(map(repr, odd)):.400}. Rows that are read block by block have "
            f"to be numbers; a frame in memory may hold anything.",
            TableWarning,
        )
    return Columns(chosen, responses, sample_weight)


def _names(argument: str, value: Any) -> tuple[Any, ...]:
    if isinstance(value, str) or (
        isinstance(value, Hashable) and not isinstance(value, tuple)
    ):
        return (value,)
    try:
        return tuple(value)
    except TypeError as error:
        raise ValueError(
            f"{argument} must be the name of a column, or several, got {value!r:.80}."
        ) from error


class _TableSource(Source):
    """Rows of a table whose columns have names."""

    _columns: Columns

    def _choose(
        self,
        present: Sequence[str],
        numeric: Collection[str],
        roles: tuple[Any, Any, Any],
        rows: int,
        index: Collection[str] = (),
    ) -> None:
        """Find the columns of y, sample_weight and features, the roles."""
        y, sample_weight, features = roles
        chosen = choose_columns(
            present,
            numeric,
            y=y,
            sample_weight=sample_weight,
            features=features,
            index=index,
        )
        self._columns, self.rows_per_block = chosen, rows
        self.n_features = len(chosen.features)
        self.n_responses = len(chosen.responses)
        self.feature_names = chosen.features


@dataclass(frozen=True)
class _TablePart(Part):
    """Some rows of a table, which come in batches."""

    columns: Columns
    rows: int  # most rows of a block
    start: int  # number of its first row in the file or query

    @property
    @abstractmethod
    def _where(self) -> str:
        """What messages call the file or query."""

    @abstractmethod
    def _batches(self) -> Iterator[Any]:
        """All rows, some at a time."""

    @abstractmethod
    def _column(self, batch: Any, name: Any) -> tuple[Array | float, int | None]:
        """Numbers of a column of a batch, and the first row that has none."""

    def read(self) -> Iterator[Rows]:
        start = self.start
        for batch in self._batches():
            block = self._block(batch, start)
            start += len(batch)
            if len(block):
                yield block

    def _block(self, batch: Any, start: int) -> Rows:
        def matrix(names: Sequence[Any]) -> Array:
            values = np.empty((len(batch), len(names)))
            for i, name in enumerate(names):
                values[:, i], missing = self._column(batch, name)
                if missing is not None:
                    raise ValueError(
                        f"Column {name!r} must have a number in every row, but it has "
                        f"none in row {start + missing} of {self._where}; drop or fill "
                        f"such rows."
                    )
            return values

        def place(argument: str, row: int, i: int) -> str:
            inside = self.columns.inside(argument, i)
            return f"row {start + row} of {self._where}{inside}"

        weight = self.columns.weight
        return checked(
            matrix(self.columns.features),
            matrix(self.columns.responses),
            None if weight is None else matrix((weight,))[:, 0],
            place,
        )


@dataclass(frozen=True)
class RowGroup(_TablePart):
    """One row group of one Parquet file."""

    fragment: Any  # a `pyarrow.dataset.ParquetFileFragment`, the whole file
    number: int  # which row group of the file

    @property
    def _where(self) -> str:
        return str(self.fragment.path)

    def _batches(self) -> Iterator[Any]:
        import pyarrow as pa

        stored = set(self.fragment.physical_schema.names)
        with self.fragment.open() as stream, open_parquet(stream) as file:
            # Threads are for parts: inside a part they would hold more batches at once.
            yield from file.iter_batches(
                batch_size=self.rows,
                row_groups=[self.number],
                columns=[name for name in self.columns.all if name in stored],
                use_threads=False,
            )
        # The pool would keep what it may use again, up to a whole row group.
        pa.default_memory_pool().release_unused()

    def _column(self, batch: Any, name: Any) -> tuple[Array | float, int | None]:
        if name in batch.schema.names:
            column = batch.column(name)
            if column.null_count:
                return np.nan, int(np.argmax(column.is_null().to_numpy(False)))
            return as_floats(column), None
        # A column that is in the name of the file's folder, and not in it.
        import pyarrow.dataset as ds

        value = ds.get_partition_keys(self.fragment.partition_expression).get(name)
        return (np.nan, 0) if value is None else (float(value), None)


def open_parquet(file: Any) -> Any:
    """A `pyarrow.parquet.ParquetFile` that holds little of the file at a time."""
    parquet = needed("pyarrow.parquet", "to read Parquet files", "parquet")
    # Bytes that are read at once for each column; smaller was no slower.
    return parquet.ParquetFile(file, buffer_size=2**16, pre_buffer=False)


def index_columns(schema: Any) -> frozenset[str]:
    """Columns of a schema of pyarrow that hold the index of a pandas frame."""
    told = (schema.pandas_metadata or {}).get("index_columns", ())
    named = {name for name in told if isinstance(name, str)}  # ranges are no columns
    unnamed = {n for n in schema.names if re.fullmatch(r"__index_level_\d+__", n)}
    return frozenset(named | unnamed)


def as_floats(column: Any) -> Array:
    """A numeric column of a batch, NaN for what is missing, (n,)."""
    import pyarrow as pa

    if pa.types.is_integer(column.type):  # rounded beyond 2⁵³, which is refused else
        column = column.cast(pa.float64(), safe=False)
    # Booleans and decimals come as objects; None becomes NaN.
    return np.asarray(column.to_numpy(zero_copy_only=False)).astype(float, copy=False)


def is_numeric(kind: Any) -> bool:
    """Whether columns of a type of pyarrow are numbers."""
    import pyarrow as pa

    kinds = ("integer", "floating", "boolean", "decimal")
    return any(getattr(pa.types, f"is_{name}")(kind) for name in kinds)


class ParquetSource(_TableSource):
    """Rows of one or many Parquet files.

    Args:
        path_or_dataset: A path, a folder, a pattern with *, or a
            `pyarrow.dataset.Dataset`.
        y: The name of a column, or several.
        sample_weight: The name of a column, or None for weights of one.
        features: Names of the columns of X; None for all numeric ones that are neither
            y nor weights, nor the index of a pandas frame.
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
        numeric = {field.name for field in dataset.schema if is_numeric(field.type)}
        self._choose(
            dataset.schema.names,
            numeric,
            (y, sample_weight, features),
            rows,
            index_columns(dataset.schema),
        )
        self._fragments = _parquet_fragments(dataset)
        self.n_rows = sum(f.metadata.num_rows for f in self._fragments)

    @property
    def parts(self) -> Sequence[RowGroup]:
        return [
            RowGroup(self._columns, self.rows_per_block, start, fragment, number)
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
    try:
        return ds.dataset(paths, format="parquet", partitioning="hive")
    except ValueError as error:  # as pyarrow's own are
        raise ValueError(
            f"X must name Parquet files, and {text!r} is something else; read it into "
            f"a frame first."
        ) from error


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


@dataclass(frozen=True)
class PolarsQuery(_TablePart):
    """All rows of a lazy frame."""

    frame: Any  # a `polars.LazyFrame` with the rows and columns that are needed

    _where = "the query"

    def _batches(self) -> Iterator[Any]:
        batches = self.frame.collect_batches(
            chunk_size=self.rows, maintain_order=True, lazy=True
        )
        for batch in batches:
            # Polars does not promise the size of a batch.
            yield from batch.iter_slices(self.rows)

    def _column(self, batch: Any, name: Any) -> tuple[Array | float, int | None]:
        column = batch[name]
        if column.null_count():
            return np.nan, int(column.is_null().arg_max())
        return column.to_numpy(), None


class PolarsSource(_TableSource):
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
        numeric = {n for n, t in schema.items() if t.is_numeric() or t == pl.Boolean}
        self._choose(schema.names(), numeric, (y, sample_weight, features), rows)
        self._frame = frame.select(self._columns.all)
        self.n_rows = None
        if _hands_ranges_down(self._frame):
            self.n_rows = int(self._frame.select(pl.len()).collect().item())

    @property
    def parts(self) -> Sequence[PolarsQuery]:
        rows = self.rows_per_block
        if self.n_rows is None:
            return [PolarsQuery(self._columns, rows, 0, self._frame)]
        # Eight blocks: opening the files should take less time than reading a range.
        step = 8 * rows
        return [
            PolarsQuery(self._columns, rows, start, self._frame.slice(start, step))
            for start in range(0, self.n_rows, step)
        ]


def _hands_ranges_down(frame: Any) -> bool:
    """Whether a range of rows is read from one scan of files, and no other row.

    It is read off the text of a plan. Should that text change, nothing is found.
    """
    offset, length = 7919, 104729  # a range that nobody else asks for
    plan = frame.slice(offset, length).explain()
    found = f"SLICE: Positive {{ offset: {offset}, len: {length} }}"
    return plan.count(" SCAN ") == 1 and "Parquet SCAN " in plan and found in plan


def is_lazy_frame(value: Any) -> bool:
    """Whether it is a lazy Polars frame."""
    return is_instance(value, "polars", "LazyFrame")
