"""The page of a joint density: its graph, and draws of it beside the data."""

import functools
import math
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kexpfam._typing import Array
from kexpfam.display import GraphDisplay
from kexpfam.explorer.subject import (
    Control,
    ExplorerError,
    JointSubject,
    Question,
    kind_of_model,
    number_control,
)
from kexpfam.explorer.svg import (
    PictureFrame,
    Scale,
    bar,
    bars,
    line,
    outline,
    shortened,
    text,
    tick_texts,
    ticks,
)

Answer = dict[str, Any]

# Columns of a scatter matrix; more are too small to see.
MOST_COLUMNS = 6

# Axes reach beyond the sliders to all of the data, but on either side by no more than
# this share of a slider: one far row should not squeeze all others.
_BEYOND = 0.5

# Draws that are shown, and those that evidence is weighed by.
DRAWS, _WEIGHED = 400, 1000

# Pixels of an inch, in which graphs are laid out.
_INCH = 88.0

_BINS = 18

# Pixels: left of a scatter matrix, and around a cell. Cells below a size have small
# names. Between names of neighbours; letters of a large and of a small name. Share of
# a cell that the highest bar takes.
_LEFT, _GAP = 44.0, 4.0
_SMALL_CELL = 90.0
_BETWEEN, _LARGE, _SMALL = 10.0, 7.4, 6.6
_TALL = 0.72


class JointView:
    """Answers to the page's questions about a joint density.

    Args:
        subject: What is explored.
    """

    def __init__(self, subject: JointSubject) -> None:
        self.subject = subject
        self._lock = threading.Lock()

    @property
    def questions(self) -> Mapping[str, Callable[[Question], Answer]]:
        """What may be asked, by name."""
        return {name: getattr(self, name) for name in ("description", "graph", "pairs")}

    def description(self, question: Question) -> Answer:
        """What the page is about, and the columns that may be held fixed."""
        subject = self.subject
        return {
            "kind": "joint",
            "title": subject.title,
            "target": ", ".join(subject.names),
            "model": kind_of_model(subject.model),
            "source": subject.source,
            "rows": len(subject.rows),
            "observed": len(subject.rows),
            "controls": [
                control.as_json() | {"always": control.name in self._exogenous}
                for control in self._controls
            ],
        }

    def graph(self, question: Question) -> Answer:
        """The picture of the graph."""
        graph = self.subject.model.graph_
        names = dict(zip(map(str, graph.names), self._names, strict=True))
        labels = {
            label: tuple(names.get(p, p) for p in parents)
            for label, parents in graph.parent_labels().items()
        }
        renamed = {names.get(node, node): parents for node, parents in labels.items()}
        width, _ = question.size(300.0)
        return {"picture": graph_picture(renamed, self._exogenous, width)}

    def pairs(self, question: Question) -> Answer:
        """Draws, given what is held fixed, beside the data in a scatter matrix."""
        given = question.mapping("given")
        drawn, worth = self.drawn(given)
        shown, columns = drawn[:, :MOST_COLUMNS], self._axes[:MOST_COLUMNS]
        width, _ = question.size(640.0)
        rows = self.subject.rows[: 0 if given else DRAWS, :MOST_COLUMNS]
        return {
            "picture": pairs_picture(rows, shown, columns, width),
            "names": list(self._names),
            "draws": drawn.tolist(),
            "worth": worth,
            "note": outside_note(*(share_outside(v, columns) for v in (shown, rows))),
        }

    def drawn(self, given: Mapping[str, Any]) -> tuple[Array, float | None]:
        """Draws, (n, d), and how many independent ones they are worth if weighted."""
        evidence = {}
        for name in {**dict.fromkeys(self._exogenous), **given}:
            if name not in self._names:
                raise ExplorerError(f"There is no column {name!r:.60}.")
            control = self._controls[self._names.index(name)]
            value = given.get(name, control.start)
            evidence[self._names.index(name)] = control.cells(value)[0]
        model = self.subject.model
        known = set(evidence)
        if all(self._ancestors(c) <= known for c in known):
            return model.sample(DRAWS, random_state=0, given=evidence), None
        # Filters of warnings belong to the process, so one thread at a time sets them.
        with self._lock, warnings.catch_warnings():
            # The page shows what the draws are worth, at every answer.
            warnings.simplefilter("ignore", UserWarning)
            found = model.conditional(evidence, _WEIGHED, random_state=0)
        return found.resample(DRAWS, 0), found.effective_sample_size

    def _ancestors(self, column: int) -> set[int]:
        node = self.subject.model.graph_.node_of(column)
        found: set[int] = set()
        for parent in () if node is None else node.parents:
            found |= {parent} | self._ancestors(parent)
        return found

    @property
    def _names(self) -> tuple[str, ...]:
        return self.subject.names

    @property
    def _exogenous(self) -> list[str]:
        return [self._names[c] for c in self.subject.model.graph_.exogenous]

    @functools.cached_property
    def _controls(self) -> list[Control]:
        """A slider for each column."""
        columns = enumerate(zip(self._names, self._rows.T, strict=True))
        return [number_control(name, i, values) for i, (name, values) in columns]

    @functools.cached_property
    def _axes(self) -> list[Control]:
        """The range of each column that pictures show."""
        return list(map(_reaching, self._controls, self._rows.T))

    @functools.cached_property
    def _rows(self) -> Array:
        """Data, or draws without any, (n, d)."""
        if len(self.subject.rows):
            return self.subject.rows
        if self._exogenous:
            raise ExplorerError(
                f"{self._exogenous[0]!r} is a condition of this model, and its range "
                f"is not known without data; say --data."
            )
        return self.subject.model.sample(DRAWS, random_state=0)


