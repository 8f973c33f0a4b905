"""The page of a joint density: its graph, and draws of it beside the data."""

import math
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kexpfam._parallel import cached_property
from kexpfam._typing import Array
from kexpfam.display import GraphDisplay
from kexpfam.display.svg import (
    LETTER,
    PictureFrame,
    Scale,
    bar,
    bars,
    line,
    outline,
    picture,
    shortened,
    text,
    tick_texts,
    ticks,
)
from kexpfam.explorer.subject import (
    Control,
    ExplorerError,
    JointSubject,
    Question,
    kind_of_model,
    number_control,
)
from kexpfam.tables.dates import text_of_day

Answer = dict[str, Any]


@dataclass(frozen=True)
class JointSpec:
    """How much of a joint density is shown and computed."""

    columns: int = 6  # of a scatter matrix; more are too small to see
    draws: int = 400  # that are shown
    weighted: int = 1000  # draws that evidence is weighed by
    # Axes reach beyond the sliders to all of the data, but on either side by no more
    # than this share of a slider: one far row should not squeeze all others.
    beyond: float = 0.5


class JointView:
    """Answers to the page's questions about a joint density.

    Args:
        subject: What is explored.
        spec: How much of it.
    """

    def __init__(self, subject: JointSubject, spec: JointSpec | None = None) -> None:
        self.subject = subject
        self.spec = spec or JointSpec()
        self._names = subject.names
        exogenous = subject.model.graph_.exogenous
        self._exogenous = [subject.names[c] for c in exogenous]
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
                control.as_json() | {"always": name in self._exogenous}
                for name, control in zip(self._names, self._controls, strict=True)
            ],
        }

    def graph(self, question: Question) -> Answer:
        """The picture of the graph."""
        graph = self.subject.model.graph_
        names = dict(zip(map(str, graph.names), self._names, strict=True))
        renamed = {
            names.get(node, node): tuple(names.get(p, p) for p in parents)
            for node, parents in graph.parent_labels().items()
        }
        width, _ = question.size(300.0)
        return {"picture": graph_picture(renamed, self._exogenous, width)}

    def pairs(self, question: Question) -> Answer:
        """Draws, given what is held fixed, beside the data in a scatter matrix."""
        given, most = question.mapping("given"), self.spec.columns
        drawn, worth = self.drawn(given)
        rows = self.subject.rows[: 0 if given else self.spec.draws]
        origins = [control.origin for control in self._controls]
        shown, rows = ((values - origins)[:, :most] for values in (drawn, rows))
        columns, (width, _) = self._axes[:most], question.size(640.0)
        return {
            "picture": pairs_picture(rows, shown, columns, width),
            "names": list(self._names),
            "draws": self._written(drawn),
            "worth": worth,
            "note": outside_note(*(share_outside(v, columns) for v in (shown, rows))),
        }

    def drawn(self, given: Mapping[str, Any]) -> tuple[Array, float | None]:
        """Draws, (n, d), and how many independent ones they are worth if weighted."""
        evidence = {}
        values = {self._place(name): value for name, value in given.items()}
        for place in {*map(self._names.index, self._exogenous), *values}:
            control = self._controls[place]
            value = values.get(place, control.start)
            (first, *_) = control.cells(value)  # refuses what is no number or category
            evidence[place] = value if control.categories else control.origin + first
        model, draws = self.subject.model, self.spec.draws
        known = set(evidence)
        if all(self._ancestors(c) <= known for c in known):
            found = model.sample(draws, random_state=0, given=evidence)
            return self._as_numbers(found), None
        # Filters of warnings belong to the process, so one thread at a time sets them.
        with self._lock, warnings.catch_warnings():
            # The page shows what the draws are worth, at every answer.
            warnings.simplefilter("ignore", UserWarning)
            weighted = model.conditional(evidence, self.spec.weighted, random_state=0)
        return weighted.resample(draws, 0), weighted.effective_sample_size

    @property
    def _table(self) -> Any:
        """Which columns are categories or dates, `JointColumns`; None if none are."""
        return getattr(self.subject.model, "_columns", None)

    def _place(self, name: str) -> int:
        """Which column it is, by its name or by that of its control."""
        for place, known in enumerate(self._names):
            if name in (known, self._controls[place].name):
                return place
        raise ExplorerError(f"There is no column {name!r:.60}.")

    def _written(self, draws: Array) -> Any:
        """Draws as people read them: categories and moments as texts."""
        if self._table is None:
            return draws.tolist()
        rows = self._table.cells(draws).tolist()
        return [[v if isinstance(v, float) else str(v) for v in row] for row in rows]

    def _as_numbers(self, draws: Any) -> Array:
        """Draws with places of categories and days, as the data have them, (n, d)."""
        return draws if self._table is None else self._table.rows(draws)

    def _ancestors(self, column: int) -> set[int]:
        """Columns that a column depends on, in any of the orders of the model."""
        found: set[int] = set()
        for order in self.subject.model.orders_:
            found |= _ancestors(order.graph, column)
        return found

    @cached_property
    def _controls(self) -> list[Control]:
        """A slider for each column, and a list for categories."""
        found = []
        for i, (name, values) in enumerate(zip(self._names, self._rows.T, strict=True)):
            kind = "number" if self._table is None else self._table.columns[i].kind
            if kind == "category":
                found.append(_list(name, i, values, self._table.columns[i].categories))
            elif kind == "date":
                first = float(np.floor(values.min()))
                called = f"{name}, days from {text_of_day(first)}"
                control = number_control(called, i, values - first)
                found.append(replace(control, origin=first))
            else:
                found.append(number_control(name, i, values))
        return found

    @cached_property
    def _axes(self) -> list[Control]:
        """The range of each column that pictures show."""
        pairs = zip(self._controls, self._rows.T, strict=True)
        return [
            control
            if control.categories
            else _reaching(control, values - control.origin, self.spec.beyond)
            for control, values in pairs
        ]

    @cached_property
    def _rows(self) -> Array:
        """Data, or draws without any, (n, d)."""
        if len(self.subject.rows):
            return self.subject.rows
        if self._exogenous:
            raise ExplorerError(
                f"{self._exogenous[0]!r} is a condition of this model, and its range "
                f"is not known without data; say --data."
            )
        return self._as_numbers(
            self.subject.model.sample(self.spec.draws, random_state=0)
        )


