"""Commands do what the library does, refuse what is wrong, and leave files whole."""

import csv
import io
import json
import os
import signal
import time

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import KFold

import kexpfam
from kexpfam import KCEF
from kexpfam.cli.fit import fitted as fit_model
from kexpfam.cli.fit import new_model
from kexpfam.cli.model_files import TableRows, load_table_model
from kexpfam.cli.output import significant
from kexpfam.cli.readers import read_table
from kexpfam.cli.shared import Stopped
from kexpfam.errors import TableWarning
from kexpfam.metrics import cross_evaluate, evaluate
from tests.cli.tables import houses, with_gaps, write

# Cells are written with all digits; densities of blocks of other sizes differ by
# rounding.
SAME = {"rtol": 1e-9}


def matrix(path):
    """X and y of the houses, one column for each city."""
    table = read_table(path)
    city = table.labels("city")
    ones = [1.0 * (city == c) for c in ("Lima", "Oslo", "Rome")]
    X = np.column_stack([table.numbers("area"), table.numbers("rooms"), *ones])
    return X, table.numbers("price")


def rows_of(text):
    return list(csv.DictReader(io.StringIO(text)))


def column(rows, name):
    return np.array([float(row[name]) for row in rows])


def permuted(tmp_path, data, rows=(5, 3, 8)):
    """Some rows with columns in another order, and one city less."""
    table = read_table(data)
    names = ["city", "price", "rooms", "area"]
    some = {name: table.column(name)[list(rows)] for name in names}
    return write(tmp_path / "permuted.csv", some)


def test_fit_says_what_it_did_and_what_is_next(fitted):
    printed = fitted.result.stdout
    assert "p(price | area, rooms, city (3 categories)) from 60 rows" in printed
    assert "log density of held-out rows" in printed
    assert f"kexpfam predict {fitted.model}" in printed


def test_the_file_is_a_model_like_any_other(fitted):
    X, y = matrix(fitted.data)
    direct = KCEF(random_state=0).fit(X, y)
    np.testing.assert_allclose(
        kexpfam.load(fitted.model).score_samples(X, y),
        direct.score_samples(X, y),
        **SAME,
    )


def test_predictions_are_those_of_the_estimator(run, fitted):
    words = ["--quantiles", "0.1,0.975", "--interval", "0.8", "--hpd", "0.9"]
    words += ["--above", "200,300", "--digits", "17"]
    result = run("predict", fitted.model, fitted.data, *words, "--density")
    assert result.exit_code == 0
    rows, model = rows_of(result.stdout), kexpfam.load(fitted.model)
    X, y = matrix(fitted.data)
    quantiles = model.predict_quantiles(X, [0.1, 0.975])
    np.testing.assert_allclose(column(rows, "q0.1"), quantiles[:, 0], **SAME)
    np.testing.assert_allclose(column(rows, "q0.975"), quantiles[:, 1], **SAME)
    np.testing.assert_allclose(column(rows, "mean"), model.predict(X), **SAME)
    interval = np.column_stack([column(rows, "low"), column(rows, "high")])
    np.testing.assert_allclose(interval, model.predict_interval(X, 0.8), **SAME)
    log_p = column(rows, "log_density")
    np.testing.assert_allclose(log_p, model.score_samples(X, y), **SAME)
    above = np.column_stack([column(rows, "P(y>200)"), column(rows, "P(y>300)")])
    np.testing.assert_allclose(above, model.given(X).sf([[200.0, 300.0]]), **SAME)
    region = model.given(X)[0].hpd(0.9)
    assert rows[0]["hpd0.9"] == " or ".join(f"{a:.6g} to {b:.6g}" for a, b in region)


