"""Densities of one variable against quadrature of an independent fit."""

import numpy as np
import pytest
from scipy import stats

from kexpfam import KCEF, KEF
from kexpfam.base_densities import (
    Arcsinh,
    GaussianBase,
    LocationScaleBase,
    StudentBase,
    TransformedBase,
    UniformBase,
)
from kexpfam.kernels import Constant, Gaussian, separable
from tests.densities import highest_point
from tests.tolerances import (
    DIFFERENCES,
    KS_LEVEL,
    MINIMISER,
    QUADRATURE,
    ROUNDING,
    SOLVE,
    assert_close,
)

# The masses of the fixtures' two branches are wrong, but these are densities.
pytestmark = pytest.mark.filterwarnings("ignore::kexpfam.errors.BlindnessWarning")


POINTS = np.array([2.5, 4.0, 4.9, 5.6, 7.3])
ROWS = range(3)


def test_log_density_equals_base_plus_T_minus_log_partition_by_quadrature(line_case):
    p = line_case.density
    for i in ROWS:
        slow = line_case.slow(i)
        assert_close(p.log_partition[i], slow.log_partition, SOLVE, scale=1.0)
        expected = slow.logpdf(POINTS)
        assert_close(p[i].logpdf(POINTS), expected, SOLVE)
        assert_close(p[i].pdf(POINTS), np.exp(expected), SOLVE)


def test_stated_error_of_log_partition_is_tiny(line_case):
    assert np.all(line_case.density.log_partition_error < 1e-9)
    assert np.all(line_case.density.log_partition_error > 0)


def test_distribution_function_equals_quadrature(line_case):
    p = line_case.density
    for i in ROWS:
        slow = line_case.slow(i)
        assert_close(p[i].cdf(POINTS), [slow.cdf(y) for y in POINTS], SOLVE)
        assert_close(p[i].sf(POINTS), [slow.sf(y) for y in POINTS], SOLVE)


def test_mean_variance_and_entropy_equal_quadrature(line_case):
    p = line_case.density
    for i in ROWS:
        slow = line_case.slow(i)
        assert_close(p.mean()[i], slow.mean(), SOLVE)
        assert_close(p.var()[i], slow.var(), SOLVE)
        assert_close(p.entropy()[i], slow.entropy(), SOLVE, scale=1.0)
    assert_close(p.std() ** 2, p.var())


def test_quantiles_invert_the_distribution_function(line_case):
    p = line_case.density
    levels = np.array([1e-9, 0.001, 0.05, 0.3, 0.5, 0.8, 0.999])
    quantiles = p.ppf(levels[None])
    assert quantiles.shape == (3, 7)
    assert np.all(np.diff(quantiles) > 0)
    assert_close(p.cdf(quantiles), np.tile(levels, (3, 1)), 1e-10)
    for i in ROWS:
        slow = line_case.slow(i)
        assert_close(slow.cdf(quantiles[i, 3]), 0.3, SOLVE)
    np.testing.assert_array_equal(p.median(), p.ppf(0.5))


def test_levels_zero_and_one_give_the_ends_of_the_support(line_case):
    p = line_case.density
    ends = np.stack([p.ppf(0.0), p.ppf(1.0)], axis=1)
    np.testing.assert_array_equal(ends, p.support)
    low, high = line_case.family.base.support
    user = line_case.family.center + line_case.family.scale * np.array([low, high])
    assert_close(
        p.support[np.isfinite(p.support)],
        np.tile(user, 3)[np.isfinite(np.tile(user, 3))],
        scale=1.0,
    )
    assert np.array_equal(np.isinf(p.support[0]), np.isinf(user))


def test_outside_the_support_there_is_no_mass(line_case):
    p = line_case.density[0]
    low, high = p.support
    for y, below in ((low - 1.0, 0.0), (high + 1.0, 1.0)):
        if np.isfinite(y):
            assert p.logpdf(y) == -np.inf
            assert p.pdf(y) == 0.0
            assert_close(p.cdf(y), below, scale=1.0)
            assert_close(p.sf(y), 1.0 - below, scale=1.0)


def test_gradient_equals_differences_of_the_log_density(line_case):
    p, step = line_case.density, 1e-5
    difference = (p.logpdf(POINTS[None] + step) - p.logpdf(POINTS[None] - step)) / (
        2 * step
    )
    assert_close(p.grad_logpdf(POINTS[None]), difference, DIFFERENCES)


