"""A typical row: where pictures begin, unless somebody says where.

Medians and most frequent categories, each by itself typical, may never occur together:
at such an x there are no data, and a density there is extrapolation. So conditions are
those of a row of the data, the one nearest to the medians.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kexpfam._typing import Array, Indices
from kexpfam.explorer.subject import Subject


@dataclass(frozen=True)
class Block:
    """The columns of X of one feature.

    Attributes:
        columns: Which these are.
        is_category: Whether there is one for each category, or one with a number.
    """

    columns: tuple[int, ...]
    is_category: bool


def typical_place(
    X: Array,
    blocks: Sequence[Block],
    given: Mapping[int, Sequence[float]] | None = None,
) -> int:
    """Which row of X is nearest to what is given, or to the middle of all.

    Distances are in standard deviations; another category is as far as one of these.
    Rows of another category than a given one are taken only if there are no others.
    Among rows as near as each other, the one nearest to the middle is taken.

    Args:
        X: Rows, (n, p), at least one.
        blocks: The features, together all columns.
        given: Cells of some features, by their place in `blocks`.

    Example:
        >>> X = np.array([[0.0], [2.0], [3.0], [9.0]])
        >>> typical_place(X, [Block((0,), False)])
        1
        >>> typical_place(X, [Block((0,), False)], {0: [7.0]})
        3
    """
    given = given or {}
    rows = _of_categories(X, blocks, given)
    deviation = X.std(axis=0)
    scale = np.where(deviation > 0, deviation, 1.0)
    for block in blocks:
        if block.is_category:  # two cells differ where a category does
            scale[list(block.columns)] = np.sqrt(2.0)
    Z = X[rows] / scale
    to_given = np.zeros(len(Z))
    for i, cells in given.items():
        if not blocks[i].is_category:
            (column,) = blocks[i].columns
            to_given += (Z[:, column] - cells[0] / scale[column]) ** 2
    to_middle = ((Z - _middle(X[rows], blocks) / scale) ** 2).sum(axis=1)
    return int(rows[np.lexsort((to_middle, to_given))[0]])


def _of_categories(
    X: Array, blocks: Sequence[Block], given: Mapping[int, Sequence[float]]
) -> Indices:
    same = np.ones(len(X), dtype=bool)
    for i, cells in given.items():
        if blocks[i].is_category:
            same &= (X[:, list(blocks[i].columns)] == np.asarray(cells)).all(axis=1)
    return np.flatnonzero(same) if same.any() else np.arange(len(X))


def _middle(X: Array, blocks: Sequence[Block]) -> Array:
    """Medians, and most frequent categories, (p,)."""
    middle = np.median(X, axis=0)
    for block in blocks:
        if block.is_category:
            columns = list(block.columns)
            most = int(np.argmax(X[:, columns].sum(axis=0)))
            middle[columns] = np.arange(len(columns)) == most
    return middle


def typical_of(subject: Subject) -> int | None:
    """Which row of a subject's data is typical; None without data."""
    if not len(subject.X):
        return None
    blocks = [Block(c.columns, bool(c.categories)) for c in subject.controls]
    return typical_place(subject.X, blocks)


def starting_at_typical_row(subject: Subject) -> Subject:
    """A subject whose controls begin at a typical row, if there are data."""
    place = typical_of(subject)
    if place is None:
        return subject
    values = subject.values(subject.X[place])
    controls = [replace(c, start=values[c.name]) for c in subject.controls]
    return replace(subject, controls=tuple(controls))
