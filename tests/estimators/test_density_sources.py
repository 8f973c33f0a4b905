"""KEF of rows that are read block by block: the fit to the same rows in memory."""

import warnings
from pathlib import Path

import numpy as np
import pytest
from numpy.random import default_rng

from kexpfam import KEF
from kexpfam.data import (
    ArraySource,
    UnconditionalSource,
    as_source,
    reduce_blocks,
)
from kexpfam.family import Limits
from kexpfam.kernels import Gaussian
from tests.data.accumulators import RowCount
from tests.limits import limited
from tests.tolerances import assert_close

# Coefficients solve a system of condition 1e6 or so; sums differ by rounding.
SAME = 1e-10

SAMPLED = 300

# The models here are crude on purpose, and tables have a column of texts.
pytestmark = [
    pytest.mark.filterwarnings("ignore::kexpfam.errors.BlindnessWarning"),
    pytest.mark.filterwarnings("ignore:Columns that hold no numbers were left out"),
]


LIMITS = Limits(
    design_rows=SAMPLED,
    # Exact fits are for fewer rows than designs, here as elsewhere.
    exact_size=SAMPLED,
    # So few that their system is well-conditioned.
    fewest_centers=10,
    rows_per_center=SAMPLED,
)


def rows(n=1000, seed=0):
    return default_rng(seed).gamma(3.0, size=(n, 1))


def plane(n=1000, seed=0):
    first = rows(n, seed)
    noise = default_rng(seed + 1).normal(size=(n, 1))
    return np.column_stack([first, np.sin(first) + 0.5 * noise])


def weights(n=1000):
    return default_rng(1).uniform(0.5, 2.0, n)


def settled():
    """A model without anything to choose, whose system is well-conditioned.

    With longer lengthscales neighbouring centres would be too much alike.
    """
    model = KEF(kernel=Gaussian(0.3), regularization=0.05, random_state=0)
    return limited(model, LIMITS)


def log_p(model):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # arrays have no names, frames do
        return model.score_samples(rows(40, seed=9))


def mapped(data, folder):
    data.tofile(folder / "rows")
    return np.memmap(folder / "rows", dtype=float, mode="r", shape=data.shape)


def table(data, w=None):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(data, columns=list("abc")[: data.shape[1]])
    frame = frame.assign(name="text")
    return frame if w is None else frame.assign(w=w)


def parquet(data, folder, w=None):
    pytest.importorskip("pyarrow")
    path = folder / "rows.parquet"
    table(data, w).to_parquet(path, row_group_size=130)
    return path


def dask_array(data):
    array = pytest.importorskip("dask.array")
    return array.from_array(data, chunks=(130, 1))  # columns apart


def dask_frame(data, w=None):
    frame = pytest.importorskip("dask.dataframe")
    return frame.from_pandas(table(data, w), npartitions=4)


KINDS = {
    "memmap": mapped,
    "parquet": parquet,
    "path as text": lambda data, folder: str(parquet(data, folder)),
    "polars": lambda data, folder: pytest.importorskip("polars").scan_parquet(
        parquet(data, folder)
    ),
    "dask array": lambda data, _: dask_array(data),
    "dask array of unknown size": lambda data, _: dask_frame(data)[["a"]].values,
    "dask frame": lambda data, _: dask_frame(data),
    "source": lambda data, _: ArraySource(data, data[:, :0], rows=170),
}


@pytest.mark.parametrize("kind", KINDS)
def test_many_rows_of_any_kind_give_the_model_of_memory(kind, tmp_path):
    data = rows()
    expected = settled().fit(data)
    model = settled().fit(KINDS[kind](data, tmp_path))
    assert_close(log_p(model), log_p(expected), SAME)
    assert model.n_features_in_ == 1


@pytest.mark.parametrize("kind", KINDS)
def test_few_rows_of_any_kind_give_the_model_of_memory(kind, tmp_path):
    data = rows(200)
    expected = log_p(limited(KEF(random_state=0), LIMITS).fit(data))
    model = limited(KEF(random_state=0), LIMITS).fit(KINDS[kind](data, tmp_path))
    np.testing.assert_array_equal(log_p(model), expected)


def test_all_numeric_columns_are_the_data_and_their_names_are_kept(tmp_path):
    data = plane()
    expected = settled().fit(data)
    for X in (parquet(data, tmp_path), dask_frame(data), dask_array(data)):
        model = settled().fit(X)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # arrays have no names, frames do
            log_ps = model.score_samples(data[:9])
        assert_close(log_ps, expected.score_samples(data[:9]), SAME)
        assert model.n_features_in_ == 2
        if hasattr(X, "columns") or isinstance(X, Path):
            assert list(model.feature_names_in_) == ["a", "b"]
    model.fit(mapped(rows(), tmp_path))
    assert not hasattr(model, "feature_names_in_")


def test_weights_are_an_array_or_a_column(tmp_path):
    data, w = rows(), weights()
    expected = log_p(settled().fit(data, sample_weight=w))
    assert abs(expected - log_p(settled().fit(data))).max() > 1e-4
    for X, sample_weight in (
        (mapped(data, tmp_path), w),
        (parquet(data, tmp_path, w), "w"),
        (dask_array(data), w),
        (dask_frame(data, w), "w"),
    ):
        model = settled().fit(X, sample_weight=sample_weight)
        assert_close(log_p(model), expected, SAME)


def test_a_client_passes_over_the_rows():
    distributed = pytest.importorskip("distributed")
    data = rows()
    with (
        distributed.LocalCluster(
            n_workers=1, processes=False, dashboard_address=":0"
        ) as workers,
        distributed.Client(workers, set_as_default=False) as client,
    ):
        for X in (dask_array(data), data, ArraySource(data, data[:, :0], rows=170)):
            model = settled().fit(X, client=client)
            assert_close(log_p(model), log_p(settled().fit(data)), SAME)


# --- the source


def test_blocks_are_turned_round_in_parts_and_in_sums():
    data = plane(500)
    rows_alone = ArraySource(data, data[:, :0], weights(500))
    source = as_source(rows_alone, None, conditional=False)
    blocks = [block for part in source.parts for block in part.read()]
    np.testing.assert_array_equal(np.concatenate([b.Y for b in blocks]), data)
    assert {block.X.shape[1] for block in blocks} == {0}
    summary = reduce_blocks(source, RowCount(0, 2))
    assert summary.n_rows == source.n_rows == 500
    assert summary.total_weight == pytest.approx(weights(500).sum())
    np.testing.assert_array_equal(summary.Y_max, data.max(axis=0))


def test_what_is_a_source_already_stays_so():
    data = rows(20)
    source = UnconditionalSource(ArraySource(data, data[:, :0]))
    assert as_source(source, None, conditional=False) is source
    assert as_source(data, None, conditional=False) is None


def test_errors_are_one_clear_sentence(tmp_path):
    data = rows()
    with pytest.raises(ValueError, match="a source without columns of y"):
        settled().fit(ArraySource(data, data[:, 0]))
    with pytest.raises(ValueError, match="X must have two dimensions"):
        settled().fit(mapped(data[:, 0], tmp_path))
    with pytest.raises(ValueError, match="sample_weight must name columns"):
        settled().fit(dask_frame(data), sample_weight="weight")
    with pytest.raises(ValueError, match="memory_budget"):
        settled().set_params(memory_budget="plenty").fit(data)
    data[700, 0] = np.nan
    with pytest.raises(ValueError, match=r"X must hold finite .* nan in row 700, col"):
        settled().fit(mapped(data, tmp_path))
