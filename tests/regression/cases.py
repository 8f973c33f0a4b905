"""Rows that several tests of regressions use."""

import numpy as np


def engel_like(n, seed=0):
    """Conditions (n, 1), skewed, and responses of mean 2 + 3x and std 0.3 eˣ, (n,)."""
    rng = np.random.default_rng(seed)
    x = rng.gamma(3.0, 0.3, size=(n, 1))
    return x, 2.0 + 3.0 * x[:, 0] + 0.3 * np.exp(x[:, 0]) * rng.normal(size=n)


def awkward_rows():
    """Rows repeated eight times, a constant column, an outlier: X, and several y."""
    rng = np.random.default_rng(0)
    X = np.repeat(rng.normal(size=(10, 2)), 8, axis=0)
    X = np.column_stack([X, np.full(80, 3.0)])
    X[0, 0] = 1e6
    y = np.repeat(rng.normal(size=10), 8)
    return X, [y, 1e-9 * y, y + 0.1 * rng.normal(size=80), np.full(80, 2.0)]
