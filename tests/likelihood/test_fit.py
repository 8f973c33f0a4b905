"""The fit: what holds at an optimum, and what score matching cannot see."""

import numpy as np
import pytest

from kexpfam.base_densities import GaussianBase, UniformBase
from kexpfam.distributions import ResponseCoordinates, UnivariateDensity
from kexpfam.errors import ConvergenceWarning, NormalizationWarning
from kexpfam.kernels import Constant, Gaussian, separable
from kexpfam.likelihood import (
    PenalizedLikelihood,
    fit_likelihood,
    quadrature_nodes,
)
from kexpfam.likelihood.fit import NewtonSpec
from kexpfam.likelihood.objective import NodeSpec
from kexpfam.score_matching import Basis, ScoreSample, TiltedDensity, statistics
from tests.tolerances import QUADRATURE, ROUNDING, SOLVE, assert_close

BASE = GaussianBase(2.0)
LINE = np.array([[-np.inf, np.inf]])


def waves(n=80, seed=1):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.5, 1.5, size=(n, 1))
    U = np.sin(2 * X) + np.where(rng.random((n, 1)) < 0.4, 1.0, -0.5)
    return X, U + 0.25 * rng.normal(size=(n, 1))


def make_basis(X, U, m=20, ell=0.6):
    return Basis(separable(Gaussian(0.7), Gaussian(ell)), X[:m], U[:m])


def by_score_matching(basis, base, X, U, weights, lam):
    share = weights / weights.sum()
    gsm_linear, ones = base.grad_log_density(U), np.ones_like(U)
    sample = ScoreSample(X, U, share, gsm_linear, ones)
    return statistics(basis, sample).solve(basis.gram(), lam)


def density_of(T, base, X):
    ones = np.ones((len(X), 1))
    return UnivariateDensity.normalize(
        TiltedDensity(base, T, X), ResponseCoordinates(0 * ones, ones, LINE), 0.6
    )


@pytest.fixture(scope="module")
def fitted():
    X, U = waves()
    weights = np.random.default_rng(2).uniform(0.5, 2.0, len(X))
    basis = make_basis(X, U)
    return X, U, weights, basis, fit_likelihood(basis, BASE, X, U, weights, 1e-3)


def test_at_the_optimum_moments_match_up_to_the_penalty(fitted):
    X, U, weights, basis, fit = fitted
    p = density_of(fit.T, BASE, X)
    share = weights / weights.sum()
    nodes = p._line.cells.nodes.reshape(-1, 1)
    expected = np.zeros(basis.size)
    for a in range(len(X)):  # E_a[φ] by the adaptive cells
        at = np.repeat(X[a : a + 1], len(nodes), axis=0)
        phi = basis.features(basis.pairs(at, nodes), 0, 0)
        rows = p._line.rows(np.array([a])).cells
        for k in range(basis.size):
            values = phi[:, k].reshape(1, *p._line.cells.nodes.shape)
            expected[k] += share[a] * rows.integral(values)[0]
    mean = share @ basis.features(basis.pairs(X, U), 0, 0)
    # theory: mean φ − E[φ] = λRα, to the tolerance of the fit
    assert_close(mean - expected, 1e-3 * basis.gram() @ fit.alpha, 1e-6, scale=1.0)


def test_log_partition_agrees_with_adaptive_cells(fitted):
    X, U, weights, basis, fit = fitted
    nodes = quadrature_nodes(BASE, U, basis.kernel.resolution)
    problem = PenalizedLikelihood.of(basis, BASE, X, U, weights, 1e-3, nodes)
    T = problem.parts.on_nodes(fit.alpha)
    _, log_z = problem.parts.probabilities(T)
    assert fit.log_partition_error <= 1e-6  # what is promised
    assert_close(log_z, density_of(fit.T, BASE, X).log_partition, 1e-6, scale=1.0)


def test_narrow_peaks_refine_the_nodes():
    rng = np.random.default_rng(4)
    U = np.concatenate([np.repeat([0.0, 1.0], 40), rng.normal(size=40)])[:, None]
    X, ones = np.empty((120, 0)), np.ones(120)
    basis = Basis(separable(Constant(), Gaussian(0.3)), X[::4], U[::4])
    fit = fit_likelihood(basis, BASE, X, U, ones, 1e-6)
    nodes = quadrature_nodes(BASE, U, 0.3)
    problem = PenalizedLikelihood.of(basis, BASE, X, U, ones, 1e-6, nodes)
    T = problem.parts.on_nodes(fit.alpha)
    exact = density_of(fit.T, BASE, X[:1]).log_partition
    coarse = np.abs(problem.parts.probabilities(T)[1] - exact)
    assert coarse > 1e-6  # the first nodes would not have been enough
    assert fit.log_partition_error <= 1e-6
    assert fit.converged


def test_optimum_beats_score_matching_in_penalised_likelihood(fitted):
    X, U, weights, basis, fit = fitted
    nodes = quadrature_nodes(BASE, U, basis.kernel.resolution)
    problem = PenalizedLikelihood.of(basis, BASE, X, U, weights, 1e-3, nodes)
    other = by_score_matching(basis, BASE, X, U, weights, 1e-3)
    assert fit.objective < problem.at(problem.beta(other)).value
    assert_close(problem.at(problem.beta(fit.alpha)).value, fit.objective, 1e-6)


