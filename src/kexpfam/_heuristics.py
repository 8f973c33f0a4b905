"""What data suggest: the median distance between rows, and robust widths."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import special
from scipy.spatial.distance import pdist

from kexpfam._typing import Array
from kexpfam._validation import mean_and_std
from kexpfam.kernels import LengthScale

# Width of the interquartile range of the standard normal, in standard deviations.
_NORMAL_QUARTILES = 2.0 * float(special.ndtri(0.75))


class FarTailed(NamedTuple):
    """When moments of a column say nothing (decision 0025)."""

    times: float = 5.0  # Standard deviation beside that of the quartiles, at least
    # Share of the sum of squares that the farthest rows make, at least, and how many
    share: float = 0.5
    rows: float = 0.02


_FAR_TAILED = FarTailed()


def median_distance(points: Array, weights: Array | None = None) -> float:
    """Median positive distance between rows; a length, in the units of the rows.

    It is 1 if no distance is positive.

    Rows count by their weight, so that a row of weight two equals two rows. Repeated
    rows have distance zero and do not count as pairs.

    Example:
        >>> import numpy as np
        >>> median_distance(np.array([[0.0], [1.0], [3.0]]))
        2.0
    """
    weights = np.ones(len(points)) if weights is None else weights
    points, weights = points[weights > 0], weights[weights > 0]
    # Only ratios matter; products of the weights as they are may over- or underflow.
    weights = weights / weights.max(initial=0.0) if len(weights) else weights
    # The median of 31,125 distances between some rows is within a few per cent of that
    # of all, and costs half a millisecond.
    most_rows = 250
    if len(points) > most_rows:
        chosen = np.linspace(0, len(points) - 1, most_rows).astype(int)
        points, weights = points[chosen], weights[chosen]
    if points.shape[1] == 0:
        return 1.0
    distances = pdist(points)
    keep = distances > 0
    if not keep.any():
        return 1.0
    if np.all(weights == weights[0]):
        return float(np.median(distances[keep]))
    first, second = np.triu_indices(len(points), 1)
    distances, counts = distances[keep], (weights[first] * weights[second])[keep]
    order = np.argsort(distances)
    below = np.cumsum(counts[order])
    half = 0.5 * below[-1]
    lower = distances[order][np.searchsorted(below, half * (1 - 1e-12))]
    upper = distances[order][np.searchsorted(below, half * (1 + 1e-12), side="right")]
    return float(0.5 * (lower + upper))


def median_filler(
    points: Array, weights: Array, factor: float
) -> Callable[[LengthScale], LengthScale]:
    """Replaces lengthscale="median" by factor × median distance, and no other."""

    def fill(lengthscale: LengthScale) -> LengthScale:
        if isinstance(lengthscale, str):
            return factor * median_distance(points, weights)
        return lengthscale

    return fill


def median_and_width(values: Array, weights: Array) -> tuple[float, float]:
    """Median, and the standard deviation of the normal density with these quartiles.

    Example:
        >>> import numpy as np
        >>> middle, width = median_and_width(np.arange(101.0), np.ones(101))
        >>> middle, round(width)
        (50.0, 37)
    """
    order = np.argsort(values)
    below = np.cumsum(weights[order])
    places = np.searchsorted(below, np.array([0.25, 0.5, 0.75]) * below[-1])
    low, middle, high = values[order[np.minimum(places, len(values) - 1)]]
    return float(middle), float((high - low) / _NORMAL_QUARTILES)


def robust_scaling(
    data: Array, weights: Array, *, name: str = "The data"
) -> tuple[Array, Array, Array]:
    """Centre and scale of each column, and where these are not mean and deviation.

    A column is far-tailed if its standard deviation is many times what its quartiles
    say, and a few rows make most of it: moments that the next sample would not repeat.
    (Components far from each other have wide moments, too, but many rows make them.)
    Its centre is the median, and its scale that of the quartiles. Columns half of whose
    values are the same have no such scale, and keep their moments.

    Returns:
        Centre (p,), scale (p,), zero for constant columns, and a mask (p,).

    Example:
        >>> import numpy as np
        >>> x = np.append(np.linspace(-1.0, 1.0, 100), 1e6)[:, None]
        >>> center, scale, far = robust_scaling(x, np.ones(101))
        >>> bool(far[0]), bool(abs(center[0]) < 0.1), bool(scale[0] < 1.0)
        (True, True, True)
    """
    center, scale = mean_and_std(name, data, weights)
    far = np.zeros(len(center), dtype=bool)
    for i, column in enumerate(data.T):
        middle, width = median_and_width(column, weights)
        wide = width > 0 and scale[i] > _FAR_TAILED.times * width
        if wide and _share_of_few(column - middle, weights) > _FAR_TAILED.share:
            center[i], scale[i], far[i] = middle, width, True
    return center, scale, far


def _share_of_few(deviations: Array, weights: Array) -> float:
    """Share of the sum of squares that the few rows farthest out make."""
    # Not squared as they are, which could overflow.
    squares = weights * (deviations / np.abs(deviations).max()) ** 2
    order = np.argsort(-np.abs(deviations))
    before = np.cumsum(weights[order]) - weights[order]
    few = order[before < _FAR_TAILED.rows * weights.sum()]
    return float(squares[few].sum() / squares.sum())
