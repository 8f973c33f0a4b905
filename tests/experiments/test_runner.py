import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from kexpfam.errors import KexpfamError, ResultFileError
from kexpfam.experiments import runner
from kexpfam.experiments.ledger import Ledger
from kexpfam.experiments.runner import ledger_of, run
from kexpfam.experiments.suites import choose

TOY = "tests.experiments.toy"
BAD = "tests.experiments.bad_toy"
OTHER = "tests.experiments.other_toy"

RUN_ALL = f"""
from pathlib import Path
from kexpfam.experiments.runner import run
from kexpfam.experiments.suites import choose
import sys
run([choose("{TOY}")], Path(sys.argv[1]), jobs=2)
"""


def lines(folder):
    """Lines of a result file without the fields that differ between runs."""
    text = (folder / "toy.jsonl").read_text()
    found = [json.loads(line) for line in text.splitlines()]
    for line in found:
        del line["seconds"], line["finished"]
    return found


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The folder of a run that nothing happened to."""
    folder = tmp_path_factory.mktemp("undisturbed")
    outcome = run([choose(TOY)], folder, jobs=2)
    assert outcome.ran == 40
    assert not outcome.failures
    return folder


@pytest.fixture(scope="module")
def failed(tmp_path_factory):
    """The folder and outcome of two suites, one of which nearly always fails."""
    folder = tmp_path_factory.mktemp("failed")
    return folder, run([choose(BAD), choose(OTHER)], folder, jobs=1)


def test_all_tasks_are_written_in_declared_order_with_what_they_need(undisturbed):
    found = lines(undisturbed)
    suite = choose(TOY).suite
    assert [line["key"] for line in found] == [task.key for task in suite.tasks]
    for line, task in zip(found, suite.tasks, strict=True):
        assert line["seed"] == suite.seed(task)
        assert line["figures"] == {"loss": suite.seed(task) / 7, "threads": "1"}
        assert line["versions"]["numpy"]
        assert line["machine"]["cores"]


def test_what_is_done_is_not_run_again(undisturbed, monkeypatch):
    monkeypatch.setattr(runner, "_Worker", None)  # no process may be started
    before = (undisturbed / "toy.jsonl").read_bytes()
    outcome = run([choose(TOY)], undisturbed)
    assert (outcome.ran, len(outcome.records)) == (0, 40)
    assert (undisturbed / "toy.jsonl").read_bytes() == before


def logged(log):
    """Finished tasks, and the processes that finished them."""
    pairs = [line.split() for line in log.read_text().splitlines()]
    return Counter(key for key, _ in pairs), {int(pid) for _, pid in pairs}


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # A process that has ended but was not waited for yet, in a container, is gone.
    status = Path(f"/proc/{pid}/stat")
    return not status.exists() or status.read_text().rsplit(")")[-1].split()[0] != "Z"


def wait_until(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.002)


@pytest.mark.skipif(os.name == "nt", reason="there is no SIGKILL on Windows")
def test_killed_at_random_moments_and_resumed_it_ends_with_the_same_file(
    tmp_path, undisturbed, monkeypatch
):
    rng = random.Random(5)
    log, folder = tmp_path / "log", tmp_path / "results"
    log.touch()
    monkeypatch.setenv("TOY_LOG", str(log))
    monkeypatch.setenv("TOY_SECONDS", "0.05")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    settled: dict[str, int] = {}  # tasks on record, and how often each was run
    for _ in range(3):
        goal = logged(log)[0].total() + rng.randrange(1, 10)
        command = [sys.executable, "-c", RUN_ALL, str(folder)]
        with subprocess.Popen(command, env=environment) as process:
            wait_until(lambda goal=goal: logged(log)[0].total() >= goal)
            time.sleep(rng.uniform(0, 0.05))
            process.kill()
            assert process.wait() == -signal.SIGKILL
        wait_until(lambda: not any(is_alive(pid) for pid in logged(log)[1]))
        runs = logged(log)[0]
        found = [record.task.key for record in ledger_of(folder, "toy").records()]
        # Nothing on record is lost or run again; each of the two processes may have
        # been done with a task that was not on record yet.
        assert settled.items() <= {key: runs[key] for key in found}.items()
        assert len(set(runs) - set(found)) <= 2
        settled = {key: runs[key] for key in found}
    assert 0 < len(settled) < 40
    run([choose(TOY)], folder, jobs=2)
    assert settled.items() <= logged(log)[0].items()
    assert lines(folder) == lines(undisturbed)


def test_failures_of_every_kind_are_recorded(failed):
    folder, outcome = failed
    assert outcome.ran == 7
    errors = {line["case"]: line["error"] for line in lines(folder)}
    assert errors == {
        "raises": "ValueError: no rows",
        "leaves": "SystemExit: told to go",
        "nan": "ValueError: figure 'loss' is nan; only finite numbers are results.",
        "kills itself": "the process ended with signal 9",
        "fine": None,
        "ends": "the process ended with status 3: out of luck",
    }
    assert [record.task.case for record in outcome.failures] == [
        case for case, error in errors.items() if error
    ]


def test_suites_of_one_run_have_files_of_their_own(failed):
    folder, outcome = failed
    (record,) = ledger_of(folder, "other").records()
    assert record.task.suite == "other"
    assert outcome.records[-1] == record


def test_failures_are_kept_until_they_are_retried(failed, monkeypatch):
    folder, _ = failed
    chosen = [choose(BAD, cases=["raises"])]
    monkeypatch.setenv("TOY_MENDED", "1")
    again = run(chosen, folder)
    assert (again.ran, len(again.failures)) == (0, 1)
    retried = run(chosen, folder, retry=True)
    assert (retried.ran, len(retried.failures)) == (1, 0)
    cases = [task.case for task in choose(BAD).tasks]
    assert [line["case"] for line in lines(folder)] == cases


def test_a_second_run_on_the_same_file_is_refused(tmp_path):
    with (
        Ledger(tmp_path / "toy.jsonl").locked(),
        pytest.raises(ResultFileError, match="being written by another run"),
    ):
        run([choose(TOY)], tmp_path)


@pytest.mark.skipif(shutil.which("false") is None, reason="there is no such program")
def test_processes_that_cannot_start_are_no_failures_of_tasks(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "executable", shutil.which("false"))
    with pytest.raises(KexpfamError, match="did not start: the process ended with"):
        run([choose(TOY)], tmp_path, jobs=2)
    assert Ledger(tmp_path / "toy.jsonl").records() == []
