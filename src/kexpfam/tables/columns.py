"""Tables: named columns of numbers, of moments, or of texts.

A column whose cells are all numbers, or missing, is an array of numbers with NaN for
what is missing; durations are seconds, and True and False are 1 and 0, also where they
are written as texts. Moments that a frame knows as such are an array
of them, with NaT. Any other column is an array of texts, with "" for what is missing.
In it numbers have one spelling, so that "7", "7.0" and a 7 of a Parquet file are the
same category. What is wrong with a cell is said when its column is used: a column that
nobody asks for may hold anything.
"""

import difflib
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import numpy as np

from kexpfam._parallel import cached_property
from kexpfam._row_order import row_order
from kexpfam._typing import Array, Indices, Mask
from kexpfam._validation import unmasked
from kexpfam.errors import KexpfamError

_DATE = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}([T ].*)?")
_DECIMAL_COMMA = re.compile(r"[-+]?\d+,\d+([eE][-+]?\d+)?")

# As Python, R and databases write booleans.
TRUTHS = {
    **dict.fromkeys(("True", "TRUE", "true"), 1.0),
    **dict.fromkeys(("False", "FALSE", "false"), 0.0),
}

Column = np.ndarray[Any, Any]


class TableError(KexpfamError, ValueError):
    """A table cannot be read or used; the message names file, line and column."""


def as_keyword(name: str, value: str | list[str] | None = None) -> str:
    """An argument as Python spells it: `TableCoder(missing='drop')`."""
    if value is None or name == "ordered":  # which estimators have, too
        return name if value is None else f"{name}={value!r}"
    return f"TableCoder({name}={value!r})"


@dataclass(frozen=True, eq=False)
class Table:
    """Named columns, and how messages speak of them.

    Example:
        >>> table = Table("a.csv", ("x", "city"), (np.ones(2), np.array(["A", ""])))
        >>> table.is_missing("city").tolist()
        [False, True]
        >>> table.place(0, "x")
        "a.csv, line 2, column 'x'"
    """

    path: str  # what messages call it, such as the name of its file
    names: tuple[str, ...]
    # Numbers, NaN for missing; moments, NaT for missing; or texts, "" for missing
    columns: tuple[Column, ...]
    # Line of the file that each row starts in, (n,); None where the file has no lines,
    # or where each row has one, after a header in the first.
    lines: Indices | None = None
    by_line: bool = True  # whether messages count lines, with the header, or rows
    spelled: Callable[..., str] = as_keyword  # how messages spell an argument
    # Columns that a frame knows as categories, and the order of those that have one
    categorical: frozenset[str] = frozenset()
    ordered: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    # Columns that cannot be used, such as lists, and what is said of them
    refused: Mapping[str, str] = field(default_factory=dict)
    # Columns that hold labels of rows, the index of a pandas frame in a file
    index: frozenset[str] = frozenset()
    _read: dict[str, Column] = field(default_factory=dict, init=False, repr=False)

    def __len__(self) -> int:
        """How many rows there are."""
        return len(self.columns[0]) if self.columns else 0

    def __getitem__(self, rows: Indices | Mask | slice) -> "Table":
        """Some of the rows; messages know them by where they were."""
        lines = np.arange(2, len(self) + 2) if self.lines is None else self.lines
        columns = tuple(column[rows] for column in self.columns)
        return replace(self, columns=columns, lines=lines[rows])

    def column(self, name: str) -> Column:
        """The cells of a column; where texts are True and False only, as numbers."""
        if name not in self._read:
            cells = self._as_written(name)
            self._read[name] = _truths_as_numbers(cells)
        return self._read[name]

    def _as_written(self, name: str) -> Column:
        if name not in self._places:
            raise TableError(
                f"{self.path} has no column {name!r}{nearest(name, self.names)}; its "
                f"columns are {listed(self.names)}."
            )
        if name in self.refused:
            raise TableError(f"{self.path}, column {name!r}, {self.refused[name]}")
        return self.columns[self._places[name]]

    @cached_property
    def _places(self) -> dict[str, int]:
        """Where each column is; there may be a hundred thousand."""
        return {name: i for i, name in enumerate(self.names)}

    def is_number(self, name: str) -> bool:
        """Whether all cells of a column are numbers or missing."""
        return self.column(name).dtype.kind == "f"

    def is_missing(self, name: str) -> Mask:
        """Which cells of a column are missing, (n,)."""
        cells = self.column(name)
        if self.is_number(name):
            return np.isnan(cells)
        return np.isnat(cells) if cells.dtype.kind == "M" else cells == ""

    def share_of_numbers(self, name: str) -> float:
        """How many of the cells that are not missing are numbers, as a share."""
        if self.is_number(name):
            return 1.0
        if self.column(name).dtype.kind == "M":
            return 0.0
        known = [cell for cell in self.column(name).tolist() if cell]
        return sum(as_number(c) is not None for c in known) / max(1, len(known))

    def is_mostly_numbers(self, name: str) -> bool:
        """Whether a column is numeric, or would be without a few cells.

        What is no number in it is an error; in other columns it is a category.
        """
        # A guess; either way a sentence tells what was decided.
        return self.share_of_numbers(name) >= 0.9

    def is_few_names(self, name: str, most: int = 12, rows_each: int = 3) -> bool:
        """Whether a column of texts, not all numbers, has few values that repeat.

        Such as cylinders of an engine, 3, 4, 6, 8 and "rotary": names, and no mistake
        among numbers, which hardly repeat.
        """
        if self.is_number(name) or self.share_of_numbers(name) == 1.0:
            return False
        known = [cell for cell in self.column(name).tolist() if cell]
        return rows_each * len(set(known)) <= len(known) and len(set(known)) <= most

    def numbers(self, name: str, advice: str = "") -> Array:
        """A column of numbers, NaN for missing, (n,); errors may end with advice."""
        cells = self.column(name)
        if self.is_number(name):
            infinite = np.isinf(cells)
            if infinite.any():
                raise TableError(
                    f"{self.place(int(np.argmax(infinite)), name)}: infinity is no "
                    f"observation; leave such rows out."
                )
            return cells
        cells = self.labels(name)
        odd = np.array([bool(c) and as_number(c) is None for c in cells.tolist()])
        truths = np.array([c in TRUTHS for c in cells.tolist()])
        odd = odd & ~truths if np.any(odd & ~truths) else odd
        row, others = int(np.argmax(odd)), int(odd.sum()) - 1
        more = "is 1 other cell" if others == 1 else f"are {others} others"
        rest = f", nor {more}" if others else ""
        what = f"{self.place(row, name)}: {cells[row]!r:.60} is not a number"
        why = _reason(str(cells[row]))
        if not self.is_mostly_numbers(name):
            raise TableError(f"{what}{why}, and this column has to hold numbers.")
        known = int(np.count_nonzero(cells != ""))
        raise TableError(
            f"{what}{rest}, while {known - others - 1} of {known} cells of the column "
            f"are{why}; correct it{advice}."
        )

    def labels(self, name: str) -> Column:
        """A column of texts, "" for missing, (n,)."""
        cells = self._as_written(name)
        if cells.dtype.kind == "M":
            texts = np.datetime_as_string(cells.astype("M8[s]")).astype(object)
            return np.where(np.isnat(cells), "", texts)
        return as_labels(cells) if cells.dtype.kind == "f" else cells

    def disguised(self, name: str) -> tuple[int, str] | None:
        """Row and meaning of the first cell, if it is a number in other clothes."""
        cells = self.column(name)
        if cells.dtype.kind in "fM" or not len(cells):
            return None
        row = int(np.argmax(cells != ""))
        if _DATE.fullmatch(str(cells[row])):
            return row, "is a date, and dates are read as 2024-01-31"
        if _DECIMAL_COMMA.fullmatch(str(cells[row])):
            return row, "has a comma where numbers have a point"
        return None

    def place(self, row: int, name: str | None = None) -> str:
        """File, line and column in words."""
        line = row + 2 if self.lines is None else int(self.lines[row])
        where = f"line {line}" if self.by_line else f"row {line - 1}"
        column = "" if name is None else f", column {name!r}"
        return f"{self.path}, {where}{column}"