def test_columns_are_called_as_those_of_a_frame(run, fitted):
    words = ["--quantiles", "0.05,0.5", "--interval", "0.9", "--above", "200"]
    names = rows_of(run("predict", fitted.model, fitted.data, *words).stdout)[0].keys()
    frame = kexpfam.load(fitted.model).predict_frame(
        matrix(fitted.data)[0], [0.05, 0.5], interval=0.9, above=200
    )
    assert [name for name in names if name not in ("median", "mode")] == [*frame]
    two = run("predict", fitted.model, fitted.data, "--interval", "0.5,0.9")
    assert {"low0.5", "high0.5", "low0.9", "high0.9"} <= rows_of(two.stdout)[0].keys()


def test_numbers_have_six_digits_unless_more_are_asked_for(run, fitted):
    words = ["predict", fitted.model, fitted.data, "--above", "200", "--density"]
    short, long = (
        rows_of(run(*words).stdout),
        rows_of(run(*words, "--digits", 17).stdout),
    )
    for name in ("mean", "std", "q0.05", "P(y>200)", "log_density"):
        expected = [float(f"{float(row[name]):.6g}") for row in long]
        np.testing.assert_array_equal(column(short, name), expected)


@pytest.mark.parametrize(
    ("value", "spread", "text"),
    [
        (1234.56789, np.inf, "1234.57"),
        (-0.000123456789, np.inf, "-0.000123457"),
        (123456789.0, np.inf, "123457000.0"),
        (123456789.0, 2.5, "123456789.0"),
        (123456.789, 0.02, "123456.789"),
        (0.1 + 0.2, np.inf, "0.3"),
        (2e-300, np.inf, "2e-300"),
        (1.23456789e300, np.inf, "1.23456789e+300"),
        (0.0, 0.0, "0.0"),
        (np.inf, 1.0, "inf"),
        (1.23456789, 0.0, "1.23457"),
        (1.23456789, np.nan, "1.23457"),
    ],
)
def test_significant_digits_are_those_of_the_number_or_of_its_spread(
    value, spread, text
):
    assert repr(float(significant(np.array([value]), 6, spread)[0])) == text
    assert significant(np.array([value]), 17)[0] == value


def test_columns_and_categories_in_another_order_are_the_same_rows(
    run, fitted, tmp_path
):
    everything = rows_of(run("predict", fitted.model, fitted.data).stdout)
    some = rows_of(run("predict", fitted.model, permuted(tmp_path, fitted.data)).stdout)
    for name in ("mean", "q0.05", "std"):
        np.testing.assert_allclose(
            column(some, name), column(everything, name)[[5, 3, 8]], **SAME
        )


def test_predictions_go_to_parquet_with_the_data(run, fitted, tmp_path):
    pytest.importorskip("pyarrow")
    output = tmp_path / "out.parquet"
    result = run("predict", fitted.model, fitted.data, "-o", output, "--with-data")
    assert result.exit_code == 0
    table = read_table(output)
    assert table.names[:5] == ("area", "rooms", "city", "price", "mean")
    printed = rows_of(run("predict", fitted.model, fitted.data, "--with-data").stdout)
    with open(fitted.data) as file:
        assert [{k: row[k] for k in ("rooms", "city", "price")} for row in printed] == [
            {k: row[k] for k in ("rooms", "city", "price")}
            for row in csv.DictReader(file)
        ]
    np.testing.assert_array_equal(
        table.labels("city"), read_table(fitted.data).labels("city")
    )


def test_rows_with_missing_values_are_empty_lines(run, fitted, tmp_path):
    data = tmp_path / "gaps.csv"
    data.write_text("area,rooms,city\n50,2,Rome\n,3,Oslo\n70,3,Oslo\n")
    refused = run("predict", fitted.model, data, "--missing", "error")
    assert refused.exit_code == 1
    assert "gaps.csv, line 3, column 'area': the value is missing" in refused.stderr
    filled = run("predict", fitted.model, data)
    assert "1 row without a value of 'area', which had no gaps" in filled.stderr
    dropped = run("predict", fitted.model, data, "--missing", "drop", "--hpd", "0.5")
    assert "empty lines stand for 1 row with missing values" in dropped.stderr
    rows = rows_of(dropped.stdout)
    assert [bool(row["mean"]) for row in rows] == [True, False, True]
    assert rows[1]["hpd0.5"] == ""
    impute = ["predict", fitted.model, data, "--missing", "impute", "--digits", "17"]
    imputed = rows_of(run(*impute).stdout)
    model, frame = kexpfam.load(fitted.model), pd.read_csv(data)
    with pytest.warns(TableWarning, match="averages over values"):
        expected = model.predict(frame)
    means = [float(row["mean"]) for row in imputed]
    np.testing.assert_allclose(means, expected, **SAME)


