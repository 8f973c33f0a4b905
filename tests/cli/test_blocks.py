"""Fits of long Parquet files go through blocks of rows, and are what they would be."""

import importlib
import json
from functools import partial

import numpy as np
import pandas as pd
import pytest

import kexpfam
from kexpfam.cli import blocks
from kexpfam.cli.blocks import CodedBlocks, is_long, sampled_table
from kexpfam.tables import CategoryFeature, Coding
from tests.cli.test_any_table import flats

pytest.importorskip("pyarrow.parquet")
FEATURES = "area,city,sold"


@pytest.fixture
def frame():
    frame = pd.DataFrame(flats(150)).replace({"area": {"": None}, "price": {"": None}})
    for name in ("area", "price"):
        frame[name] = pd.to_numeric(frame[name])
    frame["sold"] = pd.to_datetime(frame["sold"].replace("", None))
    frame["n"] = np.arange(len(frame)) % 3
    return frame


@pytest.fixture
def path(frame, tmp_path):
    path = tmp_path / "flats.parquet"
    frame.to_parquet(path, row_group_size=40)
    return str(path)


@pytest.fixture
def long(monkeypatch):
    """Makes tables long that are not, with samples of so many rows."""

    def call(size):
        module = importlib.import_module("kexpfam.cli.fit")
        monkeypatch.setattr(module, "is_long", partial(is_long, many=100))
        sample = partial(sampled_table, size=size, chunk=30)
        monkeypatch.setattr(module, "sampled_table", sample)
        monkeypatch.setattr(module, "CodedBlocks", partial(CodedBlocks, rows=25))

    return call


def fitted(run, path, folder, *words):
    model = folder / "a.kexpfam"
    words = ("--target", "price", "--features", FEATURES, *words)
    result = run("fit", path, *words, "-o", model, "--json", "--force")
    assert result.exit_code == 0, result.output
    return kexpfam.load(model), json.loads(result.stdout), result.stderr


@pytest.mark.parametrize(
    "words", [(), ("--weights", "n"), ("--missing", "drop")], ids=lambda words: words
)
def test_the_model_is_that_of_all_rows_in_memory(
    run, path, frame, tmp_path, untuned, long, words
):
    here, told, said = fitted(run, path, tmp_path, *words)
    long(size=150)
    model, report, notes = fitted(run, path, tmp_path, *words)
    assert notes == said
    assert {**report, "seconds": 0} == {**told, "seconds": 0}
    assert (report["rows"], report["rows_left_out"]) == (
        (146, 4) if "drop" in words else (149, 1)
    )
    assert list(model.feature_names_in_) == FEATURES.split(",")
    new = frame.dropna()
    np.testing.assert_allclose(model.predict(new), here.predict(new), rtol=1e-9)


def test_a_sample_has_every_category_and_gap(run, path, frame, tmp_path, untuned, long):
    long(size=20)
    model, report, _ = fitted(run, path, tmp_path)
    coding = model.coder_.coding_
    assert report["rows"] == 149
    assert set(coding.feature("city").categories) == set(frame["city"])
    assert "area is missing" in coding.columns
    assert "sold is missing" in coding.columns
    assert np.isfinite(model.predict(frame)).all()


def test_means_of_the_target_need_all_rows(run, path, tmp_path, untuned, long):
    long(size=60)
    words = ("--target", "price", "--features", "street")
    model = tmp_path / "b.kexpfam"
    result = run("fit", path, *words, "-o", model)
    assert result.exit_code == 0, result.output
    coding = kexpfam.load(model).coder_.coding_
    assert not isinstance(coding.feature("street"), CategoryFeature)
    assert "from 149 rows" in result.stdout


def test_what_is_wrong_in_a_block_is_said_with_its_place(
    run, path, frame, tmp_path, untuned, long
):
    long(size=20)
    frame["n"] = frame["n"] - 1.0 * (np.arange(len(frame)) == 120)
    frame.to_parquet(path, row_group_size=40)
    result = run("fit", path, "--target", "price", "--weights", "n", "-o", "c")
    assert result.exit_code == 1
    assert (
        "row group 4, column 'n'" in result.stderr
        or "weights must not" in result.stderr
    )


def test_columns_of_many_texts_do_not_fill_the_sample(path, frame, monkeypatch):
    monkeypatch.setattr(blocks, "MOST_CATEGORIES", 5)
    found = sampled_table(path, list, 10, chunk=30)
    assert 10 <= len(found) < 60
    assert len(Coding.learn(found, ["area"], "price").features) == 1
