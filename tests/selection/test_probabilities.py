"""Probabilities of classes, and mass functions of counts, against plain likelihoods."""

import numpy as np
import pytest
from scipy import optimize, special, stats

from kexpfam.regression import fit_logistic
from kexpfam.selection.counts import count_log_pmf, fit_counts, table_of_counts
from kexpfam.selection.probabilities import fit_probabilities


def labelled(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n, 2))
    p = special.expit(-0.5 + 2.0 * X[:, 0])
    return X, (rng.random(n) < p).astype(int), p


def test_logistic_regression_minimises_its_loss():
    X, labels, _ = labelled(80)
    weights = np.linspace(0.5, 1.5, 80)
    fit = fit_logistic(X, labels, weights, 2, ridge=1e-2)
    z = np.hstack([np.ones((80, 1)), fit.scaling.forward(X)])
    share = weights / weights.sum()

    def loss(flat):
        B = flat.reshape(3, 2)
        log_p = special.log_softmax(z @ B, axis=1)[np.arange(80), labels]
        penalty = 1e-2 * (B[1:] ** 2).sum() + 1e-5 * (B[0] ** 2).sum()
        return -share @ log_p + 0.5 * penalty

    best = optimize.minimize(loss, np.zeros(6), tol=1e-12).fun
    assert loss(fit.coefficients.ravel()) == pytest.approx(best, abs=1e-5)


def test_probabilities_are_near_the_truth_and_validated_honestly():
    X, labels, _ = labelled(500)
    model, held_out = fit_probabilities(
        X, labels, np.ones(500), 2, np.random.default_rng(0)
    )
    new, fresh, truth = labelled(2000, seed=1)
    found = model.at(new)
    assert np.abs(found[:, 1] - truth).mean() < 0.06
    assert found.sum(axis=1) == pytest.approx(1.0)
    loss = np.log(found[np.arange(2000), fresh]).mean()
    assert held_out.mean() == pytest.approx(loss, abs=0.06)
    assert model.held_out == pytest.approx(held_out.mean())


def test_what_x_says_nothing_about_gets_shares():
    rng = np.random.default_rng(0)
    X, labels = rng.normal(size=(400, 2)), rng.integers(3, size=400)
    model, _ = fit_probabilities(X, labels, np.ones(400), 3, rng)
    assert np.abs(model.at(X) - 1 / 3).max() < 0.2
    few, _ = fit_probabilities(X[:5], labels[:5], np.ones(5), 3, rng)
    assert np.all(few.at(X) > 0)  # a class that was not seen is not impossible


def test_a_row_of_weight_two_is_two_rows():
    X, labels, _ = labelled(60)
    twice = np.concatenate([np.arange(60), np.arange(20)])
    one = fit_logistic(X[twice], labels[twice], np.ones(80), 2)
    other = fit_logistic(X, labels, 1.0 + (np.arange(60) < 20), 2)
    np.testing.assert_allclose(
        one.log_probabilities(X), other.log_probabilities(X), atol=1e-4
    )


@pytest.mark.parametrize("mean", [0.3, 4.0, 80.0])
def test_count_probabilities_are_those_of_scipy(mean):
    k = np.arange(20.0)
    np.testing.assert_allclose(
        count_log_pmf(k, np.array(mean), 0.0), stats.poisson.logpmf(k, mean), atol=1e-9
    )
    r = 1.0 / 0.7
    np.testing.assert_allclose(
        count_log_pmf(k, np.array(mean), 0.7),
        stats.nbinom.logpmf(k, r, r / (r + mean)),
        atol=1e-9,
    )


def test_regressions_of_counts_find_mean_and_dispersion():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(800, 1))
    mu = 6.0 * np.exp(0.7 * X[:, 0])
    y = 1.0 * rng.negative_binomial(2.0, 2.0 / (2.0 + mu))
    found, log_p = fit_counts(X, y, np.ones(800), rng)
    poisson, negative = found[0], found[1]
    np.testing.assert_allclose(negative.means(X), mu, rtol=0.15)
    assert negative.dispersion == pytest.approx(0.5, rel=0.2)
    assert log_p[1].mean() > log_p[0].mean() + 0.1
    assert poisson.dispersion == 0.0


def test_tables_of_counts_respect_bounds():
    y = np.array([1.0, 5.0])
    free = table_of_counts(y, -np.inf, np.inf)
    assert free[0] == 0.0
    assert free[-1] > 15.0
    assert table_of_counts(y, 1.0, 5.0).tolist() == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert table_of_counts(-y, -np.inf, np.inf)[0] < -15.0


def test_shares_that_held_out_rows_rule_out_have_no_weight():
    # Far from the boundary a class has next to no probability: a per cent of one that
    # is a thousand units away would be most of a standard deviation there.
    rng = np.random.default_rng(4)
    X = rng.normal(size=(300, 1))
    p = special.expit(12.0 * (X[:, 0] + 0.7))
    labels = (rng.random(300) < p).astype(int)
    model, _ = fit_probabilities(X, labels, np.ones(300), 2, rng)
    assert model.weights[0] == 0.0
    assert model.at(np.array([[1.5]]))[0, 0] < 0.003
    # Where x says nothing the shares are what is left.
    model, _ = fit_probabilities(X, rng.permutation(labels), np.ones(300), 2, rng)
    assert model.weights[0] > 0.2
