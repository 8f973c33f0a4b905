"""Special cases must agree: the same model reached in two ways."""

import numpy as np
import pytest
from scipy import stats

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
from kexpfam.kernels import (
    Constant,
    Gaussian,
    Matern,
    RationalQuadratic,
    separable,
)
from tests.kernels.cases import ARD_CASES, PLAIN_CASES, case_id
from tests.tolerances import ROUNDING, STANDARD_ERRORS, assert_close

# Two paths to one model differ by rounding, but through a solve and an exponential.
SAME = 1e-8

every_dimension = pytest.mark.parametrize("d", [1, 2, 3])


def rows(d, n=25, seed=6):
    """x (n, 2) and y (n,) or (n, d)."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2))
    y = 0.6 * x[:, :1] + rng.normal(size=(n, d)) * (1.0, 0.5, 2.0)[:d]
    return x, y[:, 0] if d == 1 else y


def as_columns(y):
    return y[:, None] if y.ndim == 1 else y


@every_dimension
@pytest.mark.parametrize("kernel", [Gaussian(0.9), RationalQuadratic(1.2)], ids=repr)
def test_a_constant_kernel_of_x_equals_the_unconditional_family(d, kernel):
    x, y = rows(d)
    common = {
        "base": GaussianBase(1.5),
        "regularization": 0.05,
        "random_state": 3,
    }
    conditional = KCEF(select=None, kernel_x=Constant(), kernel_y=kernel, **common).fit(
        x, y
    )
    unconditional = KEF(kernel=kernel, **common).fit(as_columns(y))
    p, q = conditional.given(x[:1])[0], unconditional.distribution()
    assert_close(p.log_partition, q.log_partition, SAME, scale=1.0)
    assert_close(
        conditional.score_samples(x, y),
        unconditional.score_samples(as_columns(y)),
        SAME,
    )
    assert_close(p.mean(), q.mean(), SAME, scale=1.0)
    assert_close(p.entropy(), q.entropy(), SAME, scale=1.0)


BASES_IN_TWO_UNITS = {
    "gaussian": lambda c: GaussianBase(1.5 * c, location=0.2 * c),
    "student": lambda c: StudentBase(1.5 * c, df=4.0),
    "generalized": lambda c: GeneralizedGaussianBase(3.0 * c, power=4.0),
    "truncated": lambda c: TruncatedBase(GaussianBase(2.0 * c), lower=-8.0 * c),
    "uniform": lambda c: UniformBase(-8.0 * c, 9.0 * c),
    "marginal": lambda c: MarginalBase(),
}


@pytest.mark.parametrize("c", [0.01, 7.0])
@pytest.mark.parametrize(
    ("d", "base"),
    [(1, base) for base in BASES_IN_TWO_UNITS] + [(2, "gaussian"), (3, "gaussian")],
)
def test_rescaling_everything_shifts_the_log_density_and_nothing_else(d, base, c):
    x, y = rows(d)

    def fit(c):
        return KCEF(
            select=None,
            kernel_x=Gaussian(1.0),
            kernel_y=Matern(1.4 * c, nu=2.5) if d == 1 else Gaussian(1.4 * c),
            base=BASES_IN_TWO_UNITS[base](c),
            regularization=0.05 / c**2,
            standardize=False,
            random_state=0,
        ).fit(x, c * y)

    one, other = fit(1.0), fit(c)
    log_p = one.score_samples(x, y)
    assert_close(other.score_samples(x, c * y), log_p - d * np.log(c), SAME)
    assert_close(other.predict(x), c * one.predict(x), SAME)


@every_dimension
@pytest.mark.parametrize("default", [True, False], ids=["default", "given"])
def test_standardising_makes_shifts_and_units_irrelevant(d, default):
    x, y = rows(d)
    options = (
        {}
        if default
        else {
            "kernel_x": Gaussian((0.8, 1.5)),
            "kernel_y": RationalQuadratic(1.1, alpha=2.0),
            "base": StudentBase(1.5, df=4.0) if d == 1 else GaussianBase(1.5),
            "regularization": 0.03 if d < 3 else 0.3,
        }
    )
    x_scale, x_shift = np.array([100.0, 1e-3]), np.array([-5.0, 40.0])
    y_scale = np.array([0.02, 30.0, 5.0])[:d]
    y_shift = np.array([7.0, -100.0, 0.5])[:d]
    moved_x = x * x_scale + x_shift
    moved_y = as_columns(y) * y_scale + y_shift
    moved_y = moved_y[:, 0] if d == 1 else moved_y
    one = KCEF(select=None, **options, random_state=0).fit(x, y)
    other = KCEF(select=None, **options, random_state=0).fit(moved_x, moved_y)
    new_x, new_y = rows(d, n=7, seed=8)
    new_moved = as_columns(new_y) * y_scale + y_shift
    new_moved = new_moved[:, 0] if d == 1 else new_moved
    assert_close(
        other.score_samples(new_x * x_scale + x_shift, new_moved),
        one.score_samples(new_x, new_y) - np.log(y_scale).sum(),
        SAME,
    )
    p, q = one.given(new_x), other.given(new_x * x_scale + x_shift)
    means = as_columns(p.mean()) * y_scale + y_shift
    assert_close(as_columns(q.mean()), means, SAME)
    assert_close(as_columns(q.std()), as_columns(p.std()) * y_scale, SAME)
    assert_close(q.entropy(), p.entropy() + np.log(y_scale).sum(), SAME, scale=1.0)
    gradient = as_columns(p.grad_logpdf(new_y)) / y_scale
    assert_close(as_columns(q.grad_logpdf(new_moved)), gradient, SAME)


WEIGHT_BASES = {
    "default": None,
    "student": StudentBase(1.5, df=4.0),
    "uniform": UniformBase(-9.0, 9.0),
    "marginal": MarginalBase(),
}


@pytest.mark.parametrize(
    ("d", "base", "standardize"),
    [(1, base, s) for base in WEIGHT_BASES for s in (True, False)]
    + [(2, "default", True), (2, "marginal", False)],
)
def test_integer_weights_equal_repeated_rows(d, base, standardize):
    x, y = rows(d, n=14)
    counts = np.array([1, 2, 1, 3, 1, 1, 2, 1, 4, 1, 1, 1, 2, 1])
    again = np.repeat(np.arange(14), counts)
    options = {"base": WEIGHT_BASES[base], "standardize": standardize}
    weighted = KCEF(select=None, **options).fit(x, y, sample_weight=counts)
    repeated = KCEF(select=None, **options).fit(x[again], y[again])
    assert_close(weighted.score_samples(x, y), repeated.score_samples(x, y), SAME)
    assert_close(weighted.regularization_, repeated.regularization_)
    Y = as_columns(y)
    weighted = KEF(select=None, **options).fit(Y, sample_weight=counts)
    repeated = KEF(select=None, **options).fit(Y[again])
    assert_close(weighted.score_samples(Y), repeated.score_samples(Y), SAME)


def test_integer_weights_equal_repeated_rows_in_three_columns_within_the_error():
    # The importance draws differ, so log Z agrees within its stated error only.
    x, y = rows(3, n=14)
    counts = np.array([1, 2, 1, 3, 1, 1, 2, 1, 4, 1, 1, 1, 2, 1])
    again = np.repeat(np.arange(14), counts)
    weighted = (
        KCEF(select=None, random_state=0).fit(x, y, sample_weight=counts).given(x[:3])
    )
    repeated = KCEF(select=None, random_state=1).fit(x[again], y[again]).given(x[:3])
    gap = np.abs(weighted.log_partition - repeated.log_partition)
    error = np.hypot(weighted.log_partition_error, repeated.log_partition_error)
    assert np.all(gap < STANDARD_ERRORS * error)
    assert_close(weighted.grad_logpdf(y[:3]), repeated.grad_logpdf(y[:3]), SAME)


@pytest.mark.parametrize("d", [1, 2])
def test_rows_of_weight_zero_have_no_influence(d):
    x, y = rows(d)
    weights = np.ones(25)
    weights[[3, 10]] = 0.0
    wild_x, wild_y = x.copy(), y.copy()
    wild_x[3], wild_y[10] = 1e3, -1e3
    used = weights > 0
    one = KCEF(select=None).fit(wild_x, wild_y, sample_weight=weights)
    other = KCEF(select=None).fit(x[used], y[used])
    assert_close(one.score_samples(x, y), other.score_samples(x, y), SAME)
    one = KEF(select=None).fit(as_columns(wild_y), sample_weight=weights)
    other = KEF(select=None).fit(as_columns(y)[used])
    Y = as_columns(y)
    assert_close(one.score_samples(Y), other.score_samples(Y), SAME)


@every_dimension
def test_the_unit_of_the_weights_is_the_number_of_rows(d):
    # Without a rule for λ, only ratios of weights matter.
    x, y = rows(d)
    weights = np.random.default_rng(0).uniform(0.5, 2.0, 25)
    common = {"regularization": 0.05, "random_state": 0}
    one = KCEF(select=None, **common).fit(x, y, sample_weight=weights)
    other = KCEF(select=None, **common).fit(x, y, sample_weight=100 * weights)
    assert_close(one.score_samples(x, y), other.score_samples(x, y), SAME)


def test_the_order_of_rows_and_columns_does_not_matter():
    x, y = rows(2)
    order = np.random.default_rng(2).permutation(25)
    common = {
        "kernel_x": Gaussian(1.0),
        "kernel_y": Gaussian(0.9),
        "regularization": 0.05,
    }
    log_p = KCEF(select=None, **common).fit(x, y).score_samples(x, y)
    shuffled = KCEF(select=None, **common).fit(x[order], y[order])
    assert_close(shuffled.score_samples(x, y), log_p, SAME)
    flipped = KCEF(select=None, **common).fit(x[:, ::-1], y[:, ::-1])
    # Tensor quadrature is good to 1e-8 in either order.
    assert_close(flipped.score_samples(x[:, ::-1], y[:, ::-1]), log_p, 1e-7)


def test_a_joint_kernel_equals_its_two_parts_and_its_own_sum():
    x, y = rows(1)
    kx, ky = Gaussian(1.0), Matern(0.9, nu=3.5)
    apart = KCEF(select=None, kernel_x=kx, kernel_y=ky, regularization=0.05).fit(x, y)
    log_p = apart.score_samples(x, y)
    joint = KCEF(select=None, kernel=separable(kx, ky), regularization=0.05).fit(x, y)
    assert_close(joint.score_samples(x, y), log_p, ROUNDING)
    halves = separable(0.5 * kx, ky) + separable(kx, 0.5 * ky)
    doubled = KCEF(select=None, kernel=halves, regularization=0.05).fit(x, y)
    assert_close(doubled.score_samples(x, y), log_p, SAME)


def test_scaling_the_kernel_is_scaling_the_regulariser():
    x, y = rows(1)
    one = KCEF(
        select=None, kernel_x=Gaussian(1.0), kernel_y=Gaussian(0.9), regularization=0.05
    )
    other = KCEF(
        select=None,
        kernel_x=4.0 * Gaussian(1.0),
        kernel_y=Gaussian(0.9),
        regularization=0.2,
    )
    assert_close(
        other.fit(x, y).score_samples(x, y), one.fit(x, y).score_samples(x, y), SAME
    )


def test_equal_lengthscales_per_column_equal_one_lengthscale():
    x, y = rows(2)
    one = KCEF(
        select=None, kernel_x=Gaussian(1.0), kernel_y=Gaussian(0.9), regularization=0.05
    )
    other = KCEF(
        select=None,
        kernel_x=Gaussian((1.0, 1.0)),
        kernel_y=Gaussian((0.9, 0.9)),
        regularization=0.05,
    )
    assert_close(
        other.fit(x, y).score_samples(x, y), one.fit(x, y).score_samples(x, y), SAME
    )


def test_a_rational_quadratic_of_large_alpha_approaches_a_gaussian():
    x, y = rows(1)
    log_p = [
        KCEF(select=None, kernel_x=Gaussian(1.0), kernel_y=k, regularization=0.05)
        .fit(x, y)
        .score_samples(x, y)
        for k in (Gaussian(0.9), RationalQuadratic(0.9, alpha=1e7))
    ]
    assert_close(log_p[1], log_p[0], 1e-5)  # the kernels differ by s²/4α


@every_dimension
def test_the_number_of_threads_does_not_matter(d):
    x, y = rows(d, n=30)
    log_p = [
        KCEF(select=None, n_jobs=n_jobs, random_state=0).fit(x, y).score_samples(x, y)
        for n_jobs in (1, 2)
    ]
    assert_close(log_p[1], log_p[0], SAME)


BASES = {
    "gaussian": (GaussianBase(2.0), stats.norm(0, 2.0)),
    "student": (StudentBase(1.5, df=3.0), stats.t(3, 0, 1.5)),
    "laplace": (GeneralizedGaussianBase(2.0, power=1.0), stats.laplace(0, 2.0)),
}


@pytest.mark.parametrize("name", BASES)
def test_far_x_gives_the_base_density(name):
    x, y = rows(1)
    base, twin = BASES[name]
    model = KCEF(
        select=None, kernel_x=Gaussian(0.5), base=base, regularization=0.01
    ).fit(x, y)
    p = model.given([[1e4, -1e4]])[0]
    grid = np.linspace(y.mean() - 5, y.mean() + 5, 31)
    expected = twin.logpdf((grid - y.mean()) / y.std()) - np.log(y.std())
    assert_close(p.log_partition, 0.0, 1e-10, scale=1.0)
    assert_close(p.logpdf(grid), expected, 1e-10)
    assert_close(p.mean(), y.mean(), 1e-9, scale=1.0)
    assert_close(p.var(), twin.var() * y.var(), 1e-9)
    assert_close(p.entropy(), twin.entropy() + np.log(y.std()), 1e-9)


@every_dimension
def test_far_x_gives_the_base_density_in_any_dimension(d):
    x, y = rows(d)
    model = KCEF(
        select=None, kernel_x=Gaussian(0.5), regularization=0.05, random_state=0
    ).fit(x, y)
    p = model.given([[1e4, -1e4]])
    z = (as_columns(y) - as_columns(y).mean(axis=0)) / as_columns(y).std(axis=0)
    expected = stats.norm(0, 2.0).logpdf(z) - np.log(as_columns(y).std(axis=0))
    points = y[None] if d == 1 else y[None, :, :]
    error = 1e-9 if d < 3 else STANDARD_ERRORS * p.log_partition_error[0]
    assert_close(p.logpdf(points)[0], expected.sum(axis=1), error, scale=1.0)


@every_dimension
def test_an_infinite_regulariser_leaves_the_base_density(d):
    x, y = rows(d)
    model = KCEF(select=None, regularization=1e12, random_state=0).fit(x, y)
    far = (
        KCEF(select=None, kernel_x=Gaussian(0.5), random_state=0)
        .fit(x, y)
        .given([[1e4, 1e4]])
    )
    p = model.given(x[:1])
    points = y[None, :5]
    assert_close(p.logpdf(points), far.logpdf(points), 1e-8)


def mass_of(p, center, spread):
    """∫ p over the line by y = c + s·sinh t, which reaches 1e12 spreads."""
    t = np.linspace(-28.0, 28.0, 40_001)
    pdf = p.pdf(center + spread * np.sinh(t))
    return float(np.sum(pdf * spread * np.cosh(t)) * (t[1] - t[0]))


INTEGRABLE = {
    "gaussian": GaussianBase(2.0),
    "student_1": StudentBase(1.5, df=1.0),
    "student_3": StudentBase(1.5, df=3.0),
    "generalized": GeneralizedGaussianBase(3.0, power=4.0),
    "laplace": GeneralizedGaussianBase(2.0, power=1.0),
    "marginal": MarginalBase(),
    "location_scale": LocationScaleBase(),
    "location_student": LocationScaleBase(noise=StudentBase(1.5, df=3.0)),
}


@pytest.mark.parametrize("name", INTEGRABLE)
def test_densities_integrate_to_one_for_every_base(name):
    x, y = rows(1)
    model = KCEF(
        select=None, base=INTEGRABLE[name], regularization=0.01, random_state=0
    ).fit(x, y)
    # The trapezium rule of 0.0014 spreads is exact but for the kink of Laplace.
    tolerance = 1e-6 if name == "laplace" else 1e-9
    for p in model.given(x[:3]):
        assert_close(mass_of(p, y.mean(), y.std()), 1.0, tolerance)


@pytest.mark.parametrize(
    "base",
    [
        UniformBase(-4.0, 5.0),
        TruncatedBase(GaussianBase(2.0), lower=-4.0, upper=5.0),
        TruncatedBase(StudentBase(2.0, df=1.0), lower=-4.0, upper=5.0),
    ],
    ids=repr,
)
def test_densities_integrate_to_one_on_bounded_supports(base):
    x, y = rows(1)
    model = KCEF(select=None, base=base, regularization=0.01).fit(x, y)
    nodes, weights = np.polynomial.legendre.leggauss(400)
    grid = 0.5 + 4.5 * nodes
    for p in model.given(x[:3]):
        assert_close(4.5 * weights @ p.pdf(grid), 1.0, 1e-9)
        np.testing.assert_array_equal(p.support, [-4.0, 5.0])


# Some kernels with so little λ put mass where no rows are.
@pytest.mark.filterwarnings("ignore::kexpfam.errors.BlindnessWarning")
@pytest.mark.parametrize("case", PLAIN_CASES + ARD_CASES, ids=case_id)
def test_densities_integrate_to_one_for_every_kernel(case):
    x, y = rows(1)
    kernel, _ = case.build(1.0, 1)
    model = KCEF(select=None, kernel_y=kernel, regularization=0.05).fit(x, y)
    for p in model.given(x[:2]):
        assert_close(mass_of(p, y.mean(), y.std()), 1.0, 1e-9)


@pytest.mark.parametrize("case", ARD_CASES, ids=case_id)
def test_densities_of_two_columns_integrate_to_one_for_every_kernel(case):
    x, y = rows(2, n=8)
    kernel, _ = case.build(1.0, 2)
    model = KCEF(select=None, kernel_y=kernel, regularization=0.5).fit(x, y)
    # y = c + s·sinh t again, up to 13 deviations on either side
    t, step = np.linspace(-3.3, 3.3, 161, retstep=True)
    center, spread = y.mean(axis=0), y.std(axis=0)
    grid = np.stack(np.meshgrid(np.sinh(t), np.sinh(t), indexing="ij"), axis=-1)
    volume = spread.prod() * step**2 * np.outer(np.cosh(t), np.cosh(t)).ravel()
    p = model.given(x[:1])[0]
    assert abs(p.log_partition) > 0.01  # the base alone would not be a test
    mass = volume @ p.pdf(center + spread * grid.reshape(-1, 2))
    assert_close(mass, 1.0, 1e-6)  # Matérn kernels are not analytic


def test_densities_of_three_columns_integrate_to_one_within_their_error():
    x, y = rows(3)
    p = KCEF(select=None, regularization=0.1, random_state=0).fit(x, y).given(x[:1])[0]
    nodes, weights = np.polynomial.legendre.leggauss(48)
    axes = [y.mean(axis=0)[k] + 9.0 * y.std(axis=0)[k] * nodes for k in range(3)]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3)
    volume = np.einsum("i,j,k->ijk", weights, weights, weights).ravel()
    volume *= 9.0**3 * y.std(axis=0).prod()
    log_mass = np.log(volume @ p.pdf(grid))
    assert abs(log_mass) < STANDARD_ERRORS * p.log_partition_error
