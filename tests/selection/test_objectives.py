"""Held-out objectives against refits, quadrature and differences."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from scipy import integrate

from kexpfam.base_densities import UniformBase, boundary_weights
from kexpfam.family import LogDensities
from kexpfam.family.cross_validation import cross_validated_by_score
from kexpfam.kernels import (
    Constant,
    Gaussian,
    InverseMultiquadric,
    Matern,
    RationalQuadratic,
    separable,
)
from kexpfam.partition import Nodes
from kexpfam.score_matching import (
    Basis,
    ScoreSample,
    fit_low_rank,
    score_matching_loss,
    statistics,
)
from kexpfam.score_matching.sum_gradients import (
    GaussianSumGradient,
    GeneralSumGradient,
    SumWeights,
    stretch_x,
    sum_gradient,
)
from kexpfam.selection import (
    HeldOutLikelihood,
    HeldOutObjective,
    HeldOutScore,
    Parameters,
    Penalty,
)
from tests.selection.cases import BASE, differences, in_folds, make_problem, make_sample
from tests.tolerances import DIFFERENCES, SOLVE, assert_close

THETA = np.log([0.8, 1.7, 0.7, 0.05])

KERNELS_Y = [
    Gaussian(),
    RationalQuadratic(alpha=0.7),
    Matern(nu=2.5),
    Matern(nu=3.5),
    InverseMultiquadric(),
]
KERNELS_X = [Gaussian(), RationalQuadratic(), Matern(nu=0.5), Matern(nu=1.5)]

# Held-out log densities are computed in float32, with sums of about a hundred terms of
# size up to ten.
SINGLE = 1e-4

# With nodes 0.1 apart, linear between them, a log density is known to about 0.1²/8 of
# its second derivative, which is about ten here.
INTERPOLATION = 0.01


def criteria(problem):
    if problem.sample.Y.shape[1] > 1:
        return [HeldOutScore()]
    return [HeldOutLikelihood.of(problem), HeldOutScore()]


def refits(problem, kernel, lam):
    """Each fold's rows, and T fitted to all other rows."""
    sample, n = problem.sample, len(problem.sample.Y)
    for fold in problem.folds:
        keep = np.setdiff1d(np.arange(n), np.arange(n)[fold])
        weights = sample.weights[keep]
        rest = ScoreSample(
            sample.X[keep],
            sample.Y[keep],
            weights / weights.sum(),
            sample.gsm_linear[keep],
            sample.gsm_weights[keep],
        )
        yield fold, fit_low_rank(problem.basis(kernel), rest, lam)


def assert_gradient_is_right(objective, theta):
    value, gradient = objective.value_and_gradient(theta)
    assert value == objective.value(theta)
    slow = differences(lambda t: objective.value(t).total, theta)
    scale = max(1.0, np.abs(slow).max(), abs(value.total))
    assert_close(gradient, slow, DIFFERENCES, scale=scale)


@pytest.mark.parametrize("kernel_y", KERNELS_Y, ids=str)
@pytest.mark.parametrize("kernel_x", KERNELS_X, ids=str)
def test_gradient_equals_differences_for_every_kernel(kernel_x, kernel_y):
    problem = make_problem(weighted=True)
    for criterion in criteria(problem):
        objective = HeldOutObjective(problem, kernel_x, kernel_y, criterion)
        assert_gradient_is_right(objective, THETA)


@pytest.mark.parametrize("ell_x", [0.2, 1.0, 5.0])
@pytest.mark.parametrize("ell_y", [0.3, 1.0, 2.0])
@pytest.mark.parametrize("lam", [1e-2, 1.0])
def test_gradient_equals_differences_over_a_range_of_lengthscales(ell_x, ell_y, lam):
    problem = make_problem()
    theta = np.log([ell_x, 2.0 * ell_x, ell_y, lam])
    for criterion in criteria(problem):
        objective = HeldOutObjective(problem, Gaussian(), Gaussian(), criterion)
        assert_gradient_is_right(objective, theta)


