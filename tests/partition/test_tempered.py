"""Tempered particles: known log Z, masses of modes, moments, and honest errors."""

import dataclasses

import numpy as np
import pytest
from scipy import stats

from kexpfam.base_densities import UniformBase
from kexpfam.partition import temper
from kexpfam.partition.tempered import (
    _tempered,
    covariance_root,
    move,
    systematic,
)
from tests.oracles.mixture import KnownMixture, modes_in_a_row
from tests.tolerances import (
    DIFFERENCES,
    KS_LEVEL,
    STANDARD_ERRORS,
    assert_close,
)


def seeds(n, first=0):
    return [np.random.default_rng(first + i) for i in range(n)]


def one_normal(d, n):
    mean = np.linspace(-0.5, 1.0, d)[None]
    return KnownMixture(mean, np.array([0.7]), np.ones(1), 30.0, 0.6, n)


@pytest.mark.parametrize("d", [1, 2, 5, 10])
@pytest.mark.slow
def test_log_partition_of_a_normal_is_known_and_the_stated_error_is_the_spread(d):
    repeats = 40
    estimate = temper(one_normal(d, repeats), seeds(repeats))
    gaps = estimate.log_partition - 30.0
    stated = np.sqrt(np.mean(estimate.error**2))
    # A deviation from 40 values has a relative error of 1/√80 = 11 per cent, and 40
    # errors from 8 groups each add 1/√(2·7·40) = 4 per cent: three times that.
    assert 0.65 < gaps.std() / stated < 1.35
    assert stated < 0.1
    # Adaptation biases by less than the error of one run.
    assert abs(gaps.mean()) < stated
    assert not estimate.unreliable.any()


@pytest.mark.parametrize("d", [1, 2, 5])
@pytest.mark.parametrize("shares", [(0.3, 0.7), (0.2, 0.5, 0.3)])
@pytest.mark.slow
def test_modes_eight_deviations_apart_have_their_masses(d, shares):
    repeats = 20
    target = modes_in_a_row(d, shares, n=repeats)
    estimate = temper(target, seeds(repeats))
    gaps = estimate.draws[:, :, None, :1] - target.means[:, :1]
    nearest = np.abs(gaps[..., 0]).argmin(axis=2)
    found = np.array(
        [(estimate.weights * (nearest == k)).sum(axis=1) for k in range(len(shares))]
    ).T
    error = found.std(axis=0, ddof=1) / np.sqrt(repeats)
    assert np.all(np.abs(found.mean(axis=0) - shares) < STANDARD_ERRORS * error)
    # One run: masses of independent draws would have an error of 0.01.
    assert np.all(found.std(axis=0) < 0.04)


def test_moments_and_entropy_are_those_of_the_mixture():
    repeats = 20
    target = KnownMixture(
        np.array([[-1.0, 0.5, 0.0], [1.0, 0.0, 1.0]]),
        np.array([0.4, 0.6]),
        np.array([0.4, 0.6]),
        correlation=0.5,
        n=repeats,
    )
    estimate = temper(target, seeds(repeats))
    mean = target.shares @ target.means
    second = sum(
        w * (c + np.outer(m, m))
        for w, c, m in zip(target.shares, target.covariances, target.means, strict=True)
    )
    covariance = second - np.outer(mean, mean)
    for found, expected in (
        (estimate.mean, mean),
        (estimate.covariance, covariance),
    ):
        error = found.std(axis=0, ddof=1) / np.sqrt(repeats)
        assert np.all(np.abs(found.mean(axis=0) - expected) < STANDARD_ERRORS * error)
    rng = np.random.default_rng(0)
    which = rng.choice(2, 200_000, p=target.shares)
    noise = (
        rng.standard_normal((200_000, 3))
        @ np.linalg.cholesky(target.covariances[0] / 0.16).T
    )
    draws = target.means[which] + target.scales[which, None] * noise
    expected = target.rows([0]).log_unnormalized(draws[None]).mean()
    error = estimate.log_mean.std(ddof=1) / np.sqrt(repeats)
    assert abs(estimate.log_mean.mean() - expected) < STANDARD_ERRORS * error


def test_draws_have_the_distribution_of_the_target():
    target = modes_in_a_row(2, (0.3, 0.7))
    rngs = seeds(1, 5)
    draws = temper(target, rngs).sample(target, 400, rngs, moves=5)[0]
    assert draws.shape == (400, 2)
    assert len(np.unique(draws, axis=0)) == 400
    low, high = target.means[:, 0]

    def first(u):
        near = stats.norm.cdf(u, low, 0.3), stats.norm.cdf(u, high, 0.3)
        return 0.3 * near[0] + 0.7 * near[1]

    assert stats.kstest(draws[:, 0], first).pvalue > KS_LEVEL
    assert stats.kstest(draws[:, 1], stats.norm(0, 0.3).cdf).pvalue > KS_LEVEL


