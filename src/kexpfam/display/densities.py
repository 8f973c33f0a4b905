"""Heat maps of p(y|x) along a column, with quantiles.

A picture knows a density only by its methods (`pdf`, `cdf`, `ppf`, `support`) and an
estimator only by `given`, so that any model with these can be drawn. Computing and
drawing are apart, as in scikit-learn's displays: a `ConditionalDensityDisplay` holds
the arrays, and its `plot` draws them as often as wanted. matplotlib is imported when
something is drawn, never before.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.isotonic import isotonic_regression

from kexpfam._typing import Array, ArrayLike, Mask
from kexpfam.display.along import (
    AveragedDensities,
    ShownRows,
    averaged_along,
    column_relevance,
    mean_heights,
)
from kexpfam.display.condition_rows import ConditionRows
from kexpfam.display.conditions import EXTRAPOLATION, runs_of
from kexpfam.display.curves import (
    require_one_variable,
    visible_range,
    widened,
)
from kexpfam.display.theme import (
    COLOUR_POWER,
    THEME,
    full_colour,
    pyplot,
    short_dates,
    size_in_points,
)
from kexpfam.tables import response_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(kw_only=True, eq=False, repr=False)
class ConditionalDensityDisplay:
    """A heat map of p(y|x) with quantile lines and data, along one column of x.

    Build it with `from_estimator`, which computes the arrays and draws them. Of
    several columns of x the others are averaged over rows.

    Args:
        x: Conditions of the columns of the heat map, (g,), increasing.
        y_edges: Edges of its rows, (h + 1,), increasing.
        density: Mean of p(y|x) in each cell, (g, h).
        levels: Levels of the quantile lines, (k,).
        quantiles: The lines, (g, k).
        data: Rows (x, y) to show as dots, (n, 2); None for none.
        x_label: Label of the x-axis.
        y_label: Label of the y-axis.
        cmap: Colour map, as in `from_estimator`.
        atoms: Values with a probability of their own, (k,): cells with one are not
            what colours are scaled to.
        mean: Means, (g,), for a dotted line; None for none.
        few: Where hardly any rows are near, (g,), which is hatched; None for nowhere.
        categories: Names of the places 0, 1, ... on the x-axis; none for numbers.
        is_date: Whether x is days since 1970.
        title: What stands above.

    Attributes:
        ax_: The Axes drawn on.
        figure_: The figure that holds them.
        heatmap_: The mesh of p(y|x).
        colorbar_: Its colour bar.
        quantile_lines_: One line per level.
        scatter_: The dots, None without data.

    Example:
        >>> import matplotlib
        >>> matplotlib.use("Agg")
        >>> import numpy as np
        >>> from kexpfam import KCEF
        >>> x = np.linspace(0, 1, 60)[:, None]
        >>> y = x[:, 0] + 0.1 * np.cos(50 * x[:, 0])
        >>> model = KCEF().fit(x, y)
        >>> display = ConditionalDensityDisplay.from_estimator(model, x, y)
        >>> len(display.quantile_lines_)
        5
    """

    x: Array
    y_edges: Array
    density: Array
    levels: Array
    quantiles: Array
    data: Array | None = None
    x_label: str = "x"
    y_label: str = "y"
    cmap: Any = None
    atoms: Array = field(default_factory=lambda: np.empty(0))
    mean: Array | None = None
    few: Mask | None = None
    categories: tuple[str, ...] = ()
    is_date: bool = False
    title: str = ""
    ax_: Any = field(init=False)
    figure_: Any = field(init=False)
    heatmap_: Any = field(init=False)
    colorbar_: Any = field(init=False)
    quantile_lines_: Any = field(init=False)
    scatter_: Any = field(init=False)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any = None,
        *,
        along: int | str | None = None,
        ax: "Axes | None" = None,
        levels: ArrayLike = (0.05, 0.25, 0.5, 0.75, 0.95),
        grid_resolution: int = 200,
        cmap: Any = None,
    ) -> Self:
        """Compute p(y|x) over the range of a column of X and draw it.

        Of several columns one varies; at each of its values the densities of the rows
        most like it are averaged, so that they may be compared with the dots.

        Args:
            estimator: A fitted model with `given`, of one column of y.
            X: Conditions, (n, p), which set the range of x, and are averaged over.
            y: Responses, (n,), shown as dots; None for none.
            along: The column that varies, by name or number; None for the one that
                densities depend on most.
            ax: Where to draw; None for a new figure.
            levels: Levels of the quantile lines, strictly between 0 and 1.
            grid_resolution: Number of columns, and of rows, of the heat map.
            cmap: Colour map; None for one from white to a middle blue.

        Returns:
            The display, drawn.

        Raises:
            MissingDependencyError: matplotlib is not installed.
            ValueError: More than one column of y, or an argument out of range.
        """
        pyplot()  # that it is missing should show before the work, not after
        how: dict[str, Any] = {"levels": levels, "grid_resolution": grid_resolution}
        return cls.of_estimator(estimator, X, y, along=along, cmap=cmap, **how).plot(ax)

    @classmethod
    def of_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any = None,
        *,
        along: int | str | None = None,
        levels: ArrayLike = (0.05, 0.25, 0.5, 0.75, 0.95),
        grid_resolution: int = 200,
        cmap: Any = None,
    ) -> Self:
        """The same arrays, not yet drawn; arguments as in `from_estimator`."""
        levels = np.ravel(np.asarray(levels, dtype=float))
        if not np.all((levels > 0) & (levels < 1)):
            raise ValueError(f"levels must lie strictly between 0 and 1, got {levels}.")
        if grid_resolution < 2:
            raise ValueError(f"grid_resolution must be > 1, got {grid_resolution}.")
        rows = ConditionRows.of(estimator, X)
        if len(rows.names) > 1 or along is not None or rows.categories(0):
            return cls._averaged(rows, y, along, levels, cmap)
        seen, data = _columns(X, y)
        x = np.linspace(*widened(seen.min(), seen.max()), grid_resolution)
        p = estimator.given(_like(X, x))
        require_one_variable(p)
        quantiles = p.ppf(levels[None])
        grid = np.linspace(*_y_range(p, quantiles, data), grid_resolution + 1)
        atoms = getattr(p, "atoms", [np.empty(0)])[0]
        # The exact mean over a cell: no peak is missed between points of a grid.
        y_edges, density = mean_heights(grid, p.cdf(grid[None]), atoms)
        names = getattr(estimator, "feature_names_in_", ["x"])
        return cls(
            x=x,
            y_edges=y_edges,
            density=density,
            levels=levels,
            quantiles=quantiles,
            data=data,
            x_label=str(names[0]),
            y_label=_response_label(estimator, y),
            cmap=cmap,
            atoms=atoms,
        )

    @classmethod
    def _averaged(
        cls, rows: ConditionRows, y: Any, along: Any, levels: Array, cmap: Any
    ) -> Self:
        """Along one column of several, the others averaged over rows."""
        require_one_variable(rows.given(np.array([0])))
        values = None if y is None else _response(y, len(rows))
        column = (
            int(np.argmax(column_relevance(rows, len(rows.names))))
            if along is None
            else rows.place(along)
        )
        seen = None if values is None else values[np.isfinite(values)]
        found = averaged_along(rows, column, seen, alone=len(rows.names) == 1)
        return cls.of_averages(
            found,
            levels=levels,
            data=None if values is None else dots_along(rows, column, values),
            x_label=rows.names[column],
            y_label=_response_label(rows.model, y),
            cmap=cmap,
            categories=rows.categories(column),
            is_date=rows.is_date(column),
            atoms=getattr(rows.given(np.array([0])), "atoms", [np.empty(0)])[0],
            title=averaged_title(rows.names[column], len(rows.names)),
        )

    @classmethod
    def of_averages(
        cls, found: AveragedDensities, *, levels: Array, atoms: Array, **told: Any
    ) -> Self:
        """A display, not yet drawn, of averages along a column.

        Args:
            found: The averages.
            levels: Levels of the quantile lines, (k,).
            atoms: Values of y with a probability of their own, (m,).
            told: Other arguments of the class.
        """
        quantiles = found.quantiles(levels)
        edges, density = found.heights(quantiles[~found.few], atoms)
        return cls(
            x=found.places,
            y_edges=edges,
            density=density,
            levels=levels,
            quantiles=quantiles,
            mean=found.mean(),
            few=found.few,
            atoms=atoms,
            **told,
        )

    def plot(self, ax: "Axes | None" = None) -> Self:
        """Draw, on new Axes unless some are given; returns the display."""
        plt = pyplot()
        if ax is None:
            _, ax = plt.subplots(figsize=(7.0, 4.8), layout="constrained")
        self.ax_, self.figure_ = ax, ax.figure
        self._draw_heatmap(ax)
        self._draw_data(ax)
        self._draw_quantiles(ax)
        self._draw_mean_and_few(ax)
        ax.set(xlabel=self.x_label, ylabel=self.y_label)
        if self.title:
            ax.set_title(self.title, fontsize=9, loc="left", color="0.35")
        if self.categories:
            ax.set_xticks(self.x, _shortened(self.categories))
        if self.is_date:
            short_dates(ax)
        return self

    def _draw_heatmap(self, ax: Any) -> None:
        from matplotlib.colors import PowerNorm

        full, edges = full_colour(self.density, self.y_edges, self.atoms), self._edges
        # The labels of the lines stand between the Axes and the colour bar.
        label_width = 4.5 * THEME.label_size if len(self.levels) else 0.0
        self.heatmap_ = ax.pcolormesh(
            edges,
            self.y_edges,
            self.density.T,
            cmap=self.cmap or THEME.colormap(),
            norm=PowerNorm(COLOUR_POWER, vmin=0.0, vmax=full),
            rasterized=True,
        )
        self.colorbar_ = ax.figure.colorbar(
            self.heatmap_,
            ax=ax,
            label="p(y|x)",
            extend="max" if self.density.max() > full else "neither",
            pad=0.03 + label_width / size_in_points(ax)[0],
        )
        self.colorbar_.outline.set(edgecolor="0.6", linewidth=0.6)
        ax.set(xlim=(edges[0], edges[-1]), ylim=(self.y_edges[0], self.y_edges[-1]))

    @property
    def _edges(self) -> Array:
        """Edges of the columns, half of the way from one to the next, (g + 1,)."""
        half = 0.5 * np.diff(self.x) if len(self.x) > 1 else np.array([0.5])
        inner = self.x[:-1] + half[: len(self.x) - 1]
        return np.concatenate([[self.x[0] - half[0]], inner, [self.x[-1] + half[-1]]])

    def _draw_data(self, ax: Any) -> None:
        self.scatter_ = None
        if self.data is None:
            return
        # Fewer dots are larger and darker; many add up to a cloud.
        n = len(self.data)
        self.scatter_ = ax.scatter(
            self.data[:, 0],
            self.data[:, 1],
            s=float(np.clip(180.0 / np.sqrt(n), 3.0, 20.0)),
            alpha=float(np.clip(7.0 / np.sqrt(n), 0.1, 0.7)),
            color=THEME.dots,
            linewidths=0,
            rasterized=n > 5000,
        )
        # The heat map ends with the support; dots beyond it must show all the same.
        (bottom, top), y = ax.get_ylim(), self.data[:, 1]
        ax.set_ylim(min(bottom, y.min()), max(top, y.max()))

    def _draw_quantiles(self, ax: Any) -> None:
        self.quantile_lines_ = []
        for level, line in zip(self.levels, self.quantiles.T, strict=True):
            # The outer lines bound where y is rare, and are drawn as such.
            outer = abs(level - 0.5) > 0.3
            # Of categories, each has a line of its own across its column.
            x, y = self.x, line
            if self.categories:
                x = np.ravel(self.x[:, None] + 0.4 * np.array([-1, 1, 1]))
                y = np.repeat(line, 3)
                y[2::3] = np.nan
            self.quantile_lines_ += ax.plot(
                x,
                y,
                color=THEME.orange,
                linewidth=2.0 if level == 0.5 else 1.1,
                linestyle=(0, (4, 2)) if outer else "-",
            )
        look: dict[str, Any] = {"color": THEME.orange, "fontsize": THEME.label_size}
        look |= {"va": "center", "transform": ax.get_yaxis_transform()}
        look["in_layout"] = False  # the colour bar makes room, with any layout engine
        heights = _apart(self.quantiles[-1], ax)
        for level, height in zip(self.levels, heights, strict=True):
            if level == 0.5:
                ax.text(1.01, height, "median", fontweight="bold", **look)
            else:
                ax.text(1.01, height, f"{100 * level:.4g}%", **look)

    def _draw_mean_and_few(self, ax: Any) -> None:
        named = False
        if self.mean is not None:
            marks = (
                {"linestyle": "", "marker": "D", "markersize": 4}
                if self.categories
                else {"linestyle": ":", "linewidth": 1.3}
            )
            ax.plot(self.x, self.mean, color="k", label="mean", **marks)
            named = True
        look: dict[str, Any] = {"facecolor": (1.0, 1.0, 1.0, 0.45), "linewidth": 0.0}
        runs = [] if self.few is None else runs_of(self.few)
        for i, (first, last) in enumerate(runs):
            ends = self._edges[first], self._edges[last]
            look["label"] = None if i else EXTRAPOLATION
            ax.axvspan(*ends, hatch="///", edgecolor="0.78", zorder=2.5, **look)
            named = True
        if named:  # on white, as hatching may be behind it
            ax.legend(loc="best", framealpha=0.9, edgecolor="none")


def _response_label(estimator: Any, y: Any) -> str:
    """The name of y: that of what is passed, or else that of the fit."""
    return response_name(y) or getattr(estimator, "_target", None) or "y"


def averaged_title(name: str, columns: int) -> str:
    """What stands above a picture along one column of several."""
    return f"averaged over rows with similar {name}" if columns > 1 else ""


def dots_along(rows: ShownRows, column: int, y: Array, most: int = 5000) -> Array:
    """Rows (position, y) to show as dots, (m, 2), complete ones, some of many.

    Those of a category are beside each other, so that they are seen one by one.
    """
    x = rows.positions(column)
    rng = np.random.default_rng(0)
    if rows.categories(column):
        x = x + rng.uniform(-0.28, 0.28, len(x))
    both = np.column_stack([x, y])
    kept = np.flatnonzero(np.isfinite(both).all(axis=1))
    return both[np.sort(rng.permutation(kept)[:most])]


def _response(y: Any, n: int) -> Array:
    """One column of y beside n rows, NaN where nothing was observed, (n,)."""
    values = np.asarray(y, dtype=float)
    if values.ndim == 2 and values.shape[1] > 1:
        raise ValueError(
            f"This picture is for one column of y, and y has {values.shape[1]}; fit "
            f"and draw one column at a time."
        )
    if values.size != n:
        raise ValueError(f"y must have {n} rows like X, got shape {np.shape(y)}.")
    return values.ravel()


def _shortened(categories: tuple[str, ...]) -> list[str]:
    most = max(4, 90 // len(categories))
    return [c if len(c) <= most else c[: most - 1] + "…" for c in categories]


def _columns(X: Any, y: Any) -> tuple[Array, Array | None]:
    """The only column of X, finite, (n,); and beside that of y, if there is one."""
    x = _finite("X", np.asarray(X, dtype=float).ravel())
    if y is None:
        return x, None
    return x, np.column_stack([x, _finite("y", _response(y, len(x)))])


def _finite(name: str, values: Array) -> Array:
    if not np.all(np.isfinite(values)):
        raise ValueError(f"{name} contains NaN or infinity; remove these rows.")
    return values


def _like(X: Any, x: Array) -> Any:
    """The conditions x as a column, with the name, if any, that the model expects."""
    return type(X)({X.columns[0]: x}) if hasattr(X, "columns") else x[:, None]


def _y_range(p: Any, quantiles: Array, data: Array | None) -> tuple[float, float]:
    """A range that shows the mass, the quantile lines and the data."""
    _, low, high = visible_range(p, 31)
    # Columns that are shown to their tails. The others, mostly at x with few data, may
    # lose tails that would squeeze the rest, but never a quantile line.
    complete = 90
    seen = np.append(quantiles, [] if data is None else data[:, 1])
    bottom, top = widened(
        min(np.percentile(low, 100 - complete), seen.min(initial=np.inf)),
        max(np.percentile(high, complete), seen.max(initial=-np.inf)),
    )
    ends = p.support
    return max(bottom, ends[:, 0].min()), min(top, ends[:, 1].max())


def _apart(heights: Array, ax: Any) -> Array:
    """Heights, nearest to these, at which labels on the Axes do not overlap."""
    bottom, top = ax.get_ylim()
    line = 1.25 * THEME.label_size / size_in_points(ax)[1]
    gap = (top - bottom) * min(line, 1.0 / max(len(heights), 1))
    # Heights less the room of all labels below must increase: an isotonic regression.
    order, room = np.argsort(heights), gap * np.arange(len(heights))
    placed = np.empty_like(heights)
    if len(heights):
        placed[order] = room + isotonic_regression(
            heights[order] - room, y_min=bottom, y_max=top - room[-1]
        )
    return placed
