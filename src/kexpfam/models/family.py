"""The fitted family: what both estimators learn, free of scikit-learn's conventions.

`fit_family` is the whole fit in order: bring the rows into a chart, fill in
lengthscales and λ, solve. The unconditional family is the conditional one with zero
columns of x and a constant kernel of x.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kexpfam._heuristics import median_filler
from kexpfam._parallel import thread_count
from kexpfam._typing import Array, Indices
from kexpfam._validation import check_flag, check_positive
from kexpfam.base_densities import (
    Base,
    BaseDensity,
    GaussianBase,
    MarginalBase,
    resolve_base,
)
from kexpfam.blocks import DEFAULT_BUDGET
from kexpfam.distributions import (
    Bridge,
    BridgedDensity,
    MultivariateDensity,
    UnivariateDensity,
    UnnormalizedDensity,
)
from kexpfam.errors import DegenerateDataError
from kexpfam.kernels import (
    MEDIAN,
    Gaussian,
    JointKernel,
    Kernel,
    LengthScale,
    SumOfProducts,
    separable,
)
from kexpfam.models.chart import Chart, Charted, ChartOptions, fit_chart
from kexpfam.models.solvers import (
    COMPONENTS,
    chosen_centers,
    fit_function,
    untuned_lambda,
)
from kexpfam.persistence import saved_fit
from kexpfam.score_matching import KernelExpansion, TiltedDensity
from kexpfam.selection import CoarseSearch, SearchMethod

# Untuned lengthscales in median distances
# (docs/decisions/0003-untuned-defaults.md says how they were found).
MEDIANS_X = 0.5
MEDIANS_Y = {"score": 1.4, "likelihood": 0.7, "bridged": 0.6}

# The base density that is used if none is given: the paper's. Bridged fits mix draws
# from it with the rows: wider ones than this are spent where there is nothing to
# connect, and narrower ones leave the outer islands without a bridge.
BASES: dict[str, BaseDensity] = {
    "score": GaussianBase(scale=2.0),
    "likelihood": GaussianBase(scale=2.0),
    "bridged": GaussianBase(scale=1.5),
}

# Lengthscales of y that can be used; derivatives contain their inverse fourth powers.
_SHORTEST, _LONGEST = 1e-50, 1e50


@dataclass(frozen=True)
class Limits:
    """How large a fit may be, and from where on it is made in another way.

    Attributes:
        design_rows: Rows that a design is chosen on, and that `partial_fit` keeps, at
            most: what is chosen from so many hardly changes with more.
        exact_size: Rows times columns of y up to which a fit without a choice is exact
            unless told how many centres to have: a second or two.
        counted_rows: Rows from which on the number of centres is judged, if it is open.
        fewest_centers: Centres that are judged if the user does not say how many: from
            this number on, doubled up to
        most_centers: this one,
        rows_per_center: and no more than one for so many rows.
        member_centers: Centres of each member of an average, at most, where their
            number is judged: the members share one pass over the rows.
        judged_rows: Rows that candidates are judged on, at most; the chosen ones are
            fitted to all.
        judged_rows_of_several: The same with several columns of y, where rows are nodes
            of an integral too, and cost their square.
    """

    design_rows: int = 20_000
    exact_size: int = 5000
    counted_rows: int = 1000
    fewest_centers: int = 128
    most_centers: int = 1024
    rows_per_center: int = 2
    member_centers: int = 512
    judged_rows: int = 5000
    judged_rows_of_several: int = 1500


@dataclass(frozen=True)
class Options:
    """What a user can choose; None stands for the untuned default."""

    kernel_y: Kernel | None
    kernel_x: Kernel | None
    kernel: JointKernel | None
    base: Base | str | None
    regularization: float | None
    standardize: bool
    n_jobs: int | None
    n_components: int | None = None
    fit_method: str = "score"
    centers: str = "random_pivoted"
    derivatives: bool = False
    solver: str | None = None
    memory_budget: int = DEFAULT_BUDGET
    limits: Limits = Limits()
    # How to choose what is open: by "likelihood", by "score", or not at all.
    select: str | None = "likelihood"
    search: SearchMethod = field(default_factory=CoarseSearch)
    verbose: bool = False
    # Dask client for passes over a source.
    client: Any = None
    # What the user calls the responses and their kernel, for error messages.
    response_name: str = "y"
    kernel_name: str = "kernel_y"


@saved_fit(
    {
        "chart": "p d",
        "T": "p d",
        "lam": "positive unbounded",
        "rcond": "unbounded",
        "seed": "nonnegative",
    }
)
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
        seed: Seed of the draws that normalise several columns.
        bridge: What was mixed with the rows before the fit, and is taken away from the
            densities; None if nothing was.
    """

    chart: Chart
    base: BaseDensity
    T: KernelExpansion
    lam: float
    rcond: float
    seed: int
    bridge: Bridge | None = None

    def check_saved(self) -> None:
        """Refuse λ and base densities that no fit has."""
        T, Y = self.T, self.T.Y
        alone = T.first is None and T.second is None and not np.any(T.zeroth)
        if np.isinf(self.lam) and not alone:
            raise ValueError("lam of FittedFamily is not finite")
        if np.isinf(self.rcond):
            raise ValueError("rcond of FittedFamily is not a number")
        n, d = Y.shape
        if isinstance(self.base, MarginalBase):
            if len(self.base.mixtures) != d:
                raise ValueError("the base density has other columns")
        else:
            # Touched once, so that parameters of a wrong length show up here.
            self.base.prepared(Y, np.ones(n))
        if not np.isfinite(self.base.log_density(Y)).all():
            raise ValueError("the base density does not cover the data")

    @property
    def d(self) -> int:
        """Number of columns of y."""
        return self.chart.d

    @property
    def solver(self) -> str:
        """How T was found: "exact", or "low-rank" at some centres."""
        return "exact" if self.T.second is not None else "low-rank"

    def density(
        self, X: Array, *, single: bool = False, partition: str = "auto"
    ) -> UnivariateDensity | MultivariateDensity:
        """The normalised densities at conditions X (n, p).

        One column is normalised by quadrature, more as `partition` says.
        """
        if self.d == 1:
            return self.one_column(X, single=single)
        Z = self.chart.conditions(X)
        return MultivariateDensity.normalize(
            TiltedDensity(self.base, self.T, Z),
            self.chart.coordinates(Z),
            self.T.kernel.resolution,
            self.seed,
            single=single,
            method=partition,
        )

    def one_column(self, X: Array, *, single: bool = False) -> UnivariateDensity:
        """The same where y has one column."""
        Z = self.chart.conditions(X)
        return UnivariateDensity.normalize(
            self.unnormalized(Z),
            self.chart.coordinates(Z),
            self.T.kernel.resolution,
            single=single,
        )

    def unnormalized(self, Z: Array) -> UnnormalizedDensity:
        """Densities of one column in the coordinates of the kernel, at Z (n, p)."""
        tilted = TiltedDensity(self.base, self.T, Z)
        if self.bridge is None:
            return tilted
        resolution = self.T.kernel.resolution
        return BridgedDensity.of(tilted, self.bridge.m, self.bridge.share, resolution)


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


