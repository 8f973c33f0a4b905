"""Options are followed or refused: none is silently without effect."""

import importlib
import itertools
import json
import shlex

import numpy as np
import pytest

import kexpfam
from kexpfam.cli.model_files import load_table_model
from kexpfam.cli.readers import read_table
from tests.cli.tables import houses, with_gaps, write


@pytest.fixture
def drawn(monkeypatch):
    """The title of what `plot` draws, and where a curve holds the other features."""
    seen = {}
    module = importlib.import_module("kexpfam.cli.plot")
    draw_along, write_picture = module.draw_along, module.write_picture

    def along(model, coder, feature, dots, row):
        seen["along"] = feature.name
        seen["row"] = dict(zip(coder.columns, row[0].tolist(), strict=True))
        return draw_along(model, coder, feature, dots, row)

    def picture(path, draw):
        def titled():
            figure = draw()
            title = figure.axes[0].get_title("left")
            seen["title"] = title.replace("\N{NO-BREAK SPACE}", " ")
            return figure

        write_picture(path, titled)

    monkeypatch.setattr(module, "draw_along", along)
    monkeypatch.setattr(module, "write_picture", picture)
    return seen


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--target", "rooms"], "--target rooms: {model} is about 'price'"),
        (["--features", "area"], "--features is for a table with --cv"),
        (["--exclude", "area"], "--exclude is for a table with --cv"),
        (["--categorical", "rooms"], "--categorical is for a table with --cv"),
        (["--ordered", "rooms=1,2"], "--ordered is for a table with --cv"),
        (["--exclude", "rooms"], "--exclude is for a table with --cv"),
        (["--model", "kcef"], "--model is for a table with --cv"),
        (["--seed", "0"], "--seed is for a table with --cv"),
    ],
)
def test_a_model_is_judged_as_it_is(run, fitted, words, message):
    result = run("evaluate", fitted.model, fitted.data, *words)
    assert result.exit_code == 2
    assert message.format(model=fitted.model) in result.stderr
    assert result.stdout == ""


def test_the_target_of_the_model_may_be_said(run, fitted):
    plain = run("evaluate", fitted.model, fitted.data)
    said = run("evaluate", fitted.model, fitted.data, "--target", "price")
    assert said.exit_code == 0
    assert said.stdout == plain.stdout


@pytest.mark.parametrize(
    "words", [["--target", "price"], ["--weights", "rooms"], ["--plot", "a.png"]]
)
def test_a_joint_density_has_a_log_loss_only(run, joint, words):
    result = run("evaluate", joint.model, joint.data, *words)
    assert result.exit_code == 2
    assert "joint density" in result.stderr


def test_a_joint_density_is_drawn_without_a_table(run, joint):
    result = run("sample", joint.model, joint.data, "-n", "2")
    assert result.exit_code == 2
    assert f"leave {joint.data} out" in result.stderr
    assert result.stdout == ""


def test_a_curve_holds_the_others_where_at_says(run, fitted, tmp_path, drawn):
    at = ["--at", "city=Oslo,rooms=4"]
    for words in (["--kind", "curve"], ["--along", "area"]):
        path = tmp_path / f"{words[0]}.png"
        result = run("plot", fitted.model, fitted.data, *words, *at, "-o", path)
        assert result.exit_code == 0, result.output
        cities = {"city=Lima": 0.0, "city=Oslo": 1.0, "city=Rome": 0.0}
        assert drawn["along"] == "area"
        assert {k: v for k, v in drawn["row"].items() if k != "area"} == {
            "rooms": 4.0,
            **cities,
        }
        assert drawn["title"] == "at rooms = 4, city = Oslo; dots: all rows"


def test_a_curve_runs_along_a_feature_that_is_not_held(run, fitted, tmp_path, drawn):
    words = ["--kind", "curve", "--at", "area=90", "-o", tmp_path / "a.png"]
    assert run("plot", fitted.model, *words).exit_code == 0
    assert drawn["along"] == "rooms"
    assert drawn["row"]["area"] == 90.0


