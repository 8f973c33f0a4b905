"""The network of RNADE: what depends on what, and that densities are densities."""

import importlib
import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats

from kexpfam.baselines.rnade_network import (
    Network,
    all_mixtures,
    average_log_density,
    column_mixture,
    initial_network,
    last_hidden,
    log_density_in_order,
    log_factors,
    log_sum_exp,
    mixture_log_density,
    random_orders,
)
from tests.tolerances import QUADRATURE, ROUNDING, assert_close


def lively_network(columns, conditions, *, units=7, layers=2, components=3, seed=0):
    """A network whose outputs depend on its inputs from the start."""
    rng = np.random.default_rng(seed)
    start = initial_network(columns, conditions, units, layers, components, rng)
    hidden = tuple((w, rng.normal(size=b.shape)) for w, b in start.hidden)
    return Network(hidden, 4.0 * start.output, start.bias)


def double_precision():
    """JAX's context, wherever this version of it has that."""
    if hasattr(jax, "enable_x64"):
        return jax.enable_x64(True)
    return importlib.import_module("jax.experimental").enable_x64()


LEAST = np.array([0.05, 0.1, 0.02])


@pytest.fixture(scope="module")
def network():
    return lively_network(3, 2)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(1)
    return rng.normal(size=(6, 3)), rng.normal(size=(6, 2))


def slow_factor(network, u, seen, z, column, least):
    """Log p(u_column | seen, z), by plain loops over units and components."""
    values = [a * s for a, s in zip(u, seen, strict=True)] + list(seen) + list(z)
    for weights, bias in network.hidden:
        values = [
            max(0.0, sum(v * w for v, w in zip(values, column, strict=True)) + b)
            for column, b in zip(weights.T, bias, strict=True)
        ]
    components = network.bias.shape[-1]

    def output(kind, c):
        weights = network.output[:, column, kind, c]
        products = sum(v * w for v, w in zip(values, weights, strict=True))
        return products + network.bias[column, kind, c]

    shares = [math.exp(output(0, c)) for c in range(components)]
    return math.log(
        sum(
            share
            / sum(shares)
            * stats.norm.pdf(
                u[column], output(1, c), least[column] + math.exp(output(2, c))
            )
            for c, share in enumerate(shares)
        )
    )


def test_factors_equal_those_of_plain_loops(network, rows):
    U, Z = rows
    for seen in itertools.product([0.0, 1.0], repeat=3):
        mask = np.broadcast_to(seen, U.shape)
        found = log_factors(network, U, mask, Z, LEAST, np)
        expected = [
            [slow_factor(network, u, seen, z, j, LEAST) for j in range(3)]
            for u, z in zip(U, Z, strict=True)
        ]
        assert_close(found, expected)


def test_density_in_an_order_is_the_product_of_its_factors(network, rows):
    U, Z = rows
    for order in itertools.permutations(range(3)):
        expected = np.zeros(len(U))
        for a in range(len(U)):
            for i, column in enumerate(order):
                seen = [float(j in order[:i]) for j in range(3)]
                expected[a] += slow_factor(network, U[a], seen, Z[a], column, LEAST)
        found = log_density_in_order(network, U, Z, np.array(order), LEAST)
        assert_close(found, expected)


def test_average_over_orders_is_the_mean_of_densities_not_of_their_logs(network, rows):
    U, Z = rows
    orders = random_orders(3, 4, np.random.default_rng(0))
    each = [log_density_in_order(network, U, Z, order, LEAST) for order in orders]
    found = average_log_density(network, U, Z, orders, LEAST)
    assert_close(found, np.log(np.mean(np.exp(each), axis=0)))
    assert np.all(found > np.mean(each, axis=0))


def test_a_factor_does_not_depend_on_columns_not_seen(network, rows):
    U, Z = rows
    with double_precision():

        def factors(u, seen):
            return log_factors(network, u, seen, Z[0], LEAST, jnp)

        slopes_of = jax.jit(jax.jacobian(factors))  # compiled once, run eight times
        for seen in itertools.product([0.0, 1.0], repeat=3):
            slopes = np.asarray(slopes_of(jnp.array(U[0]), jnp.array(seen)))
            own = np.eye(3, dtype=bool)
            # Exactly zero for those not seen, and not zero for the others.
            assert np.all((slopes != 0.0) == (own | (np.array(seen) == 1.0)))


def test_values_of_columns_not_seen_do_not_change_the_hidden_layer(network, rows):
    U, Z = rows
    seen = np.broadcast_to([1.0, 0.0, 0.0], U.shape)
    other = U + np.array([0.0, 5.0, -3.0])
    found = last_hidden(network, other, seen, Z, np)
    assert np.array_equal(found, last_hidden(network, U, seen, Z, np))


def test_conditions_are_always_seen(network, rows):
    U, Z = rows
    nothing = np.zeros(U.shape)
    first = log_factors(network, U, nothing, Z, LEAST, np)
    second = log_factors(network, U, nothing, Z + 1.0, LEAST, np)
    assert np.all(first != second)


def test_a_known_zero_is_not_the_same_as_an_unknown_value(network, rows):
    U, Z = rows
    zeros = np.zeros(U.shape)
    unknown = log_factors(network, zeros, zeros, Z, LEAST, np)
    assert np.all(unknown != log_factors(network, zeros, zeros + 1.0, Z, LEAST, np))


