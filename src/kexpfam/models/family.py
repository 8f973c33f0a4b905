"""The fitted family: what both estimators learn, free of scikit-learn's conventions.

`fit_family` is the whole fit in order: bring the rows into a chart, fill in
lengthscales and λ, solve. The unconditional family is the conditional one with zero
columns of x and a constant kernel of x.
"""

import os
from dataclasses import dataclass

import numpy as np

from kexpfam._typing import Array, Indices
from kexpfam._validation import check_positive, spread_of
from kexpfam.base_densities import (
    BaseDensity,
    ConditionalBase,
    TransformedBase,
    boundary_weights,
    resolve_base,
)
from kexpfam.distributions import Coordinates, MultivariateDensity, UnivariateDensity
from kexpfam.errors import DegenerateDataError
from kexpfam.heuristics import median_filler
from kexpfam.kernels import (
    MEDIAN,
    Gaussian,
    JointKernel,
    Kernel,
    LengthScale,
    SumOfProducts,
    separable,
)
from kexpfam.linalg import thread_count
from kexpfam.models.chart import Chart, Charted, ChartOptions, fit_chart
from kexpfam.score_matching import (
    Basis,
    KernelExpansion,
    ScoreSample,
    TiltedDensity,
    fit_exact,
    fit_low_rank,
)

# Untuned defaults (docs/decisions/0003-untuned-defaults.md says how they were found):
# lengthscales in median distances, and λ = LAMBDA · n^(−LAMBDA_RATE) / ℓ_y².
MEDIANS_X = 0.5
MEDIANS_Y = 1.4
LAMBDA = 0.2
LAMBDA_RATE = 0.75

# Lengthscales of y that can be used; derivatives contain their inverse fourth powers.
_SHORTEST, _LONGEST = 1e-50, 1e50


@dataclass(frozen=True)
class Options:
    """What a user can choose; None stands for the untuned default."""

    kernel_y: Kernel | None
    kernel_x: Kernel | None
    kernel: JointKernel | None
    base: BaseDensity | ConditionalBase | TransformedBase | str | None
    regularization: float | None
    standardize: bool
    n_jobs: int | None
    n_components: int | None = None
    # What the user calls the responses and their kernel, for error messages.
    response_name: str = "y"
    kernel_name: str = "kernel_y"


@dataclass(frozen=True)
class FittedFamily:
    """p(y|x) = q0(y|x) exp T(x, y) / Z(x), fitted.

    Attributes:
        chart: How rows get into the coordinates of the kernel.
        base: q0 in these coordinates.
        T: The fitted function.
        lam: The regulariser λ.
        rcond: Lower bound of the reciprocal condition number of the fit; NaN if the
            solver does not tell.
        seed: Seed of importance sampling.
    """

    chart: Chart
    base: BaseDensity
    T: KernelExpansion
    lam: float
    rcond: float
    seed: int

    @property
    def d(self) -> int:
        """Number of columns of y."""
        return self.chart.d

    @property
    def solver(self) -> str:
        """How T was found: "exact", or "low-rank" at some centres."""
        return "exact" if self.T.second is not None else "low-rank"

    def density(
        self, X: Array, *, single: bool = False
    ) -> UnivariateDensity | MultivariateDensity:
        """The normalised densities at conditions X (n, p)."""
        if self.d == 1:
            return self.one_column(X, single=single)
        tilted, coordinates = self._tilted(X)
        resolution = self.T.kernel.resolution
        return MultivariateDensity.normalize(
            tilted, coordinates, resolution, self.seed, single=single
        )

    def one_column(self, X: Array, *, single: bool = False) -> UnivariateDensity:
        """The same where y has one column."""
        tilted, coordinates = self._tilted(X)
        resolution = self.T.kernel.resolution
        return UnivariateDensity.normalize(
            tilted, coordinates, resolution, single=single
        )

    def _tilted(self, X: Array) -> tuple[TiltedDensity, Coordinates]:
        Z = self.chart.conditions(X)
        return TiltedDensity(self.base, self.T, Z), self.chart.coordinates(Z)


@dataclass(frozen=True)
class TrainingRows:
    """Validated rows of positive weight.

    Attributes:
        X: Conditions, (n, p); p is 0 for the unconditional family.
        Y: Responses, (n, d).
        weights: Positive row weights; their sum counts the rows, (n,).
        options: How they get into a chart.
    """

    X: Array
    Y: Array
    weights: Array
    options: ChartOptions


def training_rows(X: Array, Y: Array, weights: Array, options: Options) -> TrainingRows:
    """Rows that count, and the chart that the user asked for.

    Raises:
        DegenerateDataError: There are too few rows.
    """
    if not isinstance(options.standardize, bool | np.bool_):
        raise ValueError(
            f"standardize must be True or False, got {options.standardize!r}."
        )
    thread_count(options.n_jobs)  # refuses what is not a number of threads
    used = np.flatnonzero(weights > 0)
    if len(used) < len(weights):
        X, Y, weights = X[used], Y[used], weights[used]
    if len(Y) < 2:
        raise DegenerateDataError(
            f"At least 2 rows with positive weight are needed, got {len(Y)}."
        )
    base = options.base
    if not isinstance(base, TransformedBase):
        base = resolve_base("gaussian" if base is None else base)
    chart_options = ChartOptions(
        base, options.standardize, False, options.response_name, used
    )
    return TrainingRows(X, Y, weights, chart_options)


