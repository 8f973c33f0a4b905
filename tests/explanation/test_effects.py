"""Effects of columns, against functions whose effects are known."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from kexpfam import KCEF
from kexpfam.base_densities import StudentBase
from kexpfam.distributions import ClosedFormDensity, MixedDensity
from kexpfam.errors import TableWarning
from kexpfam.explanation import ModelColumns
from kexpfam.explanation.effects import effect
from kexpfam.explanation.steps import alike_in_order
from tests.explanation.laws import gaussian, houses, linear


def collinear(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    X[:, 1] = 0.95 * X[:, 0] + 0.3 * X[:, 1]
    return X


def test_additive_effects_are_exact_though_columns_go_together():
    X = collinear(400)
    model = gaussian(lambda Z: Z[:, 0] ** 2 - 3 * Z[:, 1], lambda Z: 1.0, 3)
    for column, shape in ((0, np.square), (1, lambda z: -3 * z), (2, lambda z: 0 * z)):
        found = effect(model, column, X, random_state=0)
        own, expected = found.values[:, 0], shape(found.places)
        np.testing.assert_allclose(np.diff(own), np.diff(expected), atol=1e-10)
    mean = np.mean(X[:, 0] ** 2 - 3 * X[:, 1])
    np.testing.assert_allclose(own, mean, rtol=1e-10)  # x2 does nothing


def test_effects_are_those_of_loops():
    X = collinear(60, 1)
    model = gaussian(
        lambda Z: Z[:, 0] * Z[:, 1] + np.sin(3 * Z[:, 0]), lambda Z: 1.0, 3
    )
    f = lambda x0, x: x0 * x[1] + np.sin(3 * x0)  # noqa: E731  # as above, of one row
    found = effect(model, "x0", X, bins=6, random_state=0)
    z = found.places
    a = [0.0]
    place = np.empty(len(X))
    for k in range(1, len(z)):
        rows = [
            i
            for i, x in enumerate(X)
            if z[k - 1] < x[0] <= z[k] or (k == 1 and x[0] == z[0])
        ]
        a.append(a[-1] + np.mean([f(z[k], X[i]) - f(z[k - 1], X[i]) for i in rows]))
        place[rows] = 0.5 * (a[-1] + a[-2])
    level = np.mean([f(x[0], x) for x in X])
    expected = np.array(a) - place.mean() + level
    np.testing.assert_allclose(found.values[:, 0], expected, rtol=1e-9)
    assert np.bincount(np.searchsorted(z, X[:, 0]), minlength=7)[1:].min() >= 9


def test_numbers_of_a_gaussian():
    X = collinear(300)
    model = gaussian(lambda Z: 2 * Z[:, 0], lambda Z: np.exp(0.5 * Z[:, 2]), 3)
    q = stats.norm.ppf(0.95)
    cases = {
        "std": 1.0,
        "width": 2 * q,
        0.95: q,
        "mean": 0.0,
        "median": 0.0,
    }
    for of, factor in cases.items():
        found = effect(model, "x2", X, of=of, random_state=0)
        expected = factor * np.diff(np.exp(0.5 * found.places))
        np.testing.assert_allclose(np.diff(found.values[:, 0]), expected, atol=1e-9)
    lines = effect(model, "x2", X, of="quantiles", random_state=0)
    assert lines.names == ("q0.05", "q0.5", "q0.95")
    rises = np.diff(np.exp(0.5 * lines.places))
    expected = np.column_stack([-q * rises, 0 * rises, q * rises])
    np.testing.assert_allclose(np.diff(lines.values, axis=0), expected, atol=1e-9)


def test_probabilities_of_a_limit_and_functions():
    X = collinear(200)
    model = linear([1.0, 0.0, 0.0])
    found = effect(model, 0, X, of="P(y > 0.5)", random_state=0)
    assert found.of == "P(y>0.5)"
    expected = stats.norm.sf(0.5 - found.places)
    np.testing.assert_allclose(
        np.diff(found.values[:, 0]), np.diff(expected), atol=1e-9
    )
    below = effect(model, 0, X, of="P(y<=0.5)", random_state=0)
    np.testing.assert_allclose(below.values, 1 - found.values, atol=1e-9)

    def third(p):
        return p.mean() / 3

    own = effect(model, 0, X, of=third, random_state=0)
    assert own.of == "third"
    np.testing.assert_allclose(np.diff(own.values[:, 0]), np.diff(own.places) / 3)


def test_sums_of_changes_stay_where_numbers_can_be():
    # Columns that go together cancel: each alone moves P(y > 0) from 0 to 1 and on.
    X = collinear(300)
    model = gaussian(lambda Z: 60 * (Z[:, 0] - Z[:, 1]), lambda Z: 1.0, 3)
    found = effect(model, "x0", X, "P(y>0)", random_state=0)
    assert found.limits == (0.0, 1.0)
    assert found.values.max() == 1.0
    drawn = found.plot().ax_.collections[0].get_paths()[0].vertices
    assert set(np.clip(drawn[:, 1], 0.0, 1.0)) == set(drawn[:, 1])
    assert effect(model, "x0", X, "width", random_state=0).limits == (0.0, np.inf)
    assert effect(model, "x0", X, "mean", random_state=0).limits == (-np.inf, np.inf)


def test_standard_errors_are_those_of_other_rows():
    model = gaussian(lambda Z: Z[:, 0] * Z[:, 1], lambda Z: 1.0, 2)
    places, values, errors = np.array([-1.0, 0.0, 1.0]), [], []
    for seed in range(40):
        X = np.random.default_rng(seed).normal(size=(150, 2))
        found = effect(model, 0, X, bins=5, random_state=seed)
        values.append(np.interp(places, found.places, found.values[:, 0]))
        errors.append(np.interp(places, found.places, found.standard_errors[:, 0]))
    spread = np.std(values, axis=0, ddof=1)
    np.testing.assert_allclose(np.mean(errors, axis=0), spread, rtol=0.4)


def test_columns_with_few_values_have_these_as_places():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(1, 5, 200), rng.normal(size=200)]).astype(float)
    found = effect(linear([2.0, 1.0]), "x0", X, random_state=0)
    assert found.places.tolist() == [1.0, 2.0, 3.0, 4.0]
    np.testing.assert_allclose(np.diff(found.values[:, 0]), 2.0)
    assert found.n_near.sum() == 400  # each row at both ends of its step


def test_densities_are_means_over_the_rows_nearby():
    X = collinear(120)
    model = gaussian(lambda Z: Z[:, 0] + Z[:, 2], lambda Z: 0.5, 3)
    found = effect(model, 0, X, of="density", bins=4, random_state=0)
    z, t = found.x_edges, found.y_edges
    widths = np.diff(t)
    for k, own in enumerate(found.values):
        rows = X[
            (X[:, 0] > z[k]) & (X[:, 0] <= z[k + 1]) | ((k == 0) & (X[:, 0] == z[0]))
        ]
        assert len(rows) == found.n_near[k]
        laws = [stats.norm(x[0] + x[2], 0.5) for x in rows]
        expected = np.mean([np.diff(law.cdf(t)) / widths for law in laws], axis=0)
        np.testing.assert_allclose(own, expected, atol=1e-8)
    assert np.all(found.values @ widths > 0.95)
    assert found.standard_errors.shape == found.values.shape
    assert str(found).startswith("Effect of 'x0' on density: p(y|x0) at 4 places")


def test_densities_of_counts_are_probabilities_of_whole_numbers():
    def densities(Z):
        x = Z[:, 0]
        return MixedDensity([0.0, 1.0, 2.0], np.column_stack([1 - x, x / 2, x / 2]))

    model = ModelColumns.of(["x0"], None, np.asarray, densities)
    X = np.linspace(0.05, 0.95, 90)[:, None]
    found = effect(model, 0, X, of="density", bins=3, random_state=0)
    assert found.y_edges.tolist() == [-0.5, 0.5, 1.5, 2.5]
    middle = np.array([X[30 * k : 30 * (k + 1)].mean() for k in range(3)])
    expected = np.column_stack([1 - middle, middle / 2, middle / 2])
    np.testing.assert_allclose(found.values, expected)


def test_numbers_that_no_row_has_are_marked():
    # x1 goes with x0, and takes back what it adds: y is within ±1 of x0 − x1.
    a = np.random.default_rng(0).uniform(0, 10, 400)
    X = np.column_stack([a, a + np.random.default_rng(1).uniform(-1, 1, size=400)])
    model = linear([1.0, -1.0])
    found = effect(model, 0, X, bins=40, random_state=0)
    f = X[:, 0] - X[:, 1]
    far = (found.values[:, 0] < f.min() - 0.5) | (found.values[:, 0] > f.max() + 0.5)
    near = np.abs(found.values[:, 0]) < 0.5
    assert found.is_extrapolated[far].all()
    assert not found.is_extrapolated[near].any()
    assert far.sum() > near.sum() > 2


@pytest.mark.parametrize(("of", "instead"), [("mean", "median"), ("std", "width")])
def test_tails_without_moments_are_said(of, instead):
    def densities(Z):
        scale = np.ones(len(Z))
        return ClosedFormDensity(StudentBase(df=1.0), Z[:, 0], scale)

    model = ModelColumns.of(["x0"], None, np.asarray, densities)
    X = np.arange(20.0)[:, None]
    with pytest.raises(ValueError, match=f"of='{of}' is not.*use of='{instead}'"):
        effect(model, 0, X, of=of)


def test_steps_across_a_gap_are_marked_and_others_are_not():
    rng = np.random.default_rng(0)
    a = np.concatenate([rng.uniform(0, 1, 150), rng.uniform(9, 10, 150)])
    X = np.column_stack([a, a + 0.3 * rng.normal(size=300)])  # goes with a
    found = effect(linear([1.0, 1.0]), 0, X, bins=7, random_state=0)
    gap = np.argmax(np.diff(found.places))
    assert found.is_extrapolated[[gap, gap + 1]].all()
    assert not np.delete(found.is_extrapolated, [gap, gap + 1]).any()
    assert "extrapolated" in str(found)
    dense = effect(linear([1.0, 0.0, 0.0]), 0, collinear(400), random_state=0)
    # The last steps on either side are long, to values of one row.
    assert not dense.is_extrapolated[2:-2].any()


def test_steps_that_columns_that_go_together_forbid_are_marked():
    a = np.random.default_rng(0).uniform(0, 1, 300)
    X = np.column_stack([a, a + 0.001 * np.random.default_rng(1).normal(size=300)])
    model = linear([1.0, 1.0])
    # In five steps x0 moves far from what x1 says it is, and in a hundred hardly.
    assert effect(model, 0, X, bins=5, random_state=0).is_extrapolated.all()
    assert effect(model, 0, X, bins=100, random_state=0).is_extrapolated.mean() < 0.5


def test_neighbours_in_the_order_of_categories_are_alike():
    rng = np.random.default_rng(0)
    where = {"Bern": 1.0, "Kiel": 3.0, "Oslo": 4.0, "Rome": 0.0}
    city = rng.choice(list(where), 800)
    Z = np.array([where[c] for c in city])[:, None] + 0.3 * rng.normal(size=(800, 2))
    order = alike_in_order(Z, city, sorted(where))
    north = [sorted(where)[i] for i in order]
    assert north in (["Rome", "Bern", "Kiel", "Oslo"], ["Oslo", "Kiel", "Bern", "Rome"])


def test_categories_dates_and_gaps_of_a_frame(house_model):
    X, _ = houses(300, seed=1)
    how = {"max_rows": 200, "random_state": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        city = house_model.effect("city", X, **how)
        sold = house_model.effect("sold", X, bins=5, **how)
        garden = house_model.effect("garden", X, bins=5, **how)
    assert city.is_categorical
    assert sorted(city.places) == ["Lima", "Oslo", "Rome"]
    by_name = dict(zip(city.places, city.values[:, 0], strict=True))
    assert by_name["Oslo"] - by_name["Lima"] == pytest.approx(60, abs=12)
    assert by_name["Rome"] - by_name["Lima"] == pytest.approx(25, abs=12)
    assert sold.places.dtype.kind == "M"
    assert np.ptp(sold.values) < 25
    assert np.isfinite(garden.places).all()
    frame = city.to_frame()
    assert isinstance(frame, pd.DataFrame)
    assert frame.columns.tolist() == ["city", "mean", "mean_se", "rows", "extrapolated"]
    assert "2020" in str(sold)


def test_of_many_categories_the_frequent_ones_have_effects():
    rng = np.random.default_rng(0)
    names = np.array([f"c{i:02}" for i in range(30)])
    city = rng.integers(0, 30, 600)
    X = pd.DataFrame({"city": names[city], "size": rng.normal(size=600)})
    y = 0.1 * city + X["size"] + 0.1 * rng.normal(size=600)
    model = KCEF(select=None, base="linear").fit(X, y)
    new = X[:200].copy()
    new.loc[:9, "city"] = "nowhere"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = model.effect("city", new, random_state=0)
        row = model.explain(new.iloc[[0]], max_background=5, random_state=0)
    assert len(found.places) == 20
    assert set(found.places) <= set(names)
    number = [int(place[1:]) for place in found.places]
    slope = np.polyfit(number, found.values[:, 0], 1)[0]
    assert slope == pytest.approx(0.1, abs=0.03)
    assert row.row[0] == "other"


def test_ordered_categories_stay_in_their_order():
    rng = np.random.default_rng(0)
    size = rng.choice(["S", "M", "L"], 90)
    cost = pd.Series(size).map({"S": 0.0, "M": 2.0, "L": 3.0}).to_numpy()
    X = pd.DataFrame({"size": size, "other": rng.normal(size=90)})
    X["size"] = pd.Categorical(X["size"], ["S", "M", "L"], ordered=True)
    y = cost + 0.3 * rng.normal(size=90)
    model = KCEF(select=None).fit(X, y)
    found = model.effect("size", X, random_state=0)
    assert found.places.tolist() == ["S", "M", "L"]
    assert np.all(np.diff(found.values[:, 0]) > 0)
    assert model.effect("size", X, of="density").values.shape[0] == 3


@pytest.mark.parametrize(
    ("column", "change", "words"),
    [
        ("x7", {}, r"no column 'x7'.*its columns are 'x0'"),
        (7, {}, "column must be below 3, got 7"),
        ("x0", {"of": "variance"}, "of must be one of .*'P\\(y>2.5\\)'.*'variance'"),
        ("x0", {"of": "P(y>tall)"}, r"needs a number, as 'P\(y>2.5\)'"),
        ("x0", {"of": 1.5}, "level of a quantile, must lie between 0 and 1, got 1.5"),
        ("x0", {"of": lambda p: 3.0}, "one number for each of .* got shape"),
        ("x0", {"bins": 0}, "bins must be a whole number from 1 on"),
        ("x0", {"max_rows": 1}, "max_rows must be a whole number from 2 on"),
        ("x2", {"X": np.ones((5, 3))}, "two values of 'x2' at least.*got 1"),
    ],
)
def test_errors_say_what_to_do(column, change, words):
    given = {"X": collinear(30)} | change
    with pytest.raises(ValueError, match=words):
        effect(linear([1.0, 0.0, 0.0]), column, **given)


def test_a_column_that_the_fit_left_out_is_told_as_such():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"age": rng.normal(size=30), "year": 2013})
    with pytest.warns(TableWarning, match="'year' is always 2013"):
        model = KCEF(select=None).fit(X, X["age"] + rng.normal(size=30))
    with pytest.raises(ValueError, match=r"'year' was left out at the fit.*'age'"):
        model.effect("year", X)


def test_several_columns_of_y_are_refused():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 2))
    model = KCEF(select=None).fit(X, X + rng.normal(size=(20, 2)))
    for call in (lambda: model.effect("x0", X), lambda: model.explain(X[0])):
        with pytest.raises(ValueError, match="is for one column of y, and this model"):
            call()


def test_swapped_arguments_are_said_in_a_sentence():
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": [1.0, 3.0]})
    model = KCEF(select=None).fit(frame, [1.0, 2.0])
    with pytest.raises(ValueError, match=r"effect\(column, X\), got column of type Da"):
        model.effect(frame, "a")
