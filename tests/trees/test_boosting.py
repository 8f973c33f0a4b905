"""Boosted trees: converted exactly, cross-fitted honestly, and stopped in time."""

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor

from kexpfam._parallel import single_threaded_openmp
from kexpfam.trees import TreeSpec, fit_boosting
from kexpfam.trees.boosting import as_forest
from tests.tolerances import assert_close
from tests.trees.cases import rows, walk


@pytest.fixture(autouse=True)
def _one_thread():
    """scikit-learn's own threads wait for each other where cores are busy."""
    with single_threaded_openmp():
        yield


def model_of(X, y, weights, **options):
    options = {"max_iter": 30, "max_leaf_nodes": 8, "random_state": 0, **options}
    return HistGradientBoostingRegressor(**options).fit(X, y, weights)


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_predictions_are_those_of_scikit_learn(missing):
    X, Y, weights = rows(500, k=1, missing=missing)
    model = model_of(X, Y[:, 0], weights)
    forest, gains = as_forest(model, X)
    # Far from the training rows, too, and where values are missing.
    queries = 3 * rows(500, seed=1, missing=0.2)[0]
    assert_close(forest.predict(queries)[:, 0], model.predict(queries), 1e-12)
    assert_close(
        forest.predict(queries[:9])[:, 0], [walk(forest, x)[0] for x in queries[:9]]
    )
    assert gains.argmax() == 0


def test_a_split_between_missing_and_known_values_is_followed():
    X = np.where(np.arange(200) % 3 == 0, np.nan, 1.0)[:, None]
    y = np.isnan(X[:, 0]) * 2.0
    model = model_of(X, y, np.ones(200), learning_rate=1.0)
    forest, _ = as_forest(model, X)
    assert np.isinf(forest.threshold).any()
    assert_close(forest.predict(X)[:, 0], y, 1e-9)


@pytest.mark.parametrize("spoil", ["value", "num_threshold", "left"])
def test_trees_that_scikit_learn_keeps_in_another_way_are_refused(spoil):
    X, Y, weights = rows(300, k=1)
    model = model_of(X, Y[:, 0], weights)
    nodes = model._predictors[0][0].nodes
    if spoil == "left":
        nodes = nodes[[name for name in nodes.dtype.names if name != "left"]]
    else:
        nodes = nodes.copy()
        nodes[spoil] += 1.0
    kept = model._predictors

    class Other:
        """A predictor that shows other nodes than it uses."""

        def __init__(self):
            self.nodes = nodes

        def predict(self, *given):
            return kept[0][0].predict(*given)

    model._predictors = [[Other()], *kept[1:]]
    with pytest.raises(RuntimeError, match="cannot read the trees of HistGradient"):
        as_forest(model, X)


def test_the_first_trees_predict_what_fewer_rounds_predict():
    X, Y, weights = rows(300, k=1)
    forest, _ = as_forest(model_of(X, Y[:, 0], weights), X)
    for count in (1, 12, 30):
        fewer = forest.first(count)
        fewer.check_saved()
        rounds = model_of(X, Y[:, 0], weights, max_iter=count)
        assert_close(fewer.predict(X[:50])[:, 0], rounds.predict(X[:50]), 1e-12)
    nothing = forest.first(0)
    nothing.check_saved()
    assert_close(nothing.predict(X[:50])[:, 0], np.full(50, forest.offset[0]))


def test_boosting_is_the_same_for_any_number_of_threads():
    X, Y, weights = rows(200, k=1)
    one, other = (
        fit_boosting(X, Y, weights, np.random.default_rng(1), rounds=12, n_jobs=jobs)
        for jobs in (1, 3)
    )
    assert np.array_equal(one.held_out, other.held_out)
    assert np.array_equal(one.importances, other.importances)
    assert np.array_equal(one.forest.predict(X), other.forest.predict(X))


@pytest.mark.parametrize("n", [60, 600])
def test_held_out_predictions_of_noise_explain_nothing(n):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(n, 3)), rng.normal(size=n)
    fit = fit_boosting(X, y, np.ones(n), rng, rounds=60)
    # One number of rounds for all rows is chosen by their errors: a little is gained.
    assert np.var(y - fit.held_out[:, 0]) > 0.98 * np.var(y)
    assert fit.forest.n_trees < 60


