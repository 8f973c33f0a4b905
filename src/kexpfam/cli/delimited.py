"""CSV and TSV files: quickly where all cells are numbers, carefully elsewhere.

The quick way is NumPy's reader, written in C. Where it stumbles, over a text, a missing
value or a short line, the file is read again by the csv module, which knows its lines.
"""

import csv
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from kexpfam.cli.tables import (
    Column,
    Table,
    TableError,
    as_column,
    as_labels,
    check_names,
)
from kexpfam.cli.tables import as_number as number

# The csv module refuses longer cells, which are a sign of an unclosed quote.
_LONGEST_CELL = 131_072

# Rows that are turned into columns at a time: enough to be fast, and few in memory.
_CHUNK = 50_000

_TABS = {".tsv", ".tab"}


def read_delimited(path: Path) -> Table:
    """Read a file with one row a line, below a line with the names of the columns.

    Fields are separated by tabs in .tsv files, and elsewhere by what the first line has
    most of: comma, semicolon or tab. It is UTF-8, with or without a byte order mark.

    Raises:
        TableError: It names the line of the file, the header being line 1.
    """
    _refuse_binary(path)
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            first = file.readline()
            delimiter = _delimiter(first, path)
            file.seek(0)
            names = _header(file, delimiter, path)
            return _quickly(path, names, delimiter) or _carefully(
                path, names, delimiter
            )
    except UnicodeDecodeError as error:
        raise TableError(
            f"{path}, line {_undecodable_line(path)} is not text in UTF-8; save the "
            f"file as CSV in UTF-8."
        ) from error


def _undecodable_line(path: Path) -> int:
    with path.open("rb") as file:
        for number_of_line, line in enumerate(file, start=1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError:
                return number_of_line
    return 1


def names_in_header(path: Path) -> list[str]:
    """Names of the columns, for completion; none if they cannot be read."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            delimiter = _delimiter(file.readline(), path)
            file.seek(0)
            return list(_header(file, delimiter, path))
    except (OSError, ValueError):
        return []


def _refuse_binary(path: Path) -> None:
    with path.open("rb") as file:
        start = file.read(4096)
    if not start.strip():
        raise TableError(f"{path} is empty; the first line has to name the columns.")
    if b"\0" in start or start.startswith(b"PAR1"):
        raise TableError(
            f"{path} is a binary file, not a table in text; save it as CSV in UTF-8."
        )


def _delimiter(first: str, path: Path) -> str:
    if path.suffix.lower() in _TABS:
        return "\t"
    # Inside quotes they are letters like others.
    outside = "".join(first.split('"')[::2])
    return max(",;\t", key=outside.count)


def _reader(file: TextIO, delimiter: str) -> Any:
    csv.field_size_limit(_LONGEST_CELL)
    return csv.reader(file, delimiter=delimiter, strict=True)


def _header(file: TextIO, delimiter: str, path: Path) -> tuple[str, ...]:
    try:
        names = [name.strip() for name in next(_reader(file, delimiter))]
    except csv.Error as error:
        raise TableError(f"{path}, line 1: {error}.") from error
    if names and all(number(name) is not None for name in names):
        raise TableError(
            f"{path}, line 1 holds numbers ({names[0]!r}, ...) where the names of the "
            f"columns should be; put a line with names on top."
        )
    check_names(names, f"{path}, line 1")
    return tuple(names)


def _quickly(path: Path, names: tuple[str, ...], delimiter: str) -> Table | None:
    """The table if it holds nothing but finite numbers, None if not."""
    try:
        with path.open(encoding="utf-8-sig") as file, warnings.catch_warnings():
            warnings.simplefilter("error")  # a file without rows
            values = np.loadtxt(
                file, delimiter=delimiter, comments=None, skiprows=1, ndmin=2
            )
    except (ValueError, UserWarning):
        return None
    if values.shape[1] != len(names) or not np.isfinite(values).all():
        return None
    return Table(str(path), names, tuple(np.ascontiguousarray(values.T)))


def _carefully(path: Path, names: tuple[str, ...], delimiter: str) -> Table:
    parts: list[list[Column]] = [[] for _ in names]
    lines: list[int] = []
    for numbers, rows in _chunks(path, names, delimiter):
        lines += numbers
        for part, cells in zip(parts, zip(*rows, strict=True), strict=True):
            part.append(as_column(list(cells)))
    if not lines:
        raise TableError(f"{path} has a line with names, but no rows below it.")
    columns = tuple(_joined(part) for part in parts)
    return Table(str(path), names, columns, np.array(lines, dtype=np.intp))


def _joined(parts: list[Column]) -> Column:
    if all(part.dtype.kind == "f" for part in parts):
        return np.concatenate(parts)
    return np.concatenate(
        [as_labels(part) if part.dtype.kind == "f" else part for part in parts]
    )


def _chunks(
    path: Path, names: tuple[str, ...], delimiter: str
) -> Iterator[tuple[list[int], list[list[str]]]]:
    """Line numbers and cells, without spaces around them, of some rows at a time."""
    lines: list[int] = []
    rows: list[list[str]] = []
    with path.open(encoding="utf-8-sig", newline="") as file:
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
                if len(rows) == _CHUNK:
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
