"""Nodes that masses are compared on, and what is called wrong."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from kexpfam._heuristics import median_distance
from kexpfam.family.blindness import _nodes, _similarity
from kexpfam.family.family import MEDIANS_X
from kexpfam.family.isolated_components import (
    CHECK,
    IsolatedComponents,
    MassComparison,
)
from kexpfam.kernels import Gaussian

U = np.random.default_rng(0).normal(size=400)


def family(resolution=0.5, support=(-np.inf, np.inf)):
    """As much of a family as nodes depend on."""
    kernel = SimpleNamespace(resolution=resolution)
    base = SimpleNamespace(column_support=lambda i: support)
    return SimpleNamespace(T=SimpleNamespace(kernel=kernel), base=base)


def ends(nodes):
    """Outer ends of the cells that nodes are the middles of."""
    half = 0.5 * (nodes[1] - nodes[0])
    return nodes[0] - half, nodes[-1] + half


def test_nodes_go_on_for_one_standard_deviation_beyond_the_responses():
    nodes, std = _nodes(family(), U), U.std()
    np.testing.assert_allclose(ends(nodes), [U.min() - std, U.max() + std])
    np.testing.assert_allclose(np.diff(nodes), nodes[1] - nodes[0])


def test_nodes_end_where_the_base_density_does():
    nodes = _nodes(family(support=(U.min() - 0.1, U.max() + 0.2)), U)
    np.testing.assert_allclose(ends(nodes), [U.min() - 0.1, U.max() + 0.2])


@pytest.mark.parametrize(
    ("resolution", "finest"), [(0.2, 0.25 * 0.2), (5.0, 0.1 * U.std())]
)
def test_nodes_resolve_the_kernel_and_the_responses(resolution, finest):
    nodes = _nodes(family(resolution), U)
    assert 0.97 * finest < nodes[1] - nodes[0] <= finest


def test_where_too_many_nodes_were_needed_there_are_none():
    width = np.ptp(U) + 2 * U.std()
    assert len(_nodes(family(2.0 * width / 600 * 0.99), U)) == 0
    enough = _nodes(family(2.0 * width / 600 * 1.01), U)
    assert 599 <= len(enough) <= 601


def comparison(predicted, observed=0.5, error=1e-4, index=None, chance=0.0):
    return MassComparison(index, 0.0, predicted, observed, error, 100.0, chance=chance)


@pytest.mark.parametrize(
    ("wrong", "told"), [(0.0249, False), (0.0251, True), (-0.0251, True)]
)
def test_masses_are_wrong_from_two_and_a_half_points_on(wrong, told):
    one = comparison(0.5 + wrong)
    assert one.noteworthy is told
    assert IsolatedComponents((one,)).suspicious is told


@pytest.mark.parametrize(("times", "told"), [(0.99, False), (1.01, True)])
def test_chance_is_shared_out_among_comparisons(times, told):
    """At the level of 1 %, two-sided, with Bonferroni's correction."""
    threshold = stats.norm.isf(0.5 * 0.01 / 4)
    predicted = [0.5, 0.5, 0.5, 0.5 + 0.05 * times]
    all_four = [comparison(mass, error=0.05 / threshold) for mass in predicted]
    found = IsolatedComponents(tuple(all_four))
    assert found.threshold == pytest.approx(threshold)
    assert found.suspicious is told


def test_components_are_found_where_several_conditions_have_them():
    few, many = (
        IsolatedComponents(
            tuple(comparison(0.5, index=i) for i in range(n)), conditional=True
        )
        for n in (1, 2)
    )
    assert not few.found
    assert many.found
    assert IsolatedComponents((comparison(0.5),)).found
    by_chance = comparison(0.5, chance=2 * CHECK.level)
    assert not IsolatedComponents((by_chance,)).found
    tail = comparison(0.94, observed=0.94)  # six of a hundred are a component
    assert IsolatedComponents((tail,)).found
    assert not IsolatedComponents((comparison(0.95, observed=0.95),)).found


@pytest.mark.parametrize("product", [True, False])
def test_similarity_is_the_kernel_of_x_or_a_width_of_its_own(product):
    Z, index = U[:50, None], np.array([3, 7])
    kernel = SimpleNamespace(products=((Gaussian(0.7), Gaussian(1.0)),) * product)
    near = _similarity(
        SimpleNamespace(T=SimpleNamespace(kernel=kernel)), Z, index, np.ones(50)
    )
    width = 0.7 if product else MEDIANS_X * median_distance(Z)
    slow = [
        [np.exp(-0.5 * ((Z[i, 0] - z) / width) ** 2) for z in Z[:, 0]] for i in index
    ]
    np.testing.assert_allclose(near, slow, atol=1e-12)
