"""Tables from files: CSV and TSV, quickly where all cells are numbers, and Parquet.

Text may be compressed by gzip.

The quick way is NumPy's reader, written in C. Where it stumbles, over a text, a missing
value or a short line, the file is read again by the csv module, which knows its lines.
"""

import contextlib
import csv
import gzip
import io
import warnings
import zlib
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from kexpfam.cli.pipes import from_pipes, is_pipe
from kexpfam.data.tables import (
    as_floats,
    index_columns,
    is_numeric,
    open_parquet,
)
from kexpfam.errors import MissingDependencyError
from kexpfam.tables import Table, TableError
from kexpfam.tables.columns import Column, as_column, as_labels, as_number, label_of

# Which of the columns of a file are to be read.
Wanted = Callable[[Sequence[str]], Collection[str]]

PARQUET = frozenset({".parquet", ".pq"})


def as_option(name: str, value: str | list[str] | None = None) -> str:
    """An argument as the command line spells it.

    Example:
        >>> as_option("missing", "drop"), as_option("features")
        ('--missing drop', '--features')
    """
    values = [value] if isinstance(value, str) else value or []
    return " ".join([f"--{name}", *values])


@from_pipes
def read_table(
    path: str | Path, wanted: Wanted | None = None, *, chunk: int = 50_000
) -> Table:
    """Read a table; the end of the file's name says what it is. `-` is standard input.

    Rows become columns a chunk at a time: enough to be fast, few in memory. Columns
    that are not wanted are there, by name, with nothing in them.
    """
    path, kind = _found(path)
    if kind in PARQUET:
        return _read_parquet(path, wanted, chunk)
    return _read_delimited(path, wanted, chunk)


def table_blocks(
    path: str | Path,
    wanted: Wanted | None = None,
    *,
    chunk: int = 50_000,
    group: int | None = None,
) -> Iterator[Table]:
    """The same, so many rows at a time; text in files below 64 MB is one block.

    Of Parquet files it may be the rows of one row group.
    """
    if is_pipe(str(path)):
        yield read_table(path, wanted, chunk=chunk)
        return
    path, kind = _found(path)
    if kind in PARQUET:
        yield from _parquet_blocks(path, wanted, chunk, group)
    elif path.stat().st_size < 2**26:
        yield _read_delimited(path, wanted, chunk)
    else:
        with _readable(path):
            yield from _delimited_blocks(path, *_header(path), wanted, chunk)


def _found(path: str | Path) -> tuple[Path, str]:
    """A file that is there and may be read, and what it holds."""
    path = Path(path)
    kind = _kind(path)
    if path.is_dir():
        raise TableError(f"{path} is a folder, not a file.")
    if not path.exists():
        raise FileNotFoundError(f"There is no file {str(path)!r}.")
    if kind in {*PARQUET, ".csv", ".tsv", ".tab", ".txt", ".dat", ""}:
        return path, kind
    raise TableError(
        f"{path} is a {kind} file, and tables are read from .csv, .tsv and .parquet; "
        f"save it as CSV."
    )


def _kind(path: Path) -> str:
    """The end of a name that says what a file holds, compressed or not."""
    inner = Path(path.stem) if path.suffix.lower() == ".gz" else path
    return inner.suffix.lower()


def _opened(path: Path) -> Any:
    """The bytes of a file, or those that were compressed."""
    try:
        zipped = path.suffix.lower() == ".gz"
        return gzip.open(path) if zipped else path.open("rb")
    except OSError as error:
        raise TableError(f"{path} cannot be read ({error.strerror}).") from error


def _text(path: Path) -> TextIO:
    return io.TextIOWrapper(_opened(path), encoding="utf-8-sig", newline="")


def _read_parquet(path: Path, wanted: Wanted | None, chunk: int) -> Table:
    return replace(
        joined_blocks(list(_parquet_blocks(path, wanted, chunk))), lines=None
    )


