"""Censored rows: of some responses only an interval is known."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.base import clone

from kexpfam import KCEF, AutoKCEF, load, metrics
from kexpfam.data import response_limits
from kexpfam.kernels import Gaussian
from kexpfam.selection import censored as censored_families

SETTLED = {
    "kernel_x": Gaussian(1.0),
    "kernel_y": Gaussian(0.8),
    "regularization": 0.01,
    "fit_method": "likelihood",
    "random_state": 0,
    "n_jobs": 1,
}


def _sample(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, size=(n, 1))
    y = 2.0 * X[:, 0] + rng.normal(size=n)
    limit = rng.normal(1.0, 1.0, n)
    return X, np.minimum(y, limit), y > limit, y


@pytest.fixture(scope="module")
def model():
    X, seen, censored, _ = _sample(150)
    return KCEF(base="linear", **SETTLED).fit(X, seen, censoring=censored)


def test_all_ways_to_say_it_are_the_same():
    y = np.array([1.0, 2.0, 3.0])
    expected = ([1.0, -np.inf, 3.0], [np.inf, 2.0, 3.0])
    for censoring in (["right", "left", "none"], [1, -1, 0], np.array([1.0, -1.0, 0])):
        np.testing.assert_array_equal(response_limits(y, censoring), expected)
    ends = [[1.0, np.inf], [-np.inf, 2.0], [3.0, 3.0]]
    np.testing.assert_array_equal(response_limits(None, ends), expected)
    lower, upper = response_limits(y, y > 1.5)
    assert lower.tolist() == y.tolist()
    assert upper.tolist() == [1.0, np.inf, np.inf]


@pytest.mark.parametrize(
    ("y", "censoring", "message"),
    [
        ([1.0, 2.0], ["right", "up"], "'right', 'left' or 'none'"),
        ([1.0, 2.0], [1, 2], "1 .right., -1 .left. or 0"),
        ([1.0, 2.0], [True], "one entry for each response"),
        ([1.0, np.inf], [0, 1], "finite numbers"),
        ([1.0], [[0.0, 1.0]], "y must be None"),
        (None, [[2.0, 1.0]], "not above the upper"),
        (None, [[-np.inf, np.inf]], "one of them finite"),
        (None, [[0.0, np.nan]], "without NaN"),
    ],
)
def test_what_is_not_understood_is_refused(y, censoring, message):
    with pytest.raises(ValueError, match=message):
        response_limits(y, censoring)


def test_without_a_censored_row_it_is_the_fit_by_likelihood():
    X, _, _, y = _sample(80)
    plain = KCEF(**SETTLED).fit(X, y).given(X).logpdf(y)
    none = KCEF(**SETTLED).fit(X, y, censoring=np.zeros(80)).given(X).logpdf(y)
    ends = KCEF(**SETTLED).fit(X, censoring=np.column_stack([y, y])).given(X).logpdf(y)
    np.testing.assert_array_equal(none, plain)
    np.testing.assert_array_equal(ends, plain)


def test_narrow_intervals_are_nearly_observations():
    X, _, _, y = _sample(80)
    width = 1e-3
    ends = np.column_stack([y - width, y + width])
    narrow = KCEF(**SETTLED).fit(X, censoring=ends)
    ends[:40] = y[:40, None]
    half = KCEF(**SETTLED).fit(X, censoring=ends)
    points = np.linspace(-2.0, 2.0, 9)
    at = np.zeros((9, 1))
    found, expected = narrow.given(at).logpdf(points), half.given(at).logpdf(points)
    np.testing.assert_allclose(found, expected, atol=1e-3)


def test_a_law_is_found_that_limits_taken_for_responses_hide(model):
    X, seen, _, _ = _sample(150)
    X_new, _, _, y_new = _sample(2000, seed=1)
    truth = stats.norm.logpdf(y_new, 2.0 * X_new[:, 0], 1.0).mean()
    naive = KCEF(base="linear", **SETTLED).fit(X, seen)
    assert truth - model.score(X_new, y_new) < 0.1
    assert naive.score(X_new, y_new) < model.score(X_new, y_new) - 0.05
    above = model.given([[0.0]]).sf([1.0])[0]
    assert abs(above - stats.norm.sf(1.0)) < 0.07
    assert model.fit_method_ == "likelihood"


def test_left_censored_is_right_censored_turned_round(model):
    X, seen, censored, _ = _sample(150)
    sides = np.where(censored, "left", "none")
    turned = KCEF(base="linear", **SETTLED).fit(X, -seen, censoring=sides)
    points = np.linspace(-2.0, 2.0, 5)
    at = np.full((5, 1), 0.3)
    found = turned.given(at).logpdf(-points)
    # Rows turned round are in another order, by which centres are drawn.
    np.testing.assert_allclose(found, model.given(at).logpdf(points), atol=0.05)


def test_a_weight_of_two_is_a_row_twice():
    X, seen, censored, _ = _sample(60)
    counts = np.random.default_rng(3).integers(1, 3, size=60)
    options = SETTLED | {"n_components": 200}
    weighted = KCEF(**options).fit(X, seen, counts, censoring=censored)
    repeated = KCEF(**options).fit(
        np.repeat(X, counts, axis=0),
        np.repeat(seen, counts),
        censoring=np.repeat(censored, counts),
    )
    at, points = np.zeros((5, 1)), np.linspace(-2.0, 2.0, 5)
    found, expected = (m.given(at).logpdf(points) for m in (weighted, repeated))
    np.testing.assert_allclose(found, expected, atol=2e-3)


def test_units_of_y_only_shift_the_log_density():
    X, seen, censored, _ = _sample(60)
    one = KCEF(**SETTLED).fit(X, seen, censoring=censored).given(X).logpdf(seen)
    many = KCEF(**SETTLED).fit(X, 10 + 100 * seen, censoring=censored)
    found = many.given(X).logpdf(10 + 100 * seen) + np.log(100.0)
    np.testing.assert_allclose(found, one, atol=1e-3)


def test_files_hold_it(model, tmp_path):
    model.save(tmp_path / "model")
    X, _, _, y = _sample(20, seed=4)
    again = load(tmp_path / "model")
    np.testing.assert_array_equal(again.given(X).sf(y), model.given(X).sf(y))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fit_method": "score"}, "score matching needs every response"),
        ({"select": "score", "fit_method": None}, "not censored"),
        ({"base": "gaussian_process"}, "base must be None, LinearBase"),
        ({"solver": "exact"}, "solver must be None"),
    ],
)
def test_what_censored_rows_cannot_have_is_refused(options, message):
    X, seen, censored, _ = _sample(30)
    with pytest.raises(ValueError, match=message):
        KCEF(**(SETTLED | options)).fit(X, seen, censoring=censored)


def test_the_score_of_censored_rows_equals_masses(model):
    X, seen, censored, _ = _sample(40, seed=5)
    p = model.given(X)
    found = metrics.censored_log_loss_values(p, seen, censored)
    expected = np.where(censored, -np.log(p.sf(seen)), -p.logpdf(seen))
    np.testing.assert_allclose(found, expected)
    ends = np.column_stack([seen, seen + 0.5])
    masses = p.cdf(ends[:, 1]) - p.cdf(ends[:, 0])
    found = metrics.censored_log_loss_values(p, None, ends)
    np.testing.assert_allclose(found, -np.log(masses), rtol=1e-6)


def test_positive_responses_stay_positive_where_that_is_chosen():
    rng = np.random.default_rng(6)
    X = rng.uniform(-1.0, 1.0, size=(90, 1))
    y = np.exp(X[:, 0] + 0.5 * rng.normal(size=90))
    limit = np.exp(0.5 + 0.5 * rng.normal(size=90))
    options = {"kernel_y": Gaussian(0.8), "kernel_x": Gaussian(1.0), "n_jobs": 1}
    model = KCEF(regularization=0.1, random_state=0, **options)
    model.fit(X, np.minimum(y, limit), censoring=y > limit)
    assert model.selection_.chosen.coordinates.startswith("log")
    assert model.given([[0.0]]).cdf([0.0])[0] < 1e-4


def _durations(n=100):
    rng = np.random.default_rng(0)
    y, limit = rng.exponential(2.0, n), rng.exponential(4.0, n)
    return rng.normal(size=(n, 1)), np.minimum(y, limit), y > limit


def test_durations_have_moments(tmp_path):
    """Behind a logarithm t tails gave a mean of 22,000 where it is 2."""
    X, seen, censored = _durations()
    model = AutoKCEF(random_state=0, n_jobs=1).fit(X, seen, censoring=censored)
    assert model.support_.lower == 0.0
    p = model.given(X[:5])
    assert np.all((p.mean() > 1.4) & (p.mean() < 3.0))
    assert np.all(p.std() < 6.0)
    # A bound that is only likely leaves next to nothing beyond.
    assert np.all((p.cdf(-1e-9) > 0.0) & (p.cdf(-1e-9) < 1e-5))
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    np.testing.assert_array_equal(again.given(X[:5]).std(), p.std())


def test_bounds_of_censored_rows_can_be_given():
    X, seen, censored = _durations()
    model = KCEF(lower=0, **SETTLED).fit(X, seen, censoring=censored)
    assert np.all(model.given(X).cdf(-1e-9) == 0.0)
    with pytest.raises(ValueError, match=r"y has \d+ rows outside \[1, inf\]"):
        KCEF(lower=1, **SETTLED).fit(X, seen, censoring=censored)
    # Held-out scores are those of y, and masses of censored rows have no units.
    scored = model.selection_.chosen.mean(model.selection_.weights)
    losses = metrics.censored_log_loss_values(model.given(X), seen, censored)
    assert abs(scored + losses.mean()) < 0.2
    # Far from zero there is nothing to notice.
    far = AutoKCEF(random_state=0, n_jobs=1, time_budget=1e-3)
    assert far.fit(X, 20.0 + seen, censoring=censored).support_ is None


def test_fits_to_censored_rows_tell_of_progress_and_can_be_ended(monkeypatch, capsys):
    X, seen, censored = _durations(40)
    tried, own = [], censored_families._held_out

    def interrupted(*args):
        tried.append(args)
        if len(tried) > 2:
            raise KeyboardInterrupt
        return own(*args)

    monkeypatch.setattr(censored_families, "_held_out", interrupted)
    model = KCEF(random_state=0, n_jobs=1, verbose=True)
    model.fit(X, seen, censoring=censored)
    assert model.selection_.reason == "interrupted"
    assert capsys.readouterr().err.startswith("censored rows, mean log p: 2 of ")


@pytest.mark.slow
def test_an_average_of_censored_rows_finds_the_law(tmp_path):
    X, seen, censored, _ = _sample(300)
    X_new, _, _, y_new = _sample(2000, seed=1)
    model = AutoKCEF(random_state=0, n_jobs=1).fit(X, seen, censoring=censored)
    truth = stats.norm.logpdf(y_new, 2.0 * X_new[:, 0], 1.0).mean()
    assert truth - model.score(X_new, y_new) < 0.05
    assert "likelihood" in repr(model.members_)
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    np.testing.assert_array_equal(again.given(X).sf(seen), model.given(X).sf(seen))


def test_an_average_refuses_experts_with_censored_rows():
    X, seen, censored, _ = _sample(30)
    with pytest.raises(ValueError, match="not censored"):
        AutoKCEF(experts=["families"]).fit(X, seen, censoring=censored)


@pytest.mark.parametrize("estimator", [KCEF(base="linear", **SETTLED), AutoKCEF()])
def test_columns_may_be_named(estimator, monkeypatch):
    X, seen, censored, _ = _sample(60)
    frame = pd.DataFrame({"x": X[:, 0], "y": seen, "side": censored})
    new = frame[["x"]][:3]
    by_hand = (
        clone(estimator)
        .set_params(random_state=0)
        .fit(frame[["x"]], seen, censoring=censored)
    )
    model = (
        clone(estimator).set_params(random_state=0).fit(frame, "y", censoring="side")
    )
    assert list(model.feature_names_in_) == ["x"]
    assert model.given(new)._response == "y"
    np.testing.assert_array_equal(model.predict(new), by_hand.predict(new))
    nobody = frame.assign(side="none")
    model = clone(estimator).fit(nobody, "y", censoring="side")
    assert list(model.feature_names_in_) == ["x"]
