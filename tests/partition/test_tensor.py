"""Tensor quadrature in the plane against products, closed forms and dblquad."""

import numpy as np
import pytest
from scipy import stats

from kexpfam.partition import integrate_line, integrate_tensor
from tests.oracles.integrals import plane_integral
from tests.tolerances import (
    KS_LEVEL,
    PLANE_QUADRATURE,
    STANDARD_ERRORS,
    assert_close,
)

EVERYWHERE = ((True, True), (True, True))
NOWHERE = ((False, False), (False, False))


def rows_of(*log_densities):
    """Log densities of points (g, 2) as rows of one function."""

    def log_density(rows, nodes):
        return np.stack([f(nodes) for f in log_densities[rows]])

    return log_density


def edges(low=-4.0, high=4.0, count=9):
    return np.linspace(low, high, count), np.linspace(low, high, count)


def gaussian(mean, covariance):
    return stats.multivariate_normal(mean, covariance)


TILTED = gaussian([0.5, -1.0], [[0.5, 0.6], [0.6, 1.5]])
NARROW = gaussian([1.0, 1.0], [[0.01, 0.0], [0.0, 4.0]])


def test_log_partition_moments_and_entropy_of_gaussians_are_exact():
    targets = [(TILTED, 300.0), (NARROW, -700.0)]
    density = integrate_tensor(
        rows_of(*(lambda u, t=t, c=c: t.logpdf(u) + c for t, c in targets)),
        2,
        edges(),
        extend=EVERYWHERE,
    )
    constants = np.array([c for _, c in targets])
    assert_close(density.log_partition, constants, 1e-8, scale=1.0)
    assert np.all(np.abs(density.log_partition - constants) <= density.error + 1e-12)
    assert_close(density.mean, [t.mean for t, _ in targets], PLANE_QUADRATURE)
    assert_close(density.covariance, [t.cov for t, _ in targets], PLANE_QUADRATURE)
    entropy = density.log_partition - density.log_mean
    assert_close(entropy, [t.entropy() for t, _ in targets], PLANE_QUADRATURE)


def test_a_density_that_is_no_product_equals_dblquad():
    def log_density(u):
        a, b = u[:, 0], u[:, 1]
        return -0.5 * (b - a**2) ** 2 - 0.25 * a**4 + np.sin(a + b)

    def pdf(a, b):
        return np.exp(-0.5 * (b - a * a) ** 2 - 0.25 * a**4 + np.sin(a + b))

    density = integrate_tensor(rows_of(log_density), 1, edges(), extend=EVERYWHERE)
    box = (-3.5, 3.5), (-7.0, 13.0)  # exp(−37) and exp(−24) beyond
    total = plane_integral(pdf, *box)
    assert_close(density.log_partition, [np.log(total)], PLANE_QUADRATURE)
    mean = plane_integral(lambda a, b: b * pdf(a, b), *box) / total
    assert_close(density.mean[0, 1], mean, PLANE_QUADRATURE)
    cross = plane_integral(lambda a, b: a * (b - mean) * pdf(a, b), *box) / total
    assert_close(density.covariance[0, 0, 1], cross, PLANE_QUADRATURE, scale=1.0)


@pytest.mark.parametrize(
    ("first", "second", "extend", "limits"),
    [
        (stats.norm(0.2, 0.3), stats.gumbel_r(0.0, 1.0), EVERYWHERE, None),
        (stats.laplace(0.1), stats.norm(0, 2.0), EVERYWHERE, None),
        (stats.beta(2, 3), stats.uniform(), NOWHERE, (0.0, 1.0)),
    ],
    ids=["light", "kink", "bounded"],
)
def test_a_product_equals_the_product_of_one_dimensional_quadratures(
    first, second, extend, limits
):
    start = edges() if limits is None else edges(*limits, 5)
    density = integrate_tensor(
        rows_of(lambda u: first.logpdf(u[:, 0]) + second.logpdf(u[:, 1])),
        1,
        start,
        extend=extend,
    )
    alone = [
        integrate_line(lambda u, f=f: f.logpdf(u)[None], start[k], extend=extend[k])
        for k, f in enumerate((first, second))
    ]
    total = sum(p.log_partition[0] for p in alone)
    assert_close(density.log_partition[0], total, 1e-7, scale=1.0)
    assert abs(density.log_partition[0]) <= density.error[0] + 1e-12
    means = [p.cells.integral(p.cells.nodes)[0] for p in alone]
    assert_close(density.mean[0], means, PLANE_QUADRATURE, scale=1.0)
    assert_close(density.mean[0], [first.mean(), second.mean()], PLANE_QUADRATURE)
    variances = [first.var(), second.var()]
    assert_close(density.covariance[0], np.diag(variances), PLANE_QUADRATURE)


