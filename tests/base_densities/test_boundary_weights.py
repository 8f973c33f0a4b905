"""The weights that make score matching valid on a bounded support."""

import numpy as np
import pytest
from scipy import integrate, stats

from kexpfam.base_densities import boundary_weights
from tests.tolerances import DIFFERENCES, QUADRATURE, assert_close

SUPPORTS = {
    "both": (-1.0, 2.0),
    "below": (-1.0, np.inf),
    "above": (-np.inf, 2.0),
    "line": (-np.inf, np.inf),
}
SPREAD = np.array([0.7])

every_support = pytest.mark.parametrize("support", SUPPORTS.values(), ids=SUPPORTS)


def weights(y, support, spread=SPREAD):
    g, slope = boundary_weights(np.atleast_1d(y)[:, None], np.array([support]), spread)
    return g[:, 0], slope[:, 0]


@every_support
def test_weight_vanishes_at_finite_edges_and_only_there(support):
    y = np.array([end for end in support if np.isfinite(end)])
    np.testing.assert_array_equal(weights(y, support)[0], 0.0)
    inside = np.linspace(-0.99, 1.99, 31)
    g, _ = weights(inside, support)
    assert np.all(g > 0)
    assert np.all(g <= 1)


@pytest.mark.parametrize("name", ["below", "above", "line"])
def test_weight_is_one_far_from_every_edge(name):
    support = SUPPORTS[name]
    far = -40.0 if support[0] == -np.inf else 40.0
    g, slope = weights(far, support)
    assert_close(g, [1.0])
    assert_close(slope, [0.0], scale=1.0)


@every_support
def test_slope_equals_differences(support):
    y, step = np.linspace(-0.9, 1.9, 15), 1e-5
    up, down = weights(y + step, support)[0], weights(y - step, support)[0]
    _, slope = weights(y, support)
    assert_close(slope, (up - down) / (2 * step), DIFFERENCES, scale=1.0)


def test_weights_do_not_depend_on_the_unit():
    y = np.linspace(-0.9, 1.9, 15)
    g, slope = weights(y, (-1.0, 2.0))
    scaled, scaled_slope = weights(10 * y, (-10.0, 20.0), 10 * SPREAD)
    assert_close(scaled, g)
    assert_close(scaled_slope, slope / 10)


def test_each_column_has_its_own_support_and_spread():
    Y = np.array([[0.3, 0.4], [1.0, 5.0]])
    support = np.array([[0.0, 2.0], [-np.inf, 6.0]])
    spread = np.array([0.5, 3.0])
    g, slope = boundary_weights(Y, support, spread)
    for i in (0, 1):
        alone, alone_slope = weights(Y[:, i], support[i], spread[i : i + 1])
        assert_close(g[:, i], alone)
        assert_close(slope[:, i], alone_slope)


def test_weighted_integration_by_parts_leaves_no_boundary_term():
    # E[g f′ + (g′ + g ∂log p) f] = [g p f] at the edges = 0, though p is not zero there
    density = stats.truncnorm(-1.0, 2.0)

    def integrand(y):
        (g,), (slope,) = weights(y, (-1.0, 2.0))
        f, f_slope = np.sin(y) + 2.0, np.cos(y)
        return (g * f_slope + (slope - g * y) * f) * density.pdf(y)

    total, _ = integrate.quad(integrand, -1.0, 2.0, epsabs=1e-13)
    assert abs(total) < QUADRATURE
