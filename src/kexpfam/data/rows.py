"""Rows of (X, y, weights) that are read block by block, and sums over them.

A `Source` is data that may not fit into memory. It consists of `Part`s, which can be
read independently of each other, in any order, by any thread or process; a part is read
as `Rows`, arrays of some thousand rows. An `Accumulator` says how blocks become a
sum, and two sums one. `kexpfam.data.reduction` brings them together.

Whatever the data came from, blocks are checked when they are read: all numbers finite,
no negative weight. Rows of weight zero are dropped.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from kexpfam._typing import Array, Indices
from kexpfam.persistence import saved_fit

S = TypeVar("S")

# Enough rows for matrix products to run at full speed, few enough for the caches.
BLOCK_ROWS = 8192

# What a message says about the place of a bad value, from its argument ("X", "y" or
# "sample_weight"), its row in the block, and its column (0 for sample_weight).
Place = Callable[[str, int, int], str]


@saved_fit({"X": "n p", "Y": "n d", "weights": "n nonnegative some"}, name="SavedRows")
@dataclass(frozen=True)
class Rows:
    """Some rows with their weights, in memory.

    Args:
        X: (n, p).
        Y: (n, d).
        weights: (n,), not negative.

    Example:
        >>> rows = Rows(np.zeros((3, 2)), np.arange(3.0)[:, None], np.ones(3))
        >>> len(rows), len(rows[:2]), len(Rows.concatenate([rows, rows[:2]]))
        (3, 2, 5)
        >>> rows[rows.Y[:, 0] > 0].Y.ravel()
        array([1., 2.])
    """

    X: Array
    Y: Array
    weights: Array

    def __len__(self) -> int:
        return len(self.weights)

    def __getitem__(self, index: slice | Indices | NDArray[np.bool_]) -> Self:
        """Some of the rows, by a slice, numbers or a mask."""
        return type(self)(*(getattr(self, f.name)[index] for f in fields(self)))

    @classmethod
    def concatenate(cls, parts: Sequence[Self]) -> Self:
        """The rows of all parts, at least one, in their order."""
        return cls(*map(np.concatenate, zip(*map(_arrays, parts), strict=True)))


def _arrays(rows: Rows) -> list[Array]:
    return [getattr(rows, field.name) for field in fields(rows)]


class Part(ABC):
    """Rows that are read by one thread or one process, from first to last."""

    @abstractmethod
    def read(self) -> Iterator[Rows]:
        """The rows, as blocks that are not empty."""


class Source(ABC):
    """Rows of (X, y, weights), read when they are needed and as often as they are.

    Attributes:
        n_features: Columns of X.
        n_responses: Columns of y.
        feature_names: Names of the columns of X, None if they have none.
        n_rows: Number of rows, those of weight zero included; None if it is not known
            without reading.
        rows_per_block: Most rows of a block.
    """

    n_features: int
    n_responses: int
    feature_names: tuple[str, ...] | None
    n_rows: int | None
    rows_per_block: int = BLOCK_ROWS

    @property
    @abstractmethod
    def parts(self) -> Sequence[Part]:
        """What can be read independently, always in the same order."""


class Accumulator(ABC, Generic[S]):
    """A sum over rows, of any kind: S is what holds it.

    It is shared by threads and sent to other processes, so it must not change, and it
    has to live in a module that they can import.
    """

    @abstractmethod
    def start(self) -> S:
        """The sum of no rows: a new object every time."""

    @abstractmethod
    def add(self, state: S, block: Rows) -> S:
        """The sum with the rows of a block added; may change `state` in place."""

    @abstractmethod
    def combine(self, first: S, second: S) -> S:
        """The sum of two sums; may change `first` in place.

        Nothing of `second` may be changed or kept in the result: a cluster may use it
        again.
        """


class ChangedSource(Source):
    """The rows of another source, of which every block is changed when it is read.

    A sum over them changes the blocks instead of the source, which is read as it would
    be otherwise.

    Args:
        rows: The other source.
        change: What becomes of a block, row by row; it may leave rows out. It is sent
            to other processes, and has to live in a module that they can import.
    """

    def __init__(self, rows: Source, change: Callable[[Rows], Rows]) -> None:
        self.rows, self.change = rows, change
        self.n_features, self.n_responses = rows.n_features, rows.n_responses
        self.feature_names = rows.feature_names
        self.n_rows, self.rows_per_block = rows.n_rows, rows.rows_per_block

    @property
    def parts(self) -> Sequence[Part]:
        return [_ChangedPart(part, self.change) for part in self.rows.parts]


class UnconditionalSource(ChangedSource):
    """The rows of another source, whose y has no columns, as responses.

    Sources call the columns they read X. For p(y) these are the responses, so blocks
    are turned round: what was X becomes Y, and X has no column.
    """

    def __init__(self, rows: Source) -> None:
        if rows.n_responses:
            raise ValueError(
                f"X must be a source without columns of y, which are not modelled "
                f"here, got one with {rows.n_responses}."
            )
        super().__init__(rows, turned)
        self.n_features, self.n_responses = 0, rows.n_features
        self.feature_names = None


@dataclass(frozen=True)
class _ChangedPart(Part):
    part: Part
    change: Callable[[Rows], Rows]

    def read(self) -> Iterator[Rows]:
        return filter(len, map(self.change, self.part.read()))


@dataclass(frozen=True)
class OfChangedBlocks(Accumulator[S]):
    """A sum over the blocks of a `ChangedSource`, from those of its rows."""

    accumulator: Accumulator[S]
    change: Callable[[Rows], Rows]

    def start(self) -> S:
        return self.accumulator.start()

    def add(self, state: S, block: Rows) -> S:
        changed = self.change(block)
        return self.accumulator.add(state, changed) if len(changed) else state

    def combine(self, first: S, second: S) -> S:
        return self.accumulator.combine(first, second)


def turned(block: Rows) -> Rows:
    """A block whose X is the Y of another, and has no columns of its own."""
    return Rows(block.X[:, :0], block.X, block.weights)


def float_columns(name: str, values: Any) -> Array:
    """Numbers as a new float64 array (n, columns)."""
    array = np.asarray(values)
    if array.dtype.kind not in "biufO":
        raise ValueError(f"{name} must hold real numbers, got {array.dtype}.")
    try:
        array = np.array(array, dtype=np.float64, order="C")
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must hold real numbers only: {error}.") from error
    return array[:, None] if array.ndim == 1 else array


def converted(X: Any, Y: Any, weights: Any, place: Place) -> Rows:
    """A checked block of copies of arrays of any numbers, of one or two dimensions."""
    if weights is not None:
        weights = float_columns("sample_weight", weights)[:, 0]
    return checked(float_columns("X", X), float_columns("y", Y), weights, place)


def checked(X: Array, Y: Array, weights: Array | None, place: Place) -> Rows:
    """A block of the rows whose weight is not zero; `place` says where bad ones are."""
    for name, values in (("X", X), ("y", Y)):
        _refuse(name, values, np.isfinite(values), "finite numbers only", place)
    if weights is None:
        return Rows(X, Y, np.ones(len(X)))
    good = np.isfinite(weights) & (weights >= 0)
    _refuse("sample_weight", weights, good, "finite numbers from 0 on", place)
    kept = weights > 0
    rows = Rows(X, Y, weights)
    return rows if kept.all() else rows[kept]


def _refuse(name: str, values: Array, good: Any, wanted: str, place: Place) -> None:
    if good.all():
        return
    index = np.argwhere(~good)[0]
    column = int(index[1]) if len(index) > 1 else 0
    raise ValueError(
        f"{name} must hold {wanted}, got {values[tuple(index)]} in "
        f"{place(name, int(index[0]), column)}; drop or fill such rows."
    )
