"""Integrals of unnormalised densities by adaptive quadrature, many points at once."""

import math

import numpy as np

# Nodes of a Gauss-Legendre rule on [-1, 1]; two halves of a piece must agree with it.
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(24)

# No density of the tests has mass beyond, and squares of such numbers are finite.
_FAR = 1e15


def integral(function, breaks, tolerance=1e-13) -> float:
    """∫ function over the pieces between `breaks`, whose ends may be infinite.

    Pieces are halved until both halves together give what the whole gives: the scheme
    of `scipy.integrate.quad`, with all points of a round in one call.

    Args:
        function: Of an array of points; its values are of the order of a density's.
        breaks: Ends, and where to cut.
        tolerance: Of each piece, relative to the whole or absolute.
    """
    if len(breaks) < 2:
        return 0.0
    with np.errstate(divide="ignore"):
        ends = _to_interval(np.array(breaks, dtype=float))
    low, high = ends[:-1], ends[1:]
    done, whole = [], _rules(function, low, high)
    for _ in range(60):
        middle = 0.5 * (low + high)
        left, right = _rules(function, low, middle), _rules(function, middle, high)
        size = math.fsum(done) + abs(left + right).sum()
        good = abs(left + right - whole) <= tolerance * max(1.0, size)
        done.extend((left + right)[good])
        if good.all():
            return math.fsum(done)
        low = np.concatenate([low[~good], middle[~good]])
        high = np.concatenate([middle[~good], high[~good]])
        whole = np.concatenate([left[~good], right[~good]])
    raise AssertionError(f"the integral over {breaks} did not converge")


def _to_interval(y):
    """y = sinh(t/(1 − t²)) backwards, so that infinite ends are at t = ±1."""
    v = np.arcsinh(y)
    finite = np.isfinite(v)
    t = np.sign(v)
    v = np.where(finite, v, 0.0)
    return np.where(finite, 2 * v / (1 + np.sqrt(1 + 4 * v**2)), t)


def _rules(function, low, high):
    """The Gauss-Legendre rule on each interval of t."""
    half = 0.5 * (high - low)
    t = 0.5 * (low + high)[:, None] + half[:, None] * _NODES
    v = t / (1 - t**2)
    with np.errstate(over="ignore"):
        y, jacobian = np.sinh(v), np.cosh(v) * (1 + t**2) / (1 - t**2) ** 2
    near = np.abs(y) < _FAR
    values = np.zeros_like(y)
    values[near] = np.asarray(function(y[near])) * jacobian[near]
    return half * (values @ _WEIGHTS)


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
        return np.exp(self._log(y) - self.log_partition)

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
            log_p = np.maximum(self._log(y) - self.log_partition, -1e3)
            return -log_p * np.exp(log_p)

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
    """∫∫ function(a, b) over a rectangle [first] × [second]; b comes as an array."""

    def inner(A):
        return [integral(lambda b: function(a, b), second, tolerance) for a in A]  # noqa: B023

    return integral(inner, first, tolerance)
