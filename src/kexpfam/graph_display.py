"""Pictures of directed graphs: which column depends on which, and what that gains.

Nodes stand in layers, parents above their children, and columns without any edge in
rows of their own below. Within a layer the order is that of the neighbours' middle,
swept up and down a few times. An edge is straight if that is free, else the gentlest
curve that meets no box and keeps away from the curves drawn before. Everything is laid
out in inches, so that the text fits the boxes. matplotlib is imported when something is
drawn, never before.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.isotonic import isotonic_regression

from kexpfam._typing import Array
from kexpfam.display import _BLUES, _pyplot

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colorbar import Colorbar
    from matplotlib.figure import Figure, SubFigure
    from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

# Inches. A letter is as wide as most, a box at least as wide as its second line.
_LETTER = 0.095
_NARROWEST = 0.9
_GAIN_WIDTH = 1.6
_HEIGHT, _GAIN_HEIGHT = 0.38, 0.56
_BESIDE, _BETWEEN = 0.35, 0.42
_ROUNDING = 0.09
_EDGE_ROOM = 0.1  # around the picture, and between a curve and a box

_NAME_SIZE, _GAIN_SIZE = 10.5, 8.5  # points

# Nodes without edges stand in rows of so many, and not fewer than so many if possible.
_ROW = 4

# How often layers are put in order, downwards and upwards.
_SWEEPS = 8

# Curves that are tried: how far the middle is from the straight line, as a share of its
# length, gentle ones first; and curves that leave sideways, around what stands below.
_BENDS = (0.0, 0.12, 0.2, 0.28, 0.36, 0.45, 0.55)
_SIDEWAYS = (0.4, 0.5, 0.6, 0.75, 0.9, 1.2, 1.6)
_CURVE_POINTS = 60  # at which a curve is compared with boxes and other curves

# Price of a point inside a box, of a point near another curve, and of a bend: a box is
# avoided at any other price. Judged by eye on complete graphs of four to eight nodes.
_BOX_PRICE, _CURVE_PRICE, _BEND_PRICE = 1000.0, 1.0, 12.0

_ARROW = "0.35"
_NEUTRAL = "0.94"


class GraphDisplay:
    """A directed acyclic graph, with what each node gains by its parents.

    Args:
        nodes: Labels.
        parents: Parents of each node; nodes that are missing have none.
        gains: Held-out gain of nodes in nats, by label; others stay neutral.
        gain_errors: Standard errors of these.
        exogenous: Nodes that are given, not modelled; their outlines are dashed. They
            may be missing in `nodes`.

    Attributes:
        positions: Middle of the box of each node, in inches.
        curves: Points of the edge from a parent to a child, (n, 2), by (parent, child).
        ax_: The Axes drawn on.
        figure_: The figure that holds them.
        boxes_: Box of each node.
        arrows_: Arrow of each edge.
        colorbar_: The bar of gains, None without any.

    Example:
        >>> import matplotlib
        >>> matplotlib.use("Agg")
        >>> parents = {"rain": [], "wet": ["rain"], "slippery": ["rain", "wet"]}
        >>> display = GraphDisplay(list(parents), parents, gains={"wet": 0.4}).plot()
        >>> sorted(display.arrows_)
        [('rain', 'slippery'), ('rain', 'wet'), ('wet', 'slippery')]
    """

    ax_: "Axes"
    figure_: "Figure | SubFigure"
    boxes_: "dict[str, FancyBboxPatch]"
    arrows_: "dict[tuple[str, str], FancyArrowPatch]"
    colorbar_: "Colorbar | None"

    def __init__(
        self,
        nodes: Sequence[str],
        parents: Mapping[str, Sequence[str]],
        gains: Mapping[str, float] | None = None,
        gain_errors: Mapping[str, float] | None = None,
        exogenous: Iterable[str] = (),
    ) -> None:
        self.exogenous = tuple(exogenous)
        self.nodes = tuple(dict.fromkeys((*self.exogenous, *nodes)))
        self.parents = {node: tuple(parents.get(node, ())) for node in self.nodes}
        self.gains = dict(gains or {})
        self.gain_errors = dict(gain_errors or {})
        self._check(nodes, parents)
        texts = [self._gain_text(node) for node in self.nodes]
        self._width = max(
            _NARROWEST,
            _GAIN_WIDTH if any(texts) else 0.0,
            _LETTER * max(len(node) for node in self.nodes) + 0.3,
        )
        self._height = _GAIN_HEIGHT if any(texts) else _HEIGHT
        self.positions = _positions(self.parents, self._width, self._height)
        self.curves = _routed(self.parents, self.positions, self._width, self._height)

    def plot(self, ax: "Axes | None" = None) -> Self:
        """Draw, on new Axes unless some are given; returns the display."""
        plt = _pyplot()
        low, high = self._range()
        size = high - low
        if ax is None:
            bar = 0.9 if self.gains else 0.0
            _, ax = plt.subplots(
                figsize=(max(size[0], 1.5) + bar, max(size[1], 1.2)),
                layout="constrained",
            )
            scale = 1.0
        else:
            scale = _scale(ax, size)
        self.ax_, self.figure_ = ax, ax.figure
        ax.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), aspect="equal")
        ax.set_axis_off()
        color = self._draw_colorbar(ax)
        self._draw_arrows(ax, scale)
        self._draw_boxes(ax, scale, color)
        return self

    def _check(
        self, nodes: Sequence[str], parents: Mapping[str, Sequence[str]]
    ) -> None:
        if not self.nodes:
            raise ValueError("There are no nodes to draw.")
        if len(set(nodes)) < len(nodes):
            raise ValueError(f"nodes must differ from each other, got {list(nodes)}.")
        known = set(self.nodes)
        named = {
            "parents": [*parents, *(p for own in parents.values() for p in own)],
            "gains": self.gains,
            "gain_errors": self.gain_errors,
        }
        for argument, labels in named.items():
            unknown = [label for label in labels if label not in known]
            if unknown:
                raise ValueError(
                    f"{argument} has {unknown[0]!r}, which is not a node; the nodes "
                    f"are {list(self.nodes)}."
                )
        _layers(self.parents)  # refuses a cycle

    def _gain_text(self, node: str) -> str:
        if node not in self.gains:
            return ""
        gain, error = self.gains[node], self.gain_errors.get(node)
        own = "" if error is None else f" ± {error:.2f}"
        return f"{gain:+.2f}{own} nats".replace("-", "−")

    def _range(self) -> tuple[Array, Array]:
        """Corners of a rectangle around all boxes and curves."""
        half = 0.5 * np.array([self._width, self._height])
        middles = np.array(list(self.positions.values()))
        points = np.concatenate([middles - half, middles + half, *self.curves.values()])
        return points.min(axis=0) - _EDGE_ROOM, points.max(axis=0) + _EDGE_ROOM

    def _draw_colorbar(self, ax: "Axes") -> Any:
        """The bar, and a function from a gain to its colour."""
        from matplotlib.cm import ScalarMappable
        from matplotlib.colors import LinearSegmentedColormap, Normalize

        self.colorbar_ = None
        if not self.gains:
            return None
        gains = list(self.gains.values())
        # Blue is a gain; a loss is as white as none, and its number says so.
        norm = Normalize(0.0, max(*gains, 0.0) or 1.0, clip=True)
        colors = ScalarMappable(
            norm, LinearSegmentedColormap.from_list("gains", _BLUES)
        )
        self.colorbar_ = ax.figure.colorbar(
            colors,
            ax=ax,
            label="held-out gain, nats",
            extend="min" if min(gains) < 0 else "neither",
            shrink=0.8,
            aspect=25,
            pad=0.02,
        )
        self.colorbar_.outline.set(edgecolor="0.6", linewidth=0.6)
        return colors.to_rgba

    def _draw_arrows(self, ax: "Axes", scale: float) -> None:
        from matplotlib.patches import FancyArrowPatch
        from matplotlib.path import Path

        self.arrows_ = {}
        for edge, points in self.curves.items():
            arrow = FancyArrowPatch(
                path=Path(points),
                arrowstyle="-|>",
                mutation_scale=10.0 * scale,
                color=_ARROW,
                linewidth=1.0 * scale,
                joinstyle="round",
                zorder=1,
            )
            ax.add_patch(arrow)
            self.arrows_[edge] = arrow

    def _draw_boxes(self, ax: "Axes", scale: float, color: Any) -> None:
        from matplotlib.patches import FancyBboxPatch

        self.boxes_ = {}
        corner = 0.5 * np.array([self._width, self._height]) - _ROUNDING
        for node, middle in self.positions.items():
            gain, text = self.gains.get(node), self._gain_text(node)
            given = node in self.exogenous
            face = _NEUTRAL if gain is None else color(gain)
            box = FancyBboxPatch(
                tuple(middle - corner),
                width=2.0 * corner[0],
                height=2.0 * corner[1],
                boxstyle=f"round,pad={_ROUNDING},rounding_size={_ROUNDING}",
                facecolor="white" if given and gain is None else face,
                edgecolor="0.25",
                linestyle=(0, (4, 2.5)) if given else "-",
                linewidth=1.0 * scale,
                zorder=2,
            )
            ax.add_patch(box)
            self.boxes_[node] = box
            place: dict[str, Any] = {"ha": "center", "va": "center", "zorder": 3}
            lift = 0.16 * self._height if text else 0.0
            ax.text(
                middle[0],
                middle[1] + lift,
                node,
                fontsize=_NAME_SIZE * scale,
                **place,
            )
            ax.text(
                middle[0],
                middle[1] - 0.24 * self._height,
                text,
                fontsize=_GAIN_SIZE * scale,
                color="0.1",
                **place,
            )


def _scale(ax: "Axes", size: Array) -> float:
    """By how much text must be reduced to fit its box on these Axes."""
    box = ax.get_window_extent()
    inches = np.array([box.width, box.height]) / ax.figure.figure.dpi
    return float(np.clip(np.min(inches / size), 0.3, 1.0))


def _layers(parents: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """Layer of each node, below those of its parents.

    Raises:
        ValueError: The graph has a cycle.
    """
    layer: dict[str, int] = {}
    remaining = list(parents)
    while remaining:
        ready = [n for n in remaining if all(p in layer for p in parents[n])]
        if not ready:
            raise ValueError(
                f"The graph has a cycle among {remaining}; a node cannot depend on "
                f"itself."
            )
        for node in ready:
            layer[node] = 1 + max((layer[p] for p in parents[node]), default=-1)
        remaining = [n for n in remaining if n not in layer]
    children = _children(parents)
    for node in sorted(layer, key=lambda n: -layer[n]):
        if not parents[node] and children[node]:
            # Just above its first child, so that edges are short.
            layer[node] = min(layer[child] for child in children[node]) - 1
    return layer


def _children(parents: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    return {n: [child for child in parents if n in parents[child]] for n in parents}


def _positions(
    parents: Mapping[str, Sequence[str]], width: float, height: float
) -> dict[str, Array]:
    """Middle of each box: layers from top to bottom, single nodes below them."""
    children = _children(parents)
    layer = _layers(parents)
    single = [n for n in parents if not parents[n] and not children[n]]
    rows: list[list[str]] = [[] for _ in range(max(layer.values()) + 1)]
    for node in parents:
        if node not in single:
            rows[layer[node]].append(node)
    rows = [row for row in rows if row]
    x = _ordered(rows, parents, children, width + _BESIDE)
    # As square as boxes allow, if there is nothing else to see.
    most = max(_ROW, len(max(rows, key=len, default=[])))
    last = [single[i : i + most] for i in range(0, len(single), most)]
    middle = float(np.mean([x[n] for n in x])) if x else 0.0
    for row in last:
        for k, node in enumerate(row):
            x[node] = middle + (k - 0.5 * (len(row) - 1)) * (width + _BESIDE)
    positions: dict[str, Array] = {}
    y = 0.0
    for upper, row in enumerate([*rows, *last]):
        if upper:
            y -= height + (_BETWEEN if upper < len(rows) else _BESIDE)
        positions |= {node: np.array([x[node], y]) for node in row}
    return {node: positions[node] for node in parents}


def _ordered(
    rows: list[list[str]],
    parents: Mapping[str, Sequence[str]],
    children: Mapping[str, Sequence[str]],
    apart: float,
) -> dict[str, float]:
    """Horizontal position of the nodes of each layer, near those of their neighbours.

    Puts `rows` in order.
    """
    x = {
        n: (k - 0.5 * (len(row) - 1)) * apart for row in rows for k, n in enumerate(row)
    }
    # Upwards last, so that parents stand in the middle of their children.
    for sweep in range(2 * _SWEEPS):
        near = children if sweep % 2 else parents
        for row in reversed(rows) if sweep % 2 else rows:
            wish = {n: float(np.mean([x[k] for k in near[n]] or [x[n]])) for n in row}
            row.sort(key=lambda n: wish[n])
            room = apart * np.arange(len(row))
            # The closest to the wishes that keeps order and distance.
            found = isotonic_regression([wish[n] for n in row] - room) + room
            x |= dict(zip(row, found.tolist(), strict=True))
    return x


def _routed(
    parents: Mapping[str, Sequence[str]],
    positions: Mapping[str, Array],
    width: float,
    height: float,
) -> dict[tuple[str, str], Array]:
    """A curve for every edge, short ones first, from box to box."""
    edges = [(p, child) for child, own in parents.items() for p in own]
    edges.sort(key=lambda e: float(np.linalg.norm(positions[e[1]] - positions[e[0]])))
    half = 0.5 * np.array([width, height])
    curves: dict[tuple[str, str], Array] = {}
    for edge in edges:
        start, end = positions[edge[0]], positions[edge[1]]
        others = np.array([m for node, m in positions.items() if node not in edge])
        drawn = np.reshape(list(curves.values()), (-1, _CURVE_POINTS, 2))
        candidates: list[tuple[float, int, Array]] = []
        for bend, controls in _controls(start, end):
            curve = _between(start, *controls, end, half)
            price = _price(curve, others, half, drawn)
            candidates.append((price + _BEND_PRICE * bend, len(candidates), curve))
        curves[edge] = min(candidates, key=lambda found: found[:2])[2]
    return {(p, c): curves[p, c] for c, own in parents.items() for p in own}


def _controls(start: Array, end: Array) -> Iterator[tuple[float, tuple[Array, Array]]]:
    """Control points of all curves that are tried, with the bend of each."""
    across = np.array([start[1] - end[1], end[0] - start[0]])
    sideways = np.array([np.linalg.norm(across), 0.0])
    for bend in _BENDS:
        for side in (1.0, -1.0) if bend else (1.0,):
            third = 4.0 / 3.0 * side * bend * across
            yield bend, ((2 * start + end) / 3 + third, (start + 2 * end) / 3 + third)
    for bend in _SIDEWAYS:
        for side in (1.0, -1.0):
            away = 4.0 / 3.0 * side * bend * sideways
            yield bend, (start + away, end + away)


def _between(
    start: Array, first: Array, second: Array, end: Array, half: Array
) -> Array:
    """Points of a cubic curve between two boxes, without its ends in them."""
    # Many points, so that it ends where a box begins; few of them are kept.
    t = np.linspace(0.0, 1.0, 20 * _CURVE_POINTS)[:, None]
    curve = (1 - t) ** 3 * start + t**3 * end
    curve += 3 * t * (1 - t) * ((1 - t) * first + t * second)
    inside = np.zeros(len(curve), dtype=bool)
    for middle in (start, end):
        inside |= np.all(np.abs(curve - middle) <= half, axis=1)
    outside = np.flatnonzero(~inside)
    kept = np.linspace(0, len(outside) - 1, _CURVE_POINTS).astype(int)
    return curve[outside[kept]]


def _price(curve: Array, others: Array, half: Array, drawn: Array) -> float:
    price = 0.0
    if len(others):
        distance = np.abs(curve[:, None] - others) - half - _EDGE_ROOM
        price += _BOX_PRICE * np.count_nonzero(np.all(distance < 0, axis=2))
    # For every curve drawn before, how many points of this one are near it.
    steps = curve[::4, None, None] - drawn[:, ::4]
    gaps = np.einsum("pcqi,pcqi->pcq", steps, steps).min(axis=2)
    price += _CURVE_PRICE * np.count_nonzero(gaps < (2.0 * _EDGE_ROOM) ** 2)
    return float(price)
