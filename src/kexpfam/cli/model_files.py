"""Models with the coding of their tables, and rows that they are evaluated on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
import numpy as np

from kexpfam._typing import Array
from kexpfam.cli.readers import Wanted
from kexpfam.cli.shared import counted, note
from kexpfam.data import Source
from kexpfam.estimators.base import ConditionalEstimator
from kexpfam.io import load
from kexpfam.tables import Coding, Table, TableError, number_feature, tell_of_leaks
from kexpfam.tables.columns import listed


@dataclass(frozen=True, eq=False)
class TableModel:
    """A fitted model, and how it sees tables."""

    model: Any  # of coded rows
    coder: Coding | None  # what it was fitted with; None if it was saved without
    path: str  # the file, for messages

    @property
    def is_joint(self) -> bool:
        """Whether it is a density of all columns, without a response."""
        return not hasattr(self.model, "predict")

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

    def coder_for(self, table: Table, target: str | None = None) -> Coding:
        """The coder, or what names or the number of columns say instead of it."""
        if self.coder is not None:
            return replace(self.coder, target=target or self.coder.target)
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
        features = tuple(number_feature(table, name) for name in names)
        plain = tuple(replace(feature, gaps=False) for feature in features)
        return Coding(plain, target, "error", tuple(names))

    def wanted(self, *beside: str | None) -> Wanted | None:
        """Columns of a file that the model looks at, and some beside; None for all."""
        if self.coder is None:
            return None
        own = {*(feature.name for feature in self.coder.features), *beside}
        own.add(self.coder.target)
        return lambda names: [name for name in names if name in own]

    def names(self, plain: str = "column_") -> list[str]:
        """Names of the columns of X, numbered where nobody knows them."""
        if self.coder is not None:
            return self.coder.columns
        numbered = [f"{plain}{i + 1}" for i in range(self.model.n_features_in_)]
        return [str(n) for n in getattr(self.model, "feature_names_in_", numbered)]


def load_table_model(path: str | Path) -> TableModel:
    """Read a model, with its coder if it has one."""
    if not Path(path).exists():
        raise FileNotFoundError(f"There is no file {str(path)!r}.")
    model: Any = load(path)
    coder = getattr(model, "coder_", None)
    if isinstance(model, ConditionalEstimator) and coder is not None:
        return TableModel(model._of_coded_rows(), coder.coding_, str(path))
    coding = Coding.of_extra(model.extra_ or {}, str(path), model.n_features_in_)
    return TableModel(model, coding, str(path))


@dataclass(frozen=True, eq=False)
class TableRows:
    """The complete rows of a table, with what was observed."""

    coder: Coding
    X: Array  # conditions, (n, p); all columns of a joint density
    y: Array | None  # responses, (n,); None for a joint density
    weights: Array | None  # of each row, (n,)
    left_out: int  # rows of the table that are not used
    without_target: int = 0  # how many of these have no target
    table: Table | None = None  # these rows, before they were coded
    blocks: Source | None = None  # all rows, if these are a sample of them

    @property
    def n(self) -> int:
        """How many rows there are, of a sample those that it was drawn from."""
        known = None if self.blocks is None else self.blocks.n_rows
        return len(self.X) if known is None else known

    def tell(self) -> None:
        """Notes on columns that were left out or tell the target, and on rows."""
        for text in self.coder.notes:
            note(text)
        if self.table is not None and self.y is not None:
            tell_of_leaks(self.coder, self.table, self.y)
        self.tell_of_rows_left_out()

    def tell_of_rows_left_out(self) -> None:
        """A note on how many there are, and why."""
        if self.without_target:
            note(f"{_left_out(self.without_target)} without a target.")
        if self.left_out > self.without_target:
            gaps = self.left_out - self.without_target
            note(f"{_left_out(gaps)} with missing values.")


def _left_out(n: int) -> str:
    return f"left out {counted(n, 'row')}"


def table_rows(
    coder: Coding, table: Table, weights: str | None = None, **gaps: Any
) -> TableRows:
    """The rows of a table that have a target, and all else that `gaps` asks for."""
    target = coder.target
    y = None if target is None else table.numbers(target)
    w = None if weights is None else table.numbers(weights)
    unknown = np.zeros(len(table), dtype=bool) if y is None else np.isnan(y)
    beside = [] if weights is None else [weights]
    coded = coder.transform(table, also=unknown, beside=beside, **gaps)
    return TableRows(
        coder,
        coded.X,
        None if y is None else y[coded.rows],
        None if w is None else w[coded.rows],
        len(table) - len(coded.rows),
        int(unknown.sum()),
    )


def held_out_rows(
    found: TableModel,
    table: Table,
    target: str | None = None,
    weights: str | None = None,
    **gaps: Any,
) -> TableRows:
    """Rows of a table that a model can be evaluated on; a note tells of the others."""
    coder = found.coder_for(table, target)
    if coder.target is None:
        raise TableError(
            f"{found.path} was saved without the name of its target; say --target."
        )
    rows = table_rows(coder, table, weights, **gaps)
    if not len(rows.X):
        raise TableError(f"{table.path} has no complete row.")
    rows.tell_of_rows_left_out()
    return rows


def numbered_rows(
    coder: Coding, table: Table | None, numbers: Sequence[int], gaps: Mapping[str, Any]
) -> Array:
    """Conditions of rows that are counted from 1, (k, p)."""
    if table is None:
        raise click.UsageError("--row needs DATA, whose rows are counted.")
    coded = coder.transform(table, **gaps)
    for number in numbers:
        if number - 1 not in coded.rows:
            raise TableError(
                f"--row {number}: {table.path} has {counted(len(table), 'row')}, "
                f"{len(coded.rows)} of them complete."
            )
    return coded.X[np.searchsorted(coded.rows, np.array(numbers) - 1)]