def test_an_unknown_category_is_named(run, fitted, tmp_path):
    data = tmp_path / "new.csv"
    data.write_text("area,rooms,city\n50,2,Rome\n60,3,Osla\n")
    refused = run("predict", fitted.model, data, "--unknown", "error")
    assert refused.exit_code == 1
    assert "new.csv, line 3, column 'city': 'Osla'" in refused.stderr
    assert "did you mean 'Oslo'?" in refused.stderr
    taken = run("predict", fitted.model, data)
    assert taken.exit_code == 0
    assert len(rows_of(taken.stdout)) == 2
    assert "1 row of column 'city' with values that were not there" in taken.stderr
    assert "'Osla'" in taken.stderr


def test_samples_are_those_of_the_estimator(run, fitted, tmp_path):
    data = permuted(tmp_path, fitted.data)
    result = run(
        "sample", fitted.model, data, "-n", "4", "--seed", "3", "--digits", "17"
    )
    rows = rows_of(result.stdout)
    X = matrix(fitted.data)[0][[5, 3, 8]]
    expected = kexpfam.load(fitted.model).sample(X, 4, random_state=3)
    np.testing.assert_allclose(column(rows, "value"), expected.ravel(), **SAME)
    assert [row["row"] for row in rows] == ["1"] * 4 + ["2"] * 4 + ["3"] * 4
    assert [row["draw"] for row in rows] == ["1", "2", "3", "4"] * 3


def test_evaluation_on_held_out_rows_is_that_of_the_library(run, fitted, tmp_path):
    held_out = write(tmp_path / "new.csv", houses(30, seed=1))
    picture = tmp_path / "calibration.png"
    result = run("evaluate", fitted.model, held_out, "--json", "--plot", picture)
    numbers = json.loads(result.stdout)
    expected = evaluate(kexpfam.load(fitted.model), *matrix(held_out))
    assert numbers["log_loss"]["value"] == pytest.approx(expected.log_loss.value)
    assert numbers["crps"]["value"] == pytest.approx(expected.crps.value)
    assert numbers["pit"]["p_value"] == pytest.approx(expected.pit_uniformity.pvalue)
    assert [c["nominal"] for c in numbers["coverage"]] == [0.5, 0.8, 0.9, 0.95]
    assert picture.read_bytes().startswith(b"\x89PNG")
    printed = run("evaluate", fitted.model, held_out).stdout
    assert "CRPS" in printed
    assert "PIT uniform?" in printed


@pytest.mark.parametrize(("n", "spread", "tested"), [(1, 0, 0), (4, 1, 0), (5, 1, 1)])
def test_few_rows_have_no_errors_and_no_test(run, fitted, tmp_path, n, spread, tested):
    data = permuted(tmp_path, fitted.data, rows=range(n))
    printed = run("evaluate", fitted.model, data).stdout
    assert ("±" in printed) == bool(spread)
    assert ("PIT uniform?" in printed) == bool(tested)
    assert "nan" not in printed
    numbers = json.loads(run("evaluate", fitted.model, data, "--json").stdout)
    assert (numbers["crps"]["standard_error"] is not None) == bool(spread)
    assert (numbers["pit"]["p_value"] is not None) == bool(tested)


