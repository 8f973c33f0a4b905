"""Analytic nodes against integrals that are known."""

import numpy as np
import pytest
from scipy import integrate, stats

from kexpfam.partition import Nodes
from tests.tolerances import assert_close

# A peak as wide as its nodes' distance is integrated to 5e-9; where nodes begin to
# thin out, or at an end, 1e-6 is left.
ANALYTIC = 2e-6


@pytest.mark.parametrize(("mean", "sd"), [(0.0, 2.0), (0.3, 0.25), (-1.9, 0.5)])
def test_gaussians_integrate_to_one(mean, sd):
    nodes = Nodes.analytic(-2.5, 2.5, step=0.25, reach=(-18.0, 18.0))
    total = stats.norm(mean, sd).pdf(nodes.points) @ np.exp(nodes.log_weights)
    assert_close(total, 1.0, ANALYTIC)


def test_heavy_tails_need_few_nodes():
    nodes = Nodes.analytic(-2.0, 2.0, step=0.25, reach=(-1e4, 1e4))
    assert len(nodes.points) < 160
    total = stats.t(3).pdf(nodes.points) @ np.exp(nodes.log_weights)
    assert_close(total, 1.0, ANALYTIC)


@pytest.mark.parametrize(
    "support", [(-2.2, 2.6), (-2.2, np.inf), (-np.inf, 2.1), (-9.0, 2.1)]
)
def test_ends_of_the_support_are_no_obstacle(support):
    def density(u):
        return np.exp(-u * u / 8 + 3 * np.exp(-2 * (u - 0.3) ** 2))

    nodes = Nodes.analytic(-2.0, 2.0, step=0.25, support=support, reach=(-18.0, 18.0))
    low, high = np.clip(support, -20.0, 20.0)
    expected, _ = integrate.quad(density, low, high, epsabs=1e-13, limit=200)
    total = density(nodes.points) @ np.exp(nodes.log_weights)
    assert_close(total, expected, ANALYTIC)
    assert nodes.points.min() >= support[0]
    assert nodes.points.max() <= support[1]
    assert np.all(np.diff(nodes.points) > 0)


def test_half_the_distance_gives_more_digits():
    def error(step, growth):
        nodes = Nodes.analytic(-2.0, 2.0, step=step, reach=(-18.0, 18.0), growth=growth)
        peak = stats.norm(0.1, 0.15).pdf(nodes.points)
        return abs(peak @ np.exp(nodes.log_weights) - 1.0)

    assert error(0.15, 0.07) < 1e-4 * error(0.3, 0.14)
