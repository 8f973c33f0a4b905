"""Densities of a transformed variable against grids and brute-force integrals in y."""

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import trapezoid

from kexpfam import KCEF, KEF, load
from kexpfam.base_densities import (
    GaussianBase,
    LocationScaleBase,
    StudentBase,
    TransformedBase,
    TruncatedBase,
    UniformBase,
    YeoJohnson,
)
from kexpfam.distributions import MixtureDensity
from kexpfam.errors import CannotSaveError, DegenerateDataError, FileFormatError
from tests.densities import assert_distribution_function, highest_point, untuned
from tests.oracles.integrals import BruteDensity
from tests.tolerances import (
    KS_LEVEL,
    MINIMISER,
    QUADRATURE,
    ROUNDING,
    assert_close,
)

ROWS = range(3)
CONDITIONS = np.array([[-1.0], [0.0], [1.2]])


def _data():
    rng = np.random.default_rng(8)
    x = rng.normal(size=(80, 1))
    y = 2.0 + 3.0 * np.exp(0.4 * x[:, 0] + 0.6 * rng.normal(size=80))
    x.flags.writeable = y.flags.writeable = False
    return x, y


X, Y = _data()

BASES = {
    "power": TransformedBase("yeo_johnson"),
    "power, regression": TransformedBase("yeo_johnson", LocationScaleBase()),
    "power, student": TransformedBase("yeo_johnson", StudentBase(1.5, df=5.0)),
    "power, positive": TransformedBase("yeo_johnson", TruncatedBase(lower=1.5)),
    "power, interval": TransformedBase("yeo_johnson", UniformBase(0.0, 40.0)),
    "spline": TransformedBase("gaussianize"),
    "spline, regression": TransformedBase("gaussianize", LocationScaleBase()),
    "spline, positive": TransformedBase("gaussianize", TruncatedBase(lower=1.5)),
    "given": TransformedBase(YeoJohnson(-0.5, -2.0, 5.0)),
}


@pytest.fixture(params=BASES, scope="module")
def model(request):
    return untuned(BASES[request.param]).fit(X, Y)


@pytest.fixture(scope="module")
def p(model):
    return model.given(CONDITIONS)


@pytest.fixture(scope="module")
def slow(model, p):
    """Brute force in y: fine pieces around the data, doubling ones beyond."""
    low, high = p.support[0]
    fine = np.linspace(-15.0, 60.0, 601)
    far = 60.0 * 2.0 ** np.arange(1, 22)
    breaks = np.concatenate([-far, fine, far, [low, high]])
    breaks = np.append(breaks, model.family_.coordinates.transform.column_breaks(0))
    breaks = np.unique(breaks[(breaks >= low) & (breaks <= high) & np.isfinite(breaks)])
    return [BruteDensity(lambda y, i=i: p[i].logpdf(y), breaks, count=16) for i in ROWS]


def test_density_is_that_of_v_times_the_slope(model, p):
    """The same fit on t(y), done by hand, is a density of v."""
    transform = model.family_.coordinates.transform
    inner = untuned(_in_v(model.base.base, transform))
    inner.fit(X, transform.forward(Y[:, None])[:, 0])
    y = p.ppf([[0.01, 0.3, 0.6, 0.99]])
    v = transform.forward(y[..., None])[..., 0]
    of_v = inner.given(CONDITIONS)
    expected = of_v.logpdf(v) + transform.log_abs_det_jacobian(y[..., None])[..., 0]
    assert_close(p.logpdf(y), expected, 1e-9)
    assert_close(p.cdf(y), of_v.cdf(v), 1e-9)
    assert_close(p.sf(y), of_v.sf(v), 1e-9)


def _in_v(base, transform):
    """A base with its bounds moved into the units of v."""
    if isinstance(base, TruncatedBase | UniformBase):
        ends = np.array([[base.lower], [base.upper]])
        low, high = transform.forward(ends)[:, 0]
        if isinstance(base, UniformBase):
            return UniformBase(low, high)
        return TruncatedBase(base.base, low, high)
    return base


