"""Fits with Dask: any scheduler gives the model of memory, with lost workers too."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections import Counter

import joblib
import numpy as np
import pytest
from numpy.random import default_rng
from sklearn.model_selection import GridSearchCV

from kexpfam import KCEF, AutoKCEF
from kexpfam._progress import ProgressBar
from kexpfam.estimators import fitting
from kexpfam.family import Limits
from kexpfam.kernels import Gaussian
from tests.clusters import cluster
from tests.estimators.test_many_rows import SAME, SAMPLED, log_p, rows, settled
from tests.limits import limited
from tests.tolerances import assert_close

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
distributed = pytest.importorskip("distributed")
pandas = pytest.importorskip("pandas")

# The models here are crude on purpose: few centres, and λ from nowhere.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::kexpfam.errors.BlindnessWarning"),
]

CHUNK = 130
PARTS = 8  # of 1000 rows


def small(estimator):
    """The estimator, for which a few hundred rows are many."""
    return limited(estimator, Limits(design_rows=SAMPLED, average_rows=SAMPLED))


@pytest.fixture(scope="module")
def processes():
    """A client of two worker processes."""
    with cluster(n_workers=2, processes=True) as client:
        yield client


@pytest.fixture(scope="module")
def threads():
    """A client of one worker in this process, with two threads."""
    with cluster(n_workers=1, threads_per_worker=2, processes=False) as client:
        yield client


def arrays():
    X, y = rows()
    return da.from_array(X, chunks=(CHUNK, 2)), da.from_array(y, chunks=CHUNK)


def frame():
    X, y = rows()
    table = pandas.DataFrame(X, columns=["a", "b"]).assign(y=y)
    return dd.from_pandas(table, npartitions=5), "y"


@pytest.fixture(scope="module")
def expected():
    """Log densities of the model of rows in memory."""
    return log_p(settled().fit(*rows()))


def check(model, expected):
    assert model.n_rows_ == pytest.approx(1000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # arrays have no names, frames do
        assert_close(log_p(model), expected, SAME)


# --- where the rows are summed


@pytest.mark.parametrize("data", [arrays, frame])
def test_threads_of_dask_give_the_model_of_memory(data, expected):
    with dask.config.set(scheduler="threads"):
        check(settled().fit(*data()), expected)
        check(settled(n_jobs=1).fit(*data()), expected)


def test_processes_of_dask_give_the_model_of_memory(expected):
    with dask.config.set(scheduler="processes", num_workers=2):
        check(settled().fit(*arrays()), expected)


@pytest.mark.parametrize("data", [arrays, frame])
def test_a_cluster_in_this_process_gives_the_model_of_memory(data, threads, expected):
    check(settled().fit(*data(), client=threads), expected)


@pytest.mark.parametrize("data", [rows, arrays, frame])
def test_a_cluster_of_processes_gives_the_model_of_memory(data, processes, expected):
    check(settled().fit(*data(), client=processes), expected)


def test_the_current_client_is_used_without_being_named(processes, expected, tmp_path):
    X, y = arrays()
    with processes.as_current():
        model = settled().fit(noted(X, tmp_path), y)
    check(model, expected)
    readers = {pid for pid, _ in read(tmp_path)}
    assert readers <= set(processes.run(os.getpid).values())


def test_weights_go_to_the_cluster_too(processes):
    X, y = rows()
    weights = default_rng(1).uniform(0.5, 2.0, len(y))
    start = settled().fit(X, y, sample_weight=weights)
    data = (*arrays(), da.from_array(weights, chunks=CHUNK))
    model = settled().fit(*data, client=processes)
    assert model.n_rows_ == pytest.approx(weights.sum())
    assert_close(log_p(model), log_p(start), SAME)


def test_likelihood_fits_on_a_cluster_are_those_of_memory(processes, threads):
    options = {"fit_method": "likelihood", "regularization": 1e-3}
    expected = log_p(settled(**options).fit(*rows()))
    # Steps pass on rounding, and stop at the same place.
    for client in (processes, threads):
        model = settled(**options).fit(*arrays(), client=client)
        assert model.n_rows_ == pytest.approx(1000)
        assert_close(log_p(model), expected, 1e-8)
    with dask.config.set(scheduler="synchronous"):
        assert_close(log_p(settled(**options).fit(*arrays())), expected, 1e-8)


def test_an_average_on_a_cluster_is_that_of_memory(processes):
    X, y = rows(600)
    here = small(AutoKCEF(random_state=0, likelihood=False)).fit(X, y)
    X, y = da.from_array(X, chunks=(CHUNK, 2)), da.from_array(y, chunks=CHUNK)
    there = small(AutoKCEF(random_state=0, likelihood=False)).fit(
        X, y, client=processes
    )
    assert len(there.members_) == len(here.members_)
    assert_close(log_p(there), log_p(here), SAME)


# --- what can go wrong


def note(block, folder, seconds=0.0, block_info=None):
    """A block as it is, with a line about who read it."""
    number = block_info[0]["chunk-location"][0]
    line = f"{os.getpid()} {number}\n".encode()
    file = os.open(folder / "reads", os.O_CREAT | os.O_APPEND | os.O_WRONLY)
    os.write(file, line)  # of one line at a time, from several processes
    os.close(file)
    time.sleep(seconds)
    return block


def noted(X, folder, seconds=0.0):
    meta = np.empty((0, 2))
    return X.map_blocks(note, folder, seconds, dtype=float, meta=meta)


def read(folder):
    """Process and number of all blocks that were read, in order."""
    lines = (folder / "reads").read_text().splitlines()
    return [tuple(map(int, line.split())) for line in lines]


def test_a_killed_worker_costs_only_its_blocks(monkeypatch, tmp_path, expected):
    X, y = rows()
    small = 25  # rows: 40 blocks
    X, y = da.from_array(X, chunks=(small, 2)), da.from_array(y, chunks=small)
    killed = []

    class Killer:
        def __init__(self, label, *, shown):
            self.before = len(read(tmp_path))  # of the pass that drew the sample

        def __call__(self, done, total):
            assert total == 40
            if done >= 15 and not killed:
                killed.append(next(iter(client.run(os.getpid).values())))
                os.kill(killed[0], signal.SIGKILL)

        def __enter__(self):
            return self

        def __exit__(self, *_):
            killed.append(read(tmp_path)[self.before :])

    monkeypatch.setattr(fitting, "ProgressBar", Killer)
    with cluster(n_workers=2, processes=True, silence_logs=50) as client:
        first = set(client.run(os.getpid).values())
        model = settled(verbose=True).fit(noted(X, tmp_path, 0.02), y, client=client)
    check(model, expected)
    victim, reads = killed
    assert victim in first
    assert victim in {pid for pid, _ in reads}  # it had worked in this pass
    assert len({pid for pid, _ in reads}) >= 2
    blocks = Counter(number for _, number in reads)
    assert set(blocks) == set(range(40))
    assert 40 <= len(reads) < 2 * 40  # and not all over again


def test_an_interrupted_fit_leaves_the_cluster_as_good_as_before(
    monkeypatch, processes, expected
):
    class Impatient(ProgressBar):
        def __call__(self, done, total):
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(fitting, "ProgressBar", Impatient)
        model = settled(verbose=True)
        with pytest.raises(KeyboardInterrupt):
            model.fit(*arrays(), client=processes)
    assert not model.__sklearn_is_fitted__()
    check(model.set_params(verbose=False).fit(*arrays(), client=processes), expected)


def test_progress_counts_parts_of_the_data(processes, capsys):
    for options in ({}, {"client": processes}):
        settled(verbose=True).fit(*arrays(), **options)
        out, err = capsys.readouterr()
        assert out == ""
        assert err == f"KCEF, parts of the data: {PARTS} of {PARTS}\n"


@pytest.mark.parametrize("kind", ["arrays", "frame"])
def test_a_missing_number_on_a_cluster_is_one_clear_sentence(kind, processes):
    X, y = rows()
    X[500, 1] = np.nan
    if kind == "arrays":
        data = da.from_array(X, chunks=(CHUNK, 2)), da.from_array(y, chunks=CHUNK)
        place = f"row {500 - 3 * CHUNK} of partition 3, column 1"
    else:
        table = pandas.DataFrame(X, columns=["a", "b"]).assign(y=y)
        data = dd.from_pandas(table, npartitions=5), "y"
        place = "row 100 of partition 2, column 'b'"
    for options in ({}, {"client": processes}):
        with pytest.raises(ValueError) as failure:
            settled().fit(*data, **options)
        assert str(failure.value) == (
            f"X must hold finite numbers only, got nan in {place}; drop or fill such "
            f"rows."
        )


# --- predictions


def test_predictions_of_dask_collections_are_those_of_memory(processes):
    X, y = rows()
    model = settled().fit(X, y)
    collection = da.from_array(X, chunks=(CHUNK, 2))
    means = collection.map_blocks(model.predict, drop_axis=1, dtype=float)
    ends = collection.map_blocks(model.predict_interval, chunks=(CHUNK, 2), dtype=float)
    for compute in (dask.compute, lambda *a: processes.gather(processes.compute(a))):
        got = compute(means, ends)
        assert_close(got[0], model.predict(X), SAME)
        assert_close(got[1], model.predict_interval(X), SAME)


# --- the search, by joblib


@pytest.fixture(scope="module")
def searched():
    """A search in memory, one candidate after another."""
    X, y = rows(200)
    return small(KCEF(kernel_x=Gaussian(1.0), n_jobs=1, random_state=0)).fit(X, y)


def same_search(model, searched):
    got, wanted = model.selection_, searched.selection_
    assert got.reason == wanted.reason
    assert len(got.path) == len(wanted.path)
    for one, other in zip(got.path, wanted.path, strict=True):
        assert (one.coordinates, one.kernel, one.lam) == (
            other.coordinates,
            other.kernel,
            other.lam,
        )
        np.testing.assert_array_equal(one.held_out, other.held_out)
    np.testing.assert_array_equal(log_p(model), log_p(searched))


def test_a_search_on_a_cluster_is_that_of_this_process(processes, searched):
    X, y = rows(200)
    before = _tasks_done(processes)
    with processes.as_current(), joblib.parallel_config(backend="dask"):
        model = small(KCEF(kernel_x=Gaussian(1.0), random_state=0)).fit(X, y)
    same_search(model, searched)
    assert _tasks_done(processes) > before


def _tasks_done(client):
    """How many tasks the workers have done for joblib."""
    return client.run_on_scheduler(
        lambda dask_scheduler: sum(
            prefix.state_counts["memory"] + prefix.state_counts["released"]
            for name, prefix in dask_scheduler.task_prefixes.items()
            if re.search("alone|batch", name, re.IGNORECASE)
        )
    )


def test_a_grid_search_on_a_cluster_is_that_of_this_process(processes):
    X, y = rows(150)
    grid = {"regularization": [0.01, 0.1, 1.0], "kernel_y": [Gaussian(0.7)]}
    model = small(KCEF(kernel_x=Gaussian(1.0), n_components=20, random_state=0))
    here = GridSearchCV(model, grid, cv=3).fit(X, y)
    with processes.as_current(), joblib.parallel_config(backend="dask"):
        there = GridSearchCV(model, grid, cv=3, n_jobs=2).fit(X, y)
    np.testing.assert_array_equal(
        there.cv_results_["mean_test_score"], here.cv_results_["mean_test_score"]
    )
    assert there.best_params_ == here.best_params_


def test_searches_inside_a_grid_search_on_a_cluster_end(processes):
    X, y = rows(150)
    model = small(KCEF(kernel_x=Gaussian(1.0), random_state=0))
    grid = {"kernel_y": [Gaussian(0.7), Gaussian(1.5)]}
    here = GridSearchCV(model, grid, cv=2).fit(X, y)
    with processes.as_current(), joblib.parallel_config(backend="dask"):
        there = GridSearchCV(model, grid, cv=2, n_jobs=2).fit(X, y)
    np.testing.assert_array_equal(
        there.cv_results_["mean_test_score"], here.cv_results_["mean_test_score"]
    )


# --- schedulers, clients and workers as processes of their own


def dask_process(role, file, *words):
    """A scheduler or a worker, known by a file."""
    module = f"distributed.cli.dask_{role}"
    command = [sys.executable, "-m", module, "--scheduler-file", file, *words]
    root = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))
    path = os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])
    return subprocess.Popen(
        [*map(str, command), "--no-dashboard"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1"},
    )


@pytest.fixture
def machines(tmp_path):
    """A scheduler, two workers, and a client in this process."""
    file = tmp_path / "scheduler.json"
    scheduler = dask_process("scheduler", file, "--port", "0", "--host", "127.0.0.1")
    workers = [
        dask_process("worker", file, "--nthreads", "1", "--no-nanny") for _ in range(2)
    ]
    client = distributed.Client(
        scheduler_file=str(file), set_as_default=False, timeout=60
    )
    client.wait_for_workers(2, timeout=60)
    yield scheduler, workers, client
    client.close(timeout=5)
    for process in (*workers, scheduler):
        process.send_signal(signal.SIGCONT)
        process.kill()
        process.wait()


def slow_blocks(folder, rows_each=25, seconds=0.02):
    X, y = rows()
    X = da.from_array(X, chunks=(rows_each, 2))
    return noted(X, folder, seconds), da.from_array(y, chunks=rows_each)


def hook(monkeypatch, act):
    """Call something after a few parts of the pass over all rows, once."""
    calls = []

    class Hook(ProgressBar):
        def __call__(self, done, total):
            if done >= 5 and not calls:
                calls.append(done)
                act()

    monkeypatch.setattr(fitting, "ProgressBar", Hook)


def test_a_scheduler_that_dies_ends_the_fit_and_the_error_says_what_to_do(
    monkeypatch, machines, tmp_path
):
    scheduler, _, client = machines
    hook(monkeypatch, scheduler.kill)
    model = settled(verbose=True)
    with pytest.raises(ConnectionError, match=r"scheduler was lost.*make a new client"):
        model.fit(*slow_blocks(tmp_path), client=client)
    assert not model.__sklearn_is_fitted__()
    # Whoever needs no cluster goes on.
    assert settled().fit(*rows()).__sklearn_is_fitted__()


FITS = """
import sys
import dask.array as da
import distributed
from pathlib import Path
from tests.estimators.test_clusters import settled, slow_blocks

