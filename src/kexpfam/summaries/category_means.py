"""Categories with many values as numbers: means of y, shrunk, and held out.

The mean of y in a category is shrunk towards the mean of all rows, as far as its rows
are few and the categories alike: m + n_c / (n_c + s²/τ²) (m_c − m), with the variance
s² in categories and τ² between them by the method of moments. Of training rows the
means are of the other parts of the rows, the same five that all regressions leave out:
a mean that has seen y of its row tells y, and so does one that lacks this row alone.

A category may change how far y is from its mean, and not the mean: the same of
log |y − mean| says so.
"""

import numpy as np

from kexpfam._typing import Array, Indices

# Parts of the rows that regressions leave out. With more of them fits see more rows,
# fewer trees predict each row, and predictions tell more of its response.
FOLDS = 5


def fold_of_rows(n: int) -> Indices:
    """Which part each of n rows is in; the same for all regressions of the rows.

    Example:
        >>> np.bincount(fold_of_rows(12))
        array([3, 3, 2, 2, 2])
    """
    return np.random.default_rng(19960801).permutation(n) % FOLDS


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


def log_deviations(groups: Indices, k: int, Y: Array, weights: Array) -> Array:
    """Log distance of y from the held-out mean of its group, (n, d).

    Distances below a thousandth of their root mean square are rounding.

    Example:
        >>> groups, y = np.arange(40) % 2, np.tile([1.0, 10.0, -1.0, -10.0], 10)
        >>> found = log_deviations(groups, 2, y[:, None], np.ones(40))[:, 0]
        >>> bool(found[groups == 1].mean() > found[groups == 0].mean() + 2.0)
        True
    """
    left = Y - held_out_codes(groups, k, Y, weights)
    size = np.sqrt(np.average(left**2, axis=0, weights=weights))
    return 0.5 * np.log(left**2 + np.maximum(1e-3 * size, 1e-300) ** 2)


def differ(groups: Indices, k: int, Y: Array, weights: Array) -> bool:
    """Whether groups have different means in some column, with few false alarms.

    The sum of squares between k groups exceeds what equal means give, (k − 1) s², by
    four of its standard deviations, √(2(k − 1)) s².

    Example:
        >>> rng = np.random.default_rng(0)
        >>> groups, noise = np.arange(400) % 20, rng.normal(size=(400, 1))
        >>> same = differ(groups, 20, noise, np.ones(400))
        >>> same, differ(groups, 20, noise + groups[:, None] % 3, np.ones(400))
        (False, True)
    """
    sizes = np.bincount(groups, weights, minlength=k)
    seen = np.count_nonzero(sizes)
    if seen < 2:
        return False
    for y in Y.T:
        centred = y - np.average(y, weights=weights)
        sums = np.bincount(groups, weights * centred, minlength=k)
        shifts = np.divide(sums, sizes, out=np.zeros(k), where=sizes > 0)
        s2 = np.sum(weights * (centred - shifts[groups]) ** 2)
        s2 /= max(sizes.sum() - seen, 1.0)
        excess = np.sum(sizes * shifts**2) - (seen - 1) * s2
        if excess > 4.0 * np.sqrt(2.0 * (seen - 1)) * s2:
            return True
    return False


def held_out_codes(groups: Indices, k: int, Y: Array, weights: Array) -> Array:
    """The same for each row, by the rows that are not in its part, (n, d).

    Parts are dealt by position, so that rows have to be in an order of their own.

    Shifts of a group from the mean of these rows are added to the mean of all: means
    without a part are high where y is low in the part, and would tell of it.

    Example:
        >>> groups, y = np.arange(100) % 4, np.arange(100.0)[:, None] % 4
        >>> codes = held_out_codes(groups, 4, y, np.ones(100))
        >>> bool(abs(codes - y).max() < 0.1)
        True
    """
    fold = fold_of_rows(len(groups))
    overall, codes = np.average(Y, axis=0, weights=weights), np.empty(Y.shape)
    for part in range(FOLDS):
        out = fold == part
        kept = ~out if weights[~out].sum() > 0 else np.ones_like(out)  # tiny tables
        mean = np.average(Y[kept], axis=0, weights=weights[kept])
        shifts = shrunk_means(groups[kept], k, Y[kept], weights[kept]) - mean
        codes[out] = overall + shifts[groups[out]]
    return codes
