"""Coordinates: how rows of the user get to where the kernel is.

Conditions x become z, and responses y become u, one to one for given x:

    z = standardised x, perhaps after a transform of its skewed columns, or a summary
        of it that is learned,
    t(y) = location(x) + scale(x)·u,

with a transform t or without, and a location and scale that are constants or come from
a regression, the location-scale model of a conditional base density. The kernel family
is fitted to (z, u), and log p(y|x) = log p(u|z) + log |du/dy|. Base density, regression
and transforms are all in the coordinates: a family on top of any of them is the same.

What is learned from y must not have seen the row that it is used for: training rows
carry held-out u, and held-out z if that is learned from y too; new rows are brought
into the coordinates that were fitted to all.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kexpfam._heuristics import median_and_width, robust_scaling
from kexpfam._typing import Array, Indices
from kexpfam._validation import mean_and_std
from kexpfam.base_densities import (
    Base,
    BaseDensity,
    Composed,
    ConditionalBase,
    CrossFit,
    GaussianBase,
    GaussianProcessBase,
    GaussianProcessFit,
    LocationScaleModel,
    MonotoneTransform,
    Rescaled,
    Summary,
    TransformedBase,
    YeoJohnson,
    fit_processes,
    fit_yeo_johnson,
    require_inside,
)
from kexpfam.data import Rows, TrainingRows
from kexpfam.distributions import ResponseCoordinates
from kexpfam.errors import DegenerateDataError
from kexpfam.persistence import columns_of_x, saved_fit
from kexpfam.summaries import (
    PROCESS,
    LearnedSummary,
    LocationFits,
    process_location,
)


@saved_fit(
    {
        "x_center": "p",
        "x_scale": "p positive",
        "y_center": "d",
        "y_scale": "d positive",
        "support": "d 2 unbounded",
        "location_scale": "d",
        "summary": "optional",
    },
    shared=True,
    name="Chart",
    names={"location_scale": "frame"},
)
@dataclass(frozen=True)
class Coordinates:
    """The map of rows (x, y) to the coordinates (z, u) of the kernel."""

    x_center: Array  # What is subtracted from x, or from its transform, (p,)
    x_scale: Array  # What x is then divided by, (p,)
    y_center: Array  # The same for y, or for its transform, (d,)
    y_scale: Array  # (d,)
    support: Array  # Ends of each column of y in the user's units, (d, 2)
    location_scale: LocationScaleModel | None = None  # Of a conditional base
    transform: MonotoneTransform | None = None  # Of y in the user's units, done first
    x_transform: MonotoneTransform | None = None  # Of x in the user's units, likewise
    summary: Summary | None = None  # Of standardised x, which is z otherwise

    def check_saved(self) -> None:
        """Refuse supports that are no intervals, and transforms that are no maps."""
        if not np.all(self.support[:, 0] < self.support[:, 1]):
            raise ValueError("array support is not an interval for each column")
        if self.transform is not None and self.d != 1:
            raise ValueError("a transform of y is for one column")
        if self.location_scale is not None:
            columns = columns_of_x(self.location_scale)
            if columns not in (self.q, None):
                raise ValueError("location_scale has other columns than z")
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
    def q(self) -> int:
        """Number of columns of z."""
        return self.p if self.summary is None else self.summary.q

    @property
    def d(self) -> int:
        """Number of columns of y."""
        return len(self.y_center)

    def conditions(self, X: Array) -> Array:
        """The user's conditions (n, p) in the coordinates of the kernel, (n, q)."""
        standard = self.standardized(X)
        return standard if self.summary is None else self.summary.at(standard)

    def standardized(self, X: Array) -> Array:
        """The user's conditions (n, p), transformed, centred and scaled, (n, p)."""
        if self.x_transform is not None:
            X = self.x_transform.forward(X)
        return (X - self.x_center) / self.x_scale

    def at(self, Z: Array) -> ResponseCoordinates:
        """How y and u are related at conditions Z (n, q) of the kernel."""
        shape = (len(Z), self.d)
        center = np.broadcast_to(self.y_center, shape)
        scale = np.broadcast_to(self.y_scale, shape)
        if self.location_scale is None:
            return ResponseCoordinates(center, scale, self.support, self.transform)
        location, width = self.location_scale.at(Z)
        location, width = center + scale * location, scale * width
        return ResponseCoordinates(location, width, self.support, self.transform)

    def rows(self, rows: Rows) -> tuple[Array, Array, Array]:
        """Z, U and log |du/dy| of rows that have not helped to fit the coordinates."""
        Z = self.conditions(rows.X)
        there, points = self.at(Z), rows.Y[:, None]
        U = there.to_kernel(points)[:, 0]
        return Z, U, -np.broadcast_to(there.log_volume(points), (len(Z), 1))[:, 0]

    def equals(self, other: "Coordinates", Z: Array) -> bool:
        """Whether both are alike, to all bits, at some conditions of the kernel."""
        if self is other:
            return True
        names = ("x_center", "x_scale", "y_center", "y_scale", "support")
        here, there = self.at(Z), other.at(Z)
        return (
            all(np.array_equal(getattr(self, k), getattr(other, k)) for k in names)
            and self.transform == other.transform
            and self.x_transform == other.x_transform
            and self.summary is other.summary
            and np.array_equal(here.location, there.location)
            and np.array_equal(here.scale, there.scale)
        )


