"""Simulated densities: normalised, and the rows are drawn from them."""

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.integrate import trapezoid

from kexpfam import datasets
from kexpfam.datasets.laws import TwoNormals
from tests.tolerances import KS_LEVEL, QUADRATURE, ROUNDING, assert_close


def two(w, first, second, width):
    return [(w, stats.norm(first, width)), (1 - w, stats.norm(second, width))]


# The documented formulae, as weighted distributions of SciPy at one x.
FORMULAE = {
    "skewed": lambda x: [(1.0, stats.gamma(3, scale=0.4 * np.exp(0.3 * x)))],
    "heteroscedastic": lambda x: [(1.0, stats.norm(x, 0.1 + 0.12 * (x + 2)))],
    "bimodal": lambda x: two(0.4, 0.6 + 0.5 * x, -0.6 - 0.5 * x, 0.5),
    "abrupt": lambda x: [(1.0, stats.norm(-1, 0.1) if x < 0 else stats.norm(1, 0.5))],
    "failure": lambda x: two(0.2 if x < 0 else 0.8, 1.0, -1.0, 0.2),
}
REACH = {"abrupt": 1.0, "failure": 1.0}


def make(name, n=500, seed=0):
    return getattr(datasets, f"make_{name}")(n, random_state=seed)


@pytest.mark.parametrize("name", FORMULAE)
def test_truth_is_the_documented_formula(name):
    simulation = make(name, 40)
    X = simulation.X
    assert np.all(np.abs(X) <= REACH.get(name, 2.0))
    y = np.linspace(-3.0, 3.0, 31)
    for row in range(10):
        parts = FORMULAE[name](X[row, 0])
        points = y[None]
        with np.errstate(divide="ignore"):
            expected = np.log(sum(w * p.pdf(y) for w, p in parts))
        found = simulation.logpdf(X[[row]], points)[0]
        seen = expected > -600  # below, SciPy's densities vanish before their log does
        assert_close(found[seen], expected[seen], 1e-10, scale=1.0)
        below = sum(w * p.cdf(y) for w, p in parts)
        assert_close(simulation.cdf(X[[row]], points)[0], below, ROUNDING, scale=1.0)
        mean = sum(w * p.mean() for w, p in parts)
        assert_close(simulation.mean(X[[row]])[0], mean, ROUNDING, scale=1.0)


@pytest.mark.parametrize("name", FORMULAE)
def test_density_integrates_to_one_and_to_its_distribution_function_and_mean(name):
    simulation = make(name, 1)
    for x in (-0.9, -0.1, 0.4):
        X = [[x]]

        def pdf(y, X=X):
            return float(np.exp(simulation.logpdf(X, y))[0])

        def below(y, pdf=pdf):
            marks = [-1.0, 0.0, 1.0]
            return integrate.quad(pdf, -9.0, y, points=marks, limit=200)[0]

        assert below(40.0) == pytest.approx(1.0, abs=QUADRATURE)
        for y in (-0.8, 0.1, 1.1):
            assert simulation.cdf(X, y)[0] == pytest.approx(below(y), abs=QUADRATURE)
        mean, _ = integrate.quad(
            lambda y, pdf=pdf: y * pdf(y), -9.0, 40.0, points=[-1, 0, 1], limit=200
        )
        assert simulation.mean(X)[0] == pytest.approx(mean, abs=1e-8)


@pytest.mark.parametrize("name", FORMULAE)
def test_quantiles_invert_the_distribution_function(name):
    simulation = make(name, 50)
    levels = np.array([1e-6, 0.05, 0.2, 0.5, 0.8, 0.95, 0.999])
    found = simulation.quantile(simulation.X, levels)
    assert found.shape == (50, 7)
    # Between components the distribution function is flat: points are not compared.
    assert_close(
        simulation.cdf(simulation.X, found),
        np.broadcast_to(levels, (50, 7)),
        ROUNDING,
        scale=1.0,
    )
    assert np.array_equal(simulation.quantile(simulation.X, 0.2), found[:, 2])
    ends = simulation.quantile(simulation.X, [0.0, 1.0])
    assert np.all(np.isposinf(ends[:, 1]))
    assert np.all(ends[:, 0] == (0.0 if name == "skewed" else -np.inf))


