"""Quantile dots: each stands for the same probability."""

import numpy as np
import pytest

from kexpfam.base_densities import GaussianBase
from kexpfam.display.curves import quantile_dots
from kexpfam.distributions import ClosedFormDensity, MixedDensity


class TestQuantileDots:
    def test_each_dot_stands_for_the_same_probability(self):
        p = ClosedFormDensity(GaussianBase(1.0), np.zeros(1), np.ones(1))
        x, stack = quantile_dots(p, 40)
        # A dot is at most a bin away from its quantile.
        assert abs(np.mean(x > 0.5) - p.sf(0.5)[0]) < 0.1
        for place in np.unique(x):
            own = np.sort(stack[x == place])
            np.testing.assert_array_equal(own, np.arange(len(own)))

    def test_values_with_probabilities_have_stacks_of_their_own(self):
        counts = MixedDensity(np.arange(5.0), [[0.2, 0.35, 0.25, 0.15, 0.05]])
        x, stack = quantile_dots(counts, 20)
        assert [np.sum(x == k) for k in range(5)] == [4, 7, 5, 3, 1]
        rest = ClosedFormDensity(GaussianBase(1.0), np.full(1, 0.2), np.ones(1))
        x, stack = quantile_dots(MixedDensity([0.0], [[0.5]], rest), 20)
        assert np.sum(x == 0.0) == stack[x == 0.0].max() + 1 == 10
        assert len(x) == 20

    def test_counts_have_probabilities_on_whole_numbers(self):
        ax = MixedDensity(np.arange(3.0), [[0.5, 0.3, 0.2]]).plot()
        assert ax.get_ylabel() == "probability"
        assert all(tick == round(tick) for tick in ax.get_xticks())

    def test_they_are_below_the_curve(self):
        p = ClosedFormDensity(GaussianBase(1.0), np.zeros(1), np.ones(1))
        ax = p[0].plot(dots=20)
        offsets = ax.collections[-1].get_offsets()
        assert len(offsets) == 20
        assert np.all(offsets[:, 1] < 0)
        assert ax.get_ylim()[0] < offsets[:, 1].min()
        assert "1 of 20" in ax.texts[-1].get_text()

    def test_several_densities_have_none(self):
        p = ClosedFormDensity(GaussianBase(1.0), np.zeros(2), np.ones(2))
        with pytest.raises(ValueError, match=r"there are 2; use p\[0\].plot"):
            p.plot(dots=20)
