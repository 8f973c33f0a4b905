"""Examples run as they are, on few rows."""

import runpy
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


def test_the_demo_replaces_its_picture(capsys, monkeypatch, tmp_path):
    path, picture = EXAMPLES / "demo.py", tmp_path / "picture.png"
    picture.write_text("of an earlier run")
    monkeypatch.setattr(sys, "argv", [str(path), str(picture)])
    with pytest.raises(SystemExit) as ending:
        runpy.run_path(str(path), run_name="__main__")
    assert ending.value.code == 0
    assert "At colour 8 the mean, 2.1, is where hardly a wine is." in (
        capsys.readouterr().out
    )
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_many_rows_are_fitted_from_files(capsys, monkeypatch, tmp_path):
    pytest.importorskip("pyarrow")
    path, picture = EXAMPLES / "million_rows.py", tmp_path / "picture.png"
    monkeypatch.setattr(sys, "argv", [str(path), "1500", str(picture)])
    runpy.run_path(str(path), run_name="__main__")
    printed = capsys.readouterr().out
    assert "1500 rows fitted in" in printed
    assert picture.read_bytes().startswith(b"\x89PNG")
    line = next(row for row in printed.splitlines() if "fresh rows" in row)
    found, truth = (float(word) for word in (line.split()[5][:-1], line.split()[-1]))
    # 1500 rows, and three columns: a tenth of a nat is what they can tell.
    assert truth - 0.2 < found < truth


def test_a_joint_density_is_drawn_beside_its_data(capsys, monkeypatch, tmp_path):
    path = EXAMPLES / "joint_density.py"
    monkeypatch.setattr(sys, "argv", [str(path), str(tmp_path), "60"])
    runpy.run_path(str(path), run_name="__main__")
    printed = capsys.readouterr().out
    assert "All arrows together gain" in printed
    assert "worth" in printed
    for name in ("graph.png", "pairs.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")


def test_all_estimators_are_compared_in_one_loop(capsys, monkeypatch, tmp_path):
    path, picture = EXAMPLES / "compare_estimators.py", tmp_path / "picture.png"
    monkeypatch.setattr(sys, "argv", [str(path), str(picture), "80"])
    runpy.run_path(str(path), run_name="__main__")
    printed = capsys.readouterr().out
    for name in (
        "AutoKCEF",
        "LSCDE",
        "ConditionalKDE",
        "ConditionalRNADE",
        "the truth",
    ):
        assert name in printed
    assert picture.read_bytes().startswith(b"\x89PNG")
