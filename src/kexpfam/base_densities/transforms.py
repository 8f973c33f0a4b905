"""Increasing functions of y, column by column, that make its distribution simpler.

A kernel of one lengthscale follows a distribution best whose features are equally wide
everywhere. v = t(y) can make a skewed or heavy-tailed variable so; a density of v is a
density of y with p(y) = p(v) dt/dy.

Beyond the ends of the data, widened by a margin, every transform goes on as a straight
line with the slope that it has there. So t is a bijection of the whole line, no mass is
lost whatever its formula does far away, and the tails of y are those of v. Its slope is
continuous; where it is not smooth, at the ends and at knots, `column_breaks` tells.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from kexpfam._kernel_density import KernelEstimate, moments, silverman
from kexpfam._parallel import cached_property
from kexpfam._roots import increasing_roots
from kexpfam._typing import Array
from kexpfam.base_densities.interface import ContinuedTransform, MonotoneTransform
from kexpfam.base_densities.parameters import PerColumn, as_parameter, per_column
from kexpfam.persistence import saved_value


@dataclass(frozen=True)
class GaussianizeSpec:
    """How `fit_gaussianize` estimates a distribution function and its spline."""

    # Mass of a wide component that keeps the slope up where data are rare.
    defensive_mass: float = 0.02
    # The bandwidth is at least this share of what a Gaussian of the same variance would
    # get, so that tied values are no spikes.
    narrowest_bandwidth: float = 0.25
    points: int = 2048  # Points that stand for the data
    knots: int = 48  # Knots of the spline, half of them at quantiles
    least_rise: float = 1e-9  # From knot to knot; less is rounding
    # Slopes of the spline at its knots, in units of the smaller neighbouring secant. Up
    # to three it would still not decrease (Fritsch and Carlson 1980), but its slope
    # could be zero inside.
    flattest: float = 0.25
    steepest: float = 2.0


@saved_value
@dataclass(frozen=True)
class YeoJohnson(ContinuedTransform):
    """((1 + y)^λ − 1)/λ for y ≥ 0 and −((1 − y)^(2−λ) − 1)/(2 − λ) for y < 0.

    Attributes:
        lam: λ, once or per column; 1 is the identity.
        low: Where the formula ends on the left, and a straight line goes on.
        high: Where it ends on the right.

    References:
        Yeo and Johnson, A new family of power transformations, Biometrika 2000.

    Example:
        >>> import numpy as np
        >>> YeoJohnson(0.0, -1.0, 5.0).forward(np.array([[np.e - 1.0]]))
        array([[1.]])
    """

    lam: PerColumn = 1.0
    low: PerColumn = -10.0
    high: PerColumn = 10.0

    def __post_init__(self) -> None:
        for name in ("lam", "low", "high"):
            value = as_parameter(name, getattr(self, name))
            object.__setattr__(self, name, value)
        if not np.all(np.asarray(self.low) < np.asarray(self.high)):
            raise ValueError(
                f"low must be below high, got low={self.low!r} and high={self.high!r}."
            )

    @property
    def ends(self) -> tuple[Array, Array]:
        return np.asarray(self.low), np.asarray(self.high)

    def column_breaks(self, i: int) -> Array:
        low, high = per_column(self.low, i), per_column(self.high, i)
        return np.array([low, 0.0, high] if low < 0 < high else [low, high])

    def _formula(self, Y: Array) -> Array:
        return _yeo_johnson(Y, np.asarray(self.lam))

    def _formula_inverse(self, V: Array) -> Array:
        lam = np.asarray(self.lam)
        left = -_power_inverse(np.maximum(-V, 0.0), 2.0 - lam)
        return np.where(V < 0, left, _power_inverse(np.maximum(V, 0.0), lam))

    def _formula_log_abs_det_jacobian(self, Y: Array) -> Array:
        return (np.asarray(self.lam) - 1.0) * np.sign(Y) * np.log1p(np.abs(Y))

    def _formula_slope_gradient(self, Y: Array) -> Array:
        return (np.asarray(self.lam) - 1.0) / (1.0 + np.abs(Y))


# For each column: knots, values or slopes there.
Columns = tuple[tuple[float, ...], ...]


@saved_value
@dataclass(frozen=True)
class Gaussianize(ContinuedTransform):
    """A monotone cubic spline close to Φ⁻¹(F(y)): what it makes is nearly normal.

    Example:
        >>> import numpy as np
        >>> line = Gaussianize(((0.0, 1.0),), ((0.0, 2.0),), ((2.0, 2.0),))
        >>> line.forward(np.array([[0.5], [3.0]]))
        array([[1.],
               [6.]])
    """

    knots: Columns  # Increasing points of each column
    values: Columns  # The transform there
    slopes: Columns  # Its derivative there

    def __post_init__(self) -> None:
        parts = (self.knots, self.values, self.slopes)
        if not len(self.knots) or len({len(part) for part in parts}) > 1:
            raise ValueError("knots, values and slopes must have the same columns.")
        for columns in zip(*parts, strict=True):
            y, v, slope = map(np.array, columns)
            if len(y) < 2 or not len(y) == len(v) == len(slope):
                raise ValueError(
                    "each column needs as many values and slopes as knots."
                )
            sound = all(np.all(np.isfinite(part)) for part in (y, v, slope))
            if not sound or np.diff(y).min() <= 0 or np.diff(v).min() <= 0:
                raise ValueError("knots and values must be finite and increase.")
            steepest = 3.0 * _smaller_secants(y, v) * (1.0 - 1e-9)
            if np.any(slope <= 0) or np.any(slope > steepest):
                raise ValueError(
                    "slopes must be positive and below three times the secants beside "
                    "them, or the spline does not increase."
                )

    def __repr__(self) -> str:
        return f"Gaussianize(fitted on {len(self.knots)} column(s))"

    @property
    def ends(self) -> tuple[Array, Array]:
        ends = np.array([(knots[0], knots[-1]) for knots in self.knots])
        return ends[:, 0], ends[:, 1]

    def column_breaks(self, i: int) -> Array:
        return np.array(self.knots[i])

    def _formula(self, Y: Array) -> Array:
        return self._by_column(lambda spline, y: spline(y), Y)

    def _formula_inverse(self, V: Array) -> Array:
        return self._by_column(_inverse_of_spline, V)

    def _formula_log_abs_det_jacobian(self, Y: Array) -> Array:
        return np.log(self._by_column(lambda spline, y: spline(y, 1), Y))

    def _formula_slope_gradient(self, Y: Array) -> Array:
        return self._by_column(lambda spline, y: spline(y, 2) / spline(y, 1), Y)

    def _by_column(self, function: Callable[[Any, Array], Array], Y: Array) -> Array:
        columns = np.moveaxis(Y, -1, 0)
        return np.stack(list(map(function, self._splines, columns)), axis=-1)

    @cached_property
    def _splines(self) -> list[Any]:
        """A cubic of each column with these values and slopes."""
        # Imported here because it is slow to import and rarely used.
        from scipy.interpolate import CubicHermiteSpline

        columns = zip(self.knots, self.values, self.slopes, strict=True)
        return [CubicHermiteSpline(*column) for column in columns]


@saved_value
@dataclass(frozen=True)
class Rescaled(MonotoneTransform):
    """Another transform of (y − center)/scale."""

    inner: MonotoneTransform  # Of the rescaled columns
    center: PerColumn  # Once or per column
    scale: PerColumn  # Once or per column, positive

    def __post_init__(self) -> None:
        if not isinstance(self.inner, MonotoneTransform):
            raise ValueError(f"inner must be a transform, got {self.inner!r}.")
        for name in ("center", "scale"):
            value = as_parameter(name, getattr(self, name))
            object.__setattr__(self, name, value)
        if np.min(self.scale) <= 0:
            raise ValueError(f"scale must be positive, got {self.scale!r}.")

    def forward(self, Y: Array) -> Array:
        return self.inner.forward((Y - np.asarray(self.center)) / self.scale)

    def inverse(self, V: Array) -> Array:
        return np.asarray(self.scale) * self.inner.inverse(V) + self.center

    def log_abs_det_jacobian(self, Y: Array) -> Array:
        inside = (Y - np.asarray(self.center)) / self.scale
        return self.inner.log_abs_det_jacobian(inside) - np.log(self.scale)

    def slope_gradient(self, Y: Array) -> Array:
        inside = (Y - np.asarray(self.center)) / self.scale
        return self.inner.slope_gradient(inside) / self.scale

    def column_breaks(self, i: int) -> Array:
        center, scale = per_column(self.center, i), per_column(self.scale, i)
        return center + scale * self.inner.column_breaks(i)


def fit_yeo_johnson(
    Y: Array,
    weights: Array,
    lams: Sequence[float] = (-0.5, 0.0, 0.5, 1.0, 1.5, 2.0),
) -> YeoJohnson:
    """The power of each column that makes it most nearly normal.

    Args:
        Y: Standardised responses, (n, d).
        weights: Row weights, (n,).
        lams: Powers to choose from, by normal likelihood. One is the identity, below it
            pulls in a right tail.

    Example:
        >>> import numpy as np
        >>> skewed = np.random.default_rng(0).lognormal(size=(500, 1))
        >>> fit_yeo_johnson(skewed / skewed.std(), np.ones(500)).lam
        (-0.5,)
    """
    share = weights / weights.sum()
    chosen = []
    for y in Y.T:
        mean_log_size = float(share @ (np.sign(y) * np.log1p(np.abs(y))))
        likelihoods = []  # mean log likelihood, up to a constant, if t(y) were normal
        for lam in lams:
            v = _yeo_johnson(y, lam)
            variance = float(share @ (v - share @ v) ** 2)
            likelihoods.append((lam - 1.0) * mean_log_size - 0.5 * math.log(variance))
        chosen.append(float(lams[int(np.argmax(likelihoods))]))
    # The formula goes on a little beyond the data.
    low, high = Y.min(axis=0), Y.max(axis=0)
    margin = 0.1 * (high - low)
    ends = (low - margin).tolist(), (high + margin).tolist()
    return YeoJohnson(tuple(chosen), tuple(ends[0]), tuple(ends[1]))


def fit_gaussianize(
    Y: Array, weights: Array, spec: GaussianizeSpec = GaussianizeSpec()
) -> Gaussianize:
    """Φ⁻¹ of a kernel estimate of each column's distribution function, as a spline.

    The estimate is made after a Yeo-Johnson power, so that its bandwidth follows the
    skewness of the column; it is at least the usual distance of distinct values.

    Args:
        Y: Standardised responses, (n, d).
        weights: Row weights, (n,).
        spec: Sizes of the estimate and of its spline.
    """
    columns = [_gaussianized(y, weights, spec) for y in Y.T]
    knots, values, slopes = zip(*columns, strict=True)
    return Gaussianize(knots, values, slopes)


def _gaussianized(
    y: Array, weights: Array, spec: GaussianizeSpec
) -> tuple[tuple[float, ...], tuple[float, ...], tuple[float, ...]]:
    """Knots, values and slopes of one column."""
    order = np.argsort(y)
    y, share = y[order], weights[order] / weights.sum()
    # A power first: one bandwidth then suits a skewed column everywhere.
    power = fit_yeo_johnson(y[:, None], share)
    w = power.forward(y[:, None])[:, 0]
    mean, sd = moments(w, share)
    bandwidth = _bandwidth(w, share, sd, float(weights.sum()), spec)
    low, high = power.forward(np.stack(power.ends))[:, 0]
    half = spec.knots // 2
    levels = (np.arange(half) + 0.5) / half
    quantiles = w[np.minimum(np.searchsorted(np.cumsum(share), levels), len(w) - 1)]
    even = np.linspace(low, high, spec.knots - half)
    at = np.unique(np.concatenate([even, quantiles]))
    at = at[_apart(at, 0.5 * bandwidth)]
    points, masses = _condensed(w, share, spec.points)
    own = KernelEstimate.with_defensive_component(
        points, masses, bandwidth, mean, sd, spec.defensive_mass
    )
    below, above = own.tails(at)
    # Whichever tail is smaller has more digits.
    values = np.where(below < above, special.ndtri(below), -special.ndtri(above))
    # Between far values and the others there may be no mass that numbers can tell.
    finite = np.flatnonzero(np.isfinite(values))
    rising = finite[_apart(values[finite], spec.least_rise)]
    at, values = at[rising], values[rising]
    knots = power.inverse(at[:, None])
    log_normal = -0.5 * values * values - 0.5 * math.log(2.0 * math.pi)
    slopes = np.exp(own.log_density(at) - log_normal)
    slopes = slopes * np.exp(power.log_abs_det_jacobian(knots)[:, 0])
    knots = knots[:, 0]
    secants = _smaller_secants(knots, values)
    slopes = np.clip(slopes, spec.flattest * secants, spec.steepest * secants)
    return tuple(knots.tolist()), tuple(values.tolist()), tuple(slopes.tolist())


def _bandwidth(
    y: Array, share: Array, sd: float, count: float, spec: GaussianizeSpec
) -> float:
    """Silverman's rule of sorted values, but no narrower than ties allow."""
    lower, upper = np.searchsorted(np.cumsum(share), [0.25, 0.75])
    quartile_std = (y[min(upper, len(y) - 1)] - y[lower]) / 1.34
    # The usual distance of distinct values, which rounding may have made.
    distance = float(np.median(np.diff(np.unique(y))))
    return max(
        silverman(min(quartile_std, sd), count),
        spec.narrowest_bandwidth * silverman(sd, count),
        distance,
    )


