"""Joint densities to files and back, and files that are refused."""

import numpy as np
import pandas as pd
import pytest

from kexpfam import KCEF, KEF, AutoKCEF, FactorizedDensity, load
from kexpfam.errors import CannotSaveError, FileFormatError
from kexpfam.storage import read_container, write_container

from .gaussians import LinearNormal

FAST = {"factor": KCEF(select=None), "root": KEF(select=None)}


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    a, b, e = rng.normal(size=(3, 60))
    c = a + b + 0.5 * e
    return pd.DataFrame({"a": a, "b": b, "c": c})


@pytest.mark.parametrize(
    "arguments",
    [
        {"graph": "full"},
        {"graph": "markov", "order": ["c", "a", "b"]},
        {"graph": {("a", "b"): [], "c": ["a", "b"]}},
        {"graph": {"a": ["c"], "b": []}, "exogenous": ["c"]},
        {"graph": "independent", "root": AutoKCEF(random_state=0)},
    ],
)
def test_a_loaded_density_answers_as_the_saved_one(frame, arguments, tmp_path):
    model = FactorizedDensity(**(FAST | arguments)).fit(frame)
    model.save(tmp_path / "joint.kexpfam")
    again = load(tmp_path / "joint.kexpfam")
    np.testing.assert_array_equal(
        again.factor_log_densities(frame), model.factor_log_densities(frame)
    )
    given = {"c": 0.3} if "exogenous" in arguments else None
    np.testing.assert_array_equal(
        again.sample(5, random_state=0, given=given),
        model.sample(5, random_state=0, given=given),
    )
    assert again.graph_ == model.graph_
    assert list(again.factors_) == list(model.factors_)


def test_a_density_of_an_array_has_positions(frame, tmp_path):
    model = FactorizedDensity(graph="markov", **FAST).fit(frame.to_numpy())
    model.save(tmp_path / "joint.kexpfam")
    again = load(tmp_path / "joint.kexpfam")
    assert list(again.factors_) == [0, 1, 2]
    assert not hasattr(again, "feature_names_in_")


def test_whole_numbers_that_are_names_are_kept(frame, tmp_path):
    numbered = frame.set_axis([2, 0, 1], axis=1)
    model = FactorizedDensity(graph={2: [], 0: [2], 1: [0]}, **FAST).fit(numbered)
    model.save(tmp_path / "joint.kexpfam")
    again = load(tmp_path / "joint.kexpfam")
    assert list(again.factors_) == [2, 0, 1]
    np.testing.assert_array_equal(
        again.score_samples(numbered), model.score_samples(numbered)
    )


def test_a_loaded_density_can_be_fitted_again(frame, tmp_path):
    FactorizedDensity(graph="markov", **FAST).fit(frame).save(tmp_path / "joint")
    again = load(tmp_path / "joint").set_params(**FAST).fit(frame)
    assert [node.parents for node in again.graph_.nodes] == [(), (0,), (1,)]


def test_foreign_factors_are_not_saved(frame, tmp_path):
    model = FactorizedDensity(factor=LinearNormal(), root=KEF(select=None)).fit(frame)
    with pytest.raises(CannotSaveError, match="factor of 'b', LinearNormal"):
        model.save(tmp_path / "joint.kexpfam")
    assert not list(tmp_path.iterdir())


def with_cycle(description):
    description["structure"]["nodes"][0][1] = [2]


def with_unknown_column(description):
    description["structure"]["nodes"][2][1] = [7]


def with_fewer_nodes(description):
    description["structure"]["nodes"].pop()


def with_swapped_factors(description):
    description["factors"][1:] = description["factors"][:0:-1]


def with_children_first(description):
    nodes = description["structure"]["nodes"]
    nodes[1], nodes[2] = nodes[2], nodes[1]
    factors = description["factors"]
    factors[1], factors[2] = factors[2], factors[1]


def with_other_names(description):
    description["feature_names"] = ["a"]


def with_equal_names(description):
    description["structure"]["names"] = ["a", "a", "c"]
    description["feature_names"] = []


def with_names_of_another_kind(description):
    description["structure"]["names"] = [["a"], None, "c"]
    description["feature_names"] = []


def without_structure(description):
    del description["structure"]


def with_nonsense(description):
    description["structure"] = "none"


def with_a_density_inside(description):
    description["factors"][0]["model"] = "FactorizedDensity"


@pytest.mark.parametrize(
    "damage",
    [
        with_cycle,
        with_unknown_column,
        with_fewer_nodes,
        with_swapped_factors,
        with_children_first,
        with_other_names,
        with_equal_names,
        with_names_of_another_kind,
        without_structure,
        with_nonsense,
        with_a_density_inside,
    ],
)
def test_files_that_do_not_fit_together_are_refused(frame, damage, tmp_path):
    path = tmp_path / "joint.kexpfam"
    FactorizedDensity(**FAST).fit(frame).save(path)
    arrays, description = read_container(path)
    damage(description)
    write_container(path, arrays, description)
    with pytest.raises(FileFormatError):
        load(path)
