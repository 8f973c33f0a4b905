"""The installed program, as a process of its own, in a folder of its own."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import kexpfam
from kexpfam import _interrupts
from kexpfam.cli import main
from tests.cli.tables import houses, write


@pytest.fixture
def program(tmp_path):
    """Runs the program in a folder, and gives its exit code and what it printed."""

    def call(*words, **options):
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
        environment.pop("KEXPFAM_DEBUG", None)
        return subprocess.run(
            [sys.executable, "-m", "kexpfam", *words],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            **options,
        )

    return call


def test_from_a_table_to_predictions(program, tmp_path):
    write(tmp_path / "houses.csv", houses(40))
    words = ["--target", "price", "--features", "area", "--model", "kcef", "--json"]
    fit = program("fit", "houses.csv", *words)
    assert fit.returncode == 0, fit.stderr
    assert json.loads(fit.stdout)["model"] == "model.kexpfam"
    # Where nobody looks, a line for each stage.
    stages = [line.split(":")[0] for line in fit.stderr.splitlines()]
    assert stages == ["KCEF, coordinates of y", "KCEF, mean log p"]
    predict = program("predict", "model.kexpfam", "houses.csv", "-o", "out.csv")
    assert predict.returncode == 0, predict.stderr
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 41


def test_a_huge_file_is_refused_at_its_one_bad_line(program, tmp_path):
    values = np.random.default_rng(0).integers(0, 99, size=(80_000, 5)).tolist()
    lines = ["a,b,c,d,y", *(",".join(map(str, row)) for row in values)]
    lines[70_000] = "1,2,3,4,five"
    (tmp_path / "huge.csv").write_text("\n".join(lines))
    result = program("fit", "huge.csv", "--target", "y")
    assert result.returncode == 1
    place = "Error: huge.csv, line 70001, column 'y': 'five' is not a number"
    assert result.stderr.startswith(place)
    assert result.stderr.count("\n") == 1  # and no traceback
    assert os.listdir(tmp_path) == ["huge.csv"]


def test_a_reader_that_goes_away_is_no_error(tmp_path, fitted):
    command = [sys.executable, "-m", "kexpfam", "sample", fitted.model, fitted.data]
    with subprocess.Popen(
        [*command, "-n", "5000"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout.readline() == "row,draw,value\n"
        process.stdout.close()
        assert process.stderr.read() == ""


SCRIPT = "import sys\nfrom kexpfam.cli import main\nsys.exit(main())\n"


@pytest.mark.skipif(os.name == "nt", reason="signals are another matter on Windows")
@pytest.mark.parametrize("start", ["module", "script", "library"])
def test_an_interrupt_while_importing_ends_the_program_quietly(tmp_path, start):
    # A library that presses Ctrl-C when it is imported.
    (tmp_path / "stubs").mkdir()
    stub = "import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(9)"
    (tmp_path / "stubs" / "numpy.py").write_text(stub)
    (tmp_path / "kexpfam").write_text(SCRIPT)
    words = {
        "module": ["-m", "kexpfam", "--version"],
        "script": [str(tmp_path / "kexpfam"), "--version"],
        "library": ["-c", "import kexpfam"],
    }[start]
    source = str(Path(kexpfam.__file__).parents[1])
    paths = os.pathsep.join([str(tmp_path / "stubs"), source, *filter(None, sys.path)])
    result = subprocess.run(
        [sys.executable, *words],
        cwd=tmp_path / "stubs",
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    if start == "library":  # whose programs handle interrupts as they wish
        assert "KeyboardInterrupt" in result.stderr
    else:
        assert (result.returncode, result.stderr) == (130, "")


def test_the_program_hears_interrupts_once_it_runs(monkeypatch):
    before = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr(sys, "orig_argv", ["python", "-m", "kexpfam"])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        _interrupts.end_quietly_while_importing()
        assert signal.getsignal(signal.SIGINT) is not signal.default_int_handler
        assert CliRunner().invoke(main, ["completion", "bash"]).exit_code == 0
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # as `nohup` does
        _interrupts.end_quietly_while_importing()
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
