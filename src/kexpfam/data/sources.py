"""The one way in: from what a user passes to `fit` to rows in memory, or a source.

Arrays and data frames in memory become `Rows`. What is read block by block becomes a
`Source`: memmaps, Parquet files, lazy Polars frames and Dask collections.
"""

from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from kexpfam._parallel import thread_count
from kexpfam._validation import check_weights
from kexpfam.data.arrays import ArraySource
from kexpfam.data.dask import DaskSource, is_dask_array, is_dask_frame
from kexpfam.data.memory import DEFAULT_BUDGET, block_rows
from kexpfam.data.rows import Rows, Source, UnconditionalSource
from kexpfam.data.tables import ParquetSource, PolarsSource, is_lazy_frame, is_parquet


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
    X, y, sample_weight = _taken_out(X, y, sample_weight)
    source = as_source(
        X,
        y,
        sample_weight,
        conditional=conditional,
        memory_budget=memory_budget,
        n_jobs=n_jobs,
    )
    if source is None:
        return rows_in_memory(estimator, X, y, sample_weight, conditional=conditional)
    return source


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
    conditional: bool = True,
    first: bool = True,
    least: int = 2,
) -> Rows:
    """The same for arrays and data frames: at least so many rows.

    If they are not the first rows, columns must be as before.
    """
    how = {"dtype": np.float64, "ensure_min_samples": least, "reset": first}
    if not conditional:
        Y = validate_data(estimator, X, **how)
        return Rows(Y[:, :0], Y, check_weights(sample_weight, len(Y)))
    X, Y = validate_data(estimator, X, y, multi_output=True, y_numeric=True, **how)
    Y = np.asarray(Y, dtype=np.float64)
    Y = Y[:, None] if Y.ndim == 1 else Y
    return Rows(X, Y, check_weights(sample_weight, len(Y)))


def _taken_out(X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, Any]:
    """Responses and weights that are names of columns of a frame in memory, taken out.

    Anything else is returned as it is.
    """
    names = [y] if isinstance(y, str) else y
    listed = isinstance(names, list | tuple) and all(isinstance(n, str) for n in names)
    # In this order: a lazy frame has to work to know its columns.
    in_memory = all(hasattr(X, name) for name in ("to_numpy", "shape", "columns"))
    if not listed or not names or not in_memory or hasattr(X, "dask"):
        return X, y, sample_weight
    weight = sample_weight if isinstance(sample_weight, str) else None
    taken = [*names, *([] if weight is None else [weight])]
    missing = [name for name in taken if name not in X.columns]
    if missing:
        raise ValueError(
            f"X has no column {missing[0]!r}; its columns are "
            f"{', '.join(map(repr, X.columns))}."
        )
    rest = X[[name for name in X.columns if name not in taken]]
    responses = X[y] if isinstance(y, str) else X[list(names)]
    return rest, responses, sample_weight if weight is None else X[weight]


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
