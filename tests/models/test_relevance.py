"""Columns of x that matter: found where they are, and only there."""

import numpy as np
import pytest

from kexpfam import KCEF, AutoKCEF, load
from kexpfam.models import relevance
from kexpfam.models.entries import GAUSSIANIZED
from kexpfam.models.relevance import IGNORED, MULTIPLES, relevant_lengthscales


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
    AutoKCEF(random_state=0).fit(X, y)


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