@pytest.mark.parametrize("name", FORMULAE)
def test_rows_and_further_draws_follow_the_truth_at_every_x(name):
    simulation = make(name, 6000, seed=1)
    X, y = simulation
    further = simulation.sample(X, 2, random_state=2)
    assert further.shape == (6000, 2)
    reach = REACH.get(name, 2.0)
    assert stats.kstest(X[:, 0], stats.uniform(-reach, 2 * reach).cdf).pvalue > KS_LEVEL
    for draws in (y, further[:, 0], further[:, 1]):
        ranks = simulation.cdf(X, draws)
        for side in (X[:, 0] < 0, X[:, 0] >= 0):
            assert stats.kstest(ranks[side], "uniform").pvalue > KS_LEVEL


@pytest.mark.parametrize("name", [*FORMULAE, "joint"])
def test_seeds_fix_the_rows(name):
    first, again, other = make(name, 9, 3), make(name, 9, 3), make(name, 9, 4)
    rows = [s.data if name == "joint" else s.y for s in (first, again, other)]
    assert np.array_equal(rows[0], rows[1])
    assert not np.array_equal(rows[0], rows[2])
    assert first.log_density.shape == (9,)
    assert first.name == name
    assert "array" not in repr(first)


def test_failure_is_the_case_of_the_documentation_draw_by_draw():
    for left, right in ((0.2, 0.8), (0.25, 0.75)):
        rng = np.random.default_rng(8)
        X = rng.uniform(-1.0, 1.0, size=(50, 1))
        above = rng.random(50) < np.where(X[:, 0] < 0, left, right)
        y = np.where(above, 1.0, -1.0) + 0.2 * rng.normal(size=50)
        found = datasets.make_failure(50, masses=(left, right), random_state=8)
        assert np.array_equal(found.X, X)
        assert np.array_equal(found.y, y)


def test_an_island_may_have_all_the_mass():
    simulation = datasets.make_failure(200, masses=(0.0, 1.0), random_state=0)
    assert np.array_equal(simulation.y > 0, simulation.X[:, 0] >= 0)
    expected = stats.norm(np.sign(simulation.X[:, 0]), 0.2)
    assert_close(simulation.log_density, expected.logpdf(simulation.y))
    median = simulation.quantile(simulation.X, 0.5)
    assert_close(median, np.sign(simulation.X[:, 0]), ROUNDING)


def test_shapes_follow_those_of_the_points():
    simulation = make("bimodal", 4)
    X = simulation.X
    assert simulation.logpdf(X, 0.3).shape == (4,)
    assert simulation.logpdf(X, simulation.y).shape == (4,)
    assert simulation.logpdf(X, np.zeros((4, 3))).shape == (4, 3)
    assert simulation.logpdf(np.empty((0, 1)), np.empty(0)).shape == (0,)
    assert simulation.sample(X).shape == (4, 1)
    one = simulation.logpdf(X, np.full((4, 2), 0.3))[:, 1]
    assert np.array_equal(simulation.logpdf(X, 0.3), one)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda s: s.logpdf([0.1], 0.0), r"X must have shape \(rows, 1\), got \(1,\)"),
        (
            lambda s: s.logpdf([[0.1]], [1.0, 2.0]),
            r"y must be one number, or have shap",
        ),
        (lambda s: s.cdf([[0.1]], "a"), "y must be a number or an array"),
        (lambda s: s.quantile([[0.1]], 1.2), "levels must lie between 0 and 1"),
        (lambda s: s.quantile([[0.1]], [[0.2]]), "levels must be a number or a flat"),
        (lambda s: s.sample([[0.1]], -1), "n_samples must be a whole number"),
        (lambda s: datasets.make_bimodal(0), "n_samples must be a whole number from 1"),
        (lambda s: datasets.make_failure(masses=(0.2, 1.8)), "masses must lie between"),
        (lambda s: datasets.make_failure(masses=(0.2,)), "masses must be two numbers"),
    ],
)
def test_wrong_arguments_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call(make("skewed", 5))


