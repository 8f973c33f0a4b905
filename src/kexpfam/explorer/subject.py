"""What is explored, and what a page may ask about it.

The page is told of a control for each condition, with the columns of X that it stands
for, and of rows of data if there are any; it knows nothing of files. What it asks comes
from outside, and is read with care.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from kexpfam._parallel import cached_property
from kexpfam._typing import Array, Indices, Mask
from kexpfam.display import averaged_along, column_relevance, typical_place
from kexpfam.display.numbers import LEVELS, CurveNumbers
from kexpfam.display.svg import NamedAxis, nice_step, tidy
from kexpfam.errors import KexpfamError
from kexpfam.explanation import ExtrapolationTest, Importance, ModelColumns
from kexpfam.explanation.importance import importance
from kexpfam.tables import CategoryFeature, Coding, DateFeature, Feature
from kexpfam.tables.dates import days_of


class ExplorerError(KexpfamError, ValueError):
    """The page was asked for something that it cannot show."""


@dataclass(frozen=True)
class Control:
    """One condition: a slider for numbers, a list for categories."""

    name: str
    columns: tuple[int, ...]  # of X that it stands for, one for each category
    categories: tuple[str, ...] = ()  # what may be chosen; none for numbers
    low: float = 0.0  # left end of the slider
    high: float = 1.0  # its right end
    step: float = 0.005
    start: float | str = 0.5  # the number or category to begin with
    feature: Feature | None = None  # how it is coded; None for numbers, and one-hot
    origin: float = 0.0  # what is added to the number: the first date
    relevance: float | None = None  # share of what densities depend on; None: not known
    loss: tuple[float, float] | None = None  # of log density without it, and its error
    beside: tuple[str, ...] = ()  # controls that say the same, which the loss is of too

    def cells(self, value: Any) -> list[float]:
        """Values in X, one for each column."""
        if self.categories:
            if value not in self.categories:
                raise ExplorerError(
                    f"{value!r:.60} is not a category of {self.name!r}."
                )
            if self.feature is not None:
                return self.feature.cells(value)
            return [float(value == category) for category in self.categories]
        value = _number(self.name, value)
        if not math.isfinite(value):
            raise ExplorerError(f"{self.name} must be finite, got {value}.")
        if self.feature is not None:
            return self.feature.cells(self.origin + value)
        return [value]

    def value(self, row: Array) -> float | str:
        """The number or category in a row of X, (p,)."""
        cells = row[list(self.columns)]
        if self.feature is not None:
            found = self.feature.value(cells)
            return found if isinstance(found, str) else found - self.origin
        if self.categories:
            return self.categories[int(np.argmax(cells))]
        return float(cells[0])

    @property
    def axis(self) -> NamedAxis:
        """The axis of pictures along it, on which categories are 0, 1, ..."""
        ends = self.low, self.high
        if self.categories:
            ends = -0.6, len(self.categories) - 0.4
        return NamedAxis(self.name, ends, self.categories)

    def as_json(self) -> dict[str, Any]:
        """What the page is told of it."""
        told = ["name", "categories", "low", "high", "step", "start", "relevance"]
        told += ["loss", "beside"]
        return {name: getattr(self, name) for name in told}

    def positions(self, X: Array) -> Array:
        """Where rows are on its axis, NaN where that is not known, (n, p) -> (n,)."""
        cells = X[:, list(self.columns)]
        if not self.categories:
            values = cells[:, 0] if self.feature is None else self.feature.values(cells)
            days = days_of(values) if values.dtype.kind != "f" else values
            assert days is not None
            return np.asarray(days, dtype=float) - self.origin
        if self.feature is None:
            return cells.argmax(axis=1).astype(float)
        place = {name: float(i) for i, name in enumerate(self.categories)}
        labels = self.feature.values(cells).tolist()
        return np.array([place.get(str(label), np.nan) for label in labels])

    def moved(self, X: Array, positions: Array) -> Array:
        """Rows (n, p) with this condition put to positions on its axis, (n,)."""
        places, inverse = np.unique(positions, return_inverse=True)
        values = (
            [self.categories[int(v)] for v in places] if self.categories else places
        )
        cells = np.array([self.cells(value) for value in list(values)])
        whole = range(len(self.columns))
        which = list(whole if self.feature is None else self.feature.moved)
        X = X.copy()
        X[:, [self.columns[i] for i in which]] = cells[inverse][:, which]
        return X


@dataclass(frozen=True, eq=False)
class Subject:
    """A model of p(y|x) with its controls and data.

    Attributes:
        model: Anything fitted with `given(X)`, of one column of y.
        controls: Conditions in the order of the page; together all columns of X.
        target: Name of y.
        title: What the page is called, such as the name of the file.
        X: Rows to compare with, (n, p); none for (0, p).
        y: What was observed there, (n,); NaN where nothing was.
        numbers: What rows are called, counted from 1, (n,).
        source: Where the rows come from, such as the name of a file.
    """

    model: Any
    controls: tuple[Control, ...]
    target: str
    title: str
    X: Array
    y: Array
    numbers: Indices
    source: str = ""

    def control(self, name: Any) -> Control:
        """The control of a name."""
        for control in self.controls:
            if control.name == name:
                return control
        raise ExplorerError(f"There is no feature {name!r:.60}.")

    def row(self, values: Mapping[str, Any]) -> Array:
        """One row of X, (1, p); where the page begins unless values say else."""
        for name in values:
            self.control(name)
        row = np.zeros((1, sum(len(c.columns) for c in self.controls)))
        for control in self.controls:
            value = values.get(control.name, control.start)
            row[0, list(control.columns)] = control.cells(value)
        return row

    def values(self, row: Array) -> dict[str, float | str]:
        """The controls' values at a row of X, (p,)."""
        return {control.name: control.value(row) for control in self.controls}

    def observed(self, place: int) -> float | None:
        """What was observed at a row of the data, if anything was."""
        y = float(self.y[place])
        return y if np.isfinite(y) else None

    def typical_row(self) -> int | None:
        """Which row of the data is nearest to the middle of all; None without data."""
        if not len(self.X):
            return None
        # Columns of categories together, all others for themselves.
        groups = [
            group
            for control in self.controls
            for group in (
                [control.columns]
                if control.feature is None
                else [(column,) for column in control.columns]
            )
        ]
        return typical_place(self.X, groups)

    def starting_at_typical_row(self) -> Self:
        """The same with controls that begin at a typical row, if there are data."""
        place = self.typical_row()
        if place is None:
            return self
        values = self.values(self.X[place])
        controls = [replace(c, start=values[c.name]) for c in self.controls]
        return replace(self, controls=tuple(controls))

    def along(self, control: Control, row: Array, points: int = 41) -> CurveNumbers:
        """Means and quantiles along a feature, the others staying at a row, (1, p)."""
        places = np.linspace(control.low, control.high, points)
        if control.categories:
            places = np.arange(len(control.categories), dtype=float)
        X = control.moved(np.repeat(row, len(places), axis=0), places)
        p = self.model.given(X)
        return CurveNumbers(places, p.mean(), p.quantile(LEVELS), self.unlike(X))

    def averaged_along(self, control: Control) -> CurveNumbers:
        """Means and quantiles along a feature, averaged over the rows most like it."""
        rows = self.rows_to_average()
        if rows is None:
            raise ExplorerError("There are no rows to average over; say --data.")
        ends = None if control.categories else (control.low, control.high)
        place = self.controls.index(control)
        found = averaged_along(rows, place, ends=ends)
        quantiles = found.quantiles(np.array(LEVELS))
        return CurveNumbers(found.places, found.mean(), quantiles, found.few)

    def unlike(self, X: Array) -> Mask:
        """Which rows (n, p) are unlike those of the fit, as far as is known, (n,)."""
        if self._test is None:
            return np.zeros(len(X), dtype=bool)
        return self._test.is_unlike(X)

    @cached_property
    def _test(self) -> ExtrapolationTest | None:
        rows = remembered_rows(self.model)
        return None if rows is None else ExtrapolationTest.of(rows)

    def rows_to_average(self) -> "SubjectRows | None":
        """The data, or rows that the model remembers; None if there are neither."""
        X = self.X if len(self.X) else remembered_rows(self.model)
        return None if X is None else SubjectRows(self, X)

    def by_relevance(self) -> Self:
        """The same with controls in the order of how much densities depend on them."""
        rows = self.rows_to_average()
        if rows is None or not self.controls:
            return self
        shares = column_relevance(rows, len(self.controls)).tolist()
        told = [
            replace(control, relevance=share)
            for control, share in zip(self.controls, shares, strict=True)
        ]
        told.sort(key=lambda control: -(control.relevance or 0.0))
        return replace(self, controls=tuple(told))

    def importance(self, rows: Indices, most: int) -> Importance:
        """What is lost without controls, on some rows of the data, at most so many."""
        columns = ModelColumns(
            tuple(control.name for control in self.controls),
            tuple(control.columns for control in self.controls),
            tuple(control.feature for control in self.controls),
            np.asarray,
            self.model.given,
            n_jobs=getattr(self.model, "n_jobs", None),
        )
        how: dict[str, Any] = {"max_rows": most, "random_state": 0}
        return importance(columns, self.X[rows], self.y[rows], **how)

    def by_importance(self, found: Importance) -> Self:
        """The same with controls in the order of what is lost without them.

        Those that are one group keep the order of how much densities depend on them.
        """
        controls = []
        losses = found.losses["conditional"]["log_density"]
        for names, loss in zip(found.columns, losses, strict=True):
            own = [control for control in self.controls if control.name in names]
            both = loss.value, loss.standard_error
            for control in own:
                others = tuple(name for name in names if name != control.name)
                controls.append(replace(control, loss=both, beside=others))
        return replace(self, controls=tuple(controls))

    def axis(self) -> tuple[float, float]:
        """Values of y that pictures show: those of the data, or of draws without."""
        seen = self.y[np.isfinite(self.y)]
        if not len(seen):
            X = self.X if len(self.X) else self.row({})
            seen = np.ravel(self.model.sample(X[:200], 50, random_state=0))
        low, high = (float(v) for v in np.percentile(seen, [0.5, 99.5]))
        pad = 0.08 * (high - low) or max(1e-6, 0.05 * abs(low))
        return low - pad, high + pad

    def trained_share(self) -> float:
        """How many of the model's training rows have the features of a row of the data.

        About one, if the data are those of the fit. Coincidences count too, so this is
        a reason to warn and no proof.
        """
        near = getattr(self.model, "neighbourhood_", None)
        if near is None or not len(self.X):
            return 0.0
        Z = (self.X - near.center) / near.scale
        known = {row.tobytes() for row in np.round(Z, 6) + 0.0}
        found = [row.tobytes() in known for row in np.round(near.rows, 6) + 0.0]
        return float(np.mean(found))