@dataclass(frozen=True)
class CoordinateRows:
    """Training rows in the coordinates of the kernel."""

    coordinates: Coordinates  # Fitted on all rows
    base: BaseDensity  # Base density of u
    Z: Array  # Conditions, (n, q), held out where they are learned
    # Responses, held out where a regression is involved, so that no row has helped to
    # predict itself, (n, d)
    U: Array
    log_abs_det_jacobian: Array  # Log |du/dy| of each row, held out likewise, (n,)
    weights: Array  # Row weights, (n,)
    # Distances in each column of z over which y changes, according to a Gaussian
    # process, (p,); None if there is none
    lengthscales: Array | None

    def __len__(self) -> int:
        return len(self.U)


class SharedProcesses:
    """Gaussian processes of the same rows, fitted once for all coordinates with one.

    Args:
        start: Processes of similar rows, at which searches begin.
        similar: Processes of similar rows, whose optima are tried beside the one that
            a search finds, as are those of other transforms of the same rows.
    """

    def __init__(
        self,
        start: "SharedProcesses | None" = None,
        similar: "SharedProcesses | None" = None,
    ) -> None:
        self._fits: dict[tuple[bool, str], tuple[GaussianProcessFit, ...]] = {}
        self._locations: dict[tuple[bool, str], LocationFits] = {}
        self._start = start
        self._similar = similar

    def fit(
        self, key: tuple[bool, str], Z: Array, U: Array, weights: Array
    ) -> tuple[GaussianProcessFit, ...]:
        """Processes of U given Z; `key` tells transforms of x and y apart."""
        if key not in self._fits:
            start = None if self._start is None else self._start._fits.get(key)
            # Searches that begin at the optimum of similar rows need fewer steps.
            limit = {} if start is None else {"max_iterations": 20}
            similar = list(self._fits.values())
            if self._similar is not None and key in self._similar._fits:
                similar.append(self._similar._fits[key])
            self._fits[key] = fit_processes(
                Z, U, weights, start=start, similar=similar, **limit
            )
        return self._fits[key]

    def locations(
        self, key: tuple[bool, str], Z: Array, U: Array, weights: Array
    ) -> LocationFits:
        """Regressions that learned summaries share, the process among them."""
        if key not in self._locations:
            fits = self.fit(key, Z, U, weights)
            self._locations[key] = {PROCESS: process_location(fits, Z, U, weights)}
        return self._locations[key]


