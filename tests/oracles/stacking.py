"""Weights of a mixture by a general optimiser."""

import numpy as np
from scipy.optimize import minimize


def slow_stacked_weights(log_p, row_weights, center, pseudo_rows):
    """Weights (k,) that maximise Σ ω log Σ π p + c Σ a log π on the simplex."""
    k = len(log_p)
    tiny = 1e-300

    def loss(weights):
        total = 0.0
        for row, logs in zip(row_weights, log_p.T, strict=True):
            total -= row * np.log(max(sum(weights * np.exp(logs)), tiny))
        for share, weight in zip(center, weights, strict=True):
            if pseudo_rows:
                total -= pseudo_rows * share * np.log(max(weight, tiny))
        return total / row_weights.sum()

    found = minimize(
        loss,
        np.full(k, 1.0 / k),
        method="SLSQP",
        bounds=[(0.0, 1.0)] * k,
        constraints=[{"type": "eq", "fun": lambda weights: weights.sum() - 1.0}],
        options={"ftol": 1e-14, "maxiter": 1000},
    )
    return found.x
