"""Files that are spoiled in any way are refused when they are opened, or are sound."""

import contextlib
import json
import os
import warnings

import numpy as np
import pytest

from kexpfam import AutoKCEF, FactorizedDensity, load
from kexpfam.errors import FileFormatError, KexpfamError
from tests.persistence.files import (
    arrays_in,
    changed,
    parts,
    place_of,
    places,
    refuses,
    write,
)
from tests.persistence.models import MORE_BOTH, MORE_X, MORE_Y, STREAMS

# --- descriptions --------------------------------------------------------------------

GAUSSIAN = {"class": "Gaussian", "lengthscale": 1.0}
INFINITE = {"class": "float", "value": "inf"}
NAN = {"class": "float", "value": "nan"}
LONG = {"class": "GaussianBase", "scale": [1.0, 2.0]}

# Where some parts are; others are named by their class and field.
PLACES = {
    "kernel": ("fitted", "family", "T", "kernel"),
    "base": ("fitted", "family", "base"),
    "T": ("fitted", "family", "T"),
    "chart": ("objects", 0),
    "factor": ("factors", 0, "model"),
    "nodes": ("structure", "nodes"),
    "names": ("structure", "names"),
}


def _joint(kernel_y, kernel_x=GAUSSIAN):
    return {"class": "SumOfProducts", "terms": [[kernel_x, kernel_y]]}


def _gaussian(lengthscale):
    return _joint({**GAUSSIAN, "lengthscale": lengthscale})


def _base(name, /, **fields):
    return {"class": name, **fields}


def _mixture(*mixture):
    return _base("MarginalBase", mixtures=[mixture])