def test_a_curve_holds_the_others_where_a_row_is(run, fitted, tmp_path, drawn):
    words = ["--along", "rooms", "--row", "5", "-o", tmp_path / "a.png"]
    assert run("plot", fitted.model, fitted.data, *words).exit_code == 0
    table = read_table(fitted.data)
    assert drawn["along"] == "rooms"
    assert drawn["row"]["area"] == table.numbers("area")[4]
    assert drawn["row"][f"city={table.labels('city')[4]}"] == 1.0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--kind", "calibration", "--row", "1"], "--row is not for --kind calibrat"),
        (["--kind", "calibration", "--at", "rooms=3"], "--at is not for --kind calib"),
        (["--kind", "calibration", "--along", "area"], "--along is not for --kind ca"),
        (["--kind", "density", "--along", "area"], "--along is not for --kind densi"),
        (["--along", "area", "--at", "rooms=1", "--at", "rooms=2"], "one place"),
        (["--along", "area", "--at", "rooms=1", "--row", "2"], "one place"),
        (["--along", "area", "--at", "area=50"], "the curve runs along area"),
    ],
)
def test_pictures_refuse_what_they_would_ignore(run, fitted, tmp_path, words, message):
    path = tmp_path / "a.png"
    result = run("plot", fitted.model, fitted.data, *words, "-o", path)
    assert result.exit_code == 2
    assert message in result.stderr
    assert not path.exists()


