"""Numbers of p(y|x) as a frame of the kind that came in."""

import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest

from kexpfam import KCEF, AutoKCEF, metrics
from kexpfam.baselines import ConditionalKDE
from kexpfam.data import observed_beside
from kexpfam.distributions import BLOCK_ROWS
from kexpfam.errors import MissingDependencyError
from kexpfam.estimators.frames import as_frame

NEW = np.array([[-0.5, 0.2], [0.0, 0.0], [0.8, -0.3]])


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, size=(60, 2))
    y = 20 + 3 * x[:, 0] + rng.normal(size=60)
    return KCEF(select=None).fit(pd.DataFrame(x, columns=["a", "b"]), y)


@pytest.fixture(scope="module")
def plain():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, size=(60, 2))
    return ConditionalKDE(widths_x=0.5, widths_y=0.5).fit(x, 20 + 3 * x[:, 0])


def test_columns_are_what_the_densities_say(model):
    X = pd.DataFrame(NEW, columns=["a", "b"], index=["u", "v", "w"])
    found = model.predict_frame(X, (0.05, 0.5), interval=0.8, above=[20, 22.5])
    p = model.given(X)
    expected = {
        "mean": p.mean(),
        "std": p.std(),
        "q0.05": p.ppf(0.05),
        "q0.5": p.ppf(0.5),
        "low": p.interval(0.8)[:, 0],
        "high": p.interval(0.8)[:, 1],
        "P(y>20)": p.sf(20.0),
        "P(y>22.5)": p.sf(22.5),
    }
    assert list(found.columns) == list(expected)
    assert list(found.index) == ["u", "v", "w"]
    np.testing.assert_allclose(found, np.column_stack(list(expected.values())))


def test_the_kind_of_frame_is_that_which_came_in(model, plain):
    names = ["mean", "std", "q0.05", "q0.5", "q0.95"]
    out = model.predict_frame(pl.DataFrame(NEW, schema=["a", "b"]))
    assert isinstance(out, pl.DataFrame)
    assert out.columns == names
    out = plain.predict_frame(NEW)
    assert isinstance(out, pd.DataFrame)
    assert list(out.columns) == names
    assert list(out.index) == [0, 1, 2]


def test_an_index_of_several_levels_and_no_order_is_kept(model):
    index = pd.MultiIndex.from_tuples([("b", 2), ("a", 1), ("a", 1)])
    X = pd.DataFrame(NEW, columns=["a", "b"], index=index)
    assert model.predict_frame(X).index.equals(index)


def test_blocks_are_put_together_in_order(plain):
    X = np.random.default_rng(1).uniform(-1, 1, size=(BLOCK_ROWS + 5, 2))
    found = plain.predict_frame(X, None, above=20.0)
    assert list(found.columns) == ["mean", "std", "P(y>20)"]
    last = plain.given(X[-5:])
    np.testing.assert_allclose(found["P(y>20)"][-5:], last.sf(20.0))


def test_numbers_are_named_with_their_digits_and_once(plain):
    found = plain.predict_frame(NEW, [0.1, 0.1, 1 / 3], above=[-0.25, 1234567.5])
    assert list(found.columns) == [
        *("mean", "std", "q0.1", "q0.333333333333333"),
        *("P(y>-0.25)", "P(y>1234567.5)"),
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"quantiles": [0.5, 1.5]}, "quantiles must lie between 0 and 1, got 1.5"),
        ({"quantiles": [[0.5]]}, "quantiles must be a number or a flat list"),
        ({"interval": 2.0}, "interval must lie between 0 and 1"),
        ({"above": [[1.0]]}, "above must be a number or a flat list"),
        ({"above": np.nan}, "above must be a number or a flat list, without NaN"),
        ({"above": "a"}, "above must be a number"),
    ],
)
def test_wrong_arguments_are_refused(plain, arguments, message):
    with pytest.raises(ValueError, match=message):
        plain.predict_frame(NEW, **arguments)


