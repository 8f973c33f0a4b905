"""Pictures of directed graphs: which column depends on which, and what that gains.

Nodes stand in layers, parents above their children, and columns without any edge in
rows of their own below. An edge that spans several layers has a place of its own in
each of those between, so that it meets no box. Within a layer the order is that of the
neighbours' middle, swept up and down a few times (Sugiyama, Tagawa and Toda, 1981).
Everything is laid out in inches, so that the text fits the boxes.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.isotonic import isotonic_regression

from kexpfam._typing import Array
from kexpfam.display.densities import BLUES, pyplot

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colorbar import Colorbar
    from matplotlib.figure import Figure, SubFigure
    from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

# Inches. A letter is as wide as most, a box at least as wide as its second line.
_LETTER, _NARROWEST, _GAIN_WIDTH = 0.095, 0.9, 1.6
_HEIGHT, _GAIN_HEIGHT = 0.38, 0.56
_BESIDE, _BETWEEN = 0.35, 0.5
_ROUNDING = 0.09
_EDGE_ROOM = 0.1  # around the picture
_PORTS = 0.2  # between arrows at a box, if it is wide enough

_NAME_SIZE, _GAIN_SIZE = 10.5, 8.5  # points

# Nodes without edges stand in rows of so many, and not fewer than so many if possible.
_ROW = 4

# How often layers are put in order, downwards and upwards.
_SWEEPS = 8

_CURVE_POINTS = 20  # of an edge between two layers


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
        box: Width and height of a box, in inches, (2,).
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
        least, height = (
            (_GAIN_WIDTH, _GAIN_HEIGHT) if self.gains else (_NARROWEST, _HEIGHT)
        )
        width = max(least, _LETTER * max(map(len, self.nodes)) + 0.3)
        self.box = np.array([width, height])
        self.positions, self.curves = _layout(self.parents, self.box)

    def plot(self, ax: "Axes | None" = None) -> Self:
        """Draw, on new Axes unless some are given; returns the display."""
        plt = pyplot()
        low, high = self.corners()
        scale, size = 1.0, high - low
        if ax is None:
            bar = 0.9 if self.gains else 0.0
            inches = (max(size[0], 1.5) + bar, max(size[1], 1.2))
            _, ax = plt.subplots(figsize=inches, layout="constrained")
        else:
            # By how much text must be reduced to fit its box on these Axes.
            inside = np.array(ax.get_window_extent().size) / ax.figure.figure.dpi
            scale = float(np.clip(np.min(inside / size), 0.3, 1.0))
        self.ax_, self.figure_ = ax, ax.figure
        ax.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), aspect="equal")
        ax.set_axis_off()
        color = self._draw_colorbar(ax)
        self._draw_arrows(ax, scale)
        self._draw_boxes(ax, scale, color)
        return self

    def corners(self) -> tuple[Array, Array]:
        """Lower left and upper right of a rectangle around all, in inches."""
        middles = np.array(list(self.positions.values()))
        corners = [middles - 0.5 * self.box, middles + 0.5 * self.box]
        points = np.concatenate([*corners, *self.curves.values()])
        return points.min(axis=0) - _EDGE_ROOM, points.max(axis=0) + _EDGE_ROOM

    def _check(
        self, nodes: Sequence[str], parents: Mapping[str, Sequence[str]]
    ) -> None:
        if not self.nodes:
            raise ValueError("There are no nodes to draw.")
        if len(set(nodes)) < len(nodes):
            raise ValueError(f"nodes must differ from each other, got {list(nodes)}.")
        named = {
            "parents": [*parents, *(p for own in parents.values() for p in own)],
            "gains": self.gains,
            "gain_errors": self.gain_errors,
        }
        for argument, labels in named.items():
            unknown = [label for label in labels if label not in self.nodes]
            if unknown:
                raise ValueError(
                    f"{argument} has {unknown[0]!r}, which is not a node; the nodes "
                    f"are {list(self.nodes)}."
                )

    def _gain_text(self, node: str) -> str:
        if node not in self.gains:
            return ""
        gain, error = self.gains[node], self.gain_errors.get(node)
        own = "" if error is None else f" ± {error:.2f}"
        return f"{gain:+.2f}{own} nats".replace("-", "−")

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
        colors = ScalarMappable(norm, LinearSegmentedColormap.from_list("gains", BLUES))
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

        look: dict[str, Any] = {"arrowstyle": "-|>", "joinstyle": "round", "zorder": 1}
        look |= {"mutation_scale": 10.0 * scale, "linewidth": scale, "color": "0.35"}
        self.arrows_ = {
            edge: FancyArrowPatch(path=Path(points), **look)
            for edge, points in self.curves.items()
        }
        for arrow in self.arrows_.values():
            ax.add_patch(arrow)

    def _draw_boxes(self, ax: "Axes", scale: float, color: Any) -> None:
        from matplotlib.patches import FancyBboxPatch

        self.boxes_ = {}
        inner = self.box - 2.0 * _ROUNDING
        place: dict[str, Any] = {"ha": "center", "va": "center", "zorder": 3}
        for node, (x, y) in self.positions.items():
            gain, text = self.gains.get(node), self._gain_text(node)
            given = node in self.exogenous
            neutral = "white" if given else "0.94"
            box = FancyBboxPatch(
                (x - 0.5 * inner[0], y - 0.5 * inner[1]),
                width=inner[0],
                height=inner[1],
                boxstyle=f"round,pad={_ROUNDING},rounding_size={_ROUNDING}",
                facecolor=neutral if gain is None else color(gain),
                edgecolor="0.25",
                linestyle=(0, (4, 2.5)) if given else "-",
                linewidth=scale,
                zorder=2,
            )
            ax.add_patch(box)
            self.boxes_[node] = box
            lift, drop = (0.16 if text else 0.0) * self.box[1], 0.24 * self.box[1]
            ax.text(x, y + lift, node, fontsize=_NAME_SIZE * scale, **place)
            ax.text(x, y - drop, text, fontsize=_GAIN_SIZE * scale, **place)


def _layers(parents: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """Layer of each node, below those of its parents.

    Raises:
        ValueError: The graph has a cycle.
    """
    layer: dict[str, int] = {}
    while len(layer) < len(parents):
        rest = [n for n in parents if n not in layer]
        ready = [n for n in rest if all(p in layer for p in parents[n])]
        if not ready:
            raise ValueError(
                f"The graph has a cycle among {rest}; a node cannot depend on itself."
            )
        layer |= {n: 1 + max((layer[p] for p in parents[n]), default=-1) for n in ready}
    for node in parents:
        below = [layer[n] for n in parents if node in parents[n]]
        if not parents[node] and below:
            layer[node] = min(below) - 1  # just above its first child
    return layer


def _layout(
    parents: Mapping[str, Sequence[str]], box: Array
) -> tuple[dict[str, Array], dict[tuple[str, str], Array]]:
    """Middle of each box, and a curve for each edge."""
    layer = _layers(parents)
    # What an edge passes: its nodes, and a place of its own in the layers between.
    routes: dict[tuple[str, str], list[Hashable]] = {
        (p, c): [p, *((p, c, k) for k in range(layer[p] + 1, layer[c])), c]
        for c, own in parents.items()
        for p in own
    }
    linked = [n for n in parents if any(n in edge for edge in routes)]
    rows: list[list[Hashable]] = [[] for _ in range(max(layer.values()) + 1)]
    for node in linked:
        rows[layer[node]].append(node)
    for (p, _), route in routes.items():
        for k, stop in enumerate(route[1:-1], layer[p] + 1):
            rows[k].append(stop)
    rows = [row for row in rows if row]
    x = _ordered(rows, list(routes.values()), lambda s: box[0] * (s in parents))
    # As square as boxes allow, if there is nothing else to see.
    single: list[Hashable] = [n for n in parents if n not in linked]
    most = max([_ROW, *(sum(s in parents for s in row) for row in rows)])
    middle = float(np.mean([x[n] for n in linked])) if linked else 0.0
    last = [single[i : i + most] for i in range(0, len(single), most)]
    for alone in last:
        for one, offset in zip(
            alone, _centred(len(alone), box[0] + _BESIDE), strict=True
        ):
            x[one] = middle + offset
    steps = [box[1] + _BETWEEN] * len(rows) + [box[1] + _BESIDE] * len(last)
    y = {s: -sum(steps[:k]) for k, row in enumerate([*rows, *last]) for s in row}
    curves = _curves(routes, {stop: np.array([x[stop], y[stop]]) for stop in y}, box)
    return {n: np.array([x[n], y[n]]) for n in parents}, curves


def _centred(count: int, apart: float) -> list[float]:
    return [(k - 0.5 * (count - 1)) * apart for k in range(count)]


def _ordered(
    rows: list[list[Hashable]], routes: list[list[Hashable]], width: Any
) -> dict[Hashable, float]:
    """Horizontal places of all stops, near those of their neighbours; sorts `rows`."""
    up: dict[Hashable, list[Hashable]] = {stop: [] for row in rows for stop in row}
    down: dict[Hashable, list[Hashable]] = {stop: [] for stop in up}
    for upper, lower in (pair for route in routes for pair in pairwise(route)):
        up[lower].append(upper)
        down[upper].append(lower)
    x = {stop: float(k) for row in rows for k, stop in enumerate(row)}
    # Upwards last, so that parents stand in the middle of their children.
    for near in (up, down) * _SWEEPS:
        for row in rows if near is up else reversed(rows):
            wish = {s: float(np.mean([x[k] for k in near[s]] or [x[s]])) for s in row}
            row.sort(key=lambda s: wish[s])
            gaps = [0.5 * (width(a) + width(b)) + _BESIDE for a, b in pairwise(row)]
            room = np.cumsum([0.0, *gaps])
            # The closest to the wishes that keeps order and distance.
            found = isotonic_regression([wish[s] for s in row] - room) + room
            x |= dict(zip(row, found.tolist(), strict=True))
    return x


def _curves(
    routes: Mapping[tuple[str, str], list[Hashable]],
    places: Mapping[Hashable, Array],
    box: Array,
) -> dict[tuple[str, str], Array]:
    """From box to box, upright within layers and bent between them."""

    def port(edge: tuple[str, str], end: int) -> Array:
        """Where an edge meets a box: in the order of the places that it leads to."""
        beside = [e for e in routes if e[end] == edge[end]]
        towards = 1 if end == 0 else -2
        beside.sort(key=lambda e: places[routes[e][towards]][0])
        apart = min(_PORTS, 0.7 * box[0] / len(beside))
        shift = _centred(len(beside), apart)[beside.index(edge)]
        return places[edge[end]] + [shift, 0.0]

    half = np.array([0.0, 0.5 * box[1]])
    t = np.linspace(0.0, 1.0, _CURVE_POINTS)
    curves = {}
    for edge, route in routes.items():
        stops = [port(edge, 0), *(places[s] for s in route[1:-1]), port(edge, 1)]
        parts = []
        for upper, lower in pairwise(stops):
            start, end = upper - half, lower + half
            share = np.column_stack([t * t * (3.0 - 2.0 * t), t])
            parts.append(start + share * (end - start))
        curves[edge] = np.concatenate(parts)
    return curves
