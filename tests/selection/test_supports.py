"""Bounds of y: noticed where there are some, and maps that suit them."""

import numpy as np
import pytest

from kexpfam.data import Rows
from kexpfam.errors import DegenerateDataError
from kexpfam.family import Spec
from kexpfam.selection.supports import (
    ResponseBounds,
    choose_support,
    given_bounds,
    mapped_rows,
    noticed_bounds,
    require_within,
    support_maps,
)

POSITIVE = {
    "exponential": lambda rng: rng.exponential(size=300),
    "gamma": lambda rng: rng.gamma(2.0, size=500),
    "lognormal": lambda rng: rng.lognormal(size=300),
    "half-normal": lambda rng: np.abs(rng.normal(size=300)),
}
SHARES = {
    "uniform": lambda rng: rng.uniform(size=300),
    "beta": lambda rng: rng.beta(0.7, 0.5, size=300),
    "near one": lambda rng: rng.beta(9.0, 0.8, size=300),
}
UNBOUNDED = {
    "normal": lambda rng: rng.normal(size=500),
    "normal above zero": lambda rng: rng.normal(4.0, 1.0, size=500),
    "gamma of shape 20": lambda rng: rng.gamma(20.0, size=500),
    "between 5 and 6": lambda rng: rng.uniform(5.0, 6.0, size=500),
    "within the unit interval": lambda rng: rng.normal(0.5, 0.05, size=500),
}


@pytest.mark.parametrize("name", POSITIVE)
def test_a_bound_at_zero_is_noticed(name):
    for seed in range(20):
        found = noticed_bounds(POSITIVE[name](np.random.default_rng(seed)))
        assert found == ResponseBounds(0.0, likely=True)


@pytest.mark.parametrize("name", SHARES)
def test_shares_are_noticed(name):
    for seed in range(20):
        found = noticed_bounds(SHARES[name](np.random.default_rng(seed)))
        assert found == ResponseBounds(0.0, 1.0, likely=True)


@pytest.mark.parametrize("name", UNBOUNDED)
def test_no_bound_is_noticed_where_there_is_none(name):
    for seed in range(100):
        assert not noticed_bounds(UNBOUNDED[name](np.random.default_rng(seed)))


def test_few_rows_and_constants_have_no_bounds():
    assert not noticed_bounds(np.random.default_rng(0).exponential(size=20))
    assert not noticed_bounds(np.zeros(50))


@pytest.mark.parametrize(
    ("lower", "upper", "message"),
    [
        (1.0, 0.0, "lower must be below upper"),
        ("a", None, "lower must be a number or None, got 'a'"),
        (None, float("nan"), "upper must be a number"),
        (True, None, "lower must be a number"),
    ],
)
def test_bounds_that_are_none_are_refused(lower, upper, message):
    with pytest.raises(ValueError, match=message):
        given_bounds(lower, upper)


def test_rows_outside_are_refused_by_number():
    with pytest.raises(DegenerateDataError, match=r"2 rows outside .*row 1 is -1"):
        require_within(np.array([1.0, -1.0, -2.0]), ResponseBounds(0.0))


@pytest.mark.parametrize(
    "bounds", [ResponseBounds(0.0), ResponseBounds(upper=0.0), ResponseBounds(0.0, 9.0)]
)
def test_rows_on_a_bound_are_not_far_from_others(bounds):
    rng = np.random.default_rng(0)
    y = np.clip(np.round(rng.exponential(size=400), 1), 0.0, 9.0)
    y = -y if bounds == ResponseBounds(upper=0.0) else y
    assert np.any(y == 0.0)
    for support in support_maps(y, bounds):
        w = support.forward(y)
        assert np.all(np.isfinite(w))
        assert np.ptp(w) < 12.0 * np.std(w)


def test_maps_follow_units():
    """In other units of y the same rows get the same places on the line."""
    y = np.random.default_rng(1).exponential(size=200)
    for one, other in zip(
        support_maps(y, ResponseBounds(0.0)),
        support_maps(1e6 * y, ResponseBounds(0.0)),
        strict=True,
    ):
        np.testing.assert_allclose(one.forward(y), other.forward(1e6 * y), rtol=1e-9)


def test_a_logarithm_is_chosen_for_what_is_normal_behind_one():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, size=(120, 1))
    y = np.exp(2 * x + 0.5 * rng.normal(size=(120, 1)))
    rows = Rows(x, y, np.ones(120))
    support = choose_support(rows, ResponseBounds(0.0), Spec())
    assert support == support_maps(y[:, 0], ResponseBounds(0.0))[-1]
    assert np.array_equal(mapped_rows(rows, support).Y, support.forward(y))