def test_several_columns_of_y_have_the_numbers_of_their_draws():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(40, 2)), rng.normal(size=(40, 2))
    model = KCEF(select=None).fit(x, y)
    found = model.predict_frame(x[:3], 0.25, interval=0.8, above=0.5)
    own = ["mean", "std", "q0.25", "low", "high"]
    assert list(found.columns) == [
        *(f"y0 {what}" for what in own),
        "P(y0>0.5)",
        *(f"y1 {what}" for what in own),
        "P(y1>0.5)",
    ]
    p = model.given(x[:3])
    draws = p.rvs(20_000, random_state=1)[..., 1]
    np.testing.assert_allclose(found["y1 mean"], p.mean()[:, 1])
    quantiles = np.quantile(draws, [0.25, 0.1, 0.9], axis=1).T
    near = found[["y1 q0.25", "y1 low", "y1 high"]]
    np.testing.assert_allclose(near, quantiles, atol=0.1)  # of 4,000 draws
    np.testing.assert_allclose(
        found["P(y1>0.5)"], np.mean(draws > 0.5, axis=1), atol=0.03
    )


def test_several_columns_of_an_average_have_the_numbers_of_their_marginals():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, size=(40, 1))
    y = pd.DataFrame(x + rng.normal(size=(40, 2)), columns=["price", "area"])
    model = AutoKCEF(experts=["families"], likelihood=False, random_state=0).fit(x, y)
    found = model.predict_frame(x[:2], [0.1, 0.9], above=1.0)
    p = model.given(x[:2])
    for name in ("price", "area"):
        own, marginal = found.filter(regex=name), p.marginal(name)
        assert list(own.columns) == [
            *(f"{name} {what}" for what in ("mean", "std", "q0.1", "q0.9")),
            f"P({name}>1)",
        ]
        expected = [marginal.mean(), marginal.std(), *marginal.quantile([0.1, 0.9]).T]
        expected.append(marginal.sf(1.0))
        np.testing.assert_allclose(own, np.column_stack(expected), rtol=1e-6)


def test_without_pandas_polars_frames_work_and_arrays_have_an_error(model, monkeypatch):
    frame = pl.DataFrame(NEW, schema=["a", "b"])
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert model.predict_frame(frame).height == 3
    with pytest.raises(MissingDependencyError, match="pandas is needed to make"):
        as_frame(["a"], NEW[:, :1], NEW)


def test_an_average_has_one_too():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, size=(40, 1))
    average = AutoKCEF(likelihood=False, random_state=0).fit(x, x[:, 0] + 1.0)
    assert average.predict_frame(x[:2]).shape == (2, 5)


def test_several_intervals_have_names_of_their_own(model):
    X = pd.DataFrame(NEW, columns=["a", "b"])
    found = model.predict_frame(X, None, interval=[0.5, 0.8])
    names = ["mean", "std", "low0.5", "high0.5", "low0.8", "high0.8"]
    assert list(found) == names
    for confidence in (0.5, 0.8):
        ends = found[[f"low{confidence}", f"high{confidence}"]]
        np.testing.assert_allclose(ends, model.predict_interval(X, confidence))
    with pytest.raises(ValueError, match="interval must lie between 0 and 1"):
        model.predict_frame(X, None, interval=[0.5, 1.5])


def test_what_was_observed_may_be_a_column_of_the_frame(model):
    y = 20 + 3 * NEW[:, 0]
    plain = pd.DataFrame(NEW, columns=["a", "b"])
    X = plain.assign(y=y)
    for frame in (X, pl.from_pandas(X)):
        assert model.score(frame, "y") == model.score(plain, y)
        found = metrics.evaluate(model, frame, "y")
        assert found.crps == metrics.evaluate(model, plain, y).crps
        result = metrics.compare({"a": model, "b": model}, frame, "y")
        assert result.difference("b").value == 0.0
    assert model.plot(X, "y", along="a") is not None
    several = KCEF(select=None).fit(plain, np.column_stack([y, y**2]))
    named = X.assign(z=y**2)
    assert (
        observed_beside(named, ["y", "z"]).tolist() == named[["y", "z"]].values.tolist()
    )
    assert np.isfinite(several.score(plain, named[["y", "z"]]))
    with pytest.raises(ValueError, match="no column 'w'"):
        model.score(X, "w")
    with pytest.raises(ValueError, match="X is no frame"):
        model.score(NEW, "y")
    with pytest.raises(ValueError, match="X is no frame"):
        KCEF(select=None).fit(NEW, "y")
