"""Densities with given quantiles: the formula, its moments and its tails."""

import itertools

import numpy as np
import pytest
from scipy import integrate, stats

from kexpfam.baselines.quantile_density import QuantileDensity

LEVELS = np.array([0.05, 0.2, 0.4, 0.7, 0.95])
QUANTILES = np.array([[-1.0, 0.0, 0.1, 2.0, 9.0], [3.0, 3.5, 5.0, 5.2, 6.0]])


@pytest.fixture
def p():
    return QuantileDensity(QUANTILES, LEVELS)


def test_quantiles_of_student_give_back_student():
    truth = stats.t(df=5, loc=2.0, scale=3.0)
    p = QuantileDensity(truth.ppf(LEVELS)[None], LEVELS)[0]
    y = np.linspace(-40, 40, 81)
    np.testing.assert_allclose(p.logpdf(y), truth.logpdf(y), atol=1e-10)
    np.testing.assert_allclose(p.mean(), truth.mean(), atol=1e-10)
    np.testing.assert_allclose(p.std(), truth.std(), rtol=1e-10)


def test_it_has_the_given_quantiles(p):
    np.testing.assert_allclose(p.quantile(LEVELS), QUANTILES, atol=1e-10)
    np.testing.assert_allclose(p.cdf(QUANTILES), np.tile(LEVELS, (2, 1)), atol=1e-10)


def test_moments_are_integrals(p):
    for one in p:
        pieces = np.concatenate([[-np.inf], one.quantile(LEVELS), [np.inf]])

        def moment(power, one=one, pieces=pieces):
            return sum(
                integrate.quad(lambda y: y**power * one.pdf(y), a, b, limit=200)[0]
                for a, b in itertools.pairwise(pieces)
            )

        assert moment(0) == pytest.approx(1.0, abs=1e-8)
        assert one.mean() == pytest.approx(moment(1), abs=1e-6)
        assert one.var() == pytest.approx(moment(2) - moment(1) ** 2, rel=1e-5)


def test_tails_have_the_slope_between_their_end_and_the_middle(p):
    z = stats.t(5).ppf(LEVELS)
    slope = (z[4] - z[2]) / (QUANTILES[0, 4] - QUANTILES[0, 2])
    expected = stats.t(5).sf(z[4] + slope * 10.0)
    assert p[0].sf(19.0) == pytest.approx(expected, rel=1e-10)


def test_two_levels_are_enough():
    p = QuantileDensity(np.array([[0.0, 1.0]]), np.array([0.25, 0.75]))[0]
    assert p.median() == pytest.approx(0.5)


def test_quantiles_that_touch_are_refused():
    with pytest.raises(ValueError, match="must increase"):
        QuantileDensity(np.array([[0.0, 0.0]]), np.array([0.25, 0.75]))
