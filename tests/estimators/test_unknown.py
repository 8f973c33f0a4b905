"""Values that nobody knows at prediction: averages over those a column may have."""

import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import pytest

from kexpfam import KCEF, AutoKCEF, load
from kexpfam.distributions import (
    MixedDensity,
    RowAverageColumns,
    RowAverageDensity,
)
from kexpfam.errors import TableWarning
from kexpfam.estimators.unknown import possible_rows
from kexpfam.family.neighbourhood import Neighbourhood
from kexpfam.selection.spec import default_coordinates
from kexpfam.tables import Coding, as_table

NEW = pd.DataFrame({"x": [0.2, 0.2, 0.2], "g": ["g1", "new", "g1"], "v": [0.5, 0.5, 0]})
NEW.loc[2, "v"] = np.nan


def rows(n=240, levels=6, seed=0):
    """A table with a number, a category and a further number, and y of all."""
    rng = np.random.default_rng(seed)
    x, g = rng.uniform(-1, 1, n), rng.integers(0, levels, n)
    v = 0.8 * x + 0.6 * rng.normal(size=n)
    X = pd.DataFrame({"x": x, "g": [f"g{i}" for i in g], "v": v})
    y = x + 2.0 * v + 1.5 * g / levels + 0.3 * rng.normal(size=n)
    return X, y


@pytest.fixture(scope="module")
def fitted():
    X, y = rows()
    return KCEF(base="linear", random_state=0).fit(X, y)


def test_a_new_category_is_the_average_over_all_there_were(fitted):
    with pytest.warns(TableWarning, match="averages over values"):
        p = fitted.given(NEW)
    assert isinstance(p, RowAverageDensity)
    known = NEW.iloc[[1]].merge(
        pd.DataFrame({"g": [f"g{i}" for i in range(6)]}), "cross"
    )
    known = known.drop(columns="g_x").rename(columns={"g_y": "g"})
    y = np.linspace(-2.0, 4.0, 9)
    slow = fitted.given(known).pdf(y[None]).mean(axis=0)
    np.testing.assert_allclose(p[1].pdf(y), slow, rtol=1e-9)


def test_a_gap_is_an_average_over_values_of_rows_like_it(fitted):
    with pytest.warns(TableWarning):
        p = fitted.given(NEW)
    # By the law it was drawn from: v is 0.8 x + 0.6 z, and y has 2 v.
    expected = 0.2 + 2.0 * 0.16 + 1.5 / 6
    assert p[2].mean() == pytest.approx(expected, abs=0.3)
    assert p[2].std() == pytest.approx(np.hypot(1.2, 0.3), rel=0.25)
    assert p[0].std() < 0.5


def test_rows_without_unknown_values_are_as_they_are_alone(fitted):
    with pytest.warns(TableWarning):
        p = fitted.given(NEW)
    alone, levels = fitted.given(NEW[:1]), [0.01, 0.5, 0.9]
    np.testing.assert_allclose(
        p.quantile(levels)[0], alone.quantile(levels)[0], rtol=1e-9
    )
    np.testing.assert_allclose(p.mean()[0], alone.mean()[0], rtol=1e-9)


def test_everything_that_follows_agrees_with_given(fitted):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TableWarning)
        p, y = fitted.given(NEW), np.array([0.1, 0.4, 0.9])
        np.testing.assert_allclose(fitted.predict(NEW), p.mean(), rtol=1e-9)
        np.testing.assert_allclose(fitted.score_samples(NEW, y), p.logpdf(y), rtol=1e-9)
        np.testing.assert_allclose(
            fitted.predict_interval(NEW, 0.8), p.interval(0.8), rtol=1e-9
        )
        draws = fitted.sample(NEW, 2000, random_state=0)
        np.testing.assert_allclose(draws.mean(axis=1), p.mean(), atol=0.15)
        assert fitted.predict_frame(NEW)["std"].iloc[2] == pytest.approx(p.std()[2])


def test_files_keep_what_is_needed(fitted, tmp_path):
    fitted.save(tmp_path / "m.kexpfam")
    NEW.to_csv(tmp_path / "new.csv", index=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TableWarning)
        again = load(tmp_path / "m.kexpfam").predict_interval(NEW, 0.9)
        np.testing.assert_allclose(again, fitted.predict_interval(NEW, 0.9), rtol=1e-9)
    program = [sys.executable, "-m", "kexpfam", "predict", "m.kexpfam", "new.csv"]
    asked = ["--interval", "0.9", "--digits", "12", "--missing", "impute"]
    subprocess.run([*program, *asked, "-o", "out.csv"], cwd=tmp_path, check=True)
    told = pd.read_csv(tmp_path / "out.csv")[["low", "high"]]
    np.testing.assert_allclose(told, again, rtol=1e-9)


