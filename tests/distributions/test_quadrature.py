"""Moments behind maps, against plain integrals of the density of y itself."""

import numpy as np
import pytest
from scipy import stats

from kexpfam.base_densities import StudentBase
from kexpfam.distributions import (
    BoundedDensity,
    MixtureDensity,
    RecalibratedDensity,
    SupportMap,
    UnitMap,
)
from tests.densities import closed_form
from tests.oracles.integrals import integral
from tests.tolerances import assert_close

BENT = UnitMap(np.array([0.3, 0.1, 0.15, 0.45]))
MAPS = {
    "below": SupportMap(0.0, np.inf, (0.05, 1.0), 1.5),
    "below, straight from 4 on": SupportMap(0.0, np.inf, (0.05, 1.0), 1.5, reach=4.0),
    "above": SupportMap(-np.inf, 3.0, (1.0, 0.05), 0.7),
    "between": SupportMap(-1.0, 6.0, (0.1, 0.2)),
}


@pytest.fixture(scope="module")
def mixture():
    """A narrow component beside wide ones with heavy tails, far from the middle."""
    return MixtureDensity(
        [
            closed_form([0.0, 3.0], 0.05),
            closed_form([1.0, -1.0], 1.0),
            closed_form([0.0, 0.0], 2.0, StudentBase(1.0, df=5.0)),
        ],
        [0.2, 0.5, 0.3],
    )


@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("bent", [True, False])
def test_moments_behind_maps_are_integrals_over_y(mixture, name, bent):
    support = MAPS[name]
    behind = RecalibratedDensity(mixture, BENT) if bent else mixture
    together = BoundedDensity(behind, support)
    narrow = support.inverse(np.array([[-0.4, 0.0, 0.4], [2.6, 3.0, 3.4]]))
    for p, cuts in zip(together, narrow, strict=True):
        breaks = np.unique([support.lower, *support.breaks, *cuts, support.upper])
        mean = integral(lambda y, p=p: y * p.pdf(y), breaks)
        square = integral(lambda y, p=p, m=mean: (y - m) ** 2 * p.pdf(y), breaks)
        assert_close(p.mean(), mean, 1e-8)
        assert_close(p.std(), np.sqrt(square), 1e-6)


def test_a_map_of_pit_values_bends_moments_as_integrals_say(mixture):
    for p in RecalibratedDensity(mixture, BENT):
        breaks = [-np.inf, -0.4, 0.0, 0.4, 2.6, 3.0, 3.4, np.inf]
        mean = integral(lambda y, p=p: y * p.pdf(y), breaks)
        square = integral(lambda y, p=p, m=mean: (y - m) ** 2 * p.pdf(y), breaks)
        assert_close(p.mean(), mean, 1e-8)
        assert_close(p.std(), np.sqrt(square), 1e-6)


def test_nodes_are_few_and_tell_what_is_below_them(mixture):
    found = mixture._quadrature(np.array([0.5]))
    assert found.nodes.shape[1] <= 800
    assert np.all(np.diff(found.nodes) >= 0)
    assert_close(found.masses.sum(axis=1), np.ones(2), 1e-9)
    assert_close(found.below, mixture._cdf(found.nodes), 1e-6, scale=1.0)


def test_no_density_has_no_moments(mixture):
    nothing = BoundedDensity(mixture[:0], MAPS["below"])
    assert nothing.mean().shape == nothing.std().shape == (0,)


@pytest.mark.parametrize("far", [1e6, 1e8])
@pytest.mark.parametrize("share", [0.3, 0.01])
def test_components_that_are_very_far_apart_have_their_moments(far, share):
    parts = [closed_form([0.0], 1.0), closed_form([far], 1.0)]
    mixture = MixtureDensity(parts, [1.0 - share, share])
    bounded = BoundedDensity(mixture, MAPS["below"])
    # What the component at zero has beyond the bound is cut off.
    lost = (1.0 - share) * stats.norm.cdf(MAPS["below"].ends[0])
    kept = share / (1.0 - lost)
    assert_close(bounded.mean() / (1.5 * far), kept, 1e-5, scale=1.0)
    assert_close(
        bounded.std() / (1.5 * far), np.sqrt(kept * (1.0 - kept)), 1e-5, scale=1.0
    )
    bent = RecalibratedDensity(mixture, BENT)
    upper = 1.0 - BENT.cdf(np.array([1.0 - share]))[0]
    assert_close(bent.mean() / far, upper, 1e-5, scale=1.0)
    assert_close(bent.std() / far, np.sqrt(upper * (1.0 - upper)), 1e-5, scale=1.0)


def test_nodes_of_components_far_apart_are_few():
    parts = [closed_form([0.0], 1.0), closed_form([1e6], 1.0)]
    mixture = MixtureDensity(parts, [0.7, 0.3])
    assert mixture._quadrature(np.empty(0)).nodes.shape[1] <= 1000


@pytest.mark.parametrize("side", [1.0, -1.0])
def test_a_mean_is_bent_where_there_is_no_standard_deviation(side):
    p = closed_form([0.0], 2.0, StudentBase(1.0, df=1.5))
    steep = UnitMap(np.array([0.9, 0.02, 0.03, 0.05])[:: int(side)].copy())
    bent = RecalibratedDensity(p, steep)
    slow = integral(lambda y: y * bent[0].pdf(y), [-np.inf, -1.0, 1.0, np.inf])
    assert_close(bent.mean(), slow, 1e-4)
    assert side * bent.mean()[0] < -1.0  # that of p is zero
    assert np.isinf(bent.std()[0])
