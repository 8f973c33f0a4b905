"""Low-rank fits to all folds but one, and how a loss of them depends on the kernel.

Equation numbers are those of docs/theory.md. For fold f let α solve (16) on the other
rows, A α = −b with A = C + λR. For any loss with ∂loss/∂α = r, one more solve with the
same Cholesky factor, A μ = r, gives the effect of every parameter at once:

    d loss = (explicit part) − Σ_f μ·(db + dC α + d(λR) α).                         (19)

C and b without a fold are sums over the others, so (19) is Σ_k ⟨weights, (dC_k, db_k)⟩
over folds k, with weights of rank about the number of folds. A value needs one pass
over the rows, for the sums; its gradient one more, which contracts the weights with
the derivatives of the features block by block (`sum_gradients`).
"""

import contextlib
import functools
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
from scipy.linalg import lapack

from kexpfam._parallel import on_threads, single_threaded_blas, thread_count
from kexpfam._typing import Array, Indices, Mask
from kexpfam.errors import IllConditionedError
from kexpfam.family import HeldOutProblem
from kexpfam.kernels import Kernel, RadialKernel, separable
from kexpfam.score_matching import Basis, Statistics, Summation
from kexpfam.score_matching.low_rank import RELATIVE_JITTER
from kexpfam.score_matching.sum_gradients import (
    ResponseFactors,
    SumWeights,
    stretch_x,
    sum_gradient,
)

# Rows of a block; few enough for the caches, and enough for products at full speed.
ROW_BLOCK = 1024

Result = TypeVar("Result")


@dataclass(frozen=True)
class RowBlock:
    """Some rows of one fold."""

    fold: int  # Number of the fold
    rows: Indices  # Numbers of the rows


def row_blocks_of(folds: Sequence[Indices], height: int) -> list[RowBlock]:
    """The rows of each fold in blocks of at most `height` rows.

    Example:
        >>> import numpy as np
        >>> blocks = row_blocks_of([np.arange(5), np.arange(2)], 3)
        >>> [len(block.rows) for block in blocks]
        [3, 2, 2]
    """
    return [
        RowBlock(fold, rows[start : start + height])
        for fold, rows in enumerate(folds)
        for start in range(0, len(rows), height)
    ]