def test_it_integrates_to_one_and_to_its_distribution_function(p, slow):
    for i in ROWS:
        assert_distribution_function(p[i], slow[i], [0.01, 0.5, 0.95])


def test_moments_and_entropy_equal_brute_force(p, slow):
    for i in ROWS:
        assert_close(p.mean()[i], slow[i].mean(), QUADRATURE)
        # Student tails with five degrees of freedom end where 1e-12 of the second
        # moment is thought to be left, within a factor of a few.
        assert_close(p.var()[i], slow[i].var(), 1e-7)
        assert_close(p.entropy()[i], slow[i].entropy(), QUADRATURE, scale=1.0)


def test_quantiles_invert_the_distribution_function(p):
    levels = np.array([1e-9, 0.001, 0.05, 0.3, 0.5, 0.8, 0.999])
    y = p.ppf(levels[None])
    assert np.all(np.diff(y) > 0)
    assert_close(p.cdf(y), np.tile(levels, (3, 1)), 1e-10)
    ends = np.stack([p.ppf(0.0), p.ppf(1.0)], axis=1)
    np.testing.assert_array_equal(ends, p.support)
    assert_close(p.interval(0.8), p.ppf([[0.1, 0.9]]))


def test_gradient_equals_differences_of_the_log_density(p):
    y = p.ppf([[0.02, 0.31, 0.63, 0.97]])
    step = 1e-5
    difference = (p.logpdf(y + step) - p.logpdf(y - step)) / (2 * step)
    # A knot of the spline may lie between: its curvature jumps there.
    assert_close(p.grad_logpdf(y), difference, 1e-6, scale=1.0)


def test_mode_is_that_of_y(p):
    mode = p.mode()
    for i in ROWS:
        low, high = p[i].ppf([0.0005, 0.9995])
        best, height = highest_point(p[i], np.linspace(low, high, 8001))
        assert p[i].logpdf(mode[i]) >= height - 1e-12
        assert_close(mode[i], best, MINIMISER)


def test_highest_density_regions_are_those_of_y(p):
    levels = np.linspace(0.0, 1.0, 1003)[1:-1]
    grids = [(grid := one.ppf(levels), one.pdf(grid)) for one in p]
    for confidence in (0.1, 0.5, 0.9, 0.99):
        for i, region in enumerate(p.hpd(confidence)):
            mass = p[i].cdf(region[:, 1]) - p[i].cdf(region[:, 0])
            assert_close(mass.sum(), confidence, 1e-8)
            grid, density = grids[i]
            inside = np.zeros(len(grid), dtype=bool)
            for a, b in region:
                inside |= (grid > a) & (grid < b)
            assert density[inside].min() >= density[~inside].max() * (1 - 1e-6)
            assert_close(p[i].hpd(confidence), region)


def test_draws_follow_the_distribution_function(model, p):
    draws = p.rvs(1000, random_state=1)
    for i in ROWS:
        assert stats.kstest(draws[i], lambda y, i=i: p[i].cdf(y)).pvalue > KS_LEVEL
    np.testing.assert_array_equal(draws, model.sample(CONDITIONS, 1000, random_state=1))


def test_far_away_and_outside(p):
    low, high = p.support[0]
    assert_close(p.cdf([-np.inf, np.inf, np.inf]), [0.0, 1.0, 1.0])
    np.testing.assert_array_equal(p.logpdf([np.inf, -np.inf, np.inf]), -np.inf)
    if np.isfinite(low):
        assert np.all(p.logpdf(low - 1e-6) == -np.inf)
        assert np.all(np.isfinite(p.logpdf(low)))
    if np.isfinite(high):
        assert np.all(p.pdf(high + 1e-6) == 0.0)


