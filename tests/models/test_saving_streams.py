"""Saved streams: a loaded model goes on as the saved one would, to the last bit."""

import contextlib
import copy
import json
import os
import warnings

import numpy as np
import pandas as pd
import pytest
from safetensors import safe_open

from kexpfam import KCEF, KEF, AutoKCEF, load
from kexpfam.base_densities import LocationScaleBase, UniformBase
from kexpfam.errors import CannotSaveError, FileFormatError, KexpfamError
from kexpfam.kernels import Gaussian, RationalQuadratic
from kexpfam.models import conditional, finishing, fitting, many_rows, stream
from kexpfam.models.design import N_FOLDS
from kexpfam.models.stream import Kept, Summed
from tests.models.test_saving import _parts, _write, refuses
from tests.models.test_saving_parts import (
    HOSTILE,
    SPOILED,
    _arrays_in,
    _at,
    _places,
    _replaced,
    _with,
)

# The models here are crude on purpose: few centres, and λ from nowhere.
pytestmark = pytest.mark.filterwarnings("ignore::kexpfam.errors.BlindnessWarning")


def _rows(n=400):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n, 2))
    y = np.sin(2 * X[:, 0]) + 0.3 * (1 + X[:, 1] ** 2) * rng.normal(size=n)
    weights = rng.uniform(0.5, 2.0, size=n)
    for array in (X, y, weights):
        array.flags.writeable = False
    return X, y, weights


X, Y, WEIGHTS = _rows()
BOTH = np.column_stack([Y, X[:, 0] - 0.5 * Y])
FIRST, SECOND, THIRD = slice(0, 200), slice(200, 300), slice(300, 400)
SETTLED = {
    "kernel_x": Gaussian(1.5),
    "kernel_y": Gaussian(1.0),
    "regularization": 0.05,
    "random_state": 0,
}


def _summed(**changes):
    return KCEF(**{**SETTLED, "n_components": 15, **changes})


def _kept(**changes):
    """A model whose fit is exact, so that its rows are kept."""
    return KCEF(**{**SETTLED, **changes})


MODELS = {
    "sums": (_summed(), Summed, Y),
    "sums of two columns": (_summed(), Summed, BOTH),
    "sums, Gaussian process": (_summed(base="gaussian_process"), Summed, Y),
    "sums, heteroscedastic, two columns": (
        _summed(base="heteroscedastic"),
        Summed,
        BOTH,
    ),
    "sums, power": (_summed(base="yeo_johnson"), Summed, Y),
    "sums, bounded": (_summed(base=UniformBase(-20.0, 20.0)), Summed, Y),
    "sums with derivatives": (_summed(derivative_features=True), Summed, BOTH),
    "sums, another kernel": (_summed(kernel_y=RationalQuadratic(1.0)), Summed, Y),
    "sums, λ by a rule": (_summed(regularization=None, select=None), Summed, Y),
    "sums, all chosen": (KCEF(random_state=0), Summed, Y),
    "sums, chosen by score": (KCEF(select="score", random_state=0), Summed, Y),
    "rows": (_kept(), Kept, Y),
    "rows, Gaussian process": (_kept(base="gaussian_process"), Kept, Y),
    "rows, iterations": (_summed(solver="iterative"), Kept, Y),
    "rows, likelihood": (_summed(fit_method="likelihood"), Kept, Y),
}


def _fit(model, y=Y, part=FIRST):
    return copy.deepcopy(model).fit(X[part], y[part], WEIGHTS[part])


def _loaded(model, path, **options):
    model.save(path, **{"sums": True, **options})
    return load(path)


def _scores(model, y=Y):
    return model.score_samples(X[:40], y[:40])


def _assert_same(first, second, y=Y):
    assert first.n_rows_ == second.n_rows_
    assert first.regularization_ == second.regularization_
    assert np.array_equal(_scores(first, y), _scores(second, y))
    assert np.array_equal(first.reliability(X[:9]), second.reliability(X[:9]))


# --- round trips ---------------------------------------------------------------------


