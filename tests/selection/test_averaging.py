"""Weights of an average of candidates."""

import numpy as np
import pytest
from scipy import special

from kexpfam.base_densities import GaussianBase
from kexpfam.kernels import Gaussian, separable
from kexpfam.selection import Candidate
from kexpfam.selection.averaging import (
    average_weights,
    prior_weights,
    representatives,
    tempered_weights,
    without_negligible,
)
from kexpfam.selection.stacking import stacked_weights
from tests.tolerances import assert_close

KERNEL = separable(Gaussian(1.0), Gaussian(1.0))
N = 30


def candidate(coordinates, *, kernel=KERNEL, method="score"):
    if kernel is None:
        method = "none"
    return Candidate(coordinates, GaussianBase(1.0), kernel, 1.0, method, np.zeros(N))


CANDIDATES = [
    candidate("normal", kernel=None),
    candidate("normal", kernel=None),
    candidate("linear", kernel=None),
    *[candidate("normal")] * 4,
    *[candidate("linear")] * 2,
    *[candidate("normal", method="likelihood")] * 3,
]


@pytest.fixture
def held_out():
    """Log densities of five candidates that differ by some nats in total, (5, N)."""
    rng = np.random.default_rng(0)
    levels = np.array([-1.0, -1.02, -1.1, -1.3, -2.0])
    return levels[:, None] + 0.3 * rng.normal(size=(5, N))


UNIFORM = np.full(5, 0.2)
ROWS = np.linspace(0.5, 1.5, N)


def test_prior_gives_equal_mass_to_every_group_and_sums_to_one():
    prior = prior_weights(CANDIDATES, "normal")
    assert_close(prior.sum(), 1.0)
    assert_close(prior[0], 0.1)
    assert_close(prior[1:3], [0.1 / 2] * 2)
    group = (1.0 - 0.1 - 0.1) / 3
    for members in (slice(3, 7), slice(7, 9), slice(9, 12)):
        assert_close(prior[members].sum(), group)
        assert np.ptp(prior[members]) == 0


@pytest.mark.parametrize("kept", [CANDIDATES[:1], CANDIDATES[:3], CANDIDATES[3:]])
def test_prior_sums_to_one_if_some_kinds_are_missing(kept):
    prior = prior_weights(kept, "normal")
    assert_close(prior.sum(), 1.0)
    assert prior.min() > 0


def test_weights_sum_to_one_and_follow_the_held_out_likelihood(held_out):
    weights = tempered_weights(held_out, UNIFORM, ROWS, steps=0)
    assert_close(weights.sum(), 1.0)
    order = np.argsort(held_out @ ROWS)
    assert np.all(np.diff(weights[order]) >= 0)
    assert_close(tempered_weights(held_out, UNIFORM, ROWS).sum(), 1.0)


def test_without_steps_weights_are_the_tempered_posterior(held_out):
    found = tempered_weights(
        held_out, UNIFORM, ROWS, temperature=0.5, steps=0, negligible=0.0
    )
    assert_close(found, special.softmax(0.5 * (held_out @ ROWS)))


def test_temperature_zero_is_the_prior_and_a_high_one_takes_the_best(held_out):
    prior = np.array([0.4, 0.3, 0.1, 0.1, 0.1])
    cold = tempered_weights(held_out, prior, ROWS, temperature=0.0, steps=0)
    assert_close(cold, prior)
    hot = tempered_weights(held_out, prior, ROWS, temperature=1e3, steps=0)
    assert_close(hot, np.eye(5)[np.argmax(held_out @ ROWS)])


def test_every_step_increases_the_held_out_log_density_of_the_average(held_out):
    def log_score(weights):
        with np.errstate(divide="ignore"):
            mixed = special.logsumexp(np.log(weights)[:, None] + held_out, axis=0)
        return np.average(mixed, weights=ROWS)

    scores = [
        log_score(tempered_weights(held_out, UNIFORM, ROWS, steps=steps))
        for steps in range(8)
    ]
    assert np.all(np.diff(scores) > 0)


def test_weights_of_rows_count_like_repeated_rows(held_out):
    counts = np.arange(N) % 3 + 1
    weighted = tempered_weights(held_out, UNIFORM, counts.astype(float))
    again = np.repeat(held_out, counts, axis=1)
    repeated = tempered_weights(again, UNIFORM, np.ones(counts.sum()))
    assert_close(weighted, repeated)


