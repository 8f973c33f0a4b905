"""Densities on an interval: another density of a variable that lives on the line.

A `SupportMap` s takes [lower, upper] into the line. With W of density p there, and s
increasing, the density of y is

    q(y) = p(s(y)) s′(y) / P(s(lower) ≤ W ≤ s(upper))

inside the bounds, and zero outside. Near a bound s is a logarithm: what is crowded
there gets room, and little of p is cut off. A small margin keeps s finite at the bound,
so that rows which lie on it have a density like others. Away from a single bound s
becomes a straight line, beyond the last rows at the latest: tails and moments of y are
those of w, and not those of its exponential, of which no row has said anything.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from kexpfam._parallel import cached_property
from kexpfam._typing import Array, Indices, Mask
from kexpfam.distributions.one_column import OneColumnDensity
from kexpfam.distributions.recalibrated import MappedDensity
from kexpfam.persistence import saved_fit
from kexpfam.sampling import Run, Sampler


@saved_fit(
    {
        "lower": "unbounded",
        "upper": "unbounded",
        "margins": "positive",
        "scale": "positive",
        "reach": "positive unbounded",
    }
)
@dataclass(frozen=True)
class SupportMap:
    """An increasing map of [lower, upper] into the line.

    With t = (y − lower + margin)/scale it is log(eᵗ − 1), which is log t near the bound
    and t away from it; a single upper bound is its mirror image. Between two bounds it
    is the logit of y in the interval, widened by the margins.

    Attributes:
        lower: The lower bound, or −∞.
        upper: The upper bound, or ∞.
        margins: Positive distances by which the map goes on beyond either bound.
        scale: Where it turns from a logarithm to a straight line; not used between two
            bounds.
        reach: From this distance from the bound on it is a straight line, whatever the
            scale; not used between two bounds.

    Example:
        >>> import numpy as np
        >>> half = SupportMap(0.0, np.inf, (0.01, 0.01), 1.0)
        >>> half.forward(np.array([0.0, 1.0, 50.0])).round(1)
        array([-4.6,  0.6, 50. ])
    """

    lower: float
    upper: float
    margins: tuple[float, float]
    scale: float = 1.0
    reach: float = math.inf

    def check_saved(self) -> None:
        """Refuse what is no interval with a bound."""
        bounded = math.isfinite(self.lower) or math.isfinite(self.upper)
        if not (bounded and self.lower < self.upper):
            raise ValueError("a support map has no bounds")

    def forward(self, y: Array) -> Array:
        """s(y), of any shape; what is outside is taken to the bound."""
        if self._two:
            return np.log(self._from_left(y)) - np.log(self._from_right(y))
        t, beyond = self._distance(y)
        return self._sign * (_log_to_line(t) + beyond * self._last_slope)

    def inverse(self, w: Array) -> Array:
        """The y with s(y) = w, not outside the bounds."""
        if self._two:
            low, high = self.lower - self.margins[0], self.upper + self.margins[1]
            # From the nearer end, so that what is close to it keeps its digits.
            left = (high - low) / (1.0 + np.exp(-np.maximum(w, -700.0)))
            right = (high - low) / (1.0 + np.exp(np.minimum(w, 700.0)))
            y = np.where(w < 0, low + left, high - right)
        else:
            w = self._sign * w
            inside, beyond = _split(w, _log_to_line(self._last))
            distance = np.logaddexp(0.0, inside) + beyond / self._last_slope
            distance *= self.scale
            if self._sign > 0:
                y = self.lower + (distance - self.margins[0])
            else:
                y = self.upper - (distance - self.margins[1])
        return np.clip(y, self.lower, self.upper)

    def log_abs_det_jacobian(self, y: Array) -> Array:
        """Log s′(y)."""
        if self._two:
            left, right = self._from_left(y), self._from_right(y)
            return np.log(left + right) - np.log(left) - np.log(right)
        return -np.log(-np.expm1(-self._distance(y)[0])) - math.log(self.scale)

    def log_jacobian_gradient(self, y: Array) -> Array:
        """d/dy log s′(y)."""
        if self._two:
            return 1.0 / self._from_right(y) - 1.0 / self._from_left(y)
        t, beyond = self._distance(y)
        slope = -self._sign / np.expm1(np.minimum(t, 700.0)) / self.scale
        return np.where(beyond > 0, 0.0, slope)

    @property
    def breaks(self) -> Array:
        """Where s is not smooth, (k,)."""
        if self._two or not math.isfinite(self.reach):
            return np.empty(0)
        bound = self.lower if self._sign > 0 else self.upper
        return np.array([bound + self._sign * self.reach])

    @property
    def ends(self) -> Array:
        """Values of s at both ends, (2,)."""
        found = np.array([-np.inf, np.inf])
        for side, bound in enumerate((self.lower, self.upper)):
            if math.isfinite(bound):
                found[side] = float(self.forward(np.array(bound)))
        return found

    @property
    def _two(self) -> bool:
        return math.isfinite(self.lower) and math.isfinite(self.upper)

    @property
    def _sign(self) -> float:
        return 1.0 if math.isfinite(self.lower) else -1.0

    @property
    def _margin(self) -> float:
        return self.margins[0] if self._sign > 0 else self.margins[1]

    @property
    def _last(self) -> float:
        """The t from which on s is a straight line."""
        return (self.reach + self._margin) / self.scale

    @property
    def _last_slope(self) -> float:
        """Slope of s in t there."""
        return -1.0 / math.expm1(-self._last)

    def _distance(self, y: Array) -> tuple[Array, Array]:
        """T up to where s is a straight line, and what is beyond."""
        distance = y - self.lower if self._sign > 0 else self.upper - y
        t = (np.maximum(distance, 0.0) + self._margin) / self.scale
        return _split(t, self._last)

    def _from_left(self, y: Array) -> Array:
        return np.clip(y, self.lower, self.upper) - self.lower + self.margins[0]

    def _from_right(self, y: Array) -> Array:
        return self.upper - np.clip(y, self.lower, self.upper) + self.margins[1]


def _log_to_line(t: Any) -> Any:
    """log(eᵗ − 1): a logarithm for small t, and t for large ones."""
    return t + np.log(-np.expm1(-t))


def _split(values: Array, most: float) -> tuple[Array, Array]:
    """What of values is up to some number, and what is beyond; that may be infinite."""
    if not math.isfinite(most):
        return values, np.zeros_like(values)
    inside = np.minimum(values, most)
    return inside, values - inside


class BoundedDensity(MappedDensity):
    """n densities on an interval.

    Args:
        density: Densities p of w = s(y).
        support: The map s.

    Example:
        >>> import numpy as np
        >>> from kexpfam.base_densities import GaussianBase
        >>> from kexpfam.distributions import ClosedFormDensity
        >>> w = ClosedFormDensity(GaussianBase(1.0), np.zeros(1), np.ones(1))
        >>> p = BoundedDensity(w, SupportMap(0.0, 1.0, (0.001, 0.001)))
        >>> p.cdf(0.5), p.pdf(-0.1), p.interval(0.9).round(3)
        (array([0.5]), array([0.]), array([[0.161, 0.839]]))
    """

    _map: SupportMap

    def __init__(self, density: OneColumnDensity, support: SupportMap) -> None:
        super().__init__(density, support)

    @property
    def _ends(self) -> Array:
        ends = [self._map.lower, self._map.upper]
        return np.broadcast_to(ends, (self._n, 1, 2))

    @cached_property
    def _outside(self) -> tuple[Array, Array]:
        """What of p is beyond either bound, (n, 1) each."""
        low, high = self._map.ends
        nothing = np.zeros((self._n, 1))
        below = above = nothing
        if np.isfinite(low):
            below = self._density._cdf(np.full((self._n, 1), low))
        if np.isfinite(high):
            above = self._density._sf(np.full((self._n, 1), high))
        return below, above

    @cached_property
    def _mass(self) -> Array:
        """What is inside, (n, 1)."""
        below, above = self._outside
        return np.maximum(1.0 - below - above, np.finfo(float).tiny)

    def _inside(self, y: Array) -> Mask:
        return (y >= self._map.lower) & (y <= self._map.upper)

    def _log_pdf(self, Y: Array) -> Array:
        y = Y[..., 0]
        log_p = self._density._log_pdf(self._map.forward(Y))
        log_p = log_p + self._map.log_abs_det_jacobian(y) - np.log(self._mass)
        return np.where(self._inside(y), log_p, -np.inf)

    def _gradient(self, Y: Array) -> Array:
        slope = self._density._gradient(self._map.forward(Y))
        found = slope * np.exp(self._map.log_abs_det_jacobian(Y))
        found = found + self._map.log_jacobian_gradient(Y)
        return np.where(self._inside(Y), found, np.nan)

    def _cdf(self, y: Array, rows: Indices | None = None) -> Array:
        below, mass = self._of(rows, self._outside[0], self._mass)
        found = self._density._cdf(self._map.forward(y), rows)
        found = np.clip((found - below) / mass, 0.0, 1.0)
        return np.where(
            y < self._map.lower, 0.0, np.where(y >= self._map.upper, 1.0, found)
        )

    def _sf(self, y: Array, rows: Indices | None = None) -> Array:
        above, mass = self._of(rows, self._outside[1], self._mass)
        found = self._density._sf(self._map.forward(y), rows)
        found = np.clip((found - above) / mass, 0.0, 1.0)
        return np.where(
            y < self._map.lower, 1.0, np.where(y >= self._map.upper, 0.0, found)
        )

    def _ppf(self, levels: Array) -> Array:
        return self._map.inverse(self._density._ppf(self._inner_levels(levels, None)))

    def _inner_levels(self, levels: Array, rows: Indices | None) -> Array:
        below, mass = self._of(rows, self._outside[0], self._mass)
        tiny = np.finfo(float).tiny
        return np.clip(below + levels * mass, tiny, 1.0 - np.finfo(float).epsneg)

    def _run(self, sampler: Sampler, size: int, rng: np.random.Generator) -> Run:
        run = self._density._run(sampler, size, rng)
        low, high = self._map.ends
        # The few draws that are cut off are drawn again.
        lost = (run.draws < low) | (run.draws > high)
        draws = np.where(lost, self._draws(size, rng), self._map.inverse(run.draws))
        return Run(draws, run.report)

    def _rough_pdf(self, y: Array, rows: Indices | None = None) -> Array:
        (mass,) = self._of(rows, self._mass)
        p = self._density._rough_pdf(self._map.forward(y), rows)
        return np.where(
            self._inside(y), p * np.exp(self._map.log_abs_det_jacobian(y)) / mass, 0.0
        )

    def _around(
        self, levels: Array, rows: Indices | None = None
    ) -> tuple[Array, Array]:
        low, high = self._density._around(self._inner_levels(levels, rows), rows)
        return self._map.inverse(low), self._map.inverse(high)

    def _outline(self) -> Array:
        return self._map.inverse(self._density._outline())

    def _breaks(self) -> Array:
        behind = self._map.inverse(self._density._breaks())
        ends = np.array([self._map.lower, self._map.upper])
        inside = [behind, self._map.breaks, ends[np.isfinite(ends)]]
        return np.unique(np.concatenate(inside))

    def _of(self, rows: Indices | None, *parts: Array) -> tuple[Array, ...]:
        return parts if rows is None else tuple(part[rows] for part in parts)

    @cached_property
    def _moments(self) -> tuple[Array, Array]:
        """Mean and standard deviation, (n,) each, expectations of s⁻¹(W)."""
        ends, breaks = self._map.ends, self._map.forward(self._map.breaks)
        w = self._density._quadrature(np.concatenate([ends[np.isfinite(ends)], breaks]))
        inside = (w.nodes >= ends[0]) & (w.nodes <= ends[1])
        masses = np.where(inside, w.masses, 0.0)
        masses /= masses.sum(axis=1, keepdims=True)
        y = self._map.inverse(w.nodes)
        mean = np.einsum("nq,nq->n", masses, y)
        offsets = y - mean[:, None]
        std = np.sqrt(np.einsum("nq,nq,nq->n", masses, offsets, offsets))
        if np.isfinite([self._map.lower, self._map.upper]).all():
            return mean, std
        # A tail that has no moments in w has none in y.
        has_mean, has_std = self._density._has_moments()
        return np.where(has_mean, mean, np.nan), np.where(has_std, std, np.inf)
