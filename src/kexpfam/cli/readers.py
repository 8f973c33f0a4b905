"""Tables from files: CSV and TSV, quickly where all cells are numbers, and Parquet.

Text may be compressed by gzip.

The quick way is NumPy's reader, written in C. Where it stumbles, over a text, a missing
value or a short line, the file is read again by the csv module, which knows its lines.
"""

import csv
import gzip
import io
import itertools
import warnings
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from kexpfam.cli.pipes import from_pipes
from kexpfam.data.tables import as_floats, is_numeric, open_parquet
from kexpfam.errors import MissingDependencyError
from kexpfam.tables import Table, TableError
from kexpfam.tables.columns import Column, as_column, as_labels, as_number


def as_option(name: str, value: str | list[str] | None = None) -> str:
    """An argument as the command line spells it.

    Example:
        >>> as_option("missing", "drop"), as_option("features")
        ('--missing drop', '--features')
    """
    values = [value] if isinstance(value, str) else value or []
    return " ".join([f"--{name}", *values])


@from_pipes
def read_table(path: str | Path, *, chunk: int = 50_000) -> Table:
    """Read a table; the end of the file's name says what it is. `-` is standard input.

    Rows of text become columns a chunk at a time: enough to be fast, few in memory.
    """
    path = Path(path)
    kind = _kind(path)
    if path.is_dir():
        raise TableError(f"{path} is a folder, not a file.")
    if not path.exists():
        raise FileNotFoundError(f"There is no file {str(path)!r}.")
    if kind in {".parquet", ".pq"}:
        return _read_parquet(path)
    if kind in {".csv", ".tsv", ".tab", ".txt", ".dat", ""}:
        return _read_delimited(path, chunk)
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


def _read_parquet(path: Path) -> Table:
    try:
        with open_parquet(path) as file:
            names = tuple(map(str, file.schema_arrow.names))
            numeric = [is_numeric(field.type) for field in file.schema_arrow]
            batches = [
                [
                    as_floats(column) if number else _as_texts(column)
                    for column, number in zip(batch.columns, numeric, strict=True)
                ]
                for batch in file.iter_batches()
            ]
    except MissingDependencyError:
        raise
    except Exception as error:  # the library raises several unrelated types
        first = " ".join(str(error).split())[:120]
        raise TableError(f"{path} is not a complete Parquet file ({first}).") from error
    if not names or not batches:
        raise TableError(f"{path} has no rows.")
    _check_names(names, str(path))
    columns = tuple(
        np.concatenate(parts) if number else as_column(list(itertools.chain(*parts)))
        for parts, number in zip(zip(*batches, strict=True), numeric, strict=True)
    )
    return Table(str(path), names, columns, by_line=False, spelled=as_option)


def _as_texts(column: Any) -> list[str]:
    return ["" if v is None else str(v).strip() for v in column.to_pylist()]


def _read_delimited(path: Path, chunk: int) -> Table:
    """Read a file with one row a line, below a line with the names of the columns.

    Fields are separated by tabs in .tsv files, and elsewhere by what the first line has
    most of: comma, semicolon or tab. It is UTF-8, with or without a byte order mark.
    """
    try:
        _refuse_binary(path)
        names, delimiter = _header(path)
        quick = _quickly(path, names, delimiter)
        return quick or _carefully(path, names, delimiter, chunk)
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
    path: Path, names: tuple[str, ...], delimiter: str, chunk: int = 50_000
) -> Table:
    parts: list[list[Column]] = [[] for _ in names]
    lines: list[int] = []
    for numbers, rows in _chunks(path, names, delimiter, chunk):
        lines += numbers
        for part, cells in zip(parts, zip(*rows, strict=True), strict=True):
            part.append(as_column(list(cells)))
    if not lines:
        raise TableError(f"{path} has a line with names, but no rows below it.")
    columns = tuple(_joined(part) for part in parts)
    starts = np.array(lines, dtype=np.intp)
    return Table(str(path), names, columns, starts, spelled=as_option)


def _joined(parts: list[Column]) -> Column:
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
