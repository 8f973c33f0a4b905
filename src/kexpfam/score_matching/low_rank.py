"""Low-rank score matching: T in the span of a few kernel functions.

Equation numbers are those of docs/theory.md. With basis functions φ = (K(c, ·),
∂_jK(c, ·), ∂_j²K(c, ·)) at m centres c and T = αᵀφ, the penalised objective (2) becomes

    (C + λR) α = −b,                                                                (16)
    C = Σ_a w_a Σ_i g_ai ∂_iφ ∂_iφᵀ,   b = Σ_a w_a Σ_i (g_ai ∂_i²φ + drift_ai ∂_iφ),

at the rows a, and R = ⟨φ, φᵀ⟩ in the RKHS. C and b are sums over rows: statistics of
parts of the data are added, and those of a held-out part are subtracted.

Rows come in panels of about a thousand: tall enough for a rank-k update of C at full
speed, and few enough that a feature matrix of all rows never exists. Only the lower
triangle of C is summed; `finished` mirrors it.

For a product of two Gaussian kernels, which is what most fits use, a panel is filled by
hand. In units of the lengthscales, with rows a = (x, y) and centres c,

    √w K = exp(a·c − ½‖a‖² − ½‖c‖² + ½ log w)

is one matrix product and one exponential, ∂_iφ is −(a_i − c_i)K / ℓ_i, and ∂_i²φ enters
b only through the moments Σ_a w K, Σ_a w a_i K, Σ_a w a_i² K of the rows. This is done
for a few rows at a time, which stay in the cache from the first product to the last.
"""

import functools
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from scipy.linalg import blas, lapack

from kexpfam._linalg import BufferPool, Empty
from kexpfam._parallel import on_threads, thread_count
from kexpfam._typing import Array, Indices
from kexpfam.errors import IllConditionedError
from kexpfam.kernels import Constant, Gaussian, JointKernel, Pairs, SumOfProducts
from kexpfam.score_matching.expansion import KernelExpansion, ScoreSample

# Added to the diagonal of R, relative to its mean: neighbouring centres make R singular
# to rounding, and directions that small carry nothing that could be learned.
RELATIVE_JITTER = 1e-9


@dataclass(frozen=True)
class Basis:
    """Kernel functions K(c, ·), ∂_jK(c, ·) and ∂_j²K(c, ·) at m centres."""

    kernel: JointKernel  # The joint kernel K
    X: Array  # Conditions of the centres, (m, p)
    Y: Array  # Responses of the centres, (m, d)
    derivatives: int = 1  # Highest order in the basis, 0, 1 or 2

    def __post_init__(self) -> None:
        if self.derivatives not in (0, 1, 2):
            raise ValueError(
                f"derivatives must be 0, 1 or 2, the highest order in the basis, got "
                f"{self.derivatives!r}."
            )

    @property
    def orders(self) -> list[tuple[int, int]]:
        """Order and column of the derivative of each group of m functions."""
        columns = range(self.Y.shape[1])
        return [
            (0, 0),
            *((r, j) for r in range(1, int(self.derivatives) + 1) for j in columns),
        ]

    @property
    def size(self) -> int:
        """Number of functions, M."""
        return len(self.Y) * len(self.orders)

    def gram(self) -> Array:
        """R = ⟨φ, φᵀ⟩, (M, M), with a jitter on its diagonal."""
        R = self.exact_gram()
        R[np.diag_indices_from(R)] += RELATIVE_JITTER * np.trace(R) / len(R)
        return R

    def exact_gram(self) -> Array:
        """R = ⟨φ, φᵀ⟩, (M, M), as it is: perhaps singular to rounding."""
        pairs = self.kernel.at(self.X, self.Y, self.X, self.Y)
        rows = [
            [pairs.partial(r, i, s, j) for s, j in self.orders] for r, i in self.orders
        ]
        return np.block(rows)

    def pairs(self, X: Array, Y: Array, empty: Empty = np.empty) -> Pairs:
        """All pairs of rows and centres, with temporaries from `empty`."""
        return self.kernel.at(X, Y, self.X, self.Y, empty)

    def features(self, pairs: Pairs, order: int, i: int) -> Array:
        """∂_iʳφ at the rows of pairs, (n, M)."""
        parts = [pairs.partial(order, i, s, j) for s, j in self.orders]
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)

    def expansion(self, alpha: Array, n_jobs: int | None = None) -> KernelExpansion:
        """T = αᵀφ."""
        groups = alpha.reshape(len(self.orders), len(self.Y))
        d = self.Y.shape[1]
        return KernelExpansion(
            kernel=self.kernel,
            X=self.X,
            Y=self.Y,
            first=groups[1 : 1 + d].T.copy() if self.derivatives >= 1 else None,
            second=groups[1 + d :].T.copy() if self.derivatives >= 2 else None,
            zeroth=groups[0].copy(),
            n_jobs=n_jobs,
        )


