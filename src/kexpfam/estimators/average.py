"""An average of densities: validated, weighed, fitted to all rows.

bounds     y goes to the line where it has bounds                    bounds
try        families in all coordinates that are worth it, experts    trials
weigh      what the mixture gives to rows that were held out         members
fit        those with weight to all rows, in memory or beyond        members
check      masses of isolated components against counts              family
"""

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kexpfam._typing import Array, Indices
from kexpfam.data import ArraySource, Rows, Source, TrainingRows, in_row_order
from kexpfam.distributions import (
    MixtureDensity,
    RecalibratedDensity,
    Replicates,
    SupportMap,
    UnitMap,
)
from kexpfam.errors import AccuracyWarning, BlindnessWarning
from kexpfam.estimators.bounds import (
    blocks_on_the_line,
    bounded,
    bounds_of,
    component_beyond,
    on_the_line,
    weight_beyond,
    with_rounding,
)
from kexpfam.estimators.censored import censored_support
from kexpfam.estimators.experts import check_weights_for
from kexpfam.estimators.fitting import FamilyFit, collected
from kexpfam.estimators.laws import AverageSpec, Law
from kexpfam.estimators.members import fit_members, mixed_density
from kexpfam.estimators.replicates import Replicate, fit_replicates
from kexpfam.estimators.saved import FittedAverage, FittedMember
from kexpfam.estimators.trials import try_experts, try_families
from kexpfam.family import (
    IsolatedComponents,
    RowsBeyond,
    SampledRows,
    check_masses,
    sample_rows,
)
from kexpfam.family.neighbourhood import Neighbourhood
from kexpfam.selection import Candidate, Member, Members
from kexpfam.selection.bootstrap import refuse_bootstrap
from kexpfam.selection.censored import average_censored
from kexpfam.selection.censored_rows import CensoredData
from kexpfam.selection.choosing import best_of
from kexpfam.selection.defensive import DefensiveComponent
from kexpfam.selection.discrete import rounding_width
from kexpfam.selection.mixtures import FittedMixture, MixtureExpert, try_mixture
from kexpfam.selection.spec import SUPPORT
from kexpfam.selection.supports import ResponseBounds
from kexpfam.selection.validation import Validation

# Nothing was found, and nothing is wrong.
_NO_COMPONENTS = IsolatedComponents(())


@dataclass(frozen=True, eq=False)
class Average(Law):
    """An average of densities of one column of y."""

    members: Members
    defensive: DefensiveComponent
    best: FamilyFit  # The best single family, how it was fitted and chosen
    neighbourhood: Neighbourhood
    n_candidates: int  # How many were tried
    stopped: str  # Why no more were
    rounding: float = 0.0
    calibration: UnitMap | None = None  # Of PIT values; None if there is none
    support: SupportMap | None = None  # Of y to the line; None without bounds
    beyond: DefensiveComponent | None = None  # Beside bounds that are only likely
    beyond_weight: float = 0.0  # Its mass
    replicates: tuple[Replicate, ...] = ()  # Fits that bands are from
    isolated: IsolatedComponents | None = None  # None if it came from a file
    # Numbers and held-out log densities of the rows that were validated, (n,) each
    held_out: tuple[Indices, Array] | None = None
    # Shares of held-out PIT values in bins, before calibration; None from a file
    pit: Array | None = None

    @property
    def average(self) -> "Average":
        return self

    def density(self, X: Array) -> Any:
        line = self.on_line(X)
        p = self._in_bounds(line, X)
        if self.replicates:
            mixture: Any = (
                line.density if isinstance(line, RecalibratedDensity) else line
            )
            parts = [bounded(c, self.support, None, X) for c in mixture.components]
            p._replicates = Replicates(parts, mixture.weights, self._replicated, X)
        return p

    def on_line(
        self, X: Array, members: Members | None = None
    ) -> MixtureDensity | RecalibratedDensity:
        """Densities of what families are fitted to: y, or a map of it to the line."""
        members = self.members if members is None else members
        return mixed_density(X, members, self.defensive, self.calibration)

    def _in_bounds(self, line: Any, X: Array) -> Any:
        """Densities of y itself."""
        return bounded(line, self.support, self.beyond, X, self.beyond_weight)

    def _replicated(self, X: Array) -> list[Any]:
        """The densities of every replicate."""
        lines = [self.on_line(X, one.of(self.members)) for one in self.replicates]
        return [self._in_bounds(line, X) for line in lines]

    @property
    def unsaveable(self) -> list[str]:
        """Names of members that are estimators of the user's."""
        experts = [member for member in self.members if member.family is None]
        ours = MixtureExpert
        return [m.coordinates for m in experts if not isinstance(m.expert, ours)]

    def saved(self) -> FittedAverage:
        members = [
            FittedMember(
                m.weight, m.coordinates, m.candidate.method, m.held_out, m.family
            )
            for m in self.members
            if m.family is not None
        ]
        mixtures = [m for m in self.members if isinstance(m.expert, MixtureExpert)]
        return FittedAverage(
            tuple(members),
            self.members.defensive,
            self.defensive,
            self.best.family,
            self.best.method,
            self.neighbourhood,
            self.n_candidates,
            self.stopped,
            self.calibration,
            self.replicates or None,
            self.support,
            self.beyond,
            self.rounding,
            FittedMixture.of(mixtures[0]) if mixtures else None,
            self.beyond_weight,
        )

    @classmethod
    def of(cls, saved: FittedAverage) -> "Average":
        """From a file."""
        members = [_restored(member) for member in saved.members]
        if saved.mixture is not None:
            members.append(saved.mixture.member())
        found = Members(members, saved.defensive_weight)
        # Numbers of a wrong form in its members show when they are printed.
        repr(found)
        return cls(
            found,
            saved.defensive_component,
            FamilyFit(saved.best, method=saved.best_method),
            saved.neighbourhood,
            saved.n_candidates,
            saved.stopped,
            saved.rounding,
            saved.calibration,
            saved.support,
            saved.beyond,
            saved.beyond_weight,
            saved.replicates or (),
        )


