"""Values that a row of X may have where nobody knows them.

A category that is new, or a gap in a column that had none at the fit, leaves x without
a value v of a column. What is then known of y is an average over values,

    p(y | x_rest) = Σ_v p(v | x_rest) p(y | x_rest, v).

A new category is like one more draw of a category: those of the fit are equally likely,
whatever their numbers of rows. A gap has values of training rows that are like x in
the other columns: rows for which a linear regression of the column on the others (and
on their squares) predicts about the same, as predictive mean matching has it. Where the
others tell nothing these are all rows, and where they tell the value it is the nearest.

References:
    Little, Missing-data adjustments in large surveys, Journal of Business and Economic
    Statistics 1988 (predictive mean matching).
"""

from typing import NamedTuple

import numpy as np

from kexpfam._typing import Array, Indices, Mask
from kexpfam.distributions import Parts
from kexpfam.family.neighbourhood import Neighbourhood
from kexpfam.tables import Coding

# Rows are alike up to this share of the standard deviation of what a regression leaves:
# their own differences add a twelfth of its square to that variance.
REACH = 0.5


class PossibleRows(NamedTuple):
    """Rows of X at all values that were taken for what is not known."""

    X: Array  # (N, p)
    parts: Parts  # which of them stand for each row, and their weights


def possible_rows(
    X: Array, near: Neighbourhood, coding: Coding | None, most: int
) -> PossibleRows:
    """Rows (n, p) with NaN in gaps and infinity at new categories, at likely values.

    Args:
        X: The rows; those without either stay as they are.
        near: Training rows.
        coding: Where categories are in X; None if there are none.
        most: Values for each row, at most.
    """
    gaps, new = np.isnan(X), np.isinf(X)
    found: list[Array] = [row[None] for row in X]
    weights = [np.ones(1)] * len(X)
    known = ~(gaps | new)
    open_rows = np.flatnonzero(~known.all(axis=1))
    patterns, which = np.unique(gaps[open_rows], axis=0, return_inverse=True)
    for i, pattern in enumerate(patterns):
        for r, values in zip(
            *_gap_values(X, open_rows[which.ravel() == i], known, pattern, near, most),
            strict=True,
        ):
            rows = np.repeat(X[r][None], most, axis=0)
            rows[:, pattern] = values
            rows = _at_categories(rows, new[r], coding, gaps=bool(pattern.any()))
            found[r], counts = np.unique(rows, axis=0, return_counts=True)
            weights[r] = counts / counts.sum()
    sizes = np.array([len(rows) for rows in found])
    return PossibleRows(np.concatenate(found), Parts(np.concatenate(weights), sizes))


def _gap_values(
    X: Array,
    rows: Indices,
    known: Mask,
    pattern: Mask,
    near: Neighbourhood,
    most: int,
) -> tuple[Indices, list[Array]]:
    """Values of the columns of a pattern in rows that lack these, (most, k) each."""
    if not pattern.any():
        return rows, [np.empty((most, 0))] * len(rows)
    donors = near.rows[:, pattern]
    w = near.weights / near.weights.sum()
    # What is not known in any of these rows, such as a new category, tells nothing.
    told = known[rows].all(axis=0)
    Z = (X[np.ix_(rows, told)] - near.center[told]) / near.scale[told]
    A, B = _basis(near.rows[:, told]), _basis(Z)
    middle = w @ donors
    # A ridge of one row: coefficients are of standardised columns.
    gram = A.T @ (w[:, None] * A) + np.eye(A.shape[1]) / near.weights.sum()
    slopes = np.linalg.solve(gram, A.T @ (w[:, None] * (donors - middle)))
    predicted = A @ slopes
    left = np.sqrt(w @ (donors - middle - predicted) ** 2)
    unit = np.where(left > 0, left, 1.0) * REACH * np.sqrt(donors.shape[1])
    order = np.lexsort(donors.T[::-1])
    levels = (np.arange(most) + 0.5) / most
    found = []
    for at in B @ slopes:
        far = np.square((predicted - at) / unit).sum(axis=1)[order]
        nearest = np.partition(far, min(most, len(far)) - 1)[min(most, len(far)) - 1]
        share = np.where(far <= max(1.0, nearest), w[order], 0.0)
        below = np.cumsum(share)
        place = np.searchsorted(below, levels * below[-1])
        values = donors[order[np.minimum(place, len(order) - 1)]]
        found.append(values * near.scale[pattern] + near.center[pattern])
    return rows, found


def _basis(Z: Array) -> Array:
    """Standardised columns and their squares; far values are pulled in."""
    Z = np.clip(Z, -3.0, 3.0)
    return np.hstack([Z, Z**2 - 1.0])


def _at_categories(
    rows: Array, new: Mask, coding: Coding | None, *, gaps: bool
) -> Array:
    """Rows, all alike but for gaps that were filled in, at categories of the fit."""
    if coding is None or not new.any():
        return rows
    parts = zip(coding.features, coding.places, strict=True)
    open_ = [(f, places) for f, places in parts if new[places].any()]
    if len(open_) == 1 and not gaps and len(open_[0][0].levels) <= len(rows):
        feature, places = open_[0]
        rows = rows[: len(feature.levels)].copy()
        rows[:, places] = feature.levels
        return rows
    most = len(rows)
    for j, (feature, places) in enumerate(open_):
        levels = feature.levels
        levels = levels[np.lexsort(levels.T[::-1])]
        # Multiples of irrational numbers, so that columns do not go together.
        step = np.sqrt((2.0, 3.0, 5.0, 7.0, 11.0, 13.0)[j % 6])
        turn = np.argsort(np.arange(most) * step % 1.0)
        picked = (np.arange(most) + 0.5) * len(levels) / most
        rows[turn, places[0] : places[-1] + 1] = levels[picked.astype(int)]
    return rows
