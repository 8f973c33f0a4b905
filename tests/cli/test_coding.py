"""Codings remember columns and categories, and say which cell they do not know."""

import json
from dataclasses import asdict

import numpy as np
import pytest

from kexpfam.cli.coding import MOST_CATEGORIES, learn_coding, read_coding
from kexpfam.cli.tables import Table, TableError
from kexpfam.errors import FileFormatError
from tests.cli.tables import houses


def table_of(columns, path="data.csv"):
    arrays = tuple(
        np.asarray(c, dtype=float if np.asarray(c).dtype.kind in "fi" else object)
        for c in columns.values()
    )
    return Table(path, tuple(columns), arrays)


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
    columns = houses(12)
    coding = learn_coding(table_of(columns), FEATURES, "price")
    assert coding.columns == ["area", "rooms", "city=Lima", "city=Oslo", "city=Rome"]
    coded = coding.matrix(table_of(columns))
    np.testing.assert_array_equal(coded.X, slow_matrix(columns))
    np.testing.assert_array_equal(coded.rows, np.arange(12))


def test_columns_and_categories_are_remembered_in_another_order():
    columns = houses(12)
    coding = learn_coding(table_of(columns), FEATURES, "price")
    few = {k: np.asarray(columns[k])[[4, 1]] for k in ("city", "price", "area")}
    few["rooms"] = np.asarray(columns["rooms"])[[4, 1]]
    coded = coding.matrix(table_of(few))
    np.testing.assert_array_equal(coded.X, slow_matrix(columns)[[4, 1]])


def test_a_coding_survives_json():
    coding = learn_coding(table_of(houses(12)), FEATURES, "price", missing="impute")
    text = json.dumps(asdict(coding), allow_nan=False)
    assert read_coding(json.loads(text), "a") == coding


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
def test_a_damaged_coding_is_refused(change):
    entry = asdict(learn_coding(table_of(houses(12)), FEATURES, "price")) | change
    with pytest.raises(FileFormatError, match="damaged description of its table"):
        read_coding(entry, "a")


def test_a_number_may_be_asked_to_be_a_category():
    table = table_of({"code": [3.0, 1.0, 3.0]})
    coding = learn_coding(table, ["code"], None, categorical=["code"])
    assert coding.features[0].categories == ("1", "3")
    assert coding.features[0].typical == "3"
    as_text = table_of({"code": ["3", "1"]})
    np.testing.assert_array_equal(coding.matrix(as_text).X, [[0, 1], [1, 0]])


def test_an_unknown_category_is_named_or_ignored():
    coding = learn_coding(table_of({"city": ["A", "B"]}), ["city"], None)
    table = table_of({"city": ["B", "Paris"]})
    with pytest.raises(TableError, match=r"line 3, column 'city': 'Paris'.*'A', 'B'"):
        coding.matrix(table)
    X = coding.matrix(table, unknown="ignore").X
    np.testing.assert_array_equal(X, [[0, 1], [0, 0]])


def test_missing_values_are_refused_dropped_or_imputed():
    table = table_of({"x": [1.0, np.nan, 3.0, 8.0], "city": ["A", "B", "", "B"]})
    coding = learn_coding(table, ["x", "city"], None)
    message = "line 3, column 'x': the value is missing.* 2 of 4 rows.*--missing drop"
    with pytest.raises(TableError, match=message):
        coding.matrix(table)
    dropped = coding.matrix(table, missing="drop")
    np.testing.assert_array_equal(dropped.rows, [0, 3])
    imputed = coding.matrix(table, missing="impute")
    np.testing.assert_array_equal(
        imputed.X, [[1, 1, 0], [3, 0, 1], [3, 0, 1], [8, 0, 1]]
    )


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (["2024-01-31", "2024-02-01"], "line 2, column 'x': '2024-01-31' is a date"),
        (["1,5", "2,5"], "line 2, column 'x': '1,5' has a comma"),
        (["", ""], "column 'x' has no values"),
        ([f"id{i}" for i in range(MOST_CATEGORIES + 1)], "too many for categories"),
        (["1"] * 19 + ["many"], "line 21, column 'x': 'many'.*--categorical x"),
    ],
)
def test_columns_that_are_no_conditions_are_refused(cells, message):
    with pytest.raises(TableError, match=message):
        learn_coding(table_of({"x": cells}), ["x"], None)


def test_a_row_is_typical_but_for_what_is_given():
    table = table_of({"x": [1.0, 2.0, 9.0], "city": ["A", "B", "B"]})
    coding = learn_coding(table, ["x", "city"], None)
    np.testing.assert_array_equal(coding.row(), [[2, 0, 1]])
    np.testing.assert_array_equal(coding.row({"city": "A", "x": "5"}), [[5, 1, 0]])
    with pytest.raises(TableError, match=r"no feature 'cit' \(did you mean 'city'"):
        coding.row({"cit": "A"})
    with pytest.raises(TableError, match="'C' is not a category of 'city'"):
        coding.row({"city": "C"})
    with pytest.raises(TableError, match="'abc' is not a number"):
        coding.row({"x": "abc"})
