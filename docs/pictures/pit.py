"""Where new rows fall in their densities: a calibrated fit beside a normal density.

python docs/pictures/pit.py [folder [rows]]
"""

import sys
from pathlib import Path

import numpy as np
from scipy import stats
from style import GREY, IMAGES, SLICES, pyplot, write

from kexpfam import KCEF, metrics
from kexpfam.datasets import make_skewed

BINS = 10


def places(n: int) -> dict[str, np.ndarray]:
    """F(y|x) of new rows by either density."""
    X, y = make_skewed(n, random_state=0)
    X_new, y_new = make_skewed(500, random_state=1)
    p = KCEF(base="yeo_johnson", select=None).fit(X, y).given(X_new)
    slope, start = np.polyfit(X[:, 0], y, 1)
    width = np.std(y - start - slope * X[:, 0])
    normal = stats.norm(start + slope * X_new[:, 0], width)
    return {
        "p(y | x) by KCEF": metrics.pit(p, y_new),
        "A normal density around a line": normal.cdf(y_new),
    }


def main(folder: str = str(IMAGES), rows: str = "1000") -> None:
    figure, axes = pyplot().subplots(
        1, 3, figsize=(11, 3.3), layout="constrained", width_ratios=(1, 1, 0.85)
    )
    colours = (SLICES[0], SLICES[1])
    for ax, colour, (name, u) in zip(
        axes, colours, places(int(rows)).items(), strict=False
    ):
        # Each bar is in this band with probability 95 % if the density is right.
        band = stats.binom(len(u), 1.0 / BINS).ppf([0.025, 0.975]) / len(u)
        ax.axhspan(*band, color=GREY, alpha=0.25, lw=0)
        heights = np.histogram(u, bins=BINS, range=(0.0, 1.0))[0] / len(u)
        middles = (np.arange(BINS) + 0.5) / BINS
        ax.bar(middles, heights, width=0.9 / BINS, color=colour, alpha=0.8)
        ax.set(title=name, xlabel="F(y | x) of new rows", ylim=(0, 0.19), xlim=(0, 1))
        levels = np.linspace(0.0, 1.0, 101)
        found = np.mean(np.abs(2 * u[:, None] - 1) <= levels, axis=0)
        axes[2].plot(levels, found, color=colour, lw=2)
    axes[0].set_ylabel("share of the rows")
    axes[2].plot([0, 1], [0, 1], color=GREY, lw=1, ls=(0, (4, 3)))
    axes[2].set(title="Coverage", xlabel="asked for", ylabel="found")
    print(f"The picture is {write(figure, 'pit.png', Path(folder))}")


if __name__ == "__main__":
    main(*sys.argv[1:3])