# Model, place, value (`...` to leave it out), words of the refusal.
WRONG = [
    # the estimator
    *(
        ("plain", key, ..., "")
        for key in ("model", "parameters", "feature_names", "fitted", "objects")
    ),
    ("plain", "format", ..., "damaged description"),
    ("plain", "model", "RandomForest", "'RandomForest' is not known here"),
    ("plain", "model", "os.system", "'os.system' is not known here"),
    ("plain", "model", ["KCEF"], "is not known here"),
    ("plain", "model", None, "is not known here"),
    ("plain", "model", {"class": "Gaussian"}, "is not known here"),
    *(("plain", "model", name, "") for name in ("KEF", "AutoKCEF", "Chart", "eval")),
    *(("KEF", "model", name, "") for name in ("KCEF", "AutoKCEF")),
    *(("average", "model", name, "") for name in ("KCEF", "KEF", "FactorizedDensity")),
    ("plain", "model", "FactorizedDensity", "factors"),
    ("plain", "parameters", [], ""),
    ("plain", "parameters", None, ""),
    ("plain", "parameters", {"bandwidth": 1.0}, "bandwidth"),
    ("plain", "parameters", {"__class__": 1}, ""),
    ("plain", "parameters", {"self": 1}, ""),
    ("plain", "parameters", {"kernel_y": {"class": "os.system"}}, "unknown class"),
    ("plain", "feature_names", ["a"], "feature names do not match"),
    ("plain", "feature_names", 5, ""),
    ("plain", "feature_names", None, ""),
    ("plain", "extra", [1], "extra is not a mapping"),
    ("plain", "extra", "text", "extra is not a mapping"),
    # kernels
    ("plain", "kernel", ..., ""),
    (
        "plain",
        "kernel",
        _base("os.system", command="true"),
        "unknown class 'os.system'",
    ),
    ("plain", "kernel", _base("eval", source="1"), "unknown class 'eval'"),
    ("plain", "kernel", _base("__import__", name="os"), "unknown class '__import__'"),
    ("plain", "kernel", _base("RadialKernel"), "unknown class 'RadialKernel'"),
    ("plain", "kernel", {"class": ["Gaussian"]}, "unknown class"),
    ("plain", "kernel", {"class": {"class": "Gaussian"}}, "unknown class"),
    ("plain", "kernel", {"terms": []}, "unknown class None"),
    ("plain", "kernel", None, "kernel of KernelExpansion is something else"),
    ("plain", "kernel", 1.0, "kernel of KernelExpansion is something else"),
    ("plain", "kernel", GAUSSIAN, "kernel of KernelExpansion is something else"),
    ("plain", "kernel", _base("SumOfProducts", terms=[]), ""),
    ("plain", "kernel", _base("SumOfProducts", terms=[[1, 2]]), ""),
    ("plain", "kernel", _base("SumOfProducts", terms="ab"), ""),
    ("plain", "kernel", _base("SumOfProducts", terms=[[GAUSSIAN] * 3]), ""),
    (
        "plain",
        "kernel",
        _joint(_base("Gaussian", width=1.0)),
        "Gaussian has no 'width'",
    ),
    ("plain", "kernel", _joint(_base("Gaussian", self=1.0)), "Gaussian has no 'self'"),
    ("plain", "kernel", _joint(_base("GaussianBase")), ""),
    ("plain", "kernel", _joint(_base("Matern", nu=1.5)), ""),
    ("plain", "kernel", _joint(_base("Matern", nu=20000.5)), ""),
    ("plain", "kernel", _joint(_base("RationalQuadratic", alpha=INFINITE)), ""),
    ("plain", "kernel", _joint(_base("RationalQuadratic", alpha="a")), ""),
    ("plain", "kernel", _joint(GAUSSIAN, _base("Constant", value=-1)), ""),
    *(
        ("plain", "kernel", _gaussian(length), "")
        for length in ("median", 0.0, -1.0, INFINITE, NAN, "1", [1.0, 2.0])
    ),
    ("plain", "kernel", _joint(GAUSSIAN, _base("Gaussian", lengthscale=[1.0] * 3)), ""),
    ("KEF", "kernel", _base("SumOfProducts", terms=[[GAUSSIAN] * 2] * 2), "one kernel"),
    # base densities and transforms
    ("plain", "base", ..., ""),
    ("plain", "base", GAUSSIAN, "base of FittedFamily is something else"),
    ("plain", "base", None, "base of FittedFamily is something else"),
    ("plain", "base", _base("subprocess.Popen", args=["true"]), "unknown class"),
    ("plain", "base", _base("LocationScaleBase"), "unknown class 'LocationScaleBase'"),
    ("plain", "base", _base("GaussianBase", scale=-2.0), ""),
    ("plain", "base", _base("GaussianBase", scale=NAN), ""),
    ("plain", "base", _base("GaussianBase", location=INFINITE), ""),
    ("plain", "base", _base("GaussianBase", scale={"array": "family.T.Y"}), "no array"),
    ("plain", "base", LONG, ""),
    ("plain", "base", _base("GeneralizedGaussianBase", power=NAN), ""),
    ("plain", "base", _base("StudentBase", df=[1.0, 2.0]), ""),
    ("plain", "base", _base("MarginalBase"), "the base density has other columns"),
    ("plain", "base", _base("MarginalBase", mixtures="abc"), ""),
    ("plain", "base", _mixture([0.0, 1.0], [1.0], [1.0]), ""),
    ("plain", "base", _mixture([0.0], [-1.0], [1.0]), ""),
    ("plain", "base", _mixture([0.0], [0.0], [1.0]), ""),
    ("plain", "base", _mixture([NAN], [1.0], [1.0]), ""),
    ("plain", "base", _mixture([0.0], [1.0], [-1.0]), ""),
    ("plain", "base", _base("UniformBase", lower=1, upper=0), ""),
    ("plain", "base", _base("UniformBase", lower=-1e-9, upper=1e-9), "does not cover"),
    ("plain", "base", _base("TruncatedBase", base=5, lower=0.0), ""),
    ("plain", "base", _base("TruncatedBase", lower=1e6), ""),
    ("process", ("Chart", "transform"), LONG, "transform of Chart is something else"),
    (
        "process",
        ("Chart", "x_transform"),
        1.0,
        "x_transform of Chart is something else",
    ),
    ("two columns", ("Chart", "transform"), _base("YeoJohnson", lam=1.0), "one column"),
    (
        "plain",
        ("Chart", "x_transform"),
        _base("Rescaled", transform=_base("YeoJohnson"), center=[0.0] * 3),
        "",
    ),
    (
        "process",
        ("Chart", "transform"),
        _base("YeoJohnson", lam=[{"array": "family.T.Y"}] * 9),
        "lam must be a number",
    ),
    # coordinates, regressions, functions, families
    ("plain", "chart", ..., ""),
    ("process", ("Chart", "frame"), {"object": 0}, "location_scale of Chart is some"),
    ("linear", ("LinearFrame", "models"), [], "models of LinearFrame has 0 parts"),
    ("linear", ("LinearLocationScale", "lower"), 400.0, "has no exponential"),
    ("linear", ("LinearLocationScale", "lower"), 299.0, "upper of .* is below lower"),
    ("process", ("LogScale", "upper"), 1e4, "has no exponential"),
    ("process", ("LogScale", "upper"), -299.0, "upper of LogScale is below lower"),
    ("process", ("LogScaleFeatures", "width"), 0.0, "must be positive"),
    ("process", ("LogScaleFeatures", "width"), 1e-200, "too small"),
    ("process", ("Hyperparameters", "signal_variance"), 0.0, "must be positive"),
    ("process", ("Hyperparameters", "noise_variance"), -1.0, "must be positive"),
    ("process", ("GaussianProcessFrame", "processes"), [], "has 0 parts"),
    ("process", ("GaussianProcessFrame", "log_scales"), [None] * 2, "has 2 parts"),
    ("plain", "T", ..., ""),
    ("plain", ("KernelExpansion", "n_jobs"), 1, "KernelExpansion has no 'n_jobs'"),
    *(("plain", ("FittedFamily", key), ..., "") for key in ("lam", "rcond", "seed")),
    ("plain", ("FittedFamily", "lam"), 0.0, "lam of FittedFamily must be positive"),
    ("plain", ("FittedFamily", "lam"), -1.0, "lam of FittedFamily must be positive"),
    ("plain", ("FittedFamily", "lam"), NAN, "lam of FittedFamily must be positive"),
    ("plain", ("FittedFamily", "lam"), INFINITE, "lam of FittedFamily is not finite"),
    ("plain", ("FittedFamily", "lam"), None, "something else"),
    ("plain", ("FittedFamily", "lam"), [0.1], "something else"),
    ("plain", ("FittedFamily", "lam"), 10**400, "something else"),
    ("plain", ("FittedFamily", "rcond"), INFINITE, "rcond"),
    ("plain", ("FittedFamily", "seed"), "a", "something else"),
    ("plain", ("FittedFamily", "seed"), None, "something else"),
    ("plain", ("FittedFamily", "seed"), True, "something else"),
    ("plain", ("FittedFamily", "seed"), -1, "must not be negative"),
    ("plain", ("Neighbourhood", "width"), 0.0, "must be positive"),
    ("plain", ("FittedModel", "neighbourhood"), None, "neighbourhood of x is missing"),
    # averages
    ("average", ("FittedAverage", "members"), [], "do not sum to one"),
    ("average", ("FittedAverage", "guard"), [0.0, 0.0], "component is not a density"),
    (
        "average",
        ("FittedAverage", "guard"),
        [0.0, INFINITE],
        "defensive .* is not finite",
    ),
    ("average", ("FittedAverage", "guard"), [0.0, 1.0, 1.0], "something else"),
    ("average", ("FittedAverage", "guard_weight"), 1.0, "do not sum to one"),
    ("average", ("FittedAverage", "guard_weight"), -0.1, "must not be negative"),
    ("average", ("FittedMember", "weight"), 0.9, "do not sum to one"),
    ("average", ("FittedMember", "weight"), 1.5, "is not a share"),
    ("average", ("FittedMember", "weight"), 0.0, "must be positive"),
    ("average", ("FittedAverage", "best"), {"object": 0}, "something else"),
    ("average", ("FittedAverage", "n_candidates"), 0, "must be positive"),
    ("average", ("FittedAverage", "n_candidates"), 0.5, "something else"),
    ("average", ("FittedAverage", "stopped"), None, "something else"),
    ("average", ("FittedMember", "family"), None, "something else"),
    # streams
    ("sums", ("SavedFold", "weight"), -1.0, "must not be negative"),
    ("sums", ("SavedFold", "weight"), INFINITE, "is not finite"),
    ("sums", ("SavedFold", "weight"), 1e200, "is too large"),
    *(
        ("sums", ("SavedSums", "sizes"), sizes, "do not end with 9")
        for sizes in ([7, 30], [7, 10**400], [7], [0, 9], [])
    ),
    ("sums", ("SavedSums", "sizes"), [7, 6, 9], "in disorder"),
    ("sums", ("SavedSums", "sizes"), [9, 9], "in disorder"),
    ("sums", ("SavedSums", "sizes"), [7.5, 9], "something else"),
    ("sums", ("SavedSums", "folds"), [], "folds of SavedSums has 0 parts"),
    ("sums, functions", ("SavedSums", "derivatives"), 0, "not of the basis"),
    ("sums", ("SavedSums", "derivatives"), 3, "unknown functions"),
    ("sums", ("SavedSums", "derivatives"), -1, "unknown functions"),
    ("sums", ("SavedSums", "derivatives"), True, "something else"),
    ("sums", ("SavedSums", "free"), 1, "something else"),
    ("sums", ("SavedSums", "settled"), None, "something else"),
    ("sums", ("SavedSums", "judges"), None, "something else"),
    ("sums", ("LambdaRule", "objective"), "luck", "unknown"),
    ("sums", ("LambdaRule", "start"), 0.0, "must be positive"),
    ("sums", ("LambdaRule", "start"), INFINITE, "is not finite"),
    ("sums", ("LambdaRule", "start"), "0.1", "something else"),
    ("sums", ("LambdaRule", "given"), "yes", "something else"),
    ("sums", ("FittedModel", "stream"), {"object": 0}, "something else"),
    ("sums", ("FittedModel", "stream"), 1.0, "something else"),
    ("sums", ("FittedModel", "stream"), {"class": "os.system"}, "unknown class"),
    # joint densities
    ("joint", "structure", ..., ""),
    ("joint", "structure", "none", ""),
    ("joint", "nodes", [[[0], [2]], [[1], [0]], [[2], [0, 1]]], "cycle"),
    ("joint", "nodes", [[[0], []], [[1], [0]], [[2], [7]]], "7"),
    ("joint", "nodes", [[[0], []], [[1], [0]]], "no entry for column"),
    ("joint", "nodes", [[[0], []], [[2], [0, 1]], [[1], [0]]], "parents do not come"),
    ("joint", "nodes", [[[0], []], [[1], [0]], [[2], [0]]], "has other columns"),
    ("joint", "nodes", [[[0], []], [[1, 2], [0]]], ""),
    ("joint", "feature_names", ["a"], "feature names do not match"),
    ("joint", "feature_names", ["a", "b", "d"], "feature names do not match"),
    ("joint", "names", ["a", "a", "c"], "not different texts"),
    ("joint", "names", [["a"], None, "c"], ""),
    ("joint", "factor", "FactorizedDensity", ""),
    ("joint", "factors", [], ""),
]


