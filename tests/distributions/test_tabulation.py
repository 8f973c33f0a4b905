"""Tables of mixtures on few cells, against sums of components and brute force."""

import numpy as np
import pytest
from numpy.polynomial import legendre
from scipy import integrate, special, stats

from kexpfam.base_densities import StudentBase, TransformedBase
from kexpfam.distributions import MixtureDensity
from kexpfam.distributions.tabulation import (
    graded_points,
    merged_edges,
    peaks,
    slivers,
    tabulate,
)
from kexpfam.partition import CellDensity, cell_nodes
from tests.densities import closed_form, untuned
from tests.tolerances import MINIMISER, QUADRATURE, assert_close

ROWS = range(3)
LEVELS = np.linspace(0.0, 1.0, 801)[1:-1]


def _cases():
    rng = np.random.default_rng(0)
    many = [
        closed_form(rng.normal(size=3), rng.uniform(0.1, 1.0, size=3))
        for _ in range(30)
    ]
    defensive = closed_form(np.zeros(3), np.full(3, 2.0), StudentBase(1.0, df=5.0))
    wide = closed_form([0.0, 1.0, -3.0], [1.0, 2.0, 5.0])
    spike = closed_form([0.3, 2.0, -20.0], [1e-6, 1e-7, 1e-5])
    faint = closed_form([0.123, 4.0, -2.0], [1e-9, 1e-8, 1e-10])
    far = closed_form([1e5, -1e6, 1e4], [1.0, 1e3, 1e-3])
    return {
        "many": MixtureDensity([*many, defensive], np.append(np.full(30, 0.033), 0.01)),
        "spike": MixtureDensity([wide, spike], [0.99, 0.01]),
        # Almost no mass, and yet the mode.
        "faint": MixtureDensity([wide, faint], [1 - 1e-6, 1e-6]),
        "far": MixtureDensity([wide, far, spike], [0.5, 0.3, 0.2]),
    }


CASES = _cases()


@pytest.fixture(params=CASES, ids=str)
def mixture(request):
    return CASES[request.param]


def _quantiles(p):
    """Points that are dense wherever any component has mass, (n, q)."""
    y = [part.ppf(LEVELS[None]) for part in p.components]
    return np.sort(np.hstack(y), axis=1)


def test_tables_equal_the_sums_of_the_components(mixture):
    table, y = mixture.tabulated(), _quantiles(mixture)
    peak = mixture.pdf(y).max(axis=1, keepdims=True)
    # Errors are shares of the mass; a spike with 1e-6 of it is known to 1e-4 of itself.
    tolerance = 1e-4 if mixture is CASES["faint"] else 1e-8
    assert_close(table.pdf(y) / peak, mixture.pdf(y) / peak, tolerance, scale=1.0)
    assert_close(table.cdf(y), mixture.cdf(y), QUADRATURE, scale=1.0)
    assert_close(table.integral(np.ones(1)), np.ones(3), QUADRATURE)


def test_tables_have_few_cells(mixture):
    # The cells of thirty components would be more than a thousand.
    assert mixture.tabulated().half.shape[1] <= 160


def test_entropy_equals_quadrature_between_quantiles_of_the_components(mixture):
    for i in ROWS:
        p = mixture[i]
        # Equally spaced in log odds: as many in the tails as in the middle.
        levels = special.expit(np.linspace(-34.0, 34.0, 201))
        cuts = np.unique([part.ppf(levels) for part in p.components])
        nodes, weights = np.polynomial.legendre.leggauss(8)
        half = 0.5 * np.diff(cuts)
        y = (cuts[:-1] + half)[:, None] + half[:, None] * nodes
        log_p = p.logpdf(y.ravel()).reshape(y.shape)
        # Densities far from every component are zero, and 0 log 0 = 0.
        terms = np.exp(log_p) * np.where(np.isneginf(log_p), 0.0, log_p)
        expected = -np.sum(half * (terms @ weights))
        assert_close(mixture.entropy()[i], expected, 1e-7, scale=1.0)


