"""The exact fit against loops over rows and coordinates, and against its definition."""

import itertools

import numpy as np
import pytest
from scipy import stats

from kexpfam import KCEF
from kexpfam.errors import ConditioningWarning
from kexpfam.kernels import (
    Constant,
    Gaussian,
    JointKernel,
    Matern,
    Pairs,
    separable,
)
from kexpfam.score_matching import ScoreSample, fit_exact, score_matching_loss
from kexpfam.score_matching.exact import _assemble
from tests.kernels.cases import ARD_CASES, PLAIN_CASES, case_id
from tests.oracles import kernels as slow
from tests.oracles.integrals import SlowDensity
from tests.oracles.score_matching import (
    SlowJoint,
    joint_partials,
    slow_fit,
    slow_loss,
    system,
)
from tests.tolerances import QUADRATURE, ROUNDING, SOLVE, assert_close

LAM = 0.1
EVERY_KERNEL = PLAIN_CASES + ARD_CASES

every_kernel = pytest.mark.parametrize("case", EVERY_KERNEL, ids=case_id)
every_dimension = pytest.mark.parametrize("d", [1, 3])
with_and_without_x = pytest.mark.parametrize("p", [0, 2])


def make_sample(d, p, n=6, seed=11, *, weighted=False, bounded=False) -> ScoreSample:
    """Rows with the gsm_linear of a N(0, 2²) base; two rows share their responses.

    Other responses keep a distance, because the oracle's derivatives of a Matérn kernel
    lose digits near, but not at, a coincidence.
    """
    rng = np.random.default_rng(seed + 10 * d + p)
    grid = np.repeat(np.linspace(-2.0, 2.0, n)[:, None], d, axis=1)
    Y = rng.permuted(grid, axis=0) + rng.uniform(-0.2, 0.2, size=(n, d)) * 4.0 / n
    Y[1] = Y[0]
    weights = rng.uniform(0.1, 1.0, n) if weighted else np.ones(n)
    g, slope = np.ones((n, d)), np.zeros((n, d))
    if bounded:  # a weight that vanishes at the edge y = −3
        g, slope = -np.expm1(-(Y + 3.0) / 2.0), np.exp(-(Y + 3.0) / 2.0) / 2.0
    return ScoreSample(
        X=rng.normal(size=(n, p)),
        Y=Y,
        weights=weights / weights.sum(),
        gsm_linear=slope - g * Y / 4.0,
        gsm_weights=g,
    )


def queries(sample, seed=12):
    """New points, one training row, and a training response at another x."""
    rng = np.random.default_rng(seed)
    p = sample.X.shape[1]
    X = np.concatenate([rng.normal(size=(2, p)), sample.X[:1], sample.X[2:3]])
    Y = np.concatenate([sample.Y[2:4] + 0.25, sample.Y[:1], sample.Y[3:4]])
    return X, Y


def joint_pair(case, d, p):
    """The library's joint kernel and its oracle."""
    kernel_y, slow_y = case.build(1.0, d)
    if p == 0:
        return (
            separable(Constant(), kernel_y),
            SlowJoint(((slow.constant(1.0), slow_y),)),
        )
    return (
        separable(Gaussian(1.5), kernel_y),
        SlowJoint(((slow.gaussian(1.5), slow_y),)),
    )


def slow_fit_of(joint, sample, lam=LAM):
    return slow_fit(
        joint,
        sample.X,
        sample.Y,
        sample.weights,
        sample.gsm_linear,
        sample.gsm_weights,
        lam,
    )


def assert_same_function(T, expected, X, Y, tolerance=SOLVE):
    """T, ∂T and ∂²T at points; `expected` from the oracle."""
    for actual, wanted in zip(
        (T.value(X, Y), T.gradient(X, Y), T.second_derivative(X, Y)),
        expected,
        strict=True,
    ):
        assert_close(actual, wanted, tolerance)


def derivatives_of(T, X, Y):
    return T.value(X, Y), T.gradient(X, Y), T.second_derivative(X, Y)


@every_dimension
@pytest.mark.parametrize(
    ("case", "p"),
    [(case, 2) for case in EVERY_KERNEL] + [(case, 0) for case in PLAIN_CASES],
    ids=lambda value: value if isinstance(value, int) else case_id(value),
)
def test_fit_equals_loops(case, d, p):
    fast, oracle = joint_pair(case, d, p)
    sample = make_sample(d, p)
    T = fit_exact(fast, sample, LAM).T
    X, Y = queries(sample)
    assert_same_function(T, slow_fit_of(oracle, sample).derivatives(X, Y), X, Y)


