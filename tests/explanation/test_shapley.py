"""Shapley values: brute force, closed forms, and what their axioms say."""

import itertools
import math
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from kexpfam import KCEF, AutoKCEF, load
from kexpfam.explanation.shapley import explain
from tests.explanation.laws import gaussian, houses, linear


def curved(columns=4):
    return gaussian(
        lambda Z: Z[:, 0] * Z[:, 1] * (1 + Z[:, 2]) + np.sin(Z[:, 2]) * Z[:, 3],
        lambda Z: np.exp(0.3 * Z[:, 3] * Z[:, 1]),
        columns,
    )


def by_all_orders(f, x, B):
    """The mean over all orders of what a column adds to those before it."""
    k = len(x)
    found = np.zeros(k)
    for order in itertools.permutations(range(k)):
        rows = B.copy()
        before = np.mean(f(rows))
        for j in order:
            rows[:, j] = x[j]
            after = np.mean(f(rows))
            found[j] += after - before
            before = after
    return found / math.factorial(k)


@pytest.mark.parametrize("of", ["mean", "std", 0.9, "P(y>1)", "width", "median"])
def test_all_subsets_equal_all_orders(of):
    rng = np.random.default_rng(0)
    x, B = rng.normal(size=4), rng.normal(size=(7, 4))
    model = curved()

    def f(Z):
        p = model.densities(Z)
        named = {
            "mean": p.mean,
            "std": p.std,
            0.9: lambda: p.ppf(np.full(len(Z), 0.9)),
            "P(y>1)": lambda: p.sf(np.ones(len(Z))),
            "width": lambda: np.diff(p.interval(0.9), axis=1)[:, 0],
            "median": p.median,
        }
        return named[of]()

    found = explain(model, x, of, background=B)
    np.testing.assert_allclose(found.values, by_all_orders(f, x, B), atol=1e-10)
    assert found.exact
    assert found.average == pytest.approx(np.mean(f(B)))
    assert found.prediction == pytest.approx(f(x[None])[0])
    assert not found.standard_errors.any()


def test_linear_gaussian_models_have_a_closed_form():
    rng = np.random.default_rng(1)
    slopes = np.array([1.0, -2.0, 0.5, 0.0, 3.0])
    x, B = rng.normal(size=5), rng.normal(size=(50, 5))
    expected = slopes * (x - B.mean(axis=0))
    # A quantile moves with the mean; a width does not move.
    for of in ("mean", "median", 0.95):
        found = explain(linear(slopes, 2.0), x, of, background=B)
        np.testing.assert_allclose(found.values, expected, atol=1e-9)
    width = explain(linear(slopes, 2.0), x, "width", background=B)
    np.testing.assert_allclose(width.values, 0.0, atol=1e-9)
    assert width.prediction == pytest.approx(4 * stats.norm.ppf(0.95))


def test_a_product_of_two_is_shared_equally():
    model = gaussian(lambda Z: Z[:, 0] * Z[:, 1], lambda Z: 1.0, 3)
    found = explain(model, [3.0, 2.0, 9.0], background=np.zeros((4, 3)))
    np.testing.assert_allclose(found.values, [3.0, 3.0, 0.0], atol=1e-12)


def test_an_order_and_its_reverse_are_exact_for_interactions_of_two():
    rng = np.random.default_rng(2)
    x, B = rng.normal(size=5), rng.normal(size=(6, 5))
    model = gaussian(
        lambda Z: Z[:, 0] * Z[:, 1] + np.sin(Z[:, 2] * Z[:, 3]), lambda Z: 1.0, 5
    )
    drawn = explain(model, x, background=B, n_permutations=1, random_state=0)
    exact = explain(model, x, background=B)
    np.testing.assert_allclose(drawn.values, exact.values, atol=1e-12)


@pytest.mark.parametrize("columns", [4, 14])
def test_drawn_orders_sum_up_exactly_and_are_right_within_their_errors(columns):
    rng = np.random.default_rng(2)
    x, B = rng.normal(size=columns), rng.normal(size=(20, columns))
    model = curved(columns)
    drawn = explain(model, x, 0.9, background=B, n_permutations=8, random_state=0)
    assert not drawn.exact
    total = drawn.prediction - drawn.average
    assert drawn.values.sum() == pytest.approx(total, rel=1e-10)
    # Further columns add nothing: the first four share it as if there were no others.
    exact = explain(curved(), x[:4], 0.9, background=B[:, :4]).values
    errors = drawn.standard_errors[:4]
    assert np.all(errors[:3] > 1e-6)
    assert np.all(np.abs(drawn.values[:4] - exact) < 4 * errors + 1e-12)
    np.testing.assert_allclose(drawn.values[4:], 0.0, atol=1e-10)