# ------------------------------------------------------------------ the joint density


def slow_joint(row, i):
    """The law of column i given those before, as weighted distributions of SciPy."""
    x1, x2, x3, x4, _ = row
    w = 1 / (1 + np.exp(-2 * x1))
    return [
        [(1.0, stats.norm(0, 1))],
        [(1.0, stats.norm(0.5 * x1**2, 0.5))],
        two(w, 1.0, -1.0, 0.4),
        [(1.0, stats.gamma(2, np.sin(2 * x2), 0.3 * np.exp(0.4 * x3)))],
        [(1.0, stats.norm(x3 * x4, 0.3 + 0.2 * abs(x3)))],
    ][i]


def test_joint_density_is_the_documented_product():
    simulation = datasets.make_joint(30, random_state=0)
    data = simulation.data
    logs, below = np.empty((30, 5)), np.empty((30, 5))
    for r, row in enumerate(data):
        for i in range(5):
            parts = slow_joint(row, i)
            logs[r, i] = np.log(sum(w * p.pdf(row[i]) for w, p in parts))
            below[r, i] = sum(w * p.cdf(row[i]) for w, p in parts)
    assert_close(simulation.conditional_logpdf(data), logs, 1e-10, scale=1.0)
    assert_close(simulation.conditional_cdf(data), below, 1e-10, scale=1.0)
    assert_close(simulation.logpdf(data), logs.sum(axis=1), 1e-10, scale=1.0)


def test_joint_density_integrates_to_one_over_each_column_given_those_before():
    simulation = datasets.make_joint(3, random_state=1)
    for row in simulation.data:
        for i, parents in simulation.graph.items():
            t = np.linspace(-12.0, 15.0, 400_001)
            lines = np.tile(row, (len(t), 1))
            lines[:, i] = t
            p = np.exp(simulation.conditional_logpdf(lines)[:, i])
            # The gamma density has a kink at its start: an error of the step squared.
            assert trapezoid(p, t) == pytest.approx(1.0, abs=1e-7)
            assert all(parent < i for parent in parents)


def test_joint_rows_follow_the_truth():
    simulation = datasets.make_joint(20_000, random_state=2)
    for rows in (simulation.data, simulation.sample(20_000, random_state=3)):
        ranks = simulation.conditional_cdf(rows)
        for column in ranks.T:
            assert stats.kstest(column, "uniform").pvalue > KS_LEVEL
        # Ranks of different columns are independent: no correlation of four errors.
        away = np.corrcoef(ranks.T) - np.eye(5)
        assert np.abs(away).max() < 4 / np.sqrt(20_000)


def test_a_factor_depends_on_its_parents_and_on_nothing_else():
    simulation = datasets.make_joint(1, random_state=4)
    (row,) = simulation.data
    before = simulation.conditional_logpdf([row])[0]
    for j in range(5):
        moved = row.copy()
        moved[j] += 0.1
        changed = np.flatnonzero(simulation.conditional_logpdf([moved])[0] != before)
        children = {i for i, parents in simulation.graph.items() if j in parents}
        assert set(changed.tolist()) == children | {j}


# ------------------------------------------------------------------ laws


def test_two_normals_are_right_far_out():
    one = np.ones((1, 1))
    y = np.array([[-30.0, -3.0, 0.5, 4.0, 60.0]])
    law = TwoNormals(0.3 * one, one, -2 * one, 0.5 * one)
    parts = [stats.norm(1, 0.5).logpdf(y), stats.norm(-2, 0.5).logpdf(y)]
    expected = np.logaddexp(np.log(0.3) + parts[0], np.log(0.7) + parts[1])
    assert_close(law.logpdf(y), expected)
