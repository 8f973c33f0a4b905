"""A bounded variable as a function of one on the whole line.

Markov chains move best where there are no walls. With one finite end e a column is
u = e ± exp(v), with two it is u = low + (high − low)/(1 + exp(−v)), and v is sampled,
whose log density has log |du/dv| added.
"""

import math
from dataclasses import dataclass

import numpy as np

from kexpfam._typing import Array, namespace_of

# Starting points keep this distance from a finite end, as a share of the interval (or
# in units of the kernel's coordinates): on the edge itself v is infinite.
_MARGIN = 1e-6


@dataclass(frozen=True)
class Unconstrained:
    """Coordinates v on the whole line for a support with ends.

    Example:
        >>> line = Unconstrained(((0.0, np.inf),))
        >>> v = line.from_support(np.array([[2.0]]))
        >>> u, log_slope = line.at(v)
        >>> u
        array([[2.]])
    """

    # Lower and upper end of each column; either may be infinite
    ends: tuple[tuple[float, float], ...]

    @classmethod
    def of(cls, support: Array) -> "Unconstrained":
        """From the ends of each column's support, (d, 2)."""
        return cls(tuple((float(low), float(high)) for low, high in support))

    def at(self, V: Array) -> tuple[Array, Array]:
        """The points u of the support that V (..., d) stands for, and log |du/dv|."""
        columns = [_column(V[..., i], *ends) for i, ends in enumerate(self.ends)]
        u, log_slope = zip(*columns, strict=True)
        xp = namespace_of(V)
        return xp.stack(u, axis=-1), xp.stack(log_slope, axis=-1)

    def from_support(self, U: Array) -> Array:
        """V for points U (..., d); what lies on an end, or beyond, is moved inside."""
        columns = [_inverse(U[..., i], *ends) for i, ends in enumerate(self.ends)]
        return np.stack(columns, axis=-1)


def _column(v: Array, low: float, high: float) -> tuple[Array, Array]:
    xp = namespace_of(v)
    if math.isinf(low) and math.isinf(high):
        return v, xp.zeros_like(v)
    if math.isinf(high):
        return low + xp.exp(v), v
    if math.isinf(low):
        return high - xp.exp(v), v
    width = high - low
    # −log of the shares of the interval below and above: neither can overflow, and the
    # nearer end keeps its digits.
    below, above = xp.logaddexp(0.0, -v), xp.logaddexp(0.0, v)
    from_low, from_high = width * xp.exp(-below), width * xp.exp(-above)
    u = xp.where(v < 0, low + from_low, high - from_high)
    return u, math.log(width) - below - above


def _inverse(u: Array, low: float, high: float) -> Array:
    if math.isinf(low) and math.isinf(high):
        return u
    if math.isinf(high):
        return np.log(np.maximum(u - low, _MARGIN))
    if math.isinf(low):
        return np.log(np.maximum(high - u, _MARGIN))
    share = np.clip((u - low) / (high - low), _MARGIN, 1.0 - _MARGIN)
    return np.log(share) - np.log1p(-share)