def as_table(data: Any, name: str = "X") -> Table:
    """A table from a frame, or from columns by name; a table stays as it is.

    Args:
        data: A pandas or Polars frame, a mapping from names to columns, or a table.
        name: What messages call it.

    Example:
        >>> table = as_table({"size": [1, 2], "city": ["Rome", None]})
        >>> table.is_number("size"), table.is_missing("city").tolist()
        (True, [False, True])
    """
    if isinstance(data, Table):
        return data
    names = list(data if isinstance(data, Mapping) else data.columns)
    texts = tuple(map(str, names))
    twin, times = Counter(texts).most_common(1)[0] if texts else ("", 0)
    if times > 1:
        raise TableError(f"{name} has several columns {twin!r}; rename them.")
    categorical, ordered, refused, columns = set(), {}, {}, []
    for key, text in zip(names, texts, strict=True):
        cells = data[key]
        if np.isscalar(cells) or cells is None:
            raise TableError(
                f"{name}, column {text!r} is one value, {cells!r:.40}; give a list "
                f"with a value for each row."
            )
        odd = _no_cell(cells)
        if odd is not None:
            refused[text] = odd
            columns.append(np.full(len(cells), "", dtype=object))
            continue
        kind = type(getattr(cells, "dtype", None)).__name__
        if kind in ("CategoricalDtype", "Enum", "Categorical"):
            categorical.add(text)
            columns.append(_as_texts(cells.to_numpy()))
            # An Enum of Polars has an order; its Categorical has none.
            if kind == "Enum" or getattr(cells.dtype, "ordered", False):
                levels = list(cells.dtype.categories)
                ordered[text] = tuple(label_of(str(level)) for level in levels)
        else:
            columns.append(_as_cells(cells))
    if len({len(column) for column in columns}) > 1:
        raise TableError(f"{name} has columns of different lengths.")
    return Table(
        name,
        texts,
        tuple(columns),
        by_line=False,
        categorical=frozenset(categorical),
        ordered=ordered,
        refused=refused,
    )


