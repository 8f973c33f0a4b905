"""Kernel quantile regression: what is chosen, and what becomes of the quantiles."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from kexpfam.baselines import KernelQuantileRegression
from kexpfam.baselines.features import KernelFeatures
from kexpfam.baselines.pinball import PinballRidge
from kexpfam.baselines.quantile_density import SCORES
from kexpfam.baselines.quantile_regression import held_out_quantiles
from kexpfam.data import Rows
from kexpfam.kernels import Gaussian
from tests.baselines.cases import wave

FIXED = {"lengthscale": 0.8, "regularization": 0.01, "least_scale": 0.05}


@pytest.fixture(scope="module")
def rows():
    return wave(80, 2.0)


def test_features_on_all_rows_are_the_kernel(rows):
    x = rows[0]
    phi = KernelFeatures.on(x, 0.7).of(x)
    np.testing.assert_allclose(phi @ phi.T, Gaussian(0.7)(x, x), atol=1e-8)


def test_quantiles_are_those_of_the_kernel_problem(rows):
    """A fit through the kernel matrix itself has the same quantiles."""
    x, y = rows
    model = KernelQuantileRegression(**FIXED).fit(x, y)
    Z = (x - x.mean(axis=0)) / x.std(axis=0)
    u = (y - y.mean()) / y.std()
    values, vectors = np.linalg.eigh(Gaussian(0.8)(Z, Z))
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    (found,) = PinballRidge(root, u, np.full(80, 1 / 80)).path(
        model.levels_, np.array([0.01])
    )
    room = 0.05 * np.diff(SCORES.column_quantile(model.levels_, 0))
    expected = found.at(root)
    wide = np.all(np.diff(expected, axis=1) > room, axis=1)
    assert wide.any()
    quantiles = model.predict_quantiles(x, model.levels_)
    np.testing.assert_allclose(
        quantiles[wide], (expected * y.std() + y.mean())[wide], atol=1e-3
    )


def test_quantiles_keep_the_least_distance(rows):
    x, y = rows
    model = KernelQuantileRegression(**(FIXED | {"least_scale": 0.5})).fit(x, y)
    new = np.random.default_rng(1).normal(size=(200, 2))
    apart = np.diff(model.predict_quantiles(new, model.levels_), axis=1) / y.std()
    room = 0.5 * np.diff(SCORES.column_quantile(model.levels_, 0))
    assert np.all(apart > room - 1e-9)


@pytest.mark.parametrize("select", ["likelihood", "pinball"])
def test_the_best_of_the_grid_is_used(rows, select):
    x, y = rows
    model = KernelQuantileRegression(select=select, random_state=0).fit(x, y)
    trials = model.selection_
    i, j = np.unravel_index(np.argmin(trials.losses), trials.losses.shape)
    assert model.lengthscale_ == trials.lengthscales[i]
    assert model.regularization_ == trials.regularizations[j]


def test_held_out_quantiles_are_those_of_separate_fits(rows):
    x, y = rows
    data = Rows(x, y[:, None], np.random.default_rng(0).uniform(1, 2, size=80))
    levels, ells, lams = (
        np.array([0.2, 0.6]),
        np.array([0.5, 1.5]),
        np.array([1.0, 0.1]),
    )
    folds = np.array_split(np.arange(80), 4)
    found = held_out_quantiles(data, x, folds, levels, ells, lams)
    for i, ell in enumerate(ells):
        for j, lam in enumerate(lams):
            phi = KernelFeatures.on(x, ell).of(x)
            for fold in folds:
                kept = np.setdiff1d(np.arange(80), fold)
                shares = data.weights[kept] / data.weights[kept].sum()
                alone = PinballRidge(phi[kept], y[kept], shares)
                (exact,) = alone.path(levels, np.array([lam]))
                # Trials stop at a thousandth, where single values may still move more.
                np.testing.assert_allclose(
                    found[i, j, fold], exact.at(phi[fold]), atol=0.06
                )


def test_a_spread_that_changes_is_found():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, size=(400, 1))
    y = np.exp(x[:, 0]) * rng.normal(size=400)
    model = KernelQuantileRegression(random_state=0).fit(x, y)
    low, high = np.diff(model.predict_interval([[-0.8], [0.8]], 0.8), axis=1)[:, 0]
    truth = 2 * 1.2816 * np.exp([-0.8, 0.8])
    np.testing.assert_allclose([low, high], truth, rtol=0.25)


def test_rounded_responses_bound_the_least_scale(rows):
    x, y = rows
    model = KernelQuantileRegression(random_state=0).fit(x, np.round(y))
    assert model.least_scale_ * np.round(y).std() >= np.sqrt(1 / 12) - 1e-9


def test_steps_that_were_not_enough_are_told(rows):
    with pytest.warns(ConvergenceWarning, match="not exact after 2 steps"):
        KernelQuantileRegression(**FIXED, max_iter=2).fit(*rows)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"levels": [0.5]}, "levels must be two or more increasing numbers"),
        ({"levels": [0.5, 0.2]}, "levels must be two or more increasing numbers"),
        ({"levels": [0.0, 0.5]}, "levels must be two or more increasing numbers"),
        ({"select": "score"}, "select must be one of 'likelihood', 'pinball'"),
        ({"regularization": -1.0}, "regularization must be a positive number"),
        ({"n_folds": 1}, "n_folds must be a whole number from 2 on"),
    ],
)
def test_what_is_wrong_is_named(rows, arguments, message):
    with pytest.raises(ValueError, match=message):
        KernelQuantileRegression(**arguments).fit(*rows)


def test_several_columns_of_y_are_refused(rows):
    x, y = rows
    with pytest.raises(ValueError, match="one column for KernelQuantileRegression"):
        KernelQuantileRegression().fit(x, np.column_stack([y, y]))
