"""Tables that joint densities are fitted to, and conditions that they are asked at."""

from collections.abc import Hashable
from typing import Any

import numpy as np

from kexpfam._typing import Array
from kexpfam._validation import as_numbers
from kexpfam.errors import DegenerateDataError
from kexpfam.graphs.structure import Graph


def column_names(X: Any, columns: int) -> list[Hashable]:
    """Names of the columns of a data frame, whatever they are; else positions."""
    found = getattr(X, "columns", None)
    return list(range(columns)) if found is None else list(found)


def refuse_what_is_not_finite(Y: Array, names: list[Hashable]) -> None:
    """Name the first entry that is NaN or infinite."""
    for what, wrong in (("NaN", np.isnan(Y)), ("inf", np.isinf(Y))):
        if wrong.any():
            row, column = np.argwhere(wrong)[0]
            raise ValueError(
                f"X has {what} in column {names[column]!r}, row {row}; fit takes "
                f"complete rows, so leave such rows out (impute fills in NaN of other "
                f"rows afterwards)."
            )


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


def exogenous_rows(X: Any, graph: Graph) -> Array:
    """Whole rows, (n, d), with the exogenous columns of X, and NaN elsewhere.

    X has the exogenous columns in the order of the table, or, as a data frame, under
    their names; other columns of a frame are not looked at.
    """
    names = [graph.names[c] for c in graph.exogenous]
    if not names:
        raise ValueError(
            "given(X) needs exogenous columns, the conditions, and this model has "
            "none; name them in exogenous, or use conditional(given, ...)."
        )
    if hasattr(X, "columns"):
        missing = [name for name in names if name not in list(X.columns)]
        if missing:
            raise ValueError(
                f"X has no column {missing[0]!r}, which is exogenous; its columns are "
                f"{list(X.columns)!r:.200}."
            )
        X = np.column_stack([np.asarray(X[name]) for name in names])
    values = as_numbers("X", X)
    if values.ndim != 2 or values.shape[1] != len(names):
        raise ValueError(
            f"X must have shape (n, {len(names)}), a column for each that is exogenous "
            f"({', '.join(map(repr, names))}), got shape {values.shape}."
        )
    if not np.all(np.isfinite(values)):
        row, column = np.argwhere(~np.isfinite(values))[0]
        raise ValueError(
            f"X must be finite, got {values[row, column]} in column {names[column]!r}, "
            f"row {row}."
        )
    rows = np.full((len(values), len(graph.names)), np.nan)
    rows[:, graph.exogenous] = values
    return rows
