"""Weights of the generalised propensity score."""

import numpy as np
import pytest
from scipy import stats

from kexpfam import KCEF
from kexpfam.causal import generalized_propensity_weights, weighted_correlations

SLOPE, ROWS = 0.7, 400


def noise_density(u):
    return 0.3 * stats.norm.pdf(u - 1.4) + 0.7 * stats.norm.pdf(u + 0.6)


def confounded(seed):
    """Treatment, confounders, outcome with effect 1 of the treatment, true weights."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1.5, 1.5, size=(ROWS, 2))
    noise = rng.normal(size=ROWS) + np.where(rng.random(ROWS) < 0.3, 1.4, -0.6)
    t = SLOPE * x[:, 0] + noise
    y = t + 2.0 * x[:, 0] + rng.normal(size=ROWS)
    # p(t) = ∫ p(t|x) dx / 3 by the midpoint rule
    middles = np.linspace(-1.5, 1.5, 401)
    marginal = noise_density(t[:, None] - SLOPE * middles).mean(axis=1)
    return t, x, y, marginal / noise_density(noise)


def slope(t, y, weights):
    return np.polyfit(t, y, 1, w=np.sqrt(weights))[0]


@pytest.fixture(scope="module")
def simulations():
    found = []
    for seed in range(6):
        t, x, y, truth = confounded(seed)
        result = generalized_propensity_weights(
            t, x, estimator=KCEF(select=None), cross_fit=4, random_state=seed
        )
        found.append((t, x, y, truth, result))
    return found


def test_weighted_slopes_recover_the_effect_that_naive_ones_miss(simulations):
    naive = [slope(t, y, np.ones(ROWS)) for t, _, y, _, _ in simulations]
    ideal = [slope(t, y, truth) for t, _, y, truth, _ in simulations]
    weighted = [slope(t, y, found.weights) for t, _, y, _, found in simulations]
    assert min(naive) > 1.4
    # One slope has a standard deviation of 0.12 or so even with the true weights: the
    # mean of six 0.05.
    assert abs(np.mean(ideal) - 1.0) < 0.15
    assert abs(np.mean(weighted) - 1.0) < 0.15
    assert np.max(np.abs(np.subtract(weighted, ideal))) < 0.2


def test_weights_have_mean_one_and_follow_the_true_ones(simulations):
    means = [found.weights.mean() for *_, found in simulations]
    assert np.mean(means) == pytest.approx(1.0, abs=0.12)
    for *_, truth, found in simulations:
        assert np.corrcoef(np.log(truth), np.log(found.weights))[0, 1] > 0.6


def test_weights_balance_the_confounder(simulations):
    for *_, found in simulations:
        assert abs(found.balance_before[0]) > 0.35
        assert abs(found.balance_after[0]) < 0.6 * abs(found.balance_before[0])


def test_a_row_does_not_weigh_itself():
    t, x, *_ = confounded(0)
    options = {"estimator": KCEF(select=None), "cross_fit": 4, "random_state": 0}
    before = generalized_propensity_weights(t, x, **options).log_propensity
    # Its treatment moves far away: no other density of its fold may change with it, and
    # its own becomes small, as no fit has seen it.
    moved = t.copy()
    moved[0] = 9.0
    after = generalized_propensity_weights(moved, x, **options).log_propensity
    assert after[0] < before[0] - 3.0
    assert np.sum(after[1:] == before[1:]) == pytest.approx(ROWS / 4 - 1, abs=1)


def test_figures_are_those_of_loops(simulations):
    t, x, *_, found = simulations[0]
    w = found.weights
    assert found.effective_sample_size == pytest.approx(sum(w) ** 2 / sum(w * w))
    assert found.largest == max(w)
    for k in range(2):
        covariance = np.cov(t, x[:, k], aweights=w)
        slow = covariance[0, 1] / np.sqrt(covariance[0, 0] * covariance[1, 1])
        assert found.balance_after[k] == pytest.approx(slow)
        assert found.balance_before[k] == pytest.approx(np.corrcoef(t, x[:, k])[0, 1])


def test_a_constant_confounder_has_no_correlation():
    found = weighted_correlations(np.arange(4.0), np.ones((4, 1)), np.ones(4))
    np.testing.assert_array_equal(found, [0.0])


def test_trimming_cuts_the_largest_share_down():
    t, x, *_ = confounded(1)
    t, x = t[:120], x[:120]
    options = {"estimator": KCEF(select=None), "cross_fit": 2, "random_state": 0}
    whole = generalized_propensity_weights(t, x, trim=0.0, **options)
    cut = generalized_propensity_weights(t, x, trim=0.05, **options)
    assert whole.trimmed == 0
    assert cut.trimmed == 6
    assert cut.largest == np.sort(whole.weights)[-7]
    kept = whole.weights <= cut.largest
    np.testing.assert_array_equal(cut.weights[kept], whole.weights[kept])


def test_without_the_numerator_weights_are_inverse_densities():
    t, x, *_ = confounded(2)
    found = generalized_propensity_weights(
        t[:100],
        x[:100],
        estimator=KCEF(select=None),
        stabilized=False,
        cross_fit=1,
        trim=0.0,
    )
    model = KCEF(select=None).fit(x[:100], t[:100])
    expected = 1.0 / model.given(x[:100]).pdf(t[:100])
    np.testing.assert_allclose(found.weights, expected)


def test_it_prints_as_a_table_with_names():
    pandas = pytest.importorskip("pandas")
    t, x, *_ = confounded(3)
    frame = pandas.DataFrame(x[:80], columns=["age", "income"])
    found = generalized_propensity_weights(
        t[:80], frame, estimator=KCEF(select=None), cross_fit=2, random_state=0
    )
    lines = str(found).splitlines()
    assert lines[0].startswith("80 weights, mean ")
    assert [line.split()[0] for line in lines[2:4]] == ["age", "income"]
    assert "balanced: |weighted| up to" in lines[-1]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"treatment": [[1.0], [2.0]]}, "treatment must be a flat list"),
        ({"confounders": np.ones((3, 1))}, r"confounders must .* got shape \(3, 1\)"),
        ({"cross_fit": 0}, "cross_fit must be a whole number from 1 on"),
        ({"cross_fit": 7}, "cross_fit=7 is too many folds for 8 rows"),
        ({"trim": 0.6}, "trim must be 0 or a share below 0.5"),
    ],
)
def test_wrong_arguments_are_named(changes, message):
    arguments = {"treatment": np.arange(8.0), "confounders": np.ones((8, 1))}
    arguments |= {"estimator": KCEF(select=None), "cross_fit": 1} | changes
    with pytest.raises(ValueError, match=message):
        generalized_propensity_weights(
            arguments.pop("treatment"), arguments.pop("confounders"), **arguments
        )
