"""Every tolerance of the tests, each with the reason for its size.

Tests say *what kind* of comparison they make; how close that must be is decided here.
"""

import numpy as np
from numpy.testing import assert_allclose

# The same numbers in another order of operations: a few hundred roundings.
ROUNDING = 1e-11

# A derivative by Cauchy's formula has an error of about eps times Cauchy's bound
# r! s! max|k| / hʳ⁺ˢ; the library's own rounding (relative to squared distances of up
# to a hundred squared lengthscales) is of the same size.
CAUCHY = 1e-12

# Fits are compared after a linear solve. The oracle's matrix is good to about 1e-10
# (Matérn derivatives near a coincidence), and the systems in the tests have condition
# numbers up to 1e3.
SOLVE = 1e-7

# scipy.integrate.quad is asked for 1e-12 and reaches 1e-10 on what is integrated here.
QUADRATURE = 1e-9

# dblquad is asked for 1e-9 to stay fast, and tensor quadrature for 1e-8.
PLANE_QUADRATURE = 1e-7

# Central differences of step 1e-5 have an error of about step² = 1e-10 times the third
# derivative, and eps/step = 2e-11 times the function.
DIFFERENCES = 1e-7

# Minimisers are known to the square root of the precision of the minimum.
MINIMISER = 1e-6

# Monte Carlo averages may be this many standard errors away. With a fixed seed the
# risk, 6e-5 for each comparison, is taken once, when the test is written.
STANDARD_ERRORS = 4.0

# Kolmogorov-Smirnov tests must not reject at this level; again with a fixed seed.
KS_LEVEL = 1e-3


def assert_close(actual, expected, tolerance=ROUNDING, *, scale=None):
    """Compare relative to `scale`, by default the largest expected magnitude.

    Entries of one array share a scale: an entry that is small by cancellation cannot be
    more accurate than the terms that cancelled.
    """
    expected = np.asarray(expected, dtype=float)
    if scale is None:
        finite = np.abs(expected[np.isfinite(expected)])
        scale = max(1e-300, float(finite.max(initial=0.0)))
    assert_allclose(actual, expected, rtol=0.0, atol=tolerance * np.max(scale))
