"""`kexpfam explain`: tables that are printed or written, pictures, and refusals."""

import csv

import numpy as np
import pytest

from kexpfam import KCEF, load
from tests.cli.tables import houses, write


def read(path):
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_importance_is_printed_and_written(run, fitted, tmp_path):
    printed = run("explain", fitted.model, fitted.data)
    assert printed.exit_code == 0, printed.output
    assert printed.stdout.startswith("Without a column, of ")
    path = tmp_path / "importance.csv"
    written = run("explain", fitted.model, fitted.data, "-o", path)
    assert written.exit_code == 0, written.output
    rows = read(path)
    names = [row["column"] for row in rows]
    assert all(f"\n{name}" in printed.stdout for name in names)
    lost = [float(row["log_density_conditional"]) for row in rows]
    assert lost == sorted(lost, reverse=True)
    assert float(rows[0]["width_marginal_se"]) > 0


def test_the_command_and_python_say_the_same(run, fitted, tmp_path):
    path = tmp_path / "alone.csv"
    words = ("--separate", "--seed", "3", "--digits", "17", "-o", path)
    done = run("explain", fitted.model, fitted.data, *words)
    assert done.exit_code == 0, done.output
    table = read(path)
    import pandas as pd

    frame = pd.read_csv(fitted.data)
    model = load(fitted.model)
    target = model.coder_.coding_.target
    found = model.importance(frame, target, groups=None, random_state=3)
    assert [row["column"] for row in table] == list(found.names)
    values = [float(row["crps_marginal"]) for row in table]
    np.testing.assert_allclose(values, found.table()["crps_marginal"], rtol=1e-9)


def test_effects_of_numbers_and_of_categories(run, fitted, tmp_path):
    path = tmp_path / "area.csv"
    words = ("--column", "area", "--of", "quantiles", "-o", path)
    done = run("explain", fitted.model, fitted.data, *words)
    assert done.exit_code == 0, done.output
    rows = read(path)
    assert list(rows[0])[:4] == ["area", "q0.05", "q0.5", "q0.95"]
    middle = [float(row["q0.5"]) for row in rows]
    assert middle[-1] > middle[0]
    printed = run("explain", fitted.model, fitted.data, "--column", "city")
    assert printed.stdout.startswith("Effect of 'city' on mean")


def test_a_row_is_explained(run, fitted, tmp_path):
    printed = run("explain", fitted.model, fitted.data, "--row", 2, "--of", "0.9")
    assert printed.exit_code == 0, printed.output
    assert printed.stdout.startswith("Why q0.9 of price is ")
    path = tmp_path / "row.csv"
    words = ("--row", 2, "--of", "P(y>200)", "-o", path)
    assert run("explain", fitted.model, fitted.data, *words).exit_code == 0
    assert {"area", "city"} <= {row["column"] for row in read(path)}


@pytest.mark.parametrize(
    "words",
    [(), ("--column", "area", "--of", "density"), ("--column", "city"), ("--row", 1)],
    ids=str,
)
def test_pictures_are_drawn(run, fitted, tmp_path, words):
    path = tmp_path / "picture.png"
    done = run("explain", fitted.model, fitted.data, *words, "-o", path)
    assert done.exit_code == 0, done.output
    assert path.read_bytes().startswith(b"\x89PNG")
    assert f"The explanation is in {path}" in done.output
    again = run("explain", fitted.model, fitted.data, *words, "-o", path)
    assert again.exit_code == 1
    assert "say --force to replace it" in again.output


def test_dates_are_written_as_dates(run, fit, untuned, tmp_path):
    columns = houses(40)
    days = np.datetime64("2024-01-01") + np.arange(40)
    columns["sold"] = [str(day) for day in days]
    done = fit(columns, "--target", "price")
    path = tmp_path / "sold.csv"
    words = ("--column", "sold", "-o", path)
    assert run("explain", done.model, done.data, *words).exit_code == 0
    assert read(path)[0]["sold"] == "2024-01-01"


def test_models_without_names_take_the_columns_of_the_table(run, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    y = X[:, 0] + 0.2 * rng.normal(size=40)
    model = tmp_path / "plain.kexpfam"
    KCEF(select=None).fit(X, y).save(model)
    data = write(tmp_path / "t.csv", {"a": X[:, 0], "b": X[:, 1], "y": y})
    done = run("explain", model, data, "--target", "y")
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines()[2].startswith("a ")
    missing = run("explain", model, data)
    assert missing.exit_code == 1
    assert "while" in missing.output  # two features, and three columns


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (("--column", "area", "--row", 1), 2, "--column and --row are different"),
        (("--of", "std"), 2, "--of std is for --column or --row"),
        (("--row", 1, "--separate"), 2, "--separate is for the importance"),
        (("--row", 1, "--target", "price"), 2, "--target is for the importance"),
        (("--row", 9999), 1, "--row 9999"),
        (("--column", "size"), 1, "The model has no column 'size'"),
        (("--column", "area", "--of", "skew"), 1, "of must be one of"),
        (("-o", "list.txt"), 1, "must end in .png, .svg, .pdf, .csv, .tsv or .parquet"),
    ],
    ids=str,
)
def test_refusals_are_sentences(run, fitted, words, code, sentence):
    done = run("explain", fitted.model, fitted.data, *words)
    assert done.exit_code == code, done.output
    assert sentence in " ".join(done.output.split())


def test_a_joint_density_has_no_columns_to_explain(run, joint):
    done = run("explain", joint.model, joint.data)
    assert done.exit_code == 1
    assert "is a joint density, without a target" in done.output
