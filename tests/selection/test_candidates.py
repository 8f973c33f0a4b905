"""Candidates: their numbers, and that each is the fit it says it is."""

import numpy as np
import pytest
from scipy import stats

from kexpfam.base_densities import GaussianBase
from kexpfam.data import Rows, TrainingRows
from kexpfam.family import LogDensities, RowScores, fit_coordinates
from kexpfam.family.cross_validation import cross_validated_by_score
from kexpfam.kernels import Constant, Gaussian, separable
from kexpfam.selection import Candidate
from kexpfam.selection.candidates import Task, bases_alone
from kexpfam.selection.spec import RESIDUAL_BASES, KernelGrid, LambdaPath
from tests.selection.cases import make_problem
from tests.tolerances import assert_close

KERNEL = separable(Gaussian(0.8), Gaussian(0.7))
LAMS = (1e-3, 0.1, 10.0)


def candidates(
    problem, offset, *, lams=LAMS, method="score", criterion=LogDensities.of
):
    return Task(
        "c", problem, LambdaPath(KERNEL, lams), method, criterion, offset
    ).candidates()


def candidate(held_out):
    return Candidate("c", GaussianBase(1.0), None, np.inf, "none", np.array(held_out))


def test_mean_and_standard_error_of_weighted_rows_are_those_of_repeated_rows():
    weighted, weights = candidate([1.0, 2.0, 4.0]), np.array([2.0, 1.0, 3.0])
    repeated = candidate([1.0, 1.0, 2.0, 4.0, 4.0, 4.0])
    assert_close(weighted.mean(weights), repeated.held_out.mean())
    error = repeated.held_out.std() / np.sqrt(6)
    assert_close(weighted.standard_error(weights), error)
    assert_close(repeated.standard_error(np.ones(6)), error)


def test_a_failed_fit_is_infinitely_bad_and_not_nan():
    failed = candidate([1.0, -np.inf])
    assert failed.mean(np.ones(2)) == -np.inf
    assert failed.standard_error(np.ones(2)) == 0.0


def test_bases_alone_are_densities_of_y_in_the_users_units():
    rng = np.random.default_rng(0)
    y = 3.0 + 2.0 * rng.normal(size=20)
    rows = TrainingRows.of(Rows(np.empty((20, 0)), y[:, None], np.ones(20)))
    placed = fit_coordinates(rows, GaussianBase(1.0), rng)
    found = list(bases_alone("plain", placed))
    assert [c.base for c in found] == list(RESIDUAL_BASES)
    assert all(c.kernel is None and c.lam == np.inf for c in found)
    # With y = m + s u, log p(y) = log q0(u) − log s.
    expected = stats.norm(y.mean(), y.std()).logpdf(rows.Y[:, 0])
    assert_close(found[0].held_out, expected)


@pytest.mark.parametrize("d", [1, 2])
def test_candidates_have_the_held_out_densities_of_their_path(d):
    problem = make_problem(n=20, d=d, derivatives=False)
    slope = np.linspace(0.0, 1.0, 20)
    found = candidates(problem, slope)
    expected = cross_validated_by_score(problem, KERNEL, LAMS, LogDensities.of)
    assert [c.lam for c in found] == list(LAMS)
    for c, row in zip(found, expected, strict=True):
        assert_close(c.held_out, row + slope)


def test_candidates_validated_by_the_score_hold_its_negative():
    problem = make_problem(n=20, derivatives=False)
    found = candidates(problem, np.zeros(20), criterion=RowScores)
    expected = cross_validated_by_score(problem, KERNEL, LAMS, RowScores)
    assert_close(np.stack([c.held_out for c in found]), expected)


def test_likelihood_fits_keep_the_order_of_lambda():
    """They are fitted from the smoothest on, and reported in the order of the path."""
    problem = make_problem(n=30, derivatives=False)
    rough, smooth = candidates(
        problem, np.zeros(30), lams=(1e-3, 1e2), method="likelihood"
    )
    assert (rough.lam, smooth.lam) == (1e-3, 1e2)
    alone = problem.base.log_density(problem.sample.Y)
    assert np.abs(smooth.held_out - alone).max() < 0.1  # λ leaves nothing but q0
    assert np.abs(rough.held_out - alone).max() > 0.3


def test_paths_are_all_products_of_kernels_with_lambda_in_units_of_the_lengthscale():
    grid = KernelGrid((0.5,), (0.5, 2.0), (0.1, 1.0))
    kernels_x = [Constant(), Gaussian(3.0)]
    paths = grid.paths(kernels_x)
    assert [path.kernel for path in paths] == [
        separable(kx, Gaussian(ell)) for kx in kernels_x for ell in (0.5, 2.0)
    ]
    assert [path.lams for path in paths] == [(0.4, 4.0), (0.025, 0.25)] * 2
    (own,) = grid.paths([Constant()], [Gaussian(10.0)])
    assert own == LambdaPath(separable(Constant(), Gaussian(10.0)), (0.001, 0.01))


def test_paths_of_a_grid_that_is_not_relative_have_lambda_as_it_is():
    grid = KernelGrid((0.5,), (0.5, 2.0), (0.1, 1.0), relative=False)
    assert {path.lams for path in grid.paths([Constant()])} == {(0.1, 1.0)}