def test_errors_of_drawn_orders_are_those_of_other_draws():
    rng = np.random.default_rng(3)
    x, B = rng.normal(size=4), rng.normal(size=(10, 4))
    how = {"background": B, "n_permutations": 4}
    found = [explain(curved(), x, random_state=seed, **how) for seed in range(60)]
    spread = np.std([one.values for one in found], axis=0, ddof=1)
    root_mean = np.sqrt(np.mean([one.standard_errors**2 for one in found], axis=0))
    # x3 is in interactions of two only, which have no error.
    np.testing.assert_allclose(root_mean[:3], spread[:3], rtol=0.35)
    assert spread[3] < 1e-12


def test_more_than_ten_columns_are_drawn_and_linear_ones_are_exact_all_the_same():
    rng = np.random.default_rng(4)
    slopes = rng.normal(size=12)
    x, B = rng.normal(size=12), rng.normal(size=(15, 12))
    found = explain(linear(slopes), x, background=B, random_state=0)
    assert not found.exact
    np.testing.assert_allclose(found.values, slopes * (x - B.mean(axis=0)), atol=1e-9)


def test_all_subsets_are_taken_where_they_are_few_or_asked_for():
    rng = np.random.default_rng(5)
    x, B = rng.normal(size=9), rng.normal(size=(40, 9))
    model = curved(9)
    drawn = explain(model, x, background=B, random_state=0)
    assert not drawn.exact  # 40 · 2⁹ rows
    every = explain(model, x, background=B, n_permutations="all")
    assert every.exact
    four = explain(curved(), x[:4], background=B[:, :4])
    assert four.exact
    np.testing.assert_allclose(every.values[:4], four.values, atol=1e-10)
    # Rows that share values with x leave fewer subsets.
    B[:, 4:8] = x[4:8]
    assert explain(model, x, background=B).exact
    with pytest.raises(ValueError, match="'all' is for 16 columns at most, and 20"):
        explain(
            linear(np.ones(20)),
            np.zeros(20),
            background=np.ones((3, 20)),
            n_permutations="all",
        )


def test_equal_rows_are_evaluated_once():
    seen = []

    def mean(Z):
        seen.append(Z.copy())
        return Z.sum(axis=1)

    B = np.array([[0.0, 0.0, 5.0], [0.0, 1.0, 5.0], [0.0, 0.0, 5.0]])
    explain(gaussian(mean, lambda Z: 1.0, 3), [2.0, 3.0, 5.0], background=B)
    for Z in seen:
        assert len(np.unique(Z, axis=0)) == len(Z)


@pytest.mark.parametrize("pairs", ["all", 3])
def test_errors_of_drawn_backgrounds_are_those_of_other_draws(pairs):
    rng = np.random.default_rng(3)
    x, B = rng.normal(size=4), rng.normal(size=(60, 4))
    how = {"background": B, "n_permutations": pairs, "max_background": 20}
    found = [explain(curved(), x, random_state=seed, **how) for seed in range(80)]
    spread = np.std([one.values for one in found], axis=0, ddof=1)
    root_mean = np.sqrt(np.mean([one.standard_errors**2 for one in found], axis=0))
    np.testing.assert_allclose(root_mean, spread, rtol=0.3)
    whole = explain(curved(), x, background=B).values
    assert np.all(np.abs(np.mean([f.values for f in found], axis=0) - whole) < spread)


def test_columns_that_are_the_same_everywhere_take_no_part():
    B = np.random.default_rng(0).normal(size=(5, 14))
    B[:, 4:] = 1.0
    x = np.ones(14)
    found = explain(curved(14), x, background=B)
    assert found.exact  # four columns differ
    assert not found.values[4:].any()
    nothing = explain(curved(14), x, background=np.ones((3, 14)))
    assert not nothing.values.any()
    assert nothing.average == pytest.approx(nothing.prediction)


def test_rows_of_a_background_are_weighted_as_the_model_keeps_them():
    B, weights = np.array([[0.0], [1.0]]), np.array([3.0, 1.0])
    model = linear([2.0], background=(B, weights))
    found = explain(model, [5.0])
    assert found.average == pytest.approx(0.5)
    assert found.values[0] == pytest.approx(9.5)


def test_many_rows_of_a_background_are_drawn_from():
    B = np.random.default_rng(0).normal(size=(500, 2))
    found = explain(linear([1.0, 1.0]), [0.0, 0.0], background=B, max_background=40)
    assert found.n_background == 40


