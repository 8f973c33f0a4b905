"""Figure 1: tasks, what they find, and what is made of it."""

from functools import partial

import numpy as np
import pytest

from kexpfam.baselines import RNADE
from kexpfam.datasets import make_grid
from reproduction import figure1, methods
from reproduction.figure1 import LENGTHSCALES, SUITE
from reproduction.methods import JOINT
from reproduction.record import Record, Task


def record(n, d, method, split, gap, *, rows=None):
    figures = {
        "n": rows or n,
        "d": d,
        "log_likelihood": 0.2 - gap * d,
        "truth": 0.2,
        "gap_per_column": gap,
        "lowest": -3.0,
        "fit_seconds": 1.0,
    }
    task = Task("figure1", f"n={n}, d={d}", method, split, rows)
    return Record(task, figures, None, 1.0, {})


def test_no_task_is_declared_twice_and_both_sweeps_are_complete():
    keys = [task.key for task in SUITE.tasks]
    assert len(set(keys)) == len(keys)
    cases = {task.case for task in SUITE.tasks if task.method == "AutoKCEF-F"}
    assert {f"n={n}, d=3" for n in figure1.ROWS} <= cases
    assert {f"n=2000, d={d}" for d in figure1.COLUMNS} <= cases


def test_the_markov_graph_is_that_of_the_true_density():
    parents = make_grid(1, 4, random_state=0).law.parents
    assert parents == ((), (0,), (1,), (2,))


@pytest.mark.parametrize("method", ["LSCDE-F", "KCEF-M", *LENGTHSCALES, "RNADE"])
def test_a_task_finds_the_gap_between_fit_and_truth(method, monkeypatch):
    monkeypatch.setattr(methods, "RNADE", partial(RNADE, max_epochs=5))
    task = Task("figure1", "n=40, d=2", method, 0, 30)
    found = figure1.run(task, 300, test_rows=100)
    assert (found["n"], found["d"]) == (30, 2)
    gap = (found["truth"] - found["log_likelihood"]) / 2
    assert found["gap_per_column"] == pytest.approx(gap, abs=2e-6)  # rounding


def test_all_methods_of_a_split_see_the_same_rows():
    one, other = (
        figure1.run(Task("figure1", "n=40, d=2", method, 1), 301, test_rows=50)
        for method in ("LSCDE-F", "LSCDE-M")
    )
    assert one["truth"] == other["truth"]
    assert one["log_likelihood"] == other["log_likelihood"]  # one graph at d = 2
    task = Task("figure1", "n=40, d=2", "LSCDE-F", 2)
    next_split = figure1.run(task, 302, test_rows=50)
    assert next_split["truth"] != one["truth"]


def test_the_text_has_the_means_and_the_pictures_are_there(tmp_path):
    records = [
        record(2000, d, method, split, 0.01 * (split + 1) + 0.1 * rank)
        for d in (3, 5)
        for rank, method in enumerate((*JOINT, *LENGTHSCALES))
        for split in range(2)
    ]
    text = SUITE.show(records, tmp_path)
    assert "| n=2000, d=3 | 0.015 ± 0.005 | 0.115 ± 0.005 |" in text
    assert "above in 8 of 8" in text
    assert "AutoKCEF-M is 0.115 nats per column below the truth" in text
    assert "missed" in text
    for name in ("figure1.png", "lengthscales.png"):
        assert f"({name})" in text
        assert (tmp_path / name).stat().st_size > 5000


def test_a_comparison_that_is_lost_is_said_with_its_size(tmp_path):
    records = [record(200, 3, "AutoKCEF-F", 0, 0.3), record(200, 3, "RNADE", 0, 0.1)]
    text = SUITE.show(records, tmp_path)
    assert "above in 0 of 1" in text
    assert "AutoKCEF-F is 0.200 below RNADE at n=200, d=3" in text


def test_any_part_of_a_run_can_be_shown(tmp_path):
    quick = [record(2000, 2, "LSCDE-F", 0, 0.1, rows=400)]
    assert "n=400, d=2" in SUITE.show(quick, tmp_path)
    assert np.all([task.split == 0 for task in SUITE.quick])
