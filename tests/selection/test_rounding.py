"""Lengthscales of y are no shorter than what y was rounded to."""

import numpy as np
import pytest

from kexpfam import KCEF, AutoKCEF
from kexpfam.data import Rows, TrainingRows
from kexpfam.estimators.bounds import with_rounding
from kexpfam.family import Spec
from kexpfam.selection.kernel_grids import grid_for
from kexpfam.selection.spec import (
    PLAIN,
    PLAIN_GRID,
    REGRESSION_GRID,
    default_coordinates,
)
from kexpfam.selection.supports import ResponseBounds, mapped_rows, support_maps
from kexpfam.selection.validation import Validation


def rows_of(n=200, width=0.0, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, size=(n, 1))
    y = 3.0 * x[:, 0] + rng.normal(size=n)
    return x, y if not width else np.round(y / width) * width


def validation_of(x, y, **spec):
    rows = Rows(x, y[:, None], np.ones(len(y)))
    found = Validation.of(
        TrainingRows.of(rows, shuffled=True), Spec(**spec), np.random.default_rng(0)
    )
    known = [c for c in default_coordinates() if c.name in (PLAIN, "linear")]
    found.add_coordinates(known)
    return found


def test_grids_of_responses_that_were_not_rounded_are_as_they_are():
    found = validation_of(*rows_of())
    assert grid_for(found, PLAIN) is PLAIN_GRID
    assert grid_for(found, "linear") is REGRESSION_GRID


@pytest.mark.parametrize("width", [0.5, 1.0, 2.0])
def test_grids_are_no_finer_than_the_rounding(width):
    x, y = rows_of(width=width)
    found = validation_of(x, y)
    least = width / y.std()
    lengths = grid_for(found, PLAIN).lengthscales_y
    expected = dict.fromkeys(max(ell, least) for ell in PLAIN_GRID.lengthscales_y)
    np.testing.assert_allclose(lengths, tuple(expected))
    # Around a line residuals are smaller, and the rounding is coarser beside them.
    residual = (y - np.polyval(np.polyfit(x[:, 0], y, 1), x[:, 0])).std()
    assert min(grid_for(found, "linear").lengthscales_y) == pytest.approx(
        max(0.35, width / residual), rel=0.1
    )


def test_the_rounding_behind_a_map_is_told():
    x, y = rows_of(width=1.0)
    y = y - y.min()
    told = validation_of(x, y, rounding=2.5)
    assert min(grid_for(told, PLAIN).lengthscales_y) == pytest.approx(2.5 / y.std())
    none = validation_of(x, y, rounding=0.0)
    assert grid_for(none, PLAIN) is PLAIN_GRID


def peaks(p, low, high, points=2001):
    """Local maxima of a density."""
    grid = np.linspace(low, high, points)
    log_p = p.logpdf(grid)
    middle = log_p[1:-1]
    return np.count_nonzero((middle > log_p[:-2]) & (middle > log_p[2:]))


@pytest.mark.parametrize("kind", [KCEF, AutoKCEF])
@pytest.mark.parametrize("bounds", [{}, {"lower": -8.0}])
def test_recorded_values_have_no_peaks_of_their_own(kind, bounds):
    x, y = rows_of(300, width=2.0)
    how = {"atoms": False, "counts": False} if kind is AutoKCEF else {}
    model = kind(random_state=0, **how, **bounds).fit(0.0 * x + np.sign(x), y)
    assert peaks(model.given([[1.0]])[0], -6.0, 6.0) == 1


def test_rounding_is_seen_through_the_map_of_a_bound():
    x, y = rows_of(width=0.5)
    y = np.abs(y)
    (support, *_) = support_maps(y, ResponseBounds(0.0))
    rows = mapped_rows(Rows(x, y[:, None], np.ones(len(y))), support)
    found = with_rounding(Spec(), rows, support).rounding
    slopes = np.diff(support.forward(np.array([y - 1e-6, y + 1e-6])), axis=0) / 2e-6
    assert found == pytest.approx(0.5 * np.median(slopes), rel=1e-3)
    assert with_rounding(Spec(), rows, None).rounding is None
