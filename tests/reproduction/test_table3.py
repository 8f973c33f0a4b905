"""Table 3 and figure 2: draws are recorded, and tests follow from records alone."""

import json
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

from kexpfam.baselines import RNADE
from kexpfam.comparison import relative_mmd_test
from reproduction import methods, protocol, table3
from reproduction.record import Record, Task
from reproduction.table3 import METHODS, SUITE, relative_tests


@pytest.fixture
def small_table(monkeypatch):
    rng = np.random.default_rng(0)
    data = 5.0 + 3.0 * rng.normal(size=(70, 2)) @ rng.normal(size=(2, 2))
    found = SimpleNamespace(data=data, feature_names=("a", "b"))
    for module in (table3, protocol):
        monkeypatch.setattr(module, "load_benchmark", lambda name: found)
    monkeypatch.setattr(methods, "RNADE", partial(RNADE, max_epochs=5))
    return data


@pytest.mark.parametrize("method", METHODS)
def test_a_task_records_draws_that_json_can_hold(method, small_table):
    found = table3.run(Task("table3", "red_wine", method, 0, 40), 400, count=40)
    assert json.loads(json.dumps(found)) == found
    draws = np.array(found["draws"])
    assert draws.shape == ((7, 2) if method == "data" else (40, 2))
    if method == "data":
        order = np.random.default_rng(400).permutation(70)
        test = protocol.in_units(small_table)[order[:7]]
        assert np.allclose(draws, test, rtol=1e-4)
        assert found["columns"] == ["a", "b"]


def record(case, method, split, shift):
    rng = np.random.default_rng([split, len(method)])
    draws = (rng.normal(size=(60, 3)) + shift).round(4).tolist()
    figures = {"draws": draws, "columns": ["a", "b", "c"]}
    if method != "data":
        figures |= {"log_likelihood": -3.25, "fit_seconds": 7.0, "draw_seconds": 1.0}
    task = Task("table3", case, method, split)
    return Record(task, figures, None, 1.0, {})


SHIFTS = {"data": 0.0, "KEF": 1.0, "KCEF-F": 0.0, "RNADE": 0.0, "AutoKCEF-F": 0.5}


def test_small_p_says_that_the_second_model_is_closer(tmp_path):
    records = [
        record("red_wine", method, split, shift)
        for method, shift in SHIFTS.items()
        for split in range(3)
    ]
    results = relative_tests(records, "red_wine", "KEF", "KCEF-F")
    assert len(results) == 3
    assert max(result.p_value for result in results) < 0.01
    back = relative_tests(records, "red_wine", "KCEF-F", "KEF")
    assert min(result.p_value for result in back) > 0.99
    # The same from the draws themselves.
    data, far, near = (np.array(records[i].figures["draws"]) for i in (0, 3, 6))
    assert results[0].p_value == relative_mmd_test(data, far, near).p_value

    text = SUITE.show(records, tmp_path)
    assert (
        "| red_wine | KEF, KCEF-F | 0.0008 | 0.000 (0.000 to 0.000) | 1.000 |" in text
    )
    p = sorted(
        r.p_value for r in relative_tests(records, "red_wine", "RNADE", "KCEF-F")
    )
    line = f"| 0.326 | {p[1]:.3f} ({p[0]:.3f} to {p[2]:.3f}) | {1 - p[1]:.3f} |"
    assert f"| red_wine | RNADE, KCEF-F {line}" in text
    assert "| red_wine | KEF | -3.250 | 7 |" in text
    assert (tmp_path / "figure2.png").stat().st_size > 5000


def test_any_part_of_a_run_can_be_shown(tmp_path):
    text = SUITE.show([record("parkinsons", "KEF", 0, 0.0)], tmp_path)
    assert "No split" in text
    assert "png" not in text
    both = [record("parkinsons", method, 0, 0.0) for method in ("data", "KCEF-F")]
    assert "figure2.png" in SUITE.show(both, tmp_path)