@dataclass(frozen=True, eq=False)
class SubjectRows:
    """Rows of conditions, (n, p), of which a control can be moved (`ShownRows`)."""

    subject: Subject
    X: Array

    def __len__(self) -> int:
        """How many rows there are."""
        return len(self.X)

    def positions(self, column: int) -> Array:
        """Where the rows are on the axis of a control, (n,)."""
        return self.subject.controls[column].positions(self.X)

    def categories(self, column: int) -> tuple[str, ...]:
        """Categories of a control."""
        return self.subject.controls[column].categories

    def given(
        self, rows: Indices, column: int | None = None, positions: Array | None = None
    ) -> Any:
        """Densities at some rows, with a control put to positions."""
        X = self.X[rows]
        if column is not None:
            assert positions is not None
            X = self.subject.controls[column].moved(X, positions)
        return self.subject.model.given(X)

    def unlike(self, rows: Indices) -> Mask:
        """Which of some rows are unlike those of the fit, (m,)."""
        return self.subject.unlike(self.X[rows])


def remembered_rows(model: Any) -> Array | None:
    """Training rows that a model keeps to tell what is near, (m, p), if it does."""
    near = getattr(model, "neighbourhood_", None)
    return None if near is None else near.center + near.scale * near.rows


@dataclass(frozen=True, eq=False)
class JointSubject:
    """A joint density of several columns, with data."""

    model: Any  # a fitted `FactorizedDensity`
    names: tuple[str, ...]  # of the columns
    title: str  # what the page is called
    rows: Array  # data to compare draws with, (n, d); none for (0, d)
    source: str = ""  # where the rows come from


