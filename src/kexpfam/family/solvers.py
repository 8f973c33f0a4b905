"""Solvers: ways to fit T to rows in coordinates, one class each.

Score matching is one linear system. Penalised likelihood takes a few steps of Newton's
method from there, and sees the masses of isolated components, to which score matching
is blind. Bridging is score matching again, of the rows mixed with draws from the base
density, which connect the components; the base is taken away from the fitted density.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import numpy as np

from kexpfam._typing import Array, Indices
from kexpfam._validation import mean_and_std
from kexpfam.base_densities import BaseDensity, GaussianBase, boundary_weights
from kexpfam.distributions import Bridge, bridge_sample
from kexpfam.errors import DegenerateDataError, IllConditionedError
from kexpfam.family.coordinates import CoordinateRows
from kexpfam.family.cross_validation import (
    FoldCriterion,
    HeldOutProblem,
    cross_validated,
    cross_validated_by_score,
)
from kexpfam.kernels import JointKernel
from kexpfam.likelihood import (
    NEWTON,
    RowSums,
    SumsInMemory,
    fit_likelihood,
    likelihood_path,
    quadrature_nodes,
)
from kexpfam.score_matching import (
    Basis,
    KernelExpansion,
    ScoreSample,
    fit_exact,
    fit_low_rank,
    statistics,
)

# A criterion of a `HeldOutProblem` and the basis of the fits. Solvers may say how
# densities are to be normalised, as in `LogDensities.of`.
Criterion = Callable[..., FoldCriterion]


@dataclass(frozen=True)
class Solution:
    """A fitted T."""

    T: KernelExpansion
    lam: float  # The λ that was used
    rcond: float = float("nan")  # Of the system, at least; NaN if not known
    bridge: Bridge | None = None  # What was mixed in, and is to be taken away


class Solver(ABC):
    """A way to fit T, and its untuned defaults.

    Decision 0003 says how the defaults were found.
    """

    name: ClassVar[str]  # What `KCEF.fit_method` calls it
    n_components: ClassVar[int]  # Centres of a low-rank fit, unless told otherwise
    medians_y: ClassVar[float]  # Lengthscale of y in median distances
    base: ClassVar[BaseDensity]  # The base density if none is given
    # Whether sums over rows are all that fits need of them: they are cheap then, rows
    # can be added, and there may be very many
    additive: ClassVar[bool] = False
    # Whether λ means the same at any lengthscale of y in units of 1/ℓ²
    relative_lambda: ClassVar[bool] = True
    # Whether fits can pass over rows that are not in memory, beside those that are
    passes: ClassVar[bool] = False
    # Whether its base density is taken also where several are tried
    own_base: ClassVar[bool] = False

    def components_for(self, n: int) -> int:
        """Centres of a low-rank fit to n rows, unless told otherwise."""
        return self.n_components

    def centers(self, n: int, wanted: int | None = None) -> Indices:
        """Which of n rows are centres; as many as are wanted, or the default."""
        return chosen_centers(n, wanted or self.components_for(n))

    @abstractmethod
    def fit(
        self,
        rows: CoordinateRows,
        kernel: JointKernel,
        lam: float,
        centers: Indices | None,
        n_jobs: int | None,
    ) -> Solution:
        """T with a kernel and λ, in the span of functions at some rows, the centres."""

    @abstractmethod
    def held_out(
        self,
        problem: HeldOutProblem,
        kernel: JointKernel,
        lams: Sequence[float],
        criterion: Criterion,
    ) -> Array:
        """What rows are worth under fits without their fold for each λ, (l, n)."""

    @abstractmethod
    def untuned_lambda(self, kernel: JointKernel, n: float) -> float:
        """A λ from the number of rows and the lengthscale of y alone."""


class ScoreMatching(Solver):
    """One linear system: exact at all rows, or low-rank at centres."""

    name = "score"
    n_components = 150
    medians_y = 1.4
    base = GaussianBase(scale=2.0)
    additive = True

    def fit(
        self,
        rows: CoordinateRows,
        kernel: JointKernel,
        lam: float,
        centers: Indices | None,
        n_jobs: int | None,
    ) -> Solution:
        if centers is None:
            sample = score_sample(rows)
            _check_memory(rows.U.size)
            fit = fit_exact(kernel, sample, lam, n_jobs=n_jobs)
            return Solution(fit.T, fit.lam, fit.rcond)
        basis = Basis(kernel, rows.Z[centers], rows.U[centers], derivatives=False)
        return Solution(
            fit_low_rank(basis, score_sample(rows), lam, n_jobs=n_jobs), lam
        )

    def held_out(
        self,
        problem: HeldOutProblem,
        kernel: JointKernel,
        lams: Sequence[float],
        criterion: Criterion,
    ) -> Array:
        return cross_validated_by_score(problem, kernel, lams, criterion)

    def untuned_lambda(self, kernel: JointKernel, n: float) -> float:
        # G has 1/ℓ² on its diagonal: λ in units of 1/ℓ² has the same effect at any ℓ.
        ell = kernel.resolution if np.isfinite(kernel.resolution) else 1.0
        return 0.2 / (ell**2 * n**0.75)


class LikelihoodSolver(Solver):
    """Penalised maximum likelihood, by Newton's method from score matching on."""

    name = "likelihood"
    n_components = 80  # fewer, since the cost of a Hessian grows with their square
    medians_y = 0.7
    base = GaussianBase(scale=2.0)
    relative_lambda = False
    passes = True

    # With so many rows steps need no Hessian, and rows tell more than 80 functions can
    many_rows: ClassVar[int] = 1000
    many_components: ClassVar[int] = 150

    def components_for(self, n: int) -> int:
        return self.n_components if n < self.many_rows else self.many_components

    def fit(
        self,
        rows: CoordinateRows,
        kernel: JointKernel,
        lam: float,
        centers: Indices | None,
        n_jobs: int | None,
    ) -> Solution:
        basis = Basis(kernel, rows.Z[centers], rows.U[centers], derivatives=False)
        return Solution(penalized_likelihood(rows, basis, lam, n_jobs), lam)

    def held_out(
        self,
        problem: HeldOutProblem,
        kernel: JointKernel,
        lams: Sequence[float],
        criterion: Criterion,
    ) -> Array:
        basis, base, sample = problem.basis(kernel), problem.base, problem.sample
        # Distances of nodes are halved twice: interpolating between them then costs no
        # more than a thousandth of a nat or so.
        nodes = quadrature_nodes(base, sample.Y, kernel.resolution, refinement=2)
        # Warm starts go from smooth fits to rough ones.
        path = likelihood_path(
            basis, base, sample.X, sample.Y, sample.weights, problem.folds, lams[::-1]
        )
        fine = criterion(problem, basis, nodes=nodes, dtype=np.float64)
        return cross_validated(path, fine)[::-1]

    def untuned_lambda(self, kernel: JointKernel, n: float) -> float:
        # Penalty and log-likelihood of all rows keep their proportion, as prior and
        # likelihood do.
        return 0.1 / n