def _reaching(control: Control, values: Array) -> Control:
    """A control whose ends hold all of some values, (n,), as far as they may."""
    most = math.floor(_BEYOND * (control.high - control.low) / control.step)
    below = math.ceil((control.low - float(values.min())) / control.step)
    above = math.ceil((float(values.max()) - control.high) / control.step)
    low, high = (min(max(0, steps), most) * control.step for steps in (below, above))
    return replace(control, low=control.low - low, high=control.high + high)


def outside_note(draws: float, data: float) -> str:
    """How much of what was drawn is not to be seen, by shares; nothing if all is.

    Example:
        >>> outside_note(0.05, 0.0)
        'Outside the ranges shown: 5.0 % of the draws.'
    """
    parts = [
        f"{100 * share:.1f} % of the {name}"
        for share, name in ((draws, "draws"), (data, "data"))
        if share > 0.0
    ]
    return f"Outside the ranges shown: {', '.join(parts)}." if parts else ""


def graph_picture(
    parents: Mapping[str, Sequence[str]], exogenous: Sequence[str], width: float
) -> str:
    """Which column depends on which; conditions, exogenous, have dashed boxes.

    What does not fit into the width, in pixels, is made smaller.
    """
    display = GraphDisplay(list(parents), parents, exogenous=exogenous)
    low, high = display.corners()
    scale = min(_INCH, width / float(high[0] - low[0]))
    size, box = scale * (high - low), scale * display.box

    def place(point: Array) -> Array:
        return np.array([point[..., 0] - low[0], high[1] - point[..., 1]]) * scale

    parts = []
    for curve in display.curves.values():
        xs, ys = place(curve)
        parts += [line(xs, ys, "edge"), _arrow_head(xs, ys)]
    for name, middle in display.positions.items():
        x, y = place(middle)
        kind = "node given" if name in exogenous else "node"
        parts.append(
            f'<rect class="{kind}" x="{x - box[0] / 2:.1f}" y="{y - box[1] / 2:.1f}" '
            f'width="{box[0]:.1f}" height="{box[1]:.1f}" rx="8"/>'
        )
        most = max(2, int(box[0] / 7.2))
        parts.append(text(x, y + 4.5, shortened(name, most), "node-name", "middle"))
    frame = PictureFrame(
        float(size[0]), float(size[1]), Scale(0, 1, 0, 1), Scale(0, 1, 0, 1)
    )
    return frame.picture("".join(parts), "Graph of the columns")


def _arrow_head(xs: Array, ys: Array) -> str:
    """A small triangle at the end of a curve."""
    back = max(0, len(xs) - 5)
    along = np.array([xs[-1] - xs[back], ys[-1] - ys[back]])
    along /= max(float(np.hypot(*along)), 1e-9)
    across = np.array([-along[1], along[0]])
    tip = np.array([xs[-1], ys[-1]])
    corners = [tip, tip - 9 * along + 4 * across, tip - 9 * along - 4 * across]
    path = "L".join(f"{x:.1f} {y:.1f}" for x, y in corners)
    return f'<path class="arrow" d="M{path}Z"/>'


@dataclass(frozen=True)
class _Matrix:
    """Where the cells of a scatter matrix are.

    Attributes:
        columns: Names and ranges of the columns.
        cell: Width and height of a cell, with the gap around it.
    """

    columns: Sequence[Control]
    cell: float

    def x(self, j: int) -> Scale:
        """Horizontal scale of a column."""
        low, high = shown_range(self.columns[j])
        start = _LEFT + j * self.cell
        return Scale(low, high, start + _GAP, start + self.cell - _GAP)

    def y(self, i: int) -> Scale:
        """Vertical scale of a row."""
        low, high = shown_range(self.columns[i])
        return Scale(low, high, (i + 1) * self.cell - _GAP, i * self.cell + _GAP)

    @property
    def bottom(self) -> float:
        """Where the last row ends."""
        return len(self.columns) * self.cell

    @property
    def is_small(self) -> bool:
        """Whether names have to be small."""
        return self.cell < _SMALL_CELL

    def name(self, i: int, room: float) -> str:
        """Name of a column, as much of it as a cell has room for."""
        letter = _SMALL if self.is_small else _LARGE
        most = max(2, int((self.cell - room) / letter))
        return shortened(self.columns[i].name, most)


