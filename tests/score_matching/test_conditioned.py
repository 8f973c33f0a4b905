"""T at fixed conditions against T pair by pair."""

import copy

import numpy as np
import pytest

from kexpfam._linalg import BLOCK_BYTES
from kexpfam.base_densities import GaussianBase, TruncatedBase
from kexpfam.kernels import Constant, Gaussian, Matern, separable
from kexpfam.score_matching import fit_exact
from kexpfam.score_matching.expansion import (
    ConditionedExpansion,
    KernelExpansion,
    NodeFeatures,
)
from kexpfam.score_matching.tilted import TiltedDensity
from tests.score_matching.test_exact import LAM, NotStationary, make_sample
from tests.tolerances import assert_close

PRODUCT = separable(Gaussian(1.2), Gaussian(0.9))
SUM = PRODUCT + separable(Constant(), Matern(2.0))


@pytest.mark.parametrize(
    "kernel", [PRODUCT, SUM, NotStationary(SUM)], ids=["product", "sum", "other"]
)
@pytest.mark.parametrize("d", [1, 2])
def test_shared_nodes_and_own_points_equal_single_pairs(kernel, d):
    sample = make_sample(d, 2, n=12, weighted=True)
    T = fit_exact(kernel, sample, LAM).T
    rng = np.random.default_rng(9)
    X, nodes, own = (rng.normal(size=s) for s in ((3, 2), (5, d), (3, 4, d)))
    value = np.array([[T.value(x[None], y[None])[0] for y in nodes] for x in X])
    own_value = np.array(
        [
            [T.value(x[None], y[None])[0] for y in ys]
            for x, ys in zip(X, own, strict=True)
        ]
    )
    own_gradient = np.array(
        [
            [T.gradient(x[None], y[None])[0] for y in ys]
            for x, ys in zip(X, own, strict=True)
        ]
    )
    conditioned = ConditionedExpansion(T, X)
    assert_close(conditioned.on_nodes(nodes), value)
    assert_close(conditioned.value(own), own_value)
    assert_close(conditioned.gradient(own), own_gradient)


@pytest.mark.parametrize(
    "kernel",
    [
        PRODUCT,
        PRODUCT + separable(Constant(), Gaussian((0.7, 1.4))),
        separable(Gaussian(1.2), Matern(2.0)),
    ],
    ids=["product", "sum", "no product of columns"],
)
def test_grids_of_the_plane_equal_their_nodes(kernel):
    rng = np.random.default_rng(3)
    centers = rng.normal(size=(12, 2)), rng.normal(size=(12, 2))
    T = KernelExpansion(kernel, *centers, zeroth=rng.normal(size=12))
    X, first, second = (rng.normal(size=size) for size in ((3, 2), 40, 30))
    nodes = np.stack(np.meshgrid(first, second, indexing="ij"), axis=-1).reshape(-1, 2)
    conditioned = ConditionedExpansion(T, X)
    found = conditioned._on_many_nodes(nodes)
    own = np.broadcast_to(nodes, (3, *nodes.shape))
    assert_close(found, conditioned.value(own), scale=10.0)
    # Any other order of the nodes is no grid.
    order = rng.permutation(len(nodes))
    assert_close(conditioned._on_many_nodes(nodes[order]), found[:, order], scale=10.0)


@pytest.mark.parametrize("kernel", [SUM, NotStationary(SUM)], ids=["sum", "other"])
def test_row_blocks_do_not_show(kernel):
    T = fit_exact(kernel, make_sample(1, 2, n=12, weighted=True), LAM).T
    rng = np.random.default_rng(9)
    few = rng.normal(size=(7, 1))
    times = BLOCK_BYTES // (8 * 12 * 7) + 100  # a block and a bit
    many = np.tile(few, (times, 1))
    conditioned = ConditionedExpansion(T, rng.normal(size=(2, 2)))
    expected = conditioned.on_nodes(few)
    assert_close(conditioned.on_nodes(many), np.tile(expected, times))
    assert_close(conditioned.value(np.stack([many, many])), np.tile(expected, times))


def test_features_that_are_asked_for_again_are_kept_up_to_a_size_and_not_sent_along():
    sample = make_sample(1, 2, n=12, weighted=False)
    T = fit_exact(SUM, sample, LAM).T
    rng = np.random.default_rng(2)
    sets = [rng.normal(size=(5, 1)) for _ in range(6)]
    conditioned = ConditionedExpansion(T, rng.normal(size=(3, 2)))
    fresh = [NodeFeatures(T).at(nodes) for nodes in sets]
    small = NodeFeatures(T, most_numbers=4 * 2 * 5 * 12)
    for kept in (0, 4, 4):
        for nodes, expected in zip(sets, fresh, strict=True):
            for found in (small.at(nodes), T.node_features.at(nodes)):
                np.testing.assert_array_equal(found, expected)
        assert len(small._kept) == kept
    # The last ones; of nodes that never come back nothing is kept.
    assert set(small._kept) == {nodes.tobytes() for nodes in sets[2:]}
    for _ in range(1000):
        T.node_features.at(rng.normal(size=(5, 1)))
    assert len(T.node_features._kept) == 6
    assert len(T.node_features._once) == 64
    first = T.node_features.at(sets[0])
    assert T.node_features.at(sets[0])[0] is first[0]
    again = copy.deepcopy(T)
    assert not again.node_features._kept
    assert_close(
        ConditionedExpansion(again, conditioned.X).on_nodes(sets[0]),
        conditioned.on_nodes(sets[0]),
    )


