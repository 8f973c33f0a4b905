"""The whole estimator once more, for Gaussian kernels: standardise, fit, normalise.

Coefficients come from the loops in `score_matching`; with them

    T(x, u) = Σ_b k_X(x, x_b) Σ_i [a_bi ∂'_i + c_bi ∂'_i²] k_Y(u, u_b),
    ∂'_i k_Y = (v_i/ℓ²) k_Y,   ∂'_i² k_Y = (v_i²/ℓ⁴ − 1/ℓ²) k_Y,   v = u − u_b.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tests.oracles import kernels
from tests.oracles.integrals import SlowDensity
from tests.oracles.score_matching import SlowJoint, slow_fit


@dataclass(frozen=True)
class SlowBase:
    """One column of a base density in the coordinates of the kernel.

    Attributes:
        logpdf: Of an array.
        slope: Its derivative.
        support: Its ends.
    """

    logpdf: Callable
    slope: Callable
    support: tuple[float, float] = (-math.inf, math.inf)


def edge_weights(u, support, spread):
    """g = Π (1 − e^(−t/τ)) over finite edges, τ = min(spread, half the width)/2."""
    low, high = support
    tau = 0.5 * min(spread, 0.5 * (high - low))
    g, slope = 1.0, 0.0
    if math.isfinite(low):
        g, slope = 1 - math.exp(-(u - low) / tau), math.exp(-(u - low) / tau) / tau
    if math.isfinite(high):
        factor, fall = (
            1 - math.exp(-(high - u) / tau),
            -math.exp(-(high - u) / tau) / tau,
        )
        g, slope = g * factor, slope * factor + g * fall
    return g, slope


class SlowFamily:
    """q0(y) exp T(x, y) / Z(x) with Gaussian kernels and standardised columns."""

    def __init__(self, X, Y, ell_x, ell_y, lam, base: SlowBase):
        n = len(Y)
        self.ell_x, self.ell_y, self.base = ell_x, ell_y, base
        self.x_center, self.x_scale = X.mean(axis=0), X.std(axis=0)
        self.center, self.scale = Y.mean(axis=0), Y.std(axis=0)
        self.X = (X - self.x_center) / self.x_scale
        self.U = (Y - self.center) / self.scale
        weighted = [[edge_weights(u, base.support, 1.0) for u in row] for row in self.U]
        g, slope = np.moveaxis(np.array(weighted), 2, 0)
        joint = SlowJoint(((kernels.gaussian(ell_x), kernels.gaussian(ell_y)),))
        fit = slow_fit(
            joint,
            self.X,
            self.U,
            np.full(n, 1 / n),
            slope + g * base.slope(self.U),
            g,
            lam,
        )
        self.first, self.second = fit.first, fit.second

    def log_unnormalized(self, x, U):
        """Log q0 + T in the coordinates of the kernel at points (q, d), for one x."""
        return self._at(x)(U)

    def _at(self, x):
        ell = self.ell_y
        z = (np.asarray(x, dtype=float) - self.x_center) / self.x_scale
        k_x = np.exp(-0.5 * (((z - self.X) / self.ell_x) ** 2).sum(axis=1))
        linear, square = self.first / ell**2, self.second / ell**4
        constant = -self.second.sum(axis=1) / ell**2

        def log_unnormalized(U):
            v = U[:, None, :] - self.U
            squares = v * v
            k_y = np.exp(squares.sum(axis=2) * (-0.5 / ell**2))
            features = (linear * v + square * squares).sum(axis=2) + constant
            return (features * k_y) @ k_x + self.base.logpdf(U).sum(axis=1)

        return log_unnormalized

    def density(self, x, spread=12.0) -> SlowDensity:
        """The normalised density of y in the user's units; one column of y."""
        (center,), (scale,) = self.center, self.scale
        low, high = self.base.support
        inner = center + scale * np.array([-spread, -4, -2, -1, 0, 1, 2, 4, spread])
        ends = center + scale * np.array([low, high])
        breaks = [ends[0], *(b for b in inner if ends[0] < b < ends[1]), ends[1]]
        log_density = self._at(x)

        def log_unnormalized(y):
            u = (np.atleast_1d(y)[:, None] - center) / scale
            return log_density(u) - math.log(scale)

        return SlowDensity(log_unnormalized, breaks)

    def on_box(self, x, half_width, count):
        """Nodes in the user's units (g, d) with masses (g,), and log Z, by brute force.

        A tensor product of Gauss-Legendre nodes over a box of standardised responses.
        """
        nodes, weights = np.polynomial.legendre.leggauss(count)
        d = len(self.center)
        grid = np.meshgrid(*[half_width * nodes] * d, indexing="ij")
        U = np.stack([g.ravel() for g in grid], axis=1)
        volume = np.ones(1)
        for _ in range(d):
            volume = np.outer(volume, half_width * weights).ravel()
        log_density = self._at(x)
        values = np.concatenate([log_density(part) for part in np.array_split(U, 64)])
        mass = np.exp(values - values.max()) * volume
        log_z = math.log(mass.sum()) + values.max()
        return self.center + self.scale * U, mass / mass.sum(), log_z
