"""Draws given evidence, against closed forms for normal conditionals."""

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import trapezoid

from kexpfam import KCEF, FactorizedDensity
from kexpfam.errors import SamplingWarning

from .gaussians import (
    LinearNormal,
    Normal,
    conditioned,
    joint_of,
    linear_table,
    normal_joint,
)


@pytest.fixture(scope="module")
def table():
    return linear_table(noise=0.7)


@pytest.fixture(scope="module")
def model(table):
    return normal_joint(table)


def test_evidence_on_ancestors_gives_exact_draws(model):
    draws = model.sample(4000, random_state=0, given={0: 2.0, 1: -1.0})
    assert np.all(draws[:, :2] == [2.0, -1.0])
    factor = model.factors_[2]
    expected = stats.norm(factor.mean(np.array([[2.0, -1.0]]))[0], factor.scale_)
    assert stats.kstest(draws[:, 2], expected.cdf).pvalue > 0.01


def test_evidence_may_differ_from_draw_to_draw(model):
    values = np.linspace(-1, 1, 50)
    draws = model.sample(50, random_state=0, given={0: values})
    np.testing.assert_array_equal(draws[:, 0], values)


def test_evidence_with_an_unknown_parent_is_refused_by_sample(model):
    with pytest.raises(ValueError, match="given has column 1, but not its parent 0"):
        model.sample(10, given={1: 0.0})


@pytest.mark.parametrize(
    ("known", "values"), [([2], [1.5]), ([1, 2], [0.5, 2.0]), ([1], [-1.0])]
)
def test_weighted_draws_have_the_moments_of_the_conditional(model, known, values):
    draws = model.conditional(
        dict(zip(known, values, strict=True)), n_samples=40_000, random_state=0
    )
    mean, cov = conditioned(*joint_of(model), known, values)
    rest = [i for i in range(3) if i not in known]
    # Five standard errors of a mean of so many effective draws.
    margin = 5 * np.sqrt(np.diag(cov) / draws.effective_sample_size)
    assert np.all(np.abs(draws.mean()[rest] - mean) < margin)
    found = draws.cov()[np.ix_(rest, rest)]
    scale = np.sqrt(np.outer(np.diag(cov), np.diag(cov)))
    bound = 5 * np.sqrt(2 / draws.effective_sample_size)
    assert np.all(np.abs(found - cov) / scale < bound)
    np.testing.assert_allclose(draws.std()[known], 0.0, atol=1e-9)


def test_the_density_of_the_evidence_is_known_with_an_error(model):
    draws = model.conditional({2: 1.5}, n_samples=20_000, random_state=1)
    mean, cov = joint_of(model)
    truth = stats.norm.logpdf(1.5, mean[2], np.sqrt(cov[2, 2]))
    assert 0 < draws.log_evidence_error < 0.02
    assert abs(draws.log_evidence - truth) < 4 * draws.log_evidence_error


def test_the_stated_error_of_the_evidence_is_its_spread(model):
    runs = [model.conditional({2: 1.5}, 500, random_state=seed) for seed in range(60)]
    spread = np.std([run.log_evidence for run in runs], ddof=1)
    stated = np.mean([run.log_evidence_error for run in runs])
    assert 0.75 < spread / stated < 1.33  # a spread of 60 is known to 9 %


def test_the_effective_sample_size_is_that_of_the_weights(model):
    draws = model.conditional({2: 1.5}, n_samples=100, random_state=0)
    assert draws.weights.sum() == pytest.approx(1.0)
    assert draws.effective_sample_size == pytest.approx(1 / np.sum(draws.weights**2))
    assert f"worth {draws.effective_sample_size:.0f}" in repr(draws)


def test_evidence_on_ancestors_has_equal_weights_and_its_own_density(model):
    draws = model.conditional({0: 1.0}, n_samples=100, random_state=0)
    np.testing.assert_allclose(draws.weights, 0.01, rtol=1e-12)
    mean, cov = joint_of(model)
    truth = stats.norm.logpdf(1.0, mean[0], np.sqrt(cov[0, 0]))
    assert draws.log_evidence == pytest.approx(truth, rel=1e-10)
    assert draws.tails == {}


def test_evidence_on_all_columns_has_the_joint_density(model):
    row = [1.0, -0.5, 0.3]
    draws = model.conditional(dict(enumerate(row)), n_samples=5)
    truth = model.score_samples(np.array([row]))[0]
    assert draws.log_evidence == pytest.approx(truth, rel=1e-12)


def test_evidence_above_and_below_unknown_columns_has_its_joint_density(model):
    draws = model.conditional({0: 1.0, 2: 0.3}, n_samples=20_000, random_state=0)
    mean, cov = joint_of(model)
    pair = stats.multivariate_normal(mean[[0, 2]], cov[np.ix_([0, 2], [0, 2])])
    gap = draws.log_evidence - pair.logpdf([1.0, 0.3])
    assert abs(gap) < 4 * draws.log_evidence_error