def test_particles_stay_in_a_bounded_support():
    # A normal density cut to the unit square, most of it beyond a corner
    unit = np.linspace(0.0, 1.0, 5)[:, None] * np.ones(2)
    base = UniformBase(0.0, 1.0).prepared(unit, np.ones(5))
    inner = KnownMixture(
        np.array([[1.0, 0.9]]), np.array([0.2]), np.ones(1), n=10, base=base
    )

    class Cut(KnownMixture):
        def log_unnormalized(self, U):
            inside = np.all((U >= 0) & (U <= 1), axis=2)
            return np.where(inside, super().log_unnormalized(U), -np.inf)

    target = Cut(**vars(inner))
    estimate = temper(target, seeds(10))
    assert estimate.draws.min() >= 0.0
    assert estimate.draws.max() <= 1.0
    sides = [stats.norm(m, 0.2) for m in (1.0, 0.9)]
    expected = sum(np.log(s.cdf(1.0) - s.cdf(0.0)) for s in sides)
    error = estimate.log_partition.std(ddof=1) / np.sqrt(10)
    assert abs(estimate.log_partition.mean() - expected) < STANDARD_ERRORS * error
    means = [stats.truncnorm(-m / 0.2, (1 - m) / 0.2, m, 0.2).mean() for m in (1, 0.9)]
    error = estimate.mean.std(axis=0, ddof=1) / np.sqrt(10)
    assert np.all(np.abs(estimate.mean.mean(axis=0) - means) < STANDARD_ERRORS * error)


def test_a_density_does_not_depend_on_the_others_nor_on_blocks():
    target = modes_in_a_row(2, (0.3, 0.7), n=3)
    together = temper(target, seeds(3), particles=200)
    apart = temper(target, seeds(3), particles=200, block_numbers=1)
    assert_close(apart.log_partition, together.log_partition)
    assert_close(apart.draws, together.draws)


def test_the_base_density_itself_takes_one_level_and_has_no_error():
    target = KnownMixture(np.zeros((1, 3)), np.array([2.0]), np.ones(1), 1.5)
    estimate = temper(target, seeds(1), particles=80)
    assert_close(estimate.log_partition, [1.5])
    assert estimate.levels[0] == 1
    assert estimate.error[0] < 1e-12
    assert estimate.ancestors[0] == 80
    assert_close(estimate.effective_draws, [80.0])


def test_log_partition_is_the_mean_of_group_estimates_in_one_level():
    # With one level nothing but importance sampling from q0 happens.
    target = KnownMixture(np.full((1, 2), 0.1), np.array([1.9]), np.ones(1))
    estimate = temper(target, seeds(1, 7), particles=160)
    assert estimate.levels[0] == 1
    points = target.base.sample(160, 2, np.random.default_rng(7))
    ratios = np.exp(
        target.log_unnormalized(points[None])[0] - target.base.log_density(points)
    ).reshape(8, 20)
    assert_close(estimate.log_partition, [np.log(ratios.mean())])
    means = ratios.mean(axis=1)
    assert_close(estimate.error, [means.std(ddof=1) / means.mean() / np.sqrt(8)])


def test_a_target_with_too_few_particles_is_unreliable():
    target = modes_in_a_row(6, (0.5, 0.5), sd=0.05)
    few = temper(target, seeds(1), particles=64, moves=1, threshold=0.2)
    assert few.unreliable[0]


def test_rows_select_every_field():
    target = modes_in_a_row(2, (0.3, 0.7), n=3)
    estimate = temper(target, seeds(3), particles=80)
    some = estimate.rows(np.array([2, 0]))
    for name in (*vars(estimate), "mean", "covariance", "unreliable"):
        np.testing.assert_array_equal(
            getattr(some, name), getattr(estimate, name)[[2, 0]]
        )


def test_no_densities_and_no_draws_give_empty_arrays():
    target = modes_in_a_row(2, (0.3, 0.7), n=0)
    estimate = temper(target, [], particles=80)
    assert estimate.draws.shape == (0, 80, 2)
    assert estimate.sample(target, 5, [], moves=1).shape == (0, 5, 2)
    one = modes_in_a_row(2, (0.3, 0.7))
    estimate = temper(one, seeds(1), particles=80)
    assert estimate.sample(one, 0, seeds(1), moves=1).shape == (1, 0, 2)


