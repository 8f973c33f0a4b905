"""AutoKCEF of several columns of y: the chain rule, one object, one file."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from kexpfam import KCEF, AutoKCEF, load
from kexpfam.data import ArraySource
from kexpfam.errors import CannotSaveError, FileFormatError
from kexpfam.selection.spec import default_coordinates
from tests.persistence.files import parts_of, write


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    x, e = rng.normal(size=(2, 25)), 0.3 * rng.normal(size=(2, 25))
    a = x[0] + e[0]
    return pd.DataFrame({"u": x[0], "v": x[1], "a": a, "b": a - x[1] + e[1]})


@pytest.fixture(autouse=True, scope="module")
def few_coordinates():
    """Plain ones: these tests are about columns of y."""
    kept = [spec for spec in default_coordinates() if spec.name == "normal"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(AutoKCEF, "_coordinates", staticmethod(lambda: kept))
        yield


@pytest.fixture(scope="module")
def model(frame):
    return _untried().fit(frame, ["a", "b"])


def _untried(**parameters):
    return AutoKCEF(likelihood=False, random_state=0, n_jobs=1, **parameters)


def test_it_is_the_product_of_averages_of_one_column(model, frame):
    X, Y = frame[["u", "v"]].to_numpy(), frame[["a", "b"]].to_numpy()
    seeds = [own.random_state for own in model.columns_]
    first = _untried().set_params(random_state=seeds[0]).fit(X, Y[:, 0])
    second = _untried().set_params(random_state=seeds[1])
    second.fit(np.column_stack([X, Y[:, 0]]), Y[:, 1])
    expected = first.score_samples(X, Y[:, 0])
    expected += second.score_samples(np.column_stack([X, Y[:, 0]]), Y[:, 1])
    found = model.score_samples(frame[["u", "v"]], frame[["a", "b"]])
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    p = model.given(frame[["u", "v"]])
    np.testing.assert_allclose(p.logpdf(Y), expected, rtol=1e-9)


def test_every_method_of_several_columns(model, frame):
    X = frame[["u", "v"]][:3]
    assert model.predict(X).shape == (3, 2)
    assert model.sample(X, 5, random_state=0).shape == (3, 5, 2)
    assert model.reliability(X).shape == (3,)
    p = model.given(X)
    assert p.cov().shape == (3, 2, 2)
    assert p.marginal("b").interval(0.9).shape == (3, 2)
    np.testing.assert_array_equal(p.marginal(1).median(), p.marginal("b").median())
    draws = p[0].rvs(1000, random_state=0)
    np.testing.assert_allclose(p[0].mean(), draws.mean(axis=0), atol=0.15)
    with pytest.raises(ValueError, match="one column of y, and this model has 2"):
        model.predict_quantiles(X, [0.5])


def test_what_is_learned_is_there_for_each_column(model):
    assert len(model.members_) == len(model.best_) == len(model.columns_) == 2
    assert all(isinstance(best, KCEF) for best in model.best_)
    text = repr(model.members_)
    assert "y 'a', given x\n" in text
    assert "y 'b', given x and 'a'\n" in text
    assert model.n_candidates_ == sum(own.n_candidates_ for own in model.columns_)


def test_names_of_frames_hold(model, frame):
    assert list(model.feature_names_in_) == ["u", "v"]
    turned = model.given(frame[["v", "u"]][:3]).mean()
    np.testing.assert_array_equal(turned, model.given(frame[["u", "v"]][:3]).mean())
    with pytest.raises(ValueError, match="feature names"):
        model.given(frame[["v"]])


def test_one_column_again_forgets_the_others(model, frame):
    own = _untried().fit(frame[["u"]].to_numpy(), frame[["a", "b"]].to_numpy())
    assert own.given([[0.0]]).names == (0, 1)
    own.fit(frame[["u"]], frame["a"])
    assert own.columns_ is None
    assert own.predict_quantiles(frame[["u"]][:2], [0.5]).shape == (2, 1)


@pytest.mark.slow
def test_weights_count_rows(frame):
    X, Y = frame[["u"]].to_numpy(), frame[["a", "b"]].to_numpy()
    weights = np.where(np.arange(len(X)) < 10, 2.0, 1.0)
    weighted = _untried().fit(X, Y, sample_weight=weights)
    repeated = _untried().fit(np.vstack([X, X[:10]]), np.vstack([Y, Y[:10]]))
    np.testing.assert_allclose(
        weighted.score_samples(X, Y), repeated.score_samples(X, Y), rtol=1e-6
    )


def test_a_loaded_model_answers_as_before(model, frame, tmp_path):
    model.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    X, Y = frame[["u", "v"]], frame[["a", "b"]]
    np.testing.assert_array_equal(loaded.score_samples(X, Y), model.score_samples(X, Y))
    draws = [m.sample(X[:2], 2, random_state=0) for m in (loaded, model)]
    np.testing.assert_array_equal(*draws)
    assert loaded.given(X).names == ("a", "b")
    assert list(loaded.feature_names_in_) == ["u", "v"]


def test_columns_that_do_not_follow_each_other_are_refused(model, tmp_path):
    model.save(tmp_path / "model")
    arrays, description = parts_of(tmp_path / "model")

    def spoil(part):
        if isinstance(part, dict):
            for key, value in part.items():
                if key == "columns" and isinstance(value, list):
                    part[key] = value[::-1]
                spoil(value)
        elif isinstance(part, list):
            for value in part:
                spoil(value)

    before = repr(description)
    spoil(description)
    assert repr(description) != before
    write(tmp_path / "model", arrays, description)
    with pytest.raises(FileFormatError):
        load(tmp_path / "model")


def test_an_expert_of_the_users_cannot_be_saved(frame, tmp_path):
    own = _untried(experts=[KCEF(select=None)]).fit(frame[["u"]], frame[["a", "b"]])
    with pytest.raises(CannotSaveError):
        own.save(tmp_path / "model")


def test_errors_and_warnings_name_the_column(frame):
    Y = np.column_stack([frame["a"], np.ones(len(frame))])
    with pytest.raises(ValueError, match="constant") as caught:
        _untried().fit(frame[["u"]], Y)
    assert caught.value.__notes__ == ["This happened in column 1 of y."]


def test_rows_that_are_read_block_by_block_have_one_column(frame):
    source = ArraySource(
        frame[["u"]].to_numpy(), frame[["a", "b"]].to_numpy(), np.ones(len(frame))
    )
    model = _untried()
    model._limits = replace(model._limits, design_rows=len(frame) // 2)
    with pytest.raises(ValueError, match="one column of y from rows that are read"):
        model.fit(source)
