"""Rows for the tests, their sums by a loop, and every kind of source of them."""

import numpy as np

from kexpfam.data import (
    ArraySource,
    DaskSource,
    ParquetSource,
    PolarsSource,
    Rows,
    reduce_blocks,
)
from tests.data.accumulators import Moments

FEATURES, RESPONSES, WEIGHT = ["a", "b", "c"], ["d", "e"], "w"


def some_rows(n=1000):
    """X (n, 3), y (n, 2) and weights (n,), a third of them zero."""
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(n, 3)), rng.normal(size=(n, 2))
    return X, y, rng.integers(0, 3, size=n).astype(float)


def slow_moments(X, y, weights):
    """Σ w z zᵀ of z = (1, x, y), row by row."""
    total = np.zeros((1 + X.shape[1] + y.shape[1],) * 2)
    for x_row, y_row, weight in zip(X, y, weights, strict=True):
        z = np.concatenate([[1.0], x_row, y_row])
        total += weight * np.outer(z, z)
    return total


def assert_sums(source, rows, **options):
    """Moments of a source are those of a loop over the rows."""
    got = reduce_blocks(source, Moments(6), **options)
    np.testing.assert_allclose(got, slow_moments(*rows), rtol=1e-12, atol=1e-12)


def assert_holds(source, rows):
    """A source holds the rows whose weight is not zero, in their order."""
    found, kept = Rows.concatenate(read_all(source)), rows[2] > 0
    for got, array in zip((found.X, found.Y, found.weights), rows, strict=True):
        np.testing.assert_array_equal(got, array[kept])


def table(X, y, weights):
    """A dictionary of columns, with a text that is no feature."""
    names = [*FEATURES, *RESPONSES, WEIGHT]
    columns = dict(zip(names, np.column_stack([X, y, weights]).T, strict=True))
    return {"name": [f"row {i}" for i in range(len(X))], **columns}


def read_all(source):
    """All blocks, in order."""
    return [block for part in source.parts for block in part.read()]


def parquet_file(folder, rows, *, row_group_size=150, files=1):
    """A folder of Parquet files with these rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    whole = pa.table(table(*rows))
    folder.mkdir(exist_ok=True)
    size = -(-len(whole) // files)
    for i in range(files):
        piece = whole.slice(i * size, size)
        pq.write_table(piece, folder / f"{i}.parquet", row_group_size=row_group_size)
    return folder


def dask_frame(rows, *, npartitions=11):
    """A Dask data frame with these rows."""
    import dask.dataframe as dd
    import pandas as pd

    return dd.from_pandas(pd.DataFrame(table(*rows)), npartitions=npartitions)


def dask_arrays(rows):
    """Dask arrays whose chunks do not fit together, and weights that are none."""
    import dask.array as da

    X, y, weights = rows
    return (
        da.from_array(X, chunks=(137, 2)),
        da.from_array(y, chunks=(100, 1)),
        weights,
    )


def unknown_sizes(rows):
    """Dask arrays whose partitions have unknown sizes, some of them empty."""
    frame = dask_frame(rows, npartitions=6)
    frame = frame[(frame["w"] > 0) & ((frame.index < 300) | (frame.index > 700))]
    X, y = frame[FEATURES].to_dask_array(), frame[RESPONSES].to_dask_array()
    return X, y, frame[WEIGHT].to_dask_array()


def all_sources(rows, folder, *, block=8192):
    """Every kind of source that holds the rows."""
    import polars as pl
    import pyarrow.dataset as ds

    path = parquet_file(folder / "parquet", rows, files=2)
    frame = dask_frame(rows)
    names = {"y": RESPONSES, "sample_weight": WEIGHT, "rows": block}
    return {
        "arrays": ArraySource(*rows, rows=block),
        "parquet": ParquetSource(path, **names),
        "pattern": ParquetSource(path / "*.parquet", **names),
        "dataset": ParquetSource(ds.dataset(path), **names),
        "polars": PolarsSource(pl.LazyFrame(table(*rows)), **names),
        "polars scan": PolarsSource(pl.scan_parquet(path / "*.parquet"), **names),
        "dask arrays": DaskSource(*dask_arrays(rows), rows=block),
        "dask frame": DaskSource(frame, **names),
        "dask series": DaskSource(
            frame[["name", *FEATURES]], frame[RESPONSES], frame[WEIGHT], rows=block
        ),
    }
