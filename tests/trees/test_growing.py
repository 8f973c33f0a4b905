"""Forests: what is grown is what scikit-learn grows, and held-out rows are unseen."""

import numpy as np
import pytest
from sklearn.ensemble import ExtraTreesRegressor, RandomForestRegressor

from kexpfam.trees import fit_forest
from kexpfam.trees.forest import forest_of
from kexpfam.trees.growing import as_tree
from tests.tolerances import assert_close
from tests.trees.cases import rows, walk

# Values of leaves are rounded to single precision.
SINGLE = 2.0**-24


def converted(model, dtype):
    parts = [as_tree(tree, dtype) for tree in model.estimators_]
    trees, values = zip(*parts, strict=True)
    p, k = model.n_features_in_, model.n_outputs_
    return forest_of(trees, values, np.zeros(k), p, 1 / len(trees))


@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("learner", [ExtraTreesRegressor, RandomForestRegressor])
def test_predictions_are_those_of_scikit_learn(learner, missing):
    X, Y, weights = rows(missing=missing)
    model = learner(20, max_features=0.7, random_state=0).fit(X, Y, weights)
    queries = rows(500, seed=1, missing=0.2)[0]
    expected = model.predict(queries)
    exact = converted(model, np.float64).predict(queries)
    assert_close(exact, expected, 1e-12)
    rounded = converted(model, np.float32).predict(queries)
    assert_close(rounded, expected, SINGLE, scale=np.abs(Y).max())


def test_thresholds_between_single_precision_numbers_send_rows_the_same_way():
    # Three units in the last place apart: thresholds are half-way, and not single.
    steps = np.float32(1) + np.arange(40) * np.float32(3 * 2.0**-23)
    X, Y = steps[:, None].astype(float), np.arange(40.0)[:, None]
    model = RandomForestRegressor(5, bootstrap=False).fit(X, Y[:, 0])
    # As does what is rounded to single precision before it is compared.
    queries = np.concatenate([X, X + 2.0**-25, X - 2.0**-26, [[1e300], [-1e300]]])
    forest = converted(model, np.float64)
    assert_close(forest.predict(queries[:-2])[:, 0], model.predict(queries[:-2]), 1e-12)
    assert_close(forest.predict(queries[-2:])[:, 0], [39.0, 0.0])


@pytest.mark.parametrize("kind", ["extra", "random"])
@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_predictions_are_a_plain_walk_down_each_tree(kind, missing):
    X, Y, weights = rows(80, missing=missing)
    rng = np.random.default_rng(0)
    forest = fit_forest(X, Y, weights, rng, kind=kind, trees=7, min_leaf=2).forest
    queries = rows(30, seed=1, missing=0.2)[0]
    for this in (forest, forest.compressed(1)):
        expected = [walk(this, x) for x in queries]
        assert_close(this.predict(queries), expected)


@pytest.mark.parametrize("compressed", [False, True])
def test_predictions_have_the_same_bits_whatever_is_beside_them(compressed):
    X, Y, weights = rows(200, k=3)
    forest = fit_forest(X, Y, weights, np.random.default_rng(0), trees=30).forest
    forest = forest.compressed(2) if compressed else forest
    queries = rows(40_000, seed=1)[0]
    whole = forest.predict(queries, n_jobs=1)
    assert np.array_equal(whole, forest.predict(queries, n_jobs=3))
    assert np.array_equal(whole[:7], forest.predict(queries[:7]))
    assert np.array_equal(whole[5:6], forest.predict(queries[5:6]))
    assert forest.predict(queries[:0]).shape == (0, 3)


@pytest.mark.parametrize("kind", ["extra", "random"])
def test_a_forest_is_the_same_for_any_number_of_threads(kind):
    X, Y, weights = rows()
    one, other = (
        fit_forest(
            X, Y, weights, np.random.default_rng(3), kind=kind, n_jobs=n, trees=9
        )
        for n in (1, 4)
    )
    assert np.array_equal(one.held_out, other.held_out)
    assert np.array_equal(one.importances, other.importances)
    assert np.array_equal(one.forest.predict(X), other.forest.predict(X))


