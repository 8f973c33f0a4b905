"""Importance sampling: known log Z, effective draws and tail indices."""

import numpy as np
import pytest
from scipy import special, stats

from kexpfam.partition import estimate_partition, make_proposal, pareto_tail_index
from kexpfam.partition.importance import ImportanceEstimate, Proposal
from tests.tolerances import STANDARD_ERRORS, assert_close

BASE_SCALE = 2.0
MEAN = np.array([1.0, -0.5, 0.3])
COVARIANCE = np.array([[0.8, 0.3, 0.0], [0.3, 0.5, -0.1], [0.0, -0.1, 1.2]])
TARGET = stats.multivariate_normal(MEAN, COVARIANCE)


def log_q0(u):
    return stats.norm(scale=BASE_SCALE).logpdf(u).sum(axis=1)


def sample_q0(n, rng):
    return BASE_SCALE * rng.standard_normal((n, 3))


@pytest.fixture(scope="module")
def training():
    rows = TARGET.rvs(200, random_state=np.random.default_rng(1))
    rows.flags.writeable = False
    return rows


def propose(training, seed, n_draws=4000):
    return make_proposal(
        log_q0, sample_q0, training, n_draws, np.random.default_rng(seed)
    )


def test_proposal_density_is_the_mixture_it_is_drawn_from(training):
    proposal = propose(training, 0, 501)
    assert proposal.draws.shape == (501, 3)
    # Scott's rule per column, and half of the mass each
    width = training.std(axis=0) * len(training) ** (-1 / 7)
    gaps = (proposal.draws[:, None, :] - training) / width
    near = np.exp(-0.5 * (gaps**2).sum(axis=2)).mean(axis=1)
    near /= (2 * np.pi) ** 1.5 * width.prod()
    expected = np.log(0.5 * near + 0.5 * np.exp(log_q0(proposal.draws)))
    assert_close(proposal.log_density, expected, 1e-9)


def test_proposal_density_integrates_to_one_over_its_own_draws(training):
    # E_proposal[q0/proposal] = 1
    proposal = propose(training, 3)
    ratios = np.exp(log_q0(proposal.draws) - proposal.log_density)
    error = ratios.std() / np.sqrt(len(ratios))
    assert abs(ratios.mean() - 1.0) < STANDARD_ERRORS * error


def test_proposal_from_many_rows_uses_some_of_them():
    many = TARGET.rvs(3000, random_state=np.random.default_rng(1))
    proposal = propose(many, 5)
    ratios = np.exp(log_q0(proposal.draws) - proposal.log_density)
    error = ratios.std() / np.sqrt(len(ratios))
    assert abs(ratios.mean() - 1.0) < STANDARD_ERRORS * error


@pytest.mark.parametrize("seed", range(4))
def test_log_partition_and_moments_of_a_gaussian_tilt(training, seed):
    constants = np.array([0.0, 400.0])
    proposal = propose(training, seed)
    log_values = TARGET.logpdf(proposal.draws) + constants[:, None]
    estimate = estimate_partition(log_values, proposal)
    gap = np.abs(estimate.log_partition - constants)
    assert np.all(gap < STANDARD_ERRORS * estimate.error)
    assert np.all(estimate.error < 0.05)
    effective = estimate.effective_draws[:, None]
    error = np.sqrt(np.diag(COVARIANCE) / effective)
    assert np.all(np.abs(estimate.mean - MEAN) < STANDARD_ERRORS * error)
    # The deviation of a product of two normals is at most √2 times their deviations.
    sd = np.sqrt(np.diag(COVARIANCE))
    limit = STANDARD_ERRORS * np.sqrt(2) * np.outer(sd, sd) / np.sqrt(effective[0])
    assert np.all(np.abs(estimate.covariance - COVARIANCE) < limit)
    entropy = estimate.log_partition - estimate.log_mean
    limit = STANDARD_ERRORS * np.sqrt(1.5 / effective[:, 0])  # var of log p is d/2
    assert np.all(np.abs(entropy - TARGET.entropy()) < limit)
    assert not estimate.unreliable.any()