def test_every_start_leads_to_the_same_optimum(fitted):
    X, U, weights, basis, fit = fitted
    start = by_score_matching(basis, BASE, X, U, weights, 1e-2)
    far = 3.0 * np.random.default_rng(8).normal(size=basis.size)
    for begin in (start, far):
        again = fit_likelihood(basis, BASE, X, U, weights, 1e-3, start=begin)
        assert again.converged
        # The gradient is 1e-8 and the Hessian at least λ = 1e-3.
        assert_close(again.T.value(X, U), fit.T.value(X, U), 1e-4)
        assert_close(again.objective, fit.objective, ROUNDING)


def test_conjugate_gradients_find_the_same_optimum(fitted):
    X, U, weights, basis, fit = fitted
    never = NewtonSpec(most_work=0)  # forms the Hessian of all rows
    again = fit_likelihood(basis, BASE, X, U, weights, 1e-3, newton=never)
    assert again.converged
    assert_close(again.objective, fit.objective, ROUNDING)
    assert_close(again.T.value(X, U), fit.T.value(X, U), 1e-4)


def test_nothing_is_learned_where_the_base_is_the_truth():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(2000, 1))
    U = 2.0 * rng.normal(size=(2000, 1))
    fit = fit_likelihood(make_basis(X, U), BASE, X, U, np.ones(2000), 0.05)
    grid = np.linspace(-4, 4, 9)[:, None]
    T = fit.T.value(np.zeros_like(grid), grid)
    # Mean φ has a standard error of 1/√2000 = 0.02, divided by λ = 0.05 at most.
    assert np.max(np.abs(T)) < 0.4


def isolated_components(n, seed):
    """Bumps of mass 0.3 and 0.7, eight deviations apart."""
    rng = np.random.default_rng(seed)
    left = rng.random(n) < 0.3
    u = np.where(left, -1.5, 1.0) + 0.3 * rng.normal(size=n)
    return u[:, None], float(left.mean())


def test_masses_of_isolated_components_are_right_where_score_matching_is_wrong():
    U, share = isolated_components(400, 6)
    X, ones = np.empty((400, 0)), np.ones(400)
    basis = Basis(separable(Constant(), Gaussian(0.6)), X[:40], U[:40])
    fit = fit_likelihood(basis, BASE, X, U, ones, 1e-4)
    likely = density_of(fit.T, BASE, X[:1]).cdf(-0.25)[0]
    alpha = by_score_matching(basis, BASE, X, U, ones, 1e-4)
    matched = density_of(basis.expansion(alpha), BASE, X[:1]).cdf(-0.25)[0]
    assert abs(likely - share) < 0.01
    assert abs(matched - share) > 0.1


def test_weights_equal_repeated_rows():
    X, U = waves(30)
    basis = make_basis(X, U, 10)
    counts = np.random.default_rng(7).integers(1, 4, size=30)
    weighted = fit_likelihood(basis, BASE, X, U, counts.astype(float), 1e-2)
    rows = np.repeat(np.arange(30), counts)
    repeated = fit_likelihood(basis, BASE, X[rows], U[rows], np.ones(len(rows)), 1e-2)
    assert_close(weighted.T.value(X, U), repeated.T.value(X, U), SOLVE)


def test_density_integrates_to_one_with_edges_too():
    X, U = waves()
    base = UniformBase(float(U.min()) - 0.1, float(U.max()) + 0.2)
    fit = fit_likelihood(make_basis(X, U), base, X, U, np.ones(len(X)), 1e-3)
    ends = np.array([base.column_support(0)])
    ones = np.ones((3, 1))
    p = UnivariateDensity.normalize(
        TiltedDensity(base, fit.T, X[:3]),
        ResponseCoordinates(0 * ones, ones, ends),
        0.6,
    )
    assert fit.log_partition_error <= 1e-6
    grid = np.linspace(*ends[0], 20001)
    for row in p.pdf(grid[None]):
        # Simpson's rule with a step of 2e-4 on a smooth density
        step = grid[1] - grid[0]
        simpson = step / 3 * (row[0] + row[-1] + 4 * row[1:-1:2].sum())
        simpson += step / 3 * 2 * row[2:-1:2].sum()
        assert_close(simpson, 1.0, QUADRATURE)


def test_too_few_steps_are_announced():
    X, U = waves()
    with pytest.warns(ConvergenceWarning, match="stopped after 1 steps"):
        fit = fit_likelihood(
            make_basis(X, U), BASE, X, U, np.ones(len(X)), 1e-4, max_iterations=1
        )
    assert not fit.converged


def test_hardly_any_penalty_still_finds_its_optimum():
    # Peaks between the first nodes tempt here, and R is singular to rounding.
    X, U = waves(50)
    ones = np.ones(50)
    for ell, lam in ((0.35, 1e-8), (4.0, 1e-6)):
        fit = fit_likelihood(make_basis(X, U, 50, ell), BASE, X, U, ones, lam)
        assert fit.converged
        assert fit.log_partition_error <= 1e-6


def test_spikes_that_no_nodes_resolve_are_announced():
    coarse = NodeSpec(most_refinements=0, largest_step=10.0, step_in_lengthscales=1.0)
    X, U = waves()
    ones = np.ones(len(X))
    with pytest.warns(NormalizationWarning, match="spikes between the nodes"):
        fit = fit_likelihood(make_basis(X, U), BASE, X, U, ones, 1e-4, nodes=coarse)
    assert fit.log_partition_error > 1e-4


def test_two_columns_are_refused():
    X, U = waves()
    with pytest.raises(ValueError, match="U must have one column"):
        fit_likelihood(
            make_basis(X, U), BASE, X, np.hstack([U, U]), np.ones(len(X)), 1e-3
        )
