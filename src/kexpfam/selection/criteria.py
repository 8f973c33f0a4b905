"""How fits are judged on rows they have not seen: by likelihood, or by score.

The likelihood is that of `held_out_log_densities`, in double precision and on nodes
that do not move with the lengthscales, so that it is a smooth function of them. Like
there, no held-out row counts as less than a log density of −50; rows at that floor have
no gradient.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from kexpfam._typing import Array
from kexpfam.partition import Nodes
from kexpfam.selection.factors import ResponseFactors
from kexpfam.selection.fold_fits import FoldFits, Sensitivity
from kexpfam.selection.normalize import log_densities, nodes_inside
from kexpfam.selection.parameters import Bounds
from kexpfam.selection.problem import HeldOutProblem

# A row counts at least this log density: a descent must not be led by one absurd row.
LOWEST_LOG_DENSITY = -50.0


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
        return cls(
            nodes_inside([problem.base], problem.sample.Y, problem.reach, resolution)
        )

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
            float(np.vdot(weights.T, factors.stretched(0, 0, s, 0)))
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
