"""Forests in files: the same bits come back, and what is no forest is refused."""

import json

import numpy as np
import pytest

from kexpfam.persistence.container import read_container, write_container
from kexpfam.persistence.encoding import Decoder, Encoder
from kexpfam.trees import fit_boosting, fit_forest
from tests.persistence.files import same
from tests.trees.cases import rows


def encoded(forest):
    """Arrays and JSON of a forest."""
    encoder = Encoder()
    value = encoder.encode(forest)
    return encoder.arrays, json.loads(json.dumps([encoder.objects, value]))


def decoded(arrays, content):
    decoder = Decoder(arrays, content[0])
    forest = decoder.decode(content[1])
    decoder.finish()
    return forest


def forests():
    X, Y, weights = rows(60, k=4, missing=0.1)
    rng = np.random.default_rng(0)
    extra = fit_forest(X, Y, weights, rng, trees=5).forest
    boosted = fit_boosting(X, Y[:, 0], weights, rng, rounds=5, min_leaf=3).forest
    return {
        "extra": extra,
        "random": fit_forest(X, Y, weights, rng, trees=5, kind="random").forest,
        "compressed": extra.compressed(2),
        "boosted": boosted,
        "one leaf": boosted.first(0),
        "leaves only": fit_forest(X, 0 * Y, weights, rng, trees=3).forest,
    }


FORESTS = forests()


@pytest.mark.parametrize("name", FORESTS)
def test_a_saved_forest_predicts_the_same_bits(name, tmp_path):
    forest = FORESTS[name]
    arrays, content = encoded(forest)
    write_container(tmp_path / "file", arrays, {"content": content})
    arrays, description = read_container(tmp_path / "file")
    loaded = decoded(arrays, description["content"])
    assert same(forest, loaded)
    X = rows(200, seed=5, missing=0.2)[0]
    assert np.array_equal(loaded.predict(X), forest.predict(X))
    size = (tmp_path / "file").stat().st_size
    assert size < forest.nbytes + 3000  # arrays are kept in their own types


def test_a_forest_that_occurs_twice_is_stored_once():
    encoder = Encoder()
    first = encoder.encode(FORESTS["extra"], "a")
    stored = len(encoder.arrays)
    assert encoder.encode(FORESTS["extra"], "b") == first
    assert len(encoder.arrays) == stored


# What is done to an array, and words of the refusal.
WRONG = {
    "column that is not there": ("feature", 0, 3, "a column that is not there"),
    "negative column": ("feature", 0, -2, "a column that is not there"),
    "leaf in place of a root": ("feature", 0, -1, "does not fit its splits"),
    "first root": ("roots", 0, 1, "roots of Forest do not fit"),
    "root beyond the nodes": ("roots", -1, 10**6, "roots of Forest do not fit"),
    "negative root": ("roots", 1, -1, "must not be negative"),
    "roots in disorder": ("roots", 1, 1, "roots of Forest do not fit"),
    "threshold": ("threshold", 0, np.nan, "does not fit its splits"),
    "value": ("values", 0, np.inf, "array values of Forest is not finite"),
    "missing": ("missing_left", 0, 2, "is not a share"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_no_tree_is_refused(case):
    key, place, value, words = WRONG[case]
    arrays, content = encoded(FORESTS["extra"])
    arrays[key] = arrays[key].copy()
    arrays[key][place] = value
    with pytest.raises(ValueError, match=words):
        decoded(arrays, content)


def test_a_node_that_would_be_its_own_child_is_refused():
    # As many splits as before, but the root is a leaf, and nodes follow it.
    arrays, content = encoded(FORESTS["extra"])
    feature = arrays["feature"] = arrays["feature"].copy()
    second = FORESTS["extra"].roots[1]
    last_leaf = second - 1
    feature[last_leaf], feature[0] = feature[0], -1
    with pytest.raises(ValueError, match="its own child"):
        decoded(arrays, content)


@pytest.mark.parametrize(
    ("key", "dtype"),
    [
        ("feature", np.float64),
        ("feature", np.uint8),
        ("roots", np.float64),
        ("values", np.int32),
        ("threshold", np.int16),
        ("offset", np.float32),
        ("missing_left", np.int16),
    ],
)
def test_other_types_are_refused(key, dtype):
    arrays, content = encoded(FORESTS["extra"])
    arrays[key] = arrays[key].astype(dtype)
    with pytest.raises(ValueError, match=f"array {key} of Forest is {np.dtype(dtype)}"):
        decoded(arrays, content)


@pytest.mark.parametrize(
    "key", ["roots", "feature", "threshold", "missing_left", "values"]
)
@pytest.mark.parametrize("change", ["less", "more", "none"])
def test_arrays_that_do_not_fit_each_other_are_refused(key, change):
    arrays, content = encoded(FORESTS["extra"])
    array = arrays[key]
    changed = {"less": array[:-1], "more": np.append(array, array[-1:], axis=0)}
    arrays[key] = changed.get(change, array[:0])
    with pytest.raises(ValueError, match="Forest"):
        decoded(arrays, content)


@pytest.mark.parametrize("name", ["extra", "boosted", "compressed"])
def test_changed_bytes_are_refused_or_give_a_forest_that_predicts(name):
    rng = np.random.default_rng(0)
    X = rows(20, seed=5, missing=0.2)[0]
    refused = 0
    for _ in range(400):
        arrays, content = encoded(FORESTS[name])
        key = str(rng.choice(["roots", "feature", "missing_left", "threshold"]))
        spoiled = bytearray(arrays[key].tobytes())
        for place in rng.integers(len(spoiled), size=rng.integers(1, 4)):
            spoiled[place] = rng.choice([0, 1, 255, rng.integers(256)])
        arrays[key] = np.frombuffer(bytes(spoiled), arrays[key].dtype).reshape(
            arrays[key].shape
        )
        try:
            forest = decoded(arrays, content)
        except ValueError:
            refused += 1
        else:
            assert np.isfinite(forest.predict(X)).all()
    assert refused > 50


def test_swapped_nodes_are_refused_or_give_a_forest_that_predicts():
    rng = np.random.default_rng(1)
    X = rows(20, seed=5)[0]
    words = set()
    for _ in range(300):
        arrays, content = encoded(FORESTS["random"])
        feature = arrays["feature"] = arrays["feature"].copy()
        first = FORESTS["random"].roots[1]  # numbers of splits are right in each tree
        feature[:first] = rng.permutation(feature[:first])
        try:
            forest = decoded(arrays, content)
        except ValueError as error:
            words.add(str(error))
        else:
            assert np.isfinite(forest.predict(X)).all()
    assert words == {"a node of Forest is its own child"}
