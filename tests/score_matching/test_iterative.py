"""Conjugate gradients against the direct solve of the same system."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.linalg import lapack

from kexpfam._linalg import BLOCK_BYTES, conjugate_gradients
from kexpfam.errors import ConvergenceWarning, IllConditionedError
from kexpfam.kernels import Gaussian, separable
from kexpfam.score_matching import (
    Basis,
    RowReduction,
    RowsInMemory,
    fit_iterative,
    statistics,
)
from kexpfam.score_matching.iterative import preconditioner
from tests.selection.cases import make_sample
from tests.tolerances import ROUNDING, assert_close

KERNEL = separable(Gaussian(0.8), Gaussian(0.7))
LAMBDAS = [0.1, 0.01, 1e-3]

# The residual is 1e-10 in the norm of P⁻¹, which bounds the error in the norm of the
# system; norms of T may be larger by 1/√λ, and the direct solve has its own rounding.
ITERATED = 1e-6


def make(n=600, d=1, *, centers=40, derivatives=0, weighted=False):
    sample = make_sample(n, 2, d, seed=3, weighted=weighted)
    basis = Basis(KERNEL, sample.X[:centers], sample.Y[:centers], derivatives)
    return basis, sample


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("derivatives", [0, 1, 2])
@pytest.mark.parametrize("d", [1, 2])
def test_passes_over_rows_equal_the_statistics(d, derivatives, weighted):
    basis, sample = make(50, d, centers=7, derivatives=derivatives, weighted=weighted)
    sample = replace(sample, weights=3.0 * sample.weights)
    rows, direct = RowsInMemory(basis, sample), statistics(basis, sample)
    v = np.random.default_rng(0).normal(size=basis.size)
    assert_close(rows.apply(v), direct.C @ v / direct.weight, ROUNDING)
    assert_close(rows.linear(), direct.b / direct.weight, ROUNDING)


def test_row_blocks_of_any_number_of_threads_give_the_same_sums():
    basis, sample = make(BLOCK_BYTES // (8 * 40) + 100, 2, derivatives=1)
    v = np.random.default_rng(0).normal(size=basis.size)
    direct = statistics(basis, sample)
    whole = direct.C @ v / direct.weight
    for n_jobs in (1, 3):
        assert_close(RowsInMemory(basis, sample, n_jobs).apply(v), whole, ROUNDING)


@pytest.mark.parametrize("share", [0.3, 1.0])
def test_features_that_are_kept_fit_into_the_memory_and_change_nothing(share):
    n = 4 * BLOCK_BYTES // (8 * 40)
    basis, sample = make(n)
    everything = 8 * n * basis.size
    rows = RowsInMemory(basis, sample, n_jobs=2, memory=int(share * everything))
    v = np.random.default_rng(0).normal(size=basis.size)
    plain = RowsInMemory(basis, sample, n_jobs=2).apply(v)
    for _ in range(3):
        assert_close(rows.apply(v), plain, ROUNDING)
    kept = sum(F.nbytes for found in rows._kept.values() for p in found for F in p)
    assert 0.5 * share * everything < kept <= share * everything


@pytest.mark.parametrize("lam", LAMBDAS)
@pytest.mark.parametrize("derivatives", [0, 1])
@pytest.mark.parametrize("d", [1, 2])
def test_the_solution_is_that_of_the_direct_solve(d, derivatives, lam):
    basis, sample = make(d=d, derivatives=derivatives, weighted=True)
    fit = fit_iterative(basis, sample, lam, tolerance=1e-10)
    R, direct = basis.gram(), statistics(basis, sample)
    residual = (direct.C + lam * R) @ fit.alpha + direct.b
    assert fit.stopped == "converged"
    assert fit.iterations == len(fit.residuals) - 1
    assert fit.residuals[-1] <= 1e-10
    assert_close(residual, np.zeros(basis.size), 1e-8, scale=np.abs(direct.b).max())
    T, query = basis.expansion(direct.solve(R, lam)), make_sample(30, 2, d, seed=9)
    for name in ("value", "gradient"):
        found, expected = (getattr(f, name)(query.X, query.Y) for f in (fit.T, T))
        assert_close(found, expected, ITERATED)


def test_residuals_are_relative_to_the_right_hand_side_in_the_norm_of_the_inverse():
    """Of the zero that it starts at, one; of others by the factor that is used."""
    basis, sample = make(300, centers=8)
    R, direct = basis.gram(), statistics(basis, sample)
    factor = preconditioner(basis, None, R, 0.1)

    def norm(v):
        return np.sqrt(v @ lapack.dpotrs(factor, v, lower=0)[0])

    options = {"preconditioner_rows": 0, "tolerance": 1e-6}
    fit = fit_iterative(basis, sample, 0.1, **options)
    assert_close(fit.residuals[0], 1.0)
    start = np.random.default_rng(0).normal(size=basis.size)
    other = fit_iterative(basis, sample, 0.1, start=start, **options)
    left = (direct.C + 0.1 * R) @ start + direct.b
    assert_close(other.residuals[0], norm(left) / norm(direct.b), 1e-8)


def test_the_preconditioner_saves_most_iterations():
    """Twice as many rows as functions, against λR, against nothing."""
    basis, sample = make(1000, centers=100)
    lam, counts = 1e-3, []
    R, data = basis.gram(), RowsInMemory(basis, sample)
    for rows in (None, 0):
        counts += [fit_iterative(basis, sample, lam, preconditioner_rows=rows)]
    plain = conjugate_gradients(
        lambda v: data.apply(v) + lam * (R @ v), -data.linear(), np.copy
    )
    needed = [fit.iterations for fit in counts]
    small = 1e-16 * np.sum(data.linear() ** 2)
    needed.append(
        next(k for k, at in enumerate(plain) if at.square < small or k == 500)
    )
    assert needed[0] < 30
    assert needed[0] < 0.6 * needed[1]
    assert needed[0] < 0.1 * needed[2]


def test_more_rows_make_the_preconditioner_better():
    basis, sample = make(2000, centers=50)
    iterations = [
        fit_iterative(basis, sample, 1e-3, preconditioner_rows=rows).iterations
        for rows in (25, 200, 2000)
    ]
    assert iterations[0] > iterations[1] > iterations[2]
    # With all rows P is the matrix itself.
    assert iterations[2] <= 2


def test_a_start_at_the_solution_of_a_nearby_penalty_saves_iterations():
    basis, sample = make()
    first = fit_iterative(basis, sample, 1e-2)
    cold = fit_iterative(basis, sample, 0.99e-2)
    warm = fit_iterative(basis, sample, 0.99e-2, start=first.alpha)
    assert warm.residuals[0] < 0.1
    assert warm.iterations < cold.iterations
    X, Y = sample.X, sample.Y
    assert_close(warm.T.value(X, Y), cold.T.value(X, Y), ITERATED)
    there = fit_iterative(basis, sample, 1e-2, start=first.alpha, tolerance=1e-6)
    assert there.iterations == 0
    np.testing.assert_array_equal(there.alpha, first.alpha)


@pytest.mark.parametrize("rows", [0, None])
def test_early_stopping_returns_the_minimiser_of_the_held_out_loss(rows):
    """Losses of all iterates are computed again, from the statistics."""
    basis, sample = make(200)
    held_out = make_sample(100, 2, 1, seed=8, weighted=True)
    lam = 1e-7
    options = {"held_out": held_out, "preconditioner_rows": rows, "patience": 4}
    fit = fit_iterative(basis, sample, lam, **options)
    R, direct = basis.gram(), statistics(basis, sample)
    factor = preconditioner(basis, None, R, lam)
    path = conjugate_gradients(
        lambda v: (direct.C + lam * R) @ v,
        -direct.b,
        lambda v: lapack.dpotrs(factor, v, lower=0)[0],
    )
    judge = statistics(basis, held_out)
    losses = []
    for (alpha, *_), _ in zip(path, fit.losses, strict=False):
        losses.append(0.5 * alpha @ judge.C @ alpha + judge.b @ alpha)
    # Iterates of an ill-conditioned system drift apart by rounding.
    assert_close(fit.losses, losses, 1e-6)
    assert fit.stopped == "held_out"
    assert fit.iterations == np.argmin(losses)
    assert fit.losses[0] == 0.0
    assert 0 < fit.iterations == len(losses) - 1 - 4
    loss = 0.5 * fit.alpha @ judge.C @ fit.alpha + judge.b @ fit.alpha
    assert_close(loss, fit.losses.min(), 1e-9)


def test_early_stopping_regularises_where_the_penalty_does_not():
    basis, sample = make(1000, derivatives=1)
    held_out = make_sample(2000, 2, 1, seed=8)
    judge, direct = statistics(basis, held_out), statistics(basis, sample)

    def loss(alpha):
        return 0.5 * alpha @ judge.C @ alpha + judge.b @ alpha

    R = basis.gram()
    best = min(loss(direct.solve(R, lam)) for lam in np.geomspace(1e-5, 1.0, 20))
    tiny = 1e-6
    assert loss(direct.solve(R, tiny)) > best + 0.5
    stopped = fit_iterative(basis, sample, tiny, held_out=held_out)
    # The path has few steps, so that it misses the best of twenty λ by a little.
    assert loss(stopped.alpha) < best + 0.1


def test_a_held_out_loss_that_only_falls_is_followed_to_convergence():
    basis, sample = make(200)
    fit = fit_iterative(basis, sample, 1.0, held_out=sample)
    assert fit.stopped == "converged"
    assert fit.losses[-1] == pytest.approx(fit.losses.min())


def test_too_few_iterations_warn_in_one_sentence():
    basis, sample = make()
    message = (
        r"^Conjugate gradients ended after 2 iterations with a residual of \S+, above "
        r"the tolerance of 1.0e-08; raise regularization \(now 0.001\), "
        r"preconditioner_rows or max_iterations\.$"
    )
    with pytest.warns(ConvergenceWarning, match=message):
        fit = fit_iterative(basis, sample, 1e-3, max_iterations=2)
    assert fit.stopped == "max_iterations"
    assert fit.iterations == 2


def test_a_matrix_that_is_not_positive_ends_the_path_with_a_warning():
    basis, sample = make(60, centers=10)

    class Negative(RowsInMemory):
        def apply(self, v):
            return -v

    with pytest.warns(ConvergenceWarning, match="after 0 iterations"):
        fit = fit_iterative(basis, Negative(basis, sample), 1e-3)
    assert fit.stopped == "rounding"
    assert not fit.alpha.any()


def test_rows_of_weight_zero_have_no_influence():
    basis, sample = make(300)
    weights = sample.weights.copy()
    weights[200:] = 0.0
    kept = type(sample)(
        *(getattr(sample, f)[:200] for f in sample.__dataclass_fields__)
    )
    some = fit_iterative(basis, replace(sample, weights=weights), 0.01)
    none = fit_iterative(basis, kept, 0.01)
    X, Y = sample.X, sample.Y
    assert_close(some.T.value(X, Y), none.T.value(X, Y), ITERATED)
    drawn = RowsInMemory(basis, replace(sample, weights=weights)).draw(
        1000, np.random.default_rng(0)
    )
    assert len(drawn.Y) == 200
    assert (drawn.weights > 0).all()


def test_any_reduction_over_rows_can_stand_in_for_the_sample():
    """Rows in two blocks, as if they lay on two machines."""
    basis, sample = make(derivatives=1)
    parts = [
        type(sample)(*(getattr(sample, f)[s] for f in sample.__dataclass_fields__))
        for s in (slice(0, 250), slice(250, None))
    ]

    class Blocks(RowReduction):
        passes = 0

        def apply(self, v):
            self.passes += 1
            return sum(p.weights.sum() * RowsInMemory(basis, p).apply(v) for p in parts)

        def linear(self):
            return sum(p.weights.sum() * RowsInMemory(basis, p).linear() for p in parts)

        def draw(self, count, rng):
            return parts[0]

    blocks = Blocks()
    fit = fit_iterative(basis, blocks, 0.01)
    assert blocks.passes == fit.iterations
    X, Y = sample.X, sample.Y
    expected = fit_iterative(basis, sample, 0.01).T.value(X, Y)
    assert_close(fit.T.value(X, Y), expected, ITERATED)


def test_the_preconditioner_raises_its_jitter_until_it_can_be_factorised():
    basis, _ = make(centers=5)
    R = np.ones((5, 5))
    R[0, 0] -= 1e-6
    factor = np.triu(preconditioner(basis, None, R, 1.0))
    difference = factor.T @ factor - R
    assert_close(difference, np.diag(difference.diagonal()), 1e-12, scale=1.0)
    assert 1e-7 < difference[0, 0] < 1e-4


def test_a_matrix_that_is_not_positive_is_refused_in_one_sentence():
    basis, _ = make(centers=5)
    with pytest.raises(IllConditionedError, match=r"regularization 1; raise it, or"):
        preconditioner(basis, None, -np.eye(5), 1.0)


def test_a_system_with_nothing_on_the_right_is_solved_at_once():
    path = conjugate_gradients(np.copy, np.zeros(3), np.copy)
    assert [iterate.square for iterate in path] == [0.0]


def test_the_same_seed_draws_the_same_rows_and_another_one_others():
    basis, sample = make()
    fits = [
        fit_iterative(basis, sample, 0.01, rng=np.random.default_rng(s), n_jobs=1)
        for s in (1, 1, 2)
    ]
    np.testing.assert_array_equal(fits[0].residuals, fits[1].residuals)
    assert not np.array_equal(fits[0].residuals[:3], fits[2].residuals[:3])
