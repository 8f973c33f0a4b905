"""Held-out losses of the exact estimator for every λ, from one eigendecomposition.

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
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import linalg

from kexpfam._typing import Array
from kexpfam.kernels import JointKernel
from kexpfam.score_matching import KernelExpansion
from kexpfam.score_matching.expansion import ConditionedExpansion
from kexpfam.selection.held_out import LOWEST_LOG_DENSITY, log_densities, nodes_inside
from kexpfam.selection.problem import HeldOutProblem


@dataclass(frozen=True)
class ExactPath:
    """The exact estimator of one kernel for every λ, and its losses on held-out folds.

    Pairs (row a, column i) of y are numbered a·d + i. Memory is five matrices of the
    size of the exact system.

    Attributes:
        kernel: Joint kernel.
        problem: Rows and folds; every row is a centre.
        S: √(w g/δ) of (5), (nd,).
        delta: δ = max w g.
        eigenvalues: E, (nd,).
        Q: Eigenvectors, (nd, nd).
        G: ∂∂'K, (nd, nd).
        P: ∂²∂'K, (nd, nd).
        h: ∂ξ̂ at all rows, the share of each fold, (nd, f).
        curvature: ∂²ξ̂ at all rows, likewise.
    """

    kernel: JointKernel
    problem: HeldOutProblem
    S: Array
    delta: float
    eigenvalues: Array
    Q: Array
    G: Array
    P: Array
    h: Array
    curvature: Array

    @classmethod
    def of(cls, kernel: JointKernel, problem: HeldOutProblem) -> "ExactPath":
        """Assemble and decompose the system: about ten Cholesky factorisations."""
        sample = problem.sample
        n, d = sample.Y.shape
        D = problem.mean_weights[:, None] * sample.gsm_weights
        gsm_linear = problem.mean_weights[:, None] * sample.gsm_linear
        pairs = kernel.at(sample.X, sample.Y, sample.X, sample.Y)
        G, P = np.empty((n, d, n, d)), np.empty((n, d, n, d))
        h, curvature = (np.zeros((n, d, len(problem.folds))) for _ in range(2))
        for i, j in itertools.product(range(d), repeat=2):
            G[:, i, :, j] = pairs.partial(1, i, 1, j)
            P[:, i, :, j] = pairs.partial(2, i, 1, j)
            # (7) and its derivative, split by the fold that the sum runs over
            h[:, i] += _by_fold(problem, pairs.partial(1, i, 2, j), D[:, j])
            h[:, i] += _by_fold(problem, G[:, i, :, j], gsm_linear[:, j])
            curvature[:, i] += _by_fold(problem, pairs.partial(2, i, 2, j), D[:, j])
            curvature[:, i] += _by_fold(problem, P[:, i, :, j], gsm_linear[:, j])
        delta = float(D.max())
        S, flat = np.sqrt(D / delta).ravel(), G.reshape(n * d, n * d)
        # The usual routine gives up on some matrices whose entries underflow.
        eigenvalues, Q = linalg.eigh(
            S[:, None] * flat * S, overwrite_a=True, check_finite=False, driver="evd"
        )
        return cls(
            kernel,
            problem,
            S,
            delta,
            np.maximum(eigenvalues, 0.0),
            Q,
            flat,
            P.reshape(n * d, n * d),
            h.reshape(n * d, -1),
            curvature.reshape(n * d, -1),
        )

    def coefficients(self, lam: float) -> Array:
        """β of (3) for the fit to all rows, (n, d)."""
        gamma = self._apply_inverse(lam, self.S * self.h.sum(axis=1) / lam)
        return (self.S * gamma).reshape(self.problem.sample.Y.shape)

    def held_out_coefficients(self, lam: float) -> Array:
        """β of (3) for the fit without each fold, zero on that fold, (nd, f)."""
        rest = self.h.sum(axis=1, keepdims=True) - self.h
        rhs = self.S[:, None] * rest / lam
        blocks = self._blocks()
        for k, block in enumerate(blocks):
            rhs[block, k] = 0.0
        s = self._apply_inverse(lam, rhs)
        shrunk = self.Q / (self.eigenvalues + lam / self.delta)
        for k, block in enumerate(blocks):
            # (20): the block of M that belongs to the fold
            M_VV = shrunk[block] @ self.Q[block].T
            rhs[block, k] = -linalg.solve(M_VV, s[block, k], assume_a="pos")
        beta = self.S[:, None] * self._apply_inverse(lam, rhs)
        for k, block in enumerate(blocks):
            beta[block, k] = 0.0
        return beta

    def held_out_scores(self, lams: Sequence[float]) -> Array:
        """Score of the rows under fits without their fold, for each λ, (l,)."""
        return np.array([self._held_out_score(lam) for lam in lams])

    def held_out_log_densities(
        self, lams: Sequence[float], *, resolution: float | None = None
    ) -> Array:
        """Log density of the rows under fits without their fold, (l, n).

        `resolution` is the length that nodes must resolve; None for the kernel's.
        """
        sample, base = self.problem.sample, self.problem.base
        if sample.Y.shape[1] > 1:
            raise ValueError(
                f"Held-out log densities need one column of y, got "
                f"{sample.Y.shape[1]}; use held_out_scores."
            )
        length = self.kernel.resolution if resolution is None else resolution
        nodes = nodes_inside([base], sample.Y, self.problem.reach, length)
        grid = nodes.points[:, None]
        log_q0 = base.log_density(grid)
        out = np.empty((len(lams), len(sample.Y)))
        for row, lam in zip(out, lams, strict=True):
            beta = self.held_out_coefficients(lam)
            for k, fold in enumerate(self.problem.folds):
                T = self._without_fold(lam, beta[:, k], fold)
                tilted = ConditionedExpansion(T, sample.X[fold]).on_nodes(grid)
                tilted += log_q0
                row[fold], _ = log_densities(nodes, tilted, sample.Y[fold, 0])
        return np.maximum(out, LOWEST_LOG_DENSITY)

    def _held_out_score(self, lam: float) -> float:
        sample = self.problem.sample
        beta = self.held_out_coefficients(lam)
        gradient, curvature = np.empty(len(beta)), np.empty(len(beta))
        for k, block in enumerate(self._blocks()):
            # (3): −∂ξ̂/λ + G β, with ξ̂ over the other folds; the same for ∂²
            rest = self.h[block].sum(axis=1) - self.h[block, k]
            gradient[block] = self.G[block] @ beta[:, k] - rest / lam
            rest = self.curvature[block].sum(axis=1) - self.curvature[block, k]
            curvature[block] = self.P[block] @ beta[:, k] - rest / lam
        return held_out_loss(
            self.problem,
            gradient.reshape(sample.Y.shape),
            curvature.reshape(sample.Y.shape),
        )

    def _without_fold(self, lam: float, beta: Array, fold: slice) -> KernelExpansion:
        sample, weights = self.problem.sample, self.problem.mean_weights[:, None]
        first = beta[:, None] - weights * sample.gsm_linear / lam
        second = -weights * sample.gsm_weights / lam
        keep = np.ones(len(beta), dtype=bool)
        keep[fold] = False
        return KernelExpansion(
            self.kernel, sample.X[keep], sample.Y[keep], first[keep], second[keep]
        )

    def _blocks(self) -> list[slice]:
        """Numbers (row, column) of each fold."""
        d = self.problem.sample.Y.shape[1]
        return [slice(fold.start * d, fold.stop * d) for fold in self.problem.folds]

    def _apply_inverse(self, lam: float, rhs: Array) -> Array:
        """M times right-hand sides."""
        inner = self.Q.T @ rhs
        ridged = self.eigenvalues + lam / self.delta
        return self.Q @ (inner / (ridged if inner.ndim == 1 else ridged[:, None]))


def held_out_loss(problem: HeldOutProblem, gradient: Array, curvature: Array) -> float:
    """Score (2) without penalty from ∂_iT and ∂_i²T at every row, (n, d)."""
    g, gsm_linear = problem.sample.gsm_weights, problem.sample.gsm_linear
    terms = g * (0.5 * gradient**2 + curvature) + gsm_linear * gradient
    return float(problem.mean_weights @ terms.sum(axis=1))


def _by_fold(problem: HeldOutProblem, matrix: Array, weights: Array) -> Array:
    """Weighted sums over the columns of each fold, (n, f)."""
    parts = [matrix[:, fold] @ weights[fold] for fold in problem.folds]
    return np.stack(parts, axis=1)
