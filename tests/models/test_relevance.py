"""Columns of x that matter: found where they are, and only there."""

import numpy as np
import pytest

from kexpfam import KCEF, AutoKCEF, load
from kexpfam.base_densities import GaussianBase, TransformedBase
from kexpfam.models import relevance
from kexpfam.models.chart import ChartOptions, SharedProcesses, fit_chart
from kexpfam.models.contest import Contest
from kexpfam.models.entries import (
    GAUSSIANIZED,
    PLAIN,
    PLAIN_GRID,
    ChartEntry,
    default_entries,
)
from kexpfam.models.family import Limits, Options, training_rows
from kexpfam.models.relevance import IGNORED, MULTIPLES, relevant_lengthscales


def options(standardize=True, n_jobs=None):
    return Options(None, None, None, None, None, standardize, n_jobs)


def shapes(n, columns, seed):
    """Two modes, whose distance depends on the last column; the mean never changes."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n, columns))
    side = rng.choice([-1.0, 1.0], size=n)
    apart = 1.0 + np.sin(6 * X[:, -1])
    return X, side * apart + 0.3 * rng.normal(size=n)


def test_columns_are_taken_in_the_order_of_their_gain_until_none_gains():
    units = np.array([1.0, 2.0, 1.0, 1.0])
    gains = np.array([50.0, 10.0, relevance.LEAST_GAIN / 2, 0.0])
    seen = []

    def worth(lengths):
        seen.append(lengths)
        used = lengths < IGNORED * units
        return float(gains @ used)

    found = relevant_lengthscales(worth, units)
    assert (found < IGNORED * units).tolist() == [True, True, False, False]
    # All ignored, then every column left with every length, until one round fails.
    assert len(seen) == 1 + len(MULTIPLES) * (4 + 3 + 2)
    # The second column has longer distances beside it.
    assert found[1] == pytest.approx(MULTIPLES[0] * 2.0 * np.sqrt(2))


def test_no_column_is_relevant_where_none_gains():
    assert relevant_lengthscales(lambda lengths: 0.0, np.ones(3)) is None


def test_no_more_columns_are_taken_than_the_cap(monkeypatch):
    monkeypatch.setattr(relevance, "MOST_COLUMNS", 2)
    found = relevant_lengthscales(
        lambda lengths: 100.0 * np.sum(lengths < IGNORED), np.ones(6)
    )
    assert np.sum(found < IGNORED) == 2


@pytest.mark.parametrize("estimator", [AutoKCEF, KCEF])
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

    monkeypatch.setattr("kexpfam.models.contest.relevant_lengthscales", refuse)
    X, y = shapes(120, 3, 0)
    AutoKCEF(likelihood=False, random_state=0).fit(X, y)


def test_gaussianized_responses_compete_where_rows_are_many(tmp_path):
    rng = np.random.default_rng(3)
    x = rng.uniform(size=(900, 1))
    y = rng.uniform(size=900) ** 3
    model = AutoKCEF(random_state=0).fit(x, y)
    charts = {member.chart for member in model.members_}
    assert GAUSSIANIZED in charts
    model.save(tmp_path / "model.kexpfam")
    again = load(tmp_path / "model.kexpfam")
    np.testing.assert_array_equal(
        again.score_samples(x[:50], y[:50]), model.score_samples(x[:50], y[:50])
    )


@pytest.mark.parametrize("law", ["normal", "t"])
def test_gaussianized_responses_are_judged_on_rows_that_they_have_not_seen(law):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(800, 1))
    y = rng.normal(size=(800, 1)) if law == "normal" else rng.standard_t(5, (800, 1))
    rows = training_rows(X, y, np.ones(800), options(n_jobs=1))
    contest = Contest.of(rows, np.random.default_rng(0), Limits())
    contest.add_charts([e for e in default_entries() if e.name == GAUSSIANIZED] * 2)
    judged = contest.charts[GAUSSIANIZED]
    base = TransformedBase("gaussianize", GaussianBase(scale=1.0))
    claimed = float(
        (judged.base.log_density(judged.U) + judged.log_abs_det_jacobian).mean()
    )
    whole = fit_chart(
        rows.X, rows.Y, rows.weights, ChartOptions(base), contest.rng, SharedProcesses()
    )
    seen = float((whole.base.log_density(whole.U) + whole.log_abs_det_jacobian).mean())
    assert claimed < seen


@pytest.mark.parametrize("columns", [5, 30])
@pytest.mark.slow
def test_noise_is_not_taken_for_a_column_that_matters(columns):
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(500, columns)), rng.normal(size=(500, 1))
        contest = Contest.of(
            training_rows(X, y, np.ones(500), options(n_jobs=1)),
            np.random.default_rng(seed),
            Limits(),
        )
        contest.add_charts([ChartEntry(PLAIN, GaussianBase(scale=1.0))])
        contest.add_bases()
        contest.kernels_x(PLAIN, PLAIN_GRID)
        assert contest.relevant == {PLAIN: None}


def test_units_of_x_do_not_matter():
    X, y = shapes(500, 2, 0)
    found = []
    for unit in (1.0, 1e6):
        contest = Contest.of(
            training_rows(unit * X, y[:, None], np.ones(500), options(False, n_jobs=1)),
            np.random.default_rng(0),
            Limits(),
        )
        contest.add_charts([ChartEntry(PLAIN, GaussianBase(scale=1.0))])
        contest.add_bases()
        contest.kernels_x(PLAIN, PLAIN_GRID)
        found.append(contest.relevant[PLAIN] / unit)
    np.testing.assert_allclose(found[0], found[1], rtol=1e-9)
