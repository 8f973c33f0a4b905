"""Mixtures against quadrature and grids of the plain sum of their components."""

import matplotlib as mpl
import numpy as np
import pytest
from scipy import stats

from kexpfam import KCEF
from kexpfam.base_densities import (
    GaussianBase,
    GeneralizedGaussianBase,
    StudentBase,
    TruncatedBase,
    UniformBase,
)
from kexpfam.distributions import ClosedFormDensity, MixtureDensity
from kexpfam.kernels import Gaussian
from tests.conftest import CONDITIONS
from tests.densities import assert_distribution_function, closed_form, untuned
from tests.oracles.integrals import BruteDensity
from tests.tolerances import (
    DIFFERENCES,
    KS_LEVEL,
    MINIMISER,
    QUADRATURE,
    ROUNDING,
    assert_close,
)

ROWS = range(3)


def _family(curve, base):
    x, y = curve
    return untuned(base, ell_x=0.6, ell_y=0.7).fit(x, y).given(CONDITIONS)


def _cases(curve):
    """Mixtures, and for each the points where to cut the integrals of the oracle."""
    gaussian, student = (_family(curve, b) for b in (GaussianBase(), StudentBase()))
    flat = _family(curve, UniformBase(0.0, 9.0))
    positive = _family(curve, TruncatedBase(lower=0.0))
    moving = closed_form([3.0, 5.0, 8.0], [0.3, 1.0, 0.5], GaussianBase(0.5))
    defensive = closed_form([5.0, 5.0, 5.0], [3.0, 3.0, 3.0], StudentBase(1.0, df=4.0))
    inner = np.arange(-4.0, 14.5, 0.5).tolist()
    ends = [-60.0, -20.0, *inner, 30.0, 70.0]
    tails = 100.0 * 2.0 ** np.arange(24)
    narrow = closed_form([0.0, 1.0, -1.0], [1e-3, 2e-3, 1e-4])
    wide = closed_form([4e3, 3e3, 1e4], [200.0, 100.0, 500.0])
    near = np.unique(
        np.concatenate([c + np.linspace(-0.02, 0.02, 81) for c in (-1, 0, 1)])
    )
    far = np.unique(np.linspace(-1e3, 1.5e4, 161))
    return {
        "families": (
            MixtureDensity([gaussian, student, defensive], [0.5, 0.3, 0.2]),
            [*-tails[::-1], *ends, *tails],
        ),
        "far_apart": (
            MixtureDensity([narrow, wide], [0.4, 0.6]),
            np.unique(np.append(near, far)).tolist(),
        ),
        "bounded": (
            MixtureDensity([flat, positive, moving], [0.3, 0.5, 0.2]),
            [-20.0, *inner, 30.0, 70.0],
        ),
        "bounded_only": (
            MixtureDensity([flat, positive], [0.6, 0.4]),
            [0.0, *[b for b in inner if b > 0], 30.0, 70.0],
        ),
        "tiny": (
            MixtureDensity([moving, defensive, narrow], [1 - 2e-9, 1e-9, 1e-9]),
            None,
        ),
        "one": (MixtureDensity([gaussian], [1.0]), ends),
    }


NAMES = ("families", "far_apart", "bounded", "bounded_only", "tiny", "one")


@pytest.fixture(scope="session")
def cases(curve):
    return _cases(curve)


@pytest.fixture(scope="session", params=NAMES)
def case(request, cases):
    return cases[request.param]


@pytest.fixture(scope="session")
def mixture(case):
    return case[0]


@pytest.fixture(scope="session")
def slow(case):
    """The oracles of the rows; None where the breaks would be too many."""
    p, breaks = case
    if breaks is None:
        return None
    return [BruteDensity(lambda y, i=i: _sum(p, i, y), breaks) for i in ROWS]


def _sum(p, row, y):
    """Log Σ w p_c at points of one row, from public methods of the components."""
    values = [
        weight * part[row].pdf(y)
        for weight, part in zip(p.weights, p.components, strict=True)
    ]
    with np.errstate(divide="ignore"):
        return np.log(np.sum(values, axis=0))


