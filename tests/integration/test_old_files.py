"""Files that version 0.1 wrote before files had a room of their own still load."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from kexpfam import load
from kexpfam.cli import main

FOLDER = Path(__file__).with_name("files_of_0_1")
EXPECTED = json.loads((FOLDER / "expected.json").read_text())
X, Y = np.array(EXPECTED["x"]), np.array(EXPECTED["y"])
ROWS = {  # what a joint density of these files scores
    "unconditional": (Y[:5, None],),
    "three_columns": (np.column_stack([X, Y])[:5],),
    "factorised": (np.column_stack([X, Y])[:5],),
}


@pytest.mark.parametrize("name", EXPECTED["log_densities"])
def test_an_old_file_gives_the_densities_that_it_was_saved_with(name):
    model = load(FOLDER / f"{name}.kexpfam")
    found = model.score_samples(*ROWS.get(name, (X[:5], Y[:5])))
    np.testing.assert_allclose(found, EXPECTED["log_densities"][name], rtol=1e-9)


@pytest.mark.parametrize("name", ["with_rows", "with_sums"])
def test_an_old_file_with_rows_or_sums_goes_on(name):
    model = load(FOLDER / f"{name}.kexpfam")
    assert model.partial_fit(X[:3], Y[:3]).n_rows_ == len(X) + 3


def test_an_old_file_of_the_command_line_reads_tables(tmp_path):
    (tmp_path / "new.csv").write_text("size,kind\n0.5,a\n,b\n")
    call = ["predict", str(FOLDER / "command_line.kexpfam"), str(tmp_path / "new.csv")]
    result = CliRunner().invoke(main, call)
    assert result.exit_code == 0, result.output
    assert len(result.stdout.splitlines()) == 3


def test_an_old_file_of_the_command_line_takes_frames_and_coded_rows():
    model = load(FOLDER / "command_line.kexpfam")
    frame = pd.DataFrame({"kind": ["a", "b"], "size": [0.5, 0.7]})
    coded = [[0.5, 1.0, 0.0, 0.0], [0.7, 0.0, 1.0, 0.0]]
    assert model.coder_.get_feature_names_out()[:2].tolist() == ["size", "kind=a"]
    np.testing.assert_array_equal(model.predict(frame), model.predict(coded))
