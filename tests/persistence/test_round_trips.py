"""Saved models come back to the last bit, with all that they can do."""

import copy
import json
import os
import pickle
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pytest

from kexpfam import KCEF, KEF, AutoKCEF, FactorizedDensity, load
from kexpfam.base_densities import (
    GaussianBase,
    GeneralizedGaussianBase,
    LocationScaleBase,
    LocationScaleModel,
    UniformBase,
    WithinComponentsBase,
)
from kexpfam.errors import CannotSaveError
from kexpfam.estimators.streams import KeptRows, SummedRows
from kexpfam.family import Limits
from kexpfam.kernels import (
    Constant,
    Gaussian,
    InverseMultiquadric,
    JointKernel,
    RadialKernel,
    separable,
)
from kexpfam.persistence import registry
from kexpfam.persistence.encoding import Decoder, Encoder
from kexpfam.selection import Bounds, CoarseSearch, GradientSearch, PaperGrid
from tests.graphs.gaussians import LinearNormal
from tests.limits import limited
from tests.persistence.files import at, parts, parts_of, places, same
from tests.persistence.models import (
    BOTH,
    FRAME,
    MODELS,
    MORE_X,
    MORE_Y,
    SETTLED,
    STREAMS,
    WEIGHTS,
    X,
    Y,
    fitted,
    options,
    scores,
    summed,
    untuned,
)

# Untuned fits give the few largest responses too much mass; files keep them so.
pytestmark = pytest.mark.filterwarnings("ignore::kexpfam.errors.BlindnessWarning")

# What no model here holds.
VALUES = [
    GeneralizedGaussianBase(2.5, power=3.0),
    InverseMultiquadric(0.9, power=1.5),
    CoarseSearch(),
    GradientSearch(Bounds((0.1, 2.0), (0.2, 3.0), (1e-6, 1.0)), penalty=0.1),
    PaperGrid((0.5, 1.0), (0.1,)),
    PaperGrid.narrow(),
    WithinComponentsBase(),
]


def _round_trip(model, folder, **saved_with):
    """The loaded model; saved again it must be the same file."""
    model.save(folder / "first", **saved_with)
    loaded = load(folder / "first")
    loaded.save(folder / "second", **saved_with)
    assert (folder / "first").read_bytes() == (folder / "second").read_bytes()
    return loaded


@pytest.mark.parametrize("name", MODELS)
def test_a_loaded_model_is_the_saved_one_to_the_last_bit(name, tmp_path):
    model = fitted(name)
    loaded = _round_trip(model, tmp_path, **options(name))
    assert type(loaded) is type(model)
    assert vars(loaded).keys() == vars(model).keys()
    assert np.array_equal(scores(loaded), scores(model))
    if isinstance(model, FactorizedDensity):
        assert loaded.graph_ == model.graph_
        assert list(loaded.factors_) == list(model.factors_)
        return
    assert loaded.get_params() == model.get_params()
    if isinstance(model, AutoKCEF):
        return
    assert same(loaded.family_, replace(model.family_))
    assert loaded.kernel_ == model.kernel_
    assert loaded.base_ == model.base_
    assert loaded.regularization_ == model.regularization_
    assert loaded.selection_ is None
    if isinstance(model, KCEF):
        assert same(loaded.neighbourhood_, model.neighbourhood_)


def test_every_registered_class_is_in_one_of_these_files():
    found = set()
    for name in MODELS:
        _, description = parts(name)
        for place in places(description):
            part = at(description, place)
            if isinstance(part, dict) and "class" in part:
                found.add(part["class"])
    for value in VALUES:
        found |= {type(value).__name__, type(getattr(value, "bounds", value)).__name__}
    ours = {
        kind.name
        for kind in registry._by_name.values()
        if kind.cls.__module__.startswith("kexpfam.")
        and not kind.cls.__module__.startswith("kexpfam.persistence")
    }
    assert ours <= found


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_values_come_back_equal(value):
    encoder = Encoder()
    text = json.dumps(encoder.encode(value))
    assert Decoder(encoder.arrays, []).decode(json.loads(text)) == value


