"""The penalised likelihood of more rows than Hessians need, or than fit into memory.

Value and gradient of (17) are sums over all rows, which blocks of them add to:

    Σ_a w_a φ(x_a, u_a)  once,  Σ_a w_a log Z_α(x_a)  and  Σ_a w_a E_a[φ]  for each α.

The Hessian is the mean of a covariance, which some thousand rows tell to a few per
cent. With theirs in its place, a step of Newton's method is one pass over all rows, and
leaves as many per cent of the distance to the optimum, which is that of all rows: what
the Hessian is taken from decides how fast it is found, and not where it is (Jordan, Lee
and Yang 2019, "Communication-efficient distributed statistical inference").
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from kexpfam._parallel import cached_property, on_threads, single_threaded_blas
from kexpfam._typing import Array
from kexpfam.likelihood.objective import NodeMatrices, RowSums
from kexpfam.score_matching import Basis

# Rows at a time: T on some hundred nodes stays in the caches.
ROW_BLOCK = 1024


@dataclass(frozen=True, eq=False)
class SumsInMemory(RowSums):
    """Sums over rows that are in memory; T on nodes exists for a block at a time."""

    basis: Basis
    X: Array  # Conditions, (n, p)
    U: Array  # Responses, (n, 1)
    weights: Array  # (n,)
    n_jobs: int | None = None  # Threads; None for all cores

    @cached_property
    def observed(self) -> Array:
        return observed_sums(self.basis, self.X, self.U, self.weights)

    def expected(self, parts: NodeMatrices, alpha: Array) -> Array:
        if not len(self.X):
            return np.zeros(1 + self.basis.size)

        def add(rows: slice) -> Array:
            X, weights = self.X[rows], self.weights[rows]
            return expected_sums(self.basis, parts, X, weights, alpha)

        # As many blocks whatever the number of threads, so that sums are the same.
        slices = list(row_blocks(len(self.X), 8 * ROW_BLOCK))
        return np.sum(on_threads(add, slices, self.n_jobs), axis=0)


def observed_sums(basis: Basis, X: Array, U: Array, weights: Array) -> Array:
    """`RowSums.observed` of rows in memory."""
    total = np.zeros(1 + basis.size)
    total[0] = weights.sum()
    with single_threaded_blas():
        for rows in row_blocks(len(X)):
            features = basis.features(basis.pairs(X[rows], U[rows]), 0, 0)
            total[1:] += weights[rows] @ features
    return total


def expected_sums(
    basis: Basis, parts: NodeMatrices, X: Array, weights: Array, alpha: Array
) -> Array:
    """`RowSums.expected` of rows in memory; conditions of the parts do not matter."""
    if basis.kernel.constant_in_x:  # all conditions are one
        X, weights = X[:1], weights.sum(keepdims=True)
    total = np.zeros(1 + basis.size)
    with single_threaded_blas():
        for rows in row_blocks(len(X)):
            here = parts.with_conditions(basis, X[rows])
            P, log_z = here.probabilities(here.on_nodes(alpha))
            P *= weights[rows, None]
            total[0] += weights[rows] @ log_z
            total[1:] += here.total(P)
    return total


def row_blocks(n: int, size: int = ROW_BLOCK) -> Iterator[slice]:
    """Slices of so many rows."""
    return (slice(start, min(start + size, n)) for start in range(0, n, size))
