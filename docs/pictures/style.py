"""How the pictures of the documentation look: one home for colours and sizes."""

from pathlib import Path
from typing import Any

IMAGES = Path(__file__).parents[1] / "images"

INK, GREY = "#1f2540", "#7a8098"
SLICES = ("#1b9e77", "#d95f02", "#7570b3")  # told apart by most colour-blind people
DENSITY = "Blues"

_RC: dict[Any, Any] = {
    "figure.facecolor": "white",
    "axes.edgecolor": GREY,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "font.size": 10,
    "legend.frameon": False,
    "text.color": INK,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
}


def pyplot() -> Any:
    """Matplotlib's pyplot in the style of the documentation, without a window."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams.update(_RC)
    return plt


def write(figure: Any, name: str, folder: Path = IMAGES) -> Path:
    """Write a picture with few colours, which is small, and close the figure."""
    import io

    from PIL import Image

    buffer = io.BytesIO()
    figure.savefig(buffer, dpi=144)
    pyplot().close(figure)
    path = folder / name
    picture = Image.open(buffer).convert("RGB").quantize(192, dither=Image.Dither.NONE)
    picture.save(path, optimize=True)
    return path