def test_modes_are_as_high_as_the_highest_of_many_points(mixture):
    height = mixture.logpdf(mixture.mode())
    assert np.all(height >= mixture.logpdf(_quantiles(mixture)).max(axis=1) - 1e-12)


@pytest.mark.parametrize("confidence", [0.05, 0.5, 0.95])
def test_regions_hold_their_mass_and_the_densest_points(mixture, confidence):
    y = _quantiles(mixture)
    for i, region in enumerate(mixture.hpd(confidence)):
        p = mixture[i]
        mass = p.cdf(region[:, 1]) - p.cdf(region[:, 0])
        assert_close(mass.sum(), confidence, 1e-7)
        inside = np.any((y[i] > region[:, :1]) & (y[i] < region[:, 1:]), axis=0)
        density = p.pdf(y[i])
        least, most = density[inside].min(), density[~inside].max(initial=0.0)
        assert least >= most * (1 - 1e-5)


@pytest.mark.parametrize("count", [3, 99])
def test_few_and_many_quantiles_have_the_right_mass_below(mixture, count):
    levels = np.linspace(0.0, 1.0, count + 2)[1:-1]
    fresh = MixtureDensity(mixture.components, mixture.weights)
    y = fresh.ppf(levels[None])
    # Where y has no more digits, its distribution function has none either.
    room = mixture.pdf(y) * np.spacing(np.abs(y))
    assert np.all(np.abs(mixture.cdf(y) - levels) <= 1e-12 + room)


def test_rows_of_a_method_are_those_of_the_selection(curve):
    x, y = curve
    conditions = np.array([[0.1], [0.4], [0.7]])
    model = untuned(TransformedBase("yeo_johnson")).fit(x, y)
    family = model.given(conditions)
    defensive = closed_form([4.0, 5.0, 6.0], [2.0, 1.0, 3.0])
    rows = np.array([2, 0, 0, 1])
    points = np.random.default_rng(0).normal(5.0, 2.0, size=(4, 5))
    for p in (family, defensive, MixtureDensity([family, defensive], [0.4, 0.6])):
        for method in ("_cdf", "_sf", "_rough_pdf"):
            chosen = getattr(p[rows], method)(points)
            assert_close(getattr(p, method)(points, rows), chosen)
        low, high = p._around(np.full((4, 2), 0.3), rows)
        between = p[rows]._ppf(np.full((4, 2), 0.3))
        assert np.all((low <= between) & (between <= high))


def test_a_spike_between_the_nodes_is_found():
    narrow = stats.norm(0.37, 1e-5)
    table = tabulate(
        lambda y, _: 0.5 * narrow.pdf(y) + 0.25 * (np.abs(y) < 1),
        lambda y, _: 0.5 * narrow.cdf(y) + 0.25 * (1 + np.clip(y, -1, 1)),
        np.array([[-1.0, 1.0]]),
    )
    mass, _ = integrate.quad(narrow.pdf, 0.3699, 0.3701, points=[0.37])
    inside = np.diff(table.cdf(np.array([[0.3699, 0.3701]])))[0]
    assert_close(inside, [0.5 * mass + 0.25 * 2e-4], 1e-8)


def test_second_moments_of_transformed_densities_are_resolved_in_the_tails(curve):
    x, y = curve
    base = TransformedBase("yeo_johnson", StudentBase(1.0, df=6.0))
    p = untuned(base).fit(x, y).given([[0.4]])[0]
    levels = 1.0 / (1.0 + np.exp(-np.linspace(-27.0, 27.0, 1201)))
    cuts = np.unique(p.ppf(levels))
    nodes, weights = legendre.leggauss(8)
    half = 0.5 * np.diff(cuts)
    points = (cuts[:-1] + half)[:, None] + half[:, None] * nodes
    pdf = p.pdf(points.ravel()).reshape(points.shape)
    mean = np.sum(half * ((pdf * points) @ weights))
    second = np.sum(half * ((pdf * (points - mean) ** 2) @ weights))
    assert_close(p.mean(), mean, 1e-7)
    # Half of a percent of the fourth root of 1e-12 is the tail that is left out.
    assert_close(p.std(), np.sqrt(second), MINIMISER)


