"""Rows of X as a user passes them, of which a column can be put to other values."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from kexpfam._typing import Array, Indices, Mask
from kexpfam.display.conditions import extrapolated
from kexpfam.errors import TableWarning
from kexpfam.tables import Table, TableError, as_table, is_frame
from kexpfam.tables.dates import days_of


@dataclass(frozen=True, eq=False)
class ConditionRows:
    """Rows of an array or of a frame, for a model that takes such.

    Attributes:
        model: Anything with `given(X)`.
        X: Conditions, (n, p): an array of numbers, or a frame with any columns.
        table: The same, column by column.

    Example:
        >>> import pandas as pd
        >>> X = pd.DataFrame({"size": [3.0, 1.0], "city": ["Rome", "Oslo"]})
        >>> rows = ConditionRows.of(None, X)
        >>> rows.categories(1), rows.positions(1)
        (('Oslo', 'Rome'), array([1., 0.]))
        >>> rows.frame(np.array([0]), 1, np.array([0.0])).to_dict("list")
        {'size': [3.0], 'city': ['Oslo']}
    """

    model: Any
    X: Any

    table: Table

    @classmethod
    def of(cls, model: Any, X: Any) -> Self:
        """Rows of X, with columns named as it names them, or x0, x1, ..."""
        if is_frame(X):
            table = as_table(X)
            if not len(table):
                raise ValueError("X must have rows, found 0 sample(s).")
            if getattr(model, "coder_", None) is not None:
                model.coder_.transform(table)  # tells what was not there at the fit
            return cls(model, X, table)
        values = np.asarray(X, dtype=float)
        if values.ndim != 2 or not values.size:
            raise ValueError(
                f"X must have rows and columns, shape (n, p), got shape {np.shape(X)}; "
                f"X.reshape(-1, 1) makes a column."
            )
        names = tuple(f"x{j}" for j in range(values.shape[1]))
        return cls(model, X, Table("X", names, tuple(values.T)))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return self.table.names

    def __len__(self) -> int:
        """How many rows there are."""
        return len(self.table)

    def is_date(self, column: int) -> bool:
        """Whether a column holds moments."""
        cells = self._cells(column)
        return cells.dtype.kind != "f" and days_of(cells) is not None

    def categories(self, column: int) -> tuple[str, ...]:
        """Its categories in their order, that of the model if it knows one."""
        if self._cells(column).dtype.kind == "f" or self.is_date(column):
            return ()
        name = self.names[column]
        coder = getattr(self.model, "coder_", None)
        if coder is not None:
            try:
                known: tuple[str, ...] = coder.coding_.feature(name).categories
            except TableError:
                known = ()
            if known:
                return known
        ordered = self.table.ordered.get(name)
        return ordered or tuple(sorted(set(self._cells(column).tolist()) - {""}))

    def positions(self, column: int) -> Array:
        """Numbers, days since 1970, or places among the categories, (n,)."""
        cells = self._cells(column)
        if cells.dtype.kind == "f":
            return cells
        if self.is_date(column):
            found = days_of(cells)
            assert found is not None
            return found
        place = {name: float(i) for i, name in enumerate(self.categories(column))}
        return np.array([place.get(cell, np.nan) for cell in cells.tolist()])

    def frame(
        self, rows: Indices, column: int | None = None, positions: Array | None = None
    ) -> Any:
        """Some rows as X is, with a column put to positions."""
        table = self.table[rows]
        columns = list(table.columns)
        if column is not None:
            assert positions is not None
            columns[column] = self._at(column, positions)
        if not is_frame(self.X):
            return np.column_stack(columns)
        if isinstance(self.X, Table):
            return replace(table, columns=tuple(columns))
        return type(self.X)(dict(zip(table.names, columns, strict=True)))

    def given(
        self, rows: Indices, column: int | None = None, positions: Array | None = None
    ) -> Any:
        """Densities at these.

        What was not there at the fit was told when the rows came.
        """
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TableWarning)
            return self.model.given(self.frame(rows, column, positions))

    def unlike(self, rows: Indices) -> Mask:
        """Which of some rows are unlike those of the fit, as far as is known, (m,)."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TableWarning)
            return extrapolated(self.model, self.frame(rows))

    def place(self, along: int | str) -> int:
        """Which column is meant by a name or a number."""
        p = len(self.names)
        if isinstance(along, str) and along in self.names:
            return self.names.index(along)
        if not isinstance(along, str) and -p <= along < p:
            return int(along) % p
        raise ValueError(
            f"along must be one of the columns {_listed(self.names)}, or a number from "
            f"0 to {p - 1}; got {along!r}."
        )

    def _cells(self, column: int) -> Any:
        return self.table.columns[column]

    def _at(self, column: int, positions: Array) -> Any:
        if self.is_date(column):
            microseconds = (positions * 86400e6).astype("timedelta64[us]")
            return np.datetime64("1970-01-01", "us") + microseconds
        categories = self.categories(column)
        if categories:
            return np.array(categories, dtype=object)[positions.astype(int)]
        return positions


def _listed(names: Sequence[str], most: int = 8) -> str:
    shown = ", ".join(map(repr, names[:most]))
    return shown + (", ..." if len(names) > most else "")
