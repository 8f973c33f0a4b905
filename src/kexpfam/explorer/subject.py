"""What is explored, and what a page may ask about it.

The page knows nothing of files and tables. It is told of a control for each condition,
with the columns of X that it stands for, and of rows of data if there are any. What it
asks comes from outside, and is read with care.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from kexpfam._typing import Array, Indices
from kexpfam.display import typical_place
from kexpfam.errors import KexpfamError

# Steps of a slider from one end to the other, about: enough to look smooth.
_STEPS = 200

# Sliders leave out the outermost values, which would leave little room for the others.
_RANGE = (1.0, 99.0)

# Pictures narrower or wider than this are not asked for by any screen.
_NARROWEST, _WIDEST = 160.0, 4000.0


class ExplorerError(KexpfamError, ValueError):
    """The page was asked for something that it cannot show."""


@dataclass(frozen=True)
class Control:
    """One condition: a slider for numbers, a list for categories.

    Attributes:
        name: Its name.
        columns: The columns of X that it stands for, one for each category.
        categories: What may be chosen; none for numbers.
        low: Left end of the slider.
        high: Its right end.
        step: Its step.
        start: The number or category to begin with.
    """

    name: str
    columns: tuple[int, ...]
    categories: tuple[str, ...] = ()
    low: float = 0.0
    high: float = 1.0
    step: float = 0.005
    start: float | str = 0.5

    def cells(self, value: Any) -> list[float]:
        """Values in X, one for each column."""
        if self.categories:
            if value not in self.categories:
                raise ExplorerError(
                    f"{value!r:.60} is not a category of {self.name!r}."
                )
            return [float(value == category) for category in self.categories]
        value = _number(self.name, value)
        if not math.isfinite(value):
            raise ExplorerError(f"{self.name} must be finite, got {value}.")
        return [value]

    def value(self, row: Array) -> float | str:
        """The number or category in a row of X, (p,)."""
        cells = row[list(self.columns)]
        if self.categories:
            return self.categories[int(np.argmax(cells))]
        return float(cells[0])

    def as_json(self) -> dict[str, Any]:
        """What the page is told of it."""
        told = ("name", "categories", "low", "high", "step", "start")
        return {name: getattr(self, name) for name in told}


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

    def typical_row(self) -> int | None:
        """Which row of the data is nearest to the middle of all; None without data."""
        if not len(self.X):
            return None
        return typical_place(self.X, [control.columns for control in self.controls])

    def starting_at_typical_row(self) -> Self:
        """The same with controls that begin at a typical row, if there are data."""
        place = self.typical_row()
        if place is None:
            return self
        values = self.values(self.X[place])
        controls = [replace(c, start=values[c.name]) for c in self.controls]
        return replace(self, controls=tuple(controls))


@dataclass(frozen=True, eq=False)
class JointSubject:
    """A joint density of several columns, with data.

    Attributes:
        model: A fitted `FactorizedDensity`.
        names: Names of the columns.
        title: What the page is called.
        rows: Data to compare draws with, (n, d); none for (0, d).
        source: Where the rows come from.
    """

    model: Any
    names: tuple[str, ...]
    title: str
    rows: Array
    source: str = ""


def kind_of_model(model: Any) -> str:
    """What kind of model it is, in a few words."""
    members = getattr(model, "members_", None)
    average = "" if members is None else f", an average of {len(members)} densities"
    return f"{type(model).__name__}{average}"


def number_control(name: str, column: int, values: Array) -> Control:
    """A slider over most of some numbers, (n,), beginning at their median.

    Example:
        >>> control = number_control("age", 0, np.arange(20.0, 65.0))
        >>> control.low, control.high, control.step, control.start
        (20.0, 64.0, 1.0, 42.0)
    """
    low, high = (float(v) for v in np.percentile(values, _RANGE))
    if low == high:
        low, high = float(np.min(values)), float(np.max(values))
    if low == high:
        low, high = low - 0.5, high + 0.5
    step = nice_step((high - low) / _STEPS)
    if np.all(values == np.round(values)):
        step = max(1.0, step)
    low, high = step * math.floor(low / step), step * math.ceil(high / step)
    start = low + step * round((float(np.median(values)) - low) / step)
    ends = (_tidy(low), _tidy(high), _tidy(step), _tidy(start))
    return Control(name, (column,), (), *ends)


def category_control(
    name: str, columns: Sequence[int], categories: Sequence[str], start: str
) -> Control:
    """A list of categories, one column of X for each."""
    return Control(name, tuple(columns), tuple(categories), start=start)


def nice_step(size: float) -> float:
    """The largest of 1, 2 and 5 times a power of ten that is not larger.

    Example:
        >>> nice_step(0.37), nice_step(7.0)
        (0.2, 5.0)
    """
    power = 10.0 ** math.floor(math.log10(size))
    return _tidy(next(m for m in (5.0, 2.0, 1.0) if m * power <= size * 1.0001) * power)


def _tidy(value: float) -> float:
    """Without digits that only rounding made."""
    return float(f"{value:.12g}")


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ExplorerError(f"{name} must be a number, got {value!r:.60}.")
    return float(value)


@dataclass(frozen=True)
class Question:
    """The fields of one request.

    Attributes:
        fields: What was sent.

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
        width = self.number("width", 640.0, _NARROWEST, _WIDEST)
        return width, self.number("height", height, 80.0, _WIDEST)
