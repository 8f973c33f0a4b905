"""Kernel quantile regression (Takeuchi et al. 2006), and a density of its quantiles.

Functions f_t of a reproducing kernel Hilbert space, with an intercept, minimise the
pinball loss of their levels with a ridge penalty, and do not cross at the rows
(`pinball`). At new x they are put in order with a least distance from each other:
where quantiles touch there would be no density. What is between and beyond them is in
`quantile_density`.

References:
    Takeuchi, Le, Sears and Smola, Nonparametric Quantile Estimation, JMLR 2006.
"""

import warnings
from collections.abc import Sequence
from typing import Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from kexpfam._typing import Array, ArrayLike, Indices, RandomState
from kexpfam._validation import as_generator, check_choice, check_count, check_levels
from kexpfam.baselines.features import (
    KernelFeatures,
    KernelTrials,
    given_or,
    usual_lengthscales,
)
from kexpfam.baselines.pinball import Effort, PinballRidge, isotonic
from kexpfam.baselines.quantile_density import SCORES, QuantileDensity
from kexpfam.baselines.standardized import OneColumnEstimator, rounding_scales
from kexpfam.data import Rows, distinct_rows
from kexpfam.distributions import Density

# The median is none of them: where pieces meet, a density jumps.
_LEVELS = (0.05, 0.15, 0.25, 0.35, 0.45, 0.55, 0.65, 0.75, 0.85, 0.95)

# From functions that follow single rows to a constant quantile, for y with a standard
# deviation of one.
_LAMBDAS = tuple(np.logspace(1.0, -4.0, 6).tolist())

# Least scales of the pieces of a density, in standard deviations of y.
_LEAST_SCALES = (0.02, 0.05, 0.1, 0.2, 0.4, 0.8)

# Quantiles known to a thousandth of a standard deviation tell candidates apart.
_TRIAL = Effort(tolerance=1e-3, most_steps=300)


