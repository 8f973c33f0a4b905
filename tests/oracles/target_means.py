"""Shrunk means of groups, and held-out ones, by loops over the rows."""

import numpy as np


def shrunk_means_slow(groups, k, y, weights):
    """One column of y: m + n_c / (n_c + s²/τ²) (m_c − m), group by group."""
    n = sum(weights)
    mean = sum(w * v for w, v in zip(weights, y, strict=True)) / n
    sizes, means = [], []
    for c in range(k):
        rows = [i for i in range(len(y)) if groups[i] == c]
        size = sum(weights[i] for i in rows)
        sizes.append(size)
        means.append(sum(weights[i] * y[i] for i in rows) / size if size else mean)
    seen = sum(size > 0 for size in sizes)
    inside = sum(weights[i] * (y[i] - means[groups[i]]) ** 2 for i in range(len(y)))
    s2 = inside / max(n - seen, 1.0)
    between = sum(size * (m - mean) ** 2 for size, m in zip(sizes, means, strict=True))
    spread = n - sum(size**2 for size in sizes) / n
    tau2 = max(0.0, (between - (seen - 1) * s2) / spread) if spread > 0 else 0.0
    codes = []
    for size, m in zip(sizes, means, strict=True):
        share = size / (size + s2 / tau2) if size and tau2 else 0.0
        codes.append(mean + share * (m - mean))
    return np.array(codes)


def held_out_codes_slow(groups, k, y, weights, fold):
    """Row by row, from the rows of the other parts."""
    mean, codes = np.average(y, weights=weights), []
    for i in range(len(y)):
        others = np.flatnonzero(fold != fold[i])
        w = weights[others]
        part = shrunk_means_slow(groups[others], k, y[others], w)
        codes.append(mean + part[groups[i]] - np.average(y[others], weights=w))
    return np.array(codes)
