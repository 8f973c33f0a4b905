"""Candidates: their numbers, and that each is the fit it says it is."""

import numpy as np
import pytest

from kexpfam.base_densities import GaussianBase
from kexpfam.kernels import Gaussian, separable
from kexpfam.selection import BASES_ALONE, Candidate, Line, bases_alone, tilted
from kexpfam.selection.candidates import held_out_scores
from kexpfam.selection.held_out import log_densities_by_score
from tests.selection.cases import make_problem
from tests.tolerances import assert_close

KERNEL = separable(Gaussian(0.8), Gaussian(0.7))
LAMS = (1e-3, 0.1, 10.0)


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
    """With y = 3 + 2u, log p(y) = log q0(u) − log 2."""
    U = np.random.default_rng(0).normal(size=(20, 1))
    found = list(bases_alone("plain", U, np.full(20, -np.log(2.0))))
    assert [c.base for c in found] == list(BASES_ALONE)
    assert all(c.kernel is None and c.lam == np.inf for c in found)
    z = U[:, 0]
    normal = -0.5 * z**2 - 0.5 * np.log(2 * np.pi) - np.log(2.0)
    assert_close(found[0].held_out, normal)


@pytest.mark.parametrize("d", [1, 2])
def test_tilted_candidates_have_the_held_out_densities_of_their_line(d):
    problem = make_problem(n=20, d=d, derivatives=False)
    slope = np.linspace(0.0, 1.0, 20)
    found = list(tilted("c", problem, slope, [Line(KERNEL, LAMS)]))
    expected = log_densities_by_score(
        problem.basis(KERNEL),
        problem.rows,
        problem.base,
        problem.sample,
        LAMS,
        problem.reach,
    )
    assert [c.lam for c in found] == list(LAMS)
    for c, row in zip(found, expected, strict=True):
        assert_close(c.held_out, row + slope)


def test_candidates_judged_by_the_score_hold_its_negative_in_any_units():
    problem = make_problem(n=20, derivatives=False)
    slope = np.linspace(0.0, 1.0, 20)
    lines = [Line(KERNEL, LAMS)]
    found = list(tilted("c", problem, slope, lines, objective="score"))
    scores = held_out_scores(problem, KERNEL, LAMS)
    assert_close(np.stack([c.held_out for c in found]), -scores)


def test_likelihood_fits_keep_the_order_of_lambda():
    """They are fitted from the smoothest on, and reported in the order of the line."""
    problem = make_problem(n=30, derivatives=False)
    lines = [Line(KERNEL, (1e-3, 1e2))]
    rough, smooth = tilted("c", problem, np.zeros(30), lines, method="likelihood")
    assert (rough.lam, smooth.lam) == (1e-3, 1e2)
    alone = problem.base.log_density(problem.sample.Y)
    assert np.abs(smooth.held_out - alone).max() < 0.1  # λ leaves nothing but q0
    assert np.abs(rough.held_out - alone).max() > 0.3
