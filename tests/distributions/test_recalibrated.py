"""Densities behind a monotone map of their PIT values, against plain quadrature."""

import itertools

import numpy as np
import pytest
from scipy import integrate, stats

from kexpfam.base_densities import GaussianBase, StudentBase
from kexpfam.distributions import (
    ClosedFormDensity,
    MixtureDensity,
    RecalibratedDensity,
    UnitMap,
    beta_log_densities,
)
from tests.tolerances import KS_LEVEL, assert_close

BENT = UnitMap(np.array([0.3, 0.1, 0.15, 0.45]))
POINTS = np.array([[-3.0, 0.3, 1.0, 4.0]])


@pytest.fixture(scope="module")
def mixture():
    narrow = ClosedFormDensity(GaussianBase(1.0), np.array([0.0, 2.0]), np.ones(2))
    wide = ClosedFormDensity(
        StudentBase(1.0, df=3.0), np.array([1.0, 2.0]), np.array([1.0, 3.0])
    )
    return MixtureDensity([narrow, wide], [0.7, 0.3])


@pytest.fixture(scope="module")
def density(mixture):
    return RecalibratedDensity(mixture, BENT)


def integral(p, values):
    """∫ values(y) p(y) dy, piece by piece."""
    ends = [-np.inf, -5.0, 0.0, 2.0, 5.0, np.inf]
    return sum(
        integrate.quad(lambda y: values(y) * float(p.pdf(y)), low, high, limit=200)[0]
        for low, high in itertools.pairwise(ends)
    )


def test_a_map_is_a_mixture_of_beta_distributions():
    u = np.linspace(0.001, 0.999, 37)
    parts = [stats.beta(j, 5 - j) for j in range(1, 5)]
    weighed = list(zip(BENT.weights, parts, strict=True))
    assert_close(BENT.pdf(u), sum(w * b.pdf(u) for w, b in weighed), 1e-12)
    assert_close(BENT.cdf(u), sum(w * b.cdf(u) for w, b in weighed), 1e-12)
    logs = np.stack([b.logpdf(u) for b in parts])
    assert_close(beta_log_densities(u, 4), logs, 1e-12)
    step = 1e-6
    slope = (BENT.pdf(u + step) - BENT.pdf(u - step)) / (2 * step)
    assert_close(BENT.slope(u), slope, 1e-7)


@pytest.mark.parametrize("weights", [[1.0], [0.2] * 5, BENT.weights, [0.9, 1e-6, 0.1]])
def test_the_inverse_of_a_map_inverts_it_in_both_tails(weights):
    weights = np.array(weights) / np.sum(weights)
    levels = np.array([[1e-13, 1e-4, 0.3, 0.5], [0.5001, 0.9, 0.9999, 1 - 1e-13]])
    found = UnitMap(weights).ppf(levels)
    assert_close(UnitMap(weights).cdf(found), levels, 1e-12)
    assert abs(UnitMap(weights).cdf(found[0, :1])[0] / 1e-13 - 1) < 1e-10


def test_equal_weights_change_nothing(mixture):
    same = RecalibratedDensity(mixture, UnitMap(np.full(7, 1 / 7)))
    for method in ("logpdf", "cdf", "sf", "grad_logpdf"):
        expected = getattr(mixture, method)(POINTS)
        assert_close(getattr(same, method)(POINTS), expected, 1e-12)
    for method in ("mean", "std", "mode", "entropy"):
        assert_close(getattr(same, method)(), getattr(mixture, method)(), 1e-8)


def test_density_moments_and_entropy_agree_with_quadrature(density):
    for p in density:
        assert_close(integral(p, lambda y: 1.0), 1.0, 1e-8)
        mean = integral(p, lambda y: y)
        assert_close(p.mean(), mean, 1e-7)
        variance = integral(p, lambda y, mean=mean: (y - mean) ** 2)
        assert_close(p.std(), np.sqrt(variance), 1e-6)
        surprise = integral(p, lambda y, p=p: -float(p.logpdf(y)))
        assert_close(p.entropy(), surprise, 1e-6)


def test_cdf_survival_and_gradient_agree_with_the_density(density):
    step = 1e-6
    above, below = density.cdf(POINTS + step), density.cdf(POINTS - step)
    assert_close((above - below) / (2 * step), density.pdf(POINTS), 1e-7)
    assert_close(density.cdf(POINTS) + density.sf(POINTS), np.ones((2, 4)), 1e-13)
    slope = density.logpdf(POINTS + step) - density.logpdf(POINTS - step)
    assert_close(slope / (2 * step), density.grad_logpdf(POINTS), 1e-7)


def test_quantiles_invert_and_draws_follow(density):
    levels = np.array([[1e-6, 0.05, 0.5, 0.95, 1 - 1e-6]])
    assert_close(density.cdf(density.ppf(levels)), np.tile(levels, (2, 1)), 1e-11)
    draws = density.rvs(2000, random_state=0)
    for row, p in zip(draws, density, strict=True):
        assert stats.kstest(row, p.cdf).pvalue > KS_LEVEL


def test_rows_and_single_densities_are_those_of_all(density):
    assert_close(density[1:].logpdf(POINTS), density.logpdf(POINTS)[1:], 1e-14)
    assert_close(density[0].ppf(0.5), density.ppf(0.5)[0], 1e-13)


def test_a_density_without_a_variance_has_none_behind_a_map():
    heavy = ClosedFormDensity(StudentBase(1.0, df=2.0), np.zeros(1), np.ones(1))
    assert np.isinf(RecalibratedDensity(heavy, BENT).std()[0])


def test_the_mean_of_a_density_without_a_variance_moves_with_its_place_and_unit():
    heavy = StudentBase(1.0, df=1.5)
    p = ClosedFormDensity(heavy, np.array([0.0, 3.0, -1.0]), np.array([1.0, 1.0, 2.0]))
    found = RecalibratedDensity(p, BENT)
    moved = found.mean()[0]  # `test_quadrature` has its size
    assert moved > 0.1
    assert_close(found.mean(), [moved, 3.0 + moved, -1.0 + 2.0 * moved])
    assert np.all(np.isinf(found.std()))