@pytest.fixture(scope="module", params=[3.0, 5.0])
def heavy(request):
    """Student's law and its square in the plane, integrated."""
    law = stats.t(request.param)
    density = integrate_tensor(
        rows_of(lambda u: law.logpdf(u).sum(axis=1)), 1, edges(), extend=EVERYWHERE
    )
    return law, density


def test_the_stated_error_bounds_the_true_one_for_heavy_tails(heavy):
    _, density = heavy
    assert abs(density.log_partition[0]) <= density.error[0]
    assert density.error[0] < 1e-6


def test_the_variance_of_heavy_tails_is_not_cut_off(heavy):
    law, density = heavy
    assert_close(density.covariance[0], law.var() * np.eye(2), 1e-4)


def test_a_bounded_density_that_is_resolved_has_a_small_stated_error():
    density = integrate_tensor(
        rows_of(lambda u: np.zeros(len(u))), 1, edges(0.0, 1.0, 3), extend=NOWHERE
    )
    assert_close(density.log_partition, [0.0], scale=1.0)
    assert density.error[0] < 1e-6  # nothing lies outside the support


def test_cells_grow_only_on_the_sides_where_mass_may_lie():
    law = stats.expon(scale=2.0)
    density = integrate_tensor(
        rows_of(lambda u: law.logpdf(u).sum(axis=1)),
        1,
        edges(0.0, 4.0, 5),
        extend=((False, True), (False, True)),
    )
    for e in density.edges:
        assert e[0] == 0.0
        assert e[-1] > 30.0
    assert_close(density.log_partition, [0.0], 1e-7, scale=1.0)
    assert_close(density.mean[0], [2.0, 2.0], 1e-6)


def test_rows_select_every_field():
    density = integrate_tensor(
        rows_of(TILTED.logpdf, NARROW.logpdf), 2, edges(), extend=EVERYWHERE
    )
    swapped = density.rows(np.array([1, 0]))
    for name in ("log_partition", "error", "mean", "covariance", "log_mean"):
        np.testing.assert_array_equal(
            getattr(swapped, name), getattr(density, name)[::-1]
        )


def test_draws_have_the_moments_and_margins_of_an_asymmetric_density():
    # b | a ~ N(a², ½²), a ~ Gumbel: skewed, curved, and with known margins
    first = stats.gumbel_r(-0.5, 0.5)

    def log_density(u):
        a, b = u[:, 0], u[:, 1]
        return first.logpdf(a) + stats.norm(a**2, 0.5).logpdf(b)

    log_rows = rows_of(log_density, TILTED.logpdf)
    start = np.linspace(-3, 5, 9), np.linspace(-3, 20, 17)
    density = integrate_tensor(log_rows, 2, start, extend=EVERYWHERE)
    draws = density.sample(log_rows, 1000, np.random.default_rng(4))
    assert draws.shape == (2, 1000, 2)
    a, b = draws[0].T
    assert stats.kstest(a, first.cdf).pvalue > KS_LEVEL
    assert stats.kstest(b - a**2, stats.norm(0, 0.5).cdf).pvalue > KS_LEVEL
    correlation = np.corrcoef(a, b - a**2)[0, 1]
    assert abs(correlation) < STANDARD_ERRORS / np.sqrt(1000)
    whitened = np.linalg.solve(
        np.linalg.cholesky(TILTED.cov), (draws[1] - TILTED.mean).T
    )
    for z in whitened:
        assert stats.kstest(z, "norm").pvalue > KS_LEVEL