def fit_family(
    X: Array,
    Y: Array,
    weights: Array,
    options: Options,
    rng: np.random.Generator,
) -> FittedFamily:
    """Fit the family to validated rows, with rules for what the user left open.

    Args:
        X: Conditions, (n, p); p is 0 for the unconditional family.
        Y: Responses, (n, d).
        weights: Row weights, not negative; their sum counts the rows.
        options: The user's choices.
        rng: Used by conditional bases for their folds, and for a seed.

    Raises:
        DegenerateDataError: A column of y has no spread, or y leaves the support.
    """
    rows = training_rows(X, Y, weights, options)
    seed = int(rng.integers(2**31))
    charted = fit_chart(rows.X, rows.Y, rows.weights, rows.options, rng)
    kernel = resolve_joint(options, charted.Z, charted.U, charted.weights)
    lam = _resolve_lambda(options.regularization, kernel, charted.weights)
    n_components = options.n_components
    centers = (
        None if n_components is None else chosen_centers(len(rows.Y), n_components)
    )
    return solve(
        charted, kernel, lam, seed=seed, centers=centers, n_jobs=options.n_jobs
    )


def solve(
    charted: Charted,
    kernel: JointKernel,
    lam: float,
    *,
    seed: int,
    centers: Indices | None = None,
    n_jobs: int | None = None,
) -> FittedFamily:
    """Fit T to rows in a chart, with a kernel and λ that are settled.

    Args:
        charted: Rows in a chart.
        kernel: The joint kernel.
        lam: λ.
        seed: Seed of importance sampling.
        centers: Rows at which the basis of a low-rank fit is; None for an exact fit.
        n_jobs: Threads.
    """
    sample = score_sample(charted)
    if centers is None:
        _check_memory(charted.U.size)
        fit = fit_exact(kernel, sample, lam, n_jobs=n_jobs)
        T, lam, rcond = fit.T, fit.lam, fit.rcond
    else:
        basis = Basis(kernel, charted.Z[centers], charted.U[centers], derivatives=False)
        T, rcond = fit_low_rank(basis, sample, lam, n_jobs=n_jobs), float("nan")
    return FittedFamily(charted.chart, charted.base, T, lam, rcond, seed)


def chosen_centers(n: int, n_components: int) -> Indices:
    """Rows at random, always the same for the same number."""
    rng = np.random.default_rng(0)
    return np.sort(rng.choice(n, min(n, n_components), replace=False))


def resolve_joint(options: Options, X: Array, U: Array, weights: Array) -> JointKernel:
    """The joint kernel with its lengthscales filled in."""
    kernel = options.kernel
    if kernel is None:
        given = {"kernel_x": options.kernel_x, options.kernel_name: options.kernel_y}
        for name, part in given.items():
            if part is not None and not isinstance(part, Kernel):
                raise TypeError(
                    f"{name} must be a kernel such as Gaussian(1.0), or None; got "
                    f"{part!r}."
                )
        kernel_x, kernel_y = (part or Gaussian(MEDIAN) for part in given.values())
        kernel = separable(kernel_x, kernel_y)
    elif options.kernel_x is not None or options.kernel_y is not None:
        raise ValueError(
            "kernel is a joint kernel of (x, y); give it, or kernel_x and kernel_y, "
            "not both."
        )
    if not isinstance(kernel, JointKernel):
        raise TypeError(
            f"kernel must be a joint kernel, such as separable(Gaussian(0.5), "
            f"Gaussian(1.0)), or None; got {kernel!r}."
        )
    if not isinstance(kernel, SumOfProducts):
        return kernel
    filled = kernel.map_lengthscales(
        median_filler(X, weights, MEDIANS_X), median_filler(U, weights, MEDIANS_Y)
    )
    return _require_ordinary_lengths(filled)


def _require_ordinary_lengths(kernel: SumOfProducts) -> SumOfProducts:
    """Refuse lengthscales of y whose fourth powers a double cannot hold."""

    def check(lengthscale: LengthScale) -> LengthScale:
        if np.min(lengthscale) < _SHORTEST or np.max(lengthscale) > _LONGEST:
            raise ValueError(
                f"The lengthscale of y must lie between {_SHORTEST} and {_LONGEST}, "
                f"got {lengthscale!r}; use standardize=True or rescale y."
            )
        return lengthscale

    for _, kernel_y in kernel.terms:
        kernel_y.map_lengthscales(check)
    return kernel


def _resolve_lambda(
    regularization: float | None, kernel: JointKernel, weights: Array
) -> float:
    if regularization is not None:
        return check_positive("regularization", regularization)
    # G has 1/ℓ² on its diagonal, so λ in units of 1/ℓ² has the same effect at any ℓ.
    ell = kernel.resolution if np.isfinite(kernel.resolution) else 1.0
    return LAMBDA / (ell**2 * float(weights.sum()) ** LAMBDA_RATE)


def score_sample(charted: Charted, base: BaseDensity | None = None) -> ScoreSample:
    """What score matching needs to know of rows in a chart, for its base or another."""
    base, U, weights = base or charted.base, charted.U, charted.weights
    gradient = base.grad_log_density(U)
    _, spread = spread_of("y", U, weights)
    g, slope = boundary_weights(U, base.support(U.shape[1]), spread)
    if not np.any(g > 0):
        raise DegenerateDataError(
            f"All {len(U)} rows lie on an edge of the base density's support, where "
            f"score matching learns nothing; widen the bounds."
        )
    return ScoreSample(
        X=charted.Z,
        Y=U,
        weights=weights / weights.sum(),
        drift=slope + g * gradient,
        diffusion=g,
    )


def _check_memory(size: int) -> None:
    """Refuse a fit whose matrix does not fit in memory, before it takes the machine."""
    needed = 8 * size * size
    try:
        physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return
    if needed > 0.8 * physical:
        raise MemoryError(
            f"An exact fit of {size} responses (rows x columns) needs a matrix of "
            f"{needed / 2**30:.0f} GiB, and this machine has "
            f"{physical / 2**30:.0f} GiB; fit a random subset of the rows."
        )
