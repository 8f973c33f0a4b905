"""Quantiles, regions and modes of a density whose values on a fine grid are known.

A density finds its quantiles and regions by searches that assume nothing. Here a grid
gives a start so near that a few steps of Newton's method, with slopes from the grid,
reach rounding error: a fraction of the time, and a slider should not wait. Where steps
do not become small, the density is asked after all.
"""

import itertools
from typing import Any, NamedTuple

import numpy as np
from scipy.signal import find_peaks

from kexpfam._typing import Array

# Each step reduces the error by the relative error of a slope of the grid, a thousandth
# or less: after a last step that is smaller than this share of the middle half of the
# density, about ten digits are right.
_SMALL_STEP = 1e-7
_STEPS = 5

# Bisections for the height at which a region is cut off, on the grid alone.
_BISECTIONS = 40

# A dip of less than this share of the highest peak does not make two modes.
_PROMINENCE = 0.02


class Mode(NamedTuple):
    """A local maximum of a density.

    Attributes:
        place: Where it is.
        height: The density there.
        mass: Probability between the dips at its sides.
    """

    place: float
    height: float
    mass: float


def quantiles_near(p: Any, levels: Array, grid: Array, pdf: Array, cdf: Array) -> Array:
    """Quantiles of a density, (q,).

    Args:
        p: A single density.
        levels: Probabilities, (q,).
        grid: Increasing points, (g,).
        pdf: Density there, (g,).
        cdf: Distribution function there, (g,).
    """
    y = np.interp(levels, cdf, grid)
    small = _SMALL_STEP * _scale(grid, cdf)
    done = np.zeros(len(y), dtype=bool)
    inside = (levels > cdf[0]) & (levels < cdf[-1])
    for _ in range(_STEPS):
        slope = np.interp(y, grid, pdf)
        slope = np.where(slope > 0, slope, np.inf)
        step = (p.cdf(y) - levels) / slope
        y = np.clip(y - step, grid[0], grid[-1])
        done = inside & (np.abs(step) <= small) & np.isfinite(slope)
        if done.all():
            return y
    y[~done] = p.ppf(levels[~done])
    return y


def region_near(p: Any, level: float, grid: Array, pdf: Array, cdf: Array) -> Array:
    """Region of highest density, its intervals in order, (k, 2).

    The ends e of the region and its height c satisfy p(e) = c and a sum of masses,
    Σ ±F(e) = level; both are made linear in steps of e and c.

    Args:
        p: A single density.
        level: Probability of the region.
        grid: Increasing points, (g,).
        pdf: Density there, (g,).
        cdf: Distribution function there, (g,).
    """
    height, ends = _cut(level, grid, pdf, cdf)
    gradient = np.gradient(pdf, grid)
    sign = np.where(np.arange(len(ends)) % 2, 1.0, -1.0)
    small = _SMALL_STEP * _scale(grid, cdf)
    if pdf[0] < height > pdf[-1] and len(ends):
        for _ in range(_STEPS):
            f, mass = p.pdf(ends), float(sign @ p.cdf(ends))
            slopes = np.interp(ends, grid, gradient)
            if not np.all(sign * slopes < 0):
                break
            along = sign * f / slopes
            height += (level - mass - along @ (height - f)) / along.sum()
            step = (height - f) / slopes
            ends = ends + step
            if not np.all(np.diff(ends) > 0):
                break
            if np.abs(step).max() <= small:
                return ends.reshape(-1, 2)
    return np.reshape(p.hpd(level), (-1, 2))


def _cut(level: float, grid: Array, pdf: Array, cdf: Array) -> tuple[float, Array]:
    """Height above which the grid has a mass, and where it is crossed."""
    low, high = 0.0, float(pdf.max())
    for _ in range(_BISECTIONS):
        height = 0.5 * (low + high)
        ends = _crossings(height, grid, pdf)
        mass = np.diff(np.interp(ends, grid, cdf))[::2].sum()
        low, high = (height, high) if mass > level else (low, height)
    return height, _crossings(height, grid, pdf)


def _crossings(height: float, grid: Array, pdf: Array) -> Array:
    """Where lines between points cross a height, up and down in turn."""
    above = pdf > height
    cell = np.flatnonzero(above[1:] != above[:-1])
    slopes = (pdf[cell + 1] - pdf[cell]) / (grid[cell + 1] - grid[cell])
    return grid[cell] + (height - pdf[cell]) / slopes


def _scale(grid: Array, cdf: Array) -> float:
    low, high = np.interp([0.25, 0.75], cdf, grid)
    return float(high - low)


def modes(grid: Array, pdf: Array, cdf: Array) -> tuple[Mode, ...]:
    """Local maxima, by parabolas through the logarithms of three points; highest first.

    Args:
        grid: Increasing points, (g,).
        pdf: Density there, (g,).
        cdf: Distribution function there, (g,).

    Example:
        >>> y = np.linspace(-4.0, 4.0, 100)
        >>> from scipy.stats import norm
        >>> modes(y, norm.pdf(y, 0.3), norm.cdf(y, 0.3))[0].place
        0.3...
    """
    padded = np.concatenate([[0.0], pdf, [0.0]])
    peaks = find_peaks(padded, prominence=_PROMINENCE * pdf.max())[0] - 1
    dips = [a + int(pdf[a : b + 1].argmin()) for a, b in itertools.pairwise(peaks)]
    masses = np.diff([0.0, *cdf[dips], 1.0])
    found = [
        Mode(*_summit(grid, pdf, int(peak)), float(mass))
        for peak, mass in zip(peaks, masses, strict=True)
    ]
    return tuple(sorted(found, key=lambda mode: -mode.height))


def _summit(grid: Array, pdf: Array, peak: int) -> tuple[float, float]:
    """Place and height of a maximum near a point of the grid."""
    three = slice(peak - 1, peak + 2)
    if not 0 < peak < len(grid) - 1 or not np.all(pdf[three] > 0):
        return float(grid[peak]), float(pdf[peak])
    left, middle, right = np.log(pdf[three])
    before, after = grid[peak - 1] - grid[peak], grid[peak + 1] - grid[peak]
    # log p = middle + slope·u + bend·u² through the other two points.
    first, second = (left - middle) / before, (right - middle) / after
    bend = (second - first) / (after - before)
    slope = first - bend * before
    if not bend < 0:
        return float(grid[peak]), float(pdf[peak])
    u = np.clip(-0.5 * slope / bend, before, after)
    height = np.exp(middle + slope * u + bend * u**2)
    return float(grid[peak] + u), float(height)