@pytest.mark.parametrize("command", ["fit", "plot", "evaluate", "demo"])
def test_only_tables_go_to_standard_output(run, fitted, tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    words = {
        "fit": ["fit", fitted.data, "--target", "price", "-o", "-"],
        "plot": ["plot", fitted.model, "-o", "-"],
        "evaluate": ["evaluate", fitted.model, fitted.data, "--plot", "-"],
        "demo": ["demo", "-o", "-"],
    }[command]
    result = run(*words)
    assert result.exit_code == 2
    assert "give the name of a file instead of -" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_what_to_do_next_can_be_done(run, untuned, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    columns = with_gaps(houses(40), area=3)
    columns = {
        "the price": columns["price"],
        "area": columns["area"],
        "rooms": columns["rooms"],
        "my weight": 1 + np.arange(40) % 2,
        "when": [f"2024-01-{10 + i % 9}" for i in range(40)],  # no feature
    }
    data = write(tmp_path / "my houses.csv", columns)
    fit = ["fit", data, "--target", "the price", "--features", "area,rooms"]
    fit += ["--categorical", "rooms", "--weights", "my weight", "--missing", "drop"]
    result = run(*fit, "--model", "kcef", "--seed", "3")
    assert result.exit_code == 0, result.output
    next_ = result.stdout.partition("What to do next:\n")[2].splitlines()
    suggested = [shlex.split(line) for line in next_]
    assert [words[1] for words in suggested] == ["plot", "predict", "evaluate"]
    evaluate = suggested[2]
    for given in (*zip(fit[2::2], fit[3::2], strict=True), ("--seed", "3")):
        assert given in list(itertools.pairwise(evaluate))
    for program, *words in suggested:
        assert program == "kexpfam"
        outcome = run(*words)
        assert outcome.exit_code == 0, outcome.output


def test_what_to_do_next_is_right_for_categories_alone(run, fit, untuned, tmp_path):
    done = fit(houses(40), "--target", "price", "--features", "city")
    line = f"kexpfam plot {done.model} {done.data} -o picture.png"
    assert line in done.result.stdout
    path = tmp_path / "a.png"
    assert run("plot", done.model, done.data, "-o", path).exit_code == 0
    assert path.exists()


def test_rows_without_a_target_are_left_out(run, untuned, tmp_path):
    # One gap of the area is in a row that is left out anyway.
    columns = with_gaps(houses(40), price=[5, 9], area=5)
    data, model = write(tmp_path / "a.csv", columns), tmp_path / "a.kexpfam"
    words = ["--target", "price", "--features", "area,city", "--json"]
    folds = ["evaluate", data, "--cv", "2"]
    for command, quiet in ((["fit", data, "-o", model], 0), (folds, 0), (folds, 1)):
        result = run(*command, *words, *(["--quiet"] if quiet else []))
        told = "Note: left out 2 rows without a target.\n"
        stage = "cross-validation: 2 of 2\n" if "--cv" in command else ""
        assert result.stderr == ("" if quiet else told + stage)
        assert json.loads(result.stdout)["rows"] == 38
    assert load_table_model(model).coder.missing == "impute"
    judged = run("evaluate", model, data, "--json")
    assert judged.stderr == "Note: left out 2 rows without a target.\n"
    assert json.loads(judged.stdout)["rows"] == 38


def test_notes_tell_gaps_from_rows_without_a_target(fit, untuned):
    columns = with_gaps(houses(40), price=5, area=[1, 2])
    assert fit(columns, "--target", "price", "--missing", "drop").result.stderr == (
        "Note: left out 1 row without a target.\n"
        "Note: left out 2 rows with missing values.\n"
    )


@pytest.mark.parametrize(
    ("cells", "place"),
    [
        ({"city": 2, "area": 7}, "line 4, column 'city'"),
        ({"area": 7, "w": 3}, "line 5, column 'w'"),
        ({"city": 4, "area": 4}, "line 6, column 'area'"),  # area stands before city
    ],
)
def test_the_first_gap_of_the_file_is_named(fit, cells, place):
    columns = with_gaps({**houses(20), "w": np.ones(20)}, **cells)
    words = ["--target", "price", "--features", "city,area", "--weights", "w"]
    result = fit(columns, *words, "--missing", "error").result
    assert result.exit_code == 1
    assert f"{place}: the value is missing" in result.stderr


def test_imputation_is_advised_only_where_there_are_gaps(run, tmp_path):
    few, gaps = tmp_path / "few.csv", tmp_path / "gaps.csv"
    few.write_text("x,y\n1,2\n2,3\n3,5\n")
    gaps.write_text("x,y\n1,2\n2,3\n,5\n,6\n,7\n")
    words = ["--target", "y", "--missing", "drop", "-o", tmp_path / "a.kexpfam"]
    assert "impute" not in run("fit", few, *words).stderr
    assert "--missing impute keeps rows with gaps" in run("fit", gaps, *words).stderr


@pytest.mark.parametrize(
    ("n", "levels", "step", "told"),
    [(40, 5, 1.0, True), (40, 11, 1.0, False), (40, 5, 0.5, False), (20, 5, 1, False)],
)
def test_a_target_of_few_whole_numbers_is_noted(fit, untuned, n, levels, step, told):
    columns = {"area": houses(n)["area"], "grade": step * (np.arange(n) % levels)}
    result = fit(columns, "--target", "grade", "--model", "kcef").result
    assert result.exit_code == 0, result.output
    assert ("Note: grade looks discrete, with 5" in result.stderr) == told


@pytest.mark.parametrize("words", [["rooms,city"], ["rooms", "--exclude", "city"]])
def test_excluded_columns_are_no_features(fit, untuned, words):
    done = fit(houses(40), "--target", "price", "--exclude", *words)
    assert done.result.exit_code == 0, done.result.output
    coder = load_table_model(done.model).coder
    assert [feature.name for feature in coder.features] == ["area"]
    # What to do next has all options of the fit.
    again = [f"--exclude {word}" for word in words if not word.startswith("-")]
    assert " ".join(again) in done.result.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--exclude", "nothing"], "no column 'nothing'"),
        (["--exclude", "price"], "'price' is asked for, and cannot be excluded too."),
        (
            ["--features", "area,city", "--exclude", "city"],
            "'city' is asked for, and cannot be excluded too.",
        ),
        (["--exclude", "area,rooms,city"], "'city', and a model needs one feature"),
    ],
)
def test_columns_that_cannot_be_excluded_are_named(fit, untuned, words, message):
    result = fit(houses(40), "--target", "price", *words).result
    assert result.exit_code == 1
    assert message in result.stderr


@pytest.mark.parametrize(
    ("text", "message"), [("a", "'a' are not numbers"), ("nan", "are not numbers")]
)
def test_thresholds_are_numbers(run, fitted, text, message):
    result = run("predict", fitted.model, fitted.data, "--above", text)
    assert result.exit_code == 2
    assert message in result.stderr


def test_one_is_singular(fit, run, untuned):
    done = fit(houses(20), "--target", "price", "--features", "area")
    with open(done.data) as file:
        one = "".join(file.readlines()[:2])
    with open(done.data, "w") as file:
        file.write(one)
    out = done.data.replace("a.csv", "out.csv")
    for command, noun in (["predict", "row"], ["sample", "draw"]):
        words = ["-n", "1"] if command == "sample" else []
        result = run(command, done.model, done.data, *words, "-o", out, "--force")
        assert result.stdout == f"1 {noun} written to {out}\n"
    refused = run("fit", done.data, "--target", "price", "-o", out + ".kexpfam")
    assert "has 1 complete row, and a density needs 5" in refused.stderr


