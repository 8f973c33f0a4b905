"""Increasing functions of y, column by column, that make its distribution simpler.

A kernel of one lengthscale follows a distribution best whose features are equally wide
everywhere. v = t(y) can make a skewed or heavy-tailed variable so; a density of v is a
density of y with p(y) = p(v) dt/dy.

Beyond the ends of the data, widened by a margin, every transform goes on as a straight
line with the slope that it has there. So t is a bijection of the whole line, no mass is
lost whatever its formula does far away, and the tails of y are those of v. Its slope is
continuous; where it is not smooth, at the ends and at knots, `column_breaks` tells.
"""

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from kexpfam._kernel_density import KernelEstimate, moments, silverman
from kexpfam._typing import Array, Indices
from kexpfam.base_densities.parameters import as_parameter, per_column
from kexpfam.persistence import saved_value

# Powers tried by default: 1 is the identity, below it pulls in a right tail.
POWERS = (-0.5, 0.0, 0.5, 1.0, 1.5, 2.0)

# How far a transform keeps its formula beyond the data, as a share of their range.
_MARGIN = 0.1

# The kernel density estimate behind `Gaussianize`: mass of a wide component that keeps
# the slope up where data are rare.
_GUARD_MASS = 0.02

# Its bandwidth is at least this share of what a Gaussian of the same variance would
# get, so that tied values are no spikes.
_NARROWEST_BANDWIDTH = 0.25

# Points that stand for the data in it, and knots of its spline (half at quantiles).
_POINTS = 2048
_KNOTS = 48

# Slopes of the spline at its knots, in units of the smaller neighbouring secant. Up to
# three it would still not decrease (Fritsch and Carlson 1980), but its slope could be
# zero inside.
_FLATTEST, _STEEPEST = 0.25, 2.0


class MonotoneTransform(ABC):
    """v = t(y), an increasing bijection of the line for each column."""

    def forward(self, Y: Array) -> Array:
        """t(y), (..., d) -> (..., d)."""
        return _by_column(self.column_forward, Y)

    def inverse(self, V: Array) -> Array:
        """The y with t(y) = v, (..., d) -> (..., d)."""
        return _by_column(self.column_inverse, V)

    def log_abs_det_jacobian(self, Y: Array) -> Array:
        """Log dt/dy, (..., d) -> (..., d)."""
        return _by_column(self.column_log_abs_det_jacobian, Y)

    def slope_gradient(self, Y: Array) -> Array:
        """d/dy log dt/dy, (..., d) -> (..., d)."""
        return _by_column(self.column_slope_gradient, Y)

    @abstractmethod
    def column_forward(self, y: Array, i: int) -> Array:
        """t(y) of column i."""

    @abstractmethod
    def column_inverse(self, v: Array, i: int) -> Array:
        """Its inverse."""

    @abstractmethod
    def column_log_abs_det_jacobian(self, y: Array, i: int) -> Array:
        """Log of its derivative."""

    @abstractmethod
    def column_slope_gradient(self, y: Array, i: int) -> Array:
        """Derivative of the log of its derivative."""

    @abstractmethod
    def column_breaks(self, i: int) -> Array:
        """Increasing points in y where t is not smooth."""