def _list(name: str, i: int, places: Array, categories: tuple[str, ...]) -> Control:
    """A list of categories, beginning at the most frequent one."""
    # A value that was not there at the fit has the place after all others.
    counts = np.bincount(places.astype(int), minlength=len(categories) + 1)[:-1]
    start = categories[int(np.argmax(counts))]
    return Control(name, (i,), categories, 0.0, len(categories) - 1.0, 1.0, start)


def _ancestors(graph: Any, column: int) -> set[int]:
    found: set[int] = set()
    for node in graph.nodes:
        for parent in node.parents if column in node.columns else ():
            found |= {parent} | _ancestors(graph, parent)
    return found


def _reaching(control: Control, values: Array, beyond: float) -> Control:
    """A control whose ends hold all of some values, (n,), as far as they may."""
    most = math.floor(beyond * (control.high - control.low) / control.step)
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
    # Graphs are laid out in inches, of so many pixels.
    scale = min(88.0, width / float(high[0] - low[0]))
    wide, tall = scale * display.box
    parts = []
    for curve in display.curves.values():
        path = scale * np.column_stack([curve[:, 0] - low[0], high[1] - curve[:, 1]])
        parts += [line(path[:, 0], path[:, 1], "edge"), _arrow_head(path)]
    for name, middle in display.positions.items():
        x, y = scale * (middle[0] - low[0]), scale * (high[1] - middle[1])
        kind = "node given" if name in exogenous else "node"
        parts.append(
            f'<rect class="{kind}" x="{x - wide / 2:.1f}" y="{y - tall / 2:.1f}" '
            f'width="{wide:.1f}" height="{tall:.1f}" rx="8"/>'
        )
        most = max(2, int(wide / 7.2))
        parts.append(text(x, y + 4.5, shortened(name, most), "node-name", "middle"))
    size = tuple((scale * (high - low)).tolist())
    return picture(size, "".join(parts), "Graph of the columns")


def _arrow_head(path: Array) -> str:
    """A small triangle at the end of a curve, (n, 2)."""
    tip = path[-1]
    along = tip - path[max(0, len(path) - 5)]
    along = along / max(float(np.hypot(*along)), 1e-9)
    across = np.array([-along[1], along[0]])
    corners = [tip, tip - 9 * along + 4 * across, tip - 9 * along - 4 * across]
    outer = "L".join(f"{x:.1f} {y:.1f}" for x, y in corners)
    return f'<path class="arrow" d="M{outer}Z"/>'


