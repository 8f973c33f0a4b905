"""Derivatives of every kernel against Cauchy integrals and spectral moments."""

import itertools

import numpy as np
import pytest

from kexpfam._linalg import BufferPool
from kexpfam.kernels import Gaussian, Matern
from tests.kernels.cases import ALL_CASES, case_id, points
from tests.oracles.kernels import all_partials
from tests.tolerances import CAUCHY, assert_close

ORDERS = list(itertools.product(range(3), repeat=2))

every_kernel = pytest.mark.parametrize("case", ALL_CASES, ids=case_id)
every_dimension = pytest.mark.parametrize("d", [1, 3])
every_lengthscale = pytest.mark.parametrize("ell", [0.1, 1.0, 10.0])


def blocks(d):
    """All (r, i, s, j)."""
    for (r, s), i, j in itertools.product(ORDERS, range(d), range(d)):
        yield r, i, s, j


@every_kernel
@every_dimension
@every_lengthscale
def test_every_derivative_equals_cauchy_integrals_and_spectral_moments(case, d, ell):
    kernel, oracle = case.build(ell, d)
    A, B = points(d, ell)
    expected, scale = all_partials(oracle, A, B)
    pairs = kernel.at(A, B)
    for r, i, s, j in blocks(d):
        gap = np.abs(pairs.partial(r, i, s, j) - expected[:, :, i, j, r, s])
        assert np.all(gap <= CAUCHY * scale[:, :, i, j, r, s]), (r, i, s, j)


@every_kernel
@every_dimension
def test_derivatives_are_continuous_where_points_almost_coincide(case, d):
    kernel, oracle = case.build(1.0, d)
    A = points(d)[0]
    coincident, scale = all_partials(oracle, A[:1], A[:1])
    step = np.random.default_rng(3).normal(size=A.shape)
    for distance in (1e-5, 1e-7, 1e-9, 1e-11):
        pairs = kernel.at(A, A + distance * step)
        for r, i, s, j in blocks(d):
            limit, size = coincident[0, 0, i, j, r, s], scale[0, 0, i, j, r, s]
            gap = np.abs(np.diag(pairs.partial(r, i, s, j)) - limit)
            # The steepest case is the fourth derivative of Matérn 5/2, with a kink of
            # slope below 50 ‖u‖, where ‖u‖ is up to four distances. Squared distances
            # from a matrix product may be wrong by 1e-15, which moves it by 2e-6.
            assert np.all(gap <= (1e3 * distance + 1e-5) * size), (distance, r, i, s, j)


@every_kernel
@every_dimension
def test_a_shift_of_all_points_changes_no_derivative(case, d):
    kernel, _ = case.build(1.0, d)
    # Multiples of 2⁻¹⁰ are added to 10⁶ without rounding.
    A, B = (np.round(P * 2**10) / 2**10 for P in points(d))
    here, there = kernel.at(A, B), kernel.at(A + 1e6, B + 1e6)
    for r, i, s, j in blocks(d):
        assert_close(there.partial(r, i, s, j), here.partial(r, i, s, j), 1e-9)


@every_kernel
@every_dimension
def test_swapping_the_arguments_transposes_every_derivative(case, d):
    kernel, _ = case.build(0.8, d)
    A, B = points(d)
    forward, backward = kernel.at(A, B), kernel.at(B, A)
    for r, i, s, j in blocks(d):
        assert_close(
            forward.partial(r, i, s, j), backward.partial(s, j, r, i).T, CAUCHY
        )


@every_kernel
@every_dimension
def test_call_is_the_derivative_of_order_zero(case, d):
    kernel, oracle = case.build(1.3, d)
    A, B = points(d)
    expected = oracle.value(A[:, None, :], B[None, :, :]).real
    assert_close(kernel(A, B), expected, CAUCHY)
    assert_close(kernel.at(A, B).partial(0, 0, 0, 0), expected, CAUCHY)


@every_kernel
@every_dimension
def test_weight_is_a_plain_factor_of_every_derivative(case, d):
    kernel, _ = case.build(0.9, d)
    A, B = points(d)
    weight = np.random.default_rng(4).uniform(-1.0, 2.0, size=(len(A), len(B)))
    before = weight.copy()
    plain, weighted = kernel.at(A, B), kernel.at(A, B, weight)
    for r, i, s, j in blocks(d):
        assert_close(
            weighted.partial(r, i, s, j), weight * plain.partial(r, i, s, j), CAUCHY
        )
    np.testing.assert_array_equal(weight, before)


@every_kernel
@every_dimension
def test_buffers_from_a_pool_give_the_same_numbers(case, d):
    kernel, _ = case.build(0.9, d)
    A, B = points(d)
    pool = BufferPool()

    def dirty(shape):
        buffer = pool.empty(shape)
        buffer[...] = np.nan  # whoever reads before writing will show it
        return buffer

    plain = kernel.at(A, B)
    for _ in range(2):  # the second round gets the buffers of the first
        pooled = kernel.at(A, B, empty=dirty)
        for r, i, s, j in blocks(d):
            np.testing.assert_array_equal(
                pooled.partial(r, i, s, j), plain.partial(r, i, s, j)
            )
        pool.recycle()


@every_kernel
def test_writing_in_a_derivative_does_not_change_later_answers(case):
    kernel, _ = case.build(1.1, 2)
    A, B = points(2)
    pairs, untouched = kernel.at(A, B), kernel.at(A, B)
    for r, i, s, j in blocks(2):
        if r + s:
            pairs.partial(r, i, s, j)[...] = np.nan
    for r, i, s, j in blocks(2):
        np.testing.assert_array_equal(
            pairs.partial(r, i, s, j), untouched.partial(r, i, s, j)
        )


@every_kernel
@every_dimension
@pytest.mark.parametrize("ell", [0.3, 1.0, 3.0])
def test_gram_matrix_of_all_derivatives_is_positive_semidefinite(case, d, ell):
    kernel, _ = case.build(ell, d)
    points_ = np.random.default_rng(5).normal(size=(6, d))
    pairs = kernel.at(points_, points_)
    features = [(0, 0), *((r, i) for r in (1, 2) for i in range(d))]
    gram = np.block(
        [[pairs.partial(r, i, s, j) for s, j in features] for r, i in features]
    )
    assert_close(gram, gram.T, CAUCHY)
    # Scaled to a unit diagonal, since derivatives have different units.
    root = np.sqrt(np.maximum(np.diag(gram), 1e-300))
    eigenvalues = np.linalg.eigvalsh(gram / root[:, None] / root)
    assert eigenvalues.min() > -CAUCHY * len(gram)
    assert eigenvalues.max() > 0.5


@pytest.mark.parametrize("kernel", [Gaussian(0.5), Matern(0.5)], ids=str)
def test_derivatives_exist_for_points_without_neighbours(kernel):
    far = kernel.at(np.zeros((1, 2)), np.full((1, 2), 1e8))
    for r, i, s, j in blocks(2):
        assert far.partial(r, i, s, j) == 0.0
