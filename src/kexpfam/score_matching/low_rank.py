"""Low-rank score matching: T in the span of a few kernel functions.

Equation numbers are those of docs/theory.md. With basis functions φ = (K(c, ·),
∂_jK(c, ·), ∂_j²K(c, ·)) at m centres c and T = αᵀφ, the penalised objective (2) becomes

    (C + λR) α = −b,                                                                (16)
    C = Σ_a w_a Σ_i g_ai ∂_iφ ∂_iφᵀ,   b = Σ_a w_a Σ_i (g_ai ∂_i²φ + l_ai ∂_iφ),

with the weights g and l = g′ + g ∂log q0 of generalised score matching,
at the rows a, and R = ⟨φ, φᵀ⟩ in the RKHS. C and b are sums over rows: statistics of
parts of the data are added, and those of a held-out part are subtracted.

Rows come in blocks of about a thousand: tall enough for a rank-k update of C at full
speed, and few enough that a feature matrix of all rows never exists.

For a product of two Gaussian kernels (`gaussian_products`), in units of the
lengthscales, ∂_iφ is −(a_i − c_i)K / ℓ_i, and ∂_i²φ enters b only through the moments
Σ_a w K, Σ_a w a_i K, Σ_a w a_i² K of the rows.
"""

import functools
import itertools
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from scipy.linalg import lapack

from kexpfam._linalg import BufferPool, Empty
from kexpfam._parallel import on_threads, thread_count
from kexpfam._typing import Array, Indices
from kexpfam.errors import IllConditionedError
from kexpfam.kernels import JointKernel, Pairs
from kexpfam.score_matching.expansion import KernelExpansion, ScoreSample
from kexpfam.score_matching.gaussian_products import GaussianProduct

