"""λ and the number of centres, from the statistics of all rows, and the family.

The sums of each fold are subtracted from the total, so that a fit without it costs one
small Cholesky factorisation for each λ, however many rows there are. The first centres
of a basis are a basis too, whose sums are among those of the whole one: half as many
centres can be validated at no price, and whether more of them would help can be told.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from kexpfam._parallel import blas_on_all_cores, single_threaded_blas
from kexpfam._typing import Array
from kexpfam.errors import DegenerateDataError
from kexpfam.family.cross_validation import (
    CRITERIA,
    FoldCriterion,
    FoldScores,
    LogDensities,
    coefficients_without_folds,
    cross_validated,
)
from kexpfam.family.family import FittedFamily
from kexpfam.family.statistics import FoldStatistics
from kexpfam.score_matching import Statistics

# Fewer centres are taken if they lose no more than this, in nats per row.
TOLERANCE = 0.002


@dataclass(frozen=True)
class ComponentTrial:
    """The best fit with some number of centres.

    Attributes:
        n_components: Number of centres.
        regularization: The λ that was best with them.
        held_out: Mean held-out log density, or minus the held-out score.
        error: Its standard error; NaN for the score.
    """

    n_components: int
    regularization: float
    held_out: float
    error: float


@dataclass(frozen=True, eq=False)
class Components:
    """How many centres a low-rank fit has, and whether more of them would help.

    Attributes:
        trials: What was validated, few centres first.
        chosen: The one that was taken.
        gain: What the larger half of the most centres gained, in nats per row.
        gain_error: Standard error of that.
    """

    trials: tuple[ComponentTrial, ...]
    chosen: ComponentTrial
    gain: float
    gain_error: float

    @property
    def more_would_help(self) -> bool:
        """Whether the last doubling gained more than tolerance and chance."""
        most = self.trials[-1].n_components
        worth = self.gain > max(TOLERANCE, 2.0 * np.nan_to_num(self.gain_error))
        return bool(self.chosen.n_components == most and worth)

    def __str__(self) -> str:
        lines = [f"{'centres':>8}  {'held out':>9}  {'± error':>8}  regularization"]
        for trial in self.trials:
            mark = "  <- taken" if trial is self.chosen else ""
            lines.append(
                f"{trial.n_components:8d}  {trial.held_out:9.4f}  {trial.error:8.4f}  "
                f"{trial.regularization:.3g}{mark}"
            )
        if len(self.trials) > 1:
            lines.append(
                f"the last doubling gained {self.gain:.4f} ± {self.gain_error:.4f}: "
                f"more centres would {'' if self.more_would_help else 'hardly '}help"
            )
        return "\n".join(lines)


def solve_statistics(
    stats: FoldStatistics, n_jobs: int | None = None
) -> tuple[FittedFamily, Components | None]:
    """The family, and how λ and the number of centres were chosen, if they were."""
    if stats.weight <= 0:
        raise DegenerateDataError(
            "The model has seen no rows yet; add some with partial_fit."
        )
    spec, found = stats.spec, choose_components(stats)
    if found is None:
        lam, size = stats.rule.first(spec.basis.kernel, stats.weight), stats.sizes[-1]
    else:
        lam, size = found.chosen.regularization, found.chosen.n_components
    basis, alpha = stats.coefficients(lam, size)
    T = basis.expansion(alpha, n_jobs)
    family = FittedFamily(spec.coordinates, spec.base, T, lam, float("nan"), spec.seed)
    return family, found


def narrowed(stats: FoldStatistics) -> FoldStatistics:
    """Only as many centres as pay, and twice as many for the rows to come."""
    several = stats.free and len(stats.sizes) > 1
    found = choose_components(stats) if several else None
    if found is None:
        return stats
    best = found.chosen.n_components
    return stats.limited([s for s in stats.sizes if best <= s <= 2 * best])


def choose_components(stats: FoldStatistics) -> Components | None:
    """Validate numbers of centres, few first, and λ by what is held out.

    None if that is settled, if some fold is empty, or if no fit succeeds.
    """
    if stats.rule.objective is None or stats.settled:
        return None
    if min(own.weight for own in stats.sums) <= 0 or not len(stats.validation.keys):
        return None  # so few rows that a fold has none
    R = stats.spec.basis.gram()
    share, criterion, offset = _criterion(stats)
    trials: list[_Trial] = []
    for size in stats.sizes:
        _, index = stats.spec.leading(size)
        parts = [own.of_functions(index) for own in stats.sums]
        lams = stats.lambda_path
        if trials:  # within an order of magnitude of the best with fewer centres
            lams = [lam for lam in lams if 0.09 < lam / trials[-1].lam < 11.0]
        # Systems up to this size are factorised by one thread, in 50 ms or less: on a
        # busy machine threads of BLAS wait for each other for longer than that.
        with single_threaded_blas() if len(index) <= 2000 else blas_on_all_cores():
            alphas = coefficients_without_folds(parts, R[np.ix_(index, index)], lams)
            held_out = cross_validated(alphas, criterion(size, parts)) + offset
        trials.append(_Trial.of(size, held_out, lams, share))
        few = len(trials) < 2
        if not few and stats.free and trials[-1].mean < trials[-2].mean + TOLERANCE:
            break  # more would not help either
    return _chosen(trials, share, stats.free)


def _criterion(
    stats: FoldStatistics,
) -> tuple[Array, Callable[[int, Sequence[Statistics]], FoldCriterion], Array]:
    """Shares of what is held out, its criterion for a number of centres, its offset."""
    assert stats.rule.objective is not None
    if CRITERIA[stats.rule.objective].additive:
        weights = np.array([own.weight for own in stats.sums])
        nothing = np.zeros(len(weights))
        return weights / weights.sum(), lambda _, parts: FoldScores(parts), nothing
    problem, log_jacobian = stats.validation.in_folds(stats.spec)
    log_densities = LogDensities.of(problem, stats.spec.basis)
    weights = problem.sample.weights
    share = weights / weights.sum()
    return share, lambda size, _: log_densities.leading(size), log_jacobian


@dataclass(frozen=True, eq=False)
class _Trial:
    """The best λ with some number of centres, and what every unit is worth with it."""

    size: int
    lam: float
    mean: float
    held_out: Array

    @classmethod
    def of(
        cls, size: int, held_out: Array, lams: Sequence[float], share: Array
    ) -> "_Trial":
        means = np.nan_to_num(held_out @ share, nan=-np.inf, neginf=-np.inf)
        k = int(np.argmax(means))
        return cls(size, float(lams[k]), float(means[k]), held_out[k])


def _chosen(tried: list[_Trial], share: Array, free: bool) -> Components | None:
    trials = tuple(
        ComponentTrial(
            one.size, one.lam, one.mean, _standard_error(one.held_out, share)
        )
        for one in tried
    )
    top = max(one.mean for one in tried)
    if not np.isfinite(top):
        return None
    good = [trial for trial in trials if trial.held_out >= top - TOLERANCE]
    chosen = good[0] if free else trials[-1]
    gain = np.zeros(len(share))
    if len(tried) > 1:
        gain = tried[-1].held_out - tried[-2].held_out
    error = _standard_error(gain, share)
    return Components(trials, chosen, float(gain @ share), error)


def _standard_error(values: Array, share: Array) -> float:
    with np.errstate(invalid="ignore"):
        return float(np.sqrt(share**2 @ (values - values @ share) ** 2))