def test_draws_are_fixed_by_the_generator():
    log_rows = rows_of(TILTED.logpdf)
    density = integrate_tensor(log_rows, 1, edges(), extend=EVERYWHERE)
    one, same, other = (
        density.sample(log_rows, 3, np.random.default_rng(seed)) for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(one, same)
    assert np.all(one != other)


def narrow_rows(count, at):
    """Wide densities, and one that is far narrower than all others."""
    scales = np.ones(count)
    scales[at] = 0.05
    return [
        lambda u, s=s: (
            np.sin(u[:, 0] - u[:, 1])
            - 0.5 * ((u[:, 0] / s) ** 2 + (u[:, 1] - 0.3) ** 2)
        )
        for s in scales
    ]


def test_polynomials_of_logarithms_and_rows_looked_at_first_change_nothing():
    rows = rows_of(*narrow_rows(40, at=17))
    seen = [0, 0]

    def counting(k):
        def log_density(some, nodes):
            found = rows(some, nodes)
            seen[k] += found.size
            return found

        return log_density

    exact = {"polynomial_tolerance": 0.0, "first_rows": 40}
    found, expected = (
        integrate_tensor(counting(k), 40, edges(), extend=EVERYWHERE, **how)
        for k, how in enumerate(({}, exact))
    )
    for name in ("log_partition", "mean", "covariance", "log_mean"):
        assert_close(getattr(found, name), getattr(expected, name), 1e-8, scale=1.0)
    missed = np.abs(found.log_partition - expected.log_partition)
    assert np.all(missed <= found.error + 1e-12)
    assert len(found.edges[0]) > len(found.known[0])  # the narrow row needs more cells
    assert set(found.known[0]) <= set(found.edges[0])
    assert seen[0] < 0.5 * seen[1]
    draws, same = (
        p.sample(rows, 5, np.random.default_rng(0)) for p in (found, expected)
    )
    assert_close(draws, same, 1e-6)


def test_logarithms_that_are_no_polynomials_are_computed_on_smaller_cells():
    law = stats.laplace(0.1)  # the kink is on no edge
    density = integrate_tensor(
        rows_of(lambda u: law.logpdf(u).sum(axis=1)), 1, edges(), extend=EVERYWHERE
    )
    near = np.abs(density.known[0] - 0.1).min()
    assert near < 1e-3
    assert abs(density.log_partition[0]) <= density.error[0] + 1e-12


def waves(u):
    return 3.0 * np.cos(9.0 * u[:, 0] + 4.0 * u[:, 1]) - 0.5 * (u**2).sum(axis=1)


HARD = {
    "kink": lambda u: stats.laplace(0.1).logpdf(u).sum(axis=1),
    "narrow": lambda u: stats.norm(0.3, 0.06).logpdf(u).sum(axis=1),
    "heavy": lambda u: stats.t(4).logpdf(u).sum(axis=1),
    "waves": waves,
}


@pytest.mark.parametrize("name", HARD)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"most_cells": 10},
        {"polynomial_tolerance": 1e-3},
        {"tolerance": 1e-3, "polynomial_tolerance": 1e-2, "tail_tolerance": 1e-3},
        {"tolerance": 0.1, "polynomial_tolerance": 0.1, "tail_tolerance": 0.1},
    ],
    ids=["default", "few cells", "polynomials", "rough", "rougher"],
)
def test_the_stated_error_bounds_the_true_one_however_rough_the_cells_are(
    name, options
):
    density = integrate_tensor(
        rows_of(HARD[name]), 1, edges(), extend=EVERYWHERE, **options
    )
    truth = 0.0
    if name == "waves":  # the trapezium rule is exact to rounding
        grid = np.linspace(-12.0, 12.0, 801)
        nodes = np.stack(np.meshgrid(grid, grid), axis=-1).reshape(-1, 2)
        truth = np.log(np.exp(waves(nodes)).sum() * (grid[1] - grid[0]) ** 2)
    true_error = abs(density.log_partition[0] - truth)
    assert true_error <= density.error[0] < 2.0
    assert all(len(e) - 1 <= options.get("most_cells", 64) for e in density.edges)
    if not options:
        assert density.error[0] < 1e-4
