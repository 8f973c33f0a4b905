"""Coordinates: maps of the user's rows to where the kernel is, and back."""

from dataclasses import replace

import numpy as np
import pytest

from kexpfam.base_densities import (
    GaussianBase,
    GaussianProcessBase,
    LinearBase,
    TransformedBase,
)
from kexpfam.data import TrainingRows
from kexpfam.family import equal_folds, fit_coordinates, refitted
from kexpfam.family.coordinates import standardizer
from tests.tolerances import assert_close

NOISE = GaussianBase(1.0)
BASES = {
    "none": NOISE,
    "linear": LinearBase(NOISE),
    "process": GaussianProcessBase(NOISE),
    "heteroscedastic": GaussianProcessBase(NOISE, heteroscedastic=True),
    "transformed": TransformedBase("yeo_johnson", NOISE),
    "transformed process": TransformedBase("yeo_johnson", GaussianProcessBase(NOISE)),
}
N = 30


@pytest.fixture(scope="module")
def rows():
    """A skewed and an ordinary column of x, a skewed positive y, uneven weights."""
    rng = np.random.default_rng(0)
    X = np.column_stack([np.exp(1.2 * rng.normal(size=N)), rng.normal(size=N)])
    y = np.exp(0.5 * X[:, 1] + 0.4 * rng.normal(size=N))
    weights = rng.uniform(0.5, 2.0, size=N)
    for array in (X, y, weights):
        array.flags.writeable = False
    return TrainingRows(X, y[:, None], weights, np.arange(N))


def fit(rows, base, *, transform_x=False, index=slice(None)):
    rng = np.random.default_rng(1)
    return fit_coordinates(rows[index], base, rng, transform_x=transform_x)


@pytest.mark.parametrize("name", BASES)
@pytest.mark.parametrize("transform_x", [False, True])
def test_coordinates_invert(rows, name, transform_x):
    coordinates = fit(rows, BASES[name], transform_x=transform_x).coordinates
    there = coordinates.at(coordinates.conditions(rows.X))
    points = np.stack([rows.Y, rows.Y + 0.3], axis=1)  # two points for each row
    U = there.to_kernel(points)
    assert_close(there.to_user(U), points, 1e-9)


@pytest.mark.parametrize("name", BASES)
def test_log_volume_is_that_of_differences(rows, name):
    """Log |dy/du| is minus the logarithm of the slope of u(y)."""
    coordinates = fit(rows, BASES[name]).coordinates
    Y, there = rows.Y, coordinates.at(coordinates.conditions(rows.X))
    step = 1e-5
    up, down = (there.to_kernel(Y[:, None] + s)[:, 0, 0] for s in (step, -step))
    slope = np.log((up - down) / (2 * step))
    # Truncation: step² times a third derivative of up to 1e3 near y = 0.
    assert_close(-there.log_volume(Y[:, None])[:, 0], slope, 1e-6, scale=1.0)


@pytest.mark.parametrize("name", BASES)
def test_new_rows_are_where_the_coordinates_put_them(rows, name):
    """Z, U and log |du/dy| of rows that have not helped."""
    coordinates = fit(rows, BASES[name], index=slice(0, 20)).coordinates
    new = rows[20:]
    Z, U, log_jacobian = coordinates.rows(new)
    there = coordinates.at(coordinates.conditions(new.X))
    assert_close(Z, coordinates.conditions(new.X))
    assert_close(U, there.to_kernel(new.Y[:, None])[:, 0])
    expected = np.broadcast_to(-there.log_volume(new.Y[:, None]), (10, 1))[:, 0]
    assert_close(log_jacobian, expected)


@pytest.mark.parametrize("name", ["none", "transformed"])
def test_without_a_regression_rows_are_where_the_coordinates_put_them(rows, name):
    placed = fit(rows, BASES[name])
    there = placed.coordinates.at(placed.coordinates.conditions(rows.X))
    assert_close(placed.U, there.to_kernel(rows.Y[:, None])[:, 0], 1e-9)
    slope = -there.log_volume(rows.Y[:, None])[:, 0]
    assert_close(placed.log_abs_det_jacobian, slope, 1e-9)