def fit_coordinates(
    rows: TrainingRows,
    base: Base,
    rng: np.random.Generator,
    *,
    standardize: bool = True,
    transform_x: bool = False,
    name: str = "y",
    processes: SharedProcesses | None = None,
    far_x: MonotoneTransform | None = None,
) -> CoordinateRows:
    """Fit coordinates to rows, and bring the rows there.

    Args:
        rows: Training rows.
        base: Base density, conditional or not, with a transform of y or without.
        rng: Deals folds inside regressions.
        standardize: Whether to centre and scale columns.
        transform_x: Whether skewed columns of x are transformed.
        name: What the user calls the responses, for error messages.
        processes: Gaussian processes of the same rows, or None.
        far_x: What brings far values of x nearer, `pulled_in` of these rows or of more.
    """
    X, Y, weights = rows.X, rows.Y, rows.weights
    X = X if far_x is None else far_x.forward(X)
    x_transform = unskewed(X, weights) if transform_x else None
    skewed = x_transform is not None
    X = X if x_transform is None else x_transform.forward(X)
    if far_x is not None:
        x_transform = Composed(far_x, x_transform) if x_transform else far_x
    x_center, x_scale = standardizer("X", X, weights, standardize)
    Z = (X - x_center) / x_scale

    transform, inner, V = transformed_response(base, Y, weights, standardize, name)
    y_center, y_scale = standardizer(
        name, V, weights, standardize, must_vary=True, robust=_forgives(base)
    )

    def to_kernel(Y: Array) -> Array:
        V = Y if transform is None else transform.forward(Y)
        return (V - y_center) / y_scale

    U, d = (V - y_center) / y_scale, Y.shape[1]
    prepared, support = None, np.tile([-np.inf, np.inf], (d, 1))
    if isinstance(inner, BaseDensity):
        # Prepared first: this refuses parameters for another number of columns.
        prepared, support = inner.prepared(U, weights, to_kernel), inner.support(d)
        inside = prepared.support(d), Y, support
        require_inside(U, *inside, row_numbers=rows.numbers, name=name)
    coordinates = Coordinates(
        x_center,
        x_scale,
        y_center,
        y_scale,
        support=support,
        transform=transform,
        x_transform=x_transform,
    )
    log_jacobian = np.full(len(Y), -np.log(y_scale).sum())
    if transform is not None:
        log_jacobian = log_jacobian + transform.log_abs_det_jacobian(Y).sum(axis=1)
    if prepared is not None:
        return CoordinateRows(coordinates, prepared, Z, U, log_jacobian, weights, None)
    assert isinstance(inner, ConditionalBase)
    key = (skewed, repr(getattr(base, "transform", None)))
    shared = processes or SharedProcesses()
    near = _without_far_values(Y, U, weights) if _forgives(base) else U
    fit, lengthscales = _regression(inner, key, Z, near, weights, rng, shared)
    there = replace(coordinates, location_scale=fit.model, summary=fit.summary)
    residuals = fit.residuals
    if near is not U:  # as they are, around a location that they have not moved
        residuals = residuals + (U - near) * np.exp(-fit.log_scale)
    return CoordinateRows(
        coordinates=there,
        base=(fit.noise or inner.noise).prepared(residuals, weights),
        Z=Z if fit.Z is None else fit.Z,
        U=residuals,
        log_abs_det_jacobian=log_jacobian - fit.log_scale.sum(axis=1),
        weights=weights,
        lengthscales=lengthscales,
    )


def refitted(
    placed: CoordinateRows,
    rows: Rows,
    fit: Callable[[Indices], CoordinateRows],
    folds: Sequence[slice],
) -> CoordinateRows:
    """The same rows, with responses in coordinates that were fitted without their fold.

    Closed-form leave-one-out residuals share hyperparameters with the row that is left
    out, which flatters them when rows are few. Here everything is fitted again.
    """
    U = np.empty_like(placed.U)
    log_jacobian = np.empty_like(placed.log_abs_det_jacobian)
    for fold in folds:
        without = fit(np.delete(np.arange(len(rows)), fold)).coordinates
        _, U[fold], log_jacobian[fold] = without.rows(rows[fold])
    return replace(placed, U=U, log_abs_det_jacobian=log_jacobian)


def standardizer(
    name: str,
    data: Array,
    weights: Array,
    standardize: bool,
    *,
    must_vary: bool = False,
    robust: bool = False,
) -> tuple[Array, Array]:
    """Centre and scale of each column; zeros and ones if not to be standardised.

    If robust, median and quartiles say so where moments are those of a few rows.
    """
    if robust:
        center, std, _ = robust_scaling(data, weights, name=name)
    else:
        center, std = mean_and_std(name, data, weights)
    if must_vary and np.any(std == 0):
        column = int(np.flatnonzero(std == 0)[0])
        raise DegenerateDataError(
            f"{name} is constant in column {column} (all {len(data)} values are "
            f"{data[0, column]:g}), so it has no density; remove the column."
        )
    if not standardize:
        return np.zeros_like(center), np.ones_like(center)
    # A constant column says nothing about x: new values of it must not either.
    return center, np.where(std > 0, std, 1e150)


