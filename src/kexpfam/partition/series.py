"""Chebyshev series, many at once: values, slopes, and where they reach a value.

A cell's density, and its integral, is such a series.
"""

from collections.abc import Callable

import numpy as np
from numpy.polynomial import chebyshev

from kexpfam._typing import Array, Indices


def series_at(
    table: Array,  # Chebyshev coefficients of many series, (r, m), m > 1
    place: Indices,  # Which series each point belongs to, any shape
    t: Array,  # The points, from −1 to 1, of the same shape
) -> Array:
    """Σ_k c_k T_k(t) with the coefficients c = table[place]."""
    return _in_blocks(_clenshaw, table, place, t)


def _clenshaw(c: Array, t: Array) -> Array:
    """Clenshaw's recurrence for c (m, q) and t (q,); overwrites c.

    b_k = c_k + 2t b_{k+1} − b_{k+2}, and the sum is c_0 + t b_1 − b_2.
    """
    after, later = c[-1], np.zeros_like(t)
    twice, work = 2.0 * t, np.empty_like(t)
    for k in range(len(c) - 2, 0, -1):
        np.multiply(twice, after, out=work)
        c[k] += work
        c[k] -= later
        after, later = c[k], after
    return c[0] + t * after - later


def chebyshev_values(t: Array, count: int) -> Array:
    """T_0, T_1, ... at points (q,), by their recurrence, (count, q), count > 1."""
    T = np.empty((count, len(t)))
    T[0], T[1] = 1.0, t
    twice = 2.0 * t
    for k in range(2, count):
        np.multiply(twice, T[k - 1], out=T[k])
        T[k] -= T[k - 2]
    return T


def series_slopes(table: Array) -> Array:
    """Coefficients of the derivatives of many series, (r, m) -> (r, m − 1)."""
    return np.asarray(chebyshev.chebder(table, axis=-1), dtype=float)


def invert_series(
    table: Array,  # Chebyshev coefficients of the series, (r, m)
    place: Indices,  # Which series each target belongs to, any shape
    target: Array,  # Values of the series, of the same shape
) -> Array:
    """T in [−1, 1] where increasing series, zero at −1, equal the targets.

    Newton's method, replaced by bisection wherever it leaves the bracket.
    """
    return _in_blocks(_invert, table, place, target)


def _invert(series: Array, target: Array) -> Array:
    """The same for series (m, q), each with its own target (q,)."""
    derivative = np.asarray(chebyshev.chebder(series), dtype=float)
    total = series.sum(axis=0)
    low, high = -np.ones(target.shape), np.ones(target.shape)
    t = 2.0 * np.clip(target / np.where(total > 0, total, 1.0), 0.0, 1.0) - 1.0
    found, left = t.copy(), np.arange(len(t))
    for _ in range(60):
        gap = _clenshaw(series.copy(), t) - target
        low, high = np.where(gap < 0, t, low), np.where(gap > 0, t, high)
        with np.errstate(divide="ignore", invalid="ignore"):
            newton = t - gap / _clenshaw(derivative.copy(), t)
        usable = (newton > low) & (newton < high)
        step = np.where(usable, newton, 0.5 * (low + high))
        # Sums of coefficients are rounded by about this share of the total: what is
        # nearer is found.
        step = np.where(np.abs(gap) <= 2e-16 * total, t, step)
        done = np.abs(step - t) < 1e-15
        t = step
        found[left] = t
        if np.all(done):
            break
        if np.count_nonzero(done) > 0.25 * len(done):
            rest = ~done
            left, t, target, total = left[rest], t[rest], target[rest], total[rest]
            low, high = low[rest], high[rest]
            series, derivative = series[:, rest], derivative[:, rest]
    return found


def _in_blocks(
    work: Callable[[Array, Array], Array], table: Array, place: Indices, points: Array
) -> Array:
    """Work on the series of each point (m, q) and the points (q,), some at a time."""
    out = np.empty(points.size)
    places, flat = place.ravel(), points.ravel()
    size = 4096  # their coefficients stay in the cache
    for start in range(0, points.size, size):
        block = slice(start, start + size)
        # Coefficients of one degree side by side: what follows are plain sums.
        series = np.ascontiguousarray(table.take(places[block], axis=0).T)
        out[block] = work(series, flat[block])
    return out.reshape(points.shape)
