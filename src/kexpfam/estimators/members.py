"""Members of an average: candidates fitted to all rows, and what they are together."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import special

from kexpfam._progress import ProgressBar
from kexpfam._typing import Array, Indices
from kexpfam.distributions import (
    MixtureDensity,
    RecalibratedDensity,
    ResponseCoordinates,
    SupportMap,
    UnitMap,
)
from kexpfam.estimators.experts import fit_expert
from kexpfam.family import (
    SOLVERS,
    Coordinates,
    FittedFamily,
    FoldStatistics,
    LambdaRule,
    RowsBeyond,
    Spec,
    narrowed,
    solve_statistics,
    solve_with_others,
    sum_statistics,
    with_all_rows,
)
from kexpfam.selection import Candidate, Member, Members, Selection
from kexpfam.selection.choosing import best_of
from kexpfam.selection.defended import defended_weights, held_out_masses
from kexpfam.selection.defensive import DefensiveComponent
from kexpfam.selection.finishing import lambda_for_all
from kexpfam.selection.held_out_laws import HeldOutLaws
from kexpfam.selection.recalibration import fit_calibration, pit_shares
from kexpfam.selection.validation import Validation


@dataclass(frozen=True, eq=False)
class FittedMembers:
    """Members of an average with their weights, and what stands beside them."""

    members: Members
    defensive: DefensiveComponent
    calibration: UnitMap | None
    pit: Array  # Shares of held-out PIT values in bins, before it
    best: FittedFamily  # The best single family
    selection: Selection  # How that was chosen, among all
    rows: Indices  # Numbers of the rows that were held out, (n,)
    held_out: Array  # Log densities of these, (n,)
    moments: Array  # Means and variances of these, (n, 2); NaN if they are not known
    weight: float | None  # Of all rows, if they are more than those in memory

    def on_top_of(self, log_jacobians: Array) -> "FittedMembers":
        """The same where the rows are a map of others, with log Jacobians."""
        weights = self.selection.weights
        offset = float(np.average(log_jacobians, weights=weights))
        members = [replace(m, held_out=m.held_out + offset) for m in self.members]
        return replace(
            self,
            members=Members(members, self.members.defensive),
            selection=self.selection.shifted(offset),
            held_out=self.held_out + log_jacobians,
        )


def fit_members(
    validation: Validation,
    spec: Spec,
    seed: int,
    others: RowsBeyond | None,
    experts: Mapping[str, Any],
    support: SupportMap | None = None,
) -> FittedMembers:
    """Weights of the candidates, and those that have some fitted to all rows.

    `support` is the map that the responses are behind.
    """
    candidates, rows = validation.candidates, validation.rows
    every = validation.all_rows
    laws = HeldOutLaws(validation, support)
    # What is validated is what will be used: every member beside the defensive one.
    weights, defence = defended_weights(validation, candidates, laws)
    kept = np.flatnonzero(weights)
    log_p = np.stack([candidates[int(k)].held_out for k in kept])
    held_out = special.logsumexp(log_p, axis=0, b=weights[kept, None])
    masses = held_out_masses(laws, candidates, weights, defence)
    moments = laws.mixed([candidates[int(k)] for k in kept], weights[kept])[:, 1:]
    selection = best_of(validation)
    families = [candidates[k] for k in kept if candidates[k].base is not None]
    best = selection.chosen
    wanted = families if best in families else [*families, best]
    found, weight = fit_to_all_rows(validation, wanted, spec, seed, others)
    fits = iter(found)
    members = []
    for k in kept:
        candidate = candidates[k]
        name, other = candidate.coordinates, candidate.base is None
        members.append(
            Member(
                float(weights[k] * (1.0 - defence.weight)),
                name,
                candidate,
                None if other else next(fits),
                candidate.mean(rows.weights),
                fit_expert(experts[name], every, others) if other else None,
            )
        )
    return FittedMembers(
        Members(members, defence.weight),
        DefensiveComponent(
            validation.final(defence.coordinates).coordinates, defence.base
        ),
        fit_calibration(masses, rows.weights, validation.folds),
        pit_shares(masses, rows.weights),
        found[wanted.index(best)],
        selection,
        rows.numbers,
        defence.beside(held_out),
        moments,
        weight,
    )


def fit_to_all_rows(
    validation: Validation,
    chosen: Sequence[Candidate],
    spec: Spec,
    seed: int,
    others: RowsBeyond | None,
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
        with ProgressBar("AutoKCEF, parts of the data", shown=spec.verbose) as bar:
            fits = with_all_rows(fits, others, bar)
    solved = dict(zip(summed, fits, strict=True))
    weight = fits[0].weight if others is not None and fits else None
    families: list[FittedFamily] = []
    with ProgressBar("AutoKCEF, fits to all rows", shown=spec.verbose) as bar:
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
    return solve_with_others(
        placed,
        candidate.kernel,
        lam,
        solver.centers(len(placed)),
        others,
        solver=solver,
        seed=seed,
        n_jobs=n_jobs,
    )


def mixed_density(
    X: Array,
    members: Members,
    defensive: DefensiveComponent,
    calibration: UnitMap | None,
) -> MixtureDensity | RecalibratedDensity:
    """Densities of an average at conditions."""
    # Members share coordinates, whose regressions are the slow part of them.
    placed: dict[int, Any] = {}

    def at(coordinates: Coordinates) -> tuple[Array, ResponseCoordinates]:
        if id(coordinates) not in placed:
            Z = coordinates.conditions(X)
            placed[id(coordinates)] = Z, coordinates.at(Z)
        found: tuple[Array, ResponseCoordinates] = placed[id(coordinates)]
        return found

    parts: list[Any] = []
    for member in members:
        family = member.family
        if family is None:
            assert member.expert is not None
            parts.append(member.expert.given(X))
            continue
        Z, there = at(family.coordinates)
        parts.append(family.closed_form(there) or family.normalized(Z, there))
    _, there = at(defensive.coordinates)
    parts.append(defensive.at(there.location[:, 0], there.scale[:, 0]))
    weights = [member.weight for member in members]
    mixture = MixtureDensity(parts, [*weights, members.defensive])
    return mixture if calibration is None else RecalibratedDensity(mixture, calibration)
