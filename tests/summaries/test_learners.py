"""Regressions that predict rows they have not seen, and their combination."""

import numpy as np
import pytest
from scipy import optimize
from sklearn.linear_model import LinearRegression

from kexpfam.regression import fit_gaussian_process
from kexpfam.summaries import FOLDS, fold_of_rows
from kexpfam.summaries.learners import (
    BoostingLearner,
    ForestLearner,
    Learned,
    ProcessLearner,
    RegressorLearner,
    stacked,
)

LEARNERS = [
    ForestLearner("extra", trees=40),
    ForestLearner("random", trees=40),
    BoostingLearner(),
    ProcessLearner(),
    RegressorLearner(LinearRegression()),
]


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda one: type(one).__name__)
def test_noise_is_not_predicted_by_what_is_held_out(learner):
    rng = np.random.default_rng(1)
    X, Y = rng.uniform(size=(200, 3)), rng.normal(size=(200, 1))
    held_out = learner.cross_fit(X, Y, np.ones(200), rng).held_out
    assert np.mean((Y - held_out) ** 2) > 0.95 * np.var(Y)


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda one: type(one).__name__)
def test_a_course_is_predicted_at_new_rows(learner):
    X, new = np.random.default_rng(0).uniform(-1, 1, size=(2, 150, 2))
    learned = learner.cross_fit(X, X[:, :1], np.ones(150), np.random.default_rng(0))
    error = learned.model.predict(new) - new[:, :1]
    assert np.mean(error**2) < 0.1 * np.var(new)
    assert learned.held_out.shape == (150, 1)


def test_weights_of_a_stack_are_the_best_that_sum_to_one():
    rng = np.random.default_rng(0)
    y, weights = rng.normal(size=80), rng.uniform(0.5, 2.0, size=80)
    P = y[:, None] * [0.9, 0.5, 0.7] + rng.normal(size=(80, 3))
    parts = [Learned(f"{k}", P[:, [k]], -P[:, [k]]) for k in range(3)]
    slow = optimize.minimize(
        lambda w: float(weights @ (y - P @ w) ** 2),
        np.full(3, 1 / 3),
        bounds=[(0, 1)] * 3,
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1},
        tol=1e-12,
    )
    found = stacked(parts, y, weights, negligible=0.0)
    np.testing.assert_allclose(found.model.shares, slow.x, atol=1e-4)
    np.testing.assert_allclose(found.held_out[:, 0], P @ found.model.shares)
    np.testing.assert_allclose(found.feature, -found.held_out)


def test_a_part_that_does_not_help_is_left_out_of_a_stack():
    rng = np.random.default_rng(0)
    y = rng.normal(size=200)
    good, bad = y + 0.1 * rng.normal(size=200), rng.normal(size=200)
    parts = [
        Learned(name, part[:, None], part[:, None])
        for name, part in (("good", good), ("bad", bad))
    ]
    assert stacked(parts, y, np.ones(200)).model == "good"


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda one: type(one).__name__)
def test_where_x_repeats_a_feature_does_not_show_the_response(learner):
    # Without a row alone its prediction is the mean of the others of its kind, and
    # moves against it: one would know the response exactly.
    rng = np.random.default_rng(0)
    X = rng.integers(4, size=(400, 1)).astype(float)
    Y = X + rng.normal(size=(400, 1))
    feature = learner.cross_fit(X, Y, np.ones(400), rng).feature
    kinds = np.unique(np.column_stack([X, feature.round(9)]), axis=0)
    assert len(kinds) == 4 * FOLDS


def test_features_of_processes_are_predictions_without_a_part():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(60, 2))
    Y = X[:, :1] + 0.1 * rng.normal(size=(60, 1))
    learned = ProcessLearner().cross_fit(X, Y, np.ones(60), rng)
    own = fold_of_rows(60) == 2
    known = learned.model.processes[0].hyperparameters
    without = fit_gaussian_process(X[~own], Y[~own, 0], start=known, max_iterations=0)
    np.testing.assert_allclose(
        learned.feature[own, 0], without.process.predict(X[own])[0]
    )
