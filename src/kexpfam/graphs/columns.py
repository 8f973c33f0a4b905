"""Columns of a joint density that are more than numbers, as numbers and back.

A joint density works on arrays of numbers: modelled columns as `kexpfam.data` has them,
days for moments. Conditions, exogenous columns, may be texts, categories and dates, and
have gaps: in the arrays a category is its place among those of the fit, and factors get
a table with the categories themselves, which they code as they code any table.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np

from kexpfam._typing import Array
from kexpfam._validation import as_numbers
from kexpfam.data import column_numbers
from kexpfam.tables import (
    Column,
    Table,
    TableError,
    as_moments,
    as_table,
    day_of_text,
    days_of,
    is_frame,
    places_of,
    table_of,
)


@dataclass(frozen=True)
class JointColumn:
    """What one column holds.

    Attributes:
        kind: "number", "date" or "category".
        categories: Of categories those of the fit, in their order if they have one.
        ordered: Whether they have one.
        gaps: Whether values were missing at the fit.
    """

    kind: str = "number"
    categories: tuple[str, ...] = ()
    ordered: bool = False
    gaps: bool = False

    @property
    def is_plain(self) -> bool:
        """Whether factors may take it as an array of numbers."""
        return self.kind == "number" and not self.gaps

    def values(self, numbers: Array) -> Column:
        """Cells of a table that numbers stand for, (n,)."""
        if self.kind == "date":
            return as_moments(numbers)
        if self.kind == "number":
            return numbers
        # A category that was not there at the fit has the place after all others.
        texts = np.array([*self.categories, "another value", ""], dtype=object)
        places = np.where(np.isnan(numbers), len(texts) - 1, numbers)
        return texts[np.clip(places, 0, len(texts) - 1).astype(int)]

    def numbers(self, table: Table, name: str) -> Array:
        """The cells of a table as numbers, NaN for gaps, (n,)."""
        if self.kind == "category":
            places = places_of(table.labels(name), self.categories).astype(float)
            return np.where(table.is_missing(name), np.nan, places)
        if self.kind == "number":
            return table.numbers(name)
        days = days_of(table.column(name))
        # Of numbers, they are days already.
        return table.numbers(name) if days is None else days


@dataclass(frozen=True)
class JointColumns:
    """All columns of a table of which some are more than numbers.

    Example:
        >>> table = {"a": [0.5, 1.0, 2.0], "city": ["Rome", None, "Oslo"]}
        >>> columns = JointColumns.learn(table, exogenous=[1])
        >>> columns.rows(table).tolist()
        [[0.5, 1.0], [1.0, nan], [2.0, 0.0]]
        >>> columns.cells(columns.rows(table))[0].tolist()
        [0.5, 'Rome']
    """

    names: tuple[str, ...]
    columns: tuple[JointColumn, ...]

    @classmethod
    def learn(
        cls, X: Any, exogenous: Sequence[int], who: str = "this"
    ) -> "JointColumns | None":
        """Look at a table; None if it is numbers, with all conditions there.

        Raises:
            TableError: A column that is not exogenous holds no numbers.
        """
        table = as_table(X) if is_frame(X) else table_of(X)
        found = []
        for place, name in enumerate(table.names):
            if place in exogenous:
                found.append(_condition(table, name))
                continue
            column_numbers(table, name, who)
            date = not table.is_number(name)
            found.append(JointColumn("date" if date else "number"))
        if all(column.is_plain for column in found):
            return None
        return cls(table.names, tuple(found))

    def rows(self, X: Any, places: Sequence[int] | None = None) -> Array:
        """Rows of a table as numbers, NaN for gaps, (n, d), of all or some columns.

        Columns of frames go by name, those of arrays are in their order.
        """
        wanted = range(len(self.names)) if places is None else places
        names = [self.names[place] for place in wanted]
        table = as_table(X) if is_frame(X) else _table_of(X, names)
        parts = [self.columns[p].numbers(table, self.names[p]) for p in wanted]
        return np.column_stack(parts)

    def cells(self, Y: Array) -> Any:
        """Rows (..., d) with texts and moments in the place of numbers."""
        if all(column.kind == "number" for column in self.columns):
            return Y
        found = Y.astype(object)
        for place, column in enumerate(self.columns):
            if column.kind != "number":
                flat = column.values(Y[..., place].ravel())
                found[..., place] = flat.reshape(Y.shape[:-1])
        return found

    def conditions(self, Y: Array, parents: Sequence[int]) -> Any:
        """What a factor gets of rows (n, d): a table, or an array of plain numbers."""
        if all(self.columns[place].is_plain for place in parents):
            return Y[:, parents]
        own = {self.names[place]: self.columns[place] for place in parents}
        cells = tuple(self.columns[p].values(Y[:, p]) for p in parents)
        grouped = {name for name, column in own.items() if column.kind == "category"}
        orders = {n: column.categories for n, column in own.items() if column.ordered}
        return Table(
            "X",
            tuple(own),
            cells,
            by_line=False,
            categorical=frozenset(grouped),
            ordered=orders,
        )

    def value(self, place: int, argument: str, value: Any) -> Array:
        """A value of a column, or several, that a user gives as evidence."""
        column, name = self.columns[place], self.names[place]
        if column.kind == "number":
            return as_numbers(argument, value)
        cells = np.asarray(value)
        if cells.dtype.kind in "biuf" and column.kind == "date":
            return as_numbers(argument, value)
        table = as_table({name: np.atleast_1d(cells)}, argument)
        if column.kind == "date":
            texts = table.labels(name).tolist()
            odd = [text for text in texts if day_of_text(text) is None]
            if odd:
                raise TableError(
                    f"{argument} must be a date such as 2024-01-31, got {odd[0]!r:.60}."
                )
        found = column.numbers(table, name)
        return found.reshape(cells.shape)

    def plain(self) -> dict[str, Any]:
        """The columns in numbers and texts, as files have them."""
        return {"table": [asdict(column) for column in self.columns]}

    @classmethod
    def of_plain(
        cls, plain: Mapping[str, Any], names: Sequence[Hashable]
    ) -> Self | None:
        """What `plain` described, in a mapping with other things; None if nothing."""
        if "table" not in plain:
            return None
        columns = []
        for written in plain["table"]:
            categories = tuple(map(str, written["categories"]))
            column = JointColumn(
                str(written["kind"]),
                categories,
                bool(written["ordered"]),
                bool(written["gaps"]),
            )
            if column.kind not in ("number", "date", "category"):
                raise ValueError(f"a column of kind {column.kind!r:.60} is not known")
            columns.append(column)
        if len(columns) != len(names):
            raise ValueError("the table has other columns")
        return cls(tuple(map(str, names)), tuple(columns))


def _condition(table: Table, name: str) -> JointColumn:
    gaps = bool(table.is_missing(name).any())
    order = table.ordered.get(name)
    if order is not None:
        return JointColumn("category", tuple(order), True, gaps)
    if name not in table.categorical:
        if table.is_number(name):
            return JointColumn("number", gaps=gaps)
        if days_of(table.column(name)) is not None:
            return JointColumn("date", gaps=gaps)
    kinds = set(table.labels(name)[~table.is_missing(name)].tolist())
    return JointColumn("category", tuple(sorted(kinds)), gaps=gaps)


def _table_of(X: Any, names: Sequence[str]) -> Table:
    X = np.asarray(X)
    if X.ndim != 2 or X.shape[1] != len(names):
        raise ValueError(
            f"X must have shape (n, {len(names)}), a column for each of "
            f"{', '.join(map(repr, names))}, got shape {X.shape}."
        )
    return table_of(X, names)
