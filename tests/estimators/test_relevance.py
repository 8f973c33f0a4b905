"""Columns of x that matter: found where they are, and only there."""

import numpy as np
import pytest

from kexpfam import AutoKCEF, load
from kexpfam.base_densities import GaussianBase, TransformedBase
from kexpfam.data import Rows, TrainingRows
from kexpfam.family import Spec, fit_coordinates
from kexpfam.selection.kernel_grids import kernels_x
from kexpfam.selection.relevance import RELEVANCE, Relevance, columns_that_help
from kexpfam.selection.spec import (
    GAUSSIANIZED,
    PLAIN,
    PLAIN_GRID,
    CoordinateSpec,
    default_coordinates,
)
from kexpfam.selection.validation import Validation

IGNORED, MULTIPLES = RELEVANCE.ignored, RELEVANCE.multiples


def validation_of(X, y, seed, **changes):
    rows = TrainingRows.of(Rows(X, y.reshape(-1, 1), np.ones(len(X))))
    return Validation.of(rows, Spec(n_jobs=1, **changes), np.random.default_rng(seed))


def relevant(validation):
    """What was found of the plain coordinates, as `kernels_x` looks for it."""
    validation.add_coordinates([CoordinateSpec(PLAIN, GaussianBase(scale=1.0))])
    validation.add_bases()
    kernels_x(validation, PLAIN, PLAIN_GRID)
    return validation.relevant


def shapes(n, columns, seed):
    """Two modes, whose distance depends on the last column; the mean never changes."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n, columns))
    side = rng.choice([-1.0, 1.0], size=n)
    apart = 1.0 + np.sin(6 * X[:, -1])
    return X, side * apart + 0.3 * rng.normal(size=n)


def test_columns_are_taken_in_the_order_of_their_gain_until_none_gains():
    units = np.array([1.0, 2.0, 1.0, 1.0])
    gains = np.array([50.0, 10.0, RELEVANCE.least_gain / 2, 0.0])
    seen = []

    def total(lengths):
        seen.append(lengths)
        used = lengths < IGNORED * units
        return float(gains @ used)

    found = columns_that_help(total, units)
    assert (found < IGNORED * units).tolist() == [True, True, False, False]
    # All ignored, then every column left with every length, until one round fails.
    assert len(seen) == 1 + len(MULTIPLES) * (4 + 3 + 2)
    # The second column has longer distances beside it.
    assert found[1] == pytest.approx(MULTIPLES[0] * 2.0 * np.sqrt(2))


def test_of_many_columns_those_are_tried_that_help_some_of_the_rows():
    p = 100
    tried, screened = [], []

    def gains(lengths):
        used = np.flatnonzero(lengths < IGNORED)
        return 50.0 * np.isin(used, [7, 93]).sum()

    def total(lengths):
        tried.append(lengths)
        return gains(lengths)

    def screen(lengths):
        screened.append(lengths)
        return gains(lengths) / 5

    found = columns_that_help(total, np.ones(p), screen=screen)
    assert np.flatnonzero(found < IGNORED).tolist() == [7, 93]
    assert len(screened) == p + (p - 1) + (p - 2)
    each = RELEVANCE.many_columns + 2 * RELEVANCE.many_columns // 4
    assert len(tried) == 1 + 3 * each


@pytest.mark.parametrize("columns", [3, RELEVANCE.many_columns + 1])
def test_columns_that_do_not_count_can_be_left_out(columns):
    X, y = shapes(1000, columns, 0)
    found = relevant(validation_of(X, y, 0))[PLAIN]
    assert np.flatnonzero(found < IGNORED / 10).tolist() == [columns - 1]
    alone = relevant(validation_of(X[:, -1:], y, 0))[PLAIN]
    assert found[-1] == pytest.approx(alone[0], rel=1e-12)


def test_no_column_is_relevant_where_none_gains():
    assert columns_that_help(lambda lengths: 0.0, np.ones(3)) is None


def test_no_more_columns_are_taken_than_the_cap():
    found = columns_that_help(
        lambda lengths: 100.0 * np.sum(lengths < IGNORED),
        np.ones(6),
        Relevance(most_columns=2),
    )
    assert np.sum(found < IGNORED) == 2


@pytest.mark.parametrize("estimator", [AutoKCEF])
@pytest.mark.slow
def test_columns_that_say_nothing_hardly_cost_anything(estimator):
    X, y = shapes(600, 4, 0)
    X_new, y_new = shapes(2000, 4, 1)
    every = estimator(random_state=0).fit(X, y).score(X_new, y_new)
    only = estimator(random_state=0).fit(X[:, 3:], y).score(X_new[:, 3:], y_new)
    # With one length for all columns, or those of a regression, it is 0.6 nats.
    assert every > only - 0.03


def test_few_rows_are_not_searched(monkeypatch):
    def refuse(*arguments):
        raise AssertionError("searched")

    monkeypatch.setattr("kexpfam.selection.kernel_grids.relevant_lengthscales", refuse)
    X, y = shapes(120, 3, 0)
    AutoKCEF(likelihood=False, random_state=0).fit(X, y)


def test_gaussianized_responses_take_part_where_rows_are_many(tmp_path):
    rng = np.random.default_rng(3)
    x = rng.uniform(size=(900, 1))
    y = rng.uniform(size=900) ** 3
    model = AutoKCEF(experts=["families"], random_state=0).fit(x, y)
    assert GAUSSIANIZED in {member.coordinates for member in model.members_}
    model.save(tmp_path / "model.kexpfam")
    again = load(tmp_path / "model.kexpfam")
    np.testing.assert_array_equal(
        again.score_samples(x[:50], y[:50]), model.score_samples(x[:50], y[:50])
    )


@pytest.mark.parametrize("law", ["normal", "t"])
def test_gaussianized_responses_are_validated_on_rows_that_they_have_not_seen(law):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(800, 1))
    y = rng.normal(size=(800, 1)) if law == "normal" else rng.standard_t(5, (800, 1))
    validation = validation_of(X, y, 0)
    (spec,) = (one for one in default_coordinates() if one.name == GAUSSIANIZED)
    validation.add_coordinates([spec] * 2)
    base = TransformedBase("gaussianize", GaussianBase(scale=1.0))
    whole = fit_coordinates(validation.rows, base, validation.rng)
    claimed, seen = (
        float((part.base.log_density(part.U) + part.log_abs_det_jacobian).mean())
        for part in (validation.coordinates[GAUSSIANIZED], whole)
    )
    assert claimed < seen


@pytest.mark.parametrize("columns", [5, 30])
@pytest.mark.slow
def test_noise_is_not_taken_for_a_column_that_matters(columns):
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(500, columns)), rng.normal(size=(500, 1))
        assert relevant(validation_of(X, y, seed)) == {PLAIN: None}


def test_units_of_x_do_not_matter():
    X, y = shapes(500, 2, 0)
    found = []
    for unit in (1.0, 1e6):
        validation = validation_of(unit * X, y, 0, standardize=False)
        found.append(relevant(validation)[PLAIN] / unit)
    np.testing.assert_allclose(found[0], found[1], rtol=1e-9)
