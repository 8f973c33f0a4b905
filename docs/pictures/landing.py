"""The picture of the landing page: rows, p(y|x) of them, and three slices of it.

    python docs/pictures/landing.py [folder [rows]]

The rows are simulated: one wide branch on the left, which splits into two narrow ones.
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np
from style import DENSITY, GREY, IMAGES, INK, SLICES, pyplot, write

from kexpfam import AutoKCEF

PLACES = (1.2, 5.0, 8.6)
HEIGHTS = np.linspace(-5.2, 5.2, 420)
TITLE_PAD = 18  # room for the places of the slices


def make_rows(n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    x = rng.uniform(0.0, 10.0, n)
    apart = 2.9 / (1.0 + np.exp(-1.1 * (x - 5.2)))
    upper = rng.random(n) < 0.62
    width = 0.35 + 0.75 * np.exp(-x / 3.0) + 0.15 * (~upper)
    middle = 1.2 * np.sin(0.75 * x) * np.exp(-x / 9.0)
    y = middle + np.where(upper, apart, -apart) + width * rng.normal(size=n)
    return x[:, None], y


def draw_rows(ax: Any, X: np.ndarray, y: np.ndarray) -> None:
    ax.scatter(X[:, 0], y, s=7, color=INK, alpha=0.55, linewidths=0)
    ax.set_title("1  Your rows (x, y)", pad=TITLE_PAD)
    ax.set(xlabel="x", ylabel="y")


def draw_density(ax: Any, model: AutoKCEF) -> None:
    grid = np.linspace(0.0, 10.0, 240)
    p = model.given(grid[:, None]).pdf(HEIGHTS[None])
    ax.pcolormesh(grid, HEIGHTS, (p**0.7).T, cmap=DENSITY, rasterized=True)
    for x, colour in zip(PLACES, SLICES, strict=True):
        ax.axvline(x, color=colour, lw=2.2)
        ax.text(x, 5.3, f"x = {x:g}", color=colour, ha="center", va="bottom", size=9)
    ax.set_title("2  p(y | x), at every x", pad=TITLE_PAD)
    ax.set_xlabel("x")


def draw_slices(axes: Any, model: AutoKCEF) -> None:
    p = model.given(np.array(PLACES)[:, None])
    curves, means = p.pdf(HEIGHTS[None]), p.mean()
    top = 1.15 * curves.max()
    for ax, x, colour, curve, mean in zip(
        axes, PLACES, SLICES, curves, means, strict=True
    ):
        ax.fill_between(HEIGHTS, curve, color=colour, alpha=0.25, lw=0)
        ax.plot(HEIGHTS, curve, color=colour, lw=2)
        ax.axvline(mean, color=GREY, lw=1, ls=(0, (4, 3)))
        ax.text(mean, top, " mean", color=GREY, size=8, va="top")
        ax.text(-5.1, 0.86 * top, f"p(y | x = {x:g})", color=colour, weight="bold")
        ax.set(yticks=[], ylim=(0, top), xlim=(HEIGHTS[0], HEIGHTS[-1]))
        ax.spines["left"].set_visible(False)
        ax.tick_params(labelbottom=ax is axes[-1])
    axes[0].set_title("3  Any slice: a whole distribution", pad=TITLE_PAD)
    axes[-1].set_xlabel("y")


def wide(model: AutoKCEF, X: np.ndarray, y: np.ndarray) -> Any:
    """Three panels beside each other."""
    figure = pyplot().figure(figsize=(11.5, 4.3), layout="constrained")
    grid = figure.add_gridspec(3, 3)
    left = figure.add_subplot(grid[:, 0])
    middle = figure.add_subplot(grid[:, 1], sharey=left)
    slices = [figure.add_subplot(grid[k, 2]) for k in range(3)]
    fill(left, middle, slices, model, X, y)
    return figure


def tall(model: AutoKCEF, X: np.ndarray, y: np.ndarray) -> Any:
    """The same for phones, below each other."""
    figure = pyplot().figure(figsize=(4.2, 8.6), layout="constrained")
    grid = figure.add_gridspec(9, 1)
    first = figure.add_subplot(grid[:3, 0])
    second = figure.add_subplot(grid[3:6, 0])
    slices = [figure.add_subplot(grid[k, 0]) for k in (6, 7, 8)]
    fill(first, second, slices, model, X, y)
    return figure


def fill(
    rows: Any, density: Any, slices: Any, model: AutoKCEF, X: np.ndarray, y: np.ndarray
) -> None:
    draw_rows(rows, X, y)
    draw_density(density, model)
    for ax in (rows, density):
        ax.set(xlim=(0, 10), ylim=(HEIGHTS[0], HEIGHTS[-1]))
    draw_slices(slices, model)


def main(folder: str = str(IMAGES), rows: str = "600") -> None:
    X, y = make_rows(int(rows))
    model = AutoKCEF(random_state=0).fit(X, y)
    for name, layout in (("landing", wide), ("landing_tall", tall)):
        print(f"Drawn: {write(layout(model, X, y), f'{name}.png', Path(folder))}")


if __name__ == "__main__":
    main(*sys.argv[1:3])
