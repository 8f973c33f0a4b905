"""Pieces of work on threads: who does them changes nothing but the time."""

import os
import signal
import threading
import time
from contextlib import nullcontext

import joblib
import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from kexpfam import KCEF, KEF, AutoKCEF, _parallel
from kexpfam._parallel import (
    blas_on_all_cores,
    on_threads,
    one_of_many_threads,
    single_threaded_blas,
    thread_count,
    threads_of,
)
from kexpfam.base_densities import GaussianBase
from kexpfam.data import TrainingRows
from kexpfam.distributions import ClosedFormDensity, MixtureDensity, one_column


@pytest.mark.parametrize("n_jobs", [1, 2, 5, None])
def test_results_are_in_the_order_of_the_items(n_jobs):
    def slow_at_first(number):
        time.sleep(0.02 if number == 0 else 0.0)
        return number

    assert on_threads(slow_at_first, range(20), n_jobs) == list(range(20))
    assert on_threads(slow_at_first, [], n_jobs) == []


def test_a_thread_is_one_of_many_and_has_one_thread_for_blas():
    def seen(_):
        counts = {
            i["num_threads"] for i in threadpool_info() if i["user_api"] == "blas"
        }
        return thread_count(None), counts

    with threadpool_limits(2, user_api="blas"):
        assert on_threads(seen, range(8), n_jobs=2) == [(1, {1})] * 8


def test_a_limit_inside_a_thread_is_the_one_that_is_there_and_is_lifted_once():
    def blas_threads():
        return {i["num_threads"] for i in threadpool_info() if i["user_api"] == "blas"}

    def nested(_):
        with single_threaded_blas():
            inside = blas_threads()
        return inside | blas_threads()

    with threadpool_limits(2, user_api="blas"):
        assert on_threads(nested, range(4), n_jobs=2) == [{1}] * 4
        assert blas_threads() == {2}


def test_a_thread_that_is_one_of_many_starts_no_others():
    with one_of_many_threads():
        names = on_threads(lambda _: threading.get_ident(), range(4), n_jobs=4)
    assert set(names) == {threading.get_ident()}


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_an_error_is_raised_and_ends_what_has_not_begun(n_jobs):
    begun = []

    def work(number):
        begun.append(number)
        time.sleep(0.005)
        if number == 3:
            raise ZeroDivisionError("three")

    with pytest.raises(ZeroDivisionError, match="three"):
        on_threads(work, range(1000), n_jobs)
    assert len(begun) < 100


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_ctrl_c_ends_what_has_not_begun(n_jobs):
    begun = []

    def work(number):
        begun.append(number)
        time.sleep(0.01)

    # Python drops an interrupt that comes while an object is finalised: press again.
    presses = [
        threading.Timer(wait, os.kill, (os.getpid(), signal.SIGINT))
        for wait in (0.1, 3)
    ]
    for press in presses:
        press.start()
    with pytest.raises(KeyboardInterrupt):
        on_threads(work, range(10_000), n_jobs)
    for press in presses:
        press.cancel()
    assert len(begun) < 9_000


def test_the_calling_thread_may_do_something_else():
    callers = []
    names = on_threads(
        lambda _: threading.get_ident(),
        range(3),
        n_jobs=2,
        meanwhile=lambda: callers.append(threading.get_ident()),
    )
    assert callers == [threading.get_ident()]
    assert threading.get_ident() not in names


def test_thread_count_follows_joblib():
    cores = thread_count(None)
    assert cores >= 1
    assert thread_count(3) == 3
    assert thread_count(-1) == cores
    assert cores == joblib.cpu_count()
    assert thread_count(-cores) == 1
    assert thread_count(-cores - 5) == 1
    if cores > 1:
        assert thread_count(-2) == cores - 1
    for wrong in (0, 1.5, True, "2"):
        with pytest.raises(ValueError, match="n_jobs must be a whole number"):
            thread_count(wrong)


@pytest.mark.parametrize("around", [{"backend": "threading"}, {}])
def test_without_n_jobs_a_surrounding_parallel_config_decides(around):
    cores = thread_count(None)
    with joblib.parallel_config(**around, n_jobs=1):
        assert thread_count(None) == 1
        assert thread_count(2) == 2
    with joblib.parallel_config(**around, n_jobs=-1):
        assert thread_count(None) == cores
    with joblib.parallel_config(**around, n_jobs=cores + 7):
        assert thread_count(None) == cores
    assert thread_count(None) == cores


