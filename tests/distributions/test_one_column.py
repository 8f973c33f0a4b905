"""What holds for densities of one variable of every kind, by quadrature in y.

Methods that users call are held against the log density; those that densities ask of
each other are held against these, for some of the rows and in any order.
"""

import warnings

import numpy as np
import pytest
from numpy.polynomial import legendre

from kexpfam.base_densities import GaussianBase, StudentBase, TransformedBase
from kexpfam.distributions import (
    BoundedDensity,
    MixtureDensity,
    NormalMixtureDensity,
    Parts,
    RecalibratedDensity,
    SupportMap,
    UnitMap,
    averaged,
)
from kexpfam.errors import BlindnessWarning
from tests.densities import closed_form, untuned
from tests.tolerances import DIFFERENCES, assert_close

X = np.array([[0.1], [0.4], [0.7]])
CENTERS, SCALES = np.array([4.0, 5.0, 6.5]), np.array([1.0, 0.4, 2.0])
KINDS = [
    "closed form",
    "student",
    "normal mixture",
    "mixture",
    "bounded below",
    "bounded on both sides",
    "recalibrated",
    "row averages",
    "family",
    "transformed family",
    "mixture with a family",
]


def _made(kind, curve):
    normal = closed_form(CENTERS, SCALES)
    heavy = closed_form(CENTERS - 0.5, 0.7 * SCALES, StudentBase(1.0, df=6.0))
    mixture = MixtureDensity([normal, heavy], [0.7, 0.3])
    if "family" in kind:
        plain = GaussianBase(2.0)
        base = TransformedBase("yeo_johnson") if "transformed" in kind else plain
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", BlindnessWarning)  # of forty rows
            family = untuned(base).fit(*curve).given(X)
        return MixtureDensity([family, heavy], [0.6, 0.4]) if "with" in kind else family
    if kind == "row averages":
        parts = closed_form(
            [4.0, 5.0, 6.0, 5.5, 6.5, 3.0], [1.0, 0.5, 1.0, 2.0, 0.3, 2]
        )
        weights = np.array([1.0, 0.2, 0.5, 0.3, 0.75, 0.25])
        return averaged(parts, Parts(weights, np.array([1, 3, 2])))
    return {
        "closed form": normal,
        "student": heavy,
        "normal mixture": NormalMixtureDensity(
            np.log([[0.2, 0.8], [0.5, 0.5], [0.9, 0.1]]),
            np.stack([CENTERS, CENTERS + 2.0], axis=1),
            np.stack([SCALES, 0.3 * SCALES], axis=1),
        ),
        "mixture": mixture,
        "bounded below": BoundedDensity(
            mixture, SupportMap(1.0, np.inf, (0.1, 1.0), 2.0)
        ),
        "bounded on both sides": BoundedDensity(
            mixture, SupportMap(-1.0, 9.0, (0.1, 0.1))
        ),
        "recalibrated": RecalibratedDensity(
            mixture, UnitMap(np.array([0.4, 0.2, 0.1, 0.3]))
        ),
    }[kind]


@pytest.fixture(scope="module", params=KINDS)
def p(request, curve):
    return _made(request.param, curve)


def pieces(p, count=160):
    """Nodes between quantiles that are even in log odds, weights, and the quantiles."""
    levels = 1.0 / (1.0 + np.exp(-np.linspace(-30.0, 30.0, count + 1)))
    cuts = p.ppf(levels[None])
    breaks = np.tile(p._breaks(), (3, 1))
    cuts = np.sort(
        np.hstack([cuts, np.clip(breaks, cuts[:, :1], cuts[:, -1:])]), axis=1
    )
    nodes, weights = legendre.leggauss(12)
    half = 0.5 * np.diff(cuts, axis=1)[..., None]
    y = cuts[:, :-1, None] + half * (1.0 + nodes)
    return y.reshape(3, -1), (half * weights).reshape(3, -1), cuts


def test_densities_have_mass_one_and_the_moments_and_entropy_they_say(p):
    y, weights, _ = pieces(p)
    log_p = p.logpdf(y)
    mass = weights * np.exp(log_p)
    assert_close(mass.sum(axis=1), np.ones(3), 1e-8)
    mean = (mass * y).sum(axis=1)
    assert_close(p.mean(), mean, 1e-7)
    second = (mass * (y - mean[:, None]) ** 2).sum(axis=1)
    # Of a Student tail of index six a millionth of the variance is beyond.
    assert_close(p.var(), second, 1e-5)
    assert_close(p.std() ** 2, p.var())
    entropy = -(mass * np.where(mass > 0, log_p, 0.0)).sum(axis=1)
    assert_close(p.entropy(), entropy, 1e-6, scale=1.0)