def noise(y, _):
    """A density that no number of cells resolves: it jumps at every double."""
    bits = np.frexp(np.abs(y) + 1.0)[0] * 2.0**40
    return 0.5 + 0.4 * np.sign(np.sin(bits))


@pytest.mark.parametrize("most", [64, 300])
def test_a_row_of_noise_ends_at_so_many_cells_and_the_others_are_resolved(most):
    narrow = stats.norm(0.37, 1e-3)

    def pdf(y, rows):
        return np.where(rows[:, None] == 0, noise(y, rows), narrow.pdf(y))

    def cdf(y, rows):
        flat = 0.5 * (1 + np.clip(y, -1, 1))
        return np.where(rows[:, None] == 0, flat, narrow.cdf(y))

    table = tabulate(pdf, cdf, np.array([[-1.0, 1.0]] * 2), most_cells=most)
    cells = np.count_nonzero(table.half, axis=1)
    # Cells are halved together, and not again once there are more than that.
    assert most < cells[0] <= 2 * most
    assert cells[1] < 60
    assert_close(table.cdf(np.array([[0.37], [0.37]]))[1, 0], 0.5, 1e-9)


def test_cells_of_a_row_are_in_order_and_filled_up_with_empty_ones():
    laws = [stats.norm(0.0, 1.0), stats.norm(2.0, 1e-4)]

    def each(name):
        return lambda y, rows: np.stack(
            [getattr(laws[r], name)(own) for r, own in zip(rows, y, strict=True)]
        )

    edges = np.array([[-8.0, 0.0, 8.0], [1.0, 2.5, 2.5]])  # the last is empty
    table = tabulate(each("pdf"), each("cdf"), edges)
    assert np.all(np.diff(table.edges, axis=1) >= 0.0)
    for row, law in enumerate(laws):
        assert table.edges[row, 0] == edges[row, 0]
        assert table.edges[row, -1] == edges[row, -1]
        width = np.diff(table.edges[row])
        filled = np.flatnonzero(width > 0)
        np.testing.assert_array_equal(filled, np.arange(len(filled)))
        assert np.all(table.density[row, len(filled) :] == 0.0)
        for cell in filled:
            nodes = table.nodes[row, cell]
            assert_close(table.density[row, cell], law.pdf(nodes))


def test_merged_edges_are_all_of_each_row_once():
    rng = np.random.default_rng(0)
    parts = [np.sort(rng.integers(0, 9, size=(6, k)), axis=1) * 1.0 for k in (3, 5, 2)]
    parts[0][0] = parts[1][0, 0]  # a row of few different ones
    found = merged_edges(parts)
    every = [np.unique(np.concatenate([part[r] for part in parts])) for r in range(6)]
    most = max(len(one) for one in every)
    assert found.shape == (6, most)
    for row, one in zip(found, every, strict=True):
        np.testing.assert_array_equal(
            row, np.append(one, [one[-1]] * (most - len(one)))
        )
    assert merged_edges([np.zeros((2, 1))]).shape == (2, 1)
    assert merged_edges([np.zeros((2, 3))]).shape == (2, 2)


def test_graded_points_grow_fourfold_from_the_middle_up_to_the_ends():
    outline = np.array([[-1e6, -1.0, 0.0, 1.0, 1e3], [0.0, 1.0, 2.0, 3.0, 4.0]])
    points = graded_points(outline)
    left, right = np.split(points, 2, axis=1)
    # The middle half of the first row is two wide, and its end a million away.
    steps = 2.0 * 4.0 ** np.arange(1, 1 + left.shape[1])
    np.testing.assert_array_equal(left[0], -steps)
    np.testing.assert_array_equal(right[0], np.minimum(steps, 1e3))
    assert 1e6 / 16 <= steps[-1] <= 1e6
    np.testing.assert_array_equal(left[1], np.zeros(left.shape[1]))
    np.testing.assert_array_equal(right[1], np.full(left.shape[1], 4.0))