def pairs_picture(
    rows: Array, draws: Array, columns: Sequence[Control], width: float
) -> str:
    """Histograms on the diagonal, and all pairs of columns below it.

    There are no rows of data, (0, k), where draws, (m, k), are conditional.
    """
    matrix = _Matrix(columns, (width - _LEFT - 8.0) / len(columns))
    parts = []
    for i in range(len(columns)):
        for j in range(i):
            parts += [_frame(matrix, i, j), _scatter(rows, draws, matrix, i, j)]
        parts += [_frame(matrix, i, i), _marginal(rows[:, i], draws[:, i], matrix, i)]
        parts.append(_margin(matrix, i))
    unit = Scale(0, 1, 0, 1)
    frame = PictureFrame(width, matrix.bottom + 46.0, unit, unit)
    return frame.picture("".join(parts), "Pairs of columns, draws and data")


def _frame(matrix: _Matrix, i: int, j: int) -> str:
    size = matrix.cell - 2 * _GAP
    return bar(matrix.x(j).start, matrix.y(i).end, size, size, "cell")


def _scatter(rows: Array, draws: Array, matrix: _Matrix, i: int, j: int) -> str:
    frame = PictureFrame(0.0, 0.0, matrix.x(j), matrix.y(i))
    radius = 1.8 if matrix.cell > 110 else 1.2
    under = frame.dots(rows[:, j], rows[:, i], "dot", radius)
    return under + frame.dots(draws[:, j], draws[:, i], "drawn", radius)


def _marginal(rows: Array, draws: Array, matrix: _Matrix, i: int) -> str:
    """Histograms of one column, of data as bars and of draws as an outline."""
    x, y = matrix.x(i), matrix.y(i)
    edges = _edges(matrix.columns[i])
    seen, drawn = (np.histogram(v, edges)[0] / max(len(v), 1) for v in (rows, draws))
    # A column that is held fixed is one high bar, which must not hide its name.
    highest = max(seen.max(), drawn.max(), np.finfo(float).tiny)
    scale = _TALL * (y.start - y.end) / highest
    under = bars(x(edges), y.start, scale * seen, 1.0, "seen-bar") if len(rows) else ""
    over = outline(x(edges), y.start, scale * drawn, "curve")
    name = matrix.name(i, room=20.0)
    kind = "name small" if matrix.is_small else "name"
    return under + over + text(x.start + 5, y.end + 15, name, kind)


def _edges(control: Control) -> Array:
    """Bins of one width, of some steps of the slider: whole numbers fill them alike.

    They begin half a step below a place of the slider, so that no value is on an edge,
    and reach beyond its ends where these are no whole number of bins apart.
    """
    places = round((control.high - control.low) / control.step) + 1
    wide = -(-places // _BINS)
    count = -(-places // wide)
    before = (count * wide - places) // 2
    steps = np.arange(count + 1.0) * wide - before - 0.5
    return control.low + control.step * steps


def shown_range(control: Control) -> tuple[float, float]:
    """Ends of the axis of a column: those of its bins."""
    edges = _edges(control)
    return float(edges[0]), float(edges[-1])


def share_outside(values: Array, columns: Sequence[Control]) -> float:
    """How many rows, (n, k), are outside the axes in some column, as a share."""
    if not len(values):
        return 0.0
    low, high = np.array([shown_range(control) for control in columns]).T
    return float(np.mean(((values < low) | (values > high)).any(axis=1)))


def _margin(matrix: _Matrix, i: int) -> str:
    """Ticks of one column: left of its row, and below its column."""
    x, y = matrix.x(i), matrix.y(i)
    values = ticks(x.low, x.high, max(2, int(matrix.cell / 45)))
    parts = []
    for value, label in zip(values, tick_texts(values), strict=True):
        if len(label) * 6.6 < matrix.cell:
            below = matrix.bottom + 16
            parts.append(text(float(x(value)), below, label, "tick", "middle"))
        if i > 0:
            parts.append(text(_LEFT - 2, float(y(value)) + 4, label, "tick", "end"))
    middle = 0.5 * (x.start + x.end)
    name = matrix.name(i, room=_BETWEEN)
    kind = "label small" if matrix.is_small else "label"
    parts.append(text(middle, matrix.bottom + 36, name, kind, "middle"))
    return "".join(parts)
