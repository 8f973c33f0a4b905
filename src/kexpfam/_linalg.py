"""Cholesky with a diagnosis, conjugate gradients, and row blocks on all cores.

Two facts decide the speed of an exact fit. LAPACK's Cholesky is the bound, so it runs
in place and once. And everything that fills the matrix is memory traffic, so it is
done in *row blocks*, small enough for the caches, shared out among threads.
Temporaries of a block live in buffers that the next block uses again, which was
measured faster than fresh ones (docs/decisions/0001-how-the-system-is-assembled.md).
"""

import math
import threading
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.linalg import lapack

from kexpfam._parallel import (
    blas_on_all_cores,
    on_threads,
    single_threaded_blas,
    thread_count,
)
from kexpfam._typing import Array
from kexpfam.errors import ConditioningWarning, IllConditionedError

# Size of one temporary of a row block: with smaller ones two threads were slower than
# one; measured best from 2 to 4 MiB on two cores with 2 MiB of second-level cache each.
BLOCK_BYTES = 2 * 1024 * 1024

# Where temporaries come from: np.empty, or the buffers of a pool.
Empty = Callable[[tuple[int, int]], Array]

# A linear map of vectors, (M,) -> (M,).
LinearMap = Callable[[Array], Array]

# Smallest ridge, relative to the matrix: a few times the rounding error of Cholesky.
RIDGE_FLOOR = 16 * float(np.finfo(np.float64).eps)