def _restored(member: FittedMember) -> Member:
    """A member from a file, which has no log densities of rows."""
    family, name = member.family, member.coordinates
    kernel = None if member.method == "none" else family.T.kernel
    candidate = Candidate(
        name, family.base, kernel, family.lam, member.method, np.empty(0)
    )
    return Member(member.weight, name, candidate, family, member.held_out)


def fit_average(
    data: Rows | Source, spec: AverageSpec, rng: np.random.Generator
) -> Average:
    """Fit an average to one column of y.

    Args:
        data: Rows in memory, in the order of `in_row_order`; or a source of more.
        spec: What is asked.
        rng: Deals folds, and draws samples and seeds.
    """
    if isinstance(data, Source):
        found = read(data, spec, rng)
        if isinstance(found, SampledRows):
            return fit_average_to_blocks(data, found, spec, rng)
        data = found
    bounds = _bounds(data, spec)
    mapped, support = on_the_line(data, bounds, spec.family)
    line = _Line.of(data, bounds, support)
    if np.count_nonzero(data.weights) > spec.family.limits.average_rows:
        source = ArraySource(mapped.X, mapped.Y, mapped.weights)
        return _fit_sampled(source, _sampled(source, spec, rng), line, spec, rng)
    return _fit_rows(mapped, None, line, spec, rng)


def fit_average_to_blocks(
    source: Source, sampled: SampledRows, spec: AverageSpec, rng: np.random.Generator
) -> Average:
    """The same for rows that are read block by block, with a sample of them."""
    bounds = _bounds(sampled.rows, spec)
    mapped, support = blocks_on_the_line(source, sampled, bounds, spec.family)
    line = _Line.of(sampled.rows, bounds, support)
    if support is not None:
        sampled = _sampled(mapped, spec, rng)
    return _fit_sampled(mapped, sampled, line, spec, rng)


def read(
    source: Source, spec: AverageSpec, rng: np.random.Generator
) -> Rows | SampledRows:
    """All rows of a source if they are few, as if they had been in memory; or some."""
    state = rng.bit_generator.state
    sampled = _sampled(source, spec, rng)
    if not sampled.complete:
        return sampled
    rng.bit_generator.state = state
    return in_row_order(collected(source))


def fit_censored_average(
    data: CensoredData, rows: Rows, spec: AverageSpec, rng: np.random.Generator
) -> Average:
    """An average of families by likelihood, for rows of which some are censored."""
    refuse_bootstrap(spec.family.bootstrap, "censored rows")
    family = replace(spec.family, fit_method="likelihood")
    support, bounds = censored_support(
        data, spec.lower, spec.upper, family, notice=True
    )
    line = data if support is None else data.behind(support)
    found = average_censored(line, family, rng)
    selection, gained, beyond = found.selection, 0.0, None
    if support is not None:
        gained = data.log_jacobian(support)
        selection = selection.shifted(gained)
        if bounds.likely:
            known = np.where(np.isfinite(data.lower), data.lower, data.upper)
            beyond = component_beyond(known, data.weights, data.X.shape[1])
    members = [
        Member(float(w), c.coordinates, c, own, c.mean(selection.weights) + gained)
        for w, (c, own) in zip(found.weights, found.members, strict=True)
    ]
    return Average(
        Members(members, found.defensive_weight),
        found.defensive,
        FamilyFit(found.best, selection, method="likelihood"),
        Neighbourhood.of(rows.X, rows.weights),
        len(selection.path),
        selection.reason,
        support=support,
        beyond=beyond,
        beyond_weight=0.0 if beyond is None else SUPPORT.least_beyond,
    )


def _bounds(rows: Rows, spec: AverageSpec) -> ResponseBounds:
    return bounds_of(rows, spec.lower, spec.upper, notice=True, ends=spec.ends)


