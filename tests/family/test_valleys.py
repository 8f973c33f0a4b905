"""Deep valleys of densities on nodes."""

import numpy as np
import pytest
from scipy import signal

from kexpfam.family.valleys import valleys


@pytest.mark.parametrize("seed", range(20))
def test_valleys_are_those_of_scipy(seed):
    rng = np.random.default_rng(seed)
    nodes = np.sort(rng.uniform(0.0, 10.0, size=120))
    rough = np.cumsum(rng.normal(size=120) * rng.choice([0.0, 2.0], size=120))
    rough[rng.random(120) < 0.05] = -np.inf
    below = np.linspace(0.0, 1.0, 120)
    found = valleys(nodes, rough, below, 0.1)
    depth = -np.maximum(rough, rough.max() - 700.0)
    place, peaks = signal.find_peaks(depth, prominence=np.log(10.0))
    bases = peaks["left_bases"], peaks["right_bases"]
    above = peaks["prominences"] - np.log(10.0)
    _, _, left, right = signal.peak_widths(
        depth, place, rel_height=1.0, prominence_data=(above, *bases)
    )
    np.testing.assert_array_equal(found.at, nodes[place])
    np.testing.assert_allclose(found.depth, peaks["prominences"])
    np.testing.assert_allclose(found.low, np.interp(left, np.arange(120), nodes))
    np.testing.assert_allclose(found.high, np.interp(right, np.arange(120), nodes))
    np.testing.assert_array_equal(found.below, below[place])