def _forgives(base: Base) -> bool:
    """Whether far responses are not far behind a transform, or to a base density.

    If not, that is if tails are normal, its scale has to be one of the far ones.
    """
    if isinstance(base, TransformedBase):
        return True
    noise = base.noise if isinstance(base, ConditionalBase) else base
    return isinstance(noise, BaseDensity) and bool(np.isfinite(noise.tail_index))


def _without_far_values(
    Y: Array, U: Array, weights: Array, width: float = 4.0
) -> Array:
    """What regressions are fitted to: U itself, unless moments of y say nothing.

    Then it is U with values beyond so many robust standard deviations moved there.
    """
    if not robust_scaling(Y, weights)[2].any():
        return U
    middles, widths = np.transpose([median_and_width(u, weights) for u in U.T])
    # Where half of the responses are the same, there is no such width.
    reach = np.where(widths > 0, width * widths, np.inf)
    return np.clip(U, middles - reach, middles + reach)


def transformed_response(
    base: Base, Y: Array, weights: Array, standardize: bool, name: str
) -> tuple[MonotoneTransform | None, BaseDensity | ConditionalBase, Array]:
    """The transform of y in the user's units, the base density behind it, and t(Y)."""
    if not isinstance(base, TransformedBase):
        assert isinstance(base, BaseDensity | ConditionalBase)
        return None, base, Y
    if Y.shape[1] > 1:
        raise ValueError(
            f"TransformedBase is for one column of {name}, got {Y.shape[1]}; transform "
            f"the columns before the fit, or model them one after another."
        )
    center, scale = standardizer(name, Y, weights, standardize, must_vary=True)
    fitted = base.fitted((Y - center) / scale, weights)
    transform = Rescaled(fitted, tuple(center.tolist()), tuple(scale.tolist()))
    return transform, base.base or GaussianBase(scale=2.0), transform.forward(Y)


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
    if isinstance(base, LearnedSummary):
        known = processes.locations(key, Z, U, weights) if base.wants_process else {}
        return base.cross_fit(Z, U, weights, rng, known), None
    if not isinstance(base, GaussianProcessBase):
        return base.cross_fit(Z, U, weights, rng), None
    fits = processes.fit(key, Z, U, weights)
    # With several columns of y: what any of them depends on at short distances counts.
    lengthscales = np.stack([fit.process.lengthscales for fit in fits]).min(axis=0)
    return base.cross_fit(Z, U, weights, rng, fits), lengthscales


def unskewed(
    X: Array, weights: Array, *, skewed_from: float = 1.0, fewest_values: int = 8
) -> MonotoneTransform | None:
    """A transform of the skewed columns of x, or None if there are none.

    Columns with few distinct values are discrete, and stay as they are.
    """
    center, scale = standardizer("X", X, weights, standardize=True)
    S = (X - center) / scale
    share = weights / weights.sum()
    skewness = share @ S**3
    values = np.array([len(np.unique(column)) for column in S.T])
    skewed = (np.abs(skewness) > skewed_from) & (values >= fewest_values)
    if not skewed.any():
        return None
    powers = tuple(np.arange(-1.5, 3.6, 0.5).tolist())
    fitted = fit_yeo_johnson(S[:, skewed], weights, powers)
    # Elsewhere the power is one, the identity, whatever its ends are.
    lams, low, high = np.ones(S.shape[1]), -np.ones(S.shape[1]), np.ones(S.shape[1])
    lams[skewed], low[skewed], high[skewed] = fitted.lam, fitted.low, fitted.high
    if np.all(lams == 1.0):
        return None
    inner = YeoJohnson(*(tuple(part.tolist()) for part in (lams, low, high)))
    return Rescaled(inner, tuple(center.tolist()), tuple(scale.tolist()))
