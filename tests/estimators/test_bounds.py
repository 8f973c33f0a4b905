"""Estimators with bounds of y: nothing outside, and the same files and streams."""

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from kexpfam import KCEF, AutoKCEF, load
from kexpfam.data import ArraySource
from kexpfam.distributions import BoundedDensity
from kexpfam.errors import DegenerateDataError
from kexpfam.estimators.bounds import component_beyond, weight_beyond
from kexpfam.regression import linear
from tests.simulations import shares

pytestmark = pytest.mark.usefixtures("few_coordinates")


@pytest.fixture(scope="module")
def average():
    x, y = shares(80)
    return AutoKCEF(lower=0.0, upper=1.0, random_state=0).fit(x, y)


@pytest.fixture(scope="module")
def noticed():
    x, y = shares(80)
    return AutoKCEF(random_state=0).fit(x, y)


NEW = np.array([[-0.9], [0.0], [0.9]])


def test_no_mass_is_outside_bounds_that_are_given(average):
    p = average.given(NEW)
    assert isinstance(p, BoundedDensity)
    assert np.all(p.cdf(-1e-12) == 0.0)
    assert np.all(p.sf(1.0) == 0.0)
    assert np.all(p.logpdf(1.5) == -np.inf)
    draws = average.sample(NEW, 500, random_state=0)
    assert draws.min() >= 0.0
    assert draws.max() <= 1.0


def test_little_mass_is_outside_bounds_that_are_likely(noticed):
    p = noticed.given(NEW)
    outside = p.cdf(-1e-12) + p.sf(1.0)
    assert np.all(outside > 0.0)  # nothing is impossible
    assert np.all(outside < 0.005)


def test_what_is_beyond_a_likely_bound_adds_a_hundredth_to_variances():
    """However sharp densities are; and where they are not, it is 0.2 %."""
    component = component_beyond(np.linspace(0.0, 10.0, 101), np.ones(101), 1)
    wide, rng = component.density(np.zeros((1, 1))), np.random.default_rng(0)
    weights, mean = rng.uniform(0.5, 2.0, 40), rng.uniform(0.0, 10.0, 40)
    for std, limited in ((0.1, True), (30.0, False)):
        variance = np.full(40, std**2)
        w = weight_beyond(component, np.column_stack([mean, variance]), weights)
        added = w * (wide.var() + (wide.mean() - mean) ** 2)
        share = (weights @ added) / (weights @ variance)
        if limited:
            assert share == pytest.approx(0.01)
        else:
            assert w == 0.002
    unknown = np.full((40, 2), np.nan)
    assert weight_beyond(component, unknown, weights) == 0.002
    assert weight_beyond(None, unknown, weights) == 0.0


@pytest.mark.slow
def test_bounds_that_are_right_predict_better(average):
    x, y = shares(80)
    free = AutoKCEF(lower=-np.inf, random_state=0).fit(x, y)
    assert free.support_ is None
    new = shares(300, seed=1)
    assert average.score(*new) > free.score(*new) + 0.05


def test_held_out_numbers_of_members_are_those_of_y(average):
    """They are about what new rows get, and not what they get on the line."""
    best = max(member.held_out for member in average.members_)
    assert best == pytest.approx(average.score(*shares(500, seed=2)), abs=0.3)


def test_the_best_family_has_the_bounds_too(average):
    p = average.best_.given(NEW)
    assert np.all(p.cdf(-1e-12) == 0.0)
    assert (average.best_.lower, average.best_.upper) == (0.0, 1.0)


@pytest.mark.parametrize("which", ["average", "noticed"])
def test_files_keep_bounds(which, request, tmp_path):
    model = request.getfixturevalue(which)
    model.save(tmp_path / "model.kexpfam")
    again = load(tmp_path / "model.kexpfam")
    y = np.array([0.0, 0.4, 1.0])
    assert np.array_equal(again.given(NEW).logpdf(y), model.given(NEW).logpdf(y))
    assert np.array_equal(
        again.best_.given(NEW).logpdf(y), model.best_.given(NEW).logpdf(y)
    )


def test_rows_outside_bounds_are_refused():
    x, y = shares(40)
    for model in (AutoKCEF(lower=0.5), KCEF(upper=0.5)):
        with pytest.raises(DegenerateDataError, match="rows outside"):
            model.fit(x, y)


def test_bounds_are_for_one_column():
    x, y = shares(40)
    Y = np.column_stack([y, y**2])
    for data in ([x, Y], [ArraySource(x, Y, None)]):
        with pytest.raises(ValueError, match="one column of y"):
            KCEF(lower=0.0).fit(*data)


def test_a_single_family_has_bounds_in_all_its_ways(tmp_path):
    x, y = shares(60)
    whole = KCEF(lower=0.0, upper=1.0, select=None, random_state=0).fit(x, y)
    p = whole.given(NEW)
    assert np.all(p.cdf(-1e-12) + p.sf(1.0) == 0.0)
    whole.save(tmp_path / "model.kexpfam", sums=True)
    again = load(tmp_path / "model.kexpfam")
    assert np.array_equal(again.given(NEW).mean(), p.mean())
    # The map is chosen from the first rows that come.
    parts = KCEF(lower=0.0, upper=1.0, select=None, random_state=0)
    parts.partial_fit(x, y).partial_fit(x[:20], y[:20])
    assert parts.support_ == whole.support_
    assert again.partial_fit(x[:20], y[:20]).n_rows_ == 80
    np.testing.assert_allclose(again.predict(NEW), parts.predict(NEW), rtol=1e-6)
    merged = parts.emptied().partial_fit(x, y).merge(parts)
    assert merged.n_rows_ == 140
    with pytest.raises(ValueError, match="same bounds"):
        merged.merge(KCEF(select=None).partial_fit(x, y))


def test_the_order_of_rows_does_not_choose_the_map():
    x, y = shares(50)
    y = np.exp(3 * y)
    one = KCEF(lower=0.0, select=None).fit(x, y).support_
    other = KCEF(lower=0.0, select=None).fit(x[::-1], y[::-1]).support_
    assert one == other


@pytest.mark.parametrize("estimator", [KCEF, AutoKCEF])
def test_a_map_is_chosen_with_one_blas_thread(estimator, monkeypatch):
    seen = set()
    grams = linear._grams

    def noted(*given):
        seen.update(
            i["num_threads"] for i in threadpool_info() if i["user_api"] == "blas"
        )
        return grams(*given)

    monkeypatch.setattr(linear, "_grams", noted)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 1))
    with threadpool_limits(2, user_api="blas"):
        estimator(lower=0.0, random_state=0).fit(X, rng.exponential(size=60))
    assert seen == {1}


def test_what_was_held_out_is_in_the_units_of_y(average):
    rng = np.random.default_rng(1)
    X = rng.uniform(-1, 1, size=(80, 1))
    y = 100.0 * np.exp(X[:, 0] + 0.3 * rng.normal(size=80))
    model = KCEF(lower=0.0, random_state=0).fit(X, y)
    blocks = ArraySource(X, y, rows=30)
    read = KCEF(lower=0.0, random_state=0).fit(blocks)
    found = model.selection_
    for selection in (found, read.selection_):
        held_out = selection.chosen.mean(selection.weights)
        assert held_out == pytest.approx(model.score(X, y), abs=0.2)
        assert any(own is selection.chosen for own in selection.path)
    best = max(member.held_out for member in average.members_ if member.family)
    chosen = average.best_.selection_
    assert chosen.chosen.mean(chosen.weights) == pytest.approx(best, abs=0.1)
