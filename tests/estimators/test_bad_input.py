"""What goes wrong with data and arguments ends in a right answer or a clear error."""

import functools
import re
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.integrate import trapezoid
from sklearn.exceptions import NotFittedError

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
    ConditioningWarning,
    DegenerateDataError,
    KexpfamError,
    NormalizationWarning,
    TableWarning,
)
from kexpfam.kernels import (
    Constant,
    Gaussian,
    InverseMultiquadric,
    Matern,
    RationalQuadratic,
    separable,
)
from kexpfam.tables import TableError

N = 30


def _rows():
    rng = np.random.default_rng(11)
    X = rng.normal(size=(N, 2))
    y = X[:, 0] + 0.5 * rng.gamma(2.0, size=N)
    X.flags.writeable = y.flags.writeable = False
    return X, y


X, Y = _rows()


def raises(kind, *words):
    """Expect an error of one line that ends in a full stop and has the words."""
    parts = "".join(f"(?=.*{re.escape(word)})" for word in words)
    return pytest.raises(kind, match=rf"\A{parts}[^\n]{{20,400}}\.\Z")


def numbers_or_clear_error(use, argument):
    """What `use` returns, or nothing if it refuses with an error about the argument.

    The library's own warnings are allowed, NumPy's are not.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConditioningWarning)
        warnings.simplefilter("ignore", NormalizationWarning)
        try:
            return use()
        except (KexpfamError, ValueError) as error:
            if argument not in str(error):
                raise
            return np.empty(0)


def spoiled(array, value, row=4):
    copy = np.array(array)
    copy[row] = value
    return copy


# --- values that are not numbers -----------------------------------------------------


@pytest.mark.parametrize("bad", [np.inf, -np.inf])
def test_values_that_are_infinite_are_refused_by_name(bad):
    text = "contains infinity"
    with pytest.raises(ValueError, match=f"Input X {text}"):
        KCEF(select=None).fit(spoiled(X, bad), Y)
    with pytest.raises(ValueError, match=f"Input y {text}"):
        KCEF(select=None).fit(X, spoiled(Y, bad))
    with pytest.raises(ValueError, match=f"Input X {text}"):
        KEF(select=None).fit(spoiled(X, bad))
    model = KCEF(select=None).fit(X, Y)
    for method in (model.predict, model.given, model.sample):
        with pytest.raises(ValueError, match=f"Input X {text}"):
            method(spoiled(X, bad))
    with pytest.raises(ValueError, match=f"Input X {text}"):
        KEF(select=None).fit(X).score_samples(spoiled(X, bad))


def test_gaps_are_filled_in_left_out_or_refused_in_a_sentence():
    with pytest.warns(TableWarning, match="gaps in 1 of 30 rows, which were left out"):
        density = KEF(select=None).fit(spoiled(X, np.nan))
    same = KEF(select=None).fit(np.delete(X, 4, axis=0))
    np.testing.assert_array_equal(density.score_samples(X), same.score_samples(X))
    with raises(ValueError, "Input X contains NaN in 1 of 30 rows", "row 4"):
        density.score_samples(spoiled(X, np.nan))
    with raises(ValueError, "NaN in 30 of 30 rows", "2 complete rows at least"):
        KEF(select=None).fit(np.full((30, 2), np.nan))
    model = KCEF(select=None).fit(X, Y)
    with pytest.warns(TableWarning, match="gaps in 1 of 30 rows, and had none"):
        found = model.predict(spoiled(X, np.nan))
    # Nothing is known of that row: an average over all rows, by 32 of 30.
    np.testing.assert_allclose(found[4], model.predict(X).mean(), rtol=0.05)
    with pytest.warns(TableWarning, match="1 of 30 rows have no y"):
        fewer = KCEF(select=None).fit(X, spoiled(Y, np.nan))
    others = np.arange(N) != 4
    same = KCEF(select=None).fit(X[others], Y[others])
    np.testing.assert_array_equal(fewer.predict(X), same.predict(X))
    with raises(ValueError, "y contains NaN in every row"):
        KCEF(select=None).fit(X, np.full(N, np.nan))


def masked(array):
    """An array as a file has it that writes −999 for what was not measured."""
    there = np.zeros(array.shape, dtype=bool)
    there[4] = True
    return np.ma.array(np.where(there, -999.0, array), mask=there)


@pytest.mark.filterwarnings("ignore::kexpfam.errors.TableWarning")
def test_masked_cells_are_gaps():
    model = KCEF(select=None)
    for given, same in [
        ((masked(X), Y), (spoiled(X, np.nan), Y)),
        ((X, masked(Y), masked(np.ones(N))), (X, spoiled(Y, np.nan))),
    ]:
        found = model.fit(*given).predict(X)
        np.testing.assert_array_equal(found, model.fit(*same).predict(X))
    found = model.predict(masked(X))
    np.testing.assert_array_equal(found, model.predict(spoiled(X, np.nan)))
    found = KEF(select=None).fit(masked(X)).score_samples(X)
    same = KEF(select=None).fit(spoiled(X, np.nan)).score_samples(X)
    np.testing.assert_array_equal(found, same)
    with raises(ValueError, "y contains NaN"):
        model.score_samples(X, masked(Y))
    kinds = np.where(Y > 0.5, "much", "little").astype(object)
    columns = {"a": spoiled(X[:, 0], np.nan), "kind": spoiled(kinds, None)}
    there = {"a": masked(X[:, 0]), "kind": np.ma.array(kinds, mask=masked(Y).mask)}
    found = model.fit(there, Y).predict(columns)
    np.testing.assert_array_equal(found, model.fit(columns, Y).predict(there))


def test_nan_in_y_at_score_time_is_refused():
    with raises(ValueError, "y contains NaN", "remove these rows"):
        KCEF(select=None).fit(X, Y).score_samples(X, spoiled(Y, np.nan))


@pytest.mark.parametrize("kind", [str, object])
def test_text_is_refused(kind):
    words = np.array([["a", "b"], ["c", "d"], ["e", "f"]], dtype=kind)
    with pytest.raises(ValueError, match="X must hold numbers, got 'a' in column 0"):
        KCEF(select=None).fit(words, [1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="y holds texts, such as 'a'"):
        KCEF(select=None).fit([[1.0], [2.0], [3.0]], words[:, 0])
    with pytest.raises(ValueError, match="X must hold numbers, got 'a' in column 0"):
        KEF(select=None).fit(words)


def test_complex_numbers_are_refused():
    with pytest.raises(ValueError, match="Complex data not supported"):
        KCEF(select=None).fit(X * 1j, Y)
    with pytest.raises(ValueError, match="Complex data not supported"):
        KEF(select=None).fit(X * 1j)


def test_object_arrays_of_numbers_equal_their_numbers():
    expected = KCEF(select=None).fit(X, Y).score_samples(X, Y)
    model = KCEF(select=None).fit(X.astype(object), Y.astype(object))
    np.testing.assert_allclose(
        model.score_samples(X.astype(object), Y.astype(object)), expected, rtol=1e-10
    )


def test_ragged_lists_are_refused():
    with pytest.raises(ValueError, match=r"inhomogeneous|sequence"):
        KCEF(select=None).fit([[1.0, 2.0], [3.0]], [1.0, 2.0])


# --- shapes --------------------------------------------------------------------------


def test_wrong_width_is_refused_with_both_numbers():
    model = KCEF(select=None).fit(X, Y)
    for method in (model.predict, model.given, model.sample):
        with pytest.raises(
            ValueError, match="X has 1 features, but KCEF is expecting 2"
        ):
            method(X[:, :1])
    with pytest.raises(ValueError, match="X has 3 features, but KEF is expecting 2"):
        KEF(select=None).fit(X).score_samples(np.ones((2, 3)))


@pytest.mark.parametrize("kind", [KEF, KCEF])
def test_flat_x_is_refused(kind):
    with pytest.raises(ValueError, match="Expected 2D array, got 1D array instead"):
        kind().fit(X[:, 0], Y)
    with pytest.raises(ValueError, match="Expected 2D array, got 1D array instead"):
        KCEF(select=None).fit(X, Y).predict(X[0])


@pytest.mark.parametrize("kind", [KEF, KCEF])
@pytest.mark.parametrize("n", [0, 1])
def test_fewer_than_two_rows_are_refused(kind, n):
    with pytest.raises(
        ValueError, match=rf"{n} sample\(s\).* a minimum of 2 is required"
    ):
        kind().fit(X[:n], Y[:n])


def test_x_and_y_of_different_length_are_refused():
    with pytest.raises(ValueError, match=r"inconsistent numbers of samples: \[30, 7\]"):
        KCEF(select=None).fit(X, Y[:7])


def test_missing_y_is_refused():
    with pytest.raises(ValueError, match="requires y to be passed"):
        KCEF(select=None).fit(X, None)


@pytest.mark.parametrize(
    "y", [np.column_stack([Y, Y]), Y[:7], Y[:, None, None], 1.0, None]
)
def test_y_of_another_shape_at_score_time_is_refused_with_both_shapes(y):
    model = KCEF(select=None).fit(X, Y)
    with raises(ValueError, "y must have 30 rows", "1 column", str(np.shape(y))):
        model.score_samples(X, y)
    with raises(ValueError, "y must have 30 rows", str(np.shape(y))):
        model.score(X, y)


def test_one_column_of_y_for_a_model_of_two_is_refused():
    model = KCEF(select=None).fit(X, np.column_stack([Y, X[:, 1] - Y]))
    with raises(ValueError, "y must have 30 rows", "2 column", "(30,)"):
        model.score_samples(X, Y)


@pytest.mark.parametrize("method", ["predict_quantiles", "predict_interval"])
def test_quantiles_of_two_columns_are_refused_with_an_alternative(method):
    model = KCEF(select=None).fit(X, np.column_stack([Y, X[:, 1] - Y]))
    with raises(ValueError, method, "one column of y", "has 2", "sample(X)"):
        getattr(model, method)(X, 0.5)


@pytest.mark.parametrize("shape", [(2,), (N, 2, 2), (2, 5)])
def test_points_that_do_not_match_the_densities_are_refused(shape):
    with raises(ValueError, "y must have one point per density", "(30,)", str(shape)):
        KCEF(select=None).fit(X, Y).given(X).logpdf(np.zeros(shape))


def test_a_density_that_does_not_exist_is_refused():
    p = KCEF(select=None).fit(X, Y).given(X[:3])
    with raises(IndexError, "density 3", "there are 3"):
        p[3]
    with raises(TypeError, "single density"):
        p[0][0]
    with raises(TypeError, "single density"):
        len(p[0])
    with raises(ValueError, "y must be one point or a flat list", "(2, 2)"):
        p[0].logpdf(np.zeros((2, 2)))


# --- degenerate data -----------------------------------------------------------------


def test_two_rows_give_a_normalised_density():
    model = KCEF(select=None).fit(X[:2], Y[:2])
    grid = np.linspace(Y[:2].mean() - 30, Y[:2].mean() + 30, 6001)
    p = model.given(X[:3]).pdf(grid[None])
    np.testing.assert_allclose(trapezoid(p, grid), 1.0, atol=1e-8)
    one = KEF(select=None).fit(Y[:2, None]).distribution()
    np.testing.assert_allclose(trapezoid(one.pdf(grid), grid), 1.0, atol=1e-8)


@pytest.mark.parametrize("value", [0.0, 3.0, 0.1, -1e150, 1e-300, 1e9])
def test_constant_y_is_refused_with_column_and_value(value):
    with raises(
        DegenerateDataError, "y is constant in column 0", f"{value:g}", "remove"
    ):
        KCEF(select=None).fit(X, np.full(N, value))
    with raises(DegenerateDataError, "constant in column 1", f"{value:g}", "remove"):
        KCEF(select=None).fit(X, np.column_stack([Y, np.full(N, value)]))


def test_all_rows_equal_is_refused():
    with raises(DegenerateDataError, "y is constant in column 0"):
        KCEF(select=None).fit(np.repeat(X[:1], N, axis=0), np.repeat(Y[:1], N))


def test_y_that_is_constant_but_for_weightless_rows_is_refused():
    weights = np.ones(N)
    weights[:2] = 0.0
    y = np.where(weights > 0, 2.5, Y)
    with raises(DegenerateDataError, "y is constant in column 0", "2.5"):
        KCEF(select=None).fit(X, y, sample_weight=weights)


def test_errors_of_kef_name_its_argument_x():
    with raises(DegenerateDataError, "X is constant in column 1"):
        KEF(select=None).fit(np.column_stack([Y, np.ones(N)]))
    with raises(DegenerateDataError, "X has 1 rows outside", "row 4"):
        KEF(base=TruncatedBase(lower=0.0)).fit(spoiled(np.abs(X[:, :1]), -1.0))


def test_errors_of_kef_name_its_argument_kernel():
    with raises(TypeError, "kernel must be a kernel", "Gaussian(1.0)", "'rbf'"):
        KEF(kernel="rbf").fit(X)
    with raises(TypeError, "kernel must be a kernel", "SumOfProducts"):
        KEF(kernel=separable(Gaussian(1.0), Gaussian(1.0))).fit(X)


def test_constant_columns_of_x_change_nothing():
    padded = np.column_stack([np.full(N, 1e9), X, np.zeros(N)])
    np.testing.assert_allclose(
        KCEF(select=None).fit(padded, Y).score_samples(padded, Y),
        KCEF(select=None).fit(X, Y).score_samples(X, Y),
        rtol=1e-9,
    )


def test_constant_x_gives_the_marginal_density():
    marginal = KCEF(select=None, kernel_x=Constant()).fit(X, Y).score_samples(X, Y)
    ones = np.ones((N, 3))
    np.testing.assert_allclose(
        KCEF(select=None).fit(ones, Y).score_samples(ones, Y), marginal, rtol=1e-9
    )


@pytest.mark.parametrize("times", [2, 5])
def test_repeated_rows_equal_weights(times):
    repeated = KCEF(select=None).fit(np.repeat(X, times, axis=0), np.repeat(Y, times))
    weighted = KCEF(select=None).fit(X, Y, sample_weight=np.full(N, float(times)))
    np.testing.assert_allclose(
        repeated.score_samples(X, Y), weighted.score_samples(X, Y), rtol=1e-7
    )


def test_many_copies_of_two_rows_give_a_finite_density():
    model = KCEF(select=None).fit(np.repeat(X[:2], 20, axis=0), np.repeat(Y[:2], 20))
    assert np.all(np.isfinite(model.score_samples(X[:2], Y[:2])))


@pytest.mark.parametrize("decimals", [0, 1])
def test_ties_in_y_give_a_finite_density(decimals):
    y = np.round(Y, decimals)
    assert len(np.unique(y)) < N
    log_p = KCEF(select=None).fit(X, y).score_samples(X, y)
    assert np.all(np.isfinite(log_p))
    assert log_p.max() < 5


# --- scales and offsets --------------------------------------------------------------

SCALES = [1e150, 1e-150, 1e8, 1e-8]


@functools.cache
def _untuned(base):
    return KCEF(select=None, base=base, random_state=0).fit(X, Y)


def _numbers(model, x):
    """Everything with the unit of y, at some x."""
    p = model.given(x)
    return {
        "mean": model.predict(x),
        "quantiles": model.predict_quantiles(x, [0.05, 0.5, 0.95]),
        "interval": model.predict_interval(x, 0.5),
        "draws": model.sample(x, 4, random_state=0),
        "std": p.std(),
        "mode": p.mode(),
        "hpd": np.concatenate(p.hpd(0.5)),
    }


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize(
    "base", [None, StudentBase(2.0), MarginalBase(), LocationScaleBase()]
)
def test_the_unit_of_y_changes_only_the_unit_of_the_answer(scale, base):
    unit = _untuned(base)
    scaled = KCEF(select=None, base=base, random_state=0).fit(X, Y * scale)
    np.testing.assert_allclose(
        scaled.score_samples(X, Y * scale) + np.log(scale),
        unit.score_samples(X, Y),
        rtol=1e-7,
        atol=1e-9,
    )
    expected, found = _numbers(unit, X[:4]), _numbers(scaled, X[:4])
    for name, values in expected.items():
        np.testing.assert_allclose(
            found[name] / scale, values, rtol=1e-6, atol=1e-8, err_msg=name
        )
    np.testing.assert_allclose(
        scaled.given(X[:4]).entropy() - np.log(scale),
        unit.given(X[:4]).entropy(),
        rtol=1e-7,
        atol=1e-9,
    )


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("kernel_x", [None, Matern(1.0), RationalQuadratic(1.0)])
def test_the_unit_of_x_does_not_matter(scale, kernel_x):
    unit = KCEF(select=None, kernel_x=kernel_x).fit(X, Y)
    scaled = KCEF(select=None, kernel_x=kernel_x).fit(X * [scale, 1.0], Y)
    np.testing.assert_allclose(
        scaled.score_samples(X * [scale, 1.0], Y),
        unit.score_samples(X, Y),
        rtol=1e-7,
        atol=1e-9,
    )


@pytest.mark.parametrize("scale", SCALES)
def test_the_unit_of_two_columns_changes_only_the_unit_of_the_answer(scale):
    factor = np.array([scale, 1.0])
    unit, scaled = KEF(select=None).fit(X), KEF(select=None).fit(X * factor)
    np.testing.assert_allclose(
        scaled.score_samples(X * factor) + np.log(scale),
        unit.score_samples(X),
        rtol=1e-7,
        atol=1e-9,
    )
    for method in ("mean", "std", "mode"):
        np.testing.assert_allclose(
            getattr(scaled.distribution(), method)() / factor,
            getattr(unit.distribution(), method)(),
            rtol=1e-5,
            atol=1e-6,
            err_msg=method,
        )


@pytest.mark.parametrize("scale", [1e200, 1e-200])
def test_the_standard_deviation_is_right_where_the_variance_is_not_a_number(scale):
    expected = KCEF(select=None).fit(X, Y).given(X[:3]).std()
    found = KCEF(select=None).fit(X, Y * scale).given(X[:3]).std()
    np.testing.assert_allclose(found / scale, expected, rtol=1e-9)
    found = KEF(select=None).fit(X * scale).distribution().std()
    np.testing.assert_allclose(
        found / scale, KEF(select=None).fit(X).distribution().std(), rtol=1e-9
    )


@pytest.mark.parametrize("offset", [1e9, -1e9, 1e6])
def test_a_huge_offset_costs_only_the_digits_it_hides(offset):
    x, y = (X + offset) - offset, (Y + offset) - offset
    expected = KCEF(select=None).fit(x, y).score_samples(x, y)
    moved = KCEF(select=None).fit(x + offset, y + offset)
    np.testing.assert_allclose(
        moved.score_samples(x + offset, y + offset), expected, atol=1e-6
    )
    np.testing.assert_allclose(
        moved.predict(x + offset) - offset,
        KCEF(select=None).fit(x, y).predict(x),
        atol=1e-6,
    )


@pytest.mark.parametrize("offset", [1e3, -1e6])
def test_an_offset_without_standardising_needs_only_a_base_that_moves_along(offset):
    at_zero = KCEF(select=None, standardize=False, base=GaussianBase(2.0)).fit(X, Y)
    moved = KCEF(
        select=None, standardize=False, base=GaussianBase(2.0, location=offset)
    )
    np.testing.assert_allclose(
        moved.fit(X, Y + offset).score_samples(X, Y + offset),
        at_zero.score_samples(X, Y),
        atol=1e-6,
    )


def test_y_too_large_to_average_is_refused_or_right():
    y = Y / np.abs(Y).max() * 1e308
    unit = (
        KCEF(select=None)
        .fit(X, Y / np.abs(Y).max())
        .score_samples(X, Y / np.abs(Y).max())
    )
    np.testing.assert_allclose(
        KCEF(select=None).fit(X, y).score_samples(X, y) + np.log(1e308), unit, atol=1e-9
    )


def test_one_far_outlier_in_y_leaves_a_finite_density():
    y = spoiled(Y, 1e12)
    assert np.all(np.isfinite(KCEF(select=None).fit(X, y).score_samples(X, y)))


# --- bounded supports ----------------------------------------------------------------

BOUNDED = [UniformBase(0.0, 20.0), TruncatedBase(lower=0.0), TruncatedBase(upper=20.0)]


def _outside(base):
    if isinstance(base, TruncatedBase) and np.isinf(base.lower):
        return np.array([20.5, 1e3, 1e300, np.inf])
    outside = np.array([-0.5, -1e3, -1e300, -np.inf])
    return outside if np.isinf(base.upper) else np.append(outside, [20.5, 1e300])


@pytest.mark.parametrize("base", BOUNDED, ids=repr)
def test_y_outside_the_support_is_refused_with_row_and_value(base):
    value = float(_outside(base)[0])
    y = spoiled(np.abs(Y), value, row=17)
    with raises(
        DegenerateDataError, "y has 1 rows outside", "row 17", f"{value:g}", "Widen"
    ):
        KCEF(select=None, base=base).fit(X, y)


def test_the_row_outside_the_support_is_counted_with_weightless_rows():
    y = spoiled(np.abs(Y), -3.0, row=17)
    weights = np.ones(N)
    weights[[2, 5]] = 0.0
    with raises(DegenerateDataError, "row 17 is -3"):
        KCEF(select=None, base=TruncatedBase(lower=0.0)).fit(
            X, y, sample_weight=weights
        )


@pytest.mark.parametrize("base", BOUNDED, ids=repr)
def test_log_density_outside_the_support_is_minus_infinity(base):
    model = KCEF(select=None, base=base).fit(X, np.abs(Y))
    outside = _outside(base)
    x = X[: len(outside)]
    assert np.all(model.score_samples(x, outside) == -np.inf)
    assert model.score(x, outside) == -np.inf
    p = model.given(X[:2])
    assert np.all(p.logpdf(outside[None]) == -np.inf)
    assert np.all(p.pdf(outside[None]) == 0.0)
    assert np.all(p[0].logpdf(outside) == -np.inf)


@pytest.mark.parametrize("base", BOUNDED, ids=repr)
def test_the_distribution_function_outside_the_support_is_zero_or_one(base):
    p = KCEF(select=None, base=base).fit(X, np.abs(Y)).given(X[:5])
    for y in _outside(base):
        below = 0.0 if y < 0 else 1.0
        assert np.all(p.cdf(y) == below)
        assert np.all(p.sf(y) == 1.0 - below)


def test_the_distribution_function_at_infinity_is_zero_or_one():
    p = KCEF(select=None).fit(X, Y).given(X)
    assert np.all(p.cdf(np.inf) == 1.0)
    assert np.all(p.sf(np.inf) == 0.0)
    assert np.all(p.cdf(-np.inf) == 0.0)
    assert np.all(p.sf(-np.inf) == 1.0)


@pytest.mark.parametrize("base", BOUNDED, ids=repr)
def test_both_ends_of_the_support_belong_to_it(base):
    model = KCEF(select=None, base=base).fit(X, np.abs(Y))
    ends = model.given(X).support
    for end in ends[0][np.isfinite(ends[0])]:
        assert end == pytest.approx(0.0, abs=1e-12) or end == pytest.approx(20.0)
    lower = 0.0 if np.isfinite(ends[0, 0]) else 20.0
    assert np.all(np.isfinite(model.score_samples(X, np.full(N, lower))))


def test_responses_on_both_bounds_can_be_fitted():
    y = (Y - Y.min()) / (Y.max() - Y.min())
    assert y.min() == 0.0
    assert y.max() == 1.0
    model = KCEF(select=None, base=UniformBase(0.0, 1.0)).fit(X, y)
    assert np.all(np.isfinite(model.score_samples(X, y)))


def test_two_columns_on_a_square_give_no_warning():
    square = np.random.default_rng(0).uniform(size=(60, 2))
    model = KEF(base=UniformBase(0.0, 1.0)).fit(square)
    assert model.distribution().log_partition_error < 1e-6
    assert model.score_samples([[0.5, 1.5]]) == -np.inf


@pytest.mark.parametrize(
    ("lower", "upper"), [(1.0, 0.0), (1.0, 1.0), (np.nan, 1.0), ((0.0, 2.0), 1.0)]
)
def test_bounds_in_the_wrong_order_are_refused(lower, upper):
    with raises(ValueError, "lower"):
        UniformBase(lower, upper)
    with raises(ValueError, "lower"):
        TruncatedBase(lower=lower, upper=upper)


def test_bounds_far_from_the_inner_density_are_refused():
    with raises(DegenerateDataError, "TruncatedBase keeps less than 1e-6", "bounds"):
        KCEF(select=None, base=TruncatedBase(GaussianBase(0.1, -9.0), lower=0.0)).fit(
            X, np.abs(Y)
        )


# --- weights -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        (spoiled(np.ones(N), -1.0), ("finite, not negative", "-1 to 1")),
        (spoiled(np.ones(N), np.nan), ("finite, not negative", "nan")),
        (spoiled(np.ones(N), np.inf), ("finite, not negative", "1 to inf")),
        (np.zeros(N), ("not zero everywhere", "0 to 0")),
        (np.ones(7), ("shape (30,)", "(7,)")),
        (np.ones((N, 1)), ("shape (30,)", "(30, 1)")),
        ([], ("shape (30,)", "(0,)")),
    ],
    ids=["negative", "nan", "inf", "zero", "short", "column", "empty"],
)
def test_wrong_weights_are_refused_with_what_was_seen(weights, words):
    for kind in (KEF, KCEF):
        with raises(ValueError, "sample_weight", *words):
            kind().fit(X, Y, sample_weight=weights)
    with raises(ValueError, "sample_weight", *words):
        KCEF(select=None).fit(X, Y).score(X, Y, sample_weight=weights)
    with raises(ValueError, "sample_weight", *words):
        KEF(select=None).fit(X).score(X, sample_weight=weights)


def test_one_row_with_weight_is_refused():
    with raises(DegenerateDataError, "2 rows with positive weight", "got 1"):
        KCEF(select=None).fit(X, Y, sample_weight=np.eye(N)[3])


def test_rows_of_weight_zero_have_no_influence():
    weights = np.ones(N)
    weights[10:] = 0.0
    wild = np.where(weights > 0, Y, 1e6)
    np.testing.assert_allclose(
        KCEF(select=None).fit(X, wild, sample_weight=weights).score_samples(X, Y),
        KCEF(select=None).fit(X[:10], Y[:10]).score_samples(X, Y),
        rtol=1e-9,
    )


@pytest.mark.parametrize("size", [1e-320, 1e-300, 1e200])
def test_score_takes_weights_of_any_size(size):
    model = KCEF(select=None).fit(X, Y)
    weighted = model.score(X, Y, sample_weight=np.full(N, size))
    assert weighted == pytest.approx(model.score(X, Y), rel=1e-3)


@pytest.mark.parametrize("size", [1e-320, 1e-300, 1e200])
def test_fit_takes_weights_of_any_size_or_refuses_them(size):
    # They count rows, so λ by rule becomes useless; but it must not become NaN.
    model = KCEF(select=None, regularization=0.1).fit(
        X, Y, sample_weight=np.full(N, size)
    )
    np.testing.assert_allclose(
        model.score_samples(X, Y),
        KCEF(select=None, regularization=0.1).fit(X, Y).score_samples(X, Y),
        rtol=1e-3,
    )


# --- regularization ------------------------------------------------------------------


@pytest.mark.parametrize("kind", [KEF, KCEF])
@pytest.mark.parametrize(
    "value", [0, 0.0, -0.0, -1.0, np.nan, np.inf, "a", True, [0.1], 1 + 0j]
)
def test_regularization_that_is_not_a_positive_number_is_refused(kind, value):
    with raises(ValueError, "regularization must be a positive number", repr(value)):
        kind(regularization=value).fit(X, Y)


@pytest.mark.parametrize("value", [1, np.float32(0.1), np.int64(2), 0.1])
def test_any_kind_of_positive_number_is_a_regularization(value):
    model = KCEF(select=None, regularization=value).fit(X, Y)
    assert model.regularization_ == float(value)
    assert isinstance(model.regularization_, float)


@pytest.mark.parametrize("value", [1e-12, 1e-30, 1e-308])
@pytest.mark.parametrize(
    "score",
    [
        lambda value: KEF(regularization=value).fit(X[:, :1]).score_samples(X[:, :1]),
        lambda value: KEF(regularization=value).fit(X).score_samples(X),
        lambda value: (
            KCEF(select=None, regularization=value).fit(X, Y).score_samples(X, Y)
        ),
    ],
    ids=["KEF", "KEF of two columns", "KCEF"],
)
def test_a_tiny_regularization_warns_or_is_refused_but_gives_no_nonsense(score, value):
    log_p = numbers_or_clear_error(lambda: score(value), "regularization")
    assert not np.any(np.isnan(log_p))
    # A density that is +inf at a data point would win every comparison.
    assert np.all(log_p < np.inf)


@pytest.mark.parametrize("value", [1e-30, 1e-300])
def test_a_regularization_below_rounding_warns_and_says_what_to_raise(value):
    with pytest.warns(ConditioningWarning, match=r"raise regularization \(now 1e-30"):
        KCEF(select=None, regularization=value).fit(X, Y)


@pytest.mark.parametrize("value", [1e20, 1e100, 1e300])
def test_a_huge_regularization_gives_the_base_density(value):
    base = stats.norm(Y.mean(), 2.0 * Y.std())
    model = KCEF(select=None, regularization=value).fit(X, Y)
    np.testing.assert_allclose(model.score_samples(X, Y), base.logpdf(Y), rtol=1e-9)
    flat = KEF(regularization=value).fit(Y[:, None])
    np.testing.assert_allclose(flat.score_samples(Y[:, None]), base.logpdf(Y))


# --- other arguments -----------------------------------------------------------------


@pytest.mark.parametrize("name", ["kernel_y", "kernel_x"])
@pytest.mark.parametrize("value", ["rbf", 1.0, Gaussian, GaussianBase(1.0)])
def test_a_kernel_that_is_none_is_refused_with_an_example(name, value):
    with raises(TypeError, f"{name} must be a kernel", "Gaussian(1.0)", repr(value)):
        KCEF(select=None, **{name: value}).fit(X, Y)


@pytest.mark.parametrize("value", ["rbf", Gaussian(1.0)])
def test_a_joint_kernel_that_is_none_is_refused_with_an_example(value):
    with raises(TypeError, "kernel must be a joint kernel", "separable", repr(value)):
        KCEF(select=None, kernel=value).fit(X, Y)


@pytest.mark.parametrize("name", ["kernel_y", "kernel_x"])
def test_a_kernel_given_twice_is_refused(name):
    joint = separable(Gaussian(1.0), Gaussian(1.0))
    with raises(
        ValueError, "kernel is a joint kernel", "kernel_x and kernel_y", "not both"
    ):
        KCEF(select=None, kernel=joint, **{name: Gaussian(2.0)}).fit(X, Y)


@pytest.mark.parametrize("nu", [0.5, 1.5])
def test_a_kernel_too_rough_for_score_matching_is_refused_with_an_alternative(nu):
    with raises(ValueError, "kernel_y", "not smooth enough", "Matern(nu=2.5)"):
        KCEF(select=None, kernel_y=Matern(1.0, nu=nu)).fit(X, Y)
    KCEF(select=None, kernel_x=Matern(1.0, nu=nu)).fit(X, Y)  # x is not differentiated


def test_lengthscales_for_another_number_of_columns_are_refused():
    with raises(ValueError, "lengthscale has 3 values", "2 columns"):
        KCEF(select=None, kernel_x=Gaussian((1.0, 2.0, 3.0))).fit(X, Y)
    with raises(ValueError, "lengthscale has 2 values", "1 columns"):
        KCEF(select=None, kernel_y=Gaussian((1.0, 2.0))).fit(X, Y)


@pytest.mark.parametrize("value", ["a", 0.0, -1.0, np.nan, np.inf, (), ((1.0,),)])
def test_a_lengthscale_that_is_no_length_is_refused(value):
    with raises(ValueError, "lengthscale must be a positive number", repr(value)):
        Gaussian(value)


@pytest.mark.parametrize("lengthscale", [1e-300, 1e-160, 1e160, 1e300])
def test_an_absurd_lengthscale_of_y_is_refused_or_gives_a_finite_density(lengthscale):
    # One kernel is zero between any two rows, the other one everywhere: neither is
    # useful, and neither may end in a ZeroDivisionError or NaN.
    for model in (
        KCEF(select=None, kernel_y=Gaussian(lengthscale)),
        KCEF(select=None, kernel_y=Gaussian(lengthscale), regularization=1.0),
    ):
        log_p = numbers_or_clear_error(
            lambda model=model: model.fit(X, Y).score_samples(X, Y), "lengthscale"
        )
        assert np.all(np.isfinite(log_p))


@pytest.mark.parametrize("lengthscale", [1e-300, 1e-160, 1e160, 1e300])
def test_an_absurd_lengthscale_of_x_gives_its_limit(lengthscale):
    if lengthscale > 1:
        limit = KCEF(select=None, kernel_x=Constant()).fit(X, Y)
    else:
        limit = KCEF(select=None, kernel_x=Gaussian(1e-9)).fit(X, Y)
    found = (
        KCEF(select=None, kernel_x=Gaussian(lengthscale)).fit(X, Y).score_samples(X, Y)
    )
    np.testing.assert_allclose(found, limit.score_samples(X, Y), rtol=1e-7)


@pytest.mark.parametrize("value", [2.0, GaussianBase, Gaussian(1.0)])
def test_a_base_that_is_none_is_refused_with_an_example(value):
    for kind in (KEF, KCEF):
        with raises(TypeError, "base must be", "GaussianBase(scale=2.0)", repr(value)):
            kind(base=value).fit(X, Y)


def test_a_conditional_base_is_refused_where_there_is_no_condition():
    with raises(TypeError, "base must be an unconditional base density"):
        KEF(base=LocationScaleBase()).fit(X)


@pytest.mark.parametrize(
    "base",
    [
        GaussianBase((1.0, 2.0, 3.0)),
        GaussianBase(1.0, location=(0.0,)),
        StudentBase((1.0, 2.0, 3.0)),
        UniformBase((-9.0, -9.0, -9.0), 9.0),
        TruncatedBase(lower=(-9.0, -9.0, -9.0)),
    ],
    ids=repr,
)
def test_base_parameters_for_another_number_of_columns_are_refused(base):
    with raises(ValueError, "column"):
        KCEF(select=None, base=base).fit(X, X[::-1])


@pytest.mark.parametrize(
    "make",
    [
        GaussianBase,
        lambda value: StudentBase(1.0, df=value),
        lambda value: GeneralizedGaussianBase(1.0, power=value),
        lambda value: RationalQuadratic(1.0, alpha=value),
        lambda value: InverseMultiquadric(1.0, power=value),
        lambda value: Matern(1.0, nu=value),
        Constant,
    ],
    ids=["scale", "df", "power", "alpha", "imq power", "nu", "constant"],
)
@pytest.mark.parametrize("value", [0.0, -1.0, np.nan, np.inf, "a"])
def test_parameters_of_kernels_and_bases_that_are_not_positive_are_refused(make, value):
    with raises((ValueError, TypeError), "must be", repr(value)):
        make(value)


@pytest.mark.parametrize("location", [np.nan, np.inf, "a"])
def test_a_location_that_is_no_number_is_refused(location):
    with raises(ValueError, "location must be a number", repr(location)):
        GaussianBase(1.0, location=location)


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_a_base_of_absurd_width_is_refused_or_gives_numbers(scale):
    def score():
        return KCEF(select=None, base=GaussianBase(scale)).fit(X, Y).score_samples(X, Y)

    log_p = numbers_or_clear_error(score, "scale")
    assert not np.any(np.isnan(log_p))


@pytest.mark.parametrize("value", ["cv", "", 1])
def test_an_unknown_select_is_refused_with_what_there_is(value):
    with raises(ValueError, "'likelihood', 'score', or None", f"got {value!r}"):
        KCEF(select=value).fit(X, Y)


@pytest.mark.parametrize("value", ["bayes", None, 3])
def test_an_unknown_search_is_refused_with_what_there_is(value):
    with raises(ValueError, "'grid', 'gradient', 'paper'", f"got {value!r}"):
        KCEF(search=value).fit(X, Y)


UNFITTED = {
    "score_samples": lambda model: model.score_samples(X, Y),
    "score": lambda model: model.score(X, Y),
    "predict": lambda model: model.predict(X),
    "predict_quantiles": lambda model: model.predict_quantiles(X, [0.5]),
    "predict_interval": lambda model: model.predict_interval(X),
    "sample": lambda model: model.sample(X),
    "given": lambda model: model.given(X),
    "plot": lambda model: model.plot(X[:, :1]),
    "save": lambda model: model.save("never-written"),
}


@pytest.mark.parametrize("method", UNFITTED)
def test_an_unfitted_kcef_says_so(method):
    with pytest.raises(NotFittedError, match="KCEF instance is not fitted yet"):
        UNFITTED[method](KCEF())


@pytest.mark.parametrize(
    "use",
    [
        lambda model: model.score_samples(X),
        lambda model: model.score(X),
        lambda model: model.sample(3),
        lambda model: model.distribution(),
        lambda model: model.plot(),
        lambda model: model.save("never-written"),
    ],
    ids=["score_samples", "score", "sample", "distribution", "plot", "save"],
)
def test_an_unfitted_kef_says_so(use):
    with pytest.raises(NotFittedError, match="KEF instance is not fitted yet"):
        use(KEF())


def test_a_failed_fit_leaves_the_estimator_unfitted():
    model = KCEF(select=None, regularization=-1.0)
    with pytest.raises(ValueError, match="regularization"):
        model.fit(X, Y)
    with pytest.raises(NotFittedError):
        model.predict(X)


@pytest.mark.parametrize("value", [-0.1, 1.1, np.nan, -np.inf])
def test_probabilities_outside_the_unit_interval_are_refused(value):
    model = KCEF(select=None).fit(X, Y)
    p = model.given(X[:2])
    with raises(ValueError, "quantiles must lie between 0 and 1", repr(value)):
        model.predict_quantiles(X, [0.5, value])
    with raises(ValueError, "confidence must lie between 0 and 1", repr(value)):
        model.predict_interval(X, value)
    with raises(ValueError, "confidence must lie between 0 and 1", repr(value)):
        p.hpd(value)
    with raises(ValueError, "q must lie between 0 and 1", repr(value)):
        p.ppf(value)


def test_quantiles_zero_and_one_are_the_ends_of_the_support():
    free = KCEF(select=None).fit(X, Y).predict_quantiles(X[:2], [0, 1])
    assert free.tolist() == [[-np.inf, np.inf]] * 2
    bounded = KCEF(select=None, base=UniformBase(0.0, 20.0)).fit(X, np.abs(Y))
    np.testing.assert_allclose(
        bounded.predict_quantiles(X[:2], [0, 1]), [[0, 20]] * 2, atol=1e-12
    )


def test_quantiles_of_rank_two_are_refused_by_name():
    with raises(ValueError, "quantiles", "(1, 2)"):
        KCEF(select=None).fit(X, Y).predict_quantiles(X[:2], [[0.1, 0.5]])


FITTED = KCEF(select=None).fit(X, Y)


@pytest.mark.parametrize(
    ("name", "use"),
    [
        ("y", lambda: FITTED.score(X, ["a"] * N)),
        ("sample_weight", lambda: FITTED.score(X, Y, sample_weight=["a"] * N)),
        ("quantiles", lambda: FITTED.predict_quantiles(X, "a")),
        ("confidence", lambda: FITTED.predict_interval(X, "a")),
        ("confidence", lambda: FITTED.predict_interval(X, None)),
        ("confidence", lambda: FITTED.predict_interval(X, [0.5, 0.9])),
        ("n_samples", lambda: FITTED.sample(X, n_samples=-1)),
        ("n_samples", lambda: FITTED.sample(X, n_samples=1.5)),
        ("n_samples", lambda: KEF(select=None).fit(X).sample(-1)),
        ("random_state", lambda: FITTED.sample(X, random_state="a")),
        ("random_state", lambda: KCEF(select=None, random_state=-1).fit(X, Y)),
        ("n_jobs", lambda: KCEF(select=None, n_jobs="a").fit(X, Y)),
        ("n_jobs", lambda: KCEF(select=None, n_jobs=0).fit(X, Y)),
        ("n_jobs", lambda: KCEF(select=None, n_jobs=1.5).fit(X, Y)),
        ("standardize", lambda: KCEF(select=None, standardize="no").fit(X, Y)),
    ],
)
def test_arguments_of_the_wrong_kind_are_refused_by_name(name, use):
    with raises((ValueError, TypeError), name):
        use()


@pytest.mark.parametrize("columns", [1, 2, 3])
def test_no_draws_are_an_empty_array(columns):
    data = np.column_stack([X, Y])[:, :columns]
    model = KEF(regularization=1.0).fit(data)
    assert model.sample(0).shape == (0, columns)
    assert FITTED.sample(X, n_samples=0).shape == (N, 0)


# --- far away ------------------------------------------------------------------------

FAR_BASES = [
    GaussianBase(2.0),
    StudentBase(2.0, df=3.0),
    GeneralizedGaussianBase(2.0, power=4.0),
    GeneralizedGaussianBase(2.0, power=1.0),
    MarginalBase(),
    LocationScaleBase(),
]


@pytest.mark.parametrize("base", FAR_BASES, ids=lambda base: type(base).__name__)
@pytest.mark.parametrize("distance", [1e3, 1e6, 1e12, 1e100, 1e160, 1e300, np.inf])
def test_the_log_density_of_a_far_y_is_a_number_or_minus_infinity(base, distance):
    model = _untuned(base)
    near = model.score_samples(X[:2], [Y.max(), Y.min()])
    far = model.score_samples(X[:2], [distance, -distance])
    assert np.all(far < near)
    p = model.given(X[:2])
    both = np.array([[distance, -distance]])
    assert np.all(p.logpdf(both) < near.max())
    assert np.all(p.pdf(both) >= 0.0)
    np.testing.assert_allclose(p.cdf(both), [[1, 0]] * 2, atol=1e-6)


@pytest.mark.parametrize("distance", [1e3, 1e6, 1e100, 1e160])
def test_the_log_density_of_a_far_y_with_student_tails_is_its_tail(distance):
    # Far away T is zero and log Z a constant, so the density falls as y^−(df + 1).
    model = KCEF(select=None, base=StudentBase(2.0, df=3.0)).fit(X, Y)
    first = model.score_samples(X[:1], [1e3])
    far = model.score_samples(X[:1], [distance])
    fall = -4.0 * np.log((distance - Y.mean()) / (1e3 - Y.mean()))
    np.testing.assert_allclose(far - first, fall, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("distance", [1e3, 1e6, 1e100])
def test_the_gradient_of_a_far_y_points_home(distance):
    p = KCEF(select=None).fit(X, Y).given(X[:1])[0]
    right, left = p.grad_logpdf([distance, -distance])
    assert right < 0 < left


KERNELS = [
    Gaussian(1.0),
    RationalQuadratic(1.0),
    Matern(1.0),
    Matern(1.0, nu=3.5),
    InverseMultiquadric(1.0),
    Gaussian(1.0) + Matern(1.0),
    Gaussian(1.0) * Matern(1.0),
]


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("distance", [1e6, 1e160, 1e300])
def test_the_density_of_a_far_y_is_zero_whatever_the_kernel(kernel, distance):
    log_p = (
        KCEF(select=None, kernel_y=kernel)
        .fit(X, Y)
        .score_samples(X[:2], [distance, -distance])
    )
    assert np.all(log_p < -1e6)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("distance", [1e6, 1e160, 1e300])
def test_the_density_at_a_far_x_is_the_base_density(kernel, distance):
    model = KCEF(select=None, kernel_x=kernel).fit(X, Y)
    base = stats.norm(Y.mean(), 2.0 * Y.std())
    x = np.array([[distance, 0.0], [0.0, -distance], [distance, distance]])
    # The slowest kernel has fallen to 1e-6 at the nearest of these.
    np.testing.assert_allclose(
        model.score_samples(x, Y[:3]), base.logpdf(Y[:3]), atol=1e-3
    )
    np.testing.assert_allclose(model.predict(x), Y.mean(), atol=1e-2)


@pytest.mark.parametrize("distance", [1e6, 1e160, 1e300])
def test_a_far_row_of_many_columns_has_no_density(distance):
    data = np.column_stack([X, Y])
    for d in (2, 3):
        model = KEF(regularization=1.0).fit(data[:, :d])
        far = np.zeros((1, d))
        far[0, 0] = distance
        assert model.score_samples(far)[0] < -1e6


@pytest.mark.parametrize("option", [{"n_components": 20}, {"solver": "low-rank"}])
def test_the_paper_grid_refuses_what_it_would_not_follow(option):
    x = np.linspace(0.0, 1.0, 30)[:, None]
    with pytest.raises(ValueError, match="search='paper' fits exactly, at all rows"):
        KCEF(search="paper", **option).fit(x, np.sin(9.0 * x[:, 0]))


def test_a_wrong_number_of_lengthscales_is_told_by_every_fit():
    x = np.linspace(0.0, 1.0, 60).reshape(30, 2)
    with pytest.raises(ValueError, match="3 values, but the data have 2 columns"):
        KCEF(kernel_x=Gaussian((1.0, 2.0, 3.0))).fit(x, np.sin(9.0 * x[:, 0]))


def test_merge_takes_models_only():
    x = np.linspace(0.0, 1.0, 30)[:, None]
    model = KCEF(select=None).fit(x, np.sin(9.0 * x[:, 0]))
    with pytest.raises(TypeError, match="merge takes another KCEF, got 5"):
        model.merge(5)


def test_cells_that_are_no_observations_are_named_by_row_and_column():
    """It was scikit-learn's sentence, or NumPy's, without a place."""
    model = KCEF(select=None)
    with raises(ValueError, "X must hold numbers, got 'a' in column 1, row 0;"):
        model.fit(np.array([["1", "a"]] * N), Y)
    with raises(ValueError, "Input y contains infinity in row 4,", "leave such rows"):
        model.fit(X, spoiled(Y, np.inf))
    with raises(ValueError, "Input X contains infinity in column 0, row 4,"):
        model.fit(spoiled(X, np.inf), Y)
    frame = pd.DataFrame(X, columns=["a", "b"])
    model.fit(frame, Y)
    with raises(TableError, "X, row 1, column 'b': 'foo' is not a number"):
        model.given(frame.assign(b="foo"))
    with raises(ValueError, "Input X contains infinity in column 'a', row 0,"):
        model.predict(frame.assign(a=np.inf))