@dataclass(frozen=True)
class Statistics:
    """C and b of (16), summed over rows with weights that need not sum to one."""

    C: Array  # (M, M)
    b: Array  # (M,), or (M, q) for q base densities at once
    weight: float  # Sum of the row weights

    def __add__(self, other: Self) -> "Statistics":
        return Statistics(
            self.C + other.C, self.b + other.b, self.weight + other.weight
        )

    def __sub__(self, other: Self) -> "Statistics":
        return Statistics(
            self.C - other.C, self.b - other.b, self.weight - other.weight
        )

    def __mul__(self, factor: float) -> "Statistics":
        return Statistics(self.C * factor, self.b * factor, self.weight * factor)

    def of_functions(self, functions: Indices) -> "Statistics":
        """Statistics of some of the basis functions."""
        C = self.C[np.ix_(functions, functions)]
        return Statistics(C, self.b[functions], self.weight)

    def solve(self, R: Array, lam: float) -> Array:
        """α of (16), with the shape of b.

        Raises:
            IllConditionedError: λ is too small for double precision.
        """
        system = lam * R
        system += self.C / self.weight
        factor, failed = lapack.dpotrf(system.T, lower=0, overwrite_a=1, clean=0)
        if failed:
            raise IllConditionedError(
                f"The low-rank system cannot be factorised with regularization "
                f"{lam:.3g}; raise it, or use fewer components."
            )
        alpha, _ = lapack.dpotrs(factor, self.b / -self.weight, lower=0)
        return alpha


# Rows of a rank-k update, and how many bytes of features stay in the cache meanwhile;
# measured best from 500 to 2000 rows, and from 32 to 64 rows of a thousand numbers.
ROW_BLOCK = 1024
_CACHED_BYTES = 2**19

# Centres farther out than this, in lengthscales, cost more digits of the exponent than
# the jitter of the Gram matrix does.
_FARTHEST_CENTER = 300.0

# Rows farther out than this are put here, where all kernels have vanished, so that
# their squares stay finite.
_FARTHEST_ROW = 1e8


class Summation:
    """Adds rows to the statistics of a basis.

    Args:
        basis: The kernel functions.
    """

    def __init__(self, basis: Basis) -> None:
        self.basis = basis
        self._fast = _GaussianRowBlocks.of(basis)

    def start(self) -> Statistics:
        """Statistics of no rows."""
        size = self.basis.size
        return Statistics(np.zeros((size, size), order="F"), np.zeros(size), 0.0)

    def add(
        self,
        sums: Statistics,  # From `start`, or from here
        sample: ScoreSample,  # Rows; their weights are taken as they are
    ) -> Statistics:
        """Sums with more rows, whose arrays are written to."""
        pool = BufferPool()
        for panel in _panels(sample):
            if self._fast is not None:
                self._fast.add(sums, panel, pool)
            else:
                self._add_general(sums, panel, pool)
            pool.recycle()
        return replace(sums, weight=sums.weight + float(sample.weights.sum()))

    @staticmethod
    def combine(first: Statistics, second: Statistics) -> Statistics:
        """Sums over the rows of both; the arrays of the first are written to."""
        first.C[...] += second.C
        first.b[...] += second.b
        return replace(first, weight=first.weight + second.weight)

    @staticmethod
    def finished(sums: Statistics) -> Statistics:
        """The same with both triangles of C, on which one can calculate."""
        C = np.tril(sums.C)
        C += np.tril(C, -1).T
        return replace(sums, C=C)

    def _add_general(
        self, sums: Statistics, sample: ScoreSample, pool: BufferPool
    ) -> None:
        basis = self.basis
        pairs = basis.kernel.at(sample.X, sample.Y, basis.X, basis.Y, pool.empty)
        for i in range(sample.Y.shape[1]):
            gsm_weights = sample.weights * sample.gsm_weights[:, i]
            sums.b[...] += gsm_weights @ basis.features(pairs, 2, i)
            F = basis.features(pairs, 1, i)
            sums.b[...] += (sample.weights * sample.gsm_linear[:, i]) @ F
            F *= np.sqrt(gsm_weights)[:, None]
            _add_products(sums.C, F)


