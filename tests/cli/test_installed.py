"""The installed program, as a process of its own, in a folder of its own."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

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
    assert fit.stderr == ""  # no progress where nobody looks
    predict = program("predict", "model.kexpfam", "houses.csv", "-o", "out.csv")
    assert predict.returncode == 0, predict.stderr
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 41


def test_a_huge_file_is_refused_at_its_one_bad_line(program, tmp_path):
    values = np.random.default_rng(0).integers(0, 99, size=(200_000, 5)).tolist()
    lines = ["a,b,c,d,y", *(",".join(map(str, row)) for row in values)]
    lines[150_000] = "1,2,3,4,five"
    (tmp_path / "huge.csv").write_text("\n".join(lines))
    result = program("fit", "huge.csv", "--target", "y")
    assert result.returncode == 1
    place = "Error: huge.csv, line 150001, column 'y': 'five' is not a number"
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