with distributed.Client(scheduler_file=sys.argv[1], timeout=60) as client:
    X, y = slow_blocks(Path(sys.argv[2]), seconds=0.5)
    settled().fit(X, y, client=client)
"""


def test_a_client_that_dies_leaves_a_cluster_that_fits_for_others(
    machines, tmp_path, expected
):
    _, _, client = machines
    root = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))
    path = os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])
    file = client.scheduler_file
    other = subprocess.Popen(
        [sys.executable, "-c", FITS, str(file), str(tmp_path)],
        env={**os.environ, "PYTHONPATH": path},
    )
    ends = time.monotonic() + 120.0
    while not (tmp_path / "reads").exists() or len(read(tmp_path)) < 5:
        assert time.monotonic() < ends
        assert other.poll() is None
        time.sleep(0.05)
    other.kill()
    other.wait()
    check(settled().fit(*arrays(), client=client), expected)
    # What it had asked for is forgotten: hardly any of its forty blocks were read.
    before = len(read(tmp_path))
    time.sleep(2.0)
    assert len(read(tmp_path)) == before < 40


def test_a_worker_that_sleeps_for_half_a_minute_delays_a_fit_and_nothing_else(
    machines, tmp_path, expected
):
    """As a laptop does that is closed: no process knows how long it was away."""
    _, workers, client = machines
    workers[0].send_signal(signal.SIGSTOP)
    waking = threading.Timer(31.0, workers[0].send_signal, [signal.SIGCONT])
    waking.start()
    start = time.monotonic()
    try:
        model = settled().fit(*slow_blocks(tmp_path), client=client)
    finally:
        waking.cancel()
        workers[0].send_signal(signal.SIGCONT)
    check(model, expected)
    assert len({pid for pid, _ in read(tmp_path)}) >= 1
    assert time.monotonic() - start < 200.0
