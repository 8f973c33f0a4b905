"""What every fit must be, whatever the data: a density, or an error that says why not.

Data sets are small and nasty: ties, copies, outliers, integers, and units from 1e-100
to 1e100. Integrals are checked by an adaptive rule that shares nothing with the
library's quadrature.
"""

import warnings
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import currently_in_test_context, given, note
from hypothesis import strategies as st

from kexpfam import KCEF, KEF
from kexpfam.base_densities import (
    GaussianBase,
    GeneralizedGaussianBase,
    LocationScaleBase,
    MarginalBase,
    StudentBase,
    TruncatedBase,
    UniformBase,
)
from kexpfam.errors import (
    BlindnessWarning,
    ConditioningWarning,
    KexpfamError,
    NormalizationWarning,
)
from kexpfam.kernels import (
    Constant,
    Gaussian,
    InverseMultiquadric,
    Matern,
    RationalQuadratic,
)
from tests.properties import UNSHRUNK, searched

SETTINGS, FEWER = searched(30, **UNSHRUNK), searched(20, **UNSHRUNK)

LEVELS = np.array([1e-6, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 1 - 1e-6])


class DataSet(NamedTuple):
    """Rows, and the unit of y they were made in."""

    X: np.ndarray
    y: np.ndarray
    unit: float


