"""Training rows: distinct rows of positive weight."""

from dataclasses import dataclass

import numpy as np

from kexpfam._row_order import row_order, shuffled_order
from kexpfam._typing import Array, Indices
from kexpfam.data.rows import Rows
from kexpfam.errors import DegenerateDataError


@dataclass(frozen=True)
class TrainingRows(Rows):
    """Distinct rows of positive weight, and where the user finds them, (n,)."""

    numbers: Indices

    @classmethod
    def of(cls, rows: Rows, *, shuffled: bool = False) -> "TrainingRows":
        """Rows that count, equal ones as one with the weight of all.

        If shuffled, in a random order that does not depend on the order in which they
        come, nor on units: sorted first. If not, in that of the user.
        """
        used, totals = distinct_rows(rows.X, rows.Y, rows.weights)
        order = np.argsort(used)
        if shuffled:
            order = shuffled_order(len(used))
        used, totals = used[order], totals[order]
        if len(used) < 2:
            raise DegenerateDataError(
                f"At least 2 rows with positive weight are needed, got {len(used)}."
            )
        return cls(rows.X[used], rows.Y[used], totals, used)


def in_row_order(rows: Rows) -> Rows:
    """The same rows in an order that does not depend on that of the user.

    Rows of weight zero come last, so that they change nothing.

    Example:
        >>> y = np.arange(5.0)[:, None]
        >>> one, other = (Rows(0 * Y, Y, np.ones(5)) for Y in (y, y[::-1]))
        >>> bool(np.all(in_row_order(one).Y == in_row_order(other).Y))
        True
    """
    some, none = np.flatnonzero(rows.weights > 0), np.flatnonzero(rows.weights <= 0)
    known = rows[some]
    return rows[np.append(some[row_order(known.weights, known.X, known.Y)], none)]


def distinct_rows(X: Array, Y: Array, weights: Array) -> tuple[Indices, Array]:
    """One of all equal rows of positive weight, and what they weigh together.

    Row numbers are in the order of their content. To a density equal rows are the same.
    But copies of a row that are in different folds, or that predict each other where a
    row is left out, know the answer: everything that is learned from what was held out
    would be flattered. Rows that are all equal are left as they are: there is nothing
    to learn from them, and messages should count them.

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
