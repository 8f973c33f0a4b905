"""Tables are read as they are, and a bad one is refused with its line and column."""

import gzip
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from kexpfam.cli import readers
from kexpfam.cli.blocks import sampled_table
from kexpfam.cli.readers import read_table, table_blocks
from kexpfam.errors import MissingDependencyError
from kexpfam.tables import TableError
from kexpfam.tables.columns import as_column, label_of
from tests.cli.tables import houses, write


def given(tmp_path, text, name="data.csv"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize(
    ("name", "delimiter"),
    [("a.csv", ","), ("a.csv", ";"), ("a.csv", "\t"), ("a.tsv", "\t"), ("a.txt", ",")],
)
def test_delimiters_are_found(tmp_path, name, delimiter):
    columns = houses(20)
    table = read_table(write(tmp_path / name, columns, delimiter))
    assert table.names == tuple(columns)
    np.testing.assert_array_equal(table.numbers("price"), columns["price"])
    np.testing.assert_array_equal(table.labels("city"), columns["city"])


def test_quick_and_careful_readers_agree(tmp_path):
    columns = {k: v for k, v in houses(50).items() if k != "city"}
    path = tmp_path / "a.csv"
    write(path, columns)
    quick = readers._quickly(path, tuple(columns), ",")
    careful = readers._carefully(path, tuple(columns), ",", None, 50_000)
    assert quick is not None
    for name in columns:
        np.testing.assert_array_equal(quick.column(name), careful.column(name))


def test_chunks_are_joined(tmp_path):
    columns = houses(30)
    mixed = np.where(np.arange(30) < 20, "3.0", "many")  # text from the third chunk on
    path = write(tmp_path / "a.csv", {**columns, "mixed": mixed})
    table = read_table(path, chunk=7)
    np.testing.assert_array_equal(table.numbers("area"), columns["area"])
    assert table.labels("mixed").tolist() == ["3"] * 20 + ["many"] * 10
    assert table.place(29) == f"{tmp_path / 'a.csv'}, line 31"


def test_a_byte_order_mark_is_no_part_of_a_name(tmp_path):
    assert read_table(given(tmp_path, b"\xef\xbb\xbfx,y\n1,2\n")).names == ("x", "y")


@pytest.mark.parametrize("cell", ["", "NA", "NaN", "null", "?", " na "])
def test_missing_values_are_known(tmp_path, cell):
    table = read_table(given(tmp_path, f"x,city\n1,{cell}\n{cell},B\n"))
    assert table.is_missing("x").tolist() == [False, True]
    assert table.is_missing("city").tolist() == [True, False]


def test_quoted_cells_may_hold_delimiters_and_lines(tmp_path):
    table = read_table(given(tmp_path, 'x,note\n1,"a, b"\n2,"c\nd"\n3,e\n'))
    assert table.labels("note").tolist() == ["a, b", "c\nd", "e"]
    assert table.place(2).endswith("line 5")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("\n \n", "is empty"),
        ("x,y\n", "a line with names, but no rows"),
        ("1,2\n3,4\n", "line 1 holds numbers"),
        ("x,x\n1,2\n", "line 1: two columns, 1 and 2, are called 'x'"),
        ("x,,y\n1,2,3\n", "line 1: column 2 has no name"),
        ("x,y\n1,2\n3\n", "line 3: 1 fields where the first line names 2 columns"),
        ("x,y\n1,2\n3,4,5\n", "line 3: 3 fields .*'5' is one too many"),
        ('x,y\n1,2\n"3,4\n5,6\n', "line 3: the row that starts here .*quotation"),
        (b"x,y\n\x00\x01", "binary file"),
        (b"PAR1abc", "binary file"),
        (b"x,y\n1,2\n3,\xff\n", "line 3 is not text in UTF-8"),
    ],
)
def test_a_malformed_file_is_refused_with_its_line(tmp_path, text, message):
    with pytest.raises(TableError, match=message):
        read_table(given(tmp_path, text))


