"""Maps of PIT values: what few rows start from, and what held-out rows add."""

import numpy as np
import pytest
from scipy import stats

from kexpfam.distributions import UnitMap
from kexpfam.family import equal_folds
from kexpfam.selection.recalibration import fit_calibration, student_weights
from kexpfam.selection.spec import CALIBRATION
from tests.tolerances import STANDARD_ERRORS, assert_close

FOLDS = equal_folds(2000, 5)


def too_narrow(n, seed, factor=1.4):
    """PIT values of rows that are wider than they are said to be."""
    return stats.norm.cdf(factor * np.random.default_rng(seed).normal(size=n))


def plug_in(n):
    """PIT values of a new normal row beside the mean and std of n others."""
    rng = np.random.default_rng(0)
    rows, new = rng.normal(size=(20_000, n)), rng.normal(size=20_000)
    return stats.norm.cdf((new - rows.mean(axis=1)) / rows.std(axis=1))


def coverage(u):
    return np.mean(np.abs(u - 0.5) < 0.45)


@pytest.mark.parametrize("n", [12, 40])
def test_the_start_is_right_for_a_normal_sample_with_its_own_moments(n):
    start = UnitMap(student_weights(n, 200))  # many parts: H itself, nearly
    # Bernstein polynomials of degree 200 are within a point of H at these levels.
    error = np.sqrt(0.9 * 0.1 / 20_000)
    assert abs(coverage(start.cdf(plug_in(n))) - 0.9) < STANDARD_ERRORS * error + 0.01


@pytest.mark.parametrize("n", [3, 5, 8])
def test_below_ten_rows_the_start_helps_but_is_not_enough(n):
    """A map with a bounded slope has lighter tails than t: the warning says so."""
    u, start = plug_in(n), UnitMap(student_weights(n, CALIBRATION.parts))
    assert coverage(u) < coverage(start.cdf(u)) < 0.9


def test_the_start_is_symmetric_and_widens_less_with_more_rows():
    few, more = student_weights(12, 20), student_weights(200, 20)
    for weights in (few, more):
        assert_close(weights, weights[::-1], 1e-12)
        assert_close(weights.sum(), 1.0, 1e-12)
    assert few[0] > more[0] > 1 / 20


def test_few_rows_keep_the_start_and_many_that_are_calibrated_have_no_map():
    rng = np.random.default_rng(1)
    few = fit_calibration(rng.random(30), np.ones(30), equal_folds(30, 5))
    assert_close(few.weights, student_weights(30, CALIBRATION.parts), 1e-12)
    assert fit_calibration(rng.random(2000), np.ones(2000), FOLDS) is None


def test_a_map_is_kept_where_it_gains_and_makes_fresh_pit_values_uniform():
    found = fit_calibration(too_narrow(2000, 0), np.ones(2000), FOLDS)
    fresh = too_narrow(2000, 1)
    before, after = (
        stats.kstest(u, "uniform").statistic for u in (fresh, found.cdf(fresh))
    )
    assert after < 0.5 * before
    assert np.log(found.pdf(fresh)).mean() > 0


def test_whole_weights_are_repeated_rows():
    u = too_narrow(400, 2)
    weights = np.where(np.arange(400) < 100, 2.0, 1.0)
    folds = equal_folds(400, 4)
    one = fit_calibration(u, weights, folds)
    first = np.concatenate([u[:100], u])
    # The folds of the repeated rows have to be those of the others.
    shifted = (slice(0, 200), *(slice(f.start + 100, f.stop + 100) for f in folds[1:]))
    other = fit_calibration(first, np.ones(500), shifted)
    assert_close(one.weights, other.weights, 1e-6)


def test_rows_whose_fit_has_failed_say_nothing():
    u = too_narrow(500, 3)
    gone = np.append(u, np.nan)
    one = fit_calibration(u, np.ones(500), equal_folds(500, 5))
    weights = np.append(np.ones(500), 1e-9)  # whose row count is the same, nearly
    folds = (*equal_folds(500, 5)[:-1], slice(400, 501))
    assert_close(one.weights, fit_calibration(gone, weights, folds).weights, 1e-5)
