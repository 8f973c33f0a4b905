"""Every kind of source holds the same rows, and names what is wrong with them."""

import numpy as np
import pandas as pd
import pytest

from kexpfam.data import (
    ArraySource,
    DaskSource,
    ParquetSource,
    PolarsSource,
    as_source,
    reduce_blocks,
)
from kexpfam.errors import TableWarning
from tests.data.accumulators import AllRows, Failing, Moments, RowCount
from tests.data.cases import (
    FEATURES,
    RESPONSES,
    all_sources,
    assert_holds,
    assert_sums,
    dask_frame,
    parquet_file,
    read_all,
    table,
    unknown_sizes,
)

pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")
pytest.importorskip("dask.dataframe")
pytest.importorskip("pyarrow.dataset")

# Their tables have names of rows, which are texts.
pytestmark = pytest.mark.filterwarnings("ignore:Columns that hold no numbers")

KINDS = [
    "arrays",
    "parquet",
    "pattern",
    "dataset",
    "polars",
    "polars scan",
    "dask arrays",
    "dask frame",
    "dask series",
]


@pytest.fixture(scope="module", params=[17, 8192], ids="blocks of {}".format)
def sources(request, rows, tmp_path_factory):
    return all_sources(rows, tmp_path_factory.mktemp("rows"), block=request.param)


@pytest.mark.parametrize("kind", KINDS)
def test_every_source_yields_the_rows_in_their_order(sources, rows, kind):
    source = sources[kind]
    blocks = read_all(source)
    assert max(len(block) for block in blocks) <= source.rows_per_block
    assert min(len(block) for block in blocks) > 0
    assert_holds(source, rows)
    for block in blocks:
        assert block.X.dtype == block.Y.dtype == block.weights.dtype == np.float64


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("threads", [1, 3])
def test_every_source_has_the_sums_of_a_loop_over_rows(sources, rows, kind, threads):
    assert_sums(sources[kind], rows, n_jobs=threads)


@pytest.mark.parametrize("kind", KINDS)
def test_every_source_can_be_read_again(sources, kind):
    first = reduce_blocks(sources[kind], Moments(6), n_jobs=2)
    again = reduce_blocks(sources[kind], Moments(6), n_jobs=2)
    np.testing.assert_array_equal(first, again)


@pytest.mark.parametrize("kind", KINDS)
def test_every_source_knows_its_columns(sources, kind):
    source = sources[kind]
    assert (source.n_features, source.n_responses) == (3, 2)
    unnamed = kind in {"arrays", "dask arrays"}
    assert source.feature_names == (None if unnamed else tuple(FEATURES))
    counted = kind not in {"polars", "dask frame", "dask series"}
    assert source.n_rows == (1000 if counted else None)


