"""Weights that maximise the held-out log density of a mixture."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import special
from scipy.stats import norm

from kexpfam.selection.stacking import (
    STACKING,
    stacked_weights,
    stacked_without_hopeless,
)
from tests.oracles.stacking import slow_stacked_weights
from tests.tolerances import assert_close

EXACT = replace(STACKING, enough_nats=1e-7, exact_nats=1e-10)


def mixed_log_density(weights, log_p, rows):
    with np.errstate(divide="ignore"):
        logs = np.log(weights)[:, None] + log_p
    return float(special.logsumexp(logs, axis=0) @ rows)


def problem(seed, k=6, n=150):
    """Log densities of candidates that differ in merit, and weights of rows."""
    rng = np.random.default_rng(seed)
    spread, worse = rng.uniform(0.2, 1.0, (k, 1)), rng.uniform(0.0, 0.5, (k, 1))
    log_p = spread * rng.normal(size=(k, n)) - worse
    return log_p, rng.uniform(0.5, 2.0, n), rng.dirichlet(np.ones(k))


@pytest.mark.parametrize("pseudo_rows", [0.0, 20.0])
@pytest.mark.parametrize("seed", range(5))
def test_weights_equal_those_of_a_general_optimiser(seed, pseudo_rows):
    log_p, rows, center = problem(seed)
    found = stacked_weights(log_p, rows, center, pseudo_rows, EXACT)
    expected = slow_stacked_weights(log_p, rows, center, pseudo_rows)
    # The optimiser stops where the function is flat, which is the root of its error.
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("seed", range(3))
def test_at_the_optimum_no_candidate_could_gain(seed):
    log_p, rows, _ = problem(seed, k=40)
    weights = stacked_weights(log_p, rows, spec=EXACT)
    P = np.exp(log_p)
    gain = P @ (rows / (weights @ P)) / rows.sum()
    assert gain.max() < 1.0 + 1e-6
    np.testing.assert_allclose(gain[weights > 0], 1.0, atol=1e-5)
    assert_close(weights.sum(), 1.0)


def test_the_default_ends_within_a_nat_of_the_optimum():
    log_p, rows, _ = problem(3, k=60, n=400)
    exact = stacked_weights(log_p, rows, spec=EXACT)
    found = stacked_weights(log_p, rows)
    loss = mixed_log_density(exact, log_p, rows) - mixed_log_density(found, log_p, rows)
    assert -1e-6 < loss < 1.0
    assert np.count_nonzero(found) <= np.count_nonzero(exact)


def test_experts_that_err_on_different_rows_share_the_weight_of_many_rows():
    rng = np.random.default_rng(0)
    n = 4000
    # A third of the rows is from the second law: the best mixture is known.
    second = rng.random(n) < 1 / 3
    y = rng.normal(np.where(second, 3.0, 0.0), 1.0)
    log_p = np.stack([norm.logpdf(y, 0.0), norm.logpdf(y, 3.0), norm.logpdf(y, 1.0, 2)])
    weights = stacked_weights(log_p, np.ones(n))
    np.testing.assert_allclose(weights, [2 / 3, 1 / 3, 0.0], atol=0.03)


def test_the_more_pseudo_rows_the_nearer_to_the_centre():
    log_p, rows, center = problem(1)
    counts = [0.0, 10.0, 100.0, 1000.0, 1e7]
    far = [
        np.abs(stacked_weights(log_p, rows, center, c, EXACT) - center).sum()
        for c in counts
    ]
    assert np.all(np.diff(far) < 0)
    assert far[-1] < 1e-4


def test_a_candidate_the_centre_leaves_out_can_have_weight():
    log_p, rows, _ = problem(2)
    best = int(np.argmax(stacked_weights(log_p, rows)))
    center = np.full(6, 0.2)
    center[best] = 0.0
    assert stacked_weights(log_p, rows, center, 5.0)[best] > 0.1


def test_weights_of_rows_count_like_repeated_rows():
    log_p, _, center = problem(4, n=60)
    counts = np.arange(60) % 3 + 1
    weighted = stacked_weights(log_p, counts.astype(float), center, 7.0, EXACT)
    again = np.repeat(log_p, counts, axis=1)
    repeated = stacked_weights(again, np.ones(counts.sum()), center, 7.0, EXACT)
    np.testing.assert_allclose(weighted, repeated, atol=1e-6)


def test_units_of_the_response_and_hopeless_candidates_change_nothing():
    log_p, rows, center = problem(5)
    found = stacked_weights(log_p, rows, center, 10.0)
    shifted = log_p - 700.0 + np.linspace(-50.0, 50.0, log_p.shape[1])
    assert_close(stacked_weights(shifted, rows, center, 10.0), found)
    hopeless = np.vstack([log_p, np.full(log_p.shape[1], -1e4)])
    more = stacked_weights(hopeless, rows, np.append(center, 0.0), 10.0)
    assert_close(more, np.append(found, 0.0))


def test_equal_candidates_are_no_difficulty():
    log_p, rows, center = problem(6)
    twins = np.vstack([log_p, log_p])
    weights = stacked_weights(twins, rows, spec=EXACT)
    single = stacked_weights(log_p, rows, spec=EXACT)
    np.testing.assert_allclose(weights[:6] + weights[6:], single, atol=1e-5)
    shared = stacked_weights(twins, rows, np.append(center, center) / 2, 30.0, EXACT)
    np.testing.assert_allclose(shared[:6], shared[6:], atol=1e-5)


def test_one_candidate_has_all_weight():
    assert_close(stacked_weights(np.zeros((1, 4)), np.ones(4)), [1.0])
    assert_close(stacked_weights(np.zeros((1, 4)), np.ones(4), np.ones(1), 5.0), [1.0])


def test_rows_that_nobody_expects_do_not_break_the_search():
    log_p, rows, center = problem(7)
    log_p = log_p.copy()
    log_p[:, :3] = -1e4 + np.arange(6)[:, None] * 1e3
    weights = stacked_weights(log_p, rows, center, 10.0)
    assert np.isfinite(weights).all()
    assert_close(weights.sum(), 1.0)


def could_gain(weights, log_p, rows, among):
    """Nats in total that any weights of some candidates could gain, at most."""
    P = np.exp(log_p - log_p.max(axis=0))
    gain = P @ (rows / (weights @ P))
    return gain[among].max() - rows.sum()


@pytest.mark.parametrize("seed", range(12))
def test_no_candidate_could_gain_more_nats_than_are_said_to_be_enough(seed):
    """The gradient bounds what a concave function can gain."""
    log_p, rows, _ = problem(seed, k=80, n=300)
    weights = stacked_weights(log_p, rows)
    everyone = np.ones(len(weights), dtype=bool)
    assert could_gain(weights, log_p, rows, everyone) < STACKING.enough_nats == 1.0
    assert could_gain(weights, log_p, rows, weights > 0) < STACKING.exact_nats
    strict = replace(STACKING, enough_nats=0.2)
    closer = stacked_weights(log_p, rows, spec=strict)
    assert could_gain(closer, log_p, rows, everyone) < 0.2


def test_the_search_ends_after_as_many_rounds_and_steps_as_it_may():
    log_p, rows, _ = problem(3, k=60, n=400)
    one = replace(EXACT, most_rounds=1, added=2)
    # One round is that of the best candidate alone: those added have a little weight.
    weights = stacked_weights(log_p, rows, spec=one)
    best = int(np.argmax(log_p @ rows))
    assert np.argmax(weights) == best
    assert np.count_nonzero(weights) == 3
    assert_close(np.sort(weights)[-3:], [0.01, 0.01, 0.98])
    assert_close(weights.sum(), 1.0)
    unmoved = stacked_weights(log_p, rows, spec=replace(EXACT, most_steps=0))
    assert np.count_nonzero(unmoved) > 3


def test_candidates_that_held_out_rows_rule_out_have_no_weight():
    """Ruled out by the standard error of the difference to the best, row by row."""
    rng = np.random.default_rng(0)
    rows = rng.uniform(0.5, 2.0, 200)
    best = rng.normal(size=200)
    noise = rng.normal(size=200)
    share = rows / rows.sum()
    noise = (noise - share @ noise) / np.sqrt(share**2 @ (noise - share @ noise) ** 2)
    # Below the best by so many standard errors of what they differ by, which are one.
    behind = np.array([0.0, 1.9, 2.1, 50.0])
    log_p = best + noise * (behind > 0)[:, None] - behind[:, None]
    weights = stacked_without_hopeless(log_p, rows, 1e6, errors=2.0)
    # With so many pseudo-rows those that are left have nearly equal weights.
    np.testing.assert_allclose(weights, [0.5, 0.5, 0.0, 0.0], atol=0.02)
    assert weights[2] == weights[3] == 0.0
    # One that gives a row no density has not lost by a number.
    log_p[3] = best
    log_p[3, 7] = -np.inf
    weights = stacked_without_hopeless(log_p, rows, 1.0, errors=2.0)
    assert weights[2] == 0.0
    assert weights[3] < weights[0]
