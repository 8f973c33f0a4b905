"""Fits of the members of an average to rows with random weights.

All that was chosen stays: members, their weights, kernels, λ, the defensive component
and the map of PIT values. Learned again are regressions and transforms, and the
coefficients of T.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from kexpfam._typing import Array
from kexpfam.family import FittedFamily, chosen_centers
from kexpfam.persistence import saved_fit
from kexpfam.regression import RegressionMixture
from kexpfam.selection import Member, Members
from kexpfam.selection.bootstrap import bootstrapped, solved_again
from kexpfam.selection.mixtures import MixtureExpert
from kexpfam.selection.validation import Validation


@saved_fit({"families": "s p d=1", "mixture": "p optional"})
@dataclass(frozen=True, eq=False)
class Replicate:
    """The members of an average, fitted once more."""

    families: tuple[FittedFamily, ...]  # Of the members, in their order
    mixture: RegressionMixture | None = None  # Of regressions, if that is a member

    def of(self, members: Members) -> Members:
        """Members with what was fitted in the place of what they are.

        An estimator of the user's stays as it is.
        """
        own = iter(self.families)

        def replaced(member: Member) -> Member:
            if member.family is not None:
                return replace(member, family=next(own))
            if isinstance(member.expert, MixtureExpert) and self.mixture is not None:
                return replace(member, expert=MixtureExpert(self.mixture))
            return member

        return Members([replaced(member) for member in members], members.defensive)


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
    return bootstrapped(
        lambda weights: replicate(validation, members, weights, seed, n_jobs),
        len(validation.all_rows),
        count,
        seed,
        verbose=verbose,
    )


def replicate(
    validation: Validation,
    members: Sequence[Member],
    weights: Array,
    seed: int,
    n_jobs: int | None = None,
) -> Replicate:
    """Fit members to rows that count so much more, (n,); only ratios matter."""
    placed = validation.reweighted(weights / weights.mean())
    rows = validation.all_rows
    rows = replace(rows, weights=rows.weights * weights)
    families, mixture = [], None
    for member in members:
        if isinstance(member.expert, MixtureExpert):
            mixture = member.expert.refitted(rows).mixture
        if member.family is None:
            continue
        candidate, family = member.candidate, member.family
        here = replace(placed(member.coordinates), base=family.base)
        centers = chosen_centers(len(here), len(family.T.Y))
        families.append(
            solved_again(
                here, family, candidate.kernel, candidate.method, centers, seed, n_jobs
            )
        )
    return Replicate(tuple(families), mixture)
