"""Pictures of joint densities as SVG: the graph, and a matrix of scatter plots."""

from collections.abc import Mapping, Sequence

import numpy as np

from kexpfam._typing import Array
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
from kexpfam.graph_display import GraphDisplay

# Pixels of an inch, in which graphs are laid out.
_INCH = 88.0

# Around the boxes of a graph, in inches; boxes themselves, as laid out.
_ROOM = 0.15
_BOX_HEIGHT, _LETTER, _NARROWEST = 0.38, 0.095, 0.9

_BINS = 18


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
    nodes = display.positions
    wide = max(_NARROWEST, _LETTER * max(map(len, nodes)) + 0.3)
    half = 0.5 * np.array([wide, _BOX_HEIGHT])
    middles = np.array(list(nodes.values()))
    points = np.concatenate([middles - half, middles + half, *display.curves.values()])
    low, high = points.min(axis=0) - _ROOM, points.max(axis=0) + _ROOM
    scale = min(_INCH, width / float(high[0] - low[0]))
    size = scale * (high - low)

    def place(point: Array) -> Array:
        return np.array([point[..., 0] - low[0], high[1] - point[..., 1]]) * scale

    parts = []
    for curve in display.curves.values():
        xs, ys = place(curve)
        parts += [line(xs, ys, "edge"), _arrow_head(xs, ys)]
    for name, middle in nodes.items():
        x, y = place(middle)
        box = 2 * scale * half
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


def pairs_picture(
    rows: Array, draws: Array, columns: Sequence[Control], width: float, *, data: bool
) -> str:
    """Histograms on the diagonal, and all pairs of columns below it.

    Args:
        rows: Data, (n, k).
        draws: Draws of the same columns, (m, k).
        columns: Their names and ranges.
        width: Of the picture, in pixels.
        data: Whether data are drawn; not, where draws are conditional.
    """
    k = len(columns)
    left, bottom, gap = 44.0, 46.0, 8.0
    cell = (width - left - 8.0) / k
    height = k * cell + bottom
    parts = []
    for i, across in enumerate(columns):
        for j in range(i + 1):
            x0, y0 = left + j * cell, i * cell
            x = Scale(
                columns[j].low, columns[j].high, x0 + gap / 2, x0 + cell - gap / 2
            )
            y = Scale(across.low, across.high, y0 + cell - gap / 2, y0 + gap / 2)
            parts.append(bar(x.start, y.end, cell - gap, cell - gap, "cell"))
            if i == j:
                parts.append(_marginal(rows[:, i], draws[:, i], x, y, data))
                parts.append(
                    text(
                        x.start + 7,
                        y.end + 16,
                        shortened(across.name, max(2, int((cell - 16) / 7.4))),
                        "name",
                    )
                )
                continue
            for values, kind in ((rows, "dot"), (draws, "drawn")):
                if kind == "dot" and not data:
                    continue
                u, v = values[:, j], values[:, i]
                inside = (u >= x.low) & (u <= x.high) & (v >= y.low) & (v <= y.high)
                radius = 1.8 if cell > 110 else 1.2
                parts.append(dots(x(u[inside]), y(v[inside]), kind, radius))
        parts.append(_margin(across, i, left, cell, gap, k))
    frame = Frame(width, height, Scale(0, 1, 0, 1), Scale(0, 1, 0, 1))
    return frame.picture("".join(parts), "Pairs of columns, draws and data")


def _margin(
    control: Control, i: int, left: float, cell: float, gap: float, k: int
) -> str:
    """Ticks of one column: left of its row, and below its column."""
    most = max(1, int(cell / 60))
    values = ticks(control.low, control.high, most)
    labels = tick_texts(values)
    x = Scale(
        control.low,
        control.high,
        left + i * cell + gap / 2,
        left + (i + 1) * cell - gap / 2,
    )
    y = Scale(control.low, control.high, (i + 1) * cell - gap / 2, i * cell + gap / 2)
    parts = []
    for value, label in zip(values, labels, strict=True):
        if len(label) * 6.6 < cell:
            parts.append(text(float(x(value)), k * cell + 16, label, "tick", "middle"))
        if i > 0:
            parts.append(text(left - 4, float(y(value)) + 4, label, "tick", "end"))
    name = shortened(control.name, max(2, int(cell / 7.4)))
    parts.append(text(0.5 * (x.start + x.end), k * cell + 36, name, "label", "middle"))
    return "".join(parts)


def _marginal(rows: Array, draws: Array, x: Scale, y: Scale, data: bool) -> str:
    edges = np.linspace(x.low, x.high, _BINS + 1)
    seen, drawn = (np.histogram(v, edges)[0] / max(len(v), 1) for v in (rows, draws))
    top = max(float(seen.max()) if data else 0.0, float(drawn.max()), 1e-12)
    height = 0.72 * (y.start - y.end)
    left = x(edges)
    parts = []
    if data and len(rows):
        for a, wide, share in zip(left[:-1], np.diff(left), seen / top, strict=True):
            tall = float(share) * height
            parts.append(
                bar(float(a) + 0.5, y.start - tall, float(wide) - 1, tall, "seen-bar")
            )
    outline = y.start - np.repeat(drawn / top, 2) * height
    parts.append(line(np.repeat(left, 2)[1:-1], outline, "curve"))
    return "".join(parts)
