"""Rows in memory, and the way in: whatever is passed to `fit` becomes the same rows."""

import numpy as np
import pytest
from sklearn.dummy import DummyRegressor

from kexpfam import blocks, data
from kexpfam.data import (
    ArraySource,
    Rows,
    RowSample,
    Source,
    note_columns,
    reduce_blocks,
    rows_in_memory,
    training_data,
)


def arrays(rows):
    return np.column_stack([rows.X, rows.Y, rows.weights])


@pytest.mark.parametrize(
    "index",
    [slice(5, 900, 3), np.array([7, 3, 3, 999]), np.arange(1000) % 4 == 1],
    ids=["slice", "numbers", "mask"],
)
def test_an_index_takes_the_same_rows_of_all_arrays(rows, index):
    some = Rows(*rows)[index]
    np.testing.assert_array_equal(arrays(some), np.column_stack(rows)[index])
    assert len(some) == len(np.arange(1000)[index])


def test_parts_concatenated_are_the_whole(rows):
    whole = Rows(*rows)
    again = Rows.concatenate([whole[:0], whole[:300], whole[300:]])
    np.testing.assert_array_equal(arrays(again), arrays(whole))


def test_a_sample_keeps_its_hashes_with_its_rows(rows):
    sample = reduce_blocks(ArraySource(*rows), RowSample(50, seed=0))
    order = np.arange(50)[::-1]
    turned = sample[order]
    assert type(turned) is type(sample)
    np.testing.assert_array_equal(turned.hashes, sample.hashes[order])
    assert len(type(sample).concatenate([sample, turned]).hashes) == 100


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_and_names_of_columns_give_the_rows_of_arrays(rows, library):
    frames = pytest.importorskip(library)
    X, y, weights = rows
    columns = dict(zip("abcdew", np.column_stack([X, y, weights]).T, strict=True))
    frame = frames.DataFrame(columns)
    expected = arrays(training_data(DummyRegressor(), X, y, weights))
    for given in (
        (frame, ["d", "e"], "w"),
        (frame, ("d", "e"), "w"),
        (frame[["a", "b", "c"]], frame[["d", "e"]], weights),
    ):
        estimator = DummyRegressor()
        found = training_data(estimator, *given)
        np.testing.assert_array_equal(arrays(found), expected)
        assert estimator.feature_names_in_.tolist() == ["a", "b", "c"]
    one = training_data(DummyRegressor(), frame[["a", "d"]], "d")
    np.testing.assert_array_equal(one.Y, y[:, :1])
    with pytest.raises(ValueError, match="X has no column 'z'; its columns are 'a'"):
        training_data(DummyRegressor(), frame, "z")


def test_a_single_number_for_y_is_refused():
    frame = pytest.importorskip("pandas").DataFrame({0: [1.0, 2.0], 1: [3.0, 4.0]})
    with pytest.raises(ValueError, match="y=1 is one value; pass one for each row"):
        training_data(DummyRegressor(), frame, 1)


def test_a_source_gives_the_estimator_its_columns(rows, tmp_path):
    estimator = DummyRegressor()
    estimator.feature_names_in_ = np.array(["old"], dtype=object)
    found = training_data(estimator, ArraySource(*rows), None)
    assert isinstance(found, Source)
    assert list(estimator.feature_names_in_) == ["old"]  # until the fit has succeeded
    note_columns(estimator, found)
    assert estimator.n_features_in_ == 3
    assert not hasattr(estimator, "feature_names_in_")


def test_without_conditions_all_columns_are_responses(rows):
    X, _, weights = rows
    in_memory = training_data(DummyRegressor(), X, None, weights, conditional=False)
    assert (in_memory.X.shape, in_memory.Y.shape) == ((1000, 0), (1000, 3))
    estimator = DummyRegressor()
    source = training_data(estimator, ArraySource(X, X[:, :0]), None, conditional=False)
    assert (source.n_features, source.n_responses) == (0, 3)
    note_columns(estimator, source)
    assert estimator.n_features_in_ == 3


def test_later_rows_must_have_the_columns_of_the_first(rows):
    X, y, _ = rows
    estimator = DummyRegressor()
    rows_in_memory(estimator, X, y)
    assert len(rows_in_memory(estimator, X[:1], y[:1], first=False, least=1)) == 1
    with pytest.raises(ValueError, match="2 features"):
        rows_in_memory(estimator, X[:, :2], y, first=False)
    with pytest.raises(ValueError, match="minimum of 2 is required"):
        rows_in_memory(estimator, X[:1], y[:1])


def test_the_old_names_still_work():
    assert blocks.Block is Rows
    for name in data.__all__:
        assert getattr(blocks, name) is getattr(data, name)
