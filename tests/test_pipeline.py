"""Pipelines answer like their last step, with X transformed on the way."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import StandardScaler

from kexpfam import KCEF
from kexpfam.pipeline import DensityPipeline, make_pipeline
from kexpfam.tables import TableCoder

rng = np.random.default_rng(0)
X = 3.0 + 2.0 * rng.normal(size=(40, 2))
Y = X[:, 0] + rng.normal(size=40)


@pytest.fixture(scope="module")
def fitted():
    return make_pipeline(StandardScaler(), KCEF(select=None)).fit(X, Y)


def test_answers_are_those_of_the_last_step_at_transformed_conditions(fitted):
    scaler, model = StandardScaler().fit(X), KCEF(select=None)
    Z = scaler.transform(X)
    model.fit(Z, Y)
    np.testing.assert_array_equal(fitted.given(X).mean(), model.given(Z).mean())
    np.testing.assert_array_equal(fitted.score_samples(X, Y), model.score_samples(Z, Y))
    np.testing.assert_array_equal(
        fitted.predict_quantiles(X, [0.1, 0.9]), model.predict_quantiles(Z, [0.1, 0.9])
    )
    np.testing.assert_array_equal(
        fitted.predict_interval(X, 0.8), model.predict_interval(Z, 0.8)
    )
    drawn = fitted.sample(X, 3, random_state=0)
    np.testing.assert_array_equal(drawn, model.sample(Z, 3, random_state=0))
    assert fitted.score(X, Y) == model.score(Z, Y)
    np.testing.assert_array_equal(fitted.predict(X), model.predict(Z))


def test_it_is_a_pipeline_of_scikit_learn(fitted):
    assert isinstance(clone(fitted), DensityPipeline)
    with pytest.raises(NotFittedError):
        clone(fitted).given(X)
    grid = {"kcef__regularization": [1e-3, 1e-1]}
    search = GridSearchCV(clone(fitted), grid, cv=2).fit(X, Y)
    assert search.best_estimator_.given(X[:2]).mean().shape == (2,)


def test_tables_may_be_coded_on_the_way():
    frame = pd.DataFrame({"size": X[:, 0], "city": np.resize(["Rome", "Oslo"], 40)})
    model = make_pipeline(TableCoder(), KCEF(select=None)).fit(frame, Y)
    assert model.given(frame[:3]).interval(0.9).shape == (3, 2)


def test_pipelines_explain_the_columns_that_go_in(fitted):
    found = fitted.importance(X, Y, n_repeats=2, random_state=0)
    assert found.names[0] == "x0"
    effect = fitted.effect(0, X, bins=4, random_state=0)
    assert effect.places.min() == X[:, 0].min()  # in units of X, not of the scaler
    values = fitted.explain(X[0], of=0.9, background=X)
    total = values.prediction - values.average
    assert values.values.sum() == pytest.approx(total)
    with pytest.raises(ValueError, match="background must be given"):
        fitted.explain(X[0])


def test_pipelines_of_frames_are_explained_by_name():
    frame = pd.DataFrame(X, columns=["a", "b"])
    model = make_pipeline(StandardScaler(), KCEF(select=None)).fit(frame, Y)
    assert model.importance(frame, Y, n_repeats=1, random_state=0).names[0] == "a"
    frame["b"] = "text"
    with pytest.raises(ValueError, match="TableCoder its first step"):
        model.effect("a", frame)


def test_a_coder_as_the_first_step_has_the_columns_of_the_table():
    city = np.where(X[:, 1] > 3, "Rome", "Oslo")
    frame = pd.DataFrame({"size": X[:, 0], "city": city})
    steps = TableCoder(), StandardScaler(), KCEF(select=None)
    model = make_pipeline(*steps).fit(frame, Y)
    found = model.importance(frame, Y, n_repeats=2, random_state=0)
    assert found.names == ("size", "city")
    assert sorted(model.effect("city", frame).places) == ["Oslo", "Rome"]
    row = model.explain(frame.iloc[[0]], background=frame)
    assert row.row[1] == city[0]
    assert row.prediction == pytest.approx(model.predict(frame[:1])[0])