def _column(rng, n, kind):
    if kind == "integers":
        return rng.integers(-3, 4, n).astype(float)
    if kind == "copies":
        return rng.choice(rng.normal(size=max(2, n // 3)), n)
    if kind == "outlier":
        values = rng.normal(size=n)
        values[rng.integers(n)] *= 1e4
        return values
    if kind == "two components":
        return rng.normal(size=n) * 0.05 + 3.0 * rng.integers(0, 2, n)
    if kind == "heavy":
        return rng.standard_t(1.5, n)
    return rng.normal(size=n)


KINDS = ["plain", "integers", "copies", "outlier", "two components", "heavy"]


@st.composite
def data_sets(draw, columns=1, plain_units=False):
    n = draw(st.integers(2, 30))
    p = draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    X = np.stack([_column(rng, n, draw(st.sampled_from(KINDS))) for _ in range(p)], 1)
    Y = np.stack(
        [_column(rng, n, draw(st.sampled_from(KINDS))) for _ in range(columns)], 1
    )
    if draw(st.booleans()):
        Y[:, 0] += X[:, 0]
    if draw(st.integers(0, 4)) == 0:  # rows repeated as a whole
        chosen = rng.integers(0, max(2, n // 2), n)
        X, Y = X[chosen], Y[chosen]
    exponents = (
        st.integers(-3, 3) if plain_units else st.sampled_from([0, -100, -9, 100])
    )
    unit = 10.0 ** draw(exponents)
    X = X * 10.0 ** draw(exponents)
    Y = (Y + draw(st.sampled_from([0.0, 0.0, 1e3]))) * unit
    return DataSet(X, Y[:, 0] if columns == 1 else Y, unit)


LENGTHS = st.one_of(st.just("median"), st.floats(0.3, 4.0))


@st.composite
def kernels(draw, smooth=True):
    ell = draw(LENGTHS)
    simple = [
        Gaussian(ell),
        RationalQuadratic(ell, alpha=draw(st.floats(0.3, 5.0))),
        InverseMultiquadric(ell, power=draw(st.floats(0.3, 2.0))),
        Matern(
            ell, nu=draw(st.sampled_from([2.5, 3.5] if smooth else [0.5, 1.5, 4.5]))
        ),
    ]
    kernel = draw(st.sampled_from(simple))
    other = Gaussian(draw(LENGTHS))
    return draw(st.sampled_from([kernel, kernel, kernel + 0.5 * other, kernel * other]))


@st.composite
def bases(draw, y, conditional=True):
    """A base density whose support holds the responses."""
    scale = draw(st.floats(0.7, 4.0))
    low, high = float(np.min(y)), float(np.max(y))
    if low == high:
        high = low + max(1.0, abs(low))
    room = draw(st.sampled_from([0.0, 0.1, 2.0])) * (high - low)
    choices = [
        None,
        GaussianBase(scale),
        StudentBase(scale, df=draw(st.floats(2.5, 8.0))),
        GeneralizedGaussianBase(scale, power=draw(st.sampled_from([1.0, 1.5, 4.0]))),
        MarginalBase(),
        UniformBase(low - room, high + room),
        TruncatedBase(StudentBase(scale), lower=low - room),
        TruncatedBase(GaussianBase(scale), upper=high + room),
    ]
    if conditional:
        choices.append(LocationScaleBase(cv=2))
    return draw(st.sampled_from(choices))


REGULARIZATIONS = st.one_of(st.none(), st.floats(-4, 2).map(lambda e: 10.0**e))


def fit_or_explain(fit):
    """The fitted model, or None where it was refused in words.

    Warnings of the library are allowed; any other one fails the test.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BlindnessWarning)
        warnings.simplefilter("ignore", ConditioningWarning)
        warnings.simplefilter("ignore", NormalizationWarning)
        try:
            return fit()
        except (KexpfamError, ValueError) as error:
            if currently_in_test_context():
                note(f"refused: {error}")
            if not (len(str(error)) > 20 and str(error).endswith(".")):
                raise
            return None


def quietly(ask):
    """The answer, with the library's own warnings allowed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BlindnessWarning)
        warnings.simplefilter("ignore", NormalizationWarning)
        return ask()


def total_mass(density, center, unit, y):
    """∫ p(y) dy by adaptive Simpson in t, where y = center + unit · sinh t.

    The substitution reaches 1e17 units, past tails behind an arcsinh. The first
    cells are as narrow as 1e-8 units around every training response.
    """
    low, high = density.support

    def integrand(t):
        point = center + unit * np.sinh(t)
        inside = (point >= low) & (point <= high)
        p = density.pdf(np.clip(point, low, high))
        return np.where(inside, p, 0.0) * (unit * np.cosh(t))

    steps = np.concatenate(
        [-(10.0 ** np.arange(-8, 1, 0.5)), 10.0 ** np.arange(-8, 1, 0.5)]
    )
    around = (((np.unique(y) - center) / unit)[:, None] + steps).ravel()
    edges = np.concatenate([np.linspace(-40.0, 40.0, 801), np.arcsinh(around)])
    # The outermost cells end at the edge of the support: no cell has a jump inside.
    first, last = np.clip(np.arcsinh((np.array([low, high]) - center) / unit), -40, 40)
    edges = np.unique(np.clip(edges, first, last))
    a, b = edges[:-1], edges[1:]
    fa, fb = integrand(a), integrand(b)
    done = 0.0
    for _ in range(40):
        m = 0.5 * (a + b)
        fm, fl, fr = (integrand(t) for t in (m, 0.5 * (a + m), 0.5 * (m + b)))
        coarse = (b - a) / 6 * (fa + 4 * fm + fb)
        fine = (b - a) / 12 * (fa + 4 * fl + 2 * fm + 4 * fr + fb)
        rough = np.abs(fine - coarse) > 1e-9
        done += float(np.sum(fine[~rough]))
        if not rough.any():
            break
        a, m, b, fa, fm, fb = (v[rough] for v in (a, m, b, fa, fm, fb))
        a, b = np.concatenate([a, m]), np.concatenate([m, b])
        fa, fb = np.concatenate([fa, fm]), np.concatenate([fm, fb])
    return done


def check_density(density, y, unit):
    """Everything that must hold for one density of one variable."""
    error = float(density.log_partition_error)
    assert np.isfinite(density.log_partition)
    # An estimate of log Z that was declared poor has nothing to be checked.
    slack = 1e-7 + 10 * error
    if slack > 0.01:
        return
    low, high = density.support
    assert low < high
    # The edge of the support comes from a sum, so points on it are within rounding.
    ends = [value for value in (low, high) if np.isfinite(value)]
    edge = 4e-16 * (np.abs([*ends, *y]).max() + unit)

    log_p = density.logpdf(y)
    assert not np.any(np.isnan(log_p))
    assert np.all(np.isfinite(log_p[(y > low + edge) & (y < high - edge)]))
    assert np.all(log_p[(y < low - edge) | (y > high + edge)] == -np.inf)

    levels = np.concatenate([[0.0], LEVELS, [1.0]])
    quantiles = density.ppf(levels)
    assert quantiles[0] == low
    assert quantiles[-1] == high
    middle = quantiles[1:-1]
    assert np.all(np.isfinite(middle))
    assert np.all(np.diff(middle) > 0)
    assert np.all((middle >= low) & (middle <= high))
    # Units of 1e±100 and an offset of 1e3 units cost digits of y itself.
    p_there = density.pdf(middle)
    rounding = 1e-15 * np.max(np.abs(middle)) * p_there
    np.testing.assert_array_less(
        np.abs(density.cdf(middle) - LEVELS), slack + 100 * rounding
    )

    grid = np.sort(np.concatenate([middle, y, np.linspace(middle[0], middle[-1], 200)]))
    below, above = density.cdf(grid), density.sf(grid)
    assert np.all((below >= 0) & (below <= 1))
    assert np.all((above >= 0) & (above <= 1))
    assert np.all(np.diff(below) >= -1e-12)
    np.testing.assert_allclose(below + above, 1.0, atol=slack)
    assert np.all(density.pdf(grid) >= 0)

    center = float(quantiles[5])
    assert abs(total_mass(density, center, unit, y) - 1.0) < 1e-5 + slack

    mean, std = density.mean(), density.std()
    # Where most of a moment would be from outermost tails there is none.
    assert std > 0
    assert np.isfinite(mean) or (np.isnan(mean) and std == np.inf)
    for value in (density.median(), density.mode(), *[mean] * bool(np.isfinite(mean))):
        assert np.isfinite(value)
        assert low - edge <= value <= high + edge
    assert np.isfinite(density.entropy())
    draws = density.rvs(50, 0)
    assert np.all((draws >= low) & (draws <= high))
    if np.ptp(log_p) > 1e-6:  # where the density is flat any region is the smallest
        region = density.hpd(0.8)
        assert np.all(np.diff(region.ravel()) > 0)
        held = np.sum(density.cdf(region[:, 1]) - density.cdf(region[:, 0]))
        assert abs(held - 0.8) < 5e-3 + slack
        length = np.sum(region[:, 1] - region[:, 0])
        assert length <= np.diff(density.interval(0.8))[0] * 1.01


@SETTINGS
@given(st.data())
@pytest.mark.slow
def test_kcef_fits_a_normalised_density_or_says_why_not(data):
    rows = data.draw(data_sets())
    model = KCEF(
        select=None,
        kernel_y=data.draw(st.one_of(st.none(), kernels())),
        kernel_x=data.draw(st.one_of(st.none(), kernels(smooth=False))),
        base=data.draw(bases(rows.y)),
        regularization=data.draw(REGULARIZATIONS),
        random_state=0,
    )
    note(f"{model}\nX = {rows.X!r}\ny = {rows.y!r}")
    if fit_or_explain(lambda: model.fit(rows.X, rows.y)) is None:
        return
    spread = float(np.std(rows.y / rows.unit)) * rows.unit
    far = rows.X.mean(axis=0) + 30 * rows.X.std(axis=0)
    densities = quietly(lambda: model.given(np.vstack([rows.X[:2], far])))
    for density in densities:
        check_density(density, rows.y, spread)
    log_p = quietly(lambda: model.score_samples(rows.X, rows.y))
    assert np.all(np.isfinite(log_p))
    assert np.isfinite(quietly(lambda: model.score(rows.X, rows.y)))


@pytest.mark.filterwarnings("ignore::kexpfam.errors.WeightWarning")
@SETTINGS
@given(st.data())
def test_kef_fits_a_normalised_density_or_says_why_not(data):
    rows = data.draw(data_sets())
    weights = data.draw(
        st.one_of(
            st.none(),
            st.lists(
                st.sampled_from([0.0, 0.5, 1.0, 10.0]),
                min_size=len(rows.y),
                max_size=len(rows.y),
            ),
        )
    )
    model = KEF(
        select=data.draw(st.sampled_from([None, "likelihood"])),
        kernel=data.draw(st.one_of(st.none(), kernels())),
        base=data.draw(bases(rows.y, conditional=False)),
        regularization=data.draw(REGULARIZATIONS),
    )
    note(f"{model}\ny = {rows.y!r}\nweights = {weights}")
    y = rows.y[:, None]
    if fit_or_explain(lambda: model.fit(y, sample_weight=weights)) is None:
        return
    spread = float(np.std(rows.y / rows.unit)) * rows.unit
    check_density(model.distribution(), rows.y, spread)
    assert np.all(np.isfinite(model.score_samples(y)))


@searched(12, **UNSHRUNK)
@given(st.data())
def test_two_columns_give_a_normalised_density_or_say_why_not(data):
    rows = data.draw(data_sets(columns=2))
    kernel = Gaussian(data.draw(st.one_of(st.just("median"), st.floats(0.8, 3.0))))
    model = KCEF(
        select=None,
        kernel_y=data.draw(
            st.sampled_from([None, kernel, kernel + 0.3 * Gaussian(2.0)])
        ),
        base=data.draw(st.sampled_from([None, GaussianBase(1.5), MarginalBase()])),
        regularization=data.draw(
            st.one_of(st.none(), st.floats(-2, 2).map(lambda e: 10.0**e))
        ),
    )
    note(f"{model}\nX = {rows.X!r}\ny = {rows.y!r}")
    if fit_or_explain(lambda: model.fit(rows.X, rows.y)) is None:
        return
    density = quietly(lambda: model.given(rows.X[:1]))[0]
    slack = 1e-7 + 10 * float(density.log_partition_error)
    assert np.isfinite(density.log_partition)
    assert np.all(np.isfinite(density.logpdf(rows.y)))
    if slack > 0.01:
        return
    mean, std = density.mean(), density.std()
    assert np.all(np.isfinite(mean))
    assert np.all((std > 0) & np.isfinite(std))
    # A trapezoidal rule on a fine grid is exact to many digits for smooth densities
    # that vanish at its ends; peaks narrower than the grid are left out.
    y_sd = (rows.y / rows.unit).std(axis=0) * rows.unit
    if np.any(std < 0.15 * y_sd):
        return
    axes = [
        np.linspace(c - 12 * s, c + 12 * s, 401)
        for c, s in zip(
            (rows.y / rows.unit).mean(axis=0) * rows.unit, y_sd, strict=True
        )
    ]
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)
    p = density.pdf(points.reshape(-1, 2)).reshape(401, 401)
    mass = np.sum(p * y_sd[0] * y_sd[1]) * (24 / 400) ** 2
    assert abs(mass - 1.0) < 1e-4 + slack
    draws = density.rvs(20, 0)
    assert draws.shape == (20, 2)
    assert np.all(np.isfinite(draws))
    assert np.all(density.logpdf(density.mode()) >= density.logpdf(draws) - 1e-6)


@FEWER
@given(st.data())
def test_the_order_of_rows_does_not_matter(data):
    rows = data.draw(data_sets(plain_units=True))
    regularization = data.draw(st.sampled_from([None, 0.1]))
    order = np.random.default_rng(0).permutation(len(rows.y))
    fits = [
        fit_or_explain(
            lambda chosen=chosen: KCEF(select=None, regularization=regularization).fit(
                rows.X[chosen], rows.y[chosen]
            )
        )
        for chosen in (slice(None), order)
    ]
    assert (fits[0] is None) == (fits[1] is None)
    if fits[0] is not None:
        first, second = (
            quietly(lambda m=m: m.score_samples(rows.X, rows.y)) for m in fits
        )
        np.testing.assert_allclose(first, second, rtol=1e-5, atol=1e-5)


@FEWER
@given(st.data())
def test_an_affine_map_of_the_data_shifts_the_log_density_and_nothing_else(data):
    rows = data.draw(data_sets(plain_units=True))
    a = data.draw(st.sampled_from([-2.5, 1e-3, 40.0, -1e6]))
    x_factors = np.array([3.0, -0.2, 1e5])[: rows.X.shape[1]]
    b = 7.0 * abs(a) * float(np.std(rows.y))
    model = fit_or_explain(
        lambda: KCEF(select=None, regularization=0.1).fit(rows.X, rows.y)
    )
    X, y = rows.X * x_factors + 2.0 * x_factors, a * rows.y + b
    moved = fit_or_explain(lambda: KCEF(select=None, regularization=0.1).fit(X, y))
    assert (model is None) == (moved is None)
    if model is None:
        return
    before = quietly(lambda: model.score_samples(rows.X, rows.y))
    after = quietly(lambda: moved.score_samples(X, y)) + np.log(abs(a))
    np.testing.assert_allclose(after, before, rtol=1e-4, atol=1e-4)


@FEWER
@given(st.data())
def test_integer_weights_equal_repeated_rows(data):
    rows = data.draw(data_sets(plain_units=True))
    n = len(rows.y)
    counts = np.array(
        data.draw(st.lists(st.integers(0, 3), min_size=n, max_size=n)), dtype=int
    )
    kernel_y = data.draw(st.sampled_from([None, Gaussian(1.0)]))
    base = data.draw(st.sampled_from([None, MarginalBase()]))
    options = {"kernel_y": kernel_y, "base": base}
    if counts.sum() == 0:
        return
    weighted = fit_or_explain(
        lambda: KCEF(select=None, **options).fit(rows.X, rows.y, sample_weight=counts)
    )
    X, y = np.repeat(rows.X, counts, axis=0), np.repeat(rows.y, counts)
    repeated = fit_or_explain(lambda: KCEF(select=None, **options).fit(X, y))
    if weighted is None or repeated is None:
        # One row of weight two is one row, and two equal rows are constant.
        assert weighted is None
        assert repeated is None
        return
    np.testing.assert_allclose(
        quietly(lambda: weighted.score_samples(rows.X, rows.y)),
        quietly(lambda: repeated.score_samples(rows.X, rows.y)),
        rtol=1e-5,
        atol=1e-5,
    )


@FEWER
@given(st.data())
def test_a_constant_kernel_of_x_equals_the_unconditional_model(data):
    rows = data.draw(data_sets(plain_units=True))
    kernel = data.draw(st.one_of(st.none(), kernels()))
    regularization = data.draw(REGULARIZATIONS)
    y = rows.y[:, None]
    conditional = fit_or_explain(
        lambda: KCEF(
            select=None,
            kernel_x=Constant(),
            kernel_y=kernel,
            regularization=regularization,
        ).fit(rows.X, rows.y)
    )
    flat = fit_or_explain(
        lambda: KEF(select=None, kernel=kernel, regularization=regularization).fit(y)
    )
    assert (conditional is None) == (flat is None)
    if flat is not None:
        np.testing.assert_allclose(
            quietly(lambda: conditional.score_samples(rows.X, rows.y)),
            flat.score_samples(y),
            rtol=1e-6,
            atol=1e-6,
        )


# --- what the searches above found ---------------------------------------------------


@pytest.mark.parametrize(
    ("n", "kernel", "regularization"),
    [
        (3, Gaussian(0.03), 0.1),
        (3, Matern(0.1), 0.01),
        (10, Gaussian(0.1), 1e-3),
        (30, RationalQuadratic(0.1), 1e-6),
        (30, Gaussian(0.3), 1e-6),
    ],
)
def test_a_peak_narrower_than_the_cells_is_found_or_its_loss_is_admitted(
    n, kernel, regularization
):
    y = np.random.default_rng(2).normal(size=n)
    model = KEF(kernel=kernel, regularization=regularization)
    density = quietly(lambda: model.fit(y[:, None])).distribution()
    assert np.isfinite(density.log_partition)
    mass = total_mass(density, float(np.median(y)), float(y.std()), y)
    assert abs(np.log(mass)) < 1e-6 + 10 * density.log_partition_error


def test_one_outlier_and_a_fixed_regularization_give_a_normalised_density():
    # The median distance is tiny in units of the standard deviation, so λ = 0.1 is too.
    y = np.array([0.36, 13040.0, 0.947, -0.70, -1.265])
    x = np.array([[0.126], [-0.132], [0.640], [0.105], [-0.536]])
    model = KCEF(select=None, regularization=0.1).fit(x, y)
    densities = quietly(lambda: model.given(x))
    assert np.all(np.isfinite(densities.log_partition))
    for density in densities:
        mass = total_mass(density, float(density.median()), float(y.std()), y)
        assert abs(np.log(mass)) < 1e-6 + 10 * density.log_partition_error


def test_responses_that_all_lie_on_the_bounds_give_a_density_or_a_clear_error():
    # Weighted score matching has no information there: every weight is zero.
    x = np.random.default_rng(0).normal(size=(20, 1))
    y = (x[:, 0] > 0).astype(float)
    model = KCEF(select=None, base=UniformBase(0.0, 1.0))
    if fit_or_explain(lambda: model.fit(x, y)) is not None:
        assert np.all(np.isfinite(model.score_samples(x, y)))


def test_the_support_is_what_was_given_and_holds_the_mode():
    low, high = -2.119882659236727, 0.8659535306238026
    y = np.array([low, high, 0.1, 0.2, low, low])
    for bounds in ((low, high), (low - 0.1, high + 0.1)):
        density = KEF(base=UniformBase(*bounds)).fit(y[:, None]).distribution()
        assert density.support.tolist() == list(bounds)
        assert density.ppf([0.0, 1.0]).tolist() == list(bounds)
        assert density.pdf(density.mode()) > 0
        assert np.all(np.isfinite(density.logpdf(y)))


@pytest.mark.parametrize("confidence", [0.3, 0.8])
def test_a_highest_density_region_of_a_flat_density_has_its_probability(confidence):
    y = np.random.default_rng(0).uniform(size=(20, 1))
    model = KEF(base=UniformBase(0.0, 1.0), regularization=1e300).fit(y)
    region = model.distribution().hpd(confidence)
    assert np.sum(region[:, 1] - region[:, 0]) == pytest.approx(confidence, abs=1e-6)


# Their masses are wrong, as the warning says; the region is that of the fit.
@pytest.mark.filterwarnings("ignore::kexpfam.errors.BlindnessWarning")
def test_a_highest_density_region_about_to_split_has_its_probability():
    rng = np.random.default_rng(3)
    y = np.append(rng.normal(-2, 0.5, 60), rng.normal(2, 0.7, 90))
    density = KEF(select=None).fit(y[:, None]).distribution()
    valley = np.linspace(-1.5, 1.5, 20001)
    bottom = valley[density.logpdf(valley).argmin()]
    # The region whose level is that of the valley's bottom, as one interval.
    outer = np.linspace(-6, 6, 200_001)
    above = outer[density.logpdf(outer) > density.logpdf(bottom)]
    whole = density.cdf(above[-1]) - density.cdf(above[0])
    for confidence in whole - np.array([1e-3, 1e-4, 1e-5]):
        region = density.hpd(confidence)
        held = np.sum(density.cdf(region[:, 1]) - density.cdf(region[:, 0]))
        assert held == pytest.approx(confidence, abs=1e-6)


@pytest.mark.parametrize(
    "base",
    [
        TruncatedBase(StudentBase(0.7, df=3.0), lower=-100.0),
        TruncatedBase(StudentBase(0.7, df=3.0), upper=100.0),
        TruncatedBase(GaussianBase(0.3, location=-6.0), lower=-100.0, upper=100.0),
    ],
    ids=repr,
)
def test_mass_between_the_data_and_a_far_bound_is_counted(base):
    y = np.random.default_rng(1).normal(size=20)
    density = KEF(base=base, random_state=0).fit(y[:, None]).distribution()
    mass = total_mass(density, float(np.median(y)), float(y.std()), y)
    assert abs(np.log(mass)) < 1e-7 + 10 * density.log_partition_error
    if isinstance(base.base, StudentBase):  # its tails are thin there, but not empty
        assert density.cdf(-20.0) > 0
        assert density.sf(20.0) > 0


def test_a_highest_density_region_on_a_plateau_is_a_few_intervals():
    # Far from the clump the density is flat but for rounding.
    y = np.append(np.random.default_rng(0).normal(size=20), -600.0)
    model = KEF(select=None, base=UniformBase(-600.0, float(y.max())))
    density = quietly(lambda: model.fit(y[:, None]))
    region = density.distribution().hpd(0.8)
    assert len(region) < 10
    assert np.all(np.diff(region.ravel()) > 0)


@pytest.mark.parametrize("n", [2, 3])
def test_a_regression_on_folds_of_one_row_works_or_is_refused(n):
    rng = np.random.default_rng(n)
    x, y = rng.normal(size=(n, 1)), rng.normal(size=n)
    model = KCEF(select=None, base=LocationScaleBase(cv=2), random_state=0)
    if fit_or_explain(lambda: model.fit(x, y)) is not None:
        assert np.all(np.isfinite(model.score_samples(x, y)))
