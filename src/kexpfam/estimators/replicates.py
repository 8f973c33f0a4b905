"""Fits of the members of an average to rows with random weights.

All that was chosen stays: members, their weights, kernels, λ, the defensive component
and the map of PIT values. Learned again are regressions and transforms, and the
coefficients of T.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from kexpfam._progress import ProgressBar
from kexpfam._typing import Array
from kexpfam.family import SOLVERS, FittedFamily, chosen_centers, solve
from kexpfam.persistence import saved_fit
from kexpfam.selection import Member
from kexpfam.selection.validation import Validation


@saved_fit({"families": "k p d=1"})
@dataclass(frozen=True, eq=False)
class Replicate:
    """The families of the members of an average, in their order, fitted once more."""

    families: tuple[FittedFamily, ...]


def fit_replicates(
    validation: Validation,
    members: Sequence[Member],
    count: int,
    seed: int,
    *,
    n_jobs: int | None = None,
    verbose: bool = False,
) -> tuple[Replicate, ...]:
    """Fit members to rows with weights of a Bayesian bootstrap, `count` times."""
    rng = np.random.default_rng(seed)
    found = []
    with ProgressBar("AutoKCEF, replicates", shown=verbose) as bar:
        for b in range(count):
            weights = rng.standard_exponential(len(validation.all_rows))
            found.append(replicate(validation, members, weights, seed, n_jobs))
            if bar is not None:
                bar(b + 1, count)
    return tuple(found)


def replicate(
    validation: Validation,
    members: Sequence[Member],
    weights: Array,
    seed: int,
    n_jobs: int | None = None,
) -> Replicate:
    """Fit members to rows that count so much more, (n,); only ratios matter."""
    placed = validation.reweighted(weights / weights.mean())
    families = []
    for member in members:
        if member.family is None:
            continue  # an estimator of the user, which stays as it is
        candidate, family = member.candidate, member.family
        rows = replace(placed(member.coordinates), base=family.base)
        families.append(
            solve(
                rows,
                candidate.kernel,
                family.lam,
                seed=seed,
                centers=chosen_centers(len(rows), len(family.T.Y)),
                n_jobs=n_jobs,
                solver=SOLVERS.get(candidate.method, SOLVERS["score"]),
            )
        )
    return Replicate(tuple(families))