@every_dimension
@with_and_without_x
def test_boundary_weighted_fit_equals_loops(d, p):
    sample = make_sample(d, p, weighted=True, bounded=True)
    assert np.ptp(sample.gsm_weights) > 0.1
    fast, oracle = joint_pair(PLAIN_CASES[0], d, p)
    T = fit_exact(fast, sample, LAM).T
    X, Y = queries(sample)
    assert_same_function(T, slow_fit_of(oracle, sample).derivatives(X, Y), X, Y)


@every_dimension
@with_and_without_x
def test_assembled_matrix_and_right_hand_side_equal_loops(d, p):
    sample = make_sample(d, p, weighted=True, bounded=True)
    fast, oracle = joint_pair(PLAIN_CASES[3], d, p)
    S = np.random.default_rng(1).uniform(0.5, 1.0, size=sample.Y.shape)
    matrix, h = _assemble(fast, sample, S, n_jobs=1)
    G, slow_h = system(
        oracle,
        sample.X,
        sample.Y,
        sample.weights,
        sample.gsm_linear,
        sample.gsm_weights,
    )
    wanted = S.ravel()[:, None] * G * S.ravel()
    assert_close(np.tril(matrix), np.tril(wanted), SOLVE)
    assert_close(h, slow_h, SOLVE)


def test_sum_of_products_equals_the_sum_of_oracles():
    sample = make_sample(2, 2, weighted=True)
    fast = separable(Constant(0.5), Matern(1.5, nu=3.5)) + separable(
        Gaussian(0.8), Gaussian((0.7, 1.4))
    )
    oracle = SlowJoint(
        (
            (slow.constant(0.5), slow.matern(1.5, 3.5)),
            (slow.gaussian(0.8), slow.gaussian((0.7, 1.4))),
        )
    )
    T = fit_exact(fast, sample, LAM).T
    X, Y = queries(sample)
    assert_same_function(T, slow_fit_of(oracle, sample).derivatives(X, Y), X, Y)


@every_dimension
@with_and_without_x
def test_no_direction_of_the_rkhs_lowers_the_penalised_objective(d, p):
    sample = make_sample(d, p, weighted=True, bounded=True)
    fast, oracle = joint_pair(PLAIN_CASES[0], d, p)
    T = fit_exact(fast, sample, LAM).T
    _, gradient, curvature = derivatives_of(T, sample.X, sample.Y)
    loss = slow_loss(
        gradient, curvature, sample.weights, sample.gsm_linear, sample.gsm_weights
    )
    objective = loss + 0.5 * LAM * T.squared_norm()
    rng = np.random.default_rng(5)
    for _ in range(4):
        # f = Σ_c γ_c K_c, so that ⟨T, f⟩ = Σ_c γ_c T(c) by the reproducing property
        centers_x, centers_y = rng.normal(size=(3, p)), rng.normal(size=(3, d))
        gamma = rng.normal(size=3)
        P = joint_partials(oracle, sample.X, sample.Y, centers_x, centers_y)
        diagonal = np.arange(d)
        slope = np.einsum("abi,b->ai", P[:, :, diagonal, diagonal, 1, 0], gamma)
        bend = np.einsum("abi,b->ai", P[:, :, diagonal, diagonal, 2, 0], gamma)
        inner = float(gamma @ T.value(centers_x, centers_y))
        own = joint_partials(oracle, centers_x, centers_y, centers_x, centers_y)
        squared = float(gamma @ own[:, :, 0, 0, 0, 0] @ gamma)

        def moved(step, slope=slope, bend=bend, inner=inner, squared=squared):
            moved_loss = slow_loss(
                gradient + step * slope,
                curvature + step * bend,
                sample.weights,
                sample.gsm_linear,
                sample.gsm_weights,
            )
            norm = T.squared_norm() + 2 * step * inner + step**2 * squared
            return moved_loss + 0.5 * LAM * norm

        # A quadratic's derivative is a central difference without error.
        assert abs(moved(1.0) - moved(-1.0)) / 2 < SOLVE * abs(objective)
        for step in (-1.0, -0.1, 0.1, 1.0):
            assert moved(step) > objective


@every_dimension
def test_squared_norm_equals_the_gram_matrix_of_the_expansion(d):
    sample = make_sample(d, 2, weighted=True)
    fast, oracle = joint_pair(PLAIN_CASES[5], d, 2)
    T = fit_exact(fast, sample, LAM).T
    assert_close(T.squared_norm(), slow_fit_of(oracle, sample).squared_norm(), SOLVE)