@pytest.mark.parametrize(
    ("name", "key", "value", "words"),
    WRONG,
    ids=lambda part: str(part)[:40] if isinstance(part, str | tuple) else "",
)
def test_a_wrong_description_is_refused(name, key, value, words, tmp_path):
    arrays, description = parts(name)
    if isinstance(key, tuple):
        place = place_of(description, *key)
    else:
        place = PLACES.get(key, (key,))
    spoiled = changed(description, place, value)
    write(tmp_path / "file", arrays, spoiled)
    # Several words with something between them.
    refuses(tmp_path / "file", *words.split(" .* "))


def test_a_file_cannot_call_what_has_side_effects(tmp_path, monkeypatch):
    called = []
    monkeypatch.setattr(os, "system", called.append)
    arrays, description = parts("plain")
    hostile = {"class": "os.system", "command": "true"}
    for place in places(description):
        if place and place[0] in ("fitted", "objects", "parameters", "model"):
            write(tmp_path / "file", arrays, changed(description, place, hostile))
            refuses(tmp_path / "file")
    assert called == []


def test_every_part_of_a_stream_is_needed(tmp_path):
    arrays, description = parts("sums")
    saved = description["fitted"]["stream"]
    wanted = [(key,) for key in saved]
    wanted += [
        ("judges", "X"),
        ("judges", "keys"),
        ("folds", 0, "b"),
        ("rule", "start"),
    ]
    for place in wanted:
        shorter = changed(description, ("fitted", "stream", *place), ...)
        write(tmp_path / "file", arrays, shorter)
        refuses(tmp_path / "file")
    for number in (4, 6):
        folds = (saved["folds"] * 2)[:number]
        more = changed(description, ("fitted", "stream", "folds"), folds)
        write(tmp_path / "file", arrays, more)
        refuses(tmp_path / "file", f"folds of SavedSums has {number} parts")