@pytest.mark.parametrize("name", ["plain", "process", "inducing"])
def test_every_answer_of_a_loaded_model_is_the_same(name, tmp_path):
    model = fitted(name)
    model.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    new = X[:4] * 1.1
    for answer in (
        lambda m: m.predict(new),
        lambda m: m.predict_quantiles(new, [0.01, 0.5, 0.99]),
        lambda m: m.predict_interval(new, 0.8),
        lambda m: m.sample(new, 3, random_state=1),
        lambda m: m.reliability(new),
        lambda m: m.given(new).mode(),
        lambda m: m.given(new).support,
        lambda m: m.given(new).cdf(np.full(4, 2.0)),
    ):
        assert np.array_equal(answer(loaded), answer(model))


def test_feature_names_are_looked_at_after_loading(tmp_path):
    fitted("names").save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert loaded.feature_names_in_.tolist() == ["a", "b"]
    assert loaded.feature_names_in_.dtype == object
    same_rows = loaded.predict(FRAME[["b", "c", "a"]])
    np.testing.assert_array_equal(same_rows, loaded.predict(FRAME[["a", "b"]]))
    with pytest.raises(ValueError, match="now missing:\n- a"):
        loaded.predict(FRAME[["b"]])


def test_the_name_of_y_is_the_same_after_loading(tmp_path):
    frame = pd.DataFrame(X, columns=["a", "b"])
    for rows in (X, frame):
        model = untuned().fit(rows, pd.Series(Y, name="price"))
        assert "of price" in repr(_round_trip(model, tmp_path).given(rows[:1]))


@pytest.mark.parametrize("names", [["größe", 'a "b" \\ \n {}'], ["c", "c "]])
def test_any_feature_names_survive(names, tmp_path):
    untuned().fit(pd.DataFrame(X, columns=names), Y).save(tmp_path / "model")
    assert load(tmp_path / "model").feature_names_in_.tolist() == names


@pytest.mark.parametrize(
    "seed", [None, 7, np.int64(7), np.random.default_rng(1), np.random.RandomState(1)]
)
def test_any_random_state_can_be_saved_and_a_seed_is_kept(seed, tmp_path):
    model = copy.copy(fitted("plain")).set_params(random_state=seed)
    model.save(tmp_path / "model")
    kept = load(tmp_path / "model").random_state
    assert kept == (7 if isinstance(seed, int | np.integer) else None)


def test_arrays_among_the_parameters_become_tuples(tmp_path):
    search = PaperGrid(np.array([0.5, 1.0]), np.array([0.1]))
    copy.copy(fitted("plain")).set_params(search=search).save(tmp_path / "model")
    assert load(tmp_path / "model").search == PaperGrid((0.5, 1.0), (0.1,))


def test_a_loaded_model_can_be_fitted_again(tmp_path):
    fitted("plain").save(tmp_path / "model")
    refitted = load(tmp_path / "model").fit(X[:10], Y[:10])
    fresh = untuned(random_state=None).fit(X[:10], Y[:10])
    assert np.array_equal(refitted.score_samples(X, Y), fresh.score_samples(X, Y))


@pytest.mark.parametrize("name", ["plain", "bounded"])
def test_parameters_changed_after_the_fit_do_not_change_the_saved_fit(name, tmp_path):
    model = copy.copy(fitted(name))
    model.set_params(base=UniformBase(0.0, 5.0), regularization=7.0, standardize=False)
    model.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert loaded.get_params() == model.get_params()
    assert np.array_equal(scores(loaded), scores(fitted(name)))
    assert np.array_equal(loaded.given(X).support, fitted(name).given(X).support)


@pytest.mark.parametrize("name", ["plain", "KEF"])
def test_a_model_survives_pickle_and_deepcopy(name):
    model = fitted(name)
    for again in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert np.array_equal(scores(again), scores(model))


def test_the_factor_of_a_gaussian_process_is_not_stored(tmp_path):
    fitted("two columns").save(tmp_path / "model")
    processes = fitted("two columns").family_.coordinates.location_scale.processes
    processes[0].predict(X[:2])
    assert "_factor" in vars(processes[0])
    arrays, _ = parts_of(tmp_path / "model")
    assert all(array.shape != (len(X), len(X)) for array in arrays.values())
    again = load(tmp_path / "model").family_.coordinates.location_scale.processes
    for part, expected in zip(
        again[0].predict(X), processes[0].predict(X), strict=True
    ):
        assert np.array_equal(part, expected)


