"""`TableCoder` on frames of both libraries: names, values, gaps, pipelines."""

import datetime
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline

from kexpfam.errors import TableWarning
from kexpfam.tables import TableCoder, TableError
from tests.tables.frames import FRAMES, columns, pandas_frame

NAMES = [
    "x",
    "sold",
    "city=Lima",
    "city=Oslo",
    "city=Rome",
    "size",
    "when: month sin",
    "when: month cos",
    "when: weekday sin",
    "when: weekday cos",
    "when: days",
    "took",
]


def fitted(frame, y=None, **options):
    with pytest.warns(TableWarning, match="'row_id' counts rows, 'land' is always"):
        return TableCoder(**options).fit(frame, y)


@pytest.mark.parametrize("library", FRAMES)
def test_every_kind_of_column_becomes_numbers(library):
    frame, y = FRAMES[library]()
    coder, (cells, _) = fitted(frame, y), columns()
    assert coder.get_feature_names_out().tolist() == NAMES
    assert coder.n_features_in_ == 8
    X = coder.transform(frame)
    by_name = dict(zip(NAMES, X.T, strict=True))
    np.testing.assert_array_equal(by_name["sold"], cells["sold"])
    ranks = np.array(["S", "M", "L"]).tolist()
    np.testing.assert_array_equal(
        by_name["size"], [ranks.index(s) for s in cells["size"]]
    )
    np.testing.assert_array_equal(by_name["took"], cells["took"].astype(float))
    days = (cells["when"] - cells["when"].min()).astype(float)
    np.testing.assert_array_equal(by_name["when: days"], days)
    months = cells["when"].astype("M8[M]").astype(int) % 12
    sines = np.sin(2 * np.pi * months / 12)
    np.testing.assert_allclose(by_name["when: month sin"], sines, atol=1e-12)


@pytest.mark.parametrize("library", FRAMES)
@pytest.mark.parametrize("gaps", [False, True])
def test_the_inverse_is_the_table(library, gaps):
    frame, y = FRAMES[library](gaps=gaps)
    coder = fitted(frame, y)
    back = coder.inverse_transform(coder.transform(frame))
    pandas, _ = pandas_frame(gaps=gaps)
    for name in ("city", "size"):
        texts = pandas[name].astype(object)
        expected = np.where(pandas[name].isna(), "", texts).tolist()
        assert back[name].tolist() == expected
    np.testing.assert_array_equal(back["x"], pandas["x"])
    found = back["when"].astype("M8[D]")
    np.testing.assert_array_equal(found, pandas["when"].to_numpy().astype("M8[D]"))


@pytest.mark.parametrize("library", FRAMES)
def test_gaps_have_columns_that_say_where(library):
    frame, y = FRAMES[library](gaps=True)
    coder = fitted(frame, y)
    names = coder.get_feature_names_out().tolist()
    X = coder.transform(frame)
    pandas, _ = pandas_frame(gaps=True)
    for name in ("x", "sold", "city", "size", "when", "took"):
        where = X[:, names.index(f"{name} is missing")]
        np.testing.assert_array_equal(where, pandas[name].isna())
    filled = X[pandas["x"].isna().to_numpy(), names.index("x")]
    np.testing.assert_array_equal(filled, pandas["x"].median())


def test_both_libraries_give_the_same_numbers():
    parts = []
    for make in FRAMES.values():
        frame, y = make(gaps=True)
        parts.append(fitted(frame, y).transform(frame))
    np.testing.assert_array_equal(*parts)


@pytest.mark.parametrize("library", FRAMES)
def test_columns_may_come_in_another_order_with_others(library):
    frame, y = FRAMES[library]()
    coder = fitted(frame, y)
    names = [name for name in frame.columns if name not in ("row_id", "land")]
    other = frame[names[::-1]]
    np.testing.assert_array_equal(coder.transform(other), coder.transform(frame))
    with pytest.raises(TableError, match="no column 'x'"):
        coder.transform(frame[[name for name in names if name != "x"]])


def test_an_order_can_be_told_or_taken_away():
    frame = {"size": ["S", "L", "M", "L", "S"], "grade": [1, 3, 2, 2, 1]}
    coder = TableCoder(ordered={"size": ["S", "M", "L"]}).fit(frame)
    np.testing.assert_array_equal(coder.transform(frame)[:, 0], [0, 2, 1, 2, 0])
    typed = pd.DataFrame({"size": pd.Categorical(frame["size"], ["S", "M", "L"], True)})
    assert TableCoder().fit(typed).get_feature_names_out().tolist() == ["size"]
    plain = TableCoder(categorical=["size"]).fit(typed)
    assert len(plain.get_feature_names_out()) == 3
    with pytest.raises(TableError, match="row 2, column 'size': 'L' is not in the ord"):
        TableCoder(ordered={"size": ["S", "M"]}).fit(frame)
    with pytest.raises(TableError, match="no column 'colour'"):
        TableCoder(ordered={"colour": ["a", "b"]}).fit(frame)
    with pytest.raises(TableError, match="two different values at least"):
        TableCoder(ordered={"size": "SML"}).fit(frame)


