"""Random rows: coordinates go there and back, and their Jacobian is that of slopes."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kexpfam.base_densities import (
    GaussianBase,
    LinearBase,
    TransformedBase,
    TruncatedBase,
)
from kexpfam.base_densities.transforms import fit_gaussianize, fit_yeo_johnson
from kexpfam.data import TrainingRows
from kexpfam.family import fit_coordinates
from tests.properties import searched

LAWS = {
    "normal": lambda rng, n: rng.normal(size=n),
    "skewed": lambda rng, n: np.exp(rng.normal(size=n)),
    "heavy": lambda rng, n: rng.standard_t(2.0, size=n),
    "two": lambda rng, n: rng.choice([-3.0, 3.0], n) + 0.2 * rng.normal(size=n),
    "repeated": lambda rng, n: np.round(rng.normal(size=n), 1) + 1e-3 * np.arange(n),
}
BASES = {
    "plain": GaussianBase(1.0),
    "linear": LinearBase(GaussianBase(1.0)),
    "yeo_johnson": TransformedBase("yeo_johnson", GaussianBase(1.0)),
    "gaussianize": TransformedBase("gaussianize", LinearBase(GaussianBase(1.0))),
    "truncated": TruncatedBase(GaussianBase(2.0), lower=-1e9),
}
seeds = st.integers(0, 2**32 - 1)
units = st.integers(-6, 6).map(lambda k: 10.0**k)


def sample(law, seed, n, unit):
    return LAWS[law](np.random.default_rng(seed), n) * unit


@searched(60)
@given(st.sampled_from(sorted(LAWS)), seeds, st.integers(5, 60))
def test_transforms_increase_and_invert(law, seed, n):
    y = sample(law, seed, n, 1.0)[:, None]
    y = (y - y.mean()) / y.std()
    for fit in (fit_yeo_johnson, fit_gaussianize):
        transform = fit(y, np.ones(n))
        # Far beyond the data, too, where straight lines go on.
        wide = np.ptp(y)
        points = np.linspace(y.min() - 3 * wide, y.max() + 3 * wide, 200)[:, None]
        there = transform.forward(points)
        assert np.all(np.diff(there[:, 0]) > 0)
        np.testing.assert_allclose(transform.inverse(there), points, atol=1e-7 * wide)
        step = 1e-6 * wide
        slope = transform.forward(points + step) - transform.forward(points - step)
        breaks = transform.column_breaks(0)
        smooth = np.abs(points - breaks).min(axis=1) > 3 * step
        np.testing.assert_allclose(
            transform.log_abs_det_jacobian(points)[smooth],
            np.log(slope / (2 * step))[smooth],
            atol=1e-3,
        )


@searched(60)
@given(
    st.sampled_from(sorted(BASES)),
    st.sampled_from(sorted(LAWS)),
    seeds,
    st.integers(8, 40),
    units,
    units,
    st.booleans(),
)
def test_coordinates_go_there_and_back(base, law, seed, n, x_unit, y_unit, skewed):
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.lognormal(size=n), rng.normal(size=n)]) * x_unit
    y = sample(law, seed, n, y_unit) + 0.5 * y_unit * X[:, 1] / x_unit
    rows = TrainingRows(X, y[:, None], rng.uniform(0.5, 2.0, n), np.arange(n))
    placed = fit_coordinates(rows, BASES[base], rng, transform_x=skewed)
    coordinates = placed.coordinates
    Z, U, log_jacobian = coordinates.rows(rows)
    there, wide = coordinates.at(Z), float(np.ptp(y))
    np.testing.assert_allclose(
        there.to_user(U[:, None])[:, 0], rows.Y, atol=1e-8 * (wide + np.abs(y).max())
    )
    step = 1e-6 * wide
    up, down = (there.to_kernel((rows.Y + s)[:, None])[:, 0] for s in (step, -step))
    slope = np.log((up - down) / (2 * step))[:, 0]
    # At knots of a spline the slope of differences is between those of both sides.
    assert np.median(np.abs(log_jacobian - slope)) < 1e-5
    assert np.max(np.abs(log_jacobian - slope)) < 0.2
