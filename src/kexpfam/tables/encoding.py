"""Categories with many values as numbers: means of y, shrunk, and held out.

The mean of y in a category is shrunk towards the mean of all rows, as far as its rows
are few and the categories alike: m + n_c / (n_c + s²/τ²) (m_c − m), with the variance
s² in categories and τ² between them by the method of moments. Of training rows the
means are of the other parts of the rows, the same five that all regressions leave out
(`kexpfam.summaries`): a mean that has seen y of its row tells y, and so does one that
lacks this row alone.
"""

import numpy as np

from kexpfam._typing import Array, Indices
from kexpfam.summaries.learners import FOLDS, fold_of_rows


def shrunk_means(groups: Indices, k: int, Y: Array, weights: Array) -> Array:
    """Means of each of k groups of rows, shrunk towards that of all rows, (k, d).

    Args:
        groups: Group of each row, (n,); a group may have none.
        k: Number of groups.
        Y: Responses, (n, d).
        weights: Of the rows, (n,).

    Example:
        >>> Y = np.array([[0.0], [0.1], [4.0], [4.1]])
        >>> shrunk_means(np.array([0, 0, 1, 1]), 3, Y, np.ones(4)).ravel().round(2)
        array([0.05, 4.05, 2.05])
    """
    sizes = np.bincount(groups, weights, minlength=k)
    n, seen = sizes.sum(), np.count_nonzero(sizes)
    codes = np.empty((k, Y.shape[1]))
    for j, y in enumerate(Y.T):
        overall = np.average(y, weights=weights)
        sums = np.bincount(groups, weights * (y - overall), minlength=k)
        shifts = np.divide(sums, sizes, out=np.zeros(k), where=sizes > 0)
        inside = np.sum(weights * (y - overall - shifts[groups]) ** 2)
        s2 = inside / max(n - seen, 1.0)
        spread = n - np.sum(sizes**2) / n
        excess = np.sum(sizes * shifts**2) - (seen - 1) * s2
        tau2 = max(excess, 0.0) / spread if spread > 0 else 0.0
        share = np.divide(
            sizes * tau2, sizes * tau2 + s2, out=np.zeros(k), where=sizes * tau2 > 0
        )
        codes[:, j] = overall + share * shifts
    return codes


def held_out_codes(
    groups: Indices, k: int, Y: Array, weights: Array, order: Indices | None = None
) -> Array:
    """The same for each row, by the rows that are not in its part, (n, d).

    Parts are dealt to the rows in the order that is given, or as they are.

    Shifts of a group from the mean of these rows are added to the mean of all: means
    without a part are high where y is low in the part, and would tell of it.

    Example:
        >>> groups, y = np.arange(100) % 4, np.arange(100.0)[:, None] % 4
        >>> codes = held_out_codes(groups, 4, y, np.ones(100))
        >>> bool(abs(codes - y).max() < 0.1)
        True
    """
    fold = fold_of_rows(len(groups))
    if order is not None:
        fold[order] = fold.copy()
    overall, codes = np.average(Y, axis=0, weights=weights), np.empty(Y.shape)
    for part in range(FOLDS):
        out = fold == part
        kept = ~out if weights[~out].sum() > 0 else np.ones_like(out)  # tiny tables
        mean = np.average(Y[kept], axis=0, weights=weights[kept])
        shifts = shrunk_means(groups[kept], k, Y[kept], weights[kept]) - mean
        codes[out] = overall + shifts[groups[out]]
    return codes
