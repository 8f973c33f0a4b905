"""Mean and central interval beside regions of highest density, for two branches.

python docs/pictures/multimodal.py [folder [rows]]
"""

import sys
from pathlib import Path

import numpy as np
from style import GREY, IMAGES, INK, SLICES, pyplot, write

from kexpfam import AutoKCEF
from kexpfam.datasets import make_bimodal


def main(folder: str = str(IMAGES), rows: str = "400") -> None:
    X, y = make_bimodal(int(rows), random_state=0)
    model = AutoKCEF(random_state=0).fit(X, y)
    grid = np.linspace(-2.0, 2.0, 121)
    p = model.given(grid[:, None])
    figure, (left, right) = pyplot().subplots(
        1, 2, figsize=(10, 3.6), layout="constrained", sharey=True
    )
    for ax in (left, right):
        ax.scatter(X[:, 0], y, s=7, color=INK, alpha=0.5, linewidths=0, zorder=3)
        ax.set(xlabel="x", xlim=(-2, 2))
    low, high = p.interval(0.8).T
    left.fill_between(grid, low, high, color=GREY, alpha=0.25, lw=0)
    left.plot(grid, p.mean(), color=SLICES[1], lw=2)
    left.set_title("Mean and central 80 % interval")
    left.set_ylabel("y")
    half = 0.5 * (grid[1] - grid[0])
    for x, region in zip(grid, p.hpd(0.8), strict=True):
        for bottom, top in region:
            right.fill_between(
                [x - half, x + half], bottom, top, color=SLICES[0], alpha=0.35, lw=0
            )
    right.set_title("Smallest region with 80 % of the mass")
    print(f"The picture is {write(figure, 'multimodal.png', Path(folder))}")


if __name__ == "__main__":
    main(*sys.argv[1:3])
