"""Densities that tests of several rooms build, and what they check of all of them."""

import numpy as np
from scipy import optimize

from kexpfam import KCEF
from kexpfam.base_densities import GaussianBase
from kexpfam.distributions import ClosedFormDensity
from kexpfam.kernels import Gaussian
from tests.tolerances import QUADRATURE, assert_close


def closed_form(location, scale=1.0, base=None):
    """Densities of y = location + scale·z, z standard normal unless told otherwise."""
    location, scale = np.broadcast_arrays(np.asarray(location, float), scale)
    return ClosedFormDensity(base or GaussianBase(1.0), location, scale)


def untuned(base=None, *, ell_x=1.0, ell_y=0.8, lam=0.01):
    """A KCEF with Gaussian kernels, in which nothing is chosen."""
    return KCEF(
        select=None,
        kernel_x=Gaussian(ell_x),
        kernel_y=Gaussian(ell_y),
        regularization=lam,
        base=base,
        random_state=0,
    )


def assert_distribution_function(p, slow, levels):
    """Both tails of a single density at quantiles equal those of its oracle."""
    assert_close(slow.total, 1.0, QUADRATURE)
    for y in p.ppf(levels):
        assert_close(p.cdf(y), slow.cdf(y), QUADRATURE, scale=1.0)
        assert_close(p.sf(y), 1 - slow.cdf(y), QUADRATURE, scale=1.0)


def highest_point(p, grid):
    """Where a single density is largest near the best point of a grid; log p there."""
    best = grid[p.logpdf(grid).argmax()]
    found = optimize.minimize_scalar(
        lambda y: -float(p.logpdf([y])[0]),
        bounds=(best - 0.01, best + 0.01),
        method="bounded",
        options={"xatol": 1e-10},
    )
    return found.x, -found.fun
