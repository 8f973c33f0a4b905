"""Descents that begin on some rows and end on all of them."""

import numpy as np
import pytest

from kexpfam import KCEF
from kexpfam.family import Limits
from kexpfam.kernels import Gaussian
from kexpfam.selection import GradientSearch, HeldOutObjective
from kexpfam.selection.spec import TUNING
from tests.limits import limited

VALIDATED, N = 150, 600
OPTIONS = {"base": "gaussian", "random_state": 0, "n_components": 20}


def small(rows=VALIDATED, **options):
    """A model that validates on some rows."""
    return limited(KCEF(**OPTIONS, **options), Limits(validation_rows=rows))


@pytest.fixture(scope="module")
def rows():
    """Rows sorted by x."""
    rng = np.random.default_rng(0)
    x = np.sort(rng.normal(size=(N, 2)), axis=0)
    return x, np.sin(2.0 * x[:, 0]) + 0.3 * rng.normal(size=N)


@pytest.fixture
def problems(monkeypatch):
    """The problem of every trial, as they are made."""
    seen = []
    evaluate = HeldOutObjective.value_and_gradient

    def noted(self, theta):
        seen.append(self.problem)
        return evaluate(self, theta)

    monkeypatch.setattr(HeldOutObjective, "value_and_gradient", noted)
    return seen


@pytest.mark.parametrize("select", ["likelihood", "score"])
def test_the_last_trials_are_made_with_all_rows(rows, problems, select):
    model = small(search="gradient", select=select).fit(*rows)
    found = model.selection_
    sizes = [len(problem.sample.Y) for problem in problems]
    last = sizes.count(N)
    assert sizes == [VALIDATED] * (len(sizes) - last) + [N] * last
    assert 1 <= last <= TUNING.last_trials
    assert len(found.path) == len(sizes)
    # The end begins where the beginning has led to, and is the best with all rows.
    some, all_of_them = found.path[:-last], found.path[-last:]
    best = min(some, key=lambda trial: trial.value)
    assert all_of_them[0].parameters == best.parameters
    assert found.best.value == min(trial.value for trial in all_of_them)
    assert found.reason.startswith(f"on {VALIDATED} rows ")
    assert f"; from there on all {N} rows " in found.reason
    assert model.kernel_ == found.kernel


def test_folds_of_all_rows_are_not_ends_of_sorted_data(rows, problems):
    small(search="gradient").fit(*rows)
    problem = problems[-1]
    everywhere = problem.sample.X[:, 0]
    assert len(np.unique(problem.centers)) == OPTIONS["n_components"]
    for fold in problem.folds:
        # Means of 120 rows lie within 4/√120 deviations of that of all.
        moved = abs(everywhere[fold].mean() - everywhere.mean())
        assert moved < 4.0 / np.sqrt(120) * everywhere.std()


def test_trials_with_all_rows_count_among_those_allowed(rows, problems):
    search = GradientSearch(max_trials=5)
    found = small(search=search).fit(*rows).selection_
    sizes = [len(problem.sample.Y) for problem in problems]
    assert sizes == [VALIDATED] * 3 + [N] * 2
    assert "the limit of 2 trials was reached" in found.reason


def test_what_the_user_gave_stays_with_all_rows_too(rows, problems):
    search = GradientSearch(max_trials=6)
    model = small(kernel_y=Gaussian(0.9), search=search).fit(*rows)
    lengths = {trial.parameters.lengthscale_y for trial in model.selection_.path}
    assert len(problems[-1].sample.Y) == N
    assert np.ptp(list(lengths)) < 1e-12  # exp(log(0.9)), in some order
    assert lengths.pop() == pytest.approx(0.9)


def test_no_second_descent_if_all_rows_were_for_validation(rows, problems):
    found = small(N, search="gradient").fit(*rows).selection_
    assert {len(problem.sample.Y) for problem in problems} == {N}
    assert "from there" not in found.reason


@pytest.mark.parametrize("trial", [2, 4])
def test_an_interruption_keeps_the_best_so_far(rows, monkeypatch, trial):
    evaluate, sizes = HeldOutObjective.value_and_gradient, []

    def interrupted(self, theta):
        if len(sizes) == trial:
            raise KeyboardInterrupt
        sizes.append(len(self.problem.sample.Y))
        return evaluate(self, theta)

    monkeypatch.setattr(HeldOutObjective, "value_and_gradient", interrupted)
    search = GradientSearch(max_trials=8)  # four with some rows, four with all
    found = small(search=search).fit(*rows).selection_
    assert sizes == [VALIDATED] * trial
    assert found.reason == "interrupted"
    assert len(found.path) == trial
