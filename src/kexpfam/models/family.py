"""The fitted family: what both estimators learn, free of scikit-learn's conventions.

`fit_family` is the whole fit in order: standardise, transform y if asked to, choose the
base density, fill in lengthscales and λ, solve. The unconditional family is the
conditional one with zero columns of x and a constant kernel of x.
"""

import os
from dataclasses import dataclass, replace

import numpy as np

from kexpfam._typing import Array
from kexpfam._validation import check_positive, spread_of
from kexpfam.base_densities import (
    BaseDensity,
    ConditionalBase,
    Frame,
    GaussianBase,
    MonotoneTransform,
    Rescaled,
    TrainingResponses,
    TransformedBase,
    boundary_weights,
)
from kexpfam.distributions import (
    Coordinates,
    MultivariateDensity,
    UnivariateDensity,
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
from kexpfam.models.heuristics import median_filler
from kexpfam.score_matching import (
    KernelExpansion,
    ScoreSample,
    TiltedDensity,
    fit_exact,
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
    base: BaseDensity | ConditionalBase | TransformedBase | None
    regularization: float | None
    standardize: bool
    n_jobs: int | None
    # What the user calls the responses and their kernel, for error messages.
    response_name: str = "y"
    kernel_name: str = "kernel_y"


@dataclass(frozen=True)
class FittedFamily:
    """p(y|x) = q0(y|x) exp T(x, y) / Z(x), fitted.

    Attributes:
        x_center: What is subtracted from x, (p,).
        x_scale: What x is then divided by, (p,).
        y_center: The same for y, or for its transform, (d,).
        y_scale: (d,).
        support: Ends of the support of each column in the user's units, (d, 2).
        frame: Location and scale of a conditional base, or None.
        base: q0 in the coordinates of the kernel.
        T: The fitted function.
        lam: The regulariser λ.
        rcond: Lower bound of the reciprocal condition number of the fit.
        seed: Seed of importance sampling.
        transform: What is applied to y in the user's units first, or None.
    """

    x_center: Array
    x_scale: Array
    y_center: Array
    y_scale: Array
    support: Array
    frame: Frame | None
    base: BaseDensity
    T: KernelExpansion
    lam: float
    rcond: float
    seed: int
    transform: MonotoneTransform | None = None

    @property
    def d(self) -> int:
        """Number of columns of y."""
        return len(self.y_center)

    def density(
        self, X: Array, *, single: bool = False
    ) -> UnivariateDensity | MultivariateDensity:
        """The normalised densities at conditions X (n, p)."""
        X = (X - self.x_center) / self.x_scale
        coordinates = self._coordinates(X)
        tilted = TiltedDensity(self.base, self.T, X)
        resolution = self.T.kernel.resolution
        if self.d == 1:
            return UnivariateDensity.normalize(
                tilted, coordinates, resolution, single=single
            )
        return MultivariateDensity.normalize(
            tilted, coordinates, resolution, self.seed, single=single
        )

    def _coordinates(self, X: Array) -> Coordinates:
        shape = (len(X), self.d)
        center = np.broadcast_to(self.y_center, shape)
        scale = np.broadcast_to(self.y_scale, shape)
        if self.frame is None:
            return Coordinates(center, scale, self.support, self.transform)
        location, width = self.frame.at(X)
        location, width = center + scale * location, scale * width
        return Coordinates(location, width, self.support, self.transform)


def _user_support(base: BaseDensity | ConditionalBase | None, d: int) -> Array:
    """Support of each column in the user's units, in which bounds are given, (d, 2)."""
    if isinstance(base, BaseDensity):
        return base.support(d)
    return np.tile([-np.inf, np.inf], (d, 1))


def fit_family(
    X: Array,
    Y: Array,
    weights: Array,
    options: Options,
    rng: np.random.Generator,
) -> FittedFamily:
    """Fit the family to validated rows.

    Args:
        X: Conditions, (n, p); p is 0 for the unconditional family.
        Y: Responses, (n, d).
        weights: Row weights, not negative; their sum counts the rows.
        options: The user's choices.
        rng: Used by conditional bases for their folds, and for a seed.

    Raises:
        DegenerateDataError: A column of y has no spread, or y leaves the support.
    """
    if not isinstance(options.standardize, bool | np.bool_):
        raise ValueError(
            f"standardize must be True or False, got {options.standardize!r}."
        )
    used = np.flatnonzero(weights > 0)
    if len(used) < len(weights):
        X, Y, weights = X[used], Y[used], weights[used]
    if len(Y) < 2:
        raise DegenerateDataError(
            f"At least 2 rows with positive weight are needed, got {len(Y)}."
        )
    _check_memory(Y.size)
    x_center, x_scale = _standardizer("X", X, weights, options.standardize)
    transform, base_options, V = _transformed(options, Y, weights)
    y_center, y_scale = _standardizer(
        options.response_name, V, weights, options.standardize, must_vary=True
    )
    X = (X - x_center) / x_scale
    U = (V - y_center) / y_scale

    seed = int(rng.integers(2**31))
    training = TrainingResponses(
        U, weights, y_center, y_scale, used, options.response_name, transform
    )
    frame, base, U = _prepare_base(base_options, X, training, rng)
    kernel = _resolve_joint(options, X, U, weights)
    lam = _resolve_lambda(options.regularization, kernel, weights)
    fit = fit_exact(
        kernel, _score_sample(base, X, U, weights), lam, n_jobs=options.n_jobs
    )
    return FittedFamily(
        x_center=x_center,
        x_scale=x_scale,
        y_center=y_center,
        y_scale=y_scale,
        support=_user_support(base_options, U.shape[1]),
        frame=frame,
        base=base,
        T=fit.T,
        lam=fit.lam,
        rcond=fit.rcond,
        seed=seed,
        transform=transform,
    )


def _transformed(
    options: Options, Y: Array, weights: Array
) -> tuple[MonotoneTransform | None, BaseDensity | ConditionalBase | None, Array]:
    """The transform of y in the user's units, the base density behind it, and t(Y)."""
    if not isinstance(options.base, TransformedBase):
        return None, options.base, Y
    if Y.shape[1] > 1:
        raise ValueError(
            f"TransformedBase is for one column of {options.response_name}, got "
            f"{Y.shape[1]}; transform the columns before the fit, or model them one "
            f"after another."
        )
    center, scale = _standardizer(
        options.response_name, Y, weights, options.standardize, must_vary=True
    )
    fitted = options.base.fitted((Y - center) / scale, weights)
    transform = Rescaled(fitted, tuple(center.tolist()), tuple(scale.tolist()))
    return transform, options.base.base, transform.forward(Y)


def _standardizer(
    name: str,
    data: Array,
    weights: Array,
    standardize: bool,
    *,
    must_vary: bool = False,
) -> tuple[Array, Array]:
    center, deviation = spread_of(name, data, weights)
    if must_vary and np.any(deviation == 0):
        column = int(np.flatnonzero(deviation == 0)[0])
        raise DegenerateDataError(
            f"{name} is constant in column {column} (all {len(data)} values are "
            f"{data[0, column]:g}), so it has no density; remove the column."
        )
    if not standardize:
        return np.zeros_like(center), np.ones_like(center)
    # A constant column of x has no scale of its own; it is only centred.
    return center, np.where(deviation > 0, deviation, 1.0)


def _prepare_base(
    base: BaseDensity | ConditionalBase | None,
    X: Array,
    training: TrainingResponses,
    rng: np.random.Generator,
) -> tuple[Frame | None, BaseDensity, Array]:
    """Frame, q0 in the coordinates of the kernel, and the responses in them."""
    if isinstance(base, ConditionalBase):
        fitted = base.cross_fit(X, training.Y, training.weights, rng)
        residuals = replace(training, Y=fitted.residuals)
        return fitted.frame, base.noise.prepared(residuals), fitted.residuals
    base = GaussianBase(scale=2.0) if base is None else base
    if not isinstance(base, BaseDensity):
        raise TypeError(
            f"base must be a base density such as GaussianBase(scale=2.0), or None; "
            f"got {base!r}."
        )
    return None, base.prepared(training), training.Y


def _resolve_joint(options: Options, X: Array, U: Array, weights: Array) -> JointKernel:
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


def _score_sample(base: BaseDensity, X: Array, U: Array, weights: Array) -> ScoreSample:
    gradient = base.grad_log_density(U)
    _, spread = spread_of("y", U, weights)
    g, slope = boundary_weights(U, base.support(U.shape[1]), spread)
    if not np.any(g > 0):
        raise DegenerateDataError(
            f"All {len(U)} rows lie on an edge of the base density's support, where "
            f"score matching learns nothing; widen the bounds."
        )
    return ScoreSample(
        X=X,
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
