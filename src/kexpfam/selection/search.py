"""Searches for the hyperparameters of one family.

Two grids and a descent. `coarse_grid` is cheap and hard to overfit; `paper_grid` is the
protocol of Arbel and Gretton (2018); `refine` follows the gradient of an objective from
a start. Each returns a `SearchResult` with all trials and the reason it stopped. Ctrl-C
ends a search early, and returns the best trial so far.
"""

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from kexpfam._typing import Array
from kexpfam.heuristics import median_distance
from kexpfam.kernels import Gaussian, Kernel, RadialKernel, separable
from kexpfam.selection import paths
from kexpfam.selection.descent import descend
from kexpfam.selection.objectives import (
    HeldOutObjective,
    check_searchable,
    with_lengthscale,
)
from kexpfam.selection.parameters import Bounds, Parameters
from kexpfam.selection.problem import HeldOutProblem
from kexpfam.selection.result import SearchResult
from kexpfam.selection.tracker import Progress, Tracker

# Lengthscales (of x, of y) and the values of λ to try with them.
Lines = dict[tuple[tuple[float, ...], float], list[float]]

# The coarse grid, as measured on the paper's data sets: lengthscales of x in median
# distances, those of y in the units of the kernel, and λ·ℓ_y².
MULTIPLES_X = (0.15, 0.35, 0.8, 1.8)
LENGTHSCALES_Y = (0.15, 0.35, 0.8, 1.8, 4.0)
RELATIVE_LAMBDAS = (1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0)

# The paper searches 20 × 20 values and does not print their ranges. These are ours, for
# standardised data: lengthscales from a tenth of a standard deviation to ten of them,
# and λ from where a hundred rows are interpolated to where nothing is learned.
PAPER_LENGTHSCALES = tuple(np.logspace(-1.0, 1.0, 20).tolist())
PAPER_LAMBDAS = tuple(np.logspace(-5.0, 1.0, 20).tolist())


def coarse_grid(
    problem: HeldOutProblem,
    *,
    kernel_x: Kernel | None = None,
    kernel_y: Kernel | None = None,
    multiples_x: Sequence[float] = MULTIPLES_X,
    lengthscales_y: Sequence[float] = LENGTHSCALES_Y,
    relative_lambdas: Sequence[float] = RELATIVE_LAMBDAS,
    column_scales: Sequence[float] | None = None,
    objective: str = "likelihood",
    bounds: Bounds | None = None,
    progress: Progress | None = None,
    verbose: bool = False,
) -> SearchResult:
    """Low-rank fits on a grid of lengthscales and a path of λ = r/ℓ_y².

    Args:
        problem: Rows, folds and centres.
        kernel_x: Radial kernel of x, or a constant; None for Gaussian.
        kernel_y: Radial kernel of y; None for Gaussian.
        multiples_x: Lengthscales of x in median distances.
        lengthscales_y: Lengthscales of y.
        relative_lambdas: Values of r.
        column_scales: Relative lengthscales of the columns of x, for instance from a
            Gaussian process; the median distance is that of x divided by them.
        objective: "likelihood" or "score".
        bounds: Values outside are moved to them; None for `Bounds.of_data`.
        progress: Called after each trial.
        verbose: Draw a progress bar on standard error.

    Example:
        >>> from kexpfam.base_densities import GaussianBase
        >>> from kexpfam.score_matching import ScoreSample
        >>> rng, base = np.random.default_rng(0), GaussianBase(2.0)
        >>> X = rng.normal(size=(40, 1))
        >>> Y = X + 0.3 * rng.normal(size=(40, 1))
        >>> sample = ScoreSample(
        ...     X, Y, np.full(40, 1 / 40), base.grad_log_density(Y), np.ones((40, 1))
        ... )
        >>> result = coarse_grid(HeldOutProblem.make(sample, base, 5, rng))
        >>> len(result.path), result.reason
        (120, 'the grid was complete')
    """
    kernels = kernel_x or Gaussian(), kernel_y or Gaussian()
    check_searchable(*kernels)
    X = problem.sample.X
    bounds = bounds or Bounds.of_data(X, problem.sample.Y)
    radial = isinstance(kernels[0], RadialKernel)
    scales = np.ones(X.shape[1]) if column_scales is None else np.asarray(column_scales)
    lengths = median_distance(X / scales) * scales if radial else np.zeros(0)
    lines: Lines = {}
    for multiple in multiples_x if radial else (1.0,):
        for ell_y in np.clip(lengthscales_y, *bounds.lengthscale_y).tolist():
            grid = [
                bounds.clip(Parameters(tuple(multiple * lengths), ell_y, r / ell_y**2))
                for r in relative_lambdas
            ]
            # The bounds may make neighbours equal; each is tried once.
            key = grid[0].lengthscale_x, grid[0].lengthscale_y
            lines[key] = list(dict.fromkeys(p.regularization for p in grid))
    choices = {
        "likelihood": paths.low_rank_likelihoods,
        "score": paths.low_rank_scores,
    }
    losses = _losses(objective, choices, problem)
    tracker = Tracker("coarse grid", _size(lines), progress, verbose=verbose)
    reason = tracker.run(lambda: _walk(tracker, problem, kernels, lines, losses))
    folds = len(problem.folds)
    return tracker.result(kernels, objective, folds, bounds, None, reason)


