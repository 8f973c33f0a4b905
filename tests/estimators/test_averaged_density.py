"""The density of an average is that of its members, however it is put together."""

import numpy as np
import pytest

from kexpfam import AutoKCEF
from kexpfam.distributions import ClosedFormDensity, UnivariateDensity
from tests.tolerances import assert_close


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, size=(60, 1))
    y = x[:, 0] + rng.normal(size=60)
    return AutoKCEF(random_state=0, likelihood=False).fit(x, y)


CONDITIONS = np.array([[-0.5], [0.0], [0.9]])
POINTS = np.array([[-2.0, -0.3, 0.5, 1.8]])


def test_densities_are_the_weighted_sum_of_those_of_the_members(model):
    p = model.given(CONDITIONS)
    defensive = model.defensive_.density(CONDITIONS)
    expected = model.members_.defensive * defensive.pdf(POINTS)
    for member in model.members_:
        expected += member.weight * member.family.density(CONDITIONS).pdf(POINTS)
    assert_close(p.density.pdf(POINTS), expected, 1e-9)
    # And behind the map of PIT values.
    g = model.calibration_.pdf(p.density.cdf(POINTS))
    assert_close(p.pdf(POINTS), expected * g, 1e-9)


def test_members_without_a_function_need_no_quadrature(model):
    kinds = set()
    for member in model.members_:
        family, coordinates = member.family, member.family.coordinates
        Z = coordinates.conditions(CONDITIONS)
        there = coordinates.at(Z)
        p = family.closed_form(there) or family.normalized(Z, there)
        slow = member.family.density(CONDITIONS)
        plain = member.candidate.kernel is None and coordinates.transform is None
        kinds.add(plain)
        assert isinstance(p, ClosedFormDensity if plain else UnivariateDensity)
        for method in ("logpdf", "cdf", "sf"):
            assert_close(
                getattr(p, method)(POINTS), getattr(slow, method)(POINTS), 1e-9
            )
        # A Student's tails end where 1e-12 of the second moment is left.
        assert_close(p.mean(), slow.mean(), 1e-8, scale=1.0)
        assert_close(p.std(), slow.std(), 1e-6)
    assert kinds == {True, False}
