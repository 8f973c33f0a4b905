"""Trees see gaps as gaps, and categories along their means."""

import numpy as np
import pandas as pd
import pytest

from kexpfam import KCEF, AutoKCEF, load
from kexpfam.summaries import ColumnKinds, LearnedSummary, fold_of_rows
from kexpfam.summaries.learners import ForestLearner, ViewedLearner
from kexpfam.summaries.views import TreeView
from kexpfam.tables import Coding
from tests.oracles.target_means import held_out_codes_slow, shrunk_means_slow


def rows(n=200, seed=0):
    """A column with gaps beside what says where, and four categories as columns."""
    rng = np.random.default_rng(seed)
    gap, group = rng.random(n) < 0.3, rng.integers(0, 4, n)
    x = np.where(gap, 0.0, rng.normal(size=n))
    X = np.column_stack([x, gap, np.eye(4)[group]])
    y = np.where(gap, 2.0, x) + np.array([0.0, 3.0, 0.5, 2.0])[group]
    return X, y[:, None] + 0.1 * rng.normal(size=(n, 1)), gap, group


KINDS = ColumnKinds(gaps=((0, 1),), groups=((2, 3, 4, 5),))


@pytest.mark.parametrize("units", [(0.0, 1.0), (-3.0, 0.25)])
def test_gaps_are_nan_and_means_are_those_by_hand_in_any_units(units):
    X, Y, gap, group = rows()
    Z = units[0] + units[1] * X
    weights = np.random.default_rng(1).uniform(0.5, 2.0, len(X))
    view, seen = TreeView.fit(KINDS, Z, Y, weights)
    np.testing.assert_array_equal(seen[:, :6], Z)
    np.testing.assert_array_equal(seen[:, 6], np.where(gap, np.nan, Z[:, 0]))
    expected = held_out_codes_slow(group, 5, Y[:, 0], weights, fold_of_rows(len(X)))
    np.testing.assert_allclose(seen[:, 7], expected)
    means = shrunk_means_slow(group, 5, Y[:, 0], weights)
    np.testing.assert_allclose(view.at(Z)[:, 7], means[group])
    nobody = np.full((1, 6), units[0])  # of no category: the mean of all rows
    np.testing.assert_allclose(view.at(nobody)[0, 7], means[4])


def test_several_responses_have_no_means_and_columns_that_do_not_vary_no_gaps():
    X, Y, *_ = rows()
    _, seen = TreeView.fit(KINDS, X, np.hstack([Y, Y]), np.ones(len(X)))
    assert seen.shape == (len(X), 7)
    X[:, 1] = 0.0
    _, seen = TreeView.fit(KINDS, X, Y, np.ones(len(X)))
    assert not np.isnan(seen).any()


def test_trees_that_see_gaps_predict_better_where_gaps_tell_something():
    errors = []
    for seed in range(3):
        X, Y, *_ = rows(400, seed)
        new, truth, *_ = rows(400, seed=seed + 10)
        learner = ForestLearner("random", trees=40, max_features=0.5)
        viewed = ViewedLearner(learner, ColumnKinds(gaps=KINDS.gaps))
        for one in (learner, viewed):
            found = one.cross_fit(X, Y, np.ones(len(X)), np.random.default_rng(0))
            errors.append(np.mean((found.model.predict(new) - truth) ** 2))
    assert np.mean(errors[1::2]) < np.mean(errors[::2])


def frame(n=420, seed=0):
    rng = np.random.default_rng(seed)
    size = rng.normal(size=n)
    city = rng.choice(list("ABCDE"), n)
    y = size + (city == "C") * 2.0 + 0.2 * rng.normal(size=n)
    gone = (size > 0) & (rng.random(n) < 0.6)
    return pd.DataFrame({"size": np.where(gone, np.nan, size), "city": city}), y


def test_a_coding_says_which_columns_are_gaps_and_categories():
    X, _ = frame()
    coding = Coding.learn(X)
    assert coding.columns[:3] == ["size", "size is missing", "city=A"]
    assert coding.kinds == ColumnKinds(((0, 1),), ((2, 3, 4, 5, 6),))
    assert Coding.learn({"x": [1.0, 2.0]}).kinds is None


def test_a_model_of_a_frame_has_trees_that_see_it_and_so_has_its_file(tmp_path):
    X, y = frame()
    model = KCEF(features=LearnedSummary("extra_trees"), select=None, random_state=0)
    model.fit(X, y)
    summary = model._fitted.family.coordinates.location_scale
    model.save(tmp_path / "a.kexpfam")
    new, truth = frame(50, seed=1)
    found = model.score_samples(new, truth)
    np.testing.assert_array_equal(
        load(tmp_path / "a.kexpfam").score_samples(new, truth), found
    )
    plain = KCEF(features=LearnedSummary("extra_trees"), select=None, random_state=0)
    coded = model.coder_.transform(X)
    plain.fit(coded, y)
    assert summary is not None
    other = plain.score_samples(model.coder_.transform(new), truth)
    assert not np.allclose(found, other)


def test_an_average_of_frames_has_the_view_too():
    X, y = frame()
    model = AutoKCEF(random_state=0).fit(X, y)
    coded = AutoKCEF(random_state=0).fit(model.coder_.transform(X), y)
    new, truth = frame(400, seed=1)
    codes = model.coder_.transform(new)
    assert model.score(new, truth) > coded.score(codes, truth) - 0.02
    assert model.score(new, truth) != coded.score(codes, truth)
