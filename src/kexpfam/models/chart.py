"""Charts: how rows of the user get into the coordinates of the kernel.

A chart maps conditions x to z, and responses y to u, one to one for given x:

    z = standardised x, perhaps after a transform of its skewed columns,
    t(y) = location(x) + scale(x)·u,

with a transform t or without, and a location and scale that are constants or come from
a regression. The kernel family is fitted to (z, u); base density, regression and
transforms are all in the chart, so that a family on top of any of them is the same.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from kexpfam._typing import Array, Indices
from kexpfam._validation import mean_and_std
from kexpfam.base_densities import (
    Base,
    BaseDensity,
    ConditionalBase,
    CrossFit,
    GaussianBase,
    GaussianProcessBase,
    GaussianProcessFit,
    LocationScaleModel,
    MonotoneTransform,
    Rescaled,
    TransformedBase,
    YeoJohnson,
    fit_processes,
    fit_yeo_johnson,
    require_inside,
)
from kexpfam.distributions import Coordinates
from kexpfam.errors import DegenerateDataError
from kexpfam.persistence import saved_fit

# Columns of x with a skewness beyond this are transformed, unless they are discrete.
_SKEWED = 1.0
_FEWEST_VALUES = 8
_POWERS_OF_X = tuple(np.arange(-1.5, 3.6, 0.5).tolist())

# Scale of a column that is constant in the training rows: whatever comes is zero then.
_IGNORED = 1e150

# Searches for hyperparameters that begin at those of similar rows need fewer steps.
_WARM_ITERATIONS = 20


@saved_fit(
    {
        "x_center": "p",
        "x_scale": "p positive",
        "y_center": "d",
        "y_scale": "d positive",
        "support": "d 2 unbounded",
        "frame": "p d",
    },
    shared=True,
)
@dataclass(frozen=True)
class Chart:
    """The map of rows (x, y) to the coordinates (z, u) of the kernel.

    Attributes:
        x_center: What is subtracted from x, or from its transform, (p,).
        x_scale: What x is then divided by, (p,).
        y_center: The same for y, or for its transform, (d,).
        y_scale: (d,).
        support: Ends of the support of each column of y in the user's units, (d, 2).
        frame: Location and scale of a conditional base, or None.
        transform: What is applied to y in the user's units first, or None.
        x_transform: What is applied to x in the user's units first, or None.
    """

    x_center: Array
    x_scale: Array
    y_center: Array
    y_scale: Array
    support: Array
    frame: LocationScaleModel | None = None
    transform: MonotoneTransform | None = None
    x_transform: MonotoneTransform | None = None

    def check_saved(self) -> None:
        """Refuse supports that are no intervals, and transforms that are no maps."""
        if not np.all(self.support[:, 0] < self.support[:, 1]):
            raise ValueError("array support is not an interval for each column")
        if self.transform is not None and self.d != 1:
            raise ValueError("a transform of y is for one column")
        for transform, columns in ((self.transform, 1), (self.x_transform, self.p)):
            if transform is not None:
                # Touched once, so that parameters of a wrong length show up here.
                middle = transform.inverse(np.zeros((1, columns)))
                if not np.isfinite(transform.log_abs_det_jacobian(middle)).all():
                    raise ValueError("a transform is not a finite function")

    @property
    def p(self) -> int:
        """Number of columns of x."""
        return len(self.x_center)

    @property
    def d(self) -> int:
        """Number of columns of y."""
        return len(self.y_center)

    def conditions(self, X: Array) -> Array:
        """The user's conditions (n, p) in the coordinates of the kernel."""
        if self.x_transform is not None:
            X = self.x_transform.forward(X)
        return (X - self.x_center) / self.x_scale

    def coordinates(self, Z: Array) -> Coordinates:
        """How y and u are related at conditions Z (n, p) of the kernel."""
        shape = (len(Z), self.d)
        center = np.broadcast_to(self.y_center, shape)
        scale = np.broadcast_to(self.y_scale, shape)
        if self.frame is None:
            return Coordinates(center, scale, self.support, self.transform)
        location, width = self.frame.at(Z)
        location, width = center + scale * location, scale * width
        return Coordinates(location, width, self.support, self.transform)