# --- averages and joint densities ----------------------------------------------------


def _coordinates(model):
    families = [model.best_.family_, *(m.family for m in model.members_)]
    families.append(model.defensive_)
    return {id(family.coordinates): family.coordinates for family in families}


def test_an_average_prints_and_shares_as_before(tmp_path):
    average = fitted("average")
    average.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert repr(loaded.members_) == repr(average.members_)
    for again, member in zip(loaded.members_, average.members_, strict=True):
        assert same(again.family, member.family)
        assert (again.weight, again.held_out) == (member.weight, member.held_out)
        for name in ("coordinates", "base", "kernel", "lam", "method"):
            parts = [getattr(m.candidate, name) for m in (again, member)]
            assert parts[0] == parts[1], name
    assert loaded.best_.get_params() == average.best_.get_params()
    assert same(loaded.best_.family_, average.best_.family_)
    for name in ("n_candidates_", "stopped_", "n_features_in_"):
        assert getattr(loaded, name) == getattr(average, name)
    assert same(loaded.defensive_, average.defensive_)
    assert np.array_equal(loaded.reliability(X), average.reliability(X))
    assert 1 < len(_coordinates(average)) < len(average.members_)
    assert len(_coordinates(loaded)) == len(_coordinates(average))


def test_a_member_whose_kernel_is_a_sum_of_products_can_be_loaded(tmp_path):
    model = copy.deepcopy(fitted("average"))
    member = next(own for own in model.members_ if not own.family.is_base_alone)
    family, kernel = member.family, member.family.T.kernel
    # Such a kernel is what finishing by likelihood chooses.
    more = kernel + separable(Constant(), Gaussian(0.7))
    vars(member)["family"] = replace(family, T=replace(family.T, kernel=more))
    model.save(tmp_path / "sum")
    again = load(tmp_path / "sum")
    assert np.array_equal(again.score_samples(X, Y), model.score_samples(X, Y))


def test_coordinates_and_long_arrays_of_an_average_are_stored_once():
    arrays, description = parts("average")
    stored = [part for part in description["objects"] if part["class"] == "Chart"]
    assert len(stored) == len(_coordinates(fitted("average")))
    contents = [array.tobytes() for array in arrays.values() if array.size >= 64]
    assert len(set(contents)) == len(contents)


def test_a_loaded_candidate_says_that_its_rows_are_gone(tmp_path):
    fitted("average").save(tmp_path / "model")
    candidate = load(tmp_path / "model").members_[0].candidate
    assert candidate.held_out.shape == (0,)
    for method in (candidate.mean, candidate.standard_error):
        with pytest.raises(ValueError, match="loaded from a file has no held-out"):
            method(np.ones(len(Y)))


@pytest.mark.parametrize("name", ["joint", "joint, blocks", "joint, exogenous"])
def test_a_joint_density_draws_as_before(name, tmp_path):
    model = fitted(name)
    model.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    given = {"c": 0.3} if "exogenous" in name else None
    draws = [m.sample(3, random_state=0, given=given) for m in (loaded, model)]
    np.testing.assert_array_equal(*draws)
    logs = [m.factor_log_densities(FRAME[:3]) for m in (loaded, model)]
    np.testing.assert_array_equal(*logs)


@pytest.mark.parametrize("names", [None, [2, 0, 1]])
def test_columns_of_a_joint_density_have_names_or_positions(names, tmp_path):
    data = FRAME.to_numpy() if names is None else FRAME.set_axis(names, axis=1)
    model = FactorizedDensity(graph="markov", factor=untuned(), root=untuned())
    model.fit(data).save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert list(loaded.factors_) == (names or [0, 1, 2])
    assert not hasattr(loaded, "feature_names_in_")
    assert [v.parents for v in loaded.graph_.nodes] == [(), (0,), (1,)]


def test_a_loaded_joint_density_can_be_fitted_again(tmp_path):
    fitted("joint, blocks").save(tmp_path / "model")
    again = load(tmp_path / "model").set_params(factor=untuned()).fit(FRAME)
    assert [v.parents for v in again.graph_.nodes] == [(), (0, 1)]


# --- something extra -----------------------------------------------------------------

EXTRA = {"unit": "mm", "größe": [1, 2.5, None, True], "inner": {"a": {"b": "c"}}}


