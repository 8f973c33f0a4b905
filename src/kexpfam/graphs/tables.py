"""Tables that joint densities are fitted to, and conditions that they are asked at."""

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import validate_data

from kexpfam._typing import Array, Mask
from kexpfam._validation import as_numbers
from kexpfam.data import complete_numbers, complete_rows, modelled_numbers
from kexpfam.errors import DegenerateDataError
from kexpfam.graphs.columns import JointColumns
from kexpfam.graphs.structure import Graph, exogenous_columns
from kexpfam.tables import is_frame


class JointTable(NamedTuple):
    """What a joint density is fitted to.

    Attributes:
        Y: Complete rows, (m, d); conditions may have gaps.
        names: Names of the columns, or positions.
        columns: What the columns are, if some are more than numbers.
        kept: Which rows of the user these are, (n,).
    """

    Y: Array
    names: list[Hashable]
    columns: JointColumns | None
    kept: Mask


def joint_table(estimator: Any, X: Any, exogenous: Any) -> JointTable:
    """What a user passes to `fit`; rows without all modelled columns are left out.

    The estimator gets number and names of the columns.
    """
    columns, outside = None, exogenous_columns(None, ())
    shown = X if is_frame(X) else np.asarray(X)
    if exogenous is not None and len(shown.shape) == 2:
        names = column_names(X, shown.shape[1])
        outside = exogenous_columns(exogenous, names)
        columns = JointColumns.learn(shown, outside, type(estimator).__name__)
    if columns is None:
        Y = modelled_numbers(estimator, X)
    else:
        validate_data(estimator, shown, skip_check_array=True)
        Y = columns.rows(X)
    names = column_names(X, Y.shape[1])
    modelled = [c for c in range(Y.shape[1]) if c not in outside]
    kept = complete_rows(Y, modelled)
    return JointTable(Y[kept], names, columns, kept)


def rows_asked(
    estimator: Any,
    X: Any,
    graph: Graph,
    columns: JointColumns | None,
    *,
    gaps: bool = False,
) -> Array:
    """Whole rows that a fitted density is asked about, (n, d); modelled gaps are NaN.

    Columns of frames go by name, whatever their order.
    """
    names = list(getattr(X, "columns", ()))
    if names and not set(graph.names) <= set(names):
        raise ValueError(
            f"X has columns {names!r:.200}, but the model was fitted to "
            f"{list(graph.names)!r:.200}; pass the same columns."
        )
    if names and names != list(graph.names):
        X = X[list(graph.names)]
    if columns is None:
        if gaps:
            return modelled_numbers(estimator, X, first=False)
        return complete_numbers(estimator, X)
    Y = columns.rows(X)
    open_gaps = [c for c in range(Y.shape[1]) if not columns.columns[c].gaps]
    if not gaps:
        _refuse_gaps(Y, open_gaps, graph.names)
    return Y


def _refuse_gaps(Y: Array, columns: Sequence[int], names: Sequence[Hashable]) -> None:
    gaps = np.isnan(Y[:, columns])
    if gaps.any():
        row, place = np.argwhere(gaps)[0]
        raise ValueError(
            f"X has no value of column {names[columns[place]]!r} in row {row}, which "
            f"had no gaps at the fit; leave such rows out, or fill them in (impute "
            f"does so for modelled columns)."
        )


def column_names(X: Any, columns: int) -> list[Hashable]:
    """Names of the columns of a data frame, whatever they are; else positions."""
    found = getattr(X, "columns", None)
    return list(range(columns)) if found is None else list(found)


def refuse_constants(Y: Array, graph: Graph) -> None:
    """Name the first modelled column that has one value only."""
    for node in graph.nodes:
        for c in node.columns:
            if np.ptp(Y[:, c]) == 0:
                raise DegenerateDataError(
                    f"X is constant in column {graph.names[c]!r} (all {len(Y)} values "
                    f"are {Y[0, c]:g}), so it has no density; leave it out, or name it "
                    f"in exogenous."
                )


def exogenous_rows(X: Any, graph: Graph, columns: JointColumns | None) -> Array:
    """Whole rows, (n, d), with the exogenous columns of X, and NaN elsewhere.

    X has the exogenous columns in the order of the table, or, as a data frame, under
    their names; other columns of a frame are not looked at.
    """
    names = [graph.names[c] for c in graph.exogenous]
    if not names:
        raise ValueError(
            "given(X) needs exogenous columns, the conditions, and this model has "
            "none: fit takes one table of all columns; name the conditions among them "
            "in exogenous, or use conditional(given, ...)."
        )
    if hasattr(X, "columns"):
        missing = [name for name in names if name not in list(X.columns)]
        if missing:
            raise ValueError(
                f"X has no column {missing[0]!r}, which is exogenous; its columns are "
                f"{list(X.columns)!r:.200}."
            )
        X = X[names]
    rows_of = columns.rows if columns is not None else None
    values = as_numbers("X", X) if rows_of is None else rows_of(X, graph.exogenous)
    if values.ndim != 2 or values.shape[1] != len(names):
        raise ValueError(
            f"X must have shape (n, {len(names)}), a column for each that is exogenous "
            f"({', '.join(map(repr, names))}), got shape {values.shape}."
        )
    with_gaps = [
        columns is not None and columns.columns[c].gaps for c in graph.exogenous
    ]
    wrong = ~np.isfinite(values) & ~(np.isnan(values) & with_gaps)
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        raise ValueError(
            f"X must be finite, got {values[row, column]} in column {names[column]!r}, "
            f"row {row}."
        )
    rows = np.full((len(values), len(graph.names)), np.nan)
    rows[:, graph.exogenous] = values
    return rows
