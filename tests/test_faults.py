"""What goes wrong around the library: memory, disks, killed processes, others' threads.

Nothing is lost or half-written, a sentence says what to do, and who predicts at the
same time, here or in another process, has the same numbers to the last bit.
"""

import functools
import multiprocessing
import os
import pickle
import random
import signal
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import joblib
import numpy as np
import pytest

import kexpfam
from kexpfam import KCEF, load
from tests.cli.tables import houses, write
from tests.persistence.models import X, fitted, scores

pytestmark = pytest.mark.skipif(os.name == "nt", reason="limits and signals of Unix")


def program(code, *words, **options):
    """A process that runs some code, with `sys.argv[1:]`."""
    source = str(Path(kexpfam.__file__).parents[1])
    root = str(Path(__file__).parents[1])
    paths = os.pathsep.join([source, root, os.environ.get("PYTHONPATH", "")])
    env = {**os.environ, "PYTHONPATH": paths, "OPENBLAS_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, words)],
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def ended(code, *words):
    """Exit code, output and errors of such a process."""
    with program(code, *words) as process:
        output, errors = process.communicate(timeout=300)
    return process.returncode, output, errors


# --- memory --------------------------------------------------------------------------

# What all of them import first: the limit is met by the work, and not by imports.
LIMITED = """
    import resource, sys
    import numpy as np
    from kexpfam import KCEF, AutoKCEF, load
    from kexpfam.cli import main
    from kexpfam.cli import fit, predict

    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(300, 2)), rng.normal(size=300)
    KCEF(select=None).fit(x, y).predict(x)

    def limit(megabytes):
        with open("/proc/self/statm") as file:
            held = int(file.read().split()[0]) * resource.getpagesize()
        most = held + megabytes * 2**20
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
"""
PROC = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")


@PROC
def test_a_fit_without_memory_is_an_error_after_which_all_goes_on():
    code = f"""{LIMITED}
    X, Y = rng.normal(size=(9000, 2)), rng.normal(size=9000)
    model = KCEF(select=None, n_components=2500, random_state=0)
    limit(100)
    try:
        model.fit(X, Y)
    except MemoryError as error:
        print("said", str(error))
    print(hasattr(model, "family_"), KCEF(select=None).fit(x, y).predict(x[:1]).shape)
    """
    code_, output, errors = ended(code)
    assert code_ == 0, errors
    assert output.startswith("said ")
    assert output.splitlines()[-1] == "False (1,)"


@PROC
@pytest.mark.parametrize("command", ["fit", "predict"])
def test_the_program_says_that_there_is_not_enough_memory(command, tmp_path):
    data = tmp_path / "a.csv"
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(200_000, 3)).round(3).tolist()
    data.write_text("a,b,y\n" + "".join(f"{a},{b},{y}\n" for a, b, y in rows))
    model, result = tmp_path / "m.kexpfam", tmp_path / "p.csv"
    few = {name: rng.normal(size=50) for name in "ab"}
    KCEF(select=None).fit(few, rng.normal(size=50)).save(model)
    words = {
        "fit": ["fit", data, "--target", "y", "-o", result.with_suffix(".kexpfam")],
        "predict": ["predict", model, data, "-o", result],
    }[command]
    code = f"{LIMITED}\n    limit(12)\n    main(sys.argv[1:])"
    exit_code, output, errors = ended(code, *words)
    assert exit_code == 1, (output, errors)
    assert "Error: There is not enough memory; use fewer rows." in errors
    assert "Traceback" not in errors
    assert sorted(os.listdir(tmp_path)) == ["a.csv", "m.kexpfam"]


# --- disks ---------------------------------------------------------------------------

# Writes end in the middle: what a full disk does, without one.
SHORT = """
    import resource, sys
    from kexpfam import load
    from kexpfam.cli import main
    model = load(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
"""


def test_a_write_that_ends_in_the_middle_leaves_the_old_file(tmp_path):
    path, other = tmp_path / "model", tmp_path / "other"
    fitted("KEF").save(path)
    fitted("process").save(other)
    before = path.read_bytes()
    code = f"""{SHORT}
    try:
        model.save(sys.argv[2])
    except OSError as error:
        print(error)
    """
    exit_code, output, errors = ended(code, other, path)
    assert exit_code == 0, errors
    assert output.startswith(f"Cannot write '{path}': ")
    assert output.strip().endswith("what was there before is as it was.")
    assert path.read_bytes() == before
    assert sorted(os.listdir(tmp_path)) == ["model", "other"]


