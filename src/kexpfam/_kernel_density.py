"""Kernel density estimates of one column: normal components at weighted data.

    p(y) = Σ_c m_c N(y; t_c, h_c²),   h = 0.9 σ n^(−1/5) for most components.

The rule is Silverman's. What a bandwidth should be relative to it, how data are binned,
and how much mass a defensive component has, is up to who asks.
"""

import math
from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy import special

from kexpfam._typing import Array, namespace_of


@dataclass(frozen=True, eq=False)
class KernelEstimate:
    """A mixture of normal densities.

    Example:
        >>> pair = KernelEstimate(np.array([-1.0, 1.0]), np.ones(2), np.full(2, 0.5))
        >>> pair.gradient(np.zeros(1)), pair.tails(np.zeros(1))
        (array([0.]), (array([0.5]), array([0.5])))
    """

    centers: Array  # (k,)
    widths: Array  # Standard deviations, (k,), or one for all
    masses: Array  # Positive, (k,), with sum one

    @classmethod
    def with_defensive_component(
        cls,
        points: Array,
        masses: Array,
        bandwidth: float,
        mean: float,
        std: float,
        share: float,
    ) -> Self:
        """Components at points, and a wide one with this share, for the tails."""
        return cls(
            np.append(points, mean),
            np.append(np.full(len(points), bandwidth), 2.0 * std),
            np.append((1.0 - share) * masses, share),
        )

    def log_density(self, y: Array) -> Array:
        """Log p(y), (n,)."""
        peak, terms = self._terms(y)
        with np.errstate(divide="ignore"):
            return peak + namespace_of(y).log(terms.sum(axis=1))

    def gradient(self, y: Array) -> Array:
        """d/dy log p(y), (n,)."""
        _, terms = self._terms(y)
        pull = (self.centers - y[:, None]) / (self.widths * self.widths)
        return namespace_of(y).einsum("nk,nk->n", terms, pull) / terms.sum(axis=1)

    def tails(self, y: Array) -> tuple[Array, Array]:
        """Masses below and above y, (n,) each: of the smaller one all digits count."""
        z = (y[:, None] - self.centers) / self.widths
        return special.ndtr(z) @ self.masses, special.ndtr(-z) @ self.masses

    def _terms(self, y: Array) -> tuple[Array, Array]:
        """Log of the largest component at each y, and all divided by it, (n, k)."""
        xp = namespace_of(y)
        z = (y[:, None] - self.centers) / self.widths
        constant = (
            np.log(self.masses) - np.log(self.widths) - 0.5 * math.log(2.0 * math.pi)
        )
        log_terms = constant - 0.5 * z * z
        peak = log_terms.max(axis=1)
        peak = xp.where(xp.isfinite(peak), peak, 0.0)  # far away all of them are zero
        return peak, xp.exp(log_terms - peak[:, None])


def moments(y: Array, weights: Array) -> tuple[float, float]:
    """Mean and standard deviation of weighted values."""
    total = float(weights.sum())
    mean = float(weights @ y) / total
    return mean, math.sqrt(float(weights @ (y - mean) ** 2) / total)


def silverman(std: float, count: float) -> float:
    """The bandwidth for so many rows of one bump with this std."""
    return 0.9 * std * count**-0.2
