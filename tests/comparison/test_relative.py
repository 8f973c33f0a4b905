"""The test of relative similarity: its statistic, its error, its size and its power."""

import itertools

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_array_equal
from scipy.stats import norm

import kexpfam
from kexpfam.comparison import relative_mmd_test
from kexpfam.comparison.relative import _residual_between, _residual_within
from kexpfam.comparison.samples import TILE, sums_between, sums_within
from kexpfam.errors import DegenerateDataError
from kexpfam.kernels import Gaussian, RationalQuadratic
from tests.oracles.comparison import (
    slow_difference_variance,
    slow_mmd,
    slow_residual_between,
    slow_residual_within,
)
from tests.tolerances import STANDARD_ERRORS, assert_close


def gaussian(a, b):
    return np.exp(-0.5 * np.sum((a - b) ** 2) / 0.9**2)


def rational(a, b):
    return 1.0 / (1.0 + 0.5 * np.sum((a - b) ** 2) / 0.9**2)


KERNELS = [(Gaussian(0.9), gaussian), (RationalQuadratic(0.9, alpha=1.0), rational)]


@pytest.fixture(scope="module")
def samples():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(13, 2))
    return Z, rng.normal(1.0, 1.0, (9, 2)), rng.normal(-0.5, 2.0, (17, 2))


def simulate(draw, repeats, *, seed=0):
    """Differences, standard errors and p-values of so many triples of samples."""
    rng = np.random.default_rng(seed)
    results = [relative_mmd_test(*draw(rng)) for _ in range(repeats)]
    return np.array([(r.difference, r.standard_error, r.p_value) for r in results]).T


def tie(sizes, shift, columns=2):
    """Samples on either side of the reference, equally far from it."""
    r, m, n = sizes

    def draw(rng):
        return (
            rng.normal(size=(r, columns)),
            rng.normal(shift, 1.0, size=(m, columns)),
            rng.normal(-shift, 1.0, size=(n, columns)),
        )

    return draw


def rejects_no_more_often_than(level, p_values):
    """Whether the rate of rejections is the level at most, but for chance."""
    error = np.sqrt(level * (1.0 - level) / len(p_values))
    return np.mean(p_values < level) < level + STANDARD_ERRORS * error


@pytest.mark.parametrize(("kernel", "slow"), KERNELS)
class TestFormulas:
    def test_statistics_equal_loops_over_pairs(self, kernel, slow, samples):
        Z, X, Y = samples
        result = relative_mmd_test(Z, X, Y, kernel=kernel)
        assert_close(result.mmd_first, slow_mmd(slow, Z, X))
        assert_close(result.mmd_second, slow_mmd(slow, Z, Y))
        assert_close(result.difference, slow_mmd(slow, Z, X) - slow_mmd(slow, Z, Y))

    def test_error_equals_loops_and_least_squares(self, kernel, slow, samples):
        result = relative_mmd_test(*samples, kernel=kernel)
        # Nothing is cut off at zero here: the samples differ enough.
        expected = np.sqrt(slow_difference_variance(slow, *samples))
        assert_close(result.standard_error, expected)
        assert_close(result.statistic, result.difference / expected)
        assert_close(result.p_value, norm.sf(result.statistic))

    def test_error_is_that_of_the_covariance(self, kernel, slow, samples):
        result = relative_mmd_test(*samples, kernel=kernel)
        C = result.covariance
        assert_close(result.standard_error**2, C[0, 0] + C[1, 1] - 2 * C[0, 1])
        assert np.linalg.eigvalsh(C).min() > 0
        assert C[0, 1] == C[1, 0]

    def test_residuals_equal_least_squares(self, kernel, slow, samples):
        Z, X, _ = samples
        between = _residual_between(sums_between(kernel, Z, X))
        assert_close(between, slow_residual_between(slow, Z, X))
        within = _residual_within(sums_within(kernel, Z))
        assert_close(within, slow_residual_within(slow, Z))


def test_residuals_are_unbiased_over_all_samples_of_a_small_distribution():
    # Three equally likely points: k̃ is k without its means over rows and columns.
    points, kernel = np.array([[0.0], [0.7], [2.0]]), Gaussian(1.0)
    K = kernel(points, points)
    means = K.mean(axis=0)
    variance = np.mean((K - means - means[:, None] + K.mean()) ** 2)

    def draws(size):
        return [points[list(w)] for w in itertools.product(range(3), repeat=size)]

    within = [_residual_within(sums_within(kernel, A)) for A in draws(4)]
    assert_close(np.mean(within), variance)
    pairs = itertools.product(draws(3), draws(2))
    between = [_residual_between(sums_between(kernel, A, B)) for A, B in pairs]
    assert_close(np.mean(between), variance)


