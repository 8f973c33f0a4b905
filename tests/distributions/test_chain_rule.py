"""Densities by the chain rule, against normal ones and quadrature; row averages."""

from dataclasses import dataclass

import numpy as np
import pytest
from scipy import integrate, special, stats

from kexpfam.distributions import (
    ChainRuleDensity,
    ClosedFormDensity,
    MixtureDensity,
    RowAverageDensity,
)
from tests.densities import closed_form
from tests.tolerances import assert_close


@dataclass(frozen=True)
class Linear:
    """p(y_j | row) = N(row · slopes + curve · row₁², scale²)."""

    column: int
    slopes: tuple
    scale: float
    curve: float = 0.0

    def _mean(self, rows):
        known = np.nan_to_num(rows)  # slopes of unknown columns are zero
        return known @ np.array(self.slopes) + self.curve * known[:, 1] * known[:, 1]

    def log_density(self, rows):
        return stats.norm.logpdf(rows[:, self.column], self._mean(rows), self.scale)

    def sample(self, rows, rng):
        return (self._mean(rows) + self.scale * rng.standard_normal(len(rows)))[:, None]

    def given(self, rows):
        return closed_form(self._mean(rows), self.scale)


TABLE = np.array([[0.5, np.nan, np.nan, np.nan], [-1.0, np.nan, np.nan, np.nan]])
FACTORS = [
    Linear(1, (1.0, 0, 0, 0), 0.5),
    Linear(2, (0.5, -1.0, 0, 0), 1.0),
    Linear(3, (0.0, 1.0, 0.7, 0), 0.3),
]
# The same columns the other way round, with another law.
BACKWARD = [
    Linear(3, (1.0, 0, 0, 0), 1.0),
    Linear(2, (0.0, 0, 0, 0.5), 0.5),
    Linear(1, (0.2, 0, 0.3, 0.1), 0.8),
]


def normal(order, x):
    """Mean and covariance of the columns 1 to 3 at x, by substitution."""
    mean, loading = np.array([x, 0, 0, 0.0]), np.zeros((4, 3))
    for k, factor in enumerate(order):
        slopes = np.array(factor.slopes)
        mean[factor.column] = slopes @ mean
        loading[factor.column] = slopes @ loading
        loading[factor.column, k] = factor.scale
    return mean[1:], (loading @ loading.T)[1:, 1:]


def chain(*orders, table=TABLE, columns=(1, 2, 3), names="abc"):
    weights = np.array([0.7, 0.3][: len(orders)])
    return ChainRuleDensity(table, columns, orders, weights / weights.sum(), names)


@pytest.fixture(scope="module", params=[1, 2], ids=["one order", "two orders"])
def case(request):
    """A density, and weights and normal laws of its orders at both conditions."""
    orders = [FACTORS, BACKWARD][: request.param]
    weights = [[1.0], [0.7, 0.3]][request.param - 1]
    return chain(*orders), weights, [[normal(o, x) for o in orders] for x in (0.5, -1)]


@pytest.mark.parametrize("unit", [1e-200, 1e200])
def test_moments_in_units_whose_squares_are_no_doubles(unit):
    p, q = (
        chain(
            [Linear(1, (u, 0, 0, 0), 0.5 * u), Linear(2, (0.5, -1.0 / u, 0, 0), 1.0)],
            columns=(1, 2),
            names="ab",
        )
        for u in (1.0, unit)
    )
    assert_close(q.std() / [unit, 1.0], p.std())
    assert_close(q.mean() / [unit, 1.0], p.mean())
    assert_close(q.mean_error / [unit, 1.0], p.mean_error)
    assert_close(q.cov()[:, 0, 1] / unit, p.cov()[:, 0, 1])
    assert_close(q.cov()[:, 1, 1], p.cov()[:, 1, 1])


def test_log_densities_are_those_of_normal_mixtures(case):
    p, weights, laws = case
    Y = np.random.default_rng(0).normal(size=(2, 5, 3))
    for i, law in enumerate(laws):
        parts = [stats.multivariate_normal(m, c).logpdf(Y[i]) for m, c in law]
        expected = special.logsumexp(parts, axis=0, b=np.array(weights)[:, None])
        assert_close(p.logpdf(Y)[i], expected, 1e-12)
        assert_close(p[i].logpdf(Y[i]), expected, 1e-12)
    assert p.logpdf(Y[:, 0]).shape == (2,)
    assert p.logpdf(Y[:, :0]).shape == (2, 0)