def _points(p):
    """Quantiles of every component, from one tail to the other."""
    levels = np.array([[1e-6, 0.01, 0.2, 0.5, 0.7, 0.99, 1 - 1e-6]])
    return np.sort(np.hstack([part.ppf(levels) for part in p.components]), axis=1)


def test_density_is_the_sum_of_the_components(mixture):
    y = _points(mixture)
    expected = np.array([_sum(mixture, i, y[i]) for i in ROWS])
    assert_close(mixture.logpdf(y), expected)
    assert_close(mixture.pdf(y), np.exp(expected))


def test_distribution_function_is_the_sum_of_the_components(mixture):
    y = _points(mixture)
    for method in ("cdf", "sf"):
        expected = sum(
            weight * getattr(part, method)(y)
            for weight, part in zip(mixture.weights, mixture.components, strict=True)
        )
        np.testing.assert_allclose(getattr(mixture, method)(y), expected, rtol=1e-12)


def test_it_integrates_to_one_and_so_does_its_distribution_function(mixture, slow):
    np.testing.assert_array_equal(mixture.log_partition, np.zeros(3))
    assert np.all(mixture.log_partition_error < 1e-9)
    if slow is None:
        return
    for i in ROWS:
        assert_distribution_function(mixture[i], slow[i], [0.05, 0.5, 0.9])


def test_moments_and_entropy_equal_quadrature(mixture, slow):
    if slow is None:
        return
    for i in ROWS:
        assert_close(mixture.mean()[i], slow[i].mean(), 1e-8)
        # A Student with four degrees of freedom has a second moment that both
        # quadratures, the oracle's and the families', follow to about 1e-7 only.
        assert_close(mixture.var()[i], slow[i].var(), 1e-6)
        assert_close(mixture.entropy()[i], slow[i].entropy(), 1e-8, scale=1.0)


def test_entropy_of_separate_components_is_theirs_plus_that_of_the_choice():
    parts = [
        closed_form([c], [1.0], GaussianBase(s)) for c, s in ((0, 1e-6), (1e6, 1.0))
    ]
    weights = np.array([0.25, 0.75])
    p = MixtureDensity(parts, weights)
    entropies = np.array([part.entropy()[0] for part in parts])
    expected = weights @ entropies - weights @ np.log(weights)
    assert_close(p.entropy(), [expected], QUADRATURE)


def test_quantiles_invert_the_distribution_function(mixture):
    levels = np.array([1e-12, 1e-9, 1e-3, 0.05, 0.3, 0.4, 0.5, 0.8, 0.999, 1 - 1e-9])
    y = mixture.ppf(levels[None])
    assert y.shape == (3, len(levels))
    assert np.all(np.diff(y, axis=1) > 0)
    below = np.tile(levels, (3, 1))
    np.testing.assert_allclose(mixture.cdf(y)[:, 1:-1], below[:, 1:-1], rtol=1e-9)
    # Tails of quadratures end where 1e-12 of the mass is left.
    assert_close(mixture.cdf(y), below, 1e-11, scale=1.0)
    assert_close(mixture.sf(y), 1 - below, 1e-11, scale=1.0)
    # Few levels are bracketed by quantiles of the components, many by cells. What
    # separates them is a share of 1e-14 of the tail, or the last digit of y.
    few = np.hstack([mixture.ppf(levels[None, :6]), mixture.ppf(levels[None, 6:])])
    np.testing.assert_allclose(mixture.cdf(few), mixture.cdf(y), rtol=1e-10, atol=1e-15)
    np.testing.assert_allclose(mixture.sf(few), mixture.sf(y), rtol=1e-10, atol=1e-15)
    np.testing.assert_array_equal(mixture.median(), mixture.ppf(0.5))


def test_quantiles_in_a_gap_have_the_right_mass_on_either_side():
    parts = [closed_form([c], [s]) for c, s in ((0, 1e-8), (1e8, 1e-3))]
    p = MixtureDensity(parts, [0.5, 0.5])
    levels = np.array([[0.2, 0.5 - 1e-6, 0.5 + 1e-6, 0.75]])
    y = p.ppf(levels)
    expected = np.append(
        parts[0].ppf(2 * levels[:, :2]), parts[1].ppf(2 * levels[:, 2:] - 1)
    )
    np.testing.assert_allclose(y[0, 0], expected[0], rtol=1e-9)
    assert_close(p.cdf(y), levels, 1e-6)  # 1e8 + 1e-3·z has eight digits of z
    np.testing.assert_allclose(y[0], expected, rtol=1e-7)


