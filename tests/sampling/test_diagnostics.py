"""R̂ and effective sample sizes."""

import numpy as np
import pytest

from kexpfam.sampling.diagnostics import (
    SamplingReport,
    bulk_effective_size,
    effective_size,
    normal_scores,
    rank_r_hat,
    split_chains,
    tail_effective_size,
)
from tests.oracles import chains as slow
from tests.tolerances import assert_close


def autoregressive(rho, shape, seed=0):
    """Stationary chains whose autocorrelation at lag t is ρᵗ."""
    rng = np.random.default_rng(seed)
    draws = rng.normal(size=shape)
    for t in range(1, shape[-1]):
        fresh = np.sqrt(1 - rho**2) * draws[..., t]
        draws[..., t] = rho * draws[..., t - 1] + fresh
    return draws


CHAINS = {
    "mixed": autoregressive(0.0, (3, 20)),
    "slow": autoregressive(0.9, (4, 31)),
    "alternating": autoregressive(-0.6, (2, 24)),
    "apart": autoregressive(0.3, (3, 20)) + np.array([[0.0], [1.0], [4.0]]),
    "wider": autoregressive(0.3, (3, 20)) * np.array([[1.0], [1.0], [6.0]]),
    "one chain": autoregressive(0.5, (1, 30)),
    "ties": np.round(autoregressive(0.3, (3, 20))),
}


@pytest.mark.parametrize("draws", CHAINS.values(), ids=CHAINS)
def test_figures_are_those_of_their_definitions(draws):
    assert_close(rank_r_hat(draws), slow.rank_r_hat(draws))
    assert_close(bulk_effective_size(draws), slow.bulk_size(draws))
    assert_close(tail_effective_size(draws), slow.tail_size(draws))


@pytest.mark.parametrize(
    "figure", [rank_r_hat, bulk_effective_size, tail_effective_size]
)
def test_leading_axes_are_computed_each_on_its_own(figure):
    draws = autoregressive(0.4, (2, 3, 4, 25))
    expected = [[figure(part) for part in row] for row in draws]
    assert_close(figure(draws), expected)


@pytest.mark.parametrize("rho", [-0.5, 0.0, 0.5, 0.8])
def test_effective_size_of_an_autoregression_is_known(rho):
    draws = autoregressive(rho, (4, 5000), seed=1)
    expected = draws.size * (1 - rho) / (1 + rho)
    # The estimate has a relative error of a few percent at this length.
    assert abs(effective_size(draws) / expected - 1) < 0.1


def test_ranks_forgive_any_monotone_change_of_the_bulk():
    draws = autoregressive(0.5, (4, 100))
    assert_close(bulk_effective_size(np.exp(3 * draws)), bulk_effective_size(draws))


def test_a_shift_and_a_change_of_width_both_show():
    draws = autoregressive(0.0, (4, 200))
    assert rank_r_hat(draws) < 1.02
    shifted, wider = draws.copy(), draws.copy()
    shifted[0] += 2.0
    wider[0] *= 5.0
    drifting = draws + np.linspace(0, 3, 200)
    for bad in (shifted, wider, drifting):
        assert rank_r_hat(bad) > 1.1


def test_chains_that_do_not_move_are_not_called_mixed():
    apart = np.repeat(np.array([[0.0], [1.0]]), 10, axis=1)
    assert rank_r_hat(apart) == np.inf
    assert np.isnan(rank_r_hat(np.zeros((2, 10))))
    assert np.isnan(bulk_effective_size(np.zeros((2, 10))))


def test_too_few_draws_have_no_figures():
    for figure in (rank_r_hat, bulk_effective_size, tail_effective_size):
        assert np.isnan(figure(np.zeros((5, 2, 3)))).all()


def test_halves_and_scores_keep_the_shape():
    draws = autoregressive(0.0, (2, 3, 11))
    assert split_chains(draws).shape == (2, 6, 5)
    assert normal_scores(draws).shape == draws.shape


def report_on(draws, divergences=0):
    n = len(draws)
    return SamplingReport.of_chains(draws, np.full(n, divergences), np.full(n, 0.8))


@pytest.mark.parametrize("shape", [(1, 4, 1000, 2), (300, 4, 100, 1), (500, 1, 100, 1)])
def test_mixed_chains_of_any_length_and_number_earn_no_complaint(shape):
    draws = np.moveaxis(autoregressive(0.4, (*shape[:2], shape[3], shape[2])), 3, 2)
    report = report_on(draws)
    assert report.complaint() is None
    assert report.tolerated_r_hat >= 1.01


def test_long_chains_are_held_to_the_usual_threshold():
    draws = autoregressive(0.0, (1, 4, 2000))[..., None]
    assert report_on(draws).tolerated_r_hat == 1.01
    assert report_on(draws).needed_sample_size == 100


def test_what_is_wrong_is_said_with_its_figures_and_a_way_out():
    draws = autoregressive(0.3, (3, 4, 100), seed=2)[..., None]
    draws[1, 0] += 10.0
    report = report_on(draws)
    complaint = report.complaint()
    assert "1 of 3 densities" in complaint
    assert f"R̂ up to {report.r_hat.max():.3f}" in complaint
    assert "sampler='smc'" in complaint


def test_divergences_alone_earn_a_complaint():
    draws = autoregressive(0.0, (1, 4, 500))[..., None]
    assert "2 divergences" in report_on(draws, divergences=2).complaint()


def test_chains_that_never_moved_earn_a_complaint():
    assert report_on(np.zeros((1, 4, 100, 1))).complaint() is not None


def test_few_effective_draws_earn_a_complaint():
    draws = autoregressive(0.98, (1, 4, 1000))[..., None]
    report = report_on(draws)
    assert report.effective_sample_size[0, 0] < 100
    assert "effective draws of 4000" in report.complaint()


def test_the_report_reads_as_two_lines():
    text = str(report_on(autoregressive(0.0, (3, 4, 100))[..., None]))
    assert text.startswith("3 densities of 1 column(s), 4 chain(s) of 100 kept draws")
    assert text.count("\n") == 1
    assert "mean acceptance 0.80" in text


def test_the_worst_of_several_reports_is_kept():
    good = report_on(autoregressive(0.0, (2, 4, 200))[..., None])
    bad = report_on(autoregressive(0.9, (2, 4, 200))[..., None], divergences=3)
    worst = SamplingReport.worst_of([good, bad])
    assert np.all(worst.r_hat == np.maximum(good.r_hat, bad.r_hat))
    assert np.all(worst.effective_sample_size == bad.effective_sample_size)
    assert np.all(worst.divergences == 3)
    assert (worst.chains, worst.draws) == (4, 200)