@pytest.mark.parametrize("n_folds", [2, 7, 40])
@pytest.mark.parametrize("derivatives", [True, False])
def test_gradient_equals_differences_for_any_folds_and_basis(n_folds, derivatives):
    problem = make_problem(n_folds=n_folds, derivatives=derivatives, weighted=True)
    for criterion in criteria(problem):
        objective = HeldOutObjective(problem, Gaussian(), Gaussian(), criterion)
        assert_gradient_is_right(objective, THETA)


@pytest.mark.parametrize("kernel_y", KERNELS_Y, ids=str)
@pytest.mark.parametrize("d", [2, 3])
def test_gradient_equals_differences_for_several_columns_of_y(d, kernel_y):
    problem = make_problem(d=d, weighted=True)
    objective = HeldOutObjective(problem, Gaussian(), kernel_y, HeldOutScore())
    assert_gradient_is_right(objective, THETA)


def test_constant_kernel_of_x_has_no_lengthscales():
    # Few centres: with more, neighbours on the line make the Gram matrix singular, and
    # differences would only see rounding.
    problem = make_problem(n_centers=4, derivatives=False)
    for criterion in criteria(problem):
        objective = HeldOutObjective(problem, Constant(), Gaussian(), criterion)
        assert_gradient_is_right(objective, np.log([0.3, 0.05]))


def test_penalty_is_reported_apart_and_in_the_gradient():
    problem = make_problem()
    penalty = Penalty(0.3, Parameters((1.0, 1.0), 1.0, 0.01))
    criterion = HeldOutLikelihood.of(problem)
    free = HeldOutObjective(problem, Gaussian(), Gaussian(), criterion)
    pulled = HeldOutObjective(problem, Gaussian(), Gaussian(), criterion, penalty)
    value = pulled.value(THETA)
    assert value.loss == free.value(THETA).loss
    expected = 0.15 * sum(np.log(ell) ** 2 for ell in (0.8, 1.7, 0.7))
    assert_close(value.penalty, expected)
    assert_close(value.total, value.loss + expected)
    assert_gradient_is_right(pulled, THETA)


@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("derivatives", [True, False])
def test_score_equals_refits_without_each_fold(d, derivatives):
    problem = make_problem(d=d, weighted=True, derivatives=derivatives)
    objective = HeldOutObjective(problem, Gaussian(), Gaussian(), HeldOutScore())
    parameters = Parameters.from_theta(THETA)
    kernel = separable(*objective.kernels(parameters))
    slow = sum(
        score_matching_loss(T, problem.sample.part(fold))
        for fold, T in refits(problem, kernel, parameters.regularization)
    )
    assert_close(objective.value(THETA).loss, slow, SOLVE)


def test_likelihood_equals_held_out_log_densities():
    problem = make_problem(weighted=True)
    parameters = Parameters.from_theta(THETA)
    kernel = separable(
        Gaussian(parameters.lengthscale_x), Gaussian(parameters.lengthscale_y)
    )
    fast = cross_validated_by_score(
        problem, kernel, [parameters.regularization], LogDensities.of
    )
    criterion = HeldOutLikelihood.of(problem, resolution=kernel.resolution)
    objective = HeldOutObjective(problem, Gaussian(), Gaussian(), criterion)
    expected = -problem.mean_weights @ fast[0]
    assert_close(objective.value(THETA).loss, expected, SINGLE)


@pytest.mark.slow
def test_likelihood_approaches_that_of_refits_normalised_by_quad():
    problem = make_problem(n=20, weighted=True)
    parameters = Parameters.from_theta(THETA)
    kernel = separable(
        Gaussian(parameters.lengthscale_x), Gaussian(parameters.lengthscale_y)
    )
    slow = 0.0
    for fold, T in refits(problem, kernel, parameters.regularization):
        for a in range(fold.start, fold.stop):
            x = problem.sample.X[a : a + 1]

            def log_tilted(u, x=x, T=T):
                U = np.array([[u]])
                return float(BASE.log_density(U)[0] + T.value(x, U)[0])

            z, _ = integrate.quad(lambda u, f=log_tilted: np.exp(f(u)), -12, 12)
            log_p = log_tilted(problem.sample.Y[a, 0]) - np.log(z)
            slow -= problem.mean_weights[a] * log_p

    errors = []
    for step in (0.1, 0.01):
        points = np.arange(-12.0, 12.0, step)
        criterion = HeldOutLikelihood(Nodes(points, np.full(len(points), np.log(step))))
        objective = HeldOutObjective(problem, Gaussian(), Gaussian(), criterion)
        errors.append(abs(objective.value(THETA).loss - slow))
    assert errors[0] < INTERPOLATION
    # Second order: a tenth of the distance, a hundredth of the error.
    assert errors[1] < INTERPOLATION / 100


