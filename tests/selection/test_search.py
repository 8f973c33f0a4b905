"""Searches: what they return, how they stop, and that they improve."""

import io
from dataclasses import replace

import numpy as np
import pytest

from kexpfam._progress import ProgressBar
from kexpfam.errors import IllConditionedError
from kexpfam.family import LogDensities, RowScores, cross_validated
from kexpfam.kernels import Constant, Gaussian, Matern, separable
from kexpfam.selection import (
    Bounds,
    HeldOutLikelihood,
    HeldOutObjective,
    HeldOutScore,
    Parameters,
    Penalty,
    paper_grid,
    refine,
)
from kexpfam.selection.candidates import Task
from kexpfam.selection.exact_path import ExactPath
from kexpfam.selection.spec import LambdaPath
from tests.selection.cases import BASE, in_folds, make_problem, make_sample
from tests.tolerances import SOLVE, assert_close

SMALL = {"lengthscales": (0.5, 1.5), "lambdas": (0.1, 1.0)}
START = Parameters((1.0, 1.0), 1.0, 0.1)


@pytest.fixture(scope="module")
def problem():
    return make_problem(n=60, n_centers=15)


def objective_of(problem, penalty=None, criterion=None):
    criterion = criterion or HeldOutLikelihood.of(problem)
    return HeldOutObjective(problem, Gaussian(), Gaussian(), criterion, penalty)


def interrupt_after(trials):
    def progress(done, _total, _best):
        if done == trials:
            raise KeyboardInterrupt

    return progress


def test_held_out_means_of_candidates_are_those_of_the_objectives(problem):
    theta = START.theta
    kernel = separable(Gaussian((1.0, 1.0)), Gaussian(1.0))
    score = objective_of(problem, criterion=HeldOutScore()).value(theta).loss
    path = LambdaPath(kernel, (0.1,))
    by_score, by_likelihood = (
        Task("plain", problem, path, "score", criterion, np.zeros(60)).candidates()
        for criterion in (RowScores, LogDensities.of)
    )
    assert_close(by_score[0].held_out.mean(), -score, SOLVE)
    criterion = HeldOutLikelihood.of(problem, resolution=1.0)
    exact = objective_of(problem, criterion=criterion).value(theta).loss
    # Candidates are validated in single precision, with errors of about 1e-5.
    assert_close(by_likelihood[0].held_out.mean(), -exact, 1e-4)


def test_constant_kernel_of_x_is_searched_over_y_only(problem):
    result = paper_grid(problem, kernel_x=Constant(), **SMALL)
    assert all(trial.parameters.lengthscale_x == () for trial in result.path)
    assert result.kernel_x == Constant()
    refined = refine(
        HeldOutObjective(
            problem, Constant(), Gaussian(), HeldOutLikelihood.of(problem)
        ),
        result.best.parameters,
    )
    assert refined.kernel_x == Constant()


@pytest.mark.parametrize("objective", ["likelihood", "score"])
def test_paper_grid_equals_exact_paths(objective):
    problem = make_problem(n=20)
    sigmas, lams = (0.5, 1.0, 2.0), (0.01, 0.1)
    result = paper_grid(problem, lengthscales=sigmas, lambdas=lams, objective=objective)
    expected = []
    for sigma in sigmas:
        path = ExactPath.of(separable(Gaussian(sigma), Gaussian(sigma)), problem)
        criterion = (
            RowScores(problem, path.basis)
            if objective == "score"
            else LogDensities.of(problem, path.basis, dtype=np.float64)
        )
        held_out = cross_validated(path.without_folds(lams), criterion)
        expected.extend(-held_out.mean(axis=1))
    assert_close([trial.value for trial in result.path], expected)
    assert result.best.parameters.lengthscale_x == (result.kernel_y.lengthscale,) * 2


def test_wide_lengthscales_of_x_are_those_of_y_times_the_root_of_the_columns():
    problem = make_problem(n=20)
    some = {"lengthscales": (0.5, 1.0), "lambdas": (0.1,)}
    wide = paper_grid(problem, wide_x=True, **some)
    for trial in wide.path:
        ell = np.sqrt(2.0) * trial.parameters.lengthscale_y
        assert_close(trial.parameters.lengthscale_x, (ell, ell))
    one = paper_grid(problem, kernel_x=Constant(), wide_x=True, **some)
    assert one.path[0].parameters.lengthscale_x == ()