def test_held_out_predictions_of_noise_explain_nothing():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(400, 3)), rng.normal(size=(400, 1))
    fit = fit_forest(X, y, np.ones(400), rng, trees=100)
    assert np.var(y - fit.forest.predict(X)) < 0.5 * np.var(y)  # these have seen it
    assert np.var(y - fit.held_out) > 0.98 * np.var(y)


def test_held_out_predictions_are_means_of_trees_that_have_not_seen_the_row():
    # Every row is alone: a tree that has seen it predicts it exactly.
    X = np.arange(50.0)[:, None]
    Y = (np.arange(50.0) % 2)[:, None]
    fit = fit_forest(X, Y, np.ones(50), np.random.default_rng(0), trees=200)
    # Neighbours are of the other kind, so that honest predictions are on their side.
    assert np.all((fit.held_out[1:-1] > 0.5) == (Y[1:-1] < 0.5))


def test_rows_that_every_tree_has_seen_get_the_mean_of_the_others():
    X, Y, weights = rows(30)
    fit = fit_forest(X, Y, weights, np.random.default_rng(0), trees=1)
    others = [
        np.average(np.delete(Y, i, 0), axis=0, weights=np.delete(weights, i))
        for i in range(30)
    ]
    seen = np.isclose(fit.held_out, others, rtol=1e-12).all(axis=1)
    assert 10 < seen.sum() < 25  # 1 − 1/e of them


def test_rows_without_weight_change_nothing_and_are_predicted():
    X, Y, weights = rows(120)
    weights = np.where(np.arange(120) < 60, weights, 0.0)
    spoiled = np.where(weights[:, None] > 0, Y, 1e6)
    fits = [
        fit_forest(X, y, weights, np.random.default_rng(0), trees=20)
        for y in (Y, spoiled)
    ]
    assert np.array_equal(*(fit.held_out for fit in fits))
    assert_close(fits[0].held_out[60:], fits[0].forest.predict(X[60:]))


def test_weights_multiply_rows():
    # Two kinds of rows with the same x: the leaf is their weighted mean.
    X, Y = np.zeros((40, 1)), np.repeat([[0.0], [1.0]], 20, axis=0)
    weights = np.repeat([3.0, 1.0], 20)
    fit = fit_forest(X, Y, weights, np.random.default_rng(0), trees=500)
    assert fit.forest.predict(X[:1])[0, 0] == pytest.approx(0.25, abs=0.02)
    same = fit_forest(X, Y, 1e-3 * weights, np.random.default_rng(0), trees=500)
    assert_close(same.held_out, fit.held_out, 1e-7)


@pytest.mark.parametrize("n", [2, 20])
@pytest.mark.parametrize("p", [1, 4])
def test_few_rows_and_constant_columns_are_enough(n, p):
    X, Y, weights = rows(n, p)
    X = np.column_stack([X, np.ones(n)])
    fit = fit_forest(X, Y, weights, np.random.default_rng(0), trees=10)
    assert np.isfinite(fit.held_out).all()
    assert fit.importances[-1] == 0.0
    constant = fit_forest(X, 0 * Y + 5, weights, np.random.default_rng(0), trees=10)
    assert_close(constant.forest.predict(X), np.full(Y.shape, 5.0))
    assert np.array_equal(constant.importances, np.zeros(p + 1))


def test_importances_find_the_column_that_matters():
    X, Y, weights = rows()
    fit = fit_forest(X, Y, weights, np.random.default_rng(0), trees=30, min_leaf=3)
    assert fit.importances.argmax() == 0
    assert fit.importances.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("unit", [1e-200, 1e-9, 1e9, 1e200])
@pytest.mark.parametrize("center", [0.0, 1e6])
def test_units_and_centre_of_y_do_not_matter(unit, center):
    X, Y, weights = rows(60)
    fits = [
        fit_forest(X, y, weights, np.random.default_rng(0), trees=10, min_leaf=3)
        for y in (Y, unit * (Y + center))
    ]
    expected = unit * (fits[0].held_out + center)
    assert_close(fits[1].held_out, expected, 1e-6, scale=unit * np.ptp(Y))


