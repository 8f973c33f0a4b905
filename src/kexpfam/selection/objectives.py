"""Held-out objectives of one family: a loss of θ, and its exact gradient.

θ holds the logarithms of the lengthscales and of λ (`Parameters`). For each fold the
low-rank fit to the other folds is judged on it, either by the mean negative log density
(one column of y) or by the paper's held-out score. The gradient is the adjoint one of
`fold_fits`: it costs about as much again as the value, whatever the number of columns.

The likelihood is that of `held_out_log_densities`, in double precision and on nodes
that do not move with θ, so that it is a smooth function of θ. Like there, no held-out
row counts as less than a log density of −50; rows at that floor have no gradient.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from kexpfam._typing import Array
from kexpfam.kernels import Constant, Kernel, RadialKernel
from kexpfam.partition import Nodes
from kexpfam.selection.factors import ResponseFactors
from kexpfam.selection.fold_fits import FoldFits, Sensitivity, fit_folds
from kexpfam.selection.held_out import LOWEST_LOG_DENSITY
from kexpfam.selection.normalize import log_densities
from kexpfam.selection.parameters import Bounds, Parameters, Penalty
from kexpfam.selection.problem import HeldOutProblem

# Step in log ℓ_y of central differences, for several columns of y: their error is about
# the square of it, 1e-8, and rounding adds 1e-12.
_STEP = 1e-4


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


class Criterion(ABC):
    """Judges fits on the folds they have not seen; smaller is better."""

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
    """Σ_a w_a Σ_i [½ g (∂_iT)² + g ∂_i²T + drift ∂_iT], T not fitted to a's fold."""

    @property
    def name(self) -> str:
        return "score"

    def loss(self, fits: FoldFits) -> float:
        return self._terms(fits)[0]

    def sensitivity(self, fits: FoldFits) -> tuple[float, Sensitivity]:
        loss, first, second = self._terms(fits)
        return loss, Sensitivity(np.zeros_like(fits.alpha), first, second)

    def _terms(self, fits: FoldFits) -> tuple[float, Array, Array]:
        """Loss, ∂loss/∂(∂_iT) and ∂loss/∂(∂_i²T) at the rows, (n, d)."""
        problem = fits.problem
        if fits.failed.any():
            nothing = np.zeros_like(problem.sample.Y)
            return np.inf, nothing, nothing
        g, drift = problem.sample.diffusion, problem.sample.drift
        own = fits.alpha.T[problem.fold_of]
        gradient = np.stack([np.einsum("am,am->a", F, own) for F in fits.F], axis=1)
        curvature = np.stack([np.einsum("am,am->a", S, own) for S in fits.S], axis=1)
        terms = g * (0.5 * gradient**2 + curvature) + drift * gradient
        weights = problem.mean_weights[:, None]
        loss = float(np.sum(weights * terms))
        return loss, weights * (g * gradient + drift), weights * g