@dataclass(frozen=True)
class Charted:
    """Training rows in a chart.

    Attributes:
        chart: The chart, fitted on all rows.
        base: Base density of u.
        Z: Conditions in the coordinates of the kernel, (n, p).
        U: Responses in these coordinates, held out where a regression is involved, so
            that no row has helped to predict itself, (n, d).
        log_abs_det_jacobian: Log |du/dy| of each row, held out in the same way, (n,).
        weights: Row weights, (n,).
        lengthscales: Distances in each column of z over which y changes, according to
            a Gaussian process, (p,); or None if there is none.
    """

    chart: Chart
    base: BaseDensity
    Z: Array
    U: Array
    log_abs_det_jacobian: Array
    weights: Array
    lengthscales: Array | None


@dataclass(frozen=True)
class ChartOptions:
    """What a chart is to be made of.

    Attributes:
        base: Base density, conditional or not, with a transform of y or without.
        standardize: Whether to centre and scale columns.
        warp_x: Whether skewed columns of x are transformed.
        response_name: What the user calls the responses, for error messages.
        row_numbers: Where the user finds the rows, if not in this order.
    """

    base: Base
    standardize: bool = True
    warp_x: bool = False
    response_name: str = "y"
    row_numbers: Indices | None = None


class SharedProcesses:
    """Gaussian processes of the same rows, fitted once for all charts that use them.

    Args:
        start: Processes of similar rows, at which searches begin.
    """

    def __init__(self, start: "SharedProcesses | None" = None) -> None:
        self._fits: dict[tuple[bool, str], tuple[GaussianProcessFit, ...]] = {}
        self._start = start

    def fit(
        self, key: tuple[bool, str], Z: Array, U: Array, weights: Array
    ) -> tuple[GaussianProcessFit, ...]:
        """Processes of U given Z; `key` tells charts of x and y apart."""
        if key not in self._fits:
            start = None if self._start is None else self._start._fits.get(key)
            limit = {} if start is None else {"max_iterations": _WARM_ITERATIONS}
            self._fits[key] = fit_processes(Z, U, weights, start=start, **limit)
        return self._fits[key]


def fit_chart(
    X: Array,
    Y: Array,
    weights: Array,
    options: ChartOptions,
    rng: np.random.Generator,
    processes: SharedProcesses | None = None,
) -> Charted:
    """Fit a chart to rows, and bring them into its coordinates."""
    name = options.response_name
    x_transform = _unskewed(X, weights) if options.warp_x else None
    X = X if x_transform is None else x_transform.forward(X)
    x_center, x_scale = standardizer("X", X, weights, options.standardize)
    Z = (X - x_center) / x_scale

    transform, base, V = _transformed(options, Y, weights)
    y_center, y_scale = standardizer(
        name, V, weights, options.standardize, must_vary=True
    )

    def to_kernel(Y: Array) -> Array:
        V = Y if transform is None else transform.forward(Y)
        return (V - y_center) / y_scale

    U, d = (V - y_center) / y_scale, Y.shape[1]
    prepared = None
    if isinstance(base, BaseDensity):
        # Prepared first: this refuses parameters for another number of columns.
        prepared = base.prepared(U, weights, to_kernel)
        numbers = options.row_numbers
        supports = prepared.support(d), Y, base.support(d)
        require_inside(U, *supports, row_numbers=numbers, name=name)
    chart = Chart(
        x_center,
        x_scale,
        y_center,
        y_scale,
        support=_user_support(base, d),
        transform=transform,
        x_transform=x_transform,
    )
    log_abs_det_jacobian = np.full(len(Y), -np.log(y_scale).sum())
    if transform is not None:
        log_abs_det_jacobian = log_abs_det_jacobian + transform.log_abs_det_jacobian(
            Y
        ).sum(axis=1)
    if isinstance(base, BaseDensity):
        assert prepared is not None
        return Charted(chart, prepared, Z, U, log_abs_det_jacobian, weights, None)
    key = (x_transform is not None, repr(getattr(options.base, "transform", None)))
    shared = processes or SharedProcesses()
    fit, lengthscales = _regression(base, key, Z, U, weights, rng, shared)
    return Charted(
        chart=replace(chart, frame=fit.model),
        base=base.noise.prepared(fit.residuals, weights),
        Z=Z,
        U=fit.residuals,
        log_abs_det_jacobian=log_abs_det_jacobian - fit.log_scale.sum(axis=1),
        weights=weights,
        lengthscales=lengthscales,
    )