@dataclass(frozen=True)
class _GaussianRowBlocks:
    """Centres of a product of two Gaussian kernels, ready for panels of rows."""

    origin: Array  # What is subtracted from all (x, y), (q,)
    lengths: Array  # What they are divided by, (q,); infinite if k_X is constant
    right: Array  # Second factor of the exponent, (q + 2, m)
    centers: tuple[Array, ...]  # Responses of the centres in these units, d of (m,)

    @classmethod
    def of(cls, basis: Basis) -> "_GaussianRowBlocks | None":
        """None if the basis is not plain, or not of one product of Gaussians."""
        kernel = basis.kernel
        if basis.derivatives or not isinstance(kernel, SumOfProducts):
            return None
        kernel_x, kernel_y = kernel.terms[0]
        if len(kernel.terms) > 1 or not isinstance(kernel_y, Gaussian):
            return None
        if not isinstance(kernel_x, Gaussian | Constant):
            return None
        factor = kernel_x.value if isinstance(kernel_x, Constant) else 1.0
        lengths = np.concatenate(
            [_lengths(kernel_x, basis.X), _lengths(kernel_y, basis.Y)]
        )
        points = np.concatenate([basis.X, basis.Y], axis=1)
        origin = points.mean(axis=0)
        centers = (points - origin) / lengths
        if np.abs(centers).max(initial=0.0) > _FARTHEST_CENTER:
            return None
        right = np.ones((centers.shape[1] + 2, len(centers)))
        right[:-2] = centers.T
        right[-1] = -0.5 * np.einsum("ci,ci->c", centers, centers)
        right[-1] += np.log(factor)
        p = basis.X.shape[1]
        columns = tuple(column.copy() for column in centers.T[p:])
        return cls(origin, lengths, right, columns)

    def add(self, sums: Statistics, sample: ScoreSample, pool: BufferPool) -> None:
        n, m, d = len(sample.Y), self.right.shape[1], len(self.centers)
        left = self._left(sample)
        own = left[:, -2 - d : -2]
        moments = self._moment_weights(sample, own)
        found = np.zeros((len(moments), m))
        F = [pool.empty((n, m)) for _ in range(d)]
        height = max(1, _CACHED_BYTES // (8 * m))
        K = pool.empty((min(height, n), m))
        for start in range(0, n, height):
            rows = slice(start, min(start + height, n))
            values = K[: rows.stop - start]
            np.matmul(left[rows], self.right, out=values)
            np.exp(values, out=values)
            found += moments[:, rows] @ values
            for i in range(d):
                # In place, which is twice as fast as a broadcast difference.
                np.copyto(F[i][rows], own[rows, i, None])
                F[i][rows] -= self.centers[i]
                F[i][rows] *= values
        for i in range(d):
            if not np.all(sample.gsm_weights[:, i] == 1.0):
                F[i] *= np.sqrt(sample.gsm_weights[:, i])[:, None]
            ell = float(self.lengths[i - d])
            _add_products(sums.C, F[i], 1.0 / ell**2)
            sums.b[...] += self._linear_part(found[5 * i : 5 * i + 5], i, ell)

    def _left(self, sample: ScoreSample) -> Array:
        """First factor of the exponent, with the root of the weight, (n, q + 2)."""
        p, q = sample.X.shape[1], len(self.lengths)
        left = np.ones((len(sample.Y), q + 2))
        points = left[:, :q]
        points[:, :p], points[:, p:] = sample.X, sample.Y
        points -= self.origin
        points /= self.lengths
        np.clip(points, -_FARTHEST_ROW, _FARTHEST_ROW, out=points)
        # A weight of zero must leave a number; its square is too small to count.
        left[:, q] = 0.5 * np.log(np.maximum(sample.weights, np.finfo(float).tiny))
        left[:, q] -= 0.5 * np.einsum("ai,ai->a", points, points)
        return left

    def _moment_weights(self, sample: ScoreSample, own: Array) -> Array:
        """Weights of the rows in five moments for each column of y, (5d, n)."""
        root = np.sqrt(sample.weights)  # the other root is in K
        rows = []
        for i in range(own.shape[1]):
            gsm_weights, gsm_linear = (
                root * sample.gsm_weights[:, i],
                root * sample.gsm_linear[:, i],
            )
            y = own[:, i]
            rows += [
                gsm_weights,
                gsm_weights * y,
                gsm_weights * y**2,
                gsm_linear,
                gsm_linear * y,
            ]
        return np.stack(rows)

    def _linear_part(self, moments: Array, i: int, ell: float) -> Array:
        """Σ_a w (g ∂_i²φ + gsm_linear ∂_iφ) from moments of (a_i − c_i), (m,)."""
        c = self.centers[i]
        zeroth, first, second, gsm_linear, drift_first = moments
        squares = second - 2.0 * c * first + c**2 * zeroth
        return (squares - zeroth) / ell**2 - (drift_first - c * gsm_linear) / ell


def _lengths(kernel: Gaussian | Constant, points: Array) -> Array:
    """Lengthscale of each column; infinity for a constant kernel."""
    ell = np.inf if isinstance(kernel, Constant) else kernel.lengthscale
    lengths: Array = np.broadcast_to(
        np.asarray(ell, dtype=np.float64), points.shape[1:]
    )
    return lengths


def _add_products(C: Array, F: Array, factor: float = 1.0) -> None:
    """Add factor · FᵀF to the lower triangle of C, in place."""
    # The transpose of a C-contiguous F is what Fortran wants; nothing is copied.
    updated = blas.dsyrk(factor, F.T, beta=1.0, c=C, lower=1, overwrite_c=1)
    if updated is not C and not np.shares_memory(updated, C):
        C[...] = updated


def _panels(sample: ScoreSample) -> Iterator[ScoreSample]:
    n = len(sample.Y)
    if n <= ROW_BLOCK:
        yield sample
        return
    for start in range(0, n, ROW_BLOCK):
        yield sample.part(slice(start, start + ROW_BLOCK))


def statistics(
    basis: Basis,  # The kernel functions
    sample: ScoreSample,  # The rows
    *,
    n_jobs: int | None = 1,  # Threads; None for all cores
) -> Statistics:
    """C and b of (16) over the rows of a sample."""
    summation, n = Summation(basis), len(sample.Y)
    threads = max(1, min(thread_count(n_jobs), -(-n // ROW_BLOCK)))
    edges = np.linspace(0, n, threads + 1).astype(int)
    parts = [
        sample.part(slice(int(start), int(stop)))
        for start, stop in itertools.pairwise(edges)
    ]

    # Two rank-k updates at once are faster than one shared by two threads of BLAS.
    sums = on_threads(
        lambda part: summation.add(summation.start(), part), parts, n_jobs
    )
    return summation.finished(functools.reduce(summation.combine, sums))


def fit_low_rank(
    basis: Basis, sample: ScoreSample, lam: float, *, n_jobs: int | None = None
) -> KernelExpansion:
    """Minimise the penalised score-matching objective over the span of a basis."""
    alpha = statistics(basis, sample, n_jobs=n_jobs).solve(basis.gram(), lam)
    return basis.expansion(alpha, n_jobs)