@pytest.mark.parametrize("name", ["plain", "KEF", "average", "joint", "sums"])
def test_something_extra_comes_back_and_is_not_written_again(name, tmp_path):
    fitted(name).save(tmp_path / "plain")
    fitted(name).save(tmp_path / "model", extra=EXTRA)
    loaded = load(tmp_path / "model")
    assert loaded.extra_ == EXTRA
    assert fitted(name).extra_ is load(tmp_path / "plain").extra_ is None
    loaded.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "plain").read_bytes()
    loaded.save(tmp_path / "again", extra=loaded.extra_)
    assert (tmp_path / "again").read_bytes() == (tmp_path / "model").read_bytes()


def test_extra_comes_back_as_json_has_it(tmp_path):
    fitted("plain").save(tmp_path / "model", extra={"pair": (1, 2), 3: {}})
    assert load(tmp_path / "model").extra_ == {"pair": [1, 2], "3": {}}


@pytest.mark.parametrize(
    "extra",
    [5, "text", [1], {"a": np.ones(2)}, {"a": {1, 2}}, {"a": float("nan")}, {(1,): 1}],
    ids=repr,
)
def test_extra_that_json_does_not_have_cannot_be_saved(extra, tmp_path):
    with pytest.raises(CannotSaveError, match="extra must be a mapping"):
        fitted("plain").save(tmp_path / "model", extra=extra)
    assert os.listdir(tmp_path) == []


def test_extra_that_a_reader_would_refuse_is_not_written(tmp_path):
    with pytest.raises(CannotSaveError, match="put less into extra"):
        fitted("plain").save(tmp_path / "model", extra={"text": "a" * 4_000_000})
    assert os.listdir(tmp_path) == []


# --- what cannot be saved ------------------------------------------------------------


@dataclass(frozen=True)
class Wiggly(RadialKernel):
    """A user's own kernel, a Gaussian under another name."""

    @property
    def smoothness(self):
        return 2

    def profile(self, s, out):
        return np.exp(-0.5 * s, out=out)

    def ratios(self, s, order):
        return [(-0.5) ** k for k in range(1, order + 1)]


@dataclass(frozen=True)
class Mine(JointKernel):
    """A user's own joint kernel."""

    def at(self, X, Y, X2, Y2, empty=np.empty):
        return separable(Gaussian(1.0), Gaussian(1.0)).at(X, Y, X2, Y2, empty)


class Gaussian2(GaussianBase):
    """A user's own base density."""


@dataclass(frozen=True)
class OwnFrame(LocationScaleModel):
    """A user's own regression."""

    def at(self, X):
        return np.zeros((len(X), 1)), np.ones((len(X), 1))


def _own_frame():
    model = copy.copy(fitted("linear"))
    coordinates = replace(model.family_.coordinates, location_scale=OwnFrame())
    family = replace(model.family_, coordinates=coordinates)
    model._restore(replace(model._solved, family=family))
    return model


def _foreign_factor():
    return FactorizedDensity(factor=LinearNormal(), root=KEF(select=None)).fit(FRAME)


OWN = "cannot be saved: only the kernels"
CANNOT = {
    "kernel of y": (lambda: untuned(kernel_y=Wiggly(1.0)).fit(X, Y), OWN),
    "kernel of x": (lambda: untuned(kernel_x=Wiggly(1.0)).fit(X, Y), OWN),
    "sum": (lambda: untuned(kernel_y=Gaussian(1.0) + Wiggly(1.0)).fit(X, Y), OWN),
    "joint kernel": (lambda: untuned(kernel=Mine()).fit(X, Y), OWN),
    "kernel of a KEF": (lambda: KEF(kernel=Wiggly(1.0)).fit(Y[:, None]), OWN),
    "base": (lambda: untuned(base=Gaussian2(2.0)).fit(X, Y), OWN),
    "impostor": (
        lambda: untuned(base=type("GaussianBase", (GaussianBase,), {})(2.0)).fit(X, Y),
        OWN,
    ),
    "frame": (_own_frame, r"OwnFrame.* cannot be saved"),
    "regressor": (
        lambda: untuned(base=LocationScaleBase()).fit(X, Y),
        r"base=LocationScaleBase.* cannot be saved.*fit again",
    ),
    "factor": (_foreign_factor, "factor of 'b', LinearNormal"),
}