@pytest.mark.parametrize("name", ["linear", "process", "transformed process"])
def test_residuals_of_regressions_are_held_out_and_so_wider_than_fitted_ones(
    rows, name
):
    placed = fit(rows, BASES[name])
    there = placed.coordinates.at(placed.coordinates.conditions(rows.X))
    fitted = there.to_kernel(rows.Y[:, None])[:, 0, 0]
    assert rows.weights @ placed.U[:, 0] ** 2 > rows.weights @ fitted**2


FOLDS = equal_folds(N, 3)


@pytest.mark.parametrize("name", BASES)
def test_refitted_rows_do_not_depend_on_the_responses_of_their_own_fold(rows, name):
    def refitted_rows(data):
        placed = fit(data, BASES[name])
        return refitted(
            placed, data, lambda index: fit(data, BASES[name], index=index), FOLDS
        )

    changed = rows.Y.copy()
    changed[3] += 2.0  # in the first fold
    before, after = refitted_rows(rows), refitted_rows(replace(rows, Y=changed))
    others = np.setdiff1d(np.arange(N)[FOLDS[0]], [3])
    assert_close(after.U[others], before.U[others])
    assert_close(
        after.log_abs_det_jacobian[others], before.log_abs_det_jacobian[others]
    )
    # The other folds have seen it.
    assert np.abs(after.U[10:] - before.U[10:]).max() > 1e-3


def test_refitted_rows_equal_coordinates_of_the_other_folds(rows):
    base = BASES["process"]
    placed = fit(rows, base)
    found = refitted(placed, rows, lambda index: fit(rows, base, index=index), FOLDS)
    coordinates = fit(rows, base, index=np.arange(10, 30)).coordinates
    there = coordinates.at(coordinates.conditions(rows.X[:10]))
    assert_close(found.U[:10], there.to_kernel(rows.Y[:10, None])[:, 0])
    assert found.coordinates is placed.coordinates
    assert found.Z is placed.Z


def test_only_skewed_columns_of_x_are_transformed(rows):
    placed = fit(rows, NOISE, transform_x=True)
    plain = fit(rows, NOISE)
    assert_close(placed.Z[:, 1], plain.Z[:, 1])

    def skewness(z):
        return np.average(z**3, weights=rows.weights)

    assert abs(skewness(placed.Z[:, 0])) < 0.5 * skewness(plain.Z[:, 0])
    # One to one and increasing.
    order = np.argsort(rows.X[:, 0])
    assert np.all(np.diff(placed.Z[order, 0]) > 0)


@pytest.mark.parametrize(
    "column",
    [
        np.linspace(-1.0, 1.0, N) ** 3,  # not skewed
        np.repeat([0.0, 0.0, 0.0, 0.0, 9.0], 6),  # skewed, of two values
        np.full(N, 7.0),
    ],
    ids=["symmetric", "discrete", "constant"],
)
def test_columns_that_are_not_skewed_or_discrete_are_left_alone(rows, column):
    placed = fit(replace(rows, X=column[:, None]), NOISE, transform_x=True)
    assert placed.coordinates.x_transform is None


def test_standardised_columns_have_mean_zero_and_deviation_one(rows):
    X, weights = rows.X, rows.weights
    placed = fit(rows, NOISE)
    for data in (placed.Z, placed.U):
        mean = np.average(data, axis=0, weights=weights)
        assert_close(mean, np.zeros(data.shape[1]), scale=1.0)
        squares = np.average(data**2, axis=0, weights=weights)
        assert_close(squares, np.ones(data.shape[1]))
    center, scale = standardizer("X", np.full((5, 1), 3.0), np.ones(5), True)
    # Whatever comes in a column that was constant, it is as if it were the same.
    assert center[0] == 3.0
    assert abs((1e9 - center[0]) / scale[0]) < 1e-100
    center, scale = standardizer("X", X, weights, False)
    assert_close(center, np.zeros(2), scale=1.0)
    assert_close(scale, np.ones(2))
