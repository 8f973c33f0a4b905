"""What could not have been a row of the data is found."""

import numpy as np
import pytest

from kexpfam.explanation import ExtrapolationTest


def diamonds(n, rng):
    """Carat and three lengths that go with it, table and depth, and a colour."""
    carat = rng.lognormal(-0.5, 0.5, n)
    length = 6.4 * carat ** (1 / 3) * (1 + 0.01 * rng.normal(size=n))
    width = length * (1 + 0.01 * rng.normal(size=n))
    depth = 61.7 + rng.normal(size=n)
    colour = np.eye(4)[rng.integers(0, 4, n)]
    height = width * depth / 100
    return np.column_stack([carat, length, width, height, depth, colour])


@pytest.mark.parametrize("seed", range(3))
def test_fresh_rows_are_marked_as_rarely_as_promised(seed):
    rng = np.random.default_rng(seed)
    test = ExtrapolationTest.of(diamonds(1000, rng))
    assert test.is_unlike(diamonds(1000, rng)).mean() < 0.03


def test_impossible_diamonds_are_marked_though_each_number_is_ordinary():
    rng = np.random.default_rng(0)
    rows = diamonds(1000, rng)
    test = ExtrapolationTest.of(rows)
    odd = diamonds(200, rng)
    odd[:, 1] = odd[::-1, 1]  # another's length
    impossible = np.abs(np.log(odd[:, 1] / odd[:, 2])) > 0.1
    assert impossible.sum() > 50
    assert test.is_unlike(odd[impossible]).mean() > 0.98


def test_values_beyond_all_others_are_marked():
    rows = np.random.default_rng(0).uniform(size=(300, 3))
    test = ExtrapolationTest.of(rows)
    inside, beyond = rows[:5].copy(), rows[:5].copy()
    beyond[:, 1] += 4.0
    assert not test.is_unlike(inside).any()
    assert test.is_unlike(beyond).all()


def test_combinations_of_categories_that_never_occur_are_marked():
    rng = np.random.default_rng(0)
    a = rng.integers(0, 3, 500)
    b = np.where(a == 0, 0, rng.integers(0, 3, 500))  # 0 goes with 0 only
    test = ExtrapolationTest.of(np.hstack([np.eye(3)[a], np.eye(3)[b]]))
    pairs = np.hstack([np.eye(3)[[0, 0, 1, 0]], np.eye(3)[[1, 2, 2, 0]]])
    assert test.is_unlike(pairs).tolist() == [True, True, False, False]


def coordinates_by_loops(test, Z):
    """Standard units; normal scores between knots, and standard units beyond them."""
    n, p = Z.shape
    found = np.empty((n, 2 * p))
    for i in range(n):
        for j, (at, scores, std, _) in enumerate(test.knots):
            inside = min(max(Z[i, j], at[0]), at[-1])
            found[i, j] = Z[i, j] / std
            found[i, p + j] = np.interp(inside, at, scores) + (Z[i, j] - inside) / std
    return found


def test_p_values_are_those_of_loops():
    rng = np.random.default_rng(0)
    rows, new = rng.normal(size=(40, 2)), rng.normal(size=(7, 2)) * 3
    test = ExtrapolationTest.of(rows)
    W, V = (coordinates_by_loops(test, Z) @ test.whitening for Z in (rows, new))
    own = [
        min(np.linalg.norm(W[i] - W[k]) for k in range(40) if k != i) for i in range(40)
    ]
    expected = []
    for v in V:
        far = min(np.linalg.norm(v - w) for w in W)
        expected.append((1 + sum(d >= far - 1e-9 for d in own)) / 41)
    np.testing.assert_allclose(test.pvalues(new), expected)
    np.testing.assert_allclose(
        np.cov((W - W.mean(axis=0)).T, ddof=0), np.eye(4), atol=1e-9
    )


def test_what_is_on_the_other_side_of_a_gap_is_marked():
    rng = np.random.default_rng(0)
    a = np.concatenate([rng.uniform(0, 1, 150), rng.uniform(9, 10, 150)])
    test = ExtrapolationTest.of(np.column_stack([a, a + 0.05 * rng.normal(size=300)]))
    rows = np.array([[0.99, 9.01], [0.5, 0.5], [9.5, 9.5]])
    assert test.is_unlike(rows).tolist() == [True, False, False]


def test_few_rows_mark_only_what_is_farther_than_all():
    rows = np.arange(10.0)[:, None]
    test = ExtrapolationTest.of(rows)
    assert test.is_unlike(np.array([[50.0]]))[0]
    assert not test.is_unlike(np.array([[4.5]]))[0]


def test_between_the_values_of_a_rounded_column_nothing_is_unlike():
    rng = np.random.default_rng(0)
    rows = rng.integers(40, 101, size=(400, 1)).astype(float)
    test = ExtrapolationTest.of(rows)
    between = np.arange(55.0, 85.0, 0.1)[:, None]
    assert not test.is_unlike(between).any()
    assert test.is_unlike(np.array([[20.0], [140.0]])).all()
