"""Pictures of directed graphs: which column depends on which, and what that gains.

Nodes stand in layers, parents above their children, and columns without any edge in
rows of their own below. An edge that spans several layers has a place of its own in
each of those between, so that it meets no box. Within a layer the order is that of the
neighbours' middle, swept up and down a few times (Sugiyama, Tagawa and Toda, 1981).
Everything is laid out in inches, so that the text fits the boxes.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.isotonic import isotonic_regression

from kexpfam._typing import Array
from kexpfam.display.theme import THEME, pyplot

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Edge = tuple[str, str]


@dataclass(frozen=True)
class _Inches:
    """Sizes of a graph, without and with gains."""

    letter: float = 0.095  # as wide as most
    widths: tuple[float, float] = (0.9, 1.6)  # of a box at least: its second line
    heights: tuple[float, float] = (0.38, 0.56)  # of a box
    beside: float = 0.35  # between boxes of a layer
    between: float = 0.5  # between layers
    rounding: float = 0.09  # of corners
    around: float = 0.1  # the picture
    ports: float = 0.2  # between arrows at a box, if it is wide enough


_SIZES = _Inches()


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
        self.gains, self.gain_errors = dict(gains or {}), dict(gain_errors or {})
        self._check(nodes, parents)
        two_lines = bool(self.gains)
        wide = _SIZES.letter * max(map(len, self.nodes)) + 0.3
        least, height = _SIZES.widths[two_lines], _SIZES.heights[two_lines]
        self.box = np.array([max(least, wide), height])
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
        return points.min(axis=0) - _SIZES.around, points.max(axis=0) + _SIZES.around

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

    def _draw_colorbar(self, ax: Any) -> Any:
        """The bar; returns a function from a gain to its colour."""
        from matplotlib.cm import ScalarMappable
        from matplotlib.colors import Normalize

        self.colorbar_: Any = None
        if not self.gains:
            return None
        gains = list(self.gains.values())
        # Blue is a gain; a loss is as white as none, and its number says so.
        norm = Normalize(0.0, max(*gains, 0.0) or 1.0, clip=True)
        colors = ScalarMappable(norm, THEME.colormap())
        look = {
            "shrink": 0.8,
            "aspect": 25,
            "pad": 0.02,
            "label": "held-out gain, nats",
        }
        ends = "min" if min(gains) < 0 else "neither"
        self.colorbar_ = ax.figure.colorbar(colors, ax=ax, extend=ends, **look)
        self.colorbar_.outline.set(edgecolor="0.6", linewidth=0.6)
        return colors.to_rgba

    def _draw_arrows(self, ax: Any, scale: float) -> None:
        from matplotlib.patches import FancyArrowPatch
        from matplotlib.path import Path

        look: dict[str, Any] = {"arrowstyle": "-|>", "joinstyle": "round", "zorder": 1}
        look |= {"mutation_scale": 10.0 * scale, "linewidth": scale, "color": "0.35"}
        self.arrows_ = {
            edge: ax.add_patch(FancyArrowPatch(path=Path(points), **look))
            for edge, points in self.curves.items()
        }

    def _draw_boxes(self, ax: Any, scale: float, color: Any) -> None:
        from matplotlib.patches import FancyBboxPatch

        self.boxes_ = {}
        corner, tall = _SIZES.rounding, self.box[1]
        inner = self.box - 2.0 * corner
        style = f"round,pad={corner},rounding_size={corner}"
        look: dict[str, Any] = {
            "boxstyle": style,
            "edgecolor": "0.25",
            "linewidth": scale,
            "zorder": 2,
        }
        words: dict[str, Any] = {"ha": "center", "va": "center", "zorder": 3}
        for node, middle in self.positions.items():
            gain, text = self.gains.get(node), self._gain_text(node)
            given = node in self.exogenous
            neutral = "white" if given else "0.94"
            fill = neutral if gain is None else color(gain)
            line = (0, (4, 2.5)) if given else "-"
            x, y = middle
            start = (x - 0.5 * inner[0], y - 0.5 * inner[1])
            box = FancyBboxPatch(start, *inner, facecolor=fill, linestyle=line, **look)
            self.boxes_[node] = ax.add_patch(box)
            up = 0.16 * tall if text else 0.0
            ax.text(x, y + up, node, fontsize=10.5 * scale, **words)
            ax.text(x, y - 0.24 * tall, text, fontsize=8.5 * scale, **words)


def _layers(parents: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """Layer of each node, below those of its parents; ValueError for a cycle."""
    layer: dict[str, int] = {}
    try:
        for node in TopologicalSorter(parents).static_order():
            layer[node] = 1 + max((layer[p] for p in parents[node]), default=-1)
    except CycleError as error:
        among = [node for node in parents if node in error.args[1]]
        raise ValueError(
            f"The graph has a cycle among {among}; a node cannot depend on itself."
        ) from error
    for node in parents:
        below = [layer[n] for n in parents if node in parents[n]]
        if not parents[node] and below:
            layer[node] = min(below) - 1  # just above its first child
    return layer


def _layout(
    parents: Mapping[str, Sequence[str]], box: Array
) -> tuple[dict[str, Array], dict[Edge, Array]]:
    """Middle of each box, and a curve for each edge."""
    layer = _layers(parents)
    # What an edge passes: its nodes, and a place of its own in the layers between.
    routes: dict[Edge, list[Hashable]] = {
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
    # Nodes without edges, as square as boxes allow if there is nothing else to see.
    single: list[Hashable] = [n for n in parents if n not in linked]
    most = max([4, *(sum(s in parents for s in row) for row in rows)])
    middle = float(np.mean([x[n] for n in linked])) if linked else 0.0
    last = [single[i : i + most] for i in range(0, len(single), most)]
    for alone in last:
        places = middle + _centred(len(alone), box[0] + _SIZES.beside)
        x |= dict(zip(alone, places.tolist(), strict=True))
    steps = [box[1] + _SIZES.between] * len(rows) + [box[1] + _SIZES.beside] * len(last)
    stops = {
        stop: np.array([x[stop], -sum(steps[:k])])
        for k, row in enumerate([*rows, *last])
        for stop in row
    }
    return {node: stops[node] for node in parents}, _curves(routes, stops, box)


def _centred(count: int, apart: float) -> Array:
    return (np.arange(float(count)) - 0.5 * (count - 1)) * apart


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
    for near in (up, down) * 8:
        for row in rows if near is up else reversed(rows):
            wish = {s: float(np.mean([x[k] for k in near[s]] or [x[s]])) for s in row}
            row.sort(key=wish.__getitem__)
            gaps = [0.5 * (width(a) + width(b)) for a, b in pairwise(row)]
            room = np.cumsum([0.0, *(gap + _SIZES.beside for gap in gaps)])
            # The closest to the wishes that keeps order and distance.
            found = isotonic_regression([wish[s] for s in row] - room) + room
            x |= dict(zip(row, found.tolist(), strict=True))
    return x


def _curves(
    routes: Mapping[Edge, list[Hashable]], places: Mapping[Hashable, Array], box: Array
) -> dict[Edge, Array]:
    """From box to box, upright within layers and bent between them."""

    def port(edge: Edge, end: int) -> Array:
        """Where an edge meets a box: in the order of the places that it leads to."""
        beside = [e for e in routes if e[end] == edge[end]]
        towards = 1 if end == 0 else -2
        beside.sort(key=lambda e: places[routes[e][towards]][0])
        apart = min(_SIZES.ports, 0.7 * box[0] / len(beside))
        shift = _centred(len(beside), apart)[beside.index(edge)]
        return places[edge[end]] + [shift, 0.0]

    half, t = np.array([0.0, 0.5 * box[1]]), np.linspace(0.0, 1.0, 20)
    bend = np.column_stack([t * t * (3.0 - 2.0 * t), t])
    curves = {}
    for edge, route in routes.items():
        stops = [port(edge, 0), *(places[s] for s in route[1:-1]), port(edge, 1)]
        ends = [(upper - half, lower + half) for upper, lower in pairwise(stops)]
        curves[edge] = np.concatenate([a + bend * (b - a) for a, b in ends])
    return curves
