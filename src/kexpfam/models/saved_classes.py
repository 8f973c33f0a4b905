"""What a model file may hold, and how each part is checked.

A class that is not in `KINDS` can be neither saved nor loaded. Kernels, base densities,
transforms and searches check themselves when they are made; fitted parts are checked by
functions here, in `saved_checks` and in `saved_stream`, so that a damaged file gives an
error at `load`, and not a NaN later.
"""

import math
from dataclasses import dataclass

import numpy as np

from kexpfam import base_densities, kernels, regression, selection
from kexpfam.base_densities import (
    BaseDensity,
    MarginalBase,
    MonotoneTransform,
    TrainingResponses,
)
from kexpfam.distributions import Bridge
from kexpfam.kernels import SumOfProducts
from kexpfam.models.chart import Chart
from kexpfam.models.encoding import Kind
from kexpfam.models.family import FittedFamily
from kexpfam.models.neighbourhood import Neighbourhood
from kexpfam.models.running import LambdaRule
from kexpfam.models.saved_checks import (
    check_features,
    check_hyperparameters,
    check_inducing_process,
    check_line,
    check_linear_frame,
    check_log_scale,
    check_process,
    check_process_frame,
    check_scaling,
    frame_columns,
    height,
    length,
    require,
    require_lengths,
    require_moderate,
    require_positive,
    require_shapes,
)
from kexpfam.models.saved_stream import (
    SavedFold,
    SavedJudges,
    SavedRows,
    SavedStream,
    SavedSums,
    check_fold,
    check_judges,
    check_rows,
    check_rule,
    check_stream,
    check_sums,
)
from kexpfam.score_matching import KernelExpansion

# Weights of an average sum to one, up to the rounding of many members.
_ROUNDING = 1e-6


@dataclass(frozen=True, eq=False)
class FittedModel:
    """What `KCEF` and `KEF` have learned.

    Attributes:
        family: The fitted family.
        neighbourhood: The rows behind `reliability`; None without conditions.
        stream: What `partial_fit` goes on with; None if it was not to be saved.
    """

    family: FittedFamily
    neighbourhood: Neighbourhood | None = None
    stream: SavedStream | None = None


@dataclass(frozen=True, eq=False)
class FittedMember:
    """A member of an average, without what is told by its family.

    Attributes:
        weight: Its share.
        chart: Name of its chart.
        method: How it was fitted; "none" for a base density alone.
        held_out: Mean held-out log density.
        family: The fit to all rows.
    """

    weight: float
    chart: str
    method: str
    held_out: float
    family: FittedFamily


@dataclass(frozen=True, eq=False)
class FittedAverage:
    """What `AutoKCEF` has learned.

    Attributes:
        members: Largest weight first.
        guard_weight: Weight of the guard.
        guard: Centre and scale of the guard.
        best: The best single family.
        best_method: How it was fitted.
        neighbourhood: The rows behind `reliability`.
        n_candidates: How many families competed.
        stopped: Why no more were tried.
    """

    members: tuple[FittedMember, ...]
    guard_weight: float
    guard: tuple[float, float]
    best: FittedFamily
    best_method: str
    neighbourhood: Neighbourhood
    n_candidates: int
    stopped: str


def _check_chart(chart: Chart) -> None:
    p, d = length(chart, "x_center"), length(chart, "y_center")
    require(d, "array y_center of Chart is empty")
    require_shapes(chart, x_scale=(p,), y_scale=(d,), support=(d, 2))
    require_positive(chart, "x_scale", "y_scale")
    require(
        np.all(chart.support[:, 0] < chart.support[:, 1]),
        "array support is not an interval for each column",
    )
    if chart.frame is not None:
        sound = frame_columns(chart.frame) == (p, d)
        require(sound, "the frame of a chart has other columns")
    if chart.transform is not None:
        require(d == 1, "a transform of y is for one column")
        _check_transform(chart.transform, d)
    if chart.x_transform is not None:
        _check_transform(chart.x_transform, p)


def _check_transform(transform: MonotoneTransform, columns: int) -> None:
    # Touch it once, so that parameters of a wrong length show up here.
    middle = transform.inverse(np.zeros((1, columns)))
    slope = transform.log_slope(middle)
    require(np.isfinite(slope).all(), "a transform is not a finite function")


def _check_expansion(T: KernelExpansion) -> None:
    n, d = height(T, "Y"), T.Y.shape[1]
    require(d, "array Y of KernelExpansion has no columns")
    require(height(T, "X") == n, f"array X has not {n} rows like array Y")
    shapes = {"zeroth": (n,), "first": (n, d), "second": (n, d)}
    held = {key: shape for key, shape in shapes.items() if getattr(T, key) is not None}
    require(held, "an array of coefficients is missing")
    require_shapes(T, **held)
    require_moderate(T, "X", "Y")
    # Touch the kernel once, so that lengthscales of a wrong length show up here.
    value = T.value(T.X[:1], T.Y[:1])
    require(np.isfinite(value).all(), "T is not a finite function")