def test_paper_grid_has_twenty_by_twenty_values_and_says_when_its_edge_is_best():
    result = paper_grid(make_problem(n=20), kernel_y=Matern(nu=3.5))
    assert len(result.path) == 400
    assert isinstance(result.kernel_y, Matern)
    edge = paper_grid(make_problem(n=20), lengthscales=(30.0, 40.0), lambdas=(9.0,))
    assert "lengthscale_y" in " ".join(edge.active_bounds)


@pytest.mark.parametrize("shared_x", [True, False])
def test_refinement_improves_the_objective_within_bounds(problem, shared_x):
    bounds = Bounds((0.5, 3.0), (0.4, 2.0), (0.01, 10.0))
    objective = objective_of(problem)
    result = refine(objective, START, bounds=bounds, shared_x=shared_x)
    assert_close(result.path[0].parameters.theta, START.theta)
    assert result.value < objective.value(START.theta).total - 0.01
    for trial in result.path:
        low, high = bounds.theta(2).T
        assert np.all(trial.parameters.theta >= low - 1e-12)
        assert np.all(trial.parameters.theta <= high + 1e-12)
    if shared_x:
        first, second = result.best.parameters.lengthscale_x
        assert_close(second, first)


def test_refinement_ends_where_the_gradient_vanishes_or_a_bound_is_active(problem):
    objective = objective_of(problem)
    result = refine(objective, START, tolerance=1e-9)
    _, gradient = objective.value_and_gradient(result.best.parameters.theta)
    names = result.best.parameters.names
    stuck = {name.split(" ")[0] for name in result.active_bounds}
    free = [g for g, name in zip(gradient, names, strict=True) if name not in stuck]
    # A relative improvement of 1e-9 leaves a gradient of about its square root.
    assert np.abs(free).max() < 1e-3


def test_refinement_from_a_bad_start_does_not_jump_into_a_corner(problem):
    bad = Parameters((0.5, 0.5), 0.12, 1e-3)
    objective = objective_of(problem)
    result = refine(objective, bad)
    first, second = result.path[:2]
    assert first.value > 5.0
    step = second.parameters.theta - first.parameters.theta
    assert 0.1 < np.abs(step).max() <= 1.0 + 1e-9
    assert result.value < refine(objective, START).value + 0.05


def test_active_bounds_are_named(problem):
    bounds = Bounds((0.5, 3.0), (3.0, 4.0), (0.5, 10.0))
    result = refine(objective_of(problem), START, bounds=bounds)
    assert "lengthscale_y lower" in result.active_bounds
    assert "regularization lower" in result.active_bounds
    assert "active: " in str(result)
    assert "lengthscale_y lower" in str(result)


def test_a_penalty_holds_lengthscales_near_its_center(problem):
    free = refine(objective_of(problem), START)
    held = refine(objective_of(problem, Penalty(50.0, START)), START)
    moved = [np.abs(r.best.parameters.theta[:-1]).max() for r in (free, held)]
    assert moved[1] < 0.1 * moved[0]
    assert held.penalty == Penalty(50.0, START)
    assert held.best.penalty > 0.0
    assert held.best.value > held.best.penalty


def test_refinement_with_the_score_works_for_several_columns_of_y():
    problem = make_problem(d=2)
    objective = objective_of(problem, criterion=HeldOutScore())
    result = refine(objective, START, max_trials=30)
    assert result.value < objective.value(START.theta).total


@pytest.mark.parametrize("step", [0.5, 1.0])
def test_ties_do_not_drive_the_lengthscale_of_y_below_its_bound(step):
    sample = make_sample(n=80, p=1)
    Y = step * np.round(sample.Y / step)
    sample = replace(sample, Y=Y, gsm_linear=BASE.grad_log_density(Y))
    problem = in_folds(sample, BASE, 4, np.random.default_rng(1), n_centers=25)
    start = Parameters((1.0,), 0.1, 3.0)
    fine = HeldOutLikelihood.of(problem, resolution=0.02)
    loose = Bounds(lengthscale_y=(0.02, 10.0), regularization=(1e-6, 10.0))
    unbounded = refine(objective_of(problem, criterion=fine), start, bounds=loose)
    default = refine(objective_of(problem, criterion=fine), start)
    floor = default.bounds.lengthscale_y[0]
    assert floor == 2.0 * step
    # Without the bound the likelihood rewards a comb of spikes at the recorded values.
    assert unbounded.best.parameters.lengthscale_y < 0.2 * floor
    assert unbounded.value < default.value
    assert all(t.parameters.lengthscale_y >= floor for t in default.path)


