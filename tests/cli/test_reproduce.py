import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from kexpfam.cli import main
from kexpfam.experiments import suites
from kexpfam.experiments.runner import ledger_of
from tests.experiments import toy
from tests.experiments.test_report import record

TOY = "tests.experiments.toy"


def call(*arguments, code=0):
    result = CliRunner().invoke(main, ["reproduce", *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result


@pytest.fixture
def only_toy(monkeypatch):
    monkeypatch.setattr(suites, "NAMES", (TOY,))


def test_without_a_command_everything_is_run_and_reported(
    tmp_path, monkeypatch, only_toy
):
    monkeypatch.chdir(tmp_path)
    result = call("--quick", "--jobs", 1)
    page = Path("reproduction-quick") / "report.md"
    assert f"The report is {page}." in result.stdout
    assert "2 tasks are done, 2 of them now." in result.stdout
    assert "1/2 toy/a/KCEF/0/10 rows: 0." in result.stderr
    assert "## A toy" in page.read_text()
    assert (tmp_path / "reproduction-quick" / "toy.png").is_file()
    assert "2 tasks are done, 0 of them now." in call("--quick").stdout


def test_failures_are_an_error_that_says_how_many_and_which(tmp_path, only_toy):
    for split, error in enumerate([None, "ValueError: no rows.", "MemoryError"]):
        ledger_of(tmp_path, "toy").append(record(toy.SUITE.tasks[split], error=error))
    options = ("--folder", tmp_path, "--splits", ":3", "--cases", "a")
    result = call("run", TOY, *options, code=1)
    assert "1 of 3 tasks are done, 2 failed; 0 were run now." in result.stdout
    assert (
        "Error: 2 of 3 tasks failed, first toy/a/KCEF/1: ValueError: no rows. "
        "Use --retry"
    ) in result.stderr


def test_status_counts_and_estimates(tmp_path):
    for split, error in enumerate([None, None, "MemoryError"]):
        ledger_of(tmp_path, "toy").append(
            record(toy.SUITE.tasks[split], error=error, seconds=100.0)
        )
    table = call("status", TOY, "--folder", tmp_path).stdout.splitlines()
    assert table[0].split() == ["suite", "done", "failed", "all", "CPU", "time", "left"]
    assert table[1].split() == ["toy", "2", "1", "40", "1:01:40"]
    found = json.loads(call("status", TOY, "--folder", tmp_path, "--json").stdout)
    assert found == [
        {"suite": "toy", "done": 2, "failed": 1, "tasks": 40, "seconds_left": 3700.0}
    ]
    assert "unknown" in call("status", TOY, "--folder", tmp_path / "new").stdout


def test_a_report_refreshes_a_page_or_writes_its_own(tmp_path):
    folder = tmp_path / "results"
    missing = call("report", TOY, "--folder", folder, code=1)
    assert "there are no results in" in missing.stderr
    ledger_of(folder, "toy").append(record(toy.SUITE.tasks[0]))
    call("report", TOY, "--folder", folder)
    assert "![a toy](toy.png)" in (folder / "report.md").read_text()
    page = tmp_path / "page.md"
    page.write_text("<!-- begin toy --><!-- end toy -->")
    call("report", TOY, "--folder", folder, "--page", page)
    assert "![a toy](results/toy.png)" in page.read_text()
    page.write_text("<!-- begin toy -->")
    broken = call("report", TOY, "--folder", folder, "--page", page, code=2)
    assert "has no partner" in broken.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run", "table9"), "suite 'table9' is not known; use one of table1"),
        (("status", "table9"), "suite 'table9' is not known"),
        (("report", "table9"), "suite 'table9' is not known"),
        (("run", TOY, "--splits", "5"), "0:5 means the first five"),
        (("run", TOY, "--splits", "3:3"), "0:5 means the first five"),
        (("run", TOY, "--splits", "a:b"), "0:5 means the first five"),
        (("run", TOY, "--splits", "50:60"), "no task has this suite"),
        (("run", TOY, "--methods", "LSCDE"), "'LSCDE' is not known; use one of KCEF"),
        (("run", TOY, "--cases", "c"), "'c' is not known; use one of a, b"),
        (("run", TOY, "--jobs", "0"), "--jobs"),
        (("--quick", "run", TOY), "--quick must stand after 'run'"),
    ],
)
def test_wrong_use_is_explained(arguments, message):
    assert message in call(*arguments, code=2).stderr


def test_missing_libraries_are_named_before_anything_starts(tmp_path, monkeypatch):
    monkeypatch.setattr(toy, "SUITE", replace(toy.SUITE, needs=("matplotlib",)))
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    result = call("run", TOY, "--folder", tmp_path / "new", code=1)
    assert "matplotlib must be installed" in result.stderr
    assert 'pip install "kexpfam[plot]"' in result.stderr
    assert not (tmp_path / "new").exists()


def test_a_damaged_file_is_one_sentence(tmp_path):
    (tmp_path / "toy.jsonl").write_text("{\n")
    result = call("run", TOY, "--folder", tmp_path, code=1)
    assert "Error: line 1 of" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.skipif(os.name == "nt", reason="signals are another matter on Windows")
def test_ctrl_c_ends_the_program_and_its_processes_and_keeps_what_is_done(tmp_path):
    program = Path(sys.executable).parent / "kexpfam"
    start = [program] if program.is_file() else [sys.executable, "-m", "kexpfam"]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "TOY_SECONDS": "0.2",
    }
    command = [*start, "reproduce", "run", TOY, "--jobs", "1", "--folder", tmp_path]
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
    assert 1 <= len(ledger_of(tmp_path, "toy").records()) < 40
