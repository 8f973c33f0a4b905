"""Whether a row could have been one of the data: a test that sees collinear columns.

An x may be ordinary in each column and impossible as a whole: a diamond of three carats
and four millimetres. Distances in standardised columns hardly see that, because it is
far only across a thin direction. So each column is taken as it is, which shows gaps,
and as normal scores, which makes monotone relations straight; all of these are
whitened, which makes thin directions as wide as the others. A row is unlike the data if
it is farther from its nearest row than rows of the data are from theirs.

Rows of rounded columns are no distance from each other, and 49.5 would be unlike 49 and
50. So values between those of a column with many ties count as the nearest of them.

References:
    Laxhammar and Falkman, Inductive conformal anomaly detection for sequential
    detection of anomalous sub-trajectories, Annals of Mathematics and Artificial
    Intelligence 2015.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.spatial import cKDTree
from scipy.special import ndtri
from scipy.stats import rankdata

from kexpfam._typing import Array, Mask

# What is as rare as this among the data is marked.
RARE = 0.01

# Directions thinner than this share of the widest count as so thin. A guess: columns
# that agree to one part in a hundred are copies, and differ by rounding.
THINNEST = 1e-2


@dataclass(frozen=True, eq=False)
class ExtrapolationTest:
    """Rows of data, and how far they are from each other.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> a = rng.normal(size=300)
        >>> rows = np.column_stack([a, a + 0.01 * rng.normal(size=300)])
        >>> test = ExtrapolationTest.of(rows)
        >>> test.is_unlike(np.array([[1.0, 1.0], [1.0, -1.0], [9.0, 9.0]]))
        array([False,  True,  True])
    """

    # Of each column its values, their normal scores, its std, and how far from these a
    # value may be to count as one of them
    knots: tuple[tuple[Array, Array, float, float], ...]
    center: Array  # of columns and scores, (2p,)
    whitening: Array  # (2p, 2p)
    tree: Any  # of whitened rows
    distances: Array  # of each row to its nearest, increasing, (m,)

    @classmethod
    def of(cls, Z: Array, *, most: int = 2000) -> "ExtrapolationTest":
        """Take rows of data, (n, p), two at least; of many, `most`."""
        if len(Z) > most:
            Z = Z[np.random.default_rng(0).choice(len(Z), most, replace=False)]
        knots = tuple(_knots(column) for column in Z.T)
        S = _both(Z, knots)
        center = S.mean(axis=0)
        variances, directions = np.linalg.eigh(np.cov(S.T, ddof=0))
        widths = np.sqrt(np.maximum(variances, 0.0))
        widest = widths[-1] if widths[-1] > 0 else 1.0
        whitening = directions / np.maximum(widths, THINNEST * widest)
        W = (S - center) @ whitening
        tree = cKDTree(W)
        nearest = tree.query(W, k=2)[0][:, 1]
        return cls(knots, center, whitening, tree, np.sort(nearest))

    def pvalues(self, Z: Array) -> Array:
        """Share of rows of the data that are as far from their nearest, (n,).

        Uniform, or nearly so, for new rows of the same law; small for others.
        """
        found = self.tree.query((_both(Z, self.knots) - self.center) @ self.whitening)
        m = len(self.distances)
        # A distance of nothing is as far as any other, up to rounding.
        farther = m - np.searchsorted(self.distances, found[0] - 1e-9)
        return (1 + farther) / (m + 1)

    def is_unlike(self, Z: Array) -> Mask:
        """Which rows are unlike the data, as one in a hundred of these are, (n,)."""
        return self.pvalues(Z) <= max(RARE, 1 / (len(self.distances) + 1))


def _knots(column: Array) -> tuple[Array, Array, float, float]:
    """Values of a column, their normal scores, its standard deviation, half a step."""
    values, first = np.unique(column, return_index=True)
    scores = ndtri(rankdata(column)[first] / (len(column) + 1))
    tied = 2 * len(values) <= len(column) and len(values) > 1
    step = 0.5 * float(np.median(np.diff(values))) if tied else 0.0
    return values, scores, float(column.std()) or 1.0, step


def _both(Z: Array, knots: tuple[tuple[Array, Array, float, float], ...]) -> Array:
    """Columns in standard units, and as normal scores, (n, 2p).

    Beyond the values of the data, scores go on in standard units.
    """
    plain, scores = [], []
    for own, (values, at, std, step) in zip(Z.T, knots, strict=True):
        column = _on_steps(own, values, step)
        beyond = column - np.clip(column, values[0], values[-1])
        plain.append(column / std)
        scores.append(np.interp(column, values, at) + beyond / std)
    return np.column_stack([*plain, *scores])


def _on_steps(column: Array, values: Array, step: float) -> Array:
    """Values of a column, those up to so far from one that occurs being that one."""
    if step <= 0:
        return column
    nearest = values[np.searchsorted(0.5 * (values[1:] + values[:-1]), column)]
    return np.where(np.abs(column - nearest) <= step, nearest, column)
