"""Joint densities of frames as they come: texts, dates and gaps among conditions."""

from datetime import datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest

from kexpfam import KCEF, KEF, FactorizedDensity, load
from kexpfam.errors import TableWarning
from kexpfam.graphs.columns import JointColumns
from kexpfam.tables import TableError

from .gaussians import LinearNormal

FAST = KCEF(select=None)


def table(n=120, seed=0):
    """A wage and a height that depend on a city and a day, both with gaps."""
    rng = np.random.default_rng(seed)
    city = rng.choice(["Oslo", "Rome", "Paris"], n)
    day = np.datetime64("2024-01-01") + rng.integers(0, 300, n)
    wage = (city == "Rome") * 5.0 + rng.normal(size=n)
    return pd.DataFrame(
        {
            "city": np.where(rng.random(n) < 0.1, None, city),
            "day": day,
            "wage": wage,
            "tall": rng.random(n) < 0.5,
            "height": wage + 0.3 * rng.normal(size=n),
        }
    )


@pytest.fixture(scope="module")
def model():
    exogenous = ["city", "day"]
    model = FactorizedDensity(exogenous=exogenous, factor=FAST, random_state=0)
    return model.fit(table())


def test_texts_dates_and_gaps_are_conditions(model):
    new = pd.DataFrame({"city": ["Rome", "Oslo", None], "day": ["2024-02-01"] * 3})
    p = model.given(new)
    means = p.marginal("wage").mean()
    assert means[0] > 4.0
    assert abs(means[1]) < 1.0
    assert 0.0 < means[2] < 4.0
    other = model.given(pl.from_pandas(new)[["day", "city"]])
    np.testing.assert_array_equal(other.marginal("wage").mean(), means)


def test_a_factor_with_conditions_alone_is_that_of_the_frame(model):
    frame = table()
    alone = KCEF(select=None, random_state=0).fit(frame[["city", "day"]], frame["wage"])
    found = model.factor_log_densities(frame)[:, 0]
    expected = alone.score_samples(frame[["city", "day"]], frame["wage"])
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.from_pandas, "shuffled"])
def test_frames_of_either_kind_and_any_order_have_the_same_densities(model, kind):
    frame = table()
    expected = model.score_samples(frame)
    other = frame[["height", "day", "tall", "city", "wage"]]
    other = other if kind == "shuffled" else kind(other)
    np.testing.assert_allclose(model.score_samples(other), expected, rtol=1e-12)


def test_draws_have_texts_and_moments_and_can_be_asked_about(model):
    given = {"city": "Rome", "day": "2024-02-01"}
    draws = model.sample(50, random_state=0, given=given)
    assert draws.shape == (50, 5)
    assert set(draws[:, 0]) == {"Rome"}
    assert draws[0, 1] == datetime(2024, 2, 1)
    assert draws[:, 2].astype(float).mean() > 4.0
    assert np.isfinite(model.score_samples(draws)).all()
    weighted = model.conditional({**given, "height": 6.0}, 500, random_state=0)
    assert 5.0 < weighted.mean()[2] < 7.0
    with pytest.raises(TableError, match=r"given\['day'\] must be a date"):
        model.sample(1, given={"city": "Rome", "day": "tomorrow"})


def test_missing_entries_are_drawn_and_conditions_keep_their_gaps(model):
    frame = table()[:6].copy()
    frame["city"] = [None, "Rome", "Oslo", "Bonn", "Rome", None]
    frame.loc[[2, 3], "height"] = np.nan
    with pytest.warns(TableWarning, match="not there at the fit"):
        done = model.impute(frame, random_state=0)
    assert np.isfinite(done[:, 2:].astype(float)).all()
    assert done[:, 0].tolist() == ["", "Rome", "Oslo", "another value", "Rome", ""]
    frame["day"] = pd.NaT
    with pytest.raises(ValueError, match="exogenous column 'day' in row 0"):
        model.impute(frame)
    with pytest.raises(ValueError, match="no value of column 'day' in row 0"):
        model.score_samples(frame)


def test_files_keep_the_columns(model, tmp_path):
    frame = table()
    model.save(tmp_path / "joint.kexpfam")
    loaded = load(tmp_path / "joint.kexpfam")
    np.testing.assert_array_equal(
        loaded.score_samples(frame), model.score_samples(frame)
    )
    given = {"city": "Oslo", "day": "2024-02-01"}
    np.testing.assert_array_equal(
        loaded.sample(3, random_state=0, given=given),
        model.sample(3, random_state=0, given=given),
    )


def test_orders_and_gains_know_of_categories():
    frame = table()[["city", "wage", "height"]]
    model = FactorizedDensity(exogenous=["city"], factor=FAST, order="greedy")
    model.fit(frame)
    assert set(model.order_.order) == {"wage", "height"}
    gains = model.held_out_gains(frame, cv=2)
    assert gains.by_label()["gains"]["wage"] > 0.2


def test_a_modelled_column_of_texts_is_refused_with_the_way_out():
    frame = table()
    with pytest.raises(TableError, match=r"column 'city'.*exogenous=\['city'\]"):
        FactorizedDensity(factor=FAST).fit(frame)
    with pytest.raises(TypeError, match=r"LinearNormal, is not made for .*'city'"):
        FactorizedDensity(exogenous=["city"], factor=LinearNormal()).fit(
            frame[["city", "wage"]]
        )


@pytest.mark.parametrize("library", [pd, pl])
def test_a_density_takes_booleans_dates_and_nullable_numbers(library):
    frame = table()[["day", "tall", "wage"]].convert_dtypes()
    frame.loc[3, "tall"] = None
    given = frame if library is pd else pl.from_pandas(frame)
    with pytest.warns(TableWarning, match="gaps in 1 of 120 rows"):
        model = KEF(select=None, random_state=0).fit(given)
    days = (frame["day"] - pd.Timestamp("1970-01-01")) / pd.Timedelta(days=1)
    plain = np.column_stack([days, frame["tall"].astype(float), frame["wage"]])
    whole = np.delete(plain.astype(float), 3, axis=0)
    same = KEF(select=None, random_state=0).fit(whole)
    kept = given.drop(3) if library is pd else pl.concat([given[:3], given[4:]])
    np.testing.assert_allclose(
        model.score_samples(kept), same.score_samples(whole), rtol=1e-9
    )
    assert model.feature_names_in_.tolist() == ["day", "tall", "wage"]


def test_numbers_stay_as_they_were():
    rows = np.random.default_rng(0).normal(size=(20, 2))
    assert JointColumns.learn(rows, exogenous=[0]) is None
    assert JointColumns.learn(pd.DataFrame(rows), exogenous=[0]) is None
    rows[3, 0] = np.nan
    assert JointColumns.learn(rows, exogenous=[0]).columns[0].gaps
