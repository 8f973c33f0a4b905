"""The metric that is measured is the average outer product of gradients."""

import importlib
from pathlib import Path

import numpy as np
import pytest

from kexpfam.regression import fit_gaussian_process
from tests.tolerances import DIFFERENCES, SOLVE, assert_close

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def metric(monkeypatch):
    # Scripts in benchmarks import each other as they do when they are run.
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module("metric")


def rows(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal([0.0, 5.0, -1.0], [1.0, 3.0, 0.2], size=(n, 3))
    return X, np.sin(X[:, 0] + X[:, 1]) + 4.0 * X[:, 2] + 0.1 * rng.normal(size=n)


def slow_gradients(process, X, step=1e-5):
    """Central differences of the mean, in steps of each column's deviation."""
    found = np.empty_like(X)
    for j, unit in enumerate(X.std(axis=0)):
        move = step * unit * np.eye(X.shape[1])[j]
        ahead, behind = process.predict(X + move)[0], process.predict(X - move)[0]
        found[:, j] = (ahead - behind) / (2 * step * unit)
    return found


def test_gradients_of_the_mean_equal_differences(metric):
    X, y = rows(60)
    process = fit_gaussian_process(X, y).process
    expected = slow_gradients(process, X)
    assert_close(metric.mean_gradients(process, X), expected, DIFFERENCES)


@pytest.mark.parametrize("times", [1, 2])
def test_metric_is_the_average_outer_product(metric, times):
    X, y = rows(60)
    expected, root = None, np.eye(3)
    for _ in range(times):
        process = fit_gaussian_process(X @ root, y).process
        # A mean of x, whose differences are taken there and not at x times the root.
        gradients = np.array(
            [root @ gradient for gradient in slow_gradients(process, X @ root)]
        )
        expected = sum(np.outer(g, g) for g in gradients)
        expected *= 3 / np.trace(expected)
        root = metric.symmetric_root(expected)
    assert_close(metric.learned_metric(X, y, times), expected, DIFFERENCES)


def test_root_and_directions_are_those_of_the_metric(metric):
    A = np.random.default_rng(0).normal(size=(5, 5))
    M = A @ A.T
    root = metric.columns("root", M)
    assert_close(root @ root, M, SOLVE)
    V = metric.columns("directions", M)
    values = np.diag(V.T @ M @ V)
    assert_close(V.T @ M @ V, np.diag(values), SOLVE)
    assert np.all(np.diff(values) < 0)
    added = metric.columns("added", M)
    assert_close(added, np.column_stack([np.eye(5), V[:, :3]]), SOLVE)