def test_mode_is_the_highest_point_of_a_grid_and_stationary(line_case):
    p = line_case.density
    mode = p.mode()
    assert mode.shape == (3,)
    for i in ROWS:
        best, _ = highest_point(p[i], np.linspace(1.0, 8.5, 4001))
        assert_close(mode[i], best, MINIMISER)
    curvature = 1.0 / p.var().min()
    assert np.all(np.abs(p.grad_logpdf(mode)) < 1e-6 * curvature)


def test_mode_at_the_edge_of_a_bounded_support():
    rng = np.random.default_rng(1)
    data = rng.exponential(0.3, size=(80, 1)).clip(0, 1.9)
    model = KEF(base=UniformBase(0.0, 2.0), kernel=Gaussian(2.0), random_state=0)
    p = model.fit(data).distribution()
    assert p.grad_logpdf([1e-6])[0] < 0
    assert_close(p.mode(), 0.0, MINIMISER, scale=1.0)
    region = p.hpd(0.8)
    assert region.shape == (1, 2)
    assert_close(region[0, 0], 0.0, MINIMISER, scale=1.0)
    assert_close(p.cdf(region[0, 1]), 0.8, 1e-8)


def test_interval_leaves_equal_tails(line_case):
    p = line_case.density
    interval = p.interval(0.8)
    assert interval.shape == (3, 2)
    assert_close(p.cdf(interval[:, 0]), [0.1] * 3, 1e-10)
    assert_close(p.sf(interval[:, 1]), [0.1] * 3, 1e-10)
    assert p[1].interval(0.8).shape == (2,)
    assert_close(p[1].interval(0.8), interval[1])
    assert_close(line_case.model.predict_interval(line_case.X, 0.8), interval)


@pytest.mark.parametrize("confidence", [0.05, 0.5, 0.9, 0.999])
def test_highest_density_regions_hold_their_mass_and_the_densest_points(
    line_case, confidence
):
    p = line_case.density
    regions = p.hpd(confidence)
    assert len(regions) == 3
    grid = np.linspace(0.05, 8.95, 3001)
    for i in ROWS:
        region = regions[i]
        assert region.ndim == 2
        assert np.all(np.diff(region.ravel()) > 0)
        mass = p[i].cdf(region[:, 1]) - p[i].cdf(region[:, 0])
        assert_close(mass.sum(), confidence, 1e-8)
        if confidence == 0.9:  # once is enough to tie the mass to the oracle
            slow = line_case.slow(i)
            true = sum(slow.cdf(b) - slow.cdf(a) for a, b in region)
            assert_close(true, confidence, SOLVE)
        inside = np.zeros(len(grid), dtype=bool)
        for a, b in region:
            inside |= (grid > a) & (grid < b)
        density = p[i].pdf(grid)
        lowest, highest = density[inside].min(), density[~inside].max()
        assert lowest >= highest * (1 - 1e-6)
        assert_close(p[i].hpd(confidence), region)


def test_highest_density_region_of_two_bumps_is_two_intervals(bimodal):
    region = bimodal.hpd(0.8)
    assert region.shape == (2, 2)
    assert region[0, 1] < 0.0 < region[1, 0]
    ends = bimodal.pdf(region.ravel())
    assert_close(ends, np.full(4, ends[0]), 1e-6)
    mass = bimodal.cdf(region[:, 1]) - bimodal.cdf(region[:, 0])
    assert_close(mass.sum(), 0.8, 1e-8)
    assert mass.min() > 0.1
    # It is smaller than the central interval, which must cover the gap.
    assert np.diff(region, axis=1).sum() < 0.9 * np.diff(bimodal.interval(0.8))[0]


@pytest.mark.parametrize("confidence", [1e-6, 1e-4, 1e-2])
def test_small_highest_density_regions_hold_their_mass_too(gaussian_case, confidence):
    p = gaussian_case.density[1]
    region = p.hpd(confidence)
    assert region.shape == (1, 2)
    assert region[0, 0] < p.mode() < region[0, 1]
    mass = p.cdf(region[:, 1]) - p.cdf(region[:, 0])
    # Near the top the density is flat, so its level says little about the width.
    assert_close(mass.sum(), confidence, 1e-2)


def test_highest_density_region_of_everything_holds_everything(line_case):
    for p in line_case.density:
        region = p.hpd(1.0)
        assert_close(np.sum(p.cdf(region[:, 1]) - p.cdf(region[:, 0])), 1.0, 1e-9)


def test_draws_follow_the_distribution_function(line_case):
    p = line_case.density
    draws = p.rvs(800, random_state=3)
    assert draws.shape == (3, 800)
    for i in ROWS:
        assert stats.kstest(draws[i], lambda y, i=i: p[i].cdf(y)).pvalue > KS_LEVEL
    again = line_case.model.sample(line_case.X, 800, random_state=3)
    np.testing.assert_array_equal(draws, again)
    assert np.any(p.rvs(800, random_state=4) != draws)


