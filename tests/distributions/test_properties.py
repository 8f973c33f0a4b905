"""Random mixtures: distribution functions increase, and quantiles invert them."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kexpfam.base_densities import (
    GaussianBase,
    GeneralizedGaussianBase,
    StudentBase,
)
from kexpfam.distributions import (
    ClosedFormDensity,
    MixtureDensity,
    NormalMixtureDensity,
)
from tests.properties import searched

LEVELS = np.array([1e-6, 0.01, 0.2, 0.5, 0.8, 0.99, 1 - 1e-6])
places, widths = st.floats(-20.0, 20.0), st.floats(0.01, 5.0)
bases = st.sampled_from(
    [GaussianBase(1.0), StudentBase(1.0, df=4.0), GeneralizedGaussianBase(1.0, 6.0)]
)
component = st.tuples(bases, places, widths, st.floats(1e-3, 1.0))


def mixture(parts):
    weights = np.array([weight for *_, weight in parts])
    densities = [
        ClosedFormDensity(base, np.array([place]), np.array([width]))
        for base, place, width, _ in parts
    ]
    return MixtureDensity(densities, weights / weights.sum())


def check(p):
    """What holds for every density of one row."""
    y = p.quantile(LEVELS)[0]
    assert np.all(np.diff(y) > 0)
    np.testing.assert_allclose(p.cdf(y[None])[0], LEVELS, rtol=1e-6, atol=1e-9)
    wide = y[-2] - y[1]
    points = np.linspace(y[0] - wide, y[-1] + wide, 301)[None]
    below, above = p.cdf(points)[0], p.sf(points)[0]
    assert np.all(np.diff(below) >= -1e-12)
    assert np.all(np.diff(above) <= 1e-12)
    np.testing.assert_allclose(below + above, 1.0, atol=1e-9)
    assert np.all(p.pdf(points) >= 0)
    low, high = p.interval(0.9)[0]
    mass = float(p.cdf(np.array([[high]]))[0, 0] - p.cdf(np.array([[low]]))[0, 0])
    np.testing.assert_allclose(mass, 0.9, atol=1e-7)
    smallest = sum(end - start for start, end in p.hpd(0.9)[0])
    assert smallest <= (high - low) * (1 + 1e-6)


@searched(40)
@given(st.lists(component, min_size=1, max_size=4))
def test_mixtures(parts):
    p = mixture(parts)
    check(p)
    y = np.linspace(-25.0, 25.0, 101)[None]
    total = sum(
        w * part.pdf(y) for w, part in zip(p.weights, p.components, strict=True)
    )
    np.testing.assert_allclose(p.pdf(y), total, atol=1e-12 * max(1.0, total.max()))


@searched(40)
@given(
    st.lists(st.tuples(places, widths, st.floats(1e-3, 1.0)), min_size=1, max_size=5)
)
def test_mixtures_of_normals(parts):
    means, stds, weights = np.array(parts).T
    weights = weights / weights.sum()
    p = NormalMixtureDensity(np.log(weights)[None], means[None], stds[None])
    check(p)
    np.testing.assert_allclose(p.mean()[0], weights @ means, atol=1e-9 * 20)