@dataclass(frozen=True)
class HeldOutLikelihood(Criterion):
    """Mean negative log density of rows under fits without their fold; one column.

    Attributes:
        nodes: Where densities are normalised, and between which log densities are
            interpolated. They stay the same for every θ.
    """

    nodes: Nodes

    @classmethod
    def of(
        cls, problem: HeldOutProblem, resolution: float | None = None
    ) -> "HeldOutLikelihood":
        """With nodes for lengthscales of y down to `resolution`.

        Args:
            problem: The rows.
            resolution: None for the shortest lengthscale that `Bounds.of_data` allows.

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
        return cls(Nodes.covering(problem.sample.Y, problem.reach, resolution))

    @property
    def name(self) -> str:
        return "likelihood"

    def loss(self, fits: FoldFits) -> float:
        factors = self._factors(fits)
        total = 0.0
        for k, fold in enumerate(fits.problem.folds):
            log_p, _, _ = self._densities(fits, factors, k, fold)
            log_p = np.maximum(log_p, LOWEST_LOG_DENSITY)
            total -= float(fits.problem.mean_weights[fold] @ log_p)
        return total

    def sensitivity(self, fits: FoldFits) -> tuple[float, Sensitivity]:
        factors, orders = self._factors(fits), fits.orders
        m, total = fits.K.shape[1], 0.0
        to_alpha, to_K = np.zeros_like(fits.alpha), np.zeros_like(fits.K)
        by_group = [np.zeros((m, len(self.nodes.points))) for _ in orders]
        for k, fold in enumerate(fits.problem.folds):
            log_p, p, weighted = self._densities(fits, factors, k, fold)
            weights = fits.problem.mean_weights[fold]
            counts = log_p > LOWEST_LOG_DENSITY
            total -= float(weights @ np.where(counts, log_p, LOWEST_LOG_DENSITY))
            # ∂loss/∂T at the nodes: mass of the density minus the response's own
            to_T = self._minus_interpolation(fits, fold, p)
            to_T *= np.where(counts, weights, 0.0)[:, None]
            to_K[fold] = to_T @ weighted.T
            spread = fits.K[fold].T @ to_T
            for group, (s, _) in enumerate(orders):
                own = slice(group * m, (group + 1) * m)
                to_alpha[own, k] = np.einsum(
                    "cg,gc->c", spread, factors.part(0, 0, s, 0)
                )
                by_group[group] += fits.alpha[own, k, None] * spread
        to_y = sum(
            float(np.vdot(weights.T, factors.stretched(0, s)))
            for weights, (s, _) in zip(by_group, orders, strict=True)
        )
        return total, Sensitivity(to_alpha, kernel_x=to_K, log_lengthscale_y=to_y)

    def _factors(self, fits: FoldFits) -> ResponseFactors:
        centers = fits.problem.sample.Y[fits.problem.centers]
        return ResponseFactors(fits.kernel_y, self.nodes.points[:, None], centers)

    def _densities(
        self, fits: FoldFits, factors: ResponseFactors, k: int, fold: slice
    ) -> tuple[Array, Array, Array]:
        """Log density of each row, masses of the nodes (n, g), Σ_s α ∂'ˢk_Y (m, g).

        A failed fit gives log densities of −∞.
        """
        m = fits.K.shape[1]
        weighted = np.zeros_like(factors.part(0, 0, 0, 0))
        for group, (s, _) in enumerate(fits.orders):
            own = fits.alpha[group * m : (group + 1) * m, k]
            weighted += own * factors.part(0, 0, s, 0)
        T = fits.K[fold] @ weighted.T
        T += fits.problem.base.log_density(self.nodes.points[:, None])
        log_p, p = log_densities(self.nodes, T, fits.problem.sample.Y[fold, 0])
        if fits.failed[k]:
            log_p[:] = -np.inf
        return log_p, p, weighted.T

    def _minus_interpolation(self, fits: FoldFits, fold: slice, p: Array) -> Array:
        left, share = self.nodes.interpolation(fits.problem.sample.Y[fold, 0])
        rows = np.arange(len(p))
        p[rows, left] -= 1.0 - share
        p[rows, left + 1] -= share
        return p


@dataclass(frozen=True)
class HeldOutObjective:
    """A held-out loss as a function of θ.

    Attributes:
        problem: Rows, folds and centres.
        kernel_x: Kernel of x whose lengthscales are replaced: radial, or constant,
            which has none.
        kernel_y: Radial kernel of y whose lengthscale is replaced.
        criterion: How the fits are judged.
        penalty: Added to the loss, or None.

    Example:
        >>> import numpy as np
        >>> from kexpfam.base_densities import GaussianBase
        >>> from kexpfam.kernels import Gaussian
        >>> from kexpfam.score_matching import ScoreSample
        >>> rng = np.random.default_rng(0)
        >>> X, Y = rng.normal(size=(40, 2)), rng.normal(size=(40, 1))
        >>> base = GaussianBase(1.5)
        >>> sample = ScoreSample(
        ...     X, Y, np.full(40, 1 / 40), base.grad_log_density(Y), np.ones((40, 1))
        ... )
        >>> problem = HeldOutProblem.make(sample, base, 5, rng, n_centers=10)
        >>> objective = HeldOutObjective(
        ...     problem, Gaussian(), Gaussian(), HeldOutLikelihood.of(problem)
        ... )
        >>> value, gradient = objective.value_and_gradient(np.log([1, 1, 1, 0.1]))
        >>> gradient.shape
        (4,)
    """

    problem: HeldOutProblem
    kernel_x: Kernel
    kernel_y: Kernel
    criterion: Criterion
    penalty: Penalty | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.kernel_x, RadialKernel | Constant):
            raise TypeError(
                f"kernel_x must be a radial kernel or Constant to be searched, got "
                f"{self.kernel_x!r}."
            )
        if not isinstance(self.kernel_y, RadialKernel):
            raise TypeError(
                f"kernel_y must be a radial kernel to be searched, got "
                f"{self.kernel_y!r}."
            )

    @property
    def columns(self) -> int:
        """Number of lengthscales of x."""
        radial = isinstance(self.kernel_x, RadialKernel)
        return self.problem.sample.X.shape[1] if radial else 0

    def kernels(self, parameters: Parameters) -> tuple[Kernel, Kernel]:
        """The kernels of x and y with these lengthscales."""
        return (
            with_lengthscale(self.kernel_x, parameters.lengthscale_x),
            with_lengthscale(self.kernel_y, parameters.lengthscale_y),
        )

    def value(self, theta: Array) -> ObjectiveValue:
        """Loss and penalty at θ (p + 2,)."""
        penalty = self.penalty(theta)[0] if self.penalty else 0.0
        return ObjectiveValue(self.criterion.loss(self._fits(theta)), penalty)

    def value_and_gradient(self, theta: Array) -> tuple[ObjectiveValue, Array]:
        """Loss and penalty at θ, and the gradient of their sum, (p + 2,).

        The gradient is exact, except that with several columns of y its entry of
        log ℓ_y comes from central differences, at the cost of two more values.
        """
        fits = self._fits(theta)
        loss, sensitivity = self.criterion.sensitivity(fits)
        gradient = fits.gradient(sensitivity)
        if np.isnan(gradient[-2]):
            step = np.zeros(len(gradient))
            step[-2] = _STEP
            ends = [self._fits(theta + sign * step) for sign in (1.0, -1.0)]
            above, below = (self.criterion.loss(end) for end in ends)
            gradient[-2] = (above - below) / (2.0 * _STEP)
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
            self.problem, *self.kernels(parameters), parameters.regularization
        )


def with_lengthscale(kernel: Kernel, lengthscale: float | Sequence[float]) -> Kernel:
    """A radial kernel with another lengthscale; any other kernel as it is."""
    if isinstance(kernel, RadialKernel):
        return replace(kernel, lengthscale=lengthscale)
    return kernel
