"""Members of an average: candidates fitted to all rows, and those of files."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from kexpfam._progress import ProgressBar
from kexpfam.estimators.saved import FittedMember
from kexpfam.family import (
    SOLVERS,
    FittedFamily,
    FoldStatistics,
    LambdaRule,
    RowsBeyond,
    Spec,
    chosen_centers,
    narrowed,
    solve,
    solve_by_likelihood,
    solve_statistics,
    sum_statistics,
    with_all_rows,
)
from kexpfam.selection import Candidate, Member
from kexpfam.selection.finishing import lambda_for_all
from kexpfam.selection.validation import Validation


def fit_members(
    validation: Validation,
    chosen: Sequence[Candidate],
    spec: Spec,
    seed: int,
    others: RowsBeyond | None,
    *,
    verbose: bool = False,
) -> tuple[list[FittedFamily], float | None]:
    """Candidates fitted to all rows, and the weight of these if they are more."""
    few = others is None and len(validation.all_rows) < spec.limits.counted_rows
    additive = [name for name, solver in SOLVERS.items() if solver.additive]
    tilted = [k for k, c in enumerate(chosen) if c.method in additive]
    # With more rows λ is chosen again, and so is the number of centres.
    summed = [] if few else tilted
    fits = [_statistics(validation, chosen[k], spec, seed) for k in summed]
    if others is not None and fits:
        fits = [narrowed(stats) for stats in fits]
        with ProgressBar("AutoKCEF, parts of the data", shown=verbose) as bar:
            fits = with_all_rows(fits, others, bar)
    solved = dict(zip(summed, fits, strict=True))
    weight = fits[0].weight if others is not None and fits else None
    families: list[FittedFamily] = []
    with ProgressBar("AutoKCEF, fits to all rows", shown=verbose) as bar:
        for k, candidate in enumerate(chosen):
            if k in solved:
                families.append(solve_statistics(solved[k], spec.n_jobs)[0])
            else:
                family, own = fit_candidate(
                    validation, candidate, seed, spec.n_jobs, others
                )
                families.append(family)
                weight = weight or own
            if bar is not None:
                bar(k + 1, len(chosen))
    return families, weight


def _statistics(
    validation: Validation, candidate: Candidate, spec: Spec, seed: int
) -> FoldStatistics:
    """C and b of a candidate over all training rows."""
    assert candidate.kernel is not None
    assert candidate.base is not None
    placed = replace(validation.final(candidate.coordinates), base=candidate.base)
    rule = LambdaRule("likelihood", candidate.lam)
    return sum_statistics(
        placed, validation.all_rows, candidate.kernel, rule, spec, seed=seed
    )


def fit_candidate(
    validation: Validation,
    candidate: Candidate,
    seed: int,
    n_jobs: int | None,
    others: RowsBeyond | None = None,
) -> tuple[FittedFamily, float | None]:
    """Fit a candidate to all training rows, as it was validated.

    Fits by likelihood have rows beyond these, too, and say what all weigh together.
    """
    assert candidate.base is not None
    placed = replace(validation.final(candidate.coordinates), base=candidate.base)
    solver, lam = SOLVERS.get(candidate.method, SOLVERS["score"]), candidate.lam
    if not solver.relative_lambda:
        lam = lambda_for_all(validation, lam, validation.weights)
    kernel = candidate.kernel
    centers = chosen_centers(len(placed), solver.components_for(len(placed)))
    if others is not None and solver.name == "likelihood":
        assert kernel is not None
        return solve_by_likelihood(placed, kernel, lam, centers, others, seed=seed)
    family = solve(
        placed, kernel, lam, seed=seed, centers=centers, n_jobs=n_jobs, solver=solver
    )
    return family, None


def restored_member(member: FittedMember) -> Member:
    """A member from a file, which has no log densities of rows."""
    family, name = member.family, member.coordinates
    kernel = None if member.method == "none" else family.T.kernel
    candidate = Candidate(
        name, family.base, kernel, family.lam, member.method, np.empty(0)
    )
    return Member(member.weight, name, candidate, family, member.held_out)