def test_levels_zero_and_one_give_the_ends_of_the_support(mixture):
    ends = np.stack([mixture.ppf(0.0), mixture.ppf(1.0)], axis=1)
    np.testing.assert_array_equal(ends, mixture.support)
    supports = np.stack([part.support for part in mixture.components])
    np.testing.assert_array_equal(ends[:, 0], supports[..., 0].min(axis=0))
    np.testing.assert_array_equal(ends[:, 1], supports[..., 1].max(axis=0))


def test_gradient_equals_differences_of_the_log_density(mixture):
    y = mixture.ppf([[0.1, 0.45, 0.77]])
    parts = np.stack([part.std() for part in mixture.components])
    step = 1e-5 * parts.min(axis=0)[:, None]
    difference = (mixture.logpdf(y + step) - mixture.logpdf(y - step)) / (2 * step)
    # A rounding of the log density counts 1e5 times.
    slope = mixture.grad_logpdf(y)
    assert_close(slope * step * 1e5, difference * step * 1e5, 1e-6, scale=1.0)


def test_gradient_is_missing_where_there_is_no_density(cases):
    p = cases["bounded_only"][0]
    assert np.isnan(p.grad_logpdf([-1.0, 4.0, 4.0])).tolist() == [True, False, False]
    assert p.logpdf(-1.0).tolist() == [-np.inf] * 3


def test_mode_is_the_highest_point_of_a_grid(mixture):
    mode, width = mixture.mode(), np.stack([p.std() for p in mixture.components])
    height = mixture.logpdf(mode)
    levels = np.linspace(0.0, 1.0, 4003)[1:-1]
    for i in ROWS:
        # Quantiles of the components are dense wherever any of them has mass.
        grid = np.unique([part[i].ppf(levels) for part in mixture.components])
        grid = np.append(grid, mixture.support[i][np.isfinite(mixture.support[i])])
        values = mixture[i].logpdf(grid)
        assert height[i] >= values.max() - 1e-12
        assert abs(mode[i] - grid[values.argmax()]) < 0.01 * width[:, i].max()


def test_mode_at_a_jump_of_the_density():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(60, 1)), rng.exponential(size=60)
    model = KCEF(
        select=None, base=TruncatedBase(lower=0.0), kernel_y=Gaussian(2.0)
    ).fit(x, y)
    falling = model.given([[0.0]])
    assert_close(falling.mode(), [0.0], MINIMISER, scale=1.0)
    wide = closed_form([0.0], [3.0])
    p = MixtureDensity([falling, wide], [0.5, 0.5])
    assert_close(p.mode(), [0.0], MINIMISER, scale=1.0)
    (region,) = p.hpd(0.3)
    assert_close(region[0, 0], 0.0, MINIMISER, scale=1.0)
    assert_close(np.diff(p.cdf(region))[0], [0.3], 1e-8)


def test_highest_density_regions_hold_their_mass_and_the_densest_points(mixture):
    levels = np.linspace(0.0, 1.0, 1003)[1:-1]
    confidences = (0.1, 0.5, 0.9, 0.99)
    regions = {confidence: mixture.hpd(confidence) for confidence in confidences}
    for i in ROWS:
        grid = np.unique([part[i].ppf(levels) for part in mixture.components])
        density = mixture[i].pdf(grid)
        for confidence in confidences:
            region = regions[confidence][i]
            mass = mixture[i].cdf(region[:, 1]) - mixture[i].cdf(region[:, 0])
            assert_close(mass.sum(), confidence, 1e-8)
            inside = np.zeros(len(grid), dtype=bool)
            for a, b in region:
                inside |= (grid > a) & (grid < b)
            assert density[inside].min() >= density[~inside].max() * (1 - 1e-6)
            assert_close(mixture[i].hpd(confidence), region, 1e-9)


