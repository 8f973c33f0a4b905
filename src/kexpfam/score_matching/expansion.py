"""The function T as a finite sum in the RKHS, and its derivatives in y.

The exact minimiser, ξ̂ and the low-rank fits are expansions over centres (x_b, y_b),

    T(x, y) = Σ_b [ e_b + Σ_i ( a_bi ∂_i + c_bi ∂_i² ) ] K((x_b, y_b), (x, y)),

where ∂_i acts on y_b. Evaluation at many y for the same x is in `conditioned`.
"""

from dataclasses import dataclass

import numpy as np

from kexpfam._linalg import Empty, for_each_panel
from kexpfam._typing import Array
from kexpfam.kernels import JointKernel, Pairs
from kexpfam.persistence import saved_fit


@saved_fit(
    {
        "X": "m p moderate",
        "Y": "m d moderate",
        "first": "m d",
        "second": "m d",
        "zeroth": "m",
        "n_jobs": "omitted",
    }
)
@dataclass(frozen=True)
class KernelExpansion:
    """T = Σ_b [e_b + Σ_i (a_bi ∂_i + c_bi ∂_i²)] K((x_b, y_b), ·), theory (3).

    Coefficients that are None are zero, and cost nothing.
    """

    kernel: JointKernel  # The joint kernel K
    X: Array  # Conditions of the centres, (m, p); p may be 0
    Y: Array  # Responses of the centres, (m, d)
    first: Array | None = None  # Coefficients a of first derivatives, (m, d), or None
    second: Array | None = None  # Coefficients c of second derivatives, (m, d), or None
    zeroth: Array | None = None  # Coefficients e of the kernel itself, (m,), or None
    n_jobs: int | None = None  # Threads used for evaluation; None for all cores

    def check_saved(self) -> None:
        """Refuse a function without coefficients, or that is not finite."""
        if self.zeroth is None and self.first is None and self.second is None:
            raise ValueError("an array of coefficients is missing")
        # Touched once, so that lengthscales of a wrong length show up here.
        if not np.isfinite(self.value(self.X[:1], self.Y[:1])).all():
            raise ValueError("T is not a finite function")

    @property
    def derivatives(self) -> list[tuple[int, int, Array]]:
        """Order, column and coefficients (m,) of every derivative that occurs."""
        found = [] if self.zeroth is None else [(0, 0, self.zeroth)]
        for i in range(self.Y.shape[1]):
            if self.first is not None:
                found.append((1, i, self.first[:, i]))
            if self.second is not None:
                found.append((2, i, self.second[:, i]))
        return found

    def value(self, X: Array, Y: Array) -> Array:
        """T at the pairs (X_q, Y_q), shape (q,)."""
        return self._evaluate(0, X, Y)[:, 0]

    def gradient(self, X: Array, Y: Array) -> Array:
        """∂_jT at the pairs (X_q, Y_q), shape (q, d)."""
        return self._evaluate(1, X, Y)

    def second_derivative(self, X: Array, Y: Array) -> Array:
        """∂_j²T at the pairs (X_q, Y_q), shape (q, d)."""
        return self._evaluate(2, X, Y)

    def squared_norm(self) -> float:
        """‖T‖² in the RKHS, by the reproducing property."""
        # theory (11): ⟨T, ∂_iʳK_b⟩ = ∂_iʳT(x_b, y_b)
        values = [self._evaluate(order, self.X, self.Y) for order in range(3)]
        return float(sum(c @ values[order][:, i] for order, i, c in self.derivatives))

    def _evaluate(self, order: int, X: Array, Y: Array) -> Array:
        d = self.Y.shape[1]
        out = np.empty((len(Y), d if order else 1))

        def work(rows: slice, empty: Empty) -> None:
            pairs = self.kernel.at(X[rows], Y[rows], self.X, self.Y, empty)
            for j in range(out.shape[1]):
                out[rows, j] = self.contract(pairs, order, j)

        for_each_panel(len(Y), len(self.Y), work, n_jobs=self.n_jobs)
        return out

    def contract(self, pairs: Pairs, order: int, j: int) -> Array:
        """∂_jʳT for the rows of pairs (query, centre): the sum over centres."""
        # Σ_b Σ_i a_bi ∂_jʳ∂'_iK(q, b) + c_bi ∂_jʳ∂'_i²K(q, b), and e_b ∂_jʳK(q, b)
        return sum(
            (pairs.partial(order, j, s, i) @ c for s, i, c in self.derivatives),
            start=np.zeros(()),
        )
