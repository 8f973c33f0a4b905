"""Slow twins of the metrics, and densities of any kind with the library's interface."""

import numpy as np
from scipy import stats

from tests.oracles.integrals import integral


class Frozen:
    """n frozen scipy distributions with the methods and shapes of `given(X)`.

    It has no others, so that metrics that use more fail.
    """

    def __init__(self, *distributions):
        self._all = distributions

    @property
    def support(self):
        return np.array([one.support() for one in self._all])

    def logpdf(self, y):
        return self._rows("logpdf", y)

    def pdf(self, y):
        return self._rows("pdf", y)

    def cdf(self, y):
        return self._rows("cdf", y)

    def ppf(self, q):
        return self._rows("ppf", q)

    def _rows(self, name, points):
        n, points = len(self._all), np.asarray(points, dtype=float)
        assert points.shape == (n,) or points.shape[:-1] in {(1,), (n,)}
        rows = points if len(points) == n else np.repeat(points, n, axis=0)
        pairs = zip(self._all, rows, strict=True)
        return np.array([getattr(one, name)(row) for one, row in pairs])


class Mixture:
    """One mixture of scipy distributions; only what `Frozen` asks for."""

    def __init__(self, weights, parts):
        self._weights, self._parts = weights, parts

    def support(self):
        ends = np.array([part.support() for part in self._parts])
        return ends[:, 0].min(), ends[:, 1].max()

    def pdf(self, y):
        return self._sum("pdf", y)

    def cdf(self, y):
        return self._sum("cdf", y)

    def logpdf(self, y):
        with np.errstate(divide="ignore"):
            return np.log(self.pdf(y))

    def ppf(self, q):
        q = np.asarray(q)
        quantiles = np.stack([part.ppf(q) for part in self._parts])
        low, high = quantiles.min(axis=0), quantiles.max(axis=0)
        for _ in range(100):
            middle = 0.5 * (low + high)
            under = self.cdf(middle) < q
            low, high = np.where(under, middle, low), np.where(under, high, middle)
        return 0.5 * (low + high)

    def _sum(self, name, y):
        pairs = zip(self._weights, self._parts, strict=True)
        return sum(weight * getattr(part, name)(y) for weight, part in pairs)


class GaussianModel:
    """p(y|x) = N(x + shift, scale²): right for y = x + standard normal noise."""

    def __init__(self, shift=0.0, scale=1.0):
        self.shift, self.scale = shift, scale

    def given(self, X):
        centers = np.asarray(X, dtype=float)[:, 0] + self.shift
        return Gaussians(centers, np.full(len(centers), self.scale))


class Gaussians:
    """n Gaussian densities, vectorised."""

    def __init__(self, mean, scale):
        self._mean, self._scale = mean, scale

    @property
    def support(self):
        return np.tile([-np.inf, np.inf], (len(self._mean), 1))

    def __getattr__(self, name):
        if name not in ("logpdf", "pdf", "cdf", "ppf"):
            raise AttributeError(name)

        def method(points):
            points = np.asarray(points, dtype=float)
            column = (slice(None), None) if points.ndim == 2 else slice(None)
            law = stats.norm(self._mean[column], self._scale[column])
            return getattr(law, name)(points)

        return method


def slow_integral(function, low, high, points=()):
    """∫ between two ends, cut at points."""
    return integral(
        function, sorted({low, high, *(t for t in points if low < t < high)})
    )


def slow_crps(one, y, points=()):
    """∫ F² below y and ∫ (1 − F)² above it, to infinity."""
    low, high = one.support()
    below = slow_integral(lambda t: one.cdf(t) ** 2, min(low, y), y, points)
    above = slow_integral(lambda t: (1 - one.cdf(t)) ** 2, y, max(high, y), points)
    return below + above


def slow_cde_loss(one, y, points=()):
    """∫ p² − 2 p(y)."""
    low, high = one.support()
    square = slow_integral(lambda t: one.pdf(t) ** 2, low, high, points)
    return square - 2 * one.pdf(y)


def slow_hpd_value(one, y, low, high, count=400_001):
    """Mass of the cells of a fine grid whose middle is as dense as y."""
    edges = np.linspace(low, high, count)
    middle = 0.5 * (edges[1:] + edges[:-1])
    return np.diff(one.cdf(edges))[one.pdf(middle) >= one.pdf(y)].sum()
