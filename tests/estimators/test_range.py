"""Scales near the ends of the double range: an error or a right answer."""

import warnings

import numpy as np
import pytest

from kexpfam import KCEF, KEF, AutoKCEF
from kexpfam.errors import DegenerateDataError, KexpfamError
from tests.simulations import waves

X, Y = waves(40)
MODELS = {
    "KCEF, settled": lambda: KCEF(select=None),
    "KCEF": lambda: KCEF(base="linear", random_state=0),
    "AutoKCEF": lambda: AutoKCEF(likelihood=False, random_state=0),
}
UNITS = [5e-324, 1e-320, 1e-310, 1e-308, 1e-300, 1e300, 1e307, 5e307]


def refused(error):
    assert "rescale" in str(error) or "is constant" in str(error)


def answers(model, x, y, unit):
    p = model.given(x[:3])
    found = [p.quantile([0.1, 0.9]), p.mean()[:, None], p.std()[:, None]]
    return model.score_samples(x, y) + np.log(unit), [part / unit for part in found]


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("name", MODELS)
def test_responses_of_any_unit_are_fitted_or_refused(name, unit):
    y = Y * unit
    try:
        model = MODELS[name]().fit(X, y)
        log_p, numbers = answers(model, X, y, unit)
    except KexpfamError as error:
        refused(error)
        return
    for part in (log_p, *numbers):
        assert np.isfinite(part).all()
    if unit > 1e-310:  # there all digits are left
        expected, parts = answers(MODELS[name]().fit(X, Y), X, Y, 1.0)
        np.testing.assert_allclose(log_p, expected, atol=1e-3)
        np.testing.assert_allclose(numbers[0], parts[0], atol=1e-3)


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("name", MODELS)
def test_conditions_of_any_unit_are_fitted_or_refused(name, unit):
    x = X * unit
    try:
        log_p = MODELS[name]().fit(x, Y).score_samples(x, Y)
    except KexpfamError as error:
        refused(error)
        return
    assert np.isfinite(log_p).all()


@pytest.mark.parametrize("unit", UNITS)
def test_columns_without_conditions(unit):
    try:
        model = KEF(select=None).fit(Y[:, None] * unit)
    except KexpfamError as error:
        refused(error)
        return
    assert np.isfinite(model.score_samples(Y[:, None] * unit)).all()


def test_refusals_say_what_to_do():
    with pytest.raises(DegenerateDataError, match=r"^y has values from .*rescale it"):
        AutoKCEF().fit(X, Y * 1e-310)
    with pytest.raises(DegenerateDataError, match=r"^X has values from .*rescale it"):
        KCEF().fit(X * 1e-310, Y)


def test_whole_numbers_far_from_zero_are_no_counts():
    """Between 1e16 and its neighbours there are no others: a table took 213 PiB."""
    y = 1e16 + 2.0 * np.random.default_rng(0).integers(0, 3, size=60)
    x = np.random.default_rng(1).normal(size=(60, 1))
    with pytest.raises(DegenerateDataError, match="constant"):
        AutoKCEF(random_state=0).fit(x, y)
    with pytest.raises(ValueError, match=r"counts are for whole numbers .* size"):
        AutoKCEF(counts=True, random_state=0).fit(x, y)


@pytest.mark.parametrize("unit", [1e-200, 1e150, 1e200])
def test_units_whose_squares_are_no_doubles_are_fitted_without_a_word(unit):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = MODELS["AutoKCEF"]().fit(X, Y * unit)
        plain = MODELS["AutoKCEF"]().fit(X, Y)
        found = answers(model, X, Y * unit, unit)
    expected = answers(plain, X, Y, 1.0)
    np.testing.assert_allclose(found[0], expected[0], atol=0.02)
    for one, other in zip(found[1], expected[1], strict=True):
        np.testing.assert_allclose(one, other, rtol=0.02, atol=0.02)
