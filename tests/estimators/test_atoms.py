"""Laws with atoms and counts from estimators: found, given, switched off, in files."""

import warnings

import numpy as np
import pytest
from scipy import special, stats

from kexpfam import AutoKCEF, load
from kexpfam.distributions import MixedDensity
from kexpfam.errors import CannotSaveError, MeasureWarning
from kexpfam.metrics import cross_evaluate, evaluate
from tests.simulations import inflated

NEW = np.array([[-0.8], [0.0], [0.8]])
QUICK = {"experts": ["families"], "likelihood": False, "random_state": 0}


pytestmark = pytest.mark.usefixtures("few_coordinates")


def counted(n, mean=3.0, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, size=(n, 1))
    return x, 1.0 * rng.poisson(mean * np.exp(0.5 * x[:, 0]))


@pytest.fixture(scope="module")
def zeros():
    with pytest.warns(MeasureWarning, match=r"y is 0 in 4\d.* % of the rows"):
        return AutoKCEF(**QUICK).fit(*inflated(150))


@pytest.fixture(scope="module")
def counts():
    return AutoKCEF(counts=True, **QUICK).fit(*counted(150))


def test_zeros_have_a_probability_that_depends_on_x(zeros):
    p = zeros.given(NEW)
    assert isinstance(p, MixedDensity)
    assert zeros.atoms_.tolist() == [0.0]
    assert (
        np.abs(p.pmf(0.0) - special.expit(2.0 * NEW[:, 0])).max() < 0.2
    )  # from 150 rows
    assert np.all(p.cdf(-1e-9) < 0.005)  # an atom at the end is an end of the rest


def test_log_densities_are_near_those_of_the_truth(zeros):
    x, y = inflated(1000, seed=1)
    pi = special.expit(2.0 * x[:, 0])
    rest = np.log1p(-pi) + stats.gamma.logpdf(np.maximum(y, 1e-9), 3.0)
    truth = np.where(y == 0, np.log(pi), rest).mean()
    assert zeros.score(x, y) > truth - 0.12  # 150 rows


@pytest.mark.slow
def test_atoms_can_be_given_and_switched_off():
    x, y = inflated(60)
    with warnings.catch_warnings():
        warnings.simplefilter("error", MeasureWarning)
        given = AutoKCEF(atoms=[0.0], **QUICK).fit(x, y)
        density = AutoKCEF(atoms=False, lower=-np.inf, **QUICK).fit(x, y)
    assert given.given(NEW).measure == "mixed"
    assert not isinstance(density.given(NEW), MixedDensity)
    assert not len(density.atoms_)
    # A value that no row has is not impossible, and gets next to nothing.
    other = AutoKCEF(atoms=[0.0, 99.0], **QUICK).fit(x, y)
    assert np.all(other.given(NEW).pmf(99.0) < 0.05)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"atoms": True}, "atoms must be None"),
        ({"atoms": "zero"}, "atoms must be None"),
        ({"atoms": [np.nan]}, "finite"),
        ({"counts": "yes"}, "counts must be True, False or None"),
        ({"counts": True}, "whole numbers, and y has"),
    ],
)
def test_what_is_no_atom_is_refused(how, message):
    with pytest.raises(ValueError, match=message):
        AutoKCEF(**how, **QUICK).fit(*inflated(40))


def test_what_is_left_must_have_a_density():
    x, y = inflated(40)
    with pytest.raises(ValueError, match="too little for a density"):
        AutoKCEF(atoms=np.unique(y)[:-1], **QUICK).fit(x, y)


def test_continuous_y_is_as_before():
    """The same numbers, whether atoms were looked for or not."""
    x = np.random.default_rng(0).uniform(-1, 1, size=(40, 1))
    y = np.sin(3 * x[:, 0]) + 0.1 * np.random.default_rng(1).normal(size=40)
    found = AutoKCEF(**QUICK).fit(x, y)
    never = AutoKCEF(atoms=False, counts=False, lower=-np.inf, **QUICK).fit(x, y)
    assert np.array_equal(found.score_samples(x, y), never.score_samples(x, y))
    assert found.discrete_ is None
    assert found.rounding_ == 0.0


