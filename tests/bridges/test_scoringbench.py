"""Predictions as probabilities of bins, as ScoringBench reads them."""

import sys
from types import ModuleType

import numpy as np
import pytest

from kexpfam import KCEF, AutoKCEF
from kexpfam.bridges.scoringbench import BinnedPrediction, ScoringBenchWrapper
from kexpfam.metrics import crps


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 2))
    return X, X[:, 0] + 0.3 * rng.standard_t(4, size=120)


@pytest.fixture(scope="module")
def model(rows):
    return ScoringBenchWrapper(KCEF(select=None), n_bins=400).fit(*rows)


def test_bins_have_the_mass_of_the_density(model, rows):
    X, _ = rows
    p, density = model.predict_distribution(X[:20]), model.estimator_.given(X[:20])
    assert isinstance(p, BinnedPrediction)
    assert p.probas.sum(axis=1) == pytest.approx(1.0)
    assert np.all(np.diff(p.bin_edges, axis=1) > 0)
    inner = density.cdf(p.bin_edges)[:, 1:-1]
    assert np.cumsum(p.probas, axis=1)[:, :-1] == pytest.approx(inner, abs=1e-9)
    assert np.array_equal(p.mean, density.mean())
    assert np.sum(p.probas * p.bin_midpoints, axis=1) == pytest.approx(p.mean, abs=2e-3)


def test_scores_from_bins_are_those_of_the_density(model, rows):
    X, y = rows
    p, density = model.predict_distribution(X), model.estimator_.given(X)
    column = (
        np.array([np.searchsorted(*pair) for pair in zip(p.bin_edges, y, strict=True)])
        - 1
    )
    here = np.arange(len(y))
    width = np.diff(p.bin_edges, axis=1)[here, column]
    log_score = np.log(p.probas[here, column] / width)
    assert log_score.mean() == pytest.approx(density.logpdf(y).mean(), abs=2e-3)
    above = p.bin_midpoints >= y[:, None]
    squares = (np.cumsum(p.probas, axis=1) - above) ** 2
    binned = np.sum(squares * np.diff(p.bin_edges, axis=1), axis=1)
    assert binned.mean() == pytest.approx(crps(density, y), rel=0.02)


def test_atoms_have_their_mass():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(150, 1))
    y = rng.poisson(np.exp(0.3 * X[:, 0]))
    model = ScoringBenchWrapper(AutoKCEF(counts=True, random_state=0)).fit(X, y)
    p, density = model.predict_distribution(X[:5]), model.estimator_.given(X[:5])
    assert np.all(np.diff(p.bin_edges, axis=1) > 0)
    assert np.all(p.bin_edges[:, 0] < 0)
    assert np.all(p.bin_edges[:, 0] > -1e-3)
    below = np.array(
        [
            np.sum(row[edges[1:] < 0.5])
            for row, edges in zip(p.probas, p.bin_edges, strict=True)
        ]
    )
    assert below == pytest.approx(density.cdf(np.full(5, 0.5)), abs=1e-9)


def test_scoringbench_gets_its_own_container(model, rows, monkeypatch):
    class DistributionPrediction:
        @classmethod
        def from_histogram(cls, edges, probas, mean=None, *, train_range, **options):
            found = cls()
            found.all = (edges, probas, mean, train_range, options)
            return found

    home = ModuleType("scoringbench.univariate.wrappers.base")
    home.DistributionPrediction = DistributionPrediction
    for name in ("scoringbench", "scoringbench.univariate"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(
        sys.modules, "scoringbench.univariate.wrappers", ModuleType("w")
    )
    monkeypatch.setitem(sys.modules, home.__name__, home)
    X, y = rows
    edges, probas, mean, train_range, options = model.predict_distribution(X[:3]).all
    assert edges.shape == (3, 401)
    assert probas.shape == (3, 400)
    assert mean == pytest.approx(model.predict(X[:3]))
    assert train_range == (y.min(), y.max())
    assert options == {"is_grid_native": True}


def test_too_few_bins_are_refused(rows):
    with pytest.raises(ValueError, match="n_bins must be a whole number from 32"):
        ScoringBenchWrapper(n_bins=5).fit(*rows)
