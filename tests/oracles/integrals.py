"""Integrals of unnormalised densities by scipy's adaptive quadrature."""

import math

import numpy as np
from scipy import integrate


def integral(function, breaks) -> float:
    """∫ function over consecutive pieces between `breaks`; its ends may be infinite."""
    pieces = [
        integrate.quad(function, a, b, epsabs=1e-14, epsrel=1e-12, limit=400)[0]
        for a, b in zip(breaks[:-1], breaks[1:], strict=True)
    ]
    return math.fsum(pieces)


class SlowDensity:
    """One normalised density of one variable, every property from its definition.

    Args:
        log_unnormalized: Log density of a number, up to a constant.
        breaks: Ends of the support, and points in between where to cut the integrals.
    """

    def __init__(self, log_unnormalized, breaks):
        self.breaks = list(breaks)
        inner = [b for b in self.breaks if math.isfinite(b)]
        self._log = log_unnormalized
        grid = np.linspace(min(inner), max(inner), 2001)[1:-1]
        self._peak = max(log_unnormalized(y) for y in grid)
        mass = integral(lambda y: math.exp(log_unnormalized(y) - self._peak), breaks)
        self.log_partition = math.log(mass) + self._peak

    def logpdf(self, y):
        return self._log(y) - self.log_partition

    def expect(self, function):
        return integral(
            lambda y: function(y) * math.exp(self.logpdf(y)), self.breaks
        )

    def cdf(self, y):
        left = [b for b in self.breaks if b < y]
        return integral(lambda t: math.exp(self.logpdf(t)), [*left, y])

    def sf(self, y):
        right = [b for b in self.breaks if b > y]
        return integral(lambda t: math.exp(self.logpdf(t)), [y, *right])

    def mean(self):
        return self.expect(lambda y: y)

    def var(self):
        mean = self.mean()
        return self.expect(lambda y: (y - mean) ** 2)

    def entropy(self):
        return -self.expect(self.logpdf)


def plane_integral(function, first, second, tolerance=1e-9) -> float:
    """∫∫ function(a, b) over a rectangle [first] × [second]."""
    return integrate.dblquad(
        lambda b, a: function(a, b),
        *first,
        *second,
        epsabs=tolerance,
        epsrel=tolerance,
    )[0]
