"""Nodes shared by many densities of one variable, for the trapezoidal rule.

Rougher than adaptive panels and much faster: for choosing among many fits, and for
fits that need log Z of every row at every step. Exponentials are convex, so the
trapezoidal sum is never below the integral of the interpolant that is linear in the
logarithm: if that interpolant is what is evaluated, no density integrates to more than
one, however narrow a spike between two nodes is.
"""

from dataclasses import dataclass

import numpy as np

from kexpfam._typing import Array, Indices

# Distance of nodes in lengthscales of y near the data, and its largest value in units
# of the responses' deviation.
_STEP_IN_LENGTHSCALES = 0.25
_LARGEST_STEP = 0.1


@dataclass(frozen=True)
class Nodes:
    """Nodes of the trapezoidal rule.

    Attributes:
        points: In increasing order, (g,).
        log_weights: Logarithms of the rule's weights, (g,).
    """

    points: Array
    log_weights: Array

    @classmethod
    def covering(cls, U: Array, reach: float, resolution: float) -> "Nodes":
        """Nodes fine near responses U, coarser up to ±reach."""
        step = min(_STEP_IN_LENGTHSCALES * resolution, _LARGEST_STEP)
        low, high = float(U.min()), float(U.max())
        margin = 2.0 * min(resolution, 1.0)
        fine = np.arange(low - margin, high + margin + step, step)
        growing = step * np.cumsum(1.15 ** np.arange(1, 60))
        left = fine[0] - growing[growing < max(reach + fine[0], step * 2)]
        right = fine[-1] + growing[growing < max(reach - fine[-1], step * 2)]
        points = np.concatenate([left[::-1], fine, right])
        gaps = np.diff(points)
        weights = 0.5 * (np.append(gaps, 0.0) + np.append(0.0, gaps))
        return cls(points, np.log(weights))

    def interpolation(self, u: Array) -> tuple[Indices, Array]:
        """Left neighbour of each value, and how far towards the right one it is."""
        left = np.clip(np.searchsorted(self.points, u) - 1, 0, len(self.points) - 2)
        gap = self.points[left + 1] - self.points[left]
        return left, (u - self.points[left]) / gap
