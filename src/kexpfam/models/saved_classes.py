"""What a model file may hold, and how each part is checked.

A class that is not in `KINDS` can be neither saved nor loaded. Kernels, base densities,
transforms and searches check themselves when they are made; fitted parts are checked
here, so that a damaged file gives an error at `load` and not a NaN later.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from kexpfam import base_densities, kernels, regression, selection
from kexpfam.base_densities import (
    BaseDensity,
    Frame,
    GaussianProcessFrame,
    LinearFrame,
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
from kexpfam.regression import (
    GaussianProcess,
    Hyperparameters,
    LinearLocationScale,
    LogScale,
    LogScaleFeatures,
    Scaling,
)
from kexpfam.score_matching import KernelExpansion

# Log scales beyond this have no squares that a double can hold.
_LARGEST_LOG_SCALE = 300.0

# Weights of an average sum to one, up to the rounding of many members.
_ROUNDING = 1e-6


@dataclass(frozen=True, eq=False)
class FittedModel:
    """What `KCEF` and `KEF` have learned.

    Attributes:
        family: The fitted family.
        neighbourhood: The rows behind `reliability`; None without conditions.
    """

    family: FittedFamily
    neighbourhood: Neighbourhood | None = None


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


def _require(condition: Any, problem: str) -> None:
    if not condition:
        raise ValueError(problem)


def _require_shapes(owner: Any, **expected: tuple[int, ...]) -> None:
    for name, shape in expected.items():
        seen = np.shape(getattr(owner, name))
        _require(
            seen == shape,
            f"array {name} of {type(owner).__name__} is {seen} instead of {shape}",
        )


def _require_positive(owner: Any, *names: str) -> None:
    for name in names:
        positive = np.all(np.asarray(getattr(owner, name)) > 0)
        _require(positive, f"{name} of {type(owner).__name__} must be positive")


def _length(owner: Any, name: str) -> int:
    """Length of an array with one axis."""
    shape = np.shape(getattr(owner, name))
    _require(len(shape) == 1, f"array {name} of {type(owner).__name__} is {shape}")
    return shape[0]


def _height(owner: Any, name: str) -> int:
    """Rows of an array with two axes, at least one."""
    shape = np.shape(getattr(owner, name))
    sound = len(shape) == 2 and shape[0] > 0
    _require(sound, f"array {name} of {type(owner).__name__} is {shape}")
    return shape[0]


def _check_scaling(scaling: Scaling) -> None:
    _require_shapes(scaling, scale=(_length(scaling, "center"),))
    _require_positive(scaling, "scale")


def _check_hyperparameters(h: Hyperparameters) -> None:
    _length(h, "lengthscales")
    _require_positive(
        h, "signal_variance", "linear_variance", "noise_variance", "lengthscales"
    )


def _check_process(process: GaussianProcess) -> None:
    n, p = _height(process, "X"), _length(process.hyperparameters, "lengthscales")
    _require_shapes(process, X=(n, p), coefficients=(n,), noise=(n,))
    _require_shapes(process.x_scaling, center=(p,))
    _require_shapes(process.y_scaling, center=(1,))
    _require_positive(process, "noise")
    # The covariance is not factorised before it is needed, so its size stands for it.
    h = process.hyperparameters
    largest = h.signal_variance + h.linear_variance * float((process.X**2).sum()) + 1.0
    size = largest * float(np.abs(process.coefficients).sum() + 1.0)
    size *= float(process.y_scaling.scale[0]) ** 2
    _require(math.isfinite(size), "a Gaussian process has numbers that are too large")


def _check_features(features: LogScaleFeatures) -> None:
    p = _length(features.x_scaling, "center")
    _require_shapes(features, centers=(_height(features, "centers"), p))
    _require_shapes(features.mean_scaling, center=(1,))
    _require_positive(features, "width")


def _check_bounds(scale: LogScale | LinearLocationScale) -> None:
    ordinary = -_LARGEST_LOG_SCALE < scale.lower <= scale.upper < _LARGEST_LOG_SCALE
    _require(ordinary, f"the log scales of {type(scale).__name__} have no bounds")


def _check_log_scale(scale: LogScale) -> None:
    m, p = scale.features.centers.shape
    _require_shapes(scale, coefficients=(p + 1 + m,))
    _check_bounds(scale)


def _check_line(line: LinearLocationScale) -> None:
    p = _length(line.x_scaling, "center")
    _require_shapes(line, location=(1 + p,), log_scale=(1 + p,))
    _check_bounds(line)


def _check_process_frame(frame: GaussianProcessFrame) -> None:
    d = len(frame.processes)
    _require(d and len(frame.log_scales) == d, "a frame has no log scale per column")
    _require_shapes(frame, center=(d,), unit=(d,))
    _require_positive(frame, "unit")
    _columns(frame)


def _check_linear_frame(frame: LinearFrame) -> None:
    d = len(frame.models)
    _require(d, "a frame has no columns")
    _require_shapes(frame, center=(d,), unit=(d,))
    _require_positive(frame, "unit")
    p, _ = _columns(frame)
    _require(np.isfinite(frame.at(np.zeros((1, p)))).all(), "a frame is not finite")


def _columns(frame: Frame) -> tuple[int, int]:
    """Columns of x, the same for all parts of a frame, and columns of y."""
    if isinstance(frame, GaussianProcessFrame):
        scalings = [process.x_scaling for process in frame.processes]
        scales = [scale for scale in frame.log_scales if scale is not None]
        scalings += [scale.features.x_scaling for scale in scales]
    else:
        assert isinstance(frame, LinearFrame)  # `KINDS` has no other
        scalings = [model.x_scaling for model in frame.models]
    columns = {len(scaling.center) for scaling in scalings}
    _require(len(columns) == 1, "the columns of a frame have different conditions")
    return columns.pop(), len(frame.unit)


def _check_chart(chart: Chart) -> None:
    p, d = _length(chart, "x_center"), _length(chart, "y_center")
    _require(d, "array y_center of Chart is empty")
    _require_shapes(chart, x_scale=(p,), y_scale=(d,), support=(d, 2))
    _require_positive(chart, "x_scale", "y_scale")
    _require(
        np.all(chart.support[:, 0] < chart.support[:, 1]),
        "array support is not an interval for each column",
    )
    if chart.frame is not None:
        sound = _columns(chart.frame) == (p, d)
        _require(sound, "the frame of a chart has other columns")
    if chart.transform is not None:
        _require(d == 1, "a transform of y is for one column")
        _check_transform(chart.transform, d)
    if chart.x_transform is not None:
        _check_transform(chart.x_transform, p)


def _check_transform(transform: MonotoneTransform, columns: int) -> None:
    # Touch it once, so that parameters of a wrong length show up here.
    middle = transform.inverse(np.zeros((1, columns)))
    slope = transform.log_slope(middle)
    _require(np.isfinite(slope).all(), "a transform is not a finite function")


def _check_expansion(T: KernelExpansion) -> None:
    n, d = _height(T, "Y"), T.Y.shape[1]
    _require(d, "array Y of KernelExpansion has no columns")
    _require(_height(T, "X") == n, f"array X has not {n} rows like array Y")
    shapes = {"zeroth": (n,), "first": (n, d), "second": (n, d)}
    held = {key: shape for key, shape in shapes.items() if getattr(T, key) is not None}
    _require(held, "an array of coefficients is missing")
    _require_shapes(T, **held)
    # Touch the kernel once, so that lengthscales of a wrong length show up here.
    value = T.value(T.X[:1], T.Y[:1])
    _require(np.isfinite(value).all(), "T is not a finite function")


def _check_family(family: FittedFamily) -> None:
    chart, T = family.chart, family.T
    _require_shapes(T, X=(len(T.Y), chart.p), Y=(len(T.Y), chart.d))
    alone = T.first is None and T.second is None and not np.any(T.zeroth)
    _require(
        family.lam > 0 and (math.isfinite(family.lam) or alone),
        "lam is not a positive number",
    )
    _require(not math.isinf(family.rcond), "rcond is not a number")
    _require(family.seed >= 0, "the seed is negative")
    _check_base(family.base, T)


def _check_base(base: BaseDensity, T: KernelExpansion) -> None:
    n, d = T.Y.shape
    if isinstance(base, MarginalBase):
        _require(len(base.mixtures) == d, "the base density has other columns")
    else:
        # Touch it once, so that parameters of a wrong length show up here.
        base.prepared(TrainingResponses(T.Y, np.ones(n), np.zeros(d), np.ones(d)))
    covered = np.isfinite(base.log_density(T.Y)).all()
    _require(covered, "the base density does not cover the data")


def _check_neighbourhood(near: Neighbourhood) -> None:
    p, m = _length(near, "center"), _height(near, "rows")
    _require_shapes(near, scale=(p,), rows=(m, p), weights=(m,))
    _require_positive(near, "scale", "width")
    _require(np.all(near.weights >= 0), "weights of Neighbourhood must not be negative")


def _check_model(model: FittedModel) -> None:
    p, near = model.family.chart.p, model.neighbourhood
    _require((near is None) == (p == 0), "the neighbourhood of x is missing")
    _require(near is None or len(near.center) == p, "the neighbourhood is of other x")


def _check_member(member: FittedMember) -> None:
    _require(0 < member.weight <= 1, "the weight of a member is not a share")
    kernel = member.family.T.kernel
    single = isinstance(kernel, SumOfProducts) and len(kernel.terms) == 1
    _require(single, "the kernel of a member is not one product")


def _check_average(average: FittedAverage) -> None:
    _require(average.members, "an average has no members")
    shares = [member.weight for member in average.members]
    _require(0 <= average.guard_weight <= 1, "the weight of the guard is not a share")
    total = sum(shares) + average.guard_weight
    _require(abs(total - 1.0) < _ROUNDING, "the weights do not sum to one")
    sound = all(map(math.isfinite, average.guard)) and average.guard[1] > 0
    _require(sound, "the guard is not a density")
    families = [average.best, *(member.family for member in average.members)]
    columns = {(family.chart.p, family.chart.d) for family in families}
    p = len(average.neighbourhood.center)
    _require(p and columns == {(p, 1)}, "the members of an average have other columns")
    _require(average.n_candidates > 0, "the number of candidates is not positive")


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
    Kind(regression.Scaling, _check_scaling),
    Kind(regression.Hyperparameters, _check_hyperparameters),
    Kind(regression.GaussianProcess, _check_process, shared=True),
    Kind(regression.LogScaleFeatures, _check_features),
    Kind(regression.LogScale, _check_log_scale),
    Kind(regression.LinearLocationScale, _check_line),
    Kind(base_densities.GaussianProcessFrame, _check_process_frame),
    Kind(base_densities.LinearFrame, _check_linear_frame),
    Kind(Chart, _check_chart, unbounded=("support",), shared=True),
    Kind(KernelExpansion, _check_expansion, omitted=("n_jobs",)),
    Kind(FittedFamily, _check_family, unbounded=("lam", "rcond")),
    Kind(Neighbourhood, _check_neighbourhood),
    Kind(FittedModel, _check_model),
    Kind(FittedMember, _check_member),
    Kind(FittedAverage, _check_average),
)

KINDS = {kind.cls.__name__: kind for kind in (*map(Kind, _VALUES), *_FITTED)}
