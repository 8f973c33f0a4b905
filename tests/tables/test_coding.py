"""Codings remember columns and categories, and say which cell they do not know."""

import json

import numpy as np
import pandas as pd
import polars as pl
import pytest

from kexpfam.errors import FileFormatError, TableWarning
from kexpfam.tables import Coding, Table, TableCoder, TableError, Told, as_table
from tests.cli.tables import houses


def table_of(columns, path="data.csv"):
    """As a file of text would be, with lines."""
    arrays = tuple(
        np.asarray(c, dtype=float if np.asarray(c).dtype.kind in "fi" else object)
        for c in columns.values()
    )
    return Table(path, tuple(columns), arrays)


def house_coder(**options):
    return Coding.learn(table_of(houses(12)), FEATURES, "price", **options)


def of_file(entry, columns=5):
    """What a file of the program before 0.2 tells of its table."""
    return Coding.of_extra({"table": entry}, "a", columns)


OLD = {
    "features": [
        {"name": "area", "categories": [], "typical": 90.0, "low": 30.0, "high": 150.0},
        {"name": "rooms", "categories": [], "typical": 3.0, "low": 1.0, "high": 5.0},
        {
            "name": "city",
            "categories": ["Lima", "Oslo", "Rome"],
            "typical": "Lima",
            "low": 0.0,
            "high": 0.0,
        },
    ],
    "target": "price",
    "missing": "drop",
}


FEATURES = ["area", "rooms", "city"]


def slow_matrix(columns):
    """Row by row, as one would on paper."""
    rows = zip(columns["area"], columns["rooms"], columns["city"], strict=True)
    return np.array(
        [
            [a, r, *(1.0 * (c == k) for k in ("Lima", "Oslo", "Rome"))]
            for a, r, c in rows
        ]
    )


def test_categories_become_columns_of_zeros_and_ones():
    columns, coder = houses(12), house_coder()
    assert coder.columns == ["area", "rooms", "city=Lima", "city=Oslo", "city=Rome"]
    coded = coder.transform(table_of(columns))
    np.testing.assert_array_equal(coded.X, slow_matrix(columns))
    np.testing.assert_array_equal(coded.rows, np.arange(12))


def test_columns_and_categories_are_remembered_in_another_order():
    columns, coder = houses(12), house_coder()
    few = {k: np.asarray(columns[k])[[4, 1]] for k in ("city", "price", "area")}
    few["rooms"] = np.asarray(columns["rooms"])[[4, 1]]
    coded = coder.transform(table_of(few))
    np.testing.assert_array_equal(coded.X, slow_matrix(columns)[[4, 1]])


def test_the_description_of_an_old_file_is_read():
    coding = of_file(OLD)
    assert coding.columns == house_coder().columns
    assert coding.missing == "drop"
    assert Coding.of_extra({}, "a", 5) is None
    with pytest.raises(FileFormatError, match="with 5 columns, and its model has 4"):
        of_file(OLD, 4)


def test_the_numbers_of_a_joint_density_survive_json():
    coding = Coding.learn(table_of({"x": [1.0, 2.0, 4.0], "y": [3.0, 3.5, 1.0]}))
    text = json.dumps(coding.as_extra(), allow_nan=False)
    assert of_file(json.loads(text)["table"], 2) == coding


@pytest.mark.parametrize(
    "change",
    [
        {"features": 3},
        {"features": [{"name": "a"}]},
        {"target": 5},
        {"missing": "perhaps"},
        {
            "features": [
                {"name": "c", "categories": ["A"], "typical": "B", "low": 0, "high": 0}
            ]
        },
    ],
)
def test_a_damaged_description_is_refused(change):
    with pytest.raises(FileFormatError, match="damaged description of its table"):
        of_file(OLD | change)


def test_a_number_may_be_asked_to_be_a_category():
    table = table_of({"code": [3.0, 1.0, 3.0]})
    coder = Coding.learn(table, ["code"], None, told=Told(["code"]))
    assert coder.features[0].categories == ("1", "3")
    assert coder.features[0].typical == "3"
    as_text = table_of({"code": ["3", "1"]})
    np.testing.assert_array_equal(coder.transform(as_text).X, [[0, 1], [1, 0]])


def test_an_unknown_category_is_named_or_ignored():
    coder = Coding.learn(table_of({"city": ["A", "B"]}), ["city"], None)
    table = table_of({"city": ["B", "Paris"]})
    with pytest.raises(TableError, match=r"line 3, column 'city': 'Paris'.*'A', 'B'"):
        coder.transform(table, unknown="error")
    with pytest.warns(TableWarning, match=r"1 row of column 'city'.*\('Paris'\)"):
        X = coder.transform(table).X
    np.testing.assert_array_equal(X, [[0, 1], [0, 0]])