def _sampled(
    source: Source, spec: AverageSpec, rng: np.random.Generator
) -> SampledRows:
    """A sample of rows, on which everything is chosen."""
    seed, family = int(rng.integers(2**31)), spec.family
    return sample_rows(
        source,
        family.limits.design_rows,
        seed,
        n_jobs=family.n_jobs,
        client=family.client,
    )


@dataclass(frozen=True, eq=False)
class _Line:
    """Where families are fitted: y, or a map of it, and what stands beside that."""

    support: SupportMap | None
    beyond: DefensiveComponent | None
    rounding: float  # Of y itself

    @classmethod
    def of(
        cls, rows: Rows, bounds: ResponseBounds, support: SupportMap | None
    ) -> "_Line":
        """For rows of y; every y stays possible where a bound is only likely."""
        y, beyond = rows.Y[:, 0], None
        if support is not None and bounds.likely:
            beyond = component_beyond(y, rows.weights, rows.X.shape[1])
        return cls(support, beyond, rounding_width(y[rows.weights > 0] + 0.0))

    def log_jacobians(self, rows: Rows) -> Array:
        """What log densities on the line are less than those of y, (n,)."""
        if self.support is None:
            return np.zeros(len(rows))
        return self.support.log_abs_det_jacobian(self.support.inverse(rows.Y[:, 0]))


def _fit_sampled(
    source: Source,
    sampled: SampledRows,
    line: _Line,
    spec: AverageSpec,
    rng: np.random.Generator,
) -> Average:
    """Choose on a sample, and fit to all rows of a source."""
    refuse_bootstrap(spec.family.bootstrap, "rows that are not all in memory")
    others = RowsBeyond(source, sampled, spec.family.n_jobs, spec.family.client)
    return _fit_rows(sampled.rows, others, line, spec, rng)


def _fit_rows(
    rows: Rows,
    others: RowsBeyond | None,
    line: _Line,
    spec: AverageSpec,
    rng: np.random.Generator,
) -> Average:
    """Validate on rows in memory, and fit the best to these and to others."""
    experts = spec.experts.estimators
    training = TrainingRows.of(rows, shuffled=True)
    check_weights_for(experts, training.weights)
    _warn_of_few(max(len(training), round(float(training.weights.sum()))))
    family = with_rounding(spec.family, training, line.support)
    validation = Validation.of(training, family, rng)
    isolated = try_families(
        validation,
        spec.experts,
        spec.coordinates,
        likelihood=spec.likelihood,
        verbose=family.verbose,
    )
    try_experts(validation, experts)
    if spec.experts.mixtures:
        experts = {**experts, **try_mixture(validation)}
    seed = int(rng.integers(2**31))
    if others is None:
        validation.keep_time()
    found = fit_members(validation, family, seed, others, experts, line.support)
    near = Neighbourhood.of(rows.X, rows.weights)
    found = found.on_top_of(line.log_jacobians(validation.rows))
    selection = found.selection
    average = Average(
        found.members,
        found.defensive,
        FamilyFit(found.best, selection, method=selection.chosen.method),
        near if found.weight is None else near.scaled(found.weight),
        len(selection.path),
        selection.reason,
        line.rounding,
        found.calibration,
        line.support,
        line.beyond,
        weight_beyond(line.beyond, found.moments, validation.weights),
        isolated=_NO_COMPONENTS,
        held_out=(found.rows, found.held_out),
        pit=found.pit,
    )
    if isolated:
        average = replace(average, isolated=_masses(average, validation, spec))
    if not family.bootstrap:
        return average
    replicates = fit_replicates(
        validation,
        average.members,
        family.bootstrap,
        found.best.seed,
        n_jobs=family.n_jobs,
        verbose=family.verbose,
    )
    return replace(average, replicates=replicates)


def _masses(
    average: Average, validation: Validation, spec: AverageSpec
) -> IsolatedComponents:
    """Masses of isolated components by the average and by counting.

    A learned summary has seen the rows: there it is the best family that is looked at,
    where they are held out.
    """
    rows, family = validation.all_rows, average.best.family
    how: dict[str, Any] = {"density": average.on_line}
    if family.coordinates.summary is not None:
        how = {"placed": validation.final(best_of(validation).chosen.coordinates)}
    found = check_masses(family, rows.X, rows.Y, rows.weights, **how)
    if found.suspicious and spec.likelihood is False:
        warnings.warn(
            f"Masses of isolated components are wrong: {found.finding}. Score "
            f"matching does not see them; use likelihood=None.",
            BlindnessWarning,
            stacklevel=6,
        )
    return found


def _warn_of_few(n: int, enough: int = 10) -> None:
    """Say what intervals rest on where rows are too few to tell."""
    if n < enough:
        warnings.warn(
            f"Intervals rest on {n} rows: too few to tell the shape of a density. Its "
            f"tails are nearly those of a t distribution with {max(n - 1, 1)} degrees "
            f"of freedom, and intervals above 80 % cover less than they say; take "
            f"{enough} rows or more.",
            AccuracyWarning,
            stacklevel=6,
        )