class BridgedSolver(Solver):
    """Score matching of rows mixed with draws from their base density."""

    name = "bridged"
    n_components = 150
    medians_y = 0.6
    # Wider ones are spent where there is nothing to connect, and narrower ones leave
    # the outer components without a bridge.
    base = GaussianBase(scale=1.5)
    own_base = True

    # Share of the bridge in the mixture, and draws from it for each row, which make the
    # mixture less noisy.
    share: ClassVar[float] = 0.3
    draws: ClassVar[int] = 4

    def fit(
        self,
        rows: CoordinateRows,
        kernel: JointKernel,
        lam: float,
        centers: Indices | None,
        n_jobs: int | None,
    ) -> Solution:
        assert centers is not None
        n = len(rows)
        Z, U, weights = self._mixed(rows.Z, rows.U, rows.weights, rows.base)
        jacobian = np.tile(rows.log_abs_det_jacobian, 1 + self.draws)
        both = replace(rows, Z=Z, U=U, weights=weights, log_abs_det_jacobian=jacobian)
        # The bridge needs centres too: a draw for the condition of each.
        solution = SCORE.fit(both, kernel, lam, np.append(centers, n + centers), n_jobs)
        return replace(solution, bridge=Bridge(self.share, rows.base))

    def held_out(
        self,
        problem: HeldOutProblem,
        kernel: JointKernel,
        lams: Sequence[float],
        criterion: Criterion,
    ) -> Array:
        # Rows and draws sorted by fold: the rows of each fold, then the draws for them.
        sample, n = problem.sample, len(problem.sample.Y)
        mixed = self._mixed(sample.X, sample.Y, sample.weights, problem.base)
        copies = n * np.arange(1 + self.draws)[:, None]
        order = np.concatenate(
            [(copies + np.arange(n)[fold]).ravel() for fold in problem.folds]
        )
        place = np.argsort(order)
        Z, U, weights = (part[order] for part in mixed)
        sizes = [(1 + self.draws) * (f.stop - f.start) for f in problem.folds]
        edges = [0, *np.cumsum(sizes).tolist()]
        centers = place[np.append(problem.centers, n + problem.centers)]
        both = replace(
            problem,
            sample=weighted_score_sample(problem.base, Z, U, weights),
            folds=tuple(map(slice, edges[:-1], edges[1:])),
            centers=centers,
        )
        # The bridge is the base density, so that log q0 on the nodes is log m.
        bridge = Bridge(self.share, problem.base)
        rest = partial(criterion, remainder=bridge.log_rest)
        return cross_validated_by_score(both, kernel, lams, rest)[:, place[:n]]

    def untuned_lambda(self, kernel: JointKernel, n: float) -> float:
        return SCORE.untuned_lambda(kernel, n)

    def _mixed(
        self, Z: Array, U: Array, weights: Array, base: BaseDensity
    ) -> tuple[Array, Array, Array]:
        """Rows, then draws from their base density, always the same ones."""
        rng = np.random.default_rng(0)
        return bridge_sample(Z, U, weights, self.share, base, rng, draws=self.draws)


