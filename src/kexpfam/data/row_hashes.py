"""Random-looking numbers that depend on the content of a row, and on nothing else.

Whatever is decided by them, such as which rows are in a sample, does not depend on the
order of the rows, nor on how they are split into parts. Rows that are equal get the
same number. Where that would take or leave them together, as in a sample, copies in a
block get numbers of their own (`distinct_hashes`): for rows that repeat, a sample then
depends on the blocks, but not on their order.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kexpfam._typing import Array
from kexpfam._validation import check_count
from kexpfam.data.rows import Accumulator, Rows

RowHashes = NDArray[np.uint64]

# The golden ratio, by which splitmix64 (Steele, Lea, Flood 2014) goes on.
_GOLDEN = 0x9E3779B97F4A7C15


def row_hashes(X: Array, Y: Array, seed: int) -> RowHashes:
    """A hash of each row, (n,): equal for equal rows, as if random for others.

    Another seed gives unrelated numbers. -0.0 counts as 0.0.

    Example:
        >>> rows = np.array([[1.0], [2.0], [1.0]])
        >>> hashes = row_hashes(rows, rows, seed=0)
        >>> bool(hashes[0] == hashes[2]), bool(hashes[0] == hashes[1])
        (True, False)
    """
    salt = (seed * _GOLDEN + 1) % 2**64
    mixed = np.full(len(X), salt, dtype=np.uint64)
    for part in (X, Y):
        for column in part.T:
            # Adding 0.0 turns -0.0 into 0.0, and makes a contiguous copy.
            mixed ^= (column + 0.0).view(np.uint64)
            _mix(mixed)
    return mixed


def _mix(values: RowHashes) -> None:
    # The finaliser of splitmix64, in place, with its multipliers, after which flipping
    # one bit changes each other with probability near one half. Products of arrays wrap
    # around silently.
    values += np.uint64(_GOLDEN)
    values ^= values >> np.uint64(30)
    values *= np.uint64(0xBF58476D1CE4E5B9)
    values ^= values >> np.uint64(27)
    values *= np.uint64(0x94D049BB133111EB)
    values ^= values >> np.uint64(31)


def distinct_hashes(block: Rows, seed: int) -> RowHashes:
    """RowHashes, but others for the second and later copies of a row in a block."""
    hashes = row_hashes(block.X, block.Y, seed)
    order = np.argsort(hashes, kind="stable")
    new = np.ones(len(hashes), dtype=bool)
    np.not_equal(hashes[order[1:]], hashes[order[:-1]], out=new[1:])
    if new.all():
        return hashes
    first = np.flatnonzero(new)
    copies = np.diff(np.append(first, len(hashes)))
    rank = np.arange(len(hashes)) - np.repeat(first, copies)
    again = order[rank > 0]
    # The whole block has a say, or copies in different blocks would be alike again.
    changed = hashes[again] ^ np.bitwise_xor.reduce(hashes[order[first]])
    changed += rank[rank > 0].astype(np.uint64) * np.uint64(_GOLDEN)
    _mix(changed)
    hashes[again] = changed
    return hashes


@dataclass(frozen=True)
class Sample(Rows):
    """Rows sorted by their hashes, (n,)."""

    hashes: RowHashes


@dataclass(frozen=True)
class RowSample(Accumulator[Sample]):
    """The `size` rows with the smallest hashes; the seed says which sample it is.

    Example:
        >>> from kexpfam.data import ArraySource, reduce_blocks
        >>> X = np.arange(1000.0)[:, None]
        >>> sample = reduce_blocks(ArraySource(X, X), RowSample(10, seed=0))
        >>> again = reduce_blocks(ArraySource(X[::-1], X[::-1]), RowSample(10, seed=0))
        >>> len(sample), bool(np.all(sample.X == again.X))
        (10, True)
    """

    size: int
    seed: int

    def __post_init__(self) -> None:
        check_count("size", self.size, least=1)
        check_count("seed", self.seed)

    def start(self) -> Sample:
        nothing = np.empty((0, 0))
        return Sample(nothing, nothing, np.empty(0), np.empty(0, dtype=np.uint64))

    def add(self, state: Sample, block: Rows) -> Sample:
        hashes = distinct_hashes(block, self.seed)
        kept = np.arange(len(hashes))
        if len(state) == self.size:
            # Most rows end here, once many have been seen.
            kept = np.flatnonzero(hashes <= state.hashes[-1])
        if len(kept) > self.size:
            # Those equal to the last stay: which of them are taken is decided by all.
            last = np.partition(hashes[kept], self.size - 1)[self.size - 1]
            kept = kept[hashes[kept] <= last]
        # Adding 0.0 turns -0.0 into 0.0, so that equal rows are equal in every bit.
        X, Y = block.X[kept] + 0.0, block.Y[kept] + 0.0
        return self.combine(state, Sample(X, Y, block.weights[kept], hashes[kept]))

    def combine(self, first: Sample, second: Sample) -> Sample:
        if len(second) == 0:
            return first
        if len(first) == 0:
            first = second[:0]
        joined = Sample.concatenate([first, second])
        order = np.argsort(joined.hashes, kind="stable")
        ordered = joined.hashes[order]
        if np.any(ordered[1:] == ordered[:-1]):  # these by content and weight
            columns = (*joined.X.T, *joined.Y.T)
            order = np.lexsort((joined.weights, *columns, joined.hashes))
        return joined[order[: self.size]]
