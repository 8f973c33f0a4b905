"""Charts: maps of the user's rows to the coordinates of the kernel, and back."""

import itertools

import numpy as np
import pytest
from kexpfam.models.chart import ChartOptions, fit_chart, refitted, standardizer

from kexpfam.base_densities import (
    GaussianBase,
    GaussianProcessBase,
    LinearBase,
    TransformedBase,
)
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
    return X, y[:, None], weights


def fit(rows, base, *, warp_x=False, index=slice(None)):
    X, Y, weights = (part[index] for part in rows)
    options = ChartOptions(base, warp_x=warp_x)
    return fit_chart(X, Y, weights, options, np.random.default_rng(1))


@pytest.mark.parametrize("name", BASES)
@pytest.mark.parametrize("warp_x", [False, True])
def test_charts_invert(rows, name, warp_x):
    chart = fit(rows, BASES[name], warp_x=warp_x).chart
    X, Y, _ = rows
    coordinates = chart.coordinates(chart.conditions(X))
    points = np.stack([Y, Y + 0.3], axis=1)  # two points for each row
    U = coordinates.to_kernel(points)
    assert_close(coordinates.to_user(U), points, 1e-9)


@pytest.mark.parametrize("name", BASES)
def test_log_volume_is_that_of_differences(rows, name):
    """Log |dy/du| is minus the logarithm of the slope of u(y)."""
    chart = fit(rows, BASES[name]).chart
    X, Y, _ = rows
    coordinates = chart.coordinates(chart.conditions(X))
    step = 1e-5
    up, down = (coordinates.to_kernel(Y[:, None] + s)[:, 0, 0] for s in (step, -step))
    slope = np.log((up - down) / (2 * step))
    # Truncation: step² times a third derivative of up to 1e3 near y = 0.
    assert_close(-coordinates.log_volume(Y[:, None])[:, 0], slope, 1e-6, scale=1.0)


@pytest.mark.parametrize("name", ["none", "transformed"])
def test_without_a_regression_rows_are_where_the_chart_puts_them(rows, name):
    charted = fit(rows, BASES[name])
    X, Y, _ = rows
    coordinates = charted.chart.coordinates(charted.chart.conditions(X))
    assert_close(charted.U, coordinates.to_kernel(Y[:, None])[:, 0], 1e-9)
    slope = -coordinates.log_volume(Y[:, None])[:, 0]
    assert_close(charted.log_abs_det_jacobian, slope, 1e-9)


@pytest.mark.parametrize("name", ["linear", "process", "transformed process"])
def test_residuals_of_regressions_are_held_out_and_so_wider_than_fitted_ones(
    rows, name
):
    charted = fit(rows, BASES[name])
    X, Y, weights = rows
    coordinates = charted.chart.coordinates(charted.chart.conditions(X))
    fitted = coordinates.to_kernel(Y[:, None])[:, 0, 0]
    assert weights @ charted.U[:, 0] ** 2 > weights @ fitted**2


FOLDS = [np.arange(a, b) for a, b in itertools.pairwise((0, 10, 20, 30))]


@pytest.mark.parametrize("name", BASES)
def test_refitted_rows_do_not_depend_on_the_responses_of_their_own_fold(rows, name):
    X, Y, weights = rows

    def coordinates_of(Y):
        data = X, Y, weights
        charted = fit(data, BASES[name])
        return refitted(
            charted, X, Y, lambda index: fit(data, BASES[name], index=index), FOLDS
        )

    changed = Y.copy()
    changed[3] += 2.0  # in the first fold
    before, after = coordinates_of(Y), coordinates_of(changed)
    others = np.setdiff1d(FOLDS[0], [3])
    assert_close(after.U[others], before.U[others])
    assert_close(
        after.log_abs_det_jacobian[others], before.log_abs_det_jacobian[others]
    )
    # The other folds have seen it.
    assert np.abs(after.U[10:] - before.U[10:]).max() > 1e-3


def test_refitted_rows_equal_charts_of_the_other_folds(rows):
    X, Y, _ = rows
    base = BASES["process"]
    charted = fit(rows, base)
    found = refitted(charted, X, Y, lambda index: fit(rows, base, index=index), FOLDS)
    chart = fit(rows, base, index=np.arange(10, 30)).chart
    coordinates = chart.coordinates(chart.conditions(X[:10]))
    assert_close(found.U[:10], coordinates.to_kernel(Y[:10, None])[:, 0])
    assert found.chart is charted.chart
    assert found.Z is charted.Z


def test_only_skewed_columns_of_x_are_transformed(rows):
    X, _, weights = rows
    charted = fit(rows, NOISE, warp_x=True)
    plain = fit(rows, NOISE)
    assert_close(charted.Z[:, 1], plain.Z[:, 1])

    def skewness(z):
        return np.average(z**3, weights=weights)

    assert abs(skewness(charted.Z[:, 0])) < 0.5 * skewness(plain.Z[:, 0])
    # One to one and increasing.
    order = np.argsort(X[:, 0])
    assert np.all(np.diff(charted.Z[order, 0]) > 0)


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
    _, Y, weights = rows
    charted = fit((column[:, None], Y, weights), NOISE, warp_x=True)
    assert charted.chart.x_transform is None


def test_standardised_columns_have_mean_zero_and_deviation_one(rows):
    X, _, weights = rows
    charted = fit(rows, NOISE)
    for data in (charted.Z, charted.U):
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
