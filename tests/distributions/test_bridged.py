"""Mixing with a known density and taking it away again."""

import numpy as np
import pytest

from kexpfam.base_densities import GaussianBase
from kexpfam.distributions import (
    BridgedDensity,
    ResponseCoordinates,
    UnivariateDensity,
    bridge_sample,
)
from kexpfam.distributions.bridged import FLOOR
from kexpfam.kernels import Gaussian, separable
from kexpfam.score_matching import Basis, ScoreSample, TiltedDensity, fit_low_rank
from tests.oracles.integrals import SlowDensity
from tests.tolerances import DIFFERENCES, QUADRATURE, assert_close

BASE, WIDE, SHARE, ELL = GaussianBase(1.5), GaussianBase(1.2), 0.3, 0.5
CONDITIONS = np.array([[-1.4], [0.0], [1.4]])
BREAKS = [-14.0, -2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 14.0]


def left_mass(X):
    return 0.5 + 0.17 * X[:, 0]


def two_components(n, seed):
    """Bumps eight deviations apart; the mass of the left one moves with x."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.7, 1.7, size=(n, 1))
    left = rng.random(n) < left_mass(X)
    U = np.where(left, -1.0, 1.0) + 0.25 * rng.normal(size=n)
    return X, U[:, None], np.ones(n)


def fit(X, U, weights, centers):
    basis = Basis(separable(Gaussian(1.0), Gaussian(ELL)), X[centers], U[centers])
    gsm_linear, ones = BASE.grad_log_density(U), np.ones_like(U)
    sample = ScoreSample(X, U, weights / weights.sum(), gsm_linear, ones)
    return TiltedDensity(BASE, fit_low_rank(basis, sample, 1e-3), CONDITIONS)


def normalized(density):
    ones = np.ones((len(density), 1))
    line = np.array([[-np.inf, np.inf]])
    return UnivariateDensity.normalize(
        density, ResponseCoordinates(0.0 * ones, ones, line), ELL
    )


@pytest.fixture(scope="module")
def separated():
    rows = two_components(600, 0)
    plain = normalized(fit(*rows, np.arange(100)))
    mixed = bridge_sample(*rows, SHARE, WIDE, np.random.default_rng(1))
    centers = np.append(np.arange(100), np.arange(600, 700))
    bridged = BridgedDensity.of(fit(*mixed, centers), WIDE, SHARE, ELL)
    return plain, bridged, normalized(bridged)


def test_bridging_recovers_masses_that_score_matching_does_not_see(separated):
    plain, _, p = separated
    true = left_mass(CONDITIONS)
    # About 150 neighbours tell a mass to 0.04; the draws add as much again.
    assert np.max(np.abs(p.cdf(0.0) - true)) < 0.15
    assert np.max(np.abs(plain.cdf(0.0) - true)) > 0.25


def test_little_is_left_between_isolated_components(separated):
    *_, p = separated
    assert np.all(p.cdf(0.3) - p.cdf(-0.3) < 0.03)


def test_difference_is_normalised_and_its_functions_agree(separated):
    _, bridged, p = separated
    assert np.all(p.log_partition_error < 1e-6)
    levels = np.array([[0.05, 0.3, 0.6, 0.95]])
    assert_close(p.cdf(p.ppf(levels)), np.repeat(levels, 3, axis=0), 1e-9)
    for i in range(3):
        row = bridged.rows(np.array([i]))
        slow = SlowDensity(
            lambda u, row=row: row.on_grid(np.atleast_1d(u)[:, None])[0], BREAKS
        )
        # Where the difference changes sign it is smooth on a short scale only.
        assert_close(slow.log_partition, p.log_partition[i], 1e-6, scale=1.0)
        assert_close(slow.cdf(0.2), p[i].cdf(0.2), 1e-6)


def test_difference_plus_what_was_taken_away_is_the_mixture():
    X, U, weights = two_components(60, 2)
    mix = fit(X, U, weights, np.arange(30))
    bridged = BridgedDensity.of(mix, WIDE, SHARE, ELL)
    u = np.linspace(-1.5, 1.5, 7)[:, None]
    p_mix = np.exp(mix.on_grid(u) - bridged.log_partition[:, None])
    p = np.exp(bridged.on_grid(u))
    taken = SHARE * np.exp(WIDE.log_density(u))
    rest = (p_mix - taken) / (1 - SHARE)
    # The smooth maximum is above the difference by f²·p_mix²/difference at most.
    clear = rest > 0.3 * p_mix
    assert clear.any()
    assert_close(p[clear], rest[clear], 1e-3)
    assert np.all(p > 0)
    assert np.all(p[rest < 0] <= 1.01 * FLOOR * p_mix[rest < 0])


def test_gradient_equals_differences_and_grids_equal_points(separated):
    _, bridged, _ = separated
    u = np.linspace(-1.6, 1.6, 9)[:, None]
    own = np.repeat(u[None], 3, axis=0)
    assert_close(bridged.on_grid(u), bridged.log_unnormalized(own), QUADRATURE)
    h = 1e-5
    slope = (bridged.log_unnormalized(own + h) - bridged.log_unnormalized(own - h)) / (
        2 * h
    )
    # Logarithms of small differences have large third derivatives.
    assert_close(bridged.gradient(own)[..., 0], slope, 100 * DIFFERENCES)


def test_draws_have_their_share_and_conditions_their_rows():
    X, U, weights = two_components(50, 3)
    weights = np.random.default_rng(4).uniform(0.5, 2.0, 50)
    rng = np.random.default_rng(5)
    rows = bridge_sample(X, U, weights, 0.2, WIDE, rng, draws=3)
    assert rows.U.shape == (200, 1)
    assert_close(rows.weights.sum(), weights.sum())
    assert_close(rows.weights[50:].sum(), 0.2 * weights.sum())
    for k in range(4):
        assert np.array_equal(rows.X[50 * k : 50 * (k + 1)], X)


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1])
def test_share_must_be_between_zero_and_one(share):
    X, U, weights = two_components(5, 6)
    with pytest.raises(ValueError, match="share must lie between 0 and 1"):
        bridge_sample(X, U, weights, share, WIDE, np.random.default_rng(0))
