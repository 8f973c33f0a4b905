"""The grid: rows follow the density, and the density is normalised."""

import math

import numpy as np
import pytest
from scipy import integrate, stats

from kexpfam.datasets import JointSimulation, Simulation, make_grid
from tests.tolerances import KS_LEVEL, QUADRATURE, ROUNDING, assert_close

# Own frequencies and those of the column before; also fractions, negatives and zero.
FREQUENCIES = {
    "default": (None, None),
    "whole": ([1, 3, 2], [1, 1, 4]),
    "any": ([0.3, 0.7, -1.6], [2.0, 0.4, 1.3]),
    "zero": (0.0, 1.0),
}


def grid(n, d, case, seed=0):
    own, before = FREQUENCIES[case]
    own = own[:d] if isinstance(own, list) else own
    before = before[:d] if isinstance(before, list) else before
    return make_grid(
        n, d, frequencies_own=own, frequencies_before=before, random_state=seed
    )


def slow_conditional(case, i, x, before):
    """p(x_i | x_{i−1}), with a normaliser by quadrature."""
    own, previous = (2 if f is None else f for f in FREQUENCIES[case])
    a = own[i] if isinstance(own, list) else own
    b = previous[i] if isinstance(previous, list) else previous

    def weight(t):
        wave = math.sin(2 * math.pi * b * before) if i else 0.0
        return 1.0 + math.sin(2 * math.pi * a * t) * wave

    total, _ = integrate.quad(weight, 0.0, 1.0, epsabs=1e-12)
    below, _ = integrate.quad(weight, 0.0, x, epsabs=1e-12)
    return weight(x) / total, below / total


@pytest.mark.parametrize("case", FREQUENCIES)
def test_density_and_distribution_function_equal_slow_ones(case):
    simulation = grid(20, 3, case)
    data = simulation.data
    expected = np.array(
        [
            [slow_conditional(case, i, row[i], row[i - 1]) for i in range(3)]
            for row in data
        ]
    )
    assert_close(simulation.conditional_logpdf(data), np.log(expected[..., 0]), 1e-10)
    assert_close(simulation.conditional_cdf(data), expected[..., 1], QUADRATURE)
    assert_close(simulation.logpdf(data), np.log(expected[..., 0]).sum(axis=1), 1e-10)
    assert np.array_equal(simulation.log_density, simulation.logpdf(data))


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("case", FREQUENCIES)
def test_density_integrates_to_one(case, d):
    # 40 Gauss nodes resolve four waves to all digits.
    nodes, weights = np.polynomial.legendre.leggauss(40)
    points = np.stack(np.meshgrid(*[0.5 + 0.5 * nodes] * d), axis=-1).reshape(-1, d)
    volumes = np.prod(np.meshgrid(*[0.5 * weights] * d), axis=0).ravel()
    total = volumes @ np.exp(grid(1, d, case).logpdf(points))
    assert total == pytest.approx(1.0, abs=ROUNDING)


@pytest.mark.parametrize("case", FREQUENCIES)
def test_each_column_given_the_one_before_follows_the_exact_conditional(case):
    # More rows than one block, so that all blocks are tested.
    simulation = grid(3 * 2**14, 3, case)
    ranks = simulation.conditional_cdf(simulation.data)
    for column in ranks.T:
        assert stats.kstest(column, "uniform").pvalue > KS_LEVEL
    # Given the first, too: ranks are uniform on either side of a wave.
    for part in (ranks[ranks[:, 0] < 0.25], ranks[ranks[:, 0] >= 0.25]):
        assert stats.kstest(part[:, 1], "uniform").pvalue > KS_LEVEL


@pytest.mark.parametrize("case", FREQUENCIES)
def test_counts_in_cells_of_the_plane_are_those_of_the_density(case):
    n, cells = 100_000, 12
    simulation = grid(n, 2, case, seed=1)
    counts, *_ = np.histogram2d(*simulation.data.T, bins=cells, range=[(0, 1)] * 2)
    nodes, weights = np.polynomial.legendre.leggauss(8)
    points = ((np.arange(cells)[:, None] + 0.5 + 0.5 * nodes) / cells).ravel()
    density = np.exp(
        simulation.logpdf(
            np.stack(np.meshgrid(points, points, indexing="ij"), -1).reshape(-1, 2)
        )
    ).reshape(cells, 8, cells, 8)
    mass = np.einsum("aibj,i,j->ab", density, weights, weights) / (2 * cells) ** 2
    assert mass.sum() == pytest.approx(1.0, abs=ROUNDING)
    found = stats.chisquare(counts.ravel(), n * mass.ravel() / mass.sum())
    assert found.pvalue > KS_LEVEL