def test_the_stated_error_is_the_spread_over_seeds(training):
    estimates = []
    for seed in range(60):
        proposal = propose(training, seed, 1000)
        log_values = TARGET.logpdf(proposal.draws)[None]
        estimates.append(estimate_partition(log_values, proposal))
    spread = np.std([e.log_partition[0] for e in estimates])
    stated = np.mean([e.error[0] for e in estimates])
    # A deviation from 60 values has a relative error of 1/√120 = 9 per cent.
    assert 0.65 < spread / stated < 1.35


def test_equal_weights_count_fully_and_one_weight_counts_once():
    draws = np.zeros((100, 3))
    flat = Proposal(draws, np.zeros(100))
    lonely = np.full(100, -np.inf)
    lonely[7] = 0.0
    estimate = estimate_partition(np.stack([np.full(100, 2.0), lonely]), flat)
    assert_close(estimate.effective_draws, [100.0, 1.0])
    assert_close(estimate.log_partition, [2.0, -np.log(100.0)])
    assert_close(estimate.error, [0.0, np.sqrt(0.99)], scale=1.0)
    assert_close(estimate.log_mean, [2.0, 0.0], scale=1.0)
    assert estimate.unreliable[1]
    assert not estimate.unreliable[0]


def test_effective_draws_equal_their_definition(training):
    proposal = propose(training, 1, 500)
    log_values = TARGET.logpdf(proposal.draws)[None]
    weights = np.exp(log_values[0] - proposal.log_density)
    estimate = estimate_partition(log_values, proposal)
    assert_close(estimate.effective_draws, [weights.sum() ** 2 / (weights**2).sum()])
    assert_close(estimate.weights[0], weights / weights.sum())
    expected = special.logsumexp(log_values - proposal.log_density) - np.log(500)
    assert_close(estimate.log_partition, [expected])
    relative = weights.std() / weights.mean() / np.sqrt(500)
    assert_close(estimate.error, [relative])


def test_a_target_far_from_every_draw_is_unreliable(training):
    proposal = propose(training, 1, 2000)
    far = stats.multivariate_normal(np.full(3, 12.0), 0.01 * np.eye(3))
    assert estimate_partition(far.logpdf(proposal.draws)[None], proposal).unreliable[0]


def test_rows_select_every_field(training):
    proposal = propose(training, 1, 100)
    log_values = np.stack([TARGET.logpdf(proposal.draws), log_q0(proposal.draws)])
    estimate = estimate_partition(log_values, proposal)
    swapped = estimate.rows(np.array([1, 0]))
    for name in (
        "log_partition",
        "error",
        "effective_draws",
        "tail_index",
        "weights",
        "log_mean",
        "mean",
        "covariance",
    ):
        np.testing.assert_array_equal(
            getattr(swapped, name), getattr(estimate, name)[::-1]
        )
    np.testing.assert_array_equal(swapped.draws, estimate.draws)


@pytest.mark.parametrize("k", [0.25, 0.5, 0.7, 1.0])
def test_tail_index_of_pareto_weights(k):
    estimates = [
        pareto_tail_index(np.random.default_rng(seed).random(20_000) ** -k)
        for seed in range(8)
    ]
    # One estimate has a deviation of about (1 + k)/√m with m = 3√20000 = 424 weights,
    # and the prior pulls it to 1/2 by 10/434 of the way.
    allowed = STANDARD_ERRORS * (1 + k) / np.sqrt(424 * 8) + abs(k - 0.5) * 10 / 434
    assert abs(np.mean(estimates) - k) < allowed


def test_tail_index_of_light_tails():
    exponential, uniform = [], []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        exponential.append(pareto_tail_index(rng.exponential(size=20_000)))
        uniform.append(pareto_tail_index(rng.random(20_000)))
    assert abs(np.mean(exponential)) < 0.1  # k = 0
    assert abs(np.mean(uniform) + 1.0) < 0.15  # k = −1


