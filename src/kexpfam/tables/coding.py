"""How the columns of a table become the numbers of a model, remembered for later.

`Coding` is what was learned from one table: a feature for each column that may help,
with its categories in their order, medians and ranges. It is kept with the model, so
that a later table may have its columns in another order, gaps, and categories that are
new. There is one coding for Python, the command line, files and the explorer.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, NamedTuple, Self

import numpy as np

from kexpfam._typing import Array, Indices, Mask
from kexpfam.errors import FileFormatError, TableWarning, warn_caller
from kexpfam.persistence import made, saved_fit
from kexpfam.summaries import ColumnKinds
from kexpfam.tables.columns import (
    Table,
    TableError,
    as_table,
    content_order,
    listed,
    nearest,
)
from kexpfam.tables.dates import days_of
from kexpfam.tables.features import (
    CategoryFeature,
    Cells,
    EncodedFeature,
    Feature,
    NumberFeature,
    date_feature,
    group_feature,
    number_feature,
    ordered_feature,
    unknown_category,
)
from kexpfam.tables.suspects import fixes_response, why_useless
from kexpfam.tables.told import Told

Missing = Literal["error", "drop", "impute"]
Unknown = Literal["error", "ignore"]


@dataclass(frozen=True, eq=False)
class Coded:
    """A table as numbers."""

    X: Array  # conditions, (m, p)
    rows: Indices  # which rows of the table these are, (m,)


@saved_fit()
@dataclass(frozen=True)
class Coding:
    """What turns tables into arrays, learned from one of them by `learn`.

    Attributes:
        features: The conditions, in the order of the columns of X.
        target: Name of the response; None if the model has none, or nobody knows it.
        missing: What `transform` does about missing values unless it is told.
        inputs: All columns of the table that it was learned from, also those that
            cannot help, without the response.
        named: Whether these names were those of a frame; an array has none.
        notes: Why columns were left out, and which are suspicious, in words.

    Example:
        >>> houses = {"rooms": [3, 4, 4], "city": ["Rome", "Oslo", "Rome"]}
        >>> coding = Coding.learn(houses, ["city", "rooms"])
        >>> coding.columns
        ['city=Oslo', 'city=Rome', 'rooms']
        >>> coding.transform({"rooms": [5], "city": ["Oslo"]}).X
        array([[1., 0., 5.]])
    """

    features: tuple[Feature, ...]
    target: str | None
    missing: Missing = "impute"
    inputs: tuple[str, ...] = ()
    named: bool = True
    notes: tuple[str, ...] = ()

    @classmethod
    def learn(
        cls,
        table: Any,
        features: Sequence[str] | None = None,
        target: str | None = None,
        *,
        Y: Array | None = None,
        weights: Array | None = None,
        told: Told | None = None,
        missing: Missing = "impute",
        named: bool = True,
    ) -> Self:
        """Look at the columns of a table.

        Args:
            table: A `Table`, a frame, or columns by name.
            features: Names of the conditions; None for all columns but the target.
            target: Name of the response, which `transform` leaves alone.
            Y: Responses, (n, d), by which many categories are coded; None for shares.
            weights: Of the rows, (n,); None for ones.
            told: Which columns are categories, and their order.
            missing: "error", "drop" or "impute", for `transform`.
            named: Whether columns have names of their own.

        Returns:
            The coding.

        Raises:
            TableError: A column is not there, or cannot be read.
        """
        table = as_table(table)
        if features is None:
            features = [name for name in table.names if name != target]
        told = told or Told()
        told.check(table, features)
        reasons = {
            name: why_useless(table, name, grouped=told.is_grouped(table, name))
            for name in features
        }
        useless = {name: why for name, why in reasons.items() if why is not None}
        names = [name for name in features if name not in useless]
        rows = _in_order(table, names, Y, weights, told)
        found: list[Feature] = []
        for name in names:
            feature = _learned(table, name, told, rows)
            if feature is None:
                useless[name] = "has many values that say nothing of y"
            else:
                found.append(feature)
        if not found:  # a constant does no harm
            same = [n for n, why in useless.items() if why.startswith("is always")]
            numbers = [name for name in same if table.is_number(name)]
            found = [number_feature(table, name) for name in numbers]
            useless = {n: why for n, why in useless.items() if n not in numbers}
        notes = []
        if useless:
            said = ", ".join(f"{name!r} {why}" for name, why in useless.items())
            notes.append(f"Columns that cannot help were left out: {said}.")
        if not found:
            raise TableError(f"{table.path} has no column that could help. {notes[0]}")
        return cls(tuple(found), target, missing, tuple(features), named, tuple(notes))

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

    @property
    def groups(self) -> list[list[int]]:
        """Columns of X that are compared together: those of one-hot categories."""
        parts = zip(self.features, self.places, strict=True)
        return [
            group
            for feature, places in parts
            for group in (
                [places]
                if isinstance(feature, CategoryFeature)
                else [[place] for place in places]
            )
        ]

    @property
    def kinds(self) -> ColumnKinds | None:
        """Which columns of X stand for gaps and for categories; None if none do."""
        gaps, groups, means = [], [], []
        for feature, places in zip(self.features, self.places, strict=True):
            if isinstance(feature, CategoryFeature):
                if len(feature.categories) > 2:  # two are one split
                    groups.append(tuple(places[: len(feature.categories)]))
            elif isinstance(feature, EncodedFeature):
                means += places
            elif feature.gaps:
                gaps += [(place, places[-1]) for place in places[:-1]]
        found = ColumnKinds(tuple(gaps), tuple(groups), tuple(means))
        return found if found != ColumnKinds() else None

    @property
    def is_plain(self) -> bool:
        """Whether X is the table itself: numbers, all of them, without gaps."""
        plain = all(isinstance(f, NumberFeature) and not f.gaps for f in self.features)
        return plain and [f.name for f in self.features] == list(self.inputs)

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
        unknown: Unknown = "ignore",
        also: Mask | None = None,
        beside: Sequence[str] = (),
        marked: bool = False,
    ) -> Coded:
        """The conditions of a table.

        Args:
            table: As in `learn`. Its columns may be in any order, and others may be
                among them.
            missing: Whether rows with a missing value are an error, are left out, or
                get the typical value; None for what was said at the fit.
            unknown: Whether a category that was not seen at the fit is an error, or is
                none of those that were, with a warning.
            also: Rows that are left out in any case, (n,).
            beside: Other columns that must have values: nothing is put in for these.
            marked: Whether cells that the fit has not prepared for are NaN in gaps, and
                infinite at new categories, as estimators average over them; else they
                are typical values, or none of the categories.

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
        kept = ~out
        parts = [feature.code(table) for feature in self.features]
        if unknown == "error":
            self._refuse_strangers(table, parts, kept)
        self._tell(table, parts, kept, marked)
        rows = np.flatnonzero(kept)
        X = np.column_stack([*(part.X for part in parts), np.empty((len(table), 0))])
        if marked:
            for feature, part, columns in zip(
                self.features, parts, self.places, strict=True
            ):
                cells = X[:, columns]
                cells[part.strange] = np.inf
                if not feature.takes_gaps:
                    cells[part.gaps] = np.nan
                X[:, columns] = cells
        return Coded(X[rows], rows)

    def training(
        self, table: Table, Y: Array | None = None, weights: Array | None = None
    ) -> Array:
        """The conditions of the rows that it was learned from, (n, p).

        Means of y are of the other parts of the rows; without y, as `transform`.
        """
        X = self.transform(table, missing="impute").X
        if Y is None:
            return X
        rows = self._in_order(table, Y, weights)
        for feature, columns in zip(self.features, self.places, strict=True):
            if isinstance(feature, EncodedFeature):
                X[rows.order[:, None], columns] = feature.held_out(*rows.content)
        return X

    def with_means_of(
        self, table: Table, Y: Array, weights: Array | None = None
    ) -> Self:
        """The same coding, with means of y of other rows, as a fold has them."""
        rows = self._in_order(table, Y, weights)
        features = tuple(
            f.with_means_of(*rows.content) if isinstance(f, EncodedFeature) else f
            for f in self.features
        )
        return replace(self, features=features)

    def _in_order(self, table: Table, Y: Array, weights: Array | None) -> "_InOrder":
        names = [feature.name for feature in self.features]
        grouped = [f.name for f in self.features if isinstance(f, EncodedFeature)]
        return _in_order(table, names, Y, weights, Told(grouped))

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
            if isinstance(feature, CategoryFeature)
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

    def suspects(self, table: Table, y: Array) -> list[str]:
        """Features that fix a response, (n,), to rounding."""
        found = []
        for feature in self.features:
            known = ~table.is_missing(feature.name)
            groups = bool(feature.categories)
            if groups:
                labels = table.labels(feature.name)[known]
                values = np.unique(labels, return_inverse=True)[1].astype(float)
            elif isinstance(feature, NumberFeature):
                values = table.numbers(feature.name)[known]
            else:
                continue
            if fixes_response(values, y[known], groups=groups):
                found.append(feature.name)
        return found

    def as_extra(self) -> dict[str, Any]:
        """What a joint density is saved with, `model.save(path, extra=...)`."""
        features = [
            {k: v for k, v in asdict(f).items() if k != "gaps"} | {"categories": []}
            for f in self.features
            if isinstance(f, NumberFeature)
        ]
        table = {"features": features, "target": self.target, "missing": self.missing}
        return {"table": table}

    @classmethod
    def of_extra(cls, extra: Mapping[str, Any], path: str, columns: int) -> Self | None:
        """What a model was saved with by `as_extra`, or by the program before 0.2.

        Args:
            extra: What the file holds beside the model.
            path: Its name, for messages.
            columns: Columns that the model has.

        Raises:
            FileFormatError: It is damaged, or not of this model.
        """
        if "table" not in extra:
            return None
        try:
            saved = extra["table"]
            features = tuple(map(_of_extra, saved["features"]))
            inputs = tuple(feature.name for feature in features)
            parts = {**saved, "features": features, "inputs": inputs}
            coding: Self = made(cls, parts)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise FileFormatError(
                f"{path!r} has a damaged description of its table ({error})."
            ) from error
        if len(coding.columns) != columns:
            raise FileFormatError(
                f"{path!r} describes a table with {len(coding.columns)} columns, and "
                f"its model has {columns}."
            )
        return coding

    def _tell(
        self, table: Table, parts: Sequence[Cells], kept: Mask, marked: bool
    ) -> None:
        """One warning about cells that the fit has not prepared for."""
        said: list[str] = []
        gaps: dict[int, list[str]] = {}  # names of columns by their number of gaps
        for feature, part in zip(self.features, parts, strict=True):
            new = np.flatnonzero(part.strange & kept)
            if len(new):
                labels = table.labels(feature.name)[new].tolist()
                shown = listed(list(dict.fromkeys(labels)), 3)
                said.append(
                    f"{_rows(len(new))} of column {feature.name!r} with values that "
                    f"were not there at the fit ({shown})"
                )
            missing = int((part.gaps & kept).sum())
            if missing and not feature.takes_gaps:
                gaps.setdefault(missing, []).append(feature.name)
        done = ["taken as no known category, or as typical values"] if said else []
        for count, names in gaps.items():
            each = "each of " if len(names) > 1 else ""
            said.append(
                f"{_rows(count)} without a value of {each}{listed(names, 5)}, which "
                f"had no gaps at the fit"
            )
        if said and marked:
            warn_caller(
                f"{table.path} has {'; '.join(said)}: densities there are averages "
                f"over values that the column has elsewhere.",
                TableWarning,
            )
        elif said:
            end = (*done, "medians and usual categories are put in")[0]
            warn_caller(
                f"{table.path} has {'; '.join(said)}: {end}, as if these were known.",
                TableWarning,
            )

    def _refuse_strangers(
        self, table: Table, parts: Sequence[Cells], kept: Mask
    ) -> None:
        for feature, part in zip(self.features, parts, strict=True):
            strange = part.strange & kept
            if strange.any():
                row = int(np.argmax(strange))
                label = str(table.labels(feature.name)[row])
                raise TableError(
                    f"{table.place(row, feature.name)}: "
                    f"{unknown_category(label, feature)[:-1]}; say "
                    f"{table.spelled('unknown', 'ignore')} to take it as none of them."
                )


