"""Integrals of unnormalised densities by scipy's adaptive quadrature."""

import itertools
import math

import numpy as np
from scipy import integrate


def integral(function, breaks) -> float:
    """∫ function over consecutive pieces between `breaks`; its ends may be infinite."""
    pieces = [
        integrate.quad(function, a, b, epsabs=1e-14, epsrel=1e-12, limit=400)[0]
        for a, b in itertools.pairwise(breaks)
    ]
    return math.fsum(pieces)


class SlowDensity:
    """One normalised density of one variable, every property from its definition.

    Args:
        log_unnormalized: Log density, up to a constant, of an array of points.
        breaks: Ends of the support, and points in between where to cut the integrals.
    """

    def __init__(self, log_unnormalized, breaks):
        self.breaks = list(breaks)
        self._log = log_unnormalized
        inner = [b for b in self.breaks if math.isfinite(b)]
        self.log_partition = 0.0
        grid = np.linspace(min(inner), max(inner), 2001)[1:-1]
        self.log_partition = float(np.max(log_unnormalized(grid)))
        self.log_partition += math.log(integral(self._pdf, self.breaks))

    def logpdf(self, y):
        return self._log(np.asarray(y, dtype=float)) - self.log_partition

    def _pdf(self, y):
        return math.exp(self._log(np.array([y]))[0] - self.log_partition)

    def expect(self, function):
        return integral(lambda y: function(y) * self._pdf(y), self.breaks)

    def cdf(self, y):
        left = [b for b in self.breaks if b < y]
        return integral(self._pdf, [*left, y])

    def sf(self, y):
        right = [b for b in self.breaks if b > y]
        return integral(self._pdf, [y, *right])

    def mean(self):
        return self.expect(lambda y: y)

    def var(self):
        mean = self.mean()
        return self.expect(lambda y: (y - mean) ** 2)

    def entropy(self):
        def summand(y):
            log_p = self._log(np.array([y]))[0] - self.log_partition
            return -log_p * math.exp(log_p) if log_p > -math.inf else 0.0

        return integral(summand, self.breaks)


class BruteDensity:
    """The same as `SlowDensity` from a few thousand Gauss-Legendre nodes at once.

    Args:
        log_density: Log density, normalised or not, of an array of points.
        breaks: Finite points; the log density is smooth, and nearly a polynomial of
            modest degree, between neighbours, and nothing lies outside.
    """

    def __init__(self, log_density, breaks, count=48):
        t, w = np.polynomial.legendre.leggauss(count)
        self._breaks, self._log, self._t, self._w = np.array(breaks), log_density, t, w
        self.y, weights = self._nodes(self._breaks)
        log_p = np.maximum(log_density(self.y), -1e300)
        self.total = float(weights @ np.exp(log_p))
        self.mass = weights * np.exp(log_p) / self.total
        self._log_p = log_p - math.log(self.total)

    def _nodes(self, breaks):
        middle, half = 0.5 * (breaks[1:] + breaks[:-1]), 0.5 * np.diff(breaks)
        nodes = middle[:, None] + half[:, None] * self._t
        return nodes.ravel(), (half[:, None] * self._w).ravel()

    def expect(self, values):
        return float(self.mass @ values)

    def cdf(self, y):
        left = self._breaks[self._breaks < y]
        nodes, weights = self._nodes(np.append(left, y))
        return float(weights @ np.exp(self._log(nodes))) / self.total

    def mean(self):
        return self.expect(self.y)

    def var(self):
        return self.expect((self.y - self.mean()) ** 2)

    def entropy(self):
        return -self.expect(self._log_p)


def plane_integral(function, first, second, tolerance=1e-9) -> float:
    """∫∫ function(a, b) over a rectangle [first] × [second]."""
    return integrate.dblquad(
        lambda b, a: function(a, b),
        *first,
        *second,
        epsabs=tolerance,
        epsrel=tolerance,
    )[0]