@every_dimension
def test_score_matching_loss_equals_loops_on_other_rows(d):
    fast, oracle = joint_pair(PLAIN_CASES[0], d, 2)
    training = make_sample(d, 2)
    held_out = make_sample(d, 2, n=5, seed=77, weighted=True, bounded=True)
    T = fit_exact(fast, training, LAM).T
    _, gradient, curvature = slow_fit_of(oracle, training).derivatives(
        held_out.X, held_out.Y
    )
    expected = slow_loss(
        gradient, curvature, held_out.weights, held_out.gsm_linear, held_out.gsm_weights
    )
    assert_close(score_matching_loss(T, held_out), expected, SOLVE)


class NotStationary(JointKernel):
    """The same kernel without the promise that half of the pairs is enough."""

    def __init__(self, inner):
        self.inner = inner

    def at(self, X, Y, X2, Y2, empty=np.empty):
        return self.inner.at(X, Y, X2, Y2, empty)


@every_kernel
@every_dimension
def test_stationary_half_of_the_pairs_equals_all_pairs(case, d):
    blocks_of_five = 8 * 23 * 5
    sample = make_sample(d, 2, n=23, weighted=True, bounded=True)
    S = np.random.default_rng(1).uniform(0.5, 1.0, size=sample.Y.shape)
    kernel, _ = joint_pair(case, d, 2)
    assert kernel.stationary
    assert not NotStationary(kernel).stationary
    matrix, h = _assemble(kernel, sample, S, 2, blocks_of_five)
    full, full_h = _assemble(NotStationary(kernel), sample, S, 1, blocks_of_five)
    assert_close(np.tril(matrix), np.tril(full))
    assert_close(full, full.T)
    assert_close(h, full_h)


@every_dimension
def test_row_block_height_and_threads_do_not_change_the_system(d):
    sample = make_sample(d, 2, n=30, weighted=True, bounded=True)
    kernel = separable(Gaussian(1.2), Matern(0.9, nu=3.5))
    S = np.random.default_rng(1).uniform(0.5, 1.0, size=sample.Y.shape)
    whole, whole_h = _assemble(kernel, sample, S, 1)
    for rows, n_jobs in itertools.product((1, 4, 7), (1, 2)):
        matrix, h = _assemble(kernel, sample, S, n_jobs, 8 * 30 * rows)
        assert_close(np.tril(matrix), np.tril(whole), ROUNDING)
        assert_close(h, whole_h, ROUNDING)


@every_dimension
def test_integer_weights_equal_repeated_rows(d):
    sample = make_sample(d, 2)
    counts = np.array([1, 2, 1, 3, 1, 2])
    again = np.repeat(np.arange(6), counts)
    repeated = ScoreSample(
        sample.X[again],
        sample.Y[again],
        np.full(len(again), 1 / len(again)),
        sample.gsm_linear[again],
        sample.gsm_weights[again],
    )
    weighted = ScoreSample(
        sample.X, sample.Y, counts / counts.sum(), sample.gsm_linear, sample.gsm_weights
    )
    kernel = separable(Gaussian(1.2), Gaussian(0.9))
    one, two = (fit_exact(kernel, s, LAM).T for s in (weighted, repeated))
    X, Y = queries(sample)
    assert_same_function(one, derivatives_of(two, X, Y), X, Y, ROUNDING)
    assert_close(one.squared_norm(), two.squared_norm())


@every_dimension
def test_rows_of_weight_zero_have_no_influence(d):
    sample = make_sample(d, 2)
    weights = np.array([0.0, 1, 2, 0, 1, 1])
    weights /= weights.sum()
    used = weights > 0
    wild = np.where(used[:, None], sample.Y, 50.0)
    with_zero = ScoreSample(
        sample.X, wild, weights, sample.gsm_linear, sample.gsm_weights
    )
    without = ScoreSample(
        sample.X[used],
        sample.Y[used],
        weights[used],
        sample.gsm_linear[used],
        sample.gsm_weights[used],
    )
    kernel = separable(Gaussian(1.2), Gaussian(0.9))
    one, two = (fit_exact(kernel, s, LAM).T for s in (with_zero, without))
    X, Y = queries(sample)
    assert_same_function(one, derivatives_of(two, X, Y), X, Y, ROUNDING)


def test_derivatives_of_the_fit_equal_differences_of_its_values():
    sample = make_sample(2, 2, n=12)
    T = fit_exact(separable(Gaussian(1.2), Gaussian(0.9)), sample, LAM).T
    X, Y = queries(sample)
    step = 1e-4
    for j in range(2):
        move = step * np.eye(2)[j]
        up, down, here = T.value(X, Y + move), T.value(X, Y - move), T.value(X, Y)
        # Central differences: errors step² T‴ and eps/step² T
        assert_close(T.gradient(X, Y)[:, j], (up - down) / (2 * step), 1e-6)
        second = (up - 2 * here + down) / step**2
        assert_close(T.second_derivative(X, Y)[:, j], second, 1e-4)


