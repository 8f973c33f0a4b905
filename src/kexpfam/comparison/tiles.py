"""Sums of a kernel over all pairs of rows, without the matrix of the pairs.

The matrix is computed tile by tile, a row of tiles at a time, and of a symmetric one
only the tiles up to the diagonal. Rows of tiles are shared out among threads; each
writes sums of its own, which are added in the same order however many threads there
were, so that equal samples have equal sums to the last bit.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from kexpfam._linalg import PANEL_BYTES, BufferPool, Empty, for_each_panel
from kexpfam._typing import Array
from kexpfam.kernels import Kernel

# Rows and columns of a tile, which has the size of a panel.
TILE = 512


@dataclass(frozen=True, eq=False)
class PairSums:
    """Sums of k(a, b) over the pairs of two samples of m and n rows.

    Attributes:
        rows: Σ_b k(a, b), (m,).
        columns: Σ_a k(a, b), (n,).
        squares: Σ k(a, b)² over all pairs.
    """

    rows: Array
    columns: Array
    squares: float


def sums_between(kernel: Kernel, A: Array, B: Array) -> PairSums:
    """Sums over all pairs of a row of A and a row of B."""
    starts = range(0, len(A), TILE)
    rows, squares = np.zeros(len(A)), np.zeros(len(starts))
    columns = np.zeros((len(starts), len(B)))

    def work(t: int) -> None:
        for own, other, K in _tiles(kernel, A, B, t, len(B)):
            rows[own] += K.sum(axis=1)
            columns[t, other] = K.sum(axis=0)
            squares[t] += np.einsum("ab,ab->", K, K)

    _for_each_row_of_tiles(len(starts), work)
    return PairSums(rows, columns.sum(axis=0), float(squares.sum()))


def sums_within(kernel: Kernel, A: Array) -> PairSums:
    """Sums over all pairs of two different rows of A; its rows equal its columns."""
    starts = range(0, len(A), TILE)
    rows, squares = np.zeros(len(A)), np.zeros(len(starts))
    columns = np.zeros((len(starts), len(A)))

    def work(t: int) -> None:
        for own, other, K in _tiles(kernel, A, A, t, (t + 1) * TILE):
            rows[own] += K.sum(axis=1)
            square = float(np.einsum("ab,ab->", K, K))
            if own == other:
                rows[own] -= K.diagonal()
                squares[t] += square - float(K.diagonal() @ K.diagonal())
            else:
                columns[t, other] = K.sum(axis=0)
                squares[t] += 2.0 * square

    _for_each_row_of_tiles(len(starts), work)
    sums = rows + columns.sum(axis=0)
    return PairSums(sums, sums, float(squares.sum()))


def sums_of_groups(kernel: Kernel, A: Array, groups: Array) -> tuple[Array, Array]:
    """Sums over the pairs of different rows, inside groups and beside everything.

    Args:
        kernel: k.
        A: Points, (n, d).
        groups: Columns of ones for the rows of a group and zeros elsewhere, (n, g).

    Returns:
        Σ_{a≠b} w_a w_b k(a, b) for every column w, (g,), and Σ_{b≠a} k(a, b), (n,).
    """
    starts = range(0, len(A), TILE)
    rows, columns = np.zeros(len(A)), np.zeros((len(starts), len(A)))
    inside = np.zeros((len(starts), groups.shape[1]))

    def work(t: int) -> None:
        for own, other, K in _tiles(kernel, A, A, t, (t + 1) * TILE):
            # Σ_a w_a Σ_b k(a, b) w_b for all groups at once
            found = np.einsum("ag,ag->g", groups[own], K @ groups[other])
            rows[own] += K.sum(axis=1)
            if own == other:
                rows[own] -= K.diagonal()
                inside[t] += found - K.diagonal() @ groups[own]
            else:
                columns[t, other] = K.sum(axis=0)
                inside[t] += 2.0 * found

    _for_each_row_of_tiles(len(starts), work)
    return inside.sum(axis=0), rows + columns.sum(axis=0)


def _tiles(
    kernel: Kernel, A: Array, B: Array, t: int, end: int
) -> Iterator[tuple[slice, slice, Array]]:
    """Tiles of one row of tiles up to column `end`, each valid until the next."""
    pool = BufferPool()
    own = slice(t * TILE, min((t + 1) * TILE, len(A)))
    end = min(end, len(B))
    for start in range(0, end, TILE):
        other = slice(start, min(start + TILE, end))
        yield own, other, kernel.values(A[own], B[other], pool.empty)
        pool.recycle()


def _for_each_row_of_tiles(count: int, work: Callable[[int], None]) -> None:
    def through(which: slice, _: Empty) -> None:
        for t in range(which.start, which.stop):
            work(t)

    # A row as long as a panel makes each of them a piece of work.
    for_each_panel(count, PANEL_BYTES // 8, through)