def kind_of_model(model: Any) -> str:
    """What kind of model it is, in a few words."""
    members = getattr(model, "members_", None)
    count = 0 if members is None else len(members)
    average = f", an average of {count} densities" if count > 1 else ""
    return f"{type(model).__name__}{average}"


def number_control(name: str, column: int, values: Array) -> Control:
    """A slider over most of some numbers, (n,), beginning at their median.

    Example:
        >>> control = number_control("age", 0, np.arange(20.0, 65.0))
        >>> control.low, control.high, control.step, control.start
        (20.0, 64.0, 1.0, 42.0)
    """
    # The outermost values would leave little room for the others.
    low, high = (float(v) for v in np.percentile(values, [1.0, 99.0]))
    if low == high:
        low, high = float(np.min(values)), float(np.max(values))
    if low == high:
        low, high = low - 0.5, high + 0.5
    step = nice_step((high - low) / 200)  # about so many look smooth
    if np.all(values == np.round(values)):
        step = max(1.0, step)
    low, high = step * math.floor(low / step), step * math.ceil(high / step)
    start = low + step * round((float(np.median(values)) - low) / step)
    low, high, step, start = map(tidy, (low, high, step, start))
    return Control(name, (column,), (), low, high, step, start)


def controls_of(coder: Coding, X: Array) -> tuple[Control, ...]:
    """A control for each feature of a table, with the ranges of some rows, (n, p)."""
    parts = zip(coder.features, map(tuple, coder.places), strict=True)
    return tuple(_control(feature, columns, X) for feature, columns in parts)


