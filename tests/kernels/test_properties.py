"""Random kernels: derivatives are those of differences, and matrices are kernels."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kexpfam.kernels import (
    Constant,
    Gaussian,
    InverseMultiquadric,
    Matern,
    RationalQuadratic,
    separable,
)
from tests.properties import searched

lengths = st.floats(0.2, 5.0)
simple = st.one_of(
    lengths.map(Gaussian),
    st.builds(RationalQuadratic, lengths, alpha=st.floats(0.2, 6.0)),
    st.builds(InverseMultiquadric, lengths, power=st.floats(0.2, 3.0)),
    st.builds(Matern, lengths, nu=st.sampled_from([2.5, 3.5, 4.5])),
    st.builds(Constant, st.floats(0.1, 3.0)),
)
kernels = st.recursive(
    simple,
    lambda k: st.one_of(
        st.builds(lambda a, b: a + b, k, k),
        st.builds(lambda a, b: a * b, k, k),
        st.builds(lambda a, c: c * a, k, st.floats(0.1, 4.0)),
    ),
    max_leaves=4,
)


def points(seed, n, d, apart=1.0):
    return apart * np.random.default_rng(seed).normal(size=(n, d))


seeds = st.integers(0, 2**32 - 1)
dimensions = st.integers(1, 3)


@searched(40)
@given(kernels, seeds, dimensions, st.data())
def test_derivatives_are_those_of_differences(kernel, seed, d, data):
    """Each derivative is the difference of the one below it, in y or in y'."""
    A, B = points(seed, 3, d), points(seed + 1, 3, d)
    i, j = (data.draw(st.integers(0, d - 1)) for _ in range(2))
    r, s = (data.draw(st.integers(0, 2)) for _ in range(2))
    step = 1e-5
    along = step * np.eye(d)
    found = kernel.at(A, B).partial(r, i, s, j)
    if r:
        up, down = (
            kernel.at(A + sign * along[i], B).partial(r - 1, i, s, j)
            for sign in (1, -1)
        )
    elif s:
        up, down = (
            kernel.at(A, B + sign * along[j]).partial(r, i, s - 1, j)
            for sign in (1, -1)
        )
    else:
        np.testing.assert_allclose(found, kernel.values(A, B), rtol=1e-12)
        return
    # Truncation: step² times a derivative two orders above, which has up to ℓ⁻⁷.
    size = max(1.0, float(np.abs(up).max()))
    np.testing.assert_allclose(found, (up - down) / (2 * step), atol=3e-4 * size)


@searched(40)
@given(kernels, seeds, dimensions, st.integers(1, 12))
def test_matrices_of_values_and_of_derivatives_are_positive_semidefinite(
    kernel, seed, d, n
):
    """All functions k(y, ·) and ∂ᵢk(y, ·) together have one Gram matrix."""
    Y = points(seed, n, d)
    pairs = kernel.at(Y, Y)
    orders = [(0, 0), *((1, i) for i in range(d))]
    gram = np.block([[pairs.partial(r, i, s, j) for s, j in orders] for r, i in orders])
    np.testing.assert_allclose(gram, gram.T, atol=1e-12 * np.abs(gram).max())
    smallest = np.linalg.eigvalsh(0.5 * (gram + gram.T)).min()
    assert smallest >= -1e-10 * np.trace(gram)


@searched(25)
@given(kernels, kernels, seeds, dimensions)
def test_joint_kernels_are_sums_of_products(kx, ky, seed, d):
    X, Y = points(seed, 4, 2), points(seed + 1, 4, d)
    joint = separable(kx, ky) + separable(Constant(0.5), Gaussian(1.0))
    slow = kx.values(X, X) * ky.values(Y, Y) + 0.5 * Gaussian(1.0).values(Y, Y)
    found = sum(a.values(X, X) * b.values(Y, Y) for a, b in joint.products)
    np.testing.assert_allclose(found, slow, rtol=1e-12)
