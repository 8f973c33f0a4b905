"""Searches for the hyperparameters of one family.

A grid and a descent. `paper_grid` is the protocol of Arbel and Gretton (2018); `refine`
follows the gradient of an objective from a start. Each returns a `SearchResult` with
all trials and the reason it stopped. Ctrl-C ends a search early, and returns the best
trial so far.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy import optimize

from kexpfam._typing import Array
from kexpfam._validation import check_choice
from kexpfam.family import CRITERIA, HeldOutProblem, cross_validated
from kexpfam.kernels import Gaussian, Kernel, RadialKernel, separable
from kexpfam.persistence import saved_value
from kexpfam.selection.exact_path import ExactPath
from kexpfam.selection.objectives import (
    OBJECTIVES,
    HeldOutObjective,
    check_searchable,
)
from kexpfam.selection.parameters import Bounds, Parameters, with_lengthscale
from kexpfam.selection.tracker import Progress, SearchResult, Tracker

# The paper searches 20 × 20 values and does not print their ranges. These are ours, for
# standardised data: lengthscales from a tenth of a standard deviation to ten of them,
# and λ from where a hundred rows are interpolated to where nothing is learned.
PAPER_LENGTHSCALES = tuple(np.logspace(-1.0, 1.0, 20).tolist())
PAPER_LAMBDAS = tuple(np.logspace(-5.0, 1.0, 20).tolist())


def paper_grid(
    problem: HeldOutProblem,
    *,
    kernel_x: Kernel | None = None,
    kernel_y: Kernel | None = None,
    lengthscales: Sequence[float] = PAPER_LENGTHSCALES,
    lambdas: Sequence[float] = PAPER_LAMBDAS,
    wide_x: bool = False,
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
        wide_x: Whether lengthscales of x are √p times those of y, as distances in p
            columns are.
        objective: "score", as in the paper, or "likelihood".
        progress: Called after each trial.
        verbose: Draw a progress bar on standard error.

    References:
        Arbel and Gretton (2018), Kernel conditional exponential family.
    """
    kernels = kernel_x or Gaussian(), kernel_y or Gaussian()
    check_searchable(*kernels)
    _check_objective(objective, problem.sample.Y.shape[1])
    radial = isinstance(kernels[0], RadialKernel)
    columns = problem.sample.X.shape[1] if radial else 0
    factor = float(np.sqrt(max(columns, 1))) if wide_x else 1.0
    ends = float(min(lengthscales)), float(max(lengthscales))
    ends_x = factor * ends[0], factor * ends[1]
    bounds = Bounds(ends_x, ends, (float(min(lambdas)), float(max(lambdas))))
    values = [float(lam) for lam in lambdas]
    criterion = partial(CRITERIA[objective].of, dtype=np.float64)
    tracker = Tracker(
        "paper grid", len(lengthscales) * len(values), progress, verbose=verbose
    )

    def run() -> str:
        for ell in map(float, lengthscales):
            ell_x = (factor * ell,) * columns
            kernel = separable(
                with_lengthscale(kernels[0], ell_x),
                with_lengthscale(kernels[1], ell),
            )
            path = ExactPath.of(kernel, problem)
            held_out = cross_validated(
                path.without_folds(values), criterion(problem, path.basis)
            )
            losses = -(held_out @ problem.mean_weights)
            for lam, loss in zip(values, losses, strict=True):
                tracker.record(Parameters(ell_x, ell, lam), loss)
        return "the grid was complete"

    reason = tracker.run(run)
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
            found = _descend(evaluate, origin_z, box, tolerance)
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