@pytest.mark.parametrize("shift", np.linspace(-0.2, 0.2, 9))
def test_peaks_at_the_ends_of_cells_and_beside_them_are_found(shift):
    """Tops within, on and just beyond an edge, and at a bound of a falling density."""
    edges = np.array([[-4.0, -2.0, -1.0, 0.0, 1.0, 2.0, 4.0]] * 3)
    nodes = cell_nodes(edges[:, :-1], edges[:, 1:])
    centers = np.array([shift, 1.0 + 0.01 * shift, -4.0])

    def log_density(y):
        rate = np.array([1.0, 3.0, 2.0])[:, None]
        return -rate * np.where(
            np.arange(3)[:, None] < 2, (y - centers[:, None]) ** 2, y - centers[:, None]
        )

    def slope(y):
        return np.where(
            np.arange(3) < 2, -2.0 * np.array([1.0, 3.0, 0]) * (y - centers), -2.0
        )

    density = np.exp(log_density(nodes.reshape(3, -1))).reshape(nodes.shape)
    found = peaks(CellDensity(edges, density), log_density, slope)
    assert_close(found, centers, 1e-8, scale=1.0)


def sliver(left, height, mass, rest=0.5):
    """A cell of that height and mass at a bound, a lower one, and the rest."""
    ends = np.cumsum([left, mass / height, 1.0, (1.0 - mass) / rest])
    heights = [height, 0.2 * min(height, rest), rest]
    density = np.repeat(np.array(heights)[None, :, None], 16, axis=2)
    return CellDensity(ends[None], density)


@pytest.mark.parametrize("turned", [False, True], ids=["left", "right"])
@pytest.mark.parametrize(
    ("height", "mass", "dropped"),
    [(9.0, 9e-4, True), (9.0, 1.1e-3, False), (0.3, 9e-4, True)],
)
def test_slivers_have_a_thousandth_of_the_mass_at_most(height, mass, dropped, turned):
    cells = sliver(0.0, height, mass)
    if turned:
        cells = CellDensity(-cells.edges[:, ::-1], cells.density[:, ::-1])
    bounds = np.array([[-np.inf, 0.0] if turned else [0.0, np.inf]])
    found = slivers(cells, bounds)
    place = -1 if turned else 0
    np.testing.assert_array_equal(np.delete(found[0], place), False)
    assert bool(found[0, place]) is dropped
    # At a bound that is elsewhere nothing is a sliver, nor outside of one.
    for end in (-77.0, 77.0):
        assert not slivers(cells, np.array([[end, end]])).any()
    assert not slivers(cells, bounds[:, ::-1]).any()


@pytest.mark.parametrize("next_to_it", [0.49, 0.51])
def test_slivers_fall_to_less_than_half(next_to_it):
    """Beside the sliver there is less than half of its height, or it is none."""
    ends = np.cumsum([0.0, 1e-4, 0.5, 0.5])
    heights = np.array([2.0, 2.0 * next_to_it, 8.0])
    cells = CellDensity(ends[None], np.repeat(heights[None, :, None], 16, axis=2))
    found = slivers(cells, np.array([[0.0, np.inf]]))
    assert bool(found[0, 0]) is (next_to_it < 0.5)


def test_slivers_end_in_the_valley():
    """What rises again within the same thousandth of the mass is a tail of the rest."""
    heights = np.array([9.0, 0.01, 0.2, 0.3, 0.4, 1.0])
    masses = np.array([1e-4, 1e-4, 2e-4, 3e-4, 0.3, 0.6993])
    ends = np.cumsum([0.0, *masses / heights])
    cells = CellDensity(ends[None], np.repeat(heights[None, :, None], 16, axis=2))
    found = slivers(cells, np.array([[0.0, np.inf]]))
    np.testing.assert_array_equal(found[0], [True] * 2 + [False] * 4)