@pytest.mark.parametrize("derivatives", [0, 1, 2], ids="with_{}".format)
@pytest.mark.parametrize("kernel", [PRODUCT, SUM], ids=["product", "sum"])
def test_features_of_nodes_times_the_kernel_of_x_are_the_function(kernel, derivatives):
    rng = np.random.default_rng(4)
    m, d = 9, 2
    centers = rng.normal(size=(m, 2)), rng.normal(size=(m, d))
    first, second, zeroth = (rng.normal(size=s) for s in ((m, d), (m, d), m))
    parts = [(None, None, zeroth), (first, None, None), (first, second, zeroth)]
    T = KernelExpansion(kernel, *centers, *parts[derivatives])
    x, nodes = rng.normal(size=(1, 2)), rng.normal(size=(5, d))
    total = np.zeros(5)
    for kx, ky in kernel.products:
        features = np.full((5, m), 7.0)  # what is there before does not count
        T.write_features(ky, nodes, features, np.empty)
        total += features @ kx.values(x, centers[0])[0]
    assert_close(total, T.value(np.tile(x, (5, 1)), nodes))


@pytest.mark.parametrize("d", [1, 2])
def test_tilted_densities_are_the_base_times_the_exponential_of_the_function(d):
    T = fit_exact(PRODUCT, make_sample(d, 2, n=12, weighted=True), LAM).T
    base = GaussianBase(2.0)
    rng = np.random.default_rng(3)
    X, nodes, own = (rng.normal(size=s) for s in ((3, 2), (5, d), (3, 4, d)))
    tilted = TiltedDensity(base, T, X)
    assert len(tilted) == 3
    assert tilted.d == d
    on_grid, values, slopes = (
        tilted.on_grid(nodes),
        tilted.log_unnormalized(own),
        tilted.gradient(own),
    )
    for r in range(3):
        for g, y in enumerate(nodes):
            slow = base.log_density(y[None])[0] + T.value(X[[r]], y[None])[0]
            assert_close(on_grid[r, g], slow, scale=10.0)
        for q, y in enumerate(own[r]):
            slow = base.log_density(y[None])[0] + T.value(X[[r]], y[None])[0]
            assert_close(values[r, q], slow, scale=10.0)
            slope = base.grad_log_density(y[None])[0] + T.gradient(X[[r]], y[None])[0]
            assert_close(slopes[r, q], slope, scale=10.0)
            # The same from parameters, as samplers that are compiled have it.
            shared, row = tilted.shared_parameters(), tilted.row_parameters()
            row = tuple(part[r] for part in row)
            found = tilted.formula.at(shared, row, y)
            assert_close(found[0], slow, scale=10.0)
            assert_close(found[1], slope, scale=10.0)
    some = tilted.rows(np.array([2, 0]))
    assert_close(some.on_grid(nodes), on_grid[[2, 0]])
    assert not tilted.same_rows


def test_a_tilted_density_is_zero_where_its_base_is_whatever_the_function_says():
    T = fit_exact(PRODUCT, make_sample(1, 2, n=12, weighted=True), LAM).T
    tilted = TiltedDensity(TruncatedBase(GaussianBase(2.0), lower=0.0), T, T.X[:2])
    log_p = tilted.log_unnormalized(np.full((2, 3, 1), [[-1.0], [0.5], [np.inf]]))
    assert np.isneginf(log_p[:, [0, 2]]).all()
    assert np.isfinite(log_p[:, 1]).all()


def test_the_rounding_of_a_function_is_that_of_terms_that_cancel():
    """Two centres that nearly coincide, with coefficients of opposite sign."""
    rng = np.random.default_rng(0)
    X, Y = np.zeros((2, 1)), np.array([[0.0], [1e-9]])
    nodes = rng.normal(size=(2000, 1))
    for size in (1e3, 1e7):
        T = KernelExpansion(PRODUCT, X, Y, zeroth=np.array([size, -size]))
        stated = TiltedDensity(GaussianBase(1.0), T, X[:1]).rounding
        # T is size · 1e-9 · k′, and what is computed differs from it by rounding.
        slope = -nodes / 0.9**2 * np.exp(-0.5 * nodes**2 / 0.9**2)
        exact = -size * (1e-9 * slope[:, 0] * -1.0)
        error = np.abs(T.value(np.zeros((2000, 1)), nodes) - exact).max()
        assert 0.02 * stated < error < stated
