"""The pictures of `kexpfam plot`, drawn with the library's own displays."""

import textwrap
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kexpfam._typing import Array
from kexpfam.cli.shared import note
from kexpfam.display import (
    EXTRAPOLATION,
    UNLIKE,
    ConditionalDensityDisplay,
    averaged_along,
    averaged_title,
    dots_along,
    extrapolated,
    middle_cut,
    typical_place,
)
from kexpfam.display.numbers import LEVELS
from kexpfam.errors import TableWarning
from kexpfam.explorer import Subject
from kexpfam.tables import (
    Coding,
    DateFeature,
    Feature,
    NumberFeature,
    Table,
    TableError,
)


@dataclass(frozen=True)
class Letters:
    """How many letters there is room for."""

    title_name: int = 28  # of a name in a title
    title_line: int = 66  # of a line of a title
    axis_name: int = 44  # of a name beside an axis
    bar_name: int = 26  # of a name beside the bar of colours
    legend_name: int = 18  # of a name in a legend
    legend_line: int = 64  # of a line of a legend
    inside_line: int = 22  # a legend with longer lines is below the picture


ROOM = Letters()


@dataclass(frozen=True, eq=False)
class Along:
    """A model as a function of one feature, all others being fixed."""

    model: Any  # of all features
    row: Array  # where the others are, (1, p)
    columns: list[int]  # those of the one that varies
    feature: Feature  # the one that varies

    @property
    def feature_names_in_(self) -> list[str]:
        """As estimators have it."""
        return [self.feature.name]

    def rows(self, values: Array) -> Array:
        """Conditions at values of the feature, (g,) -> (g, p)."""
        X = np.repeat(self.row, len(values), axis=0)
        cells = np.array([self.feature.cells(value) for value in values.tolist()])
        moved = self.feature.moved
        X[:, [self.columns[i] for i in moved]] = cells[:, moved]
        return X

    def given(self, Z: Array) -> Any:
        """Densities at values of the feature, (g, 1)."""
        return self.model.given(self.rows(Z[:, 0]))


def condition(
    coder: Coding, table: Table | None, values: Mapping[str, str] | None = None
) -> Array:
    """Conditions at some values, (1, p); the others are those of a row that occurs.

    It is the row of the table nearest to these values, or a typical one if there are
    none; without a table, medians and most frequent categories.
    """
    values = values or {}
    row = coder.row(values)
    X = _rows_at_hand(coder, table)
    if X is None:
        return row
    names, groups = [feature.name for feature in coder.features], coder.groups
    chosen = [c for name in values for c in coder.places[names.index(name)]]
    given = {i: row[0, c] for i, c in enumerate(groups) if set(c) <= set(chosen)}
    found = X[[typical_place(X, groups, given)]]
    found[0, chosen] = row[0, chosen]
    return found


def _rows_at_hand(coder: Coding, table: Table | None) -> Array | None:
    """Complete rows of a table with categories that are known, (n, p)."""
    if table is None or not {f.name for f in coder.features} <= set(table.names):
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TableWarning)
            X = coder.transform(table, missing="drop").X
    except TableError:  # a picture of other columns does not fail for this one
        return None
    X = X[coder.known(X)]
    return X if len(X) else None


def draw_along(
    model: Any,
    coder: Coding,
    feature: NumberFeature | DateFeature,
    dots: Array | None,
    row: Array,
) -> Any:
    """Heat map, quantiles and mean along a feature; returns the figure.

    Where no training row is like these it is hatched, and a note says so. Dots are
    observed pairs of feature and target, (n, 2); other features stay at row, (1, p).
    """
    place = [f.name for f in coder.features].index(feature.name)
    along = Along(model, row, coder.places[place], feature)
    ends, y = np.array([[feature.low], [feature.high]]), None
    if dots is not None and len(dots):
        # More dots are a blot, and slow to open.
        chosen = np.random.default_rng(0).permutation(len(dots))[:5000]
        ends, y = dots[chosen, :1], dots[chosen, 1]
    display = ConditionalDensityDisplay.of_estimator(along, ends, y)
    x = display.x
    display.mean = along.given(x[:, None]).mean()
    display.few = few = extrapolated(model, along.rows(x))
    if few.any():
        note(
            f"along {few.mean():.0%} of {feature.name} no training row is like these: "
            f"the curve is hatched there, and is extrapolation."
        )
    target = coder.target or "y"
    where = _at(coder, feature, row)
    seen = "; dots: all rows" if where and y is not None else ""
    display.title = textwrap.fill(f"{where}{seen}", ROOM.title_line + 8)
    display.is_date = isinstance(feature, DateFeature)
    return _labelled(display, feature.name, target)


