"""Bands of densities from replicates: the formula, shapes, and what is refused."""

import math

import numpy as np
import pytest
from scipy import stats

from kexpfam.base_densities import UniformBase
from kexpfam.distributions import Band, ChainRuleDensity, MixtureDensity, Replicates
from tests.densities import closed_form

CENTERS, SCALES = np.array([0.0, 5.0]), np.array([1.0, 2.0])
SHIFTS = (-0.2, 0.1, 0.3)  # of the replicates


def average(X, shift=0.0):
    """Two normal densities at each x, of which the second is wider."""
    center = np.asarray(X)[:, 0] + shift
    parts = [closed_form(center, 1.0), closed_form(center + 0.5, 2.0)]
    return MixtureDensity(parts, [0.7, 0.3])


@pytest.fixture
def p():
    X = CENTERS[:, None]
    found = average(X)
    fits = lambda X: [average(X, shift) for shift in SHIFTS]  # noqa: E731
    found._replicates = Replicates(found.components, found.weights, fits, X)
    return found


def slow_band(center, y, level):
    """One point of a band, by loops over replicates and components."""

    def pdf(y, shift=0.0):
        own = y - center - shift
        first, second = stats.norm.pdf(own), stats.norm.pdf(own, 0.5, 2.0)
        return 0.7 * first + 0.3 * second, (first, second)

    value, parts = pdf(y)
    roots = [math.sqrt(pdf(y, shift)[0]) for shift in SHIFTS]
    mean = sum(roots) / 3
    variance = sum((root - mean) ** 2 for root in roots) / 2
    for weight, part in zip((0.7, 0.3), parts, strict=True):
        variance += weight * (math.sqrt(part) - math.sqrt(value)) ** 2
    reach = stats.t(2).ppf(0.5 + 0.5 * level) * math.sqrt(variance)
    return max(math.sqrt(value) - reach, 0.0) ** 2, (math.sqrt(value) + reach) ** 2


@pytest.mark.parametrize("level", [0.5, 0.9])
def test_a_band_is_what_loops_say(p, level):
    y = np.array([[-1.0, 0.0, 2.0], [3.0, 5.0, 9.0]])
    band = p.band(level, y)
    for i, center in enumerate(CENTERS):
        for j in range(3):
            low, high = slow_band(center, y[i, j], level)
            assert band.lower[i, j] == pytest.approx(low, rel=1e-9, abs=1e-12)
            assert band.upper[i, j] == pytest.approx(high, rel=1e-9)
    np.testing.assert_array_equal(band.y, y)


def test_it_is_around_the_density_and_grows_with_the_level(p):
    narrow, wide = p.band(0.5), p.band(0.95)
    assert narrow.y.shape == narrow.lower.shape == narrow.upper.shape == (2, 201)
    pdf = p.pdf(narrow.y)
    assert np.all((wide.lower <= narrow.lower) & (narrow.lower <= pdf))
    assert np.all((wide.upper >= narrow.upper) & (narrow.upper >= pdf))


def test_shapes_are_those_of_the_density(p):
    assert p.band(0.9, [0.0, 5.0]).upper.shape == (2,)
    assert p.band(0.9, 0.0).upper.shape == (2,)
    one = p[1]
    assert np.shape(one.band(0.9, 5.0).upper) == ()
    assert one.band().y.shape == (201,)
    whole = p.band(0.9, [[4.0, 5.0]])
    assert isinstance(whole, Band)
    np.testing.assert_allclose(one.band(0.9, [4.0, 5.0]).upper, whole.upper[1])
    np.testing.assert_allclose(p[1:].band(0.9, [[4.0, 5.0]]).lower, whole.lower[1:])
    np.testing.assert_allclose(p[:][1].band(0.9, [4.0]).upper, whole.upper[1, :1])


def test_where_there_is_no_density_there_is_no_band():
    X = np.zeros((1, 1))
    make = lambda X: closed_form(np.zeros(len(X)), 1.0, UniformBase(-1.0, 1.0))  # noqa: E731
    p = make(X)
    p._replicates = Replicates([p], np.ones(1), lambda X: [make(X), make(X)], X)
    band = p.band(0.9, [[-2.0, 0.0, 2.0]])
    np.testing.assert_allclose(band.lower, [[0.0, 0.5, 0.0]])
    np.testing.assert_allclose(band.upper, [[0.0, 0.5, 0.0]])


def test_densities_without_replicates_say_what_is_needed():
    with pytest.raises(ValueError, match=r"fit one column of y with AutoKCEF\(boot"):
        closed_form([0.0]).band()


@pytest.mark.parametrize("level", [0.0, 1.0, -0.1, "a"])
def test_levels_are_shares(p, level):
    with pytest.raises(ValueError, match="level must lie between 0 and 1"):
        p.band(level)


def test_several_columns_have_none():
    with pytest.raises(AttributeError, match="band is for one column of y"):
        ChainRuleDensity.__getattr__(type("", (), {"_d": 2})(), "band")
