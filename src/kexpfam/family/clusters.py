"""Gaps between clusters of responses with several columns.

Clusters with hardly any rows between them are to several columns what isolated
components are to one: score matching does not see their masses. Gaps are looked for
between the centres of a few k-means clusters, along the line through both. A plane in
a gap cuts y into two sides, whose masses can be compared.
"""

import itertools
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.spatial.distance import cdist

from kexpfam._typing import Array, Mask
from kexpfam.family.isolated_components import gaps_of_responses


@dataclass(frozen=True, eq=False)
class Gap:
    """A plane {u: direction·u = place} with hardly any rows near it."""

    direction: Array  # Of unit length, (d,)
    place: float

    def below(self, U: Array) -> Mask:
        """Which points (n, d) are on the lower side."""
        return self.place > U @ self.direction


def find_gaps(U: Array, weights: Array, *, most_clusters: int = 4) -> list[Gap]:
    """Planes between well separated clusters of responses U (n, d).

    Example:
        >>> rng = np.random.default_rng(0)
        >>> U = rng.normal(size=(200, 2)) + np.repeat([[-5.0, 0.0], [5.0, 0.0]], 100, 0)
        >>> len(find_gaps(U, np.ones(200))), len(find_gaps(U[:100], np.ones(100)))
        (1, 0)
    """
    found: list[Gap] = []
    cuts: set[bytes] = set()
    for direction in _directions(U, most_clusters):
        for place in gaps_of_responses(U @ direction, weights):
            gap = Gap(direction, place)
            below = gap.below(U)
            # Nearly the same cut along another line says nothing new.
            key = np.packbits(below if below[0] else ~below).tobytes()
            if key not in cuts:
                cuts.add(key)
                found.append(gap)
    return found


def _directions(U: Array, most_clusters: int) -> Iterator[Array]:
    """Lines through pairs of centres of two, three, ... clusters."""
    from scipy.cluster import vq  # slow to import, and not needed before a fit

    for k in range(2, most_clusters + 1):
        if len(np.unique(U, axis=0)) < k:
            return
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # clusters may lose all their rows
            centers, labels = vq.kmeans2(U, _apart(U, k), minit="matrix")
        used = [center for j, center in enumerate(centers) if np.any(labels == j)]
        for one, other in itertools.combinations(used, 2):
            length = float(np.linalg.norm(other - one))
            if length > 0:
                yield (other - one) / length


def _apart(U: Array, k: int) -> Array:
    """Some k points of (n, d), each drawn by squared distance from those before it."""
    rng = np.random.default_rng(0)
    chosen = [U[rng.integers(len(U))]]
    for _ in range(k - 1):
        squares = cdist(U, np.array(chosen), "sqeuclidean").min(axis=1)
        chosen.append(U[rng.choice(len(U), p=squares / squares.sum())])
    return np.array(chosen)