def _moments(weights, law):
    mean = sum(w * m for w, (m, _) in zip(weights, law, strict=True))
    second = sum(
        w * (c + np.outer(m, m)) for w, (m, c) in zip(weights, law, strict=True)
    )
    return mean, second - np.outer(mean, mean)


def test_moments_are_those_of_normal_mixtures(case):
    p, weights, laws = case
    for i, law in enumerate(laws):
        mean, cov = _moments(weights, law)
        assert_close(p.mean()[i], mean, 0.01, scale=1.0)
        assert np.all(np.abs(p.mean()[i] - mean) <= 5 * p.mean_error[i] + 1e-12)
        assert_close(p.std()[i], np.sqrt(np.diag(cov)), 0.03)
        assert_close(p.cov()[i], cov, 0.06, scale=1.0)
        assert np.all(np.linalg.eigvalsh(p.cov()[i]) > 0)
        assert_close(p[i].cov(), p.cov()[i], 1e-12)


def test_marginals_are_those_of_normal_mixtures(case):
    p, weights, laws = case
    for j, name in enumerate("abc"):
        q, error = p.marginal(name), p.marginal_error(name)
        for i, law in enumerate(laws):
            y = np.linspace(-2, 2, 5)
            parts = [stats.norm(m[j], np.sqrt(c[j, j])).cdf(y) for m, c in law]
            expected = np.tensordot(weights, parts, axes=1)
            assert_close(q[i].cdf(y), expected, 0.01, scale=1.0)
            assert np.abs(q[i].cdf(y) - expected).max() <= 6 * error[i] + 1e-9
            assert_close(p[i].marginal(j).cdf(y), q[i].cdf(y), 1e-9, scale=1.0)


def test_the_first_column_is_exact():
    p = chain(FACTORS)
    assert isinstance(p.marginal("a"), ClosedFormDensity)
    assert_close(p.mean()[:, 0], np.array([0.5, -1.0]), 1e-12)
    assert_close(p.std()[:, 0], np.full(2, 0.5), 1e-12)
    assert np.abs(p.mean_error[:, 0]).max() < 1e-12
    assert np.abs(p.marginal_error("a")).max() < 1e-12


def test_a_curved_marginal_is_the_integral_of_the_joint():
    curved = [FACTORS[0], Linear(2, (0, 0, 0, 0), 0.2, curve=1.0)]
    p = chain(curved, table=TABLE[:1], columns=(1, 2), names="ab")[0]
    a = np.linspace(-4, 5, 4001)
    for y in (-0.3, 0.2, 1.0, 3.0):
        joint = p.pdf(np.column_stack([a, np.full_like(a, y)]))
        expected = integrate.trapezoid(joint, a)
        # Nodes are few in the tail of a, which is where a large b comes from.
        assert_close(p.marginal("b").pdf(y), expected, 5e-3, scale=1.0)


@dataclass(frozen=True)
class TwoModes:
    """p(y_j | row) = share N(x + 2, 0.3²) + (1 − share) N(x − 2, 0.3²)."""

    column: int
    share: float = 0.7

    def given(self, rows):
        parts = [closed_form(rows[:, 0] + shift, 0.3) for shift in (2.0, -2.0)]
        return MixtureDensity(parts, np.array([self.share, 1.0 - self.share]))


