"""Pictures of paired differences: which models score better, and how surely."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kexpfam.display.theme import THEME, row_of_axes


def plot_differences(
    names: Sequence[str],
    panels: Mapping[str, Sequence[Any]],
    axes: Any = None,
) -> Any:
    """Differences of scores from those of the first model, with 95 % intervals.

    Left of the line a model is better than the first.

    Args:
        names: Of k models.
        panels: For each score k differences, with `value` and `standard_error`; None
            for what cannot be compared.
        axes: One Axes for each score; None for a new figure.

    Returns:
        The Axes.

    Raises:
        MissingDependencyError: matplotlib is not installed.
        ValueError: Other than one Axes for each score.
    """
    count, places = len(panels), np.arange(len(names))
    axes = row_of_axes(axes, count, (4.2 * count, 1.4 + 0.4 * len(names)))
    for ax, (score, differences) in zip(np.ravel(axes), panels.items(), strict=True):
        ax.axvline(0.0, color="0.35", linewidth=1.0, linestyle=(0, (4, 2)))
        ax.plot([0.0], [0], "o", color="0.35")
        for place, found in zip(places[1:], differences[1:], strict=True):
            if found is None:
                words = "densities of another measure"
                where = (0.5, place)
                look: dict[str, Any] = {"ha": "center", "va": "center", "color": "0.4"}
                look |= {"transform": ax.get_yaxis_transform()}
                ax.text(*where, words, fontsize=THEME.label_size, **look)
                continue
            # 1.96 standard errors hold 95 % of a normal distribution; of one row there
            # is no error, and the bar is left out.
            bar = 1.96 * found.standard_error
            ax.errorbar(
                [found.value],
                [place],
                xerr=None if np.isnan(bar) else [bar],
                fmt="o",
                color=THEME.blue,
                capsize=3.0,
                linewidth=1.6,
            )
        ax.set(xlabel=f"{score} minus that of {names[0]}")
        ax.set(yticks=places, yticklabels=list(names))
        ax.set_ylim(len(names) - 0.5, -0.5)  # the first on top
    return axes
