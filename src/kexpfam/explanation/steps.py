"""Along which values of a column an effect goes, and which rows take each step."""

from collections import Counter
from dataclasses import dataclass

import numpy as np

from kexpfam._typing import Array, Indices, Mask
from kexpfam.explanation.columns import ModelColumns
from kexpfam.tables import Column, OrderedFeature

# Categories of which effects are shown, the most frequent ones; more are not read.
MOST_CATEGORIES = 20


@dataclass(frozen=True, eq=False)
class Steps:
    """Places along a column, and rows that go from one to the next.

    Attributes:
        places: Values of the column, (g,).
        cells: These values as coded, (g, k).
        rows: Rows that take a step, (m,); of categories some take two.
        index: Which step each of them takes, from that place to the next, (m,).
        weights: How far each row of the data is at each place, with sum one, (n, g);
            zero where it is at none of them.
        categorical: Whether places are categories.
    """

    places: Column
    cells: Array
    rows: Indices
    index: Indices
    weights: Array
    categorical: bool

    def moved(
        self, columns: ModelColumns, column: int, Z: Array
    ) -> tuple[Array, Array]:
        """Coded rows at the beginning and at the end of their steps, (m, p) each."""
        feature, own = columns.features[column], list(columns.places[column])
        # Parts of dates that turn too fast stay as they are.
        some = list(range(len(own))) if feature is None else feature.moved
        low, high = Z[self.rows], Z[self.rows]
        for moved, place in ((low, self.index), (high, self.index + 1)):
            moved[:, [own[i] for i in some]] = self.cells[place][:, some]
        return low, high

    def accumulated(self, f: Array, differences: Array, w: Array) -> Array:
        """Accumulated means of differences, around the mean of f, (g, k).

        Args:
            f: Numbers of all rows, (n, k).
            differences: By how much they change in each step, (m, k).
            w: Weights of the rows, (n,).
        """
        g = len(self.places)
        own = w[self.rows]
        total = np.bincount(self.index, own, minlength=g - 1)
        sums = np.stack(
            [np.bincount(self.index, own * d, minlength=g - 1) for d in differences.T],
            axis=1,
        )
        # A step that nobody takes, between categories, changes nothing.
        means = sums / np.where(total > 0, total, 1.0)[:, None]
        a = np.vstack([np.zeros((1, f.shape[1])), np.cumsum(means, axis=0)])
        at = w @ self.weights
        return a - (at @ a) / at.sum() + (w @ f) / w.sum()

    def worst_share(self, low: Mask, high: Mask) -> Array:
        """Share of marked rows in the worse of the steps beside each place, (g,).

        Args:
            low: Which rows are marked at the beginning of their steps, (m,).
            high: The same at their ends; a row counts if it is marked at either.
        """
        last = len(self.places) - 1
        count = np.bincount(self.index, minlength=last)
        marked = np.bincount(self.index, low | high, minlength=last)
        shares = marked / np.maximum(count, 1)
        return np.maximum(np.append(shares, 0.0), np.insert(shares, 0, 0.0))

    def bins(self, Z: Array) -> tuple[Indices, Column]:
        """Which place, or stretch between two, each row is at, (n,), and their middles.

        Rows at none, of rare categories, are at −1.
        """
        known = self.weights.sum(axis=1) > 0
        if self.categorical:
            return np.where(known, np.argmax(self.weights, axis=1), -1), self.places
        groups = np.argmax(self.weights > 0, axis=1)
        return groups, _middles(self.places)


def steps_along(columns: ModelColumns, column: int, Z: Array, bins: int) -> Steps:
    """Steps along a column of coded rows (n, p); numbers have so many at most.

    Raises:
        ValueError: The column has one value only.
    """
    values = columns.values(column, Z) if len(Z) else np.empty(0)
    kinds = np.unique(values)
    if len(kinds) < 2:
        raise ValueError(
            f"X must have two values of {columns.names[column]!r} at least, to have an "
            f"effect between them, got {len(kinds)}."
        )
    if values.dtype.kind == "O":
        return _between_categories(columns, column, Z, values)
    return _between_numbers(values, Z[:, list(columns.places[column])], bins)


