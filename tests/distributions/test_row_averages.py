"""Averages of neighbouring densities, with any number of parts, against sums."""

import numpy as np
import pytest

from kexpfam.base_densities import GaussianBase
from kexpfam.distributions import (
    ClosedFormDensity,
    MixedDensity,
    NormalMixtureColumns,
    Parts,
    averaged,
)

SIZES = np.array([1, 3, 2])
WEIGHTS = np.array([1.0, 0.2, 0.5, 0.3, 0.75, 0.25])
PARTS = Parts(WEIGHTS, SIZES)
CENTERS = np.array([0.0, -3.0, 1.0, 4.0, 2.0, 2.5])
SCALES = np.array([1.0, 0.5, 1.0, 2.0, 0.3, 3.0])
GROUPS = ([0], [1, 2, 3], [4, 5])


def normals():
    """Six normal densities."""
    return ClosedFormDensity(GaussianBase(1.0), CENTERS, SCALES)


def test_methods_of_an_average_are_sums_over_its_parts():
    p, parts = averaged(normals(), PARTS), normals()
    y = np.linspace(-4.0, 6.0, 7)
    for name in ("pdf", "cdf", "sf"):
        each = getattr(parts, name)(y[None])
        slow = [WEIGHTS[own] @ each[own] for own in GROUPS]
        np.testing.assert_allclose(getattr(p, name)(y[None]), slow, rtol=1e-12)
    means = np.array([WEIGHTS[own] @ CENTERS[own] for own in GROUPS])
    squares = [WEIGHTS[own] @ (SCALES**2 + CENTERS**2)[own] for own in GROUPS]
    np.testing.assert_allclose(p.mean(), means, atol=1e-12)
    np.testing.assert_allclose(p.var(), np.array(squares) - means**2, rtol=1e-9)
    levels = [0.01, 0.3, 0.5, 0.99]
    found = p.cdf(p.quantile(levels))
    np.testing.assert_allclose(found, np.tile(levels, (3, 1)), rtol=1e-10)
    h = 1e-5
    slope = (p.logpdf(y[None] + h) - p.logpdf(y[None] - h)) / (2.0 * h)
    np.testing.assert_allclose(p.grad_logpdf(y[None]), slope, rtol=1e-6, atol=1e-8)


def test_an_average_of_one_is_that_density():
    p, alone = averaged(normals(), PARTS), normals()[:1]
    assert p.quantile(0.2)[0] == pytest.approx(alone.quantile(0.2)[0], rel=1e-12)
    assert p.mode()[0] == pytest.approx(alone.mode()[0], abs=1e-8)
    np.testing.assert_allclose(p.hpd(0.9)[0], alone.hpd(0.9)[0], rtol=1e-6)


def test_some_of_the_averages_are_what_they_were():
    p = averaged(normals(), PARTS)
    some, single = p[[2, 0]], p[1]
    np.testing.assert_allclose(
        some.quantile([0.1, 0.9]), p.quantile([0.1, 0.9])[[2, 0]]
    )
    np.testing.assert_allclose(single.pdf([0.0, 1.0]), p.pdf([[0.0, 1.0]])[1])
    draws = p.rvs(4000, random_state=0)
    np.testing.assert_allclose(draws.mean(axis=1), p.mean(), atol=0.15)


def test_of_laws_with_atoms_probabilities_and_shares_are_averaged():
    pi = np.array([[0.1], [0.9], [0.5], [0.0], [0.3], [0.6]])
    parts = MixedDensity([0.5], pi, normals())
    p, y = averaged(parts, PARTS), np.array([-1.0, 0.5, 2.0])
    assert p.measure == "mixed"
    for name in ("pdf", "cdf", "pmf"):
        each = getattr(parts, name)(y[None])
        slow = [WEIGHTS[own] @ each[own] for own in GROUPS]
        np.testing.assert_allclose(getattr(p, name)(y[None]), slow, atol=1e-14)
    means = np.array([WEIGHTS[own] @ parts.mean()[own] for own in GROUPS])
    np.testing.assert_allclose(p.mean(), means, atol=1e-12)


def test_of_mass_functions_masses_are_averaged():
    pi = np.random.default_rng(0).dirichlet(np.ones(3), size=6)
    p = averaged(MixedDensity([0.0, 1.0, 2.0], pi), PARTS)
    slow = [WEIGHTS[own] @ pi[own] for own in GROUPS]
    np.testing.assert_allclose(p.atoms.probabilities, slow, atol=1e-14)


def test_of_several_columns_moments_and_draws_agree():
    means = np.stack([CENTERS, -CENTERS], axis=1)[:, None]
    stds = np.stack([SCALES, np.ones(6)], axis=1)[:, None]
    parts = NormalMixtureColumns(np.zeros((6, 1)), means, stds)
    p = averaged(parts, PARTS)
    Y = np.array([[0.0, 1.0], [2.0, -1.0]])
    each = parts.pdf(Y[None])
    slow = [WEIGHTS[own] @ each[own] for own in GROUPS]
    np.testing.assert_allclose(p.pdf(Y[None]), slow, rtol=1e-10)
    draws = p.rvs(20_000, random_state=0)
    np.testing.assert_allclose(draws.mean(axis=1), p.mean(), atol=0.1)
    np.testing.assert_allclose(draws.std(axis=1), p.std(), rtol=0.05)
    covariances = np.stack([np.cov(rows.T) for rows in draws])
    np.testing.assert_allclose(p.cov(), covariances, atol=0.4)
    assert p[1].rvs(3, random_state=0).shape == (3, 2)
