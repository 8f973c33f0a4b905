"""Low-rank fits to all folds but one, and how a loss of them depends on the kernel.

Equation numbers are those of docs/theory.md. For fold f let α solve (16) on the other
rows, A α = −b with A = C + λR. For any loss with ∂loss/∂α = r, one more solve with the
same Cholesky factor, A μ = r, gives the effect of every parameter at once:

    d loss = (explicit part) − Σ_f μ·(db + dC α + d(λR) α).                         (19)

C and b are sums of products of the features ∂φ and ∂²φ at the rows, so (19) is a sum
of ⟨weights, d features⟩, with weights of rank twice the number of folds: dC is never
formed. A feature is a product k_X·∂ʳ∂'ˢk_Y; the weights times the y-factors, summed
over features, weigh dk_X, and the weights times k_X weigh d(∂ʳ∂'ˢk_Y).
"""

from dataclasses import dataclass, field

import numpy as np
from scipy.linalg import lapack

from kexpfam._typing import Array, Mask
from kexpfam.kernels import Kernel, RadialKernel, separable
from kexpfam.score_matching.low_rank import RELATIVE_JITTER
from kexpfam.selection.factors import ResponseFactors, stretch_x
from kexpfam.selection.problem import HeldOutProblem


@dataclass(frozen=True)
class Sensitivity:
    """How a loss depends on the fits, and directly on the features.

    Attributes:
        alpha: ∂loss/∂α for the fit without each fold, (M, f).
        first: ∂loss/∂(∂_iT) at held-out rows, (n, d), not in `alpha` yet; or None.
        second: ∂loss/∂(∂_i²T), likewise.
        kernel_x: Explicit ∂loss/∂k_X at rows and centres, (n, m), or None.
        log_lengthscale_y: Explicit derivative with respect to log ℓ_y.
    """

    alpha: Array
    first: Array | None = None
    second: Array | None = None
    kernel_x: Array | None = None
    log_lengthscale_y: float = 0.0


@dataclass(frozen=True)
class FoldFits:
    """Fits to all folds but one, for one kernel and λ.

    Attributes:
        problem: Rows, folds and centres.
        kernel_x: Kernel of x.
        kernel_y: RadialKernel of y.
        lam: λ.
        K: k_X at rows and centres, (n, m).
        factors: Derivatives of k_Y at rows and centres.
        F: ∂_iφ at the rows, d of (n, M).
        S: ∂_i²φ at the rows, d of (n, M).
        R: Gram matrix of the basis, (M, M).
        alpha: Coefficients without each fold, (M, f); zero where `failed`.
        choleskys: Factor of each system; None where `failed`.
        failed: Folds whose system could not be factorised, (f,).
    """

    problem: HeldOutProblem
    kernel_x: Kernel
    kernel_y: RadialKernel
    lam: float
    K: Array
    factors: ResponseFactors
    F: list[Array]
    S: list[Array]
    R: Array
    alpha: Array
    choleskys: list[Array | None] = field(repr=False)
    failed: Mask

    @property
    def orders(self) -> list[tuple[int, int]]:
        """Order and column of the derivative of each group of basis functions."""
        return basis_orders(self.problem)

    def at_rows(self, features: list[Array], coefficients: Array) -> Array:
        """Features times the coefficients of each fit, (n, d, f)."""
        return np.stack([feature @ coefficients for feature in features], axis=1)

    def gradient(self, sensitivity: Sensitivity) -> Array:
        """(19) for log ℓ_x of each column, log ℓ_y and log λ, (p + 2,)."""
        problem, alpha = self.problem, self.alpha
        mu = self._adjoint_solve(sensitivity)
        first, second = self._row_weights(sensitivity, mu)
        to_K, to_y = np.zeros_like(self.K), sensitivity.log_lengthscale_y
        if sensitivity.kernel_x is not None:
            to_K += sensitivity.kernel_x
        both = np.concatenate([mu, alpha], axis=1).T
        for i in range(len(self.F)):
            for order, weights in ((1, first[:, i]), (2, second[:, i])):
                to_y += _contract(self, order, i, weights @ both, to_K)
        X, Z = problem.sample.X, problem.sample.X[problem.centers]
        to_x = stretch_x(self.kernel_x, X, Z, to_K)
        gram_x, gram_y = self._gram_gradient(mu)
        to_lam = -self.lam * np.sum(mu * (self.R @ alpha))
        return np.concatenate([to_x + gram_x, [to_y + gram_y, to_lam]])

    def _adjoint_solve(self, sensitivity: Sensitivity) -> Array:
        """μ of (19), (M, f)."""
        rhs = sensitivity.alpha.copy()
        own = self.problem.fold_of[:, None] == np.arange(rhs.shape[1])
        if sensitivity.first is not None and sensitivity.second is not None:
            for i, (F, S) in enumerate(zip(self.F, self.S, strict=True)):
                rhs += F.T @ (own * sensitivity.first[:, i, None])
                rhs += S.T @ (own * sensitivity.second[:, i, None])
        mu = np.zeros_like(rhs)
        for k, factor in enumerate(self.choleskys):
            if factor is not None:
                mu[:, k] = lapack.dpotrs(factor, rhs[:, k], lower=0)[0]
        return mu

    def _row_weights(self, sensitivity: Sensitivity, mu: Array) -> tuple[Array, Array]:
        """Weights of d∂φ and d∂²φ in (19) as combinations of (μ, α), 2 of (n, d, 2f).

        −μ·db − μ·dC α = −Σ_a w_a Σ_i [ (drift + g ∂T_α) μ + g ∂T_μ α ]·d∂_iφ
                         − Σ_a w_a Σ_i g μ·d∂_i²φ, over the rows a that were fitted.
        """
        sample, n_folds = self.problem.sample, mu.shape[1]
        own = self.problem.fold_of[:, None] == np.arange(n_folds)
        rest = sample.weights.sum() - own.T.astype(float) @ sample.weights
        fitted = -np.where(own, 0.0, sample.weights[:, None] / rest)[:, None, :]
        g, drift = sample.diffusion[..., None], sample.drift[..., None]
        on_mu = fitted * (drift + g * self.at_rows(self.F, self.alpha))
        on_alpha = fitted * g * self.at_rows(self.F, mu)
        second_on_mu = fitted * g
        second_on_alpha = np.zeros_like(on_alpha)
        if sensitivity.first is not None and sensitivity.second is not None:
            on_alpha += own[:, None, :] * sensitivity.first[..., None]
            second_on_alpha += own[:, None, :] * sensitivity.second[..., None]
        first = np.concatenate([on_mu, on_alpha], axis=2)
        return first, np.concatenate([second_on_mu, second_on_alpha], axis=2)

    def _gram_gradient(self, mu: Array) -> tuple[Array, float]:
        """−λ Σ_f μ·dR α, for log ℓ_x of each column and log ℓ_y."""
        sample, m = self.problem.sample, len(self.problem.centers)
        X, Y = sample.X[self.problem.centers], sample.Y[self.problem.centers]
        weights = -self.lam * (mu @ self.alpha.T)
        # The jitter is proportional to the trace of R, so it moves along.
        jitter = RELATIVE_JITTER * np.trace(weights) / len(weights)
        weights[np.diag_indices_from(weights)] += jitter
        K, factors = self.kernel_x.values(X, X), ResponseFactors(self.kernel_y, Y, Y)
        to_K, to_y = np.zeros((m, m)), 0.0
        for a, (r, i) in enumerate(self.orders):
            for b, (s, j) in enumerate(self.orders):
                block = weights[a * m : (a + 1) * m, b * m : (b + 1) * m]
                to_K += block * factors.part(r, i, s, j)
                to_y += float(np.vdot(block * K, factors.stretched(r, i, s, j)))
        return stretch_x(self.kernel_x, X, X, to_K), to_y


