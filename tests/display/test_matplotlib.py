"""matplotlib is imported when something is drawn, and its absence is explained."""

import subprocess
import sys

import numpy as np
import pytest

from kexpfam.display import (
    ConditionalDensityDisplay,
    GraphDisplay,
    PairsDisplay,
    plot_calibration,
    plot_coverage,
    plot_densities,
    plot_pit,
)
from kexpfam.errors import MissingDependencyError

ROWS = np.zeros((3, 1))
PICTURES = {
    "densities": lambda: plot_densities(None),
    "heat map": lambda: ConditionalDensityDisplay.from_estimator(None, ROWS),
    "pit": lambda: plot_pit([0.5]),
    "coverage": lambda: plot_coverage([0.5]),
    "calibration": lambda: plot_calibration([0.5]),
    "graph": lambda: GraphDisplay(["a"], {}).plot(),
    "pairs": lambda: PairsDisplay.from_samples(ROWS, ROWS),
}


@pytest.mark.parametrize("name", PICTURES)
def test_a_missing_matplotlib_is_explained(monkeypatch, name):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(MissingDependencyError, match=r'pip install "kexpfam\[plot\]"'):
        PICTURES[name]()


def test_importing_does_not_import_matplotlib():
    code = "import sys, kexpfam.metrics, kexpfam.display; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert "kexpfam.display" in done.stdout.split()
    assert "matplotlib" not in done.stdout.split()
