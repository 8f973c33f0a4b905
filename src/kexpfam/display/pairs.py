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
from kexpfam.display.theme import THEME, pyplot

if TYPE_CHECKING:
    from matplotlib.figure import Figure, SubFigure


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
    figure_: Any = field(init=False)
    axes_: Any = field(init=False)
    legend_: Any = field(init=False)

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
        most = len(THEME.samples) - 1
        if not 1 <= len(named) <= most:
            raise ValueError(
                f"Beside the data 1 to {most} samples can be told apart, got "
                f"{len(named)}."
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

    def plot(self, figure: Any = None) -> Self:
        """Draw, in a new figure unless one is given; returns the display."""
        plt = pyplot()
        d = len(self.names)
        margins = np.array([0.75, 0.6, 0.15, 0.15])  # left, bottom, right, top: inches
        if figure is None:
            # Of a panel, in inches: the fewer columns, the larger.
            panel = [3.6, 2.6, 2.1, 1.8, 1.6, 1.3][min(d, 6) - 1]
            figure = plt.figure(figsize=d * panel + margins[:2] + margins[2:])
        size = figure.bbox.size / figure.figure.dpi
        left, bottom, right, top = margins / np.tile(size, 2)
        sides = {"left": left, "bottom": bottom, "right": 1 - right, "top": 1 - top}
        gap = 0.08 if d < 6 else 0.12  # of a panel
        grid = figure.add_gridspec(d, d, wspace=gap, hspace=gap, **sides)
        self.figure_, self.axes_ = figure, np.full((d, d), None, dtype=object)
        for i, j in zip(*np.tril_indices(d), strict=True):
            ax = self.axes_[i, j] = figure.add_subplot(grid[i, j])
            ax.set_xlim(self.limits[j])
            if i != j:
                ax.set_ylim(self.limits[i])
        self._draw_histograms()
        self._draw_dots(size[0] / d)
        self._draw_labels(size[0] / d)
        self._draw_legend()
        return self

    def _draw_histograms(self) -> None:
        # About the root of the rows of the smallest sample.
        fewest = min(len(table) for table in self.samples.values())
        bars = int(np.clip(np.sqrt(fewest), 8, 40))
        for j, ax in enumerate(self.axes_.diagonal()):
            edges = np.linspace(self.limits[j, 0], self.limits[j, 1], bars + 1)
            for k, table in enumerate(self.samples.values()):
                counts, _ = np.histogram(table[:, j], edges)
                # Over all rows: what is beyond the range counts, too.
                heights = counts / (len(table) * (edges[1] - edges[0]))
                if k == 0:
                    ax.stairs(heights, edges, fill=True, color="0.82", linewidth=0)
                look = {"color": THEME.samples[k], "linestyle": THEME.dashes[k]}
                ax.stairs(heights, edges, linewidth=1.4 if k else 1.0, **look)
            ax.set_ylim(bottom=0.0)
            ax.set_yticks([])

    def _draw_dots(self, width: float) -> None:
        rows = np.concatenate(list(self.dots.values()))
        counts = [len(table) for table in self.dots.values()]
        colors = np.repeat(np.array(THEME.samples[: len(counts)]), counts)
        # The same mixed order whenever it is drawn.
        order = np.random.default_rng(0).permutation(len(rows))
        rows, colors = rows[order], colors[order]
        # Dots cover about the same share of a panel, however many and small they are.
        area = float(np.clip(700.0 * width * width / len(rows), 1.6, 14.0))
        # More opaque hides what is below, less mixes the colours.
        look = {"s": area, "c": colors, "alpha": 0.7, "linewidths": 0}
        for i, j in zip(*np.tril_indices(len(self.names), -1), strict=True):
            self.axes_[i, j].scatter(rows[:, j], rows[:, i], rasterized=True, **look)

    def _draw_labels(self, width: float) -> None:
        from matplotlib.ticker import MaxNLocator

        d = len(self.names)
        size = float(np.clip(4.0 + 3.2 * width, 6.0, 10.0))
        for i, j in zip(*np.tril_indices(d), strict=True):
            ax = self.axes_[i, j]
            ax.tick_params(labelsize=0.85 * size, length=2.0, pad=1.5)
            ax.tick_params(labelbottom=i == d - 1, bottom=i == d - 1)
            ax.tick_params(labelleft=j == 0, left=j == 0)
            ax.xaxis.set_major_locator(MaxNLocator(3, steps=[1, 2, 5, 10]))
            if i != j:
                ax.yaxis.set_major_locator(MaxNLocator(3, steps=[1, 2, 5, 10]))
            ax.spines[["top", "right"]].set_visible(False)
            ax.spines[["left", "bottom"]].set(color="0.6", linewidth=0.6)
            ax.spines["left"].set_visible(i != j)
        for k, name in enumerate(self.names):
            self.axes_[d - 1, k].set_xlabel(name, fontsize=size)
            if k > 0:
                self.axes_[k, 0].set_ylabel(name, fontsize=size)
        self.figure_.align_labels()

    def _draw_legend(self) -> None:
        from matplotlib.lines import Line2D

        look: dict[str, Any] = {"marker": "o", "markersize": 5, "linewidth": 1.4}
        handles = [
            Line2D([], [], color=color, linestyle=dash, **look)
            for color, dash in zip(THEME.samples, THEME.dashes, strict=True)
        ]
        labels = [f"{label} ({len(rows)} rows)" for label, rows in self.samples.items()]
        size = 10 if len(self.names) < 6 else 14  # a larger picture is reduced
        place = {"loc": "upper right", "fontsize": size, "frameon": False}
        self.legend_ = self.figure_.legend(handles[: len(labels)], labels, **place)


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
    chosen = []
    for column in range(len(names)) if columns is None else columns:
        if isinstance(column, str) and column in names:
            chosen.append(names.index(column))
        elif not isinstance(column, str) and -len(names) <= column < len(names):
            chosen.append(int(column) % len(names))
        else:
            raise ValueError(f"columns has {column!r}, but the columns are {names}.")
    most = 12  # panels of more are too small to read
    if not 1 <= len(chosen) <= most:
        raise ValueError(
            f"1 to {most} columns can be drawn, got {len(chosen)}; choose some with "
            f"columns."
        )
    return chosen


def _thinned(table: Array, most: int, rng: np.random.Generator) -> Array:
    if len(table) <= most:
        return table
    return table[np.sort(rng.choice(len(table), size=most, replace=False))]


def _limits(tables: list[Array]) -> Array:
    """Range of each column in which nearly all rows of every sample lie, (d, 2).

    A stray point, or the tail of a bad sampler, must not squeeze the rest.
    """
    ends = np.array([np.quantile(table, [0.002, 0.998], axis=0) for table in tables])
    low, high = ends[:, 0].min(axis=0), ends[:, 1].max(axis=0)
    # A constant column gets some width, of its own magnitude.
    room = np.where(high > low, 0.06 * (high - low), 0.5 * np.maximum(1.0, np.abs(low)))
    return np.column_stack([low - room, high + room])