def test_cross_validation_fits_each_fold_anew(run, untuned, tmp_path):
    data = write(tmp_path / "a.csv", houses(30))
    words = ["--target", "price", "--features", "area", "--model", "kcef", "--json"]
    result = run("evaluate", data, "--cv", "2", "--seed", "1", *words)
    numbers = json.loads(result.stdout)
    X, y = matrix(data)
    folds = KFold(2, shuffle=True, random_state=1).split(X)
    expected = cross_evaluate(KCEF(select=None), X[:, :1], y, folds)
    assert numbers["rows"] == 30
    assert numbers["crps"]["value"] == pytest.approx(expected.crps.value)


def test_weights_are_those_of_the_estimator(fit, untuned):
    columns, weights = houses(30), 1 + (np.arange(30) % 2)
    words = ["--target", "price", "--features", "area", "--model", "kcef"]
    done = fit({**columns, "w": weights}, *words, "--weights", "w")
    assert done.result.exit_code == 0
    x, y = columns["area"][:, None], columns["price"]
    expected = KCEF(select=None).fit(x, y, weights)
    np.testing.assert_allclose(
        kexpfam.load(done.model).predict(x), expected.predict(x), **SAME
    )


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_pictures_of_every_kind_are_drawn(run, fitted, tmp_path, suffix):
    start = {"png": b"\x89PNG", "svg": b"<?xml"}[suffix]
    kinds = {
        "curve": ["--along", "area"],
        "typical": ["--kind", "density"],
        "at": ["--at", "city=Oslo,area=90", "--at", "city=Rome"],
        "rows": ["--row", "1", "--row", "7"],
        "calibration": ["--kind", "calibration"],
    }
    for name, words in kinds.items():
        path = tmp_path / f"{name}.{suffix}"
        result = run("plot", fitted.model, fitted.data, *words, "-o", path)
        assert result.exit_code == 0, result.output
        assert path.read_bytes().startswith(start)


def test_pictures_without_data_use_what_the_model_remembers(run, fitted, tmp_path):
    path = tmp_path / "a.png"
    assert run("plot", fitted.model, "-o", path).exit_code == 0
    assert path.exists()


def test_existing_files_are_kept_unless_forced(run, untuned, fitted, tmp_path):
    for words in (
        ["fit", fitted.data, "--target", "price", "--model", "kcef"],
        ["predict", fitted.model, fitted.data],
        ["sample", fitted.model, fitted.data, "-n", "1"],
        ["plot", fitted.model],
        ["demo"],
    ):
        suffix = {"fit": "kexpfam", "plot": "png", "demo": "png"}.get(words[0], "csv")
        path = tmp_path / f"{words[0]}.{suffix}"
        path.write_text("precious")
        refused = run(*words, "-o", path)
        assert refused.exit_code == 1
        assert "exists; say --force to replace it" in refused.stderr
        assert path.read_text() == "precious"
        assert run(*words, "-o", path, "--force").exit_code == 0
        assert not path.read_bytes().startswith(b"precious")
    assert len(list(tmp_path.iterdir())) == 5  # and no temporary files


