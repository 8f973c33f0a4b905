"""The pictures of `kexpfam plot`, drawn with the library's own displays."""

import itertools
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kexpfam._typing import Array, Mask
from kexpfam.cli.coding import Coding, Feature
from kexpfam.cli.shared import note
from kexpfam.cli.tables import Table, TableError
from kexpfam.display import (
    FEW_NEAR,
    FEW_ROWS,
    ConditionalDensityDisplay,
    few_near,
    near_note,
    rows_near,
    typical_place,
)

# Dots of a picture; more are a blot, and slow to open.
_MOST_DOTS = 5000

# Other features that are named in a title.
_MOST_NAMED = 4

# Letters: of a name in a title, of a line of a title, of a name beside an axis and
# beside the bar of colours, of a name in a legend and of a whole line of it. A legend
# with longer lines than the last is below the picture.
_TITLE_NAME, _TITLE_LINE = 28, 66
_AXIS_NAME, _BAR_NAME = 44, 26
_LEGEND_NAME, _LEGEND_LINE = 18, 64
_INSIDE_LINE = 22

# Of notes: dark orange, which is read on white.
_NOTE = "#8a4b00"


@dataclass(frozen=True, eq=False)
class Along:
    """A model as a function of one feature, all others being fixed.

    Attributes:
        model: The model of all features.
        row: Where the others are, (1, p).
        column: The one that varies.
        name: Its name.
    """

    model: Any
    row: Array
    column: int
    name: str

    @property
    def feature_names_in_(self) -> list[str]:
        """As estimators have it."""
        return [self.name]

    def rows(self, values: Array) -> Array:
        """Conditions at values of the feature, (g,) -> (g, p)."""
        X = np.repeat(self.row, len(values), axis=0)
        X[:, self.column] = values
        return X

    def given(self, Z: Array) -> Any:
        """Densities at values of the feature, (g, 1)."""
        return self.model.given(self.rows(Z[:, 0]))


def condition(
    coding: Coding, table: Table | None, values: Mapping[str, str] | None = None
) -> Array:
    """Conditions at some values, (1, p); the others are those of a row that occurs.

    It is the row of the table nearest to these values, or a typical one if there are
    none; without a table, medians and most frequent categories.
    """
    values = values or {}
    row = coding.row(values)
    X = _rows_at_hand(coding, table)
    if X is None:
        return row
    names = [feature.name for feature in coding.features]
    columns = columns_of(coding.features)
    given = {names.index(name): row[0, columns[names.index(name)]] for name in values}
    found = X[[typical_place(X, columns, given)]]
    for i, cells in given.items():
        found[0, columns[i]] = cells
    return found


def _rows_at_hand(coding: Coding, table: Table | None) -> Array | None:
    """Complete rows of a table with categories that are known, (n, p)."""
    if table is None or not {f.name for f in coding.features} <= set(table.names):
        return None
    try:
        X = coding.matrix(table, missing="drop", unknown="ignore").X
    except TableError:  # a picture of other columns does not fail for this one
        return None
    X = X[with_categories(coding.features, X)]
    return X if len(X) else None


def columns_of(features: Sequence[Feature]) -> list[list[int]]:
    """The columns of X of each feature."""
    ends = itertools.accumulate((len(f.columns) for f in features), initial=0)
    return [list(range(*pair)) for pair in itertools.pairwise(ends)]


def with_categories(features: Sequence[Feature], X: Array) -> Mask:
    """Rows whose categories are all known: pictures can show no others, (n,)."""
    known = [
        X[:, columns].any(axis=1)
        for feature, columns in zip(features, columns_of(features), strict=True)
        if feature.categories
    ]
    return np.all([np.ones(len(X), dtype=bool), *known], axis=0)


def draw_along(
    model: Any,
    coding: Coding,
    feature: Feature,
    dots: Array | None,
    row: Array,
) -> Any:
    """Heat map, quantiles and mean along a feature; returns the figure.

    Where hardly any training rows are near it is hatched, and a note says so. Dots are
    observed pairs of feature and target, (n, 2); other features stay at row, (1, p).
    """
    column = coding.columns.index(feature.name)
    along = Along(model, row, column, feature.name)
    ends = np.array([[feature.low], [feature.high]])
    y = None
    if dots is not None and len(dots):
        chosen = np.random.default_rng(0).permutation(len(dots))[:_MOST_DOTS]
        ends, y = dots[chosen, :1], dots[chosen, 1]
    display = ConditionalDensityDisplay.from_estimator(along, ends, y)
    axes = display.ax_
    mean = along.given(display.x[:, None]).mean()
    axes.plot(display.x, mean, color="k", linewidth=1.2, linestyle=":", label="mean")
    few = few_near(model, along.rows(display.x))
    if few.any():
        note(
            f"along {few.mean():.0%} of {feature.name} fewer than {FEW_ROWS:g} "
            f"training rows are near: the curve is hatched there, and mostly "
            f"extrapolation."
        )
    _hatch(axes, display.x, few)
    # On white, as hatching may be behind it.
    axes.legend(loc="best", framealpha=0.9, edgecolor="none")
    target = coding.target or "y"
    where = _at(coding, feature, row)
    seen = "; dots: all rows" if where and y is not None else ""
    axes.set(
        xlabel=middle_cut(feature.name, _AXIS_NAME),
        ylabel=middle_cut(target, _AXIS_NAME),
    )
    axes.set_title(_wrapped(f"{where}{seen}", _TITLE_LINE + 8), fontsize=9)
    display.colorbar_.set_label(f"p({middle_cut(target, _BAR_NAME)} | features)")
    return display.figure_