def test_moments_that_do_not_exist_are_said_not_to(curve):
    x, y = curve
    heavy = [
        KCEF(select=None, base=StudentBase(1.5, df=df)).fit(x, y).given(x[:2])
        for df in (1.0, 1.5)
    ]
    np.testing.assert_array_equal(heavy[0].mean(), [np.nan, np.nan])
    np.testing.assert_array_equal(heavy[0].var(), [np.inf, np.inf])
    np.testing.assert_array_equal(heavy[1].var(), [np.inf, np.inf])
    assert np.all(np.isfinite(heavy[1].mean()))


def test_moments_behind_a_logarithm_are_right_where_there_are_some():
    # λ so large that T = 0: y is sinh of a normal variable, Johnson's S_U.
    data = np.random.default_rng(0).normal(size=(40, 1))
    spread, log = 0.8, Arcsinh(0.0, 1.0)
    base = TransformedBase(log, GaussianBase(spread, location=0.5))
    p = KEF(base=base, regularization=1e12).fit(data).distribution()
    v = log.forward((data - data.mean()) / data.std())
    middle, width = v.mean() + 0.5 * v.std(), spread * v.std()
    law = stats.johnsonsu(-middle / width, 1.0 / width)
    assert_close(p.mean(), data.mean() + data.std() * law.mean(), 1e-6)
    assert_close(p.std(), data.std() * law.std(), 1e-6)


@pytest.mark.parametrize(
    ("base", "mean"),
    [(StudentBase(1.0, df=5.0), False), (GaussianBase(4.0), True)],
)
def test_moments_behind_a_logarithm_are_not_those_of_what_no_row_tells(base, mean):
    data = np.random.default_rng(0).normal(size=(40, 1))
    base = TransformedBase(Arcsinh(0.0, 1.0), base)
    p = KEF(base=base, regularization=1e12).fit(data).distribution()
    assert np.isfinite(p.mean()) == mean
    assert p.std() == np.inf
    assert np.isfinite(p.quantile([0.01, 0.5, 0.99])).all()


def test_mean_of_a_tail_with_mean_but_without_variance():
    # λ so large that T = 0: what is left is the base, whose mean is known.
    data = np.random.default_rng(0).normal(3.0, 2.0, size=(40, 1))
    base = StudentBase(1.0, location=0.7, df=1.5)
    p = KEF(base=base, regularization=1e12).fit(data).distribution()
    assert_close(p.mean(), data.mean() + 0.7 * data.std(), 1e-4)


def test_a_large_grid_equals_points_one_by_one(gaussian_case):
    p = gaussian_case.density
    grid = np.linspace(0.0, 10.0, 41)
    together = p.logpdf(grid[None])  # one matrix product
    apart = np.stack([p[i].logpdf(grid) for i in ROWS])  # kernel matrices
    one_by_one = np.array([[float(p[i].logpdf([y])[0]) for y in grid] for i in ROWS])
    assert_close(together, apart)
    assert_close(together, one_by_one)
    own = np.stack([grid + i for i in ROWS])
    assert_close(p.logpdf(own), np.stack([p[i].logpdf(own[i]) for i in ROWS]))


def test_more_densities_than_a_block_holds_equal_each_alone(gaussian_case):
    X = np.linspace(-0.9, 0.9, 1100)[:, None]
    p = gaussian_case.model.given(X)
    y = np.full(1100, 5.0)
    some = np.array([0, 500, 1023, 1024, 1099])
    alone = gaussian_case.model.given(X[some])
    assert_close(p.logpdf(y)[some], alone.logpdf(y[some]), 1e-10)
    assert_close(p.mean()[some], alone.mean(), 1e-10)
    assert_close(p.cdf(y)[some], alone.cdf(y[some]), 1e-10)


@pytest.mark.parametrize("y", [1e3, 1e10, 1e100, 1e160, 1e300])
@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_far_from_the_data_the_density_is_the_tail_of_the_base(curve, y, sign):
    x, data = curve
    model = KCEF(
        select=None,
        kernel_x=Gaussian(0.6),
        kernel_y=Gaussian(0.7),
        base=StudentBase(2.0, df=3.0),
        regularization=0.01,
    ).fit(x, data)
    p = model.given(x[:2])
    # log t₃(z) → log(6√3/π) − 4 log z, z in units of base scale and standard deviation
    z_log = np.log(y) - np.log(2.0 * data.std())
    tail = np.log(6 * np.sqrt(3) / np.pi) - 4 * z_log - np.log(2.0 * data.std())
    for points in (np.full(2, sign * y), np.full((1, 3), sign * y)):
        expected = np.broadcast_to(
            (tail - p.log_partition)[(...,) + (None,) * (points.ndim - 1)],
            (2,) if points.ndim == 1 else (2, 3),
        )
        # at 10³ the base's location and the next term of its tail still show
        assert_close(p.logpdf(points), expected, 1e-2 if y < 1e6 else 1e-6)


