"""A time budget ends the search, and a whole model is there all the same."""

from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest
from scipy import integrate

from kexpfam import KCEF, AutoKCEF
from kexpfam.estimators import auto, joint
from kexpfam.family import Spec
from kexpfam.selection import validation
from kexpfam.selection.validation import Validation
from tests.simulations import waves


@pytest.fixture(scope="module")
def rows():
    return waves(80, 2, frequency=3.0, noise=0.2, half_width=1.0)


@pytest.mark.parametrize("estimator", [KCEF, AutoKCEF])
def test_no_time_at_all_gives_a_density_and_says_what_was_not_tried(rows, estimator):
    model = estimator(time_budget=1e-9, random_state=0).fit(*rows)
    density = model.given(rows[0][:1])
    y = np.linspace(-300, 300, 60_001)
    mass = integrate.simpson(density.pdf(y[None])[0], x=y)
    assert mass == pytest.approx(1.0, abs=1e-5)
    reason = model.stopped_ if estimator is AutoKCEF else model.selection_.reason
    assert reason.startswith("the time budget was over; not tried: linear; ")
    assert reason.count("kernels") == 1
    assert "The search ended early: the time budget was over" in repr(model)


@pytest.mark.parametrize("estimator", [KCEF, AutoKCEF])
def test_what_is_tried_first_knows_x(estimator):
    rng = np.random.default_rng(1)
    x = rng.uniform(-1, 1, size=(60, 1))
    y = 3.0 * x[:, 0] + 0.1 * rng.normal(size=60)
    model = estimator(time_budget=1e-9, random_state=0)
    # Coordinates are there when the time is over, and kernels are still to be tried.
    with mock.patch.object(Validation, "ended_before", return_value=False):
        model.fit(x, y)
    slopes = np.diff(model.predict([[-0.5], [0.5]]))
    assert slopes == pytest.approx(3.0, abs=0.3)


def test_time_enough_tries_everything(rows):
    model = AutoKCEF(time_budget=1e6, random_state=0).fit(*rows)
    free = AutoKCEF(random_state=0).fit(*rows)
    assert model.stopped_ == free.stopped_ == "all candidates were tried"
    assert model.n_candidates_ == free.n_candidates_


def test_experts_that_there_was_no_time_for_are_named(rows):
    from kexpfam.baselines import ConditionalKDE

    experts = {"my estimate": ConditionalKDE()}
    model = AutoKCEF(experts=experts, time_budget=1e-9).fit(*rows)
    assert "my estimate" in model.stopped_


def test_fits_to_all_rows_are_to_fewer_where_there_is_no_time_for_all(monkeypatch):
    few = replace(AutoKCEF._limits, validation_rows=60)
    monkeypatch.setattr(AutoKCEF, "_limits", few)
    X, y = waves(300, 2, frequency=3.0, noise=0.2, half_width=1.0)
    model = AutoKCEF(time_budget=1e-9, random_state=0).fit(X, y)
    assert model.stopped_.endswith("240 of 300 rows in the fits to all")
    assert np.isfinite(model.score(X, y))

    # Five seconds have passed, and half as many are left: a quarter more rows than
    # were validated.
    monkeypatch.setattr(validation, "time", SimpleNamespace(monotonic=lambda: 5.0))
    began = partial(replace, AutoKCEF(time_budget=7.5)._spec().family, started=0.0)
    monkeypatch.setattr(auto, "Spec", began)
    model = AutoKCEF(time_budget=7.5, random_state=0).fit(X, y)
    assert model.stopped_.endswith("225 of 300 rows in the fits to all")
    assert np.isfinite(model.score(X, y))
    monkeypatch.undo()
    monkeypatch.setattr(AutoKCEF, "_limits", few)
    model = AutoKCEF(time_budget=1e6, likelihood=False, random_state=0).fit(X, y)
    assert model.stopped_ == "all candidates were tried"


@pytest.mark.parametrize("budget", [0, -1.0, float("nan"), "soon"])
@pytest.mark.parametrize("estimator", [KCEF, AutoKCEF])
def test_budgets_are_positive_numbers(rows, estimator, budget):
    with pytest.raises(ValueError, match="time_budget must be"):
        estimator(time_budget=budget).fit(*rows)


@pytest.mark.parametrize("estimator", [KCEF, AutoKCEF])
def test_looking_for_a_map_of_bounds_is_in_the_time(rows, estimator, monkeypatch):
    began = []
    of = Validation.of

    def noted(*given):
        began.append(given[1].started)
        return of(*given)

    monkeypatch.setattr(Validation, "of", noted)
    X, y = rows
    estimator(time_budget=1e-9, lower=0.0, random_state=0).fit(X, np.exp(y))
    assert len(began) > 1
    assert len(set(began)) == 1


def test_several_columns_of_y_share_the_time(rows, monkeypatch):
    budgets = []

    def noted(**given):
        budgets.append(given["time_budget"])
        return Spec(**given)

    # Of ninety seconds six are over before the second column, forty before the third.
    times = iter([0.0, 0.0, 6.0, 40.0])
    clock = SimpleNamespace(monotonic=lambda: next(times))
    monkeypatch.setattr(joint, "time", clock)
    monkeypatch.setattr(auto, "Spec", noted)
    X, y = rows
    Y = np.column_stack([y, X[:, 0] + y, y**3])
    model = AutoKCEF(time_budget=90.0, likelihood=False, random_state=0).fit(X, Y)
    assert budgets == [90.0, 30.0, 42.0, 50.0]
    assert model.time_budget == 90.0


@pytest.mark.parametrize("estimator", [KCEF, AutoKCEF])
def test_fits_to_censored_rows_look_at_the_clock(rows, estimator):
    X, y = rows
    sides = np.where(y > 0.5, "right", "none")
    model = estimator(time_budget=1e-9, random_state=0)
    model.fit(X, np.minimum(y, 0.5), censoring=sides)
    reason = model.stopped_ if estimator is AutoKCEF else model.selection_.reason
    assert reason.startswith("the time budget was over; not tried: ")
    assert np.isfinite(model.score(X, y))
