"""Draws by resampling and Langevin steps have the right distribution."""

import numpy as np
from scipy import stats

from kexpfam.partition import resample_move
from tests.tolerances import KS_LEVEL, STANDARD_ERRORS

MEAN = np.array([1.0, -0.5, 0.3])
COVARIANCE = np.array([[0.8, 0.3, 0.0], [0.3, 0.5, -0.1], [0.0, -0.1, 1.2]])
ROOT = np.linalg.cholesky(COVARIANCE)


def gaussian_case(size, seed, n_draws=3000):
    target = stats.multivariate_normal(MEAN, COVARIANCE)
    rng = np.random.default_rng(seed)
    draws = 2.0 * rng.standard_normal((n_draws, 3))
    weights = np.exp(target.logpdf(draws) - stats.norm(0, 2).logpdf(draws).sum(axis=1))
    precision = np.linalg.inv(COVARIANCE)
    return resample_move(
        lambda u: target.logpdf(u).reshape(u.shape[:2]),
        lambda u: -(u - MEAN) @ precision,
        draws,
        (weights / weights.sum())[None],
        size,
        rng,
    )


def test_draws_of_a_correlated_gaussian_are_gaussian():
    u = gaussian_case(1500, 0)
    assert u.shape == (1, 1500, 3)
    whitened = np.linalg.solve(ROOT, (u[0] - MEAN).T)
    for z in whitened:
        assert stats.kstest(z, "norm").pvalue > KS_LEVEL
    correlations = np.corrcoef(whitened)[np.triu_indices(3, 1)]
    assert np.all(np.abs(correlations) < STANDARD_ERRORS / np.sqrt(1500))


def test_repeats_are_moved_apart():
    u = gaussian_case(500, 1, n_draws=200)[0]
    assert len(np.unique(u, axis=0)) > 0.99 * len(u)


def test_draws_of_an_asymmetric_target_on_a_half_line_stay_inside():
    # Gamma(3) in each of two rows, the second scaled by two; zero below zero
    scales = np.array([1.0, 2.0])[:, None, None]

    def log_density(u):
        inside = np.all(u > 0, axis=2)
        safe = np.where(u > 0, u, 1.0)
        value = (2.0 * np.log(safe) - safe / scales).sum(axis=2)
        return np.where(inside, value, -np.inf)

    def gradient(u):
        return 2.0 / np.where(u > 0, u, 1.0) - 1.0 / scales

    rng = np.random.default_rng(3)
    draws = rng.exponential(3.0, size=(4000, 2))
    log_weights = log_density(np.stack([draws, draws])) + draws.sum(axis=1) / 3.0
    weights = np.exp(log_weights - log_weights.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    u = resample_move(log_density, gradient, draws, weights, 1200, rng)
    assert np.all(u > 0)
    for row, scale in enumerate((1.0, 2.0)):
        for column in (0, 1):
            law = stats.gamma(3.0, scale=scale)
            assert stats.kstest(u[row, :, column], law.cdf).pvalue > KS_LEVEL
