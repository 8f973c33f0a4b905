"""Transforms for far values: bijections with the slopes that they claim."""

import numpy as np
import pytest

from kexpfam.base_densities import (
    Arcsinh,
    Composed,
    DoubleLogTails,
    TransformedBase,
    YeoJohnson,
    fit_arcsinh,
    pulled_in,
)
from tests.tolerances import DIFFERENCES, assert_close

TRANSFORMS = {
    "arcsinh": Arcsinh(1.0, 0.5),
    "arcsinh per column": Arcsinh((0.0, -2.0), (0.1, 3.0)),
    "double log": DoubleLogTails(1.0, 2.0, 3.0),
    "double log per column": DoubleLogTails((0.0, 5.0), (1.0, 0.2), (1e49, 3.0)),
    "composed": Composed(Arcsinh(1.0, 0.5), YeoJohnson(0.5, -3.0, 3.0)),
}


@pytest.fixture(params=TRANSFORMS)
def transform(request):
    return TRANSFORMS[request.param]


@pytest.fixture
def Y():
    return np.linspace(-40.0, 60.0, 251)[:, None] * np.ones(2) + 0.0123


def test_inverse_undoes_forward(transform, Y):
    assert_close(transform.inverse(transform.forward(Y)), Y, 1e-11)
    assert np.all(np.diff(transform.forward(Y), axis=0) > 0)


def test_slopes_equal_differences(transform, Y):
    step = 1e-5
    rise = (transform.forward(Y + step) - transform.forward(Y - step)) / (2 * step)
    assert_close(np.exp(transform.log_abs_det_jacobian(Y)), rise, DIFFERENCES)
    change = transform.log_abs_det_jacobian(Y + step)
    change = (change - transform.log_abs_det_jacobian(Y - step)) / (2 * step)
    for i in range(2):
        breaks = transform.column_breaks(i)
        smooth = np.abs(Y[:, i, None] - breaks).min(axis=1) > 2 * step
        assert_close(
            transform.slope_gradient(Y)[smooth, i],
            change[smooth, i],
            DIFFERENCES,
            scale=1.0,
        )


def test_breaks_are_where_the_slope_has_a_kink(transform):
    for i in range(2):
        breaks = transform.column_breaks(i)
        breaks = breaks[np.abs(breaks) < 1e40]
        points = breaks[:, None] * np.ones(2)
        gap = 1e-9 * (1.0 + np.abs(points))
        left = transform.log_abs_det_jacobian(points - gap)[:, i]
        right = transform.log_abs_det_jacobian(points + gap)[:, i]
        assert_close(left, right, 1e-6, scale=1.0)


def test_far_responses_neither_overflow_nor_leave_the_line():
    transform = Arcsinh(0.0, 1.0)
    V = np.array([[-1e3, 1e3]])
    assert np.isfinite(transform.inverse(V)).all()
    assert_close(transform.forward(transform.inverse(V)), V)


def test_lognormal_values_become_nearly_normal_and_one_value_decides_nothing():
    rng = np.random.default_rng(0)
    y = rng.lognormal(0.0, 2.0, size=(1000, 1))
    v = fit_arcsinh(y, np.ones(1000)).forward(y)[:, 0]
    assert abs(np.mean(((v - v.mean()) / v.std()) ** 3)) < 0.3
    y = rng.normal(size=(100, 1))
    without = fit_arcsinh(y, np.ones(100))
    y[0] = 1e6
    found = fit_arcsinh(y, np.ones(100))
    assert abs(found.center[0] - without.center[0]) < 0.2
    assert 0.7 < found.scale[0] / without.scale[0] < 1.4


def test_ordinary_columns_are_left_exactly_as_they_are():
    rng = np.random.default_rng(1)
    X = np.column_stack([rng.normal(size=200), rng.lognormal(size=200), np.ones(200)])
    assert pulled_in(X, np.ones(200)) is None
    X[7, 0] = 1e6
    moved = pulled_in(X, np.ones(200)).forward(X)
    np.testing.assert_array_equal(moved[:, 1:], X[:, 1:])
    assert np.argmax(moved[:, 0]) == 7
    assert moved[7, 0] < 7.0


def test_a_spline_of_far_values_has_finite_knots():
    y = np.random.default_rng(2).standard_cauchy((1000, 1))
    transform = TransformedBase("gaussianize").fitted(y / y.std(), np.ones(1000))
    v = transform.forward(y / y.std())[:, 0]
    assert abs(v.mean()) < 0.1
    assert abs(v.std() - 1.0) < 0.1


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Arcsinh(0.0, -1.0), "scale must"),
        (lambda: DoubleLogTails(width=0.0), "width must"),
        (lambda: Composed(Arcsinh(), 1.0), "must be transforms"),
    ],
)
def test_what_is_no_transform_is_refused(build, message):
    with pytest.raises(ValueError, match=message):
        build()