class ContinuedTransform(MonotoneTransform):
    """A formula between two ends of each column, and straight lines beyond."""

    @abstractmethod
    def column_ends(self, i: int) -> tuple[float, float]:
        """Where the formula ends."""

    @abstractmethod
    def _formula(self, y: Array, i: int) -> Array: ...

    @abstractmethod
    def _formula_inverse(self, v: Array, i: int) -> Array: ...

    @abstractmethod
    def _formula_log_abs_det_jacobian(self, y: Array, i: int) -> Array: ...

    @abstractmethod
    def _formula_slope_gradient(self, y: Array, i: int) -> Array: ...

    @abstractmethod
    def _inner_breaks(self, i: int) -> Array: ...

    def column_forward(self, y: Array, i: int) -> Array:
        inside = np.clip(y, *self.column_ends(i))
        beyond = (y - inside) * np.exp(self._formula_log_abs_det_jacobian(inside, i))
        return self._formula(inside, i) + beyond

    def column_inverse(self, v: Array, i: int) -> Array:
        ends = np.array(self.column_ends(i))
        inside = np.clip(v, *self._formula(ends, i))
        # Rounding of the inverse must not leave the formula's range.
        y = np.clip(self._formula_inverse(inside, i), *ends)
        return y + (v - inside) * np.exp(-self._formula_log_abs_det_jacobian(y, i))

    def column_log_abs_det_jacobian(self, y: Array, i: int) -> Array:
        return self._formula_log_abs_det_jacobian(np.clip(y, *self.column_ends(i)), i)

    def column_slope_gradient(self, y: Array, i: int) -> Array:
        low, high = self.column_ends(i)
        gradient = self._formula_slope_gradient(np.clip(y, low, high), i)
        return np.where((y < low) | (y > high), 0.0, gradient)

    def column_breaks(self, i: int) -> Array:
        return np.unique(np.append(self._inner_breaks(i), self.column_ends(i)))


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

    lam: float | tuple[float, ...] = 1.0
    low: float | tuple[float, ...] = -10.0
    high: float | tuple[float, ...] = 10.0

    def __post_init__(self) -> None:
        for name in ("lam", "low", "high"):
            value = as_parameter(name, getattr(self, name))
            object.__setattr__(self, name, value)
        if not np.all(np.asarray(self.low) < np.asarray(self.high)):
            raise ValueError(
                f"low must be below high, got low={self.low!r} and high={self.high!r}."
            )

    def column_ends(self, i: int) -> tuple[float, float]:
        return per_column(self.low, i), per_column(self.high, i)

    def _formula(self, y: Array, i: int) -> Array:
        lam, size = per_column(self.lam, i), np.log1p(np.abs(y))
        return np.where(y < 0, -_power(size, 2.0 - lam), _power(size, lam))

    def _formula_inverse(self, v: Array, i: int) -> Array:
        lam = per_column(self.lam, i)
        left = -_power_inverse(np.maximum(-v, 0.0), 2.0 - lam)
        return np.where(v < 0, left, _power_inverse(np.maximum(v, 0.0), lam))

    def _formula_log_abs_det_jacobian(self, y: Array, i: int) -> Array:
        return (per_column(self.lam, i) - 1.0) * np.sign(y) * np.log1p(np.abs(y))

    def _formula_slope_gradient(self, y: Array, i: int) -> Array:
        return (per_column(self.lam, i) - 1.0) / (1.0 + np.abs(y))

    def _inner_breaks(self, i: int) -> Array:
        low, high = self.column_ends(i)
        return np.zeros(1) if low < 0 < high else np.empty(0)


# For each column: knots, values or slopes there.
Columns = tuple[tuple[float, ...], ...]


