"""Columns that have a density, as numbers: what `KEF` and its like are fitted to.

Numbers and booleans are themselves, durations seconds, moments days since 1970. Texts
and categories have no density here, which is said with the column's name. Rows with a
gap are left out of a fit, as rows without y are, with their number.
"""

from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from kexpfam._typing import Array, Mask
from kexpfam._validation import check_weights, naming_cells, unmasked
from kexpfam.data.rows import Rows
from kexpfam.errors import TableWarning, warn_caller
from kexpfam.tables import Table, TableError, as_table, days_of, is_frame


def modelled_rows(estimator: Any, X: Any, sample_weight: Any = None) -> Rows:
    """Rows of a fit of p(y) in memory, as `Rows` without conditions.

    Example:
        >>> from sklearn.neighbors import KernelDensity
        >>> frame = {"a": [1, 2, 3], "day": ["1970-01-02", "1970-01-03", "1970-01-05"]}
        >>> modelled_rows(KernelDensity(), frame).Y.tolist()
        [[1.0, 1.0], [2.0, 2.0], [3.0, 4.0]]
    """
    Y = modelled_numbers(estimator, X)
    kept = complete_rows(Y)
    weights = check_weights(sample_weight, len(Y))
    return Rows(Y[kept, :0], Y[kept], weights[kept])


def complete_rows(Y: Array, columns: Any = slice(None), *, least: int = 2) -> Mask:
    """Which rows have all of some columns, (n,), and a warning of how many have not."""
    gaps: Mask = np.asarray(np.isnan(Y[:, columns]).any(axis=1))
    if gaps.any():
        if len(gaps) - gaps.sum() < least:
            raise ValueError(
                f"Input X contains NaN in {int(gaps.sum())} of {len(Y)} rows, and a "
                f"density needs {least} complete rows at least."
            )
        warn_caller(
            f"X has gaps in {int(gaps.sum())} of {len(Y)} rows, which were left out.",
            TableWarning,
        )
    return ~gaps


def modelled_numbers(estimator: Any, X: Any, *, first: bool = True) -> Array:
    """All columns as numbers, NaN for gaps, (n, d); frames go by the names of columns.

    The estimator gets number and names of the columns, or has them if these are not the
    first rows.
    """
    least = 2 if first else 1
    if is_frame(X) and not is_plain(X):
        table = as_table(X)
        names = _names_of(estimator, X, table, first)
        if len(table) < least:
            raise ValueError(
                f"Found array with {len(table)} sample(s) in X, while a minimum of "
                f"{least} is required."
            )
        who = type(estimator).__name__
        return np.column_stack([column_numbers(table, name, who) for name in names])
    X = unmasked(X) if first else by_name(estimator, unmasked(X))
    with naming_cells(X=X):
        Y: Array = validate_data(
            estimator,
            X,
            dtype=np.float64,
            ensure_min_samples=least,
            reset=first,
            ensure_all_finite="allow-nan",
        )
    return Y


def complete_numbers(estimator: Any, X: Any) -> Array:
    """Rows that a fitted density is asked about, all of them complete, (n, d)."""
    Y = modelled_numbers(estimator, X, first=False)
    gaps = np.isnan(Y).any(axis=1)
    if gaps.any():
        raise ValueError(
            f"Input X contains NaN in {int(gaps.sum())} of {len(Y)} rows, the first of "
            f"them row {int(np.argmax(gaps))}, and a density is one of complete rows; "
            f"leave these out."
        )
    return Y


def by_name(estimator: Any, X: Any) -> Any:
    """A frame with its columns in the order of the fit; anything else as it is."""
    names = getattr(estimator, "feature_names_in_", None)
    if names is None or not hasattr(X, "columns") or not is_frame(X):
        return X
    found = set(X.columns)
    return X[list(names)] if found == set(names) else X


def column_numbers(table: Table, name: str, who: str) -> Array:
    """A column of a table that has a density, NaN for gaps, (n,).

    Example:
        >>> column_numbers(as_table({"a": [True, None]}), "a", "KEF").tolist()
        [1.0, nan]
    """
    cells = table.column(name)
    if name not in table.categorical:
        if table.is_number(name):
            return table.numbers(name)
        days = days_of(cells)
        if days is not None:
            return days
        if table.is_mostly_numbers(name):
            return table.numbers(name)
    raise TableError(
        f"{table.path} has a column {name!r} that holds no numbers, and {who} is a "
        f"density of numbers; leave the column out, or make it a condition: "
        f"exogenous=[{name!r}] of a FactorizedDensity, or X of a KCEF."
    )


def response_numbers(y: Any) -> Any:
    """Responses of a frame or a series as numbers, NaN for gaps; others as they are.

    Booleans are zeros and ones, durations seconds, moments days since 1970.

    Example:
        >>> response_numbers(np.array(["1970-01-03", "1970-01-05"], "M8[D]"))
        array([2., 4.])
    """
    if is_frame(y):
        if is_plain(y):
            return y
        table = as_table(y, "y")
        return np.column_stack([_response(table, name) for name in table.names])
    y = unmasked(y)
    cells = np.asarray(y)
    if cells.ndim != 1 or cells.dtype.kind in "buifc":
        return y
    return _response(as_table({"y": y}, "y"), "y")


def observed_beside(X: Any, y: Any) -> Any:
    """Responses; names of columns of a frame X, one or several, stand for those.

    Example:
        >>> observed_beside({"x": [1.0, 2.0], "y": [3.0, 4.0]}, "y")
        array([3., 4.])
    """
    names = [y] if isinstance(y, str) else y
    if not isinstance(names, list | tuple) or not names:
        return y
    if not all(isinstance(name, str) for name in names):
        return y
    if not is_frame(X):
        raise ValueError(
            f"y={y!r} names a column, and X is no frame of pandas or Polars; pass "
            f"such a frame, or numbers."
        )
    table = as_table(X)
    found = [_response(table, name) for name in names]
    return found[0] if isinstance(y, str) else np.column_stack(found)


def _response(table: Table, name: str) -> Array:
    try:
        return column_numbers(table, name, "p(y|x)")
    except TableError as error:
        if table.is_mostly_numbers(name) and name not in table.categorical:
            raise
        known = table.labels(name)[~table.is_missing(name)]
        where = "" if name == "y" else f" in column {name!r}"
        raise TableError(
            f"y holds texts{where}, such as {str(known[0])!r:.40}, and p(y|x) is one "
            f"of numbers; give numbers, or take a classifier for categories."
        ) from error


def is_plain(X: Any) -> bool:
    """Whether all columns of a frame are arrays of numbers of NumPy."""
    if not hasattr(X, "columns") or isinstance(X, Table):
        return False
    kinds = [getattr(X[name], "dtype", None) for name in X.columns]
    return all(isinstance(k, np.dtype) and k.kind in "buif" for k in kinds)


def _names_of(estimator: Any, X: Any, table: Table, first: bool) -> tuple[str, ...]:
    """Names of the columns in the order of the fit, which the estimator gets or has."""
    if hasattr(X, "columns") and not isinstance(X, Table):
        validate_data(
            estimator,
            X if first else by_name(estimator, X),
            reset=first,
            skip_check_array=True,
        )
    elif first:
        estimator.n_features_in_ = len(table.names)
        estimator.feature_names_in_ = np.array(table.names, dtype=object)
    names = getattr(estimator, "feature_names_in_", None)
    return table.names if names is None else tuple(map(str, names))
