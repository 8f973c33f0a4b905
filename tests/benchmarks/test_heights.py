"""What heights can reach: lines and their losses are those of slow formulas."""

import importlib
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def heights(monkeypatch):
    # Scripts in benchmarks import each other as they do when they are run.
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module("heights")


def test_the_loss_is_that_of_a_normal_around_the_line(heights):
    rng = np.random.default_rng(0)
    x = rng.normal(size=60)
    rows = np.column_stack([x, 2.0 + 0.5 * x + 0.3 * rng.normal(size=60)])
    (a, b), std = heights.line(rows[:40])
    fitted = stats.linregress(rows[:40, 0], rows[:40, 1])
    assert (a, b) == pytest.approx((fitted.intercept, fitted.slope))
    test = rows[40:]
    expected = -stats.norm.logpdf(test[:, 1], a + b * test[:, 0], std).mean()
    assert heights.loss(test, np.array([a, b]), std) == pytest.approx(expected)


def test_shares_count_what_is_printed_as_the_papers_number(heights):
    found = heights.summary(np.array([1.2, 1.2749, 1.2751, 1.4]))
    assert found["share_reached"] == 0.5