def test_evidence_that_no_draw_reaches_is_warned_about(table):
    """Far out a kernel factor is its base density, and weights are all alike."""
    factor = KCEF(select=None, random_state=0)
    model = FactorizedDensity(graph="markov", factor=factor, random_state=0)
    model.fit(table[:200])
    with pytest.warns(SamplingWarning, match=r"given\[2\] is farther out than nearly"):
        draws = model.conditional({0: -4.0, 2: 60.0}, random_state=0)
    assert draws.tails[2] < 0.0025
    inside = model.conditional({0: 0.0, 2: 0.5}, random_state=0)
    assert inside.tails[2] > 0.1


def test_tails_are_those_of_the_predictive_distribution(model):
    draws = model.conditional({2: 1.5}, n_samples=20_000, random_state=0)
    mean, cov = joint_of(model)
    truth = stats.norm.sf(1.5, mean[2], np.sqrt(cov[2, 2]))
    assert draws.tails[2] == pytest.approx(min(truth, 1 - truth), abs=0.015)


def test_quantiles_are_weighted(model):
    draws = model.conditional({2: 1.5}, n_samples=20_000, random_state=0)
    mean, cov = conditioned(*joint_of(model), [2], [1.5])
    expected = stats.norm(mean[0], np.sqrt(cov[0, 0])).ppf([0.1, 0.9])
    np.testing.assert_allclose(draws.quantile([0.1, 0.9])[:, 0], expected, atol=0.1)
    assert draws.quantile(0.5).shape == (3,)


def test_a_quantile_is_the_first_value_whose_weights_reach_the_level(model):
    draws = model.conditional({2: 1.5}, n_samples=7, random_state=0)
    order = np.argsort(draws.draws[:, 0])
    for level in (0.0, 0.2, 0.5, 0.99, 1.0):
        total, expected = 0.0, None
        for i in order:
            total += draws.weights[i]
            if total >= level - 1e-12:
                expected = draws.draws[i, 0]
                break
        assert draws.quantile(level)[0] == expected


def test_resampled_draws_follow_the_weights(model):
    draws = model.conditional({2: 1.5}, n_samples=5000, random_state=0)
    plain = draws.resample(5000, random_state=1)
    margin = 5 * draws.std()[0] / np.sqrt(draws.effective_sample_size / 2)
    assert abs(plain[:, 0].mean() - draws.mean()[0]) < margin


def test_draws_that_are_worth_little_are_warned_about(model):
    with (
        pytest.warns(SamplingWarning, match=r"worth \d+\.\d only"),
        pytest.warns(SamplingWarning, match="farther out"),
    ):
        model.conditional({1: 30.0, 2: -30.0}, n_samples=200, random_state=0)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({5: 1.0}, "given names column 5"),
        ({0: [1.0, 2.0, 3.0]}, r"one number, or 2 of them, got shape \(3,\)"),
        ({0: np.nan}, "must be finite"),
        ({0: "high"}, "must be a number"),
        ([1.0], "given must map columns to values"),
    ],
)
def test_what_is_wrong_with_evidence_is_named(model, given, message):
    with pytest.raises(ValueError, match=message):
        model.sample(2, given=given)


def test_a_query_takes_one_value_per_column(model):
    with pytest.raises(ValueError, match="must be one number, got shape"):
        model.conditional({0: [1.0, 2.0]})


def test_part_of_a_block_is_refused(table):
    model = FactorizedDensity(graph={(0, 1): [], 2: [0, 1]}, root=Normal())
    model.set_params(factor=LinearNormal()).fit(table)
    with pytest.raises(ValueError, match="some columns of the block '0, 1'"):
        model.conditional({0: 1.0})
    draws = model.sample(10, random_state=0, given={0: 1.0, 1: 2.0})
    assert np.all(draws[:, :2] == [1.0, 2.0])


def test_impossible_evidence_is_refused(table):
    class Bounded(LinearNormal):
        def score_samples(self, X, y):
            return np.where(np.abs(y) < 10, super().score_samples(X, y), -np.inf)

    model = FactorizedDensity(factor=Bounded(), root=Normal()).fit(table)
    with pytest.raises(ValueError, match="impossible under the model"):
        model.conditional({2: 50.0}, n_samples=50)


def test_kernel_factors_answer_queries_as_bayes_rule_by_quadrature(table):
    factor = KCEF(select=None, random_state=0)
    model = FactorizedDensity(factor=factor, random_state=0).fit(table[:200, :2])
    draws = model.conditional({1: 1.0}, n_samples=4000, random_state=0)
    grid = np.linspace(-9, 11, 4001)
    rows = np.column_stack([grid, np.full_like(grid, 1.0)])
    joint = np.exp(model.score_samples(rows))
    mean = trapezoid(joint * grid, grid) / trapezoid(joint, grid)
    evidence = np.log(trapezoid(joint, grid))
    margin = 5 * draws.std()[0] / np.sqrt(draws.effective_sample_size)
    assert abs(draws.mean()[0] - mean) < margin
    assert abs(draws.log_evidence - evidence) < 5 * draws.log_evidence_error
