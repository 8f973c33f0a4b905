"""Result files: lines come back as they were written, and say where they come from."""

import json
import os
import shutil
import subprocess
import sys

import numpy
import pytest
import scipy
import sklearn

import kexpfam
from reproduction.record import (
    Record,
    Task,
    append,
    commit,
    origin,
    outcomes,
    read,
    to_line,
    versions,
)


def record(split, *, loss=0.5, error=None):
    origin = {
        "seed": 7,
        "finished": "2026-01-02T03:04:05+00:00",
        "commit": None,
        "uncommitted": False,
        "versions": {"numpy": "2.0"},
        "machine": {"cores": 2},
    }
    figures = {} if error else {"loss": loss, "name": "λ\n"}
    return Record(Task("table1", "geyser", "KCEF", split), figures, error, 1.5, origin)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "folder" / "table1.jsonl"


def test_a_record_comes_back_as_it_was_written(path):
    assert read(path) == []
    written = [record(0), record(1, error="ValueError: no rows")]
    for one in written:
        append(path, one)
    assert read(path) == written


def test_a_line_has_all_fields_in_their_order():
    line = to_line(record(3))
    assert ",".join(json.loads(line)) == (
        "key,suite,case,method,split,rows,seed,figures,error,seconds,finished,commit,"
        "uncommitted,versions,machine"
    )
    assert "\n" not in line
    assert json.loads(line)["key"] == "table1/geyser/KCEF/3"


def test_after_a_tear_whole_lines_count_and_appending_goes_on(path, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda _: None)  # hundreds would take seconds
    for split in range(2):
        append(path, record(split))
    whole = path.read_bytes()
    first = whole.index(b"\n") + 1
    near_ends = {first - 1, first, first + 1, len(whole) - 1, len(whole)}
    for length in near_ends | set(range(0, len(whole), 7)):
        path.write_bytes(whole[:length])
        kept = [record(i) for i in range((length >= first) + (length == len(whole)))]
        assert read(path) == kept
        append(path, record(9))
        assert read(path) == [*kept, record(9)]


@pytest.mark.parametrize(
    "line", ["{", "not json", "", "[]", "3", '{"suite": "table1"}', "\x00\x00"]
)
def test_a_damaged_line_in_the_middle_is_named(path, line):
    append(path, record(0))
    with path.open("a") as file:
        file.write(f"{line}\n{to_line(record(1))}\n")
    with pytest.raises(ValueError, match=r"line 2 of .*table1\.jsonl is damaged"):
        read(path)


def test_bytes_that_are_no_text_are_named(path):
    append(path, record(0))
    with path.open("ab") as file:
        file.write(b"\xff\xfe\n")
    with pytest.raises(ValueError, match="line 2 of"):
        read(path)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_numbers_that_are_not_finite_are_refused_and_nothing_is_written(path, value):
    append(path, record(0))
    with pytest.raises(ValueError, match="JSON"):
        append(path, record(1, loss=value))
    assert read(path) == [record(0)]


def test_of_one_task_the_first_success_counts_else_the_last_failure():
    found = [
        record(0, error="A"),
        record(0, loss=1.0),
        record(0, loss=2.0),
        record(0, error="B"),
        record(1, error="C"),
        record(1, error="D"),
    ]
    assert list(outcomes(found).values()) == [record(0, loss=1.0), record(1, error="D")]


def test_errors_that_no_encoding_has_are_recorded(path):
    append(path, record(0, error="OSError: \udcff.csv"))
    assert read(path)[0].error == "OSError: \udcff.csv"


def git(folder, *arguments):
    identity = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    command = ["git", *identity, *arguments]
    return subprocess.run(
        command, cwd=folder, check=True, capture_output=True, text=True
    ).stdout


@pytest.fixture
def checkout(tmp_path):
    """A repository with one file."""
    if shutil.which("git") is None:
        pytest.skip("there is no git")
    git(tmp_path, "init")
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "code.py").write_text("1\n")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "first")
    return tmp_path


def test_the_commit_is_that_of_git(checkout):
    said = git(checkout, "rev-parse", "HEAD")
    assert said.startswith(commit(checkout))


def test_changes_of_sources_are_noticed(checkout):
    assert not origin(folder=checkout)["uncommitted"]
    (checkout / "notes.txt").write_text("outside")
    assert not origin(folder=checkout)["uncommitted"]
    (checkout / "src" / "code.py").write_text("2\n")
    assert origin(folder=checkout)["uncommitted"]


def test_outside_a_repository_and_without_git_there_is_no_commit(
    tmp_path, checkout, monkeypatch
):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    outside = tmp_path.parent / "outside"
    outside.mkdir(exist_ok=True)
    assert commit(outside) is None
    monkeypatch.setenv("PATH", "")
    assert commit(checkout) is None
    assert origin(folder=checkout)["commit"] is None


def test_versions_are_those_that_libraries_state_themselves():
    found = versions()
    assert found["kexpfam"] == kexpfam.__version__
    assert found["numpy"] == numpy.__version__
    assert found["scipy"] == scipy.__version__
    assert found["scikit-learn"] == sklearn.__version__
    assert "no-such-library" not in versions(["no-such-library"])


def test_the_machine_has_cores_and_a_processor():
    found = origin(["numpy"])["machine"]
    assert found["cores"] >= 1
    assert found["processor"]
    assert found["python"] == sys.version.split()[0]