class KernelQuantileRegression(OneColumnEstimator):
    """Quantiles in a reproducing kernel Hilbert space that do not cross.

    Args:
        levels: Of the quantiles that are fitted, two at least. Between them the density
            is made of pieces of Student's t.
        lengthscale: Of the Gaussian kernel of x, in standard deviations of the columns;
            None to choose it, from 0.2 to 5 median distances.
        regularization: λ; None to choose it, from 0.0001 to 10.
        least_scale: The least scale of a piece of the density, in standard deviations
            of y; None to choose it by held-out likelihood.
        select: What is held out decides on lengthscale and λ by the "likelihood" of the
            density, or by the "pinball" loss of the quantiles, as the paper has it.
        n_centers: Functions are sums of kernels on so many random rows at most.
        n_folds: Parts of the rows that are held out in turn.
        max_iter: Steps of the last fit at most.
        n_jobs: Threads of evaluation; None for all cores.
        random_state: Seed of centres and folds.

    Attributes:
        lengthscale_: The lengthscale used.
        regularization_: The λ used.
        least_scale_: The least scale used.
        n_iter_: Steps of the last fit; it warns if they were not enough.
        selection_: Losses on the grid, `KernelTrials`; None if nothing was chosen.

    References:
        Takeuchi, Le, Sears and Smola, Nonparametric Quantile Estimation, JMLR 2006.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> x = rng.uniform(-1, 1, size=(200, 1))
        >>> y = np.sin(3 * x[:, 0]) + 0.2 * rng.normal(size=200)
        >>> model = KernelQuantileRegression(random_state=0).fit(x, y)
        >>> model.predict_quantiles([[0.5]], [0.1, 0.5, 0.9]).round(1)
        array([[0.8, 1. , 1.3]])
    """

    selection_: KernelTrials | None

    def __init__(
        self,
        *,
        levels: Sequence[float] = _LEVELS,
        lengthscale: float | None = None,
        regularization: float | None = None,
        least_scale: float | None = None,
        select: str = "likelihood",
        n_centers: int = 500,
        n_folds: int = 5,
        max_iter: int = 20_000,
        n_jobs: int | None = None,
        random_state: RandomState = None,
    ) -> None:
        self.levels = levels
        self.lengthscale = lengthscale
        self.regularization = regularization
        self.least_scale = least_scale
        self.select = select
        self.n_centers = n_centers
        self.n_folds = n_folds
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Fit p(y|x) to rows (x, y).

        Args:
            X: Conditions, (n, p).
            y: Responses, (n,).
            sample_weight: Weight of each row.
        """
        levels = _levels(self.levels)
        m = check_count("n_centers", self.n_centers, least=1)
        k = check_count("n_folds", self.n_folds, least=2)
        effort = Effort(most_steps=check_count("max_iter", self.max_iter, least=1))
        check_choice("select", self.select, ("likelihood", "pinball"))
        rows = self._rows(X, y, sample_weight)
        # Twins in different folds would know of each other.
        used, weights = distinct_rows(rows.X, rows.Y, rows.weights)
        rows = Rows(rows.X[used], rows.Y[used], weights / weights.sum())
        candidates = self._candidates(rows)
        rng = as_generator(self.random_state)
        centers = rows.X[rng.permutation(len(rows))[:m]]
        self.selection_ = None
        if max(map(len, candidates)) > 1:
            folds = np.array_split(rng.permutation(len(rows)), min(k, len(rows)))
            candidates = self._chosen(rows, centers, folds, levels, *candidates)
        ell, lam, self.least_scale_ = (float(some[0]) for some in candidates)
        self.lengthscale_, self.regularization_ = ell, lam
        self.features_ = KernelFeatures.on(centers, ell)
        problem = PinballRidge(self.features_.of(rows.X), rows.Y[:, 0], rows.weights)
        (self.quantiles_,) = problem.path(levels, np.array([lam]), effort)
        self.levels_, self.n_iter_ = levels, self.quantiles_.steps
        if not self.quantiles_.converged:
            warnings.warn(
                f"quantiles are not exact after {self.n_iter_} steps; use more with "
                f"max_iter, or a larger regularization than {lam:g}.",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    def _candidates(self, rows: Rows) -> tuple[Array, Array, Array]:
        """Lengthscales, λ from large to small, and least scales to choose from."""
        scales = given_or(self, "least_scale", np.array(_LEAST_SCALES))
        if self.least_scale is None:
            # Narrower pieces would only find the grid of rounded responses.
            scales = np.maximum(scales, rounding_scales(rows.Y)[0])
        ells = given_or(self, "lengthscale", usual_lengthscales(rows))
        return ells, given_or(self, "regularization", np.array(_LAMBDAS)), scales

    def _chosen(
        self,
        rows: Rows,
        centers: Array,
        folds: list[Indices],
        levels: Array,
        ells: Array,
        lams: Array,
        scales: Array,
    ) -> tuple[Array, Array, Array]:
        """The best of each, by quantiles of rows that were held out."""
        held_out = held_out_quantiles(rows, centers, folds, levels, ells, lams)
        log_losses = np.array(
            [
                [
                    [-_log_p(q, levels, scale, rows) for scale in scales]
                    for q in per_lambda
                ]
                for per_lambda in held_out
            ]
        )
        losses = log_losses.min(axis=2)
        if self.select == "pinball":
            over = rows.Y[:, :1] - isotonic(held_out.reshape(-1, len(levels))).reshape(
                held_out.shape
            )
            pinball = np.maximum(levels * over, (levels - 1.0) * over).mean(axis=-1)
            losses = pinball @ rows.weights
        self.selection_ = KernelTrials(ells, lams, losses)
        i, j = np.unravel_index(np.argmin(losses), losses.shape)
        best = int(np.argmin(log_losses[i, j]))
        return ells[[i]], lams[[j]], scales[[best]]

    def _density(self, X: Array) -> Density:
        found = self.quantiles_.at(self.features_.of(self._scaled(X)))
        apart = in_order(found, self.levels_, self.least_scale_)
        return QuantileDensity(
            apart * self.y_scale_[0] + self.y_center_[0], self.levels_
        )


def held_out_quantiles(
    rows: Rows,
    centers: Array,
    folds: list[Indices],
    levels: Array,
    ells: Array,
    lams: Array,
) -> Array:
    """Quantiles of every row by fits without its fold, (k, l, n, t)."""
    found = np.empty((len(ells), len(lams), len(rows), len(levels)))
    for i, ell in enumerate(ells):
        phi = KernelFeatures.on(centers, float(ell)).of(rows.X)
        for fold in folds:
            kept = np.setdiff1d(np.arange(len(rows)), fold)
            shares = rows.weights[kept] / rows.weights[kept].sum()
            problem = PinballRidge(phi[kept], rows.Y[kept, 0], shares)
            for j, quantiles in enumerate(problem.path(levels, lams, _TRIAL)):
                found[i, j, fold] = quantiles.at(phi[fold])
    return found


def in_order(quantiles: Array, levels: Array, least_scale: float) -> Array:
    """The closest quantiles, (n, t), whose pieces have at least this scale.

    Example:
        >>> levels = np.array([0.25, 0.75])
        >>> in_order(np.array([[1.0, 0.0], [0.0, 9.0]]), levels, 1e-3).round(3)
        array([[0.499, 0.501],
               [0.   , 9.   ]])
    """
    room = least_scale * SCORES.column_quantile(levels, 0)
    return isotonic(quantiles - room) + room


def _log_p(quantiles: Array, levels: Array, scale: float, rows: Rows) -> float:
    p = QuantileDensity(in_order(quantiles, levels, scale), levels)
    return float(p.logpdf(rows.Y[:, 0]) @ rows.weights)


def _levels(given: Sequence[float]) -> Array:
    levels = np.atleast_1d(check_levels("levels", given))
    increasing = len(levels) > 1 and np.all(np.diff(levels) > 0)
    if not increasing or levels[0] <= 0 or levels[-1] >= 1:
        raise ValueError(
            f"levels must be two or more increasing numbers between 0 and 1, got "
            f"{given!r}."
        )
    return levels
