"""Equal rows as one row with their total weight.

To a density they are the same. But copies of a row that are in different folds, or that
predict each other where a row is left out, know the answer: everything that is judged
on what was held out would be flattered.
"""

import numpy as np

from kexpfam._typing import Array, Indices


def distinct_rows(X: Array, Y: Array, weights: Array) -> tuple[Indices, Array]:
    """One of all equal rows of positive weight, and what they weigh together.

    Rows that are all equal are left as they are: there is nothing to learn from them,
    and messages should count them.

    Args:
        X: Conditions, (n, p).
        Y: Responses, (n, d).
        weights: Row weights, not negative, (n,).

    Returns:
        Row numbers (k,), the first of each that are equal, in the order of their
        content, and total weights (k,).

    Example:
        >>> x, y = np.array([[2.0], [1.0], [2.0]]), np.array([[0.0], [5.0], [0.0]])
        >>> distinct_rows(x, y, np.ones(3))
        (array([0, 1]), array([2., 1.]))
    """
    used = np.flatnonzero(weights > 0)
    order = used[np.lexsort((weights[used], *X[used].T, *Y[used].T))]
    new = np.ones(len(order), dtype=bool)
    new[1:] = np.any(Y[order[1:]] != Y[order[:-1]], axis=1)
    new[1:] |= np.any(X[order[1:]] != X[order[:-1]], axis=1)
    if new.all():
        return order, weights[order]
    starts = np.flatnonzero(new)
    if len(starts) == 1:
        return used, weights[used]
    totals = np.add.reduceat(weights[order], starts)
    return np.minimum.reduceat(order, starts), totals
