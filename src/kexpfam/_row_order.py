"""One order of rows that does not depend on the order in which they come.

Folds, samples, trees and starts are dealt by position. In this order of the rows they,
and with them a model, are the same however a user has sorted the table, and the same in
every bit, since sums are summed in one order, too.
"""

import numpy as np

from kexpfam._typing import Array, Indices


def row_order(*columns: Array) -> Indices:
    """Positions of rows in an order that only their content decides, (n,).

    Sorted, so that units do not matter either, and then shuffled, always alike: sorted
    rows in folds one after the other would not be alike.

    Args:
        columns: Arrays (n,) or (n, k); rows that are equal in all may change places.

    Example:
        >>> x = np.array([3.0, 1.0, 2.0, 5.0])
        >>> bool(np.all(x[row_order(x)] == x[::-1][row_order(x[::-1])]))
        True
    """
    keys = [key for part in columns for key in np.atleast_2d(part.T)]
    order = np.argsort(keys[-1], kind="stable")
    if not np.all(np.diff(keys[-1][order]) > 0):  # ties, or gaps
        order = np.lexsort(keys)
    return order[shuffled_order(len(order))]


def shuffled_order(n: int) -> Indices:
    """Positions of n rows, shuffled, always alike for as many."""
    return np.random.default_rng(0).permutation(n)