def paper_grid(
    problem: HeldOutProblem,
    *,
    kernel_x: Kernel | None = None,
    kernel_y: Kernel | None = None,
    lengthscales: Sequence[float] = PAPER_LENGTHSCALES,
    lambdas: Sequence[float] = PAPER_LAMBDAS,
    objective: str = "score",
    progress: Progress | None = None,
    verbose: bool = False,
) -> SearchResult:
    """Exact fits on the paper's grid of one lengthscale σ for x and y, and λ.

    Each σ costs one eigendecomposition of the exact system, whatever the number of λ.
    The penalty nλ is held fixed when a fold is left out (`exact_path`), so the chosen λ
    is that of a fit to all rows. The grid's own ends are the bounds of the result; the
    bounds of `Bounds.of_data` do not apply.

    Args:
        problem: Rows and folds; all rows are centres.
        kernel_x: Radial kernel of x, or a constant; None for Gaussian.
        kernel_y: Radial kernel of y; None for Gaussian.
        lengthscales: Values of σ, in the units of the kernel.
        lambdas: Values of λ.
        objective: "score", as in the paper, or "likelihood".
        progress: Called after each trial.
        verbose: Draw a progress bar on standard error.

    References:
        Arbel and Gretton (2018), Kernel conditional exponential family.
    """
    kernels = kernel_x or Gaussian(), kernel_y or Gaussian()
    check_searchable(*kernels)
    radial = isinstance(kernels[0], RadialKernel)
    columns = problem.sample.X.shape[1] if radial else 0
    ends = float(min(lengthscales)), float(max(lengthscales))
    bounds = Bounds(ends, ends, (float(min(lambdas)), float(max(lambdas))))
    lines = {
        ((float(ell),) * columns, float(ell)): [float(lam) for lam in lambdas]
        for ell in lengthscales
    }
    choices = {"likelihood": paths.exact_likelihoods, "score": paths.exact_scores}
    losses = _losses(objective, choices, problem)
    tracker = Tracker("paper grid", _size(lines), progress, verbose=verbose)
    reason = tracker.run(lambda: _walk(tracker, problem, kernels, lines, losses))
    folds = len(problem.folds)
    return tracker.result(kernels, objective, folds, bounds, None, reason)


