"""The penalised likelihood from its definition: one integral per row."""

import math

import numpy as np

from kexpfam.score_matching import TiltedDensity
from tests.oracles.integrals import integral


def slow_log_partition(basis, base, alpha, x, breaks):
    """Log ∫ q0 exp T(x, ·), cut at `breaks`."""
    tilted = TiltedDensity(base, basis.expansion(alpha), x[None])

    def density(u):
        return np.exp(tilted.log_unnormalized(u[None, :, None])[0])

    return math.log(integral(density, breaks))


def slow_objective(basis, base, X, U, weights, lam, alpha, breaks):
    """−(1/W) Σ w_a [T(x_a, u_a) − log Z(x_a)] + (λ/2) αᵀRα, row by row."""
    T = basis.expansion(alpha)
    total = 0.0
    for x, u, w in zip(X, U, weights, strict=True):
        log_z = slow_log_partition(basis, base, alpha, x, breaks)
        total -= w * (T.value(x[None], u[None])[0] - log_z)
    return total / weights.sum() + 0.5 * lam * alpha @ basis.gram() @ alpha
