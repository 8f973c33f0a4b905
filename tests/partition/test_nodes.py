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


@pytest.mark.parametrize("resolution", [0.05, 0.3, 2.0])
def test_nodes_around_responses_are_a_quarter_of_a_lengthscale_apart(resolution):
    """At most a tenth of the standard deviation of the responses, which is one."""
    U = np.random.default_rng(0).normal(size=200)
    nodes = Nodes.covering(U, 12.0, resolution).points
    step = min(0.25 * resolution, 0.1)
    inside = (nodes > U.min()) & (nodes < U.max())
    assert np.diff(nodes[inside]).max() <= step * (1 + 1e-9)
    # No finer than that, on average, and fine for two lengthscales beyond.
    assert np.diff(nodes[inside]).mean() > 0.9 * step
    margin = 2.0 * min(resolution, 1.0)
    near = (nodes > U.min() - margin) & (nodes < U.max() + margin)
    assert np.diff(nodes[near]).max() <= step * (1 + 1e-9)
    # Then farther and farther apart, as far as they are to reach.
    left, right = nodes[nodes < U.min() - margin], nodes[nodes > U.max() + margin]
    assert np.all(np.diff(np.diff(right), n=1) > -1e-9)
    assert np.all(np.diff(np.diff(left), n=1) < 1e-9)
    assert -14.5 < nodes[0] < -10.0
    assert 10.0 < nodes[-1] < 14.5


def test_nodes_between_distant_responses_are_few_however_far_they_are():
    U = np.append(np.random.default_rng(0).normal(size=50), [1e3, 1e6])
    nodes = Nodes.covering(U, 2e6, 0.4)
    step = 0.1
    assert len(nodes.points) < 500
    assert np.all(np.diff(nodes.points) > 0)
    for u in U:
        near = nodes.points[np.abs(nodes.points - u) < 0.7]
        assert np.diff(near).max() <= step * (1 + 1e-6)
    # A bump at either place has its mass.
    for center in (0.5, 1e3, 1e6):
        bump = stats.norm(center, 0.12).pdf(nodes.points)
        assert_close(bump @ np.exp(nodes.log_weights), 1.0, 1e-4)


def test_trapezoidal_weights_and_interpolation_are_those_of_straight_lines():
    points = np.array([-1.0, 0.5, 0.75, 3.0])
    nodes = Nodes.trapezoidal(points)
    values = np.array([2.0, -1.0, 0.0, 4.0])
    slow = sum(
        0.5 * (points[k + 1] - points[k]) * (values[k] + values[k + 1])
        for k in range(3)
    )
    assert_close(np.exp(nodes.log_weights) @ values, slow)
    u = np.array([-1.0, 0.0, 0.5, 0.6, 2.0, 3.0])
    left, along = nodes.interpolation(u)
    found = (1 - along) * values[left] + along * values[left + 1]
    assert_close(found, np.interp(u, points, values))


def test_weights_of_intervals_integrate_straight_lines():
    points = np.array([-1.0, 0.5, 0.75, 3.0])
    values = np.array([2.0, 1.0, 0.0, 4.0])
    ends = [
        (-1.0, 3.0),
        (-0.3, 0.6),
        (0.55, 0.7),
        (-np.inf, 0.5),
        (2.0, np.inf),
        (1, 1),
    ]
    lower, upper = np.array(ends).T
    weights = Nodes.trapezoidal(points).interval_weights(lower, upper)
    fine = np.linspace(-1.0, 3.0, 400_001)
    height = np.interp(fine, points, values)
    for row, a, b in zip(weights, lower, upper, strict=True):
        slow = integrate.trapezoid(height * ((fine >= a) & (fine <= b)), fine)
        assert_close(row @ values, slow, 1e-4, scale=1.0)