def test_single_densities_and_selections(p):
    for method in ("mean", "median", "mode", "var", "std", "entropy"):
        values = getattr(p, method)()
        assert values.shape == (3,)
        assert_close(getattr(p[[2, 0]], method)(), values[[2, 0]], 1e-9)
        for i, one in enumerate(p):
            assert np.shape(getattr(one, method)()) == ()
            assert_close(getattr(one, method)(), values[i], 1e-9)
        assert getattr(p[3:], method)().shape == (0,)
    for method in ("logpdf", "grad_logpdf", "cdf"):
        assert getattr(p, method)(np.full((1, 4), 5.0)).shape == (3, 4)
        assert np.shape(getattr(p[0], method)(5.0)) == ()
    assert p[0].rvs(4).shape == (4,)


def test_mixtures_of_transformed_and_plain_densities(p):
    plain = KCEF(select=None, base=GaussianBase(2.0)).fit(X, Y).given(CONDITIONS)
    mixture = MixtureDensity([p, plain], [0.7, 0.3])
    far = 60.0 * 2.0 ** np.arange(1, 22)
    ends = p.support[0][np.isfinite(p.support[0])]
    breaks = np.concatenate([-far, np.linspace(-15.0, 60.0, 601), far, ends])
    transform = p._coordinates.transform
    breaks = np.unique(np.append(breaks, transform.column_breaks(0)))
    for i in ROWS:
        slow = BruteDensity(lambda y, i=i: mixture[i].logpdf(y), breaks, count=16)
        assert_close(slow.total, 1.0, QUADRATURE)
        assert_close(mixture.mean()[i], slow.mean(), QUADRATURE)
        assert_close(mixture.entropy()[i], slow.entropy(), QUADRATURE, scale=1.0)
        grid = np.linspace(2.0, 15.0, 13_001)
        best = grid[mixture[i].logpdf(grid).argmax()]
        assert abs(mixture.mode()[i] - best) < 1e-3
    assert_close(mixture.cdf(mixture.ppf(0.3)), np.full(3, 0.3), 1e-10)


@pytest.mark.parametrize(
    "base", [GaussianBase(1.5), TruncatedBase(lower=1.5)], ids=repr
)
def test_the_identity_changes_nothing(base):
    identity = TransformedBase(YeoJohnson(1.0, -2.0, 3.0), base)
    one = KCEF(select=None, base=identity).fit(X, Y).given(CONDITIONS)
    other = KCEF(select=None, base=base).fit(X, Y).given(CONDITIONS)
    y = other.ppf([[0.01, 0.3, 0.7, 0.99]])
    # The standardisation happens twice, and λ is sensitive to neither.
    assert_close(one.logpdf(y), other.logpdf(y), 1e-9)
    assert_close(one.cdf(y), other.cdf(y), 1e-9)
    for method in ("mean", "std", "entropy"):
        assert_close(getattr(one, method)(), getattr(other, method)(), 1e-8)
    assert_close(one.mode(), other.mode(), MINIMISER)
    for a, b in zip(one.hpd(0.8), other.hpd(0.8), strict=True):
        assert_close(a, b, 1e-6)


@pytest.mark.parametrize("transform", ["yeo_johnson", "gaussianize"])
def test_rescaling_the_data_rescales_the_density(transform):
    base = TransformedBase(transform)
    one = KCEF(select=None, base=base).fit(X, Y).given(CONDITIONS)
    other = KCEF(select=None, base=base).fit(X, 1e3 * Y - 7.0).given(CONDITIONS)
    y = one.ppf([[0.1, 0.5, 0.9]])
    expected = one.logpdf(y) - np.log(1e3)
    assert_close(other.logpdf(1e3 * y - 7.0), expected, 1e-8)
    assert_close(other.mean(), 1e3 * one.mean() - 7.0, 1e-8)
    huge = KCEF(select=None, base=base).fit(X, 1e160 * Y).given(CONDITIONS)
    assert_close(huge.std(), 1e160 * one.std(), 1e-8)
    assert_close(huge.mean(), 1e160 * one.mean(), 1e-8)