def test_hopeless_candidates_get_exactly_nothing(held_out):
    hopeless = np.vstack([held_out, np.full(N, -50.0)])
    weights = tempered_weights(hopeless, np.full(6, 1 / 6), ROWS)
    assert weights[-1] == 0.0


def test_representatives_keep_the_total_of_their_group():
    weights = np.random.default_rng(1).dirichlet(np.ones(len(CANDIDATES)))
    kept = representatives(CANDIDATES, weights, 2)
    assert_close(kept.sum(), 1.0)
    groups = [[0, 1], [2], [3, 4, 5, 6], [7, 8], [9, 10, 11]]
    for group in groups:
        assert_close(kept[group].sum(), weights[group].sum())
        assert np.count_nonzero(kept[group]) == min(2, len(group))
        heaviest = np.array(group)[np.argsort(-weights[group])[:2]]
        assert np.all(kept[heaviest] > 0)


def test_a_group_without_weight_stays_without():
    weights = np.zeros(len(CANDIDATES))
    weights[0] = 1.0
    assert_close(representatives(CANDIDATES, weights, 2), weights)


def test_the_fewest_candidates_that_hold_nearly_all_weight_are_kept():
    weights = np.array([0.5, 0.003, 0.3, 0.001, 0.196])
    kept = without_negligible(weights, 0.005)
    np.testing.assert_array_equal(kept > 0, [True, False, True, False, True])
    assert_close(kept.sum(), 1.0)
    assert_close(kept[0] / kept[2], weights[0] / weights[2])
    assert_close(without_negligible(weights, 0.0), weights)


def different_experts(n):
    """Held-out log densities of CANDIDATES, of which two err on different rows."""
    rng = np.random.default_rng(5)
    held_out = -2.0 + 0.1 * rng.normal(size=(len(CANDIDATES), n))
    first = rng.random(n) < 0.6
    held_out[4] = np.where(first, -0.5, -2.5)
    held_out[8] = np.where(first, -2.5, -0.5)
    return held_out


def test_with_many_rows_candidates_that_err_differently_share_the_weight():
    held_out = different_experts(2000)
    weights = average_weights(CANDIDATES, held_out, np.ones(2000))
    softmax = tempered_weights(held_out, np.full(12, 1 / 12), np.ones(2000), steps=0)
    assert softmax[4] == 1.0
    np.testing.assert_allclose(weights[[4, 8]], [0.62, 0.38], atol=0.05)
    assert np.count_nonzero(weights) == 2


def test_with_few_rows_weights_stay_near_the_tempered_ones():
    held_out = different_experts(2000)[:, :10]
    rows = np.ones(10)
    prior = prior_weights(CANDIDATES, "normal")
    center = representatives(CANDIDATES, tempered_weights(held_out, prior, rows), 2)
    weights = average_weights(CANDIDATES, held_out, rows, dropped=(0.0, 0.0))
    stacked = stacked_weights(held_out, rows)
    assert np.abs(weights - center).sum() < 0.2 * np.abs(stacked - center).sum()


def test_an_average_of_many_rows_predicts_better_together_than_the_tempered_one():
    rng = np.random.default_rng(6)
    shared = rng.normal(size=3000)
    scatter = rng.normal(size=(len(CANDIDATES), 3000))
    held_out = -1.0 + 0.5 * shared + 0.6 * scatter
    prior = prior_weights(CANDIDATES, "normal")
    rows = np.ones(3000)

    def mixed(weights):
        with np.errstate(divide="ignore"):
            logs = np.log(weights)[:, None] + held_out
        return special.logsumexp(logs, axis=0).mean()

    together = mixed(average_weights(CANDIDATES, held_out, rows))
    assert together > mixed(tempered_weights(held_out, prior, rows)) + 0.03


def test_a_candidate_that_is_hopeless_on_most_rows_is_not_stacked():
    held_out = different_experts(2000)
    held_out[5] = np.where(np.arange(2000) % 10 == 0, 3.0, -4.0)
    weights = average_weights(CANDIDATES, held_out, np.ones(2000))
    assert weights[5] == 0.0
    free = average_weights(CANDIDATES, held_out, np.ones(2000), hopeless=np.inf)
    assert free[5] > 0.05