def _condensed(y: Array, share: Array, count: int) -> tuple[Array, Array]:
    """Sorted values and their masses, many of them averaged in `count` groups."""
    if len(y) <= count:
        return y, share
    group = np.minimum((np.cumsum(share) * count).astype(int), count - 1)
    mass = np.bincount(group, share, minlength=count)
    total = np.bincount(group, share * y, minlength=count)
    filled = mass > 0
    return total[filled] / mass[filled], np.asarray(mass[filled], dtype=float)


def _apart(points: Array, distance: float) -> list[int]:
    """Which sorted points, both ends among them, are no nearer than a distance."""
    kept, last = [0], len(points) - 1
    for k in range(1, last):
        if min(points[k] - points[kept[-1]], points[last] - points[k]) >= distance:
            kept.append(k)
    return [*kept, last]


def _smaller_secants(y: Array, v: Array) -> Array:
    """At each knot the smaller slope of the secants on its sides."""
    secants = np.diff(v) / np.diff(y)
    return np.minimum(np.append(secants[:1], secants), np.append(secants, secants[-1:]))


def _yeo_johnson(y: Array, lam: Array | float) -> Array:
    """The formula of `YeoJohnson`, at any y."""
    size = np.log1p(np.abs(y))
    return np.where(y < 0, -_power(size, 2.0 - lam), _power(size, lam))


def _power(log_size: Array, power: Array | float) -> Array:
    """(eˢ)^power − 1 over power, s = log_size; s itself for power zero."""
    zero = np.equal(power, 0.0)
    ratio = np.expm1(power * log_size) / np.where(zero, 1.0, power)
    return np.where(zero, log_size, ratio)


def _power_inverse(v: Array, power: Array) -> Array:
    """The t ≥ 0 with ((1 + t)^power − 1)/power = v ≥ 0."""
    zero = power == 0.0
    # A negative power has a bounded range, which v leaves by rounding only.
    inside = np.log1p(np.maximum(power * v, -1.0)) / np.where(zero, 1.0, power)
    return np.expm1(np.where(zero, v, inside))


def _inverse_of_spline(spline: Any, v: Array) -> Array:
    """Where an increasing spline has values v."""
    knots, levels = spline.x, v.ravel()
    piece = np.searchsorted(spline(knots), levels, "right") - 1
    piece = np.clip(piece, 0, len(knots) - 2)
    roots = increasing_roots(
        lambda y, which: (spline(y) - levels[which], spline(y, 1)),
        knots[piece],
        knots[piece + 1],
        np.spacing(np.abs(levels)),
    )
    return roots.reshape(v.shape)
