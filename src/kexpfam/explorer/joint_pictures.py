"""Pictures of joint densities as SVG: the graph, and a matrix of scatter plots."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kexpfam._typing import Array
from kexpfam.display import GraphDisplay
from kexpfam.explorer.subject import Control
from kexpfam.explorer.svg import (
    Frame,
    Scale,
    bar,
    dots,
    line,
    shortened,
    text,
    tick_texts,
    ticks,
)

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


def graph_picture(
    parents: Mapping[str, Sequence[str]], exogenous: Sequence[str], width: float
) -> str:
    """Which column depends on which; conditions have dashed boxes.

    Args:
        parents: Parents of each node.
        exogenous: Columns that are conditions only.
        width: Of the picture, in pixels; what does not fit is made smaller.
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
    frame = Frame(float(size[0]), float(size[1]), Scale(0, 1, 0, 1), Scale(0, 1, 0, 1))
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

    Args:
        rows: Data, (n, k); none, (0, k), where draws are conditional.
        draws: Draws of the same columns, (m, k).
        columns: Their names and ranges.
        width: Of the picture, in pixels.
    """
    matrix = _Matrix(columns, (width - _LEFT - 8.0) / len(columns))
    parts = []
    for i in range(len(columns)):
        for j in range(i):
            parts += [_frame(matrix, i, j), _scatter(rows, draws, matrix, i, j)]
        parts += [_frame(matrix, i, i), _marginal(rows[:, i], draws[:, i], matrix, i)]
        parts.append(_margin(matrix, i))
    unit = Scale(0, 1, 0, 1)
    frame = Frame(width, matrix.bottom + 46.0, unit, unit)
    return frame.picture("".join(parts), "Pairs of columns, draws and data")


def _frame(matrix: _Matrix, i: int, j: int) -> str:
    size = matrix.cell - 2 * _GAP
    return bar(matrix.x(j).start, matrix.y(i).end, size, size, "cell")


def _scatter(rows: Array, draws: Array, matrix: _Matrix, i: int, j: int) -> str:
    x, y = matrix.x(j), matrix.y(i)
    radius = 1.8 if matrix.cell > 110 else 1.2
    content = ""
    for values, kind in ((rows, "dot"), (draws, "drawn")):
        u, v = values[:, j], values[:, i]
        inside = (u >= x.low) & (u <= x.high) & (v >= y.low) & (v <= y.high)
        content += dots(x(u[inside]), y(v[inside]), kind, radius)
    return content


def _marginal(rows: Array, draws: Array, matrix: _Matrix, i: int) -> str:
    """Histograms of one column, of data as bars and of draws as an outline."""
    x, y = matrix.x(i), matrix.y(i)
    edges = _edges(matrix.columns[i])
    seen, drawn = (np.histogram(v, edges)[0] / max(len(v), 1) for v in (rows, draws))
    # A column that is held fixed is one high bar, which must not hide its name.
    scale = _TALL * (y.start - y.end) / _highest(seen, drawn)
    left = x(edges)
    bars = "".join(
        bar(a + 0.5, y.start - tall, b - a - 1, tall, "seen-bar")
        for a, b, tall in zip(
            left[:-1].tolist(), left[1:].tolist(), (scale * seen).tolist(), strict=True
        )
        if tall > 0
    )
    outline = line(
        np.repeat(left, 2)[1:-1], y.start - np.repeat(scale * drawn, 2), "curve"
    )
    name = matrix.name(i, room=20.0)
    kind = "name small" if matrix.is_small else "name"
    return bars + outline + text(x.start + 5, y.end + 15, name, kind)


def _highest(*heights: Array) -> float:
    return max(*(float(h.max()) for h in heights), float(np.finfo(float).tiny))


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
    """How many rows are outside the axes in some column, as a share.

    Args:
        values: Data or draws, (n, k).
        columns: Names and ranges of the columns.
    """
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