def test_sums_over_no_rows_are_refused(tmp_path):
    arrays, description = parts("sums")
    for k in range(5):
        place = "fitted", "stream", "folds", k, "weight"
        description = changed(description, place, 0.0)
    write(tmp_path / "file", arrays, description)
    refuses(tmp_path / "file", "over no rows")


@pytest.mark.parametrize(("centres", "tried"), [(4, True), (8, False)])
def test_a_family_has_a_number_of_centres_that_was_tried(centres, tried, tmp_path):
    arrays, description = parts("sums")
    names = [f"family.T.{name}" for name in ("X", "Y", "zeroth")]
    fewer = {name: arrays[name][:centres] for name in names}
    write(tmp_path / "file", {**arrays, **fewer}, description)
    if tried:
        assert len(load(tmp_path / "file").family_.T.Y) == centres
    else:
        refuses(tmp_path / "file", "T has 8 centres, which were not tried")


def test_sums_of_other_functions_than_the_family_are_refused(tmp_path):
    arrays, description = parts("sums, functions")
    wrong = changed(description, ("fitted", "family", "T", "zeroth"), ...)
    fewer = {name: a for name, a in arrays.items() if name != "family.T.zeroth"}
    write(tmp_path / "file", fewer, wrong)
    refuses(tmp_path / "file", "other functions than T")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("sums, functions", "stream of FittedModel has arrays with d = 1"),
        ("KEF", "stream of FittedModel has arrays with p = 2"),
    ],
)
def test_the_stream_of_another_model_is_refused(name, words, tmp_path):
    arrays, description = parts(name)
    other, foreign = parts("rows")
    swapped = changed(description, ("fitted", "stream"), foreign["fitted"]["stream"])
    own = {key: a for key, a in arrays.items() if not key.startswith("stream.")}
    theirs = {key: a for key, a in other.items() if key.startswith("stream.")}
    write(tmp_path / "file", {**own, **theirs}, swapped)
    refuses(tmp_path / "file", words)


