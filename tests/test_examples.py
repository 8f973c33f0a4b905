"""Examples run as they are, on few rows."""

import json
import runpy
import sys
import urllib.error
import urllib.request
from pathlib import Path
from threading import Thread

import numpy as np
import pytest

from kexpfam import KCEF, load
from kexpfam.datasets import make_skewed
from tests.pages import ROOT, module_of

EXAMPLES = ROOT / "examples"


def test_the_demo_replaces_its_picture(capsys, monkeypatch, tmp_path):
    path, picture = EXAMPLES / "demo.py", tmp_path / "picture.png"
    picture.write_text("of an earlier run")
    monkeypatch.setattr(sys, "argv", [str(path), str(picture)])
    with pytest.raises(SystemExit) as ending:
        runpy.run_path(str(path), run_name="__main__")
    assert ending.value.code == 0
    assert "At colour 8 the mean, 1.7, is where hardly a wine is." in (
        capsys.readouterr().out
    )
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_joint_density_is_drawn_beside_its_data(capsys, monkeypatch, tmp_path):
    path = EXAMPLES / "joint_density.py"
    monkeypatch.setattr(sys, "argv", [str(path), str(tmp_path), "60"])
    runpy.run_path(str(path), run_name="__main__")
    printed = capsys.readouterr().out
    assert "All arrows together gain" in printed
    assert "worth" in printed
    for name in ("graph.png", "pairs.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_all_estimators_are_compared_in_one_loop(capsys, monkeypatch, tmp_path):
    path, picture = EXAMPLES / "compare_estimators.py", tmp_path / "picture.png"
    monkeypatch.setattr(sys, "argv", [str(path), str(picture), "80"])
    runpy.run_path(str(path), run_name="__main__")
    printed = capsys.readouterr().out
    for name in (
        "AutoKCEF",
        "LSCDE",
        "ConditionalKDE",
        "KernelQuantiles",
        "MeanEmbedding",
        "ConditionalRNADE",
        "the truth",
    ):
        assert name in printed
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_conformal_intervals_cover_with_a_model_that_is_too_sure(
    capsys, monkeypatch, tmp_path
):
    path, picture = EXAMPLES / "conformal_intervals.py", tmp_path / "picture.png"
    monkeypatch.setattr(sys, "argv", [str(path), "6", str(picture)])
    runpy.run_path(str(path), run_name="__main__")
    line = next(x for x in capsys.readouterr().out.splitlines() if "too sure" in x)
    density, conformal = float(line.split()[2]), float(line.split()[5])
    assert density < 0.75
    # 50 calibration rows: one repetition varies by 0.04, the mean of six by 0.017.
    assert conformal > 0.9 - 3 * 0.017
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_causal_weights_come_nearer_to_the_effect(capsys, monkeypatch, tmp_path):
    path, picture = EXAMPLES / "causal_weights.py", tmp_path / "picture.png"
    monkeypatch.setattr(sys, "argv", [str(path), str(picture), "300", "2"])
    runpy.run_path(str(path), run_name="__main__")
    lines = [line.split() for line in capsys.readouterr().out.splitlines() if line]
    slopes = {line[0]: float(line[1]) for line in lines if line[0] in SLOPES}
    assert abs(slopes["weighted"] - 1.0) < 0.5 * abs(slopes["naive"] - 1.0)
    assert picture.read_bytes().startswith(b"\x89PNG")


SLOPES = ("naive", "weighted")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """Address of a server of a small model, and the model."""
    tmp_path = tmp_path_factory.mktemp("served")
    model = KCEF(select=None).fit(*make_skewed(60, random_state=0))
    model.save(tmp_path / "model.kexpfam")
    with module_of("examples/serve.py").make_server(
        load(tmp_path / "model.kexpfam")
    ) as running:
        thread = Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{running.server_address[1]}", model
        running.shutdown()
        thread.join()


def test_the_server_answers_as_the_model_does(server):
    address, model = server
    question = json.dumps({"X": [[0.5], [-0.5]], "quantiles": [0.1, 0.9]}).encode()
    with urllib.request.urlopen(address, data=question) as response:
        answer = json.loads(response.read())
    p = model.given([[0.5], [-0.5]])
    np.testing.assert_allclose(answer["mean"], p.mean())
    np.testing.assert_allclose(answer["standard_deviation"], p.std())
    np.testing.assert_allclose(answer["quantiles"], p.ppf([[0.1, 0.9]]))


@pytest.mark.parametrize("question", [b"{", b"{}", b'{"X": [[1.0, 2.0]]}', b"[1]"])
def test_the_server_says_what_is_wrong_with_a_question(server, question):
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(server[0], data=question)
    with caught.value as response:
        assert response.code == 400
        assert json.loads(response.read())["error"]


def test_every_example_is_run_by_a_test():
    blindness = ROOT / "tests/family/test_isolated_components.py"
    tests = Path(__file__).read_text() + blindness.read_text()
    for path in EXAMPLES.glob("*.py"):
        assert path.name in tests, path.name