def test_draws_follow_the_distribution_function(mixture):
    draws = mixture.rvs(1500, random_state=3)
    assert draws.shape == (3, 1500)
    for i in ROWS:
        assert (
            stats.kstest(draws[i], lambda y, i=i: mixture[i].cdf(y)).pvalue > KS_LEVEL
        )
    np.testing.assert_array_equal(draws, mixture.rvs(1500, random_state=3))
    # Neighbouring draws of a row are independent, whichever component they are from.
    ranks = np.array([mixture[i].cdf(draws[i]) for i in ROWS]) - 0.5
    correlation = 12 * np.mean(ranks[:, 1:] * ranks[:, :-1], axis=1)
    assert np.all(np.abs(correlation) < 4 / np.sqrt(1500))


def test_a_mixture_of_one_component_equals_it(gaussian_case):
    p = gaussian_case.density
    for mixture in (
        MixtureDensity([p], [1.0]),
        MixtureDensity([p, p], [0.3, 0.7]),
        MixtureDensity([p, gaussian_case.model.given(CONDITIONS + 1.0)], [1.0, 0.0]),
    ):
        y = np.array([[2.5, 4.0, 5.6, 7.3]])
        for method in ("logpdf", "pdf", "cdf", "sf", "grad_logpdf"):
            assert_close(getattr(mixture, method)(y), getattr(p, method)(y))
        levels = [[1e-6, 0.2, 0.5, 0.99]]
        assert_close(mixture.ppf(levels), p.ppf(levels))
        for method in ("mean", "std", "var", "median", "entropy"):
            assert_close(getattr(mixture, method)(), getattr(p, method)(), 1e-10)
        assert_close(mixture.mode(), p.mode(), MINIMISER)
        assert_close(mixture.interval(0.8), p.interval(0.8))
        for one, other in zip(mixture.hpd(0.8), p.hpd(0.8), strict=True):
            assert_close(one, other, 1e-7)
        assert_close(mixture.log_partition_error, p.log_partition_error, scale=1.0)


def test_a_mixture_of_mixtures_is_a_mixture(gaussian_case):
    p = gaussian_case.density
    defensive = closed_form([4.0, 5.0, 6.0], [2.0, 1.0, 2.0], StudentBase(1.0))
    other = closed_form([4.0, 5.0, 6.0], [1.0, 1.0, 1.0], GeneralizedGaussianBase(1.0))
    nested = MixtureDensity(
        [MixtureDensity([p, defensive], [0.5, 0.5]), other], [0.6, 0.4]
    )
    flat = MixtureDensity([p, defensive, other], [0.3, 0.3, 0.4])
    y = np.array([[3.0, 5.0, 7.0]])
    assert_close(nested.logpdf(y), flat.logpdf(y))
    assert_close(nested.entropy(), flat.entropy())
    assert_close(nested.mode(), flat.mode(), MINIMISER)
    assert_close(nested.ppf([[0.1, 0.9]]), flat.ppf([[0.1, 0.9]]), 1e-10)


def test_moments_that_do_not_exist_are_said_not_to():
    parts = [
        closed_form([0.0], [1.0], StudentBase(1.0, df=df)) for df in (1.0, 1.5, 5.0)
    ]
    assert np.isnan(MixtureDensity([parts[0], parts[2]], [0.5, 0.5]).mean()[0])
    assert MixtureDensity([parts[1], parts[2]], [0.5, 0.5]).std()[0] == np.inf
    mean = MixtureDensity([parts[1], parts[2]], [0.5, 0.5]).mean()[0]
    assert mean == pytest.approx(0.0, abs=1e-15)


@pytest.mark.parametrize("method", ["logpdf", "pdf", "grad_logpdf", "cdf", "sf"])
def test_shapes_of_points(cases, method):
    p = cases["families"][0]
    flat = getattr(p, method)(np.full(3, 5.0))
    for shape, expected in (
        ((), (3,)),
        ((3,), (3,)),
        ((3, 5), (3, 5)),
        ((1, 5), (3, 5)),
        ((3, 1), (3, 1)),
    ):
        values = getattr(p, method)(np.full(shape, 5.0))
        assert values.shape == expected
        wanted = flat.reshape(3, *[1] * (len(expected) - 1))
        assert_close(values, np.broadcast_to(wanted, expected))
    for shape in ((), (1,), (5,), (0,)):
        values = getattr(p[1], method)(np.full(shape, 5.0))
        assert np.shape(values) == shape
        assert_close(values, np.full(shape, flat[1]))
    with pytest.raises(ValueError, match=r"got shape \(2,\) for 3 densities"):
        getattr(p, method)(np.full(2, 5.0))