def joined_blocks(blocks: list[Table]) -> Table:
    """Blocks of rows as one table; orders of categories hold if all blocks agree."""
    first = blocks[0]
    columns = zip(*(block.columns for block in blocks), strict=True)
    lines = [block.lines for block in blocks if block.lines is not None]
    ordered = {
        name: order
        for name, order in first.ordered.items()
        if all(block.ordered.get(name) == order for block in blocks)
    }
    return replace(
        first,
        columns=tuple(joined_cells(list(parts)) for parts in columns),
        lines=np.concatenate(lines) if lines else None,
        ordered=ordered,
    )


def row_groups(path: str | Path) -> list[int]:
    """Numbers of rows of the row groups of a Parquet file; none of other files."""
    if is_pipe(str(path)) or _kind(Path(path)) not in PARQUET:
        return []
    path, _ = _found(path)
    with _parquet_file(path), open_parquet(path) as file:
        counts = file.metadata
        return [counts.row_group(i).num_rows for i in range(counts.num_row_groups)]


@contextlib.contextmanager
def _parquet_file(path: Path) -> Iterator[None]:
    """Say in a sentence what is no Parquet file."""
    try:
        yield
    except (MissingDependencyError, TableError):
        raise
    except Exception as error:  # the library raises several unrelated types
        first = " ".join(str(error).split())[:120]
        raise TableError(f"{path} is not a complete Parquet file ({first}).") from error


def _parquet_blocks(
    path: Path, wanted: Wanted | None, chunk: int, group: int | None = None
) -> Iterator[Table]:
    """Some rows at a time, one block at least, of columns that are wanted."""
    with _parquet_file(path), open_parquet(path) as file:
        names = tuple(map(str, file.schema_arrow.names))
        _check_names(names, str(path))
        index = index_columns(file.schema_arrow)
        read = set(names if wanted is None else wanted(names))
        groups = list(range(file.metadata.num_row_groups))
        own = groups if group is None else [group]
        before = groups[: own[0]] if own else []
        start = sum(file.metadata.row_group(i).num_rows for i in before)
        # Without columns, Arrow would not tell how many rows there are.
        kept = [name for name in names if name in read] or list(names[:1])
        for batch in file.iter_batches(chunk, row_groups=own, columns=kept):
            cells = dict(zip(batch.schema.names, batch.columns, strict=True))
            empty = np.broadcast_to(np.nan, batch.num_rows)
            columns = tuple(
                _as_column(path, n, cells[n], start) if n in read else empty
                for n in names
            )
            lines = np.arange(start + 2, start + 2 + batch.num_rows)
            start += batch.num_rows
            how: Any = {"by_line": False, "spelled": as_option, "index": index}
            how |= _categories({name: cells[name] for name in kept})
            yield Table(str(path), names, columns, lines, **how)
    if not start:
        raise TableError(f"{path} has no rows.")


def _categories(cells: dict[str, Any]) -> dict[str, Any]:
    """Columns that the file knows as categories, and the order of those with one."""
    kinds = {n: column for n, column in cells.items() if hasattr(column, "dictionary")}
    ordered = {
        name: tuple(label_of(text) for text in _as_texts(column.dictionary))
        for name, column in kinds.items()
        if column.type.ordered
    }
    return {"categorical": frozenset(kinds), "ordered": ordered}


def _as_column(path: Path, name: str, column: Any, start: int) -> Column:
    """A column of a batch as numbers or texts; what is neither is refused."""
    kind = str(column.type)
    place = f"{path}, column {name!r}"
    leave = f"leave it out (--exclude {name})"
    nested = ("list", "large_list", "fixed_size_list", "struct", "map")
    if kind.startswith(nested):
        raise TableError(
            f"{place}, row {start + 1}: cells of the type {kind:.40} are neither "
            f"numbers nor texts nor dates; {leave}."
        )
    if kind.startswith(("binary", "large_binary", "fixed_size_binary")):
        raise TableError(f"{place}, row {start + 1}: bytes are no text; {leave}.")
    if not is_numeric(column.type):
        return as_column(_as_texts(column))
    values = as_floats(column)
    if kind in ("int64", "uint64") and np.any(np.abs(values) > 2.0**53):
        row = int(np.argmax(np.abs(values) > 2.0**53))
        raise TableError(
            f"{place}, row {start + row + 1}: {column[row]} is beyond 2^53, where "
            f"whole numbers are no longer told apart; {leave}, or write it as text."
        )
    return values