@saved_value
@dataclass(frozen=True)
class Gaussianize(ContinuedTransform):
    """A monotone cubic spline close to Φ⁻¹(F(y)): what it makes is nearly normal.

    Attributes:
        knots: Increasing points of each column.
        values: The transform there.
        slopes: Its derivative there.

    Example:
        >>> import numpy as np
        >>> line = Gaussianize(((0.0, 1.0),), ((0.0, 2.0),), ((2.0, 2.0),))
        >>> line.forward(np.array([[0.5], [3.0]]))
        array([[1.],
               [6.]])
    """

    knots: Columns
    values: Columns
    slopes: Columns

    def __post_init__(self) -> None:
        parts = (self.knots, self.values, self.slopes)
        if not len(self.knots) or len({len(part) for part in parts}) > 1:
            raise ValueError("knots, values and slopes must have the same columns.")
        for y, v, slope in self._tables:
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

    def column_ends(self, i: int) -> tuple[float, float]:
        return self.knots[i][0], self.knots[i][-1]

    def _formula(self, y: Array, i: int) -> Array:
        piece, t, _ = self._locate(y, i)
        c0, c1, c2, c3 = self._coefficients[i][:, piece]
        return c0 + t * (c1 + t * (c2 + t * c3))

    def _formula_inverse(self, v: Array, i: int) -> Array:
        y, values, _ = self._tables[i]
        piece = np.clip(np.searchsorted(values, v, "right") - 1, 0, len(y) - 2)
        t = _cubic_root(self._coefficients[i][:, piece], v)
        return y[piece] + t * (y[piece + 1] - y[piece])

    def _formula_log_abs_det_jacobian(self, y: Array, i: int) -> Array:
        piece, t, width = self._locate(y, i)
        _, c1, c2, c3 = self._coefficients[i][:, piece]
        return np.log((c1 + t * (2.0 * c2 + t * 3.0 * c3)) / width)

    def _formula_slope_gradient(self, y: Array, i: int) -> Array:
        piece, t, width = self._locate(y, i)
        _, c1, c2, c3 = self._coefficients[i][:, piece]
        slope = c1 + t * (2.0 * c2 + t * 3.0 * c3)
        return (2.0 * c2 + 6.0 * c3 * t) / slope / width

    def _inner_breaks(self, i: int) -> Array:
        return np.array(self.knots[i])

    def _locate(self, y: Array, i: int) -> tuple[Indices, Array, Array]:
        """The piece of the spline, the position in it from 0 to 1, and its width."""
        knots, _, _ = self._tables[i]
        piece = np.clip(np.searchsorted(knots, y, "right") - 1, 0, len(knots) - 2)
        width = knots[piece + 1] - knots[piece]
        return piece, (y - knots[piece]) / width, width

    @functools.cached_property
    def _tables(self) -> list[tuple[Array, Array, Array]]:
        columns = zip(self.knots, self.values, self.slopes, strict=True)
        return [(np.array(y), np.array(v), np.array(s)) for y, v, s in columns]

    @functools.cached_property
    def _coefficients(self) -> list[Array]:
        """For each column c with t(y) = Σ_k c_k tᵏ, t from 0 to 1, (4, pieces)."""
        columns = []
        for y, v, slope in self._tables:
            width, rise = np.diff(y), np.diff(v)
            first, last = width * slope[:-1], width * slope[1:]
            square, cube = 3.0 * rise - 2.0 * first - last, first + last - 2.0 * rise
            columns.append(np.stack([v[:-1], first, square, cube]))
        return columns


@saved_value
@dataclass(frozen=True)
class Rescaled(MonotoneTransform):
    """Another transform of (y − center)/scale.

    Attributes:
        inner: The transform of the rescaled column.
        center: Once or per column.
        scale: Once or per column, positive.
    """

    inner: MonotoneTransform
    center: float | tuple[float, ...]
    scale: float | tuple[float, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.inner, MonotoneTransform):
            raise ValueError(f"inner must be a transform, got {self.inner!r}.")
        for name in ("center", "scale"):
            value = as_parameter(name, getattr(self, name))
            object.__setattr__(self, name, value)
        if np.min(self.scale) <= 0:
            raise ValueError(f"scale must be positive, got {self.scale!r}.")

    def column_forward(self, y: Array, i: int) -> Array:
        return self.inner.column_forward(self._inside(y, i), i)

    def column_inverse(self, v: Array, i: int) -> Array:
        center, scale = per_column(self.center, i), per_column(self.scale, i)
        return center + scale * self.inner.column_inverse(v, i)

    def column_log_abs_det_jacobian(self, y: Array, i: int) -> Array:
        inner = self.inner.column_log_abs_det_jacobian(self._inside(y, i), i)
        return inner - math.log(per_column(self.scale, i))

    def column_slope_gradient(self, y: Array, i: int) -> Array:
        inner = self.inner.column_slope_gradient(self._inside(y, i), i)
        return inner / per_column(self.scale, i)

    def column_breaks(self, i: int) -> Array:
        center, scale = per_column(self.center, i), per_column(self.scale, i)
        return center + scale * self.inner.column_breaks(i)

    def _inside(self, y: Array, i: int) -> Array:
        return (y - per_column(self.center, i)) / per_column(self.scale, i)