def _check_family(family: FittedFamily) -> None:
    chart, T = family.chart, family.T
    require_shapes(T, X=(len(T.Y), chart.p), Y=(len(T.Y), chart.d))
    alone = T.first is None and T.second is None and not np.any(T.zeroth)
    require(
        family.lam > 0 and (math.isfinite(family.lam) or alone),
        "lam is not a positive number",
    )
    require(not math.isinf(family.rcond), "rcond is not a number")
    require(family.seed >= 0, "the seed is negative")
    _check_base(family.base, T)


def _check_base(base: BaseDensity, T: KernelExpansion) -> None:
    n, d = T.Y.shape
    if isinstance(base, MarginalBase):
        require(len(base.mixtures) == d, "the base density has other columns")
    else:
        # Touch it once, so that parameters of a wrong length show up here.
        base.prepared(TrainingResponses(T.Y, np.ones(n), np.zeros(d), np.ones(d)))
    covered = np.isfinite(base.log_density(T.Y)).all()
    require(covered, "the base density does not cover the data")


def _check_neighbourhood(near: Neighbourhood) -> None:
    p, m = length(near, "center"), height(near, "rows")
    require_shapes(near, scale=(p,), rows=(m, p), weights=(m,))
    require_positive(near, "scale")
    require_moderate(near, "rows", "weights")
    require_lengths(near, "width")
    require(np.all(near.weights >= 0), "weights of Neighbourhood must not be negative")


def _check_model(model: FittedModel) -> None:
    p, near = model.family.chart.p, model.neighbourhood
    require((near is None) == (p == 0), "the neighbourhood of x is missing")
    require(near is None or len(near.center) == p, "the neighbourhood is of other x")
    if model.stream is not None:
        check_stream(model.stream, model.family)


def _check_member(member: FittedMember) -> None:
    require(0 < member.weight <= 1, "the weight of a member is not a share")
    kernel = member.family.T.kernel
    single = isinstance(kernel, SumOfProducts) and len(kernel.terms) == 1
    require(single, "the kernel of a member is not one product")


def _check_average(average: FittedAverage) -> None:
    require(average.members, "an average has no members")
    shares = [member.weight for member in average.members]
    require(0 <= average.guard_weight <= 1, "the weight of the guard is not a share")
    total = sum(shares) + average.guard_weight
    require(abs(total - 1.0) < _ROUNDING, "the weights do not sum to one")
    sound = all(map(math.isfinite, average.guard)) and average.guard[1] > 0
    require(sound, "the guard is not a density")
    families = [average.best, *(member.family for member in average.members)]
    columns = {(family.chart.p, family.chart.d) for family in families}
    p = len(average.neighbourhood.center)
    require(p and columns == {(p, 1)}, "the members of an average have other columns")
    require(average.n_candidates > 0, "the number of candidates is not positive")


_VALUES = (
    kernels.Constant,
    kernels.Gaussian,
    kernels.InverseMultiquadric,
    kernels.Matern,
    kernels.Product,
    kernels.RationalQuadratic,
    kernels.Sum,
    kernels.SumOfProducts,
    base_densities.GaussianBase,
    base_densities.GaussianProcessBase,
    base_densities.Gaussianize,
    base_densities.GeneralizedGaussianBase,
    base_densities.LinearBase,
    base_densities.MarginalBase,
    base_densities.Rescaled,
    base_densities.StudentBase,
    base_densities.TransformedBase,
    base_densities.TruncatedBase,
    base_densities.UniformBase,
    base_densities.YeoJohnson,
    selection.Bounds,
    selection.CoarseSearch,
    selection.GradientSearch,
    selection.PaperGrid,
    Bridge,
)

_FITTED = (
    Kind(regression.Scaling, check_scaling),
    Kind(regression.Hyperparameters, check_hyperparameters),
    Kind(regression.GaussianProcess, check_process, shared=True),
    Kind(regression.InducingProcess, check_inducing_process, shared=True),
    Kind(regression.LogScaleFeatures, check_features),
    Kind(regression.LogScale, check_log_scale),
    Kind(regression.LinearLocationScale, check_line),
    Kind(base_densities.GaussianProcessFrame, check_process_frame),
    Kind(base_densities.LinearFrame, check_linear_frame),
    Kind(Chart, _check_chart, unbounded=("support",), shared=True),
    Kind(KernelExpansion, _check_expansion, omitted=("n_jobs",)),
    Kind(FittedFamily, _check_family, unbounded=("lam", "rcond")),
    Kind(Neighbourhood, _check_neighbourhood),
    Kind(SavedRows, check_rows),
    Kind(SavedFold, check_fold),
    Kind(SavedJudges, check_judges),
    Kind(LambdaRule, check_rule),
    Kind(SavedSums, check_sums),
    Kind(FittedModel, _check_model, optional=("stream",)),
    Kind(FittedMember, _check_member),
    Kind(FittedAverage, _check_average),
)

KINDS = {kind.cls.__name__: kind for kind in (*map(Kind, _VALUES), *_FITTED)}