class TestTiles:
    def test_sums_over_several_tiles_equal_those_of_the_matrix(self):
        rng = np.random.default_rng(1)
        A, B = rng.normal(size=(2 * TILE + 7, 3)), rng.normal(size=(TILE + 1, 3))
        K = Gaussian(1.3)(A, B)
        sums = sums_between(Gaussian(1.3), A, B)
        assert_close(sums.rows, K.sum(axis=1))
        assert_close(sums.columns, K.sum(axis=0))
        assert_close(sums.squares, np.sum(K**2))
        K = Gaussian(1.3)(A, A)
        np.fill_diagonal(K, 0.0)
        sums = sums_within(Gaussian(1.3), A)
        assert_close(sums.rows, K.sum(axis=1))
        assert_close(sums.squares, np.sum(K**2))

    def test_no_array_grows_with_the_square_of_the_rows(self, monkeypatch):
        shapes = []
        original = Gaussian.values

        def values(self, A, B, empty=np.empty):
            shapes.append((len(A), len(B)))
            return original(self, A, B, empty)

        monkeypatch.setattr(Gaussian, "values", values)
        rng = np.random.default_rng(2)
        relative_mmd_test(*rng.normal(size=(3, 3 * TILE, 1)))
        assert max(max(shape) for shape in shapes) == TILE
        # Three triangles of six tiles, and two squares of nine.
        assert len(shapes) == 3 * 6 + 2 * 9


class TestDirection:
    def test_a_small_p_value_says_that_the_second_is_closer(self):
        rng = np.random.default_rng(3)
        data, near, far = (rng.normal(shift, 1.0, 300) for shift in (0.0, 0.1, 1.0))
        result = relative_mmd_test(data, far, near)
        assert result.p_value < 1e-6
        assert result.difference > 0
        assert result.mmd_first > result.mmd_second
        assert str(result).startswith("second is closer to the reference than first")
        turned = relative_mmd_test(data, near, far)
        assert turned.p_value > 1 - 1e-6
        assert str(turned).startswith("first is closer to the reference than second")

    def test_exchanging_the_samples_turns_the_result_round(self, samples):
        Z, X, Y = samples
        one, other = relative_mmd_test(Z, X, Y), relative_mmd_test(Z, Y, X)
        assert_close(one.p_value, 1.0 - other.p_value)
        assert_close(one.difference, -other.difference)
        assert_close(one.covariance, other.covariance[::-1, ::-1])

    def test_the_statistic_grows_with_the_effect(self):
        rng = np.random.default_rng(4)
        data, noise, near = rng.normal(size=(3, 200, 2))
        found = [
            relative_mmd_test(data, noise + shift, near).statistic
            for shift in (0.0, 0.2, 0.4, 0.8)
        ]
        assert found == sorted(found)
        assert found[-1] > 5.0 > abs(found[0])


class TestEqualSamples:
    def test_equal_samples_have_p_one_half(self):
        rng = np.random.default_rng(5)
        data, same = rng.normal(size=(2, 700, 3))
        assert relative_mmd_test(data, same, same).p_value == 0.5
        assert relative_mmd_test(data, data, data).p_value == 0.5

    def test_samples_without_spread_give_no_nan(self):
        ones = np.ones(6)
        assert relative_mmd_test(ones, ones, ones[:5]).p_value == 0.5
        assert relative_mmd_test(ones, 2 * ones, ones[:5]).p_value == 0.0
        assert relative_mmd_test(ones, ones, 2 * ones[:5]).p_value == 1.0

    def test_the_sentence_says_so(self):
        rng = np.random.default_rng(6)
        result = relative_mmd_test(*rng.normal(size=(3, 50)))
        assert str(result).startswith("neither is significantly closer")


class TestSizeAndPower:
    @pytest.mark.parametrize("sizes", [(60, 60, 60), (100, 40, 80), (40, 100, 60)])
    def test_the_error_is_the_standard_deviation_of_the_difference(self, sizes):
        differences, errors, _ = simulate(tie(sizes, 0.7), 300)
        # A standard deviation of 300 values is known to 1/√600; the rows of a sample
        # that is not normal make that a little more.
        allowed = STANDARD_ERRORS / np.sqrt(600.0)
        found = np.sqrt(np.mean(errors**2)) / differences.std(ddof=1)
        assert found == pytest.approx(1.0, abs=allowed)

    def test_size_under_a_tie(self):
        _, _, p = simulate(tie((60, 40, 90), 0.5), 300, seed=1)
        assert rejects_no_more_often_than(0.05, p)
        assert rejects_no_more_often_than(0.05, 1.0 - p)
        assert np.mean(p < 0.05) > 0.01

    def test_size_where_all_three_have_one_distribution(self):
        _, _, p = simulate(tie((50, 70, 40), 0.0), 300, seed=2)
        assert rejects_no_more_often_than(0.05, p)

    def test_power_with_a_known_order(self):
        def draw(rng):
            data, far, near = rng.normal(size=(3, 80, 2))
            return data, far + 0.7, near + 0.2

        _, _, p = simulate(draw, 50, seed=3)
        assert np.mean(p < 0.05) > 0.9

    @pytest.mark.slow
    @pytest.mark.parametrize("sizes", [(200, 200, 200), (400, 100, 200)])
    @pytest.mark.parametrize("shift", [0.0, 0.2, 0.6])
    def test_size_of_many_simulations(self, sizes, shift):
        differences, errors, p = simulate(tie(sizes, shift), 500, seed=4)
        assert rejects_no_more_often_than(0.05, p)
        found = np.sqrt(np.mean(errors**2)) / differences.std(ddof=1)
        # What is cut off at zero can only make the error too large.
        assert found > 1.0 - STANDARD_ERRORS / np.sqrt(1000.0)
        if shift == 0.6:
            assert found < 1.0 + STANDARD_ERRORS / np.sqrt(1000.0)


