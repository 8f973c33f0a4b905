"""Held-out log densities of many fits at once, against refits normalised one by one."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from scipy import integrate

from kexpfam.base_densities import GaussianBase, StudentBase, UniformBase
from kexpfam.family import (
    HeldOutProblem,
    LogDensities,
    equal_folds,
    nodes_inside,
)
from kexpfam.family.cross_validation import (
    LOWEST_LOG_DENSITY,
    FoldScores,
    RowLaws,
    RowScores,
    coefficients_without_folds,
    cross_validated,
    cross_validated_by_score,
    scattered_nodes,
)
from kexpfam.kernels import Constant, Gaussian, Matern, separable
from kexpfam.partition import Nodes
from kexpfam.score_matching import (
    ScoreSample,
    fit_low_rank,
    score_matching_loss,
    statistics,
)
from tests.oracles.integrals import integral
from tests.selection.cases import BASE, make_problem
from tests.tolerances import SOLVE, STANDARD_ERRORS, assert_close

KERNELS = {
    "gaussian": separable(Gaussian(0.8), Gaussian(0.7)),
    "constant": separable(Constant(), Gaussian(0.7)),
    "sum": separable(Gaussian(1.0), Matern(1.0, nu=2.5))
    + separable(Gaussian(3.0), Gaussian(2.0)),
}


def log_densities(problem, kernel, lams):
    return cross_validated_by_score(problem, kernel, lams, LogDensities.of)


def refit(problem, kernel, lam, fold):
    """The fit to the other rows."""
    sample = problem.sample
    keep = np.setdiff1d(np.arange(len(sample.Y)), np.arange(len(sample.Y))[fold])
    rest = ScoreSample(
        sample.X[keep],
        sample.Y[keep],
        sample.weights[keep] / sample.weights[keep].sum(),
        sample.gsm_linear[keep],
        sample.gsm_weights[keep],
    )
    return fit_low_rank(problem.basis(kernel), rest, lam)


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("weighted", [False, True])
def test_log_densities_equal_refits_normalised_by_quad(name, weighted):
    # Smooth enough for the nodes: the bound below is vacuous for rougher fits.
    kernel, lams = KERNELS[name], [0.1, 1.0]
    problem = make_problem(n=12, n_folds=3, weighted=weighted, derivatives=False)
    found = log_densities(problem, kernel, lams)
    for k, lam in enumerate(lams):
        for fold in problem.folds:
            T = refit(problem, kernel, lam, fold)
            for a in range(fold.start, fold.stop):
                x, y = problem.sample.X[a : a + 1], problem.sample.Y[a, 0]
                expected, curvature = log_density_by_quad(T, x, y)
                # Interpolation between nodes 0.1 apart, and the trapezoidal rule, are
                # each wrong by at most 0.1²/8 times the curvature of the logarithm;
                # single precision adds less than 1e-4.
                bound = 2 * 0.1**2 / 8 * curvature + 1e-4
                assert abs(found[k, a] - expected) < bound
                assert bound < 0.2


def test_laws_of_rows_equal_refits_integrated_by_quad():
    """PIT values, and moments of what responses are at nodes, here exponentials."""
    kernel, lam = KERNELS["gaussian"], 0.1
    problem = make_problem(n=12, n_folds=3, derivatives=False)
    criterion = partial(RowLaws.of, responses=lambda fold, u: np.exp(0.3 * u))
    found = cross_validated_by_score(problem, kernel, [lam], criterion)[0]
    for fold in problem.folds:
        T = refit(problem, kernel, lam, fold)
        for a in range(fold.start, fold.stop):
            x, y = problem.sample.X[a : a + 1], float(problem.sample.Y[a, 0])

            def tilted(u, x=x, T=T):
                point = np.array([[u]])
                return float(np.exp(BASE.log_density(point) + T.value(x, point))[0])

            below = integrate.quad(tilted, -15.0, y)[0]
            mass = below + integrate.quad(tilted, y, 15.0)[0]
            first, second = (
                integrate.quad(lambda u, k=k: tilted(u) * np.exp(0.3 * k * u), -15, 15)
                for k in (1, 2)
            )
            mean = first[0] / mass
            # The trapezoidal rule with nodes 0.1 apart: 0.1²/12 of the curvature of
            # the density, which is some tens here, times the mass.
            assert abs(found[a, 0] - below / mass) < 0.005
            assert_close(found[a, 1], mean, 0.005)
            assert_close(found[a, 2], second[0] / mass - mean**2, 0.02)


def test_masses_of_a_base_density_alone_are_its_distribution_function():
    problem = make_problem(n=12, n_folds=3)
    kernel = KERNELS["constant"]
    found = cross_validated_by_score(problem, kernel, [1e12], RowLaws.of)[0]
    assert_close(found[:, 0], BASE.column_cdf(problem.sample.Y[:, 0], 0), 1e-3)


def log_density_by_quad(T, x, y):
    """Log density at y, and the largest curvature of log q0 + T near the data."""

    def log_tilted(u):
        points = np.reshape(u, (-1, 1))
        T_u = T.value(np.repeat(x, len(points), axis=0), points)
        return BASE.log_density(points) + T_u

    mass = integral(lambda u: np.exp(log_tilted(u)), [-12.0, 0.0, 12.0])
    grid = np.linspace(-3.0, 3.0, 601)
    values = log_tilted(grid)
    curvature = np.abs(np.diff(values, 2)).max() / (grid[1] - grid[0]) ** 2
    return (log_tilted(y) - np.log(mass))[0], curvature


def test_log_densities_of_two_columns_equal_refits_on_a_fine_box():
    kernel, lam = separable(Gaussian(1.0), Gaussian(1.2)), 0.1
    problem = make_problem(n=30, d=2, n_folds=3, derivatives=False)
    (found,) = log_densities(problem, kernel, [lam])
    nodes, weights = np.polynomial.legendre.leggauss(60)
    grid = np.stack(np.meshgrid(7 * nodes, 7 * nodes, indexing="ij"), axis=-1)
    points, volume = grid.reshape(-1, 2), 49 * np.outer(weights, weights).ravel()
    log_q0 = BASE.log_density(points)
    expected = np.empty_like(found)
    for fold in problem.folds:
        T = refit(problem, kernel, lam, fold)
        for a in range(fold.start, fold.stop):
            x, y = problem.sample.X[a : a + 1], problem.sample.Y[a : a + 1]
            values = log_q0 + T.value(np.repeat(x, len(points), axis=0), points)
            log_z = np.log(np.exp(values) @ volume)
            expected[a] = BASE.log_density(y)[0] + T.value(x, y)[0] - log_z
    # Two thousand shared draws with an effective share of about a half: log Z has a
    # standard error of about 1/√1000.
    assert_close(found, expected, STANDARD_ERRORS / np.sqrt(1000), scale=1.0)


def test_scattered_nodes_integrate_a_normal_density_within_sampling_error():
    U = np.random.default_rng(0).normal(size=(100, 2))
    points, log_weights = scattered_nodes(U)
    np.testing.assert_array_equal(points[:100], U)
    terms = np.exp(GaussianBase(1.0).log_density(points) + log_weights)
    error = terms.std() * np.sqrt(len(points))
    assert abs(terms.sum() - 1.0) < STANDARD_ERRORS * error
    assert error < 0.05


@pytest.mark.parametrize("lam", [1e-9, 1e-6, 1e-3, 1.0])
def test_what_is_reported_never_integrates_to_more_than_one(lam):
    """The density of the left-out row as a function of its response, however rough.

    The last row is its own fold, and is moved over a fine grid; the basis, the other
    rows and hence the fit stay the same.
    """
    problem = make_problem(n=16, n_folds=4, n_centers=8, derivatives=False)
    sample, kernel = problem.sample, separable(Gaussian(0.8), Gaussian(0.15))
    steps = np.linspace(-3.0, 3.0, 1501)
    rest = sample.Y[:15]
    X = np.concatenate([sample.X[:15], np.repeat(sample.X[15:], len(steps), axis=0)])
    Y = np.concatenate([rest, steps[:, None]])
    moved = ScoreSample(
        X, Y, np.ones(len(Y)), BASE.grad_log_density(Y), np.ones_like(Y)
    )
    folds = (slice(0, 15), slice(15, len(Y)))
    many = HeldOutProblem(moved, folds, problem.centers, BASE, problem.reach, False)
    (found,) = log_densities(many, kernel, [lam])
    density = np.exp(found[15:])
    # The steps are 0.004 apart, a tenth of the nodes' distance.
    assert integrate.trapezoid(density, steps) < 1.0 + 1e-3


def test_a_spike_between_nodes_earns_nothing():
    """No held-out row is ever worth thousands of nats, whatever λ."""
    problem = make_problem(n=20, n_folds=4, derivatives=False)
    for ell in (0.01, 0.1, 1.0):
        kernel = separable(Gaussian(0.5), Gaussian(ell))
        found = log_densities(problem, kernel, [1e-12, 1e-9, 1e-6, 1e-3])
        # A density on nodes 0.25·ℓ apart cannot exceed the inverse of their distance.
        assert found.max() <= -np.log(0.25 * ell) + 0.1
        assert found.min() >= LOWEST_LOG_DENSITY


def test_failed_fits_count_as_the_lowest_log_density():
    problem = make_problem(n=20, derivatives=False)
    kernel = separable(Gaussian(50.0), Gaussian(50.0))
    found = log_densities(problem, kernel, [1e-300, 1.0])
    np.testing.assert_array_equal(found[0], LOWEST_LOG_DENSITY)
    assert found[1].min() > LOWEST_LOG_DENSITY


def test_statistics_of_folds_sum_to_those_of_all_rows():
    problem = make_problem(n=20, d=2, weighted=True)
    basis = problem.basis(separable(Gaussian(0.8), Gaussian(0.7)))
    parts = [statistics(basis, problem.sample.part(fold)) for fold in problem.folds]
    total = statistics(basis, problem.sample)
    assert_close(sum(part.C for part in parts), total.C)
    assert_close(sum(part.b for part in parts), total.b)
    assert_close(sum(part.weight for part in parts), total.weight)


@pytest.mark.parametrize("d", [1, 2])
def test_scores_equal_the_losses_of_refits(d):
    """Of rows one by one, and of folds from their sums alone."""
    kernel, lams = KERNELS["gaussian"], [1e-2, 1.0]
    problem = make_problem(n=20, d=d, weighted=True)
    basis = problem.basis(kernel)
    by_row = cross_validated_by_score(problem, kernel, lams, RowScores)
    parts = [statistics(basis, problem.sample.part(fold)) for fold in problem.folds]
    alphas = coefficients_without_folds(parts, basis.gram(), lams)
    by_fold = cross_validated(alphas, FoldScores(parts))
    for k, lam in enumerate(lams):
        for f, fold in enumerate(problem.folds):
            T, own = refit(problem, kernel, lam, fold), problem.sample.part(fold)
            share = own.weights / own.weights.sum()
            loss = score_matching_loss(T, replace(own, weights=share))
            assert_close(-by_row[k, fold] @ share, loss, SOLVE)
            assert_close(-by_fold[k, f], loss, SOLVE)


def test_scores_of_failed_fits_are_infinitely_bad():
    problem = make_problem(n=20, derivatives=False)
    kernel = separable(Gaussian(50.0), Gaussian(50.0))
    found = cross_validated_by_score(problem, kernel, [1e-300, 1.0], RowScores)
    np.testing.assert_array_equal(found[0], -np.inf)
    assert np.isfinite(found[1]).all()


@pytest.mark.parametrize(("n", "count"), [(5, 2), (12, 3), (7, 7), (100, 10)])
def test_equal_folds_are_all_rows_in_order_and_differ_by_at_most_one(n, count):
    folds = equal_folds(n, count)
    rows = np.arange(n)
    np.testing.assert_array_equal(np.concatenate([rows[fold] for fold in folds]), rows)
    sizes = [len(rows[fold]) for fold in folds]
    assert len(sizes) == count
    assert max(sizes) - min(sizes) <= 1
    assert min(sizes) >= 1


@pytest.mark.parametrize("far", [1e2, 1e8, 1e12])
def test_nodes_stay_few_and_cover_an_outlier_however_far_it_is(far):
    U = np.append(np.linspace(-2.0, 2.0, 50), far)[:, None]
    nodes = Nodes.covering(U, 8.0, 0.35)
    assert len(nodes.points) < 1000
    assert np.all(np.diff(nodes.points) > 0)
    left, share = nodes.interpolation(U[:, 0])
    assert np.all((share >= 0) & (share <= 1))
    # As fine at the outlier as elsewhere, up to the spacing of doubles there.
    gaps = np.diff(nodes.points)[left]
    assert np.all(gaps <= max(0.1, 4 * np.spacing(far)))


def test_nodes_of_a_gap_integrate_a_normal_density_on_either_side():
    U = np.array([[0.0], [40.0]])
    nodes = Nodes.covering(U, 8.0, 0.7)
    for center in (0.0, 40.0):
        density = np.exp(GaussianBase(0.3, center).log_density(nodes.points[:, None]))
        assert_close(density @ np.exp(nodes.log_weights), 1.0, 1e-3)


def test_nodes_end_where_the_support_ends():
    U = np.array([[0.02], [0.97]])
    base = UniformBase(0.0, 1.0)
    points = nodes_inside(base, U, 1.0, 0.3).points
    assert points[0] == 0.0
    assert points[-1] == 1.0
    unbounded = nodes_inside(StudentBase(1.0), U, 1.0, 0.3).points
    assert unbounded[0] < 0.0
    assert unbounded[-1] > 1.0