def test_inside_a_fit_none_is_what_the_fit_was_told():
    cores = thread_count(None)
    with threads_of(1), threads_of(None):
        assert thread_count(None) == 1
        assert thread_count(3) == 3
    with threads_of(3):
        assert thread_count(None) == 3
        assert on_threads(lambda _: thread_count(None), range(4), 2) == [1] * 4
    assert thread_count(None) == cores


@pytest.mark.parametrize("kind", [KCEF, AutoKCEF, KEF])
def test_with_one_job_nothing_starts_threads(kind, monkeypatch):
    def refuse(*_):
        raise AssertionError("with n_jobs=1 there are no threads to start")

    monkeypatch.setattr(_parallel, "ThreadPoolExecutor", refuse)
    # From 1,000 rows on processes work in blocks of rows, and there are forests.
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1010, 2))
    y = np.sin(X[:, 0]) + 0.3 * rng.normal(size=len(X))
    model = kind(n_jobs=1, random_state=0)
    if kind is KEF:
        model.fit(y[:, None]).distribution().mean()
        return
    model.fit(X, y)
    model.given(X[:300]).logpdf(y[:300])
    model.score_samples(X[:300], y[:300])


@pytest.mark.parametrize("backend", ["threading", "loky"])
def test_a_worker_of_joblib_starts_no_threads_unless_told(backend):
    work = joblib.Parallel(n_jobs=2, backend=backend)
    assert work(joblib.delayed(thread_count)(n) for n in (None, 2)) == [1, 2]


def blas_threads():
    return {p["num_threads"] for p in threadpool_info() if p["user_api"] == "blas"}


def limited_blas(threads):
    threadpool_limits(threads, user_api="blas")


# Only the thread that has set a limit can change it, as long as it runs.
@pytest.mark.parametrize("mine", [True, False])
def test_a_long_piece_of_work_has_the_threads_of_blas_back(mine):
    (at_first,) = blas_threads()
    with threadpool_limits(2, user_api="blas") if mine else nullcontext():
        if not mine:
            on_a_thread(limited_blas, 2)
        assert blas_threads() == {2}
        with single_threaded_blas():
            assert blas_threads() == {1}
            with blas_on_all_cores():
                assert blas_threads() == {2}
            assert blas_threads() == {1}
            with one_of_many_threads(), blas_on_all_cores():
                assert blas_threads() == {1}
        assert blas_threads() == {2}
    on_a_thread(limited_blas, at_first)


def on_a_thread(work, *arguments):
    thread = threading.Thread(target=work, args=arguments)
    thread.start()
    thread.join()


@pytest.mark.parametrize("estimator", [KCEF(select=None), AutoKCEF(), KEF(select=None)])
def test_fits_run_with_one_thread_of_blas(estimator, monkeypatch):
    made, seen = TrainingRows.of, set()

    def noted(*rows, **how):
        seen.update(blas_threads())
        return made(*rows, **how)

    monkeypatch.setattr(TrainingRows, "of", noted)
    x = np.linspace(-1.0, 1.0, 12)[:, None]
    with threadpool_limits(2, user_api="blas"):
        estimator.fit(x, None if isinstance(estimator, KEF) else np.sin(3 * x[:, 0]))
    assert seen == {1}


def test_regions_and_modes_run_with_one_thread_of_blas(monkeypatch):
    seen, made = [], one_column.tabulate

    def noted(*arguments, **how):
        seen.append(blas_threads())
        return made(*arguments, **how)

    monkeypatch.setattr(one_column, "tabulate", noted)
    normals = [
        ClosedFormDensity(GaussianBase(1.0), np.array([c]), np.ones(1))
        for c in (-2.0, 2.0)
    ]
    with threadpool_limits(2, user_api="blas"):
        MixtureDensity(normals, [0.4, 0.6]).hpd(0.9)
        MixtureDensity(normals, [0.4, 0.6]).mode()
    assert seen == [{1}, {1}]