@pytest.mark.parametrize(("model", "kind", "y"), MODELS.values(), ids=MODELS.keys())
def test_a_loaded_stream_goes_on_to_the_same_bits(model, kind, y, tmp_path):
    fitted = _fit(model, y)
    loaded = _loaded(fitted, tmp_path / "model")
    assert type(fitted.stream_) is type(loaded.stream_) is kind
    assert vars(loaded).keys() == vars(fitted).keys()
    _assert_same(loaded, fitted, y)
    for one in (fitted, loaded):
        one.partial_fit(X[SECOND], y[SECOND], WEIGHTS[SECOND], forgetting=0.9)
    before = _scores(fitted, y)
    _assert_same(loaded, fitted, y)
    for one in (fitted, loaded):
        one.partial_fit(X[THIRD], y[THIRD])
    _assert_same(loaded, fitted, y)
    assert not np.array_equal(_scores(fitted, y), before)


def test_a_loaded_exact_fit_of_two_columns_goes_on_to_the_same_bits(tmp_path):
    # Exact densities of two variables are slow: few rows.
    fitted = _fit(_kept(), BOTH, slice(0, 30))
    loaded = _loaded(fitted, tmp_path / "model")
    assert isinstance(loaded.stream_, Kept)
    for one in (fitted, loaded):
        one.partial_fit(X[30:60], BOTH[30:60], WEIGHTS[30:60])
    scores = [one.score_samples(X[:5], BOTH[:5]) for one in (fitted, loaded)]
    assert np.array_equal(*scores)


@pytest.mark.parametrize("name", ["sums of two columns", "sums, all chosen", "rows"])
def test_a_stream_saved_again_is_the_same_file(name, tmp_path):
    model, _, y = MODELS[name]
    fitted = _fit(model, y).partial_fit(X[SECOND], y[SECOND])
    loaded = _loaded(fitted, tmp_path / "first")
    again = _loaded(loaded, tmp_path / "second")
    content = (tmp_path / "first").read_bytes()
    assert (tmp_path / "second").read_bytes() == content
    _assert_same(again, fitted, y)


def test_every_part_of_a_stream_survives(tmp_path):
    fitted = _fit(_summed(), BOTH)
    running = fitted.stream_.running
    again = _loaded(fitted, tmp_path / "model").stream_.running
    assert again.rule == running.rule
    assert again.sizes == running.sizes == (7, 15)
    assert (again.free, again.settled) == (running.free, running.settled)
    assert again.design.basis.kernel == running.design.basis.kernel
    assert again.design.seed == running.design.seed
    for own, expected in zip(again.sums, running.sums, strict=True):
        assert np.array_equal(own.C, np.tril(expected.C))
        assert own.weight == expected.weight
        # Rows are added by routines that want columns side by side.
        assert own.C.flags.f_contiguous
    parts = dict(_arrays_in(again.judges)), dict(_arrays_in(running.judges))
    for name, array in parts[1].items():
        assert np.array_equal(parts[0][name], array), name


def test_chart_and_base_are_those_of_the_family_and_written_once(tmp_path):
    fitted = _fit(_summed(base="gaussian_process"))
    loaded = _loaded(fitted, tmp_path / "model")
    design = loaded.stream_.running.design
    assert design.chart is loaded.family_.chart
    assert design.base is loaded.family_.base
    _, description = _parts_of(tmp_path / "model")
    charts = [part for part in description["objects"] if part["class"] == "Chart"]
    assert len(charts) == 1
    assert str(description["fitted"]).count("'class': 'GaussianBase'") == 1


@pytest.mark.parametrize("loaded_first", [False, True])
@pytest.mark.parametrize("name", ["sums", "sums of two columns", "rows"])
def test_loaded_and_unsaved_models_merge(name, loaded_first, tmp_path):
    model, _, y = MODELS[name]
    start = _fit(model, y)
    parts = [
        start.emptied().partial_fit(X[part], y[part], WEIGHTS[part])
        for part in (SECOND, THIRD)
    ]
    loaded = _loaded(parts[0], tmp_path / "model")
    if loaded_first:
        merged, expected = loaded.merge(parts[1]), parts[0].merge(parts[1])
    else:
        merged = copy.deepcopy(parts[1]).merge(loaded)
        expected = parts[1].merge(parts[0])
    _assert_same(merged, expected, y)