@pytest.mark.parametrize(
    ("text", "words", "message"),
    [
        ("x,y\n1,2\n", ["--target", "z"], "has no column 'z'"),
        ("x,price\n1,2\n", ["--target", "prize"], "did you mean 'price'?"),
        ("x,y\n1,2\n", ["--target", "y", "--features", "w"], "has no column 'w'"),
        ("x,y\n1,2\n", ["--target", "y", "--features", "y"], "cannot be a feature"),
        ("x,y\n1,2\n", ["--target", "y", "--categorical", "y"], "not among the feat"),
        ("x,y\n" + "1,2\n" * 9, ["--target", "y"], "all values are 2"),
        ("x,y\n1,2\n3,4\n", ["--target", "y"], "2 complete rows"),
        ("y\n1\n2\n", ["--target", "y"], "needs one feature at least"),
        ("x,y\n1,a\n2,b\n", ["--target", "y"], "line 2, column 'y': 'a'"),
        (
            "x,y\n1,2\n,3\n3,4\n4,5\n5,7\n",
            ["--target", "y", "--missing", "error"],
            "line 3, column 'x': the value is mis",
        ),
        ("x,y\n1,2\n2\n", ["--target", "y"], "line 3: 1 fields"),
        (
            "x,y,w\n" + "".join(f"{i},{i},-1\n" for i in range(9)),
            ["--target", "y", "--weights", "w"],
            "weights must not be negative",
        ),
        (
            "d,y\n" + "".join(f"{i + 10}.1.2024,{i}\n" for i in range(9)),
            ["--target", "y"],
            "line 2, column 'd': '10.1.2024' is a date",
        ),
        (
            "c,y\n" + "".join(f"{'A' if i % 2 else 'B'},{i}\n" for i in range(9)),
            ["--joint", "--features", "c,y"],
            "'c' holds categories",
        ),
    ],
)
def test_a_bad_table_is_one_sentence_and_no_file(run, tmp_path, text, words, message):
    data, output = tmp_path / "data.csv", tmp_path / "model.kexpfam"
    data.write_text(text)
    result = run("fit", data, *words, "-o", output)
    assert result.exit_code == 1
    assert message in result.stderr
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""
    assert not output.exists()


@pytest.mark.parametrize(
    "words",
    [
        ["fit", "a.csv"],
        ["fit", "a.csv", "--joint", "--target", "y"],
        ["evaluate", "a.csv"],
        ["evaluate", "a.csv", "b.csv", "--cv", "2", "--target", "y"],
        ["predict", "a.kexpfam", "a.csv", "--quantiles", "2"],
        ["predict", "a.kexpfam", "a.csv", "--interval", "most"],
        ["nonsense"],
    ],
)
def test_wrong_usage_has_its_own_exit_code(run, words):
    result = run(*words)
    assert result.exit_code == 2
    assert "Error: " in result.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["predict", "nothing.kexpfam", "{data}"], "There is no file"),
        (["predict", "{data}", "{data}"], "is not a kexpfam model"),
        (["predict", "{model}", "{data}", "-o", "a.xlsx"], "must end in .csv, .tsv or"),
        (["plot", "{model}", "-o", "a.bmp"], "must end in .png, .svg or"),
        (["plot", "{model}", "-o", "no/where/a.png"], "There is no folder"),
        (["plot", "{model}", "--along", "town", "-o", "a.png"], "town"),
        (["plot", "{model}", "--at", "city=X", "-o", "a.png"], "'X' is not a category"),
        (["plot", "{model}", "{data}", "--row", "99", "-o", "a.png"], "has 60 rows"),
        (["evaluate", "{data}", "--cv", "99", "--target", "price"], "--cv 99 is more"),
    ],
)
def test_wrong_files_and_values_are_one_sentence(run, fitted, words, message):
    filled = [w.format(model=fitted.model, data=fitted.data) for w in words]
    result = run(*filled)
    assert result.exit_code == 1
    assert message in result.stderr


def test_missing_values_are_dropped_or_imputed_at_the_fit(run, untuned, tmp_path):
    data = write(tmp_path / "gaps.csv", with_gaps(houses(40), area=3, price=5))
    words = ["fit", data, "--target", "price", "--features", "area,city"]
    words += ["--model", "kcef", "--json", "-o"]
    refused = run(*words, tmp_path / "a.kexpfam", "--missing", "error")
    assert "line 5, column 'area'" in refused.stderr
    for policy, rows in (("drop", 38), ("impute", 39)):
        path = tmp_path / f"{policy}.kexpfam"
        result = run(*words, path, "--missing", policy)
        report = json.loads(result.stdout)
        assert report["rows"] == rows
        assert report["rows_left_out"] == 40 - rows
        assert report["model"] == str(path)
        assert load_table_model(path).coder.missing == policy


