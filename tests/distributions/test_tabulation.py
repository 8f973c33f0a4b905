"""Tables of mixtures on few cells, against sums of components and brute force."""

import numpy as np
import pytest
from numpy.polynomial import legendre
from scipy import integrate, special, stats

from kexpfam.base_densities import StudentBase, TransformedBase
from kexpfam.distributions import MixtureDensity
from kexpfam.distributions.tabulation import tabulate
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
