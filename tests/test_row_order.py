"""An order of rows that their content decides, and what is dealt in it."""

import numpy as np

from kexpfam import AutoKCEF
from kexpfam._row_order import row_order, shuffled_order
from kexpfam.family.neighbourhood import Neighbourhood


def rows_of(n):
    rng = np.random.default_rng(0)
    x = rng.uniform(-1.0, 1.0, size=(n, 2))
    return x, np.sin(3 * x[:, 0]) + 0.3 * rng.normal(size=n)


def test_an_order_is_one_of_content():
    x, y = rows_of(50)
    x[10:20] = x[:10]
    order = np.random.default_rng(1).permutation(50)
    mine, other = row_order(x, y), row_order(x[order], y[order])
    assert np.array_equal(x[mine], x[order][other])
    assert np.array_equal(y[mine], y[order][other])
    assert np.array_equal(np.sort(mine), np.arange(50))


def test_ties_and_gaps_are_settled_by_the_other_keys():
    x, y = rows_of(50)
    for last in (y, y.round(1), np.where(y > 0.5, np.nan, y)):
        sorted_rows = np.lexsort([*x.T, last])
        assert np.array_equal(row_order(x, last), sorted_rows[shuffled_order(50)])


def test_rows_in_their_order_stay_where_they_are():
    x, y = rows_of(50)
    order = row_order(x, y)
    assert np.array_equal(row_order(x[order], y[order]), np.arange(50))


def test_rows_that_stand_for_all_are_the_same():
    x, _ = rows_of(1500)
    order = np.random.default_rng(1).permutation(1500)
    one, other = (Neighbourhood.of(some, np.ones(1500)) for some in (x, x[order]))
    assert np.array_equal(one.rows, other.rows)
    assert one.width == other.width


def test_an_average_of_few_rows_is_the_same():
    """As are those of `tests/estimators/test_row_order.py`, which take longer."""
    x, y = rows_of(25)
    order = np.random.default_rng(1).permutation(25)
    one, other = (
        AutoKCEF(likelihood=False, random_state=0).fit(x[rows], y[rows])
        for rows in (slice(None), order)
    )
    assert np.array_equal(one.score_samples(x, y), other.score_samples(x, y))
