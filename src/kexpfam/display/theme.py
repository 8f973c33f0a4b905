"""What pictures have in common: colours, sizes, short texts, and matplotlib."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from kexpfam._optional import needed
from kexpfam._typing import Array


@dataclass(frozen=True)
class Theme:
    """Colours and sizes, judged by eye on smooth, bimodal and bounded data."""

    # From none to most. The last is a middle blue, so that dark dots and orange lines
    # stay readable on it.
    blues: tuple[str, ...] = ("#ffffff", "#e3eef9", "#b7d4ea", "#7fb3d9", "#4a90c4")
    bars: str = "#7fb3d9"
    blue: str = "#08519c"  # of a line on white
    orange: str = "#d94801"  # of a line on blues
    dots: str = "#08213f"
    # Of samples beside each other, from dark to light: neighbours differ in lightness
    # and, for any kind of colour vision, in hue. The dashes are those of their lines.
    samples: tuple[str, ...] = ("#1a1a1a", "#e8871e", "#2a7fc0", "#9ecf6b", "#b04a8f")
    dashes: tuple[Any, ...] = (
        *("-", "-", (0, (4, 1.2))),
        *((0, (1.2, 0.8)), (0, (5, 1, 1, 1))),
    )
    label_size: float = 8.0  # beside a line, in points
    named: int = 8  # curves up to which a legend is read

    def colormap(self) -> Any:
        """The blues as a matplotlib map."""
        from matplotlib.colors import LinearSegmentedColormap

        return LinearSegmentedColormap.from_list("blues", self.blues)


THEME = Theme()

# Colour follows a power of the density, to show a wide one beside a narrow one, and is
# full at a percentile of the columns' peaks: guesses that look right.
COLOUR_POWER, _COLOUR_FULL = 0.6, 80.0


def full_colour(density: Array, y_edges: Array, atoms: Array) -> float:
    """The density at which colours of a heat map are full.

    Args:
        density: Mean density in each cell, (g, h).
        y_edges: Edges of its rows, (h + 1,).
        atoms: Values with a probability of their own, (m,): cells with one are not what
            colours are scaled to, unless all have one, as of a mass function.
    """
    low, high = y_edges[:-1, None], y_edges[1:, None]
    smooth = ~np.any((low <= atoms) & (atoms <= high), axis=1)
    peaks: Array = np.max(density, axis=1, where=smooth, initial=0.0)
    if not peaks.any():
        peaks = density.max(axis=1)
    return float(np.percentile(peaks, _COLOUR_FULL))


def pyplot() -> Any:
    """matplotlib.pyplot, imported when something is drawn."""
    return needed("matplotlib.pyplot", "for pictures", "plot")


def axes_or_new(ax: Any, size: tuple[float, float]) -> Any:
    """The Axes that are given, or those of a new figure of some inches.

    Raises:
        MissingDependencyError: matplotlib is not installed.
    """
    plt = pyplot()
    return plt.subplots(figsize=size, layout="constrained")[1] if ax is None else ax


def row_of_axes(axes: Any, count: int, size: tuple[float, float]) -> Any:
    """Axes beside each other, one for each score: those given, or of a new figure.

    Raises:
        ValueError: Other than so many are given.
    """
    if axes is None:
        how: dict[str, Any] = {"figsize": size, "sharey": True, "layout": "constrained"}
        _, axes = pyplot().subplots(1, count, **how)
    if np.size(axes) != count:
        raise ValueError(
            f"axes must be {count} Axes, one for each score, got {np.size(axes)}."
        )
    return axes


def size_in_points(ax: Any) -> tuple[float, float]:
    """Width and height of the Axes, before a layout engine adjusts them."""
    pixels = ax.get_window_extent()
    return 72.0 * pixels.width / ax.figure.dpi, 72.0 * pixels.height / ax.figure.dpi


def short_dates(ax: Any) -> None:
    """An axis of days since 1970 with few short labels, which do not overlap."""
    from matplotlib import dates

    ax.xaxis_date()
    # matplotlib annotates what it gives, and not these
    places = dates.AutoDateLocator(minticks=3, maxticks=7)  # type: ignore[no-untyped-call]
    ax.xaxis.set_major_locator(places)
    ax.xaxis.set_major_formatter(
        dates.ConciseDateFormatter(places)  # type: ignore[no-untyped-call]
    )


def middle_cut(text: str, most: int) -> str:
    """A text without its middle if it is too long: ends tell names apart.

    Example:
        >>> middle_cut("length_of_the_sepal_1", 11)
        'lengt…pal_1'
    """
    if len(text) <= most:
        return text
    tail = (most - 1) // 2
    return f"{text[: most - 1 - tail]}…{text[len(text) - tail :]}"


def short_number(number: float, digits: int = 4) -> str:
    """A number in about so many digits, without an exponent unless it is huge or tiny.

    Example:
        >>> short_number(1.23456), short_number(123456.7, 2), short_number(-0.00001)
        ('1.235', '123457', '-1e-05')
    """
    text = f"{number:.{digits}g}"
    # So many digits are still read at once.
    return f"{number:.0f}" if "e+" in text and abs(number) < 1e9 else text
