"""Results: files that are written whole or not at all, tables, and JSON."""

import csv
import json
import math
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TextIO

import click
import numpy as np

from kexpfam._optional import needed
from kexpfam._typing import Array
from kexpfam.cli.shared import STANDARD_OUTPUT
from kexpfam.errors import KexpfamError
from kexpfam.persistence import replacing
from kexpfam.tables.columns import Column

# What pictures and tables are called.
PICTURES = (".png", ".svg", ".pdf")
TABLES = (".csv", ".tsv", ".parquet")


class OutputError(KexpfamError, ValueError):
    """A file cannot be written."""


def check_output(path: str, force: bool, kinds: tuple[str, ...] | None = None) -> None:
    """Say before the work what would fail after it.

    The path may be "-", standard output, for tables only. Kinds are how names may end.
    """
    if path == STANDARD_OUTPUT:
        if kinds == TABLES:
            return
        raise click.UsageError(
            "Standard output, -, is for tables; give the name of a file instead of -."
        )
    if not path.strip() or "\0" in path:
        raise OutputError(
            f"The name of the file to write, {path!r}, is none; give one."
        )
    target = Path(path)
    if kinds is not None and target.suffix.lower() not in kinds:
        raise OutputError(f"{path} must end in {', '.join(kinds[:-1])} or {kinds[-1]}.")
    if target.is_dir():
        raise OutputError(f"{path} is a folder; give the name of a file.")
    if target.exists() and not force:
        raise OutputError(f"{path} exists; say --force to replace it.")
    if not target.absolute().parent.is_dir():
        raise OutputError(f"There is no folder {str(target.parent)!r}; make it first.")


def write_columns(path: str, columns: Mapping[str, Column]) -> None:
    """Write columns of numbers or texts, (n,) each; NaN becomes an empty cell."""
    if path == STANDARD_OUTPUT:
        write_delimited(sys.stdout, columns, ",")
        return
    kind = Path(path).suffix.lower()
    with replacing(path) as temporary:
        if kind == ".parquet":
            _write_parquet(temporary, columns)
            return
        with open(temporary, "w", encoding="utf-8", newline="") as file:
            write_delimited(file, columns, "\t" if kind == ".tsv" else ",")


def write_delimited(
    file: TextIO, columns: Mapping[str, Column], delimiter: str
) -> None:
    r"""Write columns as text.

    Example:
        >>> import io
        >>> file = io.StringIO()
        >>> write_delimited(file, {"a": np.array([1.5, np.nan])}, ",")
        >>> file.getvalue()
        'a\n1.5\n""\n'
    """
    writer = csv.writer(file, delimiter=delimiter, lineterminator="\n")
    writer.writerow(columns)
    n = len(next(iter(columns.values())))
    whole = [_is_whole(column) for column in columns.values()]
    block = 50_000
    for start in range(0, n, block):
        rows = slice(start, start + block)
        parts = zip(columns.values(), whole, strict=True)
        cells = [_cells(column[rows], as_whole) for column, as_whole in parts]
        writer.writerows(zip(*cells, strict=True))


def significant(values: Array, digits: int, spread: Array | float = np.inf) -> Array:
    """Numbers with so many significant digits, and of those with a spread more.

    What differs by a thousandth of its spread stays different. Numbers keep the shape
    of values, and spreads are broadcast to it; 17 digits are all.

    Example:
        >>> significant(np.array([1.23456789, 123456789.0, np.nan]), 3)
        array([1.23e+00, 1.23e+08,      nan])
        >>> significant(np.array([123456.789]), 3, spread=2.0)
        array([123456.79])
    """
    if digits > 16:
        return values
    known = np.isfinite(values) & (values != 0.0)
    spread = np.where(np.asarray(spread) > 0, spread, np.inf)
    size = np.minimum(np.abs(values), 10.0 ** (digits - 3) * spread)
    place = np.floor(np.log10(np.where(known, size, 1.0)))
    decimals = np.where(known, digits - 1 - place, 0.0)
    # Powers of ten up to this are exact, so that quotients are the nearest doubles.
    exact = np.abs(decimals) <= 22
    power = 10.0 ** np.where(exact, np.abs(decimals), 0.0)
    fine = decimals >= 0
    rounded = np.where(
        fine,
        np.round(values * np.where(fine, power, 1.0)) / power,
        np.round(values / np.where(fine, 1.0, power)) * power,
    )
    return np.where(known & exact & np.isfinite(rounded), rounded, values)


def _is_whole(column: Column) -> bool:
    """Whether all numbers are whole, and small enough to be written so."""
    if column.dtype.kind != "f":
        return False
    known = column[~np.isnan(column)]
    return bool(np.all((known == np.round(known)) & (np.abs(known) < 1e15)))


def _cells(column: Column, as_whole: bool) -> list[Any]:
    values: list[Any] = column.tolist()
    if column.dtype.kind != "f":
        return values
    kind = int if as_whole else float
    return ["" if math.isnan(value) else kind(value) for value in values]


def _write_parquet(path: str, columns: Mapping[str, Column]) -> None:
    pyarrow = needed("pyarrow", "to write Parquet files", "parquet")
    parquet = needed("pyarrow.parquet", "to write Parquet files", "parquet")
    arrays = {
        name: pyarrow.array(
            column,
            mask=np.isnan(column) if column.dtype.kind == "f" else column == "",
        )
        for name, column in columns.items()
    }
    parquet.write_table(pyarrow.table(arrays), path)


def write_picture(path: str, draw: Callable[[], Any]) -> None:
    """Draw a matplotlib figure without a screen, and write it."""
    matplotlib = needed("matplotlib", "for pictures", "plot")
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure = draw()
    try:
        with replacing(path) as temporary:
            figure.savefig(temporary, dpi=150)
    finally:
        plt.close(figure)


def print_json(content: Mapping[str, Any]) -> None:
    """One JSON object on standard output; NaN and infinity become null."""
    from kexpfam.explorer import plain

    click.echo(json.dumps(plain(content), indent=2))
