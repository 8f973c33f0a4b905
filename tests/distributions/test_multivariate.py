"""Densities of two and three variables against brute-force tensor quadrature."""

import numpy as np
import pytest
from scipy import interpolate, optimize, stats

from kexpfam import KCEF, KEF
from kexpfam.base_densities import GaussianBase, StudentBase, UniformBase
from kexpfam.errors import NormalizationWarning
from kexpfam.kernels import Constant, Gaussian
from tests.tolerances import (
    DIFFERENCES,
    KS_LEVEL,
    MINIMISER,
    PLANE_QUADRATURE,
    STANDARD_ERRORS,
    assert_close,
)


@pytest.fixture(scope="module")
def plane_truth(plane_case):
    """Nodes, masses and log Z at each condition; the box holds all but 4e-9."""
    return [plane_case.family.on_box(x, 12.0, 280) for x in plane_case.X]


@pytest.fixture(scope="module")
def space_truth(space_case):
    """The same in three dimensions, to 1e-4: enough to judge importance sampling."""
    return [space_case.family.on_box(x, 6.5, 56) for x in space_case.X[:2]]


def moments(nodes, mass):
    mean = mass @ nodes
    return mean, (nodes - mean).T @ ((nodes - mean) * mass[:, None])


def margin_cdf(values, mass):
    """The distribution function of one column, smooth between the nodes."""
    nodes, which = np.unique(values, return_inverse=True)
    margin = np.bincount(which, mass)
    standard, weights = np.polynomial.legendre.leggauss(len(nodes))
    half = (nodes[-1] - nodes[0]) / np.ptp(standard)  # half of the box
    return interpolate.CubicSpline(nodes, margin / (half * weights)).antiderivative()


def test_log_partition_of_two_columns_equals_brute_force(plane_case, plane_truth):
    p = plane_case.density
    expected = [log_z for _, _, log_z in plane_truth]
    assert_close(p.log_partition, expected, PLANE_QUADRATURE)
    assert np.all(p.log_partition_error < 1e-6)
    assert p.effective_draws is None
    assert p.tail_index is None


def test_log_density_of_two_columns_equals_brute_force(plane_case, plane_truth):
    family = plane_case.family
    U = np.array([[0.0, 0.0], [0.5, -1.0], [-3.0, 2.0]])
    for i, (_, _, log_z) in enumerate(plane_truth):
        expected = family.log_unnormalized(plane_case.X[i], U) - log_z
        expected -= np.log(family.scale).sum()
        actual = plane_case.density[i].logpdf(family.center + family.scale * U)
        assert_close(actual, expected, PLANE_QUADRATURE)


def test_moments_and_entropy_of_two_columns_equal_brute_force(plane_case, plane_truth):
    p, family = plane_case.density, plane_case.family
    for i, (nodes, mass, log_z) in enumerate(plane_truth):
        mean, covariance = moments(nodes, mass)
        assert_close(p.mean()[i], mean, PLANE_QUADRATURE)
        assert_close(p.cov()[i], covariance, 10 * PLANE_QUADRATURE)
        assert_close(p.var()[i], np.diag(covariance), 10 * PLANE_QUADRATURE)
        U = (nodes - family.center) / family.scale
        kept = mass > 0
        log_p = family.log_unnormalized(plane_case.X[i], U[kept]) - log_z
        entropy = -(mass[kept] @ log_p) + np.log(family.scale).sum()
        assert_close(p.entropy()[i], entropy, 10 * PLANE_QUADRATURE, scale=1.0)


@pytest.mark.parametrize("fixture", ["plane_case", "space_case"])
def test_gradient_equals_differences_of_the_log_density(fixture, request):
    case = request.getfixturevalue(fixture)
    p, d = case.density, len(case.family.center)
    points = case.family.center + np.random.default_rng(0).normal(size=(len(p), 4, d))
    gradient = p.grad_logpdf(points)
    for j in range(d):
        move = 1e-5 * np.eye(d)[j]
        slope = (p.logpdf(points + move) - p.logpdf(points - move)) / 2e-5
        assert_close(gradient[..., j], slope, DIFFERENCES)


@pytest.mark.parametrize("fixture", ["plane_case", "space_case"])
def test_mode_is_not_beaten_from_any_start(fixture, request):
    case = request.getfixturevalue(fixture)
    p, family = case.density, case.family
    modes = p.mode()
    rng = np.random.default_rng(1)
    starts = family.center + family.scale * rng.normal(size=(8, len(family.center)))
    for i in range(2):
        top = p[i].logpdf(modes[i])
        found = [
            optimize.minimize(
                lambda y, i=i: -float(p[i].logpdf(y)),
                start,
                jac=lambda y, i=i: -p[i].grad_logpdf(y),
            )
            for start in starts
        ]
        best = min(found, key=lambda result: result.fun)
        assert top >= -best.fun - MINIMISER
        scale = np.sqrt(np.diag(p[i].cov()))
        assert np.all(np.abs(p[i].grad_logpdf(modes[i]) * scale) < 1e-3)


def test_draws_of_two_columns_have_the_margins_of_the_density(plane_case, plane_truth):
    draws = plane_case.density.rvs(250, random_state=5)
    for i, (nodes, mass, _) in enumerate(plane_truth):
        for k in (0, 1):
            cdf = margin_cdf(nodes[:, k], mass)
            assert stats.kstest(draws[i, :, k], cdf).pvalue > KS_LEVEL
        mean, covariance = moments(nodes, mass)
        white = np.linalg.solve(np.linalg.cholesky(covariance), (draws[i] - mean).T)
        assert abs(np.mean(white[0] * white[1])) < STANDARD_ERRORS * np.std(
            white[0] * white[1]
        ) / np.sqrt(250)