def test_a_model_without_a_table_goes_by_position(run, fitted, tmp_path):
    columns = houses(30)
    data = write(tmp_path / "a.csv", {k: columns[k] for k in ("area", "rooms")})
    X = np.column_stack([columns["area"], columns["rooms"]])
    model = KCEF(select=None).fit(X, columns["price"])
    model.save(tmp_path / "plain.kexpfam")
    words = ["predict", tmp_path / "plain.kexpfam", data, "--digits", "17"]
    rows = rows_of(run(*words).stdout)
    np.testing.assert_allclose(column(rows, "mean"), model.predict(X), **SAME)
    refused = run("predict", tmp_path / "plain.kexpfam", fitted.data)
    assert "has 2 features" in refused.stderr


def test_a_model_of_several_targets_is_for_programs(run, fitted, tmp_path):
    columns = houses(20)
    Y = np.column_stack([columns["price"], columns["rooms"] + columns["area"] ** 0.5])
    model = KCEF(select=None).fit(columns["area"][:, None], Y)
    model.save(tmp_path / "two.kexpfam")
    data = write(tmp_path / "a.csv", {"area": columns["area"]})
    for command in ("predict", "sample", "plot", "evaluate"):
        result = run(command, tmp_path / "two.kexpfam", data)
        assert result.exit_code == 1
        assert "has 2 targets, and commands are for one" in result.stderr


def test_constant_features_do_no_harm(run, fit, untuned):
    columns = houses(30) | {"same": np.ones(30), "land": np.full(30, "Peru")}
    words = ["--target", "price", "--features", "area,same,land", "--model", "kcef"]
    done = fit(columns, *words)
    assert done.result.exit_code == 0, done.result.output
    rows = rows_of(run("predict", done.model, done.data).stdout)
    assert np.all(np.isfinite(column(rows, "mean")))


def test_a_model_with_names_goes_by_them(run, tmp_path):
    pandas = pytest.importorskip("pandas")
    columns = houses(30)
    frame = pandas.DataFrame({k: columns[k] for k in ("area", "rooms")})
    model = KCEF(select=None).fit(frame, columns["price"])
    model.save(tmp_path / "named.kexpfam")
    turned = {k: columns[k] for k in ("rooms", "price", "area")}
    data = write(tmp_path / "a.csv", turned)
    result = run("predict", tmp_path / "named.kexpfam", data, "--digits", "17")
    assert result.stderr == ""
    np.testing.assert_allclose(
        column(rows_of(result.stdout), "mean"), model.predict(frame), **SAME
    )


def test_a_joint_density_is_fitted_sampled_and_judged(run, joint):
    data, model = joint.data, joint.model
    rows = rows_of(run("sample", model, "-n", "5").stdout)
    assert list(rows[0]) == ["area", "price"]
    assert len(rows) == 5
    numbers = json.loads(run("evaluate", model, data, "--json").stdout)
    density = kexpfam.load(model)
    table = read_table(data)
    Y = np.column_stack([table.numbers("area"), table.numbers("price")])
    assert numbers["log_loss"]["value"] == pytest.approx(-density.score(Y))
    for command in ("predict", "plot"):
        result = run(command, model, data)
        assert result.exit_code == 1
        assert "joint density" in result.stderr


def test_warnings_are_notes_and_can_be_silenced(run, fitted, tmp_path, monkeypatch):
    import warnings

    from kexpfam.cli import fit as module

    def warn(*_, **__):
        warnings.warn("something is\n odd", UserWarning, stacklevel=2)
        raise ValueError("and then it failed")

    monkeypatch.setattr(module, "fitted", warn)
    words = ["fit", fitted.data, "--target", "price", "-o", tmp_path / "a.kexpfam"]
    loud, quiet = run(*words), run(*words, "--quiet")
    assert loud.stderr == "Note: something is odd\nError: and then it failed\n"
    assert quiet.stderr == "Error: and then it failed\n"