@pytest.mark.parametrize("name", ["sums", "rows"])
def test_a_loaded_model_can_be_emptied(name, tmp_path):
    fitted = _fit(MODELS[name][0])
    loaded = _loaded(fitted, tmp_path / "model")
    emptied = [one.emptied() for one in (fitted, loaded)]
    assert [one.n_rows_ for one in emptied] == [0.0, 0.0]
    for one in emptied:
        one.partial_fit(X[SECOND], Y[SECOND])
    _assert_same(*emptied)


def test_a_stream_of_one_row_leaves_folds_without_rows(tmp_path):
    few = _fit(_summed()).emptied().partial_fit(X[:1], Y[:1])
    assert sorted(own.weight for own in few.stream_.running.sums) == [0, 0, 0, 0, 1]
    loaded = _loaded(few, tmp_path / "model")
    _assert_same(loaded, few)
    for one in (few, loaded):
        one.partial_fit(X[SECOND], Y[SECOND])
    _assert_same(loaded, few)


def test_kept_rows_that_become_too_many_are_summed_after_loading(tmp_path, monkeypatch):
    monkeypatch.setattr(fitting, "DESIGN_ROWS", 250)
    for module in (stream, conditional):
        monkeypatch.setattr(module, "KEPT_ROWS", 250)
    fitted = _summed().partial_fit(X[FIRST], Y[FIRST])
    loaded = _loaded(fitted, tmp_path / "model")
    assert isinstance(loaded.stream_, Kept)
    for one in (fitted, loaded):
        one.partial_fit(X[200:], Y[200:])
        assert isinstance(one.stream_, Summed)
    _assert_same(loaded, fitted)
    # And these sums, of fewer centres than were judged, can be saved as well.
    _assert_same(_loaded(fitted, tmp_path / "model"), fitted)


@pytest.mark.parametrize("name", ["sums", "rows"])
def test_columns_in_any_memory_order_and_names_survive(name, tmp_path):
    frame = pd.DataFrame(X, columns=["age", "dose"])  # its columns lie side by side
    fitted = copy.deepcopy(MODELS[name][0]).fit(frame[FIRST], Y[FIRST])
    loaded = _loaded(fitted, tmp_path / "model")
    assert loaded.emptied().feature_names_in_.tolist() == ["age", "dose"]
    for one in (fitted, loaded):
        one.partial_fit(frame[SECOND], Y[SECOND])
    assert np.array_equal(
        fitted.score_samples(frame, Y), loaded.score_samples(frame, Y)
    )
    with pytest.raises(ValueError, match="must be in the same order"):
        loaded.partial_fit(frame[["dose", "age"]], Y)


def test_a_family_with_fewer_centres_than_its_sums_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(many_rows, "FEWEST_CENTERS", 8)
    monkeypatch.setattr(fitting, "COUNTED_ROWS", 100)
    monkeypatch.setattr(finishing, "TOLERANCE", 10.0)  # the fewest are good enough
    fitted = _fit(_summed(n_components=None, solver="low-rank"))
    running = fitted.stream_.running
    assert running.free
    assert running.sizes == (8, 16, 32, 64)
    assert len(fitted.family_.T.Y) < len(running.design.basis.Y)
    loaded = _loaded(fitted, tmp_path / "model")
    for one in (fitted, loaded):
        one.partial_fit(X[SECOND], Y[SECOND])
    _assert_same(loaded, fitted)
    assert loaded.components_.trials == fitted.components_.trials


# --- size, and files without sums ----------------------------------------------------


def test_sums_take_half_of_their_matrices(tmp_path):
    m = 120
    fitted = _fit(_summed(n_components=m))
    fitted.save(tmp_path / "without")
    fitted.save(tmp_path / "with", sums=True)
    sizes = [os.path.getsize(tmp_path / name) for name in ("without", "with")]
    triangles = 8 * N_FOLDS * m * (m + 1) / 2
    # Beyond these: b of each fold, at most 200 judges of five numbers, the centres, and
    # some text.
    rest = sizes[1] - sizes[0] - triangles
    assert 0 < rest < 8 * (N_FOLDS * m + 5 * 200 + 3 * m) + 5000
    assert triangles < 0.51 * 8 * N_FOLDS * m**2