def draw_averaged(subject: Subject, along: str | None) -> Any:
    """Heat map, quantiles and mean along a feature; returns the figure.

    Other features are averaged over the rows most like each of its values. Without a
    name it is the feature that densities depend on most.
    """
    subject = subject.by_relevance()
    names = [getattr(c.feature, "name", c.name) for c in subject.controls]
    place = 0 if along is None else names.index(along)
    control, rows = subject.controls[place], subject.rows_to_average()
    assert rows is not None  # of the data, or remembered
    y = subject.y if len(subject.X) else np.empty(0)
    observed = y[np.isfinite(y)]
    found = averaged_along(rows, place, observed, alone=len(names) == 1)
    dots = dots_along(rows, place, y) if len(observed) else None
    if dots is not None:
        dots[:, 0] += control.origin
    display = ConditionalDensityDisplay.of_averages(
        replace(found, places=found.places + control.origin),
        levels=np.array(LEVELS),
        data=dots,
        categories=control.categories,
        is_date=isinstance(control.feature, DateFeature),
        atoms=getattr(rows.given(np.array([0])), "atoms", [np.empty(0)])[0],
        title=averaged_title(middle_cut(names[place], ROOM.title_name), len(names)),
    )
    return _labelled(display, names[place], subject.target)


def _labelled(display: ConditionalDensityDisplay, name: str, target: str) -> Any:
    """Draw with names that fit; returns the figure."""
    display.x_label = middle_cut(name, ROOM.axis_name)
    display.y_label = middle_cut(target, ROOM.axis_name)
    display.plot()
    if display.is_date:
        display.figure_.autofmt_xdate()
    display.colorbar_.set_label(f"p({middle_cut(target, ROOM.bar_name)} | features)")
    return display.figure_


def draw_densities(
    model: Any, coder: Coding, X: Array, labels: Sequence[str], observed: Array
) -> Any:
    """Curves of p(y|x) at some conditions; returns the figure.

    A note says which of them are unlike the training rows. What was observed there,
    (n,), is drawn as a dot, unless it is NaN.
    """
    p, unlike = model.given(X), extrapolated(model, X)
    notes = [UNLIKE if own else "" for own in unlike.tolist()]
    for label, words in zip(labels, notes, strict=True):
        if words:
            note(f"{label}: {words}.")
    # With one curve the line below the title says it.
    mark = f" ({EXTRAPOLATION})" if len(notes) > 1 else ""
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
    target = coder.target or "y"
    given = [middle_cut(f.name, ROOM.title_name) for f in coder.features]
    title = f"p({middle_cut(target, ROOM.title_name)} | {_some(given)})"
    axes.set(xlabel=middle_cut(target, ROOM.axis_name))
    axes.figure.suptitle(textwrap.fill(title, ROOM.title_line))
    below = notes[0]
    if len(notes) > 1 and any(notes):
        below = f"{EXTRAPOLATION}: no training row is like these"
    axes.set_title(below, fontsize=8, color="#8a4b00")  # orange that is read on white
    return axes.figure


def _some(words: list[str], most: int = 4) -> str:
    """Names in a title, not too many of them."""
    return ", ".join([*words[:most], *(["..."] if len(words) > most else [])])


def _place_legend(axes: Any, names: Sequence[str]) -> None:
    """Inside, if lines are short; long ones would lie across the curves."""
    if not axes.get_legend_handles_labels()[1]:
        return
    if max(map(len, names)) <= ROOM.inside_line:
        axes.legend(frameon=False)
        return
    if axes.get_legend() is not None:
        axes.get_legend().remove()
    axes.figure.legend(loc="outside lower center", frameon=False, fontsize=9)


def _shortened_label(label: str, mark: str) -> str:
    """Values as "rooms=3, city=Rome", with names cut where the line is too long."""
    if len(label) + len(mark) <= ROOM.legend_line:
        return label + mark
    parts = []
    for part in label.split(","):
        name, equals, value = part.partition("=")
        parts.append(f"{middle_cut(name, ROOM.legend_name)}{equals}{value}")
    return textwrap.fill(", ".join(parts) + mark, ROOM.legend_line)


def _at(coder: Coding, along: Feature, row: Array) -> str:
    """Where the other features are, in a title."""
    parts = []
    for name, value in coder.values(row[0]).items():
        if name != along.name:
            shown = coder.feature(name).text(value)
            # Spaces at which no line ends.
            equals = "\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}"
            parts.append(f"{middle_cut(name, ROOM.title_name)}{equals}{shown}")
    return f"at {_some(parts)}" if parts else ""
