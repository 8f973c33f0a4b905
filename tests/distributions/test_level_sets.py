"""Highest-density regions of fitted models are level sets with their mass."""

import numpy as np
import pytest

from kexpfam import KCEF, AutoKCEF
from kexpfam.base_densities import StudentBase
from kexpfam.distributions import BoundedDensity, MixtureDensity, SupportMap
from kexpfam.distributions.regions import highest_density_regions
from kexpfam.partition import CellDensity
from tests.densities import closed_form


@pytest.fixture(scope="module")
def fitted():
    """Densities with kinks where their coordinates have knots or become straight.

    By name, with the ends that parts of them have.
    """
    rng = np.random.default_rng(1)
    x = rng.uniform(0.0, 1.0, 600)
    gamma = AutoKCEF(random_state=0).fit(x[:, None], rng.gamma(3.0, 1.0 + x))
    rng = np.random.default_rng(0)
    x = rng.uniform(0.0, 1.0, 800)
    exponential = KCEF(base=StudentBase(), lower=0.0, random_state=0)
    exponential.fit(x[:, None], rng.exponential(1.0 + x))
    rng = np.random.default_rng(0)
    x = np.linspace(0.0, 1.0, 800)
    cauchy = AutoKCEF(atoms=False, random_state=0)
    cauchy.fit(x[:, None], 2.0 * x + 0.1 * rng.standard_cauchy(800))
    models = {"gamma": gamma, "exponential": exponential, "cauchy": cauchy}
    return {name: model.given([[0.5], [0.8]]) for name, model in models.items()}


@pytest.mark.parametrize("name", ["gamma", "exponential", "cauchy"])
@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.99, 0.998, 0.999, 0.9999])
def test_regions_are_level_sets_with_their_mass(fitted, name, confidence):
    bound = None if name == "cauchy" else 0.0
    for p in fitted[name]:
        region = p.hpd(confidence)
        mass = np.diff(p.cdf(region.ravel()))[::2].sum()
        assert mass == pytest.approx(confidence, abs=1e-9)
        ends = region.ravel()
        levels = p.pdf(ends[ends != bound])
        np.testing.assert_allclose(levels, levels[0], rtol=1e-4)
        if bound in ends:  # where the density jumps
            assert p.pdf(bound) > levels[0]
        y = p.quantile(np.linspace(1e-5, 1.0 - 1e-5, 501))
        inside = ((y[:, None] >= region[:, 0]) & (y[:, None] <= region[:, 1])).any(1)
        heights = p.pdf(y)
        assert heights[inside].min() >= levels[0] * (1.0 - 1e-4)
        assert heights[~inside].max(initial=0.0) <= levels[0] * (1.0 + 1e-4)


@pytest.mark.parametrize("name", ["gamma", "exponential", "cauchy"])
@pytest.mark.parametrize("confidence", [0.0, 1e-300, 1e-12])
def test_regions_of_next_to_no_mass_are_at_the_mode(fitted, name, confidence):
    p = fitted[name]
    for mode, region in zip(p.mode(), p.hpd(confidence), strict=True):
        np.testing.assert_allclose(region, [[mode, mode]], atol=1e-3)


@pytest.mark.parametrize("confidence", [0.0, 1e-300])
def test_regions_of_no_mass_of_what_is_flat_are_a_point(confidence):
    heights = np.array([[0.25, 0.25, 0.25, 0.25], [0.1, 0.2, 0.3, 0.4]])
    density = np.repeat(heights[..., None], 16, axis=2)
    cells = CellDensity(np.tile(np.arange(5.0), (2, 1)), density)
    flat, steps = highest_density_regions(cells, confidence)
    np.testing.assert_allclose(flat, [[2.0, 2.0]])
    np.testing.assert_allclose(steps, [[3.5, 3.5]])


def test_a_region_between_two_doubles_is_there():
    mixture = MixtureDensity(
        [closed_form([0.0], 1e-150), closed_form([3e-150], 1e-150)], [0.5, 0.5]
    )
    support = SupportMap(0.0, np.inf, (0.05, 1.0), 1.5)
    (region,) = BoundedDensity(mixture, support).hpd(0.9)
    middle = support.inverse(np.zeros(1))[0]
    np.testing.assert_allclose(region, [[middle, middle]], rtol=1e-15)
