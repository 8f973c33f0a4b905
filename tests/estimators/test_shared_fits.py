"""Work shared out by joblib: who does it changes nothing but the time."""

import operator
import os
import signal
import threading
import time

import joblib
import numpy as np
import pytest
from numpy.random import default_rng

from kexpfam import KCEF, AutoKCEF
from kexpfam._parallel import shared_out, thread_count
from kexpfam.data import Rows, TrainingRows
from kexpfam.family import Spec
from kexpfam.selection.candidates import Task
from kexpfam.selection.kernel_grids import kernels_x
from kexpfam.selection.spec import PLAIN, PLAIN_GRID, default_coordinates
from kexpfam.selection.validation import Validation
from tests.simulations import waves

# The models here are crude on purpose.
pytestmark = pytest.mark.filterwarnings("ignore::kexpfam.errors.BlindnessWarning")


def who(number):
    return number, os.getpid(), threading.get_ident(), thread_count(None)


def together(n_jobs, count=20):
    calls = [(number,) for number in range(count)]
    chunks = list(shared_out(who, calls, n_jobs))
    flat = [result for chunk in chunks for result in chunk]
    assert [result[0] for result in flat] == list(range(count))
    assert {result[3] for result in flat} == {1}  # no threads inside threads
    return chunks


def test_without_a_number_work_is_done_here_piece_by_piece():
    for n_jobs in (None, 1):
        chunks = together(n_jobs)
        assert [len(chunk) for chunk in chunks] == [1] * 20
        assert {chunk[0][2] for chunk in chunks} == {threading.get_ident()}


def owners(chunks, place):
    return {result[place] for chunk in chunks for result in chunk}


def test_a_number_makes_threads_of_this_process():
    chunks = together(2)
    assert [len(chunk) for chunk in chunks] == [8, 8, 4]
    assert owners(chunks, 1) == {os.getpid()}
    assert threading.get_ident() not in owners(chunks, 2)


@pytest.mark.parametrize(
    "around",
    [{"n_jobs": 2}, {"backend": "threading", "n_jobs": 2}],
    ids=["number", "backend"],
)
def test_a_surrounding_configuration_counts_if_no_number_is_given(around):
    with joblib.parallel_config(**around):
        chunks = together(None)
        assert threading.get_ident() not in owners(chunks, 2)
        assert owners(together(1), 2) == {threading.get_ident()}
    assert owners(chunks, 1) == {os.getpid()}


def test_a_surrounding_backend_of_processes_counts():
    with joblib.parallel_config(backend="loky", n_jobs=2):
        assert os.getpid() not in owners(together(None), 1)


def test_errors_of_the_work_are_raised_here():
    calls = [(1.0, float(divisor)) for divisor in (2, 1, 0, 3)]
    for n_jobs in (1, 2):
        with pytest.raises(ZeroDivisionError):
            list(shared_out(operator.truediv, calls, n_jobs))


def test_no_calls_have_no_results():
    for n_jobs in (1, 2):
        assert list(shared_out(who, [], n_jobs)) == []


# --- the search


@pytest.fixture(scope="module")
def rows():
    return waves(60, 2)


@pytest.fixture(scope="module")
def serial(rows):
    return KCEF(n_jobs=1, random_state=0).fit(*rows)


def check(model, serial, rows):
    got, wanted = model.selection_.path, serial.selection_.path
    assert len(got) == len(wanted)
    for one, other in zip(got, wanted, strict=True):
        assert one.coordinates == other.coordinates
        assert one.kernel == other.kernel
        assert one.lam == other.lam
        np.testing.assert_array_equal(one.held_out, other.held_out)
    np.testing.assert_array_equal(
        model.score_samples(*rows), serial.score_samples(*rows)
    )


@pytest.mark.parametrize("n_jobs", [None, 2, -1])
def test_a_search_has_the_same_candidates_for_any_number_of_jobs(n_jobs, serial, rows):
    check(KCEF(n_jobs=n_jobs, random_state=0).fit(*rows), serial, rows)


def test_a_search_has_the_same_candidates_in_a_configuration(serial, rows):
    with joblib.parallel_config(backend="threading", n_jobs=2):
        check(KCEF(random_state=0).fit(*rows), serial, rows)


@pytest.mark.parametrize("method", ["likelihood", "bridged"])
def test_other_fits_are_shared_out_too(method, rows):
    def fitted(n_jobs):
        return KCEF(
            fit_method=method, base="gaussian", n_jobs=n_jobs, random_state=0
        ).fit(*rows)

    check(fitted(2), fitted(1), rows)


@pytest.mark.slow
def test_an_average_is_the_same_for_any_number_of_jobs(rows):
    one, two = (AutoKCEF(n_jobs=n, random_state=0).fit(*rows) for n in (1, 2))
    assert one.n_candidates_ == two.n_candidates_
    np.testing.assert_array_equal(one.score_samples(*rows), two.score_samples(*rows))


def test_ctrl_c_keeps_what_the_jobs_have_finished(rows, monkeypatch):
    genuine, done = Task.candidates, []

    def sometimes(task):
        done.append(1)
        if len(done) == 10:  # in the second round of eight
            os.kill(os.getpid(), signal.SIGINT)  # to the main thread, which waits
            time.sleep(0.5)
        return genuine(task)

    monkeypatch.setattr(Task, "candidates", sometimes)
    model = KCEF(base="gaussian", n_jobs=2, random_state=0).fit(*rows)
    assert model.selection_.reason == "interrupted"
    kernels = {c.kernel for c in model.selection_.path if c.kernel is not None}
    assert len(kernels) == 8
    assert model.kernel_ in kernels
    assert np.isfinite(model.score(*rows))


def test_progress_counts_tasks_of_all_jobs(rows):
    validation = validation_of(rows)
    paths = PLAIN_GRID.paths(kernels_x(validation, PLAIN, PLAIN_GRID))
    tasks = validation.tasks(PLAIN, paths)
    seen = []
    validation.run(tasks, lambda done, total, best: seen.append((done, total)))
    n = len(tasks)
    assert seen == [(min(done, n), n) for done in range(8, n + 8, 8)]


def validation_of(rows):
    X, y = rows
    training = TrainingRows.of(Rows(X, y[:, None], np.ones(len(y))))
    validation = Validation.of(training, Spec(n_jobs=2), default_rng(0))
    validation.add_coordinates(default_coordinates()[:1])
    validation.add_bases()
    return validation
