"""Roots of many functions at once against scipy, one by one."""

import numpy as np
import pytest
from scipy import optimize, special

from kexpfam._roots import bracketed_roots, golden_section, increasing_roots

# Steep, flat, with a kink, with a plateau beside the root, and nearly a step.
FUNCTIONS = [
    lambda x: x**3 - 0.2,
    lambda x: np.expm1(3.0 * x) - 4.0,
    lambda x: special.ndtr(50.0 * (x - 0.3)) - 1e-6,
    lambda x: np.where(x < 0.5, 0.1 * (x - 0.5), x - 0.5),
    lambda x: np.maximum(x - 0.7, 0.0) + 1e-3 * x - 2e-3,
    lambda x: np.arctan(1e8 * (x - 0.123)),
]
LOW, HIGH = np.full(6, -1.0), np.full(6, 2.0)


def _all(x):
    return np.array([float(f(v)) for f, v in zip(FUNCTIONS, x, strict=True)])


def _slopes(x):
    return (_all(x + 1e-7) - _all(x - 1e-7)) / 2e-7


EXPECTED = [optimize.brentq(f, -1.0, 2.0, xtol=1e-15) for f in FUNCTIONS]


def test_bracketed_roots_equal_those_of_scipy():
    found = bracketed_roots(_all, LOW, HIGH)
    np.testing.assert_allclose(found, EXPECTED, atol=1e-11)


@pytest.mark.parametrize("start", [None, np.linspace(-3.0, 4.0, 6)])
@pytest.mark.parametrize("factor", [1.0, 3.0, 0.3, 0.0, -1.0])
def test_increasing_roots_are_found_with_right_and_with_wrong_slopes(factor, start):
    def some(x, which):
        every = np.zeros(6)
        every[which] = x
        return _all(every)[which], factor * _slopes(every)[which]

    found = increasing_roots(some, LOW, HIGH, np.zeros(6), start=start)
    np.testing.assert_allclose(found, EXPECTED, atol=1e-13)


def test_increasing_roots_stop_at_the_rounding_of_the_function():
    calls = []

    def noisy(x, _):
        calls.append(1)
        return x - 0.3 + 1e-9 * np.sin(1e12 * x), np.ones_like(x)

    def found(rounding):
        calls.clear()
        ones = np.ones(1)
        return increasing_roots(noisy, -ones, ones, rounding * ones)

    assert abs(found(2e-9)[0] - 0.3) < 4e-9
    assert len(calls) < 8


@pytest.mark.parametrize("slope_error", [1e-7, 1e-3])
def test_the_last_step_is_not_looked_at_if_it_is_known_how_rough_slopes_are(
    slope_error,
):
    levels = np.array([0.001, 0.05, 0.5, 0.95])
    evaluations = []

    def excess(x, which):
        evaluations.append(len(x))
        slope = np.exp(-0.5 * x**2) / np.sqrt(2 * np.pi)
        return special.ndtr(x) - levels[which], slope * (1.0 + slope_error)

    def found(**how):
        evaluations.clear()
        ends = np.full(4, 9.0)
        rounding = 1e-14 * np.minimum(levels, 1.0 - levels)
        start = special.ndtri(levels) + 0.1
        y = increasing_roots(excess, -ends, ends, rounding, start=start, **how)
        return y, sum(evaluations)

    sure, fewer = found(slope_error=slope_error)
    looked_at, more = found()
    np.testing.assert_allclose(sure, special.ndtri(levels), rtol=1e-13, atol=1e-14)
    np.testing.assert_allclose(sure, looked_at, rtol=1e-13, atol=1e-14)
    assert fewer < more


def test_brackets_without_width_are_their_own_roots():
    at = np.array([0.5, -2.0])
    np.testing.assert_array_equal(
        increasing_roots(lambda x, _: (x - 7.0, 0 * x + 1), at, at, np.zeros(2)), at
    )
    np.testing.assert_array_equal(bracketed_roots(lambda x: x - 7.0, at, at), at)


def test_golden_section_closes_in_on_tops_and_bottoms():
    centers = np.array([-0.7, 0.1, 0.4])
    sign = np.array([1.0, -1.0, 1.0])
    low, high = golden_section(
        lambda t: -sign * np.abs(t - centers), -np.ones(3), np.ones(3), sign
    )
    assert np.all((low <= centers) & (centers <= high))
    assert np.all(high - low < 2e-5)
