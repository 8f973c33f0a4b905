"""The columns of a user's table, and where a model has them among its numbers.

Each column is coded by itself: a category is several columns of zeros and ones, a date
its parts. So to exchange a column of the table between rows is to exchange its numbers,
and all explanations work on coded rows, with the user's columns as blocks of them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kexpfam._optional import is_instance
from kexpfam._typing import Array, Indices, Mask
from kexpfam.data import row_hashes
from kexpfam.display import ALONG, column_relevance
from kexpfam.distributions import in_blocks
from kexpfam.tables import (
    Coding,
    Column,
    EncodedFeature,
    Feature,
    TableError,
    is_frame,
)
from kexpfam.tables.columns import listed, nearest


@dataclass(frozen=True, eq=False)
class ModelColumns:
    """A model as a function of the user's columns.

    Attributes:
        names: Of the user's columns.
        places: Which columns of coded rows are of each of them.
        features: How each is coded; None where it is a number.
        encode: Rows of a table as coded rows, (n, p).
        densities: What p(y|x) is at coded rows.
        background: Coded rows that the model remembers, (m, p), and their weights,
            (m,); None if there are none.
        response: What y is called.
        left_out: Columns of the table that the model does not look at.
        n_jobs: How many threads work.
    """

    names: tuple[str, ...]
    places: tuple[Sequence[int], ...]
    features: tuple[Feature | None, ...]
    encode: Callable[[Any], Array]
    densities: Callable[[Array], Any]
    background: tuple[Array, Array] | None = None
    response: str = "y"
    left_out: tuple[str, ...] = ()
    n_jobs: int | None = None

    @classmethod
    def of(
        cls,
        names: Sequence[str],
        coding: Coding | None,
        encode: Callable[[Any], Array],
        densities: Callable[[Array], Any],
        **more: Any,
    ) -> "ModelColumns":
        """Those of a coding, or else columns of numbers with these names."""
        if coding is None:
            alone = tuple([i] for i in range(len(names)))
            none = (None,) * len(names)
            return cls(tuple(names), alone, none, encode, densities, **more)
        known = tuple(feature.name for feature in coding.features)
        places = tuple(coding.places)
        more["left_out"] = tuple(n for n in coding.inputs if n not in known)
        return cls(known, places, coding.features, encode, densities, **more)

    def index(self, column: Any) -> int:
        """Which column a name, or a number from zero, stands for."""
        if isinstance(column, int | np.integer) and not isinstance(column, bool):
            if not 0 <= column < len(self.names):
                raise ValueError(
                    f"column must be below {len(self.names)}, got {column}."
                )
            return int(column)
        if column in self.left_out:
            raise TableError(
                f"Column {column!r} was left out at the fit, since it cannot help; "
                f"columns of the model are {listed(self.names)}."
            )
        if column not in self.names:
            raise TableError(
                f"The model has no column {column!r}"
                f"{nearest(str(column), self.names)}; its columns are "
                f"{listed(self.names)}."
            )
        return self.names.index(column)

    def evaluate(self, Z: Array, work: Callable[[Any, slice], Array]) -> Array:
        """What `work` makes of the densities of many rows, block by block."""
        return np.concatenate(in_blocks(self.densities, Z, work, n_jobs=self.n_jobs))

    def evaluate_once(
        self, Z: Array, work: Callable[[Any, Indices], Array], beside: Indices
    ) -> Array:
        """The same, but rows that are equal are evaluated once.

        Where values of other rows are put in, many rows come out as they were:
        categories are often the same, and a row of few columns is soon met again.

        Args:
            Z: Coded rows, (n, p).
            work: What is made of densities, told the number in `beside` of each.
            beside: A number that equal rows have to share, too, (n,).
        """
        _, first, same = np.unique(
            row_hashes(Z, beside[:, None].astype(float), 0),
            return_index=True,
            return_inverse=True,
        )
        own = beside[first]
        return self.evaluate(Z[first], lambda p, rows: work(p, own[rows]))[same]

    def require_one_response(self, method: str, Z: Array) -> None:
        """Refuse densities of several columns of y."""
        if not hasattr(self.densities(Z[:1]), "cdf"):
            raise ValueError(
                f"{method} is for one column of y, and this model has several; "
                f"importance is for any number."
            )

    def coded(self, columns: Sequence[int]) -> list[int]:
        """The columns of coded rows of some of the user's columns."""
        return [place for column in columns for place in self.places[column]]

    def grouped(self, groups: Mapping[str, Sequence[int]]) -> "ModelColumns":
        """The same with groups of columns in the place of columns, by name."""
        places = tuple(self.coded(own) for own in groups.values())
        none = (None,) * len(groups)
        return replace(self, names=tuple(groups), places=places, features=none)

    def values(self, column: int, Z: Array) -> Column:
        """Numbers, moments or texts of a column, with gaps as in tables, (n,).

        Of many categories, rare and unknown ones are gaps, too: they have no code of
        their own.
        """
        feature, cells = self.features[column], Z[:, list(self.places[column])]
        if feature is None:
            return cells[:, 0]
        values = feature.values(cells)
        if isinstance(feature, EncodedFeature):
            own = (cells[:, None] == feature.codes).all(axis=2).any(axis=1)
            values = np.where(own, values, "")
        return values

    def relevance(self, most: int = 3000) -> Array | None:
        """How much p(y|x) depends on each column, as a share of all, (k,).

        By `column_relevance`, between rows that the model remembers; None without
        such, for several columns of y, and for a single column of x.

        Args:
            most: How many densities are looked at, about.
        """
        count = len(self.names)
        if self.background is None or count < 2:
            return None
        rows = BackgroundRows(self, self.background[0])
        if len(rows) < 2 or not hasattr(rows.given(np.arange(1)), "cdf"):
            return None
        compared = min(ALONG.compared, max(8, most // (count + 1)))
        return column_relevance(rows, count, replace(ALONG, compared=compared))

    def text(self, column: int, z: Array) -> str:
        """The value of a column in one coded row, (p,), as people write it."""
        value = self.values(column, z[None])[0]
        feature = self.features[column]
        if is_gap(np.array([value]))[0]:
            return "other" if isinstance(feature, EncodedFeature) else "missing"
        if feature is None:
            return f"{value:.4g}"
        return feature.text(feature.value(z[list(self.places[column])]))


@dataclass(frozen=True, eq=False)
class BackgroundRows:
    """Coded rows, between which columns are exchanged: a position is a row's number."""

    columns: ModelColumns
    Z: Array

    def __len__(self) -> int:
        return len(self.Z)

    def positions(self, column: int) -> Array:
        """The numbers of the rows, whatever the column."""
        return np.arange(len(self.Z), dtype=float)

    def given(
        self, rows: Indices, column: int | None = None, positions: Array | None = None
    ) -> Any:
        """Densities at some rows, with a column of other ones."""
        if column is None or positions is None:
            return self.columns.densities(self.Z[rows])
        own = list(self.columns.places[column])
        return self.columns.densities(
            exchanged(self.Z, rows, positions.astype(int), own)
        )


def is_gap(values: Column) -> Mask:
    """Which values of a column are missing, (n,)."""
    if values.dtype.kind == "f":
        return np.isnan(values)
    return np.isnat(values) if values.dtype.kind == "M" else values == ""


def exchanged(
    Z: Array, rows: Indices, donors: Indices, columns: Sequence[int]
) -> Array:
    """Rows of Z with some columns of other rows, (len(rows), p).

    Example:
        >>> Z = np.array([[1.0, 10.0], [2.0, 20.0]])
        >>> exchanged(Z, np.array([0, 1]), np.array([1, 1]), [1])
        array([[ 1., 20.],
               [ 2., 20.]])
    """
    found = Z[rows]
    found[:, list(columns)] = Z[donors][:, list(columns)]
    return found


def one_row(x: Any) -> Any:
    """A single row in the form of many: values by name, a flat array, a frame of one.

    Example:
        >>> one_row({"rooms": 3, "city": "Rome"})
        {'rooms': [3], 'city': ['Rome']}
        >>> one_row([1.0, 2.0]).shape
        (1, 2)
    """
    if is_instance(x, "pandas", "Series"):
        x = {str(name): value for name, value in x.items()}
    whole: Any = x
    if isinstance(x, Mapping) and not hasattr(x, "shape"):
        whole = {k: v if _is_list(v) else [v] for k, v in x.items()}
        rows = max((len(v) for v in whole.values()), default=0)
    elif is_frame(x):
        rows = len(x)
    else:
        whole = np.asarray(x)
        whole = whole[None] if whole.ndim == 1 else whole
        rows = len(whole)
    if rows != 1:
        raise ValueError(f"x must be one row, got {rows}; call explain for each.")
    return whole


def _is_list(value: Any) -> bool:
    return not isinstance(value, str) and hasattr(value, "__len__")
