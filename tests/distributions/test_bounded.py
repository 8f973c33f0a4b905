"""Densities on an interval, against plain quadrature and finite differences."""

import itertools
from dataclasses import astuple

import numpy as np
import pytest
from scipy import integrate, stats

from kexpfam.base_densities import GaussianBase, StudentBase
from kexpfam.distributions import (
    BoundedDensity,
    ClosedFormDensity,
    MixtureDensity,
    SupportMap,
)
from tests.tolerances import KS_LEVEL, assert_close

MAPS = {
    "lower": SupportMap(1.0, np.inf, (0.02, 1.0), 0.7),
    "upper": SupportMap(-np.inf, 3.0, (1.0, 0.01), 2.0),
    "both": SupportMap(-1.0, 2.0, (0.01, 0.03)),
    # Logarithms of all that is within the reach, and straight lines beyond
    "reach": SupportMap(0.5, np.inf, (0.01, 1.0), 30.0, 1.7),
    "upper reach": SupportMap(-np.inf, 3.0, (1.0, 0.01), 20.0, 1.3),
}
# Ends of a range that holds nearly all of the mass.
RANGES = {
    "lower": (1.0, 400.0),
    "upper": (-400.0, 3.0),
    "both": (-1.0, 2.0),
    "reach": (0.5, 400.0),
    "upper reach": (-400.0, 3.0),
}


@pytest.fixture(scope="module", params=list(MAPS))
def case(request):
    narrow = ClosedFormDensity(GaussianBase(1.0), np.array([0.0, -1.0]), np.ones(2))
    wide = ClosedFormDensity(
        StudentBase(1.0, df=3.0), np.array([1.0, 2.0]), np.array([1.0, 0.5])
    )
    density = MixtureDensity([narrow, wide], [0.8, 0.2])
    name = request.param
    return BoundedDensity(density, MAPS[name]), MAPS[name], RANGES[name]


def integral(p, values, ends):
    """∫ values(y) p(y) dy, piece by piece."""
    low, high = ends
    cuts = np.clip(p.ppf([1e-6, 0.01, 0.2, 0.5, 0.8, 0.99]), low, high)
    cuts = np.unique([*cuts, *p._map.breaks])
    cuts = [low, *cuts, high]
    return sum(
        integrate.quad(lambda y: values(y) * float(p.pdf(y)), a, b, limit=200)[0]
        for a, b in itertools.pairwise(cuts)
    )


@pytest.mark.parametrize("name", ["lower", "upper"])
def test_maps_are_as_they_were_within_their_reach_and_straight_beyond(name):
    plain = MAPS[name]
    reach = 0.8
    bent = SupportMap(*astuple(plain)[:4], reach)
    bound, sign = (plain.lower, 1.0) if name == "lower" else (plain.upper, -1.0)
    near = bound + sign * np.linspace(0.0, reach, 7)
    assert_close(bent.forward(near), plain.forward(near))
    assert_close(bent.log_abs_det_jacobian(near), plain.log_abs_det_jacobian(near))
    far = bound + sign * (reach + np.array([0.1, 5.0, 500.0]))
    end, slope = bent.forward(near[-1:]), np.exp(plain.log_abs_det_jacobian(near[-1:]))
    assert_close(bent.forward(far), end + slope * (far - near[-1]))
    assert_close(bent.log_jacobian_gradient(far), np.zeros(3))
    assert_close(bent.inverse(bent.forward(far)), far)


def test_a_tail_behind_a_logarithm_ends_with_the_rows():
    """Its standard deviation was that of exponentials of a t distribution."""
    # Of y around 1 with a logarithm of up to 100, and with one of up to 5
    location = np.array([-np.log(1e4)])
    w = ClosedFormDensity(StudentBase(0.5, df=5.0), location, np.ones(1))
    ends = 0.0, np.inf, (0.01, 1.0), 1e4
    far = BoundedDensity(w, SupportMap(*ends, 1e3))
    near = BoundedDensity(w, SupportMap(*ends, 5.0))
    inside = np.array([[0.1, 1.0, 4.9]])
    assert_close(near.pdf(inside), far.pdf(inside), 1e-9)
    assert near.std() < 0.7 * far.std()