def fit_yeo_johnson(
    Y: Array, weights: Array, lams: Sequence[float] = POWERS
) -> YeoJohnson:
    """The power of each column that makes it most nearly normal.

    Args:
        Y: Standardised responses, (n, d).
        weights: Row weights, (n,).
        lams: Powers to choose from, by normal likelihood.

    Example:
        >>> import numpy as np
        >>> skewed = np.random.default_rng(0).lognormal(size=(500, 1))
        >>> fit_yeo_johnson(skewed / skewed.std(), np.ones(500)).lam
        (-0.5,)
    """
    share = weights / weights.sum()
    low, high = _widened(Y)
    chosen = []
    for i in range(Y.shape[1]):
        candidates = [YeoJohnson(lam, low[i], high[i]) for lam in lams]
        merits = [_normal_likelihood(t, Y[:, i], share) for t in candidates]
        chosen.append(float(lams[int(np.argmax(merits))]))
    return YeoJohnson(tuple(chosen), tuple(low.tolist()), tuple(high.tolist()))


def fit_gaussianize(Y: Array, weights: Array) -> Gaussianize:
    """Φ⁻¹ of a kernel estimate of each column's distribution function, as a spline.

    The estimate is made after a Yeo-Johnson power, so that its bandwidth follows the
    skewness of the column; it is at least the usual distance of distinct values.

    Args:
        Y: Standardised responses, (n, d).
        weights: Row weights, (n,).
    """
    columns = [_gaussianized(Y[:, i], weights) for i in range(Y.shape[1])]
    knots, values, slopes = zip(*columns, strict=True)
    return Gaussianize(knots, values, slopes)


def _normal_likelihood(t: MonotoneTransform, y: Array, share: Array) -> float:
    """Mean log likelihood of y, up to a constant, if t(y) were normal."""
    v = t.column_forward(y, 0)
    variance = float(share @ (v - share @ v) ** 2)
    return float(share @ t.column_log_abs_det_jacobian(y, 0)) - 0.5 * math.log(variance)


def _widened(Y: Array) -> tuple[Array, Array]:
    low, high = Y.min(axis=0), Y.max(axis=0)
    margin = _MARGIN * (high - low)
    return low - margin, high + margin


