"""Samples as the tests take them, their default kernel, and its sums over pairs.

Kernels act on the values as they are given. The default one therefore has one
lengthscale per column: the column's std times the median distance between rows in units
of these, so that no column counts more because of its units.

The matrix of the pairs is never there as a whole: it is computed tile by tile, a row of
tiles at a time, and of a symmetric one only the tiles up to the diagonal. Rows of tiles
are shared out among threads; each writes sums of its own, which are added in the same
order however many threads there were, so that equal samples have equal sums to the last
bit.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from kexpfam._heuristics import median_distance, median_filler
from kexpfam._linalg import BLOCK_BYTES, BufferPool, Empty, for_each_row_block
from kexpfam._typing import Array
from kexpfam._validation import as_numbers, check_count, mean_and_std
from kexpfam.errors import DegenerateDataError
from kexpfam.kernels import Gaussian, Kernel

# Rows and columns of a tile, which has the size of a row block's temporary.
TILE = 512


def as_samples(*, least: int, **samples: Any) -> list[Array]:
    """Samples, by names of their arguments, as arrays of the same columns, (n, d)."""
    arrays = [_as_sample(name, value, least) for name, value in samples.items()]
    names, columns = list(samples), [_column_names(s) for s in samples.values()]
    for name, array, own in zip(names, arrays, columns, strict=True):
        if array.shape[1] != arrays[0].shape[1]:
            raise ValueError(
                f"{name} has {array.shape[1]} columns, but {names[0]} has "
                f"{arrays[0].shape[1]}; give samples of the same variables."
            )
        if None not in (own, columns[0]) and own != columns[0]:
            raise ValueError(
                f"{name} has the columns {own}, but {names[0]} has {columns[0]}; give "
                f"the same columns in the same order."
            )
    return arrays


def thinned_samples(
    max_rows: int | None, rng: np.random.Generator, *, least: int, **samples: Any
) -> list[Array]:
    """`as_samples`, with at most so many rows of each, drawn at random, in order."""
    if max_rows is not None:
        check_count("max_rows", max_rows, least=least)
    arrays = as_samples(least=least, **samples)
    return [
        array
        if max_rows is None or len(array) <= max_rows
        else array[np.sort(rng.choice(len(array), size=max_rows, replace=False))]
        for array in arrays
    ]


def kernel_for(kernel: Kernel | None, sample: Array) -> Kernel:
    """The kernel that was given, or the default for such a sample.

    Both do not depend on the order of the rows, which a permutation test needs.
    """
    if kernel is not None and not isinstance(kernel, Kernel):
        raise ValueError(
            f"kernel must be a Kernel, such as kexpfam.kernels.Gaussian(1.0), or None, "
            f"got {kernel!r:.80}."
        )
    # The median is that of some rows of the sample, evenly spaced: sorted, these are
    # the same in whatever order the rows come.
    ordered = sample[np.lexsort(sample.T[::-1])]
    ones = np.ones(len(ordered))
    if kernel is not None:
        return kernel.map_lengthscales(median_filler(ordered, ones, 1.0))
    _, std = mean_and_std("The sample", ordered, ones)
    # A constant column has no length of its own, and one is as good as another.
    std = np.where(std > 0, std, 1.0)
    return Gaussian(tuple(median_distance(ordered / std) * std))


def _as_sample(name: str, value: Any, least: int) -> Array:
    array = as_numbers(name, value)
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2 or array.shape[1] == 0:
        raise ValueError(
            f"{name} must have rows and columns, shape (n,) or (n, d), got shape "
            f"{array.shape}."
        )
    if not np.all(np.isfinite(array)):
        raise ValueError(f"{name} contains NaN or infinity; remove these rows.")
    if len(array) < least:
        raise DegenerateDataError(
            f"{name} has {len(array)} rows, and this comparison needs at least {least}."
        )
    return array


def _column_names(sample: Any) -> list[str] | None:
    if not hasattr(sample, "columns"):
        return None
    names = list(sample.columns)
    return names if all(isinstance(name, str) for name in names) else None


class PairSums(NamedTuple):
    """Sums of k(a, b) over the pairs of two samples of m and n rows."""

    rows: Array  # Σ_b k(a, b), (m,)
    columns: Array  # Σ_a k(a, b), (n,)
    squares: float  # Σ k(a, b)² over all pairs


def sums_between(kernel: Kernel, A: Array, B: Array) -> PairSums:
    """Sums over all pairs of a row of A and a row of B."""
    rows, columns, squares = _sums_of_tiles(kernel, A, B, _square_of_tile)
    return PairSums(rows, columns, float(squares))


def sums_within(kernel: Kernel, A: Array) -> PairSums:
    """Sums over all pairs of two different rows of A; its rows equal its columns."""
    rows, columns, squares = _sums_of_tiles(kernel, A, None, _square_of_tile)
    sums = rows + columns
    return PairSums(sums, sums, float(squares))


def sums_of_groups(kernel: Kernel, A: Array, groups: Array) -> tuple[Array, Array]:
    """Sums over the pairs of different rows, inside groups and beside everything.

    Groups are columns of ones for their rows and zeros elsewhere, (n, g).

    Returns:
        Σ_{a≠b} w_a w_b k(a, b) for every column w, (g,), and Σ_{b≠a} k(a, b), (n,).
    """

    def inside(own: slice, other: slice, K: Array) -> Array:
        # Σ_a w_a Σ_b k(a, b) w_b for all groups at once
        return np.einsum("ag,ag->g", groups[own], K @ groups[other])

    rows, columns, found = _sums_of_tiles(kernel, A, None, inside)
    return found, rows + columns


def _square_of_tile(own: slice, other: slice, K: Array) -> Array:
    return np.einsum("ab,ab->", K, K)


def _sums_of_tiles(
    kernel: Kernel,
    A: Array,
    B: Array | None,
    measure: Callable[[slice, slice, Array], Array],
) -> tuple[Array, Array, Array]:
    """Sums over b and over a of k(a, b), and of a measure of the tiles.

    Without B the pairs are those of different rows of A. Tiles beyond the diagonal are
    not computed: their sums over b are those over a of their mirror images, and the
    measure is the same.
    """
    other_rows = A if B is None else B
    count = -(-len(A) // TILE)
    rows, columns = np.zeros(len(A)), np.zeros((count, len(other_rows)))
    found = [np.zeros(())] * count

    def work(t: int) -> None:
        pool = BufferPool()
        own = slice(t * TILE, min((t + 1) * TILE, len(A)))
        end = len(other_rows) if B is not None else own.stop
        for start in range(0, end, TILE):
            other = slice(start, min(start + TILE, end))
            K = kernel.values(A[own], other_rows[other], pool.empty)
            diagonal = B is None and own == other
            if diagonal:
                K = K - np.diag(K.diagonal())
            else:
                columns[t, other] = K.sum(axis=0)
            rows[own] += K.sum(axis=1)
            mirrored = B is None and not diagonal
            found[t] = found[t] + (1.0 + mirrored) * measure(own, other, K)
            pool.recycle()

    def through(which: slice, _: Empty) -> None:
        for t in range(which.start, which.stop):
            work(t)

    # A row as long as a whole block makes each of them a piece of work.
    for_each_row_block(count, BLOCK_BYTES // 8, through)
    return rows, columns.sum(axis=0), np.sum(found, axis=0)