# Rows of a rank-k update of C; measured best from 500 to 2000.
ROW_BLOCK = 1024

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

    def cholesky(self, R: Array, lam: float) -> Array:
        """Upper Cholesky factor of C/weight + λR, (M, M); below it is not defined.

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
        return factor

    def solve(self, R: Array, lam: float) -> Array:
        """α of (16), with the shape of b; raises what `cholesky` does."""
        return self.solve_factorized(self.cholesky(R, lam))

    def solve_factorized(self, factor: Array) -> Array:
        """α of (16) from a factor of `cholesky`."""
        return lapack.dpotrs(factor, self.b / -self.weight, lower=0)[0]


class Summation:
    """Adds rows to the statistics of a basis."""

    def __init__(self, basis: Basis) -> None:
        self.basis = basis
        self._gaussian = None
        if not basis.derivatives:
            self._gaussian = GaussianProduct.of(basis.kernel, basis.X, basis.Y)

    def start(self) -> Statistics:
        """Statistics of no rows."""
        size = self.basis.size
        return Statistics(np.zeros((size, size)), np.zeros(size), 0.0)

    def add(
        self,
        sums: Statistics,  # From `start`, or from here
        sample: ScoreSample,  # Rows; their weights are taken as they are
    ) -> Statistics:
        """Sums with more rows, whose arrays are written to."""
        pool = BufferPool()
        for start in range(0, len(sample.Y), ROW_BLOCK):
            block = sample.part(slice(start, start + ROW_BLOCK))
            if self._gaussian is not None:
                _add_gaussian(self._gaussian, sums, block, pool.empty)
            else:
                self._add_general(sums, block, pool.empty)
            pool.recycle()
        return replace(sums, weight=sums.weight + float(sample.weights.sum()))

    @staticmethod
    def combine(first: Statistics, second: Statistics) -> Statistics:
        """Sums over the rows of both; the arrays of the first are written to."""
        first.C[...] += second.C
        first.b[...] += second.b
        return replace(first, weight=first.weight + second.weight)

    def _add_general(self, sums: Statistics, sample: ScoreSample, empty: Empty) -> None:
        basis = self.basis
        pairs = basis.pairs(sample.X, sample.Y, empty)
        for i in range(sample.Y.shape[1]):
            gsm_weights = sample.weights * sample.gsm_weights[:, i]
            sums.b[...] += gsm_weights @ basis.features(pairs, 2, i)
            F = basis.features(pairs, 1, i)
            sums.b[...] += (sample.weights * sample.gsm_linear[:, i]) @ F
            F *= np.sqrt(gsm_weights)[:, None]
            _add_products(sums.C, F, empty)


def _add_gaussian(
    product: GaussianProduct, sums: Statistics, sample: ScoreSample, empty: Empty
) -> None:
    n, d, m = *sample.Y.shape, product.right.shape[1]
    left = product.left(sample.X, sample.Y)
    # √w K instead of K. A weight of zero must leave a number; its square is too small
    # to count.
    left[:, -2] += 0.5 * np.log(np.maximum(sample.weights, np.finfo(float).tiny))
    moments = _moment_weights(sample, left[:, -2 - d : -2])
    found = np.zeros((len(moments), m))
    F = [empty((n, m)) for _ in range(d)]
    for rows, K in product.values(left, empty):
        found += moments[:, rows] @ K
        for i in range(d):
            product.differences(left[rows], i, K, F[i][rows])
    for i in range(d):
        if not np.all(sample.gsm_weights[:, i] == 1.0):
            F[i] *= np.sqrt(sample.gsm_weights[:, i])[:, None]
        ell, c = float(product.lengths[i - d]), product.centers[i - d]
        _add_products(sums.C, F[i], empty, 1.0 / ell**2)
        # Σ_a w (g ∂_i²φ + gsm_linear ∂_iφ) from moments of (a_i − c_i)
        zeroth, first, second, linear, linear_first = found[5 * i : 5 * i + 5]
        squares = second - 2.0 * c * first + c**2 * zeroth
        sums.b[...] += (squares - zeroth) / ell**2 - (linear_first - c * linear) / ell


def _moment_weights(sample: ScoreSample, own: Array) -> Array:
    """Weights of the rows in five moments for each column of y, (5d, n)."""
    root = np.sqrt(sample.weights)  # the other root is in K
    rows = []
    for i, y in enumerate(own.T):
        g, linear = root * sample.gsm_weights[:, i], root * sample.gsm_linear[:, i]
        rows += [g, g * y, g * y**2, linear, linear * y]
    return np.stack(rows)


def _add_products(C: Array, F: Array, empty: Empty, factor: float = 1.0) -> None:
    """Add factor · FᵀF to C, in place."""
    # NumPy sees that the two are one, and computes half of the products. SciPy's rank-k
    # update would need no second array, but other threads wait while it runs.
    products = np.matmul(F.T, F, out=empty(C.shape))
    products *= factor
    C += products


def statistics(
    basis: Basis,  # The kernel functions
    sample: ScoreSample,  # The rows
    *,
    n_jobs: int | None = 1,  # Threads; None for all cores
) -> Statistics:
    """C and b of (16) over the rows of a sample."""
    summation, n = Summation(basis), len(sample.Y)
    threads = max(1, min(thread_count(n_jobs), -(-n // ROW_BLOCK)))
    if threads == 1:
        return summation.add(summation.start(), sample)
    edges = np.linspace(0, n, threads + 1).astype(int)
    parts = [
        sample.part(slice(int(start), int(stop)))
        for start, stop in itertools.pairwise(edges)
    ]

    # Two rank-k updates at once are faster than one shared by two threads of BLAS.
    sums = on_threads(
        lambda part: summation.add(summation.start(), part), parts, n_jobs
    )
    return functools.reduce(summation.combine, sums)


def fit_low_rank(
    basis: Basis, sample: ScoreSample, lam: float, *, n_jobs: int | None = None
) -> KernelExpansion:
    """Minimise the penalised score-matching objective over the span of a basis."""
    alpha = statistics(basis, sample, n_jobs=n_jobs).solve(basis.gram(), lam)
    return basis.expansion(alpha, n_jobs)