def refine(
    objective: HeldOutObjective,
    start: Parameters,
    *,
    bounds: Bounds | None = None,
    shared_x: bool = False,
    fixed: Collection[str] = (),
    max_trials: int = 100,
    tolerance: float = 1e-5,
    progress: Progress | None = None,
    verbose: bool = False,
) -> SearchResult:
    """Descend from a start by L-BFGS-B over log lengthscales and log λ.

    Many free lengthscales overfit small data: the held-out objective improves, and new
    data are predicted worse. A penalty in the objective, or `shared_x`, guards against
    that.

    Args:
        objective: What to minimise, with its penalty.
        start: Where to begin; moved into the bounds if outside.
        bounds: None for `Bounds.of_data`.
        shared_x: Change all lengthscales of x by one common factor.
        fixed: What stays as it is at the start, whatever the bounds: "lengthscale_x",
            "lengthscale_y" or "regularization".
        max_trials: Most evaluations of the objective.
        tolerance: Stop when a step improves the objective by less than this, relative
            to the larger of its value and one.
        progress: Called after each trial.
        verbose: Draw a progress bar on standard error.

    Raises:
        IllConditionedError: The objective cannot be evaluated at the start.
    """
    sample = objective.problem.sample
    bounds = bounds or Bounds.of_data(sample.X, sample.Y)
    free = np.array([name.split("[")[0] not in fixed for name in start.names])
    origin = np.where(free, bounds.clip(start).theta, start.theta)
    directions = _directions(objective.columns, shared_x=shared_x)
    directions = directions[:, free @ directions > 0]
    limits = bounds.theta(objective.columns) - origin[:, None]
    box = [(limits[k, 0].max(), limits[k, 1].min()) for k in directions.T > 0]
    tracker = Tracker("refinement", max_trials, progress, verbose=verbose)

    def evaluate(z: Array) -> tuple[float, Array]:
        if len(tracker.trials) >= max_trials:
            raise _OutOfTrialsError
        theta = origin + directions @ z
        value, gradient = objective.value_and_gradient(theta)
        clipped = bounds.clip(Parameters.from_theta(theta)).theta
        parameters = Parameters.from_theta(np.where(free, clipped, theta))
        tracker.record(parameters, value.total, value.penalty)
        if not np.isfinite(value.total):
            # A fit failed: worse than all others, so that the line search turns back.
            return tracker.worst + 1.0, np.zeros(len(z))
        return value.total, gradient @ directions

    def run() -> str:
        origin_z = np.zeros(directions.shape[1])
        try:
            found = descend(evaluate, origin_z, box, tolerance)
        except _OutOfTrialsError:
            return f"the limit of {max_trials} trials was reached"
        if found.success:
            return (
                f"a step improved the objective by less than {tolerance:.1g}, or none"
            )
        return "the line search found nothing better, as rounding limits the objective"

    reason = tracker.run(run)
    return tracker.result(
        (objective.kernel_x, objective.kernel_y),
        objective.criterion.name,
        len(objective.problem.folds),
        bounds,
        objective.penalty,
        reason,
    )


class _OutOfTrialsError(Exception):
    """The objective was evaluated as often as allowed."""


def _directions(columns: int, *, shared_x: bool) -> Array:
    """What is moved together, as columns of (p + 2, k)."""
    identity = np.eye(columns + 2)
    if not shared_x or columns == 0:
        return identity
    together = identity[:, :columns].sum(axis=1, keepdims=True)
    return np.concatenate([together, identity[:, columns:]], axis=1)


def _losses(
    objective: str, choices: Mapping[str, paths.LossPath], problem: HeldOutProblem
) -> paths.LossPath:
    if objective not in choices:
        raise ValueError(
            f"objective must be 'likelihood' or 'score', got {objective!r}."
        )
    columns = problem.sample.Y.shape[1]
    if objective == "likelihood" and columns > 1:
        raise ValueError(
            f"objective='likelihood' needs one column of y, got {columns}; use 'score'."
        )
    return choices[objective]


def _size(lines: Lines) -> int:
    return sum(len(lams) for lams in lines.values())


def _walk(
    tracker: Tracker,
    problem: HeldOutProblem,
    kernels: tuple[Kernel, Kernel],
    lines: Lines,
    losses: paths.LossPath,
) -> str:
    """Try every line of a grid."""
    for (ell_x, ell_y), lams in lines.items():
        kernel = separable(
            with_lengthscale(kernels[0], ell_x), with_lengthscale(kernels[1], ell_y)
        )
        values = losses(problem, kernel, lams)
        for lam, value in zip(lams, values, strict=True):
            tracker.record(Parameters(ell_x, ell_y, lam), value)
    return "the grid was complete"