def _hatch(axes: Any, x: Array, few: Mask) -> None:
    """Dim and hatch the places of a curve where few rows are near."""
    changes = np.flatnonzero(np.diff(np.concatenate([[0], few.astype(int), [0]])))
    half = 0.5 * (x[1] - x[0])
    for i, (first, last) in enumerate(changes.reshape(-1, 2)):
        axes.axvspan(
            x[first] - half,
            x[last - 1] + half,
            facecolor=(1.0, 1.0, 1.0, 0.45),
            edgecolor="0.78",
            linewidth=0.0,
            hatch="///",
            zorder=2.5,
            label=None if i else FEW_NEAR,
        )


def draw_densities(
    model: Any, coding: Coding, X: Array, labels: Sequence[str], observed: Array
) -> Any:
    """Curves of p(y|x) at some conditions; returns the figure.

    A note says which of them rest on few rows. What was observed there, (n,), is drawn
    as a dot, unless it is NaN.
    """
    p, near = model.given(X), rows_near(model, X)
    notes = [""] * len(X) if near is None else [near_note(n) for n in near.tolist()]
    for label, words in zip(labels, notes, strict=True):
        if words:
            note(f"{label}: {words}.")
    # With one curve the line below the title says it.
    mark = f" ({FEW_NEAR})" if len(notes) > 1 else ""
    names = [
        _shortened_label(label, mark if words else "")
        for label, words in zip(labels, notes, strict=True)
    ]
    axes = p.plot(label=names)
    seen = ~np.isnan(observed)
    if seen.any():
        heights = p.pdf(np.where(seen, observed, p.median()))
        axes.plot(observed[seen], heights[seen], "ko", markersize=5, label="observed")
    _place_legend(axes, names)
    target = coding.target or "y"
    given = [middle_cut(f.name, _TITLE_NAME) for f in coding.features]
    title = f"p({middle_cut(target, _TITLE_NAME)} | {_some(given)})"
    axes.set(xlabel=middle_cut(target, _AXIS_NAME))
    axes.figure.suptitle(_wrapped(title, _TITLE_LINE))
    below = notes[0]
    if len(notes) > 1 and any(notes):
        below = (
            f"{FEW_NEAR}: fewer than {FEW_ROWS:g} training rows; these densities are "
            f"mostly extrapolation"
        )
    axes.set_title(below, fontsize=8, color=_NOTE)
    return axes.figure


def _some(words: list[str]) -> str:
    more = ["..."] if len(words) > _MOST_NAMED else []
    return ", ".join([*words[:_MOST_NAMED], *more])


def _place_legend(axes: Any, names: Sequence[str]) -> None:
    """Inside, if lines are short; long ones would lie across the curves."""
    if not axes.get_legend_handles_labels()[1]:
        return
    if max(map(len, names)) <= _INSIDE_LINE:
        axes.legend(frameon=False)
        return
    if axes.get_legend() is not None:
        axes.get_legend().remove()
    axes.figure.legend(loc="outside lower center", frameon=False, fontsize=9)


def middle_cut(text: str, most: int) -> str:
    """A text without its middle if it is too long: ends tell names apart.

    Example:
        >>> middle_cut("length_of_the_sepal_1", 11)
        'lengt…pal_1'
    """
    if len(text) <= most:
        return text
    tail = (most - 1) // 2
    return f"{text[: most - 1 - tail]}…{text[len(text) - tail :]}"


def _shortened_label(label: str, mark: str) -> str:
    """Values as "rooms=3, city=Rome", with names cut where the line is too long."""
    if len(label) + len(mark) <= _LEGEND_LINE:
        return label + mark
    parts = []
    for part in label.split(","):
        name, equals, value = part.partition("=")
        parts.append(f"{middle_cut(name, _LEGEND_NAME)}{equals}{value}")
    return "\n".join(textwrap.wrap(", ".join(parts) + mark, _LEGEND_LINE))


def _wrapped(text: str, most: int) -> str:
    return "\n".join(textwrap.wrap(text, most))


def _at(coding: Coding, along: Feature, row: Array) -> str:
    """Where the other features are, in a title."""
    parts = []
    for feature, columns in zip(
        coding.features, columns_of(coding.features), strict=True
    ):
        if feature.name != along.name:
            value = f"{row[0, columns[0]]:.4g}"
            if feature.categories:
                value = feature.categories[int(np.argmax(row[0, columns]))]
            # Spaces at which no line ends.
            name = middle_cut(feature.name, _TITLE_NAME)
            parts.append(f"{name}\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}{value}")
    return f"at {_some(parts)}" if parts else ""
