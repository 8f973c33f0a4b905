"""The exact score-matching estimator: one linear system, one Cholesky factorisation.

Equation numbers are those of docs/theory.md. The minimiser of the penalised objective
(2) over the whole RKHS is an expansion over the training rows,

    T = −ξ̂/λ + Σ_b Σ_i β_bi ∂_iK((x_b, y_b), ·),                                    (3)

and β solves a system of size nd that holds the kernel's mixed second derivatives,

    (S G S + (λ/δ) I) γ = S h/λ,   β = S γ,                                          (5)

with S² = D/δ, D = diag(w_a g_ai) and δ its largest entry. For equal weights and no
boundary S = I and δ = 1/n, which is the familiar (G + nλI) β = h/λ. The scaling keeps
the system symmetric and gives rows of weight zero no influence.
"""

import itertools
import threading
from dataclasses import dataclass

import numpy as np

from kexpfam._linalg import BLOCK_BYTES, Empty, for_each_row_block, ridge_cholesky
from kexpfam._typing import Array
from kexpfam.kernels import JointKernel
from kexpfam.score_matching.expansion import KernelExpansion, ScoreSample


@dataclass(frozen=True)
class ExactFit:
    """The minimiser, and how well-conditioned the system was."""

    T: KernelExpansion  # The fitted function
    lam: float  # The λ used: what was asked for, unless it was too small to resolve
    rcond: float  # Lower bound of the reciprocal condition number of the system


def fit_exact(
    kernel: JointKernel,  # Joint kernel of (x, y)
    sample: ScoreSample,  # Training rows
    lam: float,  # Regulariser λ > 0
    *,
    n_jobs: int | None = None,  # Threads; None for all cores
) -> ExactFit:
    """Minimise the penalised score-matching objective over the RKHS.

    Raises:
        IllConditionedError: λ is too small for double precision.
    """
    n, d = sample.Y.shape
    D = sample.weights[:, None] * sample.gsm_weights
    delta = float(D.max())
    S = np.sqrt(D / delta)

    matrix, h = _assemble(kernel, sample, S, n_jobs)
    factor = ridge_cholesky(
        matrix,
        lam / delta,
        remedy=f"raise regularization (now {lam:.3g}) or lower the lengthscales",
    )
    # If the ridge had to be raised, that is the λ of the whole solution.
    lam = factor.ridge * delta
    # (5): γ, then β = S γ
    gamma = factor.solve((S * h).ravel() / lam).reshape(n, d)
    beta = S * gamma

    # (3), (4): −ξ̂/λ puts −w (g′ + g ∂log q0)/λ on ∂_i and −w g/λ on ∂_i²
    T = KernelExpansion(
        kernel=kernel,
        X=sample.X,
        Y=sample.Y,
        first=beta - sample.weights[:, None] * sample.gsm_linear / lam,
        second=-D / lam,
        n_jobs=n_jobs,
    )
    return ExactFit(T=T, lam=lam, rcond=factor.rcond)


def _assemble(
    kernel: JointKernel,
    sample: ScoreSample,
    S: Array,
    n_jobs: int | None,
    block_bytes: int = BLOCK_BYTES,
) -> tuple[Array, Array]:
    """S G S of (5) in its lower triangle, (nd, nd), and h = ∂ξ̂ at the rows, (n, d).

    One pass over row blocks computes both. A kernel that is stationary in y is even in
    y_a − y_b, so its third derivatives are odd: the block left of the diagonal serves
    the rows with one sign and the columns with the other, and half of all pairs is
    enough.
    """
    n, d = sample.Y.shape
    matrix = np.empty((n * d, n * d))
    blocks = matrix.reshape(n, d, n, d)
    h = np.zeros((n, d))
    h_lock = threading.Lock()
    scaled = bool(np.any(S != 1.0))
    gsm_linear = sample.weights[:, None] * sample.gsm_linear
    gsm_weights = sample.weights[:, None] * sample.gsm_weights

    def work(rows: slice, empty: Empty) -> None:
        left = rows.start if kernel.stationary else 0
        cols = slice(0, rows.stop if kernel.stationary else n)
        pairs = kernel.at(
            sample.X[rows], sample.Y[rows], sample.X[cols], sample.Y[cols], empty
        )
        h_rows, h_left = np.zeros((rows.stop - rows.start, d)), np.zeros((left, d))
        for i, j in itertools.product(range(d), repeat=2):
            # (7): h_ai = Σ_bj w (g′ + g ∂log q0) ∂_i∂'_jK(a, b) + w g ∂_i∂'_j²K(a, b)
            third = pairs.partial(1, i, 2, j)
            h_rows[:, i] += third @ gsm_weights[cols, j]
            h_left[:, i] -= gsm_weights[rows, j] @ third[:, :left]
            # (6): G_(a,i),(b,j) = ∂_i∂'_jK(a, b)
            G = pairs.partial(1, i, 1, j)
            h_rows[:, i] += G @ gsm_linear[cols, j]
            h_left[:, j] += gsm_linear[rows, i] @ G[:, :left]
            if scaled:
                G *= S[rows, i, None]
                G *= S[cols, j]
            blocks[rows, i, cols, j] = G
        with h_lock:
            h[rows] += h_rows
            h[:left] += h_left

    for_each_row_block(n, n, work, n_jobs=n_jobs, block_bytes=block_bytes)
    return matrix, h
