"""How the columns of a table become the numbers of a model, remembered for later.

A numeric column is a column of X. A column of categories becomes one column of zeros
and ones for each category. What was learned from the first table, categories in their
order, medians and ranges, is kept with the model, so that a later table may have its
columns in another order and lack some of the categories.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, Self

import numpy as np

from kexpfam._typing import Array, Indices, Mask
from kexpfam.data.columns import (
    Table,
    TableError,
    as_number,
    as_table,
    label_of,
    listed,
    nearest,
)
from kexpfam.errors import FileFormatError
from kexpfam.persistence import made, saved_fit

Missing = Literal["error", "drop", "impute"]
Unknown = Literal["error", "ignore"]


@saved_fit()
@dataclass(frozen=True)
class Feature:
    """A column of conditions."""

    name: str
    categories: tuple[str, ...]  # what it may hold, in order; none for numbers
    typical: float | str  # median, or most frequent category
    low: float = 0.0  # smallest number; 0 for categories
    high: float = 0.0  # largest number; 0 for categories

    def check_saved(self) -> None:
        """Refuse typical values that the column cannot have."""
        known = self.typical in self.categories
        if not known and (self.categories or isinstance(self.typical, str)):
            raise ValueError("a typical category is none")

    @property
    def columns(self) -> list[str]:
        """Names of its columns in X."""
        return [f"{self.name}={c}" for c in self.categories] or [self.name]

    def cells(self, value: float | str) -> list[float]:
        """Its cells in X for a number or a category."""
        return [float(c == value) for c in self.categories] or [float(value)]

    def value(self, cells: Array) -> float | str:
        """The number or category that some cells of X stand for, (k,)."""
        if self.categories:
            return self.categories[int(np.argmax(cells))]
        return float(cells[0])

    def read(self, text: str) -> float | str:
        """The number or category that a text stands for."""
        if self.categories:
            label = label_of(text.strip())
            if label not in self.categories:
                raise TableError(_unknown_category(label, self))
            return label
        value = as_number(text.strip())
        if value is None:
            raise TableError(f"{self.name}={text!r} is not a number.")
        return value


@dataclass(frozen=True, eq=False)
class Coded:
    """A table as numbers."""

    X: Array  # conditions, (m, p)
    rows: Indices  # which rows of the table these are, (m,)


@saved_fit(name="Coding")
@dataclass(frozen=True)
class TableCoder:
    """What turns tables into arrays, learned from one of them by `fit`.

    Attributes:
        features: The conditions, in the order of the columns of X.
        target: Name of the response; None if the model has none, or nobody knows it.
        missing: What `transform` does about missing values unless it is told.

    Example:
        >>> houses = {"rooms": [3, 4], "city": ["Rome", "Oslo"]}
        >>> coder = TableCoder.fit(houses, ["city", "rooms"])
        >>> coder.columns
        ['city=Oslo', 'city=Rome', 'rooms']
        >>> coder.transform({"rooms": [5], "city": ["Oslo"]}).X
        array([[1., 0., 5.]])
    """

    features: tuple[Feature, ...]
    target: str | None
    missing: Missing = "error"

    @classmethod
    def fit(
        cls,
        table: Any,
        features: Sequence[str] | None = None,
        target: str | None = None,
        *,
        categorical: Sequence[str] = (),
        missing: Missing = "error",
    ) -> Self:
        """Look at the columns of a table.

        Args:
            table: A `Table`, a frame, or columns by name.
            features: Names of the conditions; None for all columns but the target.
            target: Name of the response, which `transform` leaves alone.
            categorical: Features that are categories even if they hold numbers.
            missing: "error", "drop" or "impute", for `transform`.

        Returns:
            The coder.

        Raises:
            TableError: A column is not there, or is no condition: dates, names of rows,
                numbers that cannot be read.
        """
        table = as_table(table)
        if features is None:
            features = [name for name in table.names if name != target]
        for name in categorical:
            table.column(name)
            if name not in features:
                raise TableError(
                    f"{table.spelled('categorical', [name])}: this column is not among "
                    f"the features, {listed(features)}."
                )
        learned = [_learned(table, name, name in categorical) for name in features]
        return cls(tuple(learned), target, missing)

    @property
    def columns(self) -> list[str]:
        """Names of the columns of X."""
        return [name for feature in self.features for name in feature.columns]

    @property
    def places(self) -> list[list[int]]:
        """The columns of X of each feature."""
        widths = (len(feature.columns) for feature in self.features)
        ends = itertools.accumulate(widths, initial=0)
        return [list(range(*pair)) for pair in itertools.pairwise(ends)]

    def feature(self, name: str) -> Feature:
        """The feature of a name."""
        names = [feature.name for feature in self.features]
        if name not in names:
            raise TableError(
                f"The model has no feature {name!r}{nearest(name, names)}; its "
                f"features are {listed(names)}."
            )
        return self.features[names.index(name)]

    def transform(
        self,
        table: Any,
        *,
        missing: Missing | None = None,
        unknown: Unknown = "error",
        also: Mask | None = None,
        beside: Sequence[str] = (),
    ) -> Coded:
        """The conditions of a table.

        Args:
            table: As in `fit`. Its columns may be in any order, and others may be among
                them.
            missing: Whether rows with a missing value are an error, are left out, or
                get the typical value; None for what was said at the fit.
            unknown: Whether a category that was not seen at the fit is an error, or is
                none of those that were.
            also: Rows that are left out in any case, (n,).
            beside: Other columns that must have values: nothing is put in for these.

        Returns:
            The matrix, and the rows of the table that it has.

        Raises:
            TableError: A cell is missing or unknown, and that was to be an error.
        """
        table = as_table(table)
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

    def complete(self, table: Table, **options: Any) -> Coded:
        """The same as `transform`, of one row at least."""
        coded = self.transform(table, **options)
        if not len(coded.rows):
            raise TableError(f"{table.path} has no complete row.")
        return coded

    def known(self, X: Array) -> Mask:
        """Rows of X whose categories were all seen at the fit, (n,)."""
        seen = [
            X[:, columns].any(axis=1)
            for feature, columns in zip(self.features, self.places, strict=True)
            if feature.categories
        ]
        return np.all([np.ones(len(X), dtype=bool), *seen], axis=0)

    def row(self, values: Mapping[str, str] | None = None) -> Array:
        """One row of X at given values, and typical ones elsewhere, (1, p)."""
        given = {k: self.feature(k).read(v) for k, v in (values or {}).items()}
        cells = [f.cells(given.get(f.name, f.typical)) for f in self.features]
        return np.array([[cell for part in cells for cell in part]])

    def values(self, row: Array) -> dict[str, float | str]:
        """The number or category of each feature in a row of X, (p,)."""
        parts = zip(self.features, self.places, strict=True)
        return {feature.name: feature.value(row[columns]) for feature, columns in parts}

    def as_extra(self) -> dict[str, Any]:
        """What a model is saved with, `model.save(path, extra=...)`."""
        return {"table": asdict(self)}

    @classmethod
    def of_model(cls, model: Any, path: str) -> Self | None:
        """What a model was saved with; None if it was saved without.

        Args:
            model: A loaded model.
            path: Its file, for messages.

        Raises:
            FileFormatError: It is damaged, or not of this model.
        """
        extra = model.extra_ or {}
        if "table" not in extra:
            return None
        try:
            features = tuple(
                made(Feature, {**feature, "categories": tuple(feature["categories"])})
                for feature in extra["table"]["features"]
            )
            coder: Self = made(cls, {**extra["table"], "features": features})
        except (KeyError, TypeError, ValueError) as error:
            raise FileFormatError(
                f"{path!r} has a damaged description of its table ({error})."
            ) from error
        if len(coder.columns) != model.n_features_in_:
            raise FileFormatError(
                f"{path!r} describes a table with {len(coder.columns)} columns, and "
                f"its model has {model.n_features_in_}."
            )
        return coder


def number_feature(table: Table, name: str, advice: str = "") -> Feature:
    """A column of numbers as a feature; errors may end with advice."""
    _refuse_empty(table, name)
    values = table.numbers(name, advice)
    ends = float(np.nanmin(values)), float(np.nanmax(values))
    return Feature(name, (), float(np.nanmedian(values)), *ends)


def _refuse_empty(table: Table, name: str) -> None:
    if table.is_missing(name).all():
        raise TableError(
            f"{table.path}, column {name!r} has no values; leave it out "
            f"({table.spelled('features')})."
        )


def _learned(
    table: Table, name: str, asked: bool, most_categories: int = 100
) -> Feature:
    """What a column holds; categories, if it was asked for.

    More categories than the most are names or keys, not groups to learn something
    about. A guess: each becomes a column, and kernels do not like hundreds of them.
    """
    _refuse_empty(table, name)
    leave_out = f"leave it out ({table.spelled('features')})"
    say = f"or say {table.spelled('categorical', [name])} if"
    if not asked and (found := table.disguised(name)) is not None:
        row, meaning = found
        raise TableError(
            f"{table.place(row, name)}: {table.column(name)[row]!r} {meaning}; turn "
            f"the column into plain numbers (of dates: such as days since the first "
            f"one), {leave_out}, {say} it has a few values only."
        )
    if not asked and table.is_mostly_numbers(name):
        return number_feature(table, name, f", {say} these are names")
    labels = [label for label in table.labels(name).tolist() if label]
    categories, counts = np.unique(labels, return_counts=True)
    if len(categories) > most_categories:
        raise TableError(
            f"{table.path}, column {name!r} has {len(categories)} different texts such "
            f"as {str(categories[0])!r:.40}, too many for categories; {leave_out}, or "
            f"group them ({most_categories} at most)."
        )
    names = tuple(map(str, categories))
    return Feature(name, names, names[int(np.argmax(counts))])


def _refuse_gaps(table: Table, gaps: Mapping[str, Mask]) -> None:
    """Name the first missing cell, by line and then by column, if there is one."""
    some = np.logical_or.reduce([np.zeros(len(table), bool), *gaps.values()])
    if not some.any():
        return
    row = int(np.argmax(some))
    name = next(n for n in table.names if n in gaps and gaps[n][row])
    raise TableError(
        f"{table.place(row, name)}: the value is missing, as are values in "
        f"{some.sum()} of {len(table)} rows; say {table.spelled('missing', 'drop')} to "
        f"leave these rows out, or {table.spelled('missing', 'impute')} to put in "
        f"medians and the most frequent categories."
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
            f"{_unknown_category(str(labels[row]), feature)[:-1]}; say "
            f"{table.spelled('unknown', 'ignore')} to take it as none of them."
        )
    return one_hot.astype(float)


def _unknown_category(label: str, feature: Feature) -> str:
    return (
        f"{label!r:.60} is not a category of {feature.name!r} that the model has seen"
        f"{nearest(label, feature.categories)}; these are "
        f"{listed(feature.categories)}."
    )
