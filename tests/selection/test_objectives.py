"""Held-out objectives against refits, quadrature and differences."""

import numpy as np
import pytest
from scipy import integrate

from kexpfam.base_densities import UniformBase, boundary_weights
from kexpfam.kernels import (
    Constant,
    Gaussian,
    InverseMultiquadric,
    Matern,
    RationalQuadratic,
    separable,
)
from kexpfam.partition import Nodes
from kexpfam.score_matching import ScoreSample, fit_low_rank, score_matching_loss
from kexpfam.selection.held_out import held_out_log_densities
from kexpfam.selection.objectives import (
    HeldOutLikelihood,
    HeldOutObjective,
    HeldOutScore,
)
from kexpfam.selection.parameters import Parameters, Penalty
from kexpfam.selection.problem import HeldOutProblem
from tests.selection.cases import BASE, differences, make_problem
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
            sample.drift[keep],
            sample.diffusion[keep],
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
        score_matching_loss(T, problem.part(fold))
        for fold, T in refits(problem, kernel, parameters.regularization)
    )
    assert_close(objective.value(THETA).loss, slow, SOLVE)


def test_likelihood_equals_held_out_log_densities():
    problem = make_problem(weighted=True)
    parameters = Parameters.from_theta(THETA)
    kernel = separable(
        Gaussian(parameters.lengthscale_x), Gaussian(parameters.lengthscale_y)
    )
    fast = held_out_log_densities(
        problem.basis(kernel),
        problem.rows,
        BASE,
        problem.sample,
        [parameters.regularization],
        problem.reach,
    )
    criterion = HeldOutLikelihood.of(problem, resolution=kernel.resolution)
    objective = HeldOutObjective(problem, Gaussian(), Gaussian(), criterion)
    expected = -problem.mean_weights @ fast[0]
    assert_close(objective.value(THETA).loss, expected, SINGLE)


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
    problem = HeldOutProblem.make(sample, base, 4, rng, n_centers=10)
    kernel = separable(Gaussian((1.0,)), Gaussian(0.7))
    slow = 0.0
    for fold, T in refits(problem, kernel, 0.05):
        for a in range(fold.start, fold.stop):
            x = problem.sample.X[a : a + 1]

            def tilt(u, x=x, T=T):
                return float(np.exp(T.value(x, np.array([[u]]))[0]))

            z, _ = integrate.quad(tilt, -1.0, 1.0)
            slow -= np.log(tilt(problem.sample.Y[a, 0]) / z) / 40
    criterion = HeldOutLikelihood.of(problem, resolution=0.7)
    objective = HeldOutObjective(problem, Gaussian(), Gaussian(), criterion)
    theta = np.log([1.0, 0.7, 0.05])
    # Nodes 0.1 apart; T has second derivatives of about one here.
    assert_close(objective.value(theta).loss, slow, 2e-3, scale=1.0)
    assert_gradient_is_right(objective, theta)
    fast = held_out_log_densities(
        problem.basis(kernel), problem.rows, base, problem.sample, [0.05], 1.0
    )
    assert fast.min() > -5.0
    assert_close(-fast.mean(), slow, 2e-3, scale=1.0)


def test_a_row_counts_at_least_the_floor_and_has_no_gradient_there():
    problem = make_problem()
    problem.sample.drift[problem.folds[0]] = -4000.0
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