def test_a_tiny_regulariser_warns_and_names_its_value():
    sample = make_sample(1, 2, n=30)
    with pytest.warns(ConditioningWarning, match=r"raise regularization \(now 1e-18\)"):
        fit = fit_exact(separable(Gaussian(5.0), Gaussian(5.0)), sample, 1e-18)
    assert fit.rcond < 1e-13


def test_rcond_is_a_lower_bound_of_the_true_one():
    sample = make_sample(2, 2)
    fast, oracle = joint_pair(PLAIN_CASES[0], 2, 2)
    G, _ = system(
        oracle,
        sample.X,
        sample.Y,
        sample.weights,
        sample.gsm_linear,
        sample.gsm_weights,
    )
    true = 1.0 / np.linalg.cond(G + len(sample.Y) * LAM * np.eye(len(G)))
    rcond = fit_exact(fast, sample, LAM).rcond
    assert 0.01 * true < rcond <= true


class Sheared(JointKernel):
    """exp(−(x − x')²/2 − (y − sin x − y' + sin x')²/2ℓ²): not a product."""

    ell = 0.8

    def at(self, X, Y, X2, Y2, empty=np.empty):
        return ShearedPairs(X[:, 0], Y[:, 0], X2[:, 0], Y2[:, 0], self.ell)


class ShearedPairs(Pairs):
    def __init__(self, x, y, x2, y2, ell):
        self.u = (y - np.sin(x))[:, None] / ell - (y2 - np.sin(x2)) / ell
        self.k = np.exp(-0.5 * (x[:, None] - x2) ** 2 - 0.5 * self.u**2)
        self.ell = ell

    def partial(self, r, i, s, j):
        # dⁿ/duⁿ e^(−u²/2) = (−1)ⁿ He_n(u) e^(−u²/2), and ∂' = −∂
        hermite = np.polynomial.hermite_e.hermeval(self.u, np.eye(5)[r + s])
        return (-1.0) ** (r + s + s) * hermite * self.k / self.ell ** (r + s)


class SlowSheared:
    """The same kernel for the loops: a Gaussian of sheared responses."""

    def partials(self, x, y, x2, y2, i, j):
        table, _ = slow.partials(
            slow.gaussian(Sheared.ell), y - np.sin(x), y2 - np.sin(x2), i, j
        )
        return table * np.exp(-0.5 * float((x - x2)[0]) ** 2)


def test_a_kernel_of_the_users_own_that_is_no_product_works_end_to_end():
    rng = np.random.default_rng(21)
    x = rng.uniform(-2, 2, size=(12, 1))
    y = np.sin(x) + 0.4 * rng.normal(size=(12, 1))
    model = KCEF(select=None, kernel=Sheared(), regularization=LAM, standardize=False)
    model.fit(x, y[:, 0])
    base = stats.norm(scale=2.0)
    oracle = slow_fit(
        SlowSheared(), x, y, np.full(12, 1 / 12), -y / 4.0, np.ones((12, 1)), LAM
    )
    new_x = np.array([[0.3], [-1.0]])
    new_y = np.array([0.5, 0.1])
    T, gradient, _ = oracle.derivatives(new_x, new_y[:, None])
    p = model.given(new_x)
    assert_close(p.grad_logpdf(new_y), gradient[:, 0] - new_y / 4.0, SOLVE)
    nodes, weights = np.polynomial.legendre.leggauss(200)
    points = 14.0 * nodes[:, None]  # seven deviations of the base on either side
    tilt, _, _ = oracle.derivatives(np.repeat(new_x[:1], 200, axis=0), points)
    mass = 14.0 * weights @ np.exp(tilt + base.logpdf(points[:, 0]))
    assert_close(p.log_partition[0], np.log(mass), SOLVE)
    wanted = T[0] + base.logpdf(new_y[0]) - np.log(mass)
    assert_close(p.logpdf(new_y)[0], wanted, SOLVE)
    # The rest follows by quadrature, which knows the kernel as a function only.
    alone = SlowDensity(p[0].logpdf, [-20.0, -2.0, 0.0, 2.0, 20.0])
    assert_close(alone.log_partition, 0.0, QUADRATURE, scale=1.0)
    assert_close(p.mean()[0], alone.mean(), QUADRATURE, scale=1.0)
    assert_close(model.predict(new_x), p.mean())