def _contract(fits: FoldFits, r: int, i: int, weights: Array, to_K: Array) -> float:
    """Add the weights (n, M) of dk_X to `to_K`; return the derivative in log ℓ_y."""
    m, to_y = fits.K.shape[1], 0.0
    for group, (s, j) in enumerate(fits.orders):
        own = weights[:, group * m : (group + 1) * m]
        to_K += own * fits.factors.part(r, i, s, j)
        to_y += float(np.vdot(own * fits.K, fits.factors.stretched(r, i, s, j)))
    return to_y


def basis_orders(problem: HeldOutProblem) -> list[tuple[int, int]]:
    """Order and column of the derivative of each group of basis functions."""
    columns = problem.sample.Y.shape[1] if problem.derivatives else 0
    return [(0, 0), *((1, j) for j in range(columns))]


def fit_folds(
    problem: HeldOutProblem, kernel_x: Kernel, kernel_y: RadialKernel, lam: float
) -> FoldFits:
    """Fit all folds but one, for each fold."""
    sample, centers = problem.sample, problem.centers
    K = kernel_x.values(sample.X, sample.X[centers])
    factors = ResponseFactors(kernel_y, sample.Y, sample.Y[centers])
    orders, columns = basis_orders(problem), range(sample.Y.shape[1])

    def features(r: int, i: int) -> Array:
        return np.concatenate([K * factors.part(r, i, s, j) for s, j in orders], axis=1)

    F = [features(1, i) for i in columns]
    S = [features(2, i) for i in columns]
    R = problem.basis(separable(kernel_x, kernel_y)).gram()
    C, b, weight = _fold_sums(problem, F, S)
    total_C, total_b, total = C.sum(axis=0), b.sum(axis=0), weight.sum()
    alpha = np.zeros((len(R), len(problem.folds)))
    choleskys: list[Array | None] = []
    for k in range(len(problem.folds)):
        system = (total_C - C[k]) / (total - weight[k])
        system += lam * R
        factor, failed = lapack.dpotrf(system.T, lower=0, overwrite_a=1, clean=0)
        choleskys.append(None if failed else factor)
        if not failed:
            rhs = (b[k] - total_b) / (total - weight[k])
            alpha[:, k] = lapack.dpotrs(factor, rhs, lower=0)[0]
    lost = np.array([factor is None for factor in choleskys])
    return FoldFits(
        problem, kernel_x, kernel_y, lam, K, factors, F, S, R, alpha, choleskys, lost
    )


def _fold_sums(
    problem: HeldOutProblem, F: list[Array], S: list[Array]
) -> tuple[Array, Array, Array]:
    """C and b of (16), and the weight, of each fold: (f, M, M), (f, M), (f,)."""
    sample, M = problem.sample, F[0].shape[1]
    C, b = np.zeros((len(problem.folds), M, M)), np.zeros((len(problem.folds), M))
    diffusion = sample.weights[:, None] * sample.diffusion
    drift = sample.weights[:, None] * sample.drift
    for i in range(len(F)):
        # With a root on either side the product is symmetric, which halves its cost.
        rooted = np.sqrt(diffusion[:, i, None]) * F[i]
        for k, fold in enumerate(problem.folds):
            C[k] += rooted[fold].T @ rooted[fold]
            b[k] += drift[fold, i] @ F[i][fold] + diffusion[fold, i] @ S[i][fold]
    weight = np.array([sample.weights[fold].sum() for fold in problem.folds])
    return C, b, weight