def test_distribution_functions_are_integrals_of_the_density(p):
    y, weights, cuts = pieces(p)
    masses = (weights * p.pdf(y)).reshape(3, -1, 12).sum(axis=2)
    assert_close(np.diff(p.cdf(cuts), axis=1), masses, 1e-8, scale=1.0)
    assert_close(-np.diff(p.sf(cuts), axis=1), masses, 1e-8, scale=1.0)
    assert_close(p.cdf(y) + p.sf(y), np.ones(y.shape), 1e-9)
    h = 1e-4 * p.std()[:, None]
    inner = p.ppf([[0.1, 0.37, 0.62, 0.9]])
    slope = (p.cdf(inner + h) - p.cdf(inner - h)) / (2 * h)
    assert_close(slope, p.pdf(inner), 1e-5)


def test_gradients_are_differences_of_log_densities(p):
    y = p.ppf([[0.05, 0.31, 0.52, 0.93]])
    h = 1e-5
    difference = (p.logpdf(y + h) - p.logpdf(y - h)) / (2 * h)
    assert_close(p.grad_logpdf(y), difference, 10 * DIFFERENCES, scale=10.0)


def test_what_densities_ask_of_each_other_is_what_users_see(p):
    """Rough densities, tails, brackets of quantiles: of some rows, in any order."""
    rows = np.array([2, 0, 0, 1])
    some = p[rows]
    y = p.ppf([[1e-7, 0.02, 0.5, 0.97]])[rows]
    peak = p.pdf(p.mode())[rows][:, None]
    assert_close(p._rough_pdf(y, rows) / peak, some.pdf(y) / peak, 1e-8, scale=1.0)
    assert_close(p._rough_pdf(p.ppf([[0.2]])), p.pdf(p.ppf([[0.2]])), 1e-7)
    assert_close(p._cdf(y, rows), some.cdf(y), 1e-9, scale=1.0)
    assert_close(p._sf(y, rows), some.sf(y), 1e-9, scale=1.0)
    for q in range(4):
        for upper in (np.ones(4, bool), np.arange(4) % 2 == 0):
            mass, rough = p._tail_and_pdf(y[:, q], rows, upper)
            slow = np.where(upper, some.sf(y[:, [q]])[:, 0], some.cdf(y[:, [q]])[:, 0])
            assert_close(mass, slow, 1e-9, scale=1.0)
            assert_close(
                rough / peak[:, 0], some.pdf(y[:, [q]])[:, 0] / peak[:, 0], 1e-8
            )
    levels = np.tile([0.001, 0.3, 0.72], (4, 1))
    exact = some.ppf(levels)
    low, high = p._around(levels, rows)
    room = 1e-9 * np.abs(exact)
    assert np.all((low <= exact + room) & (exact - room <= high))
    about = p._about(levels, rows)
    middle = np.diff(some.ppf([[0.05, 0.95]]), axis=1)
    assert np.all(np.abs(about - exact) < middle)


def test_outlines_begin_and_end_with_the_mass_and_cut_where_a_density_is_not_smooth(p):
    outline = p._outline()
    assert outline.shape[0] == 3
    assert np.all(np.diff(outline, axis=1) >= 0)
    first, last = outline[:, :1], outline[:, -1:]
    assert np.all(p.cdf(first) < 1e-9)
    assert np.all(p.sf(last) < 1e-9)
    finite = p.support[np.isfinite(p.support)]
    assert set(finite.tolist()) <= set(np.round(p._breaks(), 12).tolist()) | set(
        p._breaks().tolist()
    )


def test_supports_are_where_quantiles_begin_and_end(p):
    ends = np.stack([p.ppf(0.0), p.ppf(1.0)], axis=1)
    np.testing.assert_array_equal(ends, p.support)
    low, high = p.support.T
    assert np.all(low < p.ppf(1e-6))
    assert np.all(high > p.ppf(1 - 1e-6))
    beyond = np.where(np.isfinite(p.support), np.add(p.support, (-1.0, 1.0)), 5.0)
    outside = p.pdf(beyond)[np.isfinite(p.support)]
    assert np.all(outside == 0.0)


def test_modes_and_regions_are_highest(p):
    levels = np.linspace(0.0, 1.0, 2001)[1:-1]
    y = p.ppf(levels[None])
    density = p.pdf(y)
    assert np.all(p.pdf(p.mode()) >= density.max(axis=1) * (1 - 1e-9))
    for row, region in enumerate(p.hpd(0.7)):
        mass = p[row].cdf(region[:, 1]) - p[row].cdf(region[:, 0])
        assert_close(mass.sum(), 0.7, 1e-7)
        inside = np.any((y[row] > region[:, :1]) & (y[row] < region[:, 1:]), axis=0)
        assert density[row, inside].min() >= density[row, ~inside].max() * (1 - 1e-5)


def test_no_rows_are_no_difficulty(p):
    none = p[3:]
    assert len(none) == 0
    for name in ("mean", "median", "std", "var", "mode", "entropy"):
        assert getattr(none, name)().shape == (0,)
    assert none.support.shape == (0, 2)
    assert none.hpd(0.9) == []
    assert none.interval(0.9).shape == (0, 2)
    assert none.ppf([[0.1, 0.9]]).shape == (0, 2)
    assert none.rvs(3).shape == (0, 3)