def _as_texts(column: Any) -> list[str]:
    return ["" if v is None else str(v).strip() for v in column.to_pylist()]


def _read_delimited(path: Path, wanted: Wanted | None, chunk: int) -> Table:
    """Read a file with one row a line, below a line with the names of the columns.

    Fields are separated by tabs in .tsv files, and elsewhere by what the first line has
    most of: comma, semicolon or tab. It is UTF-8, with or without a byte order mark.
    """
    with _readable(path):
        names, delimiter = _header(path)
        quick = _quickly(path, names, delimiter)
        return quick or _carefully(path, names, delimiter, wanted, chunk)


@contextlib.contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Say in a sentence what is no text."""
    try:
        _refuse_binary(path)
        yield
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise TableError(f"{path} is not a complete gzip file ({error}).") from error
    except UnicodeDecodeError as error:
        raise TableError(
            f"{path}, line {_undecodable_line(path)} is not text in UTF-8; save the "
            f"file as CSV in UTF-8."
        ) from error


def _undecodable_line(path: Path) -> int:
    with _opened(path) as file:
        for number_of_line, line in enumerate(file, start=1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError:
                return number_of_line
    return 1


def names_in_header(path: Path) -> list[str]:
    """Names of the columns, for completion; none if they cannot be read."""
    try:
        return list(_header(path)[0]) if path.is_file() else []
    except (OSError, ValueError):
        return []


def _refuse_binary(path: Path) -> None:
    with _opened(path) as file:
        start = file.read(4096)
        later = any(b"\0" in part for part in iter(lambda: file.read(2**20), b""))
    if not start.strip():
        raise TableError(f"{path} is empty; the first line has to name the columns.")
    if later or b"\0" in start or start.startswith(b"PAR1"):
        raise TableError(
            f"{path} is a binary file, not a table in text; save it as CSV in UTF-8."
        )


def _delimiter(first: str, path: Path) -> str:
    if _kind(path) in {".tsv", ".tab"}:
        return "\t"
    # Inside quotes they are letters like others.
    outside = "".join(first.split('"')[::2])
    return max(",;\t", key=outside.count)


def _reader(file: TextIO, delimiter: str) -> Any:
    # Longer cells are a sign of an unclosed quote.
    csv.field_size_limit(131_072)
    return csv.reader(file, delimiter=delimiter, strict=True)


def _header(path: Path) -> tuple[tuple[str, ...], str]:
    """Names of the columns, and what is between them."""
    with _text(path) as file:
        delimiter = _delimiter(file.readline(), path)
        file.seek(0)
        try:
            names = [name.strip() for name in next(_reader(file, delimiter))]
            if len(names) > 1 and not names[0]:
                names[0] = "Unnamed: 0"  # labels of rows, which R and pandas write
        except csv.Error as error:
            raise TableError(f"{path}, line 1: {error}.") from error
    if names and all(as_number(name) is not None for name in names):
        raise TableError(
            f"{path}, line 1 holds numbers ({names[0]!r}, ...) where the names of the "
            f"columns should be; put a line with names on top."
        )
    _check_names(names, f"{path}, line 1")
    return tuple(names), delimiter


def _quickly(path: Path, names: tuple[str, ...], delimiter: str) -> Table | None:
    """The table if it holds nothing but finite numbers, None if not."""
    try:
        with _text(path) as file, warnings.catch_warnings():
            warnings.simplefilter("error")  # a file without rows
            values = np.loadtxt(
                file, delimiter=delimiter, comments=None, skiprows=1, ndmin=2
            )
    except (ValueError, UserWarning):
        return None
    if values.shape[1] != len(names) or not np.isfinite(values).all():
        return None
    columns = tuple(np.ascontiguousarray(values.T))
    return Table(str(path), names, columns, spelled=as_option)


def _carefully(
    path: Path,
    names: tuple[str, ...],
    delimiter: str,
    wanted: Wanted | None,
    chunk: int,
) -> Table:
    blocks = list(_delimited_blocks(path, names, delimiter, wanted, chunk))
    parts = zip(*(block.columns for block in blocks), strict=True)
    lines = [block.lines for block in blocks if block.lines is not None]
    columns = tuple(joined_cells(list(part)) for part in parts)
    starts = np.concatenate(lines)
    return Table(str(path), names, columns, starts, spelled=as_option)


def _delimited_blocks(
    path: Path,
    names: tuple[str, ...],
    delimiter: str,
    wanted: Wanted | None,
    chunk: int,
) -> Iterator[Table]:
    """Some rows at a time, one block at least."""
    read = set(names if wanted is None else wanted(names))
    some = False
    for lines, rows in _chunks(path, names, delimiter, chunk):
        some, empty = True, np.broadcast_to(np.nan, len(rows))
        columns = tuple(
            as_column(list(cells)) if name in read else empty
            for name, cells in zip(names, zip(*rows, strict=True), strict=True)
        )
        starts = np.array(lines, dtype=np.intp)
        yield Table(str(path), names, columns, starts, spelled=as_option)
    if not some:
        raise TableError(f"{path} has a line with names, but no rows below it.")


def joined_cells(parts: list[Column]) -> Column:
    """Cells of a column in several blocks of rows: texts, if one block has texts."""
    if all(part.dtype.kind == "f" for part in parts):
        return np.concatenate(parts)
    return np.concatenate(
        [as_labels(part) if part.dtype.kind == "f" else part for part in parts]
    )


def _chunks(
    path: Path, names: tuple[str, ...], delimiter: str, chunk: int
) -> Iterator[tuple[list[int], list[list[str]]]]:
    """Line numbers and cells, without spaces around them, of some rows at a time."""
    lines: list[int] = []
    rows: list[list[str]] = []
    with _text(path) as file:
        reader = _reader(file, delimiter)
        next(reader)
        before = reader.line_num
        try:
            for row in reader:
                # A row may span lines, in quotes; it is known by its first.
                line, before = before + 1, reader.line_num
                if not any(map(str.strip, row)) and len(row) < 2:
                    continue
                _check_width(path, line, row, names)
                lines.append(line)
                rows.append([cell.strip() for cell in row])
                if len(rows) == chunk:
                    yield lines, rows
                    lines, rows = [], []
        except csv.Error as error:
            raise TableError(
                f"{path}, line {before + 1}: the row that starts here cannot be read "
                f"({error}); is a quotation mark not closed?"
            ) from error
    if rows:
        yield lines, rows


def _check_width(path: Path, line: int, row: list[str], names: tuple[str, ...]) -> None:
    if len(row) == len(names):
        return
    hint = (
        f"the last that has a value is {names[len(row) - 1]!r}"
        if len(row) < len(names)
        else f"{row[len(names)]!r:.40} is one too many"
    )
    raise TableError(
        f"{path}, line {line}: {len(row)} fields where the first line names "
        f"{len(names)} columns ({hint})."
    )


def _check_names(names: Sequence[str], place: str) -> None:
    """Refuse columns without a name, or with the name of another."""
    first: dict[str, int] = {}
    for i, name in enumerate(names, start=1):
        if not name:
            raise TableError(f"{place}: column {i} has no name.")
        if name in first:
            raise TableError(
                f"{place}: two columns, {first[name]} and {i}, are called {name!r}; "
                f"rename one of them."
            )
        first[name] = i