def test_summaries_of_all_and_of_one(mixture):
    for method in ("mean", "median", "mode", "var", "std", "entropy"):
        values = getattr(mixture, method)()
        assert values.shape == (3,)
        for i, one in enumerate(mixture):
            alone = getattr(one, method)()
            assert np.shape(alone) == ()
            narrowest = min(part[i].std() for part in mixture.components)
            scale = max(abs(values[i]), narrowest)
            assert_close(alone, values[i], 1e-9, scale=scale)
    assert mixture.support.shape == (3, 2)
    assert mixture[0].support.shape == (2,)
    assert mixture.rvs(4).shape == (3, 4)
    assert mixture[0].rvs(4).shape == (4,)
    assert mixture[0].interval().shape == (2,)
    assert np.shape(mixture[0].log_partition) == ()
    assert np.shape(mixture[0].log_partition_error) == ()
    assert repr(mixture).startswith("<MixtureDensity: 3 densities of y\n")


def test_selections(mixture):
    y = mixture.ppf([0.2, 0.5, 0.6])
    log_p, modes = mixture.logpdf(y), mixture.mode()
    for index in (slice(1, None), [2, 0], np.array([True, False, True])):
        some = mixture[index]
        assert_close(some.logpdf(y[index]), log_p[index])
        assert_close(some.mode(), modes[index], 1e-9)
    none = mixture[3:]
    assert len(none) == 0
    assert list(none) == []
    for method in ("mean", "median", "mode", "var", "entropy"):
        assert getattr(none, method)().shape == (0,)
    assert none.hpd() == []
    assert none.rvs(4).shape == (0, 4)
    with pytest.raises(IndexError, match="density 3 was asked for"):
        mixture[3]
    with pytest.raises(TypeError, match="A single density has no length"):
        len(mixture[0])


def test_single_components_make_a_single_mixture(gaussian_case):
    p = gaussian_case.density
    one = MixtureDensity([p[0], p[2]], [0.5, 0.5])
    assert np.shape(one.mean()) == ()
    assert_close(one.mean(), 0.5 * (p.mean()[0] + p.mean()[2]))
    assert_close(one.cdf([5.0]), [0.5 * (p[0].cdf(5.0) + p[2].cdf(5.0))])


def test_it_can_be_drawn(mixture):
    mpl.use("Agg")
    assert len(mixture.plot().lines) == 3
    assert len(mixture[0].plot().lines) == 1
    mpl.pyplot.close("all")


def test_bad_components_and_weights_are_named(gaussian_case, plane_case):
    p = gaussian_case.density
    for bad in (plane_case.density, stats.norm()):
        with pytest.raises(TypeError, match="must be densities of one variable"):
            MixtureDensity([p, bad], [0.5, 0.5])
    for weights in ([1.0], [[0.5, 0.5]], 1.0):
        with pytest.raises(ValueError, match="weights must have one number per comp"):
            MixtureDensity([p, p], weights)
    for weights in ([0.5, 0.6], [-0.5, 1.5], [np.nan, 1.0]):
        with pytest.raises(ValueError, match="weights must not be negative and sum"):
            MixtureDensity([p, p], weights)
    with pytest.raises(ValueError, match=r"at the same conditions.*2 densities"):
        MixtureDensity([p, p[:2]], [0.5, 0.5])
    with pytest.raises(ValueError, match="weights must have one number per component"):
        MixtureDensity([], [])


TWINS = [
    (GaussianBase(2.0, location=0.5), stats.norm(0.5, 2.0)),
    (StudentBase(1.5, df=2.5), stats.t(2.5, 0.0, 1.5)),
    (StudentBase(1.0, df=1.0), stats.t(1.0)),
    (GeneralizedGaussianBase(1.5, power=4.0), stats.gennorm(4, 0.0, 1.5)),
    (GeneralizedGaussianBase(0.8, power=1.0), stats.laplace(0, 0.8)),
]