def test_fewer_rows_and_larger_leaves_make_smaller_forests():
    X, Y, weights = rows()
    sizes = [
        fit_forest(
            X, Y, weights, np.random.default_rng(0), trees=10, **less
        ).forest.nbytes
        for less in ({}, {"max_rows": 100}, {"min_leaf": 5})
    ]
    assert sizes[1] < sizes[0] / 2
    assert sizes[2] < sizes[0] / 2


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"X": np.empty((300, 0))}, "X has no columns"),
        ({"weights": np.eye(300)[0]}, "at least two rows with positive weight, got 1"),
        ({"kind": "oblique"}, "kind must be 'extra' or 'random', got 'oblique'"),
        ({"trees": 0}, "trees must be a whole number from 1 on, got 0"),
    ],
)
def test_what_cannot_be_grown_is_refused(change, words):
    X, Y, weights = rows()
    given = {"X": X, "Y": Y, "weights": weights, **change}
    with pytest.raises(ValueError, match=words):
        fit_forest(rng=np.random.default_rng(0), **given)


def test_other_columns_are_refused():
    X, Y, weights = rows()
    forest = fit_forest(X, Y, weights, np.random.default_rng(0), trees=2).forest
    with pytest.raises(ValueError, match=r"the 3 columns .* got shape \(300, 2\)"):
        forest.predict(X[:, :2])


def test_compressing_keeps_what_components_explain():
    X, _, weights = rows(200)
    factors = np.column_stack([np.sin(X[:, 0]), X[:, 1] ** 2])
    mixing = np.random.default_rng(1).normal(size=(2, 9))
    fit = fit_forest(
        X, factors @ mixing + 7, weights, np.random.default_rng(0), trees=20
    )
    two, one = fit.forest.compressed(2), fit.forest.compressed(1)
    whole = fit.forest.predict(X)
    assert_close(two.predict(X), whole, 1e-6)  # rank two, in single precision
    assert np.abs(one.predict(X) - whole).max() > 1e-2
    assert two.nbytes < 0.6 * fit.forest.nbytes
    # The first component is the direction in which leaves differ most.
    C = np.linalg.svd(
        fit.forest.values - fit.forest.values.mean(axis=0), full_matrices=False
    )[2]
    assert_close(np.abs(one.components @ C[0]), [1.0], 1e-5)
    # Held-out predictions lose what those of other rows lose.
    small = fit.compressed(1)
    lost = fit.held_out - small.held_out
    assert_close(lost @ small.forest.components.T, np.zeros((200, 1)), 1e-9, scale=1)
    assert_close(lost.mean(axis=0), np.zeros(9), 1e-9, scale=1)
    projector = small.forest.components.T @ small.forest.components
    mean = fit.held_out.mean(axis=0)
    expected = mean + (whole - mean) @ projector
    assert_close(small.forest.predict(X), expected, 1e-6)
    for wrong in (0, 9):
        with pytest.raises(ValueError, match=f"between 1 and 8, .* got {wrong}"):
            fit.forest.compressed(wrong)
    with pytest.raises(ValueError, match="not compressed yet"):
        two.compressed(1)


def test_components_of_predictions_keep_more_of_them_than_those_of_leaves():
    # Indicators of bins: leaves of one row are equally far from each other.
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(600, 1))
    y = X[:, 0] + 0.2 * rng.normal(size=600)
    Y = np.eye(10)[np.searchsorted(np.quantile(y, np.arange(1, 10) / 10), y)]
    fit = fit_forest(X, Y, np.ones(600), rng, trees=50)
    queries = rng.uniform(size=(300, 1))
    whole = fit.forest.predict(queries)
    by_leaves = fit.forest.compressed(4).predict(queries) - whole
    by_predictions = fit.compressed(4).forest.predict(queries) - whole
    assert np.mean(by_predictions**2) < 0.8 * np.mean(by_leaves**2)


@pytest.mark.parametrize("kind", ["extra", "random"])
def test_rows_are_predicted_by_trees_without_their_group(kind):
    X, Y, _ = rows(90, 2, 1)
    groups = np.arange(90) % 3
    own = groups == 1
    how = {"kind": kind, "trees": 9, "min_leaf": 2, "groups": groups}
    changed = Y.copy()
    changed[own] = Y[own][::-1]
    one, other = (
        fit_forest(X, some, np.ones(90), np.random.default_rng(0), **how).held_out
        for some in (Y, changed)
    )
    np.testing.assert_allclose(one[own], other[own], rtol=1e-6)
    assert np.mean(np.abs(one[~own] - other[~own]) > 0.01) > 0.5
