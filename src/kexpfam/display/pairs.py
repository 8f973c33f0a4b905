"""Pictures of several columns: data beside samples of models, two columns at a time.

Below the diagonal every pair of columns is a scatter plot of all samples, on the
diagonal every column is a histogram of each. Dots of the samples are drawn in a mixed
order, so that none hides another, and dark to light, so that they are told apart
without colour.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from kexpfam._typing import Array, RandomState
from kexpfam._validation import as_generator, as_numbers, check_count
from kexpfam.display.densities import pyplot

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure
    from matplotlib.legend import Legend

# Panels of more columns are too small to read.
_MOST_COLUMNS = 12

# Colours from dark to light, of which neighbours differ in lightness and, for any kind
# of colour vision, in hue; and the lines of the histograms.
_COLORS = ("#1a1a1a", "#e8871e", "#2a7fc0", "#9ecf6b", "#b04a8f")
_STYLES: tuple[Any, ...] = ("-", "-", (0, (4, 1.2)), (0, (1.2, 0.8)), (0, (5, 1, 1, 1)))

# Quantiles of each sample that a panel shows, and room beside them: a stray point, or
# the tail of a bad sampler, must not squeeze the rest.
_SHOWN = (0.002, 0.998)
_MARGIN = 0.06

# Of a dot: more hides what is below it, less mixes the colours.
_OPACITY = 0.7

# Bars of a histogram: about the root of the rows of the smallest sample.
_FEWEST_BARS, _MOST_BARS = 8, 40

# Inches of a panel, by the number of columns, and of the whole picture at least.
_PANEL = {1: 3.6, 2: 2.6, 3: 2.1, 4: 1.8, 5: 1.6}
_SMALL_PANEL = 1.3
_MARGIN_INCHES = (0.75, 0.6, 0.15, 0.15)  # left, bottom, right, top


@dataclass(kw_only=True, eq=False, repr=False)
class PairsDisplay:
    """Scatter plots of all pairs of columns, data beside samples.

    Build it with `from_samples`, which checks, thins and draws.

    Args:
        samples: Rows by the label of their sample, each (n, d); the data come first.
        dots: The rows of these that are drawn as dots.
        names: Names of the columns, (d,).
        limits: Range of each column, (d, 2).

    Attributes:
        figure_: The figure drawn on.
        axes_: Axes by row and column, (d, d); None above the diagonal.
        legend_: The legend.

    Example:
        >>> import matplotlib
        >>> matplotlib.use("Agg")
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> data, drawn = rng.normal(size=(2, 300, 3))
        >>> display = PairsDisplay.from_samples(data, {"KEF": drawn})
        >>> display.axes_.shape
        (3, 3)
    """

    samples: Mapping[str, Array]
    dots: Mapping[str, Array]
    names: Sequence[str]
    limits: Array
    figure_: "Figure | SubFigure" = field(init=False)
    axes_: Any = field(init=False)
    legend_: "Legend" = field(init=False)

    @classmethod
    def from_samples(
        cls,
        data: Any,
        samples: Any,
        *,
        columns: Sequence[int | str] | None = None,
        names: Sequence[str] | None = None,
        labels: tuple[str, str] = ("data", "samples"),
        max_points: int = 2000,
        figure: "Figure | SubFigure | None" = None,
        random_state: RandomState = 0,
    ) -> Self:
        """Draw data beside one sample or several.

        Ranges show 99.6 % of each sample, and some room; dots beyond them are left out.

        Args:
            data: Rows (n, d), an array or a frame.
            samples: Rows (m, d) of the same columns; or several, by label.
            columns: Which columns to draw, numbers or names; None for all, up to
                twelve.
            names: Names of the columns drawn; None for those of a frame.
            labels: What the data and a single sample are called.
            max_points: Dots of each sample at most. All have as many as the smallest
                has rows, drawn at random; histograms show all rows.
            figure: Where to draw; None for a new figure.
            random_state: Seed or Generator of thinning and order of the dots.

        Returns:
            The display, drawn.

        Raises:
            MissingDependencyError: matplotlib is not installed.
            ValueError: Different columns, too many of them or of samples, or NaN.
        """
        pyplot()  # that it is missing should show before the work, not after
        check_count("max_points", max_points, least=1)
        named = samples if isinstance(samples, Mapping) else {labels[1]: samples}
        if labels[0] in named:
            raise ValueError(f"Two samples are called {labels[0]!r}; change labels.")
        if not 1 <= len(named) < len(_COLORS):
            raise ValueError(
                f"Beside the data 1 to {len(_COLORS) - 1} samples can be told apart, "
                f"got {len(named)}."
            )
        tables = {str(k): rows for k, rows in {labels[0]: data, **named}.items()}
        own = _names_of(tables)
        arrays = {label: _table(label, rows) for label, rows in tables.items()}
        width = arrays[labels[0]].shape[1]
        for label, table in arrays.items():
            if table.shape[1] != width:
                raise ValueError(
                    f"{label} has {table.shape[1]} columns, but {labels[0]} has "
                    f"{width}; give samples of the same variables."
                )
        own = own or [f"y{j}" for j in range(width)]
        chosen = _chosen(columns, own)
        names = [own[j] for j in chosen] if names is None else list(map(str, names))
        if len(names) != len(chosen):
            raise ValueError(
                f"names must have {len(chosen)} names, one per column drawn, got "
                f"{len(names)}."
            )
        shown = {label: table[:, chosen] for label, table in arrays.items()}
        # As many dots of each: a cloud that is denser should be so for a reason.
        most = min(max_points, *(len(table) for table in shown.values()))
        rng = as_generator(random_state)
        return cls(
            samples=shown,
            dots={k: _thinned(table, most, rng) for k, table in shown.items()},
            names=names,
            limits=_limits(list(shown.values())),
        ).plot(figure)

    def plot(self, figure: "Figure | SubFigure | None" = None) -> Self:
        """Draw, in a new figure unless one is given; returns the display."""
        plt = pyplot()
        d = len(self.names)
        if figure is None:
            side = d * _PANEL.get(d, _SMALL_PANEL)
            left, bottom, right, top = _MARGIN_INCHES
            figure = plt.figure(figsize=(side + left + right, side + bottom + top))
        self.figure_ = figure
        self.axes_ = self._make_axes(figure)
        width = figure.bbox.width / figure.figure.dpi / d
        self._draw_histograms()
        self._draw_dots(width)
        self._draw_labels(width)
        self.legend_ = self._draw_legend(figure)
        return self

    def _make_axes(self, figure: Any) -> Any:
        d = len(self.names)
        size = figure.bbox.size / figure.figure.dpi
        left, bottom, right, top = np.array(_MARGIN_INCHES) / np.tile(size, 2)
        sides = {"left": left, "bottom": bottom, "right": 1 - right, "top": 1 - top}
        gap = 0.08 if d < 6 else 0.12  # of a panel
        grid = figure.add_gridspec(d, d, wspace=gap, hspace=gap, **sides)
        axes = np.full((d, d), None, dtype=object)
        for i, j in zip(*np.tril_indices(d), strict=True):
            ax = axes[i, j] = figure.add_subplot(grid[i, j])
            ax.set_xlim(self.limits[j])
            if i != j:
                ax.set_ylim(self.limits[i])
        return axes

    def _draw_histograms(self) -> None:
        fewest = min(len(table) for table in self.samples.values())
        bars = int(np.clip(np.sqrt(fewest), _FEWEST_BARS, _MOST_BARS))
        for j, ax in enumerate(self.axes_.diagonal()):
            edges = np.linspace(self.limits[j, 0], self.limits[j, 1], bars + 1)
            for k, table in enumerate(self.samples.values()):
                counts, _ = np.histogram(table[:, j], edges)
                # Over all rows: what is beyond the range counts, too.
                heights = counts / (len(table) * (edges[1] - edges[0]))
                if k == 0:
                    ax.stairs(heights, edges, fill=True, color="0.82", linewidth=0)
                wide = 1.4 if k else 1.0
                look = {"color": _COLORS[k], "linestyle": _STYLES[k], "linewidth": wide}
                ax.stairs(heights, edges, **look)
            ax.set_ylim(bottom=0.0)
            ax.set_yticks([])

    def _draw_dots(self, width: float) -> None:
        rows = np.concatenate(list(self.dots.values()))
        counts = [len(table) for table in self.dots.values()]
        colors = np.repeat(np.array(_COLORS[: len(counts)]), counts)
        # The same mixed order whenever it is drawn.
        order = np.random.default_rng(0).permutation(len(rows))
        rows, colors = rows[order], colors[order]
        # Dots cover about the same share of a panel, however many and small they are.
        area = np.clip(700.0 * width * width / len(rows), 1.6, 14.0)
        look = {"s": float(area), "c": colors, "alpha": _OPACITY, "linewidths": 0}
        for i, j in zip(*np.tril_indices(len(self.names), -1), strict=True):
            self.axes_[i, j].scatter(rows[:, j], rows[:, i], rasterized=True, **look)

    def _draw_labels(self, width: float) -> None:
        from matplotlib.ticker import MaxNLocator

        d = len(self.names)
        size = float(np.clip(4.0 + 3.2 * width, 6.0, 10.0))
        for i, j in zip(*np.tril_indices(d), strict=True):
            ax: Axes = self.axes_[i, j]
            ax.tick_params(labelsize=0.85 * size, length=2.0, pad=1.5)
            ax.xaxis.set_major_locator(MaxNLocator(3, steps=[1, 2, 5, 10]))
            ax.tick_params(labelbottom=i == d - 1, bottom=i == d - 1)
            ax.spines[["top", "right"]].set_visible(False)
            ax.spines[["left", "bottom"]].set(color="0.6", linewidth=0.6)
            if i == j:
                ax.spines["left"].set_visible(False)
            else:
                ax.yaxis.set_major_locator(MaxNLocator(3, steps=[1, 2, 5, 10]))
                ax.tick_params(labelleft=j == 0, left=j == 0)
        for k, name in enumerate(self.names):
            self.axes_[d - 1, k].set_xlabel(name, fontsize=size)
            if k > 0:
                self.axes_[k, 0].set_ylabel(name, fontsize=size)
        self.figure_.align_labels()

    def _draw_legend(self, figure: Any) -> "Legend":
        from matplotlib.lines import Line2D

        look: dict[str, Any] = {"marker": "o", "markersize": 5, "linewidth": 1.4}
        handles = [
            Line2D([], [], color=color, linestyle=style, **look)
            for color, style in zip(_COLORS, _STYLES, strict=True)
        ]
        return figure.legend(
            handles[: len(self.samples)],
            [f"{label} ({len(rows)} rows)" for label, rows in self.samples.items()],
            loc="upper right",
            fontsize=10 if len(self.names) < 6 else 14,  # a larger picture is reduced
            frameon=False,
        )


def _names_of(tables: Mapping[str, Any]) -> list[str] | None:
    """Names of the columns, which all frames must have in the same order."""
    found: list[str] | None = None
    for label, rows in tables.items():
        if hasattr(rows, "columns"):
            names = [str(name) for name in rows.columns]
            found = found or names
            if names != found:
                raise ValueError(
                    f"{label} has the columns {names}, others have {found}; give the "
                    f"same columns in the same order."
                )
    return found


def _table(label: str, rows: Any) -> Array:
    table = as_numbers(label, rows)
    table = table[:, None] if table.ndim == 1 else table
    if table.ndim != 2 or 0 in table.shape:
        raise ValueError(
            f"{label} must have rows and columns, shape (n, d), got shape "
            f"{table.shape}."
        )
    if not np.all(np.isfinite(table)):
        raise ValueError(f"{label} contains NaN or infinity; remove these rows.")
    return table


def _chosen(columns: Sequence[int | str] | None, names: list[str]) -> list[int]:
    """Numbers of the columns to draw."""
    chosen = list(range(len(names)))
    if columns is not None:
        chosen = [_number_of(column, names) for column in columns]
    if not 1 <= len(chosen) <= _MOST_COLUMNS:
        raise ValueError(
            f"1 to {_MOST_COLUMNS} columns can be drawn, got {len(chosen)}; choose "
            f"some with columns."
        )
    return chosen


def _number_of(column: int | str, names: list[str]) -> int:
    if isinstance(column, str) and column in names:
        return names.index(column)
    if not isinstance(column, str) and -len(names) <= column < len(names):
        return int(column) % len(names)
    raise ValueError(f"columns has {column!r}, but the columns are {names}.")


def _thinned(table: Array, most: int, rng: np.random.Generator) -> Array:
    if len(table) <= most:
        return table
    return table[np.sort(rng.choice(len(table), size=most, replace=False))]


def _limits(tables: list[Array]) -> Array:
    """Range of each column in which nearly all rows of every sample lie, (d, 2)."""
    ends = np.array([np.quantile(table, _SHOWN, axis=0) for table in tables])
    low, high = ends[:, 0].min(axis=0), ends[:, 1].max(axis=0)
    # A constant column gets some width, of its own magnitude.
    room = np.where(
        high > low, _MARGIN * (high - low), 0.5 * np.maximum(1.0, np.abs(low))
    )
    return np.column_stack([low - room, high + room])
