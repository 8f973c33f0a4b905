"""The program takes tables as they come, and Python opens what it wrote."""

import gzip
import io
import json

import numpy as np
import pandas as pd
import pytest

import kexpfam
from kexpfam import KCEF
from kexpfam.cli.explore import view_of
from kexpfam.cli.model_files import load_table_model
from kexpfam.cli.readers import read_table
from kexpfam.explorer import Question
from kexpfam.tables import DateFeature, OrderedFeature, TableError
from tests.cli.tables import houses, with_gaps, write

ORDER = "size=S,M,L"


def flats(n=60, seed=0):
    """Houses with an order, dates, many streets, row numbers and gaps."""
    rng = np.random.default_rng(seed)
    columns = houses(n, seed)
    columns = {"rownames": np.arange(1, n + 1), **columns}
    columns["size"] = np.resize(["S", "L", "M"], n)
    columns["sold"] = np.datetime64("2023-01-01") + rng.integers(0, 500, n)
    street = np.resize([*range(4), *range(13)], n)  # from 4 on they are rare
    columns["street"] = [f"street {i}" for i in street]
    columns["price"] = columns["price"] + 30.0 * street
    columns["same"] = np.full(n, "yes")
    return with_gaps(columns, area=[3, 9], sold=[5], price=[7])


@pytest.fixture
def done(fit, untuned):
    result = fit(flats(), "--target", "price", "--ordered", ORDER, "--exclude", "rooms")
    assert result.result.exit_code == 0, result.result.output
    return result


def test_a_table_is_fitted_as_it_is(done, run):
    assert "'rownames' counts rows, 'same' is always yes" in done.result.stderr
    assert "left out 1 row without a target" in done.result.stderr
    coding = load_table_model(done.model).coder
    assert coding.target == "price"
    assert isinstance(coding.feature("size"), OrderedFeature)
    assert isinstance(coding.feature("sold"), DateFeature)
    assert "rooms" not in [feature.name for feature in coding.features]
    assert "area is missing" in coding.columns
    assert len(run("predict", done.model, done.data).stdout.splitlines()) == 61


def test_python_takes_the_table_that_the_program_was_given(done, run):
    frame = pd.read_csv(done.data)
    printed = run("predict", done.model, done.data, "--digits", "17").stdout
    means = pd.read_csv(io.StringIO(printed))["mean"]
    model = kexpfam.load(done.model)
    np.testing.assert_allclose(model.predict(frame), means, rtol=1e-9)
    fresh = frame[["size", "area", "street", "sold", "city"]][:4]
    np.testing.assert_allclose(model.predict(fresh), means[:4], rtol=1e-9)
    assert not model.extra_


def test_a_program_reads_what_python_saved(run, tmp_path):
    path = write(tmp_path / "a.csv", flats())
    frame = pd.read_csv(path).drop(columns=["rownames", "same"])
    model = kexpfam.KCEF(select=None, ordered={"size": ["S", "M", "L"]})
    with pytest.warns(UserWarning, match="have no y"):
        model.fit(frame, "price")
    model.save(tmp_path / "a.kexpfam")
    printed = run("predict", tmp_path / "a.kexpfam", path, "--digits", "17")
    assert printed.exit_code == 0, printed.output
    means = pd.read_csv(io.StringIO(printed.stdout))["mean"]
    np.testing.assert_allclose(model.predict(frame), means, rtol=1e-9)


def test_pictures_and_the_page_know_dates_and_orders(done, run, tmp_path):
    for i, words in enumerate(
        [
            ["--along", "sold"],
            ["--along", "area", "--at", "size=L,sold=2023-06-01"],
            ["--at", "size=S", "--at", "street=street 3"],
        ]
    ):
        path = tmp_path / f"{i}.png"
        result = run("plot", done.model, done.data, *words, "-o", path)
        assert result.exit_code == 0, result.output
        assert path.exists()
    ordered = run("plot", done.model, "--along", "size", "-o", tmp_path / "b.png")
    assert ordered.exit_code == 0, ordered.output
    held = ["--along", "size", "--at", "area=90"]
    refused = run("plot", done.model, *held, "-o", tmp_path / "a.png")
    assert "holds categories" in refused.stderr
    bad = run("plot", done.model, "--at", "sold=soon", "-o", tmp_path / "a.png")
    assert "is not a date such as 2024-01-31" in bad.stderr
    view = view_of(load_table_model(done.model), read_table(done.data))
    controls = {control.name: control for control in view.subject.controls}
    assert controls["size"].categories == ("S", "M", "L")
    along = view.subject.along(controls["size"], view.subject.row({}))
    assert along.mean.shape == (3,)
    # Ordered categories are one column of ranks, and have places of their own.
    places = controls["size"].positions(view.subject.X)
    assert set(places[np.isfinite(places)]) == {0.0, 1.0, 2.0}
    (dated,) = (name for name in controls if name.startswith("sold, days from 2023-01"))
    row = view.subject.row({dated: 100.0, "size": "L"})
    assert view.subject.values(row[0])[dated] == pytest.approx(100.0)
    assert view.subject.values(row[0])["size"] == "L"
    assert view.row(Question({"place": 1}))["number"] == 1