def test_counts_are_mass_functions(counts):
    x, y = counted(1000, seed=1)
    p = counts.given(x)
    assert p.measure == "counting"
    mass = p.pmf(np.arange(0.0, 60.0)[None])
    assert mass.sum(axis=1) == pytest.approx(1.0, abs=1e-6)
    truth = stats.poisson.logpmf(y, 3.0 * np.exp(0.5 * x[:, 0])).mean()
    assert counts.score(x, y) > truth - 0.05
    assert np.all(counts.sample(NEW, 20, random_state=0) % 1 == 0)
    assert np.all(counts.predict_quantiles(NEW, [0.1, 0.9]) % 1 == 0)


def test_counts_are_found_and_said():
    x, y = counted(80, mean=1.0)
    with pytest.warns(MeasureWarning, match="whole numbers, .* mass function"):
        model = AutoKCEF(**QUICK).fit(x, y)
    assert model.given(NEW).measure == "counting"
    assert model.rounding_ == 1.0


def test_two_values_work_and_point_to_a_classifier():
    x, y = inflated(80)
    with pytest.warns(MeasureWarning, match="a classifier"):
        model = AutoKCEF(**QUICK).fit(x, 1.0 * (y == 0))
    p = model.given(NEW)
    assert p.atoms.values.tolist() == [0.0, 1.0]
    assert p.pmf(1.0)[0] < p.pmf(1.0)[2]
    assert model.members_ is None


def test_grades_with_bounds_have_no_others():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, size=(80, 1))
    y = np.clip(np.round(3 + x[:, 0] + 0.5 * rng.normal(size=80)), 1.0, 5.0)
    model = AutoKCEF(counts=True, lower=1, upper=5, **QUICK).fit(x, y)
    assert model.given(NEW).atoms.values.tolist() == [1.0, 2.0, 3.0, 4.0, 5.0]


@pytest.mark.slow
def test_negative_whole_numbers_are_counts_if_told():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, size=(60, 1))
    y = np.round(2 * x[:, 0] + rng.normal(size=60))
    model = AutoKCEF(counts=True, **QUICK).fit(x, y)
    assert model.given(NEW).pmf(np.arange(-30.0, 31.0)[None]).sum(axis=1) == (
        pytest.approx(1.0, abs=1e-3)
    )


@pytest.mark.parametrize("which", ["zeros", "counts"])
def test_files_keep_laws_with_atoms(which, request, tmp_path):
    model = request.getfixturevalue(which)
    model.save(tmp_path / "model.kexpfam")
    again = load(tmp_path / "model.kexpfam")
    y = np.array([0.0, 1.0, 2.0])
    assert np.array_equal(again.given(NEW).logpdf(y), model.given(NEW).logpdf(y))
    assert np.array_equal(again.reliability(NEW), model.reliability(NEW))
    assert np.array_equal(again.atoms_, model.atoms_)


@pytest.mark.slow
def test_an_expert_with_atoms_is_refused():
    x, y = inflated(60)
    inner = AutoKCEF(atoms=[0.0], **QUICK)
    with pytest.raises(TypeError, match="has atoms"):
        AutoKCEF(experts=[inner], atoms=False).fit(x, y)


@pytest.mark.slow
def test_several_columns_may_have_atoms(tmp_path):
    x, y = inflated(60)
    rng = np.random.default_rng(1)
    Y = np.column_stack([y, y + rng.normal(size=60)])
    with pytest.warns(MeasureWarning, match="Column 0 of y: y is 0"):
        model = AutoKCEF(**QUICK).fit(x, Y)
    assert model.given(NEW).measure == "mixed"
    model.save(tmp_path / "model.kexpfam")
    again = load(tmp_path / "model.kexpfam")
    assert np.array_equal(again.score_samples(x, Y), model.score_samples(x, Y))


