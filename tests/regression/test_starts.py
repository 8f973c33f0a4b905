"""Searches for hyperparameters that begin in several places."""

from dataclasses import replace

import numpy as np
import pytest

from kexpfam.regression import fit_gaussian_process
from kexpfam.regression.process import (
    PROCESS_SPEC,
    NegativeLogPosterior,
    maximise_log_posterior,
)
from kexpfam.regression.starts import (
    START_SPEC,
    best_start,
    explains_little,
    other_starts,
)
from tests.tolerances import assert_close


def product(n, p, seed=0):
    """Two of many columns matter, and neither of them alone."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    y = X[:, 1] * np.cos(1.5 * X[:, 2]) + 0.1 * rng.normal(size=n)
    return X, (y - y.mean()) / y.std(), np.ones(n)


@pytest.fixture(scope="module")
def stuck():
    """Rows, and the θ "all is noise": where a search ends if responses are shuffled."""
    X, y, factors = rows = product(200, 12)
    shuffled = np.random.default_rng(1).permutation(y)
    theta = maximise_log_posterior(X, shuffled, factors, PROCESS_SPEC.prior(12)[0], 40)
    assert np.exp(theta[2]) > 0.8
    return rows, theta


@pytest.fixture(scope="module")
def good(stuck):
    """What other starts lead to."""
    rows, theta = stuck
    return best_start(rows, rows, theta, [], 40)


def value(rows, theta):
    return NegativeLogPosterior(*rows)(theta)[0]


def test_a_search_that_is_stuck_in_noise_finds_the_columns_that_matter(stuck, good):
    rows, theta = stuck
    assert value(rows, good) < value(rows, theta) - 50.0
    assert set(np.argsort(good[3:])[:2]) == {1, 2}
    assert np.exp(good[2]) < 0.1


def test_the_kept_start_is_the_best_of_searches_from_each(stuck, good):
    rows, theta = stuck
    each = [
        maximise_log_posterior(
            *rows,
            maximise_log_posterior(*rows, start, START_SPEC.trial_iterations),
            40,
        )
        for start in other_starts(*rows)
    ]
    best = min([theta, *each], key=lambda t: value(rows, t))
    assert_close(good, best)


def test_a_process_that_explains_enough_is_left_alone(stuck, good):
    rows, _ = stuck
    assert not explains_little(*rows, float(np.exp(good[2])))
    assert best_start(rows, rows, good, [], 40) is good


def test_noise_stays_noise(stuck):
    (X, _, factors), _ = stuck
    y = np.random.default_rng(8).normal(size=len(X))
    rows = X, y, factors
    theta = maximise_log_posterior(*rows, PROCESS_SPEC.prior(12)[0], 40)
    assert np.exp(best_start(rows, rows, theta, [], 40)[2]) > 0.7


def test_an_optimum_of_similar_data_is_followed_only_if_it_is_better(stuck, good):
    rows, theta = stuck
    other = product(200, 12, seed=1)
    found = best_start(other, other, theta, [good], 40)
    assert value(other, found) < value(other, theta) - 50.0
    assert best_start(rows, rows, good, [theta], 40) is good


def test_a_straight_line_counts_as_explained_by_itself():
    X, _, factors = product(200, 3)
    noise = 0.5 * np.random.default_rng(2).normal(size=200)
    line = X @ [2.0, 0.0, 1.0] + noise
    assert explains_little(X, line, factors, 0.25)
    assert not explains_little(X, line, factors, 0.05)


def test_noise_factors_count_as_weights_in_what_a_line_leaves():
    X, y, factors = product(200, 3)
    y = y.copy()
    y[:20] += 30.0
    unsure = factors.copy()
    unsure[:20] = 1e6
    assert explains_little(X, y, unsure, 0.8)
    assert not explains_little(X, y, factors, 0.8)


@pytest.mark.parametrize(("p", "count"), [(1, 1), (2, 2), (30, 2)])
def test_there_are_two_other_starts_unless_there_is_one_column(p, count):
    X, y = np.random.default_rng(0).normal(size=(50, p)), np.arange(50.0)
    starts = list(other_starts(X, y, np.ones(50)))
    assert [len(start) for start in starts] == [3 + p] * count


def test_at_most_half_of_the_columns_are_screened():
    X, y, factors = product(300, 6)
    spec = replace(START_SPEC, most_columns=8)
    _, screened = other_starts(X, y, factors, spec=spec)
    short = screened[3:] < PROCESS_SPEC.prior(6)[0][3:]
    assert short.sum() == 3
    assert short[[1, 2]].all()


def test_a_fit_follows_the_best_start_and_is_the_same_again():
    X, y, _ = product(250, 20, seed=3)
    fit, again = fit_gaussian_process(X, y), fit_gaussian_process(X, y)
    assert fit.process.noise_variance < 0.1
    assert_close(fit.held_out_mean, again.held_out_mean)
