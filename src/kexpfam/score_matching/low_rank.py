"""Low-rank score matching: T in the span of a few kernel functions.

Equation numbers are those of docs/theory.md. With basis functions φ = (K(c, ·),
∂_jK(c, ·), ∂_j²K(c, ·)) at m centres c and T = αᵀφ, the penalised objective (2) becomes

    (C + λR) α = −b,                                                                (16)
    C = Σ_a w_a Σ_i g_ai ∂_iφ ∂_iφᵀ,   b = Σ_a w_a Σ_i (g_ai ∂_i²φ + drift_ai ∂_iφ),

at the rows a, and R = ⟨φ, φᵀ⟩ in the RKHS. C and b are sums over rows: statistics of
parts of the data are added, and those of a held-out part are subtracted.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.linalg import lapack

from kexpfam._linalg import Empty
from kexpfam._typing import Array, Indices
from kexpfam.errors import IllConditionedError
from kexpfam.kernels import JointKernel, Pairs
from kexpfam.score_matching.expansion import KernelExpansion

# Added to the diagonal of R, relative to its mean: neighbouring centres make R singular
# to rounding, and directions that small carry nothing that could be learned.
RELATIVE_JITTER = 1e-9


@dataclass(frozen=True)
class Basis:
    """Kernel functions K(c, ·), ∂_jK(c, ·) and ∂_j²K(c, ·) at m centres."""

    kernel: JointKernel  # The joint kernel K
    X: Array  # Conditions of the centres, (m, p)
    Y: Array  # Responses of the centres, (m, d)
    # Highest order of the derivatives in the basis, 0, 1 or 2; False and True stand for
    # 0 and 1
    derivatives: int = 1

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
