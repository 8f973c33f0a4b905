"""Tables: named columns of numbers or of texts.

A column whose cells are all numbers, or missing, is an array of numbers with NaN for
what is missing. Any other column is an array of texts, with "" for what is missing. In
it numbers have one spelling, so that "7", "7.0" and a 7 of a Parquet file are the same
category. What is wrong with a cell is said when its column is used: a column that
nobody asks for may hold anything.
"""

import difflib
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kexpfam._typing import Array, Indices, Mask
from kexpfam.errors import KexpfamError

# A column with at least this share of numbers is meant to be numeric, and what is not a
# number in it is an error. With fewer it is a column of categories. The share is a
# guess; either way a sentence tells what was decided.
MOSTLY = 0.9

_DATE = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}([T ].*)?")
_DECIMAL_COMMA = re.compile(r"[-+]?\d+,\d+([eE][-+]?\d+)?")

Column = np.ndarray[Any, Any]


class TableError(KexpfamError, ValueError):
    """A table cannot be read or used; the message names file, line and column."""


@dataclass(frozen=True, eq=False)
class Table:
    """Named columns.

    Attributes:
        path: Name of the file, for messages.
        names: Names of the columns, in order.
        columns: Numbers, (n,), NaN for missing; or texts, (n,), "" for missing.
        lines: Line of the file that each row starts in, (n,); None where the file has
            no lines, or where each row has one, after a header in the first.
        by_line: Whether messages count lines of a file, with the header, or rows.

    Example:
        >>> table = Table("a.csv", ("x", "city"), (np.ones(2), np.array(["A", ""])))
        >>> table.is_missing("city").tolist()
        [False, True]
        >>> table.place(0, "x")
        "a.csv, line 2, column 'x'"
    """

    path: str
    names: tuple[str, ...]
    columns: tuple[Column, ...]
    lines: Indices | None = None
    by_line: bool = True

    def __len__(self) -> int:
        """How many rows there are."""
        return len(self.columns[0]) if self.columns else 0

    def column(self, name: str) -> Column:
        """The cells of a column, as they are."""
        if name not in self.names:
            raise TableError(
                f"{self.path} has no column {name!r}{nearest(name, self.names)}; its "
                f"columns are {listed(self.names)}."
            )
        return self.columns[self.names.index(name)]

    def is_number(self, name: str) -> bool:
        """Whether all cells of a column are numbers or missing."""
        return self.column(name).dtype.kind == "f"

    def is_missing(self, name: str) -> Mask:
        """Which cells of a column are missing, (n,)."""
        cells = self.column(name)
        return np.isnan(cells) if self.is_number(name) else cells == ""

    def numbers(self, name: str, advice: str = "") -> Array:
        """A column of numbers, NaN for missing, (n,); errors may end with advice."""
        cells = self.column(name)
        if self.is_number(name):
            return cells
        odd = np.array([bool(c) and as_number(c) is None for c in cells.tolist()])
        row, others = int(np.argmax(odd)), int(odd.sum()) - 1
        share = 1.0 - odd.sum() / max(1, np.count_nonzero(cells != ""))
        more = "is 1 other cell" if others == 1 else f"are {others} others"
        rest = f", nor {more}" if others else ""
        what = f"{self.place(row, name)}: {cells[row]!r:.60} is not a number"
        why = _reason(str(cells[row]))
        if share < MOSTLY:
            raise TableError(f"{what}{why}, and this column has to hold numbers.")
        raise TableError(
            f"{what}{rest}, while {share:.0%} of the column are{why}; correct the "
            f"file{advice}."
        )

    def labels(self, name: str) -> Column:
        """A column of texts, "" for missing, (n,)."""
        cells = self.column(name)
        return as_labels(cells) if self.is_number(name) else cells

    def is_mostly_numbers(self, name: str) -> bool:
        """Whether a column is numeric, or would be without a few cells."""
        if self.is_number(name):
            return True
        known = [cell for cell in self.column(name).tolist() if cell]
        numeric = sum(as_number(cell) is not None for cell in known)
        return numeric >= MOSTLY * len(known)

    def disguised(self, name: str) -> tuple[int, str] | None:
        """Row and meaning of the first cell, if it is a number in other clothes."""
        if self.is_number(name):
            return None
        cells = self.column(name)
        row = int(np.argmax(cells != ""))
        if _DATE.fullmatch(str(cells[row])):
            return row, "is a date"
        if _DECIMAL_COMMA.fullmatch(str(cells[row])):
            return row, "has a comma where numbers have a point"
        return None

    def place(self, row: int, name: str | None = None) -> str:
        """File, line and column in words."""
        if not self.by_line:
            where = f"row {row + 1}"
        else:
            line = row + 2 if self.lines is None else int(self.lines[row])
            where = f"line {line}"
        column = "" if name is None else f", column {name!r}"
        return f"{self.path}, {where}{column}"


def as_number(cell: str) -> float | None:
    """The finite number that a text stands for, or None.

    Example:
        >>> as_number("1e3"), as_number("1_000"), as_number("abc"), as_number("inf")
        (1000.0, None, None, None)
    """
    try:
        value = float(cell)
    except ValueError:
        return None
    # Python reads underscores, which no spreadsheet writes.
    return value if math.isfinite(value) and "_" not in cell else None


def label_of(cell: str) -> str:
    """A text, with numbers in their one spelling.

    Example:
        >>> label_of("7.0"), label_of("0.50"), label_of("red")
        ('7', '0.5', 'red')
    """
    value = as_number(cell)
    if value is None:
        return cell
    return str(int(value)) if value.is_integer() else repr(value)


def as_labels(values: Array) -> Column:
    """Numbers as texts, "" for NaN, (n,).

    Example:
        >>> as_labels(np.array([7.0, np.nan, 0.5])).tolist()
        ['7', '', '0.5']
    """
    texts = ["" if math.isnan(v) else label_of(repr(v)) for v in values.tolist()]
    return np.array(texts, dtype=object)


def nearest(name: str, names: Sequence[str]) -> str:
    """A suggestion, or nothing.

    Example:
        >>> nearest("prize", ["price", "rooms"])
        " (did you mean 'price'?)"
    """
    lower = {n.lower(): n for n in names}
    found = difflib.get_close_matches(name.lower(), list(lower), n=1)
    return f" (did you mean {lower[found[0]]!r}?)" if found else ""


def listed(names: Sequence[str], most: int = 20) -> str:
    """Names in a row, not too many of them."""
    shown = ", ".join(map(repr, names[:most]))
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown


def _reason(cell: str) -> str:
    if _DECIMAL_COMMA.fullmatch(cell):
        return " (decimals need a point, not a comma)"
    if _DATE.fullmatch(cell):
        return " (dates have to be numbers, such as days since the first one)"
    try:
        infinite = abs(float(cell)) == np.inf
    except ValueError:
        return ""
    return " (infinity is no observation)" if infinite else ""