@pytest.mark.parametrize(
    ("cells", "names"),
    [
        (["2024-01-31T08:30:00Z", "2024-01-31T09:30:00Z"], ["hour sin", "hour cos"]),
        (["08:30", "19:00:30"], ["hour sin", "hour cos"]),
        ([datetime.time(8), datetime.time(9)], ["hour sin", "hour cos"]),
        (["2023-01-02", "2024-01-01"], ["year", "days"]),  # Mondays in January
        ([datetime.date(2024, 1, 1), None, datetime.date(2024, 7, 1)], None),
    ],
)
def test_dates_tell_what_varies(cells, names):
    coder = TableCoder().fit({"t": cells})
    found = [name.removeprefix("t: ") for name in coder.get_feature_names_out()]
    # January and July are half a turn apart: their sines are the same.
    assert found == (names or ["month cos", "days", "t is missing"])
    back = coder.inverse_transform(coder.transform({"t": cells}))["t"]
    again = TableCoder().fit({"t": back}).transform({"t": back})
    np.testing.assert_allclose(again, coder.transform({"t": cells}), atol=1e-9)


def test_what_was_not_there_at_the_fit_is_one_warning():
    coder = TableCoder().fit({"c": ["a", "b", "a"], "x": [1.0, 2.0, 3.0]})
    new = {"c": ["b", "z", "q", "z"], "x": [1.0, np.nan, 2.0, 2.0]}
    with pytest.warns(TableWarning) as seen:
        X = coder.transform(new)
    assert len(seen) == 1
    text = str(seen[0].message)
    assert "3 rows of column 'c'" in text
    assert "('z', 'q')" in text
    assert "1 row without a value of 'x'" in text
    np.testing.assert_array_equal(X, [[0, 1, 1], [0, 0, 2], [0, 0, 2], [0, 0, 2]])
    strict = TableCoder(unknown="error", missing="error")
    strict.fit({"c": ["a", "b", "a"]})
    with pytest.raises(TableError, match="row 2, column 'c': 'z' is not a category"):
        strict.transform({"c": ["b", "z"]})
    with pytest.raises(TableError, match="row 1, column 'c': the value is missing"):
        strict.transform({"c": [None, "a"]})


def test_it_works_in_a_pipeline_and_with_set_output():
    frame, y = pandas_frame(gaps=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TableWarning)
        model = make_pipeline(TableCoder(), LinearRegression()).fit(frame, y)
        coder = clone(TableCoder(exclude=["row_id"])).set_output(transform="pandas")
        out = coder.fit_transform(frame, y)
    assert model.score(frame, y) > 0.3
    assert out.columns.tolist() == coder.get_feature_names_out().tolist()


def test_arrays_go_by_position():
    X = np.array([[1.0, np.nan, 3.0], [4.0, 5.0, 7.0], [3.0, 5.5, 6.0]])
    coder = TableCoder().fit(X)
    assert coder.get_feature_names_out().tolist() == ["x0", "x1", "x1 is missing", "x2"]
    assert not hasattr(coder, "feature_names_in_")
    np.testing.assert_array_equal(coder.transform(X)[0], [1.0, 5.25, 1.0, 3.0])
    with pytest.raises(ValueError, match="expecting 3 features"):
        coder.transform(X[:, :2])


@pytest.mark.parametrize(
    "frame",
    [
        pl.DataFrame({"t": [datetime.datetime(2024, 1, 1, 8)] * 3}),
        pd.DataFrame({"t": [7, 7, 7], "u": ["a", "b", "c"]}).drop(columns="u"),
    ],
)
def test_a_table_without_any_help_is_refused_or_a_constant(frame):
    if isinstance(frame, pd.DataFrame):  # a constant does no harm
        assert TableCoder().fit(frame).transform(frame).shape == (3, 1)
    else:
        with pytest.raises(TableError, match="no column that could help"):
            TableCoder().fit(frame)


def test_a_zone_is_read_as_clocks_there_show():
    when = pd.to_datetime(["2024-06-01 08:00", "2024-06-02 20:00"])
    zoned = pd.DataFrame({"t": when.tz_localize("Europe/Oslo")})
    plain = TableCoder().fit_transform(pd.DataFrame({"t": when}))
    np.testing.assert_allclose(TableCoder().fit_transform(zoned), plain)
    np.testing.assert_allclose(TableCoder().fit_transform(pl.from_pandas(zoned)), plain)


def test_an_order_is_one_of_a_column():
    with pytest.raises(TableError, match=r"ordered must be a mapping .* got \['a'\]"):
        TableCoder(ordered=["a"]).fit({"a": [1, 2]})


@pytest.mark.parametrize("word", ["missing", "unknown"])
def test_arguments_that_are_none_of_ours_are_refused(word):
    with pytest.raises(ValueError, match=f"{word} must be one of"):
        TableCoder(**{word: "perhaps"}).fit({"x": [1, 2]})
