"""Columns of tables: what counts as numbers, and names of many."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from kexpfam.tables import Table, TableError, as_table


def texts(numbers, others):
    cells = [f"{i}.5" for i in range(numbers)] + [f"t{i}" for i in range(others)]
    return Table("a.csv", ("c",), (np.array(cells, dtype=object),))


@pytest.mark.parametrize(
    ("numbers", "others", "mostly"),
    [(9, 1, True), (18, 2, True), (17, 2, False), (8, 1, False), (89, 11, False)],
)
def test_a_column_of_nine_numbers_in_ten_is_one_of_numbers(numbers, others, mostly):
    table = texts(numbers, others)
    assert table.is_mostly_numbers("c") is mostly
    end = "correct it" if mostly else "this column has to hold numbers"
    with pytest.raises(TableError, match=end):
        table.numbers("c")


def test_gaps_do_not_count_among_cells():
    cells = np.array([*("" for _ in range(50)), "t", *map(str, range(9))], dtype=object)
    table = Table("a.csv", ("c",), (cells,))
    assert table.share_of_numbers("c") == 0.9


@pytest.mark.parametrize(
    ("values", "each", "few"),
    [(12, 3, True), (13, 3, False), (12, 2, False), (4, 3, True)],
)
def test_few_names_are_those_that_repeat(values, each, few):
    cells = np.array([f"n{i}" for i in range(values)] * each, dtype=object)
    assert Table("a.csv", ("c",), (cells,)).is_few_names("c") is few


def test_names_of_very_many_columns_are_looked_at_once():
    """Each beside all others, it would take minutes."""
    cells = np.zeros(1)
    table = as_table({f"c{i}": cells for i in range(100_000)})
    for name in table.names:
        table.column(name)
    with pytest.raises(TableError, match="several columns '5'; rename"):
        as_table(pd.DataFrame(np.zeros((1, 3)), columns=["5", "a", "5"]))


ODD = {
    "list": [[1, 2], [3]],
    "list of one length": [[1, 2], [3, 4]],
    "dict": [{"a": 1}, {"a": 2}],
    "bytes": [b"a", b"b"],
    "tuple": [(1,), None],
    "complex": [1j, 2.0],
}


@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize("make", [dict, pd.DataFrame, pl.DataFrame])
def test_cells_that_hold_several_things_are_refused_where_they_are_used(kind, make):
    """They were categories by their Python text."""
    if kind == "complex" and make is pl.DataFrame:
        pytest.skip("Polars has no complex numbers")
    table = as_table(make({"x": [1.0, 2.0], "odd": ODD[kind]}))
    assert table.numbers("x").tolist() == [1.0, 2.0]
    with pytest.raises(TableError, match=r"^X, column 'odd', row 1: .*leave it out\.$"):
        table.column("odd")


def test_a_mapping_of_single_values_is_refused_in_a_sentence():
    with pytest.raises(TableError, match=r"column 'z' is one value, 1\.0; give a list"):
        as_table({"z": 1.0})


@pytest.mark.parametrize(
    ("odd", "words"),
    [
        (1, "'t0' is not a number, while 19 of 20 cells"),
        (2, "'t0' is not a number, nor is 1 other cell, while 38 of 40 cells"),
        (3, "'t0' is not a number, nor are 2 others, while 57 of 60 cells"),
    ],
)
def test_the_first_cell_that_is_no_number_is_named_and_the_others_are_counted(
    odd, words
):
    with pytest.raises(TableError, match=words):
        texts(19 * odd, odd).numbers("c")


def test_a_few_cells_that_are_no_numbers_are_counted():
    with pytest.raises(TableError, match="299 of 300 cells of the column are"):
        texts(299, 1).numbers("c")


def test_true_and_false_in_texts_are_numbers_and_their_labels_are_kept():
    table = as_table({"a": ["True", "", "FALSE"], "b": ["True", "False", "maybe"]})
    np.testing.assert_array_equal(table.numbers("a"), [1.0, np.nan, 0.0])
    assert table.labels("a").tolist() == ["True", "", "FALSE"]
    assert not table.is_number("b")
    with pytest.raises(TableError, match="row 3, column 'b': 'maybe' is not a number"):
        table.numbers("b")
