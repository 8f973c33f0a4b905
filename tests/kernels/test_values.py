"""Kernels as values: frozen, hashable, printable, combinable, and strict."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import special

from kexpfam import KCEF, kernels
from kexpfam.kernels import (
    MEDIAN,
    Constant,
    Gaussian,
    InverseMultiquadric,
    JointKernel,
    Kernel,
    Matern,
    Product,
    RationalQuadratic,
    Sum,
    SumOfProducts,
    separable,
)
from tests.kernels.cases import ALL_CASES, case_id, points
from tests.tolerances import assert_close

every_kernel = pytest.mark.parametrize("case", ALL_CASES, ids=case_id)
RADIAL = [Gaussian, RationalQuadratic, Matern, InverseMultiquadric]


@every_kernel
def test_kernels_are_frozen_hashable_and_equal_by_value(case):
    (one, _), (same, _), (other, _) = (case.build(e, 2) for e in (1.5, 1.5, 1.6))
    assert one == same
    assert hash(one) == hash(same)
    assert (one == other) == (case.name == "constant")
    field = dataclasses.fields(one)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(one, field, 3.0)


@every_kernel
def test_repr_evaluates_to_an_equal_kernel(case):
    kernel, _ = case.build(1.5, 2)
    assert eval(repr(kernel), vars(kernels)) == kernel


@pytest.mark.parametrize(
    "given", [np.array([1.0, 2.0]), [1, 2], (1.0, 2.0), np.array([1, 2])], ids=str
)
def test_any_sequence_of_lengthscales_becomes_a_tuple_of_floats(given):
    kernel = Gaussian(given)
    assert kernel.lengthscale == (1.0, 2.0)
    assert all(type(length) is float for length in kernel.lengthscale)
    assert hash(kernel) == hash(Gaussian((1.0, 2.0)))


def test_a_numpy_scalar_lengthscale_is_stored_as_a_float():
    assert type(Gaussian(np.float64(2.0)).lengthscale) is float
    assert type(Gaussian(np.int64(2)).lengthscale) is float


@pytest.mark.parametrize("kind", RADIAL)
@pytest.mark.parametrize(
    "bad",
    [0.0, -1.0, np.inf, np.nan, (), (1.0, 0.0), [[1.0]], (1.0, np.nan)],
    ids=str,
)
def test_bad_lengthscale_is_named(kind, bad):
    with pytest.raises(ValueError, match=r"lengthscale must be a positive number.*got"):
        kind(bad)


def test_unknown_word_for_a_lengthscale_is_named():
    with pytest.raises(ValueError, match=r"or 'median', got 'mean'"):
        Gaussian("mean")


@pytest.mark.parametrize("kind", RADIAL)
def test_wrong_number_of_ard_lengthscales_gives_both_counts(kind):
    A, B = points(3)
    expected = r"lengthscale has 2 values, but the data have 3 columns"
    with pytest.raises(ValueError, match=expected):
        kind((1.0, 2.0))(A, B)
    with pytest.raises(ValueError, match=expected):
        kind((1.0, 2.0)).at(A, B)


def test_median_lengthscale_must_be_filled_in_before_use():
    A, B = points(2)
    with pytest.raises(ValueError, match=r"still has lengthscale='median'"):
        Gaussian(MEDIAN)(A, B)


@pytest.mark.parametrize("nu", [2.0, 1.0, 2.25, np.inf])
def test_matern_refuses_what_is_not_a_half_integer(nu):
    with pytest.raises(ValueError, match=r"nu must be a half-integer \(0.5, 1.5, 2.5"):
        Matern(1.0, nu=nu)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda v: Matern(1.0, nu=v), "nu"),
        (lambda v: RationalQuadratic(1.0, alpha=v), "alpha"),
        (lambda v: InverseMultiquadric(1.0, power=v), "power"),
        (Constant, "value of Constant"),
    ],
    ids=["nu", "alpha", "power", "value"],
)
@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan])
def test_shape_parameters_must_be_positive(make, name, bad):
    with pytest.raises(ValueError, match=f"{name} must be a positive number, got"):
        make(bad)


@pytest.mark.parametrize(
    "make",
    [
        lambda v: RationalQuadratic(1.0, alpha=v),
        lambda v: InverseMultiquadric(1.0, power=v),
    ],
    ids=["alpha", "power"],
)
def test_infinite_shape_parameters_are_refused(make):
    # (1 + s/∞)^(−∞) is 1 in floating point, and its derivatives are NaN.
    with pytest.raises(ValueError, match="must be a positive number, got inf"):
        make(np.inf)


@pytest.mark.parametrize(("nu", "smoothness"), [(0.5, 0), (1.5, 1)])
def test_separable_refuses_a_rough_kernel_of_y_and_says_how_rough(nu, smoothness):
    with pytest.raises(
        ValueError, match=rf"not smooth enough.*one has {smoothness}; use"
    ):
        separable(Gaussian(1.0), Matern(1.0, nu=nu))
    with pytest.raises(
        ValueError, match=rf"not smooth enough.*one has {smoothness}; use"
    ):
        separable(Gaussian(1.0), Gaussian(1.0) + Matern(1.0, nu=nu))


@pytest.mark.parametrize("nu", [0.5, 1.5])
def test_a_rough_kernel_of_y_is_refused_however_the_joint_kernel_is_built(nu):
    x = np.linspace(0.0, 1.0, 8)[:, None]
    with pytest.raises(ValueError, match="not smooth enough"):
        KCEF(
            select=None, kernel=SumOfProducts(((Gaussian(1.0), Matern(1.0, nu=nu)),))
        ).fit(x, x[:, 0])


@pytest.mark.parametrize("nu", [0.5, 1.5])
def test_a_rough_kernel_of_x_is_welcome(nu):
    A, B = points(2)
    kernel_x = Matern(0.7, nu=nu)
    joint = separable(kernel_x, Gaussian(1.0))
    value = joint.at(A, A, B, B).partial(0, 0, 0, 0)
    assert_close(value, kernel_x(A, B) * Gaussian(1.0)(A, B))


def test_arithmetic_builds_sums_and_products_and_turns_numbers_into_constants():
    k, other = Gaussian(1.0), Matern(2.0)
    assert k + other == Sum(k, other)
    assert k * other == Product(k, other)
    assert 2 * k == Product(Constant(2.0), k)
    assert k * 2 == Product(k, Constant(2.0))
    assert 2.0 + k == Sum(Constant(2.0), k)
    assert k + 2.0 == Sum(k, Constant(2.0))


@pytest.mark.parametrize("other", ["k", None, [1.0]], ids=str)
def test_arithmetic_with_anything_else_says_what_it_was(other):
    for combine in (lambda k: k + other, lambda k: k * other):
        with pytest.raises(TypeError, match=f"not with {type(other).__name__}"):
            combine(Gaussian(1.0))


@pytest.mark.parametrize("factor", [0.0, -1.0])
def test_a_factor_that_would_break_positive_definiteness_is_refused(factor):
    with pytest.raises(ValueError, match="must be a positive number"):
        factor * Gaussian(1.0)


def test_resolution_is_the_shortest_lengthscale():
    assert Gaussian((3.0, 0.5)).resolution == 0.5
    assert (Gaussian(2.0) + Matern(0.3)).resolution == 0.3
    assert (Gaussian(2.0) * Constant()).resolution == 2.0
    joint = separable(Gaussian(0.1), Gaussian(2.0)) + separable(Constant(), Matern(0.7))
    assert joint.resolution == 0.7


@every_kernel
def test_lengthscales_are_mapped_through_sums_and_products(case):
    def double(ell):
        return tuple(2.0 * e for e in ell) if isinstance(ell, tuple) else 2.0 * ell

    kernel, _ = case.build(0.7, 2)
    wanted, _ = case.build(1.4, 2)
    assert isinstance(kernel, Kernel)
    A, B = points(2)
    assert_close(kernel.map_lengthscales(double)(A, B), wanted(A, B))


def test_joint_kernels_map_lengthscales_of_x_and_y_apart():
    joint = separable(Gaussian(1.0), Matern(2.0)) + separable(Constant(), Gaussian(3.0))
    mapped = joint.map_lengthscales(lambda e: 10.0 * e, lambda e: 100.0 * e)
    assert mapped == separable(Gaussian(10.0), Matern(200.0)) + separable(
        Constant(), Gaussian(300.0)
    )


def test_a_sum_of_products_is_the_sum_of_its_terms():
    A, B = points(2)
    X, X2 = np.arange(4.0)[:, None], np.arange(3.0)[:, None]
    first, second = (
        separable(Gaussian(1.0), Matern(2.0)),
        separable(Constant(0.5), Gaussian(0.4)),
    )
    both = (first + second).at(X, A, X2, B)
    for r, i, s, j in [(0, 0, 0, 0), (1, 0, 1, 1), (2, 1, 2, 0), (1, 1, 2, 1)]:
        expected = sum(
            kx(X, X2) * ky.at(A, B).partial(r, i, s, j)
            for kx, ky in first.terms + second.terms
        )
        assert_close(both.partial(r, i, s, j), expected)


def test_a_kernel_is_constant_in_x_if_all_its_terms_are():
    one, other = (
        separable(Constant(1.0), Gaussian(1.0)),
        separable(Gaussian(), Matern()),
    )
    assert (one + one).constant_in_x
    assert not (one + other).constant_in_x
    assert not (other + one).constant_in_x


def test_kernels_have_unit_lengthscale_if_nothing_is_said():
    """Values at distance one, by hand."""
    A, B = np.zeros((1, 1)), np.ones((1, 1))
    expected = {
        Gaussian(): np.exp(-0.5),
        RationalQuadratic(): (1.0 + 0.5 / RationalQuadratic().alpha)
        ** -RationalQuadratic().alpha,
        InverseMultiquadric(): 2.0 ** -InverseMultiquadric().power,
        Constant(): 1.0,
    }
    for kernel, value in expected.items():
        assert_close(kernel(A, B), [[value]])
        if kernel != Constant():
            assert kernel.lengthscale == 1.0


@every_kernel
def test_smoothness_is_how_often_a_kernel_can_be_derived_up_to_two(case):
    kernel, _ = case.build(1.0, 1)
    assert kernel.smoothness == 2
    for nu, times in ((0.5, 0), (1.5, 1), (2.5, 2), (7.5, 2)):
        rough = Matern(1.0, nu=nu)
        assert rough.smoothness == times
        assert (kernel + rough).smoothness == (kernel * rough).smoothness == times


def test_a_joint_kernel_that_says_nothing_of_itself_promises_nothing():
    class Silent(JointKernel):
        def at(self, X, Y, X2, Y2, empty=np.empty):
            raise NotImplementedError

    silent = Silent()
    assert not silent.constant_in_x
    assert not silent.stationary
    assert silent.products == ()
    assert silent.resolution == np.inf
    assert silent.map_lengthscales(lambda e: 2 * e, lambda e: 2 * e) is silent


@pytest.mark.parametrize("nu", [0.5, 1.5, 2.5, 4.5])
def test_matern_kernels_follow_bessel_functions_until_nothing_is_left(nu):
    """k = 2^(1-ν)/Γ(ν) z^ν K_ν(z), with exp(z) K_ν(z) where that is no double."""
    z = np.array([0.3, 5.0, 90.0, 560.0, 590.0, 690.0])
    scaled = special.kve(nu, z) * 2.0 ** (1.0 - nu) / special.gamma(nu)
    expected = np.log(scaled) + nu * np.log(z) - z
    A = np.zeros((1, 1))
    found = Matern(1.0, nu=nu)(A, z[:, None] / np.sqrt(2.0 * nu))[0]
    np.testing.assert_allclose(np.log(found), expected, rtol=1e-10)
    assert Matern(1.0, nu=nu)(A, np.array([[1e5]])) == 0.0


@pytest.mark.parametrize("distance", [1e3, 1e40, 1e49, 1e60])
def test_powers_of_distances_are_right_as_far_as_doubles_go(distance):
    """(1 + r²/2α)^(−α) with α = 1/8 is (r²/2α)^(−1/8) there."""
    kernel = RationalQuadratic(1.0, alpha=0.125)
    A = np.zeros((1, 1))
    found = kernel(A, np.array([[distance], [-distance]]))
    far = min(distance, 1e50)  # all that is farther counts as that
    np.testing.assert_allclose(found, (1.0 + 4.0 * far**2) ** -0.125, rtol=1e-9)
    slope = kernel.at(A, np.array([[distance], [-distance]])).partial(1, 0, 0, 0)
    assert np.isfinite(slope).all()
    assert slope[0, 0] == -slope[0, 1] >= 0.0


@pytest.mark.parametrize("pair", [Sum, Product])
def test_pairs_of_kernels_are_stationary_if_both_are(pair):
    moving = SimpleNamespace(stationary=False)
    assert pair(Gaussian(), Constant()).stationary
    assert not pair(Gaussian(), moving).stationary
    assert not pair(moving, Gaussian()).stationary