@pytest.mark.parametrize(("base", "twin"), TWINS, ids=lambda v: getattr(v, "dist", v))
def test_closed_forms_equal_scipy(base, twin):
    location, scale = np.array([1.0, -20.0]), np.array([0.1, 7.0])
    p = ClosedFormDensity(base, location, scale)
    levels = np.array([[1e-30, 1e-12, 1e-3, 0.2, 0.5, 0.9, 1 - 1e-9]])
    z = twin.ppf(levels)
    y = location[:, None] + scale[:, None] * z
    np.testing.assert_allclose(p.ppf(levels), y, rtol=1e-9)
    shape = np.ones((2, 1))
    log_p = twin.logpdf(z) - np.log(scale)[:, None]
    np.testing.assert_allclose(p.logpdf(y), log_p, rtol=1e-9)
    # The location takes digits of z, more where |z| is small against it.
    np.testing.assert_allclose(p.cdf(y), shape * twin.cdf(z), rtol=1e-8)
    np.testing.assert_allclose(p.sf(y), shape * twin.sf(z), rtol=1e-6)
    np.testing.assert_allclose(p.entropy(), twin.entropy() + np.log(scale))
    mean, std = twin.mean(), twin.std()
    mean = mean if np.isfinite(mean) else np.nan  # SciPy has infinity, or none
    np.testing.assert_allclose(p.mean(), location + scale * mean)
    expected = scale * (std if np.isfinite(std) else np.inf)
    np.testing.assert_allclose(p.std(), expected, rtol=1e-9)
    assert_close(p.mode(), location + scale * twin.median())
    assert_close(p.hpd(0.8)[1], p.interval(0.8)[1:])
    step = 1e-5 * scale[:, None]
    middle = y[:, 2:-1] + 0.1 * scale[:, None]
    difference = (p.logpdf(middle + step) - p.logpdf(middle - step)) / (2 * step)
    assert_close(p.grad_logpdf(middle), difference, DIFFERENCES)
    draws = p.rvs(2000, random_state=0)
    assert stats.kstest(draws[1], p[1].cdf).pvalue > KS_LEVEL
    # Its cells are what mixtures integrate on.
    alone = MixtureDensity([p], [1.0])
    assert_close(alone.entropy(), p.entropy(), 1e-8, scale=1.0)
    assert_close(alone.mode(), p.mode(), ROUNDING)


def test_student_tails_are_exact():
    p = ClosedFormDensity(StudentBase(1.0, df=2.0), np.zeros(1), np.ones(1))
    # F(t) = ½ + t/(2√(2 + t²)), so F(−t) = 1/(2 + t² + t√(2 + t²))
    for t in (1e3, 1e8, 1e100):
        tail = 1 / (2 + t * t + t * np.sqrt(2 + t * t))
        np.testing.assert_allclose(p.cdf([-t]), [tail], rtol=1e-12)
        np.testing.assert_allclose(p.sf([t]), [tail], rtol=1e-12)
        np.testing.assert_allclose(p.ppf([tail]), [-t], rtol=1e-9)


def test_bad_locations_and_scales_are_refused():
    base = GaussianBase(1.0)
    with pytest.raises(ValueError, match=r"one number per density, got shapes \(2,\)"):
        ClosedFormDensity(base, np.zeros(2), np.ones(3))
    for location, scale in ((np.nan, 1.0), (0.0, 0.0), (0.0, -1.0)):
        with pytest.raises(ValueError, match="finite and scale positive"):
            ClosedFormDensity(base, np.array([location]), np.array([scale]))


@pytest.mark.parametrize("unit", [1e-200, 1e-3, 1e200])
def test_standard_deviations_of_any_size_are_those_of_the_law_of_total_variance(unit):
    centers, widths = np.array([[1.0, 0.0], [-2.0, 0.0]]), [[0.5, 1.0], [1.5, 1.0]]
    parts = [
        closed_form(unit * center, unit * np.array(width))
        for center, width in zip(centers, widths, strict=True)
    ]
    p = MixtureDensity(parts, [0.3, 0.7])
    mean = 0.3 - 1.4
    second = 0.3 * (0.25 + 1.0) + 0.7 * (2.25 + 4.0)
    assert_close(p.std() / unit, [np.sqrt(second - mean**2), 1.0])