def test_blocks_of_a_single_part_are_dealt_to_all_threads(rows, tmp_path):
    _, y, _ = rows
    numbers = np.arange(1000.0)[:, None] * np.ones(3)
    path = parquet_file(tmp_path, (numbers, y, np.ones(1000)), row_group_size=1000)
    source = ParquetSource(path, RESPONSES, "w", rows=100)
    assert len(source.parts) == 1
    got = reduce_blocks(source, AllRows(), n_jobs=3)
    starts = [int(block[0, 0]) // 100 for block in got]
    assert starts == [0, 3, 6, 9, 1, 4, 7, 2, 5, 8]


def test_an_error_of_a_thread_that_was_dealt_blocks_is_raised(rows, tmp_path):
    numbers = np.arange(1000.0)[:, None] * np.ones(3)
    path = parquet_file(tmp_path, (numbers, rows[1], rows[2]), row_group_size=1000)
    source = ParquetSource(path, RESPONSES, "w", rows=10)
    with pytest.raises(ArithmeticError, match="asked to fail"):
        reduce_blocks(source, Failing(300.0), n_jobs=3)


@pytest.mark.parametrize(
    ("change", "n_parts"),
    [
        (lambda frame: frame, 13),
        (lambda frame: frame.with_columns(b=pl.col("b") * 1.0), 13),
        (lambda frame: frame.filter(pl.col("w") > 0), 1),
        (lambda frame: frame.sort("a"), 1),
        (lambda frame: frame.slice(100, 300), 1),
        (lambda frame: pl.concat([frame, frame]), 1),
    ],
    ids=["scan", "product", "filter", "sort", "slice", "concat"],
)
def test_lazy_frames_are_split_if_rows_can_be_read_alone(
    rows, change, n_parts, tmp_path
):
    path = parquet_file(tmp_path, rows, files=2)
    frame = change(pl.scan_parquet(path / "*.parquet"))
    source = PolarsSource(frame, RESPONSES, "w", rows=10)
    assert len(source.parts) == n_parts
    assert source.n_rows == (None if n_parts == 1 else 1000)
    expected = frame.filter(pl.col("w") > 0).select([*FEATURES, *RESPONSES, "w"])
    got = [np.column_stack([b.X, b.Y, b.weights]) for b in read_all(source)]
    np.testing.assert_array_equal(np.concatenate(got), expected.collect().to_numpy())


def test_partitions_of_unknown_size_are_read_and_empty_ones_skipped(rows):
    X, y, weights = unknown_sizes(rows)
    assert np.isnan(X.shape[0])
    source = DaskSource(X, y, weights)
    index = np.arange(1000)
    kept = (rows[2] > 0) & ((index < 300) | (index > 700))
    parts = [list(part.read()) for part in source.parts]
    assert [] in parts
    assert_sums(source, [array[kept] for array in rows])
    assert source.n_rows is None


def test_weights_of_one_are_the_default(rows, tmp_path):
    X, y, _ = rows
    path = parquet_file(tmp_path, rows)
    for source in (
        ParquetSource(path, RESPONSES, features=FEATURES),
        PolarsSource(pl.scan_parquet(path), RESPONSES, features=FEATURES),
        DaskSource(dask_frame(rows), RESPONSES, features=FEATURES),
    ):
        assert_sums(source, (X, y, np.ones(1000)))


def test_columns_in_names_of_folders_are_read(rows, tmp_path):
    for year in (2001, 2002):
        parquet_file(tmp_path / f"year={year}", rows)
    source = ParquetSource(tmp_path, RESPONSES, "w", features=["a", "year"])
    summary = reduce_blocks(source, RowCount(2, 2))
    assert summary.n_rows == 2 * (rows[2] > 0).sum()
    assert (summary.X_min[1], summary.X_max[1]) == (2001.0, 2002.0)


def test_whole_numbers_booleans_and_decimals_are_numbers(tmp_path):
    import pyarrow.parquet as pq

    columns = {
        "whole": pa.array([1, 2], pa.int32()),
        "flag": pa.array([True, False]),
        "decimal": pa.array([1, 2], pa.decimal128(5, 2)),
        "single": pa.array([0.5, 0.25], pa.float32()),
        "text": pa.array(["1", "2"]),
        "y": pa.array([0.0, 1.0]),
    }
    pq.write_table(pa.table(columns), tmp_path / "types.parquet")
    wanted = [[1.0, 1.0, 1.0, 0.5], [2.0, 0.0, 2.0, 0.25]]
    for source in (
        ParquetSource(tmp_path / "types.parquet", "y"),
        PolarsSource(pl.scan_parquet(tmp_path / "types.parquet"), "y"),
    ):
        assert source.feature_names == ("whole", "flag", "decimal", "single")
        (block,) = read_all(source)
        np.testing.assert_array_equal(block.X, wanted)


def spoilt(rows, column, value):
    """The rows as a table with a bad value in row 777 of a column."""
    columns = table(*rows)
    columns[column] = [float(number) for number in columns[column]]
    columns[column][777] = value
    return columns


@pytest.mark.parametrize("column", ["b", "e", "w"])
def test_missing_values_are_named_with_file_row_and_column(rows, column, tmp_path):
    import pyarrow.parquet as pq

    bad = pa.table(spoilt(rows, column, None))
    pq.write_table(bad, tmp_path / "bad.parquet", row_group_size=100)
    source = ParquetSource(tmp_path / "bad.parquet", RESPONSES, "w", rows=30)
    wanted = rf"Column '{column}' .* none in row 777 of .*bad\.parquet; drop or fill"
    with pytest.raises(ValueError, match=wanted):
        reduce_blocks(source, AllRows(), n_jobs=2)
    frame = pl.scan_parquet(tmp_path / "bad.parquet")
    wanted = f"Column '{column}' .* none in row 777 of the query; drop or fill"
    with pytest.raises(ValueError, match=wanted):
        reduce_blocks(PolarsSource(frame, RESPONSES, "w", rows=30), AllRows(), n_jobs=2)


@pytest.mark.parametrize(
    ("column", "argument"), [("b", "X"), ("e", "y"), ("w", "sample_weight")]
)
def test_values_that_are_not_finite_are_named_with_their_column(
    rows, column, argument, tmp_path
):
    import dask.dataframe as dd
    import pandas as pd
    import pyarrow.parquet as pq

    columns = spoilt(rows, column, np.nan)
    pq.write_table(pa.table(columns), tmp_path / "bad.parquet")
    frame = dd.from_pandas(pd.DataFrame(columns), npartitions=2)
    place = rf"{argument} must hold finite .* nan in row {{}}, column '{column}'; drop"
    names = (RESPONSES, "w")
    for source, row in (
        (ParquetSource(tmp_path / "bad.parquet", *names), r"777 of .*bad\.parquet"),
        (PolarsSource(pl.LazyFrame(columns), *names), "777 of the query"),
        (DaskSource(frame, *names), "277 of partition 1"),
    ):
        with pytest.raises(ValueError, match=place.format(row)):
            reduce_blocks(source, AllRows(), n_jobs=2)


def test_missing_values_of_nullable_dask_columns_are_refused(rows):
    frame = dask_frame(rows).astype({"b": "Float64"})
    frame["b"] = frame["b"].mask(frame["b"] > 0.0)
    with pytest.raises(ValueError, match=r"X must hold finite .* column 'b'"):
        reduce_blocks(DaskSource(frame, RESPONSES, "w"), AllRows())


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (
            {"y": "z"},
            r"y must name columns of the table, got 'z'; there are 'name', 'a'",
        ),
        ({"y": ["d", "z"]}, r"y must name columns of the table, got 'z'"),
        ({"y": None}, r"y must name columns of the table, got None"),
        ({"y": "name"}, r"y must name columns of numbers, but 'name' holds"),
        ({"y": "d", "sample_weight": "z"}, r"sample_weight must name columns"),
        ({"y": "d", "features": ["a", "q"]}, r"features must name .*, got 'q'"),
        ({"y": "d", "features": ["a", "name"]}, r"features must name columns of num"),
        ({"y": "d", "features": ["a", "d"]}, r"Column 'd' can be one of features"),
        ({"y": "d", "features": []}, r"X must have at least one numeric column"),
        ({"y": ["d", "d"]}, r"Column 'd' can be one of .* only once"),
        ({"y": np.zeros(1000)}, r"y must name columns of the table"),
    ],
)
def test_wrong_names_are_refused(rows, arguments, wanted, tmp_path):
    path = parquet_file(tmp_path, rows)
    for kind, data in (
        (ParquetSource, path),
        (PolarsSource, pl.scan_parquet(path)),
        (DaskSource, dask_frame(rows)),
    ):
        with pytest.raises(ValueError, match=wanted):
            kind(data, **arguments)