def _rows(n: int) -> str:
    return "1 row" if n == 1 else f"{n} rows"


def _of_extra(saved: Mapping[str, Any]) -> Feature:
    """A feature as the program wrote it before 0.2."""
    categories = tuple(saved["categories"])
    if not categories:
        names = ("name", "typical", "low", "high")
        return made(NumberFeature, {name: saved[name] for name in names})
    parts = {"name": saved["name"], "typical": saved["typical"]}
    return made(CategoryFeature, parts | {"categories": categories})


class _InOrder(NamedTuple):
    """Rows in an order that only their content decides."""

    order: Indices  # where they are in that of the user, (n,)
    content: tuple[Table, Any, Array]  # table, responses (n, d) or None, weights


def _in_order(
    table: Table,
    names: Sequence[str],
    Y: Array | None,
    weights: Array | None,
    told: Told,
) -> _InOrder:
    """Rows in an order of their own, in which means are summed, and parts dealt."""
    w = np.ones(len(table)) if weights is None else weights
    order = np.arange(len(table))
    if any(not table.is_number(n) or told.is_grouped(table, n) for n in names):
        order = content_order(table, names, w, Y)
    return _InOrder(order, (table[order], None if Y is None else Y[order], w[order]))


def _learned(table: Table, name: str, told: Told, rows: _InOrder) -> Feature | None:
    """What a column holds; None if it cannot help."""
    order = told.order_of(table, name)
    if order is not None:
        return ordered_feature(table, name, order, name in (told.ordered or {}))
    if told.is_grouped(table, name):
        return group_feature(name, *rows.content)
    days = days_of(table.column(name))
    if days is not None:
        return date_feature(name, days)
    say = f"or say {table.spelled('categorical', [name])} if"
    if (found := table.disguised(name)) is not None:
        row, meaning = found
        raise TableError(
            f"{table.place(row, name)}: {table.column(name)[row]!r} {meaning}; write "
            f"the column so, leave it out ({table.spelled('exclude', [name])}), {say} "
            f"it has a few values only."
        )
    if table.is_mostly_numbers(name) and not table.is_few_names(name):
        return number_feature(table, name, f", {say} these are names")
    return group_feature(name, *rows.content)


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
