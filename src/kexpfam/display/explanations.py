"""Pictures of explanations: bars of importance, curves of effects, bars of a row.

Displays hold what is shown, and their `plot` draws it as often as wanted, as
scikit-learn's do.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from kexpfam._typing import Array, Mask
from kexpfam.display.conditions import runs_of
from kexpfam.display.theme import (
    COLOUR_POWER,
    THEME,
    axes_or_new,
    full_colour,
    middle_cut,
    row_of_axes,
    short_dates,
    short_number,
    size_in_points,
)

# 1.96 standard errors on either side hold 95 % of a normal distribution.
BAND = 1.96

# Of names beside bars, and of categories below an axis; of a name with its value.
_LETTERS = 28
_WITH_VALUE = 42

# How kinds of exchanges are drawn, where, and what they are called.
_KINDS = {
    "conditional": (THEME.blue, -0.18, "conditional: among similar rows"),
    "marginal": (THEME.blues[2], 0.18, "marginal: among all rows"),
}


def of_response(what: str, response: str) -> str:
    """What a number of p(y|x) is called beside the name of y.

    Example:
        >>> of_response("q0.9", "price"), of_response("P(y>2)", "price")
        ('q0.9 of price', 'P(price>2)')
    """
    if what.startswith("P(y"):
        return f"P({response}{what.removeprefix('P(y')}"
    return f"{what} of {response}"


@dataclass(kw_only=True, eq=False, repr=False)
class ImportanceDisplay:
    """Bars of what is lost without columns, the first on top, with 95 % intervals.

    Args:
        names: Of k columns or groups.
        panels: For each score, what is lost by "conditional" and "marginal" exchanges:
            k estimates with `value` and `standard_error`.

    Attributes:
        axes_: The Axes, one for each score, (s,).
        figure_: The figure that holds them.
    """

    names: Sequence[str]
    panels: Mapping[str, Mapping[str, Sequence[Any]]]
    axes_: Any = field(init=False)
    figure_: Any = field(init=False)

    def plot(self, axes: Any = None) -> Self:
        """Draw, on a new figure unless one Axes for each score is given.

        Raises:
            MissingDependencyError: matplotlib is not installed.
            ValueError: Other than one Axes for each score.
        """
        count, k = len(self.panels), len(self.names)
        axes = row_of_axes(axes, count, (1.6 + 3.0 * count, 1.3 + 0.42 * k))
        self.axes_ = np.ravel(np.asarray(axes, dtype=object))
        self.figure_ = self.axes_[0].figure
        for ax, (score, kinds) in zip(self.axes_, self.panels.items(), strict=True):
            self._draw_score(ax, score, kinds)
        handles, labels = self.axes_[0].get_legend_handles_labels()
        look: dict[str, Any] = {"ncols": 2, "frameon": False, "fontsize": 9}
        self.figure_.legend(handles, labels, loc="outside lower center", **look)
        return self

    def _draw_score(
        self, ax: Any, score: str, kinds: Mapping[str, Sequence[Any]]
    ) -> None:
        from matplotlib.ticker import MaxNLocator

        places = np.arange(len(self.names))
        for kind, losses in kinds.items():
            color, shift, words = _KINDS[kind]
            values = np.array([loss.value for loss in losses])
            errors = np.array([loss.standard_error for loss in losses])
            ax.barh(places + shift, values, height=0.34, color=color, label=words)
            _error_bars(ax, values, places + shift, errors)
        ax.axvline(0.0, color="0.35", linewidth=0.8)
        ax.set(xlabel=score, yticks=places)
        ax.set_yticklabels([middle_cut(name, _LETTERS) for name in self.names])
        ax.set_ylim(len(self.names) - 0.5, -0.5)
        ax.xaxis.set_major_locator(MaxNLocator(4))


@dataclass(kw_only=True, eq=False, repr=False)
class EffectDisplay:
    """Curves along a column, or dots at categories, with bands of 95 %.

    With `y_edges` it is a heat map of the mean of p(y|x) over rows near each place.

    Args:
        places: Numbers, moments or categories, (g,).
        values: The curves, (g, k), or the mean density in each cell of y, (g, h).
        standard_errors: Of these, (g, k).
        extrapolated: What is hatched, or drawn hollow, (g,).
        names: Of the curves; none of a heat map.
        x_label: Name of the column.
        of: What is shown of the distribution.
        response: What y is called.
        y_edges: Edges of the cells of a heat map, (h + 1,); None for curves.
        x_edges: Edges of its columns, (g + 1,); None for categories.
        limits: Between which the values always are; bands are cut there.
        atoms: Values of y with a probability of their own, (m,), of a heat map.

    Attributes:
        ax_: The Axes drawn on.
        figure_: The figure that holds them.
    """

    places: Any
    values: Array
    standard_errors: Array
    extrapolated: Mask
    names: Sequence[str]
    x_label: str
    of: str
    response: str = "y"
    y_edges: Array | None = None
    x_edges: Any = None
    limits: tuple[float, float] = (-np.inf, np.inf)
    atoms: Array = field(default_factory=lambda: np.empty(0))
    ax_: Any = field(init=False)
    figure_: Any = field(init=False)

    def plot(self, ax: Any = None) -> Self:
        """Draw, on new Axes unless some are given; returns the display."""
        ax = axes_or_new(ax, (6.6, 4.3))
        self.ax_, self.figure_ = ax, ax.figure
        if self.y_edges is not None:
            self._draw_density(ax, self.y_edges)
        elif self._is_categorical:
            self._draw_dots(ax)
        else:
            self._draw_curves(ax)
        if self._is_categorical:
            names = [middle_cut(place, _LETTERS) for place in self.places]
            ax.set_xticks(np.arange(len(names)), names)
            _tilted(ax, names)
        elif self.places.dtype.kind == "M":
            short_dates(ax)
        ax.set_xlabel(self.x_label)
        if ax.get_legend_handles_labels()[1]:  # beside, as curves and dots are anywhere
            look: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0)}
            look |= {"borderaxespad": 0.2, "handlelength": 1.8, "fontsize": 9}
            ax.legend(frameon=False, **look)
        return self

    @property
    def _is_categorical(self) -> bool:
        return bool(self.places.dtype.kind == "O")

    @property
    def _curves(self) -> list[tuple[Array, Array, str, bool, str | None]]:
        """Values, their band, (2, g), colour, whether it is the middle one, label."""
        middle = len(self.names) // 2
        bar = BAND * self.standard_errors
        bands = np.clip([self.values - bar, self.values + bar], *self.limits)
        return [
            (
                self.values[:, k],
                bands[..., k],
                THEME.blue if k == middle else THEME.samples[2],
                k == middle,
                name if len(self.names) > 1 else None,
            )
            for k, name in enumerate(self.names)
        ]

    def _draw_curves(self, ax: Any) -> None:
        for own, ends, color, main, label in self._curves:
            style: Any = "-" if main else (0, (4, 2))
            look: dict[str, Any] = {"linestyle": style, "linewidth": 1.8}
            ax.plot(self.places, own, color=color, label=label, **look)
            band: dict[str, Any] = {"color": color, "alpha": 0.18, "linewidth": 0}
            ax.fill_between(self.places, *ends, **band)
        _hatched(ax, self.places, self.extrapolated)
        _rug(ax, self.places)
        self._name_y(ax)

    def _draw_dots(self, ax: Any) -> None:
        x, hollow = np.arange(len(self.places), dtype=float), self.extrapolated
        for k, (own, ends, color, _, label) in enumerate(self._curves):
            at: Array = x + 0.12 * (k - len(self.names) // 2)
            look: dict[str, Any] = {"fmt": "none", "ecolor": color, "capsize": 3}
            ax.errorbar(at, own, np.abs(ends - own), linewidth=1.4, **look)
            _dots(ax, at, own, hollow, color, label)
        ax.set_xlim(-0.6, len(x) - 0.4)
        self._name_y(ax)

    def _name_y(self, ax: Any) -> None:
        ax.set_ylabel(of_response(self.of, self.response))

    def _draw_density(self, ax: Any, y_edges: Array) -> None:
        from matplotlib.colors import PowerNorm
        from matplotlib.ticker import MaxNLocator

        edges, density = self._columns()
        full = full_colour(density, y_edges, self.atoms)
        mesh = ax.pcolormesh(
            edges,
            y_edges,
            density.T,
            cmap=THEME.colormap(),
            norm=PowerNorm(COLOUR_POWER, vmin=0.0, vmax=full),
            rasterized=True,
        )
        bar = ax.figure.colorbar(
            mesh,
            ax=ax,
            label=f"mean of p(y|x) at {middle_cut(self.x_label, _LETTERS)}",
            extend="max" if density.max() > full else "neither",
        )
        bar.locator = MaxNLocator(5)
        bar.outline.set(edgecolor="0.6", linewidth=0.6)
        ax.set_ylabel(self.response)

    def _columns(self, count: int = 200) -> tuple[Any, Array]:
        """Edges of the columns of a heat map, (c + 1,), and densities in them, (c, h).

        Of numbers there are more columns than places, between which densities change
        along straight lines.
        """
        g = len(self.values)
        if self._is_categorical:
            return np.arange(g + 1) - 0.5, self.values
        ends = np.asarray(self.x_edges)
        if ends.dtype.kind == "M":
            ends = ends.astype("M8[us]").astype(float)
        edges = np.linspace(ends[0], ends[-1], count + 1)
        middles = 0.5 * (ends[1:] + ends[:-1])
        at = 0.5 * (edges[1:] + edges[:-1])
        density = np.stack([np.interp(at, middles, own) for own in self.values.T], 1)
        if np.asarray(self.x_edges).dtype.kind == "M":
            return edges.astype("M8[us]"), density
        return edges, density


@dataclass(kw_only=True, eq=False, repr=False)
class ContributionsDisplay:
    """Bars of what columns add to a number of p(y|x), the first on top.

    Each begins where the one above it ends, from the average to the number of the row.

    Args:
        labels: Columns with their values, k of them.
        values: What each adds, (k,).
        standard_errors: Of these, (k,).
        average: Where the first bar begins.
        prediction: The number of the row, where the last one ends.
        of: What is explained.

    Attributes:
        ax_: The Axes drawn on.
        figure_: The figure that holds them.
    """

    labels: Sequence[str]
    values: Array
    standard_errors: Array
    average: float
    prediction: float
    of: str
    ax_: Any = field(init=False)
    figure_: Any = field(init=False)

    def plot(self, ax: Any = None) -> Self:
        """Draw, on new Axes unless some are given; returns the display."""
        k = len(self.labels)
        ax = axes_or_new(ax, (6.8, 1.5 + 0.42 * k))
        self.ax_, self.figure_ = ax, ax.figure
        stops = self.average + np.concatenate([[0.0], np.cumsum(self.values)])
        places = np.arange(k)
        colors = [THEME.blue if v >= 0 else THEME.orange for v in self.values]
        ax.barh(places, self.values, left=stops[:-1], height=0.56, color=colors)
        _error_bars(ax, stops[1:], places, self.standard_errors)
        for place in places[1:]:  # from the end of a bar to the beginning of the next
            at, ends = stops[place], [place - 1 + 0.28, place - 0.28]
            ax.plot([at, at], ends, color="0.6", linewidth=0.8)
        self._draw_numbers(ax, stops)
        dashed: dict[str, Any] = {"linestyle": (0, (4, 2)), "zorder": 0}
        for end, color in ((self.average, "0.6"), (self.prediction, "0.25")):
            ax.axvline(end, color=color, linewidth=1.0, **dashed)
        ax.set(yticks=places, xlabel=self.of)
        ax.set_yticklabels([middle_cut(label, _WITH_VALUE) for label in self.labels])
        ax.set_ylim(k - 0.5, -0.5)
        here, usual = short_number(self.prediction), short_number(self.average)
        ax.set_title(f"{self.of} is {here} here, {usual} on average", fontsize=10)
        return self

    def _draw_numbers(self, ax: Any, stops: Array) -> None:
        """Numbers beside the bars, where these and their errors end."""
        errors = np.nan_to_num(BAND * self.standard_errors)
        low = min(stops.min(), float((stops[1:] - errors).min(initial=np.inf)))
        high = max(stops.max(), float((stops[1:] + errors).max(initial=-np.inf)))
        room = 0.02 * (high - low or 1.0)
        behind = {"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 0.8}
        for place, value in enumerate(self.values):
            side = 1.0 if value >= 0 else -1.0
            where = stops[place + 1] + side * (errors[place] + room)
            look: dict[str, Any] = {"ha": "left" if side > 0 else "right"}
            look |= {"va": "center", "fontsize": THEME.label_size, "bbox": behind}
            ax.text(where, place, _signed(value), **look)
        # Letters are about 0.6 of their height wide; names beside the Axes take some of
        # the room that these have by now.
        wide = 0.6 * THEME.label_size * max(len(_signed(v)) for v in self.values)
        share = min(0.3, wide / (0.7 * size_in_points(ax)[0]))
        pad = room + max(7 * room, share / (1.0 - 2.0 * share) * (high - low))
        ax.set_xlim(low - pad, high + pad)


def _signed(value: float) -> str:
    return f"{'+' if value >= 0 else '−'}{short_number(abs(value), 3)}"


def _error_bars(ax: Any, values: Array, places: Any, errors: Array) -> None:
    """Intervals of 95 % at the ends of bars, where there are errors."""
    some = np.isfinite(errors) & (errors > 0) & np.isfinite(values)
    look: dict[str, Any] = {"fmt": "none", "ecolor": "0.25", "elinewidth": 1.0}
    ax.errorbar(values[some], places[some], xerr=BAND * errors[some], **look)


def _dots(
    ax: Any, x: Array, y: Array, hollow: Mask, color: str, label: str | None
) -> None:
    look: dict[str, Any] = {"marker": "o", "s": 34, "edgecolors": color, "zorder": 3}
    ax.scatter(x[~hollow], y[~hollow], facecolors=color, label=label, **look)
    if hollow.any():
        ax.scatter(x[hollow], y[hollow], facecolors="white", label="unlike", **look)


def _hatched(ax: Any, x: Any, extrapolated: Mask) -> None:
    """Dim and hatch stretches where rows that were moved there are unlike others."""
    look = {"facecolor": (1.0, 1.0, 1.0, 0.45), "edgecolor": "0.78", "linewidth": 0.0}
    for i, (first, last) in enumerate(runs_of(extrapolated)):
        # Half of the way to the places around.
        before, after = x[max(first - 1, 0)], x[min(last, len(x) - 1)]
        low = x[first] - (x[first] - before) / 2
        high = x[last - 1] + (after - x[last - 1]) / 2
        label = None if i else "unlike the data"
        ax.axvspan(low, high, hatch="///", zorder=2.5, label=label, **look)


def _rug(ax: Any, x: Any) -> None:
    """Where the places are: between two of them lie as many rows as between others."""
    look: dict[str, Any] = {"color": "0.45", "linewidth": 0.0, "clip_on": False}
    ax.plot(x, np.zeros(len(x)), "|", transform=ax.get_xaxis_transform(), **look)


def _tilted(ax: Any, names: Sequence[str]) -> None:
    """Turn labels that would run into each other."""
    if sum(len(name) + 2 for name in names) > 60:
        ax.tick_params(axis="x", rotation=30)
        for label in ax.get_xticklabels():
            label.set_horizontalalignment("right")
