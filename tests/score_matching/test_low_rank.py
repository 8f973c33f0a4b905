"""The low-rank estimator against loops over rows, brute force, and the exact one."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import optimize

from kexpfam.errors import IllConditionedError
from kexpfam.kernels import Gaussian, RationalQuadratic, separable
from kexpfam.score_matching import (
    Basis,
    ScoreSample,
    fit_exact,
    fit_low_rank,
    score_matching_loss,
    statistics,
)
from kexpfam.score_matching.low_rank import RELATIVE_JITTER
from tests.oracles import kernels
from tests.oracles.score_matching import SlowJoint, joint_partials, slow_loss
from tests.selection.cases import make_sample
from tests.tolerances import ROUNDING, SOLVE, assert_close

LAM = 0.05
KERNEL = separable(Gaussian(0.8), Gaussian(0.7))
SLOW = SlowJoint(((kernels.gaussian(0.8), kernels.gaussian(0.7)),))

# Derivatives by Cauchy's formula and sums of a few dozen of them.
LOOPS = 1e-10


def make(n=9, d=2, *, centers=4, derivatives=True, kernel=KERNEL):
    sample = make_sample(n, 2, d, seed=3, weighted=True)
    basis = Basis(kernel, sample.X[:centers], sample.Y[:centers], derivatives)
    return basis, sample


def slow_features(basis, X, Y, order, i):
    """∂_iʳφ at rows by loops, (n, M)."""
    P = joint_partials(SLOW, X, Y, basis.X, basis.Y)
    columns = [P[:, b, i, 0, order, 0] for b in range(len(basis.Y))]
    for s in range(1, basis.derivatives + 1):
        for j in range(Y.shape[1]):
            columns += [P[:, b, i, j, order, s] for b in range(len(basis.Y))]
    return np.stack(columns, axis=1)


def slow_gram(basis):
    """⟨φ, φ⟩ by loops: derivatives of the kernel in both arguments."""
    m, d = basis.Y.shape
    P = joint_partials(SLOW, basis.X, basis.Y, basis.X, basis.Y)
    index = [(b, 0, 0) for b in range(m)]
    for r in range(1, basis.derivatives + 1):
        index += [(b, r, j) for j in range(d) for b in range(m)]
    R = np.empty((len(index), len(index)))
    for k, (a, r, i) in enumerate(index):
        for q, (b, s, j) in enumerate(index):
            R[k, q] = P[a, b, i, j, r, s]
    return R


@pytest.mark.parametrize("derivatives", [False, True, 2])
@pytest.mark.parametrize("d", [1, 2])
def test_statistics_and_gram_matrix_equal_loops(d, derivatives):
    basis, sample = make(d=d, derivatives=derivatives)
    found = statistics(basis, sample)
    C, b = np.zeros_like(found.C), np.zeros_like(found.b)
    for i in range(d):
        F = slow_features(basis, sample.X, sample.Y, 1, i)
        S = slow_features(basis, sample.X, sample.Y, 2, i)
        for a in range(len(sample.Y)):
            g, m, w = (
                sample.gsm_weights[a, i],
                sample.gsm_linear[a, i],
                sample.weights[a],
            )
            C += w * g * np.outer(F[a], F[a])
            b += w * (g * S[a] + m * F[a])
    assert_close(found.C, C, LOOPS)
    assert_close(found.b, b, LOOPS)
    assert_close(found.weight, 1.0)
    R = slow_gram(basis)
    R += RELATIVE_JITTER * np.trace(R) / len(R) * np.eye(len(R))
    assert_close(basis.gram(), R, LOOPS)


def part(sample, rows):
    return ScoreSample(
        sample.X[rows],
        sample.Y[rows],
        sample.weights[rows],
        sample.gsm_linear[rows],
        sample.gsm_weights[rows],
    )


def test_statistics_of_parts_add_up_and_are_subtracted():
    basis, sample = make()
    whole = statistics(basis, sample)
    first = statistics(basis, part(sample, slice(0, 4)))
    second = statistics(basis, part(sample, slice(4, None)))
    for found, expected in ((first + second, whole), (whole - first, second)):
        assert_close(found.C, expected.C, ROUNDING)
        assert_close(found.b, expected.b, ROUNDING)
        assert_close(found.weight, expected.weight, ROUNDING)
    R = basis.gram()
    assert_close((whole - first).solve(R, LAM), second.solve(R, LAM), SOLVE)


def test_a_weight_of_two_equals_two_rows():
    basis, sample = make()
    counts = np.array([1, 2, 1, 3, 1, 1, 2, 1, 1])
    again = np.repeat(np.arange(9), counts)
    weighted = replace(sample, weights=counts / counts.sum())
    repeated = part(sample, again)
    repeated = replace(repeated, weights=np.full(len(again), 1 / len(again)))
    one, other = (fit_low_rank(basis, s, LAM) for s in (weighted, repeated))
    assert_close(one.value(sample.X, sample.Y), other.value(sample.X, sample.Y), SOLVE)


def test_only_ratios_of_weights_matter():
    basis, sample = make()
    R = basis.gram()
    thousandfold = replace(sample, weights=1e3 * sample.weights)
    assert_close(
        statistics(basis, thousandfold).solve(R, LAM),
        statistics(basis, sample).solve(R, LAM),
        SOLVE,
    )


@pytest.mark.parametrize("derivatives", [False, True, 2])
def test_the_fit_minimises_the_penalised_objective_over_its_coefficients(derivatives):
    basis, sample = make(derivatives=derivatives)
    R = slow_gram(basis)
    F = [slow_features(basis, sample.X, sample.Y, 1, i) for i in range(2)]
    S = [slow_features(basis, sample.X, sample.Y, 2, i) for i in range(2)]

    def objective(alpha):
        gradient = np.stack([f @ alpha for f in F], axis=1)
        curvature = np.stack([s @ alpha for s in S], axis=1)
        loss = slow_loss(
            gradient, curvature, sample.weights, sample.gsm_linear, sample.gsm_weights
        )
        return loss + 0.5 * LAM * alpha @ R @ alpha

    alpha = statistics(basis, sample).solve(basis.gram(), LAM)
    brute = optimize.minimize(objective, np.zeros(basis.size), tol=1e-14)
    # The jitter is not in the brute objective: it moves the minimum by its square.
    assert objective(alpha) <= brute.fun + 1e-9 * abs(brute.fun)
    assert objective(alpha) < objective(np.zeros(basis.size)) - 1e-3


@pytest.mark.parametrize("derivatives", [False, True, 2])
def test_expansion_has_the_features_of_the_basis(derivatives):
    basis, sample = make(derivatives=derivatives)
    alpha = np.random.default_rng(0).normal(size=basis.size)
    T = basis.expansion(alpha)
    P = slow_features(basis, sample.X, sample.Y, 0, 0)
    assert_close(T.value(sample.X, sample.Y), P @ alpha, LOOPS)


def test_the_objective_approaches_that_of_the_exact_fit_as_centres_are_added():
    """All rows lack only ∂²K, a part of ξ; with rows moved by ±h it is nearly there."""
    sample = make_sample(15, 2, 1, seed=5)
    exact = fit_exact(KERNEL, sample, LAM).T
    best = penalised(exact, sample, exact_norm(exact, sample))
    h = 0.2
    X, Y = np.tile(sample.X, (3, 1)), np.concatenate([sample.Y + s for s in (0, h, -h)])
    values = []
    for m in (3, 8, 15, 45):
        basis = Basis(KERNEL, X[:m], Y[:m])
        alpha = statistics(basis, sample).solve(basis.gram(), LAM)
        norm = alpha @ basis.gram() @ alpha
        values.append(penalised(basis.expansion(alpha), sample, norm))
    assert np.all(np.diff(values) < 0)
    assert values[-1] > best - 1e-9 * abs(best)
    # Values and slopes at three points give ∂²K to about (h/ℓ)⁴ = 0.007.
    assert values[-1] - best < 0.01 * abs(best)


def penalised(T, sample, squared_norm):
    return score_matching_loss(T, sample) + 0.5 * LAM * squared_norm


def exact_norm(T, sample):
    """‖T‖² of the minimiser of ½Q(T) + L(T) + λ/2‖T‖²: along T, Q + L + λ‖T‖² = 0."""
    Q, L = quadratic_and_linear(T, sample)
    return -(Q + L) / LAM


def quadratic_and_linear(T, sample):
    """Q = Σ w g (∂T)² from the loss of T and 2T: loss(cT) = ½c²Q + cL."""
    one = score_matching_loss(T, sample)
    doubled = replace(T, first=2 * T.first, second=2 * T.second)
    two = score_matching_loss(doubled, sample)
    Q = two - 2 * one
    return Q, one - 0.5 * Q


def test_too_small_a_regularization_is_refused_in_one_sentence():
    basis, sample = make(n=9, d=1, centers=9, kernel=separable(*[Gaussian(50.0)] * 2))
    with pytest.raises(IllConditionedError, match=r"regularization 1e-300; raise it"):
        fit_low_rank(basis, sample, 1e-300)


def test_other_kernels_and_sums_of_products_have_the_right_statistics():
    """Against differences of the features, since the oracle above is Gaussian."""
    kernel = KERNEL + separable(Gaussian(2.0), RationalQuadratic(0.6))
    basis, sample = make(d=1, kernel=kernel)
    step = 1e-4

    def value(shift):
        pairs = basis.pairs(sample.X, sample.Y + shift)
        return basis.features(pairs, 0, 0)

    pairs = basis.pairs(sample.X, sample.Y)
    slope = (value(step) - value(-step)) / (2 * step)
    curvature = (value(step) - 2 * value(0.0) + value(-step)) / step**2
    # Truncation is step² times a fourth or fifth derivative of about 1e2.
    assert_close(basis.features(pairs, 1, 0), slope, 1e-6)
    assert_close(basis.features(pairs, 2, 0), curvature, 1e-5)