def over_row_blocks(
    work: Callable[[RowBlock], Result],
    blocks: Sequence[RowBlock],
    n_jobs: int | None,
    height: int = ROW_BLOCK,
) -> list[Result]:
    """Results of all row blocks in their order; few rows are not shared out."""
    rows = sum(len(block.rows) for block in blocks)
    threads = max(1, min(thread_count(n_jobs), rows // height))
    # The products inside a block are too small to share among BLAS threads.
    with single_threaded_blas():
        return on_threads(work, blocks, threads)


@dataclass(frozen=True)
class Sensitivity:
    """How a loss depends on the fits, and directly on sums and lengthscales."""

    alpha: Array  # ∂loss/∂α for the fit without each fold, (M, f)
    lengthscales: Array  # Explicit derivatives in log ℓ_x and log ℓ_y, (p + 1,)
    # The loss is this times Σ_f (½ α·C_f α + b_f·α), with the sums over the held-out
    # rows of each fold, or zero if it does not depend on them
    own_sums: float = 0.0


@dataclass(frozen=True)
class FoldFits:
    """Fits to all folds but one, for one kernel and λ."""

    problem: HeldOutProblem
    kernel_x: Kernel
    kernel_y: RadialKernel
    lam: float
    sums: tuple[Statistics, ...]  # C and b of each fold
    R: Array  # Gram matrix of the basis, (M, M)
    alpha: Array  # Coefficients without each fold, (M, f); zero where `failed`
    choleskys: list[Array | None] = field(repr=False)  # Of each system
    failed: Mask  # Folds whose system could not be factorised, (f,)
    n_jobs: int | None = None  # Threads for passes over the rows
    row_block: int = ROW_BLOCK  # Rows of a block in these passes

    @property
    def orders(self) -> list[tuple[int, int]]:
        """Order and column of the derivative of each group of basis functions."""
        return self.problem.basis(separable(self.kernel_x, self.kernel_y)).orders

    @property
    def columns(self) -> int:
        """Number of lengthscales of x."""
        radial = isinstance(self.kernel_x, RadialKernel)
        return self.problem.sample.X.shape[1] if radial else 0

    def blocks_of(self, folds: Sequence[Indices]) -> list[RowBlock]:
        """The rows of each fold in blocks."""
        return row_blocks_of(folds, self.row_block)

    def over_rows(
        self, work: Callable[[RowBlock], Result], blocks: Sequence[RowBlock]
    ) -> list[Result]:
        """Results of all row blocks in their order."""
        return over_row_blocks(work, blocks, self.n_jobs, self.row_block)

    def gradient(self, sensitivity: Sensitivity) -> Array:
        """(19) for log ℓ_x of each column, log ℓ_y and log λ, (p + 2,)."""
        mu = np.zeros_like(self.alpha)
        for k, factor in enumerate(self.choleskys):
            if factor is not None:
                mu[:, k] = lapack.dpotrs(factor, sensitivity.alpha[:, k], lower=0)[0]
        lengthscales = sensitivity.lengthscales + self._gram_gradient(mu)
        lengthscales += self._sums_gradient(self._weights(mu, sensitivity.own_sums))
        to_lam = -self.lam * np.sum(mu * (self.R @ self.alpha))
        return np.append(lengthscales, to_lam)

    def _weights(self, mu: Array, own_sums: float) -> list[SumWeights]:
        """Weights of the sums over each fold in (19), and of those held out."""
        weight = np.array([own.weight for own in self.sums])
        scaled = mu / (weight - weight.sum())
        found = []
        for k in range(len(self.sums)):
            left, right = np.delete(scaled, k, axis=1), np.delete(self.alpha, k, axis=1)
            linear = left.sum(axis=1)
            if own_sums:
                own = self.alpha[:, k]
                left = np.column_stack([left, 0.5 * own_sums * own])
                right = np.column_stack([right, own])
                linear += own_sums * own
            found.append(SumWeights(left, right, linear))
        return found

    def _sums_gradient(self, weights: list[SumWeights]) -> Array:
        """Σ_k ⟨weights, (dC_k, db_k)⟩ for log ℓ_x and log ℓ_y, in one pass."""
        problem, sample = self.problem, self.problem.sample
        centers = sample.X[problem.centers], sample.Y[problem.centers]
        way = sum_gradient(self.kernel_x, self.kernel_y, *centers, self.orders)

        def work(block: RowBlock) -> Array:
            return way.of(sample.part(block.rows), weights[block.fold])

        found = self.over_rows(work, self.blocks_of(problem.rows_of_folds))
        total: Array = np.sum(found, axis=0)
        return total

    def _gram_gradient(self, mu: Array) -> Array:
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
        return np.append(stretch_x(self.kernel_x, X, X, K, to_K), to_y)


def fit_folds(
    problem: HeldOutProblem,
    kernel_x: Kernel,
    kernel_y: RadialKernel,
    lam: float,
    *,
    n_jobs: int | None = None,
    row_block: int = ROW_BLOCK,
) -> FoldFits:
    """Fit all folds but one, for each fold, in one pass over the rows."""
    basis = problem.basis(separable(kernel_x, kernel_y))
    R = basis.gram()
    sums = _fold_sums(problem, basis, n_jobs, row_block)
    total = functools.reduce(operator.add, sums)
    alpha = np.zeros((len(R), len(sums)))
    choleskys: list[Array | None] = []
    for k, own in enumerate(sums):
        rest = total - own
        factor: Array | None = None
        with contextlib.suppress(IllConditionedError):
            factor = rest.cholesky(R, lam)
            alpha[:, k] = rest.solve_factorized(factor)
        choleskys.append(factor)
    lost = np.array([factor is None for factor in choleskys])
    return FoldFits(
        problem,
        kernel_x,
        kernel_y,
        lam,
        sums,
        R,
        alpha,
        choleskys,
        lost,
        n_jobs,
        row_block,
    )


def _fold_sums(
    problem: HeldOutProblem, basis: Basis, n_jobs: int | None, row_block: int
) -> tuple[Statistics, ...]:
    """C and b of (16) of each fold."""
    if len(problem.sample.Y) <= row_block:
        return _fold_sums_of_few(problem, basis)
    summation, folds = Summation(basis), problem.rows_of_folds

    def work(block: RowBlock) -> Statistics:
        return summation.add(summation.start(), problem.sample.part(block.rows))

    # Each thread has a part of each fold, unless that is less than a block.
    largest = max(len(rows) for rows in folds)
    blocks = row_blocks_of(folds, max(row_block, -(-largest // thread_count(n_jobs))))
    sums = [summation.start() for _ in folds]
    done = over_row_blocks(work, blocks, n_jobs, row_block)
    for block, own in zip(blocks, done, strict=True):
        sums[block.fold] = summation.combine(sums[block.fold], own)
    return tuple(sums)


def _fold_sums_of_few(problem: HeldOutProblem, basis: Basis) -> tuple[Statistics, ...]:
    """The same from the features of all rows at once, if these are one block."""
    sample, folds = problem.sample, problem.folds
    C = np.zeros((len(folds), basis.size, basis.size))
    b = np.zeros((len(folds), basis.size))
    pairs = basis.pairs(sample.X, sample.Y)
    for i in range(sample.Y.shape[1]):
        gsm_weights = sample.weights * sample.gsm_weights[:, i]
        gsm_linear = sample.weights * sample.gsm_linear[:, i]
        S, F = basis.features(pairs, 2, i), basis.features(pairs, 1, i)
        # With a root on either side the product is symmetric, which halves its cost.
        rooted = np.sqrt(gsm_weights)[:, None] * F
        for k, fold in enumerate(folds):
            C[k] += rooted[fold].T @ rooted[fold]
            b[k] += gsm_linear[fold] @ F[fold] + gsm_weights[fold] @ S[fold]
    weights = [float(sample.weights[fold].sum()) for fold in folds]
    return tuple(map(Statistics, C, b, weights))
