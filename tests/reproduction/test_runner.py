"""Runs: failures are recorded, what is done stays, and a killed run loses nothing."""

import io
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from reproduction import runner
from reproduction.record import Task, append, read
from reproduction.runner import Job, perform, run
from tests.reproduction import toy

SUITE = toy.SUITE
RUN_ALL = """
import sys
from pathlib import Path
from reproduction.runner import run
from tests.reproduction.toy import SUITE
run([(SUITE, SUITE.tasks)], Path(sys.argv[1]), jobs=2)
"""
BAD = ("raises", "kills itself", "fine", "leaves")


def lines(folder):
    """Lines of a result file without the fields that differ between runs."""
    text = (folder / "toy.jsonl").read_text()
    found = [json.loads(line) for line in text.splitlines()]
    for line in found:
        del line["seconds"], line["finished"], line["commit"], line["uncommitted"]
    return sorted(found, key=lambda line: line["key"])


def of_case(case, run=toy.run):
    return Job(Task("toy", case, "KCEF", 3), run, 103)


def test_a_task_gives_plain_figures():
    def measured(task, seed):
        return {"n": np.int64(seed), "is": np.bool_(True), "x": {"y": np.eye(2)}}

    figures, error, seconds = perform(of_case("a", measured))
    assert figures == {"n": 103, "is": True, "x": {"y": [[1.0, 0.0], [0.0, 1.0]]}}
    assert error is None
    assert seconds >= 0


@pytest.mark.parametrize(
    ("case", "error"),
    [
        ("raises", "ValueError: no rows"),
        ("leaves", "SystemExit: told to go"),
        ("nan", "ValueError: Out of range float values are not JSON compliant"),
    ],
)
def test_what_a_task_raises_is_an_answer_in_one_line(case, error):
    answer = perform(of_case(case))
    assert answer.figures == {}
    assert answer.error.startswith(error)


def test_what_has_no_place_in_a_file_is_a_failure():
    answer = perform(of_case("a", lambda task, seed: {"model": object()}))
    assert answer.error.startswith("TypeError: a figure must be a number, text")


def test_tasks_are_written_with_what_they_need_and_not_run_again(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "7")
    stream = io.StringIO()
    ran, records = run([(SUITE, SUITE.quick)], tmp_path, jobs=1, stream=stream)
    assert ran == 2
    assert stream.getvalue().startswith("1/2 toy/a/KCEF/0/10 rows: 0.")
    found = lines(tmp_path)
    for line, record, task in zip(found, records, SUITE.quick, strict=True):
        assert line["key"] == record.task.key == task.key
        assert line["seed"] == 100 + task.split
        assert line["figures"] == {"loss": line["seed"] / 7, "threads": "1"}
        assert line["versions"]["numpy"]
        assert line["machine"]["cores"]
    monkeypatch.setattr(runner, "Parallel", None)  # no process may be started
    before = (tmp_path / "toy.jsonl").read_bytes()
    assert run([(SUITE, SUITE.quick)], tmp_path) == (0, records)
    assert (tmp_path / "toy.jsonl").read_bytes() == before


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="there is no SIGKILL on Windows")
def test_failures_of_every_kind_are_recorded_and_kept_until_they_are_retried(
    tmp_path, monkeypatch
):
    suite = replace(SUITE, tasks=toy.tasks(*BAD, splits=[0]))
    other = replace(SUITE, name="other", tasks=[Task("other", "a", "KCEF", 0)])
    chosen = [(suite, suite.tasks), (other, other.tasks)]
    monkeypatch.setenv("TOY_MENDED", str(tmp_path / "mended"))
    ran, records = run(chosen, tmp_path, jobs=2)
    assert ran == 5
    errors = {r.task.case: r.error for r in records[:4]}
    assert errors.pop("kills itself").startswith("the process died: ")
    assert errors == {
        "raises": "ValueError: no rows",
        "leaves": "SystemExit: told to go",
        "fine": None,
    }
    assert read(tmp_path / "other.jsonl") == [records[-1]]
    (tmp_path / "mended").touch()
    chosen = [(suite, suite.tasks[:1])]
    assert run(chosen, tmp_path)[0] == 0
    ran, (mended,) = run(chosen, tmp_path, retry=True)
    assert (ran, mended.error) == (1, None)
    assert run(chosen, tmp_path, retry=True) == (0, [mended])


def logged(log):
    """Finished tasks, and the processes that finished them."""
    pairs = [line.split() for line in log.read_text().splitlines()]
    return Counter(key for key, _ in pairs), {int(pid) for _, pid in pairs}


def wait_until(condition):
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.002)


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="there is no SIGKILL on Windows")
def test_killed_at_random_moments_and_resumed_it_ends_with_the_same_file(
    tmp_path, monkeypatch
):
    rng = random.Random(5)
    undisturbed = tmp_path / "undisturbed"
    run([(SUITE, SUITE.tasks)], undisturbed, jobs=2)
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
        time.sleep(1.0)  # processes that are left alone end at once, or after a task
        runs = logged(log)[0]
        found = [record.task.key for record in read(folder / "toy.jsonl")]
        # Nothing on record is lost or run again; each of the two processes may have
        # been done with a task that was not on record yet, and with the next.
        assert settled.items() <= {key: runs[key] for key in found}.items()
        assert len(set(runs) - set(found)) <= 4
        settled = {key: runs[key] for key in found}
    assert 0 < len(settled) < 40
    # The last moment of all: in the middle of a line.
    with (folder / "toy.jsonl").open("a") as file:
        file.write('{"key": "toy/a')
    subprocess.run(command, env=environment, check=True)
    assert settled.items() <= logged(log)[0].items()
    assert lines(folder) == lines(undisturbed)


def is_alive(pid):
    # A process that has ended but was not waited for yet, in a container, is gone.
    status = Path(f"/proc/{pid}/stat")
    return status.exists() and status.read_text().rsplit(")")[-1].split()[0] != "Z"


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="processes are looked up there")
def test_processes_end_with_the_one_that_started_them(tmp_path):
    begun = tmp_path / "begun"
    begun.touch()
    # Tasks that take far longer than the wait below.
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    environment |= {"TOY_BEGUN": str(begun), "TOY_SECONDS": "3600"}
    command = [sys.executable, "-c", RUN_ALL, str(tmp_path)]
    with subprocess.Popen(command, env=environment) as process:
        wait_until(lambda: len(begun.read_text().split()) == 2)
        process.kill()
    pids = begun.read_text().split()
    wait_until(lambda: not any(is_alive(pid) for pid in pids))


def test_a_damaged_file_is_no_run(tmp_path):
    (tmp_path / "toy.jsonl").write_text("{\n")
    with pytest.raises(ValueError, match="line 1 of"):
        run([(SUITE, SUITE.tasks)], tmp_path)


def test_records_of_other_tasks_stay(tmp_path):
    _, (record, _) = run([(SUITE, SUITE.quick)], tmp_path, jobs=1)
    other = replace(record, task=Task("toy", "gone", "KCEF", 0))
    append(tmp_path / "toy.jsonl", other)
    run([(SUITE, SUITE.quick)], tmp_path)
    assert read(tmp_path / "toy.jsonl")[-1] == other
