"""Nodes that masses are compared on, and what is called wrong."""

import warnings
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from kexpfam import KCEF, KEF
from kexpfam._heuristics import median_distance
from kexpfam.base_densities import GaussianBase
from kexpfam.distributions import ClosedFormDensity, MixtureDensity
from kexpfam.errors import BlindnessWarning
from kexpfam.family.blindness import _nodes, _similarity, check_masses
from kexpfam.family.family import MEDIANS_X
from kexpfam.family.isolated_components import (
    CHECK,
    IsolatedComponents,
    MassComparison,
)
from kexpfam.kernels import Gaussian, SumOfProducts
from tests.tolerances import assert_close

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


def two_bumps(n, seed=0, slope=0.0):
    """Three tenths of the responses at -4, the others at 4, in units of ten."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1.0, 1.0, size=(n, 1))
    y = np.where(rng.random(n) < 0.3, -4.0, 4.0) + slope * x[:, 0]
    return x, 10.0 * (y + 0.5 * rng.normal(size=n))


def quietly(model, *data, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BlindnessWarning)
        return model.fit(*data, **options)


def test_without_conditions_the_mass_is_that_below_a_place_in_units_of_y():
    _, y = two_bumps(300)
    model = quietly(KEF(select=None, fit_method="score"), y[:, None])
    rows = np.empty((300, 0)), y[:, None]
    report = check_masses(model.family_, *rows, np.ones(300))
    assert not report.conditional
    for one in report.comparisons:
        assert one.index is None
        assert -35.0 < one.valley < 35.0
        assert_close(one.predicted, model.distribution().cdf(one.valley), 0.01)
        assert_close(one.observed, np.mean(y < one.valley))
        assert_close(one.neighbours, 300.0)
    # Weights count rows, and those of weight zero are not there.
    weights = np.where(y < 0, 2.0, 1.0) * (np.arange(300) % 3 > 0)
    weighted = check_masses(model.family_, *rows, 1e150 * weights)
    share = weights[y < 0].sum() / weights.sum()
    assert_close(weighted.comparisons[0].observed, share)
    used = weights[weights > 0]
    assert_close(weighted.comparisons[0].neighbours, used.sum() ** 2 / (used @ used))


def truth(X, lower):
    """The law of `two_bumps` with another share of the lower one."""
    places = 10.0 * X[:, 0]
    parts = [
        ClosedFormDensity(GaussianBase(1.0), places + middle, np.full(len(X), 5.0))
        for middle in (-40.0, 40.0)
    ]
    return MixtureDensity(parts, [lower, 1.0 - lower])


@pytest.fixture(scope="module")
def moving():
    x, y = two_bumps(500, seed=1, slope=1.0)
    return x, y, quietly(KCEF(select=None, fit_method="score"), x, y)


@pytest.mark.parametrize("lower", [0.3, 0.45])
def test_densities_that_are_given_are_those_that_are_checked(moving, lower):
    x, y, model = moving
    report = check_masses(
        model.family_, x, y[:, None], np.ones(500), density=lambda X: truth(X, lower)
    )
    assert report.conditional
    assert report.found
    assert report.suspicious is (lower != 0.3)
    together = [c for c in report.comparisons if c.index is None]
    assert together
    for one in report.comparisons:
        assert_close(one.predicted, lower, 1e-3)
    for one in together:
        assert_close(one.observed, np.mean(y < 10.0 * x[:, 0]), 0.02)
        assert abs(one.valley - 10.0 * np.median(x)) < 25.0


def test_numbers_of_rows_are_those_of_the_user(moving):
    """Rows without weight come first; neighbours are counted around those with some."""
    x, y, model = moving
    far = np.full((100, 1), 50.0)
    X, Y = np.concatenate([far, x]), np.concatenate([np.zeros(100), y])[:, None]
    weights = np.append(np.zeros(100), np.ones(500))
    given = {"density": lambda X: truth(X, 0.45)}
    padded = check_masses(model.family_, X, Y, weights, **given)
    plain = check_masses(model.family_, x, y[:, None], np.ones(500), **given)
    assert len(padded.comparisons) == len(plain.comparisons)
    for one, other in zip(padded.comparisons, plain.comparisons, strict=True):
        assert one.index == (None if other.index is None else other.index + 100)
        assert_close(one.predicted, other.predicted)
        if other.index is not None:  # its valley is between the two bumps there
            assert abs(other.valley - 10.0 * x[other.index, 0]) < 25.0


def test_no_more_rows_are_looked_at_than_an_error_needs_to_show(moving):
    x, y, model = moving
    given = {"density": lambda X: truth(X, 0.3), "most_rows": 200, "conditions": 3}
    report = check_masses(model.family_, x, y[:, None], np.ones(500), **given)
    assert_close(max(c.neighbours for c in report.comparisons), 200.0)
    numbers = {c.index for c in report.comparisons} - {None}
    assert 1 <= len(numbers) <= 3
    assert max(numbers) < 500


class NoProducts(SumOfProducts):
    """A sum of products that does not show them."""

    products = ()


def test_rows_that_are_looked_at_are_of_all_kinds_however_they_are_sorted(moving):
    x, y, model = moving
    kernel = NoProducts(model.family_.T.kernel.products)
    T = replace(model.family_.T, kernel=kernel)
    order = np.argsort(y - 10.0 * x[:, 0])
    report = check_masses(
        replace(model.family_, T=T),
        x[order],
        y[order, None],
        np.ones(500),
        density=lambda X: truth(X, 0.3),
        most_numbers=1,
    )
    assert_close(max(c.neighbours for c in report.comparisons), 300.0)
    assert report.found
    assert not report.suspicious


def test_ratios_of_weights_may_be_beyond_doubles(moving):
    x, y, model = moving
    weights = np.where(np.arange(500) % 3, 1e200, 1e-200)
    given = {"density": lambda X: truth(X, 0.45)}
    report = check_masses(model.family_, x, y[:, None], weights, **given)
    kept = weights > 1.0
    same = check_masses(
        model.family_, x[kept], y[kept, None], np.ones(kept.sum()), **given
    )
    assert report.suspicious
    assert same.suspicious
    share = np.mean(y[kept] < 10.0 * x[kept, 0])
    for one in report.comparisons + same.comparisons:
        assert one.index is not None or one.observed == pytest.approx(share, abs=0.02)


def test_a_gap_that_a_transform_closes_is_seen_in_units_of_y():
    rng = np.random.default_rng(1)
    y = np.where(rng.random(1200) < 0.1, 20.0, 0.0) + rng.normal(size=1200)
    model = quietly(
        KEF(base="gaussianize", select=None, fit_method="score"), y[:, None]
    )
    report = check_masses(model.family_, np.empty((1200, 0)), y[:, None], np.ones(1200))
    assert report.found
    for one in report.comparisons:
        assert 3.0 < one.valley < 17.0
        assert_close(one.observed, np.mean(y < 10.0))
        assert_close(one.predicted, model.distribution().cdf(one.valley), 2e-3)


def test_one_bump_has_nothing_to_compare_whatever_its_place_and_units():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 1))
    y = 1e6 + 1e3 * (x[:, 0] + rng.normal(size=400))
    model = quietly(KCEF(select=None, fit_method="score"), x, y)
    report = check_masses(model.family_, x, y[:, None], np.ones(400))
    assert report.conditional
    assert report.comparisons == ()