def test_what_there_is_to_learn_is_learned_held_out():
    X, Y, _ = rows(600, k=1)
    fit = fit_boosting(X, Y[:, 0], np.ones(600), np.random.default_rng(0))
    assert np.var(Y - fit.held_out) < 0.4 * np.var(Y)
    assert 20 < fit.forest.n_trees < 400
    assert fit.importances.argmax() == 0
    assert fit.importances.sum() == pytest.approx(1.0)


def test_a_row_does_not_change_its_own_prediction():
    X, Y, weights = rows(300, k=1)
    spoiled = Y.copy()
    spoiled[7] += 2.0
    fits = [
        fit_boosting(X, y, weights, np.random.default_rng(0), rounds=20)
        for y in (Y, spoiled)
    ]
    assert fits[0].forest.n_trees == fits[1].forest.n_trees == 20
    assert fits[0].held_out[7] == pytest.approx(fits[1].held_out[7], abs=1e-6)
    assert not np.allclose(fits[0].held_out, fits[1].held_out)


def test_boosting_ends_when_further_rounds_bring_nothing():
    X, Y, _ = rows(200, k=1)
    short, long, cut = (
        fit_boosting(X, Y, np.ones(200), np.random.default_rng(0), rounds=n, spec=spec)
        for n, spec in (
            (200, TreeSpec(patience=10)),
            (200, TreeSpec(patience=200)),
            (12, TreeSpec(patience=5)),
        )
    )
    assert 12 < short.forest.n_trees <= long.forest.n_trees < 200
    assert cut.forest.n_trees == 12  # better rounds would have followed
    # Rounds that are run in several parts are the same rounds.
    assert_close(long.forest.first(12).predict(X), cut.forest.predict(X), 1e-12)


def test_rows_without_weight_change_nothing():
    X, Y, weights = rows(200, k=1)
    weights = np.where(np.arange(200) < 150, weights, 0.0)
    spoiled = np.where(weights[:, None] > 0, Y, 0.1)
    fits = [
        fit_boosting(X, y, weights, np.random.default_rng(0), rounds=20)
        for y in (Y, spoiled)
    ]
    assert_close(fits[0].held_out, fits[1].held_out, 1e-6)
    few = np.zeros(200)
    few[:2] = 1.0  # each fold has one of them
    fit = fit_boosting(X, Y, few, np.random.default_rng(0), rounds=5)
    assert np.isfinite(fit.held_out).all()


@pytest.mark.parametrize("unit", [1e-30, 1e30])
def test_the_unit_of_y_does_not_matter(unit):
    X, Y, weights = rows(200, k=1)
    unit = 2.0 ** np.round(np.log2(unit))
    fits = [
        fit_boosting(X, y, weights, np.random.default_rng(0), rounds=20)
        for y in (Y, unit * Y)
    ]
    assert_close(fits[1].held_out, unit * fits[0].held_out)
    assert_close(fits[1].forest.predict(X), unit * fits[0].forest.predict(X))


@pytest.mark.parametrize("n", [3, 20])
def test_few_rows_and_a_constant_y_give_the_mean(n):
    X, Y, weights = rows(n, p=1, k=1)
    fit = fit_boosting(X, Y, weights, np.random.default_rng(0), rounds=10)
    assert_close(
        fit.forest.predict(X), np.full((n, 1), np.average(Y[:, 0], weights=weights))
    )
    constant = fit_boosting(X, 0 * Y + 5, weights, np.random.default_rng(0), rounds=10)
    assert_close(constant.held_out, np.full((n, 1), 5.0))
    assert np.array_equal(constant.importances, [0.0])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"X": np.empty((300, 0))}, "X has no columns"),
        ({"folds": 1}, "folds must be a whole number from 2 on, got 1"),
    ],
)
def test_what_cannot_be_boosted_is_refused(change, words):
    X, Y, weights = rows(k=1)
    given = {"X": X, "y": Y[:, 0], "weights": weights, **change}
    with pytest.raises(ValueError, match=words):
        fit_boosting(rng=np.random.default_rng(0), **given)
