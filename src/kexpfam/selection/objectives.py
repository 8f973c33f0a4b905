"""Held-out objectives of one family: a loss of θ, and its exact gradient.

θ holds the logarithms of the lengthscales and of λ (`Parameters`). For each fold the
low-rank fit to the other folds is validated on it, by the mean negative log density
(one column of y) or by the paper's held-out score. The gradient is the adjoint one of
`fold_fits`: it costs one or two times the value, whatever the number of columns of x.
No matrix of all rows is made, so there may be very many.

The score of all rows is known from the sums of (16) alone. A likelihood is that of some
thousands of rows, however many the fits have seen: more would cost more than the fits,
and tell hardly more. It is computed as in `family.cross_validation`, but in double
precision, on nodes that do not move with the lengthscales, so that it is a smooth
function of them, and with a floor that is nearer; rows there have no gradient.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from kexpfam._typing import Array, Indices
from kexpfam.family import HeldOutProblem, nodes_inside
from kexpfam.kernels import Constant, Kernel, RadialKernel
from kexpfam.partition import Nodes
from kexpfam.score_matching.sum_gradients import ResponseFactors, stretch_x
from kexpfam.selection.fold_fits import (
    ROW_BLOCK,
    FoldFits,
    RowBlock,
    Sensitivity,
    fit_folds,
)
from kexpfam.selection.parameters import (
    Bounds,
    Parameters,
    Penalty,
    with_lengthscale,
)

# A row counts at least this log density: a descent must not be led by one absurd row.
FLOOR = -50.0


class Criterion(ABC):
    """A loss of fits on the folds they have not seen; smaller is better."""

    one_column: ClassVar[bool] = False  # Whether it is for one column of y

    @classmethod
    @abstractmethod
    def of(cls, problem: HeldOutProblem) -> Self:
        """The criterion for some rows."""

    @property
    @abstractmethod
    def name(self) -> str:
        """What a result calls it."""

    @abstractmethod
    def loss(self, fits: FoldFits) -> float:
        """Weighted mean over all rows; infinity if a fit failed and has no floor."""

    @abstractmethod
    def sensitivity(self, fits: FoldFits) -> tuple[float, Sensitivity]:
        """The loss, and how it depends on the fits."""


@dataclass(frozen=True)
class HeldOutScore(Criterion):
    """Σ_a w_a Σ_i [½ g (∂_iT)² + g ∂_i²T + gsm_linear ∂_iT], T not fitted to a's fold.

    This is Σ_f (½ α·C_f α + b_f·α) with the sums over each held-out fold.
    """

    @classmethod
    def of(cls, problem: HeldOutProblem) -> Self:
        return cls()

    @property
    def name(self) -> str:
        return "score"

    def loss(self, fits: FoldFits) -> float:
        return self.sensitivity(fits)[0]

    def sensitivity(self, fits: FoldFits) -> tuple[float, Sensitivity]:
        explicit = np.zeros(fits.columns + 1)
        if fits.failed.any():
            return np.inf, Sensitivity(np.zeros_like(fits.alpha), explicit)
        scale = 1.0 / sum(own.weight for own in fits.sums)
        pairs = list(zip(fits.sums, fits.alpha.T, strict=True))
        products = [own.C @ alpha for own, alpha in pairs]
        loss = sum(
            0.5 * alpha @ product + alpha @ own.b
            for (own, alpha), product in zip(pairs, products, strict=True)
        )
        to_alpha = np.stack(
            [product + own.b for (own, _), product in zip(pairs, products, strict=True)]
        )
        return float(scale * loss), Sensitivity(scale * to_alpha.T, explicit, scale)


@dataclass(frozen=True)
class HeldOutLikelihood(Criterion):
    """Mean negative log density of rows under fits without their fold; one column.

    Attributes:
        nodes: Where densities are normalised, and between which log densities are
            interpolated. They stay the same for every θ.
        some: The rows of each fold that are looked at; None for all.
    """

    one_column: ClassVar[bool] = True

    nodes: Nodes
    some: tuple[Indices, ...] | None = None

    @classmethod
    def of(
        cls,
        problem: HeldOutProblem,
        resolution: float | None = None,
        *,
        most_rows: int = 5000,
    ) -> Self:
        """With nodes for lengthscales of y down to `resolution`.

        Args:
            problem: The rows.
            resolution: None for the shortest lengthscale that `Bounds.of_data` allows.
            most_rows: Rows that are looked at, at most: a random part of each fold.

        Raises:
            ValueError: y has several columns.
        """
        if problem.sample.Y.shape[1] > 1:
            raise ValueError(
                f"The held-out likelihood needs one column of y, got "
                f"{problem.sample.Y.shape[1]}; use the held-out score."
            )
        if resolution is None:
            bounds = Bounds.of_data(problem.sample.X, problem.sample.Y)
            resolution = bounds.lengthscale_y[0]
        some, Y = None, problem.sample.Y
        if len(Y) > most_rows:
            some = _some_rows(problem, most_rows)
            Y = Y[np.concatenate(some)]
        nodes = nodes_inside(problem.base, Y, problem.reach, resolution)
        return cls(nodes, some)

    @property
    def name(self) -> str:
        return "likelihood"

    def loss(self, fits: FoldFits) -> float:
        evaluation = _Evaluation.of(self, fits)
        return sum(fits.over_rows(evaluation.loss, self._blocks(fits)))

    def sensitivity(self, fits: FoldFits) -> tuple[float, Sensitivity]:
        evaluation, blocks = _Evaluation.of(self, fits), self._blocks(fits)
        stretched = evaluation.stretched()
        found = fits.over_rows(
            lambda block: evaluation.sensitivity(block, stretched), blocks
        )
        to_alpha = np.zeros_like(fits.alpha)
        for block, (_, own, _) in zip(blocks, found, strict=True):
            to_alpha[:, block.fold] += own
        explicit: Array = np.sum([own for _, _, own in found], axis=0)
        return sum(loss for loss, _, _ in found), Sensitivity(to_alpha, explicit)

    def _blocks(self, fits: FoldFits) -> list[RowBlock]:
        return fits.blocks_of(self.some or fits.problem.rows_of_folds)


def _some_rows(problem: HeldOutProblem, count: int) -> tuple[Indices, ...]:
    """About so many random rows, as many from each fold as it has rows among all."""
    # The same rows every time: an objective must not change while it is searched.
    rng, n = np.random.default_rng(0), len(problem.sample.Y)
    folds = problem.rows_of_folds
    sizes = [max(1, count * len(rows) // n) for rows in folds]
    return tuple(
        np.sort(rng.choice(rows, size, replace=False))
        for rows, size in zip(folds, sizes, strict=True)
    )


@dataclass(frozen=True)
class _Evaluation:
    """Fits of one θ, and what blocks of rows need to know of them.

    Attributes:
        fits: The fits.
        nodes: Where densities are normalised.
        weights: Row weights that sum to one over those that are looked at, (n,).
        log_q0: At the nodes, (g,).
        parts: ∂'ˢk_Y at centres and nodes for each group of functions, (m, g).
        factors: Where these come from.
    """

    fits: FoldFits
    nodes: Nodes
    weights: Array
    log_q0: Array
    parts: list[Array]
    factors: ResponseFactors

    @classmethod
    def of(cls, criterion: HeldOutLikelihood, fits: FoldFits) -> "_Evaluation":
        problem, points = fits.problem, criterion.nodes.points[:, None]
        factors = ResponseFactors(
            fits.kernel_y, points, problem.sample.Y[problem.centers]
        )
        weights, some = problem.sample.weights, criterion.some
        used = weights if some is None else weights[np.concatenate(some)]
        return cls(
            fits,
            criterion.nodes,
            weights / used.sum(),
            problem.base.log_density(points),
            [np.ascontiguousarray(factors.part(0, 0, s, 0).T) for s, _ in fits.orders],
            factors,
        )

    def stretched(self) -> list[Array]:
        """Derivatives of `parts` in log ℓ_y."""
        return [
            np.ascontiguousarray(self.factors.stretched(0, 0, s, 0).T)
            for s, _ in self.fits.orders
        ]

    def loss(self, block: RowBlock) -> float:
        """What the rows of a block add to the loss."""
        log_p, _, _, _ = self._densities(block)
        log_p = np.maximum(log_p, FLOOR)
        return -float(self.weights[block.rows] @ log_p)

    def sensitivity(
        self, block: RowBlock, stretched: list[Array]
    ) -> tuple[float, Array, Array]:
        """The same, its derivatives in α (M,), and in log ℓ_x and log ℓ_y (p + 1,)."""
        fits, sample = self.fits, self.fits.problem.sample
        log_p, p, weighted, K = self._densities(block)
        weights = self.weights[block.rows]
        counts = log_p > FLOOR
        loss = -float(weights @ np.maximum(log_p, FLOOR))
        # ∂loss/∂T at the nodes: mass of the density minus the response's own
        to_T = self._minus_interpolation(block, p)
        to_T *= np.where(counts, weights, 0.0)[:, None]
        gathered = K.T @ to_T
        to_alpha = [np.einsum("cg,cg->c", gathered, part) for part in self.parts]
        to_log = [np.einsum("cg,cg->c", gathered, part) for part in stretched]
        to_y = float(np.concatenate(to_log) @ fits.alpha[:, block.fold])
        Z = sample.X[fits.problem.centers]
        to_x = stretch_x(fits.kernel_x, sample.X[block.rows], Z, K, to_T @ weighted.T)
        return loss, np.concatenate(to_alpha), np.append(to_x, to_y)

    def _densities(self, block: RowBlock) -> tuple[Array, Array, Array, Array]:
        """Log density of each row, masses of the nodes, Σ_s α ∂'ˢk_Y, and k_X.

        They are (n,), (n, g), (m, g) and (n, m). A failed fit gives a log density of
        −∞.
        """
        fits, sample = self.fits, self.fits.problem.sample
        K = fits.kernel_x.values(sample.X[block.rows], sample.X[fits.problem.centers])
        groups = fits.alpha[:, block.fold].reshape(len(self.parts), -1)
        weighted = np.zeros_like(self.parts[0])
        for alpha, part in zip(groups, self.parts, strict=True):
            weighted += alpha[:, None] * part
        T = K @ weighted
        T += self.log_q0
        log_p, p = log_densities(self.nodes, T, sample.Y[block.rows, 0])
        if fits.failed[block.fold]:
            log_p[:] = -np.inf
        return log_p, p, weighted, K

    def _minus_interpolation(self, block: RowBlock, p: Array) -> Array:
        y = self.fits.problem.sample.Y[block.rows, 0]
        left, share = self.nodes.interpolation(y)
        rows = np.arange(len(p))
        p[rows, left] -= 1.0 - share
        p[rows, left + 1] -= share
        return p


def log_densities(nodes: Nodes, log_tilted: Array, u: Array) -> tuple[Array, Array]:
    """Log density of one response per row, and the mass of each node.

    `log_tilted` is log q0 + T of each row at the nodes, (n, g), and is destroyed. Log
    densities (n,) are −∞ where q0 vanishes at a neighbouring node; masses (n, g) sum to
    one.
    """
    rows = np.arange(len(u))
    left, share = nodes.interpolation(u)
    with np.errstate(invalid="ignore"):  # 0 · (−∞) outside the support of q0
        log_p = (1 - share) * log_tilted[rows, left]
        log_p += share * log_tilted[rows, left + 1]
    log_tilted += nodes.log_weights
    peak = log_tilted.max(axis=1)
    log_tilted -= peak[:, None]
    masses = np.exp(log_tilted, out=log_tilted)
    total = masses.sum(axis=1)
    masses /= total[:, None]
    log_p -= np.log(total) + peak
    return np.nan_to_num(log_p, nan=-np.inf, neginf=-np.inf, posinf=np.inf), masses


@dataclass(frozen=True)
class ObjectiveValue:
    """What is minimised, in parts.

    Attributes:
        loss: The held-out loss.
        penalty: What the penalty adds to it.
    """

    loss: float
    penalty: float = 0.0

    @property
    def total(self) -> float:
        """Loss and penalty together."""
        return self.loss + self.penalty


@dataclass(frozen=True)
class HeldOutObjective:
    """A held-out loss as a function of θ.

    Attributes:
        problem: Rows, folds and centres.
        kernel_x: Kernel of x whose lengthscales are replaced: radial, or constant,
            which has none.
        kernel_y: Radial kernel of y whose lengthscale is replaced.
        criterion: What is minimised.
        penalty: Added to the loss, or None.
        n_jobs: Threads for passes over very many rows; None for all cores.
        row_block: Rows of a block in these passes.

    Example:
        >>> import numpy as np
        >>> from kexpfam.base_densities import GaussianBase
        >>> from kexpfam.kernels import Gaussian
        >>> from kexpfam.score_matching import ScoreSample
        >>> from kexpfam.selection import HeldOutLikelihood
        >>> rng = np.random.default_rng(0)
        >>> X, Y = rng.normal(size=(40, 2)), rng.normal(size=(40, 1))
        >>> base = GaussianBase(1.5)
        >>> sample = ScoreSample(
        ...     X, Y, np.full(40, 1 / 40), base.grad_log_density(Y), np.ones((40, 1))
        ... )
        >>> folds = slice(0, 20), slice(20, 40)
        >>> problem = HeldOutProblem(sample, folds, np.arange(10), base, reach=9.0)
        >>> objective = HeldOutObjective(
        ...     problem, Gaussian(), Gaussian(), HeldOutLikelihood.of(problem)
        ... )
        >>> value, gradient = objective.value_and_gradient(np.log([1, 1, 1, 0.1]))
        >>> gradient.shape
        (4,)
    """

    problem: HeldOutProblem
    kernel_x: Kernel
    kernel_y: RadialKernel
    criterion: Criterion
    penalty: Penalty | None = None
    n_jobs: int | None = None
    row_block: int = ROW_BLOCK

    def __post_init__(self) -> None:
        check_searchable(self.kernel_x, self.kernel_y)

    @property
    def columns(self) -> int:
        """Number of lengthscales of x."""
        radial = isinstance(self.kernel_x, RadialKernel)
        return self.problem.sample.X.shape[1] if radial else 0

    def kernels(self, parameters: Parameters) -> tuple[Kernel, RadialKernel]:
        """The kernels of x and y with these lengthscales."""
        return (
            with_lengthscale(self.kernel_x, parameters.lengthscale_x),
            replace(self.kernel_y, lengthscale=parameters.lengthscale_y),
        )

    def value(self, theta: Array) -> ObjectiveValue:
        """Loss and penalty at θ (p + 2,)."""
        penalty = self.penalty(theta)[0] if self.penalty else 0.0
        return ObjectiveValue(self.criterion.loss(self._fits(theta)), penalty)

    def value_and_gradient(self, theta: Array) -> tuple[ObjectiveValue, Array]:
        """Loss and penalty at θ, and the exact gradient of their sum, (p + 2,)."""
        fits = self._fits(theta)
        loss, sensitivity = self.criterion.sensitivity(fits)
        gradient = fits.gradient(sensitivity)
        penalty, slope = self.penalty(theta) if self.penalty else (0.0, 0.0)
        return ObjectiveValue(loss, penalty), gradient + slope

    def _fits(self, theta: Array) -> FoldFits:
        parameters = Parameters.from_theta(theta)
        if len(parameters.lengthscale_x) != self.columns:
            raise ValueError(
                f"theta must have {self.columns + 2} entries (lengthscales of x, of y, "
                f"and λ), got {len(theta)}."
            )
        return fit_folds(
            self.problem,
            *self.kernels(parameters),
            parameters.regularization,
            n_jobs=self.n_jobs,
            row_block=self.row_block,
        )


# What `KCEF.select` may say, for descents.
OBJECTIVES: dict[str, type[Criterion]] = {
    "likelihood": HeldOutLikelihood,
    "score": HeldOutScore,
}


def check_searchable(kernel_x: Kernel, kernel_y: Kernel) -> None:
    """Refuse kernels whose lengthscales cannot be replaced, or would be lost."""
    if not isinstance(kernel_x, RadialKernel | Constant):
        raise TypeError(
            f"kernel_x must be a radial kernel or Constant to be searched, got "
            f"{kernel_x!r}."
        )
    if not isinstance(kernel_y, RadialKernel):
        raise TypeError(
            f"kernel_y must be a radial kernel to be searched, got {kernel_y!r}."
        )
    lengths = kernel_y.lengthscale
    if isinstance(lengths, tuple) and len(set(lengths)) > 1:
        raise ValueError(
            f"kernel_y must have one lengthscale to be searched, got {lengths}; scale "
            f"the columns of y instead."
        )
