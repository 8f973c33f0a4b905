"""Data that tests of several rooms draw; arrays are read-only."""

import numpy as np


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