def test_tail_index_does_not_depend_on_the_unit_of_the_weights():
    weights = np.random.default_rng(0).random(5000) ** -0.6
    expected = pareto_tail_index(weights)
    assert_close(pareto_tail_index(1e-200 * weights), expected, 1e-6)
    assert_close(pareto_tail_index(1e200 * weights), expected, 1e-6)


def test_tail_index_of_equal_weights_is_the_best_and_of_few_weights_the_worst():
    assert pareto_tail_index(np.ones(1000)) == -np.inf
    assert pareto_tail_index(np.random.default_rng(0).random(20)) == np.inf


def slow_tail_index(weights):
    """Zhang and Stephens (2009), number by number, with Vehtari's shrinkage."""
    s = len(weights)
    m = int(min(0.2 * s, 3.0 * s**0.5))
    largest = sorted(weights)[-(m + 1) :]
    x = [w - largest[0] for w in largest[1:]]
    count, quartile = 30 + int(m**0.5), x[int(m / 4 + 0.5) - 1]
    places, logs = [], []
    for j in range(1, count + 1):
        theta = 1 / x[-1] + (1 - (count / (j - 0.5)) ** 0.5) / (3 * quartile)
        k = sum(np.log(1 - theta * value) for value in x) / m
        places.append(theta)
        logs.append(m * (np.log(-theta / k) - k - 1))
    chances = [1 / sum(np.exp(other - own) for other in logs) for own in logs]
    best = sum(p * t for p, t in zip(chances, places, strict=True))
    k = sum(np.log(1 - best * value) for value in x) / m
    return (m * k + 5.0) / (m + 10)


@pytest.mark.parametrize("count", [25, 100, 1000, 5000])
@pytest.mark.parametrize("power", [-0.2, -0.5, -0.9])
def test_tail_indices_are_those_of_the_paper_number_by_number(count, power):
    weights = np.random.default_rng(count).random(count) ** power
    with np.errstate(divide="ignore", invalid="ignore"):
        assert_close(pareto_tail_index(weights), slow_tail_index(weights), 1e-9)
    assert_close(pareto_tail_index(7e5 * weights), pareto_tail_index(weights), 1e-9)


def test_tail_indices_of_few_or_bounded_weights():
    weights = np.random.default_rng(0).random(24)
    assert pareto_tail_index(weights) == np.inf  # four of them are no tail
    assert pareto_tail_index(np.ones(1000)) == -np.inf
    assert pareto_tail_index(1.0 + 1e-14 * np.arange(1000.0)) == -np.inf


@pytest.mark.parametrize(
    ("index", "effective", "told"),
    [(0.69, 51.0, False), (0.71, 51.0, True), (0.69, 49.0, True)],
)
def test_estimates_are_unreliable_by_their_tail_or_few_draws(index, effective, told):
    found = ImportanceEstimate(
        *np.zeros((2, 1)), np.array([effective]), np.array([index]), *[np.zeros(1)] * 3
    )
    assert found.unreliable.tolist() == [told]


def test_an_estimate_is_that_of_loops_over_draws():
    rng = np.random.default_rng(0)
    log_values, log_density = rng.normal(size=(2, 300)), rng.normal(size=300)
    found = estimate_partition(
        log_values, Proposal(rng.normal(size=(300, 1)), log_density)
    )
    for r in range(2):
        w = [np.exp(v - q) for v, q in zip(log_values[r], log_density, strict=True)]
        mean = sum(w) / 300
        assert_close(found.log_partition[r], np.log(mean))
        variance = sum((value - mean) ** 2 for value in w) / 300
        assert_close(found.error[r], np.sqrt(variance / 300) / mean)
        share = np.array(w) / sum(w)
        assert_close(found.effective_draws[r], 1.0 / sum(share**2))
        assert_close(found.log_mean[r], share @ log_values[r])
        assert_close(found.tail_index[r], pareto_tail_index(np.array(w)), 1e-9)
