"""Models with the coding of their tables, in one file.

The coding is what the command line has a model file keep as its `extra`.
"""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kexpfam.cli.coding import Coding, Feature, read_coding
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
        """Refuse models that cannot be asked for quantiles.

        Raises:
            TableError: It is a joint density, or of several columns of y.
        """
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
        """The coding, or what names or the number of columns say instead of it.

        Args:
            table: What is to be coded.
            target: Name of the response, if it is not known or another.

        Raises:
            TableError: There is no coding, and the columns do not match the model.
        """
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


def _plain(table: Table, name: str) -> Feature:
    values = table.numbers(name)
    ends = float(np.nanmin(values)), float(np.nanmax(values))
    return Feature(name, (), float(np.nanmedian(values)), *ends)


def save_table_model(path: str | Path, model: Any, coding: Coding) -> None:
    """Write a fitted model and its coding, all or nothing."""
    model.save(path, extra={_ENTRY: asdict(coding)})


def load_table_model(path: str | Path) -> TableModel:
    """Read a model, with its coding if it has one.

    Raises:
        FileNotFoundError: There is no such file.
        FileFormatError: It is not a model, or is damaged.
    """
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