def test_rows_at_the_ends_of_a_bounded_support_have_their_density():
    rng = np.random.default_rng(5)
    X, Y = rng.normal(size=(40, 1)), rng.uniform(-1.0, 1.0, size=(40, 1))
    Y[:2, 0] = -1.0, 1.0  # on the ends
    base = UniformBase(-1.0, 1.0)
    g, slope = boundary_weights(Y, base.support(1), Y.std(axis=0))
    sample = ScoreSample(X, Y, np.full(40, 1 / 40), slope, g)
    problem = in_folds(sample, base, 4, rng, n_centers=10)
    kernel = separable(Gaussian((1.0,)), Gaussian(0.7))
    slow = 0.0
    for fold, T in refits(problem, kernel, 0.05):
        for a in range(fold.start, fold.stop):
            x = problem.sample.X[a : a + 1]

            def tilt(u, x=x, T=T):
                U = np.reshape(u, (-1, 1))
                return np.exp(T.value(np.repeat(x, len(U), axis=0), U))

            z, _ = integrate.fixed_quad(tilt, -1.0, 1.0, n=40)
            slow -= np.log(tilt(problem.sample.Y[a, 0])[0] / z) / 40
    criterion = HeldOutLikelihood.of(problem, resolution=0.7)
    objective = HeldOutObjective(problem, Gaussian(), Gaussian(), criterion)
    theta = np.log([1.0, 0.7, 0.05])
    # Nodes 0.1 apart; T has second derivatives of about one here.
    assert_close(objective.value(theta).loss, slow, 2e-3, scale=1.0)
    assert_gradient_is_right(objective, theta)
    fast = cross_validated_by_score(problem, kernel, [0.05], LogDensities.of)
    assert fast.min() > -5.0
    assert_close(-fast.mean(), slow, 2e-3, scale=1.0)


def test_a_row_counts_at_least_the_floor_and_has_no_gradient_there():
    problem = make_problem()
    problem.sample.gsm_linear[problem.folds[0]] = -4000.0
    objective = HeldOutObjective(
        problem, Gaussian(), Gaussian(), HeldOutLikelihood.of(problem)
    )
    theta = np.log([0.8, 1.7, 0.7, 1e-4])
    value, gradient = objective.value_and_gradient(theta)
    assert 20.0 < value.loss <= 50.0
    assert np.isfinite(gradient).all()


def test_failed_fits_are_worth_the_floor_or_infinitely_bad():
    problem = make_problem()
    theta = np.log([1e3, 1e3, 50.0, 1e-300])  # nothing but rounding in the system
    likelihood = HeldOutObjective(
        problem, Gaussian(), Gaussian(), HeldOutLikelihood.of(problem)
    )
    score = HeldOutObjective(problem, Gaussian(), Gaussian(), HeldOutScore())
    assert likelihood.value(theta).loss == pytest.approx(50.0)
    assert score.value(theta).loss == np.inf
    assert np.all(likelihood.value_and_gradient(theta)[1] == 0.0)


# Row blocks, threads, and likelihoods of some rows.


def value_and_gradient(objective, theta):
    value, gradient = objective.value_and_gradient(theta)
    return np.append(gradient, value.loss)