def _parts_of(path):
    """Arrays and description of a file."""
    with safe_open(str(path), framework="np") as content:
        names = content.keys()  # not a mapping: iterating it does not work
        arrays = {name: content.get_tensor(name) for name in names}
        return arrays, json.loads(content.metadata()["kexpfam"])


@pytest.mark.parametrize("name", ["sums", "rows"])
def test_without_sums_the_file_is_as_it_was_before_there_were_any(name, tmp_path):
    fitted = _fit(MODELS[name][0])
    fitted.save(tmp_path / "plain")
    fitted.save(tmp_path / "false", sums=False)
    content = (tmp_path / "plain").read_bytes()
    assert (tmp_path / "false").read_bytes() == content
    arrays, description = _parts_of(tmp_path / "plain")
    assert description["fitted"].keys() == {"class", "family", "neighbourhood"}
    assert not [name for name in arrays if name.startswith("stream")]
    loaded = load(tmp_path / "plain")
    assert loaded.stream_ is None
    # The family of a file with sums is the same.
    assert np.array_equal(_scores(_loaded(fitted, tmp_path / "with")), _scores(loaded))
    _loaded(fitted, tmp_path / "with").save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == content


def _average():
    return AutoKCEF(likelihood=False, random_state=0).fit(X[FIRST], Y[FIRST]).best_


def _iterated(monkeypatch):
    monkeypatch.setattr(fitting, "DESIGN_ROWS", 150)
    monkeypatch.setattr(conditional, "KEPT_ROWS", 150)
    return _fit(_summed(solver="iterative"))


@pytest.mark.parametrize("origin", ["file", "average", "iterations"])
def test_nothing_to_go_on_with_is_an_error_and_leaves_no_file(
    origin, tmp_path, monkeypatch
):
    if origin == "file":
        model = _loaded(_fit(_summed()), tmp_path / "model", sums=False)
        (tmp_path / "model").unlink()
    else:
        model = _average() if origin == "average" else _iterated(monkeypatch)
    with pytest.raises(CannotSaveError, match="sums=True needs rows or sums"):
        model.save(tmp_path / "model", sums=True)
    assert os.listdir(tmp_path) == []
    model.save(tmp_path / "model")
    with pytest.raises(ValueError, match="saved without sums=True"):
        load(tmp_path / "model").partial_fit(X, Y)


@pytest.mark.parametrize("sums", [False, True])
@pytest.mark.parametrize("name", ["sums", "rows"])
def test_a_model_without_rows_is_not_saved(name, sums, tmp_path):
    emptied = _fit(MODELS[name][0]).emptied()
    with pytest.raises(CannotSaveError, match=r"no rows.*emptied\(\) after loading"):
        emptied.save(tmp_path / "model", sums=sums)
    assert os.listdir(tmp_path) == []


def test_sums_around_a_regressor_cannot_be_saved_and_leave_what_was_there(tmp_path):
    _fit(_summed()).save(tmp_path / "model", sums=True)
    before = (tmp_path / "model").read_bytes()
    fitted = _fit(_summed(base=LocationScaleBase()))
    with pytest.raises(CannotSaveError, match="cannot be saved"):
        fitted.save(tmp_path / "model", sums=True)
    assert (tmp_path / "model").read_bytes() == before
    assert os.listdir(tmp_path) == ["model"]


@pytest.mark.parametrize("value", [None, 1, "yes"])
def test_sums_are_wanted_or_not(value, tmp_path):
    with pytest.raises(ValueError, match="sums must be True or False"):
        _fit(_summed()).save(tmp_path / "model", sums=value)
    assert os.listdir(tmp_path) == []


