"""Where pictures begin: at a row that occurs, and what is said where few are near."""

from types import SimpleNamespace

import numpy as np

from kexpfam import KCEF
from kexpfam.display import extrapolated, typical_place

# Two numbers, and a category of two.
FEATURES = [[0], [1], [2, 3]]


def two_kinds(n=40, seed=0):
    """Rows of A around (0, 0) and of B around (10, 10), with one more of A."""
    rng = np.random.default_rng(seed)
    is_a = np.arange(2 * n + 1) <= n
    numbers = rng.normal(size=(len(is_a), 2)) + 10.0 * ~is_a[:, None]
    return np.column_stack([numbers, is_a, ~is_a])


def slow_place(X, wanted):
    """Nearest row to wanted numbers and a category, by a loop."""
    deviation = X.std(axis=0)
    best, least = -1, np.inf
    for i, row in enumerate(X):
        distance = sum(((row[j] - wanted[j]) / deviation[j]) ** 2 for j in (0, 1))
        distance += row[2] != wanted[2]
        if distance < least:
            best, least = i, distance
    return best


def test_the_typical_row_is_nearest_to_medians_and_modes():
    X = two_kinds()
    wanted = [np.median(X[:, 0]), np.median(X[:, 1]), 1.0]
    assert typical_place(X, FEATURES) == slow_place(X, wanted)


def test_a_given_category_takes_a_typical_row_of_its_own():
    X = two_kinds()
    of_b = X[X[:, 3] == 1.0]
    place = typical_place(X, FEATURES, {2: [0.0, 1.0]})
    assert X[place, 3] == 1.0
    middle = np.median(of_b[:, :2], axis=0)
    distances = (((of_b[:, :2] - middle) / X[:, :2].std(axis=0)) ** 2).sum(axis=1)
    np.testing.assert_array_equal(X[place], of_b[np.argmin(distances)])


def test_a_given_number_takes_the_nearest_row():
    X = two_kinds()
    place = typical_place(X, FEATURES, {1: [11.3]})
    assert place == np.argmin(np.abs(X[:, 1] - 11.3))


def test_a_category_that_does_not_occur_leaves_all_rows():
    X = two_kinds()[:10]
    assert 0 <= typical_place(X, FEATURES, {2: [0.0, 1.0]}) < 10


def test_without_features_any_row_is_typical():
    assert typical_place(np.empty((3, 0)), []) == 0


def test_models_say_what_is_unlike_their_rows():
    rng = np.random.default_rng(0)
    a = rng.normal(size=150)
    x = np.column_stack([a, a + 0.02 * rng.normal(size=150)])
    model = KCEF(select=None).fit(x, a + rng.normal(size=150))
    rows = np.array([[0.5, 0.5], [0.5, -0.5]])
    assert extrapolated(model, rows).tolist() == [False, True]
    # Who keeps no rows knows nothing.
    assert not extrapolated(SimpleNamespace(), rows).any()
