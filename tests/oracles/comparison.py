"""Statistics of samples by loops over pairs, and variances by least squares."""

import numpy as np


def slow_mmd(k, X, Y):
    """Unbiased MMD², one pair after the other."""
    m, n = len(X), len(Y)
    xx = sum(k(X[i], X[j]) for i in range(m) for j in range(m) if i != j)
    yy = sum(k(Y[i], Y[j]) for i in range(n) for j in range(n) if i != j)
    xy = sum(k(x, y) for x in X for y in Y)
    return xx / (m * (m - 1)) + yy / (n * (n - 1)) - 2.0 * xy / (m * n)


def slow_residual_between(k, A, B):
    """Residual mean square of k(a, b) = mean + row + column, by least squares."""
    design, values = [], []
    for i, a in enumerate(A):
        for j, b in enumerate(B):
            design.append(np.concatenate([np.eye(len(A))[i], np.eye(len(B))[j]]))
            values.append(k(a, b))
    return _mean_square(np.array(design), np.array(values))


def slow_residual_within(k, A):
    """The same for k(a, a′) = row + row, over the pairs of one sample."""
    design, values = [], []
    for i in range(len(A)):
        for j in range(i):
            design.append(np.eye(len(A))[i] + np.eye(len(A))[j])
            values.append(k(A[i], A[j]))
    return _mean_square(np.array(design), np.array(values))


def _mean_square(design, values):
    found, _, rank, _ = np.linalg.lstsq(design, values, rcond=None)
    return np.sum((values - design @ found) ** 2) / (len(values) - rank)


def slow_difference_variance(k, Z, X, Y):
    """Variance of MMD²(Z, X) − MMD²(Z, Y), in which pairs of Z cancel.

    Projections by loops, less their noise, for each sample; then residuals over pairs.
    """
    r = len(Z)
    v_zx, v_zy = slow_residual_between(k, Z, X), slow_residual_between(k, Z, Y)
    total = 0.0
    for A, v_za in ((X, v_zx), (Y, v_zy)):
        m, v = len(A), slow_residual_within(k, A)
        h = [
            sum(k(A[i], A[j]) for j in range(m) if j != i) / (m - 2)
            - sum(k(A[i], z) for z in Z) / r
            for i in range(m)
        ]
        noise = v / (m - 2) + v_za / r
        total += 4.0 * (np.var(h, ddof=1) - noise) / m
        total += 2.0 * v / (m * (m - 1)) + 4.0 * v_za / (m * r)
    f = [np.mean([k(z, y) for y in Y]) - np.mean([k(z, x) for x in X]) for z in Z]
    noise = v_zx / len(X) + v_zy / len(Y)
    return total + 4.0 * (np.var(f, ddof=1) - noise) / r
