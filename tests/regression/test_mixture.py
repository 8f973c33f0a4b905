"""Mixtures of linear regressions, by EM."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from scipy import special, stats
from sklearn.linear_model import LogisticRegression as Told

from kexpfam.regression import (
    RegressionMixture,
    Scaling,
    fit_regression_mixture,
    mixture_sums,
    refit_regression_mixture,
)
from kexpfam.regression.mixture import MIXTURE_SPEC, MixtureSpec, _Rows, _run
from tests.tolerances import assert_close


def rng():
    return np.random.default_rng(4)


def crossing(n=300, slope=2.0, noise=0.4):
    """Two lines that cross, both signs alike, and the sign of each row."""
    source = rng()
    x, sign = source.uniform(-2, 2, size=(n, 1)), source.choice([-1.0, 1.0], n)
    return x, sign * slope * x[:, 0] + noise * source.normal(size=n), sign


def fitted(x, y, **how):
    weights = how.pop("weights", np.ones(len(y)))
    return fit_regression_mixture(x, y, weights, rng(), **how)


def arbitrary(k=3):
    """A mixture of two columns whose masses depend on x."""
    return RegressionMixture(
        Scaling(np.array([1.0, -1.0]), np.array([2.0, 0.5])),
        Scaling(np.array([3.0]), np.array([4.0])),
        rng().normal(size=(3, k)),
        np.linspace(0.3, 0.7, k),
        rng().normal(size=(3, k)),
    )


def test_sums_of_a_round_are_those_of_rows_one_by_one():
    mixture, n, k = arbitrary(), 7, 3
    X, y, weights = rng().normal(size=(n, 2)), rng().normal(size=n), np.arange(1.0, 8.0)
    grams, moments, squares = np.zeros((k, 3, 3)), np.zeros((3, k)), np.zeros(k)
    gradient, hessian, total = np.zeros((3, k)), np.zeros((k - 1, 3, k - 1, 3)), 0.0
    for a in range(n):
        f = np.array([1.0, (X[a, 0] - 1.0) / 2.0, (X[a, 1] + 1.0) / 0.5])
        u, w = (y[a] - 3.0) / 4.0, weights[a]
        masses = np.exp(f @ mixture.odds) / np.exp(f @ mixture.odds).sum()
        p = masses * stats.norm.pdf(u, f @ mixture.slopes, mixture.stds) / 4.0
        total += w * np.log(p.sum())
        r = p / p.sum()
        for c in range(k):
            grams[c] += w * r[c] * np.outer(f, f)
            moments[:, c] += w * r[c] * f * u
            squares[c] += w * r[c] * u**2
            gradient[:, c] += w * (r[c] - masses[c]) * f
        for b, c in itertools.product(range(k - 1), repeat=2):
            own = masses[b] * ((b == c) - masses[c])
            hessian[b, :, c] += w * own * np.outer(f, f)
    sums = mixture_sums(mixture, X, y, weights)
    assert_close(sums.total, total)
    assert_close(sums.grams, grams)
    assert_close(sums.counts, grams[:, 0, 0])
    assert_close(sums.moments, moments)
    assert_close(sums.squares, squares)
    assert_close(sums.gradient, gradient)
    assert_close(sums.hessian, hessian)
    constant = replace(mixture, odds=mixture.odds * [[1.0], [0.0], [0.0]])
    assert not mixture_sums(constant, X, y, weights).hessian.any()


def test_sums_over_blocks_of_rows_add_up():
    mixture, X, y = arbitrary(), rng().normal(size=(9, 2)), rng().normal(size=9)
    weights = np.ones(9)
    parts = [
        mixture_sums(mixture, X[rows], y[rows], weights[rows])
        for rows in (slice(0, 0), slice(0, 4), slice(4, 9))
    ]
    whole, added = mixture_sums(mixture, X, y, weights), parts[0] + parts[1] + parts[2]
    for name in vars(whole):
        assert_close(getattr(added, name), getattr(whole, name))


@pytest.mark.parametrize("slope", [0.0, 1.0], ids=["constant", "varying"])
def test_all_rows_have_a_say_where_em_is_run_on_some(slope):
    source = rng()
    x = source.uniform(-2, 2, size=(3000, 1))
    upper = source.random(3000) < special.expit(0.5 + slope * x[:, 0])
    y = x[:, 0] + 1.5 * upper + 0.4 * source.normal(size=3000)
    weights = np.ones(3000)
    few = MixtureSpec(most_rows=300)
    exact = replace(few, of_chance=0.0, most_passes=300)
    start = fitted(x[:600], y[:600])
    assert start.gated == (slope > 0)
    best = refit_regression_mixture(start, x, y, weights, replace(exact, ridge=1.0))
    found = refit_regression_mixture(start, x, y, weights, few)

    def total(mixture):
        return special.logsumexp(mixture.log_joint(x, y), axis=1).sum()

    # Nearer to the most likely one than the right one is, by far.
    chance = 0.5 * (7 if slope else 6)
    assert 0.0 <= total(best) - total(found) < 0.3 * chance
    # A source of blocks is the same to it; the sample there says where to begin.
    seen = []

    def passes(mixture):
        seen.append(mixture)
        halves = slice(0, 1000), slice(1000, 3000)
        first, second = (mixture_sums(mixture, x[h], y[h], weights[h]) for h in halves)
        return first + second

    sample = x[:300], y[:300], weights[:300]
    blocks = refit_regression_mixture(start, *sample, all_rows=passes)
    assert 2 <= len(seen) <= MIXTURE_SPEC.most_passes
    assert total(best) - total(blocks) < 0.3 * chance
    assert total(best) - total(seen[0]) > chance  # the sample alone


def test_a_component_that_dies_out_in_all_rows_stays_as_in_the_sample():
    x, y, _ = crossing()
    start = fitted(x, y)
    none = mixture_sums(start, x[:2], y[:2], np.ones(2))
    kept = refit_regression_mixture(start, x, y, np.ones(300), all_rows=lambda _: none)
    again = refit_regression_mixture(start, x, y, np.ones(300))
    for one, other in zip(kept.at(x), again.at(x), strict=True):
        assert_close(one, other)


def test_log_joint_is_that_of_normal_components_with_softmax_masses():
    mixture = arbitrary(k=2)
    X, y = rng().normal(size=(5, 2)), rng().normal(size=5)
    slow = np.empty((5, 2))
    for a, c in itertools.product(range(5), range(2)):
        f = np.array([1.0, (X[a, 0] - 1.0) / 2.0, (X[a, 1] + 1.0) / 0.5])
        odds = [np.exp(f @ mixture.odds[:, other]) for other in range(2)]
        mean = 3.0 + 4.0 * (f @ mixture.slopes[:, c])
        normal = stats.norm.logpdf(y[a], mean, 4.0 * mixture.stds[c])
        slow[a, c] = np.log(odds[c] / sum(odds)) + normal
    assert_close(mixture.log_joint(X, y), slow)


def test_files_with_coefficients_of_other_columns_are_refused():
    x, y, _ = crossing()
    wider = replace(fitted(x, y), x_scaling=Scaling(np.zeros(2), np.ones(2)))
    with pytest.raises(ValueError, match="slopes of RegressionMixture has other"):
        wider.check_saved()


def test_lines_that_cross_are_found():
    x, y, _ = crossing()
    mixture = fitted(x, y)
    log_masses, means, stds = mixture.at(np.array([[-2.0], [1.0]]))
    assert np.abs(np.sort(means) - [[-4, 4], [-2, 2]]).max() < 0.3
    assert np.abs(np.exp(log_masses) - 0.5).max() < 0.1
    assert np.abs(stds - 0.4).max() < 0.08


def test_masses_that_depend_on_x_are_those_of_a_regression_told_the_components():
    source = rng()
    x = source.uniform(-2, 2, size=(500, 2))
    upper = source.random(500) < special.expit(0.5 + x[:, 0])
    y = x[:, 1] + 6.0 * upper + 0.4 * source.normal(size=500)
    mixture = fitted(x, y)
    log_masses, means, _ = mixture.at(x)
    own = np.exp(log_masses)[:, means[0].argmax()]
    told = Told(C=np.inf).fit(x, upper).predict_proba(x)[:, 1]
    assert np.abs(own - told).max() < 0.01  # the ridge


def test_rounds_gain_and_end_where_the_likelihood_is_flat():
    x, y, sign = crossing(noise=1.2)
    rows = _Rows.of(x, y, np.ones(len(y)))
    R = np.eye(2)[(sign > 0).astype(int)]
    totals = [
        _run(rows, R, True, MIXTURE_SPEC, rounds).total for rounds in range(1, 12)
    ]
    assert np.all(np.diff(totals) > -1e-6)
    # Small enough a gain for each row, and coefficients are those of a maximum.
    exact = MixtureSpec(enough_nats=0.0, most_rounds=2000, ridge=1e-9)
    best = _run(rows, R, True, exact, 2000)

    def total(shift, name):
        moved = {k: getattr(best, k).copy() for k in ("slopes", "stds", "odds")}
        moved[name].flat[0] += shift
        return special.logsumexp(type(best)(**moved).log_joint(rows), axis=1).sum()

    for name in ("slopes", "stds", "odds"):
        difference = (total(1e-4, name) - total(-1e-4, name)) / 2e-4
        assert abs(difference) < 1e-2, name


@pytest.mark.parametrize("p", [1, 5])
def test_one_line_is_no_mixture(p):
    source = rng()
    x = source.normal(size=(300, p))
    assert fitted(x, x @ np.ones(p) + source.normal(size=300)) is None


def test_too_few_rows_for_two_components_are_none():
    x, y, _ = crossing(60)
    assert fitted(x, y) is None
    assert fitted(x, y, spec=MixtureSpec(rows_each=5.0)) is not None


@pytest.mark.parametrize("n", [20, 300])
def test_one_component_is_least_squares_where_it_is_an_answer(n):
    """With few rows, too, which are not enough for two."""
    source = rng()
    x = source.normal(size=(n, 1))
    y = 3.0 + 2.0 * x[:, 0] + source.normal(size=n)
    alone = fit_regression_mixture(x, y, np.ones(n), rng(), alone=True)
    log_masses, means, stds = alone.at(np.array([[0.0], [1.0]]))
    slope, intercept = np.polyfit(x[:, 0], y, 1)
    assert np.array_equal(log_masses, np.zeros((2, 1)))
    assert means[:, 0] == pytest.approx([intercept, intercept + slope], abs=3.0 / n)
    residuals = y - intercept - slope * x[:, 0]
    assert stds[:, 0] == pytest.approx([residuals.std()] * 2, rel=3.0 / n)


def test_a_row_of_weight_two_is_two_rows():
    x, y, _ = crossing(200)
    start, weights = fitted(x, y), np.where(np.arange(200) < 50, 2.0, 1.0)
    twice = np.repeat(np.arange(200), weights.astype(int))
    weighted = refit_regression_mixture(start, x, y, weights)
    repeated = refit_regression_mixture(start, x[twice], y[twice], np.ones(250))
    for one, other in zip(weighted.at(x), repeated.at(x), strict=True):
        assert_close(one, other)


def test_a_fit_to_more_rows_than_are_looked_at_uses_all_up_to_a_limit():
    x, y, _ = crossing(700)
    few = fitted(x, y, spec=MixtureSpec(chosen_rows=300))
    assert_close(np.sort(few.stds), np.sort(fitted(x, y).stds), 1e-2)


def test_a_fit_without_some_rows_begins_where_it_was():
    x, y, _ = crossing()
    start = fitted(x, y)
    again = refit_regression_mixture(start, x[100:], y[100:], np.ones(200))
    assert_close(again.at(x)[1], start.at(x)[1], 0.2)
    # A component that no row is near stays.
    alike = refit_regression_mixture(start, x[:4], np.zeros(4), np.ones(4))
    assert alike is start
