"""What weights mean: a row of weight two is two rows."""

import warnings

import numpy as np
import pytest

from kexpfam import KCEF, KEF, AutoKCEF
from kexpfam.errors import WeightWarning


def rows_of(n):
    rng = np.random.default_rng(0)
    x = rng.uniform(-1.0, 1.0, size=(n, 1))
    return x, np.sin(3 * x[:, 0]) + 0.3 * rng.normal(size=n)


X, Y = rows_of(60)


@pytest.mark.parametrize("weight", [1 / 60, 0.3, 3.5, 1e6])
def test_sums_far_from_the_number_of_rows_are_told_where_they_make_lambda(weight):
    weights = np.full(60, weight)
    with pytest.warns(WeightWarning, match=r"sums to .*, and there are 60 rows"):
        KCEF(select=None).fit(X, Y, sample_weight=weights)
    with pytest.warns(WeightWarning, match="divide them by their mean"):
        KEF(select=None).fit(Y[:, None], sample_weight=weights)


def test_what_the_warning_says_helps():
    weights = np.random.default_rng(1).uniform(0.5, 1.5, size=60)
    weights /= weights.mean()
    expected = KCEF(select=None).fit(X, Y, sample_weight=weights)
    with pytest.warns(WeightWarning):
        KCEF(select=None).fit(X, Y, sample_weight=weights / 60)
    again = KCEF(select=None).fit(X, Y, sample_weight=weights / weights.mean())
    assert np.allclose(again.score_samples(X, Y), expected.score_samples(X, Y))


@pytest.mark.parametrize("weight", [0.5, 1.0, 2.0, 2.5, 50.0])
def test_counts_and_ordinary_weights_are_not_told(weight):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        KCEF(select=None).fit(X, Y, sample_weight=np.full(60, weight))


def test_nobody_is_told_where_lambda_is_given_or_chosen():
    weights = np.full(60, 1 / 60)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        given = KCEF(select=None, regularization=1e-3)
        few = given.fit(X, Y, sample_weight=weights).score_samples(X, Y)
        assert np.allclose(few, given.fit(X, Y).score_samples(X, Y))
        KEF(random_state=0).fit(Y[:, None], sample_weight=weights)


def test_rows_that_repeat_are_no_weights():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        KCEF(select=None).fit(np.repeat(X, 5, axis=0), np.repeat(Y, 5))


def test_ten_for_all_are_ten_copies_of_each_row_to_an_average():
    """More is believed of more rows; divided by their mean they are one each."""
    x, y = X[:30], Y[:30]
    average = AutoKCEF(likelihood=False, random_state=0)
    tens = average.fit(x, y, sample_weight=np.full(30, 10.0)).score_samples(x, y)
    copies = average.fit(np.repeat(x, 10, axis=0), np.repeat(y, 10))
    assert np.allclose(tens, copies.score_samples(x, y), atol=1e-9)
    ones = average.fit(x, y, sample_weight=np.full(30, 10.0) / 10.0)
    assert np.array_equal(
        ones.score_samples(x, y), average.fit(x, y).score_samples(x, y)
    )