def _no_cell(column: Any) -> str | None:
    """What is said of a column that holds lists, bytes and the like; None of others."""
    cells = column if isinstance(column, list | tuple) else np.asarray(column)
    if (
        isinstance(cells, np.ndarray)
        and cells.ndim == 1
        and cells.dtype.kind not in "OSVc"
    ):
        return None
    nested = (list, tuple, dict, set, bytes, complex, np.ndarray, np.void)
    found = (i for i, cell in enumerate(cells) if isinstance(cell, nested))
    row = next(found, None)
    if row is None:
        return None
    kind = type(cells[row]).__name__
    return f"row {row + 1}: {kind} is neither number nor text nor date; leave it out."


def content_order(
    table: Table, names: Sequence[str], weights: Array, Y: Array | None
) -> Indices:
    """Positions of rows in an order that only their content decides, (n,).

    Args:
        table: The rows of a fit.
        names: Its columns that are content, of any kind.
        weights: Of the rows, (n,).
        Y: Responses, (n, d); None for none.

    Example:
        >>> table = as_table({"city": ["Rome", "Oslo", "", "Oslo"]})
        >>> for rows in (table, table[::-1]):
        ...     order = content_order(rows, ["city"], np.ones(4), None)
        ...     print(rows.column("city")[order].tolist())
        ['Oslo', '', 'Oslo', 'Rome']
        ['Oslo', '', 'Oslo', 'Rome']
    """
    keys = [weights]
    for name in names:
        cells = table.column(name)
        if cells.dtype.kind == "O":
            texts = cells.tolist()
            ranks = {text: i for i, text in enumerate(sorted(set(texts)))}
            cells = np.array([ranks[text] for text in texts])
        keys.append(cells.astype(np.int64) if cells.dtype.kind == "M" else cells)
    return row_order(*keys, *([] if Y is None else [Y]))


def is_frame(data: Any) -> bool:
    """Whether something is a table, a frame in memory, or columns by name.

    Example:
        >>> is_frame({"x": [1, 2]}), is_frame(np.ones((2, 1)))
        (True, False)
    """
    if isinstance(data, Table):
        return True
    if isinstance(data, Mapping):
        return not hasattr(data, "shape")  # as some sparse matrices have
    has = all(hasattr(data, name) for name in ("columns", "shape", "__getitem__"))
    # Lazy frames, and tables of Arrow, are none.
    return has and not hasattr(data, "dask") and not hasattr(data, "column_names")


def _as_cells(column: Any) -> Column:
    """Cells of a frame as numbers, moments or texts, (n,)."""
    if getattr(getattr(column, "dtype", None), "time_zone", None) is not None:
        column = column.dt.replace_time_zone(None)  # Polars: what clocks there show
    cells = np.asarray(unmasked(column))
    if cells.dtype.kind in "buif":
        return cells.astype(float)
    if cells.dtype.kind == "m":
        return cells / np.timedelta64(1, "s")
    if cells.dtype.kind == "M":
        return cells.astype("M8[us]")
    # Booleans and durations with gaps are numbers, as they are without.
    return as_column(_texts_of([_plain(value) for value in cells.tolist()]))


def _plain(value: Any) -> Any:
    if isinstance(value, timedelta):
        return value.total_seconds()
    return float(value) if isinstance(value, bool) else value


def _truths_as_numbers(cells: Column) -> Column:
    """Texts that are all True, False or missing as 1, 0 and NaN; others as they are.

    Example:
        >>> _truths_as_numbers(np.array(["True", "", "FALSE"], dtype=object)).tolist()
        [1.0, nan, 0.0]
    """
    if cells.dtype.kind not in "OU":
        return cells
    texts = cells.tolist()
    kinds = set(texts) - {""}
    if not kinds or not kinds <= TRUTHS.keys():
        return cells
    return np.array([TRUTHS.get(text, np.nan) for text in texts])


def _as_texts(cells: Column) -> Column:
    """Cells as texts even if they are numbers, "" for missing, (n,)."""
    texts = [label_of(text) for text in _texts_of(cells.tolist())]
    return np.array(texts, dtype=object)


def _texts_of(values: Sequence[Any]) -> list[str]:
    texts = [str(value).strip() for value in values]
    # As libraries write what is missing.
    gaps = ("<NA>", "NaT", "nan", "None")
    return ["" if text in gaps else text for text in texts]


def as_column(cells: Sequence[str]) -> Column:
    """Cells as numbers, if all of them are, and as texts if not, (n,).

    Example:
        >>> as_column(["1", "NA"]).tolist()
        [1.0, nan]
        >>> as_column(["1.0", "red", "?"]).tolist()
        ['1', 'red', '']
    """
    unknown = frozenset({"", "na", "n/a", "nan", "null", "none", "?"})
    numbers = []
    for cell in cells:
        value = as_number(cell)
        if value is None and cell.lower() not in unknown:
            break
        numbers.append(np.nan if value is None else value)
    else:
        return np.array(numbers, dtype=float)
    texts = ["" if c.lower() in unknown else label_of(c) for c in cells]
    return np.array(texts, dtype=object)


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