def test_shared_objects_that_are_not_before_are_refused(tmp_path):
    arrays, description = parts("process")
    objects = description["objects"]
    assert [part["class"] for part in objects] == ["GaussianProcess", "Chart"]
    place = ("objects", 1, "frame", "processes")
    for number in (1, 2, -1, "0", 0.0):
        spoiled = changed(description, place, [{"object": number}])
        write(tmp_path / "file", arrays, spoiled)
        refuses(tmp_path / "file", "shared object", "missing")
    write(tmp_path / "file", arrays, {**description, "objects": [*objects, objects[1]]})
    refuses(tmp_path / "file", "used by nothing")
    write(tmp_path / "file", arrays, {**description, "objects": {}})
    refuses(tmp_path / "file", "not a list")


def test_a_kernel_that_would_double_with_every_reference_is_refused(tmp_path):
    arrays, description = parts("process")
    doubled = [
        {"class": "Sum", "first": {"object": i - 1}, "second": {"object": i - 1}}
        for i in range(1, 60)
    ]
    objects = [GAUSSIAN, *doubled, *description["objects"]]
    write(tmp_path / "file", arrays, {**description, "objects": objects})
    refuses(tmp_path / "file", "a Gaussian cannot be shared")


@pytest.mark.parametrize("depth", [50, 900, 5000])
def test_a_kernel_of_endless_sums_loads_or_is_refused(depth, tmp_path):
    arrays, description = parts("plain")
    gaussian = json.dumps(GAUSSIAN)
    deep = f'{{"class": "Sum", "second": {gaussian}, "first": ' * depth
    deep += gaussian + "}" * depth
    text = json.dumps(changed(description, PLACES["kernel"], _joint("deep")))
    write(tmp_path / "file", arrays, text.replace('"deep"', deep))
    _is_sound(tmp_path / "file")


# --- arrays --------------------------------------------------------------------------