def _descend(
    evaluate: Callable[[Array], tuple[float, Array]],
    origin: Array,
    box: list[tuple[float, float]],
    tolerance: float,
) -> optimize.OptimizeResult:
    """Minimise by L-BFGS-B from the origin, with a first step of at most one.

    Within bounds on all variables, L-BFGS-B first tries a whole gradient step, which
    from a bad start ends in a corner. Dividing the objective by the size of its first
    gradient makes that step one unit of log lengthscale.
    """
    first = evaluate(origin)
    scale = 1.0 / max(1.0, float(np.abs(first[1]).max()))

    def scaled(z: Array) -> tuple[float, Array]:
        value, slope = evaluate(z) if np.any(z != origin) else first
        return scale * value, scale * slope

    # Projected gradients below this end it: log lengthscales are then known to far
    # better than the held-out objective can tell them apart.
    flat = 1e-5
    options = {"maxfun": 10**6, "ftol": tolerance * scale, "gtol": flat * scale}
    return optimize.minimize(
        scaled, origin, jac=True, method="L-BFGS-B", bounds=box, options=options
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


def _check_objective(objective: str, columns: int) -> None:
    check_choice("objective", objective, CRITERIA)
    if columns > 1 and OBJECTIVES[objective].one_column:
        raise ValueError(
            f"objective='likelihood' needs one column of y, got {columns}; use 'score'."
        )


@saved_value
@dataclass(frozen=True)
class CoarseSearch:
    """A coarse grid of lengthscales and λ, over all base densities that are open.

    Hard to overfit, and the default.
    """


@saved_value
@dataclass(frozen=True)
class GradientSearch:
    """The coarse grid, then descent over one lengthscale per column of x, ℓ_y and λ.

    The held-out objective improves every time; new data are predicted better only if
    there are many rows for each lengthscale. A penalty pulls towards the grid's choice.

    Attributes:
        bounds: Where parameters may be; None for bounds from the data's resolution.
        penalty: Strength of the pull, in nats per squared logarithm.
        shared_x: Change all lengthscales of x by one common factor.
        max_trials: Most evaluations of the objective.
    """

    bounds: Bounds | None = None
    penalty: float = 0.0
    shared_x: bool = False
    max_trials: int = 100


@saved_value
@dataclass(frozen=True)
class PaperGrid:
    """The grid of Arbel and Gretton (2018): one lengthscale for x and y, and λ.

    Attributes:
        lengthscales: Lengthscales, of x and y alike.
        lambdas: Values of λ.
        wide_x: Whether lengthscales of x are √p times those of y for p columns of x.
    """

    lengthscales: tuple[float, ...] = PAPER_LENGTHSCALES
    lambdas: tuple[float, ...] = PAPER_LAMBDAS
    wide_x: bool = False

    @classmethod
    def narrow(cls) -> "PaperGrid":
        """The grid in the parametrisation of the authors' code, which is narrower.

        k = exp(−‖·‖²/σ) with σ from 0.1 to 10 for y and p times that for x, so that
        lengthscales are √(σ/2), and λ from 10⁻⁴ to 1.

        Example:
            >>> grid = PaperGrid.narrow()
            >>> [round(ell, 2) for ell in grid.lengthscales[::19]]
            [0.22, 2.24]
        """
        sigmas = np.logspace(-1.0, 1.0, 20)
        lengthscales = tuple(np.sqrt(sigmas / 2.0).tolist())
        return cls(lengthscales, tuple(np.logspace(-4.0, 0.0, 20).tolist()), True)


SearchMethod = CoarseSearch | GradientSearch | PaperGrid

_NAMED = {"grid": CoarseSearch, "gradient": GradientSearch, "paper": PaperGrid}


def resolve_search(search: object) -> SearchMethod:
    """The search that a name stands for; a search stands for itself.

    Raises:
        ValueError: It is neither.

    Example:
        >>> resolve_search("gradient").max_trials
        100
    """
    if isinstance(search, SearchMethod):
        return search
    if isinstance(search, str) and search in _NAMED:
        return _NAMED[search]()
    raise ValueError(
        f"search must be {', '.join(map(repr, _NAMED))}, or an object such as "
        f"GradientSearch(penalty=0.1), got {search!r}."
    )
