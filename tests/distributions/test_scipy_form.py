"""Densities as frozen distributions of SciPy."""

import copy

import numpy as np
import pytest
from scipy import integrate, stats

from tests.densities import closed_form

# Quadrature of SciPy's default settings is right to about this.
QUADRATURE = 1e-7


@pytest.fixture
def one(line_case):
    return line_case.density[1]


def test_every_method_gives_the_numbers_of_the_density(one):
    q = one.to_scipy()
    y = one.ppf([0.01, 0.3, 0.5, 0.97])
    for name in ("pdf", "logpdf", "cdf", "sf"):
        np.testing.assert_array_equal(getattr(q, name)(y), getattr(one, name)(y))
    np.testing.assert_array_equal(q.ppf([0.1, 0.6]), one.ppf([0.1, 0.6]))
    np.testing.assert_allclose(q.isf([0.1, 0.6]), one.ppf([0.9, 0.4]))
    for name in ("mean", "var", "std", "median", "entropy"):
        assert getattr(q, name)() == pytest.approx(getattr(one, name)())
    np.testing.assert_array_equal(q.support(), one.support)
    np.testing.assert_allclose(q.interval(0.8), one.interval(0.8))


def test_shapes_are_those_of_scipy(one):
    q = one.to_scipy()
    assert np.ndim(q.pdf(one.mean())) == 0
    assert q.pdf(np.full((2, 3), one.mean())).shape == (2, 3)
    assert np.ndim(q.rvs(random_state=0)) == 0
    assert q.rvs(size=(2, 3), random_state=0).shape == (2, 3)


def test_outside_the_support_and_at_its_ends_it_is_as_in_scipy(line_case):
    q = line_case.density[0].to_scipy()
    low, high = q.support()
    assert q.ppf(0.0) == low
    assert q.ppf(1.0) == high
    assert np.isnan(q.ppf(1.5))
    if np.isfinite(low):
        assert q.pdf(low - 1.0) == 0.0
        assert q.logpdf(low - 1.0) == -np.inf


def test_expectations_are_those_of_quadrature(gaussian_case):
    one = gaussian_case.density[2]
    ends = one.ppf([1e-15, 1 - 1e-15])
    slow, _ = integrate.quad(
        lambda y: np.cos(y) * one.pdf(y), *ends, points=one.ppf([0.1, 0.9]), limit=200
    )
    assert one.to_scipy().expect(np.cos) == pytest.approx(slow, abs=QUADRATURE)


def test_third_moment_is_that_of_quadrature(gaussian_case):
    one = gaussian_case.density[0]
    ends = one.ppf([1e-15, 1 - 1e-15])
    slow, _ = integrate.quad(lambda y: y**3 * one.pdf(y), *ends, limit=200)
    assert one.to_scipy().moment(3) == pytest.approx(slow, rel=QUADRATURE)


def test_draws_have_the_distribution_function_and_repeat_with_their_seed(one):
    q = one.to_scipy()
    draws = q.rvs(size=2000, random_state=3)
    # A right sampler fails this once in ten thousand seeds; the seed is fixed.
    assert stats.kstest(draws, q.cdf).pvalue > 1e-4
    np.testing.assert_array_equal(draws, q.rvs(size=2000, random_state=3))
    other = q.rvs(size=5, random_state=np.random.default_rng(1))
    assert not np.array_equal(draws[:5], other)


def test_a_wrong_density_fails_scipys_test(gaussian_case):
    first, last = gaussian_case.density[0], gaussian_case.density[2]
    draws = last.rvs(2000, random_state=0)
    assert stats.kstest(draws, first.to_scipy().cdf).pvalue < 1e-4


def test_a_normal_density_is_scipys_normal():
    p = closed_form([1.0, 2.0], [1.0, 3.0])
    q, normal = p.to_scipy(1), stats.norm(2.0, 3.0)
    y = np.linspace(-8.0, 12.0, 9)
    for name in ("pdf", "logpdf", "cdf", "sf"):
        np.testing.assert_allclose(getattr(q, name)(y), getattr(normal, name)(y))
    np.testing.assert_allclose(q.stats("mvsk"), normal.stats("mvsk"), atol=1e-6)
    assert q.entropy() == pytest.approx(normal.entropy())


def test_row_says_which_density(gaussian_case):
    p = gaussian_case.density
    assert p.to_scipy(-1).mean() == p[2].mean()
    assert p[[1]].to_scipy().mean() == p[1].mean()
    with pytest.raises(ValueError, match="row must say which of the 3 densities"):
        p.to_scipy()
    with pytest.raises(ValueError, match="None or 0 for a single density, got 2"):
        p[0].to_scipy(2)
    with pytest.raises(IndexError, match="density 7"):
        p.to_scipy(7)


def test_several_columns_say_that_it_is_for_one(plane_case):
    with pytest.raises(AttributeError, match="to_scipy is for one column"):
        plane_case.density.to_scipy(0)


def test_a_copy_is_the_same(one):
    q = one.to_scipy()
    twin = copy.deepcopy(q)
    assert twin.cdf(one.mean()) == q.cdf(one.mean())
