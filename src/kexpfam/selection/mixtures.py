"""A mixture of linear regressions as a member of an average.

Lines that cross, and groups with slopes of their own, are a few numbers to it, which
kernels have to learn cell by cell. Rows say how many components there are, and without
each fold all is looked for anew: EM that began where all rows had led it would know of
the rows that are held out. At the end it is fitted to all rows, also to those that are
read block by block.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from kexpfam._typing import Array
from kexpfam.data import Accumulator, Rows
from kexpfam.distributions import NormalMixtureDensity
from kexpfam.family import RowsBeyond
from kexpfam.persistence import saved_fit
from kexpfam.regression import (
    MIXTURE_SPEC,
    MixtureSpec,
    MixtureSums,
    RegressionMixture,
    fit_regression_mixture,
    mixture_sums,
    refit_regression_mixture,
    scaling_of,
)
from kexpfam.selection.candidates import Candidate
from kexpfam.selection.results import Member
from kexpfam.selection.validation import Validation, is_heavy_tailed

MIXTURE = "mixture of regressions"


@dataclass(frozen=True, eq=False)
class MixtureExpert:
    """A fitted mixture as an expert."""

    mixture: RegressionMixture
    spec: MixtureSpec = MIXTURE_SPEC

    def given(self, X: Array) -> NormalMixtureDensity:
        """Densities at conditions (n, p)."""
        return NormalMixtureDensity(*self.mixture.at(X))

    def refitted(self, rows: Rows, others: RowsBeyond | None = None) -> "MixtureExpert":
        """With as many components for other rows, which may be a sample of all."""

        def sums(mixture: RegressionMixture) -> MixtureSums:
            assert others is not None
            return others.sum_of_all(SumOfMixture(mixture))

        return MixtureExpert(
            refit_regression_mixture(
                self.mixture,
                rows.X,
                rows.Y[:, 0],
                rows.weights,
                self.spec,
                all_rows=None if others is None else sums,
            ),
            self.spec,
        )


@dataclass(frozen=True, eq=False)
class SumOfMixture(Accumulator[MixtureSums]):
    """Sums of a round of EM over all rows, those of the sample among them."""

    mixture: RegressionMixture

    def start(self) -> MixtureSums:
        none = np.empty((0, len(self.mixture.x_scaling.center)))
        return mixture_sums(self.mixture, none, none[:, 0], none[:, 0])

    def add(self, state: MixtureSums, block: Rows) -> MixtureSums:
        own = mixture_sums(self.mixture, block.X, block.Y[:, 0], block.weights)
        return state + own

    def combine(self, first: MixtureSums, second: MixtureSums) -> MixtureSums:
        return first + second


@saved_fit({"weight": "positive share", "mixture": "p"})
@dataclass(frozen=True, eq=False)
class FittedMixture:
    """The mixture of an average, as files hold it."""

    weight: float  # Its share
    held_out: float  # Mean held-out log density
    mixture: RegressionMixture

    @classmethod
    def of(cls, member: Member) -> "FittedMixture":
        """What a member is."""
        return cls(member.weight, member.held_out, member.expert.mixture)

    def member(self) -> Member:
        """The member again, which has no log densities of rows."""
        candidate, expert = _candidate(np.empty(0)), MixtureExpert(self.mixture)
        return Member(self.weight, MIXTURE, candidate, None, self.held_out, expert)


def try_mixture(validation: Validation) -> dict[str, MixtureExpert]:
    """Validate a mixture of regressions, if there is one; it is returned by its name.

    One that predicts rows it was fitted to worse than others predict held-out rows, by
    some margin, is left where it is.
    """
    rows, weights = validation.rows, validation.weights
    if is_heavy_tailed(rows, validation.spec) or validation.ended_before(MIXTURE):
        return {}
    X, y, spec = rows.X, rows.Y[:, 0], _spec(validation)
    found = _fit(rows, spec)
    if found is None:
        return {}
    best = max(c.mean(weights) for c in validation.candidates)
    flattered = special.logsumexp(found.log_joint(X, y), axis=1)
    margin = validation.tuning.mixture_margin
    if np.average(flattered, weights=weights) < best - margin:
        return {}
    log_p, below = np.empty(len(rows)), np.empty(len(rows))
    for fold in validation.folds:
        rest = _fit(rows[np.delete(np.arange(len(rows)), fold)], spec, alone=True)
        assert rest is not None
        density = MixtureExpert(rest).given(X[fold])
        log_p[fold], below[fold] = density.logpdf(y[fold]), density.cdf(y[fold])
    validation.candidates.append(_candidate(log_p, below))
    return {MIXTURE: MixtureExpert(found, spec)}


def _fit(
    rows: Rows, spec: MixtureSpec, *, alone: bool = False
) -> RegressionMixture | None:
    """A mixture of any number of components, found with no rows but these."""
    # Runs of EM begin anywhere; always the same places are as good as others.
    rng = np.random.default_rng(0)
    return fit_regression_mixture(
        rows.X, rows.Y[:, 0], rows.weights, rng, spec, alone=alone
    )


def _spec(validation: Validation) -> MixtureSpec:
    """Components no narrower than two that stand on neighbouring recorded values.

    Normal densities at a distance of two standard deviations have one mode.
    """
    rows = validation.rows
    std = float(scaling_of("y", rows.Y, rows.weights).scale[0])
    least = 0.5 * validation.rounding / std
    return replace(MIXTURE_SPEC, smallest_std=max(MIXTURE_SPEC.smallest_std, least))


def _candidate(held_out: Array, below: Array | None = None) -> Candidate:
    return Candidate(MIXTURE, None, None, np.inf, "EM", held_out, below)