# --- hostile files -------------------------------------------------------------------


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("streams")
    found = {}
    for name, model in {
        "sums": _fit(_summed(derivative_features=True), BOTH),
        "rows": _fit(_kept(), part=slice(0, 40)),
    }.items():
        model.save(folder / name, sums=True)
        found[name] = _parts_of(folder / name)
    return found


def _names(arrays):
    return [name for name in arrays if name.startswith("stream.")]


@pytest.mark.parametrize("kind", ["sums", "rows"])
@pytest.mark.parametrize(
    "spoil",
    [
        *SPOILED.values(),
        lambda a: np.where(np.arange(a.size).reshape(a.shape) == 0, np.inf, a),
        lambda a: a[:0],
        lambda a: a.astype(np.int64),
    ],
    ids=[*SPOILED.keys(), "infinity", "no rows", "int64"],
)
def test_wrong_arrays_of_streams_are_refused_by_name(kind, spoil, parts, tmp_path):
    arrays, description = parts[kind]
    names = _names(arrays)
    assert len(names) == {"sums": 21, "rows": 3}[kind]
    for name in names:
        spoiled = {key: array for key, array in arrays.items() if key != name}
        if spoil is not None:
            spoiled[name] = np.ascontiguousarray(spoil(arrays[name]))
        _write(tmp_path / "file", spoiled, description)
        refuses(tmp_path / "file", "array")


@pytest.mark.parametrize("kind", ["sums", "rows"])
def test_columns_that_are_not_of_the_model_are_refused(kind, parts, tmp_path):
    arrays, description = parts[kind]
    wide = [name for name in _names(arrays) if arrays[name].ndim == 2]
    assert len(wide) == {"sums": 4, "rows": 2}[kind]
    for name in wide:
        for columns in (arrays[name][:, :0], np.repeat(arrays[name], 2, axis=1)):
            spoiled = {**arrays, name: np.ascontiguousarray(columns)}
            _write(tmp_path / "file", spoiled, description)
            refuses(tmp_path / "file", "array")


def _ending(arrays, ending):
    return next(name for name in _names(arrays) if name.endswith(ending))


@pytest.mark.parametrize(
    ("kind", "ending", "value", "words"),
    [
        ("sums", "folds.0.triangle", -1.0, "negative diagonal"),
        ("sums", "folds.0.triangle", 1e200, "too large"),
        ("sums", "folds.4.b", 1e200, "too large"),
        ("sums", "judges.weights", -1.0, "must not be negative"),
        ("sums", "judges.weights", 0.0, "all zero"),
        ("sums", "judges.U", 1e200, "too large"),
        ("sums", "judges.log_slope", 1e200, "too large"),
        ("sums", "spread", 0.0, "must be positive"),
        ("sums", "spread", 1e-200, "too small"),
        ("sums", "stream.X", 0.1, "other centres than T"),
        ("sums", "stream.Y", 0.1, "other centres than T"),
        ("rows", "weights", -1.0, "must not be negative"),
        ("rows", "weights", 0.0, "all zero"),
    ],
)
def test_wrong_numbers_in_streams_are_refused(
    kind, ending, value, words, parts, tmp_path
):
    arrays, description = parts[kind]
    name = _ending(arrays, ending)
    spoiled = {**arrays, name: np.full_like(arrays[name], value)}
    _write(tmp_path / "file", spoiled, description)
    refuses(tmp_path / "file", words)


