"""The failure case: what tasks find, and that text and picture follow the records."""

import numpy as np
import pytest

from reproduction import failure
from reproduction.failure import METHODS, SUITE
from reproduction.methods import PAPER
from reproduction.record import Record, Task


@pytest.mark.parametrize("method", METHODS)
def test_a_task_finds_masses_and_for_the_first_split_a_raster(method):
    task = Task("failure", "islands", method, 0, 60)
    found = failure.run(task, 600, test_rows=100)
    assert found["rows"] == 60
    assert found["kl"] == pytest.approx(found["nll"] - found["truth_nll"], abs=3e-6)
    assert np.shape(found["raster"]) == (41, 61)
    assert 0 <= min(found["mass"]) <= max(found["mass"]) <= 1
    assert set(found["true_mass"]) == {0.2, 0.8}


def test_errors_of_masses_are_those_of_the_masses():
    task = Task("failure", "islands", "KCEF, bridged", 1, 60)
    found = failure.run(task, 601, test_rows=100)
    assert "raster" not in found
    error = np.abs(np.array(found["mass"]) - found["true_mass"])
    assert found["mean_mass_error"] == pytest.approx(error.mean(), abs=1e-4)
    clear = np.abs(failure.CONDITIONS) >= 0.25
    assert found["worst_mass_error"] == pytest.approx(error[clear].max(), abs=1e-4)


def record(method, split, kl):
    figures = {
        "rows": 50,
        "nll": 0.4 + kl,
        "kl": kl,
        "truth_nll": 0.4,
        "worst_mass_error": 0.3,
        "mean_mass_error": 0.1,
        "warned": method == PAPER,
        "mass": [0.5] * 33,
        "true_mass": [0.2] * 16 + [0.8] * 17,
    }
    if split == 0:
        raster = np.ones((41, 61)).tolist()
        figures |= {"x": [0.1, 0.2], "y": [1.0, -1.0], "raster": raster}
    task = Task("failure", "islands", method, split)
    return Record(task, figures, None, 1.0, {})


def test_the_table_has_the_means_of_the_records(tmp_path):
    records = [record(m, split, 0.1 + 0.2 * split) for m in METHODS for split in (0, 1)]
    text = SUITE.show(records, tmp_path)
    line = "0.600 ± 0.100 | 0.200 ± 0.100 | 0.300 ± 0.000 | 0.100 ± 0.000"
    assert f"| {PAPER} | {line} | 2 of 2 |" in text
    assert f"| AutoKCEF | {line} | 0 of 2 |" in text
    assert "negative log-likelihood is 0.400" in text
    assert (tmp_path / "failure.png").stat().st_size > 5000


def test_any_part_of_a_run_can_be_shown(tmp_path):
    assert "failure.png" in SUITE.show([record("AutoKCEF", 0, 0.1)], tmp_path)
    text = SUITE.show([record("AutoKCEF", 1, 0.1)], tmp_path / "none")
    assert "png" not in text
    assert not (tmp_path / "none").exists()