def training_rows(
    X: Array,
    Y: Array,
    weights: Array,
    options: Options,
    *,
    shuffled: bool = False,
) -> TrainingRows:
    """Rows that count, equal ones as one, and the chart that the user asked for.

    If shuffled, in a random order that does not depend on the order in which they come,
    nor on units: sorted first. If not, in that of the user.
    """
    check_flag("standardize", options.standardize)
    thread_count(options.n_jobs)  # refuses what is not a number of threads
    used, totals = distinct_rows(X, Y, weights)
    order = np.argsort(used)
    if shuffled:
        order = np.random.default_rng(0).permutation(len(used))
    used, weights = used[order], totals[order]
    X, Y = X[used], Y[used]
    if len(Y) < 2:
        raise DegenerateDataError(
            f"At least 2 rows with positive weight are needed, got {len(Y)}."
        )
    base = options.base
    base = resolve_base(BASES[options.fit_method] if base is None else base)
    chart_options = ChartOptions(
        base, options.standardize, False, options.response_name, used
    )
    return TrainingRows(X, Y, weights, chart_options)


def fit_family(
    rows: TrainingRows, options: Options, rng: np.random.Generator
) -> FittedFamily:
    """Fit the family to rows, with rules for what the user left open."""
    seed = int(rng.integers(2**31))
    charted = fit_chart(rows.X, rows.Y, rows.weights, rows.options, rng)
    kernel = resolve_joint(options, charted.Z, charted.U, charted.weights)
    method = options.fit_method
    lam = options.regularization
    if lam is None:
        lam = untuned_lambda(kernel, charted.weights, method)
    exact = method == "score" and options.n_components is None
    n_components = judged_components(options)
    return solve(
        charted,
        kernel,
        check_positive("regularization", lam),
        seed=seed,
        centers=None if exact else chosen_centers(len(rows.Y), n_components),
        n_jobs=options.n_jobs,
        method=method,
    )


def judged_components(options: Options) -> int:
    """How many centres a low-rank fit has, unless the user says."""
    return options.n_components or COMPONENTS[options.fit_method]


def solve(
    charted: Charted,
    kernel: JointKernel,
    lam: float,
    *,
    seed: int,
    centers: Indices | None = None,
    n_jobs: int | None = None,
    method: str = "score",
) -> FittedFamily:
    """Fit T to rows in a chart, with a kernel and λ that are settled.

    `centers` are rows at which the basis of a low-rank fit is; None for an exact fit by
    score matching.
    """
    found = fit_function(charted, kernel, lam, centers, n_jobs, method)
    return FittedFamily(
        charted.chart, charted.base, found.T, found.lam, found.rcond, seed, found.bridge
    )


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
    medians_y = MEDIANS_Y[options.fit_method]
    filled = kernel.map_lengthscales(
        median_filler(X, weights, MEDIANS_X), median_filler(U, weights, medians_y)
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


def distinct_rows(X: Array, Y: Array, weights: Array) -> tuple[Indices, Array]:
    """One of all equal rows of positive weight, and what they weigh together.

    Row numbers are in the order of their content. To a density equal rows are the same.
    But copies of a row that are in different folds, or that predict each other where a
    row is left out, know the answer: everything that is judged on what was held out
    would be flattered. Rows that are all equal are left as they are: there is nothing
    to learn from them, and messages should count them.

    Example:
        >>> x, y = np.array([[2.0], [1.0], [2.0]]), np.array([[0.0], [5.0], [0.0]])
        >>> distinct_rows(x, y, np.ones(3))
        (array([0, 1]), array([2., 1.]))
    """
    used = np.flatnonzero(weights > 0)
    order = used[np.lexsort((weights[used], *X[used].T, *Y[used].T))]
    new = np.ones(len(order), dtype=bool)
    new[1:] = np.any(Y[order[1:]] != Y[order[:-1]], axis=1)
    new[1:] |= np.any(X[order[1:]] != X[order[:-1]], axis=1)
    if new.all():
        return order, weights[order]
    starts = np.flatnonzero(new)
    if len(starts) == 1:
        return used, weights[used]
    totals = np.add.reduceat(weights[order], starts)
    return np.minimum.reduceat(order, starts), totals