SPOILED = {
    "NaN": lambda a: np.where(np.arange(a.size).reshape(a.shape) == 0, np.nan, a),
    "another rank": lambda a: a[..., None],
    "one row less": lambda a: a[:-1],
    "no rows": lambda a: a[:0],
    "twice the rows": lambda a: np.concatenate([a, a]),
    "no columns": lambda a: a[:, :0] if a.ndim == 2 else a[:0],
    "twice the columns": lambda a: np.concatenate([a, a], axis=-1),
    "float32": lambda a: a.astype(np.float32),
    "missing": None,
}
# A process may know any number of directions.
FREE = {("directions", "one row less"), ("directions", "twice the rows")}


@pytest.mark.parametrize("kind", SPOILED)
@pytest.mark.parametrize(
    "name",
    ["plain", "process", "linear", "inducing", "average", "sums, functions", "rows"],
)
def test_wrong_arrays_are_refused_by_name(name, kind, tmp_path):
    spoil = SPOILED[kind]
    arrays, description = parts(name)
    for key in list(arrays)[:: {"average": 23, "inducing": 2}.get(name, 1)]:
        if (key.split(".")[-1], kind) in FREE:
            continue
        spoiled = {other: array for other, array in arrays.items() if other != key}
        if spoil is not None:
            spoiled[key] = spoil(arrays[key])
        write(tmp_path / "file", spoiled, description)
        refuses(tmp_path / "file", "array")


# Model, ending of the name of an array, value of all its numbers, words.
NUMBERS = [
    *(
        (name, ending, value, "must be positive")
        for name, endings in {
            "plain": ["x_scale", "y_scale", "neighbourhood.scale"],
            "process": ["x_scaling.scale", "lengthscales", "noise", "frame.unit"],
            "linear": ["x_scaling.scale", "frame.unit"],
            "average": ["x_scaling.scale", "neighbourhood.scale", "noise"],
            "sums": ["spread"],
        }.items()
        for ending in endings
        for value in (0.0, -1.0)
    ),
    *(
        (name, ending, 1e200, "too large")
        for name, endings in {
            "plain": ["T.X", "T.Y", "neighbourhood.rows", "neighbourhood.weights"],
            "process": ["centers", "log_scales.0.coefficients", "processes.0.X"],
            "linear": ["location", "log_scale"],
            "inducing": ["inducing", "directions", "processes.0.coefficients"],
            "sums": [
                "folds.0.triangle",
                "folds.4.b",
                "judges.U",
                "judges.log_slope",  # log_abs_det_jacobian, by its name in files
            ],
        }.items()
        for ending in endings
    ),
    ("plain", "neighbourhood.weights", -1.0, "must not be negative"),
    ("sums", "folds.0.triangle", -1.0, "negative diagonal"),
    ("sums", "judges.weights", -1.0, "must not be negative"),
    ("sums", "judges.weights", 0.0, "all zero"),
    ("sums", "judges.folds", 5.0, "not in 5 folds"),
    ("sums", "judges.folds", 0.5, "is not whole"),
    ("sums", "judges.folds", -1.0, "must not be negative"),
    ("sums", "judges.folds", 1e300, "is not whole"),
    ("sums", "spread", 1e-200, "too small"),
    ("sums", "stream.X", 0.1, "other centres than T"),
    ("sums", "stream.Y", 0.1, "other centres than T"),
    ("rows", "stream.weights", -1.0, "must not be negative"),
    ("rows", "stream.weights", 0.0, "all zero"),
    ("plain", "chart.support", 1.0, "not an interval"),
    ("process", "lengthscales", 1e-200, "too small"),
]


@pytest.mark.parametrize(("name", "ending", "value", "words"), NUMBERS)
def test_numbers_that_no_fit_has_are_refused(name, ending, value, words, tmp_path):
    arrays, description = parts(name)
    key = next(key for key in arrays if key.endswith(ending))
    write(
        tmp_path / "file",
        {**arrays, key: np.full_like(arrays[key], value)},
        description,
    )
    refuses(tmp_path / "file", words)


def test_an_array_too_many_is_refused(tmp_path):
    arrays, description = parts("plain")
    write(tmp_path / "file", {**arrays, "extra": np.ones(3)}, description)
    refuses(tmp_path / "file", "extra")


