"""Densities behind a monotone map of their PIT values.

With F the distribution function of a density p, and G one on [0, 1] with density g,

    q(y) = p(y) g(F(y)),    Q(y) = G(F(y)),    Q⁻¹(s) = F⁻¹(G⁻¹(s)).

If PIT values F(y) of unseen rows are not uniform but have the density g, then q is
calibrated where p is not. G is a mixture of the k beta distributions of order
statistics, Beta(j, k + 1 − j), j = 1..k: a Bernstein polynomial, whose density is at
most k times the largest weight. So tails of p keep their power, and its moments stay.
"""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy import special

from kexpfam._parallel import cached_property
from kexpfam._roots import increasing_roots
from kexpfam._typing import Array, Indices, Mask
from kexpfam.distributions.interface import ExactDensity
from kexpfam.distributions.one_column import OneColumnDensity, TabulatedDensity
from kexpfam.distributions.tabulation import Quadrature
from kexpfam.partition import CellDensity
from kexpfam.persistence import saved_fit


@saved_fit({"weights": "k positive share"})
@dataclass(frozen=True, eq=False)
class UnitMap:
    """G on [0, 1], a mixture of Beta(j, k + 1 − j) for j = 1..k.

    Example:
        >>> import numpy as np
        >>> same = UnitMap(np.full(5, 0.2))
        >>> same.cdf(np.array([0.1, 0.7])), same.pdf(np.array([0.1, 0.7]))
        (array([0.1, 0.7]), array([1., 1.]))
        >>> wider = UnitMap(np.array([0.3, 0.2, 0.2, 0.3]))
        >>> wider.cdf(np.array([0.05])).round(3)
        array([0.059])
    """

    weights: Array  # (k,), with sum one

    def check_saved(self) -> None:
        """Refuse weights of something else than one."""
        if not abs(float(self.weights.sum()) - 1.0) < 1e-6:
            raise ValueError("the weights of a map do not sum to one")

    def pdf(self, u: Array) -> Array:
        """g, at points of any shape."""
        return len(self.weights) * _bernstein(self.weights, u)

    def cdf(self, u: Array) -> Array:
        """G. Right relative to itself near zero: no term is negative."""
        return _bernstein(np.concatenate([[0.0], np.cumsum(self.weights)]), u)

    def slope(self, u: Array) -> Array:
        """g′."""
        k = len(self.weights)
        if k == 1:
            return np.zeros_like(u)
        return k * (k - 1) * _bernstein(np.diff(self.weights), u)

    def ppf(self, levels: Array) -> Array:
        """G⁻¹ at levels inside (0, 1), right relative to the tail that is smaller."""
        # Rows are mostly asked for the same levels.
        wanted, place = np.unique(levels, return_inverse=True)
        lower, upper = np.minimum(wanted, 1.0 - wanted), wanted > 0.5
        found = np.empty(lower.shape)
        for side, G in ((~upper, self), (upper, self.reversed())):
            if side.any():
                found[side] = G._lower(lower[side])
        found = np.where(upper, 1.0 - found, found)
        return found[place].reshape(levels.shape)

    def reversed(self) -> "UnitMap":
        """That of 1 − u: 1 − G(1 − u)."""
        return UnitMap(self.weights[::-1].copy())

    def _lower(self, level: Array) -> Array:
        k = len(self.weights)
        # g is between k min w and k max w.
        low = np.minimum(level / (k * self.weights.max()), 1.0)
        high = np.minimum(level / (k * self.weights.min()), 1.0)
        return increasing_roots(
            lambda u, some: (self.cdf(u) - level[some], self.pdf(u)),
            low,
            high,
            1e-14 * level,
        )


def _bernstein(c: Array, u: Array) -> Array:
    """Σ_j c_j binom(m, j) uʲ (1 − u)^(m−j), j = 0..m, at points of any shape."""
    m = len(c) - 1
    terms = c * special.binom(m, np.arange(m + 1))
    flat = np.ravel(u)
    found = np.empty(flat.shape)
    # By Horner's rule in u/(1 − u), or in its inverse if that is smaller.
    for upper, own in ((False, terms[::-1]), (True, terms)):
        side = np.flatnonzero((flat > 0.5) == upper)
        small = 1.0 - flat[side] if upper else flat[side]
        ratio = small / (1.0 - small)
        total = np.full(side.shape, own[0])
        for term in own[1:]:
            total *= ratio
            total += term
        found[side] = total * (1.0 - small) ** m
    return found.reshape(np.shape(u))


def _basis(u: Array, k: int) -> Array:
    """Densities of Beta(j, k + 1 − j), j = 1..k, (...) -> (..., k)."""
    j, v = np.arange(k), u[..., None]
    return k * special.binom(k - 1, j) * v**j * (1.0 - v) ** (k - 1 - j)


def beta_log_densities(u: Array, k: int) -> Array:
    """Log densities of PIT values (n,) under each part of a map, (k, n)."""
    with np.errstate(divide="ignore"):
        return np.log(_basis(u, k)).T


