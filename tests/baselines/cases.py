"""Rows for the tests."""

import numpy as np


def wave(n, frequency=1.0):
    """X (n, 2) and y (n,): a sine of the first column, the second says nothing."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2))
    return X, np.sin(frequency * X[:, 0]) + 0.3 * rng.normal(size=n)