def block_height(row_length: int, block_bytes: int = BLOCK_BYTES) -> int:
    """Rows of a block whose rows hold `row_length` numbers each."""
    return max(1, block_bytes // (8 * max(1, row_length)))


class BufferPool(threading.local):
    """Memory for the temporaries of each thread, handed out again after `recycle`."""

    def __init__(self) -> None:
        """Start without any memory."""
        self._slabs: list[Array] = []
        self._slab = 0  # which slab is being handed out, and how much of it is used
        self._used = 0

    def empty(self, shape: tuple[int, int]) -> Array:
        """An array with undefined entries, valid until `recycle`."""
        size = shape[0] * shape[1]
        while (
            self._slab < len(self._slabs)
            and self._slabs[self._slab].size < self._used + size
        ):
            self._slab, self._used = self._slab + 1, 0
        if self._slab == len(self._slabs):
            # So many temporaries a block usually needs; and NumPy asks for huge pages
            # from 4 MiB on, meant to make first use cheap.
            self._slabs.append(np.empty(max(8 * size, 2**19)))
        start = self._used
        self._used += size
        return self._slabs[self._slab][start : start + size].reshape(shape)

    def recycle(self) -> None:
        """Declare every array handed out so far unused."""
        self._slab, self._used = 0, 0


def for_each_row_block(
    n_rows: int,  # How many rows there are
    row_length: int,  # Numbers in one row of a temporary, which sets the block height
    # Writes its own rows of the results and nothing else; gets its temporaries from
    # `empty(shape)`, which are valid until it returns
    work: Callable[[slice, Empty], None],
    *,
    n_jobs: int | None = None,  # Number of threads; None for all cores
    block_bytes: int = BLOCK_BYTES,  # Size of one temporary of a block
) -> None:
    """Call `work(rows, empty)` for every row block, on all cores.

    Blocks are handed out from the last row to the first, so that a lower triangle,
    whose last rows are the longest, is shared out evenly.
    """
    threads = thread_count(n_jobs)
    count = -(-n_rows // block_height(row_length, block_bytes))
    if count > 1:
        count = -(-count // threads) * threads  # as many for each thread
    height = -(-n_rows // max(count, 1))
    blocks = [
        slice(start, min(start + height, n_rows))
        for start in range(0, n_rows, max(height, 1))
    ]
    pool = BufferPool()

    def buffered(block: slice) -> None:
        work(block, pool.empty)
        pool.recycle()

    # The products inside a block are too small to share among BLAS threads.
    with single_threaded_blas():
        on_threads(buffered, reversed(blocks), threads)


@dataclass(frozen=True)
class CholeskyFactor:
    """Cholesky factor of a symmetric positive definite matrix A + ridge·I."""

    upper: Array  # Rᵀ R = A + ridge·I, R in the upper triangle; the rest is not defined
    ridge: float  # What was added to the diagonal
    rcond: float  # Lower bound of 1/condition number, ridge / (tr A + ridge)

    def solve(self, rhs: Array) -> Array:
        """Solution z of (A + ridge·I) z = rhs for one or several right-hand sides."""
        solution, info = lapack.dpotrs(self.upper, rhs, lower=0)
        assert info == 0
        return solution


def ridge_cholesky(
    matrix: Array,  # A, C-contiguous, its lower triangle filled; destroyed
    ridge: float,  # What to add to the diagonal, positive
    *,
    remedy: str,  # What the user can do about a bad condition; it ends the message
) -> CholeskyFactor:
    """Factorise A + ridge·I in place, for a positive semidefinite A.

    Rounding makes the smallest eigenvalues of A about ±eps·‖A‖ instead of zero, so a
    ridge below that is raised to it, with a warning, instead of failing or, worse,
    returning digits of noise.

    Raises:
        IllConditionedError: A has entries that are not finite, or is not positive
            semidefinite (the kernel is not a kernel).
    """
    size = len(matrix)
    # The trace bounds the largest eigenvalue, and for kernel matrices it is close.
    norm = float(np.trace(matrix)) + ridge
    if not math.isfinite(norm):
        raise IllConditionedError(
            f"The {size}x{size} system has entries that are not finite; {remedy}."
        )
    floor = RIDGE_FLOOR * norm
    used = max(ridge, floor)
    matrix.flat[:: size + 1] += used
    # The transpose of a C-contiguous array is Fortran-contiguous, lower becomes upper.
    # On a busy machine BLAS threads wait for each other longer than a small
    # factorisation takes; one of this size takes 50 ms.
    with blas_on_all_cores() if size > 1500 else single_threaded_blas():
        factor, info = lapack.dpotrf(matrix.T, lower=0, overwrite_a=1, clean=0)
    if info != 0 or not np.all(np.isfinite(factor.diagonal())):
        raise IllConditionedError(
            f"The {size}x{size} system is not positive definite in double precision, "
            f"although {used:.1e} was added to its diagonal; {remedy}."
        )
    rcond = used / norm
    # Below, fewer than about three digits are trustworthy (eps = 2.2e-16).
    if rcond < 1e-13:
        raised = f"; its ridge {ridge:.1e} was raised to {used:.1e}"
        raised = raised if used > ridge else ""
        warnings.warn(
            f"The {size}x{size} system is nearly singular (reciprocal condition "
            f"number {rcond:.1e}{raised}), so few digits of the fit are reliable; "
            f"{remedy}.",
            ConditioningWarning,
            stacklevel=2,
        )
    return CholeskyFactor(upper=factor, ridge=used, rcond=rcond)


class Iterate(NamedTuple):
    """A step of `conjugate_gradients`."""

    solution: Array  # z, (M,)
    residual: Array  # rhs − A·z, (M,)
    square: float  # residual·P⁻¹·residual


def conjugate_gradients(
    multiply: LinearMap,  # A·v for a symmetric positive definite A
    rhs: Array,  # Right-hand side, (M,)
    precondition: LinearMap,  # P⁻¹·v
    start: Array | None = None,  # The first iterate, (M,); None for zero
) -> Iterator[Iterate]:
    """Iterates of A·z = rhs, the start first; whoever asks decides when to stop.

    Ends by itself only where rounding leaves no direction to go in.

    Example:
        >>> import itertools
        >>> A, one = np.diag([1.0, 2.0]), np.ones(2)
        >>> path = conjugate_gradients(lambda v: A @ v, one, lambda v: v)
        >>> *_, last = itertools.islice(path, 3)
        >>> last.solution.round(12)
        array([1. , 0.5])
    """
    z = np.zeros_like(rhs) if start is None else start
    residual = rhs - multiply(z) if np.any(z) else rhs
    direction = step = precondition(residual)
    square = float(residual @ step)
    yield Iterate(z, residual, square)
    while True:
        image = multiply(direction)
        curvature = float(direction @ image)
        if not (curvature > 0 and square > 0 and np.isfinite(curvature)):
            return
        z = z + (square / curvature) * direction
        residual = residual - (square / curvature) * image
        step = precondition(residual)
        square, previous = float(residual @ step), square
        yield Iterate(z, residual, square)
        direction = step + (square / previous) * direction
