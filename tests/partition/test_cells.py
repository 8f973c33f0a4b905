"""Cells: where levels and points lie, all rows at once."""

import numpy as np
import pytest

from kexpfam.partition import cells_holding


@pytest.mark.parametrize("k", [1, 2, 3, 7, 8, 9, 31, 64])
def test_cells_holding_levels_are_those_of_a_search_row_by_row(k):
    rng = np.random.default_rng(k)
    # Rounded, so that levels fall on ends of cells, and ends on each other.
    below = np.sort(rng.uniform(size=(40, k)).round(1), axis=1)
    level = rng.uniform(-0.2, 1.2, size=(40, 5)).round(1)
    pairs = zip(below, level, strict=True)
    slow = [ends.searchsorted(wanted, side="right") - 1 for ends, wanted in pairs]
    np.testing.assert_array_equal(
        cells_holding(below, level), np.clip(np.stack(slow), 0, k - 1)
    )
