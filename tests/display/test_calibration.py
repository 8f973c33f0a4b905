"""Pictures of calibration: bars, curves and bands are what they say."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from scipy import stats

from kexpfam.display import plot_calibration, plot_coverage, plot_pit
from kexpfam.metrics import evaluate
from tests.oracles.scores import GaussianModel
from tests.tolerances import assert_close


@pytest.fixture(scope="module")
def uniform():
    return np.random.default_rng(0).random((2, 400))


def heights(ax):
    (bars,) = ax.containers
    return np.array([bar.get_height() for bar in bars])


def band_of(ax):
    """Ends of the band of a histogram."""
    (span,) = [patch for patch in ax.patches if patch.get_label() != "_nolegend_"]
    low, high = span.get_y(), span.get_y() + span.get_height()
    return low, high


class TestHistogram:
    def test_bars_are_frequencies_relative_to_the_expected(self, uniform):
        u = uniform[0]
        counts, _ = np.histogram(u, 8, (0, 1))
        assert_close(heights(plot_pit(u, bins=8)), counts / 50)

    def test_the_band_holds_a_bar_with_95_percent(self, uniform):
        low, high = band_of(plot_pit(uniform[0], bins=8))
        count = stats.binom(400, 1 / 8)
        assert count.cdf(round(50 * low) - 1) <= 0.025 < count.cdf(round(50 * low))
        assert count.sf(round(50 * high)) <= 0.025 < count.sf(round(50 * high) - 1)

    def test_bars_are_more_the_more_rows_there_are(self):
        counts = [len(heights(plot_pit(np.full(n, 0.5)))) for n in (1, 200, 10_000)]
        assert counts == [5, 10, 20]

    def test_values_at_the_ends_are_counted(self):
        assert_close(heights(plot_pit([0.0, 1.0], bins=2)), [1.0, 1.0])

    def test_a_weight_of_two_is_two_rows(self, uniform):
        u = uniform[0]
        weights = np.resize([0, 1, 2], len(u))
        weighted = plot_pit(u, bins=5, sample_weight=weights)
        assert_close(
            heights(weighted), heights(plot_pit(np.repeat(u, weights), bins=5))
        )

    def test_unequal_weights_widen_the_band(self, uniform):
        plain = np.diff(band_of(plot_pit(uniform[0], bins=5)))
        weights = np.resize([1.0, 10.0], 400)
        weighted = plot_pit(uniform[0], bins=5, sample_weight=weights)
        assert np.diff(band_of(weighted)) > plain

    @pytest.mark.parametrize("bins", [0, -1, 2.5])
    def test_bins_are_checked(self, bins):
        with pytest.raises(ValueError, match="bins must be"):
            plot_pit([0.5], bins=bins)

    @pytest.mark.parametrize("values", [[], [1.2], [np.nan], [[0.5]], "a"])
    def test_values_are_checked(self, values):
        for plot in (plot_pit, plot_coverage):
            with pytest.raises(ValueError, match="values must"):
                plot(values)


class TestCoverage:
    def test_curves_are_shares_of_rows(self, uniform):
        u, v = uniform
        _, central, densest = plot_coverage(u, v).lines
        levels = central.get_xdata()
        expected = [np.mean(np.abs(2 * u - 1) <= a) for a in levels]
        assert_close(central.get_ydata(), expected)
        assert_close(densest.get_ydata(), [np.mean(v <= a) for a in levels])

    def test_weights_count(self, uniform):
        u, v = uniform
        weights = np.resize([0, 1, 2], len(u))
        weighted = plot_coverage(u, v, sample_weight=weights).lines
        plain = plot_coverage(np.repeat(u, weights), np.repeat(v, weights)).lines
        for ours, other in zip(weighted, plain, strict=True):
            assert_close(ours.get_ydata(), other.get_ydata())

    def test_the_band_is_binomial(self, uniform):
        (band,) = plot_coverage(uniform[0]).collections
        corners = band.get_paths()[0].vertices
        at_half = np.sort(np.unique(corners[np.isclose(corners[:, 0], 0.5), 1]))
        assert_close(at_half, stats.binom.ppf([0.025, 0.975], 400, 0.5) / 400)

    def test_the_legend_names_what_is_drawn(self, uniform):
        for arguments, count in (((uniform[0],), 2), (tuple(uniform), 3)):
            assert len(plot_coverage(*arguments).get_legend().get_texts()) == count


class TestBoth:
    def test_an_evaluation_draws_itself_on_given_axes(self):
        rng = np.random.default_rng(1)
        x = rng.normal(size=(40, 1))
        result = evaluate(GaussianModel(), x, x[:, 0] + rng.normal(size=40))
        _, axes = plt.subplots(1, 2)
        assert result.plot(axes) is axes
        assert_close(heights(axes[0]), heights(plot_pit(result.pit)))
        alone = plot_coverage(result.pit, result.hpd_values)
        for ours, other in zip(axes[1].lines, alone.lines, strict=True):
            assert_close(ours.get_ydata(), other.get_ydata())
        assert len(result.plot()) == 2

    def test_two_axes_are_needed(self, uniform):
        _, ax = plt.subplots()
        with pytest.raises(ValueError, match="axes must be two Axes, got 1"):
            plot_calibration(*uniform, ax)
