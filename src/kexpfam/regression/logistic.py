"""Multinomial logistic regression with a ridge, as plain arrays.

P(class c | x) = softmax(f(x) B)_c with features f(x) = (1, z) or (1, z, z²) of the
standardised x. B minimises −Σ_i ω_i log P(c_i | x_i) + ½ λ Σω · ‖B without its first
row‖², a convex problem, by L-BFGS.
"""

from dataclasses import dataclass

import numpy as np
from scipy import optimize, special

from kexpfam._typing import Array, Indices
from kexpfam.persistence import saved_fit
from kexpfam.regression.scaling import Scaling, scaling_of


@saved_fit({"scaling": "p", "coefficients": "q k", "degree": "positive"})
@dataclass(frozen=True, eq=False)
class LogisticRegression:
    """Probabilities of k classes."""

    scaling: Scaling  # Of x
    coefficients: Array  # B, (1 + degree · p, k)
    degree: int  # Of the features in each column

    def check_saved(self) -> None:
        """Refuse coefficients of other features."""
        columns = 1 + self.degree * len(self.scaling.center)
        if self.degree not in (1, 2) or len(self.coefficients) != columns:
            raise ValueError("array coefficients is not of these features")

    def log_probabilities(self, X: Array) -> Array:
        """Log P(c | x), (n, k)."""
        features = power_features(self.scaling, X, self.degree)
        return special.log_softmax(features @ self.coefficients, axis=1)


def power_features(scaling: Scaling, X: Array, degree: int) -> Array:
    """(1, z, ..., z^degree) of standardised x, (n, 1 + degree · p).

    Beyond three standard deviations x is taken to be there: powers extrapolate badly.
    """
    z = scaling.forward(X)
    if degree > 1:
        z = np.clip(z, -3.0, 3.0)
    return np.hstack([np.ones((len(z), 1)), *(z**k for k in range(1, degree + 1))])


def fit_logistic(
    X: Array,
    labels: Indices,
    weights: Array,
    classes: int,
    *,
    ridge: float = 1e-3,
    degree: int = 1,
) -> LogisticRegression:
    """Fit probabilities of classes 0, 1, ... to rows.

    Args:
        X: Conditions, (n, p).
        labels: Class of each row, (n,).
        weights: Row weights, (n,).
        classes: Number of classes; some may have no rows.
        ridge: λ, for rows that weigh one together.
        degree: Of the features in each column of x, 1 or 2.

    Example:
        >>> X = np.linspace(-1, 1, 40)[:, None]
        >>> labels = (X[:, 0] > 0).astype(int)
        >>> fit = fit_logistic(X, labels, np.ones(40), 2)
        >>> np.exp(fit.log_probabilities(np.array([[-1.0], [1.0]]))).round(2)
        array([[1., 0.],
               [0., 1.]])
    """
    scaling = scaling_of("X", X, weights)
    features = power_features(scaling, X, degree)
    share = weights / weights.sum()
    hits = np.eye(classes)[labels] * share[:, None]
    shape = (features.shape[1], classes)

    def loss(flat: Array) -> tuple[float, Array]:
        B = flat.reshape(shape)
        log_p = special.log_softmax(features @ B, axis=1)
        penalty = ridge * B
        # The intercept is free, up to what keeps a class without rows finite.
        penalty[0] *= 1e-3
        value = -float((hits * log_p).sum()) + 0.5 * float((penalty * B).sum())
        slope = features.T @ (np.exp(log_p) * share[:, None] - hits) + penalty
        return value, slope.ravel()

    start = np.zeros(shape)
    start[0] = np.log(np.maximum(hits.sum(axis=0), 1e-6))
    options = {"maxiter": 200, "ftol": 1e-10, "gtol": 1e-5}
    found = optimize.minimize(
        loss, start.ravel(), jac=True, method="L-BFGS-B", options=options
    )
    return LogisticRegression(scaling, found.x.reshape(shape), degree)