INFINITE = {"class": "float", "value": "inf"}
WRONG_PARTS = {
    "a negative weight": ("SavedFold", "weight", -1.0, "negative"),
    "an infinite weight": ("SavedFold", "weight", INFINITE, "not finite"),
    "a weight beyond reason": ("SavedFold", "weight", 1e200, "too large"),
    "sizes beyond the centres": ("SavedSums", "sizes", [7, 30], "do not end with 15"),
    "huge sizes": ("SavedSums", "sizes", [7, 10**400], "do not end with 15"),
    "sizes below the centres": ("SavedSums", "sizes", [7], "do not end with 15"),
    "sizes that fall": ("SavedSums", "sizes", [7, 9, 8, 15], "in disorder"),
    "sizes that repeat": ("SavedSums", "sizes", [15, 15], "in disorder"),
    "a size of zero": ("SavedSums", "sizes", [0, 15], "do not end with 15"),
    "half a size": ("SavedSums", "sizes", [7.5, 15], "something else"),
    "no sizes": ("SavedSums", "sizes", [], "do not end with 15"),
    "no folds": ("SavedSums", "folds", [], "not sums of 5 folds"),
    "fewer functions": ("SavedSums", "derivatives", 0, "array b"),
    "derivatives of order three": ("SavedSums", "derivatives", 3, "unknown functions"),
    "minus one derivative": ("SavedSums", "derivatives", -1, "unknown functions"),
    "derivatives that are true": ("SavedSums", "derivatives", True, "something else"),
    "free is a number": ("SavedSums", "free", 1, "something else"),
    "settled is nothing": ("SavedSums", "settled", None, "something else"),
    "judges are rows": ("SavedSums", "judges", None, "something else"),
    "a rule of another name": ("LambdaRule", "objective", "luck", "unknown"),
    "λ is zero": ("LambdaRule", "start", 0.0, "must be positive"),
    "λ is infinite": ("LambdaRule", "start", INFINITE, "not finite"),
    "λ is text": ("LambdaRule", "start", "0.1", "something else"),
    "given is text": ("LambdaRule", "given", "yes", "something else"),
    "a stream that is a chart": ("FittedModel", "stream", {"object": 0}, None),
    "a stream that is a number": ("FittedModel", "stream", 1.0, None),
    "a dangerous stream": ("FittedModel", "stream", {"class": "os.system"}, None),
}


@pytest.mark.parametrize(
    ("owner", "key", "value", "words"), WRONG_PARTS.values(), ids=WRONG_PARTS.keys()
)
def test_parts_of_streams_that_do_not_fit_are_refused(
    owner, key, value, words, parts, tmp_path
):
    arrays, description = parts["sums"]
    _write(tmp_path / "file", arrays, _replaced((owner, key), value)(description))
    refuses(tmp_path / "file", *([words] if words else []))


def test_a_missing_or_added_part_of_a_stream_is_refused(parts, tmp_path):
    arrays, description = parts["sums"]
    saved = description["fitted"]["stream"]
    places = [("fitted", "stream", key) for key in saved]
    places += [("fitted", "stream", "judges", key) for key in saved["judges"]]
    places += [("fitted", "stream", "folds", 0, key) for key in saved["folds"][0]]
    for place in places:
        shorter = copy.deepcopy(description)
        del _at(shorter, place[:-1])[place[-1]]
        _write(tmp_path / "file", arrays, shorter)
        refuses(tmp_path / "file")
    for number in (4, 6):
        folds = (saved["folds"] * 2)[:number]
        more = _with(description, ("fitted", "stream", "folds"), folds)
        _write(tmp_path / "file", arrays, more)
        refuses(tmp_path / "file")


def test_sums_over_no_rows_are_refused(parts, tmp_path):
    arrays, description = parts["sums"]
    for k in range(N_FOLDS):
        place = "fitted", "stream", "folds", k, "weight"
        description = _with(description, place, 0.0)
    _write(tmp_path / "file", arrays, description)
    refuses(tmp_path / "file", "over no rows")


@pytest.mark.parametrize(("centres", "judged"), [(7, True), (8, False)])
def test_the_family_has_a_number_of_centres_that_was_judged(
    centres, judged, parts, tmp_path
):
    arrays, description = parts["sums"]
    names = [f"family.T.{name}" for name in ("X", "Y", "zeroth", "first")]
    fewer = {name: np.ascontiguousarray(arrays[name][:centres]) for name in names}
    _write(tmp_path / "file", {**arrays, **fewer}, description)
    if judged:
        assert len(load(tmp_path / "file").family_.T.Y) == centres
    else:
        refuses(tmp_path / "file", "T has 8 centres, which were not judged")