@pytest.mark.parametrize("suffix", ["csv", "parquet", "png", "kexpfam"])
def test_results_of_the_program_are_whole_or_not_there(suffix, tmp_path, fitted_table):
    model, data = fitted_table
    result = tmp_path / f"result.{suffix}"
    words = {
        "png": ["plot", model, data, "-o", result],
        "kexpfam": ["fit", data, "--target", "price", "--model", "kcef", "-o", result],
    }.get(suffix, ["sample", model, data, "-n", 500, "-o", result])
    exit_code, _, errors = ended(f"{SHORT}\n    main(sys.argv[2:])", model, *words)
    assert exit_code == 1, errors
    last = errors.strip().splitlines()[-1]
    assert last.startswith("Error: ")
    assert str(result) in last
    assert "Traceback" not in errors
    assert os.listdir(tmp_path) == []


@pytest.fixture(scope="module")
def fitted_table(tmp_path_factory):
    """A model of houses in a file, and their table."""
    folder = tmp_path_factory.mktemp("table")
    data = write(folder / "houses.csv", houses())
    model = KCEF(select=None).fit(
        {name: column for name, column in houses().items() if name != "price"},
        houses()["price"],
    )
    model.save(folder / "model.kexpfam")
    return folder / "model.kexpfam", data


# --- killed processes ----------------------------------------------------------------


@pytest.mark.parametrize("work", ["save", "merge"])
def test_a_process_killed_at_any_moment_leaves_a_whole_file(work, tmp_path):
    path = tmp_path / "model.kexpfam"
    first = fitted("sums")
    first.save(path, sums=True)
    steps = {
        "save": "model.save(path, sums=True)",
        "merge": "model = load(path); model.merge(part); model.save(path, sums=True)",
    }[work]
    code = f"""
        import sys
        from kexpfam import load
        from tests.persistence.models import MORE_X, MORE_Y
        path = sys.argv[1]
        model = load(path)
        part = model.emptied().partial_fit(MORE_X[:5], MORE_Y[:5])
        print("ready", flush=True)
        while True:
            {steps}
    """
    rng, rows = random.Random(0), []
    for _ in range(4):
        with program(code, path) as process:
            assert process.stdout.readline() == "ready\n"
            time.sleep(rng.uniform(0.05, 0.5))
            process.send_signal(signal.SIGKILL)
        rows.append(load(path).n_rows_)
    assert rows == sorted(rows)
    added = rows[-1] - first.n_rows_  # whole merges, of five rows each
    assert added == pytest.approx(5 * round(added / 5), abs=1e-6)
    left = [name for name in os.listdir(tmp_path) if name != path.name]
    assert all(name.startswith(".model.kexpfam.") for name in left)
    first.save(path)
    assert os.listdir(tmp_path) == [path.name]


def test_a_fit_that_is_killed_leaves_nothing_new(tmp_path):
    data, model = tmp_path / "a.csv", tmp_path / "a.kexpfam"
    write(data, houses(3000))  # takes longer than it is given
    model.write_bytes(b"what was there before")
    code = "from kexpfam.cli import main; import sys; main(sys.argv[1:])"
    words = ["fit", data, "--target", "price", "--force", "-o", model]
    for wait in (0.0, 1.0):
        with program(code, *words) as process:
            process.stderr.readline()  # it has begun
            time.sleep(wait)
            process.send_signal(signal.SIGKILL)
        assert process.returncode == -signal.SIGKILL
        assert model.read_bytes() == b"what was there before"
        assert sorted(os.listdir(tmp_path)) == ["a.csv", "a.kexpfam"]


# --- threads and processes of others -------------------------------------------------

MODELS = ("plain", "process", "average", "summary", "bridged", "KEF")


def answers(model):
    """Log densities, and quantiles where there are conditions."""
    found = scores(model)
    if not hasattr(model, "given"):
        return found
    p = model.given(X[:8])
    parts = [found, p.quantile([0.1, 0.5]).ravel(), p.mean(), p.std(), p.mode()]
    return np.concatenate([*parts, p.rvs(3, random_state=0).ravel()])


@functools.cache
def expected(name):
    return answers(fitted(name))


@pytest.mark.parametrize("name", MODELS)
def test_threads_that_ask_one_model_at_once_have_the_same_bits(name, tmp_path):
    """A model from a file has nothing in memory yet: all begin at the same place."""
    fitted(name).save(tmp_path / "model")
    model, many = load(tmp_path / "model"), 8
    alone = answers(load(tmp_path / "model"))
    together = threading.Barrier(many)

    def ask(_):
        together.wait()
        return [answers(model) for _ in range(3)]

    with ThreadPoolExecutor(many) as threads:
        for found in threads.map(ask, range(many)):
            for one in found:
                np.testing.assert_array_equal(one, alone)


