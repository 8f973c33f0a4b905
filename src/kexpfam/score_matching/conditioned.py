"""T(x, ·) at fixed conditions.

For products k_X·k_Y what depends on the conditions is one kernel matrix per term, which
is computed once. After that, T at nodes shared by all conditions costs a kernel matrix
of y and a matrix product, and T at each condition's own points a kernel matrix of y.
"""

import functools
from dataclasses import dataclass

import numpy as np

from kexpfam._linalg import Empty, for_each_panel
from kexpfam._typing import Array, Indices
from kexpfam.kernels import Kernel, Pairs, SumOfProducts, SumPairs
from kexpfam.score_matching.expansion import KernelExpansion


@dataclass(frozen=True)
class ConditionedExpansion:
    """T at n conditions."""

    T: KernelExpansion  # The function
    X: Array  # The conditions, (n, p)

    def on_nodes(self, nodes: Array) -> Array:
        """T(x_r, y_g) at nodes shared by all conditions, (g, d) -> (n, g)."""
        if not isinstance(self.T.kernel, SumOfProducts):
            shared = np.broadcast_to(nodes, (len(self.X), *nodes.shape))
            return self.value(shared)
        # Σ_t Σ_b k_X(x_r, x_b) [Σ_i (a_bi ∂_i + c_bi ∂_i²) k_Y](y_b, y_g)
        terms = [
            matrix @ self._node_features(ky, nodes).T
            for (_, ky), matrix in zip(self.T.kernel.terms, self._matrices, strict=True)
        ]
        return functools.reduce(np.add, terms)

    def value(self, U: Array) -> Array:
        """T at each condition's own points, (n, q, d) -> (n, q)."""
        return self._evaluate(0, U)[..., 0]

    def gradient(self, U: Array) -> Array:
        """∂_jT at each condition's own points, (n, q, d) -> (n, q, d)."""
        return self._evaluate(1, U)

    @functools.cached_property
    def _matrices(self) -> tuple[Array, ...]:
        """k_X(x_r, x_b) of each term, (n, m)."""
        assert isinstance(self.T.kernel, SumOfProducts)
        return tuple(self._kernel_matrix(kx) for kx, _ in self.T.kernel.terms)

    def _kernel_matrix(self, kx: Kernel) -> Array:
        matrix = np.empty((len(self.X), len(self.T.X)))

        def work(rows: slice, empty: Empty) -> None:
            matrix[rows] = kx.values(self.X[rows], self.T.X, empty)

        for_each_panel(*matrix.shape, work, n_jobs=self.T.n_jobs)
        return matrix

    def _node_features(self, ky: Kernel, nodes: Array) -> Array:
        """Terms of T(·, y_g) without the factor k_X, before the sum over b, (g, m)."""
        T = self.T
        features = np.empty((len(nodes), len(T.Y)))

        def work(rows: slice, empty: Empty) -> None:
            pairs = ky.at(nodes[rows], T.Y, empty=empty)
            panel = features[rows]
            panel[...] = 0.0
            for order, i, coefficients in T.derivatives:
                term = pairs.partial(0, 0, order, i)
                # The kernel itself is kept by the pairs; derivatives are ours.
                out = term if order else empty(term.shape)
                panel += np.multiply(term, coefficients, out=out)

        for_each_panel(*features.shape, work, n_jobs=T.n_jobs)
        return features

    def _evaluate(self, order: int, U: Array) -> Array:
        n, q, d = U.shape
        flat = U.reshape(-1, d)
        out = np.empty((n * q, d if order else 1))

        def work(rows: slice, empty: Empty) -> None:
            # With one point each, rows are conditions and need not be copied.
            one_each = rows if q == 1 else np.arange(rows.start, rows.stop) // q
            pairs = self._pairs(one_each, flat[rows], empty)
            for j in range(out.shape[1]):
                out[rows, j] = self.T.contract(pairs, order, j)

        if isinstance(self.T.kernel, SumOfProducts):
            assert self._matrices  # computed here, before threads ask for it
        for_each_panel(n * q, len(self.T.Y), work, n_jobs=self.T.n_jobs)
        return out.reshape(n, q, out.shape[1])

    def row_parameters(self) -> tuple[Array, ...]:
        """What T needs to know of the conditions, (n, ...) each."""
        return self._matrices if isinstance(self.T.kernel, SumOfProducts) else (self.X,)

    def nearness(self) -> Array:
        """How near each centre's condition is to each condition, (n, m), from 0."""
        if not isinstance(self.T.kernel, SumOfProducts):
            return np.ones((len(self.X), len(self.T.X)))
        return functools.reduce(np.add, map(np.abs, self._matrices))

    def _pairs(self, condition: Indices | slice, points: Array, empty: Empty) -> Pairs:
        conditions = tuple(part[condition] for part in self.row_parameters())
        return pairs_at(self.T, conditions, points, empty)


def pairs_at(
    T: KernelExpansion,  # The function
    conditions: tuple[Array, ...],  # `row_parameters` of each point, (q, ...) each
    points: Array,  # (q, d)
    empty: Empty = np.empty,  # Where temporaries come from
) -> Pairs:
    """T's kernel on the pairs (point, centre)."""
    if not isinstance(T.kernel, SumOfProducts):
        return T.kernel.at(conditions[0], points, T.X, T.Y, empty)
    terms = []
    for (_, ky), matrix in zip(T.kernel.terms, conditions, strict=True):
        terms.append(ky.at(points, T.Y, matrix, empty))
    return SumPairs(tuple(terms)) if len(terms) > 1 else terms[0]