def test_missing_values_are_refused_dropped_or_imputed():
    table = table_of({"x": [1.0, np.nan, 3.0, 8.0], "city": ["A", "B", "", "B"]})
    coder = Coding.learn(table, ["x", "city"], None)
    message = "line 3, column 'x': the value is missing.* 2 of 4 rows.*missing='drop'"
    with pytest.raises(TableError, match=message):
        coder.transform(table, missing="error")
    dropped = coder.transform(table, missing="drop")
    np.testing.assert_array_equal(dropped.rows, [0, 3])
    imputed = coder.transform(table, missing="impute")
    assert coder.columns[1::3] == ["x is missing", "city is missing"]
    np.testing.assert_array_equal(
        imputed.X,
        [[1, 0, 1, 0, 0], [3, 1, 0, 1, 0], [3, 0, 0, 0, 1], [8, 0, 0, 1, 0]],
    )


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (["31.1.2024", "1.2.2024"], "line 2, column 'x': '31.1.2024' is a date"),
        (["1,5", "2,5"], "line 2, column 'x': '1,5' has a comma"),
        (["", ""], "'x' has no values"),
        ([f"id{i}" for i in range(101)], "'x' has another value in every row"),
        (
            [*map(str, range(19)), "many"],
            "line 21, column 'x': 'many'.*categorical=\\['x'\\]",
        ),
    ],
)
def test_columns_that_are_no_conditions_are_refused(cells, message):
    with pytest.raises(TableError, match=message):
        Coding.learn(table_of({"x": cells}), ["x"], None)


def test_a_row_is_typical_but_for_what_is_given():
    table = table_of({"x": [1.0, 2.0, 9.0], "city": ["A", "B", "B"]})
    coder = Coding.learn(table, ["x", "city"], None)
    np.testing.assert_array_equal(coder.row(), [[2, 0, 1]])
    np.testing.assert_array_equal(coder.row({"city": "A", "x": "5"}), [[5, 1, 0]])
    with pytest.raises(TableError, match=r"no feature 'cit' \(did you mean 'city'"):
        coder.row({"cit": "A"})
    with pytest.raises(TableError, match="'C' is not a category of 'city'"):
        coder.row({"city": "C"})
    with pytest.raises(TableError, match="'abc' is not a number"):
        coder.row({"x": "abc"})


@pytest.mark.parametrize("library", [pd, pl, None])
def test_frames_and_columns_by_name_are_tables(library):
    columns = {"x": [1, 2, 3], "sold": [True, False, True], "city": ["A", None, "B"]}
    frame = columns if library is None else library.DataFrame(columns)
    coder = Coding.learn(frame, target="sold", missing="drop")
    gap = [0, 0]
    coded = coder.transform(frame)
    assert coder.columns == ["x", "city=A", "city=B", "city is missing"]
    np.testing.assert_array_equal(
        coded.X, np.column_stack([[[1, 1, 0], [3, 0, 1]], gap])
    )
    np.testing.assert_array_equal(coded.rows, [0, 2])
    with pytest.raises(TableError, match=r"X, row 2, column 'city': the value is"):
        coder.transform(frame, missing="error")


def test_missing_cells_of_nullable_columns_are_known():
    frame = pd.DataFrame({"x": pd.array([1, None, 3], dtype="Int64")})
    frame["when"] = pd.to_datetime(["2024-01-31", None, "2024-02-01"])
    table = as_table(frame)
    np.testing.assert_array_equal(table.numbers("x"), [1.0, np.nan, 3.0])
    assert table.is_missing("when").tolist() == [False, True, False]
    coding = Coding.learn(table, ["when"])
    assert coding.columns[-2:] == ["when: days", "when is missing"]


def test_values_are_those_that_a_row_was_made_of():
    coder = house_coder()
    row = coder.row({"city": "Oslo", "area": "70"})
    assert coder.values(row[0])["city"] == "Oslo"
    assert coder.values(row[0])["area"] == 70.0
    assert coder.known(np.vstack([row, 0.0 * row])).tolist() == [True, False]


def test_a_few_values_of_which_one_is_no_number_are_categories():
    cells = ["4"] * 30 + ["6"] * 20 + ["8"] * 10 + ["rotary"]
    frame = pd.DataFrame({"cylinders": cells, "size": np.arange(61.0)})
    names = TableCoder().fit(frame).get_feature_names_out()
    assert {"cylinders=4", "cylinders=6", "cylinders=8"} <= set(names)
