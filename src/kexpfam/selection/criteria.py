"""How fits are judged on rows they have not seen: by likelihood, or by score.

The score of all rows is known from the sums of (16) alone. A likelihood is judged on
some thousands of rows, the judges, however many the fits have seen: more would cost
more than the fits, and tell hardly more.

The likelihood is that of `log_densities_by_score`, in double precision and on nodes
that do not move with the lengthscales, so that it is a smooth function of them. Like
there, no held-out row counts as less than a log density of −50; rows at that floor have
no gradient.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from kexpfam._typing import Array, Indices
from kexpfam.partition import Nodes
from kexpfam.selection.fold_fits import FoldFits, Sensitivity
from kexpfam.selection.held_out import log_densities, nodes_inside
from kexpfam.selection.parameters import Bounds
from kexpfam.selection.problem import (
    HeldOutProblem,
    Panel,
    over_row_blocks,
    row_blocks_of,
)
from kexpfam.selection.sum_gradients import ResponseFactors, stretch_x

# A row counts at least this log density: a descent must not be led by one absurd row.
LOWEST_LOG_DENSITY = -50.0

# Rows that a likelihood is judged on, at most.
MOST_JUDGES = 5000


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
    """Σ_a w_a Σ_i [½ g (∂_iT)² + g ∂_i²T + gsm_linear ∂_iT], T not fitted to a's fold.

    This is Σ_f (½ α·C_f α + b_f·α) with the sums over each held-out fold.
    """

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
        judges: The rows of each fold that are judged; None for all.
    """

    nodes: Nodes
    judges: tuple[Indices, ...] | None = None

    @classmethod
    def of(
        cls,
        problem: HeldOutProblem,
        resolution: float | None = None,
        *,
        most_judges: int = MOST_JUDGES,
    ) -> "HeldOutLikelihood":
        """With nodes for lengthscales of y down to `resolution`.

        Args:
            problem: The rows.
            resolution: None for the shortest lengthscale that `Bounds.of_data` allows.
            most_judges: Rows that are judged, at most: a random part of each fold.

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
        judges, judged = None, problem.sample.Y
        if len(judged) > most_judges:
            judges = _judges(problem, most_judges)
            judged = judged[np.concatenate(judges)]
        nodes = nodes_inside([problem.base], judged, problem.reach, resolution)
        return cls(nodes, judges)

    @property
    def name(self) -> str:
        return "likelihood"

    def loss(self, fits: FoldFits) -> float:
        judging = _Judging.of(self, fits)
        return sum(over_row_blocks(judging.loss, self._panels(fits), fits.n_jobs))

    def sensitivity(self, fits: FoldFits) -> tuple[float, Sensitivity]:
        judging, panels = _Judging.of(self, fits), self._panels(fits)
        stretched = judging.stretched()
        found = over_row_blocks(
            lambda panel: judging.sensitivity(panel, stretched), panels, fits.n_jobs
        )
        to_alpha = np.zeros_like(fits.alpha)
        for panel, (_, own, _) in zip(panels, found, strict=True):
            to_alpha[:, panel.fold] += own
        explicit: Array = np.sum([own for _, _, own in found], axis=0)
        return sum(loss for loss, _, _ in found), Sensitivity(to_alpha, explicit)

    def _panels(self, fits: FoldFits) -> list[Panel]:
        return row_blocks_of(self.judges or fits.problem.rows_of_folds)


def _judges(problem: HeldOutProblem, count: int) -> tuple[Indices, ...]:
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
class _Judging:
    """Fits of one θ, and what is needed to judge panels of rows by them.

    Attributes:
        fits: The fits.
        nodes: Where densities are normalised.
        weights: Row weights that sum to one over the judges, (n,).
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
    def of(cls, criterion: HeldOutLikelihood, fits: FoldFits) -> "_Judging":
        problem, points = fits.problem, criterion.nodes.points[:, None]
        factors = ResponseFactors(
            fits.kernel_y, points, problem.sample.Y[problem.centers]
        )
        weights, judges = problem.sample.weights, criterion.judges
        judged = weights if judges is None else weights[np.concatenate(judges)]
        return cls(
            fits,
            criterion.nodes,
            weights / judged.sum(),
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

    def loss(self, panel: Panel) -> float:
        """What the rows of a panel add to the loss."""
        log_p, _, _, _ = self._densities(panel)
        log_p = np.maximum(log_p, LOWEST_LOG_DENSITY)
        return -float(self.weights[panel.rows] @ log_p)

    def sensitivity(
        self, panel: Panel, stretched: list[Array]
    ) -> tuple[float, Array, Array]:
        """The same, its derivatives in α (M,), and in log ℓ_x and log ℓ_y (p + 1,)."""
        fits, sample = self.fits, self.fits.problem.sample
        log_p, p, weighted, K = self._densities(panel)
        weights = self.weights[panel.rows]
        counts = log_p > LOWEST_LOG_DENSITY
        loss = -float(weights @ np.maximum(log_p, LOWEST_LOG_DENSITY))
        # ∂loss/∂T at the nodes: mass of the density minus the response's own
        to_T = self._minus_interpolation(panel, p)
        to_T *= np.where(counts, weights, 0.0)[:, None]
        spread = K.T @ to_T
        to_alpha = [np.einsum("cg,cg->c", spread, part) for part in self.parts]
        to_log = [np.einsum("cg,cg->c", spread, part) for part in stretched]
        to_y = float(np.concatenate(to_log) @ fits.alpha[:, panel.fold])
        Z = sample.X[fits.problem.centers]
        to_x = stretch_x(fits.kernel_x, sample.X[panel.rows], Z, K, to_T @ weighted.T)
        return loss, np.concatenate(to_alpha), np.append(to_x, to_y)

    def _densities(self, panel: Panel) -> tuple[Array, Array, Array, Array]:
        """Log density of each row, masses of the nodes, Σ_s α ∂'ˢk_Y, and k_X.

        They are (n,), (n, g), (m, g) and (n, m). A failed fit gives a log density of
        −∞.
        """
        fits, sample = self.fits, self.fits.problem.sample
        K = fits.kernel_x.values(sample.X[panel.rows], sample.X[fits.problem.centers])
        groups = fits.alpha[:, panel.fold].reshape(len(self.parts), -1)
        weighted = np.zeros_like(self.parts[0])
        for alpha, part in zip(groups, self.parts, strict=True):
            weighted += alpha[:, None] * part
        T = K @ weighted
        T += self.log_q0
        log_p, p = log_densities(self.nodes, T, sample.Y[panel.rows, 0])
        if fits.failed[panel.fold]:
            log_p[:] = -np.inf
        return log_p, p, weighted, K

    def _minus_interpolation(self, panel: Panel, p: Array) -> Array:
        y = self.fits.problem.sample.Y[panel.rows, 0]
        left, share = self.nodes.interpolation(y)
        rows = np.arange(len(p))
        p[rows, left] -= 1.0 - share
        p[rows, left + 1] -= share
        return p