@pytest.mark.parametrize("transform", ["yeo_johnson", "gaussianize"])
def test_unconditional_families_take_transforms(transform):
    model = KEF(base=TransformedBase(transform)).fit(Y[:, None])
    p = model.distribution()
    grid = np.linspace(-10.0, 100.0, 400_001)
    pdf = p.pdf(grid)
    assert_close(trapezoid(pdf, grid), p.cdf(100.0) - p.cdf(-10.0), 1e-6)
    assert_close(model.score_samples(Y[:3, None]), p.logpdf(Y[:3]), ROUNDING)
    with pytest.raises(TypeError, match="unconditional base density"):
        KEF(base=TransformedBase(transform, LocationScaleBase())).fit(Y[:, None])


def test_without_standardisation_the_transform_sees_y_itself():
    base = TransformedBase(YeoJohnson(0.0, 0.0, 50.0), GaussianBase(3.0))
    model = KCEF(select=None, base=base, standardize=False).fit(X, Y)
    assert_close(
        model.family_.coordinates.transform.forward(Y[:, None])[:, 0], np.log1p(Y)
    )
    np.testing.assert_array_equal(model.family_.coordinates.y_scale, [1.0])


def test_a_row_on_the_edge_of_the_support_is_allowed_and_one_beyond_is_named():
    for transform in ("yeo_johnson", "gaussianize"):
        for lower in (float(Y.min()), 1.0):
            edge = TransformedBase(transform, TruncatedBase(lower=lower))
            p = KCEF(select=None, base=edge).fit(X, Y).given(CONDITIONS)
            assert np.all(p.support[:, 0] == lower)
        beyond = TransformedBase(transform, TruncatedBase(lower=4.0))
        row = int(np.flatnonzero(Y < 4.0)[0])
        with pytest.raises(DegenerateDataError, match=f"row {row} is {Y[row]:g}"):
            KCEF(select=None, base=beyond).fit(X, Y)


def test_several_columns_are_refused():
    with pytest.raises(
        ValueError, match="TransformedBase is for one column of y, got 2"
    ):
        KCEF(select=None, base=TransformedBase()).fit(X, np.stack([Y, Y**2], axis=1))


def test_saved_models_keep_their_transform(model, p, tmp_path):
    path = tmp_path / "model.kexpfam"
    if isinstance(model.base.base, LocationScaleBase):
        with pytest.raises(CannotSaveError, match="cannot be saved"):
            model.save(path)
        return
    model.save(path)
    again = load(path)
    assert again.family_.coordinates.transform == model.family_.coordinates.transform
    assert again.base == model.base
    y = p.ppf([[0.01, 0.5, 0.99]])
    np.testing.assert_array_equal(again.given(CONDITIONS).logpdf(y), p.logpdf(y))
    np.testing.assert_array_equal(again.given(CONDITIONS).mean(), p.mean())


def test_files_with_a_foreign_transform_are_refused(tmp_path):
    path = tmp_path / "model.kexpfam"
    KCEF(select=None, base=TransformedBase()).fit(X, Y).save(path)
    content = path.read_bytes()
    for old, new in (
        (
            b'\\"class\\": \\"YeoJohnson\\", \\"lam\\"',
            b'\\"class\\": \\"StudentBad\\", \\"lam\\"',
        ),
        (
            b'\\"class\\": \\"Rescaled\\", \\"inner\\"',
            b'\\"class\\": \\"Gaussian\\", \\"inner\\"',
        ),
    ):
        assert old in content
        damaged = tmp_path / "damaged.kexpfam"
        damaged.write_bytes(content.replace(old, new.ljust(len(old))))
        with pytest.raises(FileFormatError):
            load(damaged)
