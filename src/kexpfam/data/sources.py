"""The one way in: from what a user passes to `fit` to rows in memory, or a source.

Arrays and data frames in memory become `Rows`; what of X is no number, or missing, goes
through a `TableCoder` that the estimator keeps. What is read block by block becomes a
`Source`: memmaps, Parquet files, lazy Polars frames and Dask collections.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_array, check_X_y, validate_data

from kexpfam._parallel import thread_count
from kexpfam._typing import Array
from kexpfam._validation import check_weights, naming_cells, unmasked
from kexpfam.data.arrays import ArraySource
from kexpfam.data.dask import DaskSource, is_dask_array, is_dask_frame
from kexpfam.data.memory import DEFAULT_BUDGET, block_rows
from kexpfam.data.modelled import (
    is_plain,
    modelled_rows,
    observed_beside,
    response_numbers,
)
from kexpfam.data.rows import Rows, Source, UnconditionalSource
from kexpfam.data.tables import ParquetSource, PolarsSource, is_lazy_frame, is_parquet
from kexpfam.errors import TableWarning, warn_caller
from kexpfam.tables import (
    Coding,
    Table,
    TableCoder,
    Told,
    as_table,
    is_frame,
    name_of,
    response_name,
    table_of,
    tell_of_leaks,
)


def training_data(
    estimator: Any,
    X: Any,
    y: Any,
    sample_weight: Any = None,
    *,
    conditional: bool = True,
    memory_budget: int = DEFAULT_BUDGET,
    n_jobs: int | None = None,
) -> Rows | Source:
    """What a user passes to `fit`, checked if it is in memory.

    The estimator gets number and names of the columns of X, as scikit-learn has them;
    those of a source by `note_columns`, when its rows have been read. X is as in
    `as_source`, or an array or data frame, of which y and sample_weight may be names of
    columns. All else is as in `as_source`.

    Example:
        >>> from sklearn.dummy import DummyRegressor
        >>> rows = training_data(DummyRegressor(), [[1.0], [2.0]], [3.0, 4.0])
        >>> rows.Y.shape
        (2, 1)
    """
    estimator.__dict__.pop("_response_name", None)
    named = response_name(y)
    if conditional and _are_plain([X, y], estimator):
        _forget_coder(estimator)
        if named is not None:  # a coding would know it
            estimator._response_name = named
        return rows_in_memory(estimator, X, y, sample_weight)
    X, y, sample_weight = taken_out(X, y, sample_weight)
    source = as_source(
        X,
        y,
        sample_weight,
        conditional=conditional,
        memory_budget=memory_budget,
        n_jobs=n_jobs,
    )
    if source is not None:
        _forget_coder(estimator)
        return source
    if not conditional:
        return modelled_rows(estimator, X, sample_weight)
    rows = coded_rows(estimator, X, y, sample_weight, memory_budget=memory_budget)
    if named is not None and getattr(estimator, "coder_", None) is None:
        estimator._response_name = named
    return rows


def conditional_rows(estimator: Any, X: Any, y: Any, sample_weight: Any = None) -> Rows:
    """The same for estimators of p(y|x) that take rows in memory only."""
    return coded_rows(estimator, *taken_out(X, y, sample_weight))


def _are_plain(arrays: list[Any], estimator: Any) -> bool:
    """Whether arrays are numbers without gaps: nothing to read, to code or to fill."""
    return not getattr(estimator, "ordered", None) and all(
        type(a) is np.ndarray and a.dtype.kind in "fiu" and not np.isnan(a).any()
        for a in arrays
    )


def note_columns(estimator: Any, data: Rows | Source) -> None:
    """Tell a fitted estimator number and names of the columns of a source.

    Not before: a fit that fails must leave the estimator as it was.
    """
    if isinstance(data, Rows):
        return  # told when they were checked
    seen = data.rows if isinstance(data, UnconditionalSource) else data
    estimator.n_features_in_ = seen.n_features
    estimator.__dict__.pop("feature_names_in_", None)
    if seen.feature_names is not None:
        estimator.feature_names_in_ = np.array(seen.feature_names, dtype=object)


def rows_in_memory(
    estimator: Any,
    X: Any,
    y: Any,
    sample_weight: Any = None,
    *,
    first: bool = True,
    least: int = 2,
) -> Rows:
    """The same for arrays and frames of numbers with a y: at least so many rows.

    If they are not the first rows, columns must be as before.
    """
    how = {"dtype": np.float64, "ensure_min_samples": least, "reset": first}
    with naming_cells(X=X, y=y):
        X, Y = validate_data(estimator, X, y, multi_output=True, y_numeric=True, **how)
    Y = np.asarray(Y, dtype=np.float64)
    Y = Y[:, None] if Y.ndim == 1 else Y
    return Rows(X, Y, check_weights(sample_weight, len(Y)))


def coded_rows(
    estimator: Any,
    X: Any,
    y: Any,
    sample_weight: Any = None,
    *,
    first: bool = True,
    least: int = 2,
    memory_budget: int = DEFAULT_BUDGET,
) -> Rows:
    """The same for tables of any kind, of which rows without y are left out.

    The estimator gets `coder_`, which is None if X is numbers without gaps; if these
    are not the first rows, they go through the one that it has.
    """
    X, named = as_dense(X, memory_budget), y
    y = response_numbers(observed_beside(X, y) if isinstance(y, str) else y)
    X, y, sample_weight = _with_responses(X, y, sample_weight)
    if not first:
        X = conditions(estimator, X)
        with naming_cells(X=X, y=y):
            X, Y = check_X_y(X, y, dtype=np.float64, multi_output=True, y_numeric=True)
        Y = np.asarray(Y, dtype=np.float64).reshape(len(X), -1)
        return Rows(X, Y, check_weights(sample_weight, len(X)))
    told = Told((), getattr(estimator, "ordered", None))
    how: dict[str, Any]
    if is_frame(X):
        table = as_table(X)
    else:
        how = {"dtype": np.float64, "ensure_all_finite": "allow-nan"}
        how["ensure_min_samples"] = least
        with naming_cells(X=X):
            checked = validate_data(estimator, X, **how) if y is not None else X
        if y is None or not (np.isnan(checked).any() or told.ordered):
            _forget_coder(estimator)
            return rows_in_memory(estimator, X, y, sample_weight, least=least)
        table = table_of(checked)
    Y = _responses(y, len(table))
    if len(table) < least:
        raise ValueError(
            f"Found {len(table)} sample(s) in X, and {least} are required at least."
        )
    weights = check_weights(sample_weight, len(Y))
    target = name_of(named, table)
    how = {"Y": Y, "weights": weights, "told": told, "named": is_frame(X)}
    coding = Coding.learn(table, table.names, target, **how)
    for note in coding.notes:
        warn_caller(note, TableWarning)
    if Y.shape[1] == 1:
        tell_of_leaks(coding, table, Y[:, 0])
    # Texts True and False are numbers to a coding, as durations are, not to NumPy.
    numbers = all(column.dtype.kind == "f" for column in table.columns)
    plain = coding.is_plain and numbers and not _durations(X)
    if plain and not isinstance(X, Table | Mapping):
        _forget_coder(estimator)
        return rows_in_memory(estimator, X, y, sample_weight, least=least)
    adopt(estimator, TableCoder.of_coding(coding))
    return Rows(coding.training(table, Y, weights), Y, weights)


def _durations(X: Any) -> bool:
    """Whether a frame has durations: seconds to a coding, and not to NumPy."""
    types = " ".join(str(kind) for kind in getattr(X, "dtypes", ()))
    return "timedelta" in types or "Duration" in types


def _forget_coder(estimator: Any) -> None:
    """Let an estimator take numbers, as its class does."""
    estimator.__dict__.pop("coder_", None)


def adopt(estimator: Any, coder: TableCoder) -> None:
    """Let an estimator of coded rows take the tables that a coder codes."""
    estimator.coder_ = coder
    estimator.n_features_in_ = coder.n_features_in_
    estimator.__dict__.pop("feature_names_in_", None)
    if coder.coding_.named:
        estimator.feature_names_in_ = coder.feature_names_in_


def conditions(
    estimator: Any, X: Any, least: int = 1, *, marked: bool = False
) -> Array:
    """Rows of X as a fitted estimator sees them, (n, p), checked: so many at least.

    Columns of a frame go by their names. A gap where the fit had none is filled in with
    the median, with a warning; or it is NaN, and a new category infinite, if `marked`.
    """
    X = given = as_dense(X)
    if estimator.coder_ is not None:
        return estimator.coder_.conditions(X, least, marked=marked)
    told = getattr(estimator, "_told_coding", None)
    if marked and told is not None and np.shape(X)[1:] == (len(told.columns),):
        coded: Array = np.asarray(X, dtype=float)
        return coded  # by that coding, which said what it marked
    names = getattr(estimator, "feature_names_in_", None)
    if is_frame(X):
        odd = isinstance(X, Table | Mapping)
        if not odd and names is not None and set(names) <= set(X.columns):
            X = X[list(names)]
            odd = not is_plain(X)
        if odd:
            table = as_table(X)
            columns = table.names if names is None else names
            X = np.column_stack([table.numbers(str(name)) for name in columns])
    how: dict[str, Any] = {"dtype": np.float64, "ensure_all_finite": "allow-nan"}
    how["ensure_min_samples"] = least
    with naming_cells(X=X):
        if is_frame(given) and not is_frame(X):
            X = check_array(X, **how)  # names were matched
        else:
            X = validate_data(estimator, X, reset=False, **how)
    gaps = np.isnan(X)
    if gaps.any():
        near = estimator.neighbourhood_
        if not marked:
            typical = near.center + near.scale * np.median(near.rows, axis=0)
            X = np.where(gaps, typical, X)
        done = "averages over values that the column has elsewhere"
        warn_caller(
            f"X has gaps in {int(gaps.any(axis=1).sum())} of {len(X)} rows, and had "
            f"none at the fit: "
            f"{f'densities there are {done}' if marked else 'medians are put in'}.",
            TableWarning,
        )
    return X


def as_dense(X: Any, memory_budget: int = DEFAULT_BUDGET) -> Any:
    """A sparse matrix as an array, if it fits into memory; gaps for what is masked.

    Anything else is returned as it is.
    """
    if not sparse.issparse(X):
        return unmasked(X)
    wanted = 8 * int(np.prod(X.shape))
    if wanted > memory_budget:
        raise ValueError(
            f"X is sparse with shape {X.shape}, which as an array takes "
            f"{wanted / 2**30:.1f} GiB, more than the memory budget of "
            f"{memory_budget / 2**30:.1f} GiB; use fewer columns, or a larger "
            f"memory_budget."
        )
    return X.toarray()


def _responses(y: Any, n: int) -> Array:
    """Responses as numbers, (n, d)."""
    if y is None:
        raise ValueError("y must be given: the responses, or the name of their column.")
    with naming_cells(y=y):
        Y = check_array(y, dtype=np.float64, ensure_2d=False, input_name="y")
    if Y.ndim > 2 or len(Y) != n:
        raise ValueError(f"y must have {n} rows like X, got shape {Y.shape}.")
    return Y.reshape(len(Y), -1)


def _with_responses(X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, Any]:
    """Without the rows that have no y, and a warning with their number."""
    cells = np.asarray(y)
    if cells.ndim == 0 or cells.dtype.kind not in "fO":
        return X, y, sample_weight
    try:
        Y = cells.astype(float)
    except (TypeError, ValueError):  # said by the checks of the estimator
        return X, y, sample_weight
    gaps = np.isnan(Y).reshape(len(Y), -1).any(axis=1) if Y.size else np.isnan(Y)
    if not gaps.any() or len(Y) != _length(X):
        return X, y, sample_weight
    if gaps.all():
        raise ValueError("Input y contains NaN in every row, and nothing else.")
    rows = np.flatnonzero(~gaps)
    warn_caller(
        f"{len(Y) - len(rows)} of {len(Y)} rows have no y, and were left out.",
        TableWarning,
    )
    if isinstance(X, Table):
        X = X[rows]
    elif isinstance(X, Mapping):
        X = {name: _safe_indexing(column, rows) for name, column in X.items()}
    else:
        X = _safe_indexing(X, rows)
    weights = sample_weight
    if sample_weight is not None and np.ndim(sample_weight) > 0:
        weights = np.asarray(unmasked(sample_weight))[rows]
    return X, _safe_indexing(y, rows), weights


def _length(X: Any) -> int:
    if isinstance(X, Mapping):
        return len(as_table(X))
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


def taken_out(X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, Any]:
    """Responses and weights that are names of columns of a frame in memory, taken out.

    Anything else is returned as it is.

    Raises:
        ValueError: There is no such column, or y is a single number.
    """
    if np.isscalar(y) and not isinstance(y, str):
        raise ValueError(
            f"y={y!r} is one value; pass one for each row of X, or the name of a "
            f"column of X, which is a text."
        )
    names = [y] if isinstance(y, str) else y
    listed = isinstance(names, list | tuple) and all(isinstance(n, str) for n in names)
    # In this order: a lazy frame has to work to know its columns.
    in_memory = isinstance(X, Mapping) or all(
        hasattr(X, name) for name in ("to_numpy", "shape", "columns")
    )
    if not listed or not names or not in_memory or hasattr(X, "dask"):
        return X, y, sample_weight
    weight = sample_weight if isinstance(sample_weight, str) else None
    taken = [*names, *([] if weight is None else [weight])]
    columns = list(X) if isinstance(X, Mapping) else X.columns
    missing = [name for name in taken if name not in columns]
    if missing:
        raise ValueError(
            f"X has no column {missing[0]!r}; its columns are "
            f"{', '.join(map(repr, columns))}."
        )
    others = [name for name in columns if name not in taken]
    if isinstance(X, Mapping):
        table = as_table({name: X[name] for name in taken})
        responses = [table.numbers(name) for name in names]
        Y = responses[0] if isinstance(y, str) else np.column_stack(responses)
        rest: Any = {name: X[name] for name in others}
        return rest, Y, sample_weight if weight is None else table.numbers(weight)
    responses = X[y] if isinstance(y, str) else X[list(names)]
    return X[others], responses, sample_weight if weight is None else X[weight]


def as_source(
    X: Any,
    y: Any,
    sample_weight: Any = None,
    *,
    conditional: bool = True,
    memory_budget: int = DEFAULT_BUDGET,
    n_jobs: int | None = None,
) -> Source | None:
    """Rows to be read block by block, or None for data that are in memory anyway.

    Args:
        X: A `numpy.memmap`; a path of Parquet files or a `pyarrow.dataset.Dataset`; a
            `polars.LazyFrame`; a Dask array or data frame; or a `Source`, which is
            returned as it is.
        y: For a memmap and a Dask array, an array; otherwise the name of a column of X
            or several, or for a Dask data frame a Dask series. None for a `Source`.
        sample_weight: Row weights, in the same form as y.
        conditional: False for rows without a condition, as p(y) has them: y is None,
            and the columns of X, of tables all numeric ones but the weights, are
            responses.
        memory_budget: Bytes, of which blocks take a small part.
        n_jobs: How many threads will read at the same time; None for all cores.

    Returns:
        None if X is an array or a data frame in memory.

    Raises:
        ValueError: What was given does not fit together.

    Example:
        >>> as_source(np.zeros((3, 2)), np.zeros(3)) is None
        True
    """
    if isinstance(X, Source):
        if y is not None or sample_weight is not None:
            raise ValueError(
                "y and sample_weight must be None if X is a source, which has them."
            )
        as_it_is = conditional or isinstance(X, UnconditionalSource)
        return X if as_it_is else UnconditionalSource(X)
    kind: type[Source]
    if isinstance(X, np.memmap):
        kind = ArraySource
    elif is_parquet(X):
        kind = ParquetSource
    elif is_lazy_frame(X):
        kind = PolarsSource
    elif is_dask_array(X) or is_dask_frame(X):
        kind = DaskSource
    else:
        return None
    if not conditional:
        y = X[..., :0] if kind is ArraySource or is_dask_array(X) else ()
    source = kind(X, y, sample_weight)
    columns = source.n_features + source.n_responses + 1
    source.rows_per_block = block_rows(columns, memory_budget, thread_count(n_jobs))
    return source if conditional else UnconditionalSource(source)