# JAX, which other tests have loaded, warns whenever a process is forked.
FORKED = pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")


@FORKED
@pytest.mark.parametrize("name", ["plain", "average", "KEF"])
@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_processes_of_every_kind_predict_the_same_bits(name, start):
    context = multiprocessing.get_context(start)
    with ProcessPoolExecutor(2, mp_context=context) as workers:
        for found in workers.map(answers, [fitted(name)] * 3, timeout=240):
            np.testing.assert_array_equal(found, expected(name))


@FORKED
def test_a_process_that_is_forked_after_predictions_predicts():
    """Pools of threads do not survive a fork; locks must not be held by ghosts."""
    model = KCEF(select=None, n_jobs=2).fit(*_many())
    before = model.score_samples(*_many())
    context = multiprocessing.get_context("fork")
    with context.Pool(2) as pool:
        jobs = [pool.apply_async(model.score_samples, _many()) for _ in range(2)]
        for job in jobs:
            np.testing.assert_array_equal(job.get(timeout=120), before)


def test_a_process_that_is_forked_while_threads_fit_fits():
    """What they hold at that moment is held by nobody there."""
    code = """
        import os, signal, sys, threading, time
        import numpy as np
        from kexpfam import KCEF

        rng = np.random.default_rng(0)
        X, y = rng.normal(size=(1500, 2)), rng.normal(size=1500)
        here = KCEF(select=None).fit(X[:60], y[:60]).score_samples(X[:9], y[:9])
        done = threading.Event()

        def work():
            while not done.is_set():
                KCEF(select=None).fit(X, y)

        threads = [threading.Thread(target=work) for _ in range(2)]
        for thread in threads:
            thread.start()
        codes = []
        for _ in range(10):
            time.sleep(0.05)
            if not (child := os.fork()):
                signal.alarm(30)
                found = KCEF(select=None).fit(X[:60], y[:60])
                os._exit(not np.array_equal(found.score_samples(X[:9], y[:9]), here))
            codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
            if codes[-1]:
                break
        done.set()
        print(codes)
    """
    exit_code, output, errors = ended(code)
    assert exit_code == 0, errors
    assert output.strip() == str([0] * 10)


def _many():
    rng = np.random.default_rng(0)
    return rng.normal(size=(1500, 2)), rng.normal(size=1500)


@pytest.mark.parametrize("name", ["process", "average", "summary"])
def test_joblib_takes_models_to_its_workers(name):
    model = fitted(name)
    for backend in ("loky", "threading"):
        found = joblib.Parallel(2, backend=backend)(
            joblib.delayed(answers)(model) for _ in range(2)
        )
        for one in found:
            np.testing.assert_array_equal(one, expected(name))
    np.testing.assert_array_equal(
        answers(pickle.loads(pickle.dumps(model))), expected(name)
    )


def test_workers_fit_as_this_process_does():
    x, y = _many()
    x, y = x[:60], y[:60]
    here = KCEF(select=None, random_state=0).fit(x, y).score_samples(x, y)
    jobs = [joblib.delayed(KCEF(select=None, random_state=0).fit)(x, y)] * 2
    for model in joblib.Parallel(2)(jobs):
        np.testing.assert_array_equal(model.score_samples(x, y), here)


# --- a computer that sleeps ----------------------------------------------------------


SLEEPER = """
    import sys, time
    import numpy as np
    from kexpfam import AutoKCEF

    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 3))
    y = x[:, 0] + rng.gamma(2.0, size=400)
    print("begun", flush=True)
    start = time.monotonic()
    model = AutoKCEF(time_budget=float(sys.argv[1]), random_state=0).fit(x, y)
    print(time.monotonic() - start, np.isfinite(model.score_samples(x, y)).all())
"""


@pytest.mark.slow
@pytest.mark.parametrize("budget", [2.0, 600.0])
def test_a_fit_that_was_asleep_goes_on_and_ends_with_a_model(budget):
    """The time away is spent of a budget, as far as the clock counted it."""
    with program(SLEEPER, budget) as process:
        assert process.stdout.readline() == "begun\n"
        time.sleep(0.5)
        process.send_signal(signal.SIGSTOP)
        time.sleep(4.0)
        assert process.poll() is None
        process.send_signal(signal.SIGCONT)
        output, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    seconds, finite = output.split()
    assert finite == "True"
    assert float(seconds) > 4.0
