"""`kexpfam explore` opens a page or writes a report, and ends well."""

import os
import re
import signal
import subprocess
import sys
import urllib.request
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner

from kexpfam import KCEF, KEF
from kexpfam.cli import main
from kexpfam.cli.explore import view_of
from kexpfam.cli.model_files import load_table_model
from kexpfam.cli.readers import read_table
from kexpfam.errors import TableWarning
from kexpfam.explorer import Question
from tests.cli.tables import write


def run(*words):
    return CliRunner().invoke(main, ["explore", *map(str, words)])


def test_export_writes_a_report_once(saved, tmp_path):
    path = tmp_path / "report.html"
    words = [saved.model, "--data", saved.data, "--export", path]
    result = run(*words)
    assert result.exit_code == 0, result.output
    assert "The report is in" in result.stdout
    assert path.read_text(encoding="utf-8").startswith("<!doctype html>")
    again = run(*words)
    assert again.exit_code == 1
    assert "say --force" in again.stderr
    assert run(*words, "--force").exit_code == 0


def test_the_export_has_to_be_html(saved, tmp_path):
    result = run(saved.model, "--export", tmp_path / "report.pdf")
    assert result.exit_code == 1
    assert "must end in .html" in result.stderr


@pytest.mark.skipif(os.name == "nt", reason="Ctrl-C is another signal there")
def test_the_page_is_served_until_interrupted(saved):
    words = ["explore", saved.model, "--data", saved.data, "--no-browser"]
    # Children of a shell's background jobs ignore SIGINT unless they are told not to.
    program = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "from kexpfam.cli import main; main()"
    )
    process = subprocess.Popen(
        [sys.executable, "-u", "-c", program, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        line = process.stdout.readline()
        address = re.search(r"http://127\.0\.0\.1:\d+/\S+/", line)[0]
        with urllib.request.urlopen(address, timeout=30) as page:
            assert b"<main" in page.read()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0
    assert "Traceback" not in errors


def test_a_port_that_is_taken_is_said(saved):
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        result = run(saved.model, "--port", port, "--no-browser")
    assert result.exit_code == 1
    assert f"Port {port} of this computer cannot be used" in result.stderr


def test_without_data_ranges_are_those_of_the_fit(saved):
    view = view_of(load_table_model(saved.model), None)
    with_data = view_of(load_table_model(saved.model), read_table(saved.data))
    pairs = zip(view.subject.controls, with_data.subject.controls, strict=True)
    for alone, control in pairs:
        # With data they begin at a row of these, in whose order columns are exchanged.
        same = replace(alone, start=control.start, relevance=control.relevance)
        assert same == control
    found = view.description(Question({}))
    assert (found["rows"], found["observed"]) == (0, 0)
    assert len(view.density(Question({}))["grid"]) > 100
    assert view.curve(Question({"feature": "city"}))["places"][0] == "Lima"


def test_a_model_without_names_takes_those_of_the_table(tmp_path):
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 40))
    path = tmp_path / "model.kexpfam"
    KCEF(select=None).fit(np.column_stack([a]), a + b).save(path)
    data = write(tmp_path / "t.csv", {"a": a, "sum": a + b})
    view = view_of(load_table_model(path), read_table(data))
    assert view.subject.target == "sum"
    assert [c.name for c in view.subject.controls] == ["a"]
    alone = view_of(load_table_model(path), None)
    assert [c.name for c in alone.subject.controls] == ["x1"]


def test_a_table_without_the_target_is_for_conditions_only(saved, tmp_path):
    table = read_table(saved.data)
    columns = {n: table.column(n) for n in ("area", "rooms", "city")}
    data = write(tmp_path / "new.csv", columns)
    view = view_of(load_table_model(saved.model), read_table(data))
    found = view.description(Question({}))
    assert (found["rows"], found["observed"]) == (60, 0)
    assert view.row(Question({"place": 1}))["observed"] is None
    with pytest.raises(ValueError, match="no observations of price"):
        view.calibration(Question({}))


def test_rows_of_an_unknown_category_are_left_out(saved, tmp_path):
    table = read_table(saved.data)
    columns = {n: table.column(n) for n in table.names}
    columns["city"] = np.array(["Bonn", *columns["city"][1:]])
    data = write(tmp_path / "bonn.csv", columns)
    found = load_table_model(saved.model)
    with pytest.raises(ValueError, match="'Bonn' is not a category"):
        view_of(found, read_table(data), unknown="error")
    with pytest.warns(TableWarning, match="1 row of column 'city' with values that"):
        view = view_of(found, read_table(data))
    assert len(view.subject.X) == 59
    assert view.row(Question({"place": 1}))["number"] == 2


def test_a_density_without_conditions_is_refused(tmp_path):
    path = tmp_path / "kef.kexpfam"
    KEF(select=None).fit(np.linspace(-1, 1, 30)[:, None]).save(path)
    result = run(path, "--no-browser")
    assert result.exit_code == 1
    assert "is a density without conditions" in result.stderr


def test_the_joint_page_needs_no_data(saved):
    view = view_of(load_table_model(saved.joint), None)
    assert view.pairs(Question({}))["names"] == ["area", "rooms", "price"]
