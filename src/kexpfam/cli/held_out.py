"""Rows of a table with the response that a model is about."""

from dataclasses import dataclass

import numpy as np

from kexpfam._typing import Array, Indices
from kexpfam.cli.coding import Missing, Unknown
from kexpfam.cli.fitting import note_rows_left_out
from kexpfam.cli.model_files import TableModel
from kexpfam.cli.tables import Table, TableError


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Complete rows.

    Attributes:
        X: Conditions, (n, p).
        y: Responses, (n,).
        weights: Weight of each row, (n,), or None.
        rows: Which rows of the table these are, (n,).
        target: Name of the response.
    """

    X: Array
    y: Array
    weights: Array | None
    rows: Indices
    target: str


def held_out_rows(
    found: TableModel,
    table: Table,
    target: str | None = None,
    weights: str | None = None,
    missing: Missing | None = None,
    unknown: Unknown = "error",
) -> HeldOut:
    """Take the rows of a table that a model can be judged by.

    Args:
        found: The model.
        table: The file.
        target: Name of the response; None for that of the model.
        weights: Name of the column of weights.
        missing: As in `Coding.matrix`; rows without a target are left out anyway.
        unknown: As in `Coding.matrix`.

    Raises:
        TableError: It names the line and the column.
    """
    coding = found.coding_for(table, target)
    if coding.target is None:
        raise TableError(
            f"{found.path} was saved without the name of its target; say --target."
        )
    names = [coding.target, *([] if weights is None else [weights])]
    values = {name: table.numbers(name) for name in names}
    out = np.isnan(values[coding.target])
    coded = coding.matrix(
        table, missing=missing, unknown=unknown, also=out, beside=names[1:]
    )
    if not len(coded.rows):
        raise TableError(f"{table.path} has no complete row.")
    note_rows_left_out(len(table) - len(coded.rows), int(out.sum()))
    chosen = {name: column[coded.rows] for name, column in values.items()}
    return HeldOut(
        coded.X,
        chosen[coding.target],
        None if weights is None else chosen[weights],
        coded.rows,
        coding.target,
    )
