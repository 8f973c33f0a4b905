"""The exact estimator without each fold for every λ, from one eigendecomposition.

Equation numbers are those of docs/theory.md. The system (5) of the exact fit depends on
λ only through its ridge: with S G S = Q E Qᵀ and ρ = λ/δ,

    M = (S G S + ρI)⁻¹ = Q (E + ρ)⁻¹ Qᵀ.

The fit without the rows V of a fold needs (S G S + ρI)⁻¹ on the other rows U only. That
inverse is a correction of M by the block of V: with s = M r and r zero on V,

    γ = M (r − [M_VV⁻¹ s_V on V, 0 on U]),   zero on V.                             (20)

Convention: the penalty is held fixed. The fit without V minimises the sum over U of the
*same* terms w_a(…), with weights that sum to one over all rows, plus λ/2 ‖T‖². For
equal weights that is Λ = nλ held fixed; as a fit to U alone, whose weights are scaled
up to sum to one, it has the regulariser λ/(1 − w_V). The low-rank objectives differ:
there each fold is fitted with λ itself.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import linalg

from kexpfam._typing import Array
from kexpfam.family import HeldOutProblem
from kexpfam.kernels import JointKernel
from kexpfam.score_matching import Basis


@dataclass(frozen=True)
class ExactPath:
    """The exact estimator of one kernel for every λ, with each fold held out.

    Pairs (row a, column i) of y are numbered a·d + i. Memory is three matrices of the
    size of the exact system.
    """

    kernel: JointKernel
    problem: HeldOutProblem  # Rows and folds; every row is a centre
    S: Array  # √(w g/δ) of (5), (nd,)
    delta: float  # δ = max w g
    eigenvalues: Array  # E, (nd,)
    Q: Array  # Eigenvectors, (nd, nd)
    h: Array  # ∂ξ̂ at all rows, the share of each fold, (nd, f)

    @classmethod
    def of(cls, kernel: JointKernel, problem: HeldOutProblem) -> "ExactPath":
        """Assemble and decompose the system: about ten Cholesky factorisations."""
        sample = problem.sample
        n, d = sample.Y.shape
        D = problem.mean_weights[:, None] * sample.gsm_weights
        linear = problem.mean_weights[:, None] * sample.gsm_linear
        pairs = kernel.at(sample.X, sample.Y, sample.X, sample.Y)
        G, h = np.empty((n, d, n, d)), np.zeros((n, d, len(problem.folds)))
        for i, j in itertools.product(range(d), repeat=2):
            G[:, i, :, j] = pairs.partial(1, i, 1, j)
            third = pairs.partial(1, i, 2, j)
            # (7), split by the fold that the sum runs over
            for k, fold in enumerate(problem.folds):
                h[:, i, k] += third[:, fold] @ D[fold, j]
                h[:, i, k] += G[:, i, fold, j] @ linear[fold, j]
        delta = float(D.max())
        S, flat = np.sqrt(D / delta).ravel(), G.reshape(n * d, n * d)
        # The usual routine gives up on some matrices whose entries underflow.
        eigenvalues, Q = linalg.eigh(
            S[:, None] * flat * S, overwrite_a=True, check_finite=False, driver="evd"
        )
        eigenvalues = np.maximum(eigenvalues, 0.0)
        return cls(kernel, problem, S, delta, eigenvalues, Q, h.reshape(n * d, -1))

    @property
    def basis(self) -> Basis:
        """Functions whose span holds the exact solution: K, ∂K and ∂²K at all rows."""
        sample = self.problem.sample
        return Basis(self.kernel, sample.X, sample.Y, derivatives=2)

    def without_folds(self, lams: Sequence[float]) -> Iterator[Array]:
        """Coefficients of the basis without each fold, for each λ, (M, l)."""
        sample, weights = self.problem.sample, self.problem.mean_weights[:, None]
        betas = [self.held_out_beta(lam) for lam in lams]
        n, d = sample.Y.shape
        for k, fold in enumerate(self.problem.folds):
            alphas = np.zeros((1 + 2 * d, n, len(lams)))
            for j, (lam, beta) in enumerate(zip(lams, betas, strict=True)):
                # (3), (4): −ξ̂/λ puts −w (g′ + g ∂log q0)/λ on ∂_i and −w g/λ on ∂_i²
                first = beta[:, k].reshape(n, d) - weights * sample.gsm_linear / lam
                alphas[1 : 1 + d, :, j] = first.T
                alphas[1 + d :, :, j] = (-weights * sample.gsm_weights / lam).T
            alphas[:, fold] = 0.0
            yield alphas.reshape(-1, len(lams))

    def held_out_beta(self, lam: float) -> Array:
        """β of (3) for the fit without each fold, zero on that fold, (nd, f)."""
        rest = self.h.sum(axis=1, keepdims=True) - self.h
        rhs = self.S[:, None] * rest / lam
        d = self.problem.sample.Y.shape[1]
        folds = [slice(fold.start * d, fold.stop * d) for fold in self.problem.folds]
        for k, fold in enumerate(folds):
            rhs[fold, k] = 0.0
        ridged = (self.eigenvalues + lam / self.delta)[:, None]
        s = self.Q @ ((self.Q.T @ rhs) / ridged)
        for k, fold in enumerate(folds):
            # (20): the block of M that belongs to the fold
            M_VV = (self.Q[fold] / ridged.T) @ self.Q[fold].T
            rhs[fold, k] = -linalg.solve(M_VV, s[fold, k], assume_a="pos")
        beta = self.S[:, None] * (self.Q @ ((self.Q.T @ rhs) / ridged))
        for k, fold in enumerate(folds):
            beta[fold, k] = 0.0
        return beta
