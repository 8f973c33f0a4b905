"""Pictures of explanations: bars of importance, curves of effects, bars of a row."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kexpfam._typing import Array, Mask
from kexpfam.display.conditions import runs_of
from kexpfam.display.theme import THEME, middle_cut, pyplot, row_of_axes, short_number

# 1.96 standard errors on either side hold 95 % of a normal distribution.
_BAND = 1.96

# Of names beside bars, and of categories below an axis; of a name with its value.
_LETTERS = 28
_WITH_VALUE = 42


def plot_importance(
    names: Sequence[str],
    panels: Mapping[str, Mapping[str, Sequence[Any]]],
    axes: Any = None,
) -> Any:
    """Bars of what is lost without columns, the first on top, with 95 % intervals.

    Args:
        names: Of k columns or groups.
        panels: For each score, what is lost by "conditional" and "marginal" exchanges:
            k estimates with `value` and `standard_error`.
        axes: One Axes for each score; None for a new figure.

    Returns:
        The Axes.

    Raises:
        MissingDependencyError: matplotlib is not installed.
        ValueError: Other than one Axes for each score.
    """
    count, places = len(panels), np.arange(len(names))
    axes = row_of_axes(axes, count, (1.6 + 3.0 * count, 1.3 + 0.42 * len(names)))
    from matplotlib.ticker import MaxNLocator

    looks = {"conditional": (THEME.blue, -0.18), "marginal": (THEME.blues[2], 0.18)}
    words = {
        "conditional": "conditional: among similar rows",
        "marginal": "marginal: among all rows",
    }
    for ax, (score, kinds) in zip(np.ravel(axes), panels.items(), strict=True):
        for kind, losses in kinds.items():
            color, shift = looks[kind]
            values = np.array([loss.value for loss in losses])
            errors = np.array([loss.standard_error for loss in losses])
            bars: dict[str, Any] = {"height": 0.34, "color": color}
            ax.barh(places + shift, values, label=words[kind], **bars)
            _error_bars(ax, values, places + shift, errors)
        ax.axvline(0.0, color="0.35", linewidth=0.8)
        ax.set(xlabel=score, yticks=places)
        ax.set_yticklabels([middle_cut(name, _LETTERS) for name in names])
        ax.set_ylim(len(names) - 0.5, -0.5)
        ax.xaxis.set_major_locator(MaxNLocator(4))
    first = np.ravel(axes)[0]
    handles, labels = first.get_legend_handles_labels()
    first.figure.legend(
        handles, labels, loc="outside lower center", ncols=2, frameon=False, fontsize=9
    )
    return axes


def plot_effect(
    places: Any,
    values: Array,
    standard_errors: Array,
    extrapolated: Mask,
    *,
    names: Sequence[str],
    x_label: str,
    y_label: str,
    ax: Any = None,
) -> Any:
    """Curves along a column, or dots at categories, with bands of 95 %.

    Args:
        places: Numbers, moments or categories, (g,).
        values: The curves, (g, k).
        standard_errors: Of their points, (g, k).
        extrapolated: What is hatched, or drawn hollow, (g,).
        names: Of the curves.
        x_label: Name of the column.
        y_label: What is shown of the distribution.
        ax: Where to draw; None for a new figure.

    Returns:
        The Axes.

    Raises:
        MissingDependencyError: matplotlib is not installed.
    """
    plt = pyplot()
    if ax is None:
        _, ax = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
    categorical = places.dtype.kind == "O"
    x: Any = np.arange(len(places)) if categorical else places
    middle = len(names) // 2
    for k, name in enumerate(names):
        own, bar = values[:, k], _BAND * standard_errors[:, k]
        main = k == middle
        color = THEME.blue if main else THEME.samples[2]
        label = name if len(names) > 1 else None
        if categorical:
            shift = 0.12 * (k - middle)
            ax.errorbar(
                x + shift, own, bar, fmt="none", ecolor=color, capsize=3, linewidth=1.4
            )
            _dots(ax, x + shift, own, extrapolated, color, label)
        else:
            style: Any = "-" if main else (0, (4, 2))
            ax.plot(x, own, color=color, linestyle=style, linewidth=1.8, label=label)
            look: dict[str, Any] = {"color": color, "alpha": 0.18, "linewidth": 0}
            ax.fill_between(x, own - bar, own + bar, **look)
    if categorical:
        ax.set_xticks(x, [middle_cut(place, _LETTERS) for place in places])
        _tilted(ax, places)
    else:
        _hatched(ax, x, extrapolated)
        _rug(ax, x)
    ax.set(xlabel=x_label, ylabel=f"{y_label} of y" if y_label.isalpha() else y_label)
    if ax.get_legend_handles_labels()[1] and categorical:  # above: dots are anywhere
        look = {"loc": "lower center", "bbox_to_anchor": (0.5, 1.0), "ncols": 4}
        ax.legend(frameon=False, fontsize=9, **look)
    elif ax.get_legend_handles_labels()[1]:
        ax.legend(framealpha=0.9, edgecolor="none", fontsize=9)
    return ax


def plot_averaged_density(
    places: Any, y_edges: Array, density: Array, x_label: str, ax: Any = None
) -> Any:
    """Heat map of the mean of p(y|x) over rows with a column near each place.

    Args:
        places: Edges of its columns, (g + 1,), or g categories.
        y_edges: Edges of its rows, (h + 1,).
        density: The mean density in each cell, (g, h).
        x_label: Name of the column.
        ax: Where to draw; None for a new figure.

    Returns:
        The Axes.

    Raises:
        MissingDependencyError: matplotlib is not installed.
    """
    plt = pyplot()
    from matplotlib.colors import PowerNorm
    from matplotlib.ticker import MaxNLocator

    if ax is None:
        _, ax = plt.subplots(figsize=(6.8, 4.4), layout="constrained")
    g = len(density)
    categorical = len(places) == g
    edges = np.arange(g + 1) - 0.5 if categorical else places
    # As in pictures of p(y|x): a wide density is seen beside a narrow one.
    full = float(np.percentile(density.max(axis=1), 80))
    mesh = ax.pcolormesh(
        edges,
        y_edges,
        density.T,
        cmap=THEME.colormap(),
        norm=PowerNorm(0.6, vmin=0.0, vmax=full),
        rasterized=True,
    )
    bar = ax.figure.colorbar(
        mesh,
        ax=ax,
        label=f"mean of p(y|x) at {middle_cut(x_label, _LETTERS)}",
        extend="max" if density.max() > full else "neither",
    )
    bar.locator = MaxNLocator(5)
    bar.outline.set(edgecolor="0.6", linewidth=0.6)
    if categorical:
        ax.set_xticks(np.arange(g), [middle_cut(place, _LETTERS) for place in places])
        _tilted(ax, places)
    ax.set(xlabel=x_label, ylabel="y")
    return ax


def plot_contributions(
    labels: Sequence[str],
    values: Array,
    errors: Array,
    ends: tuple[float, float],
    of: str,
    ax: Any = None,
) -> Any:
    """Bars of what columns add to a number of p(y|x), the first on top.

    Each begins where the one above it ends, from the average to the number of the row.

    Args:
        labels: Columns with their values, k of them.
        values: What each adds, (k,).
        errors: Standard errors of these, (k,).
        ends: The average, and the number of the row.
        of: What is explained.
        ax: Where to draw; None for a new figure.

    Returns:
        The Axes.

    Raises:
        MissingDependencyError: matplotlib is not installed.
    """
    plt = pyplot()
    k = len(labels)
    if ax is None:
        _, ax = plt.subplots(figsize=(6.8, 1.5 + 0.42 * k), layout="constrained")
    average, prediction = ends
    stops = average + np.concatenate([[0.0], np.cumsum(values)])
    places = np.arange(k)
    colors = np.where(values >= 0, THEME.blue, THEME.orange)
    ax.barh(places, values, left=stops[:-1], height=0.56, color=list(colors))
    _error_bars(ax, stops[1:], places, errors)
    for place in places[1:]:  # from the end of a bar to the beginning of the next
        at = stops[place]
        ax.plot([at, at], [place - 1 + 0.28, place - 0.28], color="0.6", linewidth=0.8)
    low, high = stops.min(), stops.max()
    room = 0.02 * (high - low or 1.0)
    for place, value, start, stop in zip(
        places, values, stops[:-1], stops[1:], strict=True
    ):
        # Beside the bar, on the side where it ends.
        side = 1.0 if value >= 0 else -1.0
        where = (max(start, stop) if side > 0 else min(start, stop)) + side * room
        look: dict[str, Any] = {"va": "center", "ha": "left" if side > 0 else "right"}
        behind = {"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 0.8}
        look |= {"fontsize": THEME.label_size, "bbox": behind}
        ax.text(where, place, _signed(value), **look)
    dashed: dict[str, Any] = {"linestyle": (0, (4, 2)), "linewidth": 1.0, "zorder": 0}
    ax.axvline(average, color="0.55", **dashed)
    ax.axvline(prediction, color="0.2", **dashed)
    ax.set_xlim(low - 11 * room, high + 11 * room)
    ax.set(yticks=places, xlabel=of)
    ax.set_yticklabels([middle_cut(label, _WITH_VALUE) for label in labels])
    ax.set_ylim(k - 0.5, -0.5)
    ax.set_title(
        f"{of} is {short_number(prediction)} here, {short_number(average)} on average",
        fontsize=10,
    )
    return ax


def _signed(value: float) -> str:
    return f"{'+' if value >= 0 else '−'}{short_number(abs(value), 3)}"


def _error_bars(ax: Any, values: Array, places: Any, errors: Array) -> None:
    """Intervals of 95 % at the ends of bars, where there are errors."""
    some = np.isfinite(errors) & (errors > 0) & np.isfinite(values)
    look: dict[str, Any] = {"fmt": "none", "ecolor": "0.25", "elinewidth": 1.0}
    ax.errorbar(values[some], places[some], xerr=_BAND * errors[some], **look)


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


def _tilted(ax: Any, places: Any) -> None:
    """Turn labels that would run into each other."""
    if sum(len(middle_cut(place, _LETTERS)) + 2 for place in places) > 60:
        ax.tick_params(axis="x", rotation=30)
        for label in ax.get_xticklabels():
            label.set_horizontalalignment("right")