class MappedDensity(ExactDensity, TabulatedDensity):
    """Densities that are others behind a map: what does not depend on which."""

    _map: Any

    def __init__(self, density: OneColumnDensity, behind: Any) -> None:
        self._density = density
        self._map = behind
        self._single = density._single

    @property
    def density(self) -> OneColumnDensity:
        """The densities that are behind the map, as they were."""
        return self._density

    def tabulated(self) -> CellDensity:
        """The same densities on cells, whose values cost little at many points."""
        return self._cells

    def mean(self) -> Array:
        return self._out(self._moments[0])

    def std(self) -> Array:
        return self._out(self._moments[1])

    @property
    def log_partition_error(self) -> Array:
        """Error of the log of the total mass, that of the densities behind the map."""
        return self._density.log_partition_error

    @property
    def _n(self) -> int:
        return self._density._n

    def _has_moments(self) -> tuple[Mask, Mask]:
        return self._density._has_moments()

    def _draws(self, size: int, rng: np.random.Generator) -> Array:
        return self._ppf(rng.random((self._n, size)))[..., None]

    def _rows(self, index: Any, *, single: bool) -> Self:
        return type(self)(self._density._rows(index, single=single), self._map)

    @property
    @abstractmethod
    def _moments(self) -> tuple[Array, Array]:
        """Mean and standard deviation, (n,) each."""


class RecalibratedDensity(MappedDensity):
    """n densities behind the same map of their PIT values.

    Args:
        density: Densities p of one variable.
        calibration: The map G.

    Example:
        >>> import numpy as np
        >>> from kexpfam.base_densities import GaussianBase
        >>> from kexpfam.distributions import ClosedFormDensity
        >>> p = ClosedFormDensity(GaussianBase(1.0), np.zeros(1), np.ones(1))
        >>> q = RecalibratedDensity(p, UnitMap(np.array([0.3, 0.2, 0.2, 0.3])))
        >>> p.interval(0.9).round(3), q.interval(0.9).round(3)
        (array([[-1.645,  1.645]]), array([[-1.722,  1.722]]))
    """

    _map: UnitMap

    def __init__(self, density: OneColumnDensity, calibration: UnitMap) -> None:
        super().__init__(density, calibration)

    @property
    def calibration(self) -> UnitMap:
        """The map G."""
        return self._map

    @property
    def _ends(self) -> Array:
        return self._density._ends

    def _log_pdf(self, Y: Array) -> Array:
        below = self._density._cdf(Y[..., 0])
        return self._density._log_pdf(Y) + np.log(self._map.pdf(below))

    def _gradient(self, Y: Array) -> Array:
        below = self._density._cdf(Y[..., 0])
        p = np.exp(self._density._log_pdf(Y))
        bent = self._map.slope(below) / self._map.pdf(below) * p
        return self._density._gradient(Y) + bent[..., None]

    def _cdf(self, y: Array, rows: Indices | None = None) -> Array:
        return self._map.cdf(self._density._cdf(y, rows))

    def _sf(self, y: Array, rows: Indices | None = None) -> Array:
        return self._map.reversed().cdf(self._density._sf(y, rows))

    def _ppf(self, levels: Array) -> Array:
        return self._density._ppf(self._map.ppf(levels))

    def _rough_pdf(self, y: Array, rows: Indices | None = None) -> Array:
        below = np.clip(self._density._cdf(y, rows), 0.0, 1.0)
        return self._density._rough_pdf(y, rows) * self._map.pdf(below)

    def _around(
        self, levels: Array, rows: Indices | None = None
    ) -> tuple[Array, Array]:
        return self._density._around(self._map.ppf(levels), rows)

    def _breaks(self) -> Array:
        return self._density._breaks()

    def _bounds(self) -> Array:
        return self._density._bounds()

    @cached_property
    def _moments(self) -> tuple[Array, Array]:
        """Mean and standard deviation, (n,) each; those that p has not are not there.

        What g changes in the moments of p is an integral over cells, which need not
        reach into tails: there g is nearly a constant, that of the end which cells lack
        more of.
        """
        mean = np.reshape(self._density.mean(), self._n)
        std = np.reshape(self._density.std(), self._n)
        known = np.isfinite(mean) & np.isfinite(std) & (std > 0)
        unit = np.where(known, std, 1.0)
        center = np.where(np.isfinite(mean), mean, 0.0)
        p = self._density._quadrature(np.empty(0))
        z = (p.nodes - center[:, None]) / unit[:, None]
        g = self._map.pdf(p.below)
        first, second = p.integral(g * z), p.integral(g * z * z)
        # The moments beyond the cells, where g has the value of the end.
        low, high = self._map.pdf(np.array([0.0, 1.0]))
        lacking = -p.integral(z)
        first += lacking * np.where(lacking > 0, high, low)
        beyond = np.maximum(1.0 - p.integral(z * z), 0.0)
        variance = second - first**2 + beyond * 0.5 * (low + high)
        shift = np.where(np.isfinite(mean), unit * first, 0.0)
        root = np.sqrt(np.maximum(variance, 0.0))
        return mean + shift, np.where(known, unit * root, std)

    def _quadrature(self, breaks: Array) -> Quadrature:
        p = self._density._quadrature(breaks)
        return Quadrature(
            p.nodes, p.masses * self._map.pdf(p.below), self._map.cdf(p.below)
        )