def _gaussianized(
    y: Array, weights: Array
) -> tuple[tuple[float, ...], tuple[float, ...], tuple[float, ...]]:
    """Knots, values and slopes of one column."""
    order = np.argsort(y)
    y, share = y[order], weights[order] / weights.sum()
    # A power first: one bandwidth then suits a skewed column everywhere.
    power = fit_yeo_johnson(y[:, None], share)
    w = power.column_forward(y, 0)
    mean, sd = moments(w, share)
    bandwidth = _bandwidth(w, share, sd, float(weights.sum()))
    low, high = power.column_forward(np.array(power.column_ends(0)), 0)
    levels = (np.arange(_KNOTS // 2) + 0.5) / (_KNOTS // 2)
    quantiles = w[np.minimum(np.searchsorted(np.cumsum(share), levels), len(w) - 1)]
    even = np.linspace(low, high, _KNOTS - _KNOTS // 2)
    at = _apart(np.concatenate([even, quantiles]), 0.5 * bandwidth)
    points, masses = _condensed(w, share)
    own = KernelEstimate.with_defensive_component(
        points, masses, bandwidth, mean, sd, _GUARD_MASS
    )
    below, above = own.tails(at)
    # Whichever tail is smaller has more digits.
    values = np.where(below < above, special.ndtri(below), -special.ndtri(above))
    knots = power.column_inverse(at, 0)
    log_normal = -0.5 * values * values - 0.5 * math.log(2.0 * math.pi)
    slopes = np.exp(own.log_density(at) - log_normal)
    slopes = slopes * np.exp(power.column_log_abs_det_jacobian(knots, 0))
    secants = _smaller_secants(knots, values)
    slopes = np.clip(slopes, _FLATTEST * secants, _STEEPEST * secants)
    return tuple(knots.tolist()), tuple(values.tolist()), tuple(slopes.tolist())


def _bandwidth(y: Array, share: Array, sd: float, count: float) -> float:
    """Silverman's rule of sorted values, but no narrower than ties allow."""
    lower, upper = np.searchsorted(np.cumsum(share), [0.25, 0.75])
    spread = (y[min(upper, len(y) - 1)] - y[lower]) / 1.34
    # The usual distance of distinct values, which rounding may have made.
    distance = float(np.median(np.diff(np.unique(y))))
    return max(
        silverman(min(spread, sd), count),
        _NARROWEST_BANDWIDTH * silverman(sd, count),
        distance,
    )


def _condensed(y: Array, share: Array) -> tuple[Array, Array]:
    """Sorted values and their masses, many of them averaged in groups."""
    if len(y) <= _POINTS:
        return y, share
    group = np.minimum((np.cumsum(share) * _POINTS).astype(int), _POINTS - 1)
    mass = np.bincount(group, share, minlength=_POINTS)
    total = np.bincount(group, share * y, minlength=_POINTS)
    filled = mass > 0
    return total[filled] / mass[filled], np.asarray(mass[filled], dtype=float)


def _apart(points: Array, distance: float) -> Array:
    """Sorted points, both ends among them, with no two nearer than a distance."""
    points = np.unique(points)
    kept = [points[0]]
    for point in points[1:-1]:
        if point - kept[-1] >= distance and points[-1] - point >= distance:
            kept.append(point)
    return np.array([*kept, points[-1]])


def _smaller_secants(y: Array, v: Array) -> Array:
    """At each knot the smaller slope of the secants on its sides."""
    secants = np.diff(v) / np.diff(y)
    return np.minimum(np.append(secants[:1], secants), np.append(secants, secants[-1:]))


def _power(log_size: Array, power: float) -> Array:
    """(eˢ)^power − 1 over power, s = log_size; s itself for power zero."""
    return np.expm1(power * log_size) / power if power else log_size


def _power_inverse(v: Array, power: float) -> Array:
    """The t ≥ 0 with ((1 + t)^power − 1)/power = v ≥ 0."""
    if not power:
        return np.expm1(v)
    # A negative power has a bounded range, which v leaves by rounding only.
    return np.expm1(np.log1p(np.maximum(power * v, -1.0 + 1e-300)) / power)


def _cubic_root(coefficients: Array, v: Array) -> Array:
    """T in [0, 1] where an increasing cubic equals v: Newton, guarded by bisection."""
    c0, c1, c2, c3 = coefficients
    low, high = np.zeros(v.shape), np.ones(v.shape)
    t = np.clip((v - c0) / (c1 + c2 + c3), 0.0, 1.0)
    for _ in range(80):
        gap = c0 + t * (c1 + t * (c2 + t * c3)) - v
        low, high = np.where(gap < 0, t, low), np.where(gap > 0, t, high)
        newton = t - gap / (c1 + t * (2.0 * c2 + t * 3.0 * c3))
        usable = (newton >= low) & (newton <= high)
        step = np.where(usable, newton, 0.5 * (low + high))
        moved = np.max(np.abs(step - t), initial=0.0)
        t = step
        if moved < 1e-16:
            break
    return t


def _by_column(function: Callable[[Array, int], Array], Y: Array) -> Array:
    return np.stack([function(Y[..., i], i) for i in range(Y.shape[-1])], axis=-1)
