"""Tables 1 and 2: declared as in the paper, run on small sets, shown from records."""

import numpy as np
import pytest

from reproduction import protocol, table1, table2
from reproduction.methods import CONDITIONAL, PAPER_RNADE, joint
from reproduction.protocol import TABLE1
from reproduction.record import Record, Task
from reproduction.table2 import TABLE2


@pytest.fixture
def small(monkeypatch):
    rng = np.random.default_rng(0)
    a = rng.normal(size=(80, 1))
    data = np.hstack([a, np.sin(a) + 0.3 * rng.normal(size=(80, 1))])

    class Loaded:
        groups = None

    Loaded.data = data
    monkeypatch.setattr(protocol, "load_benchmark", lambda name: Loaded)
    return data


def record(suite, case, method, split, nll):
    figures = {"nll": nll, "worst": nll + 4.0}
    return Record(Task(suite, case, method, split), figures, None, 1.0, {})


def test_the_full_tables_are_declared():
    first, second = table1.SUITE, table2.SUITE
    assert len(first.tasks) == (14 + 4) * 9 * 20 + 14 * 80
    assert {t.case for t in second.tasks} >= set(TABLE2)
    paper = [t for t in second.tasks if t.case in TABLE2 and t.method != PAPER_RNADE]
    assert len(paper) == 3 * 8 * 5
    for suite in (first, second):
        keys = [task.key for task in (*suite.tasks, *suite.quick)]
        assert len({t.key for t in suite.tasks}) == len(suite.tasks)
        assert len(suite.quick) < len(suite.tasks) / 5
        assert len(keys) > len(suite.tasks)


def test_seeds_of_the_tables_do_not_overlap_with_each_other_or_with_design_seeds():
    first, second = (
        {suite.first_seed + task.split for task in suite.tasks}
        for suite in (table1.SUITE, table2.SUITE)
    )
    assert not first & second
    assert min(first | second) >= 120


@pytest.mark.parametrize("method", ["AutoKCEF", "KCEF", "LSCDE"])
def test_a_task_of_table_1_finds_the_held_out_loss(small, method):
    task = Task("table1", "toy", method, 3, rows=30)
    found = table1.run(task, 203)
    train, test = protocol.halves(protocol.in_units(small), 203)
    model = CONDITIONAL[method].make(203).fit(train[:30, :-1], train[:30, -1])
    expected = -model.score(test[:, :-1], test[:, -1])
    assert found["nll"] == pytest.approx(expected, abs=1e-6)
    assert (found["train_rows"], found["test_rows"]) == (30, 40)


@pytest.mark.parametrize("method", ["KCEF-F", "LSCDE-M"])
def test_a_task_of_table_2_finds_the_held_out_loss(small, method):
    task = Task("table2", "toy", method, 1)
    found = table2.run(task, 501)
    train, test = protocol.nine_tenths(protocol.in_units(small), 501)
    expected = -joint(method, 501).fit(train).score(test)
    assert found["nll"] == pytest.approx(expected, abs=1e-6)
    assert sum(found["factors"]) == pytest.approx(expected, abs=2e-4)


def test_rnade_is_a_joint_density_without_factors():
    assert joint("RNADE", 0).hidden_layers == 2
    assert joint(PAPER_RNADE, 0).hidden_layers == 1


def test_table_1_shows_printed_numbers_ours_and_who_reached_them(tmp_path):
    records = [
        record(
            "table1", name, method, split, TABLE1[name]["KCEF"] + shift + 0.01 * split
        )
        for name in ("geyser", "topo")
        for method, shift in (("AutoKCEF", -1.0), ("LSCDE", 1.0))
        for split in range(3)
    ]
    text = table1.show(records, tmp_path)
    geyser = next(line for line in text.splitlines() if line.startswith("| geyser"))
    assert "| 1.21 | 1.43 | 0.70 |" in geyser
    assert "**0.22** ± 0.01 (3)" in geyser
    assert "| 2.22 ± 0.01 (3) |" in geyser
    assert geyser.endswith("| 4.2 |")
    assert "at or below the best printed column (to its two decimals): 2 of 2" in text
    assert "heights" not in text
    assert text.index("| geyser") < text.index("| topo")


def test_close_rows_of_table_1_have_more_splits_in_a_table_of_their_own(tmp_path):
    few, many = table1.SPLITS, 2 * table1.SPLITS
    records = [
        record("table1", "mcycle", "AutoKCEF", split, 0.5 if split < few else 0.8)
        for split in range(many)
    ]
    text = table1.show(records, tmp_path)
    lines = [line for line in text.splitlines() if line.startswith("| mcycle")]
    assert len(lines) == 2
    assert "**0.50** ± 0.00 |" in lines[0]
    means = "0.500 ± 0.000 | 0.800 ± 0.000 | 0.650 ± 0.024"
    assert lines[1] == f"| mcycle | 0.56 | {means} | 40 | +3.7 |"
    assert "on more splits" not in table1.show(records[:few], tmp_path)


def test_table_2_shows_printed_numbers_beside_ours(tmp_path):
    records = [
        record("table2", case, "AutoKCEF-F", split, loss)
        for case, loss in (("red_wine", 9.5), ("white_wine", 10.6))
        for split in range(5)
    ]
    records.append(record("table2", "red_wine, distinct rows", "RNADE", 0, 9.9))
    text = table2.show(records, tmp_path)
    line = next(line for line in text.splitlines() if line.startswith("| AutoKCEF-F"))
    assert "**10.60** ± 0.00" in line
    assert "**9.50** ± 0.00" in line
    assert "at or below the best printed number of a column: 1 of 2" in text
    assert "**9.90** (1)" in text
