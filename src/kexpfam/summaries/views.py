"""Gaps and categories of x as trees see them best.

The columns of a coded table hold a typical value where one is missing, beside a column
that says where; and a column of zeros and ones for each of a few categories. That is
what a kernel can measure distances in. A tree may send what is missing to the side
that suits it, whatever value others have; and of all ways to split categories in two
the best for a mean is one along the order of their means (Fisher 1958), which one split
of a column of means is, and a dozen splits of zeros and ones are not. So trees get
further columns: with NaN for what is missing, and with means. Those that they are made
from stay, since where gaps come at random a typical value is the better guess.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kexpfam._typing import Array, Indices, Mask
from kexpfam.persistence import saved_fit, saved_value
from kexpfam.summaries.category_means import held_out_codes, shrunk_means


@saved_value
@dataclass(frozen=True)
class ColumnKinds:
    """Which columns of X stand for gaps and categories of a table.

    Attributes:
        gaps: Pairs of a column, and the one that says where its values are missing.
        groups: Columns of zeros and ones that are the categories of one column.
        means: Columns with means of categories, which are held out at the fit: the
            value of a category is then not that which new rows have.
    """

    gaps: tuple[tuple[int, int], ...] = ()
    groups: tuple[tuple[int, ...], ...] = ()
    means: tuple[int, ...] = ()


@saved_fit({"columns": "k int32 nonnegative", "limits": "k", "codes": "k+1"})
@dataclass(frozen=True, eq=False)
class CategoryCodes:
    """Means of y in the categories of one column."""

    columns: NDArray[np.int32]  # Of zeros and ones, (k,)
    limits: Array  # Between them, in the units of X, (k,)
    codes: Array  # Of each, and of none of them, (k + 1,)

    def places(self, X: Array) -> Indices:
        """Which category each row has, k for none, (n,)."""
        there = X[:, self.columns] > self.limits
        return np.where(there.any(axis=1), there.argmax(axis=1), len(self.columns))


@saved_fit({"gaps": "s 2 int32 nonnegative", "limits": "s", "n_features": "positive"})
@dataclass(frozen=True, eq=False)
class TreeView:
    """X, its columns with gaps once more with NaN there, and means of groups.

    Example:
        >>> X = np.array([[3.0, 0.0], [5.0, 1.0], [7.0, 0.0]])
        >>> kinds = ColumnKinds(gaps=((0, 1),))
        >>> view, seen = TreeView.fit(kinds, X, np.zeros((3, 1)), np.ones(3))
        >>> seen[:, 2]
        array([ 3., nan,  7.])
    """

    gaps: NDArray[np.int32]  # Columns, and what says where they are missing, (s, 2)
    limits: Array  # Above which the latter say so, (s,)
    n_features: int  # Columns of X
    groups: tuple[CategoryCodes, ...] = ()

    @classmethod
    def fit(
        cls, kinds: ColumnKinds, X: Array, Y: Array, weights: Array
    ) -> tuple["TreeView", Array]:
        """Learn means of one column Y (n, 1), held out in the training rows.

        Several columns, and X that does not vary, have none.
        """
        middle = 0.5 * (X.min(axis=0) + X.max(axis=0))
        varies = X.max(axis=0) > X.min(axis=0)
        gaps = np.array(
            [pair for pair in kinds.gaps if varies[pair[1]]], dtype=np.int32
        ).reshape(-1, 2)
        groups, means = [], []
        for columns in kinds.groups if Y.shape[1] == 1 else ():
            own = np.array(columns, dtype=np.int32)
            k, limits = len(own), middle[own]
            limits = np.where(varies[own], limits, np.finfo(float).max)
            places = CategoryCodes(own, limits, np.zeros(k + 1)).places(X)
            codes = shrunk_means(places, k + 1, Y, weights)[:, 0]
            if np.ptp(codes) > 0:
                groups.append(CategoryCodes(own, limits, codes))
                means.append(held_out_codes(places, k + 1, Y, weights))
        view = cls(gaps, middle[gaps[:, 1]], X.shape[1], tuple(groups))
        return view, np.hstack([X, view._with_gaps(X), *means])

    def at(self, X: Array) -> Array:
        """New rows as trees see them."""
        means = [own.codes[own.places(X)][:, None] for own in self.groups]
        return np.hstack([X, self._with_gaps(X), *means])

    @property
    def columns_seen(self) -> int:
        """Columns that trees see."""
        return self.n_features + len(self.gaps) + len(self.groups)

    def check_saved(self) -> None:
        """Refuse columns that are not there."""
        named = [self.gaps.ravel(), *(own.columns for own in self.groups)]
        if np.any(np.concatenate(named) >= self.n_features):
            raise ValueError("a view of trees has a column that is not there")

    def _with_gaps(self, X: Array) -> Array:
        missing: Mask = X[:, self.gaps[:, 1]] > self.limits
        return np.where(missing, np.nan, X[:, self.gaps[:, 0]])