@pytest.mark.parametrize(("model", "words"), CANNOT.values(), ids=CANNOT)
def test_what_is_not_ours_cannot_be_saved_and_leaves_what_was_there(
    model, words, tmp_path
):
    (tmp_path / "model").write_bytes(b"what was there")
    with pytest.raises(CannotSaveError, match=words):
        model().save(tmp_path / "model")
    assert os.listdir(tmp_path) == ["model"]
    assert (tmp_path / "model").read_bytes() == b"what was there"


@pytest.mark.parametrize("kind", [KCEF, KEF, AutoKCEF, FactorizedDensity])
def test_a_model_must_be_fitted_before_it_is_saved(kind, tmp_path):
    with pytest.raises(ValueError, match="not fitted"):
        kind().save(tmp_path / "model")
    assert os.listdir(tmp_path) == []


# --- streams -------------------------------------------------------------------------


def _loaded(model, path, **saved_with):
    model.save(path, **{"sums": True, **saved_with})
    return load(path)


@pytest.mark.parametrize("name", STREAMS)
def test_every_part_of_a_stream_survives(name, tmp_path):
    model = fitted(name)
    loaded = _loaded(model, tmp_path / "model")
    assert type(loaded.stream_) is type(model.stream_)
    if isinstance(model.stream_, KeptRows):
        assert same(loaded.stream_.rows, model.stream_.rows)
        return
    stats, again = model.stream_.statistics, loaded.stream_.statistics
    assert again.spec.agrees_with(stats.spec)
    assert np.array_equal(again.spec.std, stats.spec.std)
    # Coordinates and base are those of the family, as they were.
    assert again.spec.coordinates is loaded.family_.coordinates
    assert again.spec.base is loaded.family_.base
    for own, expected in zip(again.sums, stats.sums, strict=True):
        assert np.array_equal(own.C, expected.C)
        assert np.array_equal(own.b, expected.b)
        assert own.weight == expected.weight
    assert same(again.validation, stats.validation)
    for part in ("rule", "sizes", "free", "settled"):
        assert getattr(again, part) == getattr(stats, part)
    assert same(loaded.stream_.neighbourhood, model.stream_.neighbourhood)


@pytest.mark.parametrize("name", ["sums", "sums, chosen", "rows"])
def test_a_loaded_stream_goes_on_merges_and_is_emptied_to_the_same_bits(name, tmp_path):
    models = [copy.deepcopy(fitted(name)), _loaded(fitted(name), tmp_path / "model")]
    more = MORE_X[:30] * 1.1, MORE_Y[:30], WEIGHTS[:30]
    part = models[0].emptied().partial_fit(*more)
    results = []
    for model in models:
        empty = model.emptied().partial_fit(*more)
        merged = copy.deepcopy(part).merge(model)
        model.partial_fit(*more, forgetting=0.9).partial_fit(X[:9], Y[:9])
        results.append([scores(one) for one in (model, empty, merged)])
        results[-1].append([one.n_rows_ for one in (model, empty, merged)])
        results[-1].append(model.reliability(X))
    for one, other in zip(*results, strict=True):
        assert np.array_equal(one, other)
    assert not np.array_equal(results[0][0], scores(fitted(name)))
    again = _loaded(models[1], tmp_path / "model")
    assert np.array_equal(scores(again), scores(models[0]))


def test_a_stream_of_one_row_leaves_folds_without_rows(tmp_path):
    few = fitted("sums").emptied().partial_fit(X[:1], Y[:1])
    assert sorted(own.weight for own in few.stream_.statistics.sums) == [0, 0, 0, 0, 1]
    loaded = _loaded(few, tmp_path / "model")
    for one in (few, loaded):
        one.partial_fit(MORE_X, MORE_Y)
    assert np.array_equal(scores(few), scores(loaded))


def test_kept_rows_that_become_too_many_are_summed_after_loading(tmp_path):
    few = Limits(design_rows=70)
    model = limited(summed(), few).partial_fit(MORE_X[:60], MORE_Y[:60])
    loaded = limited(_loaded(model, tmp_path / "model"), few)
    assert isinstance(loaded.stream_, KeptRows)
    for one in (model, loaded):
        one.partial_fit(MORE_X[60:], MORE_Y[60:])
        assert isinstance(one.stream_, SummedRows)
    assert np.array_equal(scores(loaded), scores(model))
    # And these sums, of fewer centres than were tried, can be saved as well.
    assert np.array_equal(scores(_loaded(model, tmp_path / "model")), scores(model))


