"""The defensive component: around what a regression says, and chosen by rows."""

from unittest import mock

import numpy as np
import pytest
from scipy import special, stats

from kexpfam import AutoKCEF
from kexpfam.errors import AccuracyWarning
from kexpfam.estimators.members import fit_members
from kexpfam.selection.averaging import average_weights
from kexpfam.selection.defended import defended_weights
from kexpfam.selection.defensive import DefensiveComponent
from kexpfam.selection.held_out_laws import HeldOutLaws
from kexpfam.selection.spec import DEFENSIVE, PLAIN
from tests.tolerances import assert_close


class Kept(AutoKCEF):
    """An average that keeps what it has validated."""

    def _fit_rows(self, *rows):
        def noted(validation, *rest):
            self.validation_ = validation
            return fit_members(validation, *rest)

        with mock.patch("kexpfam.estimators.average.fit_members", noted):
            return super()._fit_rows(*rows)


def steep(n, seed=0, *, outliers=0):
    """A line with little noise; some rows ten standard deviations away."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, size=(n, 1))
    y = 10.0 * x[:, 0] + 0.1 * rng.normal(size=n)
    y[:outliers] += rng.choice([-1.0, 1.0], size=outliers)
    return x, y


@pytest.fixture(scope="module")
def model():
    return Kept(random_state=0, likelihood=False, n_jobs=1).fit(*steep(60))


def test_it_is_narrow_where_densities_are_and_does_not_widen_them(model):
    X, y = steep(400, seed=1)
    p = model.given(X)
    error = np.sqrt(np.mean((y - p.mean()) ** 2))
    # A component over the whole range of y, 1 % of it, would make this six times.
    assert np.sqrt(np.mean(p.std() ** 2)) < 1.5 * error
    assert np.all(model.defensive_.density(X).std() < 0.3 * y.std())


def test_width_and_weight_have_the_largest_penalised_log_density(model):
    """Against plain loops over everything that is tried."""
    validation = model.validation_
    candidates, rows = validation.candidates, validation.rows
    weights, found = defended_weights(validation, candidates)
    placed = validation.coordinates[found.coordinates]
    log_p = np.stack([c.held_out for c in candidates])
    u, jacobian = placed.U[:, 0], placed.log_abs_det_jacobian
    low, middle, high = np.quantile(u, [0.25, 0.5, 0.75], method="inverted_cdf")
    unit = (high - low) / (2 * special.ndtri(0.75))
    # Weights of members when the component was chosen are those beside the first one,
    # in the best coordinates, which are those found here.
    assert_close(found.base.location, middle, 1e-12)

    def log_t(width):
        return stats.t(3.0, middle, width * unit).logpdf(u) + jacobian

    first = np.logaddexp(np.log(0.99) + log_p, np.log(0.01) + log_t(4.0))
    first = average_weights(candidates, first, rows.weights)
    with np.errstate(divide="ignore"):
        mixed = special.logsumexp(np.log(first)[:, None] + log_p, axis=0)
    laws = HeldOutLaws(validation)
    parts = [(w, laws.of(c)) for w, c in zip(first, candidates, strict=True) if w]
    mean = sum(w * law[:, 1] for w, law in parts)
    variance = sum(w * (law[:, 2] + (law[:, 1] - mean) ** 2) for w, law in parts)
    squares = (rows.Y[:, 0] - mean) ** 2
    error = max(squares.std() / squares.mean(), np.sqrt(2.0)) / np.sqrt(len(squares))
    scale = np.exp(-jacobian)
    center = rows.Y[:, 0] - scale * (u - middle)

    def widened(width, w):
        wide = 3.0 * (width * unit * scale) ** 2 + (1 - w) * (center - mean) ** 2
        return np.mean((1 - w) * variance + w * wide)

    def log_ratio(width, w):
        return np.log(widened(width, w) / squares.mean())

    # What the component adds is little, or what residuals say.
    most = max((1.0 + DEFENSIVE.most_added) * variance.mean(), squares.mean())
    totals = {}
    for width in DEFENSIVE.widths:
        for w in DEFENSIVE.weights:
            if widened(width, w) > most:
                continue
            rows_total = np.logaddexp(np.log1p(-w) + mixed, np.log(w) + log_t(width))
            totals[width, w] = rows_total.sum() + np.log(w) + 99.0 * np.log1p(-w)
            totals[width, w] -= 0.5 * log_ratio(width, w) ** 2 / (error**2 + 0.01)
    width, weight = max(totals, key=totals.get)
    assert_close(found.base.scale, width * unit, 1e-12)
    assert found.weight == weight == model.members_.defensive
    assert_close(found.held_out, log_t(width), 1e-10)
    assert_close(weights.sum(), 1.0, 1e-12)


def test_outliers_give_it_more_weight(model):
    validation = model.validation_
    candidates = validation.candidates
    _, calm = defended_weights(validation, candidates)
    other = Kept(random_state=0, likelihood=False, n_jobs=1).fit(*steep(60, outliers=4))
    _, wild = defended_weights(other.validation_, other.validation_.candidates)
    heavier = wild.weight * wild.base.scale**3 > calm.weight * calm.base.scale**3
    assert heavier


def test_few_rows_have_one_around_the_median_and_a_warning():
    x, y = steep(7)
    with pytest.warns(AccuracyWarning, match="rest on 7 rows.*6 degrees of freedom"):
        few = Kept(random_state=0, n_jobs=1).fit(x, y)
    _, found = defended_weights(few.validation_, few.validation_.candidates)
    assert found.coordinates == PLAIN
    middle = few.defensive_.density(x).median()
    assert_close(middle, np.full(7, np.median(y)), 1e-9)


def test_that_of_older_files_is_the_same_everywhere():
    old = DefensiveComponent.everywhere(2, 3.0, 2.0).density(np.zeros((2, 2)))
    expected = stats.t(5.0, 3.0, 0.85 * 2.0).logpdf([1.0, 9.0])
    assert_close(old.logpdf([1.0, 9.0]), expected, 1e-12)