def test_numpy_and_jax_agree(network, rows):
    U, Z = rows
    seen = np.random.default_rng(2).integers(2, size=U.shape).astype(float)
    expected = log_factors(network, U, seen, Z, LEAST, np)
    with double_precision():
        found = jax.jit(lambda u: log_factors(network, u, seen, Z, LEAST, jnp))(U)
    assert_close(found, expected)
    single = Network(*jax.tree.map(np.float32, network))
    parts = (np.float32(part) for part in (U, seen, Z, LEAST))
    # Single precision: eps is 6e-8, and squared distances in scales reach 1e3.
    assert_close(log_factors(single, *parts, jnp), expected, 1e-4)


def test_one_column_of_the_mixtures_is_that_of_all(network, rows):
    U, Z = rows
    values = last_hidden(network, U, np.ones(U.shape), Z, np)
    everything = all_mixtures(network, values, LEAST, np)
    for column in range(3):
        one = column_mixture(network, values, column, LEAST, np)
        for found, expected in zip(one, everything, strict=True):
            assert_close(found, expected[:, column])


def test_weights_sum_to_one_and_scales_stay_above_the_bound(network, rows):
    U, Z = rows
    # Log scales that training would have driven to spikes.
    bias = network.bias.copy()
    bias[:, 2] = -80.0
    spiky = Network(network.hidden, 0.0 * network.output, bias)
    values = last_hidden(spiky, U, np.ones(U.shape), Z, np)
    mixture = all_mixtures(spiky, values, LEAST, np)
    assert_close(np.exp(mixture.log_weights).sum(axis=-1), np.ones((6, 3)))
    scales = np.exp(mixture.log_scales)
    assert_close(scales, np.broadcast_to(LEAST[:, None], scales.shape))


def test_one_column_integrates_to_one():
    network, least = lively_network(1, 2), np.array([0.01])
    order = np.zeros((1, 1), dtype=int)
    for z in np.random.default_rng(3).normal(size=(3, 2)):

        def density(u, z=z):
            points = np.atleast_1d(u)[:, None]
            Z = np.broadcast_to(z, (len(points), 2))
            return np.exp(average_log_density(network, points, Z, order, least))

        total, _ = integrate.quad_vec(density, -60.0, 60.0, epsabs=1e-12, limit=2000)
        assert_close(total, [1.0], QUADRATURE)


@pytest.mark.parametrize("conditions", [0, 1])
def test_two_columns_integrate_to_one_in_each_order_and_on_average(conditions):
    network, least = lively_network(2, conditions, units=4), np.full(2, 0.05)
    # Given the first column in order the second is a mixture of normals, and so is the
    # first: equal cells narrower than half a scale are exact up to the tails.
    grid = np.linspace(-25.0, 25.0, 701)
    U = np.stack(np.meshgrid(grid, grid, indexing="ij"), axis=-1).reshape(-1, 2)
    Z = np.full((len(U), conditions), 0.3)
    cell = (grid[1] - grid[0]) ** 2
    each = [
        log_density_in_order(network, U, Z, np.array(order), least)
        for order in ([0, 1], [1, 0])
    ]
    totals = [np.exp(log_p).sum() * cell for log_p in each]
    both = np.exp(np.logaddexp(*each)).sum() * cell / 2.0
    assert np.abs(np.array([*totals, both]) - 1.0).max() < QUADRATURE


def test_the_log_of_a_sum_survives_large_and_infinite_terms():
    terms = np.array([[-1e5, -1e5 + 1.0], [1e5, 0.0], [-np.inf, 2.0]])
    expected = [-1e5 + np.log1p(np.e), 1e5, 2.0]
    assert_close(log_sum_exp(terms, np), expected)
    with np.errstate(divide="ignore"):
        assert log_sum_exp(np.full((1, 2), -np.inf), np) == [-np.inf]


def test_far_inputs_count_as_less_far_but_points_do_not(network):
    Z, seen = np.zeros((2, 2)), np.array([1.0, 0.0, 0.0])
    U = np.array([[1e3, 0.0, 0.0], [1e6, 0.0, 0.0]])
    mask = np.broadcast_to(seen, U.shape)
    log_p = log_factors(network, U, mask, Z, LEAST, np)
    assert np.array_equal(log_p[0, 1:], log_p[1, 1:])
    assert log_p[1, 0] < log_p[0, 0] < -100


def test_normal_mixture_equals_scipy():
    network = initial_network(1, 0, 2, 1, 2, np.random.default_rng(0))
    bias = np.array([[[0.3, -0.4], [-1.0, 2.0], [0.1, -0.7]]])
    network = Network(network.hidden, 0.0 * network.output, bias)
    nothing = np.zeros((5, 1))
    values = last_hidden(network, nothing, nothing, np.zeros((5, 0)), np)
    mixture = column_mixture(network, values, 0, np.array([0.25]), np)
    u = np.linspace(-3, 3, 5)
    share = np.exp(0.3) / (np.exp(0.3) + np.exp(-0.4))
    expected = share * stats.norm.pdf(u, -1.0, 0.25 + np.exp(0.1))
    expected += (1 - share) * stats.norm.pdf(u, 2.0, 0.25 + np.exp(-0.7))
    assert_close(np.exp(mixture_log_density(mixture, u, np)), expected, ROUNDING)


@pytest.mark.parametrize(
    ("columns", "count"), [(1, 8), (2, 8), (3, 6), (3, 4), (20, 8)]
)
def test_orders_are_different_permutations_and_all_if_there_are_no_more(columns, count):
    orders = random_orders(columns, count, np.random.default_rng(0))
    assert len({tuple(order) for order in orders.tolist()}) == len(orders)
    assert len(orders) == min(count, math.factorial(columns))
    assert np.all(np.sort(orders, axis=1) == np.arange(columns))
