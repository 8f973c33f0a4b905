import json
import os

import pytest

from kexpfam.errors import ResultFileError
from kexpfam.experiments.ledger import Ledger, of_line, to_line
from kexpfam.experiments.task import Record, Task


def record(split, *, loss=0.5, error=None, case="geyser"):
    origin = {
        "seed": 7,
        "finished": "2026-01-02T03:04:05+00:00",
        "commit": None,
        "uncommitted": False,
        "versions": {"numpy": "2.0"},
        "machine": {"cores": 2},
    }
    figures = {} if error else {"loss": loss, "name": "λ\n"}
    return Record(Task("table1", case, "KCEF", split), figures, error, 1.5, origin)


def declared(*splits):
    return [record(split).task for split in splits]


@pytest.fixture
def ledger(tmp_path):
    return Ledger(tmp_path / "folder" / "table1.jsonl")


def test_a_record_comes_back_as_it_was_written(ledger):
    assert ledger.records() == []
    written = [record(0), record(1, error="ValueError: no rows")]
    for one in written:
        ledger.append(one)
    assert ledger.records() == written


def test_a_line_has_all_fields_in_their_order():
    line = to_line(record(3))
    assert ",".join(json.loads(line)) == (
        "key,suite,case,method,split,rows,seed,figures,error,seconds,finished,commit,"
        "uncommitted,versions,machine"
    )
    assert "\n" not in line
    assert of_line(line) == record(3)


def test_after_a_tear_whole_lines_count_and_appending_goes_on(ledger, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda _: None)  # hundreds would take seconds
    for split in range(2):
        ledger.append(record(split))
    whole = ledger.path.read_bytes()
    first = whole.index(b"\n") + 1
    near_ends = {first - 1, first, first + 1, len(whole) - 1, len(whole)}
    for length in near_ends | set(range(0, len(whole), 7)):
        ledger.path.write_bytes(whole[:length])
        kept = [record(i) for i in range((length >= first) + (length == len(whole)))]
        assert ledger.records() == kept
        ledger.append(record(9))
        assert ledger.records() == [*kept, record(9)]


@pytest.mark.parametrize(
    "line", ["{", "not json", "", "[]", "3", '{"suite": "table1"}', "\x00\x00"]
)
def test_a_damaged_line_in_the_middle_is_named(ledger, line):
    ledger.append(record(0))
    with ledger.path.open("a") as file:
        file.write(f"{line}\n{to_line(record(1))}\n")
    with pytest.raises(ResultFileError, match=r"line 2 of .*table1\.jsonl is damaged"):
        ledger.records()


def test_bytes_that_are_no_text_are_named(ledger):
    ledger.append(record(0))
    with ledger.path.open("ab") as file:
        file.write(b"\xff\xfe\n")
    with pytest.raises(ResultFileError, match="line 2 of"):
        ledger.records()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_numbers_that_are_not_finite_are_refused_and_nothing_is_written(ledger, value):
    ledger.append(record(0))
    with pytest.raises(ValueError, match="JSON"):
        ledger.append(record(1, loss=value))
    assert ledger.records() == [record(0)]


def test_sorting_puts_declared_tasks_first_and_keeps_others(ledger):
    for split, case in [(4, "zoo"), (2, "geyser"), (0, "zoo"), (1, "geyser")]:
        ledger.append(record(split, case=case))
    ledger.sort(declared(0, 1, 2))
    found = [(r.task.split, r.task.case) for r in ledger.records()]
    assert found == [(1, "geyser"), (2, "geyser"), (0, "zoo"), (4, "zoo")]
    assert [p.name for p in ledger.path.parent.iterdir()] == ["table1.jsonl"]


def test_of_one_task_the_first_success_stays_else_the_last_failure(ledger):
    for one in [
        record(0, error="A"),
        record(0, loss=1.0),
        record(0, loss=2.0),
        record(0, error="B"),
        record(1, error="C"),
        record(1, error="D"),
    ]:
        ledger.append(one)
    ledger.sort(declared(0, 1))
    assert ledger.records() == [record(0, loss=1.0), record(1, error="D")]


def test_sorting_cuts_off_a_torn_line(ledger):
    ledger.append(record(0))
    whole = ledger.path.read_bytes()
    ledger.path.write_bytes(whole + b'{"key"')
    ledger.sort(declared(0))
    assert ledger.path.read_bytes() == whole


def test_a_stop_while_sorting_leaves_the_file_as_it_was(ledger, monkeypatch):
    for split in (1, 0):
        ledger.append(record(split))
    before = ledger.path.read_bytes()

    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", stop)
    with ledger.locked(), pytest.raises(KeyboardInterrupt):
        ledger.sort(declared(0, 1))
    assert ledger.path.read_bytes() == before
    monkeypatch.undo()
    with ledger.locked():
        ledger.sort(declared(0, 1))
    assert ledger.records() == [record(0), record(1)]


def test_sorting_without_a_file_makes_none(ledger):
    ledger.sort(declared(0))
    assert not ledger.path.exists()


@pytest.mark.skipif(os.name == "nt", reason="there is no lock on Windows")
def test_a_second_run_is_refused_until_the_first_has_ended(ledger):
    second = Ledger(ledger.path)
    refused = pytest.raises(ResultFileError, match="being written by another run")
    with ledger.locked():
        with refused, second.locked():
            pass
        for split in (1, 0):
            ledger.append(record(split))
        ledger.sort(declared(0, 1))  # puts another file in its place: still locked
        with refused, second.locked():
            pass
    with second.locked():
        assert second.records() == [record(0), record(1)]


def test_errors_that_no_encoding_has_are_recorded(ledger):
    ledger.append(record(0, error="OSError: \udcff.csv"))
    assert ledger.records()[0].error == "OSError: \udcff.csv"
