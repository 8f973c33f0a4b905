"""Models with the coding of their tables, and rows that they are judged by.

The coding is what the command line has a model file keep as its `extra`.
"""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kexpfam._typing import Array
from kexpfam.cli.coding import Coding, Feature, read_coding
from kexpfam.cli.shared import note
from kexpfam.cli.tables import Table, TableError, listed
from kexpfam.errors import FileFormatError
from kexpfam.io import load

_ENTRY = "table"


@dataclass(frozen=True, eq=False)
class TableModel:
    """A fitted model, and how it sees tables.

    Attributes:
        model: The estimator.
        coding: What it was fitted with; None if it was saved without.
        path: The file, for messages.
    """

    model: Any
    coding: Coding | None
    path: str

    @property
    def is_joint(self) -> bool:
        """Whether it is a density of all columns, without a response."""
        return not hasattr(self.model, "given")

    def require_one_target(self) -> None:
        """Refuse models that cannot be asked for quantiles."""
        if self.is_joint:
            raise TableError(
                f"{self.path} is a joint density, without a target; it can be sampled "
                f"and evaluated."
            )
        columns = getattr(self.model, "_response_columns", 1)
        if columns > 1:
            raise TableError(
                f"{self.path} has {columns} targets, and commands are for one; use it "
                f"in Python, with kexpfam.load."
            )

    def coding_for(self, table: Table, target: str | None = None) -> Coding:
        """The coding, or what names or the number of columns say instead of it."""
        if self.coding is not None:
            known = self.coding.target
            return Coding(self.coding.features, target or known, self.coding.missing)
        names = [str(name) for name in getattr(self.model, "feature_names_in_", [])]
        if not names:
            names = [name for name in table.names if name != target]
        count = self.model.n_features_in_
        if len(names) != count:
            raise TableError(
                f"{self.path} was saved without names and has {count} features, while "
                f"{table.path} has {len(names)} columns that may be meant: "
                f"{listed(names)}; remove the others."
            )
        return Coding(tuple(_plain(table, name) for name in names), target)

    def names(self) -> list[str]:
        """Names of the columns of X, numbered where nobody knows them."""
        if self.coding is not None:
            return self.coding.columns
        plain = [f"column_{i + 1}" for i in range(self.model.n_features_in_)]
        return [str(n) for n in getattr(self.model, "feature_names_in_", plain)]


def _plain(table: Table, name: str) -> Feature:
    values = table.numbers(name)
    ends = float(np.nanmin(values)), float(np.nanmax(values))
    return Feature(name, (), float(np.nanmedian(values)), *ends)


def save_table_model(path: str | Path, model: Any, coding: Coding) -> None:
    """Write a fitted model and its coding, all or nothing."""
    model.save(path, extra={_ENTRY: asdict(coding)})


def load_table_model(path: str | Path) -> TableModel:
    """Read a model, with its coding if it has one."""
    if not Path(path).exists():
        raise FileNotFoundError(f"There is no file {str(path)!r}.")
    model = load(path)
    extra = model.extra_ or {}
    if _ENTRY not in extra:
        return TableModel(model, None, str(path))
    coding = read_coding(extra[_ENTRY], str(path))
    if len(coding.columns) != model.n_features_in_:
        raise FileFormatError(
            f"{str(path)!r} describes a table with {len(coding.columns)} columns, and "
            f"its model has {model.n_features_in_}."
        )
    return TableModel(model, coding, str(path))


@dataclass(frozen=True, eq=False)
class TableRows:
    """The complete rows of a table, with what was observed.

    Attributes:
        coding: How the table becomes numbers.
        X: Conditions, (n, p); all columns of a joint density.
        y: Responses, (n,); None for a joint density.
        weights: Weight of each row, (n,), or None.
        left_out: Rows of the table that are not used.
        without_target: How many of these have no target.
    """

    coding: Coding
    X: Array
    y: Array | None
    weights: Array | None
    left_out: int
    without_target: int = 0

    def tell_of_rows_left_out(self) -> None:
        """A note on how many there are, and why."""
        if self.without_target:
            note(f"{self.without_target} rows without a target were left out.")
        if self.left_out > self.without_target:
            gaps = self.left_out - self.without_target
            note(f"{gaps} rows with missing values were left out.")


def table_rows(
    coding: Coding, table: Table, weights: str | None = None, **how: Any
) -> TableRows:
    """The rows of a table that have a target, and all else that `how` asks for."""
    taken = [name for name in (coding.target, weights) if name is not None]
    numbers = {name: table.numbers(name) for name in taken}
    unknown = np.zeros(len(table), dtype=bool)
    if coding.target is not None:
        unknown = np.isnan(numbers[coding.target])
    beside = [] if weights is None else [weights]
    coded = coding.matrix(table, also=unknown, beside=beside, **how)
    chosen: dict[str | None, Array] = {k: v[coded.rows] for k, v in numbers.items()}
    return TableRows(
        coding,
        coded.X,
        chosen.get(coding.target),
        chosen.get(weights),
        len(table) - len(coded.rows),
        int(unknown.sum()),
    )


def held_out_rows(
    found: TableModel,
    table: Table,
    target: str | None = None,
    weights: str | None = None,
    **how: Any,
) -> TableRows:
    """Take the rows of a table that a model can be judged by.

    Args:
        found: The model.
        table: The file.
        target: Name of the response; None for that of the model.
        weights: Name of the column of weights.
        **how: As in `Coding.matrix`; rows without a target are left out anyway.
    """
    coding = found.coding_for(table, target)
    if coding.target is None:
        raise TableError(
            f"{found.path} was saved without the name of its target; say --target."
        )
    rows = table_rows(coding, table, weights, **how)
    if not len(rows.X):
        raise TableError(f"{table.path} has no complete row.")
    rows.tell_of_rows_left_out()
    return rows