def test_files_that_do_not_exist_are_named(tmp_path):
    for missing in ("nothing.parquet", "*.parquet"):
        with pytest.raises(FileNotFoundError, match="parquet"):
            ParquetSource(tmp_path / missing, "y")


def test_datasets_of_other_files_or_with_a_filter_are_refused(rows, tmp_path):
    import pyarrow.csv
    import pyarrow.dataset as ds

    pyarrow.csv.write_csv(pa.table(table(*rows)), tmp_path / "rows.csv")
    with pytest.raises(ValueError, match="X must be a dataset of Parquet files"):
        ParquetSource(ds.dataset(tmp_path / "rows.csv", format="csv"), "d")
    whole = ds.dataset(parquet_file(tmp_path / "rows", rows))
    with pytest.raises(ValueError, match="X must be a dataset of files"):
        ParquetSource(whole.filter(ds.field("a") > 0), "d")


def test_dask_collections_that_do_not_fit_together_are_refused(rows):
    import dask.array as da

    X = da.from_array(rows[0], chunks=(100, 3))
    with pytest.raises(
        ValueError, match="y must have as many rows as X, 1000, got 999"
    ):
        DaskSource(X, rows[1][:999])
    with pytest.raises(ValueError, match="X must have two dimensions"):
        DaskSource(X[:, 0], rows[1])
    with pytest.raises(ValueError, match="sample_weight must have 1 dimensions"):
        DaskSource(X, rows[1], rows[1])
    unknown, y, _ = unknown_sizes(rows)
    with pytest.raises(ValueError, match=r"Dask array of 6 row chunks .*sizes are not"):
        DaskSource(unknown, rows[1])
    with pytest.raises(ValueError, match="as many rows as X, but in partition"):
        reduce_blocks(DaskSource(unknown, y[y[:, 0] > 0]), AllRows())
    with pytest.raises(ValueError, match="X must be a data frame, got a series"):
        DaskSource(dask_frame(rows)["a"], "d")
    frame, other = dask_frame(rows), dask_frame(rows, npartitions=3)
    with pytest.raises(ValueError, match="y must have the partitions of X, 11"):
        DaskSource(frame[FEATURES], other["d"])