def test_bounds_and_atoms_are_options(run, tmp_path):
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, size=60)
    rain = np.where(rng.random(60) < 0.4, 0.0, rng.gamma(2.0, size=60))
    data = write(tmp_path / "rain.csv", {"x": x, "rain": rain, "wet": rain + 0.1})
    words = ["fit", data, "--target", "wet", "--features", "x", "--model", "kcef"]
    model = tmp_path / "wet.kexpfam"
    done = run(*words, "--lower", "0", "-o", model)
    assert done.exit_code == 0
    assert "  wet begins at 0\n" in done.stdout
    auto = run(*words[:-2], "--time", "0.1", "--json", "-o", tmp_path / "c.kexpfam")
    assert json.loads(auto.stdout)["bounds"] == {
        "lower": 0.1,  # an atom, at which the rest ends
        "upper": None,
        "likely": True,
    }
    p = kexpfam.load(model).given([[0.0], [0.5]])
    assert np.all(p.cdf(0.0) < 1e-9)
    refused = run(*words, "--lower", "1", "-o", tmp_path / "b.kexpfam")
    assert refused.exit_code == 1
    assert "rows outside [1, inf]" in refused.stderr


@pytest.mark.slow
def test_atoms_are_told_and_can_be_switched_off(run, tmp_path):
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, size=60)
    rain = np.where(rng.random(60) < 0.4, 0.0, rng.gamma(2.0, size=60))
    data = write(tmp_path / "rain.csv", {"x": x, "rain": rain})
    found = run("fit", data, "--target", "rain", "-o", tmp_path / "a.kexpfam")
    assert "Note: y is 0 in" in found.stderr
    assert "probabilities of 0" in found.stdout
    words = ["--atoms", "none", "-o", tmp_path / "b.kexpfam"]
    density = run("fit", data, "--target", "rain", *words)
    assert "y is 0 in" not in density.stderr
    assert kexpfam.load(tmp_path / "b.kexpfam").given([[0.0]]).measure == "lebesgue"


def test_a_time_budget_is_an_option(run, tmp_path):
    data = write(tmp_path / "a.csv", houses(40))
    words = ["fit", data, "--target", "price", "--features", "area", "--model", "kcef"]
    done = run(*words, "--time", "1e-9", "-o", tmp_path / "a.kexpfam")
    assert done.exit_code == 0, done.output
    assert "Note: the time budget was over; not tried: linear" in done.stderr
    assert "--time 1e-09" in done.stdout
    assert run(*words, "--time", "0", "-o", tmp_path / "b.kexpfam").exit_code == 2
    joint = ["fit", data, "--joint", "--time", "1", "-o", tmp_path / "c.kexpfam"]
    assert "--time is for one target" in run(*joint).stderr


def test_a_column_says_which_targets_are_censored(run, tmp_path):
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, size=80)
    life = np.exp(x + 0.5 * rng.normal(size=80))
    alive = life > 1.5
    columns = {"x": x, "life": np.minimum(life, 1.5)}
    data = write(tmp_path / "a.csv", columns | {"alive": np.where(alive, "right", "")})
    words = ["fit", data, "--target", "life", "--model", "kcef", "--time", "1"]
    path = tmp_path / "a.kexpfam"
    done = run(*words, "--censoring", "alive", "-o", path)
    assert done.exit_code == 0, done.output
    assert f"Note: {alive.sum()} rows censored." in done.stderr
    assert "kexpfam predict" in done.stdout
    assert "kexpfam evaluate" not in done.stdout  # which knows of no limits
    model = kexpfam.load(path)
    assert model.coder_.coding_.columns == ["x"]
    assert model.given([[0.9]]).sf(1.5) > 0.6  # most live longer than anyone was seen
    odd = write(tmp_path / "b.csv", columns | {"alive": np.where(alive, "yes", "none")})
    refused = run("fit", odd, "--target", "life", "--censoring", "alive", "--force")
    assert (
        "'yes' says nothing of censoring; write right, left or none" in refused.stderr
    )