def test_all_metrics_take_laws_with_atoms(zeros, counts):
    for model, data in ((zeros, inflated), (counts, counted)):
        result = evaluate(model, *data(300, seed=2))
        assert result.pit_uniformity.pvalue > 1e-4
        assert result.coverage[2].value == pytest.approx(0.9, abs=0.08)
        assert np.isfinite(result.crps.value)


@pytest.mark.slow
def test_folds_of_different_measures_are_told():
    x, y = inflated(60)
    y[:30] = np.random.default_rng(0).gamma(3.0, size=30)  # no zeros there
    halves = [(np.arange(30), np.arange(30, 60)), (np.arange(30, 60), np.arange(30))]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        cross_evaluate(AutoKCEF(**QUICK), x, y, halves)
    assert any("different measures" in str(w.message) for w in caught)


@pytest.mark.slow
def test_weights_are_rows():
    x, y = inflated(60)
    weights = np.ones(60)
    weights[:20] = 0.0
    one = AutoKCEF(atoms=[0.0], **QUICK).fit(x, y, sample_weight=weights)
    other = AutoKCEF(atoms=[0.0], **QUICK).fit(x[20:], y[20:])
    np.testing.assert_allclose(
        one.given(NEW).pmf(0.0), other.given(NEW).pmf(0.0), atol=0.05
    )


@pytest.mark.slow
def test_experts_cannot_be_saved_behind_atoms_either(tmp_path):
    from kexpfam.baselines import ConditionalKDE

    x, y = inflated(60)
    model = AutoKCEF(
        experts=["families", ConditionalKDE()], atoms=[0.0], random_state=0
    ).fit(x, y)
    with pytest.raises(CannotSaveError):
        model.save(tmp_path / "model.kexpfam")


def test_a_density_of_the_rest_is_an_average(zeros):
    assert len(zeros.members_) > 0
    assert zeros.best_.given(NEW).measure == "lebesgue"


def test_a_few_values_with_gaps_have_a_mass_function(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 1))
    values = np.array([0.0, 0.5, 7.0])
    y = values[(x[:, 0] + rng.normal(size=200) > 0) * rng.choice([1, 2], size=200)]
    with pytest.warns(MeasureWarning, match=r"3 values only, 0, 0.5 and 7"):
        model = AutoKCEF(random_state=0).fit(x, y)
    p = model.given([[-2.0], [2.0]])
    np.testing.assert_array_equal(model.atoms_, values)
    np.testing.assert_allclose(p.pmf(values[None]).sum(axis=1), 1.0)
    assert p[0].pmf(0.0) > 0.7
    assert p[1].pmf(0.0) < 0.3
    model.save(tmp_path / "few.kexpfam")
    again = load(tmp_path / "few.kexpfam").given([[-2.0], [2.0]])
    np.testing.assert_array_equal(again.pmf(values[None]), p.pmf(values[None]))


def test_counts_that_vary_less_than_a_poisson_law_keep_their_spread():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, size=400)
    share = 1.0 / (1.0 + np.exp(-x - 1.0))
    y = 1.0 * rng.binomial(12, share)
    model = AutoKCEF(
        likelihood=False, experts=["families"], counts=True, random_state=0
    ).fit(x[:, None], y)
    std = np.sqrt(12.0 * share * (1.0 - share))
    ratio = model.given(x[:, None]).std() / std
    # 1.139 while Poisson laws had the weight that every member has.
    assert 0.95 < ratio.mean() < 1.09


@pytest.mark.filterwarnings("ignore::kexpfam.errors.MeasureWarning")
def test_counts_beside_those_of_the_fit_are_possible():
    """Four values ruled Poisson laws out, and every other value with them."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(300, 1))
    y = np.clip(np.rint(rng.normal(20.0, 0.6, size=300)), 19, 22)
    p = AutoKCEF(random_state=0).fit(X, y).given(X[:3])
    assert np.all(p.pmf(18.0) > 1e-5)
    assert np.all(p.pmf(40.0) > 0)
    np.testing.assert_allclose(p.std(), y.std(), rtol=0.2)
