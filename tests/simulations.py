"""Data that tests of several rooms draw; arrays are read-only."""

import numpy as np
from scipy import special


def waves(n, p=1, *, seed=0, frequency=2.0, noise=0.3, half_width=None):
    """X (n, p) and y = sin(frequency · x₁) + noise · N(0, 1), (n,).

    Columns of X are standard normal, or uniform between ∓half_width.
    """
    rng = np.random.default_rng(seed)
    if half_width is None:
        X = rng.normal(size=(n, p))
    else:
        X = rng.uniform(-half_width, half_width, size=(n, p))
    y = np.sin(frequency * X[:, 0]) + noise * rng.normal(size=n)
    X.flags.writeable = y.flags.writeable = False
    return X, y


def shares(n, seed=0):
    """x (n, 1), and y (n,) in (0, 1) with mean expit(2x)."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, size=(n, 1))
    mean = 1.0 / (1.0 + np.exp(-2.0 * x[:, 0]))
    return x, rng.beta(2.0 * mean, 2.0 * (1.0 - mean))


def inflated(n, seed=0):
    """x (n, 1), and y (n,): zero with probability expit(2x), else a gamma variable."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, size=(n, 1))
    zero = rng.random(n) < special.expit(2.0 * x[:, 0])
    return x, np.where(zero, 0.0, rng.gamma(3.0, size=n))