@pytest.mark.parametrize("kernel", [Gaussian(), Matern(nu=2.5)], ids=str)
@pytest.mark.parametrize("derivatives", [True, False])
def test_row_blocks_and_threads_change_nothing(kernel, derivatives):
    problem = make_problem(n=200, derivatives=derivatives, weighted=True)
    for criterion in criteria(problem):
        objective = HeldOutObjective(problem, kernel, kernel, criterion, n_jobs=1)
        whole = value_and_gradient(objective, THETA)
        for n_jobs in (1, 3):  # in blocks of 7 rows instead of one for each fold
            parts = replace(objective, n_jobs=n_jobs, row_block=7)
            assert_close(value_and_gradient(parts, THETA), whole, SOLVE)


def test_threads_give_the_same_digits_every_time():
    problem = make_problem(n=100, derivatives=False)
    for criterion in criteria(problem):
        objective = HeldOutObjective(
            problem, Gaussian(), Gaussian(), criterion, row_block=7
        )
        results = [value_and_gradient(objective, THETA) for _ in range(5)]
        assert np.ptp(results, axis=0).max() == 0.0


@pytest.mark.parametrize("kernel", [Gaussian(), Matern(nu=2.5)], ids=str)
def test_memory_does_not_grow_by_a_matrix_of_rows_and_centers(kernel):
    m, peaks = 50, []
    for n in (10_000, 20_000):
        problem = make_problem(n=n, n_centers=m, derivatives=False)
        likelihood = HeldOutLikelihood.of(problem, resolution=1.0, most_rows=1000)
        for criterion in (likelihood, HeldOutScore()):
            # One thread: when two of them meet is not the same each time.
            objective = HeldOutObjective(problem, kernel, kernel, criterion, n_jobs=1)
            tracemalloc.start()
            try:
                objective.value_and_gradient(THETA)
                peaks.append(tracemalloc.get_traced_memory()[1])
            finally:
                tracemalloc.stop()
    # A few vectors of all rows are made.
    assert peaks[2] - peaks[0] < 0.25 * 8 * 10_000 * m
    assert peaks[3] - peaks[1] < 0.25 * 8 * 10_000 * m


@pytest.mark.parametrize("kernel_x", [Gaussian((0.8, 1.7)), Constant(2.0)], ids=str)
@pytest.mark.parametrize("d", [1, 2, 3])
def test_the_fast_gradient_of_the_sums_equals_the_general_one(kernel_x, d):
    rng = np.random.default_rng(3)
    sample = make_sample(n=50, d=d, weighted=True)
    sample.X[0], sample.Y[1] = 1e9, -1e12  # so far that every kernel vanishes
    centers = sample.X[10:30], sample.Y[10:30]
    options = kernel_x, Gaussian(0.7), *centers
    fast = sum_gradient(*options, [(0, 0)])
    assert isinstance(fast, GaussianSumGradient)
    slow = GeneralSumGradient(*options, [(0, 0)])
    weights = SumWeights(*rng.normal(size=(2, 20, 3)), rng.normal(size=20))
    assert_close(fast.of(sample, weights), slow.of(sample, weights))


@pytest.mark.parametrize("derivatives", [True, False])
@pytest.mark.parametrize("kernel", [Gaussian(), Matern(nu=2.5)], ids=str)
def test_gradient_of_the_sums_equals_differences_of_statistics(kernel, derivatives):
    rng = np.random.default_rng(4)
    sample = make_sample(n=50, d=2, weighted=True)
    X, Y = sample.X[:9], sample.Y[:9]

    def kernels(theta):
        ells = np.exp(theta)
        return replace(kernel, lengthscale=tuple(ells[:2])), replace(
            kernel, lengthscale=float(ells[2])
        )

    basis = Basis(separable(kernel, kernel), X, Y, derivatives)
    size = basis.size
    weights = SumWeights(*rng.normal(size=(2, size, 3)), rng.normal(size=size))

    def weighted(theta):
        sums = statistics(Basis(separable(*kernels(theta)), X, Y, derivatives), sample)
        quadratic = np.einsum("ar,ab,br->", weights.left, sums.C, weights.right)
        return quadratic + weights.linear @ sums.b

    theta = np.log([0.8, 1.7, 0.7])
    fast = sum_gradient(*kernels(theta), X, Y, basis.orders)
    assert_close(fast.of(sample, weights), differences(weighted, theta), DIFFERENCES)


