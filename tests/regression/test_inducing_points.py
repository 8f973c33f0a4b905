"""The choice of inducing points against a loop over conditional variances."""

import numpy as np
import pytest

from kexpfam.regression import Hyperparameters, InducingSpec
from kexpfam.regression.inducing_process import choose_inducing_points, number_of_points
from tests.oracles.regression import slow_inducing_points
from tests.tolerances import assert_close

# Noise so small that the number of points is what was asked for.
H = Hyperparameters(0.7, 0.3, 1e-6, np.array([0.8, 2.5]))


def test_points_are_the_rows_that_the_others_explain_least():
    X = np.random.default_rng(3).normal(size=(40, 2))
    # The first row is a tie of all; from there on the order is determined.
    assert_close(choose_inducing_points(X, H, 12), slow_inducing_points(H, X, 12))


def test_no_more_points_are_taken_than_the_noise_lets_one_see():
    X = np.random.default_rng(4).normal(size=(300, 2))
    noisy = Hyperparameters(0.7, 0.3, 0.5, H.lengthscales)
    points = choose_inducing_points(X, noisy, 300)

    def unexplained(points):
        difference = (X[:, None] - points) / H.lengthscales
        cross = 0.7 * np.exp(-0.5 * (difference**2).sum(axis=2))
        difference = (points[:, None] - points) / H.lengthscales
        K = 0.7 * np.exp(-0.5 * (difference**2).sum(axis=2))
        return 0.7 - np.mean(np.sum(cross * np.linalg.solve(K, cross.T).T, axis=1))

    allowed = 3 / 300 * 0.5
    assert unexplained(points) <= allowed < unexplained(points[:-1])


def test_repeated_rows_are_taken_once():
    X = np.repeat(np.random.default_rng(5).normal(size=(6, 2)), 10, axis=0)
    points = choose_inducing_points(X, H, 60)
    assert len(points) == len(np.unique(points, axis=0)) == 6


@pytest.mark.parametrize("X", [np.zeros((50, 2)), np.zeros((50, 0))], ids=["equal", ""])
def test_rows_that_are_all_alike_need_one_point(X):
    h = Hyperparameters(0.7, 0.3, 0.1, np.ones(X.shape[1]))
    assert choose_inducing_points(X, h, 10).shape == (1, X.shape[1])


def test_candidates_are_some_of_the_rows_and_always_the_same():
    X = np.random.default_rng(6).normal(size=(100, 2))
    spec = InducingSpec(most_candidates=30)
    points = choose_inducing_points(X, H, 100, spec)
    assert len(points) <= 30
    assert all(np.any(np.all(point == X, axis=1)) for point in points)
    np.testing.assert_array_equal(points, choose_inducing_points(X, H, 100, spec))


def test_more_rows_do_not_afford_more_points():
    counts = [number_of_points(n) for n in (2001, 10_000, 20_000, 10**6, 10**9)]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] == 1500
    assert counts[-1] == 800
