"""Rows for the benchmarks of scale: ten columns, and a density that is known.

The mean is Friedman's function of five of the columns; noise is wider and more skewed
where the first column is large: a mixture of two normals around the mean.
"""

import numpy as np

Array = np.ndarray
P = 10


def _branches(X: Array) -> tuple[Array, Array, Array, Array]:
    """Middle, distance of the branches, width, share of the upper branch."""
    middle = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2
    middle += 10 * X[:, 3] + 5 * X[:, 4]
    return middle, 1.0 + 5.0 * X[:, 5], 0.5 + X[:, 0], 0.1 + 0.4 * X[:, 6]


def make_rows(n: int, seed: int) -> tuple[Array, Array]:
    """Conditions (n, 10) and responses (n,)."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, P))
    middle, distance, width, share = _branches(X)
    upper = rng.random(n) < share
    y = middle + np.where(upper, distance, 0.0) + width * rng.standard_normal(n)
    return X, y


def log_density(X: Array, y: Array) -> Array:
    """The log density that the rows were drawn from, (n,)."""
    middle, distance, width, share = _branches(X)

    def normal(center: Array) -> Array:
        return -0.5 * ((y - center) / width) ** 2

    both = np.logaddexp(
        np.log(share) + normal(middle + distance), np.log1p(-share) + normal(middle)
    )
    return both - np.log(width) - 0.5 * np.log(2.0 * np.pi)
