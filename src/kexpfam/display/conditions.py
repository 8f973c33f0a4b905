"""At which x a density is shown, and what is said where no row is like it.

Medians and most frequent categories, each by itself typical, may never occur together:
at such an x there are no data, and a density there is extrapolation. So pictures begin
at a row of the data, the one nearest to the medians, unless somebody says where.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kexpfam._typing import Array, ArrayLike, Mask

# Fewer rows near a value of a column than this, and it is said.
FEW_ROWS = 3.0

# What says so in a legend, of values with few rows and of rows that could not occur.
EXTRAPOLATION = "extrapolation"

# What is said of one x.
UNLIKE = "no training row is like this x: the density is extrapolation"


def rows_near(model: Any, X: Array) -> Array | None:
    """About how many training rows are near each row of X, (n,); None if not known."""
    if not hasattr(model, "reliability") or not hasattr(model, "neighbourhood_"):
        return None
    return np.asarray(model.reliability(X), dtype=float)


def extrapolated(model: Any, X: Any) -> Mask:
    """Where a density is extrapolation, as far as is known, (n,)."""
    if not hasattr(model, "extrapolates") or not hasattr(model, "neighbourhood_"):
        return np.zeros(len(X), dtype=bool)
    return np.asarray(model.extrapolates(X), dtype=bool)


def runs_of(mask: Mask) -> list[tuple[int, int]]:
    """Ends of the stretches where a mask, (n,), holds.

    Example:
        >>> runs_of(np.array([True, False, True, True]))
        [(0, 1), (2, 4)]
    """
    changes = np.flatnonzero(np.diff(np.concatenate([[0], mask.astype(int), [0]])))
    return [(int(a), int(b)) for a, b in changes.reshape(-1, 2)]


def typical_place(
    X: Array,
    features: Sequence[Sequence[int]],
    given: Mapping[int, ArrayLike] | None = None,
) -> int:
    """Which row of X is nearest to what is given, or to the middle of all.

    Distances are in standard deviations; another category is as far as one of these.
    Rows of another category than a given one are taken only if there are no others.
    Among rows as near as each other, the one nearest to the middle is taken.

    Args:
        X: Rows, (n, p), at least one.
        features: The columns of each feature, together all: one with a number, or one
            for each category.
        given: Cells of some features, by their place in `features`.

    Example:
        >>> X = np.array([[0.0], [2.0], [3.0], [9.0]])
        >>> typical_place(X, [[0]])
        1
        >>> typical_place(X, [[0]], {0: [7.0]})
        3
    """
    given = given or {}
    same = np.ones(len(X), dtype=bool)
    for i, cells in given.items():
        if len(features[i]) > 1:
            same &= (X[:, list(features[i])] == np.asarray(cells)).all(axis=1)
    rows = np.flatnonzero(same) if same.any() else np.arange(len(X))
    std, middle = X.std(axis=0), np.median(X[rows], axis=0)
    scale = np.where(std > 0, std, 1.0)
    for columns in map(list, features):
        if len(columns) > 1:
            scale[columns] = np.sqrt(2.0)  # two cells differ where a category does
            most = X[rows][:, columns].sum(axis=0).argmax()
            middle[columns] = np.arange(len(columns)) == most
    to_given = np.zeros(len(rows))
    for i, cells in given.items():
        if len(features[i]) == 1:
            (column,) = features[i]
            to_given += ((X[rows, column] - np.ravel(cells)) / scale[column]) ** 2
    to_middle = (((X[rows] - middle) / scale) ** 2).sum(axis=1)
    return int(rows[np.lexsort((to_middle, to_given))[0]])
