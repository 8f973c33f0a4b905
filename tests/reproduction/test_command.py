"""The command line, on a toy suite: what it prints, and what it refuses."""

import importlib.util
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from reproduction.__main__ import main
from reproduction.record import append, read
from reproduction.report import SUITES
from tests.reproduction import toy
from tests.reproduction.test_report import record


def call(*arguments, code=0):
    result = CliRunner().invoke(main, list(map(str, arguments)))
    assert result.exit_code == code, result.output
    return result


@pytest.fixture(autouse=True)
def only_toy(monkeypatch):
    for name in list(SUITES):
        monkeypatch.delitem(SUITES, name)
    monkeypatch.setitem(SUITES, "toy", toy.SUITE)


def test_all_suites_are_run_and_reported(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = call("run", "--quick", "--jobs", 1)
    page = Path("reproduction-quick") / "report.md"
    assert f"The report is {page}." in result.stdout
    assert "2 of 2 tasks are done, 0 failed; 2 were run now." in result.stdout
    assert "1/2 toy/a/KCEF/0/10 rows: 0." in result.stderr
    assert "## A toy" in page.read_text()
    assert (tmp_path / "reproduction-quick" / "toy.png").is_file()
    assert "0 were run now." in call("run", "--quick").stdout


def test_failures_are_an_error_that_says_how_many_and_which(tmp_path):
    for split, error in enumerate([None, "ValueError: no rows.", "MemoryError"]):
        append(tmp_path / "toy.jsonl", record(toy.SUITE.tasks[split], error=error))
    options = ("--folder", tmp_path, "--splits", ":3", "--cases", "a")
    result = call("run", "toy", *options, code=1)
    assert "1 of 3 tasks are done, 2 failed; 0 were run now." in result.stdout
    assert (
        "Error: 2 of 3 tasks failed, first toy/a/KCEF/1: ValueError: no rows. "
        "Use --retry"
    ) in result.stderr


def test_status_counts_and_estimates(tmp_path):
    for split, error in enumerate([None, None, "MemoryError"]):
        append(
            tmp_path / "toy.jsonl",
            record(toy.SUITE.tasks[split], error=error, seconds=100.0),
        )
    table = call("status", "toy", "--folder", tmp_path).stdout.splitlines()
    assert table[0].split() == ["suite", "done", "failed", "all", "CPU", "time", "left"]
    assert table[1].split() == ["toy", "2", "1", "40", "1:01:40"]
    assert "unknown" in call("status", "toy", "--folder", tmp_path / "new").stdout


def test_a_report_refreshes_a_page_or_writes_its_own(tmp_path):
    folder = tmp_path / "results"
    missing = call("report", "toy", "--folder", folder, code=1)
    assert "there are no results in" in missing.stderr
    append(folder / "toy.jsonl", record(toy.SUITE.tasks[0]))
    call("report", "toy", "--folder", folder)
    assert "![a toy](toy.png)" in (folder / "report.md").read_text()
    page = tmp_path / "page.md"
    page.write_text("<!-- begin toy --><!-- end toy -->")
    call("report", "toy", "--folder", folder, "--page", page)
    assert "![a toy](results/toy.png)" in page.read_text()
    page.write_text("<!-- begin toy -->")
    broken = call("report", "toy", "--folder", folder, "--page", page, code=1)
    assert "has no partner" in broken.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run", "table9"), "suite 'table9' is not known; use one of toy"),
        (("status", "table9"), "suite 'table9' is not known"),
        (("report", "table9"), "suite 'table9' is not known"),
        (("run", "toy", "--splits", "5"), "0:5 means the first five"),
        (("run", "toy", "--splits", "3:3"), "0:5 means the first five"),
        (("run", "toy", "--splits", "a:b"), "0:5 means the first five"),
        (("run", "toy", "--splits", "50:60"), "no task has this suite"),
        (("run", "toy", "--methods", "LSCDE"), "'LSCDE' is not known; use one of KCEF"),
        (("run", "toy", "--cases", "c"), "'c' is not known; use one of a, b"),
        (("run", "toy", "--jobs", "0"), "--jobs"),
        (("status", "toy", "--retry"), "No such option"),
    ],
)
def test_wrong_use_is_explained(arguments, message):
    assert message in call(*arguments, code=2).stderr


def test_missing_libraries_are_named_before_anything_starts(tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    result = call("run", "toy", "--folder", tmp_path / "new", code=1)
    assert "jax and matplotlib and optax must be installed" in result.stderr
    assert 'pip install ".[plot,baselines]"' in result.stderr
    assert not (tmp_path / "new").exists()


def test_a_damaged_file_is_one_sentence(tmp_path):
    (tmp_path / "toy.jsonl").write_text("{\n")
    result = call("run", "toy", "--folder", tmp_path, code=1)
    assert "Error: line 1 of" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="signals are another matter on Windows")
def test_ctrl_c_ends_the_program_and_its_processes_and_keeps_what_is_done(tmp_path):
    start = (
        "from reproduction.__main__ import SUITES, main\n"
        "from tests.reproduction import toy\n"
        "SUITES['toy'] = toy.SUITE\n"
        "main()"
    )
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "TOY_SECONDS": "0.2",
    }
    command = [sys.executable, "-c", start, "run", "toy", "--jobs", "1"]
    command += ["--folder", tmp_path]
    with subprocess.Popen(
        command, env=environment, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr.readline().startswith("1/40 toy/a/KCEF/0: ")
        time.sleep(0.1)  # into the next task
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()
        assert process.wait(timeout=30) == 130
    assert f"What is finished stays in {tmp_path}; the same command goes on." in rest
    assert "Traceback" not in rest
    assert 1 <= len(read(tmp_path / "toy.jsonl")) < 40
