"""Log density, gradient, draws and support of every base density."""

import dataclasses
import math

import numpy as np
import pytest
from scipy import stats

from kexpfam import KEF, base_densities
from kexpfam.base_densities import (
    GaussianBase,
    GeneralizedGaussianBase,
    MarginalBase,
    StudentBase,
    TruncatedBase,
    UniformBase,
    require_inside,
)
from kexpfam.errors import DegenerateDataError
from tests.base_densities.cases import CASES, MARGINAL, case_id, marginal
from tests.oracles.integrals import integral
from tests.tolerances import DIFFERENCES, KS_LEVEL, QUADRATURE, assert_close

every_base = pytest.mark.parametrize("case", CASES, ids=case_id)


def breaks(case):
    low, high = case.twin.support()
    inner = [-20.0, -5.0, -2.0, -1.0, 0.0, 0.5, 1.0, 2.0, 5.0, 20.0]
    return [low, *(b for b in inner if low < b < high), high]


def inside(case):
    """Points of the support, none on a kink."""
    low, high = case.twin.support()
    y = np.array([-7.3, -2.1, -0.93, -0.42, 0.11, 0.37, 1.7, 2.9, 8.8])
    return y[(y > low) & (y < high)]


@every_base
def test_density_integrates_to_one(case):
    total = integral(lambda y: np.exp(case.base.log_density(y[:, None])), breaks(case))
    assert_close(total, 1.0, QUADRATURE)


@every_base
def test_log_density_equals_scipy_inside_and_outside_the_support(case):
    y = np.linspace(-6.0, 6.0, 101)
    assert_close(case.base.log_density(y[:, None]), case.twin.logpdf(y))


@every_base
def test_gradient_equals_differences(case):
    y, step = inside(case), 1e-5
    assert len(y) >= 2
    up, down = (case.base.log_density((y + s)[:, None]) for s in (step, -step))
    actual = case.base.grad_log_density(y[:, None])[:, 0]
    assert_close(
        actual, (up - down) / (2 * step), DIFFERENCES, scale=1 + np.abs(actual)
    )


@every_base
def test_draws_follow_the_distribution_function(case):
    draws = case.base.sample(2000, 1, np.random.default_rng(8))
    assert draws.shape == (2000, 1)
    assert stats.kstest(draws[:, 0], case.twin.cdf).pvalue > KS_LEVEL


@every_base
def test_draws_are_fixed_by_the_generator_and_by_nothing_else(case):
    first, again, other = (
        case.base.sample(5, 1, np.random.default_rng(seed)) for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first, again)
    assert np.all(first != other)


@every_base
def test_support_equals_scipy(case):
    np.testing.assert_array_equal(
        case.base.support(3), np.tile(case.twin.support(), (3, 1))
    )


@every_base
def test_range_lies_in_the_support_and_holds_nearly_all_mass(case):
    low, high = case.base.column_range(0)
    assert case.twin.support()[0] <= low < high <= case.twin.support()[1]
    # Cauchy and t(3) have 10 and 0.1 per cent outside six scales.
    least = 0.89 if case.tail_index <= 1 else 0.98
    assert case.twin.cdf(high) - case.twin.cdf(low) > least


@every_base
def test_tail_index_is_that_of_the_tails(case):
    assert case.base.tail_index == case.tail_index


@every_base
def test_columns_are_independent_and_identical_without_per_column_parameters(case):
    base = case.base
    if isinstance(base, MarginalBase):
        base = MarginalBase(base.mixtures * 2)
    y = inside(case)
    rows = np.stack([y, y[::-1]], axis=1)
    one = base.log_density(y[:, None])
    assert_close(base.log_density(rows), one + one[::-1])
    slope = base.grad_log_density(y[:, None])[:, 0]
    assert_close(base.grad_log_density(rows), np.stack([slope, slope[::-1]], axis=1))


@every_base
def test_bases_are_frozen_hashable_values(case):
    assert hash(case.base) == hash(dataclasses.replace(case.base))
    assert case.base == dataclasses.replace(case.base)
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(case.base, dataclasses.fields(case.base)[0].name, 1.0)


@pytest.mark.parametrize(
    "base", [c.base for c in CASES if c.name != "marginal"], ids=repr
)
def test_repr_evaluates_to_an_equal_base(base):
    assert eval(repr(base), {**vars(base_densities), "inf": math.inf}) == base