@pytest.mark.parametrize("name", MAPS)
def test_maps_are_inverted_and_have_their_slopes(name):
    support = MAPS[name]
    y = np.clip(np.linspace(-0.9, 2.9, 11), support.lower + 0.05, support.upper - 0.05)
    assert_close(support.inverse(support.forward(y)), y)
    h = 1e-6
    slope = (support.forward(y + h) - support.forward(y - h)) / (2 * h)
    np.testing.assert_allclose(
        np.exp(support.log_abs_det_jacobian(y)), slope, rtol=1e-6
    )
    bent = (
        support.log_abs_det_jacobian(y + h) - support.log_abs_det_jacobian(y - h)
    ) / (2 * h)
    np.testing.assert_allclose(support.log_jacobian_gradient(y), bent, rtol=1e-4)


def test_bounds_of_a_map_are_finite_on_the_line():
    for support in MAPS.values():
        ends = np.array([support.lower, support.upper])
        known = np.isfinite(ends)
        assert np.all(np.isfinite(support.ends) == known)
        assert_close(support.inverse(support.ends)[known], ends[known])


def test_densities_integrate_to_one_and_moments_are_integrals(case):
    density, _, ends = case
    for k in range(2):
        p = density[k]
        assert integral(p, lambda y: 1.0, ends) == pytest.approx(1.0, abs=1e-5)
        mean = integral(p, lambda y: y, ends)
        assert float(p.mean()) == pytest.approx(mean, abs=1e-3)
        entropy = -integral(p, lambda y, p=p: float(p.logpdf(y)), ends)
        assert float(p.entropy()) == pytest.approx(entropy, abs=2e-3)


def test_there_is_nothing_outside(case):
    density, support, _ = case
    for bound, step in ((support.lower, -1e-9), (support.upper, 1e-9)):
        if np.isfinite(bound):
            assert np.all(density.pdf(bound + step) == 0.0)
            assert np.all(np.isfinite(density.logpdf(bound)))  # a row there is possible
    below, above = support.lower - 1.0, support.upper + 1.0
    if np.isfinite(below):
        assert np.all(density.cdf(below) == 0.0)
        assert np.all(density.sf(below) == 1.0)
    if np.isfinite(above):
        assert np.all(density.sf(above) == 0.0)
        assert np.all(density.cdf(above) == 1.0)
    assert density.support.tolist() == [[support.lower, support.upper]] * 2
    assert density.ppf([[0.0, 1.0]]).tolist() == density.support.tolist()


def test_quantiles_and_distribution_function_agree(case):
    density, _, _ = case
    levels = np.tile([1e-6, 0.01, 0.3, 0.5, 0.97, 0.9999], (2, 1))
    y = density.ppf(levels)
    np.testing.assert_allclose(density.cdf(y), levels, rtol=1e-8)
    np.testing.assert_allclose(density.sf(y), 1.0 - levels, rtol=1e-8)


def test_gradients_are_differences(case):
    density, _, _ = case
    y, h = density.ppf(np.tile([0.1, 0.5, 0.9], (2, 1))), 1e-6
    slope = (density.logpdf(y + h) - density.logpdf(y - h)) / (2 * h)
    np.testing.assert_allclose(density.grad_logpdf(y), slope, rtol=1e-4, atol=1e-4)


def test_draws_are_from_the_density(case):
    density, support, _ = case
    draws = density.rvs(2000, random_state=0)
    assert draws.min() >= support.lower
    assert draws.max() <= support.upper
    for k in range(2):
        assert stats.kstest(draws[k], density[k].cdf).pvalue > KS_LEVEL


def test_highest_density_regions_hold_their_mass_inside_the_bounds(case):
    density, support, _ = case
    for k, region in enumerate(density.hpd(0.8)):
        assert region.min() >= support.lower
        assert region.max() <= support.upper
        mass = np.diff(density[k].cdf(region.ravel()))[::2].sum()
        assert mass == pytest.approx(0.8, abs=1e-6)


def test_a_far_bound_changes_nothing():
    """Special case: behind a bound that no mass is near, the map is a straight line."""
    inner = ClosedFormDensity(GaussianBase(1.0), np.array([60.5]), np.ones(1))
    far = BoundedDensity(inner, SupportMap(-60.0, np.inf, (0.5, 1.0), 1.0))
    y = np.array([[-1.0, 0.0, 2.0]])
    assert_close(far.logpdf(y), stats.norm.logpdf(y))
    assert_close(far.mean(), np.zeros(1), scale=1.0)
    assert_close(far.std(), np.ones(1))
