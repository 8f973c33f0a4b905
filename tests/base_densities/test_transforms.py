"""Transforms of y: bijections of the line with the slopes that they claim."""

import math

import numpy as np
import pytest
from scipy import stats

from kexpfam.base_densities import (
    Gaussianize,
    GaussianizeSpec,
    Rescaled,
    TransformedBase,
    YeoJohnson,
    fit_gaussianize,
    fit_yeo_johnson,
)
from tests.tolerances import DIFFERENCES, ROUNDING, assert_close

RNG = np.random.default_rng(12)
DATA = {
    "normal": RNG.normal(size=300),
    "skewed": RNG.lognormal(size=300),
    "heavy": RNG.standard_t(1.5, size=300),
    "ties": RNG.normal(size=300).round(1),
    "atom": np.where(RNG.random(300) < 0.6, 0.0, RNG.exponential(size=300)),
    "two_values": (RNG.random(300) < 0.3).astype(float),
    "few": RNG.normal(size=3),
}


def _standardized(name):
    y = DATA[name]
    return ((y - y.mean()) / y.std())[:, None]


TRANSFORMS = {
    **{
        f"power {lam}": YeoJohnson(lam, -3.0, 6.0) for lam in (-0.5, 0.0, 0.3, 1.0, 2.0)
    },
    "power 2.5, one side": YeoJohnson(2.5, 0.5, 6.0),
    "power per column": YeoJohnson((-1.0, 3.0), (-4.0, -2.0), (9.0, 1.0)),
    **{
        f"gaussianize {name}": fit_gaussianize(_standardized(name), np.ones(len(y)))
        for name, y in DATA.items()
    },
    "rescaled": Rescaled(YeoJohnson(0.0, -2.0, 4.0), (100.0,), (50.0,)),
    "rescaled spline": Rescaled(
        fit_gaussianize(_standardized("skewed"), np.ones(300)), -5.0, 20.0
    ),
}


@pytest.fixture(params=TRANSFORMS, scope="module")
def transform(request):
    return TRANSFORMS[request.param]


def _columns(transform):
    if isinstance(transform, YeoJohnson) and isinstance(transform.lam, tuple):
        return len(transform.lam)
    return 1


def _points(transform, count=401):
    """Points within the formula of each column and as far beyond, (count, d)."""
    columns = []
    for i in range(_columns(transform)):
        breaks = transform.column_breaks(i)
        width = breaks[-1] - breaks[0]
        even = np.linspace(breaks[0] - width, breaks[-1] + width, count)
        columns.append(even + 1e-3 * width)
    return np.stack(columns, axis=1)


def test_inverse_undoes_forward(transform):
    Y = _points(transform)
    assert_close(transform.inverse(transform.forward(Y)), Y, 1e-12)
    V = np.linspace(-8.0, 8.0, 101)[:, None] * np.ones(Y.shape[1])
    assert_close(transform.forward(transform.inverse(V)), V, 1e-11)


def test_it_increases_without_bound(transform):
    Y = _points(transform)
    assert np.all(np.diff(transform.forward(Y), axis=0) > 0)
    infinite = np.full((1, Y.shape[1]), np.inf)
    np.testing.assert_array_equal(transform.forward(infinite), infinite)
    np.testing.assert_array_equal(transform.inverse(-infinite), -infinite)
    far = 1e12 * np.abs(Y).max()
    assert_close(transform.inverse(transform.forward(far + 0 * Y)), far + 0 * Y)


def test_slopes_equal_differences(transform):
    Y = _points(transform)
    size = np.ptp(Y, axis=0)
    step = 1e-6 * size
    rise = transform.forward(Y + step) - transform.forward(Y - step)
    slope = np.exp(transform.log_abs_det_jacobian(Y)) * size
    # Rounding of t, at most a few dozen units of eps, is divided by the step 2e-6, and
    # a kink of the slope may lie between the two points.
    away = np.abs(rise / (2e-6) - slope)
    assert np.median(away) < 1e-7 * slope.max()
    assert away.max() < 1e-4 * slope.max()
    # Splines have features as narrow as 1e-3 of the range, so ten thousand steps.
    step = 1e-7 * size
    change = transform.log_abs_det_jacobian(Y + step) - transform.log_abs_det_jacobian(
        Y - step
    )
    gradient = transform.slope_gradient(Y) * size
    for i in range(Y.shape[1]):
        breaks = transform.column_breaks(i)
        smooth = np.abs(Y[:, i, None] - breaks).min(axis=1) > 2 * step[i]
        expected = change[smooth, i] / 2e-7
        assert_close(
            gradient[smooth, i], expected, DIFFERENCES, scale=1 + abs(expected)
        )