def _control(feature: Feature, columns: tuple[int, ...], X: Array) -> Control:
    """A control for one feature; a date is so many days from the first."""
    name, coded = feature.name, feature
    if isinstance(feature, CategoryFeature) and not feature.gaps:
        return Control(name, columns, feature.categories, start=feature.typical)
    if feature.categories:
        start = feature.typical
        return Control(name, columns, feature.categories, start=start, feature=coded)
    if not isinstance(feature, DateFeature):
        control = number_control(name, columns[0], X[:, columns[0]])
        return replace(control, columns=columns, feature=coded)
    origin = float(np.floor(feature.low))
    days = np.array([feature.value(row) for row in X[:, list(columns)]], dtype=float)
    called = f"{name}, days from {feature.text(origin)}"
    control = number_control(called, columns[0], days - origin)
    return replace(control, columns=columns, feature=coded, origin=origin)


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ExplorerError(f"{name} must be a number, got {value!r:.60}.")
    if isinstance(value, int) and abs(value) > 2**1000:  # JSON has no largest number
        raise ExplorerError(f"{name} must be a number below 1e300, got {value!r:.60}.")
    return float(value)


@dataclass(frozen=True)
class Question:
    """The fields of one request, as they were sent.

    Example:
        >>> Question({"level": 0.5}).number("level", 0.9, 0.0, 1.0)
        0.5
        >>> Question({}).number("level", 0.9, 0.0, 1.0)
        0.9
    """

    fields: Mapping[str, Any]

    def number(self, name: str, default: float, low: float, high: float) -> float:
        """A finite number between two others."""
        value = _number(name, self.fields.get(name, default))
        if not math.isfinite(value) or not low <= value <= high:
            raise ExplorerError(
                f"{name} must be between {low:g} and {high:g}, got {value:g}."
            )
        return value

    def span(self, name: str) -> tuple[float, float] | None:
        """Two finite numbers, the smaller one first; None if nothing was said."""
        value = self.fields.get(name)
        if value is None:
            return None
        if not isinstance(value, list) or len(value) != 2:
            raise ExplorerError(f"{name} must be two numbers, got {value!r:.60}.")
        low, high = (_number(name, end) for end in value)
        if not (math.isfinite(low) and math.isfinite(high) and low < high):
            raise ExplorerError(f"{name} must be two increasing numbers.")
        return low, high

    def flag(self, name: str) -> bool:
        """Whether something is wanted; no, if nothing was said."""
        value = self.fields.get(name, False)
        if not isinstance(value, bool):
            raise ExplorerError(f"{name} must be true or false, got {value!r:.60}.")
        return value

    def choice(self, name: str, options: Sequence[str]) -> str:
        """One of some texts, the first if nothing was said."""
        value = self.fields.get(name, options[0])
        if value not in options:
            raise ExplorerError(f"{name} must be one of {list(options)}.")
        return str(value)

    def mapping(self, name: str) -> dict[str, Any]:
        """Values by name; none if nothing was said."""
        value = self.fields.get(name, {})
        if not isinstance(value, dict):
            raise ExplorerError(f"{name} must be values by name, got {value!r:.60}.")
        return value

    def size(self, height: float) -> tuple[float, float]:
        """Width and height of a picture."""
        widest = 4000.0  # what no screen asks for
        width = self.number("width", 640.0, 160.0, widest)
        return width, self.number("height", height, 80.0, widest)
