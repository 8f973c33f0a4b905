"""Highest-density regions: the smallest set that holds a given probability.

It is {u: p(u) > c} for the level c at which it has that probability: several intervals
if the density has several modes. The level is found by bisection with secant steps, the
ends of the intervals by bisection between points that bracket every crossing.
"""

import numpy as np

from kexpfam._typing import Array, Mask
from kexpfam.partition import PanelDensity


def highest_density_region(one: PanelDensity, confidence: float) -> Array:
    """The smallest set with this probability, as intervals (k, 2).

    Args:
        one: A single density.
        confidence: Its probability.
    """
    # Every panel is sampled finely enough to bracket all crossings of a level.
    t = np.linspace(0.0, 1.0, 17)[:-1]
    left, right = one.edges[:-1, None], one.edges[1:, None]
    u = np.append((left + (right - left) * t).ravel(), one.edges[-1])
    p = one.pdf(u[None])[0]
    # Tops and bottoms themselves, which a level just beside them would miss.
    top = np.flatnonzero((p[1:-1] >= p[:-2]) & (p[1:-1] > p[2:])) + 1
    bottom = np.flatnonzero((p[1:-1] <= p[:-2]) & (p[1:-1] < p[2:])) + 1
    tops = _extremes(one, u[top - 1], u[top + 1], 1.0)
    bottoms = _extremes(one, u[bottom - 1], u[bottom + 1], -1.0)
    u = np.unique(np.concatenate([u, tops, bottoms]))
    p = one.pdf(u[None])[0]
    # What differs by less than the quadrature can tell is a plateau.
    peak = float(p.max())
    p = np.round(p / peak, 9) * peak

    def region(level: float, halvings: int) -> Array:
        above = p > level
        change = np.flatnonzero(above[1:] != above[:-1])
        brackets = u[change], u[change + 1]
        ends = _crossings(one, level, *brackets, above[change], halvings)
        if above[0]:
            ends = np.insert(ends, 0, u[0])
        if above[-1]:
            ends = np.append(ends, u[-1])
        return ends.reshape(-1, 2)

    def mass(level: float) -> float:
        # A rough place is enough: mass changes little with it, and levels are many.
        return float(_masses(one, region(level, 34)).sum())

    # The mass above a level falls as the level rises. From the level that the sampled
    # points suggest, step out until the right one lies between two, then close in by
    # regula falsi, where an end that is kept twice counts half (the Illinois rule).
    order = np.argsort(-p)
    share = np.cumsum((p * np.gradient(u))[order])
    level = float(p[order][min(np.searchsorted(share, confidence), len(p) - 1)])
    low, f_low, high, f_high = 0.0, 1.0 - confidence, peak, -confidence
    outward, kept, size = 0.01, 0, peak
    for step in range(100):
        level = min(max(level, low + 1e-14 * peak), high - 1e-14 * peak)
        excess = mass(level) - confidence
        if abs(excess) < 1e-11 or high - low < 1e-12 * peak:
            break
        if excess > 0:
            f_high = 0.5 * f_high if kept > 0 else f_high
            low, f_low, kept = level, excess, 1
        else:
            f_low = 0.5 * f_low if kept < 0 else f_low
            high, f_high, kept = level, excess, -1
        if low == 0.0 or high == peak:
            level *= 1.0 + kept * outward
            outward = min(3.0 * outward, 0.9)
        elif step % 3 == 0 and high - low > 0.5 * size:
            level = 0.5 * (low + high)
        else:
            level = (low * f_high - high * f_low) / (f_high - f_low)
        size = high - low if step % 3 == 0 else size
    if abs(excess) < 1e-8:
        return region(level, 50)
    return _trimmed(one, region(high, 50), region(low, 50), confidence)


def _trimmed(one: PanelDensity, high: Array, low: Array, confidence: float) -> Array:
    """A region between two that differ by a plateau, with the right probability.

    All points of the plateau have the same density; each of its intervals keeps the
    same share of its mass, next to the higher region if it touches it.
    """
    inner, outer = _masses(one, high), _masses(one, low)
    share = (confidence - inner.sum()) / max(outer.sum() - inner.sum(), 1e-300)
    kept = list(high)
    for a, b in low:
        inside = [r for r in high if r[0] >= a and r[1] <= b]
        corners = np.concatenate([[a], *inside, [b]]).reshape(-1, 2)
        for c, d in corners[corners[:, 1] > corners[:, 0]]:
            below, above = one.cdf(np.array([[c, d]]))[0]
            spare = (1.0 - share) * (above - below)
            cut_left = spare if d < b else 0.0 if c > a else 0.5 * spare
            levels = np.array([[below + cut_left, above - (spare - cut_left)]])
            kept.append(one.ppf(levels)[0])
    ends = np.array(sorted((a, b) for a, b in kept if b > a))
    # Pieces that touch are one interval.
    apart = np.append(True, ends[1:, 0] > ends[:-1, 1] + 1e-9 * np.ptp(ends))
    return np.stack([ends[apart, 0], ends[np.append(apart[1:], True), 1]], axis=1)


def _masses(one: PanelDensity, region: Array) -> Array:
    ends = one.cdf(region.reshape(1, -1)).reshape(-1, 2)
    return ends[:, 1] - ends[:, 0]


def _extremes(one: PanelDensity, low: Array, high: Array, sign: float) -> Array:
    """Where a density is largest, or smallest: golden-section search."""
    golden = 0.5 * (np.sqrt(5.0) - 1.0)
    for _ in range(25):  # the value is flat here: a rough place is enough
        a, b = high - golden * (high - low), low + golden * (high - low)
        left = sign * one.pdf(a[None])[0] > sign * one.pdf(b[None])[0]
        low, high = np.where(left, low, a), np.where(left, b, high)
    return 0.5 * (low + high)


def _crossings(
    one: PanelDensity,
    level: float,
    low: Array,
    high: Array,
    falling: Mask,
    halvings: int,
) -> Array:
    """Where the density equals a level, one crossing per bracket, by bisection."""
    for _ in range(halvings):
        middle = 0.5 * (low + high)
        above = one.pdf(middle[None])[0] > level
        inside = above == falling
        low, high = np.where(inside, middle, low), np.where(inside, high, middle)
    return 0.5 * (low + high)
