"""Nodes shared by many densities of one variable, for the trapezoidal rule.

Rougher than adaptive cells and much faster: for choosing among many fits, and for
fits that need log Z of every row at every step. Exponentials are convex, so the
trapezoidal sum is never below the integral of the interpolant that is linear in the
logarithm: if that interpolant is what is evaluated, no density integrates to more than
one, however narrow a spike between two nodes is.

Where digits count, nodes are the images of 0, ±1, ±2, … under an analytic map that is
a multiple of the identity near the data, grows towards an infinite end of the support
and settles exponentially at a finite one. For analytic densities the rule then
converges exponentially (Trefethen and Weideman 2014): a Gaussian peak as wide as the
distance of its nodes is integrated to 5·10⁻⁹.
"""

import itertools
from dataclasses import dataclass

import numpy as np
from scipy import special

from kexpfam._typing import Array, Indices


@dataclass(frozen=True)
class Nodes:
    """Nodes of the trapezoidal rule."""

    points: Array  # In increasing order, (g,)
    log_weights: Array  # Logarithms of the rule's weights, (g,)

    @classmethod
    def covering(cls, U: Array, reach: float, resolution: float) -> "Nodes":
        """Nodes fine near responses U, coarser between distant ones and up to ±reach.

        Their number is bounded by the number of responses, however far an outlier is.
        """
        # A quarter of a lengthscale of y apart, at most a tenth of the responses' std.
        step = min(0.25 * resolution, 0.1)
        margin = 2.0 * min(resolution, 1.0)
        growing = step * np.cumsum(1.15 ** np.arange(1, 60))
        values = np.unique(U)
        # Responses with more than a hundred steps between have coarser nodes there.
        apart = np.flatnonzero(np.diff(values) > 2.0 * margin + 100.0 * step)
        starts = values[np.append(0, apart + 1)] - margin
        ends = values[np.append(apart, len(values) - 1)] + margin
        parts = [
            low + step * np.arange(np.ceil((high - low) / step) + 1)
            for low, high in zip(starts, ends, strict=True)
        ]
        first, last = parts[0][0], parts[-1][-1]
        points = [first - growing[growing < max(reach + first, step * 2)][::-1]]
        for part, following in itertools.pairwise(parts):
            half = growing[growing < 0.5 * (following[0] - part[-1])]
            points += [part, part[-1] + half, following[0] - half[::-1]]
        points += [parts[-1], last + growing[growing < max(reach - last, step * 2)]]
        # Halves may meet in the middle of a gap.
        return cls.trapezoidal(np.unique(np.concatenate(points)))

    @classmethod
    def trapezoidal(cls, points: Array) -> "Nodes":
        """The trapezoidal rule at points in increasing order, (g,)."""
        gaps = np.diff(points)
        weights = 0.5 * (np.append(gaps, 0.0) + np.append(0.0, gaps))
        return cls(points, np.log(weights))

    @classmethod
    def analytic(
        cls,
        low: float,  # Where the densities' features begin
        high: float,  # Where they end
        *,
        step: float,  # Distance of the nodes between
        # Ends of the support; at a finite one the nodes accumulate
        support: tuple[float, float] = (-np.inf, np.inf),
        reach: tuple[float, float],  # How far to go where the support is not bounded
        growth: float = 0.14,  # How fast distances grow there, from node to node
    ) -> "Nodes":
        """Nodes of an analytic map: `step` apart in [low, high], then farther.

        Example:
            >>> nodes = Nodes.analytic(-2.0, 2.0, step=0.5, reach=(-9.0, 9.0))
            >>> normal = np.exp(-0.5 * nodes.points**2) / np.sqrt(2 * np.pi)
            >>> bool(abs(normal @ np.exp(nodes.log_weights) - 1) < 1e-6)
            True
        """
        bounded = np.isfinite(support)
        # In units of the distance and from `low` on: flat up to `flat`.
        low = support[0] if bounded[0] else low
        high = support[1] if bounded[1] else high
        flat = max(1.0, np.ceil((high - low) / step))
        step = (high - low) / flat
        # Nodes beyond a finite end approach it like e^(−k): 4e-8 of a step is left.
        tails = [
            17 if end else _growing_nodes(abs(far) / step, growth)
            for end, far in zip(bounded, (reach[0] - low, reach[1] - high), strict=True)
        ]
        t = np.arange(-tails[0], flat + tails[1] + 1.0)
        u, slope = np.zeros_like(t), np.zeros_like(t)
        # ψ = t, or log(1 + e^t) − log(1 + e^(t − flat)), or half of either; + growth.
        u += np.logaddexp(0.0, t) if bounded[0] else t
        slope += special.expit(t) if bounded[0] else 1.0
        if bounded[1]:
            u -= np.logaddexp(0.0, t - flat)
            slope -= special.expit(t - flat)
        if not bounded[0]:
            u -= _growth(-t, growth)[0]
            slope += _growth(-t, growth)[1]
        if not bounded[1]:
            u += _growth(t - flat, growth)[0]
            slope += _growth(t - flat, growth)[1]
        points = np.clip(low + step * u, *support)
        # 1 − σ loses digits at the right end, where the slope is known to be e^(−k).
        slope = np.where(bounded[1] & (t > flat), special.expit(flat - t), slope)
        return cls(points, np.log(step * slope))

    def interpolation(self, u: Array) -> tuple[Indices, Array]:
        """Left neighbour of each value, and how far towards the right one it is."""
        left = np.clip(np.searchsorted(self.points, u) - 1, 0, len(self.points) - 2)
        gap = self.points[left + 1] - self.points[left]
        return left, (u - self.points[left]) / gap

    def interval_weights(self, lower: Array, upper: Array) -> Array:
        """Weights of the integral over [lower, upper] of each row, (n, g).

        The integral of the function that is linear between the nodes, so that parts of
        a cell count as what they are.

        Example:
            >>> nodes = Nodes.trapezoidal(np.array([0.0, 1.0, 2.0]))
            >>> nodes.interval_weights(np.array([0.5]), np.array([np.inf]))
            array([[0.125, 0.875, 0.5  ]])
        """
        left, gaps = self.points[:-1], np.diff(self.points)
        # Where the interval begins and ends in each cell, from 0 to 1.
        first = np.clip((lower[:, None] - left) / gaps, 0.0, 1.0)
        last = np.clip((upper[:, None] - left) / gaps, 0.0, 1.0)
        right = 0.5 * gaps * (last**2 - first**2)
        weights = np.zeros((len(lower), len(self.points)))
        weights[:, :-1] = gaps * (last - first) - right
        weights[:, 1:] += right
        return weights


def _growth(t: Array, rate: float) -> tuple[Array, Array]:
    """(e^(rs) − 1)/r − s with s = log(1 + e^t), and its derivative.

    Both vanish quickly for t < 0, so that a finite end on the other side feels nothing.
    """
    s = np.logaddexp(0.0, t)
    grown = np.expm1(rate * s)
    return grown / rate - s, special.expit(t) * grown


def _growing_nodes(distance: float, rate: float) -> int:
    """How many nodes past the flat part reach so far, in units of their distance."""
    return int(np.ceil(np.log1p(rate * distance) / rate)) + 1