@pytest.mark.parametrize("kind", [GaussianBase, StudentBase, GeneralizedGaussianBase])
def test_per_column_scale_and_location_act_on_their_own_column(kind):
    base = kind(scale=(0.5, 2.0), location=[1.0, -1.0])
    parts = kind(scale=0.5, location=1.0), kind(scale=2.0, location=-1.0)
    Y = np.random.default_rng(5).normal(size=(6, 2))
    total = sum(part.log_density(Y[:, i : i + 1]) for i, part in enumerate(parts))
    assert_close(base.log_density(Y), total)
    slopes = [part.grad_log_density(Y[:, i : i + 1]) for i, part in enumerate(parts)]
    assert_close(base.grad_log_density(Y), np.concatenate(slopes, axis=1))
    draws = base.sample(2000, 2, np.random.default_rng(6))
    medians = np.median(draws, axis=0)
    # The median of 2000 draws has a standard error of at most 0.05 scales here.
    assert np.all(np.abs(medians - [1.0, -1.0]) < 0.2 * np.array([0.5, 2.0]))
    assert base.column_range(0) == parts[0].column_range(0)
    assert base.column_range(1) == parts[1].column_range(1)


def test_per_column_bounds_act_on_their_own_column():
    base = UniformBase((0.0, -1.0), (1.0, 3.0))
    np.testing.assert_array_equal(base.support(2), [[0.0, 1.0], [-1.0, 3.0]])
    rows = np.array([[0.5, 2.0], [0.5, 4.0], [2.0, 0.0]])
    assert_close(base.log_density(rows), [-np.log(4.0), -np.inf, -np.inf])
    cut = TruncatedBase(GaussianBase((1.0, 2.0)), lower=(0.0, -np.inf), upper=np.inf)
    expected = stats.halfnorm.logpdf(0.7) + stats.norm(scale=2.0).logpdf(-0.3)
    assert_close(cut.log_density(np.array([[0.7, -0.3]])), [expected])


@pytest.mark.parametrize("d", [1, 3])
@pytest.mark.parametrize(
    "base",
    [
        GaussianBase(scale=(1.0, 2.0)),
        GaussianBase(location=(1.0, 2.0)),
        UniformBase((-9.0, -9.0), 9.0),
        TruncatedBase(GaussianBase(2.0), lower=(-9.0, -9.0)),
    ],
    ids=["scale", "location", "uniform", "truncated"],
)
def test_a_wrong_number_of_per_column_parameters_gives_both_counts(base, d):
    Y = np.random.default_rng(0).normal(size=(20, d))
    with pytest.raises(ValueError, match=rf"2 values.*{d} column"):
        KEF(base=base).fit(Y)


def test_student_log_density_does_not_overflow_far_away():
    base = StudentBase(1.0, df=3.0)
    y = np.array([[1e160], [-1e200], [0.0]])
    assert_close(base.log_density(y), stats.t(3).logpdf([1e150, 1e150, 0.0]), 1.0)
    ratio = base.log_density(y[:1]) - base.log_density(10 * y[:1])
    assert_close(ratio, [4.0 * np.log(10.0)])
    assert_close(base.grad_log_density(y)[:, 0] * y[:, 0], [-4.0, -4.0, 0.0])


@pytest.mark.parametrize("kind", [GaussianBase, StudentBase, GeneralizedGaussianBase])
@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan, np.inf, (), [[1.0]]], ids=str)
def test_bad_scale_is_named(kind, bad):
    with pytest.raises(
        ValueError, match=r"scale must be a positive number, or one per"
    ):
        kind(scale=bad)


def test_other_bad_parameters_are_named():
    with pytest.raises(ValueError, match="location must be a number"):
        GaussianBase(location=np.nan)
    with pytest.raises(ValueError, match="df must be a positive number"):
        StudentBase(df=-1.0)
    with pytest.raises(ValueError, match=r"power must be at least 1, got 0\.5"):
        GeneralizedGaussianBase(power=0.5)
    with pytest.raises(ValueError, match=r"lower must be below upper.*lower=2.0"):
        UniformBase(2.0, 1.0)
    with pytest.raises(ValueError, match=r"finite bounds.*use TruncatedBase"):
        UniformBase(0.0, np.inf)
    with pytest.raises(ValueError, match="lower must be below upper"):
        TruncatedBase(lower=(0.0, 1.0), upper=(1.0, 1.0))


def test_bounds_are_converted_from_the_users_units():
    Y = np.array([[0.0], [1.0], [4.0]])

    def to_kernel(y):
        return (y - 2.0) / 4.0

    uniform = UniformBase(-2.0, 6.0).prepared(to_kernel(Y), np.ones(3), to_kernel)
    np.testing.assert_array_equal(uniform.support(1), [[-1.0, 1.0]])
    cut = TruncatedBase(GaussianBase(1.0), lower=0.0)
    cut = cut.prepared(to_kernel(Y), np.ones(3), to_kernel)
    np.testing.assert_array_equal(cut.support(1), [[-0.5, np.inf]])
    # The rows on the edge are inside, in whatever way rounding falls.
    assert np.all(np.isfinite(cut.log_density(to_kernel(Y))))


