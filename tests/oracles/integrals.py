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
            return -log_p * math.exp(log_p)

        return integral(summand, self.breaks)


def plane_integral(function, first, second, tolerance=1e-9) -> float:
    """∫∫ function(a, b) over a rectangle [first] × [second]."""
    return integrate.dblquad(
        lambda b, a: function(a, b),
        *first,
        *second,
        epsabs=tolerance,
        epsrel=tolerance,
    )[0]