def test_arrays_with_gaps_that_the_fit_had_not_are_averaged_too():
    X, y = rows()
    Z = X[["x", "v"]].to_numpy()
    model = KCEF(base="linear", random_state=0).fit(Z, y)
    with pytest.warns(TableWarning, match="averages over values"):
        widths = np.ptp(model.predict_interval([[0.2, np.nan], [0.2, 0.2]]), axis=1)
    assert widths[0] > 2.0 * widths[1]


def test_laws_of_every_kind_are_averaged(monkeypatch):
    # One kind of coordinates: what is averaged is the question, not the average.
    small = [spec for spec in default_coordinates() if spec.name == "normal"]
    monkeypatch.setattr(AutoKCEF, "_coordinates", staticmethod(lambda: small))
    X, y = rows(n=150)
    rng = np.random.default_rng(1)
    zeros = np.where(rng.random(150) < 0.3 + 0.3 * (X["g"] < "g3"), 0.0, y)
    counts = rng.poisson(np.exp(0.3 * y - y.mean() * 0.3 + 1.0))
    both = np.column_stack([y, zeros])
    Z, new = X[["x", "g"]], NEW[["x", "g"]]
    for responses, kind in (
        (zeros, MixedDensity),
        (counts, MixedDensity),
        (both, RowAverageColumns),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = AutoKCEF(likelihood=False, random_state=0).fit(Z, responses)
            p = model.given(new)
            levels = [f"g{i}" for i in range(6)]
            known = model.given(pd.DataFrame({"x": 0.2, "g": levels}))
        assert isinstance(p, kind)
        np.testing.assert_allclose(p.mean()[1], known.mean().mean(axis=0), rtol=1e-6)
        at = responses[:1] if responses.ndim > 1 else np.array([0.0])
        slow = known.pdf(at[None]).mean(axis=0)
        np.testing.assert_allclose(p.pdf(at[None])[1], slow, rtol=1e-6)
        assert np.isfinite(p.rvs(5, random_state=0)).all()


def test_values_for_gaps_follow_the_other_columns_and_only_those_that_tell():
    rng = np.random.default_rng(0)
    told, noise = rng.normal(size=(2, 800))
    value = told**2 + 0.1 * rng.normal(size=800)
    near = Neighbourhood.of(np.column_stack([told, noise, value]), np.ones(800))
    X = np.array([[1.5, 0.0, np.nan], [0.0, 2.0, np.nan], [1.0, 1.0, 1.0]])
    found = possible_rows(X, near, None, 32)
    assert found.parts.sizes.tolist()[2] == 1
    means = found.parts.mean(found.X)[:, 2]
    np.testing.assert_allclose(means, [2.25, 0.0, 1.0], atol=0.15)
    # Where the others tell nothing, they are those of all rows.
    X = np.array([[np.nan, 0.0, 1.0]])
    near = Neighbourhood.of(np.column_stack([noise, told, told]), np.ones(800))
    spread = possible_rows(X, near, None, 32).X[:, 0]
    assert spread.std() == pytest.approx(1.0, abs=0.15)
    assert spread.mean() == pytest.approx(0.0, abs=0.15)


def test_several_unknown_columns_are_not_tied_to_each_other():
    names = [f"n{i:02}" for i in range(40)]
    rng = np.random.default_rng(0)
    table = {"a": rng.choice(names, 400), "b": rng.choice(names, 400)}
    Y = rng.normal(size=(400, 1)) + (table["a"] > "n20")[:, None]
    Y += (table["b"] > "n20")[:, None]
    coding = Coding.learn(table, Y=Y)
    near = Neighbourhood.of(coding.training(as_table(table), Y), np.ones(400))
    with pytest.warns(TableWarning, match="averages"):
        asked = coding.transform({"a": ["x"], "b": ["y"]}, marked=True).X
    found = possible_rows(asked, near, coding, 32)
    assert abs(np.corrcoef(found.X.T)[0, 1]) < 0.3
    assert found.X[:, 0].std() == pytest.approx(coding.features[0].codes.std(), rel=0.1)


@pytest.mark.parametrize("slope", [0.0, 0.7, 2.0])
def test_intervals_at_first_gaps_cover_as_often_as_they_say(slope):
    def draw(n, rng):
        x, w = rng.normal(size=(2, n))
        v = 0.6 * x + 0.8 * rng.normal(size=n)
        y = x + slope * v + 0.5 * rng.normal(size=n)
        return np.column_stack([x, v, w]), y

    model = KCEF(base="linear", random_state=0).fit(
        *draw(400, np.random.default_rng(1))
    )
    X, y = draw(800, np.random.default_rng(2))
    X[:, 1] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TableWarning)
        low, high = model.predict_interval(X, 0.8).T
    assert np.mean((y >= low) & (y <= high)) == pytest.approx(0.8, abs=0.05)
