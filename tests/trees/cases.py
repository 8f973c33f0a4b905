"""Rows that trees are grown on, and the plain walk that predictions are compared to."""

import numpy as np

from tests.conftest import read_only


def rows(n=300, p=3, k=2, seed=0, missing=0.0):
    """X (n, p), Y (n, k) and weights (n,): a rough function and noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    Y = np.sin(3 * X[:, :1]) * np.arange(1, k + 1) + 0.3 * rng.normal(size=(n, k))
    X[rng.random(X.shape) < missing] = np.nan
    return read_only(X, Y, rng.uniform(0.5, 2.0, size=n))


def walk(forest, x):
    """The prediction at one row, by following each tree from its root."""
    x = x.astype(forest.threshold.dtype)
    total = np.zeros(forest.values.shape[1])
    ends = [*forest.roots[1:], forest.feature.size]
    for root, end in zip(forest.roots, ends, strict=True):
        feature = forest.feature[root:end]
        splits_before = np.count_nonzero(forest.feature[:root] >= 0)
        node = 0
        while feature[node] >= 0:
            number = np.count_nonzero(feature[:node] >= 0)
            value = x[feature[node]]
            if np.isnan(value):
                left = forest.missing_left[splits_before + number] == 1
            else:
                left = value <= forest.threshold[splits_before + number]
            node = 2 * number + (1 if left else 2)
        leaf = np.count_nonzero(forest.feature[: root + node] < 0)
        total += forest.values[leaf].astype(float)
    if forest.components is not None:
        total = total @ forest.components
    return forest.offset + forest.scale * total
