"""Mixtures of normals against scipy's normal densities, quadrature and grids."""

import numpy as np
import pytest
from scipy import integrate, stats

from kexpfam.distributions import NormalMixtureColumns, NormalMixtureDensity
from tests.tolerances import DIFFERENCES, KS_LEVEL, assert_close

WEIGHTS = np.array([[0.2, 0.5, 0.3], [0.7, 0.0, 0.3]])
MEANS = np.array([[-2.0, 0.5, 3.0], [0.0, 9.0, 0.4]])
SCALES = np.array([[0.5, 1.0, 0.2], [1.5, 1.0, 0.1]])


@pytest.fixture
def p():
    with np.errstate(divide="ignore"):
        return NormalMixtureDensity(3.0 + np.log(WEIGHTS), MEANS, SCALES)


def slow_pdf(row, y):
    parts = zip(WEIGHTS[row], MEANS[row], SCALES[row], strict=True)
    return sum(w * stats.norm.pdf(y, m, s) for w, m, s in parts)


def integral(row, f):
    ends = np.sort(np.concatenate([[-30, 30], MEANS[row], MEANS[row] + SCALES[row]]))
    return integrate.quad(
        lambda y: f(y) * slow_pdf(row, y), -30, 30, points=ends[1:-1], limit=500
    )[0]


@pytest.mark.parametrize("row", [0, 1])
def test_everything_is_that_of_the_plain_sum(p, row):
    y = np.linspace(-5, 5, 11)
    one = p[row]
    assert_close(one.pdf(y), slow_pdf(row, y), 1e-12)
    parts = list(zip(WEIGHTS[row], MEANS[row], SCALES[row], strict=True))
    cdf = sum(w * stats.norm.cdf(y, m, s) for w, m, s in parts)
    sf = sum(w * stats.norm.sf(y, m, s) for w, m, s in parts)
    assert_close(one.cdf(y), cdf, 1e-12)
    assert_close(one.sf(y), sf, 1e-12)
    mean = integral(row, lambda y: y)
    assert_close(one.mean(), mean, 1e-9)
    assert_close(one.var(), integral(row, lambda y: (y - mean) ** 2), 1e-9)
    entropy = -integral(row, lambda y: np.log(slow_pdf(row, y) + 1e-300))
    assert_close(one.entropy(), entropy, 1e-7)


def test_gradients_are_differences(p):
    y = np.array([[-2.0, 0.1, 3.1], [-1.0, 0.35, 0.5]])
    h = 1e-5
    expected = (p.logpdf(y + h) - p.logpdf(y - h)) / (2 * h)
    assert_close(p.grad_logpdf(y), expected, DIFFERENCES)


@pytest.mark.parametrize("level", [1e-12, 0.01, 0.2, 0.5, 0.93, 1 - 1e-9])
def test_quantiles_invert_the_distribution_function(p, level):
    y = p.ppf(level)
    assert_close(np.minimum(p.cdf(y), p.sf(y)), np.full(2, min(level, 1 - level)), 1e-6)


def test_the_mode_is_the_highest_point_of_a_grid(p):
    for row in range(2):
        grid = np.linspace(-5, 5, 200_001)
        best = grid[np.argmax(slow_pdf(row, grid))]
        assert abs(p.mode()[row] - best) < 1e-4
        assert p[row].pdf(p.mode()[row]) >= slow_pdf(row, best) - 1e-12


def test_the_highest_density_region_has_its_mass_and_equal_ends(p):
    for one in p:
        region = one.hpd(0.8)
        assert_close(sum(one.cdf(b) - one.cdf(a) for a, b in region), 0.8, 1e-6)
        ends = one.pdf(region.ravel())
        assert np.ptp(ends) < 1e-6 * ends.max()


def test_draws_follow_the_distribution(p):
    draws = p.rvs(3000, random_state=0)
    for row in range(2):
        assert stats.kstest(draws[row], p[row].cdf).pvalue > KS_LEVEL