def test_slope_is_continuous_and_constant_outside(transform):
    d = _columns(transform)

    def log_jacobian(y, i):
        return transform.log_abs_det_jacobian(y[:, None] * np.ones(d))[:, i]

    for i in range(_columns(transform)):
        breaks = transform.column_breaks(i)
        gap = 1e-9 * (breaks[-1] - breaks[0])
        left, right = log_jacobian(breaks - gap, i), log_jacobian(breaks + gap, i)
        assert_close(left, right, 1e-5, scale=1.0)
        low, high = breaks[0] - 1.0, breaks[-1] + 1.0
        ends = log_jacobian(np.array([low, breaks[0], breaks[-1], high]), i)
        assert_close(ends[[0, 3]], ends[[1, 2]], scale=1.0)


def test_shapes_are_kept_and_columns_are_on_their_own():
    transform = TRANSFORMS["power per column"]
    Y = np.random.default_rng(0).normal(size=(4, 3, 2))
    for method in ("forward", "inverse", "log_abs_det_jacobian", "slope_gradient"):
        values = getattr(transform, method)(Y)
        assert values.shape == Y.shape
        for i in range(2):
            alone = YeoJohnson(transform.lam[i], transform.low[i], transform.high[i])
            column = getattr(alone, method)(Y[..., i : i + 1])
            np.testing.assert_array_equal(values[..., i : i + 1], column)


@pytest.mark.parametrize("lam", [-0.5, 0.0, 0.5, 1.0, 2.0, 2.7])
def test_yeo_johnson_equals_scipy_between_its_ends(lam):
    y = np.linspace(-3.9, 5.9, 50)
    t = YeoJohnson(lam, -4.0, 6.0)
    assert_close(t.forward(y[:, None])[:, 0], stats.yeojohnson(y, lam), ROUNDING)


def test_power_of_largest_normal_likelihood_is_chosen():
    rng = np.random.default_rng(0)
    z = rng.normal(0.0, 0.6, size=4000)
    lams = (-0.5, 0.0, 0.5, 1.0, 1.5, 2.0)
    for lam in (0.0, 0.5, 1.0, 1.5, 2.0):
        y = YeoJohnson(lam, -30.0, 30.0).inverse(z[:, None])
        fitted = fit_yeo_johnson(y, np.ones(4000), lams)
        assert fitted.lam == (lam,)
        likelihoods = [stats.yeojohnson_llf(k, y[:, 0]) for k in lams]
        assert lams[int(np.argmax(likelihoods))] == lam


def test_weights_count_rows_in_both_fits():
    y = _standardized("skewed")
    weights = np.random.default_rng(1).integers(0, 3, size=len(y)).astype(float)
    repeated = np.repeat(y, weights.astype(int), axis=0)
    kept = weights > 0
    one, other = (
        fit_yeo_johnson(y[kept], weights[kept]),
        fit_yeo_johnson(repeated, np.ones(len(repeated))),
    )
    assert one.lam == other.lam
    points = np.linspace(-2.0, 5.0, 30)[:, None]
    assert_close(
        fit_gaussianize(y[kept], weights[kept]).forward(points),
        fit_gaussianize(repeated, np.ones(len(repeated))).forward(points),
        1e-6,
    )


@pytest.mark.parametrize("name", ["normal", "skewed"])
def test_gaussianized_data_are_nearly_normal(name):
    y = _standardized(name)
    v = fit_gaussianize(y, np.ones(len(y))).forward(y)[:, 0]
    v = (v - v.mean()) / v.std()
    # The kernel estimate smooths, and its wide component thickens the tails a little.
    assert abs(stats.skew(v)) < 0.35
    assert abs(stats.kurtosis(v)) < 0.6
    if name == "skewed":
        assert abs(stats.skew(y[:, 0])) > 2.0


