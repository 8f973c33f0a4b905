"""From a table to a fitted model: which columns, which rows, which estimator."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import click
import numpy as np

from kexpfam import KCEF, AutoKCEF, FactorizedDensity
from kexpfam._typing import Array
from kexpfam.cli.coding import Coding, Missing, learn_coding
from kexpfam.cli.guard import is_watched, note, stopping_at_once
from kexpfam.cli.tables import Table, TableError

# Fewer rows than this tell nothing about a density.
FEWEST_ROWS = 5

# A target with so few different values, all of them whole, in so many rows is a count
# or a grade. A guess, for a note only.
_FEW_VALUES = 10
_MANY_ROWS = 30


@dataclass(frozen=True, eq=False)
class TrainingTable:
    """The rows of a fit.

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


def training_table(
    table: Table,
    *,
    target: str | None,
    features: Sequence[str] = (),
    categorical: Sequence[str] = (),
    weights: str | None = None,
    missing: str | None = None,
) -> TrainingTable:
    """Choose columns and rows of a table for a fit.

    Args:
        table: The file.
        target: Name of the response; None for a joint density.
        features: Names of the conditions, or lists of them separated by commas.
        categorical: Columns of categories.
        weights: Name of the column of weights.
        missing: "drop" or "impute"; None to refuse missing values. Rows without a
            target teach nothing, and are left out in any case.

    Raises:
        TableError: It names the line and the column.
    """
    policy: Missing = "error" if missing is None else _policy(missing)
    taken = [name for name in (target, weights) if name is not None]
    names = _feature_names(table, features, taken, joint=target is None)
    numbers = {name: table.numbers(name) for name in taken}
    coding = learn_coding(table, names, target, categorical=categorical, missing=policy)
    _refuse_joint_categories(table, coding)
    unknown = np.zeros(len(table), dtype=bool)
    if target is not None:
        unknown = np.isnan(numbers[target])
    beside = [] if weights is None else [weights]
    coded = coding.matrix(table, also=unknown, beside=beside)
    without_target = int(unknown.sum())
    left_out = len(table) - len(coded.rows)
    if len(coded.rows) < FEWEST_ROWS:
        gaps = policy == "drop" and left_out > without_target
        raise TableError(
            f"{table.path} has {len(coded.rows)} complete rows, and a density needs "
            f"{FEWEST_ROWS} at least"
            f"{'; --missing impute keeps rows with gaps' if gaps else ''}."
        )
    chosen = {name: values[coded.rows] for name, values in numbers.items()}
    if target is not None and np.ptp(chosen[target]) == 0:
        raise TableError(
            f"{table.path}, column {target!r}: all values are {chosen[target][0]:g}, "
            f"and a constant has no density."
        )
    return TrainingTable(
        coding,
        coded.X,
        None if target is None else chosen[target],
        None if weights is None else _checked(chosen[weights], table, weights),
        left_out,
        without_target,
    )


def _feature_names(
    table: Table, features: Sequence[str], taken: Sequence[str], *, joint: bool
) -> list[str]:
    """Columns that are conditions, or all of a joint density."""
    for name in taken:
        table.column(name)
    names = _split(features, table)
    for name in taken:
        if name in names:
            raise TableError(f"{name!r} cannot be a feature too.")
    if not names:
        names = [name for name in table.names if name not in taken]
        if joint:
            names = [name for name in names if table.is_mostly_numbers(name)]
    if not names:
        raise TableError(
            f"{table.path} has no columns beside {', '.join(map(repr, taken))}, and a "
            f"model needs one feature at least."
            if taken
            else f"{table.path} has no columns of numbers."
        )
    return names


def _refuse_joint_categories(table: Table, coding: Coding) -> None:
    groups = [feature.name for feature in coding.features if feature.categories]
    if coding.target is None and groups:
        raise TableError(
            f"{table.path}, column {groups[0]!r} holds categories, which have no joint "
            f"density; leave it out of --features."
        )


def new_model(kind: str, seed: int, *, joint: bool = False) -> Any:
    """The estimator that a name stands for, not fitted.

    Args:
        kind: "auto" or "kcef".
        seed: Of its folds.
        joint: Whether it is for all columns together.
    """
    if kind == "kcef":
        single: Any = KCEF(random_state=seed, verbose=is_watched())
    else:
        single = AutoKCEF(random_state=seed, verbose=is_watched())
    return FactorizedDensity(factor=single, random_state=seed) if joint else single


def fitted(model: Any, rows: TrainingTable) -> Any:
    """The model, fitted; Ctrl-C ends the program and not only its search."""
    with stopping_at_once():
        if rows.y is None:
            model.fit(rows.X, sample_weight=rows.weights)
        else:
            model.fit(rows.X, rows.y, sample_weight=rows.weights)
    # Whether someone watched is not part of the model.
    for part in [model, *getattr(model, "factors_", {}).values()]:
        if hasattr(part, "verbose"):
            part.set_params(verbose=False)
    return model


def require_target(target: str | None) -> None:
    """Complain about wrong usage, as click does, if there is no target."""
    if target is None:
        raise click.UsageError("Missing option '--target': which column to explain?")


def tell_of_rows_left_out(rows: TrainingTable) -> None:
    """A note, if there are any."""
    note_rows_left_out(rows.left_out, rows.without_target)


def note_rows_left_out(left_out: int, without_target: int) -> None:
    """Say how many rows are not used, and why."""
    if without_target:
        note(f"{without_target} rows without a target were left out.")
    if left_out > without_target:
        note(f"{left_out - without_target} rows with missing values were left out.")


def tell_of_few_values(rows: TrainingTable) -> None:
    """A note, if the target seems to be a count or a grade."""
    if rows.y is None or len(rows.y) < _MANY_ROWS:
        return
    values = np.unique(rows.y)
    if len(values) <= _FEW_VALUES and np.all(values == np.round(values)):
        note(
            f"{rows.coding.target} looks discrete, with {len(values)} different values "
            f"that are whole numbers; the density has bumps on these values, and says "
            f"little about what lies between them."
        )


def _policy(missing: str) -> Missing:
    return "drop" if missing == "drop" else "impute"


def _split(features: Sequence[str], table: Table) -> list[str]:
    """Names from "A,B", unless a column is called that."""
    names: list[str] = []
    for text in features:
        parts = [text] if text in table.names else [t.strip() for t in text.split(",")]
        for name in parts:
            table.column(name)
            if name not in names:
                names.append(name)
    return names


def _checked(weights: Array, table: Table, name: str) -> Array:
    if np.any(weights < 0) or not np.any(weights > 0):
        raise TableError(
            f"{table.path}, column {name!r}: weights must not be negative, nor all "
            f"zero, got {weights.min():g} to {weights.max():g}."
        )
    return weights
