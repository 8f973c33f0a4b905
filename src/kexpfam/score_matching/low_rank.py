"""Low-rank score matching: T in the span of a few kernel functions.

Equation numbers are those of docs/theory.md. With basis functions φ = (K(c, ·),
∂_jK(c, ·)) at m centres c and T = αᵀφ, the penalised objective (2) becomes

    (C + λR) α = −b,                                                                (16)
    C = Σ_a w_a Σ_i g_ai ∂_iφ ∂_iφᵀ,   b = Σ_a w_a Σ_i (g_ai ∂_i²φ + drift_ai ∂_iφ),

at the rows a, and R = ⟨φ, φᵀ⟩ in the RKHS. C and b are sums over rows: statistics of
parts of the data are added, and those of a held-out part are subtracted.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.linalg import lapack

from kexpfam._typing import Array, Indices
from kexpfam.errors import IllConditionedError
from kexpfam.kernels import JointKernel, Pairs
from kexpfam.score_matching.expansion import KernelExpansion

# Added to the diagonal of R, relative to its mean: neighbouring centres make R singular
# to rounding, and directions that small carry nothing that could be learned.
RELATIVE_JITTER = 1e-9


@dataclass(frozen=True)
class Basis:
    """Kernel functions K(c, ·), and their derivatives ∂_jK(c, ·), at m centres.

    Attributes:
        kernel: The joint kernel K.
        X: Conditions of the centres, (m, p).
        Y: Responses of the centres, (m, d).
        derivatives: Whether the derivatives are in the basis.
    """

    kernel: JointKernel
    X: Array
    Y: Array
    derivatives: bool = True

    @property
    def orders(self) -> list[tuple[int, int]]:
        """Order and column of the derivative of each group of m functions."""
        first = [(1, j) for j in range(self.Y.shape[1])] if self.derivatives else []
        return [(0, 0), *first]

    @property
    def size(self) -> int:
        """Number of functions, M."""
        return len(self.Y) * len(self.orders)

    def gram(self) -> Array:
        """R = ⟨φ, φᵀ⟩, (M, M), with a jitter on its diagonal."""
        pairs = self.kernel.at(self.X, self.Y, self.X, self.Y)
        rows = [
            [pairs.partial(r, i, s, j) for s, j in self.orders] for r, i in self.orders
        ]
        R = np.block(rows)
        R[np.diag_indices_from(R)] += RELATIVE_JITTER * np.trace(R) / len(R)
        return R

    def pairs(self, X: Array, Y: Array) -> Pairs:
        """All pairs of rows and centres."""
        return self.kernel.at(X, Y, self.X, self.Y)

    def features(self, pairs: Pairs, order: int, i: int) -> Array:
        """∂_iʳφ at the rows of pairs, (n, M)."""
        parts = [pairs.partial(order, i, s, j) for s, j in self.orders]
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)

    def expansion(self, alpha: Array, n_jobs: int | None = None) -> KernelExpansion:
        """T = αᵀφ."""
        groups = alpha.reshape(len(self.orders), len(self.Y))
        first = groups[1:].T.copy() if self.derivatives else None
        return KernelExpansion(
            kernel=self.kernel,
            X=self.X,
            Y=self.Y,
            first=first,
            zeroth=groups[0].copy(),
            n_jobs=n_jobs,
        )


@dataclass(frozen=True)
class Statistics:
    """C and b of (16), summed over rows with weights that need not sum to one.

    Attributes:
        C: (M, M).
        b: (M,), or (M, q) for q base densities at once.
        weight: Sum of the row weights.
    """

    C: Array
    b: Array
    weight: float

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
