"""Roots and extremes of many functions at once, each between two points."""

from collections.abc import Callable

import numpy as np

from kexpfam._typing import Array, Indices


def bracketed_roots(
    f: Callable[[Array], Array],  # The functions at one point each, (q,) -> (q,)
    low: Array,  # Left ends, (q,); f has another sign here than at the right ends
    high: Array,  # Right ends, (q,)
    *,
    tolerance: float = 1e-13,  # Largest last step, relative to the first bracket
) -> Array:
    """Where functions change sign, one root per bracket.

    Regula falsi with the Illinois rule: an end that is kept twice running counts half,
    so that both ends close in; a bracket that three steps did not halve is bisected.

    Example:
        >>> import numpy as np
        >>> square = lambda x: x**2 - np.array([2.0, 9.0])
        >>> bracketed_roots(square, np.zeros(2), np.full(2, 5.0)).round(6)
        array([1.414214, 3.      ])
    """
    if not low.size:
        return low
    width = np.maximum(high - low, np.finfo(float).tiny)
    f_low, f_high = f(low), f(high)
    kept = np.zeros(low.shape)  # −1 if the left end was kept last time, 1 if the right
    x = 0.5 * (low + high)
    moved_before, size_before = np.inf, width
    for step in range(200):
        with np.errstate(divide="ignore", invalid="ignore"):
            guess = (low * f_high - high * f_low) / (f_high - f_low)
        usable = (guess > low) & (guess < high)
        if step % 3 == 2:
            usable &= high - low < 0.5 * size_before
            size_before = high - low
        guess = np.where(usable, guess, 0.5 * (low + high))
        value = f(guess)
        moved = np.max(np.abs(guess - x) / width)
        x = guess
        left = np.sign(value) == np.sign(f_low)
        f_high = np.where(left & (kept == 1), 0.5 * f_high, f_high)
        f_low = np.where(~left & (kept == -1), 0.5 * f_low, f_low)
        low, f_low = np.where(left, guess, low), np.where(left, value, f_low)
        high, f_high = np.where(left, high, guess), np.where(left, f_high, value)
        kept = np.where(left, 1.0, -1.0)
        if max(moved, moved_before) < tolerance:  # twice, since one may be chance
            break
        moved_before = moved
    return x


def increasing_roots(
    # Some of the functions at one point each, and their derivatives: points (m,) and
    # which functions, (m,) -> two arrays (m,)
    f: Callable[[Array, Indices], tuple[Array, Array]],
    low: Array,  # Left ends, where f is not positive, (q,)
    high: Array,  # Right ends, where f is not negative, (q,)
    rounding: Array,  # Values of f that are zero but for rounding, (q,)
    *,
    start: Array | None = None,  # Where to begin, (q,); None for the middles
    # How far slopes are off at most, relative to themselves; if that is not known,
    # every root is looked at
    slope_error: float = np.inf,
) -> Array:
    """Where increasing functions with a known slope are zero, one root per bracket.

    Newton's method, replaced by bisection wherever it leaves the bracket or does not
    halve it. The slope may be rough: it only decides how fast the root is found. If it
    is known how rough, the last step is not looked at: values fall with the square of
    the ratio they fell by before, or with the error of the slope if that is larger.

    Example:
        >>> import numpy as np
        >>> numbers = np.array([2.0, 8.0])
        >>> cube = lambda x, which: (x**3 - numbers[which], 3 * x**2)
        >>> increasing_roots(cube, np.zeros(2), np.full(2, 5.0), np.full(2, 1e-14))
        array([1.25992105, 2.        ])
    """
    found = 0.5 * (low + high) if start is None else np.clip(start, low, high)
    left = np.arange(len(found))  # those that are still looked for
    x, before = found.copy(), high - low
    last = np.zeros(len(found))  # values one step ago; none yet
    for _ in range(200):
        if not len(left):
            break
        gap, slope = f(x, left)
        low, high = np.where(gap < 0, x, low), np.where(gap > 0, x, high)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            newton = x - gap / slope
        usable = (newton >= low) & (newton <= high) & (np.abs(newton - x) < before)
        step = np.where(usable, newton, 0.5 * (low + high))
        # A step must be at most half of the one before, or the next is a bisection.
        before = np.where(usable, 0.5 * np.abs(step - x), 0.5 * (high - low))
        size = np.abs(gap)
        there = size <= rounding[left]
        with np.errstate(divide="ignore", invalid="ignore"):
            next_size = size * np.maximum((size / last) ** 2, slope_error)
        sure = usable & (next_size <= rounding[left])
        # No step can be smaller than the distance of two doubles.
        rest = ~(there | sure) & (np.abs(step - x) > np.spacing(np.abs(x)))
        found[left] = np.where(there, x, step)
        left, x, before = left[rest], step[rest], before[rest]
        low, high, last = low[rest], high[rest], size[rest]
    return found


def golden_section(
    f: Callable[[Array], Array],  # The functions at one point each, of any shape
    low: Array,  # Left ends
    high: Array,  # Right ends
    sign: Array,  # 1 for the largest value between them, −1 for the smallest
) -> tuple[Array, Array]:
    """Brackets 1e-5 as wide around extremes: their values are flat, and then known.

    Example:
        >>> import numpy as np
        >>> low, high = golden_section(np.cos, np.full(1, -1.0), np.ones(1), np.ones(1))
        >>> bool(low[0] < 0 < high[0]), bool(high[0] - low[0] < 2e-5)
        (True, True)
    """
    share = 0.5 * (np.sqrt(5.0) - 1.0)
    step = share * (high - low)
    a, b = high - step, low + step
    at_a, at_b = sign * f(a), sign * f(b)
    for _ in range(25):
        left = at_a > at_b
        low, high = np.where(left, low, a), np.where(left, b, high)
        # One of the two is a point of the next pair as well.
        old, known = np.where(left, a, b), np.where(left, at_a, at_b)
        step = share * (high - low)
        new = np.where(left, high - step, low + step)
        value = sign * f(new)
        a, at_a = np.where(left, new, old), np.where(left, value, known)
        b, at_b = np.where(left, old, new), np.where(left, known, value)
    return low, high
