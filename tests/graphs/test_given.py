"""Joint densities given exogenous columns, as one object."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from kexpfam import KCEF, FactorizedDensity

from .gaussians import LinearNormal, Normal

FAST = KCEF(select=None)


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    x, e = rng.normal(size=80), 0.3 * rng.normal(size=(2, 80))
    # The condition is in the middle of the table.
    return pd.DataFrame({"a": x**2 + e[0], "x": x, "b": x + e[0] + e[1]})


@pytest.fixture(scope="module", params=[1, 2], ids=["one order", "two orders"])
def model(request, frame):
    return FactorizedDensity(
        exogenous=["x"], factor=FAST, orders=request.param, random_state=0
    ).fit(frame)


def test_log_densities_are_those_of_the_model(model, frame):
    p = model.given(frame[["x"]][:9])
    assert p.names == ("a", "b")
    np.testing.assert_allclose(
        p.logpdf(frame[["a", "b"]].to_numpy()[:9]),
        model.score_samples(frame[:9]),
        rtol=1e-9,
    )


def test_conditions_come_as_arrays_or_under_their_names(model, frame):
    y = frame[["a", "b"]].to_numpy()[:3]
    first = model.given(frame[["x"]].to_numpy()[:3]).logpdf(y)
    for X in (frame[:3], frame[["b", "x"]][:3], pl.from_pandas(frame[:3])):
        np.testing.assert_array_equal(model.given(X).logpdf(y), first)


def test_moments_and_marginals_are_those_of_draws(model):
    p = model.given([[0.5]])[0]
    draws = model.sample(4000, random_state=0, given={"x": 0.5})[:, [0, 2]]
    np.testing.assert_allclose(p.mean(), draws.mean(axis=0), atol=0.04)
    for j, name in enumerate(p.names):
        levels = [0.1, 0.5, 0.9]
        expected = np.quantile(draws[:, j], levels)
        np.testing.assert_allclose(p.marginal(name).ppf(levels), expected, atol=0.06)


def test_one_modelled_column_is_the_density_of_its_factor(frame):
    table = frame[["a", "x"]]
    model = FactorizedDensity(exogenous=["x"], factor=FAST).fit(table)
    alone = model.factors_["a"].given([[0.3], [1.0]])
    found = model.given([[0.3], [1.0]])
    np.testing.assert_array_equal(found.ppf(0.2), alone.ppf(0.2))


def test_a_root_beside_a_condition_has_its_own_density(frame):
    model = FactorizedDensity(
        graph={"a": [], "b": ["a", "x"]}, exogenous=["x"], factor=FAST
    ).fit(frame)
    p = model.given([[0.0], [1.0]])
    alone = model.factors_["a"].distribution()
    np.testing.assert_allclose(p.marginal("a").ppf(0.3), alone.ppf(0.3), rtol=1e-9)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.zeros(3), r"X must have shape \(n, 1\)"),
        (np.zeros((3, 2)), r"exogenous \('x'\), got shape \(3, 2\)"),
        ([[np.nan]], "X must be finite, got nan in column 'x', row 0"),
        (pd.DataFrame({"z": [1.0]}), "X has no column 'x'"),
    ],
)
def test_wrong_conditions_are_named(model, X, message):
    with pytest.raises(ValueError, match=message):
        model.given(X)


def test_what_has_no_such_object_is_refused(frame):
    plain = FactorizedDensity(factor=LinearNormal(), root=Normal()).fit(frame)
    with pytest.raises(ValueError, match="needs exogenous columns"):
        plain.given([[0.0]])
    other = FactorizedDensity(factor=LinearNormal(), exogenous=["x"]).fit(frame)
    with pytest.raises(TypeError, match="'a', LinearNormal, has none"):
        other.given([[0.0]])