@dataclass(frozen=True)
class _Matrix:
    """Where the cells of a scatter matrix are, in pixels."""

    columns: Sequence[Control]  # names and ranges
    width: float  # of the picture
    left: float = 44.0  # of the matrix
    gap: float = 4.0  # around a cell

    @property
    def cell(self) -> float:
        """Width and height of a cell, with the gap around it."""
        return (self.width - self.left - 8.0) / len(self.columns)

    @property
    def bottom(self) -> float:
        """Where the last row ends."""
        return len(self.columns) * self.cell

    def frame(self, i: int, j: int) -> PictureFrame:
        """The cell of a row and a column."""
        x, y = self.left + j * self.cell, i * self.cell
        near, far = self.gap, self.cell - self.gap
        across = Scale(*shown_range(self.columns[j]), x + near, x + far)
        up = Scale(*shown_range(self.columns[i]), y + far, y + near)
        return PictureFrame((self.cell, self.cell), across, up)

    def name(self, i: int, room: float, kind: str) -> tuple[str, str]:
        """As much of a column's name as a cell has room for, and the kind of text."""
        small = self.cell < 90.0
        most = max(2, int((self.cell - room) / (6.6 if small else 7.4)))
        return shortened(self.columns[i].name, most), f"{kind}{' small' * small}"


def pairs_picture(
    rows: Array, draws: Array, columns: Sequence[Control], width: float
) -> str:
    """Histograms on the diagonal, and all pairs of columns below it.

    There are no rows of data, (0, k), where draws, (m, k), are conditional.
    """
    matrix = _Matrix(columns, width)
    radius = 1.8 if matrix.cell > 110 else 1.2
    inner = matrix.cell - 2 * matrix.gap
    parts = []
    for i in range(len(columns)):
        for j in range(i + 1):
            frame = matrix.frame(i, j)
            parts.append(bar(frame.x.start, frame.y.end, inner, inner, "cell"))
            if j < i:
                parts.append(frame.dots(rows[:, j], rows[:, i], "dot", radius))
                parts.append(frame.dots(draws[:, j], draws[:, i], "drawn", radius))
        parts += [_marginal(rows[:, i], draws[:, i], matrix, i), _margin(matrix, i)]
    size = width, matrix.bottom + 46.0
    return picture(size, "".join(parts), "Pairs of columns, draws and data")


def _marginal(rows: Array, draws: Array, matrix: _Matrix, i: int) -> str:
    """Histograms of one column, of data as bars and of draws as an outline."""
    frame = matrix.frame(i, i)
    x, y = frame.x, frame.y
    edges = _edges(matrix.columns[i])
    seen, drawn = (np.histogram(v, edges)[0] / max(len(v), 1) for v in (rows, draws))
    # A column that is held fixed is one high bar, which must not hide its name.
    highest = max(seen.max(), drawn.max(), np.finfo(float).tiny)
    scale = 0.72 * (y.start - y.end) / highest
    under = bars(x(edges), y.start, scale * seen, 1.0, "seen-bar") if len(rows) else ""
    over = outline(x(edges), y.start, scale * drawn, "curve")
    return under + over + text(x.start + 5, y.end + 15, *matrix.name(i, 20.0, "name"))


def _edges(control: Control, most: int = 18) -> Array:
    """Bins of one width, of some steps of the slider: whole numbers fill them alike.

    They begin half a step below a place of the slider, so that no value is on an edge,
    and reach beyond its ends where these are no whole number of bins apart.
    """
    places = round((control.high - control.low) / control.step) + 1
    wide = -(-places // most)
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
    frame, bottom = matrix.frame(i, i), matrix.bottom
    values, labels = _labelled(matrix, i)
    parts = []
    for value, label in zip(values, labels, strict=True):
        x, y = float(frame.x(value)), float(frame.y(value))
        half = 0.5 * len(label) * LETTER
        # Not up to the cell beside it, which has labels, too; a digit has room.
        over = half if len(label) == 1 else 0.0
        inside = frame.x.start - over <= x - half
        inside = inside and x + half <= frame.x.end + over
        if inside or (matrix.columns[i].categories and 2 * half < matrix.cell):
            parts.append(text(x, bottom + 16, label, "tick", "middle"))
        if i > 0:
            parts.append(text(matrix.left - 2, y + 4, label, "tick", "end"))
    middle = 0.5 * (frame.x.start + frame.x.end)
    # Some room between names of neighbours.
    name = matrix.name(i, 10.0, "label")
    return "".join([*parts, text(middle, bottom + 36, *name, "middle")])


def _labelled(matrix: _Matrix, i: int) -> tuple[Sequence[float], Sequence[str]]:
    """Where the axis of a column has texts: round numbers, or categories."""
    frame, categories = matrix.frame(i, i), matrix.columns[i].categories
    if not categories:
        values = ticks(frame.x.low, frame.x.high, max(2, int(matrix.cell / 45)))
        return values, tick_texts(values)
    places = list(range(len(categories)))
    if len(places) * 2 * LETTER > matrix.cell:  # as far as there is room
        places = places[:: len(places) - 1]
    most = max(2, int(matrix.cell / len(places) / LETTER) - 1)
    return list(map(float, places)), [shortened(categories[k], most) for k in places]