def test_importance_sampling_of_three_columns_is_right_within_its_errors(
    space_case, space_truth
):
    p, family = space_case.density, space_case.family
    assert np.all(p.effective_draws > 500)
    assert np.all(p.tail_index < 0.7)
    assert np.all(p.log_partition_error < 0.1)
    for i, (nodes, mass, log_z) in enumerate(space_truth):
        gap = abs(p.log_partition[i] - log_z)
        assert gap < STANDARD_ERRORS * p.log_partition_error[i]
        mean, covariance = moments(nodes, mass)
        error = np.sqrt(np.diag(covariance) / p.effective_draws[i])
        assert np.all(np.abs(p.mean()[i] - mean) < STANDARD_ERRORS * error)
        # Fourth moments of these densities are below ten squared variances.
        sd = np.sqrt(np.diag(covariance))
        limit = STANDARD_ERRORS * np.outer(sd, sd) * np.sqrt(10 / p.effective_draws[i])
        assert np.all(np.abs(p.cov()[i] - covariance) < limit)
        U = (nodes - family.center) / family.scale
        kept = mass > 1e-12
        log_p = family.log_unnormalized(space_case.X[i], U[kept]) - log_z
        entropy = -(mass[kept] @ log_p) + np.log(family.scale).sum()
        spread = np.sqrt(mass[kept] @ (log_p - mass[kept] @ log_p) ** 2)
        limit = STANDARD_ERRORS * (spread + 1) / np.sqrt(p.effective_draws[i])
        assert abs(p.entropy()[i] - entropy) < limit


def test_log_density_of_three_columns_is_base_plus_T_minus_the_estimate(space_case):
    p, family = space_case.density, space_case.family
    U = np.array([[0.0, 0.0, 0.0], [0.5, -1.0, 0.3]])
    for i, x in enumerate(space_case.X):
        expected = family.log_unnormalized(x, U) - p.log_partition[i]
        expected -= np.log(family.scale).sum()
        actual = p[i].logpdf(family.center + family.scale * U)
        assert_close(actual, expected, 1e-6)


def test_the_same_seed_gives_the_same_estimate(space_case):
    again = space_case.model.given(space_case.X)
    np.testing.assert_array_equal(again.log_partition, space_case.density.log_partition)


def test_draws_of_three_columns_have_the_moments_of_the_density(
    space_case, space_truth
):
    draws = space_case.density.rvs(600, random_state=7)
    for i, (nodes, mass, _) in enumerate(space_truth):
        mean, covariance = moments(nodes, mass)
        # Draws are as good as 600 and the importance weights behind them.
        count = 1.0 / (1.0 / 600 + 1.0 / space_case.density.effective_draws[i])
        error = np.sqrt(np.diag(covariance) / count)
        assert np.all(np.abs(draws[i].mean(axis=0) - mean) < STANDARD_ERRORS * error)
        ratio = draws[i].var(axis=0) / np.diag(covariance)
        assert np.all(np.abs(ratio - 1.0) < STANDARD_ERRORS * np.sqrt(9 / count))


def test_importance_sampling_that_cannot_work_warns_with_numbers():
    rng = np.random.default_rng(0)
    data = rng.normal(size=(40, 3))
    model = KEF(
        kernel=Gaussian(0.3),
        base=GaussianBase(2.0),
        regularization=1e-6,
        partition="importance",
        random_state=0,
    )
    message = r"unreliable for 1 of 1.*effective.*partition='smc'"
    with pytest.warns(NormalizationWarning, match=message):
        model.fit(data)
    # Forty spikes are too much for particles, too, and they say so.
    message = r"tempered particles is unreliable for 1 of 1.*ancestors"
    with pytest.warns(NormalizationWarning, match=message):
        model.set_params(partition="auto").fit(data)


def test_moments_of_two_columns_that_do_not_exist_are_said_not_to():
    data = np.random.default_rng(0).normal(size=(4, 2))
    base = StudentBase(2.0, df=2.0)
    p = (
        KEF(kernel=Gaussian(2.0), base=base, regularization=1.0)
        .fit(data)
        .distribution()
    )
    np.testing.assert_array_equal(p.var(), [np.inf, np.inf])


def test_a_bounded_plane_is_normalised_without_a_warning():
    data = np.random.default_rng(0).uniform(0, 1, size=(20, 2))
    model = KEF(kernel=Gaussian(1.5), base=UniformBase(0.0, 1.0)).fit(data)
    nodes, weights = np.polynomial.legendre.leggauss(60)
    a, b = np.meshgrid(0.5 + 0.5 * nodes, 0.5 + 0.5 * nodes, indexing="ij")
    points = np.stack([a.ravel(), b.ravel()], axis=1)
    mass = np.exp(model.score_samples(points)) @ np.outer(weights, weights).ravel() / 4
    assert_close(mass, 1.0, PLANE_QUADRATURE)
    outside = model.score_samples([[0.5, 1.1], [-0.1, 0.5]])
    np.testing.assert_array_equal(outside, -np.inf)
    draws = model.sample(200, random_state=0)
    assert draws.min() >= 0
    assert draws.max() <= 1


def test_densities_that_do_not_depend_on_x_are_normalised_once():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(40, 1)), rng.normal(size=(40, 2))
    given = {"kernel_y": Gaussian(1.0), "base": "gaussian", "regularization": 1e-2}
    model = KCEF(kernel_x=Constant(), select=None, **given).fit(X, Y)
    p = model.given(X[:5])
    assert p._tilted.same_rows
    alone = [model.given(X[[k]]).logpdf(Y[[k]])[0] for k in range(5)]
    np.testing.assert_allclose(p.logpdf(Y[:5]), alone, rtol=1e-12)
    assert p.rvs(3, random_state=0).shape == (5, 3, 2)
