"""Heights at a bound that have next to no mass are neither modes nor regions."""

import numpy as np
import pytest

from kexpfam.base_densities import GaussianBase, StudentBase
from kexpfam.distributions import (
    BoundedDensity,
    ClosedFormDensity,
    MixtureDensity,
    SupportMap,
)

# Rows crowd near zero, so the map has a small margin there.
NEAR = SupportMap(0.0, np.inf, (1e-6, 1.0), 1.6, 26.0)
PLACES = np.array([0.0, 5.0, 12.0])


def laws(*, likely):
    """A normal density with t tails behind the map, with something beside or not."""
    line = NEAR.forward(PLACES)
    kinds = [(GaussianBase(1.0), 0.98), (StudentBase(1.0, df=4.0), 0.02)]
    parts = [ClosedFormDensity(base, line, np.full(3, 2.0)) for base, _ in kinds]
    p = BoundedDensity(MixtureDensity(parts, [w for _, w in kinds]), NEAR)
    if not likely:
        return p
    wide = ClosedFormDensity(StudentBase(1.0, df=4.0), np.full(3, 8.0), np.full(3, 6.0))
    return MixtureDensity([p, wide], [0.998, 0.002])


@pytest.mark.parametrize("likely", [False, True])
def test_tails_that_a_map_crowds_at_a_bound_are_no_mode_and_no_region(likely):
    p = laws(likely=likely)
    assert np.all(p.pdf(np.zeros(3)) > 0.5)  # the sliver, with a mass of 1e-5
    np.testing.assert_allclose(p.mode()[1:], [4.67, 12.0], atol=0.02)
    regions = p.hpd(0.9)[1:]
    assert [len(region) for region in regions] == [1, 1]
    for own, region in zip((p[1], p[2]), regions, strict=True):
        low, high = region[0]
        assert low > 0.3
        assert own.cdf(high) - own.cdf(low) == pytest.approx(0.9, abs=1e-6)


@pytest.mark.parametrize("likely", [False, True])
def test_a_density_that_has_its_mass_at_a_bound_has_its_mode_there(likely):
    p = laws(likely=likely)[0]
    assert p.mode() == 0.0
    assert p.pdf(p.mode()) == p.pdf(0.0)
    assert p.hpd(0.9)[0, 0] == 0.0


def test_a_mode_at_a_jump_is_on_the_side_where_the_density_is():
    support = SupportMap(0.0, np.inf, (0.0018, 1.0), 1.6, 27.0)
    there = support.forward(np.array([0.05]))
    inner = ClosedFormDensity(GaussianBase(1.0), there, np.array([2.5]))
    wide = ClosedFormDensity(StudentBase(1.0, df=4.0), np.array([9.0]), np.array([6.0]))
    p = MixtureDensity([BoundedDensity(inner, support), wide], [0.998, 0.002])
    assert p.mode()[0] >= 0.0
    assert p.pdf(p.mode())[0] == pytest.approx(p.pdf(np.zeros(1))[0], rel=1e-6)


@pytest.mark.parametrize("likely", [False, True])
@pytest.mark.parametrize("confidence", [0.5, 0.99, 0.9999, 0.999999])
def test_regions_have_their_mass_with_slivers_too(likely, confidence):
    """Where the level is below the valley before a sliver, it is in the region."""
    p = laws(likely=likely)
    for own, region in zip(p, p.hpd(confidence), strict=True):
        mass = np.diff(own.cdf(region.ravel()))[::2].sum()
        assert mass == pytest.approx(confidence, abs=1e-9)
        inner = region[region != 0.0]
        heights = own.pdf(inner)
        np.testing.assert_allclose(heights, heights[0], rtol=1e-5)