def test_far_centers_are_left_to_the_general_gradient():
    X, Y = np.array([[0.0], [1e4]]), np.zeros((2, 1))
    way = sum_gradient(Gaussian(1.0), Gaussian(1.0), X, Y, [(0, 0)])
    assert isinstance(way, GeneralSumGradient)


@pytest.mark.parametrize("kernel", [Gaussian(), Matern(nu=0.5), Matern(nu=1.5)])
@pytest.mark.parametrize("far", [1.0, 1e4])
def test_stretched_kernels_of_x_equal_differences(kernel, far):
    rng = np.random.default_rng(6)
    X, weights = rng.normal(size=(30, 2)), rng.normal(size=(30, 8))
    X[3] = X[5] = far
    Z = X[:8]

    def weighted(theta):
        return np.vdot(weights, replace(kernel, lengthscale=np.exp(theta)).values(X, Z))

    theta = np.log([0.8, 1.7])
    at = replace(kernel, lengthscale=np.exp(theta))
    fast = stretch_x(at, X, Z, at.values(X, Z), weights)
    assert_close(fast, differences(weighted, theta), DIFFERENCES)


def test_some_rows_are_random_ones_of_every_fold_and_no_more_than_asked_for():
    problem = make_problem(n=103, n_folds=5)
    some = HeldOutLikelihood.of(problem, most_rows=20).some
    # Folds have 20 or 21 rows, of which they send 20/103.
    assert [len(rows) for rows in some] == [3, 4, 3, 4, 4]
    for rows, fold in zip(some, problem.folds, strict=True):
        assert len(set(rows)) == len(rows)
        assert fold.start <= rows.min() <= rows.max() < fold.stop
    again = HeldOutLikelihood.of(problem, most_rows=20).some
    assert all(map(np.array_equal, some, again))
    assert HeldOutLikelihood.of(problem, most_rows=103).some is None


def test_if_some_rows_are_all_nothing_changes():
    problem = make_problem(weighted=True)
    everyone = HeldOutLikelihood.of(problem)
    listed = replace(everyone, some=tuple(problem.rows_of_folds))
    results = [
        value_and_gradient(HeldOutObjective(problem, Gaussian(), Gaussian(), c), THETA)
        for c in (everyone, listed)
    ]
    assert_close(results[0], results[1], SOLVE)


def test_log_densities_of_some_rows_are_those_of_fits_to_all():
    problem = make_problem(n=60, weighted=True)
    criterion = HeldOutLikelihood.of(problem, resolution=0.7, most_rows=15)
    objective = HeldOutObjective(problem, Gaussian(), Gaussian(), criterion)
    parameters = Parameters.from_theta(THETA)
    kernel = separable(*objective.kernels(parameters))
    (log_p,) = cross_validated_by_score(
        problem, kernel, [parameters.regularization], LogDensities.of
    )
    rows = np.concatenate(criterion.some)
    expected = -np.average(log_p[rows], weights=problem.sample.weights[rows])
    # Nodes near these instead of near all rows: see INTERPOLATION.
    assert_close(objective.value(THETA).loss, expected, INTERPOLATION, scale=1.0)
    assert_gradient_is_right(objective, THETA)


def test_objectives_say_what_they_cannot_search():
    problem = make_problem(d=2)
    with pytest.raises(ValueError, match="one column of y, got 2"):
        HeldOutLikelihood.of(problem)
    with pytest.raises(TypeError, match="kernel_y must be a radial kernel"):
        HeldOutObjective(problem, Gaussian(), Constant(), HeldOutScore())
    with pytest.raises(ValueError, match="kernel_y must have one lengthscale"):
        HeldOutObjective(problem, Gaussian(), Gaussian((1.0, 2.0)), HeldOutScore())
    with pytest.raises(TypeError, match="kernel_x must be a radial kernel"):
        HeldOutObjective(problem, Gaussian() + 1.0, Gaussian(), HeldOutScore())
    objective = HeldOutObjective(problem, Gaussian(), Gaussian(), HeldOutScore())
    with pytest.raises(ValueError, match="theta must have 4 entries"):
        objective.value(np.zeros(3))