@pytest.mark.parametrize("name", ["sums", "rows"])
def test_columns_in_any_memory_order_and_names_survive(name, tmp_path):
    frame = pd.DataFrame(MORE_X, columns=["age", "dose"])  # columns lie side by side
    model = copy.deepcopy(fitted(name)).fit(frame[:60], MORE_Y[:60])
    loaded = _loaded(model, tmp_path / "model")
    assert loaded.emptied().feature_names_in_.tolist() == ["age", "dose"]
    for one in (model, loaded):
        one.partial_fit(frame[60:], MORE_Y[60:])
    logs = [one.score_samples(frame[:9], MORE_Y[:9]) for one in (model, loaded)]
    assert np.array_equal(*logs)
    with pytest.raises(ValueError, match="now missing:\n- age"):
        loaded.partial_fit(frame[["dose"]], MORE_Y)


def test_sums_take_half_of_their_matrices():
    arrays, _ = parts("sums, functions")
    m = fitted("sums, functions").stream_.statistics.spec.basis.size
    for k in range(5):
        assert arrays[f"stream.folds.{k}.triangle"].shape == (m * (m + 1) / 2,)


@pytest.mark.parametrize("name", ["sums", "rows"])
def test_without_sums_a_file_has_no_stream(name, tmp_path):
    model = fitted(name)
    model.save(tmp_path / "plain")
    arrays, description = parts_of(tmp_path / "plain")
    assert description["fitted"].keys() == {"class", "family", "neighbourhood"}
    assert not [key for key in arrays if key.startswith("stream")]
    loaded = load(tmp_path / "plain")
    assert loaded.stream_ is None
    with pytest.raises(ValueError, match="saved without sums=True"):
        loaded.partial_fit(X, Y)
    with pytest.raises(CannotSaveError, match="sums=True needs rows or sums"):
        loaded.save(tmp_path / "again", sums=True)
    # The family of a file with sums is the same.
    _loaded(model, tmp_path / "with").save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "plain").read_bytes()


def test_part_of_an_average_has_nothing_to_go_on_with(tmp_path):
    with pytest.raises(CannotSaveError, match="sums=True needs rows or sums"):
        fitted("average").best_.save(tmp_path / "model", sums=True)
    assert os.listdir(tmp_path) == []
    fitted("average").best_.save(tmp_path / "model")
    assert isinstance(load(tmp_path / "model"), KCEF)


def test_too_many_rows_for_iterations_leave_nothing_to_go_on_with(tmp_path):
    model = limited(summed(solver="iterative"), Limits(design_rows=70))
    model.fit(MORE_X, MORE_Y)
    with pytest.raises(CannotSaveError, match="sums=True needs rows or sums"):
        model.save(tmp_path / "model", sums=True)


@pytest.mark.parametrize("sums", [False, True])
@pytest.mark.parametrize("name", ["sums", "rows"])
def test_a_model_without_rows_is_not_saved(name, sums, tmp_path):
    emptied = fitted(name).emptied()
    with pytest.raises(CannotSaveError, match=r"no rows.*emptied\(\) after loading"):
        emptied.save(tmp_path / "model", sums=sums)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("value", [None, 1, "yes"])
def test_sums_are_wanted_or_not(value, tmp_path):
    with pytest.raises(ValueError, match="sums must be True or False"):
        fitted("sums").save(tmp_path / "model", sums=value)
    assert os.listdir(tmp_path) == []


def test_an_exact_fit_of_two_columns_goes_on_to_the_same_bits(tmp_path):
    # Exact densities of two variables are slow: few rows.
    model = KCEF(**SETTLED).fit(X[:20], BOTH[:20])
    loaded = _loaded(model, tmp_path / "model")
    for one in (model, loaded):
        one.partial_fit(X[20:30], BOTH[20:30])
    logs = [one.score_samples(X[:2], BOTH[:2]) for one in (model, loaded)]
    assert np.array_equal(*logs)
