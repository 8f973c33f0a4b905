"""Densities with given quantiles: pieces of Student's t between them, and as tails.

Quantiles q_1 < q_2 < ... at levels τ_1 < τ_2 < ... are put on the line of scores: with
G the distribution function of Student's t with 5 degrees of freedom, z(y) is the
piecewise linear function with z(q_t) = G⁻¹(τ_t), and

    F(y) = G(z(y)),    p(y) = g(z(y)) z'(y).

So F has the given quantiles exactly, whatever they are; those of a Student's t give
back its density. Beyond the outermost levels z goes on with the slope between them and
the middle, because neighbouring quantiles in a tail are the least certain of all.
"""

from typing import Any, Self

import numpy as np
from scipy import special

from kexpfam._parallel import cached_property
from kexpfam._typing import Array, Indices
from kexpfam.base_densities import StudentBase
from kexpfam.distributions import ExactDensity
from kexpfam.distributions.one_column import TabulatedDensity

# Tails that forgive far rows, with four moments.
SCORES = StudentBase(scale=1.0, df=5.0)


class QuantileDensity(ExactDensity, TabulatedDensity):
    """n densities with given quantiles.

    Args:
        quantiles: Increasing, (n, t).
        levels: Their levels, increasing, two at least, (t,).
        single: Whether the leading axis is dropped.

    Example:
        >>> levels = np.array([0.1, 0.3, 0.7, 0.9])
        >>> p = QuantileDensity(np.array([[-2.0, -1.0, 1.0, 5.0]]), levels)
        >>> p.cdf(np.array([[-2.0, -1.0, 1.0, 5.0]]))
        array([[0.1, 0.3, 0.7, 0.9]])
    """

    def __init__(
        self, quantiles: Array, levels: Array, *, single: bool = False
    ) -> None:
        if not np.all(np.diff(quantiles, axis=1) > 0):
            raise ValueError("quantiles must increase with their levels.")
        self._knots, self._levels = quantiles, levels
        self._at_knots = SCORES.column_quantile(levels, 0)
        self._single = single

    def mean(self) -> Array:
        return self._out(self._moments[0])

    def std(self) -> Array:
        return self._out(self._moments[1])

    @property
    def _n(self) -> int:
        return len(self._knots)

    @cached_property
    def _slopes(self) -> Array:
        """dz/dy of each piece, the tails first and last, (n, t + 1)."""
        y, z = self._knots, self._at_knots
        inner = np.diff(z) / np.diff(y, axis=1)
        half, other = len(z) // 2, (len(z) - 1) // 2
        first = (z[half] - z[0]) / (y[:, half] - y[:, 0])
        last = (z[-1] - z[other]) / (y[:, -1] - y[:, other])
        return np.column_stack([first, inner, last])

    @cached_property
    def _moments(self) -> tuple[Array, Array]:
        """Mean and standard deviation, (n,) each, piece by piece in closed form."""
        ends = np.concatenate([[-np.inf], self._at_knots, [np.inf]])
        mass, first, second = (np.diff(part) for part in _partial_moments(ends))
        # y = a + z / slope on each piece
        anchor = np.maximum(np.arange(len(ends) - 1) - 1, 0)
        width = 1.0 / self._slopes
        middle = np.median(self._knots, axis=1, keepdims=True)
        a = self._knots[:, anchor] - middle - self._at_knots[anchor] * width
        mean = a @ mass + width @ first
        square = a**2 @ mass + 2.0 * (a * width) @ first + width**2 @ second
        return mean + middle[:, 0], np.sqrt(np.maximum(square - mean**2, 0.0))

    def _placed(self, y: Array, rows: Indices | None) -> tuple[Array, Array]:
        """Scores of points and the slopes there, (m, q) each."""
        knots = self._knots if rows is None else self._knots[rows]
        slopes = self._slopes if rows is None else self._slopes[rows]
        piece = (y[:, :, None] >= knots[:, None]).sum(axis=2)
        anchor = np.maximum(piece - 1, 0)
        slope = np.take_along_axis(slopes, piece, axis=1)
        away = y - np.take_along_axis(knots, anchor, axis=1)
        return self._at_knots[anchor] + slope * away, slope

    def _values(self, levels: Array, rows: Indices | None = None) -> Array:
        knots = self._knots if rows is None else self._knots[rows]
        slopes = self._slopes if rows is None else self._slopes[rows]
        z = SCORES.column_quantile(levels, 0)
        piece = np.searchsorted(self._at_knots, z, side="right")
        anchor = np.maximum(piece - 1, 0)
        slope = np.take_along_axis(slopes, piece, axis=1)
        away = (z - self._at_knots[anchor]) / slope
        return np.take_along_axis(knots, anchor, axis=1) + away

    def _log_pdf(self, Y: Array) -> Array:
        z, slope = self._placed(Y[..., 0], None)
        return SCORES.column_log_density(z, 0) + np.log(slope)

    def _gradient(self, Y: Array) -> Array:
        z, slope = self._placed(Y[..., 0], None)
        return (SCORES.column_gradient(z, 0) * slope)[..., None]

    def _rough_pdf(self, y: Array, rows: Indices | None = None) -> Array:
        z, slope = self._placed(y, rows)
        return np.exp(SCORES.column_log_density(z, 0)) * slope

    def _cdf(self, y: Array, rows: Indices | None = None) -> Array:
        return SCORES.column_cdf(self._placed(y, rows)[0], 0)

    def _sf(self, y: Array, rows: Indices | None = None) -> Array:
        return SCORES.column_sf(self._placed(y, rows)[0], 0)

    def _ppf(self, levels: Array) -> Array:
        return self._values(levels)

    def _around(
        self, levels: Array, rows: Indices | None = None
    ) -> tuple[Array, Array]:
        y = self._values(levels, rows)
        return y, y

    def _breaks(self) -> Array:
        return np.empty(0)  # each density has its own, which are in the outline

    def _outline(self) -> Array:
        return np.sort(np.concatenate([super()._outline(), self._knots], axis=1))

    def _draws(self, size: int, rng: np.random.Generator) -> Array:
        return self._values(rng.random((self._n, size)))[..., None]

    def _rows(self, index: Any, *, single: bool) -> Self:
        return type(self)(self._knots[index], self._levels, single=single)


def _partial_moments(z: Array) -> tuple[Array, Array, Array]:
    """∫ g, ∫ t g and ∫ t² g from −∞ to each z.

    (1 + t²/ν) g(t) is, up to a constant, the density of Student's t with ν − 2 degrees
    of freedom at t √((ν − 2)/ν), and −(ν + t²) g(t)/(ν − 1) has the derivative t g(t).
    """
    nu = SCORES.df
    mass = SCORES.column_cdf(z, 0)
    finite = np.where(np.isfinite(z), z, 0.0)
    density = np.exp(SCORES.column_log_density(finite, 0))
    first = np.where(np.isfinite(z), -(nu + finite**2) * density / (nu - 1.0), 0.0)
    other = special.stdtr(nu - 2.0, z * np.sqrt((nu - 2.0) / nu))
    return mass, first, nu * ((nu - 1.0) / (nu - 2.0) * other - mass)