def _between_numbers(values: Column, coded: Array, bins: int) -> Steps:
    n = len(values)
    order = np.argsort(values, kind="stable")
    # Values that occur, so that whole numbers and dates stay what they are.
    wanted = np.ceil(np.linspace(0, n, bins + 1)).astype(int)
    chosen = order[np.clip(wanted - 1, 0, n - 1)]
    chosen[0] = order[0]
    places, first = np.unique(values[chosen], return_index=True)
    # The rows of stretch k are above place k, up to place k + 1; the least are in the
    # first one.
    index = np.clip(np.searchsorted(places, values) - 1, 0, len(places) - 2)
    weights = np.zeros((n, len(places)))
    rows = np.arange(n)
    weights[rows, index] = weights[rows, index + 1] = 0.5
    return Steps(places, coded[chosen[first]], rows, index, weights, False)


def _between_categories(
    columns: ModelColumns, column: int, Z: Array, values: Column
) -> Steps:
    counts = Counter(values.tolist())
    often = sorted(counts, key=lambda kind: (-counts[kind], kind))[:MOST_CATEGORIES]
    kept = sorted(often)
    feature = columns.features[column]
    if isinstance(feature, OrderedFeature):
        ordered = [kind for kind in feature.categories if kind in kept]
    else:
        rest = np.setdiff1d(np.arange(Z.shape[1]), columns.places[column])
        ordered = [kept[i] for i in alike_in_order(Z[:, rest], values, kept)]
    places = np.array(ordered, dtype=object)
    at = values[:, None] == places
    assert feature is not None
    cells = np.array([feature.cells(place) for place in ordered])
    steps = [
        (np.flatnonzero(at[:, k] | at[:, k + 1]), k) for k in range(len(places) - 1)
    ]
    rows = np.concatenate([own for own, _ in steps])
    index = np.concatenate([np.full(len(own), k) for own, k in steps])
    return Steps(places, cells, rows, index, at.astype(float), True)


def alike_in_order(Z: Array, values: Column, kinds: list[str]) -> list[int]:
    """An order of categories in which neighbours are alike in other columns.

    The order is that along the first coordinate of classical scaling, as Apley and Zhu
    propose it. Distances are sums over the columns of Z of ∫ |F_a − F_b| over ranks:
    their Kolmogorov-Smirnov distances do not tell far from farther.

    Example:
        >>> values = np.array(["a", "b", "c"]).repeat(4)
        >>> Z = np.array([0.0, 2.0, 1.0]).repeat(4) + np.arange(12) % 4
        >>> alike_in_order(Z[:, None], values, ["a", "b", "c"])
        [0, 2, 1]
    """
    k = len(kinds)
    D = np.zeros((k, k))
    for column in Z.T:
        points = np.sort(column)
        own = [np.sort(column[values == kind]) for kind in kinds]
        F = np.stack([np.searchsorted(c, points, "right") / len(c) for c in own])
        D += np.abs(F[:, None] - F[None]).mean(axis=2)
    if not D.any():
        return list(range(k))
    J = np.eye(k) - 1.0 / k
    coordinate = np.linalg.eigh(-0.5 * J @ D**2 @ J)[1][:, -1]
    # Its sign is arbitrary: the first category is in the first half.
    coordinate = coordinate * (-1.0 if coordinate[0] > 0 else 1.0)
    order: list[int] = np.argsort(coordinate, kind="stable").tolist()
    return order


def _middles(places: Column) -> Column:
    """The middle of each stretch, of numbers or moments."""
    found: Column = places[:-1] + (places[1:] - places[:-1]) / 2
    return found