@pytest.mark.parametrize("text", ["x,y\n1,2\n3,4\n", "x;city\n1;Rome\n;Oslo\n"])
def test_text_may_be_compressed(tmp_path, text):
    plain = read_table(given(tmp_path, text))
    zipped = read_table(given(tmp_path, gzip.compress(text.encode()), "data.csv.gz"))
    assert zipped.names == plain.names
    for one, other in zip(zipped.columns, plain.columns, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    "content",
    [gzip.compress(b"x,y\n1,2\n" * 9)[:-9], b"x,y\n1,2"],
    ids=["cut", "plain"],
)
def test_a_compressed_file_that_is_not_whole_is_refused(tmp_path, content):
    with pytest.raises(TableError, match=r"data\.csv\.gz is not a complete gzip file"):
        read_table(given(tmp_path, content, "data.csv.gz"))


def test_labels_of_rows_may_have_no_name(tmp_path):
    table = read_table(given(tmp_path, ",y\na,2\nb,3\n"))
    assert table.names == ("Unnamed: 0", "y")


def test_a_header_may_be_wide(tmp_path):
    width = 100_000
    names = ",".join(f"c{k}" for k in range(width))
    cells = ",".join(["1"] * width)
    table = read_table(given(tmp_path, f"{names}\n{cells}\n{cells}\n"))
    assert len(table.names) == width


def odd_parquet(folder):
    """A table with columns that no model can use, beside one that any can."""
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    columns = {
        "id": pa.array([3, None, 2**60 + 1], pa.int64()),
        "several": pa.array([[1], [2, 3], None]),
        "parts": pa.array([{"a": 1}, None, {"a": 2}]),
        "bytes": pa.array([b"x", b"y", None]),
        "x": pa.array([1.0, 2.0, 3.0]),
    }
    pq.write_table(pa.table(columns), folder / "a.parquet")
    return folder / "a.parquet"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("id", r"a\.parquet, column 'id', row 3: 1152921504606846977 is beyond 2\^53"),
        ("several", r"column 'several', row 1: cells of the type list<"),
        ("parts", r"column 'parts', row 1: cells of the type struct<"),
        ("bytes", r"column 'bytes', row 1: bytes are no text.*--exclude bytes"),
    ],
)
def test_columns_that_no_model_can_use_hinder_nobody_else(tmp_path, name, message):
    path = odd_parquet(tmp_path)
    table = read_table(path, lambda names: ["x"])
    np.testing.assert_array_equal(table.numbers("x"), [1.0, 2.0, 3.0])
    assert table.is_missing(name).all()
    with pytest.raises(TableError, match=message):
        read_table(path, lambda names: [name, "x"])


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_blocks_are_the_table_some_rows_at_a_time(tmp_path, kind):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"x": rng.normal(size=23).round(3), "city": rng.choice(["A", "B", None], 23)}
    )
    path = tmp_path / f"a.{kind}"
    if kind == "csv":
        frame.to_csv(path, index=False)
        whole = readers._carefully(path, ("x", "city"), ",", None, 50)
        blocks = list(readers._delimited_blocks(path, ("x", "city"), ",", None, 5))
    else:
        pytest.importorskip("pyarrow")
        frame.to_parquet(path)
        whole, blocks = read_table(path), list(table_blocks(path, chunk=5))
    assert [len(block) for block in blocks] == [5, 5, 5, 5, 3]
    found = np.concatenate([block.numbers("x") for block in blocks])
    np.testing.assert_array_equal(found, whole.numbers("x"))
    labels = np.concatenate([block.labels("city") for block in blocks])
    np.testing.assert_array_equal(labels, whole.labels("city"))
    assert blocks[1].place(0) == whole.place(5)


def test_other_kinds_of_files_and_folders_are_refused(tmp_path):
    with pytest.raises(TableError, match=r"\.xlsx file.*save it as CSV"):
        read_table(given(tmp_path, "x", "a.xlsx"))
    with pytest.raises(TableError, match="is a folder"):
        read_table(tmp_path)
    with pytest.raises(FileNotFoundError, match="There is no file"):
        read_table(tmp_path / "nothing.csv")


