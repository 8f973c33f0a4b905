"""Deep valleys of densities on nodes."""

import numpy as np
import pytest
from scipy import signal

from kexpfam.family.valleys import all_valleys, side_by_side, valleys


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


def test_valleys_of_all_rows_stand_side_by_side():
    """Of rows with two valleys, with none, with one, and with one in a tail."""
    nodes = np.linspace(-10.0, 10.0, 401)

    def bumps(*places):
        return np.logaddexp.reduce([-0.5 * ((nodes - p) / 0.5) ** 2 for p in places])

    tail = np.logaddexp(bumps(0.0), np.log(1e-5) + bumps(8.0))
    log_p = np.stack([bumps(-5, 0, 5), bumps(1), bumps(-3, 3), tail])
    cdf = np.cumsum(np.exp(log_p), axis=1)
    cdf /= cdf[:, -1:]
    rows = all_valleys(nodes, log_p, cdf, 0.1, 1e-3)
    assert [len(row.at) for row in rows] == [2, 0, 1, 0]
    table = side_by_side(rows)
    for name in ("at", "low", "high", "below", "depth"):
        found = getattr(table, name)
        assert found.shape == (4, 2)
        own = [valleys(nodes, p, c, 0.1) for p, c in zip(log_p, cdf, strict=True)]
        np.testing.assert_array_equal(found[0], getattr(own[0], name))
        np.testing.assert_array_equal(found[2], [getattr(own[2], name)[0], np.nan])
        assert np.isnan(found[[1, 3]]).all()
    np.testing.assert_allclose(table.at[0], [-2.5, 2.5], atol=0.06)
    np.testing.assert_allclose(table.below[0], [1 / 3, 2 / 3], atol=1e-3)
    assert side_by_side(rows[1:2]).at.shape == (1, 0)
