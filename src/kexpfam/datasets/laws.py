"""Laws of one variable at n conditions, in closed form: the truth behind simulations.

They are distributions of SciPy, or have the methods of one, and do not use
`kexpfam.distributions`, so that a simulation can judge it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from scipy import stats

from kexpfam._roots import increasing_roots
from kexpfam._typing import Array, Indices


class KnownLaw(Protocol):
    """n densities of one variable, whose parameters have shape (n, 1)."""

    def logpdf(self, x: Array) -> Array:
        """Log densities at points, (n, q) -> (n, q)."""

    def cdf(self, x: Array) -> Array:
        """Probabilities of at most x, (n, q) -> (n, q)."""

    def ppf(self, q: Array) -> Array:
        """The points where `cdf` has these values, (n, q) -> (n, q)."""

    def mean(self) -> Array:
        """Means, (n, 1)."""

    def rvs(self, size: tuple[int, int], random_state: Any) -> Array:
        """Independent draws, (n, size)."""


# A law at conditions, (n, p) -> n laws.
Conditional = Callable[[Array], KnownLaw]


@dataclass(frozen=True, eq=False)
class TwoNormals:
    """share · N(first, width²) + (1 − share) · N(second, width²).

    Example:
        >>> import numpy as np
        >>> one = np.ones((1, 1))
        >>> law = TwoNormals(0.25 * one, one, -one, 0.2 * one)
        >>> law.mean(), law.cdf(np.array([[0.0]])).round(6)
        (array([[-0.5]]), array([[0.75]]))
    """

    share: Array
    first: Array
    second: Array
    width: Array

    @property
    def _normals(self) -> tuple[KnownLaw, KnownLaw]:
        return stats.norm(self.first, self.width), stats.norm(self.second, self.width)

    def logpdf(self, x: Array) -> Array:
        first, second = (normal.logpdf(x) for normal in self._normals)
        with np.errstate(divide="ignore"):  # one of them may have all the mass
            shares = np.log(self.share), np.log1p(-self.share)
        return np.logaddexp(shares[0] + first, shares[1] + second)

    def cdf(self, x: Array) -> Array:
        first, second = (normal.cdf(x) for normal in self._normals)
        return self.share * first + (1.0 - self.share) * second

    def ppf(self, q: Array) -> Array:
        ends = [normal.ppf(q) for normal in self._normals]
        low, high = np.minimum(*ends), np.maximum(*ends)
        # Levels of 0 and 1 have infinite brackets, and need no search.
        row, column = np.nonzero(np.isfinite(low) & np.isfinite(high))
        wanted = q[row, column]

        def excess(x: Array, some: Indices) -> tuple[Array, Array]:
            k = row[some]
            law = TwoNormals(
                self.share[k], self.first[k], self.second[k], self.width[k]
            )
            gap = law.cdf(x[:, None]) - wanted[some, None]
            return gap[:, 0], np.exp(law.logpdf(x[:, None]))[:, 0]

        # A point is a quantile if the mass below it is right up to this share.
        rounding = 1e-14 * np.minimum(wanted, 1.0 - wanted)
        found = low.copy()
        found[row, column] = increasing_roots(
            excess, low[row, column], high[row, column], rounding
        )
        return found

    def mean(self) -> Array:
        return self.share * self.first + (1.0 - self.share) * self.second

    def rvs(self, size: tuple[int, int], random_state: np.random.Generator) -> Array:
        chosen = random_state.random(size) < self.share
        center = np.where(chosen, self.first, self.second)
        return center + self.width * random_state.standard_normal(size)