class TestKernels:
    def test_units_of_the_columns_do_not_matter_by_default(self, samples):
        scale, offset = np.array([1e3, 1e-2]), np.array([5.0, -7.0])
        one = relative_mmd_test(*samples)
        other = relative_mmd_test(*(sample * scale + offset for sample in samples))
        # Offsets of hundreds of spreads cost a few digits.
        assert_close(other.statistic, one.statistic, 1e-9)

    def test_the_kernel_of_the_result_gives_the_same_result(self, samples):
        result = relative_mmd_test(*samples)
        again = relative_mmd_test(*samples, kernel=result.kernel)
        assert again.statistic == result.statistic

    def test_the_default_lengthscale_is_the_median_distance_of_the_reference(self):
        reference = np.array([0.0, 1.0, 3.0, 7.0])  # distances 1, 2, 3, 4, 6, 7
        other = np.arange(5.0)
        result = relative_mmd_test(reference, other, other)
        assert_close(result.kernel.lengthscale, (3.5,))
        asked = relative_mmd_test(reference, other, other, kernel=Gaussian("median"))
        assert_close(asked.kernel.lengthscale, 3.5)

    def test_the_order_of_rows_does_not_matter(self):
        rng = np.random.default_rng(7)
        Z, X, Y = rng.normal(size=(3, 400, 2))
        one, other = relative_mmd_test(Z, X, Y), relative_mmd_test(Z[::-1], X, Y[::-1])
        assert_close(other.statistic, one.statistic, 1e-9)

    def test_something_else_is_refused(self, samples):
        with pytest.raises(ValueError, match=r"kernel must be a Kernel.* got 1.0"):
            relative_mmd_test(*samples, kernel=1.0)


class TestInput:
    def test_many_rows_are_thinned_reproducibly(self):
        rng = np.random.default_rng(8)
        Z, X, Y = rng.normal(size=(3, 90))
        result = relative_mmd_test(Z, X[:30], Y, max_rows=40, random_state=1)
        assert result.n_rows == (40, 30, 40)
        again = relative_mmd_test(Z, X[:30], Y, max_rows=40, random_state=1)
        assert again.p_value == result.p_value
        every = relative_mmd_test(Z, X[:30], Y, max_rows=None)
        assert every.n_rows == (90, 30, 90)
        with pytest.raises(ValueError, match=r"max_rows must be .* from 4 on, got 3"):
            relative_mmd_test(Z, X, Y, max_rows=3)

    @pytest.mark.parametrize("library", [pd, pl])
    def test_frames_are_taken_by_their_values(self, library, samples):
        frames = [library.DataFrame({"a": S[:, 0], "b": S[:, 1]}) for S in samples]
        expected = relative_mmd_test(*samples)
        result = relative_mmd_test(*frames)
        assert result.p_value == expected.p_value
        assert_array_equal(result.covariance, expected.covariance)

    def test_other_columns_are_refused(self, samples):
        Z, X, Y = samples
        with pytest.raises(
            ValueError, match="first has 1 columns, but reference has 2"
        ):
            relative_mmd_test(Z, X[:, 0], Y)
        frames = [pd.DataFrame(Z, columns=["a", "b"]), pd.DataFrame(X), Y]
        assert relative_mmd_test(*frames).p_value > 0
        frames[1] = pd.DataFrame(X, columns=["b", "a"])
        with pytest.raises(
            ValueError, match=r"first has the columns \['b', 'a'\], but"
        ):
            relative_mmd_test(*frames)

    @pytest.mark.parametrize("value", [np.nan, np.inf])
    def test_missing_values_are_refused(self, value, samples):
        Z, X, Y = (sample.copy() for sample in samples)
        Y[3, 1] = value
        with pytest.raises(ValueError, match="second contains NaN or infinity"):
            relative_mmd_test(Z, X, Y)

    def test_few_rows_are_refused(self, samples):
        Z, X, Y = samples
        with pytest.raises(
            DegenerateDataError, match=r"reference has 3 rows, and .* 4"
        ):
            relative_mmd_test(Z[:3], X, Y)

    def test_other_shapes_are_refused(self, samples):
        Z, X, _ = samples
        with pytest.raises(ValueError, match=r"second must have rows .* \(2, 2, 2\)"):
            relative_mmd_test(Z, X, np.zeros((2, 2, 2)))
        with pytest.raises(ValueError, match="second must be a number or an array"):
            relative_mmd_test(Z, X, [["a", "b"]] * 5)


def test_the_package_is_public():
    assert kexpfam.comparison.relative_mmd_test is relative_mmd_test
