"""Laws of one variable at n conditions, in closed form: the truth behind simulations.

They do not use `kexpfam.distributions`, so that a simulation can judge it. Parameters
have shape (n, 1), points and levels (n, q).
"""

import abc
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import special

from kexpfam._roots import increasing_roots
from kexpfam._typing import Array, Indices


class Law(abc.ABC):
    """n densities of one variable."""

    @abc.abstractmethod
    def logpdf(self, y: Array) -> Array:
        """Log densities at points, (n, q) -> (n, q)."""

    @abc.abstractmethod
    def cdf(self, y: Array) -> Array:
        """Probabilities of at most y, (n, q) -> (n, q)."""

    @abc.abstractmethod
    def quantile(self, levels: Array) -> Array:
        """The points where `cdf` has these values, (n, q) -> (n, q)."""

    @abc.abstractmethod
    def mean(self) -> Array:
        """Means, (n,)."""

    @abc.abstractmethod
    def draw(self, size: int, rng: np.random.Generator) -> Array:
        """Independent draws, (n, size)."""


# A law at conditions, (n, p) -> n laws.
Conditional = Callable[[Array], Law]


@dataclass(frozen=True, eq=False)
class Normal(Law):
    """N(center, width²).

    Example:
        >>> import numpy as np
        >>> Normal(np.array([[1.0]]), np.array([[2.0]])).cdf(np.array([[1.0, 3.0]]))
        array([[0.5       , 0.84134475]])
    """

    center: Array
    width: Array

    def logpdf(self, y: Array) -> Array:
        z = (y - self.center) / self.width
        return -0.5 * z**2 - np.log(self.width) - 0.5 * np.log(2.0 * np.pi)

    def cdf(self, y: Array) -> Array:
        return special.ndtr((y - self.center) / self.width)

    def quantile(self, levels: Array) -> Array:
        return self.center + self.width * special.ndtri(levels)

    def mean(self) -> Array:
        return self.center[:, 0]

    def draw(self, size: int, rng: np.random.Generator) -> Array:
        return self.center + self.width * rng.standard_normal((len(self.center), size))


@dataclass(frozen=True, eq=False)
class Gamma(Law):
    """start + scale · Gamma(shape): skewed, and zero below its start.

    Example:
        >>> import numpy as np
        >>> law = Gamma(3.0, np.array([[0.5]]), np.array([[1.0]]))
        >>> law.mean(), law.cdf(np.array([[1.0, 2.5]]))
        (array([2.5]), array([[0.        , 0.57680992]]))
    """

    shape: float
    scale: Array
    start: Array

    def logpdf(self, y: Array) -> Array:
        z = (y - self.start) / self.scale
        inside = np.where(z > 0, z, 1.0)
        log_p = special.xlogy(self.shape - 1.0, inside) - inside
        log_p = log_p - special.gammaln(self.shape) - np.log(self.scale)
        return np.where(z > 0, log_p, -np.inf)

    def cdf(self, y: Array) -> Array:
        z = (y - self.start) / self.scale
        return special.gammainc(self.shape, np.maximum(z, 0.0))

    def quantile(self, levels: Array) -> Array:
        return self.start + self.scale * special.gammaincinv(self.shape, levels)

    def mean(self) -> Array:
        return (self.start + self.scale * self.shape)[:, 0]

    def draw(self, size: int, rng: np.random.Generator) -> Array:
        draws = rng.standard_gamma(self.shape, (len(self.scale), size))
        return self.start + self.scale * draws


@dataclass(frozen=True, eq=False)
class TwoNormals(Law):
    """share · N(first, width²) + (1 − share) · N(second, width²).

    Example:
        >>> import numpy as np
        >>> one = np.ones((1, 1))
        >>> law = TwoNormals(0.25 * one, one, -one, 0.2 * one)
        >>> law.mean(), law.cdf(np.array([[0.0]])).round(6)
        (array([-0.5]), array([[0.75]]))
    """

    share: Array
    first: Array
    second: Array
    width: Array

    @property
    def _normals(self) -> tuple[Normal, Normal]:
        return Normal(self.first, self.width), Normal(self.second, self.width)

    def logpdf(self, y: Array) -> Array:
        first, second = (normal.logpdf(y) for normal in self._normals)
        with np.errstate(divide="ignore"):  # one of them may have all the mass
            shares = np.log(self.share), np.log1p(-self.share)
        return np.logaddexp(shares[0] + first, shares[1] + second)

    def cdf(self, y: Array) -> Array:
        first, second = (normal.cdf(y) for normal in self._normals)
        return self.share * first + (1.0 - self.share) * second

    def quantile(self, levels: Array) -> Array:
        ends = [normal.quantile(levels) for normal in self._normals]
        low, high = np.minimum(*ends), np.maximum(*ends)
        # Levels of 0 and 1 have infinite brackets, and need no search.
        row, column = np.nonzero(np.isfinite(low) & np.isfinite(high))
        wanted = levels[row, column]

        def excess(y: Array, some: Indices) -> tuple[Array, Array]:
            law = self._rows(row[some])
            gap = law.cdf(y[:, None]) - wanted[some, None]
            return gap[:, 0], np.exp(law.logpdf(y[:, None]))[:, 0]

        # A point is a quantile if the mass below it is right up to this share.
        rounding = 1e-14 * np.minimum(wanted, 1.0 - wanted)
        found = low.copy()
        found[row, column] = increasing_roots(
            excess, low[row, column], high[row, column], rounding
        )
        return found

    def mean(self) -> Array:
        return (self.share * self.first + (1.0 - self.share) * self.second)[:, 0]

    def draw(self, size: int, rng: np.random.Generator) -> Array:
        chosen = rng.random((len(self.share), size)) < self.share
        center = np.where(chosen, self.first, self.second)
        return center + self.width * rng.standard_normal(center.shape)

    def _rows(self, rows: Indices) -> "TwoNormals":
        return TwoNormals(
            self.share[rows], self.first[rows], self.second[rows], self.width[rows]
        )
