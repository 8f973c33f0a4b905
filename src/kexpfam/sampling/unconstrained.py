"""A bounded variable as a function of one on the whole line.

Markov chains move best where there are no walls. With one finite end e a column is
u = e ± exp(v), with two it is u = low + (high − low)/(1 + exp(−v)), and v is sampled,
whose log density has log |du/dv| added. Written in NumPy's functions, which may also
be given arrays of another library (`kexpfam.sampling.tracing`).
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from kexpfam._typing import Array

# Starting points keep this distance from a finite end, as a share of the interval (or
# in units of the kernel's coordinates): on the edge itself v is infinite.
_MARGIN = 1e-6


class Point(NamedTuple):
    """A point of the support, and how it moves with v; each (..., d).

    Attributes:
        u: The point.
        slope: du/dv.
        log_slope: log |du/dv|.
        log_slope_gradient: d/dv log |du/dv|.
    """

    u: Array
    slope: Array
    log_slope: Array
    log_slope_gradient: Array


@dataclass(frozen=True)
class Unconstrained:
    """Coordinates v on the whole line for a support with ends.

    Attributes:
        ends: Lower and upper end of each column; either may be infinite.

    Example:
        >>> line = Unconstrained(((0.0, np.inf),))
        >>> v = line.from_support(np.array([[2.0]]))
        >>> line.at(v).u
        array([[2.]])
    """

    ends: tuple[tuple[float, float], ...]

    @classmethod
    def of(cls, support: Array) -> "Unconstrained":
        """From the ends of each column's support, (d, 2)."""
        return cls(tuple((float(low), float(high)) for low, high in support))

    def at(self, V: Array) -> Point:
        """The points of the support that V (..., d) stands for."""
        columns = [_column(V[..., i], *ends) for i, ends in enumerate(self.ends)]
        parts = zip(*columns, strict=True)
        return Point(*(np.stack(part, axis=-1) for part in parts))

    def from_support(self, U: Array) -> Array:
        """V for points U (..., d); what lies on an end, or beyond, is moved inside."""
        columns = [_inverse(U[..., i], *ends) for i, ends in enumerate(self.ends)]
        return np.stack(columns, axis=-1)


def _column(v: Array, low: float, high: float) -> Point:
    one = np.ones_like(v)
    if math.isinf(low) and math.isinf(high):
        return Point(v, one, 0.0 * one, 0.0 * one)
    if math.isinf(high):
        distance = np.exp(v)
        return Point(low + distance, distance, v, one)
    if math.isinf(low):
        distance = np.exp(v)
        return Point(high - distance, -distance, v, one)
    width = high - low
    # exp(−|v|) cannot overflow; the nearer end is the one that keeps its digits.
    small = np.exp(-np.abs(v))
    below = small / (1.0 + small)
    u = np.where(v < 0, low + width * below, high - width * below)
    slope = width * small / (1.0 + small) ** 2
    log_slope = math.log(width) - np.abs(v) - 2.0 * np.log1p(small)
    return Point(u, slope, log_slope, -np.sign(v) * (1.0 - small) / (1.0 + small))


def _inverse(u: Array, low: float, high: float) -> Array:
    if math.isinf(low) and math.isinf(high):
        return u
    if math.isinf(high):
        return np.log(np.maximum(u - low, _MARGIN))
    if math.isinf(low):
        return np.log(np.maximum(high - u, _MARGIN))
    share = np.clip((u - low) / (high - low), _MARGIN, 1.0 - _MARGIN)
    return np.log(share) - np.log1p(-share)