def test_sums_of_other_functions_than_the_family_are_refused(parts, tmp_path):
    arrays, description = parts["sums"]
    wrong = copy.deepcopy(description)
    del wrong["fitted"]["family"]["T"]["zeroth"]
    fewer = {name: a for name, a in arrays.items() if name != "family.T.zeroth"}
    _write(tmp_path / "file", fewer, wrong)
    refuses(tmp_path / "file", "other functions than T")


def test_the_stream_of_another_model_is_refused(parts, tmp_path):
    arrays, description = parts["sums"]
    other, foreign = parts["rows"]
    swapped = _with(description, ("fitted", "stream"), foreign["fitted"]["stream"])
    own = {name: a for name, a in arrays.items() if name not in _names(arrays)}
    theirs = {name: other[name] for name in _names(other)}
    _write(tmp_path / "file", {**own, **theirs}, swapped)
    refuses(tmp_path / "file", "other columns")


def test_a_density_without_conditions_has_no_stream(parts, tmp_path):
    arrays, description = _parts(KEF().fit(Y[:40, None]), tmp_path / "kef")
    other, foreign = parts["rows"]
    both = {**arrays, **{name: other[name] for name in _names(other)}}
    wrong = copy.deepcopy(description)
    wrong["fitted"]["stream"] = foreign["fitted"]["stream"]
    _write(tmp_path / "file", both, wrong)
    refuses(tmp_path / "file", "takes no more rows")


def _went_on(path, y):
    """Whether a spoiled file was loaded; then it goes on, or says why it cannot."""
    with warnings.catch_warnings():
        # A flipped bit of a sum may make a spiky density, with warnings.
        warnings.simplefilter("ignore")
        try:
            model = load(path)
        except FileFormatError:
            return False
        for part in (model.family_, model.stream_):
            for name, array in _arrays_in(part):
                assert name == "support" or np.isfinite(array).all(), name
        if model.stream_ is not None:
            with contextlib.suppress(KexpfamError, ValueError):
                family = model.partial_fit(X[:5], y[:5]).family_
                assert all(
                    np.isfinite(array).all() for _, array in _arrays_in(family.T)
                )
    return True


@pytest.mark.parametrize(("kind", "y"), [("sums", BOTH), ("rows", Y)])
def test_anything_anywhere_gives_a_refusal_or_a_stream_that_goes_on(
    kind, y, parts, tmp_path
):
    arrays, description = parts[kind]
    start = "fitted", "stream"
    places = [p for p in _places(description) if p[:2] == start]
    rng = np.random.default_rng(8)
    hostile = [*HOSTILE, {"array": "stream.X"}, {"class": "SavedRows"}, [0, 10**9]]
    loaded, trials = 0, 300
    for _ in range(trials):
        place = places[rng.integers(len(places))]
        value = hostile[rng.integers(len(hostile))]
        _write(tmp_path / "file", arrays, _with(description, place, value))
        loaded += _went_on(tmp_path / "file", y)
    # Few places take another value: a fold of no weight, or no stream at all.
    assert loaded < trials / 5


@pytest.mark.parametrize(("kind", "y"), [("sums", BOTH), ("rows", Y)])
def test_flipped_bits_give_a_refusal_or_a_stream_that_goes_on(kind, y, parts, tmp_path):
    path = tmp_path / "file"
    _write(path, *parts[kind])
    content = path.read_bytes()
    header = 8 + int.from_bytes(content[:8], "little")
    rng = np.random.default_rng(2)
    loaded = 0
    for trial in range(200):
        damaged = bytearray(content)
        last = header if trial % 2 else len(content)
        damaged[rng.integers(last)] ^= 1 << int(rng.integers(8))
        path.write_bytes(bytes(damaged))
        loaded += _went_on(path, y)
    assert 0 < loaded < 200


@pytest.mark.parametrize("kind", ["sums", "rows"])
def test_a_truncated_stream_is_refused_at_every_length(kind, parts, tmp_path):
    path = tmp_path / "file"
    _write(path, *parts[kind])
    content = path.read_bytes()
    lengths = {*range(0, len(content), 997), *range(len(content) - 9, len(content))}
    for length in sorted(lengths):
        path.write_bytes(content[:length])
        refuses(path)