def test_a_wrong_density_would_be_noticed():
    data = make_grid(20_000, 2, random_state=0).data
    other = make_grid(1, 2, frequencies_own=1, random_state=0)
    assert stats.kstest(other.conditional_cdf(data)[:, 1], "uniform").pvalue < 1e-6


def test_whole_frequencies_leave_columns_uniform_with_the_stated_correlation():
    for own, before in ((1, 1), (2, 2), (1, 3)):
        n = 400_000
        data = make_grid(
            n, 3, frequencies_own=own, frequencies_before=before, random_state=2
        ).data
        for column in data.T:
            assert stats.kstest(column, "uniform").pvalue > KS_LEVEL
        # cov = 1 / (4π² a b) up to sign, and the variance is 1/12.
        expected = 12 / (4 * np.pi**2 * own * before)
        found = np.corrcoef(data.T)[[0, 1], [1, 2]]
        assert_close(found, np.full(2, expected), 5 / np.sqrt(n), scale=1.0)


def test_mean_log_density_is_that_of_the_rows():
    # E log p of one pair is the same for all whole frequencies.
    simulation = make_grid(200_000, 2, random_state=3)

    def entropy(y, x):
        p = 1 + np.sin(2 * np.pi * x) * np.sin(2 * np.pi * y)
        return p * np.log(p) if p > 0 else 0.0

    expected, _ = integrate.dblquad(entropy, 0, 1, 0, 1, epsabs=1e-6)
    spread = simulation.log_density.std() / np.sqrt(200_000)
    assert abs(simulation.log_density.mean() - expected) < 4 * spread


def test_outside_of_the_cube_there_is_no_mass():
    simulation = make_grid(1, 2, random_state=0)
    outside = np.array([[-0.1, 0.3], [0.3, 1.2], [0.5, -1e-9]])
    assert np.all(np.isneginf(simulation.logpdf(outside)))
    assert simulation.conditional_cdf(outside)[:, 1].tolist()[1:] == [1.0, 0.0]


def test_rows_depend_on_the_seed_and_nothing_else():
    first, again = (make_grid(100, 4, random_state=5).data for _ in range(2))
    assert np.array_equal(first, again)
    simulation = make_grid(10, 4, random_state=6)
    assert not np.array_equal(first[:10], simulation.data)
    assert np.array_equal(simulation.sample(100, random_state=5), first)
    assert simulation.sample().shape == (1, 4)
    assert isinstance(simulation, JointSimulation)
    assert isinstance(simulation, Simulation)


def test_a_simulation_is_a_table_where_one_is_wanted():
    simulation = make_grid(50, 2, random_state=0)
    np.testing.assert_array_equal(np.asarray(simulation), simulation.data)
    assert np.array(simulation, dtype=np.float32).dtype == np.float32


def test_one_column_is_uniform():
    simulation = make_grid(1000, 1, random_state=0)
    assert np.all(simulation.log_density == 0.0)
    assert simulation.graph == {0: ()}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n": 0}, "n must be a whole number from 1 on, got 0"),
        ({"d": 1.5}, "d must be a whole number from 1 on, got 1.5"),
        ({"frequencies_own": [1, 2]}, "frequencies_own must be one finite number or 3"),
        ({"frequencies_before": np.nan}, "frequencies_before must be one finite"),
        ({"frequencies_before": "two"}, "frequencies_before must be a number"),
        ({"random_state": -1}, "random_state must be a seed"),
    ],
)
def test_wrong_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        make_grid(**{"n": 5, "d": 3, **arguments})


def test_rows_of_another_width_are_refused():
    with pytest.raises(ValueError, match=r"data must have shape \(rows, 3\), got \(3,"):
        make_grid(5, 3).logpdf([0.1, 0.2, 0.3])