def test_shared_means_are_those_of_every_row():
    log_weights = np.log(WEIGHTS + 0.1)
    shared = NormalMixtureDensity(log_weights, MEANS[:1], SCALES[:1])
    own = NormalMixtureDensity(log_weights, MEANS[[0, 0]], SCALES[[0, 0]])
    y = np.linspace(-4, 4, 7)[None]
    np.testing.assert_allclose(shared.pdf(y), own.pdf(y), rtol=1e-13)
    np.testing.assert_allclose(shared.ppf(y / 10 + 0.5), own.ppf(y / 10 + 0.5))
    assert_close(shared[1].mean(), own[1].mean(), 1e-13)


def test_far_from_all_components_log_densities_are_finite(p):
    assert np.all(np.isfinite(p.logpdf([1e6, -1e6])))


def test_many_points_are_evaluated_in_blocks(p):
    y = np.random.default_rng(0).normal(size=(2, 50))
    whole = p.logpdf(y), p.cdf(y), p.grad_logpdf(y)
    p._at_once = 10
    parts = p.logpdf(y), p.cdf(y), p.grad_logpdf(y)
    for before, after in zip(whole, parts, strict=True):
        np.testing.assert_array_equal(before, after)


@pytest.mark.parametrize(
    ("log_weights", "scales", "message"),
    [
        ([[-np.inf, -np.inf, -np.inf]], SCALES[:1], "positive weight"),
        ([[0.0, 0.0, 0.0]], 0.0 * SCALES[:1], "scales must be positive"),
    ],
)
def test_what_is_no_density_is_refused(log_weights, scales, message):
    with pytest.raises(ValueError, match=message):
        NormalMixtureDensity(np.array(log_weights), MEANS[:1], scales)


class TestColumns:
    MEANS = np.array([[[0.0, 0.0], [3.0, -1.0], [0.0, 4.0]]])
    SCALES = np.array([[[1.0, 0.5], [0.3, 0.3], [2.0, 0.7]]])
    LOG_WEIGHTS = np.log([[0.5, 0.2, 0.3], [0.1, 0.1, 0.8]])

    @pytest.fixture
    def p(self):
        return NormalMixtureColumns(self.LOG_WEIGHTS, self.MEANS, self.SCALES)

    def test_densities_are_those_of_the_plain_sum(self, p):
        y = np.random.default_rng(0).normal(size=(2, 5, 2))
        for row in range(2):
            weights = np.exp(self.LOG_WEIGHTS[row])
            expected = sum(
                w * stats.multivariate_normal(m, np.diag(s**2)).pdf(y[row])
                for w, m, s in zip(weights, self.MEANS[0], self.SCALES[0], strict=True)
            )
            assert_close(p.pdf(y)[row], expected, 1e-12)

    def test_moments_are_those_of_draws(self, p):
        draws = p.rvs(200_000, random_state=0)
        for row in range(2):
            assert_close(draws[row].mean(axis=0), p.mean()[row], 0.02)
            assert_close(np.cov(draws[row].T), p.cov()[row], 0.04)
        np.testing.assert_allclose(p.std() ** 2, np.diagonal(p.cov(), 0, 1, 2))

    def test_the_mode_has_no_slope_and_is_highest(self, p):
        mode = p.mode()
        assert np.all(np.abs(p.grad_logpdf(mode)) < 1e-6)
        draws = p.rvs(5000, random_state=0)
        assert np.all(p.pdf(mode) >= p.pdf(draws).max(axis=1))

    def test_the_entropy_is_that_of_quadrature(self, p):
        a, b = np.linspace(-9, 9, 601), np.linspace(-6, 9, 501)
        grid = np.stack(np.meshgrid(a, b, indexing="ij"), -1).reshape(1, -1, 2)
        log_p = p.logpdf(np.broadcast_to(grid, (2, *grid.shape[1:])))
        terms = (-np.exp(log_p) * log_p).reshape(2, 601, 501)
        expected = integrate.trapezoid(integrate.trapezoid(terms, b), a)
        assert_close(p.entropy(), expected, 0.05)

    def test_gradients_are_differences(self, p):
        y, h = np.random.default_rng(0).normal(size=(2, 3, 2)), 1e-5
        for j in range(2):
            step = h * np.eye(2)[j]
            expected = (p.logpdf(y + step) - p.logpdf(y - step)) / (2 * h)
            assert_close(p.grad_logpdf(y)[..., j], expected, DIFFERENCES)