@pytest.mark.parametrize("share", [0.7, 0.45])
def test_separated_modes_of_the_first_column_have_their_masses(share):
    """Of b, which is normal given a, as of a normal mixture; means also with a²."""
    x = np.linspace(-1.0, 1.0, 21)
    table = np.column_stack([x, np.full((21, 2), np.nan)])
    for slope, curve in ((0.9, 0.0), (-0.4, 0.3)):
        second = Linear(2, (0.0, slope, 0), 0.5, curve=curve)
        order = [TwoModes(1, share), second]
        p = chain(order, table=table, columns=(1, 2), names="ab")
        weights, centers = np.array([share, 1 - share]), x[:, None] + [2.0, -2.0]
        squares = centers**2 + 0.3**2
        mean = (slope * centers + curve * squares) @ weights
        difference = np.abs(p.mean()[:, 1] - mean)
        assert difference.max() < 1e-3
        assert p.mean_error[:, 1].max() < 5e-3
        assert np.all(difference <= 3 * p.mean_error[:, 1])
    p = chain(
        [TwoModes(1, share), Linear(2, (0.0, 0.9, 0), 0.5)],
        table=table,
        columns=(1, 2),
        names="ab",
    )
    y = np.linspace(-3.0, 3.0, 7)
    law = stats.norm(0.9 * centers[..., None], np.hypot(0.5, 0.9 * 0.3))
    expected = np.einsum("k,nkq->nq", weights, law.cdf(y))
    difference = np.abs(p.marginal("b").cdf(np.tile(y, (21, 1))) - expected)
    assert difference.max() < 1e-3
    assert p.marginal_error("b").max() < 5e-3


def test_draws_have_the_moments(case):
    p, weights, laws = case
    draws = p.rvs(20_000, random_state=0)
    assert draws.shape == (2, 20_000, 3)
    for i, law in enumerate(laws):
        mean, cov = _moments(weights, law)
        assert_close(draws[i].mean(axis=0), mean, 0.04, scale=1.0)
        assert_close(np.cov(draws[i].T), cov, 0.06, scale=1.0)


def test_entropy_support_and_error():
    p = chain(FACTORS)
    expected = stats.multivariate_normal(*normal(FACTORS, 0.5)).entropy()
    assert_close(p.entropy()[0], expected, 0.1, scale=1.0)
    assert np.all(np.isinf(p.support))
    np.testing.assert_array_equal(p.log_partition, 0.0)
    assert np.all(p.log_partition_error < 1e-6)


def test_what_it_has_not_is_said():
    p = chain(FACTORS)
    with pytest.raises(NotImplementedError, match="marginal"):
        p.mode()
    with pytest.raises(NotImplementedError, match="grad_logpdf is not available"):
        p.grad_logpdf(np.zeros(3))
    with pytest.raises(
        ValueError, match="column must be one of 'a', 'b', 'c' or a pos"
    ):
        p.marginal("d")
    with pytest.raises(AttributeError, match="ppf is for one column of y"):
        p.ppf(0.5)


@pytest.fixture(scope="module")
def pair():
    """Two averages of three, and the same as mixtures."""
    rng, weights = np.random.default_rng(0), np.array([0.2, 0.5, 0.3])
    centers, scales = rng.normal(size=6), rng.uniform(0.3, 1.0, size=6)
    columns = [closed_form(centers[k::3], scales[k::3]) for k in range(3)]
    slow = MixtureDensity(columns, weights)
    return RowAverageDensity(closed_form(centers, scales), weights), slow


class TestRowAverages:
    @pytest.mark.parametrize("method", ["logpdf", "cdf", "sf", "grad_logpdf"])
    def test_values_are_those_of_mixtures(self, pair, method):
        y = np.linspace(-2, 2, 7)[None]
        fast, slow = (getattr(p, method)(y) for p in pair)
        assert_close(fast, slow, 1e-10, scale=1.0)
        one = getattr(pair[0][1], method)(y[0])
        assert_close(one, slow[1], 1e-10, scale=1.0)

    @pytest.mark.parametrize("method", ["mean", "std", "mode", "entropy", "median"])
    def test_summaries_are_those_of_mixtures(self, pair, method):
        fast, slow = (getattr(p, method)() for p in pair)
        assert_close(fast, slow, 1e-6, scale=1.0)

    def test_quantiles_and_regions_are_those_of_mixtures(self, pair):
        fast, slow = pair
        levels = np.array([[0.001, 0.3, 0.9]])
        assert_close(fast.ppf(levels), slow.ppf(levels), 1e-9, scale=1.0)
        for mine, other in zip(fast.hpd(0.8), slow.hpd(0.8), strict=True):
            assert_close(mine, other, 1e-6, scale=1.0)

    def test_draws_follow_the_distribution(self, pair):
        draws = pair[0][0].rvs(2000, random_state=0)
        assert stats.kstest(draws, pair[1][0].cdf).pvalue > 0.01