def test_systematic_resampling_takes_each_point_as_often_as_its_weight_says():
    rng = np.random.default_rng(0)
    weights = rng.random(50) * (rng.random(50) < 0.7)
    expected = 200 * weights / weights.sum()
    for offset in (0.0, 0.3, 1.0 - 1e-16):
        counts = np.bincount(systematic(weights, offset, 200), minlength=50)
        assert counts.sum() == 200
        assert np.all(np.abs(counts - expected) <= 1.0 + 1e-9)
    offsets = rng.random(20_000)
    means = np.mean(
        [np.bincount(systematic(weights, u, 7), minlength=50) for u in offsets], axis=0
    )
    assert np.all(np.abs(means - 7 * weights / weights.sum()) < 4 * 0.5 / np.sqrt(2e4))


def test_spread_is_that_of_the_points_without_their_outliers():
    rng = np.random.default_rng(1)
    covariance = np.array([[1.0, 0.7], [0.7, 2.0]])
    points = rng.multivariate_normal(np.zeros(2), covariance, size=(1, 20_000))
    points[0, :20] *= 1e6
    root = covariance_root(points)[0]
    # Cutting one per cent at either end takes some of the variance.
    assert np.all(np.abs(root @ root.T - covariance) < 0.15)


def test_moves_are_those_of_langevin_proposals_written_out():
    target = one_normal(2, 1)
    points = np.random.default_rng(0).normal(size=(1, 30, 2))
    root = np.linalg.cholesky(np.array([[1.0, 0.3], [0.3, 0.5]]))
    step, C = 0.8, root @ root.T
    moved = move(
        target.log_unnormalized,
        target.gradient,
        points,
        np.array([step]),
        root[None],
        seeds(1, 3),
        moves=1,
    )
    rng = np.random.default_rng(3)
    noise, uniform = rng.standard_normal((30, 2)), rng.random(30)
    accepted = 0
    for i, u in enumerate(points[0]):

        def gsm_linear(v):
            slope = target.gradient(v[None, None])[0, 0]
            return v + 0.5 * step**2 * C @ slope

        new = gsm_linear(u) + step * root @ noise[i]
        law = stats.multivariate_normal(np.zeros(2), step**2 * C)
        ratio = target.log_unnormalized(new[None, None])[0, 0]
        ratio -= target.log_unnormalized(u[None, None])[0, 0]
        ratio += law.logpdf(u - gsm_linear(new)) - law.logpdf(new - gsm_linear(u))
        taken = np.log(uniform[i]) < ratio
        accepted += taken
        assert_close(moved.points[0, i], new if taken else u, 1e-9)
    assert 0 < accepted < 30
    assert_close(moved.acceptance, [accepted / 30])


@pytest.mark.parametrize("beta", [0.0, 0.3, 1.0])
def test_a_tempered_density_is_between_the_base_and_the_target(beta):
    """Log q0 + β T, and its gradient by differences."""
    target = one_normal(2, 3)
    log_density, gradient = _tempered(target, np.full(3, beta))
    U = np.random.default_rng(0).normal(size=(3, 4, 2))
    base = target.base.log_density(U.reshape(-1, 2)).reshape(3, 4)
    between = (1.0 - beta) * base + beta * target.log_unnormalized(U)
    assert_close(log_density(U), between)
    step = 1e-5 * np.eye(2)
    slopes = [(log_density(U + s) - log_density(U - s)) / 2e-5 for s in step]
    assert_close(gradient(U), np.stack(slopes, axis=-1), DIFFERENCES)


def test_an_estimate_is_unreliable_by_its_error_its_ancestors_or_its_moves():
    """An error of log Z of 0.3, twenty first particles, a tenth of the moves."""
    target = modes_in_a_row(2, (0.3, 0.7))
    sound = temper(target, seeds(1), particles=80)
    for name, good, bad in (
        ("error", 0.299, 0.301),
        ("ancestors", 20, 19),
        ("acceptance", 0.101, 0.099),
    ):
        fine = {"error": 0.1, "ancestors": 100, "acceptance": 0.5}
        for value, told in ((good, False), (bad, True)):
            fields = {k: np.array([v]) for k, v in {**fine, name: value}.items()}
            estimate = dataclasses.replace(sound, **fields)
            assert estimate.unreliable.tolist() == [told], (name, value)
