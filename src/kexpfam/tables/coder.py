"""`TableCoder`: a table as numbers, as a transformer of scikit-learn."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from kexpfam._typing import Array
from kexpfam._validation import check_weights
from kexpfam.errors import TableWarning, warn_caller
from kexpfam.tables.coding import Coding
from kexpfam.tables.columns import Column, Table, TableError, as_table, is_frame
from kexpfam.tables.features import Feature
from kexpfam.tables.told import Told


class TableCoder(TransformerMixin, BaseEstimator):
    """Tables as they come, as numbers: texts, categories, dates, gaps.

    Estimators of p(y|x) learn one by themselves when X is a frame that needs it; their
    `coder_` is that. It is public to look at, and for pipelines with other estimators.

    - Numbers and booleans are themselves, durations seconds; a column of texts True and
      False (also TRUE, true) is one of booleans.
    - Categories without an order have a column of zeros and ones each, up to twelve.
      More of them are one column: the mean of y in the category, shrunk towards that of
      all rows; values of fewer than five rows share one mean. `fit_transform` gives
      training rows means of other rows, so that no row's code has seen its y.
    - Categories with an order, of their type or by `ordered`, are ranks.
    - Dates, also texts in ISO 8601, are year, month, weekday, hour (as sines and
      cosines, but for the year) and days since the first, as far as these vary.
    - Where values were missing at the fit, a column says where they are, and the median
      or the most frequent category is put in.
    - Constants, row numbers and texts that are all different are left out, with a
      `TableWarning`; another one tells of columns that y is a function of.

    Args:
        ordered: Orders of categories by name, `{"size": ["S", "M", "L"]}`.
        categorical: Names of columns that are categories without an order, even if they
            hold numbers or have one.
        exclude: Names of columns to leave out.
        missing: "impute", as above, or "error" to refuse missing values.
        unknown: What to do about categories that were not there at the fit: "ignore"
            takes them as none of those that were, with one `TableWarning` that names
            column and count; "error" refuses them, with column and row.

    Attributes:
        features_: How each column is coded, but for those that were left out.
        notes_: Which were left out, and why.
        n_features_in_: Columns of X.
        feature_names_in_: Their names, if X had any.

    Example:
        >>> shirts = {
        ...     "size": ["S", "L", "M", "S"],
        ...     "sold": ["2024-01-31", "2024-02-01", None, "2024-02-03"],
        ... }
        >>> coder = TableCoder(ordered={"size": ["S", "M", "L"]}).fit(shirts)
        >>> coder.transform(shirts)[:, 0]
        array([0., 2., 1., 0.])
        >>> coder.get_feature_names_out()[1:4].tolist()
        ['sold: month sin', 'sold: month cos', 'sold: weekday sin']
        >>> coder.inverse_transform(coder.transform(shirts))["size"].tolist()
        ['S', 'L', 'M', 'S']
    """

    coding_: Coding

    def __init__(
        self,
        *,
        ordered: Mapping[str, Sequence[Any]] | None = None,
        categorical: Sequence[str] = (),
        exclude: Sequence[str] = (),
        missing: str = "impute",
        unknown: str = "ignore",
    ) -> None:
        self.ordered = ordered
        self.categorical = categorical
        self.exclude = exclude
        self.missing = missing
        self.unknown = unknown

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Look at the columns of a table.

        Args:
            X: A pandas or Polars frame, columns by name, or an array, (n, p).
            y: Responses, (n,) or (n, d), by which many categories are coded; None, or
                what are no numbers, for shares of rows instead of means.
            sample_weight: Weight of each row.

        Returns:
            The coder itself.
        """
        self._learn(X, y, sample_weight)
        return self

    def fit_transform(self, X: Any, y: Any = None, sample_weight: Any = None) -> Array:
        """The rows of a fit as numbers, with means of other rows, (n, k).

        Not the same as `fit(X, y).transform(X)`: where a category becomes the mean of y
        in it, a row of the fit gets that of other rows, so that it does not know its
        own y.

        Args:
            X: A table or rows.
            y: What the rows are to predict; None if no column needs it.
            sample_weight: Weights of the rows, (n,).
        """
        rows = self._learn(X, y, sample_weight)
        return self.coding_.training(*rows)

    def transform(self, X: Any) -> Array:
        """Rows as numbers, (n, k); columns of frames may be in another order.

        Args:
            X: A table with the columns of the fit; more are left out.
        """
        check_is_fitted(self)
        return self._transform(self._table(X))

    def inverse_transform(self, X: Any) -> dict[str, Column]:
        """Columns that rows of numbers stand for, by name: numbers, texts, moments.

        Gaps are gaps again where there were some at the fit. Of many categories, coded
        by a mean, it is the one with the nearest mean.
        """
        check_is_fitted(self)
        X, coding = np.asarray(X, dtype=float), self.coding_
        if X.ndim != 2 or X.shape[1] != len(coding.columns):
            raise ValueError(
                f"X must have {len(coding.columns)} columns, as transform makes them, "
                f"got shape {X.shape}."
            )
        parts = zip(coding.features, coding.places, strict=True)
        return {feature.name: feature.values(X[:, places]) for feature, places in parts}

    def get_feature_names_out(self, input_features: Any = None) -> Column:
        """Names of the columns that `transform` makes."""
        check_is_fitted(self)
        return np.array(self.coding_.columns, dtype=object)

    @property
    def features_(self) -> tuple[Feature, ...]:
        """How each column is coded."""
        return self.coding_.features

    @property
    def notes_(self) -> tuple[str, ...]:
        """Which columns were left out, and why."""
        return self.coding_.notes

    @classmethod
    def of_coding(cls, coding: Coding) -> Self:
        """The coder that has learned a coding."""
        coder = cls(missing="error" if coding.missing == "error" else "impute")
        coder._take(coding)
        return coder

    def conditions(self, X: Any, least: int = 1, *, marked: bool = False) -> Array:
        """Rows as numbers, (n, k); an array may hold what `transform` makes, too.

        Fewer than `least` rows are refused. What is `marked`: see `Coding.transform`.
        """
        width = len(self.coding_.columns)
        if not is_frame(X):
            X = np.asarray(X)
            coded = X.ndim == 2 and X.shape[1] == width != self.n_features_in_
            if coded and X.dtype.kind in "buif":
                return _finite(X.astype(float))
        table = self._table(X)
        if len(table) < least:
            raise ValueError(
                f"Found array with {len(table)} sample(s) in X, while a minimum of "
                f"{least} is required."
            )
        return self._transform(table, marked)

    def _transform(self, table: Table, marked: bool = False) -> Array:
        missing = "error" if self.coding_.missing == "error" else "impute"
        coded = self.coding_.transform(
            table,
            missing=missing,  # type: ignore[arg-type]  # one of two
            unknown=self.unknown,  # type: ignore[arg-type]  # checked by fit
            marked=marked,
        )
        return coded.X

    def _learn(
        self, X: Any, y: Any, sample_weight: Any
    ) -> tuple[Table, Array | None, Array | None]:
        """Learn the coding; the table, responses and weights that it is of."""
        for name, words in (("missing", "impute error"), ("unknown", "ignore error")):
            if getattr(self, name) not in words.split():
                raise ValueError(
                    f"{name} must be one of {words.split()}, got "
                    f"{getattr(self, name)!r}."
                )
        table = table_of(X)
        Y = _numbers(y, len(table))
        weights = None
        if sample_weight is not None:
            weights = check_weights(sample_weight, len(table))
        for name in self.exclude:
            table.column(name)
        kept = [name for name in table.names if name not in self.exclude]
        coding = Coding.learn(
            table,
            kept,
            name_of(y, table),
            Y=Y,
            weights=weights,
            told=Told(self.categorical, self.ordered),
            missing=self.missing,  # type: ignore[arg-type]  # checked above
            named=is_frame(X),
        )
        self._take(coding, table.names)
        for note in coding.notes:
            warn_caller(note, TableWarning)
        if Y is not None and Y.shape[1] == 1:
            tell_of_leaks(coding, table, Y[:, 0])
        return table, Y, weights

    def _take(self, coding: Coding, names: Sequence[str] | None = None) -> None:
        self.coding_ = coding
        names = coding.inputs if names is None else names
        self.n_features_in_ = len(names)
        self.__dict__.pop("feature_names_in_", None)
        if coding.named:
            self.feature_names_in_ = np.array(names, dtype=object)

    def _table(self, X: Any) -> Table:
        """A table with the columns of the fit; those of an array are in their order."""
        if is_frame(X):
            return as_table(X)
        X = np.asarray(X)
        if X.ndim != 2 or X.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has shape {X.shape}, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input."
            )
        names = getattr(self, "feature_names_in_", None)
        return table_of(X, None if names is None else names.tolist())

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags


def table_of(X: Any, names: Sequence[str] | None = None) -> Table:
    """A table from what a user passes; columns of an array are called x0, x1, ...

    Example:
        >>> table_of([[1.0, 2.0]]).names
        ('x0', 'x1')
    """
    if is_frame(X):
        return as_table(X)
    X = np.asarray(X)
    if X.ndim != 2:
        raise TableError(
            f"X must be a frame, or an array with two axes, got shape {X.shape}."
        )
    names = [f"x{i}" for i in range(X.shape[1])] if names is None else names
    return as_table(dict(zip(names, X.T, strict=True)))


def response_name(y: Any) -> str | None:
    """Name of a response, a series, a frame of one column or a name; None without.

    Example:
        >>> import pandas as pd
        >>> response_name(pd.Series([1.0], name="price")), response_name([1.0])
        ('price', None)
    """
    if isinstance(y, str):
        return y
    columns = list(getattr(y, "columns", ()))
    name = columns[0] if len(columns) == 1 else getattr(y, "name", None)
    return name if isinstance(name, str) and name else None


def name_of(y: Any, table: Table) -> str | None:
    """Name of a response; None if it has none, or that of a column of the table."""
    name = response_name(y)
    return name if name not in table.names else None


def tell_of_leaks(coding: Coding, table: Table, y: Array) -> None:
    """Warn of columns that y is a function of."""
    found = coding.suspects(table, y)
    if found:
        names = ", ".join(map(repr, found))
        fix = "fixes" if len(found) == 1 else "each fix"
        warn_caller(
            f"{names} {fix} {coding.target or 'y'}, to rounding: a leak? If it is not "
            f"known before {coding.target or 'y'} is, leave it out.",
            TableWarning,
        )


def _numbers(y: Any, n: int) -> Array | None:
    """Responses as (n, d); None if there are none, or if they are no numbers."""
    if y is None:
        return None
    try:
        Y = np.asarray(y, dtype=float)
    except (TypeError, ValueError):
        return None
    if Y.ndim not in (1, 2) or len(Y) != n:
        raise ValueError(f"y must have {n} rows like X, got shape {Y.shape}.")
    return None if not np.isfinite(Y).all() else Y.reshape(n, -1)


def _finite(X: Array) -> Array:
    if not np.isfinite(X).all():
        raise ValueError("X, as coded numbers, contains NaN or infinity.")
    return X