def test_folds_learn_their_own_means(run, untuned, tmp_path):
    data = write(tmp_path / "a.csv", flats(80))
    words = ["--target", "price", "--ordered", ORDER, "--cv", "2", "--json"]
    result = run("evaluate", data, *words)
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["rows"] == 79


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--ordered", "size"], 2, "write the column and its values"),
        (["--ordered", "size=S,M"], 1, "line 3, column 'size': 'L' is not in the or"),
        (["--ordered", "colour=a,b"], 1, "has no column 'colour'"),
        (["--exclude", "colour"], 1, "has no column 'colour'"),
    ],
)
def test_what_is_told_of_columns_has_to_be_so(fit, words, code, message):
    result = fit(flats(), "--target", "price", *words).result
    assert result.exit_code == code
    assert message in result.stderr


def test_compressed_tables_are_read(tmp_path):
    plain = write(tmp_path / "a.csv", flats())
    packed = tmp_path / "b.csv.gz"
    with open(plain, "rb") as file:
        packed.write_bytes(gzip.compress(file.read()))
    one, other = read_table(plain), read_table(packed)
    assert one.names == other.names
    for a, b in zip(one.columns, other.columns, strict=True):
        np.testing.assert_array_equal(a, b)
    packed.write_bytes(b"nothing of the kind")
    with pytest.raises(TableError, match=r"not a complete gzip file"):
        read_table(packed)


def test_trees_see_gaps_and_categories_as_python_lets_them(
    fit, run, untuned, monkeypatch
):
    seen, fitted = [], KCEF.fit

    def noted(model, *data, **options):
        seen.append(model._column_kinds)
        return fitted(model, *data, **options)

    monkeypatch.setattr(KCEF, "fit", noted)
    done = fit(flats(), "--target", "price", "--features", "area,city")
    coding = kexpfam.load(done.model).coder_.coding_
    assert coding.columns[1] == "area is missing"
    assert seen[0] == coding.kinds
    assert seen[0].gaps == ((0, 1),)
    assert len(seen[0].groups) == 1
    seen.clear()
    options = ("--target", "price", "--features", "area,city", "--cv", "2")
    assert run("evaluate", done.data, *options).exit_code == 0
    assert [kinds.groups for kinds in seen] == [coding.kinds.groups] * 2


@pytest.mark.parametrize("kinds", [("csv", "parquet"), ("parquet", "csv")])
def test_booleans_are_the_same_in_text_and_in_parquet(kinds, run, untuned, tmp_path):
    """Of one another's files they were new categories, or no numbers."""
    frame = pd.DataFrame(houses())
    frame["flag"] = np.resize([True, False, False], len(frame))
    frame["price"] += 100.0 * frame["flag"]
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.to_parquet(tmp_path / "a.parquet", index=False)
    own, other = (tmp_path / f"a.{kind}" for kind in kinds)
    model = tmp_path / "a.kexpfam"
    assert run("fit", own, "--target", "price", "-o", model).exit_code == 0
    assert "flag" in load_table_model(str(model)).coder.columns
    there, here = run("predict", model, other), run("predict", model, own)
    assert there.stdout == here.stdout
    assert not there.stderr


@pytest.mark.parametrize("name", [None, "area"])
def test_the_index_of_a_pandas_frame_is_no_feature_unless_asked(
    name, run, untuned, tmp_path
):
    frame = pd.DataFrame(houses())
    frame = frame.sample(frac=1.0, random_state=0) if name is None else frame
    frame = frame if name is None else frame.set_index(name)
    data, model = tmp_path / "a.parquet", tmp_path / "a.kexpfam"
    frame.to_parquet(data)
    index = name or "__index_level_0__"
    done = run("fit", data, "--target", "price", "-o", model)
    assert f"index of a pandas frame was left out: {index!r}." in done.stderr
    coding = load_table_model(str(model)).coder
    assert index not in [feature.name for feature in coding.features]
    words = ["--target", "price", "--features", f"rooms,{index}", "--force"]
    done = run("fit", data, *words, "-o", model)
    assert "left out" not in done.stderr
    coding = load_table_model(str(model)).coder
    assert [feature.name for feature in coding.features] == ["rooms", index]
