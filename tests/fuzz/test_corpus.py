"""Cases that fuzzing found, and a few fresh ones, always the same."""

import numpy as np
import pytest

from kexpfam import load
from kexpfam.partition.line import integrate_line
from tests.fuzz.cases import KINDS, run_case
from tests.persistence.files import changed, parts, places, refuses, write

LENGTHSCALE = ("fitted", "family", "T", "kernel", "terms", 0, 1, "lengthscale")
LAM = ("objects", 0, "transform", "inner", "lam", 0)

# Numbers that are each as declared, and gave NaN, infinity, or an OverflowError when
# the model was asked: model, array, factor.
TIMES = [
    ("plain", "family.chart.y_scale", 1e308),
    ("plain", "family.chart.y_scale", 5e-324),
    ("lower", "family.chart.y_scale", 1e308),
    ("positive", "family.T.second", 1e150),
    ("process", "family.T.Y", 1e60),
    ("process", "family.T.zeroth", 1e20),
    ("process", "family.chart.frame.center", 1e20),
    ("linear", "family.chart.frame.unit", 1e-308),
    ("warped", "family.chart.frame.processes.0.y_scaling.scale", 1e-308),
    ("process", "family.chart.frame.processes.0.y_scaling.scale", 1e308),
    ("two columns", "family.chart.frame.processes.0.y_scaling.scale", 1e-308),
]
# And model, place in the description, value.
PLACED = [
    ("plain", LENGTHSCALE, 1e-10),
    ("plain", LENGTHSCALE, 5e-324),
    ("bounded", LENGTHSCALE, 1e-308),
    ("marginal", ("fitted", "family", "base", "mixtures", 0, 1, 0), 1e308),
    ("lower", ("fitted", "support", "lower"), -1e308),
    ("positive", LAM, -1e20),
    ("inducing", ("fitted", "family", "base", "location"), 1e150),
    ("process", ("objects", 0, "hyperparameters", "signal_variance"), 1e60),
]
# Parameters that loaded whatever they were.
PARAMETERS = [
    ("standardize", "yes"),
    ("standardize", 1),
    ("regularization", "0.1"),
    ("n_components", 3.5),
    ("kernel_x", "Gaussian"),
    ("kernel_y", 1.0),
    ("ordered", ["a"]),
    ("n_jobs", [2]),
    ("random_state", "seed"),
    ("base", 7),
]


@pytest.mark.parametrize(("model", "name", "factor"), TIMES)
def test_numbers_that_are_no_density_together_are_refused(
    model, name, factor, tmp_path
):
    arrays, description = parts(model)
    with np.errstate(all="ignore"):
        write(tmp_path / "m", {**arrays, name: arrays[name] * factor}, description)
    refuses(tmp_path / "m")


@pytest.mark.parametrize(("model", "place", "value"), PLACED)
def test_values_that_are_no_density_together_are_refused(model, place, value, tmp_path):
    arrays, description = parts(model)
    write(tmp_path / "m", arrays, changed(description, place, value))
    refuses(tmp_path / "m")


@pytest.mark.parametrize(("name", "value"), PARAMETERS)
def test_parameters_of_another_type_are_refused(name, value, tmp_path):
    arrays, description = parts("plain")
    place = ("parameters", name)
    write(tmp_path / "m", arrays, changed(description, place, value))
    refuses(tmp_path / "m", f"parameter {name} of KCEF is something else")


@pytest.mark.parametrize("names", [["a", 1], "ab", {"a": 1, "b": 2}, [[], {}]])
def test_names_of_columns_are_texts(names, tmp_path):
    arrays, description = parts("names")
    write(tmp_path / "m", arrays, changed(description, ("feature_names",), names))
    refuses(tmp_path / "m", "feature names are not texts")


def test_parts_of_dates_are_those_that_dates_have(tmp_path):
    arrays, description = parts("table")
    place = next(p for p in places(description) if p[-2:] == ("told", 0))
    write(tmp_path / "m", arrays, changed(description, place, "text"))
    refuses(tmp_path / "m", "dates have no such parts")


def test_what_nobody_edited_is_opened(tmp_path):
    for name in {model for model, *_ in (*TIMES, *PLACED)}:
        write(tmp_path / "m", *parts(name))
        load(tmp_path / "m")


def test_a_density_that_no_cells_resolve_takes_bounded_work():
    """One row took 38 s and 530 MB with coefficients that a file may hold."""
    numbers = []

    def log_density(u):
        numbers.append(len(u))
        return 30.0 * np.sin(1e6 * u)[None] - 0.5 * u**2

    found = integrate_line(log_density, np.linspace(-3, 3, 20), extend=(True, True))
    assert sum(numbers) < 2**19 + 2**18
    assert found.error[0] > 1e-6  # which is said in a warning


@pytest.mark.parametrize("kind", KINDS)
def test_a_few_fresh_cases(kind, tmp_path):
    for seed in range(12):
        said, problem = run_case(kind, seed, tmp_path)
        assert problem is None, (seed, said)
