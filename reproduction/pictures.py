"""How pictures of suites look: one size of type, one colour and mark for each method.

Figures are made without pyplot, so that nothing is shared between them. The colours are
those of Okabe and Ito, which people with any colour vision tell apart; marks and dashes
do so without colours.
"""

from pathlib import Path
from typing import Any

_DPI = 130

# Inches: a page's width.
WIDTH = 9.0

BLUE, SKY = "#0072B2", "#56B4E9"
VERMILION, ORANGE = "#D55E00", "#E69F00"
GREEN, PURPLE, GREY, BLACK = "#009E73", "#CC79A7", "#777777", "#222222"

# Colour, mark and dashes; the full graph is drawn through, the Markov graph dashed.
_PENS: dict[str, tuple[str, str, str]] = {
    "AutoKCEF": (BLUE, "o", "-"),
    "KCEF": (VERMILION, "s", "-"),
    "LSCDE": (GREEN, "^", "-"),
    "RNADE": (PURPLE, "D", "-"),
    "KEF": (ORANGE, "v", "-"),
    "KCEF, paper's configuration": (VERMILION, "s", "-"),
    "KCEF, likelihood": (GREEN, "^", "-"),
    "KCEF, bridged": (PURPLE, "D", "-"),
    "KCEF-F, isotropic": (ORANGE, "s", "--"),
    "KCEF-F, one per column": (VERMILION, "s", "-"),
    "theory's λ": (GREEN, "^", "-"),
    "default": (VERMILION, "s", "-"),
    "data": (BLACK, "o", "-"),
}


def pen(method: str) -> dict[str, Any]:
    """How lines of a method are drawn, as arguments of `Axes.plot`."""
    name, markov = method, False
    if method not in _PENS and method[-2:] in {"-F", "-M"}:
        name, markov = method[:-2], method.endswith("-M")
    color, marker, dashes = _PENS.get(name, (GREY, "x", "-"))
    return {
        "color": color,
        "marker": marker,
        "linestyle": "--" if markov else dashes,
        "markersize": 4.5,
        # Hollow marks, so that a point of the other graph below is seen.
        "markerfacecolor": "white" if markov else color,
        "linewidth": 1.6,
    }


def new_figure(height: float, width: float = WIDTH) -> Any:
    """An empty figure of its own, with parts that keep clear of each other."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def tidy(ax: Any) -> None:
    """Light lines behind the data, and no box around them."""
    ax.grid(color="0.92", linewidth=0.8)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)


def save(figure: Any, folder: Path, name: str) -> str:
    """Write a figure into a folder; its bare file name comes back."""
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / name, dpi=_DPI, facecolor="white")
    return name
