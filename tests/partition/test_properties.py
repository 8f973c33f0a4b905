"""Random densities on the line: what is integrated is one, and known."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy import special

from kexpfam.partition import integrate_line
from tests.properties import searched

part = st.tuples(st.floats(-5.0, 5.0), st.floats(0.05, 3.0), st.floats(0.01, 1.0))


def normals(parts):
    """Σ w N(m, s²): log density, distribution function, mean and variance."""
    m, s, w = np.array(parts).T
    w = w / w.sum()

    def log_density(u):
        z = (u[:, None] - m) / s
        terms = np.log(w / s) - 0.5 * z**2 - 0.5 * np.log(2 * np.pi)
        return special.logsumexp(terms, axis=1)

    mean = w @ m
    var = w @ (s**2 + m**2) - mean**2
    return log_density, lambda u: special.ndtr((u[:, None] - m) / s) @ w, mean, var


@searched(60)
@given(
    st.lists(st.lists(part, min_size=1, max_size=4), min_size=1, max_size=3),
    st.floats(-800.0, 800.0),
)
def test_mixtures_of_normals_have_their_constant_and_distribution_function(
    rows, constant
):
    laws = [normals(parts) for parts in rows]
    found = integrate_line(
        lambda u: np.stack([law[0](u) for law in laws]) + constant,
        np.linspace(-6.0, 6.0, 241),  # half of the narrowest width
        extend=(True, True),
    )
    size = 1.0 + abs(constant)
    np.testing.assert_allclose(found.log_partition, constant, atol=1e-10 * size)
    assert np.all(np.abs(found.log_partition - constant) <= found.error + 1e-13 * size)
    u = np.linspace(-12.0, 12.0, 101)
    below = found.cells.cdf(np.tile(u, (len(rows), 1)))
    assert np.all(np.diff(below, axis=1) >= -1e-12)
    above = found.cells.sf(np.tile(u, (len(rows), 1)))
    np.testing.assert_allclose(below + above, 1.0, atol=1e-11)
    for row, (_, cdf, mean, var) in enumerate(laws):
        np.testing.assert_allclose(below[row], cdf(u), atol=1e-9)
        nodes = found.cells.nodes
        np.testing.assert_allclose(found.cells.integral(nodes)[row], mean, atol=1e-8)
        square = found.cells.integral((nodes - mean) ** 2)[row]
        np.testing.assert_allclose(square, var, atol=1e-7)


@searched(40)
@given(
    st.lists(st.floats(-8.0, 8.0), min_size=1, max_size=6),
    st.floats(0.5, 20.0),
    st.floats(-50.0, 50.0),
)
def test_polynomials_on_an_interval_integrate_to_one(coefficients, width, left):
    """Whatever the exponent is: a rule that shares nothing says that it is one."""
    right = left + width

    def log_density(u):
        t = 2.0 * (u - left) / width - 1.0
        return np.polynomial.chebyshev.chebval(t, coefficients)[None]

    found = integrate_line(
        log_density, np.linspace(left, right, 9), extend=(False, False)
    )
    u = np.linspace(left, right, 20_001)
    pdf = np.exp(log_density(u)[0] - found.log_partition[0])
    # Simpson's rule: the fourth power of the step.
    weights = np.where(np.arange(len(u)) % 2, 4.0, 2.0)
    weights[[0, -1]] = 1.0
    np.testing.assert_allclose(
        weights @ pdf * (u[1] - u[0]) / 3.0, 1.0, rtol=0, atol=1e-7
    )