def test_the_kind_of_source_follows_from_the_data(rows, tmp_path):
    import dask.array as da
    import pandas as pd
    import pyarrow.dataset as ds

    path = parquet_file(tmp_path, rows)
    lazy, X = pl.scan_parquet(path), da.from_array(rows[0])
    assert isinstance(as_source(path, "d"), ParquetSource)
    assert isinstance(as_source(str(path), "d", "w"), ParquetSource)
    assert isinstance(as_source(ds.dataset(path), "d"), ParquetSource)
    assert isinstance(as_source(lazy, "d"), PolarsSource)
    assert isinstance(as_source(X, rows[1], rows[2]), DaskSource)
    assert isinstance(as_source(dask_frame(rows), "d"), DaskSource)
    assert as_source(pd.DataFrame(rows[0]), rows[1]) is None
    assert as_source(lazy.collect(), rows[1]) is None


def test_a_small_budget_makes_small_blocks_everywhere(rows, tmp_path):
    path = parquet_file(tmp_path, rows, row_group_size=1000)
    budget = 8 * 4 * 8 * 6 * 50  # for 50 rows of 6 numbers
    for data, y, weights in (
        (path, RESPONSES, "w"),
        (pl.scan_parquet(path), RESPONSES, "w"),
        (dask_frame(rows, npartitions=1), RESPONSES, "w"),
    ):
        source = as_source(data, y, weights, memory_budget=budget, n_jobs=1)
        assert source.rows_per_block == 50
        assert max(len(block) for block in read_all(source)) <= 50


def test_a_source_brings_its_own_y(rows):
    source = ArraySource(*rows)
    with pytest.raises(ValueError, match="y and sample_weight must be None"):
        as_source(source, rows[1])


def test_columns_that_are_left_out_for_what_they_hold_are_said(rows, tmp_path):
    """A model without a column of texts looked like one with it."""
    frame = pd.DataFrame({"city": ["Rome", "Oslo"], "a": [1.0, 2.0], "y": [0.0, 1.0]})
    frame.to_parquet(tmp_path / "cities.parquet")
    lazy = pl.from_pandas(frame).lazy()
    for make in (ParquetSource, PolarsSource):
        data = lazy if make is PolarsSource else tmp_path / "cities.parquet"
        with pytest.warns(TableWarning, match="no numbers were left out: 'city'"):
            assert make(data, "y").feature_names == ("a",)
        assert make(data, "y", features=["a"]).feature_names == ("a",)


def test_a_file_of_something_else_is_refused_in_a_sentence(tmp_path):
    (tmp_path / "a.csv").write_text("a,y\n1,2\n")
    with pytest.raises(ValueError, match=r"must name Parquet files, and .*a\.csv' is"):
        ParquetSource(tmp_path / "a.csv", "y")


def test_the_index_of_a_pandas_frame_is_no_feature_unless_asked(tmp_path):
    frame = pd.DataFrame({"id": [3, 1, 2], "a": [1.0, 2.0, 4.0], "y": [0.0, 1.0, 2.0]})
    for name in ("id", "__index_level_0__"):
        path = tmp_path / f"{name}.parquet"
        shown = frame.set_index("id") if name == "id" else frame.iloc[[2, 0, 1]]
        shown.to_parquet(path)
        assert name not in ParquetSource(path, "y").feature_names
        assert ParquetSource(path, "y", features=[name]).feature_names == (name,)
