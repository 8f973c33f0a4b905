"""Masses of isolated components are right by default; nothing is spent elsewhere."""

import numpy as np
import pytest

from kexpfam import KCEF, KEF, AutoKCEF, FactorizedDensity, load
from kexpfam.data import Rows, TrainingRows
from kexpfam.errors import BlindnessWarning
from kexpfam.family import Spec
from kexpfam.family.clusters import find_gaps
from kexpfam.kernels import Gaussian
from kexpfam.selection.finishing import ValidatedPart
from kexpfam.selection.validation import Validation
from tests.simulations import waves
from tests.tolerances import assert_close

UPPER = 0.7
CONDITIONS = np.linspace(-1.8, 1.8, 9)[:, None]


def lines(n, seed=0):
    """y = x ± 4 + 0.4 ε, 0.7 of the rows on the upper line."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-2.0, 2.0, size=(n, 1))
    side = np.where(rng.random(n) < UPPER, 4.0, -4.0)
    return x, x[:, 0] + side + 0.4 * rng.normal(size=n)


def bent(n, seed=0):
    return waves(n, seed=seed, frequency=3.0, half_width=1.0)


def upper_masses(model):
    return model.given(CONDITIONS).sf(CONDITIONS[:, 0])


@pytest.fixture(scope="module")
def finished():
    return KCEF(random_state=0).fit(*lines(300))


def share_above(x, y):
    return float(np.mean(y > x[:, 0]))


def test_the_default_is_finished_by_likelihood_and_has_the_masses_of_the_data(finished):
    assert finished.fit_method_ == "likelihood"
    assert finished.selection_.chosen.method == "likelihood"
    assert finished.isolated_components_.found
    assert not finished.isolated_components_.suspicious
    # 300 rows tell a mass to 0.03.
    assert np.abs(upper_masses(finished) - UPPER).mean() < 0.06


@pytest.mark.parametrize("n", [600, 2000])
@pytest.mark.parametrize("model", [KCEF, AutoKCEF], ids=["KCEF", "AutoKCEF"])
def test_masses_are_right_by_default_with_more_rows(model, n):
    x, y = lines(n, seed=n)
    fitted = model(random_state=0).fit(x, y)
    found = upper_masses(fitted)
    assert abs(found.mean() - share_above(x, y)) < 0.02
    assert np.abs(found - UPPER).mean() < 0.04
    assert not fitted.isolated_components_.suspicious


def test_an_average_replaces_blind_families():
    x, y = lines(200, seed=1)
    model = AutoKCEF(experts=["families"], random_state=0).fit(x, y)
    assert model.isolated_components_.found
    assert abs(upper_masses(model).mean() - share_above(x, y)) < 0.05
    assert "likelihood" in {member.candidate.method for member in model.members_}


def test_score_matching_by_name_warns_and_stays_what_it_was():
    x, y = lines(600)
    with pytest.warns(BlindnessWarning, match="leave fit_method out"):
        model = KCEF(fit_method="score", random_state=0).fit(x, y)
    assert model.fit_method_ == "score"


def test_an_average_without_likelihood_warns():
    rng = np.random.default_rng(0)
    x = rng.uniform(-2.0, 2.0, size=(300, 1))
    side = np.where(rng.random(300) < 0.9, 8.0, -8.0)
    y = x[:, 0] + side + 0.4 * rng.normal(size=300)
    with pytest.warns(BlindnessWarning, match="likelihood=None"):
        AutoKCEF(experts=["families"], likelihood=False, random_state=0).fit(x, y)


def test_unimodal_data_take_the_same_way_as_score_matching():
    x, y = bent(150)
    default = KCEF(random_state=0).fit(x, y)
    score = KCEF(fit_method="score", random_state=0).fit(x, y)
    assert default.fit_method_ == "score"
    assert not default.isolated_components_.found
    assert np.array_equal(default.score_samples(x, y), score.score_samples(x, y))


def test_what_is_all_given_is_not_finished():
    x, y = lines(200)
    given = {"kernel_x": Gaussian(0.9), "kernel_y": Gaussian(0.4)}
    with pytest.warns(BlindnessWarning):
        model = KCEF(**given, regularization=0.01).fit(x, y)
    assert model.fit_method_ == "score"


def test_kernels_and_regularization_that_were_given_are_kept():
    x, y = lines(200)
    kernel = Gaussian(0.9)
    model = KCEF(kernel_x=kernel, regularization=1e-4, random_state=0).fit(x, y)
    assert model.fit_method_ == "likelihood"
    assert model.regularization_ == 1e-4
    assert model.kernel_.terms[0][0] == kernel


def test_untuned_fits_are_finished_untuned():
    x, y = lines(200)
    model = KCEF(select=None).fit(x, y)
    assert model.fit_method_ == "likelihood"
    same = KCEF(fit_method="likelihood", select=None).fit(x, y)
    assert_close(model.score_samples(x, y), same.score_samples(x, y))


def test_one_column_without_conditions_is_finished_too():
    rng = np.random.default_rng(0)
    upper = rng.random(300) < UPPER
    Y = (np.where(upper, 1.0, -1.0) + 0.15 * rng.normal(size=300))[:, None]
    model = KEF(random_state=0).fit(Y)
    assert abs(model.distribution().sf(0.0) - upper.mean()) < 0.02


def test_factors_of_a_joint_density_are_finished():
    x, y = lines(300, seed=2)
    model = FactorizedDensity(random_state=0).fit(np.column_stack([x, y]))
    draws = model.sample(2000, random_state=0)
    assert abs(np.mean(draws[:, 1] > draws[:, 0]) - share_above(x, y)) < 0.05


def test_the_order_of_rows_does_not_decide():
    x, y = lines(150, seed=3)
    order = np.random.default_rng(0).permutation(150)
    one, other = (
        KCEF(random_state=0).fit(x[rows], y[rows]) for rows in (slice(None), order)
    )
    assert_close(one.score_samples(x, y), other.score_samples(x, y), 1e-6)


def test_more_rows_make_a_finished_model_anew(finished):
    x, y = lines(300)
    more = lines(100, seed=9)
    both = [np.concatenate(pair) for pair in zip((x, y), more, strict=True)]
    model = KCEF(random_state=0).fit(x, y).partial_fit(*more)
    whole = KCEF(random_state=0).fit(*both)
    assert model.n_rows_ == 400
    assert_close(model.score_samples(x, y), whole.score_samples(x, y), 1e-6)


def test_a_finished_model_survives_a_file(finished, tmp_path):
    finished.save(tmp_path / "model.kexpfam")
    again = load(tmp_path / "model.kexpfam")
    assert_close(upper_masses(again), upper_masses(finished))


def test_a_part_of_a_validation_holds_out_the_rows_it_says():
    x, y = bent(100)
    rows = TrainingRows.of(Rows(x, y[:, None], np.ones(100)))
    validation = Validation.of(rows, Spec(), np.random.default_rng(0))
    part = ValidatedPart.evenly(validation, 50, 3)
    assert len(part.index) == 50
    assert len(part.folds) == 3
    for mine, whole in zip(part.folds, validation.folds, strict=False):
        own = part.index[mine]
        assert np.all((own >= whole.start) & (own < whole.stop))
    assert np.array_equal(part.held_out, part.index[: part.folds[-1].stop])
    few = ValidatedPart.of_few(validation)
    assert few.folds[-1].stop < len(few.index) == 100


@pytest.mark.parametrize("seed", range(5))
def test_one_cloud_has_no_gaps_and_three_have_some(seed):
    rng = np.random.default_rng(seed)
    cloud = rng.normal(size=(300, 3)) * [1.0, 3.0, 0.2]
    assert find_gaps(cloud, np.ones(300)) == []
    middles = 20.0 * np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    apart = cloud + middles[rng.integers(3, size=300)]
    assert len(find_gaps(apart, np.ones(300))) >= 2


@pytest.mark.parametrize("share", [0.05, 0.1])
def test_small_components_that_a_transform_moves_close_have_their_mass(share):
    """Normal in its coordinates, y has a gap that is not there any more."""
    rng = np.random.default_rng(1)
    x, far = rng.uniform(-1, 1, size=(1200, 1)), rng.random(1200) < share
    y = np.where(far, 20.0, 0.0) + rng.normal(size=1200)
    model = KCEF(base="gaussianize", random_state=0).fit(x, y)
    assert model.fit_method_ == "likelihood"
    assert abs(model.given([[0.0]]).sf(10.0)[0] - far.mean()) < 0.005
    skewed = KCEF(base="gaussianize", random_state=0).fit(
        x, np.exp(rng.normal(size=1200))
    )
    assert not skewed.isolated_components_.found