def test_spline_follows_the_kernel_estimate():
    y = _standardized("normal")
    t = fit_gaussianize(y, np.ones(300))
    iqr = np.subtract(*np.sort(y[:, 0])[[224, 74]])
    h = 0.9 * min(iqr / 1.34, 1.0) * 300**-0.2
    grid = np.linspace(-2.0, 2.0, 50)
    kernel = stats.norm.cdf((grid[:, None] - y[:, 0]) / h).mean(axis=1)
    expected = stats.norm.ppf(0.98 * kernel + 0.02 * stats.norm.cdf(grid / 2.0))
    assert_close(t.forward(grid[:, None])[:, 0], expected, 1e-3, scale=1.0)


def test_many_rows_are_condensed_without_a_change():
    rng = np.random.default_rng(2)
    y = rng.gamma(2.0, size=(10_000, 1))
    y = (y - y.mean()) / y.std()
    weights = rng.uniform(size=10_000)
    condensed = fit_gaussianize(y, weights).forward(y)
    all_rows = GaussianizeSpec(points=20_000)
    # Groups of five rows are averaged, which are far nearer than a bandwidth but for
    # the last few rows of a tail.
    away = np.abs(condensed - fit_gaussianize(y, weights, all_rows).forward(y))
    assert 0 < away.max() < 0.02
    assert np.quantile(away, 0.99) < 1e-3


@pytest.mark.parametrize("name", ["ties", "atom", "two_values"])
def test_tied_values_make_no_spikes(name):
    y = _standardized(name)
    t = fit_gaussianize(y, np.ones(len(y)))
    slope = np.exp(t.log_abs_det_jacobian(np.linspace(y.min(), y.max(), 2000)[:, None]))
    rule = 0.9 * len(y) ** -0.2
    # No slope steeper than that of a jump smoothed by the narrowest bandwidth allowed:
    # from -2 to 2 within four bandwidths.
    assert slope.max() < 1.0 / (0.25 * rule)
    if name == "ties":
        assert np.ptp(np.log(slope)) < 2.0


def test_bad_parameters_are_named():
    with pytest.raises(ValueError, match="low must be below high"):
        YeoJohnson(1.0, 2.0, 2.0)
    with pytest.raises(ValueError, match="lam must be a number"):
        YeoJohnson("x", 0.0, 1.0)
    with pytest.raises(ValueError, match="the same columns"):
        Gaussianize(((0.0, 1.0),), ((0.0, 1.0),), ())
    with pytest.raises(ValueError, match="as many values and slopes as knots"):
        Gaussianize(((0.0, 1.0),), ((0.0, 1.0),), ((1.0,),))
    with pytest.raises(ValueError, match="finite and increase"):
        Gaussianize(((0.0, 1.0),), ((0.0, 0.0),), ((1.0, 1.0),))
    for slopes in ((0.0, 1.0), (3.1, 1.0)):
        with pytest.raises(ValueError, match="slopes must be positive and below three"):
            Gaussianize(((0.0, 1.0),), ((0.0, 1.0),), (slopes,))
    with pytest.raises(ValueError, match="scale must be positive"):
        Rescaled(YeoJohnson(), 0.0, -1.0)
    with pytest.raises(ValueError, match="transform must be 'yeo_johnson' or"):
        TransformedBase("log")
    with pytest.raises(TypeError, match="base must be a base density"):
        TransformedBase("yeo_johnson", base="gaussian")


def test_the_steepest_slopes_that_are_allowed_still_increase():
    edge = 3.0 * (1.0 - 2e-9)
    t = Gaussianize(((0.0, 1.0),), ((0.0, 1.0),), ((edge, edge),))
    y = np.linspace(0.0, 1.0, 1001)[:, None]
    assert np.all(np.diff(t.forward(y), axis=0) > 0)
    assert math.isfinite(t.log_abs_det_jacobian(np.array([[0.5]]))[0, 0])


@pytest.mark.parametrize("n", [40, 800, 3000, 20_000])
def test_far_values_leave_a_gaussianizing_transform_sound(n):
    """Between them and the others the distribution function does not rise."""
    y = 1e-3 * np.random.default_rng(0).normal(size=n)
    y[:2] = 1.0, -0.5
    Y = np.sort(y / y.std())[:, None]
    transform = fit_gaussianize(Y, np.ones(n))
    v = transform.forward(Y)
    assert np.isfinite(v).all()
    assert np.diff(v[:, 0]).min() >= 0.0
    np.testing.assert_allclose(transform.inverse(v), Y, rtol=0, atol=1e-12)
    assert np.isfinite(transform.log_abs_det_jacobian(Y)).all()
