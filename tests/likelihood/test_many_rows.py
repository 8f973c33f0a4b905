"""Likelihood of rows that are known by sums, against the same rows all at once."""

from dataclasses import replace

import numpy as np
import pytest

from kexpfam.base_densities import GaussianBase
from kexpfam.kernels import Constant, Gaussian, separable
from kexpfam.likelihood import (
    NEWTON,
    PenalizedLikelihood,
    SumsInMemory,
    expected_sums,
    fit_likelihood,
    observed_sums,
    quadrature_nodes,
)
from kexpfam.score_matching import Basis
from tests.oracles.likelihood import slow_objective
from tests.tolerances import MINIMISER, ROUNDING, assert_close

BASE, LAM = GaussianBase(2.0), 1e-3
KERNELS = {
    "product": separable(Gaussian(0.7), Gaussian(0.6)),
    "sum": separable(Gaussian(0.7), Gaussian(0.6))
    + separable(Constant(), Gaussian(1.0)),
    "constant": separable(Constant(), Gaussian(0.6)),
}
# Steps until nothing is left to gain that could be seen.
TIGHT = replace(NEWTON, visible=1e-15, of_chance=0.0)


def draw(n, seed=0):
    """Two components whose masses change with x."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.5, 1.5, size=(n, 1))
    side = np.where(rng.random((n, 1)) < 1 / (1 + np.exp(-2 * X)), 1.0, -1.0)
    U = 0.3 * X + side + 0.25 * rng.normal(size=(n, 1))
    return X, U, rng.uniform(0.5, 2.0, size=n)


def parts_of(rows, edges):
    pieces = [slice(a, b) for a, b in zip(edges, [*edges[1:], None], strict=True)]
    return [tuple(part[piece] for part in rows) for piece in pieces]


@pytest.mark.parametrize("name", KERNELS)
def test_rows_in_pieces_have_the_value_and_gradient_of_all(name):
    rows = draw(3000)
    kernel = KERNELS[name]
    basis = Basis(kernel, rows[0][:8], rows[1][:8])
    nodes = quadrature_nodes(BASE, rows[1], kernel.resolution)
    whole = PenalizedLikelihood.of(basis, BASE, *rows, LAM, nodes)
    some, *rest = parts_of(rows, [0, 400, 700])
    sums = [SumsInMemory(basis, *part, n_jobs=2) for part in rest]
    own = PenalizedLikelihood.of(basis, BASE, *some, LAM, nodes)
    pieces = own.with_others(sums, some[2].sum())
    beta = np.random.default_rng(1).normal(size=basis.size)
    found, expected = pieces.at(beta), whole.at(beta)
    assert_close(found.value, expected.value, ROUNDING, scale=1.0)
    assert_close(found.gradient, expected.gradient, ROUNDING, scale=1.0)
    # Hessians are those of the first piece.
    v = np.random.default_rng(2).normal(size=basis.size)
    product = own.hessian_product(own.at(beta), v)
    assert_close(pieces.hessian_product(found, v), product)


def test_sums_equal_integrals_row_by_row():
    rows = draw(6)
    basis = Basis(KERNELS["sum"], rows[0][:4], rows[1][:4])
    nodes = quadrature_nodes(BASE, rows[1], basis.kernel.resolution)
    parts = PenalizedLikelihood.of(basis, BASE, *rows, LAM, nodes).parts
    alpha = np.random.default_rng(3).normal(size=basis.size)
    observed = observed_sums(basis, *rows)
    log_z = expected_sums(basis, parts, rows[0], rows[2], alpha)[0]
    value = (log_z - observed[1:] @ alpha) / observed[0]
    value += 0.5 * LAM * alpha @ basis.gram() @ alpha
    breaks = [-18, -3, 0, 3, 18]
    expected = slow_objective(basis, BASE, *rows, LAM, alpha, breaks)
    assert_close(value, expected, 1e-6, scale=1.0)  # what nodes promise


@pytest.mark.parametrize("name", KERNELS)
def test_the_fit_is_that_to_all_rows_at_once(name):
    rows = draw(2500)
    basis = Basis(KERNELS[name], rows[0][:15], rows[1][:15])
    whole = fit_likelihood(basis, BASE, *rows, LAM)
    some, *rest = parts_of(rows, [0, 500, 1000])
    others = [SumsInMemory(basis, *part) for part in rest]
    found = fit_likelihood(basis, BASE, *some, LAM, others=others, newton=TIGHT)
    assert found.converged
    assert_close(found.objective, whole.objective, ROUNDING, scale=1.0)
    log_p = [fit.T.value(rows[0], rows[1]) for fit in (found, whole)]
    assert_close(*log_p, MINIMISER)


def test_what_a_fit_leaves_is_small_beside_chance():
    rows = draw(2500)
    basis = Basis(KERNELS["product"], rows[0][:20], rows[1][:20])
    best = fit_likelihood(basis, BASE, *rows, 1e-4).objective
    some, rest = parts_of(rows, [0, 500])
    others = [SumsInMemory(basis, *rest)]
    found = fit_likelihood(basis, BASE, *some, 1e-4, others=others)
    chance = 0.5 * basis.size / rows[2].sum()
    assert -1e-12 < found.objective - best < NEWTON.of_chance * chance
