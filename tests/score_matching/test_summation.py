"""Sums over many rows: Gaussian products against loops, and any split of the rows."""

import functools
from dataclasses import replace

import numpy as np
import pytest
from numpy.random import default_rng

from kexpfam.kernels import Constant, Gaussian, RationalQuadratic, separable
from kexpfam.score_matching import Basis, ScoreSample, Summation, statistics
from kexpfam.score_matching.low_rank import ROW_BLOCK
from tests.selection.cases import make_sample
from tests.tolerances import assert_close

# Exponents are differences of squares of a few units, and their rounding is amplified
# by sums over a few thousand rows.
SUMS = 1e-11

KERNELS = {
    "isotropic": separable(Gaussian(0.9), Gaussian(0.6)),
    "one length per column": separable(Gaussian((0.5, 2.0)), Gaussian((0.6, 1.1))),
    "constant in x": separable(Constant(0.3), Gaussian(0.6)),
}


def slow_statistics(basis, sample):
    """C and b row by row, with the features that every other fit uses."""
    C, b = np.zeros((basis.size, basis.size)), np.zeros(basis.size)
    for a in range(len(sample.Y)):
        pairs = basis.pairs(sample.X[a : a + 1], sample.Y[a : a + 1])
        for i in range(sample.Y.shape[1]):
            F = basis.features(pairs, 1, i)[0]
            S = basis.features(pairs, 2, i)[0]
            g, gsm_linear = sample.gsm_weights[a, i], sample.gsm_linear[a, i]
            C += sample.weights[a] * g * np.outer(F, F)
            b += sample.weights[a] * (g * S + gsm_linear * F)
    return C, b


def basis_of(kernel, sample, centers=7):
    return Basis(kernel, sample.X[:centers], sample.Y[:centers], derivatives=False)


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("bounded", [False, True])
def test_row_blocks_of_gaussian_products_equal_sums_over_rows(name, bounded):
    sample = make_sample(60, 2, 2, seed=5, weighted=True)
    if bounded:
        sample = replace(sample, gsm_weights=default_rng(1).uniform(0, 1, (60, 2)))
        sample.gsm_weights[3] = 0.0  # on the edge of the support
    basis = basis_of(KERNELS[name], sample)
    assert Summation(basis)._gaussian is not None
    found = statistics(basis, sample)
    C, b = slow_statistics(basis, sample)
    assert_close(found.C, C, SUMS)
    assert_close(found.b, b, SUMS)
    assert found.weight == pytest.approx(sample.weights.sum())


def test_other_kernels_and_derivative_bases_take_the_general_way():
    sample = make_sample(40, 2, 1, seed=5, weighted=True)
    kernel = separable(RationalQuadratic(1.0), Gaussian(0.6))
    for basis in (
        basis_of(kernel, sample),
        Basis(KERNELS["isotropic"], sample.X[:5], sample.Y[:5], True),
        basis_of(KERNELS["isotropic"] + KERNELS["constant in x"], sample),
    ):
        assert Summation(basis)._gaussian is None
        C, b = slow_statistics(basis, sample)
        found = statistics(basis, sample)
        assert_close(found.C, C, SUMS)
        assert_close(found.b, b, SUMS)


def test_rows_without_weight_and_rows_far_away_add_nothing():
    sample = make_sample(30, 2, 1, seed=6)
    basis = basis_of(KERNELS["isotropic"], sample)
    far = replace(
        sample.part(slice(0, 2)), X=np.full((2, 2), 1e200), Y=np.full((2, 1), -1e300)
    )
    ignored = replace(sample.part(slice(4, 9)), weights=np.zeros(5))
    summation = Summation(basis)
    alone = summation.add(summation.start(), sample)
    C, b = alone.C.copy(), alone.b.copy()
    both = functools.reduce(summation.add, [far, ignored], alone)
    np.testing.assert_array_equal(both.C, C)
    np.testing.assert_array_equal(both.b, b)


def test_centres_far_out_are_left_to_exact_differences():
    sample = make_sample(30, 2, 1, seed=6)
    wide = replace(sample, X=1e6 * sample.X)
    basis = basis_of(KERNELS["isotropic"], wide)
    assert Summation(basis)._gaussian is None
    C, _ = slow_statistics(basis, wide)
    assert_close(statistics(basis, wide).C, C, SUMS)


def many_rows(n=3 * ROW_BLOCK + 17):
    rng = default_rng(0)
    X, Y = rng.normal(size=(n, 3)), rng.normal(size=(n, 1))
    return ScoreSample(X, Y, rng.uniform(0.1, 2, n), -Y / 4, np.ones((n, 1)))


@pytest.mark.parametrize("n_jobs", [1, 2, 5, None])
def test_threads_and_row_blocks_do_not_change_the_sums(n_jobs):
    sample = many_rows()
    basis = basis_of(separable(Gaussian(2.0), Gaussian(0.8)), sample, 40)
    whole = statistics(basis, sample, n_jobs=n_jobs)
    pairs = basis.pairs(sample.X, sample.Y)
    F = basis.features(pairs, 1, 0)
    assert_close(whole.C, F.T @ (sample.weights[:, None] * F), SUMS)
    np.testing.assert_array_equal(whole.C, whole.C.T)


def test_any_split_in_any_order_gives_the_same_sums():
    sample = many_rows()
    basis = basis_of(separable(Gaussian(2.0), Gaussian(0.8)), sample, 40)
    whole = statistics(basis, sample)
    summation, rng = Summation(basis), default_rng(3)
    for _ in range(3):
        order = rng.permutation(len(sample.Y))
        cuts = np.sort(rng.integers(0, len(order), 7))
        parts = [
            summation.add(summation.start(), sample.part(rows))
            for rows in np.split(order, cuts)
        ]
        merged = functools.reduce(summation.combine, parts)
        assert_close(merged.C, whole.C, 1e-13)
        assert np.array_equal(merged.C, merged.C.T)
        assert_close(merged.b, whole.b, 1e-11)
        assert merged.weight == pytest.approx(whole.weight, rel=1e-14)