@pytest.mark.parametrize("form", ["frame", "series", "values", "polars"])
def test_a_row_of_a_table_is_explained_by_its_columns(house_model, form):
    X, _ = houses(4, seed=2)
    X["garden"] = [np.nan, 10.0, 20.0, 30.0]
    row = X.iloc[[0]]
    given = {
        "frame": row,
        "series": X.iloc[0],
        "values": {k: v[0] for k, v in row.to_dict("list").items()},
        "polars": None,
    }[form]
    if form == "polars":
        given = pytest.importorskip("polars").from_pandas(row)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = house_model.explain(given, of=0.9, max_background=20, random_state=0)
    assert found.names == ("area", "rooms", "city", "sold", "garden")
    assert found.row[2] == X["city"][0]
    assert found.row[4] == "missing"
    assert found.exact  # five columns, though there are more when coded
    assert found.values.sum() == pytest.approx(found.prediction - found.average)
    level = house_model.predict_quantiles(row, 0.9)[0, 0]
    assert found.prediction == pytest.approx(level, rel=1e-9)
    assert abs(found.values[3]) < 0.2 * np.abs(found.values).max()


def test_a_background_may_be_a_frame(house_model):
    X, _ = houses(30, seed=3)
    oslo = X[X["city"] == "Oslo"]
    row = X[X["city"] == "Oslo"].iloc[[0]]
    found = house_model.explain(row, background=oslo)
    assert found.values[2] == 0.0  # no other city to compare with
    assert found.n_background == len(oslo)
    mean = house_model.predict(oslo).mean()
    assert found.average == pytest.approx(mean)


def test_groups_of_columns_are_one_player():
    rng = np.random.default_rng(6)
    B = rng.normal(size=(60, 4))
    B[:, 3] = B[:, 0] + 0.01 * rng.normal(size=60)
    x = np.array([1.0, 2.0, 3.0, 1.0])
    slopes = np.array([1.0, -2.0, 0.5, 4.0])
    parts = slopes * (x - B.mean(axis=0))
    found = explain(linear(slopes), x, background=B, groups="auto")
    assert found.names == ("x0 + x3", "x1", "x2")
    assert found.row == ("1, 1", "2", "3")
    np.testing.assert_allclose(found.values, [parts[0] + parts[3], *parts[1:3]])
    told = explain(linear(slopes), x, background=B, groups={"ends": ["x0", "x2"]})
    assert told.names == ("ends", "x1", "x3")
    np.testing.assert_allclose(told.values[0], parts[0] + parts[2])


def test_models_of_files_remember_rows_to_compare_with(house_model, tmp_path):
    house_model.save(tmp_path / "houses.kexpfam")
    again = load(tmp_path / "houses.kexpfam")
    X, _ = houses(1, seed=5)
    how = {"max_background": 10, "random_state": 0}
    np.testing.assert_allclose(
        again.explain(X, **how).values, house_model.explain(X, **how).values, rtol=1e-9
    )


def test_averages_explain_too():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    y = X[:, 0] + 0.3 * rng.normal(size=60)
    model = AutoKCEF(experts=["families"], likelihood=False, random_state=0).fit(X, y)
    found = model.explain(X[0], of=0.9, random_state=0)
    assert abs(found.values[0]) > 5 * abs(found.values[1])
    assert model.importance(X, y, n_repeats=2, random_state=0).names[0] == "x0"
    assert model.effect(0, X, bins=3).values.shape == (4, 1)


def test_it_reads_well():
    found = explain(linear([1.0, -2.0]), [1.0, 2.0], background=np.zeros((3, 2)))
    lines = str(found).splitlines()
    assert lines[0] == (
        "Why mean of y is -3, and not 0, the average of 3 rows (all subsets)"
    )
    assert lines[1].split() == ["x1", "2", "-4"]
    assert lines[2].split() == ["x0", "1", "+1"]
    frame = found.to_frame()
    assert isinstance(frame, pd.DataFrame)
    assert frame.index.tolist() == ["x1", "x0"]
    assert frame["adds"].tolist() == [-4.0, 1.0]
    drawn = explain(curved(), np.ones(4), background=np.zeros((2, 4)), n_permutations=2)
    assert "drawn orders" in str(drawn)
    assert "±" in str(drawn)


@pytest.mark.parametrize(
    ("x", "change", "words"),
    [
        (np.zeros((2, 2)), {}, "x must be one row, got 2; call explain for each"),
        ([0.0, 0.0], {"of": "quantiles"}, "of must be one number, and 'quantiles'"),
        ([0.0, 0.0], {"background": None}, "background must be given"),
        ([0.0, 0.0], {"n_permutations": 0}, "n_permutations must be a whole number"),
        ([0.0, 0.0], {"max_background": 0}, "max_background must be a whole number"),
    ],
)
def test_errors_say_what_to_do(x, change, words):
    given = {"background": np.ones((3, 2))} | change
    with pytest.raises(ValueError, match=words):
        explain(linear([1.0, 1.0]), x, **given)


def test_unfitted_models_say_so():
    with pytest.raises(ValueError, match="not fitted"):
        KCEF().explain([1.0])
