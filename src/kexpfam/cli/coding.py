"""How the columns of a table become the numbers of a model, remembered for later.

A numeric column is a column of X. A column of categories becomes one column of zeros
and ones for each category. What was learned from the first table, categories in their
order, medians and ranges, is kept with the model, so that a later table may have its
columns in another order and lack some of the categories.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np

from kexpfam._typing import Array, Indices, Mask
from kexpfam.cli.tables import (
    Table,
    TableError,
    as_number,
    label_of,
    listed,
    nearest,
)
from kexpfam.errors import FileFormatError
from kexpfam.persistence import made, saved_fit

Missing = Literal["error", "drop", "impute"]
Unknown = Literal["error", "ignore"]

# More categories than this are names or keys, not groups to learn something about. A
# guess: each becomes a column, and kernels do not like hundreds of them.
MOST_CATEGORIES = 100


@saved_fit()
@dataclass(frozen=True)
class Feature:
    """A column of conditions.

    Attributes:
        name: Its name.
        categories: What it may hold, in order; none for numbers.
        typical: Median, or most frequent category: for imputation and pictures.
        low: Smallest number; 0 for categories.
        high: Largest number; 0 for categories.
    """

    name: str
    categories: tuple[str, ...]
    typical: float | str
    low: float = 0.0
    high: float = 0.0

    def check_saved(self) -> None:
        """Refuse typical values that the column cannot have."""
        known = self.typical in self.categories
        if not known and (self.categories or isinstance(self.typical, str)):
            raise ValueError("a typical category is none")

    @property
    def columns(self) -> list[str]:
        """Names of its columns in X."""
        return [f"{self.name}={c}" for c in self.categories] or [self.name]


@dataclass(frozen=True, eq=False)
class Coded:
    """A table as numbers.

    Attributes:
        X: Conditions, (m, p).
        rows: Which rows of the table these are, (m,).
    """

    X: Array
    rows: Indices


@saved_fit()
@dataclass(frozen=True)
class Coding:
    """What turns tables into arrays.

    Attributes:
        features: The conditions, in the order of the columns of X.
        target: Name of the response; None if the model has none, or nobody knows it.
        missing: What was said about missing values when the model was fitted.

    Example:
        >>> table = Table("a.csv", ("x", "city"), (np.ones(2), np.array(["B", "A"])))
        >>> coding = learn_coding(table, ["city", "x"], None)
        >>> coding.columns
        ['city=A', 'city=B', 'x']
        >>> coding.matrix(table).X
        array([[0., 1., 1.],
               [1., 0., 1.]])
    """

    features: tuple[Feature, ...]
    target: str | None
    missing: Missing = "error"

    @property
    def columns(self) -> list[str]:
        """Names of the columns of X."""
        return [name for feature in self.features for name in feature.columns]

    def feature(self, name: str) -> Feature:
        """The feature of a name."""
        for feature in self.features:
            if feature.name == name:
                return feature
        names = [feature.name for feature in self.features]
        raise TableError(
            f"The model has no feature {name!r}{nearest(name, names)}; its features "
            f"are {listed(names)}."
        )

    def matrix(
        self,
        table: Table,
        *,
        missing: Missing | None = None,
        unknown: Unknown = "error",
        also: Mask | None = None,
        beside: Sequence[str] = (),
    ) -> Coded:
        """The conditions of a table.

        Args:
            table: Its columns may be in any order, and others may be among them.
            missing: Whether rows with a missing value are an error, are left out, or
                get the typical value; None for what was said at the fit.
            unknown: Whether a category that was not seen at the fit is an error, or is
                none of those that were.
            also: Rows that are left out in any case, (n,).
            beside: Other columns that must have values: nothing is put in for these.
        """
        policy = self.missing if missing is None else missing
        out = np.zeros(len(table), dtype=bool) if also is None else also.copy()
        names = [*(feature.name for feature in self.features), *beside]
        gaps = {name: table.is_missing(name) for name in names}
        if policy == "error":
            _refuse_gaps(table, {name: cells & ~out for name, cells in gaps.items()})
        for name, cells in gaps.items():
            if policy != "impute" or name in beside:
                out |= cells
        blocks = [_coded(table, f, gaps[f.name], unknown) for f in self.features]
        rows = np.flatnonzero(~out)
        X = np.column_stack([*blocks, np.empty((len(table), 0))])
        return Coded(X[rows], rows)

    def complete(self, table: Table, **how: Any) -> Coded:
        """The same as `matrix`, of one row at least."""
        coded = self.matrix(table, **how)
        if not len(coded.rows):
            raise TableError(f"{table.path} has no complete row.")
        return coded

    def row(self, values: Mapping[str, str] | None = None) -> Array:
        """One row of X at given values, and typical ones elsewhere, (1, p)."""
        values = values or {}
        for name in values:
            self.feature(name)
        cells = [
            self._cell(f, values[f.name]) if f.name in values else f.typical
            for f in self.features
        ]
        parts = [
            [float(c == cell) for c in feature.categories] or [float(cell)]
            for feature, cell in zip(self.features, cells, strict=True)
        ]
        return np.array([[value for part in parts for value in part]])

    def _cell(self, feature: Feature, text: str) -> float | str:
        if feature.categories:
            label = label_of(text.strip())
            if label not in feature.categories:
                raise TableError(_unknown_category(label, feature))
            return label
        value = as_number(text.strip())
        if value is None:
            raise TableError(f"{feature.name}={text!r} is not a number.")
        return value


def read_coding(entry: Any, path: str) -> Coding:
    """The coding that a model file holds as a mapping, from `dataclasses.asdict`."""
    try:
        features = [
            made(Feature, {**feature, "categories": tuple(feature["categories"])})
            for feature in entry["features"]
        ]
        return cast("Coding", made(Coding, {**entry, "features": tuple(features)}))
    except (KeyError, TypeError, ValueError) as error:
        raise FileFormatError(
            f"{path!r} has a damaged description of its table ({error})."
        ) from error


def learn_coding(
    table: Table,
    features: Sequence[str],
    target: str | None,
    *,
    categorical: Sequence[str] = (),
    missing: Missing = "error",
) -> Coding:
    """Look at the columns of a table; those of `categorical` may hold numbers."""
    for name in categorical:
        table.column(name)
        if name not in features:
            raise TableError(
                f"--categorical {name}: this column is not among the features, "
                f"{listed(features)}."
            )
    learned = tuple(_learned(table, name, name in categorical) for name in features)
    return Coding(learned, target, missing)


def _learned(table: Table, name: str, asked: bool) -> Feature:
    if table.is_missing(name).all():
        raise TableError(
            f"{table.path}, column {name!r} has no values; leave it out with "
            f"--features."
        )
    if not asked and (found := table.disguised(name)) is not None:
        row, meaning = found
        raise TableError(
            f"{table.place(row, name)}: {table.column(name)[row]!r} {meaning}; turn "
            f"the column into plain numbers (of dates: such as days since the first "
            f"one), leave it out with --features, or say --categorical {name} if it "
            f"has a few values only."
        )
    if not asked and table.is_mostly_numbers(name):
        advice = f", or say --categorical {name} if these are names"
        values = table.numbers(name, advice)
        known = values[~np.isnan(values)]
        ends = float(known.min()), float(known.max())
        return Feature(name, (), float(np.median(known)), *ends)
    labels = table.labels(name)
    categories, counts = np.unique(
        [label for label in labels.tolist() if label], return_counts=True
    )
    if len(categories) > MOST_CATEGORIES:
        raise TableError(
            f"{table.path}, column {name!r} has {len(categories)} different texts such "
            f"as {str(categories[0])!r:.40}, too many for categories; leave it out "
            f"with --features, or group them ({MOST_CATEGORIES} at most)."
        )
    names = tuple(map(str, categories))
    return Feature(name, names, names[int(np.argmax(counts))])


def _refuse_gaps(table: Table, gaps: Mapping[str, Mask]) -> None:
    """Name the first missing cell, by line and then by column, if there is one."""
    order = [name for name in table.names if name in gaps]
    some = np.logical_or.reduce([np.zeros(len(table), bool), *gaps.values()])
    if not some.any():
        return
    row = int(np.argmax(some))
    name = next(name for name in order if gaps[name][row])
    raise TableError(
        f"{table.place(row, name)}: the value is missing, as are values in "
        f"{some.sum()} of {len(table)} rows; say --missing drop to leave these rows "
        f"out, or --missing impute to put in medians and the most frequent categories."
    )


def _coded(table: Table, feature: Feature, gaps: Mask, unknown: Unknown) -> Array:
    """Columns of X of one feature, (n, k); missing cells hold typical values."""
    if not feature.categories:
        return np.where(gaps, feature.typical, table.numbers(feature.name))
    labels = np.where(gaps, feature.typical, table.labels(feature.name))
    one_hot = labels[:, None] == np.array(feature.categories, dtype=object)
    strange = ~one_hot.any(axis=1)
    if unknown == "error" and strange.any():
        row = int(np.argmax(strange))
        raise TableError(
            f"{table.place(row, feature.name)}: "
            f"{_unknown_category(str(labels[row]), feature)[:-1]}; say --unknown "
            f"ignore to take it as none of them."
        )
    return one_hot.astype(float)


def _unknown_category(label: str, feature: Feature) -> str:
    return (
        f"{label!r:.60} is not a category of {feature.name!r} that the model has seen"
        f"{nearest(label, feature.categories)}; these are "
        f"{listed(feature.categories)}."
    )
