"""Curves of densities of one variable, with stems of atoms, ribbons and quantile dots.

A picture knows a density only by its methods (`pdf`, `cdf`, `ppf`, `support`), so that
any object with these can be drawn.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import expit, logit

from kexpfam._typing import Array
from kexpfam._validation import check_count
from kexpfam.display.theme import THEME, pyplot

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_densities(
    densities: Any,
    ax: "Axes | None" = None,
    *,
    band: float | None = None,
    dots: int | None = None,
    **line: Any,
) -> "Axes":
    """Draw one or several densities of one variable as curves.

    Up to eight are named in a legend; more are coloured in order, from dark to light.
    A curve that meets a finite end of the support falls to zero there. Atoms are stems
    as high as their probability, on the same axis.

    Args:
        densities: n densities of one variable, or a single one, as `given` returns.
        ax: Where to draw; None for a new figure.
        band: Level of a ribbon, from `densities.band`, around each curve; None for
            none.
        dots: How many quantile dots to draw below the curve of a single density, such
            as 20: each stands for the same probability, so that 7 of 20 beyond a value
            mean 35 %; None for none.
        line: Passed to `Axes.plot`; `label` and `color` may be lists of n.

    Returns:
        The Axes.

    Raises:
        MissingDependencyError: matplotlib is not installed.
        ValueError: No densities, several variables, or a list of another length; dots
            of several densities.

    Example:
        >>> import matplotlib
        >>> matplotlib.use("Agg")
        >>> import numpy as np
        >>> from kexpfam import KCEF
        >>> x = np.linspace(0, 1, 60)[:, None]
        >>> y = x[:, 0] + 0.1 * np.cos(50 * x[:, 0])
        >>> p = KCEF().fit(x, y).given([[0.2], [0.8]])
        >>> ax = plot_densities(p, label=["x = 0.2", "x = 0.8"])
        >>> len(ax.lines)
        2
    """
    plt = pyplot()
    from matplotlib.cbook import normalize_kwargs
    from matplotlib.lines import Line2D
    from matplotlib.ticker import MaxNLocator

    require_one_variable(densities)
    curves = _curves(densities)
    n = len(curves)
    if dots is not None:
        check_count("dots", dots, least=1)
    if dots is not None and n > 1:
        raise ValueError(
            f"dots are those of one density, and there are {n}; use p[0].plot(dots=20)."
        )
    thin = {"linewidth": 1.0} if n > THEME.named else {}
    line = thin | normalize_kwargs(line, Line2D)
    labels = _labels(line.pop("label", None), n)
    colors = _colors(line.pop("color", None), n)
    if ax is None:
        _, ax = plt.subplots(layout="constrained")
    ribbons = _ribbons(densities, curves, band)
    stems = _stems(densities, n)
    for (y, p), ribbon, label, color, atoms in zip(
        curves, ribbons, labels, colors, stems, strict=True
    ):
        (drawn,) = ax.plot(y, p, label=label, color=color, **line)
        drawn.sticky_edges.y.append(0.0)  # no margin below, yet room for other curves
        if ribbon is not None:
            look: dict[str, Any] = {"color": drawn.get_color(), "linewidth": 0}
            ax.fill_between(y, *ribbon, alpha=0.25, **look)
        elif n <= 4:  # of more, fills are not told apart
            ax.fill_between(y, p, color=drawn.get_color(), alpha=0.15, linewidth=0)
        if len(atoms):
            shade, (at, height) = drawn.get_color(), atoms.T
            ax.vlines(at, 0.0, height, color=shade, linewidth=1.5)
            ax.plot(at, height, "o", color=shade, markersize=4)
    if dots is not None:
        _draw_quantile_dots(ax, densities, dots, ax.lines[-1].get_color())
    counted = getattr(densities, "measure", "lebesgue") == "counting"
    if counted:
        ylabel = "probability"
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    else:
        ylabel = "density and probability" if any(map(len, stems)) else "density"
    name = getattr(densities, "_column_names", ["y"])[0]
    ax.set(xlabel=name, ylabel=ylabel)
    if labels[0] is not None:
        ax.legend(frameon=False)
    return ax


def quantile_dots(densities: Any, count: int) -> tuple[Array, Array]:
    """Quantiles of one density in stacks, and the place of each in its own, (k,) each.

    Quantiles at (i + ½)/count are put into bins as wide as a dot, from the left. A
    value with several of them, for its own probability, has a stack of its own.

    Example:
        >>> from kexpfam.base_densities import GaussianBase
        >>> from kexpfam.distributions import ClosedFormDensity
        >>> p = ClosedFormDensity(GaussianBase(1.0), np.zeros(1), np.ones(1))
        >>> x, height = quantile_dots(p, 20)
        >>> len(x), int(height.max()) + 1  # the highest stack
        (20, 5)
    """
    levels = (np.arange(count) + 0.5) / count
    values = np.ravel(densities.quantile(levels))
    # So wide that the highest stack is about as high as the picture: a guess that
    # looks right for one mode.
    wide = float(np.ptp(values)) / max(1.0, 1.6 * np.sqrt(count)) or 1.0
    repeated = np.isin(values, values[1:][np.diff(values) == 0])
    counted = getattr(densities, "measure", "lebesgue") == "counting"
    x, stack = np.empty(count), np.zeros(count, dtype=int)
    start = 0
    while start < count:
        alike = np.flatnonzero(values == values[start])
        own = alike
        if len(alike) == 1 and not counted:
            near = (values[start:] < values[start] + wide) & ~repeated[start:]
            own = start + np.arange(int(np.argmin(np.append(near, False))))
        x[own], stack[own] = values[own].mean(), np.arange(len(own))
        start = int(own[-1]) + 1
    return x, stack


def _draw_quantile_dots(ax: Any, densities: Any, count: int, color: Any) -> None:
    """Dots below the axis of the curve, all of the same size."""
    x, stack = quantile_dots(densities, count)
    top = ax.get_ylim()[1]
    step = 0.5 * top / (stack.max() + 1)
    heights = -0.04 * top - (stack.max() - stack + 0.5) * step
    ax.set_ylim(-0.06 * top - (stack.max() + 1) * step, top)
    apart = np.diff(np.unique(x)).min(initial=np.ptp(ax.get_xlim()) / 10)
    points = ax.transData.transform(np.array([[0.0, 0.0], [apart, step]]))
    size = 0.85 * 72.0 / ax.figure.dpi * np.abs(np.diff(points, axis=0)).min()
    look: dict[str, Any] = {"linewidths": 0, "color": color, "alpha": 0.85}
    ax.scatter(x, heights, s=float(size) ** 2, **look)
    ax.axhline(0.0, color="0.6", linewidth=0.8)
    ax.set_yticks([tick for tick in ax.get_yticks() if 0 <= tick <= top])
    ax.text(
        0.99,
        0.97,
        f"each dot: 1 of {count}",
        transform=ax.transAxes,
        color="0.4",
        ha="right",
        va="top",
    ).set_fontsize(THEME.label_size)


def require_one_variable(densities: Any) -> None:
    """Refuse densities of several columns."""
    if not hasattr(densities, "ppf"):
        raise ValueError(
            f"This picture is for one column of y, and these densities have "
            f"{np.shape(densities.mean())[-1]}; fit and draw one column at a time, or "
            f"draw samples of them, from rvs()."
        )


def _curves(densities: Any) -> list[tuple[Array, Array]]:
    """Points (y, p) of the curve of each density, over the visible range of all."""
    if hasattr(densities, "atoms"):
        shares = np.atleast_1d(densities.continuous_share)
        if densities.density is None:
            return [(np.empty(0), np.empty(0))] * len(shares)
        inner = _curves(densities.density)
        return [(y, w * p) for (y, p), w in zip(inner, shares, strict=True)]
    ends = np.atleast_2d(densities.support)
    if len(ends) == 0:
        raise ValueError("There are no densities to draw: the batch is empty.")
    # So many equally spaced, and as many quantiles, which resolve a peak however narrow
    # it is beside the others.
    points = 301
    quantiles, lows, highs = visible_range(densities, points)
    low, high = widened(lows.min(), highs.max())
    even = np.broadcast_to(np.linspace(low, high, points), quantiles.shape)
    y = np.hstack([even, np.clip(quantiles, low, high)])
    y = np.sort(np.clip(y, ends[:, :1], ends[:, 1:]), axis=1)
    p = _batched(densities.pdf, densities, y)
    # A curve falls to zero where it meets an end of the support.
    met = np.column_stack([y[:, 0] <= ends[:, 0], y[:, -1] >= ends[:, 1]]).astype(int)
    return [
        (np.pad(own, pad, mode="edge"), np.pad(height, pad))
        for own, height, pad in zip(y, p, met.tolist(), strict=True)
    ]


def _ribbons(
    densities: Any, curves: list[tuple[Array, Array]], level: float | None
) -> list[tuple[Array, Array] | None]:
    """Ends of the band of each curve, at its points."""
    if level is None:
        return [None] * len(curves)
    each = [densities] if np.ndim(densities.support) == 1 else densities
    bands = [one.band(level, y) for one, (y, _) in zip(each, curves, strict=True)]
    return [(band.lower, band.upper) for band in bands]


def _stems(densities: Any, n: int) -> list[Array]:
    """Atoms of each law that are worth drawing, places and probabilities, (k, 2)."""
    if not hasattr(densities, "atoms"):
        return [np.empty((0, 2))] * n
    values, pi = densities.atoms
    pi = np.atleast_2d(pi)
    seen = pi >= 1e-3 * pi.max(axis=1, keepdims=True)
    return [
        np.column_stack([values[s], own[s]]) for own, s in zip(pi, seen, strict=True)
    ]


def visible_range(densities: Any, count: int) -> tuple[Array, Array, Array]:
    """Some quantiles of n densities, (n, count), and the ends, (n,), worth drawing."""
    tail = logit(0.001)  # probability that may be left outside on either side
    # Equally spaced in log odds, so that there are some in the tails.
    levels = expit(np.linspace(tail, -tail, count))
    y = _batched(densities.ppf, densities, levels[None])
    p = _batched(densities.pdf, densities, y)
    # Of a heavy tail only what is above this share of the peak is drawn: what is lower
    # is less than a pixel, and would squeeze the rest. A Gaussian is not cut (its share
    # at the 0.001 quantile is 0.008), a Cauchy is, at 22 scales instead of 318.
    seen = p >= 0.002 * p.max(axis=1, keepdims=True)
    low = np.where(seen, y, np.inf).min(axis=1)
    high = np.where(seen, y, -np.inf).max(axis=1)
    return y, low, high


def _batched(method: Any, densities: Any, points: Array) -> Array:
    """A method of n densities or of a single one, always with a leading axis."""
    single = np.ndim(densities.support) == 1
    return np.atleast_2d(method(points[0] if single else points))


def _labels(label: Any, n: int) -> list[str | None]:
    if label is None:
        named = 1 < n <= THEME.named
        return [f"row {i}" if named else None for i in range(n)]
    # One name for all curves stands once in the legend.
    names = [label] + [None] * (n - 1) if isinstance(label, str) else list(label)
    return _one_each("label", names, n)


def _colors(color: Any, n: int) -> list[Any]:
    if isinstance(color, list) or np.ndim(color) == 2:
        return _one_each("color", list(color), n)
    if color is None and n > THEME.named:
        from matplotlib import colormaps

        # Not to the end of the map, whose yellow is lost on white.
        return list(colormaps["viridis"](np.linspace(0.0, 0.9, n)))
    return [color] * n


def _one_each(name: str, values: list[Any], n: int) -> list[Any]:
    if len(values) != n:
        raise ValueError(
            f"{name} must be one value or a list of {n}, one per density; got a list "
            f"of {len(values)}."
        )
    return values


def widened(low: float, high: float) -> tuple[float, float]:
    """Ends with a little room around them."""
    # A single value gets some width, of its own magnitude.
    room = 0.02 * (high - low) or 0.5 * max(1.0, abs(low))
    return low - room, high + room