@pytest.mark.parametrize("kind", [KeyboardInterrupt, Stopped])
def test_an_interrupt_leaves_nothing_behind(run, fitted, tmp_path, monkeypatch, kind):
    from kexpfam.cli import fit as module

    def interrupt(*_, **__):
        raise kind

    monkeypatch.setattr(module.KCEF, "save", interrupt)
    words = ["fit", fitted.data, "--target", "price", "--model", "kcef"]
    result = run(*words, "-o", tmp_path / "a.kexpfam")
    assert result.exit_code == 130
    assert list(tmp_path.iterdir()) == []


class Patient:
    """Ends with the best so far, as searches do."""

    def fit(self, X, y=None, sample_weight=None):
        try:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(5)
        except KeyboardInterrupt:
            return self


def test_an_interrupted_search_ends_with_the_best_so_far():
    model, before = Patient(), signal.getsignal(signal.SIGINT)
    rows = TableRows(None, np.zeros((3, 1)), np.zeros(3), None, 0)
    assert fit_model(model, rows) is model
    assert signal.getsignal(signal.SIGINT) is before


def test_an_interrupted_joint_density_ends_the_program():
    rows = TableRows(None, np.zeros((3, 1)), None, None, 0)
    with pytest.raises(Stopped):
        fit_model(Patient(), rows)


@pytest.mark.parametrize("kind", ["auto", "kcef"])
def test_an_interrupted_fit_is_written_with_a_note(
    run, fitted, tmp_path, monkeypatch, kind
):
    from kexpfam.selection import validation

    def interrupted(work, calls, n_jobs):
        yield [work(*calls[0])]
        raise KeyboardInterrupt

    monkeypatch.setattr(validation, "shared_out", interrupted)
    output = tmp_path / "a.kexpfam"
    words = ["--target", "price", "--model", kind, "--json", "-o", output]
    result = run("fit", fitted.data, *words)
    assert result.exit_code == 0, result.output
    assert "Note: interrupted; the model is the best of what was" in result.stderr
    assert json.loads(result.stdout)["stopped"] == "interrupted"
    assert np.all(np.isfinite(kexpfam.load(output).predict(matrix(fitted.data)[0])))


def test_debugging_shows_where_an_error_came_from(run, fitted, monkeypatch):
    monkeypatch.setenv("KEXPFAM_DEBUG", "1")
    result = run("predict", "nothing.kexpfam", fitted.data)
    assert isinstance(result.exception, FileNotFoundError)


def test_what_is_fitted_is_the_average_unless_told_otherwise():
    assert type(new_model("auto", 0)).__name__ == "AutoKCEF"
    assert type(new_model("kcef", 3)).__name__ == "KCEF"
    assert new_model("kcef", 3).random_state == 3
    assert new_model("auto", 0).verbose  # a line for each stage


def test_every_command_has_help_with_examples(run):
    from kexpfam.cli.program import COMMANDS

    printed = run("--help").stdout
    for name in COMMANDS:
        assert name in printed
        help_ = run(name, "--help")
        assert help_.exit_code == 0
        assert f"  kexpfam {name}" in help_.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script(run, shell):
    result = run("completion", shell)
    assert result.exit_code == 0
    assert "_KEXPFAM_COMPLETE" in result.stdout


def test_names_of_columns_are_completed(fitted):
    from click.shell_completion import ShellComplete

    from kexpfam.cli import main

    complete = ShellComplete(main, {}, "kexpfam", "_KEXPFAM_COMPLETE")
    found = complete.get_completions(["fit", fitted.data, "--target"], "p")
    assert [item.value for item in found] == ["price"]
    found = complete.get_completions(["fit", fitted.data, "--features"], "area,r")
    assert [item.value for item in found] == ["area,rooms"]
    found = complete.get_completions(["fit", fitted.data, "--features"], "area,")
    assert [item.value for item in found] == ["area,rooms", "area,city", "area,price"]
    found = complete.get_completions(["fit", fitted.data, "--target"], "area,r")
    assert found == []
