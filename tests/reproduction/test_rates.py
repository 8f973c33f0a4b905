"""Rates: the truth is what it says, and distances to it are those of slow formulas."""

import numpy as np
import pytest
from scipy import integrate, stats

from kexpfam import KCEF
from kexpfam.kernels import Gaussian
from reproduction.rates import (
    DEFAULT,
    GRID,
    METHODS,
    STEP,
    SUITE,
    THEORY,
    divergences,
    estimator,
    slope,
    truth,
)
from reproduction.record import Record, Task


def test_the_truth_is_normalised_and_agrees_with_its_sampler():
    known = truth()

    def density(y, x):
        return stats.norm.pdf(y, 0, 2) * np.exp(known.tilt(np.array(x), np.array(y)))

    for x in (-1.5, 0.3):
        mass = integrate.quad(density, -20, 20, args=(x,), limit=200)[0]
        log_p = known.on_grid(np.array([x]))[0]
        at = 450
        slow = np.log(density(GRID[at], x) / mass)
        # The grid leaves out what is beyond ten, 10⁻⁶ of the base's mass.
        assert log_p[at] == pytest.approx(slow, abs=1e-5)
    X, y = known.sample(2000, np.random.default_rng(0))
    log_p = known.on_grid(X[:, 0])
    cdf = np.cumsum(np.exp(log_p), axis=1) * STEP
    middles = GRID + STEP / 2
    levels = [np.interp(y[a], middles, cdf[a]) for a in range(len(y))]
    assert stats.kstest(levels, "uniform").pvalue > 1e-3


def test_the_distance_is_that_of_coefficients_in_one_expansion():
    known = truth()
    X, y = known.sample(30, np.random.default_rng(1))
    T = estimator(THEORY, 30, 0).fit(X, y).family_.T

    # Slow: all functions of both expansions, their Gram matrix by differences of
    # exp(−‖·‖²/2), and the quadratic form.
    def bump(p, q):
        return np.exp(-0.5 * np.sum((p - q) ** 2))

    step = 0.02
    stencils = {
        0: [(0.0, 1.0)],
        1: [(-step, -0.5 / step), (step, 0.5 / step)],
        2: [(-step, step**-2), (0.0, -2 * step**-2), (step, step**-2)],
    }
    points, weights = list(known.centers), list(-known.heights)
    for order, _, coefficients in T.derivatives:
        for c, x_b, y_b in zip(coefficients, T.X[:, 0], T.Y[:, 0], strict=True):
            for shift, w in stencils[order]:
                points.append(np.array([x_b, y_b + shift]))
                weights.append(c * w)
    gram = np.array([[bump(p, q) for q in points] for p in points])
    slow = np.sqrt(weights @ gram @ weights)
    # Differences of step 0.02 are wrong by some 10⁻⁴ of each derivative.
    assert known.distance(T) == pytest.approx(slow, rel=5e-3)


def test_divergences_are_those_of_fresh_rows():
    known = truth()
    X, y = known.sample(100, np.random.default_rng(2))
    model = KCEF(select=None, kernel_x=Gaussian(1.0)).fit(X, y)
    found = divergences(known, model)
    X, y = known.sample(2000, np.random.default_rng(3))
    rows = np.arange(len(y))
    log_p0 = np.array(
        [np.interp(y[a], GRID, known.on_grid(X[a : a + 1, 0])[0]) for a in rows]
    )
    ratio = log_p0 - model.score_samples(X, y)
    error = ratio.std() / np.sqrt(len(y))
    assert abs(found["kl"] - ratio.mean()) < 4 * error
    assert found["log_error"] == pytest.approx(np.sqrt(np.mean(ratio**2)), rel=0.1)


@pytest.mark.parametrize("method", METHODS)
def test_a_task_finds_what_is_defined_for_its_method(method):
    found = SUITE.run(Task("rates", "n=50", method, 0, 40), 500)
    assert found["n"] == 40
    assert found["kl"] > 0
    assert ("distance" in found) == (method == THEORY)


def record(n, method, split, factor):
    figures = {"n": n, "kl": factor / n, "log_error": factor / n**0.5}
    if method == THEORY:
        figures["distance"] = factor * n**-0.25
    task = Task("rates", f"n={n}", method, split)
    return Record(task, figures, None, 1.0, {})


def test_slopes_and_medians_are_those_of_the_records(tmp_path):
    records = [
        record(n, method, split, factor)
        for n in (100, 400, 1600)
        for method in METHODS
        for split, factor in enumerate((1.0, 2.0, 50.0))
    ]
    text = SUITE.show(records, tmp_path)
    assert "| ‖T − T0‖ in the RKHS | theory's λ | -0.25 | -0.25 | -0.25 |" in text
    assert "| KL(p0 ‖ p), nats | default | -0.50 | -1.00 | -1.00 |" in text
    assert "| 400 | 0.4472 |" in text
    assert (tmp_path / "rates.png").stat().st_size > 5000


def test_any_part_of_a_run_can_be_shown(tmp_path):
    assert "–" in SUITE.show([record(50, DEFAULT, 0, 1.0)], tmp_path)
    assert slope({50: 1.0}) is None
