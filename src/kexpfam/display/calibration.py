"""Pictures of calibration: where observations fall in their predicted densities.

Both take values that are uniform on [0, 1] if the densities are right, from
`metrics.pit` and `metrics.hpd_values`, and show a band in which each bar, or each point
of a curve, lies with probability 95 % if they are: one bar in twenty may stick out.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from kexpfam._typing import Array, ArrayLike
from kexpfam._validation import (
    as_numbers,
    check_count,
    check_probability,
    check_weights,
)
from kexpfam.display.theme import THEME, pyplot

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Where bars and curves would be if all were well.
_IDEAL: dict[str, Any] = {"color": "0.35", "linestyle": (0, (4, 2))}


def plot_pit(
    values: ArrayLike,
    ax: "Axes | None" = None,
    *,
    bins: int | None = None,
    sample_weight: ArrayLike | None = None,
) -> "Axes":
    """Histogram of the probability integral transform, flat if all is well.

    Higher at both ends: the densities are too narrow. Higher in the middle: too wide.
    Sloping up: they lie too low; sloping down: too high.

    Args:
        values: Values of `metrics.pit`, (n,).
        ax: Where to draw; None for a new figure.
        bins: Number of bars; None for a number that suits n.
        sample_weight: Weight of each row; the band is then approximate.

    Returns:
        The Axes.

    Raises:
        MissingDependencyError: matplotlib is not installed.
        ValueError: Values outside [0, 1], or no bars.

    Example:
        >>> import matplotlib
        >>> matplotlib.use("Agg")
        >>> ax = plot_pit(np.random.default_rng(0).random(200), bins=8)
        >>> ax.get_xlabel()
        'PIT, F(y|x)'
    """
    plt = pyplot()
    u, weights = _uniform_values(values, sample_weight)
    n = _effective_rows(weights)
    if bins is None:
        # Of about 20 rows each, and neither too few nor too many to read.
        bins = int(np.clip(n // 20, 5, 20))
    elif check_count("bins", bins) == 0:
        raise ValueError("bins must be at least 1, got 0.")
    if ax is None:
        _, ax = plt.subplots(layout="constrained")
    shares, edges = np.histogram(u, bins, (0.0, 1.0), weights=weights / weights.sum())
    low, high = bins * _band(np.array([1.0 / bins]), n)[:, 0]
    look: dict[str, Any] = {"color": THEME.bars, "edgecolor": "white"}
    look |= {"width": 1.0 / bins, "align": "edge", "linewidth": 0.8}
    ax.bar(edges[:-1], bins * shares, **look)
    # Drawn over the bars, since what it says is how high they may be.
    band: dict[str, Any] = {"color": "0.3", "alpha": 0.15, "linewidth": 0}
    ax.axhspan(low, high, label="95% range if calibrated", **band)
    ax.axhline(1.0, linewidth=1.2, **_IDEAL)
    top = 1.3 * max(high, bins * shares.max())  # room for the legend
    ax.set(xlim=(0, 1), xlabel="PIT, F(y|x)")
    ax.set(ylim=(0, top), ylabel="relative frequency")
    ax.legend(frameon=False, loc="upper right")
    return ax


def plot_coverage(
    pit: ArrayLike,
    hpd_values: ArrayLike | None = None,
    ax: "Axes | None" = None,
    *,
    sample_weight: ArrayLike | None = None,
) -> "Axes":
    """Observed against nominal coverage, on the diagonal if all is well.

    Below it, intervals are too narrow; above it, too wide.

    Args:
        pit: Values of `metrics.pit`, (n,), for central intervals.
        hpd_values: Values of `metrics.hpd_values`, (n,), for highest-density regions;
            None to leave these out.
        ax: Where to draw; None for a new figure.
        sample_weight: Weight of each row; the band is then approximate.

    Returns:
        The Axes.

    Raises:
        MissingDependencyError: matplotlib is not installed.
        ValueError: Values outside [0, 1].

    Example:
        >>> import matplotlib
        >>> matplotlib.use("Agg")
        >>> ax = plot_coverage(np.random.default_rng(0).random(200))
        >>> ax.get_ylabel()
        'observed coverage'
    """
    plt = pyplot()
    u, weights = _uniform_values(pit, sample_weight)
    curves = [(np.abs(2.0 * u - 1.0), "central intervals", THEME.blue, "-")]
    if hpd_values is not None:
        v, _ = _uniform_values(hpd_values, weights)
        curves += [(v, "highest-density regions", THEME.orange, "--")]
    if ax is None:
        _, ax = plt.subplots(figsize=(4.8, 4.8), layout="constrained")
    nominal = np.linspace(0.0, 1.0, 201)
    low, high = _band(nominal, _effective_rows(weights))
    band: dict[str, Any] = {"color": "0.85", "linewidth": 0}
    ax.fill_between(nominal, low, high, label="95% range if calibrated", **band)
    ax.plot([0, 1], [0, 1], linewidth=1.0, **_IDEAL)
    for needed, label, color, style in curves:
        observed = _share_up_to(nominal, needed, weights)
        ax.plot(nominal, observed, style, color=color, linewidth=1.6, label=label)
    ax.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    ax.set(xlabel="nominal coverage", ylabel="observed coverage")
    ax.legend(frameon=False, loc="upper left")
    return ax


def plot_calibration(
    pit: ArrayLike,
    hpd_values: ArrayLike | None = None,
    axes: Any = None,
    *,
    sample_weight: ArrayLike | None = None,
) -> Any:
    """The PIT histogram and the coverage curve side by side.

    Args:
        pit: Values of `metrics.pit`, (n,).
        hpd_values: Values of `metrics.hpd_values`, (n,); None to leave these out.
        axes: Two Axes to draw on; None for a new figure.
        sample_weight: Weight of each row.

    Returns:
        Both Axes.
    """
    plt = pyplot()
    if axes is None:
        _, axes = plt.subplots(1, 2, figsize=(9.0, 4.2), layout="constrained")
    if np.size(axes) != 2:
        raise ValueError(f"axes must be two Axes, got {np.size(axes)}.")
    left, right = np.ravel(axes)
    plot_pit(pit, left, sample_weight=sample_weight)
    plot_coverage(pit, hpd_values, right, sample_weight=sample_weight)
    return axes


def _uniform_values(
    values: ArrayLike, sample_weight: ArrayLike | None
) -> tuple[Array, Array]:
    u = as_numbers("values", values)
    if u.ndim != 1 or len(u) == 0:
        raise ValueError(f"values must be a flat list, (n,), got shape {u.shape}.")
    check_probability("values", u)
    return u, check_weights(sample_weight, len(u))


def _effective_rows(weights: Array) -> int:
    """Rows of equal weight that would estimate a share as well."""
    return max(1, round(weights.sum() ** 2 / np.sum(weights**2)))


def _band(probability: Array, n: int) -> Array:
    """Shares of n rows between which a binomial share has 95 %, (k,) -> (2, k)."""
    from scipy.stats import binom

    return binom.ppf([[0.025], [0.975]], n, probability) / n


def _share_up_to(levels: Array, values: Array, weights: Array) -> Array:
    """Share of the weight whose value is not above each level."""
    order = np.argsort(values)
    total = np.append(0.0, np.cumsum(weights[order]))
    return total[np.searchsorted(values[order], levels, side="right")] / total[-1]