SCORE = ScoreMatching()
SOLVERS: dict[str, Solver] = {
    solver.name: solver for solver in (SCORE, LikelihoodSolver(), BridgedSolver())
}


def chosen_centers(n: int, n_components: int) -> Indices:
    """Rows at random, always the same for the same number."""
    rng = np.random.default_rng(0)
    return np.sort(rng.choice(n, min(n, n_components), replace=False))


def score_sample(rows: CoordinateRows) -> ScoreSample:
    """What score matching needs to know of rows, with weights that sum to one."""
    weights = rows.weights
    sample = weighted_score_sample(rows.base, rows.Z, rows.U, weights)
    return replace(sample, weights=weights / weights.sum())


def weighted_score_sample(
    base: BaseDensity, Z: Array, U: Array, weights: Array, std: Array | None = None
) -> ScoreSample:
    """The same for any rows, whose weights are taken as they are.

    The standard deviation of all responses, `std` (d,), says how near an edge is; None
    if these are all.

    Raises:
        DegenerateDataError: These are all, and lie on an edge of the support.
    """
    all_rows = std is None
    if std is None:
        _, std = mean_and_std("y", U, weights)
    g, slope = boundary_weights(U, base.support(U.shape[1]), std)
    if all_rows and not np.any(g > 0):
        raise DegenerateDataError(
            f"All {len(U)} rows lie on an edge of the base density's support, where "
            f"score matching learns nothing; widen the bounds."
        )
    return ScoreSample(Z, U, weights, slope + g * base.grad_log_density(U), g)


def penalized_likelihood(
    rows: CoordinateRows,
    basis: Basis,
    lam: float,
    n_jobs: int | None,
    beyond: Sequence[RowSums] = (),
) -> KernelExpansion:
    """T by likelihood in the span of a basis, for rows, and others beyond them.

    Hessians are taken from some of the rows if they are many.
    """
    start, n = _score_matching_start(rows, basis), len(rows)
    size = NEWTON.hessian_rows * basis.size
    some = np.arange(n) if n <= 2 * size else chosen_centers(n, size)
    others = list(beyond)
    if len(some) < n:
        rest = np.delete(np.arange(n), some)
        parts = rows.Z[rest], rows.U[rest], rows.weights[rest]
        others.append(SumsInMemory(basis, *parts, n_jobs))
    found = fit_likelihood(
        basis,
        rows.base,
        rows.Z[some],
        rows.U[some],
        rows.weights[some],
        lam,
        others=others,
        start=start,
    )
    return replace(found.T, n_jobs=n_jobs)


def _score_matching_start(rows: CoordinateRows, basis: Basis) -> Array | None:
    """Coefficients of score matching; None, for zero, where it has no solution."""
    lam = SCORE.untuned_lambda(basis.kernel, float(rows.weights.sum()))
    try:
        found = statistics(basis, score_sample(rows)).solve(basis.gram(), lam)
    except (IllConditionedError, DegenerateDataError):
        return None
    return found if np.isfinite(found).all() else None


def _check_memory(size: int) -> None:
    """Refuse a fit whose matrix does not fit in memory, before it takes the machine."""
    needed = 8 * size * size
    try:
        physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return
    if needed > 0.8 * physical:
        raise MemoryError(
            f"An exact fit of {size} responses (rows x columns) needs a matrix of "
            f"{needed / 2**30:.0f} GiB, and this machine has "
            f"{physical / 2**30:.0f} GiB; fit a random subset of the rows."
        )
