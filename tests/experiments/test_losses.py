"""Losses of test rows, by hand."""

import numpy as np
import pytest

from kexpfam.experiments.losses import losses

LOGS = np.array([[-1.0, -2.0], [-50.0, 3.0]])


def test_joint_losses_add_up_over_factors():
    found = losses(LOGS, vanishing=False)
    assert found["nll"] == pytest.approx((3.0 + 47.0) / 2)
    assert found["worst"] == 47.0
    assert found["below_floor"] == 1


def test_where_densities_vanish_each_factor_has_a_floor():
    found = losses(LOGS, vanishing=True)
    assert found["nll"] == found["nll_floored"] == pytest.approx((3.0 + 17.0) / 2)
    assert found["worst"] == 17.0
    vanished = losses(np.array([[-np.inf]]), vanishing=True)
    assert vanished["nll"] == 20.0


def test_what_is_not_a_number_is_a_failure():
    with pytest.raises(ValueError, match="1 log densities are not numbers"):
        losses(np.array([[np.nan], [0.0]]), vanishing=False)
