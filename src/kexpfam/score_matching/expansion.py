"""The function T as a finite sum in the RKHS, and its derivatives in y.

Both the exact minimiser and ξ̂ are expansions over centres (x_b, y_b),

    T(x, y) = Σ_b Σ_i [ a_bi ∂_i + c_bi ∂_i² ] K((x_b, y_b), (x, y)),

where ∂_i acts on y_b. Evaluation is a matrix product wherever the points form a grid:
all conditions x_r crossed with all nodes y_g cost one kernel matrix of x, one of y, and
one product.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kexpfam._typing import Array
from kexpfam.kernels import JointKernel, Kernel, Pairs, SumOfProducts
from kexpfam.linalg import Empty, for_each_panel


@dataclass(frozen=True)
class KernelExpansion:
    """T = Σ_b Σ_i (a_bi ∂_i + c_bi ∂_i²) K((x_b, y_b), ·), theory (3).

    Attributes:
        kernel: The joint kernel K.
        X: Conditions of the centres, (m, p); p may be 0.
        Y: Responses of the centres, (m, d).
        first: Coefficients a of first derivatives, (m, d).
        second: Coefficients c of second derivatives, (m, d).
        n_jobs: Threads used for evaluation; None for all cores.
    """

    kernel: JointKernel
    X: Array
    Y: Array
    first: Array
    second: Array
    n_jobs: int | None = None

    def value(self, X: Array, Y: Array) -> Array:
        """T at the pairs (X_q, Y_q), shape (q,)."""
        return self._evaluate(0, X, Y)[:, 0]

    def gradient(self, X: Array, Y: Array) -> Array:
        """∂_jT at the pairs (X_q, Y_q), shape (q, d)."""
        return self._evaluate(1, X, Y)

    def second_derivative(self, X: Array, Y: Array) -> Array:
        """∂_j²T at the pairs (X_q, Y_q), shape (q, d)."""
        return self._evaluate(2, X, Y)

    def at_conditions(self, X: Array) -> Callable[[Array], Array]:
        """T(x_r, ·) at fixed conditions, as a function of nodes shared by all of them.

        For products k_X·k_Y the kernel matrix of x is computed here, once; each call
        then costs a kernel matrix of y and one matrix product.

        Args:
            X: Conditions, (n, p).

        Returns:
            The function nodes (g, d) -> T(x_r, y_g), shape (n, g).
        """
        if not isinstance(self.kernel, SumOfProducts):
            return functools.partial(self._at_all_pairs, X)
        matrices = [(self._kernel_matrix(kx, X), ky) for kx, ky in self.kernel.terms]

        def on_nodes(nodes: Array) -> Array:
            # T(x_r, y_g) = Σ_t Σ_b k_X(x_r, x_b) [Σ_i (a_bi ∂_i + c_bi ∂_i²) k_Y](y_b, y_g)
            total = np.zeros((len(X), len(nodes)))
            for matrix, ky in matrices:
                total += matrix @ self._node_features(ky, nodes).T
            return total

        return on_nodes

    def squared_norm(self) -> float:
        """‖T‖² in the RKHS, by the reproducing property."""
        # ⟨T, ∂_iʳK_b⟩ = ∂_iʳT(x_b, y_b)
        return float(
            np.sum(self.first * self.gradient(self.X, self.Y))
            + np.sum(self.second * self.second_derivative(self.X, self.Y))
        )

    def _at_all_pairs(self, X: Array, nodes: Array) -> Array:
        grid = np.empty((len(X), len(nodes)))
        for r in range(len(X)):
            grid[r] = self.value(np.repeat(X[r : r + 1], len(nodes), axis=0), nodes)
        return grid

    def _kernel_matrix(self, kx: Kernel, X: Array) -> Array:
        matrix = np.empty((len(X), len(self.X)))

        def work(rows: slice, empty: Empty) -> None:
            matrix[rows] = kx(X[rows], self.X, empty)

        for_each_panel(len(X), len(self.X), work, n_jobs=self.n_jobs)
        return matrix

    def _evaluate(self, order: int, X: Array, Y: Array) -> Array:
        d = self.Y.shape[1]
        out = np.empty((len(Y), d if order else 1))

        def work(rows: slice, empty: Empty) -> None:
            pairs = self.kernel.at(X[rows], Y[rows], self.X, self.Y, empty)
            for j in range(out.shape[1]):
                out[rows, j] = self._contract(pairs, order, j)

        for_each_panel(len(Y), len(self.Y), work, n_jobs=self.n_jobs)
        return out

    def _contract(self, pairs: Pairs, order: int, j: int) -> Array:
        # Σ_b Σ_i a_bi ∂_jʳ∂'_iK(q, b) + c_bi ∂_jʳ∂'_i²K(q, b)
        return sum(
            (
                pairs.partial(order, j, 1, i) @ self.first[:, i]
                + pairs.partial(order, j, 2, i) @ self.second[:, i]
                for i in range(self.Y.shape[1])
            ),
            start=np.zeros(()),
        )

    def _node_features(self, ky: Kernel, nodes: Array) -> Array:
        """Σ_i (a_bi ∂'_i + c_bi ∂'_i²) k_Y(y_g, y_b) before the sum over b, (g, m)."""
        features = np.empty((len(nodes), len(self.Y)))

        def work(rows: slice, empty: Empty) -> None:
            pairs = ky.at(nodes[rows], self.Y, empty=empty)
            panel = features[rows]
            panel[...] = 0.0
            for i in range(self.Y.shape[1]):
                for order, coefficients in ((1, self.first), (2, self.second)):
                    term = pairs.partial(0, 0, order, i)
                    term *= coefficients[:, i]
                    panel += term

        for_each_panel(len(nodes), len(self.Y), work, n_jobs=self.n_jobs)
        return features