@pytest.mark.parametrize(
    ("cell", "reason"),
    [("abc", ""), ("inf", "infinity"), ("1_000", ""), ("2024-01-31", "dates")],
)
def test_a_cell_that_is_no_number_is_named(tmp_path, cell, reason):
    lines = [f"{i},{i}" for i in range(20)]
    lines[4] = f"4,{cell}"
    path = given(tmp_path, "x,price\n" + "\n".join(lines))
    message = rf"data\.csv, line 6, column 'price': '{cell}' is not a number.*{reason}"
    with pytest.raises(TableError, match=message):
        read_table(path).numbers("price")


def test_a_column_of_names_says_that_numbers_are_needed(tmp_path):
    table = read_table(given(tmp_path, "x,city\n1,Rome\n2,Oslo\n"))
    message = r"line 2, column 'city': 'Rome' is not.*has to hold numbers"
    with pytest.raises(TableError, match=message):
        table.numbers("city")


def test_an_unknown_column_suggests_the_nearest(tmp_path):
    table = read_table(given(tmp_path, "rooms,Price\n1,2\n"))
    with pytest.raises(TableError, match=r"no column 'prize' \(did you mean 'Price'"):
        table.column("prize")


def test_numbers_among_texts_have_one_spelling():
    assert as_column(["7", "7.0", "07", "red"]).tolist() == ["7", "7", "7", "red"]
    assert label_of("1e3") == "1000"


def test_parquet_and_text_are_the_same_table(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    columns = houses(12)
    columns["city"] = [None if c == "Oslo" else c for c in columns["city"].tolist()]
    columns["sold"] = [True, False] * 6
    content = pyarrow.table(columns)
    parquet.write_table(content, tmp_path / "a.parquet")
    table = read_table(tmp_path / "a.parquet")
    np.testing.assert_array_equal(table.numbers("rooms"), columns["rooms"])
    np.testing.assert_array_equal(table.numbers("sold"), [1.0, 0.0] * 6)
    assert table.labels("city").tolist() == [c or "" for c in columns["city"]]
    assert table.place(0, "city").endswith("row 1, column 'city'")
    (tmp_path / "b.parquet").write_text("nothing of the kind")
    with pytest.raises(TableError, match="not a complete Parquet file"):
        read_table(tmp_path / "b.parquet")


GRADES = ("poor", "fair", "good")


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_orders_of_categories_are_read_from_parquet(tmp_path, library):
    """They were categories without one, in files of frames that know it."""
    pytest.importorskip("pyarrow.parquet")
    cells = ["good"] * 6 + ["poor"] * 6  # None is fair
    if library == "pandas":
        grades = pd.Categorical(cells, GRADES, ordered=True)
        frame = pd.DataFrame({"grade": grades, "city": pd.Categorical(cells)})
        frame.to_parquet(tmp_path / "a.parquet", row_group_size=4)
    else:
        polars = pytest.importorskip("polars")
        kinds = {"grade": polars.Enum(GRADES), "city": polars.Categorical}
        frame = polars.DataFrame(dict.fromkeys(kinds, cells), schema=kinds)
        frame.write_parquet(tmp_path / "a.parquet", row_group_size=4)
    table = read_table(tmp_path / "a.parquet", chunk=3)
    assert table.ordered == {"grade": GRADES}
    assert table.categorical == {"grade", "city"}
    assert table.labels("grade").tolist() == cells
    assert sampled_table(str(tmp_path / "a.parquet"), list, 5).ordered == table.ordered
    first, *others = table_blocks(tmp_path / "a.parquet", chunk=3)
    last = replace(first, ordered={"grade": GRADES[::-1]})
    # Blocks that disagree have no order.
    assert readers.joined_blocks([first, *others, last]).ordered == {}


def test_parquet_without_its_library_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow.parquet", None)
    with pytest.raises(MissingDependencyError, match=r"kexpfam\[parquet\]"):
        read_table(given(tmp_path, "x", "a.parquet"))


def test_a_huge_file_is_read(tmp_path):
    rng = np.random.default_rng(0)
    values = rng.integers(0, 1000, size=(200_000, 5))
    lines = "\n".join(",".join(map(str, row)) for row in values.tolist())
    table = read_table(given(tmp_path, f"a,b,c,d,e\n{lines}"))
    np.testing.assert_array_equal(np.column_stack(table.columns), values)
