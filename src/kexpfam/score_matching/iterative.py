"""Low-rank score matching by conjugate gradients: C is applied, and never formed.

The normal equations (16) cost n·M² operations to form. Conjugate gradients need only
products C·v, which are one pass over the rows each and cost n·M. Few passes are enough
with a preconditioner that resembles the matrix, here

    P = C_s + λR,   C_s = Σ_{a in s} w_a Σ_i g_ai ∂_iφ ∂_iφᵀ / Σ_{a in s} w_a,      (23)

(16) for s random rows, s of the size of the basis. This is the idea of FALKON (Rudi,
Carratino and Rosasco 2017) for another objective. Passes over rows are an interface,
`RowReduction`, so that the rows may lie on disk or on several machines.
"""

import math
import sys
import threading
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from scipy.linalg import lapack

from kexpfam._linalg import Empty, conjugate_gradients, for_each_row_block
from kexpfam._typing import Array
from kexpfam.errors import ConvergenceWarning, IllConditionedError
from kexpfam.score_matching.expansion import KernelExpansion, ScoreSample
from kexpfam.score_matching.low_rank import RELATIVE_JITTER, Basis, statistics


class RowReduction(ABC):
    """C and b of (16) as sums over rows, for weights that sum to one.

    Every method is one pass over the rows.
    """

    @abstractmethod
    def apply(self, v: Array) -> Array:
        """C·v, (M,)."""

    @abstractmethod
    def linear(self) -> Array:
        """b, (M,)."""

    @abstractmethod
    def draw(self, count: int, rng: np.random.Generator) -> ScoreSample:
        """Some random rows of positive weight, all of them if there are no more."""