@pytest.mark.parametrize(
    "base", [UniformBase(0.5, 3.0), TruncatedBase(lower=0.5, upper=3.0)], ids=repr
)
def test_rows_outside_the_support_are_counted_and_shown(base):
    Y = np.array([[1.0], [-4.0], [2.0], [7.0]])
    expected = r"X has 2 rows outside.*\[0.5, 3.0\].*row 1 is -4\."
    with pytest.raises(DegenerateDataError, match=expected):
        KEF(base=base).fit(Y)
    # The first that the user finds, where and under the name that she knows.
    numbers, support = np.array([9, 8, 7, 6]), base.support(1)
    with pytest.raises(DegenerateDataError, match=r"price has 2 .*row 6 is 7\."):
        require_inside(Y, support, Y, support, row_numbers=numbers, name="price")


def test_bounds_that_leave_nothing_of_the_inner_density_are_refused():
    Y = np.array([[20.0], [21.0]])
    with pytest.raises(DegenerateDataError, match=r"less than 1e-6.*column 0"):
        TruncatedBase(GaussianBase(1.0), lower=19.0).prepared(Y, np.ones(2))


def test_truncation_far_in_a_tail_still_integrates_to_one():
    # 3e-7 would be refused; 6.5e-6 is left, and must not be lost to cancellation.
    base = TruncatedBase(GaussianBase(1.0), lower=4.36)
    total = integral(lambda y: np.exp(base.log_density(y[:, None])), [4.36, 6.0, 12.0])
    assert_close(total, 1.0, QUADRATURE)


def test_marginal_base_must_see_data_first():
    for use in (
        lambda b: b.log_density(np.zeros((1, 1))),
        lambda b: b.sample(1, 1, np.random.default_rng(0)),
    ):
        with pytest.raises(ValueError, match="has not seen data yet"):
            use(MarginalBase())


def test_marginal_base_is_close_to_a_kernel_density_estimate():
    rng = np.random.default_rng(3)
    y = np.append(rng.normal(-1.0, 0.5, 300), rng.normal(2.0, 1.0, 300))
    base = marginal(y[:, None])
    width = 0.9 * y.std() * len(y) ** -0.2
    grid = np.linspace(-3, 5, 41)
    kde = stats.norm.pdf((grid[:, None] - y) / width).mean(axis=1) / width
    defended = 0.95 * kde + 0.05 * stats.norm(y.mean(), 2 * y.std()).pdf(grid)
    # Linear binning on bins of width h adds a relative error (h/bandwidth)²/12 or so.
    assert_close(np.exp(base.log_density(grid[:, None])), defended, 2e-3)


def test_marginal_base_has_a_mixture_for_each_column():
    Y = np.random.default_rng(3).normal(size=(50, 2)) * [1.0, 5.0]
    both = marginal(Y)
    apart = [marginal(Y[:, i : i + 1]) for i in (0, 1)]
    total = sum(part.log_density(Y[:, i : i + 1]) for i, part in enumerate(apart))
    assert_close(both.log_density(Y), total)


def test_marginal_base_counts_weights_as_repeated_rows():
    y = np.array([[0.0], [1.0], [4.0], [5.0]])
    counts = np.array([1.0, 3.0, 2.0, 1.0])
    weighted = marginal(y, counts)
    repeated = marginal(np.repeat(y, counts.astype(int), axis=0))
    grid = np.linspace(-3, 8, 31)[:, None]
    assert_close(weighted.log_density(grid), repeated.log_density(grid))


def test_marginal_base_says_whether_it_has_seen_data():
    assert repr(MarginalBase()) == "MarginalBase()"
    assert repr(MARGINAL) == "MarginalBase(fitted on 1 columns)"


@pytest.mark.parametrize("outside", [1e-16, 1e-13, 1e-9])
def test_a_row_that_is_accepted_for_fitting_has_a_density(outside):
    # A row a rounding error outside is refused, or it counts as on the edge.
    data = np.abs(np.random.default_rng(0).normal(size=(30, 1)))
    data[0] = -outside
    try:
        model = KEF(base=TruncatedBase(GaussianBase(2.0), lower=0.0)).fit(data)
    except DegenerateDataError:
        return
    assert np.all(np.isfinite(model.score_samples(data)))
