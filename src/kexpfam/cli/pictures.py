"""The pictures of `kexpfam plot`, drawn with the library's own displays."""

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kexpfam._typing import Array, Mask
from kexpfam.cli.coding import Coding, Feature
from kexpfam.cli.tables import Table, TableError
from kexpfam.display import ConditionalDensityDisplay
from kexpfam.explorer.numbers import few_near, rows_near
from kexpfam.explorer.typical import Block, typical_place
from kexpfam.explorer.wording import FEW_NEAR, FEW_ROWS, near_note

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

    def given(self, Z: Array) -> Any:
        """Densities at values of the feature, (g, 1)."""
        X = np.repeat(self.row, len(Z), axis=0)
        X[:, self.column] = Z[:, 0]
        return self.model.given(X)

    def few(self, values: Array) -> Mask:
        """Where hardly any training rows are near, at values of the feature, (g,)."""
        X = np.repeat(self.row, len(values), axis=0)
        X[:, self.column] = values
        return few_near(self.model, X)


def condition(
    coding: Coding, table: Table | None, values: Mapping[str, str] | None = None
) -> Array:
    """Conditions at some values, (1, p); the others are those of a row that occurs.

    It is the row of the table nearest to these values, or a typical one if there are
    none; without a table, medians and most frequent categories.

    Args:
        coding: How the model sees tables.
        table: Rows at hand, or None.
        values: Values of some features, as texts.

    Raises:
        TableError: An unknown feature or category, or a text for a number.
    """
    values = values or {}
    row = coding.row(values)
    X = _rows_at_hand(coding, table)
    if X is None:
        return row
    blocks = _blocks(coding)
    names = [feature.name for feature in coding.features]
    given = {}
    for name in values:
        i = names.index(name)
        given[i] = row[0, list(blocks[i].columns)].tolist()
    place = typical_place(X, blocks, given)
    found = X[place : place + 1].copy()
    for i, cells in given.items():
        found[0, list(blocks[i].columns)] = cells
    return found


def _rows_at_hand(coding: Coding, table: Table | None) -> Array | None:
    """Complete rows of a table with categories that are known, (n, p)."""
    if table is None or not {f.name for f in coding.features} <= set(table.names):
        return None
    try:
        X = coding.matrix(table, missing="drop", unknown="ignore").X
    except TableError:  # a picture of other columns does not fail for this one
        return None
    for block in _blocks(coding):
        if block.is_category:
            X = X[X[:, list(block.columns)].any(axis=1)]
    return X if len(X) else None


def _blocks(coding: Coding) -> list[Block]:
    blocks = []
    first = 0
    for feature in coding.features:
        columns = tuple(range(first, first + len(feature.columns)))
        blocks.append(Block(columns, bool(feature.categories)))
        first += len(columns)
    return blocks


def density_notes(model: Any, X: Array, labels: Sequence[str]) -> list[str]:
    """What has to be said of densities that rest on few rows.

    Args:
        model: A fitted model.
        X: Conditions, (n, p).
        labels: A name for each.
    """
    near = rows_near(model, X)
    if near is None:
        return []
    notes = [
        (label, near_note(float(n))) for label, n in zip(labels, near, strict=True)
    ]
    return [f"{label}: {note}." for label, note in notes if note]


def curve_notes(
    model: Any, coding: Coding, feature: Feature, row: Array, dots: Array | None
) -> list[str]:
    """What has to be said of a curve that partly rests on few rows.

    Args:
        model: A fitted model.
        coding: How it sees tables.
        feature: The feature of the curve.
        row: Where the others are, (1, p).
        dots: As in `draw_along`.
    """
    along = Along(model, row, coding.columns.index(feature.name), feature.name)
    ends = [feature.low, feature.high] if dots is None or not len(dots) else dots[:, 0]
    share = float(np.mean(along.few(np.linspace(np.min(ends), np.max(ends), 200))))
    if not share:
        return []
    return [
        f"along {share:.0%} of {feature.name} fewer than {FEW_ROWS:g} training rows "
        f"are near: the curve is hatched there, and mostly extrapolation."
    ]


def draw_along(
    model: Any,
    coding: Coding,
    feature: Feature,
    dots: Array | None,
    row: Array,
) -> Any:
    """Heat map, quantiles and mean along a feature; returns the figure.

    Args:
        model: A fitted model.
        coding: How it sees tables.
        feature: A feature that is a number.
        dots: Observed pairs of feature and target, (n, 2), or None.
        row: Where the others are, (1, p).
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
    _hatch(axes, display.x, along.few(display.x))
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

    Args:
        model: A fitted model.
        coding: How it sees tables.
        X: Conditions, (n, p).
        labels: A name for each.
        observed: What was observed there, drawn as a dot; NaN for nothing, (n,).
    """
    p = model.given(X)
    few = few_near(model, X)
    # With one curve the line below the title says it.
    marks = [f" ({FEW_NEAR})" if f and len(few) > 1 else "" for f in few]
    names = [_shortened_label(n, m) for n, m in zip(labels, marks, strict=True)]
    axes = p.plot(label=names)
    seen = ~np.isnan(observed)
    if seen.any():
        heights = p.pdf(np.where(seen, observed, p.median()))
        axes.plot(observed[seen], heights[seen], "ko", markersize=5, label="observed")
    _place_legend(axes, names)
    target = coding.target or "y"
    axes.set(xlabel=middle_cut(target, _AXIS_NAME))
    axes.figure.suptitle(_wrapped(_density_title(coding, target), _TITLE_LINE))
    axes.set_title(_few_line(model, X), fontsize=8, color=_NOTE)
    return axes.figure


def _density_title(coding: Coding, target: str) -> str:
    names = [middle_cut(f.name, _TITLE_NAME) for f in coding.features[:_MOST_NAMED]]
    more = ", ..." if len(coding.features) > _MOST_NAMED else ""
    return f"p({middle_cut(target, _TITLE_NAME)} | {', '.join(names)}{more})"


def _few_line(model: Any, X: Array) -> str:
    """A line below the title, if densities rest on few rows."""
    near = rows_near(model, X)
    if near is None or np.all(near >= FEW_ROWS):
        return ""
    if len(near) == 1:
        return near_note(float(near[0]))
    return (
        f"{FEW_NEAR}: fewer than {FEW_ROWS:g} training rows; these densities are "
        f"mostly extrapolation"
    )


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
    for feature, block in zip(coding.features, _blocks(coding), strict=True):
        if feature.name != along.name:
            cells = row[0, list(block.columns)]
            value = f"{cells[0]:.4g}"
            if feature.categories:
                value = feature.categories[int(np.argmax(cells))]
            # Spaces at which no line ends.
            name = middle_cut(feature.name, _TITLE_NAME)
            parts.append(f"{name}\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}{value}")
    if not parts:
        return ""
    more = ", ..." if len(parts) > _MOST_NAMED else ""
    return f"at {', '.join(parts[:_MOST_NAMED])}{more}"