@dataclass(frozen=True)
class RowsInMemory(RowReduction):
    """Rows in memory; features exist for a block of them at a time."""

    basis: Basis  # The functions φ
    sample: ScoreSample  # The rows
    n_jobs: int | None = None  # Threads; None for all cores
    # Bytes of features that are kept from one pass for the next, of the first rows;
    # passes are several times faster over these
    memory: int = 0
    _kept: dict[int, list[list[Array]]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def apply(self, v: Array) -> Array:
        gsm_weights = self._weighted(self.sample.gsm_weights)
        groups = v.reshape(len(self.basis.orders), -1)

        def add(rows: slice, total: Array, empty: Empty) -> None:
            # Σ_a w_a g_ai ∂_iφ (∂_iφ·v), by groups so that φ is never joined
            for i, parts in enumerate(self._slopes(rows, empty)):
                slope = np.zeros(rows.stop - rows.start)
                for k, F in enumerate(parts):
                    slope += F @ groups[k]
                slope *= gsm_weights[rows, i]
                for k, F in enumerate(parts):
                    total[k] += slope @ F

        return self._sum(add)

    def linear(self) -> Array:
        sample = self.sample
        gsm_linear = self._weighted(sample.gsm_linear)
        gsm_weights = self._weighted(sample.gsm_weights)

        def add(rows: slice, total: Array, empty: Empty) -> None:
            pairs = self.basis.pairs(sample.X[rows], sample.Y[rows], empty)
            for i in range(gsm_weights.shape[1]):
                for k, (s, j) in enumerate(self.basis.orders):
                    total[k] += gsm_linear[rows, i] @ pairs.partial(1, i, s, j)
                    total[k] += gsm_weights[rows, i] @ pairs.partial(2, i, s, j)

        return self._sum(add)

    def draw(self, count: int, rng: np.random.Generator) -> ScoreSample:
        rows = np.flatnonzero(self.sample.weights > 0)
        return self.sample.part(np.sort(rng.permutation(rows)[:count]))

    def _weighted(self, values: Array) -> Array:
        weights = self.sample.weights
        return (weights / weights.sum())[:, None] * values

    def _slopes(self, rows: slice, empty: Empty) -> list[list[Array]]:
        """∂_iφ at the rows for each column i of y, in groups of m functions."""
        if rows.start in self._kept:
            return self._kept[rows.start]
        sample, orders = self.sample, self.basis.orders
        d = sample.Y.shape[1]
        keep = 8 * rows.stop * self.basis.size * d <= self.memory
        # Buffers are used again by the next block, so what is kept has its own memory.
        pairs = self.basis.pairs(
            sample.X[rows], sample.Y[rows], np.empty if keep else empty
        )
        found = [[pairs.partial(1, i, s, j) for s, j in orders] for i in range(d)]
        if keep:
            self._kept[rows.start] = found
        return found

    def _sum(self, add: Callable[[slice, Array, Empty], None]) -> Array:
        """What `add` adds to (groups, m) for each block of rows, over all of them."""
        basis = self.basis
        total = np.zeros((len(basis.orders), len(basis.Y)))
        lock = threading.Lock()

        def work(rows: slice, empty: Empty) -> None:
            part = np.zeros_like(total)
            add(rows, part, empty)
            with lock:
                total[...] += part

        for_each_row_block(len(self.sample.Y), len(basis.Y), work, n_jobs=self.n_jobs)
        return total.ravel()


@dataclass(frozen=True)
class IterativeFit:
    """An iterate, and how it was reached."""

    T: KernelExpansion = field(repr=False)  # The fitted function
    alpha: Array = field(repr=False)  # Its coefficients, (M,)
    iterations: int  # How many iterations lead to it; one pass over the rows each
    # ‖(C + λR)α + b‖ of every iterate relative to ‖b‖, in the norm of P⁻¹, from the
    # start on, by the recurrence of the method
    residuals: Array = field(repr=False)
    # Why there were no more: "converged", "held_out" (the held-out loss no longer
    # fell), "max_iterations" or "rounding" (no more digits to be had)
    stopped: str
    losses: Array | None = field(default=None, repr=False)  # Held-out, of each iterate


def fit_iterative(
    basis: Basis,  # The functions φ
    # Training rows, or passes over them: `RowsInMemory(basis, sample, memory=...)` is
    # faster where memory for features can be spared
    rows: ScoreSample | RowReduction,
    lam: float,  # Regulariser λ > 0
    *,
    tolerance: float = 1e-8,  # Residual of a solved system, relative to b
    # Passes over the rows, then it warns; with a good preconditioner 10 to 50 will do
    max_iterations: int = 300,
    start: Array | None = None,  # Coefficients, (M,), of a nearby λ; None for zero
    held_out: ScoreSample | RowReduction | None = None,  # They decide when to stop
    # Iterations without a smaller held-out loss, after which no more are made: losses
    # along the path fall and rise once, but for small waves
    patience: int = 5,
    # Rows of C_s in the preconditioner, 0 for P = R; None for twice as many as there
    # are functions, or 0 with `held_out`
    preconditioner_rows: int | None = None,
    rng: np.random.Generator | None = None,  # Draws these; None: always the same
    n_jobs: int | None = None,  # Threads; None for all cores
) -> IterativeFit:
    """Solve (C + λR)α = −b without forming C.

    With `held_out` rows the fit stops at the iterate with the smallest held-out loss
    ½αᵀC_vα + b_vᵀα, which regularises as λ does: λ may then be tiny. P is then R unless
    `preconditioner_rows` is given: the iterates go from smooth functions to rough ones
    in small steps, and the held-out rows choose among them. P of (23) is too good for
    that: it leads to the solution for λ in few steps, all of them as rough. With few
    rows, or many functions for the rows, the best iterate is one of the first two or
    three; that path is too coarse, and a choice among several λ does better.

    Raises:
        IllConditionedError: λR is not positive definite: λ is too small.

    References:
        Rudi, Carratino and Rosasco (2017), FALKON: an optimal large scale kernel
        method; Blanchard and Krämer (2016), Convergence rates of kernel conjugate
        gradient for random design regression.

    Example:
        >>> import numpy as np
        >>> from kexpfam.kernels import Constant, Gaussian, separable
        >>> Y = np.random.default_rng(0).normal(size=(500, 1))
        >>> sample = ScoreSample(Y[:, :0], Y, np.full(500, 1 / 500), -Y / 4, Y**0)
        >>> basis = Basis(separable(Constant(), Gaussian(1.0)), Y[:20, :0], Y[:20])
        >>> fit = fit_iterative(basis, sample, 0.01)
        >>> fit.stopped
        'converged'
    """

    def reduction(of: ScoreSample | RowReduction) -> RowReduction:
        return RowsInMemory(basis, of, n_jobs) if isinstance(of, ScoreSample) else of

    data = reduction(rows)
    if preconditioner_rows is None:
        preconditioner_rows = 2 * basis.size if held_out is None else 0
    rng = np.random.default_rng(0) if rng is None else rng
    R = basis.gram()
    subset = data.draw(preconditioner_rows, rng) if preconditioner_rows else None
    factor = preconditioner(basis, subset, R, lam)

    def precondition(v: Array) -> Array:
        return lapack.dpotrs(factor, v, lower=0)[0]

    rhs = -data.linear()
    path = conjugate_gradients(
        lambda v: data.apply(v) + lam * (R @ v), rhs, precondition, start
    )
    scale = math.sqrt(max(float(rhs @ precondition(rhs)), sys.float_info.min))
    loss = None if held_out is None else _held_out_loss(reduction(held_out))
    residuals: list[float] = []
    losses: list[float] = []
    best, best_at, stopped = np.zeros(basis.size), 0, "rounding"
    for k, iterate in enumerate(path):
        residuals.append(math.sqrt(abs(iterate.square)) / scale)
        if loss is not None:
            losses.append(loss(iterate.solution))
        if loss is None or losses[-1] < min(losses[:-1], default=np.inf):
            best, best_at = iterate.solution, k
        if residuals[-1] <= tolerance:
            stopped = "converged"
        elif k - best_at >= patience:
            stopped = "held_out"
        elif k >= max_iterations:
            stopped = "max_iterations"
        else:
            continue
        break
    if stopped in ("max_iterations", "rounding"):
        warnings.warn(
            f"Conjugate gradients ended after {len(residuals) - 1} iterations with a "
            f"residual of {residuals[-1]:.1e}, above the tolerance of "
            f"{tolerance:.1e}; raise regularization (now {lam:.3g}), "
            f"preconditioner_rows or max_iterations.",
            ConvergenceWarning,
            stacklevel=2,
        )
    return IterativeFit(
        T=basis.expansion(best, n_jobs),
        alpha=best,
        iterations=best_at,
        residuals=np.array(residuals),
        stopped=stopped,
        losses=np.array(losses) if losses else None,
    )


def _held_out_loss(rows: RowReduction) -> Callable[[Array], float]:
    """½αᵀC_vα + b_vᵀα as a function of α."""
    linear = rows.linear()
    return lambda alpha: float(alpha @ (0.5 * rows.apply(alpha) + linear))


def preconditioner(
    basis: Basis, subset: ScoreSample | None, R: Array, lam: float
) -> Array:
    """Upper Cholesky factor of P = C_s + λR of (23); of λR without a subset."""
    P = lam * R
    if subset is not None:
        found = statistics(basis, subset)
        P += found.C / found.weight
    mean = np.trace(P) / len(P)
    # Any positive definite P will do, so a jitter costs iterations and no accuracy.
    for jitter in (0.0, *(RELATIVE_JITTER * 10.0 ** np.arange(-5, 6))):
        trial = P.copy()
        trial[np.diag_indices_from(P)] += jitter * mean
        factor, failed = lapack.dpotrf(trial.T, lower=0, overwrite_a=1, clean=0)
        if not failed and np.all(np.isfinite(factor.diagonal())):
            return factor
    raise IllConditionedError(
        f"The preconditioner cannot be factorised with regularization {lam:.3g}; raise "
        f"it, or use fewer components."
    )
