"""Adaptive quadrature on the line against closed forms and scipy's quadrature."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.polynomial import chebyshev
from scipy import stats

from kexpfam.partition import (
    integrate_line,
    invert_series,
    series_at,
    series_slopes,
    starting_edges,
)
from kexpfam.partition.line import _Refinement, mass_beyond
from tests.oracles.integrals import SlowDensity
from tests.tolerances import QUADRATURE, assert_close

LINE = (True, True)


class Mixture:
    """A mixture of scipy distributions."""

    def __init__(self, *parts):
        self.parts = parts

    def logpdf(self, y):
        return np.log(sum(mass * part.pdf(y) for mass, part in self.parts))

    def cdf(self, y):
        return sum(mass * part.cdf(y) for mass, part in self.parts)

    def sf(self, y):
        return sum(mass * part.sf(y) for mass, part in self.parts)

    def mean(self):
        return sum(mass * part.mean() for mass, part in self.parts)

    def var(self):
        second = sum(m * (part.var() + part.mean() ** 2) for m, part in self.parts)
        return second - self.mean() ** 2


@dataclass(frozen=True)
class Target:
    """A density with a known distribution function, and cells to begin with."""

    name: str
    twin: Any
    edges: tuple[float, float, int] = (-4.0, 4.0, 9)
    extend: tuple[bool, bool] = LINE
    tail_index: float = np.inf

    def integrate(self, constant=0.0):
        return integrate_line(
            lambda u: self.twin.logpdf(u)[None] + constant,
            np.linspace(*self.edges),
            extend=self.extend,
            tail_index=self.tail_index,
        )

    def inside(self):
        """Points within the cells and, on an unbounded side, beyond them."""
        low, high, _ = self.edges
        return np.linspace(low - 3 * self.extend[0], high + 3 * self.extend[1], 57)


BIMODAL = Mixture((0.3, stats.norm(-3.0, 0.1)), (0.7, stats.norm(2.0, 0.4)))
TARGETS = [
    Target("gaussian", stats.norm(0.3, 1.2)),
    Target("peaked", stats.norm(0.3, 0.02), (-4.0, 4.0, 65)),
    Target("bimodal", BIMODAL, (-4.0, 4.0, 33)),
    Target("far_left", stats.norm(-3000.0, 800.0)),
    Target("skewed", stats.gumbel_r(0.5, 0.7)),
    Target("kink", stats.laplace(0.123, 0.8)),
    Target("student_5", stats.t(5, 0.2, 0.6), tail_index=5.0),
    Target("student_3", stats.t(3, -1.0, 0.8), tail_index=3.0),
    Target("student_1", stats.cauchy(0.2, 0.5), tail_index=1.0),
    Target("uniform", stats.uniform(-1.0, 3.0), (-1.0, 2.0, 5), (False, False)),
    Target("beta", stats.beta(3.5, 4.0), (0.0, 1.0, 5), (False, False)),
    Target("half_line", stats.halfnorm(0.0, 1.5), (0.0, 4.0, 5), (False, True)),
    Target("exponential", stats.expon(0.0, 2.0), (0.0, 4.0, 5), (False, True)),
    Target(
        "steep", stats.truncexpon(400.0, scale=1 / 400), (0.0, 1.0, 9), (False, False)
    ),
]

every_target = pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
with_moments = pytest.mark.parametrize(
    "target", [t for t in TARGETS if t.tail_index > 2], ids=lambda t: t.name
)


@every_target
@pytest.mark.parametrize("constant", [0.0, 1500.0, -1500.0])
def test_log_partition_is_known_and_its_error_is_bounded_by_the_stated_one(
    target, constant
):
    p = target.integrate(constant)
    assert_close(p.log_partition, [constant], 1e-11, scale=1.0 + abs(constant))
    assert np.abs(p.log_partition - constant) <= p.error
    # and it is useful: up to 512 cells may each contribute 1e-11
    assert p.error < 1e-9


@every_target
def test_distribution_function_and_survival_function_equal_scipy(target):
    p, u = target.integrate(), target.inside()
    assert_close(p.cells.cdf(u[None])[0], target.twin.cdf(u), 1e-11)
    assert_close(p.cells.sf(u[None])[0], target.twin.sf(u), 1e-11)


@every_target
def test_density_between_nodes_equals_scipy(target):
    p, u = target.integrate(), target.inside()
    expected = np.exp(target.twin.logpdf(u))
    kinks = target.name == "kink"
    assert_close(p.cells.pdf(u[None])[0], expected, 1e-6 if kinks else 1e-8)


def test_density_is_zero_outside_the_cells():
    p = TARGETS[9].integrate()
    np.testing.assert_array_equal(p.cells.pdf(np.array([[-1.1, 2.1, 1e9]])), 0.0)


@every_target
def test_quantiles_invert_the_distribution_function(target):
    p = target.integrate()
    levels = np.concatenate(
        [[1e-12, 1e-6, 1e-3], np.linspace(0.01, 0.99, 25), [0.999, 1 - 1e-6]]
    )[None]
    u = p.cells.ppf(levels)
    assert np.all(np.diff(u) > 0)
    assert_close(p.cells.cdf(u), levels)
    assert_close(target.twin.cdf(u), levels, 1e-10)
    # Small levels are met in relative terms as well, as far as points near an edge can
    # be told apart: 1e-16 of a cell that may hold all of the mass.
    small = levels < 0.01
    np.testing.assert_allclose(p.cells.cdf(u)[small], levels[small], rtol=1e-3)


@every_target
def test_distribution_function_inverts_the_quantiles(target):
    p = target.integrate()
    # Points with enough density that the distribution function tells them apart.
    u = p.cells.ppf(np.linspace(0.02, 0.98, 21)[None])
    assert_close(p.cells.ppf(p.cells.cdf(u)), u, 1e-9)


def test_levels_zero_and_one_give_the_ends_of_the_cells():
    p = TARGETS[0].integrate()
    np.testing.assert_array_equal(
        p.cells.ppf(np.array([[0.0, 1.0]])), [[p.edges[0], p.edges[-1]]]
    )


@pytest.mark.parametrize("name", ["gaussian", "skewed", "student_3", "half_line"])
def test_small_masses_in_the_upper_tail_keep_relative_accuracy(name):
    (target,) = (t for t in TARGETS if t.name == name)
    p = target.integrate()
    u = np.array([target.twin.isf(q) for q in (1e-4, 1e-7, 1e-10)])
    actual, expected = p.cells.sf(u[None])[0], target.twin.sf(u)
    # Cells end where less than 1e-12 of the mass is left: up to a hundredth of 1e-10.
    np.testing.assert_allclose(actual, expected, rtol=1e-2)
    np.testing.assert_allclose(actual[:2], expected[:2], rtol=1e-5)


def test_both_tails_of_a_symmetric_density_are_equally_accurate():
    p = Target("normal", stats.norm()).integrate()
    u = np.array([[4.0, 6.0, 7.0, 8.0]])
    np.testing.assert_allclose(p.cells.sf(u), p.cells.cdf(-u), rtol=1e-6)
    np.testing.assert_allclose(p.cells.sf(u), stats.norm.sf(u), rtol=1e-5)
    # which the complement of the distribution function would not be
    assert abs((1.0 - p.cells.cdf(u))[0, -1] / stats.norm.sf(8.0) - 1.0) > 1e-2


@with_moments
def test_mean_and_variance_equal_scipy(target):
    p, twin = target.integrate(), target.twin
    mean = p.cells.integral(p.cells.nodes)
    scale = max(1.0, abs(twin.mean()), twin.var() ** 0.5)
    assert_close(mean, [twin.mean()], 1e-10, scale=scale)
    variance = p.cells.integral((p.cells.nodes - mean[:, None, None]) ** 2)
    assert_close(variance, [twin.var()], 1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_wavy_densities_equal_scipy_quadrature_within_the_stated_error(seed):
    rng = np.random.default_rng(seed)
    waves = [
        (rng.normal(scale=2.0), rng.uniform(0.5, 8.0), rng.uniform(0, 6))
        for _ in range(4)
    ]

    def log_density(u):
        return sum(a * np.sin(w * u + phase) for a, w, phase in waves) - u**2 / 8

    p = integrate_line(
        lambda u: log_density(u)[None], np.linspace(-6, 6, 25), extend=LINE
    )
    # The trapezium rule is exact to rounding for a smooth function that decays.
    grid = np.linspace(-25, 25, 20_001)
    truth = np.log(np.exp(log_density(grid)).sum() * (grid[1] - grid[0]))
    assert abs(p.log_partition[0] - truth) <= p.error[0] + 1e-14
    assert p.error[0] < 1e-8
    slow = SlowDensity(log_density, np.linspace(-25, 25, 26))
    assert_close(p.log_partition[0], slow.log_partition, QUADRATURE)
    for u in (-1.3, 0.2, 2.5):
        assert_close(
            p.cells.cdf(np.array([[u]]))[0, 0], slow.cdf(u), QUADRATURE, scale=1.0
        )


def test_an_unresolved_density_admits_it():
    def log_density(u):
        return 8.0 * np.cos(60.0 * u) - u**2 / 8

    p = integrate_line(
        lambda u: log_density(u)[None],
        np.linspace(-12, 12, 17),
        extend=LINE,
        fewest_cells=24,
        most_numbers=0,
    )
    grid = np.linspace(-30, 30, 400_001)
    truth = np.log(np.exp(log_density(grid)).sum() * (grid[1] - grid[0]))
    assert len(p.edges) <= 25
    assert p.error[0] > 1e-3
    assert abs(p.log_partition[0] - truth) <= p.error[0]


def test_a_row_far_higher_than_the_first_cells_suggest_does_not_overflow():
    # From the first cells the peak is 2000 nats away in the exponent.
    p = integrate_line(
        lambda u: stats.norm(40.0, 0.5).logpdf(u)[None],
        np.linspace(-1.0, 1.0, 3),
        extend=LINE,
    )
    assert_close(p.log_partition, [0.0], 1e-10, scale=1.0)
    assert_close(p.cells.cdf(np.array([[40.0]])), [[0.5]], 1e-10)


def test_many_rows_on_shared_cells_equal_each_row_alone():
    laws = [stats.norm(m, s) for m, s in ((-2.0, 0.1), (0.0, 1.0), (3.0, 5.0))]
    offsets = np.array([0.0, 500.0, -800.0])
    together = integrate_line(
        lambda u: np.stack([law.logpdf(u) for law in laws]) + offsets[:, None],
        np.linspace(-4, 4, 33),
        extend=LINE,
    )
    assert_close(together.log_partition, offsets, 1e-12)
    u = np.array([[-2.1, -1.9], [0.3, 1.0], [-4.0, 12.0]])
    expected = np.stack([law.cdf(v) for law, v in zip(laws, u, strict=True)])
    assert_close(together.cells.cdf(u), expected, 1e-11)
    assert_close(together.cells.ppf(expected), u, 1e-8)
    two = together.rows(np.array([2, 0]))
    assert_close(two.cells.cdf(u[[2, 0]]), expected[[2, 0]], 1e-11)
    assert_close(two.log_partition, offsets[[2, 0]], 1e-12)


def test_quantiles_of_many_rows_equal_quantiles_row_by_row():
    # More levels than one block of the inversion holds.
    means = np.linspace(-2, 2, 7)
    p = integrate_line(
        lambda u: -0.5 * (u - means[:, None]) ** 2, np.linspace(-4, 4, 17), extend=LINE
    )
    levels = np.random.default_rng(0).random((7, 5_000))
    all_at_once = p.cells.ppf(levels)
    for r in range(7):
        alone = p.rows(np.array([r])).cells.ppf(levels[r : r + 1])
        assert_close(all_at_once[r : r + 1], alone)


@pytest.mark.parametrize(
    ("low", "high", "data", "resolution"),
    [
        (-12.0, 12.0, (-2.0, 2.5), 0.3),
        (-12.0, 12.0, (-2.0, 2.5), np.inf),
        (0.0, 1.0, (0.0, 1.0), 0.05),
        (0.0, 50.0, (3.0, 3.5), 0.01),
        (-5.0, 5.0, (-5.0, 0.1, 5.0), 1e-9),
        (-12.0, 12.0, (-4.0, 0.2, 0.2001), 1e-5),
    ],
    ids=str,
)
def test_starting_edges_cover_the_range_and_are_fine_near_the_data(
    low, high, data, resolution
):
    points = np.array(data)
    edges = starting_edges(low, high, points, resolution)
    assert edges[0] == low
    assert edges[-1] == high
    width = np.diff(edges)
    assert np.all(width > 0)
    finest = min(0.5 * resolution, 0.25 * (points.max() - points.min()))
    for point in points:
        near = (edges[:-1] < point + finest) & (edges[1:] > point - finest)
        inside = near & (edges[:-1] >= points.min()) & (edges[1:] <= points.max())
        assert width[inside].max() <= finest * 1.01
    assert len(edges) < 400


def test_cells_are_halved_at_once_where_log_densities_differ_by_hundreds():
    edges = np.linspace(-4.0, 4.0, 9)
    flat, steep = (
        integrate_line(lambda u, c=c: -c * (u**2)[None], edges, extend=LINE)
        for c in (0.5, 40.0)
    )
    inside = [p.edges[np.abs(p.edges) <= 4.0] for p in (flat, steep)]
    assert [float(np.diff(edges).max()) for edges in inside] == [1.0, 0.5]
    assert_close(steep.log_partition, [0.5 * np.log(np.pi / 40.0)], QUADRATURE)


def test_series_at_many_points_equal_those_of_numpy():
    rng = np.random.default_rng(0)
    table = rng.normal(size=(7, 17))
    # More points than are evaluated together.
    place, t = rng.integers(7, size=(3, 3001)), rng.uniform(-1, 1, size=(3, 3001))
    expected = chebyshev.chebval(t, table[place].transpose(2, 0, 1), tensor=False)
    assert_close(series_at(table, place, t), expected)
    slopes = series_slopes(table)
    assert_close(slopes[3], chebyshev.chebder(table[3]))


def test_inverted_series_have_the_wanted_values():
    rng = np.random.default_rng(1)
    # Integrals of squares increase, some of them by many orders of magnitude.
    roots = [chebyshev.chebmul(c, c) for c in rng.normal(size=(5, 8))]
    roots.append(chebyshev.chebmul(*2 * [chebyshev.poly2cheb([1.0, 1.0] * 4)]))
    table = np.stack([chebyshev.chebint(root, lbnd=-1) for root in roots])
    place = rng.integers(6, size=(2, 5000))
    share = np.append(rng.random((2, 4990)), np.logspace(-12, 0, 20).reshape(2, 10), 1)
    target = share * table[place].sum(axis=-1)
    t = invert_series(table, place, target)
    assert_close(series_at(table, place, t), target, 1e-13, scale=target)


@pytest.mark.parametrize(("rows", "numbers", "most"), [(1, 0, 24), (1, 1600, 100)])
def test_refinement_ends_at_so_many_numbers_for_all_rows_or_so_many_cells(
    rows, numbers, most
):
    """Waves that need thousands of cells: a row may have more where rows are few."""

    def log_density(u):
        return np.tile(8.0 * np.cos(600.0 * u) - u**2 / 8, (rows, 1))

    p = integrate_line(
        log_density,
        np.linspace(-12, 12, 9),
        extend=(False, False),
        fewest_cells=24,
        most_numbers=numbers,
    )
    cells = len(p.edges) - 1
    assert 0.4 * most < cells <= most
    # As many numbers for many rows are fewer cells of each.
    shared = integrate_line(
        lambda u: np.tile(log_density(u), (4, 1)),
        np.linspace(-12, 12, 9),
        extend=(False, False),
        fewest_cells=24,
        most_numbers=numbers,
    )
    assert 8 <= len(shared.edges) - 1 <= max(24, most // 4)


def test_one_density_may_have_many_cells_and_is_then_right():
    def log_density(u):
        return 8.0 * np.cos(300.0 * u) - u**2 / 8

    p = integrate_line(
        lambda u: log_density(u)[None], np.linspace(-12, 12, 17), extend=LINE
    )
    grid = np.linspace(-25, 25, 2_000_001)
    truth = np.log(np.exp(log_density(grid)).sum() * (grid[1] - grid[0]))
    assert 1000 < len(p.edges) < 2**14
    assert p.error[0] < 1e-6
    assert abs(p.log_partition[0] - truth) <= p.error[0] + 1e-12


@pytest.mark.parametrize(("slow", "fast"), [(3.0, 30.0), (2.5, 6.0)])
def test_cells_are_added_as_far_as_the_heavier_of_two_tails_needs(slow, fast):
    """One row has a heavy tail on the right, the other a light one."""
    heavy, light = stats.t(slow, 0.0, 0.7), stats.t(fast, 0.0, 0.7)
    p = integrate_line(
        lambda u: np.stack([heavy.logpdf(u), light.logpdf(u)]),
        np.linspace(-4, 4, 9),
        extend=LINE,
        tail_index=slow,
    )
    mean = p.cells.integral(p.cells.nodes)
    second = p.cells.integral((p.cells.nodes - mean[:, None, None]) ** 2)
    assert_close(second, [heavy.var(), light.var()], 1e-6)
    assert np.all(np.abs(p.log_partition) <= p.error)


def test_mass_beyond_the_cells_is_that_of_a_power():
    """For p = a|u|^(-1-a)/2 the mass beyond R is R^-a/2, and p(R)·R a times that."""
    for a in (1.0, 2.5, 4.0):
        edges = np.append(-np.geomspace(1.0, 64.0, 13)[::-1], np.geomspace(1.0, 64, 13))
        left, right = edges[:-1], edges[1:]
        nodes = 0.5 * (left + right)[:, None] + 0.5 * (right - left)[:, None] * (
            np.linspace(-1.0, 1.0, 16)
        )
        density = 0.5 * a * np.maximum(np.abs(nodes), 1.0) ** (-1.0 - a)
        mass = np.abs(np.abs(left) ** -a - np.abs(right) ** -a) / 2.0
        mass[12] = 0.5 * a * 2.0
        order = np.random.default_rng(0).permutation(len(left))  # in any order
        light = mass_beyond(
            left[order], right[order], density[None, order], mass[None, order], a
        )
        total = mass.sum()
        share = 0.5 * a * 64.0**-a / total
        if a <= 2:
            assert_close(light[0], [share, share])
        else:  # of the second moment, which is larger
            second = mass @ (0.5 * (left + right)) ** 2
            assert_close(light[0], np.full(2, 0.5 * a * 64.0 ** (2.0 - a) / second))
            assert light[0, 0] > share


@pytest.mark.parametrize(
    "law", [stats.gumbel_r(0.3, 0.7), stats.skewnorm(3.0), stats.t(3)]
)
def test_a_mirrored_density_has_mirrored_cells_and_the_same_error(law):
    start, index = np.linspace(-4, 4, 9), 3.0 if law.dist.name == "t" else np.inf
    one, other = (
        integrate_line(
            lambda u, sign=sign: law.logpdf(sign * u)[None],
            start,
            extend=LINE,
            tail_index=index,
        )
        for sign in (1.0, -1.0)
    )
    assert_close(one.edges, -other.edges[::-1])
    assert_close(one.log_partition, other.log_partition, 1e-13, scale=1.0)
    assert_close(one.error, other.error, 1e-3)


@pytest.mark.parametrize("n", [1, 2])
def test_a_peak_that_halves_do_not_see_is_forgotten(n):
    """The first cell has it at one node; its halves are flat, and e⁻⁸⁰⁰ as high."""
    left, right = np.array([0.0, 1.0]), np.array([1.0, 2.0])
    values = np.full((n, 2, 16), -800.0)
    values[0, 0, 5] = 0.0  # of the second row nothing is forgotten
    whole = _Refinement.of(left, right, values)
    cut = np.array([0.0, 0.5]), np.array([0.5, 1.0])
    halves = np.full((n, 2, 16), -800.0)
    found = whole.replaced(np.array([False, True]), *cut, halves)
    log_mass = np.log(found.summary.mass.sum(axis=1)) + found.reference
    assert_close(log_mass, np.full(n, -800.0 + np.log(2.0)))