def test_more_centres_than_coefficients_are_refused(tmp_path):
    arrays, description = parts("plain")
    both = "family.T.X", "family.T.Y"
    longer = {name: np.concatenate([arrays[name]] * 2) for name in both}
    write(tmp_path / "file", {**arrays, **longer}, description)
    refuses(tmp_path / "file", "array first of KernelExpansion")


# --- anything, anywhere --------------------------------------------------------------

HOSTILE = [
    None,
    -1,
    0,
    10**400,
    "text",
    [],
    {},
    [0, 10**9],
    {"class": "os.system"},
    NAN,
    {"class": "GaussianBase"},
    {"class": "Scaling"},
    {"class": "SavedRows"},
    {"array": "family.T.Y"},
    {"array": "stream.X"},
    {"object": 0},
    {"object": 10**6},
]


def _is_sound(path):
    """Whether a spoiled file was loaded; then it is of finite numbers, and goes on."""
    with warnings.catch_warnings():
        # A flipped bit of a coefficient may make a spiky density, with warnings.
        warnings.simplefilter("ignore")
        try:
            model = load(path)
        except FileFormatError:
            return False
        if isinstance(model, FactorizedDensity):
            return True
        families = [model.family_] if not isinstance(model, AutoKCEF) else []
        families += [member.family for member in getattr(model, "members_", [])]
        for part in [*families, getattr(model, "stream_", None)]:
            for place, array in arrays_in(part):
                free = place.endswith("support") or not isinstance(array, np.ndarray)
                assert free or np.isfinite(array).all(), place
        if getattr(model, "stream_", None) is not None:
            y = (MORE_Y, MORE_BOTH)[model._response_columns - 1]
            with contextlib.suppress(KexpfamError, ValueError):
                T = model.partial_fit(MORE_X[:5], y[:5]).family_.T
                assert np.isfinite(T.Y).all()
    return True


HOSTILE_TRIALS = {
    "plain": 60,
    "KEF": 40,
    "process": 80,
    "linear": 40,
    "average": 20,
    "joint": 30,
    "sums, functions": 80,
    "rows": 30,
}


@pytest.mark.parametrize(("name", "trials"), HOSTILE_TRIALS.items())
def test_anything_anywhere_gives_a_refusal_or_a_sound_model(name, trials, tmp_path):
    arrays, description = parts(name)
    start = ("stream",) if name in STREAMS else ("fitted", "objects", "factors")
    found = [p for p in places(description) if set(p[:2]) & set(start)]
    rng = np.random.default_rng(4)
    loaded = 0
    for _ in range(trials):
        place = found[rng.integers(len(found))]
        value = HOSTILE[rng.integers(len(HOSTILE))]
        write(tmp_path / "file", arrays, changed(description, place, value))
        loaded += _is_sound(tmp_path / "file")
    # Few places take another value, such as a seed of zero.
    assert loaded < trials / 5


@pytest.mark.parametrize(
    "name", ["plain", "KEF", "marginal", "process", "sums", "rows"]
)
def test_flipped_bits_give_a_refusal_or_a_sound_model(name, tmp_path):
    path = tmp_path / "file"
    write(path, *parts(name))  # a checksum would notice every flip
    content = path.read_bytes()
    header = 8 + int.from_bytes(content[:8], "little")
    rng = np.random.default_rng(6)
    loaded = 0
    for trial in range(60):
        damaged = bytearray(content)
        # Half of the flips go to the header, which is where structure lives.
        last = header if trial % 2 else len(content)
        for _ in range(rng.integers(1, 4)):
            damaged[rng.integers(last)] ^= 1 << int(rng.integers(8))
        path.write_bytes(bytes(damaged))
        loaded += _is_sound(path)
    assert 0 < loaded < 60


def test_random_bytes_in_the_header_give_a_refusal_or_a_model(tmp_path):
    path = tmp_path / "model"
    write(path, *parts("KEF"))
    content = path.read_bytes()
    header = int.from_bytes(content[:8], "little")
    rng = np.random.default_rng(7)
    alphabet = np.frombuffer(b'{}[]",:0123456789.eE+-null \\u', dtype=np.uint8)
    for _ in range(60):
        damaged = bytearray(content)
        start = 8 + int(rng.integers(header - 6))
        damaged[start : start + 5] = rng.choice(alphabet, 5).tobytes()
        path.write_bytes(bytes(damaged))
        _is_sound(path)
