"""Draws of one column that do not follow their distribution function are found out."""

import warnings
from dataclasses import dataclass

import numpy as np
import pytest
from scipy import stats

from kexpfam import KEF, AutoKCEF
from kexpfam.errors import SamplingWarning
from kexpfam.sampling import Run, Sampler, SamplingReport, warn_of_other_masses
from kexpfam.sampling.diagnostics import _distances


@dataclass(frozen=True)
class LeftModeOnly(Sampler):
    """Chains that all started in one mode: they agree, and are wrong."""

    def draw(self, target, size, rng):
        u = target.responses[:, 0]
        left = u[u < 0]
        draws = rng.choice(left, (len(target), size, 1))
        one = np.ones((len(target), 1))
        report = SamplingReport(1.0 * one, 0.9 * size * one, 0 * one[:, 0], one[:, 0])
        return Run(draws + 0.01 * rng.standard_normal(draws.shape), report)


@pytest.fixture(scope="module")
def two_modes():
    rng = np.random.default_rng(0)
    side = np.where(rng.random(300) < 0.3, -6.0, 6.0)
    data = (side + rng.normal(size=300))[:, None]
    return KEF(fit_method="likelihood", random_state=0).fit(data)


def test_a_missed_mode_is_seen_although_chains_agree(two_modes):
    with pytest.warns(SamplingWarning, match="masses are off by 0.[67]"):
        two_modes.sample(400, random_state=0, sampler=LeftModeOnly())


def test_draws_of_many_densities_are_judged_together():
    levels = np.random.default_rng(0).random((500, 1)) ** 2
    with pytest.warns(SamplingWarning, match="do not follow"):
        warn_of_other_masses(levels, None)


def test_right_draws_are_hardly_ever_warned_about():
    rng = np.random.default_rng(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(300):
            warn_of_other_masses(rng.random((3, 100)), None)
            warn_of_other_masses(rng.random((80, 1)), None)
        warn_of_other_masses(np.empty((0, 5)), None)
        warn_of_other_masses(np.zeros((2, 3)), None)  # too few to tell


def test_distances_are_those_of_the_kolmogorov_smirnov_test():
    levels = np.random.default_rng(0).random((4, 30)) ** 2
    for row, distance in zip(levels, _distances(levels), strict=True):
        assert distance == pytest.approx(stats.kstest(row, "uniform").statistic)


def test_draws_that_depend_on_each_other_are_worth_less():
    levels = np.linspace(0.0, 0.8, 400)[None]
    one = np.ones((1, 1))
    worthless = SamplingReport(one, 20.0 * one, one[:, 0], one[:, 0])
    warn_of_other_masses(levels, worthless)
    with pytest.warns(SamplingWarning):
        warn_of_other_masses(levels, None)


def test_members_of_an_average_are_checked():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 1))
    model = AutoKCEF(random_state=0).fit(x, x[:, 0] + rng.normal(size=60))
    members = model.given(x[:1]).density  # behind a map of PIT values
    with pytest.warns(SamplingWarning, match="do not follow"):
        members.rvs(600, random_state=0, sampler=LeftModeOnly())
