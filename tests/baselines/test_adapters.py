"""Adapters: what they add to the libraries behind them."""

import sys

import numpy as np
import pytest
from scipy import stats
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.linear_model import BayesianRidge

from kexpfam.baselines import (
    GaussianProcessDensity,
    NGBoostDensity,
    QuantileForestDensity,
)
from kexpfam.baselines.adapters import leaf_weights
from kexpfam.errors import MissingDependencyError


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, size=(80, 2))
    return x, 30 + 5 * np.sin(x[:, 0]) + rng.normal(size=80)


def test_a_gaussian_process_is_the_one_of_scikit_learn(rows):
    x, y = rows
    kernel = 1.0 * RBF(1.0) + WhiteKernel(0.2)
    inner = GaussianProcessRegressor(kernel, optimizer=None)
    model = GaussianProcessDensity(estimator=inner).fit(x, y)
    Z = (x - x.mean(axis=0)) / x.std(axis=0)
    alone = GaussianProcessRegressor(kernel, optimizer=None)
    mean, std = alone.fit(Z, (y - y.mean()) / y.std()).predict(Z, return_std=True)
    expected = stats.norm(mean * y.std() + y.mean(), std * y.std()).logpdf(y)
    np.testing.assert_allclose(model.score_samples(x, y), expected, rtol=1e-10)


def test_several_columns_of_y_are_refused(rows):
    x, y = rows
    with pytest.raises(ValueError, match="one column for GaussianProcessDensity"):
        GaussianProcessDensity().fit(x, np.column_stack([y, y]))


def test_weights_of_rows_are_those_of_loops():
    rng = np.random.default_rng(0)
    leaves, query = rng.integers(3, size=(12, 5)), rng.integers(3, size=(4, 5))
    counts = rng.integers(3, size=(12, 5))
    counts[:3] = 1  # so that no leaf is empty
    leaves[:3] = np.arange(3)[:, None]
    use = rng.random((4, 5)) < 0.6
    use[0] = False
    found = leaf_weights(query, leaves, counts, use)
    np.testing.assert_allclose(found[0], 1 / 12)
    for q in range(1, 4):
        expected = np.zeros(12)
        for t in range(5):
            if use[q, t]:
                share = [
                    counts[i, t] if leaves[i, t] == query[q, t] else 0
                    for i in range(12)
                ]
                expected += np.array(share) / sum(share) / use[q].sum()
        np.testing.assert_allclose(found[q], expected)


@pytest.mark.parametrize(
    ("model", "module"),
    [
        (NGBoostDensity(n_estimators=5), "ngboost"),
        (QuantileForestDensity(), "quantile_forest"),
    ],
)
def test_a_missing_library_is_named(rows, model, module, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingDependencyError, match=r"kexpfam\[rivals\]"):
        model.fit(*rows)


def test_boosting_stops_where_held_out_rows_are_predicted_best(rows):
    pytest.importorskip("ngboost")
    model = NGBoostDensity(random_state=0, learning_rate=0.1).fit(*rows)
    assert 1 <= model.n_estimators_ < 500
    assert model.estimator_.n_estimators == model.n_estimators_


def test_a_forest_has_the_width_with_the_best_out_of_bag_likelihood(rows):
    pytest.importorskip("quantile_forest")
    x, y = rows
    model = QuantileForestDensity(n_estimators=50, random_state=0).fit(x, y)
    u = (y - y.mean()) / y.std()
    weights = leaf_weights(
        model.leaves_, model.leaves_, model.counts_, model.counts_ == 0
    )

    def out_of_bag(width):
        p = weights @ stats.norm.pdf(u[None, :], u[:, None], width)
        return np.maximum(np.log(np.diag(p)), -20).mean()

    twins = y[:, None] == y
    assert np.array_equal(twins, np.eye(80, dtype=bool))  # no row has another
    weights[np.arange(80), np.arange(80)] = 0.0
    weights /= weights.sum(axis=1, keepdims=True)
    best = out_of_bag(model.width_)
    assert best >= max(out_of_bag(model.width_ * f) for f in (0.5, 2.0))


def test_ties_and_twins_do_not_make_spikes_of_a_forest(rows):
    pytest.importorskip("quantile_forest")
    x, y = rows
    small = {"n_estimators": 50, "random_state": 0}
    rounded = QuantileForestDensity(**small).fit(x, np.round(y))
    assert rounded.width_ * np.round(y).std() >= np.sqrt(1 / 12) - 1e-9
    once = QuantileForestDensity(**small).fit(x, y)
    twice = QuantileForestDensity(**small).fit(np.tile(x, (2, 1)), np.tile(y, 2))
    assert twice.width_ > 0.3 * once.width_


def test_boosting_needs_rows_to_stop_by(rows):
    pytest.importorskip("ngboost")
    with pytest.raises(ValueError, match="too few to hold some out"):
        NGBoostDensity().fit(rows[0][:5], rows[1][:5])


def test_warnings_about_a_kernel_of_ones_own_are_not_hidden(rows):
    kernel = 1.0 * RBF(1.0, (0.9, 1.1)) + WhiteKernel(0.2)
    inner = GaussianProcessRegressor(kernel)
    with pytest.warns(ConvergenceWarning, match="close to the specified"):
        GaussianProcessDensity(estimator=inner).fit(*rows)


def test_regressors_without_a_seed_are_taken(rows):
    model = GaussianProcessDensity(estimator=BayesianRidge()).fit(*rows)
    assert np.all(np.isfinite(model.score_samples(*rows)))