def refitted(
    charted: Charted,
    X: Array,
    Y: Array,
    fit: Callable[[Indices], Charted],
    folds: list[Indices],
) -> Charted:
    """The same chart, with responses from charts that were fitted without their fold.

    Closed-form leave-one-out residuals share hyperparameters with the row that is left
    out, which flatters them when rows are few. Here everything is fitted again.
    """
    U, log_abs_det_jacobian = (
        np.empty_like(charted.U),
        np.empty_like(charted.log_abs_det_jacobian),
    )
    everyone = np.arange(len(Y))
    for fold in folds:
        chart = fit(np.setdiff1d(everyone, fold, assume_unique=True)).chart
        coordinates = chart.coordinates(chart.conditions(X[fold]))
        points = Y[fold][:, None]
        U[fold] = coordinates.to_kernel(points)[:, 0]
        log_abs_det_jacobian[fold] = -coordinates.log_volume(points)[:, 0]
    return replace(charted, U=U, log_abs_det_jacobian=log_abs_det_jacobian)


def standardizer(
    name: str,
    data: Array,
    weights: Array,
    standardize: bool,
    *,
    must_vary: bool = False,
) -> tuple[Array, Array]:
    """Centre and scale of each column; zeros and ones if not to be standardised."""
    center, deviation = mean_and_std(name, data, weights)
    if must_vary and np.any(deviation == 0):
        column = int(np.flatnonzero(deviation == 0)[0])
        raise DegenerateDataError(
            f"{name} is constant in column {column} (all {len(data)} values are "
            f"{data[0, column]:g}), so it has no density; remove the column."
        )
    if not standardize:
        return np.zeros_like(center), np.ones_like(center)
    # A constant column says nothing about x: new values of it must not either.
    return center, np.where(deviation > 0, deviation, _IGNORED)


def _user_support(base: BaseDensity | ConditionalBase, d: int) -> Array:
    """Support of each column in the user's units, in which bounds are given, (d, 2)."""
    if isinstance(base, BaseDensity):
        return base.support(d)
    return np.tile([-np.inf, np.inf], (d, 1))


def _transformed(
    options: ChartOptions, Y: Array, weights: Array
) -> tuple[MonotoneTransform | None, BaseDensity | ConditionalBase, Array]:
    """The transform of y in the user's units, the base density behind it, and t(Y)."""
    if not isinstance(options.base, TransformedBase):
        assert isinstance(options.base, BaseDensity | ConditionalBase)
        return None, options.base, Y
    if Y.shape[1] > 1:
        raise ValueError(
            f"TransformedBase is for one column of {options.response_name}, got "
            f"{Y.shape[1]}; transform the columns before the fit, or model them one "
            f"after another."
        )
    center, scale = standardizer(
        options.response_name, Y, weights, options.standardize, must_vary=True
    )
    fitted = options.base.fitted((Y - center) / scale, weights)
    transform = Rescaled(fitted, tuple(center.tolist()), tuple(scale.tolist()))
    base = options.base.base or GaussianBase(scale=2.0)
    return transform, base, transform.forward(Y)


def _regression(
    base: ConditionalBase,
    key: tuple[bool, str],
    Z: Array,
    U: Array,
    weights: Array,
    rng: np.random.Generator,
    processes: SharedProcesses,
) -> tuple[CrossFit, Array | None]:
    """Held-out residuals, and lengthscales if there is a Gaussian process."""
    if not isinstance(base, GaussianProcessBase):
        return base.cross_fit(Z, U, weights, rng), None
    fits = processes.fit(key, Z, U, weights)
    # With several columns of y: what any of them depends on at short distances counts.
    lengthscales = np.min([fit.process.lengthscales for fit in fits], axis=0)
    return base.cross_fit(Z, U, weights, rng, fits), lengthscales


def _unskewed(X: Array, weights: Array) -> MonotoneTransform | None:
    """A transform of the skewed columns of x, or None if there are none."""
    center, scale = standardizer("X", X, weights, standardize=True)
    S = (X - center) / scale
    share = weights / weights.sum()
    skewness = share @ S**3
    values = np.array([len(np.unique(column)) for column in S.T])
    skewed = (np.abs(skewness) > _SKEWED) & (values >= _FEWEST_VALUES)
    if not skewed.any():
        return None
    fitted = fit_yeo_johnson(S[:, skewed], weights, _POWERS_OF_X)
    # Elsewhere the power is one, the identity, whatever its ends are.
    lams, low, high = np.ones(S.shape[1]), -np.ones(S.shape[1]), np.ones(S.shape[1])
    lams[skewed], low[skewed], high[skewed] = fitted.lam, fitted.low, fitted.high
    if np.all(lams == 1.0):
        return None
    inner = YeoJohnson(*(tuple(part.tolist()) for part in (lams, low, high)))
    return Rescaled(inner, tuple(center.tolist()), tuple(scale.tolist()))