@pytest.mark.parametrize(
    "base", [GaussianBase(2.0), StudentBase(2.0, df=3.0)], ids=repr
)
def test_infinity_has_no_density_and_all_mass_below(curve, base):
    x, data = curve
    p = KCEF(select=None, base=base).fit(x, data).given(x[:2])
    np.testing.assert_array_equal(p.logpdf([np.inf, -np.inf]), -np.inf)
    assert_close(p.cdf([np.inf, -np.inf]), [1.0, 0.0])
    assert_close(p.sf([np.inf, -np.inf]), [0.0, 1.0])


def test_conditional_base_densities_integrate_to_one_and_move_with_x(curve):
    x, y = curve
    model = KCEF(
        select=None, base=LocationScaleBase(noise=GaussianBase(1.5)), random_state=0
    )
    p = model.fit(x, y).given([[-0.5], [0.5]])
    grid = np.linspace(-40.0, 50.0, 200_001)
    for i in range(2):
        pdf = p[i].pdf(grid)
        step = grid[1] - grid[0]
        assert_close(pdf.sum() * step, 1.0, QUADRATURE)
        assert_close((pdf * grid).sum() * step, p.mean()[i], QUADRATURE)
        assert_close(pdf[grid <= 5.0].sum() * step, p[i].cdf(5.0), 1e-3)
    step = 1e-5
    slope = (p.logpdf([5.0 + step] * 2) - p.logpdf([5.0 - step] * 2)) / (2 * step)
    assert_close(p.grad_logpdf([5.0, 5.0]), slope, DIFFERENCES)
    assert_close(p.cdf(p.ppf(0.3)), [0.3, 0.3], 1e-10)


def test_bad_levels_are_named(gaussian_case):
    p = gaussian_case.density
    for bad in (-0.1, 1.1, np.nan):
        with pytest.raises(ValueError, match=r"q must lie between 0 and 1, got"):
            p.ppf(bad)
        for method in (p.interval, p.hpd):
            with pytest.raises(ValueError, match="confidence must lie between 0 and 1"):
                method(bad)


def test_rounding_is_all_that_separates_predictions_from_densities(gaussian_case):
    model, p, X = gaussian_case.model, gaussian_case.density, gaussian_case.X
    assert_close(model.predict(X), p.mean(), ROUNDING)
    levels = [0.1, 0.5, 0.9]
    assert_close(model.predict_quantiles(X, levels), p.ppf([levels]), ROUNDING)
    y = np.array([4.0, 5.0, 7.0])
    assert_close(model.score_samples(X, y), p.logpdf(y), ROUNDING)
    assert_close(model.score(X, y), p.logpdf(y).mean(), ROUNDING)
    weights = np.array([1.0, 2.0, 0.0])
    weighted = np.average(p.logpdf(y), weights=weights)
    assert_close(model.score(X, y, sample_weight=weights), weighted, ROUNDING)


def test_densities_that_are_the_same_are_normalised_once():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 1))
    y = x[:, 0] + rng.normal(size=60)
    model = KCEF(select=None, kernel_x=Constant(), base="linear").fit(x, y)
    together = model.given(x[:7])
    assert together._tilted.same_rows
    points = np.linspace(-2, 2, 5)
    for i in range(7):
        alone, one = model.given(x[[i]])[0], together[i]
        np.testing.assert_allclose(one.logpdf(points), alone.logpdf(points), rtol=1e-12)
        for a, b in ((one.ppf(0.1), alone.ppf(0.1)), (one.std(), alone.std())):
            np.testing.assert_allclose(a, b, rtol=1e-12)
        np.testing.assert_allclose(one.log_partition, alone.log_partition, rtol=1e-12)


def test_densities_that_depend_on_x_are_not_the_same():
    x = np.linspace(-1, 1, 30)[:, None]
    y = x[:, 0] + 0.2 * np.cos(40 * x[:, 0])
    both = separable(Constant(), Gaussian(1.0)) + separable(
        Gaussian(1.0), Gaussian(1.0)
    )
    for kernel in ({"kernel_x": Gaussian(1.0)}, {"kernel": both}):
        p = KCEF(select=None, kernel_y=None, **kernel).fit(x, y).given(x[:2])
        assert not p._tilted.same_rows