def test_bounds_follow_the_resolution_of_the_data():
    rng = np.random.default_rng(3)
    X, Y = rng.normal(size=(200, 2)), rng.normal(size=(200, 1))
    continuous = Bounds.of_data(X, Y)
    assert_close(continuous.lengthscale_y[0], 0.1 * Y.std())
    assert_close(continuous.regularization[0], 1e-4 / (200 * Y.var()))
    rounded = np.round(Y)
    tied = Bounds.of_data(X, rounded)
    assert tied.lengthscale_y[0] == 2.0
    distinct = len(np.unique(rounded))
    assert_close(tied.regularization[0], 1e-4 / (distinct * rounded.var()))
    Y[0] = Y[1]  # a tie by chance is not a recording step
    assert_close(Bounds.of_data(X, Y).lengthscale_y[0], 0.1 * Y.std())
    with pytest.raises(ValueError, match="Bounds of lengthscale_y"):
        Bounds(lengthscale_y=(2.0, 1.0))


def test_max_trials_is_kept_and_given_as_the_reason(problem):
    result = refine(objective_of(problem), START, max_trials=3)
    assert len(result.path) == 3
    assert result.reason == "the limit of 3 trials was reached"


def test_an_interrupted_search_returns_the_best_so_far(problem):
    searches = [
        lambda progress: paper_grid(problem, progress=progress),
        lambda progress: refine(objective_of(problem), START, progress=progress),
    ]
    for search in searches:
        result = search(interrupt_after(3))
        assert result.reason == "interrupted"
        assert len(result.path) == 3
        assert result.value == min(trial.value for trial in result.path)


def test_an_interruption_before_the_first_trial_is_passed_on(problem, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(HeldOutObjective, "value_and_gradient", interrupted)
    with pytest.raises(KeyboardInterrupt):
        refine(objective_of(problem), START)


def test_progress_counts_trials_and_tells_the_best_value(problem):
    calls = []
    result = paper_grid(problem, progress=lambda *told: calls.append(told), **SMALL)
    assert [done for done, _, _ in calls] == list(range(1, len(result.path) + 1))
    assert {total for _, total, _ in calls} == {len(result.path)}
    best = np.minimum.accumulate([trial.value for trial in result.path])
    assert [value for _, _, value in calls] == best.tolist()


def test_verbose_writes_one_line_where_there_is_no_terminal(problem, capsys):
    result = paper_grid(problem, verbose=True, **SMALL)
    lines = capsys.readouterr().err.splitlines()
    count = len(result.path)
    assert lines == [f"paper grid: {count} of {count}, best {result.value:.5g}"]
    paper_grid(problem, **SMALL)
    assert capsys.readouterr() == ("", "")


def test_a_terminal_gets_a_bar():
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    stream = Terminal()
    with ProgressBar("search", stream=stream) as bar:
        bar(1, 2, 0.5)
        assert "[###############...............] search: 1 of 2" in stream.getvalue()
    assert stream.getvalue().endswith("search: 1 of 2, best 0.5\n")


def test_a_result_reads_well(problem):
    text = str(paper_grid(problem, **SMALL))
    assert text.startswith("paper grid by held-out score in 4 folds: ")
    for part in ("chosen: lengthscale_x=(", "stopped: the grid", "penalty: none"):
        assert part in text


def test_searches_say_what_they_cannot_do(problem):
    with pytest.raises(ValueError, match="objective must be"):
        paper_grid(problem, objective="evidence")
    with pytest.raises(ValueError, match="one column of y, got 2"):
        paper_grid(make_problem(d=2), objective="likelihood")
    hopeless = Bounds((1e3, 1e3), (50.0, 50.0), (1e-300, 1e-300))
    objective = objective_of(problem, criterion=HeldOutScore())
    with pytest.raises(IllConditionedError, match="found no hyperparameters"):
        refine(objective, START, bounds=hopeless)
