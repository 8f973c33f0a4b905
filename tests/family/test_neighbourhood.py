"""How many training rows are near: one by one, and by some that stand for all."""

import numpy as np
import pytest

from kexpfam.family.neighbourhood import Neighbourhood
from tests.tolerances import assert_close


def rows(n, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 2)) * [1.0, 5.0] + [0.0, 40.0], rng.uniform(0.5, 2.0, n)


def counted(near, X, weights, place):
    """Σ w exp(−½‖(z − z_i)/width‖²), row by row."""
    total = 0.0
    for x, weight in zip(X, weights, strict=True):
        z = (x - place) / near.scale / near.width
        total += weight * np.exp(-0.5 * float(z @ z))
    return total


@pytest.mark.parametrize("n", [50, 1000])
def test_few_rows_are_all_counted(n):
    X, weights = rows(n)
    near = Neighbourhood.of(X, weights)
    assert len(near.rows) == n
    places = np.array([[0.0, 40.0], [2.0, 30.0]])
    slow = [counted(near, X, weights, place) for place in places]
    assert_close(near.count(places), slow, 1e-9)


@pytest.mark.parametrize("n", [1001, 1500, 5000])
def test_some_rows_stand_for_many(n):
    """A thousand of them: their weights are those of all, to the last row."""
    X, weights = rows(n)
    near = Neighbourhood.of(X, weights)
    assert near.rows.shape == (1000, 2)
    assert near.weights.sum() == pytest.approx(weights.sum(), rel=1e-12)
    place = np.array([0.0, 40.0])
    slow = counted(near, X, weights, place)
    shares = np.exp(-0.5 * (((X - place) / near.scale / near.width) ** 2).sum(axis=1))
    error = n * np.std(weights * shares) / np.sqrt(1000)
    assert abs(float(near.count(place[None])[0]) - slow) < 4.0 * error


def test_near_is_a_quarter_of_the_median_distance():
    X, weights = rows(200)
    near = Neighbourhood.of(X, weights)
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    gaps = np.sqrt(((Z[:, None] - Z) ** 2).sum(axis=2))[np.triu_indices(200, 1)]
    assert near.width == pytest.approx(0.25 * np.median(gaps), rel=0.05)
    assert Neighbourhood.of(X, weights, medians=1.0).width == 4.0 * near.width


def test_a_column_that_is_constant_is_nowhere_far():
    X = np.column_stack([np.linspace(0.0, 1.0, 30), np.full(30, 7.0)])
    near = Neighbourhood.of(X, np.ones(30))
    assert near.scale[1] == 1.0
    assert near.count(np.array([[0.5, 7.0]]))[0] > 1.0


def test_other_totals_scale_the_counts():
    X, weights = rows(60)
    near = Neighbourhood.of(X, weights)
    assert_close(near.scaled(600.0).weights.sum(), 600.0)
    twice = near.scaled(2.0 * weights.sum())
    assert_close(twice.count(X[:3]), 2.0 * near.count(X[:3]))


@pytest.mark.parametrize("unit", [1e-3, 0.3, 1e4])
def test_units_of_the_conditions_change_no_count(unit):
    X, weights = rows(200)
    place = np.array([[0.5, 38.0]])
    one = Neighbourhood.of(X, weights).count(place)
    other = Neighbourhood.of(unit * X, weights).count(unit * place)
    assert_close(other, one, 1e-9)
    # A column that does not vary takes no part.
    wide = np.column_stack([X, np.full(200, 7.0)])
    with_it = Neighbourhood.of(wide, weights).count(np.column_stack([place, [[7.0]]]))
    assert_close(with_it, one, 1e-9)
