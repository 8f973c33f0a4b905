"""Coordinates on the whole line for bounded supports."""

import numpy as np
import pytest

from kexpfam.sampling.programs import Unconstrained
from tests.tolerances import DIFFERENCES, assert_close

ENDS = {
    "line": (-np.inf, np.inf),
    "above": (-1.0, np.inf),
    "below": (-np.inf, 2.0),
    "both": (-1.0, 2.0),
}
V = np.linspace(-4.0, 4.0, 9)[:, None]


@pytest.mark.parametrize("ends", ENDS.values(), ids=ENDS)
def test_points_lie_inside_and_come_back(ends):
    line = Unconstrained.of(np.array([ends]))
    u, _ = line.at(V)
    assert np.all((u > ends[0]) & (u < ends[1]))
    assert_close(line.from_support(u), V)


@pytest.mark.parametrize("ends", ENDS.values(), ids=ENDS)
def test_slopes_are_those_of_differences(ends):
    line, h = Unconstrained.of(np.array([ends])), 1e-5
    (above, _), (below, _) = line.at(V + h), line.at(V - h)
    slope = np.abs(above - below) / (2 * h)
    assert_close(np.exp(line.at(V)[1]), slope, DIFFERENCES)


@pytest.mark.parametrize("name", ["above", "below", "both"])
def test_points_on_an_end_or_beyond_become_finite(name):
    low, high = ENDS[name]
    line = Unconstrained.of(np.array([ENDS[name]]))
    ends = np.array([[end] for end in (low, high) if np.isfinite(end)])
    outside = np.concatenate([ends, ends + 5.0 * np.sign(ends)])
    v = line.from_support(outside)
    assert np.all(np.isfinite(v))
    u, _ = line.at(v)
    assert np.all((u >= low) & (u <= high))


def test_far_points_of_an_interval_do_not_overflow():
    line = Unconstrained(((0.0, 1.0),))
    u, log_abs_det_jacobian = line.at(np.array([[-900.0], [900.0]]))
    assert_close(u, [[0.0], [1.0]], scale=1.0)
    assert np.all(np.isfinite(log_abs_det_jacobian))


def test_columns_have_their_own_ends():
    line = Unconstrained.of(np.array([[0.0, np.inf], [-np.inf, np.inf]]))
    U = np.array([[2.0, -3.0]])
    np.testing.assert_allclose(line.from_support(U), [[np.log(2.0), -3.0]])
