"""Deep valleys of densities that are known on nodes: what separates components."""

import math
from dataclasses import dataclass, fields

import numpy as np

from kexpfam._typing import Array, Mask


@dataclass(frozen=True)
class Valleys:
    """The deep valleys of one density: where, between what, and the mass left of it."""

    at: Array
    low: Array
    high: Array
    below: Array
    depth: Array


_NONE = Valleys(*(np.empty(0) for _ in fields(Valleys)))


def all_valleys(
    nodes: Array, log_density: Array, cdf: Array, share: float, negligible: float
) -> list[Valleys]:
    """The valleys of each row; most densities have none, which is quickly seen.

    Where all but a negligible mass is on one side of them, as in the tails, they
    separate nothing.

    Args:
        nodes: Increasing values, (g,).
        log_density: Log of each density on the nodes, up to a constant, (n, g).
        cdf: Their distribution functions, (n, g).
        share: Of the lower peak beside it that the density in a valley is below.
        negligible: Mass that does not count.
    """
    left = np.maximum.accumulate(log_density, axis=1)
    right = np.maximum.accumulate(log_density[:, ::-1], axis=1)[:, ::-1]
    with np.errstate(invalid="ignore"):  # outside the support, −∞ minus itself
        depth = np.minimum(left, right) - log_density
    between = (cdf > negligible) & (cdf < 1.0 - negligible)
    deep = np.any((depth > -math.log(share)) & between, axis=1)
    return [
        valleys(nodes, row, below, share) if some else _NONE
        for row, below, some in zip(log_density, cdf, deep, strict=True)
    ]


def valleys(nodes: Array, log_density: Array, below: Array, share: float) -> Valleys:
    """Minima of one density, (g,), that are deep, seen from the lower peak beside them.

    Depth is what topography calls prominence. The edges of a valley are where the
    density is back at that share of the lower peak.
    """
    deep = -math.log(share)
    height = np.maximum(log_density, log_density.max() - 700.0)
    found = []
    for place in _minima(height):
        left, right = height[: place + 1][::-1], height[place:]
        # As far as the ground is not lower than here.
        left, right = (side[: _first(side < side[0])] for side in (left, right))
        depth = min(left.max(), right.max()) - height[place]
        if depth >= deep:
            level = height[place] + depth - deep
            low, high = place - _crossing(left, level), place + _crossing(right, level)
            found.append((place, low, high, depth))
    if not found:
        return _NONE
    places, lows, highs, depths = (
        np.array(column) for column in zip(*found, strict=True)
    )
    steps = np.arange(len(nodes))
    return Valleys(
        at=nodes[places],
        low=np.interp(lows, steps, nodes),
        high=np.interp(highs, steps, nodes),
        below=below[places],
        depth=depths,
    )


def _minima(values: Array) -> list[int]:
    """Places of local minima; of one that is flat the middle."""
    starts = np.flatnonzero(np.diff(values, prepend=np.nan) != 0.0)
    runs = values[starts]
    ends = np.append(starts[1:], len(values)) - 1
    lowest = 1 + np.flatnonzero((runs[1:-1] < runs[:-2]) & (runs[1:-1] < runs[2:]))
    return [int(place) for place in (starts[lowest] + ends[lowest]) // 2]


def _first(true: Mask) -> int:
    """The first place that is true; the length if none is."""
    return int(true.argmax()) if true.any() else len(true)


def _crossing(side: Array, level: float) -> float:
    """Steps from the first value to where the line between values exceeds a level."""
    after = _first(side > level)
    if after == len(side):
        return float(after - 1)
    return after - float((side[after] - level) / (side[after] - side[after - 1]))


def side_by_side(rows: list[Valleys]) -> Valleys:
    """The valleys of all rows in arrays (n, k), filled up with NaN."""
    some = [(k, row) for k, row in enumerate(rows) if row is not _NONE]
    longest = max((len(row.at) for _, row in some), default=0)

    def padded(name: str) -> Array:
        table = np.full((len(rows), longest), np.nan)
        for k, row in some:
            part = getattr(row, name)
            table[k, : len(part)] = part
        return table

    return Valleys(*(padded(f.name) for f in fields(Valleys)))
