"""Validation: coordinates, kernels and λ that are tried on the same rows.

All coordinates (a base density with its regression and transforms) get a coarse grid of
kernels and λ. Each candidate is worth the log density it gives to rows that it has not
seen. With few rows everything that depends on y is fitted again for every fold:
regressions, transforms and standardisation too. With many, leave-one-out residuals in
closed form are honest enough, and much faster.
"""

import functools
import itertools
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from kexpfam._heuristics import robust_scaling
from kexpfam._parallel import cached_property, shared_out
from kexpfam._typing import Array, Indices
from kexpfam._validation import check_range
from kexpfam.base_densities import (
    BaseDensity,
    GaussianProcessBase,
    LinearBase,
    MonotoneTransform,
    TransformedBase,
    pulled_in,
)
from kexpfam.data import Rows, TrainingRows
from kexpfam.family import (
    CRITERIA,
    SOLVERS,
    CoordinateRows,
    HeldOutProblem,
    SharedProcesses,
    Spec,
    chosen_centers,
    equal_folds,
    fit_coordinates,
    refitted,
    transformed_response,
    unskewed,
    weighted_score_sample,
)
from kexpfam.selection.candidates import Candidate, Task, bases_alone
from kexpfam.selection.discrete import rounding_width
from kexpfam.selection.spec import (
    GAUSSIANIZED,
    LEARNED_SUMMARY,
    PLAIN,
    RESIDUAL_BASES,
    SUMMARY_TRANSFORMS,
    TUNING,
    CoordinateSpec,
    LambdaPath,
    SelectionTuning,
    end_of_trials,
    summary_coordinates,
)
from kexpfam.summaries import LearnedSummary

# Bases that are tried first where time is short.
_FAST = BaseDensity | LinearBase

# What is left out of kernels is counted in the end.
_KERNELS = "kernels"

Progress = Callable[[int, int, float], None]


@dataclass
class Validation:
    """Rows sorted by fold, their coordinates, and the candidates tried so far."""

    rows: TrainingRows  # Rows that the candidates are validated on, sorted by fold
    all_rows: TrainingRows  # All training rows; the same, in this order, or more
    order: Indices  # Where the former are among the latter
    folds: tuple[slice, ...]  # Rows of each fold
    spec: Spec
    rng: np.random.Generator  # Deals folds inside regressions
    tuning: SelectionTuning = TUNING
    coordinates: dict[str, CoordinateRows] = field(default_factory=dict)  # By name
    specs: dict[str, CoordinateSpec] = field(default_factory=dict)  # Behind them
    candidates: list[Candidate] = field(default_factory=list)
    interrupted: bool = False  # By Ctrl-C
    # When the time for trials is over, on the monotonic clock, and what was then left
    # out
    deadline: float = math.inf
    left_out: list[str] = field(default_factory=list)
    kernels: tuple[int, int] = 0, 0  # How many were tried, and were to be
    # Coordinates of all training rows, by name, if these are more
    _final: dict[str, CoordinateRows] = field(default_factory=dict)
    # Lengthscales of the columns of x that matter, by name; None if not looked for
    relevant: dict[str, Array | None] = field(default_factory=dict)
    _idle: dict[str, bool] = field(default_factory=dict)  # Transforms that are none
    # What coordinates share: of the rows of the validation, and of all
    _processes: SharedProcesses = field(default_factory=SharedProcesses)
    _final_processes: SharedProcesses = field(init=False)

    def __post_init__(self) -> None:
        self._final_processes = SharedProcesses(similar=self._processes)

    @classmethod
    def of(
        cls, rows: TrainingRows, spec: Spec, rng: np.random.Generator
    ) -> "Validation":
        """Shuffle rows into folds; of very many rows, some."""
        check_range("X", rows.X)
        check_range(spec.response_name, rows.Y)
        limits, several = spec.limits, rows.Y.shape[1] > 1
        most = limits.validation_rows_of_several if several else limits.validation_rows
        n = min(len(rows), most)
        order = rng.permutation(len(rows))[:n]
        few = n <= TUNING.few_rows
        folds = equal_folds(n, min(n, TUNING.many_folds if few else TUNING.folds))
        some = rows[order]
        found = cls(some, rows if n < len(rows) else some, order, folds, spec, rng)
        found.deadline = end_of_trials(spec)
        return found

    @property
    def reason(self) -> str:
        """Why no more candidates were tried."""
        if self.interrupted:
            return "interrupted"
        if self.left_out:
            done, total = self.kernels
            kernels = f"{total - done} of {total} kernels"
            what = [kernels if name == _KERNELS else name for name in self.left_out]
            return f"the time budget was over; not tried: {'; '.join(what)}"
        return "all candidates were tried"

    @property
    def ended(self) -> bool:
        """Whether nothing more is to be tried."""
        return self.interrupted or time.monotonic() > self.deadline

    def ended_before(self, what: str) -> bool:
        """The same, noting what is left out."""
        if self.ended:
            self.left_out.append(what)
        return self.ended

    @property
    def weights(self) -> Array:
        """Row weights, in the order of `held_out`."""
        return self.rows.weights

    @property
    def on_some(self) -> bool:
        """Whether there are more rows than those of the validation."""
        return len(self.rows) < len(self.all_rows)

    def add_coordinates(
        self,
        specs: Sequence[CoordinateSpec],
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        """Fit coordinates, honestly for every row; leave out those without an effect.

        Coordinates that cannot be validated take no part, unless they are the only
        ones.
        """
        n, several, shared = len(self.rows), len(specs) > 1, self._processes
        in_fold = [SharedProcesses(start=shared) for _ in self.folds]
        if math.isfinite(self.deadline):  # a line costs nothing beside a process
            specs = sorted(specs, key=lambda spec: not isinstance(spec.base, _FAST))
        for done, spec in enumerate(specs):
            if progress is not None:
                progress(done, len(specs))
            fewest = self.tuning.regression_rows if spec.learned else 0
            if several and n < max(spec.fewest_rows, fewest):
                continue
            if several and (self._is_idle(spec) or self._has_a_better_twin(spec)):
                continue
            if self.coordinates and self.ended_before(spec.name):
                continue
            placed = self._fit(spec, self.rows, shared)
            # A transform alone is cheap to fit again, and a density estimate that has
            # seen a row flatters it.
            few = n <= self.tuning.refitted_rows
            # A learned summary is held out for every row as it is.
            again = few and placed.coordinates.summary is None
            if spec.learned and (again or spec.marginal):
                try:
                    placed = self._refitted(spec, placed, in_fold)
                except ValueError:
                    # Without some fold too few rows, or rows that are all alike, are
                    # left.
                    if several:
                        continue
            self.coordinates[spec.name], self.specs[spec.name] = placed, spec
        if progress is not None:
            progress(len(specs), len(specs))

    def _is_idle(self, spec: CoordinateSpec) -> bool:
        """Whether a transform turns out to be none, so that others are the same."""
        if spec.transform_x and not self._x_is_skewed:
            return True
        if not isinstance(spec.base, TransformedBase):
            return False
        kind = repr(spec.base.transform)
        if kind not in self._idle:
            how = self.spec.standardize, self.spec.response_name
            found = transformed_response(spec.base, self.rows.Y, self.weights, *how)
            powers = getattr(getattr(found[0], "inner", None), "lam", None)
            alike = powers is not None and np.all(np.asarray(powers) == 1.0)
            self._idle[kind] = bool(alike)
        return self._idle[kind]

    @cached_property
    def _x_is_skewed(self) -> bool:
        X = self.rows.X if self._far_x is None else self._far_x.forward(self.rows.X)
        return unskewed(X, self.weights) is not None

    def _has_a_better_twin(self, spec: CoordinateSpec) -> bool:
        """Whether processes have shown x as it is, or transformed, to be hopeless.

        The first pair of them that differs in nothing else tells for all.
        """
        base = spec.base.base if isinstance(spec.base, TransformedBase) else spec.base
        if not isinstance(base, GaussianProcessBase):
            return False
        for other, placed in self.coordinates.items():
            known = self.specs[other]
            if not (known.transform_x and isinstance(known.base, GaussianProcessBase)):
                continue
            for name, own in self.specs.items():
                if own.base == known.base and not own.transform_x:
                    twin = self.coordinates[name]
                    gain = _mean_without_kernel(placed) - _mean_without_kernel(twin)
                    total = float(self.weights.sum()) * gain
                    loss = -total if spec.transform_x else total
                    most = self.tuning.kernel_gain * float(self.weights.sum())
                    return loss > self.tuning.hopeless + most
        return False

    def _refitted(
        self,
        spec: CoordinateSpec,
        placed: CoordinateRows,
        in_fold: list[SharedProcesses],
    ) -> CoordinateRows:
        own = iter(in_fold)

        def fit(index: Indices) -> CoordinateRows:
            return self._fit(spec, self.rows[index], next(own))

        return refitted(placed, self.rows, fit, self.folds)

    def _fit(
        self, spec: CoordinateSpec, rows: TrainingRows, processes: SharedProcesses
    ) -> CoordinateRows:
        return fit_coordinates(
            rows,
            spec.base,
            self.rng,
            standardize=self.spec.standardize,
            transform_x=spec.transform_x,
            name=self.spec.response_name,
            processes=processes,
            far_x=self._far_x,
        )

    @cached_property
    def _far_x(self) -> MonotoneTransform | None:
        """What brings far values of x nearer, those of held-out rows as well.

        Without them a row far out would be left where regressions extrapolate, and
        would alone decide among candidates.
        """
        if not self.spec.standardize:
            return None
        return pulled_in(self.all_rows.X, self.all_rows.weights)

    def keep_time(self) -> None:
        """Fewer rows for the fits to all of them, if a time budget leaves no time.

        For as many rows as were validated these fits take a share of the time of all
        trials, and beyond that they take longer in proportion to the rows.
        """
        budget, n = self.spec.time_budget, len(self.all_rows)
        if budget is None or not self.on_some:
            return
        spent = time.monotonic() - self.spec.started
        least = max(self.tuning.final_share * spent, 1e-9)
        most = int(len(self.rows) * max(1.0, max(budget - spent, 0.0) / least))
        if most >= n:
            return
        others = np.delete(np.arange(n), self.order)
        others = self.rng.permutation(others)[: most - len(self.rows)]
        every = self.all_rows
        self.all_rows = self.rows
        if len(others):
            self.all_rows = every[np.concatenate([self.order, others])]
        self.order, self._final = np.arange(len(self.rows)), {}
        self.left_out.append(f"{n - most} of {n} rows in the fits to all")

    def final(self, name: str) -> CoordinateRows:
        """All training rows in some coordinates, for the fit to keep."""
        if not self.on_some:
            return self.coordinates[name]
        if name not in self._final:
            again = self._fit(self.specs[name], self.all_rows, self._final_processes)
            # More rows are usually better, but a regression can go astray.
            both = [again, self._extended(name)]
            self._final[name] = max(both, key=_mean_without_kernel)
        return self._final[name]

    def reweighted(self, factors: Array) -> Callable[[str], CoordinateRows]:
        """All training rows with other weights, (n,), in coordinates by name.

        These are fitted anew, once each; their regressions begin where they ended.
        """
        rows = self.all_rows
        rows = replace(rows, weights=rows.weights * factors)
        shared = SharedProcesses(start=self._processes)
        return functools.cache(lambda name: self._fit(self.specs[name], rows, shared))

    def _extended(self, name: str) -> CoordinateRows:
        """All training rows in coordinates that were fitted to some."""
        placed, rows = self.coordinates[name], self.all_rows
        Z, U, log_jacobian = placed.coordinates.rows(rows)
        log_jacobian = log_jacobian.copy()
        # Those that the coordinates were fitted to have held-out residuals; the others
        # have not helped by nature.
        Z[self.order], U[self.order] = placed.Z, placed.U
        log_jacobian[self.order] = placed.log_abs_det_jacobian
        return replace(
            placed, Z=Z, U=U, log_abs_det_jacobian=log_jacobian, weights=rows.weights
        )

    def summary_pays(self) -> bool:
        """Whether rows are enough for trees to be tried beside regressions."""
        enough = len(self.rows) >= self.tuning.summary_rows
        return enough and any(map(self.is_regression, self.coordinates))

    def add_summary(
        self, name: str = "summary", summary: LearnedSummary = LEARNED_SUMMARY
    ) -> None:
        """Coordinates on a learned summary of x.

        They have the transforms of the regression that is best without a kernel part.
        If there is none, y is taken as it is, and behind a power.
        """
        if self.coordinates and self.ended_before(name):
            return
        summary = replace(summary, kinds=summary.kinds or self.spec.kinds)
        totals = self.totals()
        alike: Sequence[CoordinateSpec] = SUMMARY_TRANSFORMS
        regressions = [
            k for k in totals if self.is_regression(k) and not self.has_summary(k)
        ]
        if regressions:
            alike = [self.specs[max(regressions, key=lambda k: totals[k])]]
        self.add_coordinates([summary_coordinates(k, name, summary) for k in alike])
        self.add_bases()

    def add_bases(self) -> None:
        """Candidates without a kernel part, in all coordinates that are new."""
        known = {candidate.coordinates for candidate in self.candidates}
        for name, placed in self.coordinates.items():
            if name in known:
                continue
            bases = RESIDUAL_BASES
            if self.has_summary(name):
                bases = (*bases, placed.base)
            self.candidates += bases_alone(name, placed, bases)

    def worth_a_kernel(self) -> list[str]:
        """Coordinates worth a kernel part: plain ones, and the best regressions.

        That is decided by what they are worth without one, beside what others are with
        one by now.
        """
        total, tuning = self.totals(), self.tuning
        plain = [name for name in (PLAIN, GAUSSIANIZED) if name in total]
        ranked = sorted((n for n in total if n not in plain), key=lambda n: -total[n])
        best = max((total[name] for name in ranked), default=0.0)
        beside = any(map(self.has_summary, self.tilted))
        gains = {True: tuning.summary_gain, False: tuning.kernel_gain * beside}
        kept = [
            name
            for name in ranked
            if total[name] + self.weights.sum() * gains[self.has_summary(name)]
            > best - tuning.hopeless
        ]
        if len(plain) > 1:
            gain = total[GAUSSIANIZED] - total[PLAIN]
            plain = plain if gain >= tuning.gaussianized_gain else [PLAIN]
        most = tuning.regressions_beside if beside else tuning.most_regressions
        left_out = [name for name in kept if not self.has_summary(name)][most:]
        return plain + [name for name in kept if name not in left_out]

    def may_catch_up(self, name: str) -> bool:
        """Whether other kernels than those tried could bring coordinates near the best.

        What they gain on scouts is little.
        """
        totals, tuning = self.totals(), self.tuning
        gain = tuning.hopeless + tuning.scouted_gain * float(self.weights.sum())
        return totals[name] + gain >= max(totals.values())

    def totals(self) -> dict[str, float]:
        """Total held-out log density of the best candidate in all coordinates."""
        totals = dict.fromkeys(self.coordinates, -np.inf)
        for candidate in self.candidates:
            total = float(candidate.held_out @ self.weights)
            name = candidate.coordinates
            totals[name] = max(totals[name], total)
        return totals

    def in_the_race(self) -> list[str]:
        """Coordinates that are not hopeless, or would not be with other masses."""
        totals, tuning = self.totals(), self.tuning
        worth = tuning.hopeless + tuning.blind_loss * float(self.weights.sum())
        return [n for n in totals if totals[n] > max(totals.values()) - worth]

    def likelihood_pays(self) -> bool:
        """Whether the plain coordinates are near enough to the best for likelihood.

        Such fits find what score matching does not see, but are many times slower.
        """
        if PLAIN not in self.coordinates:
            return False
        totals, tuning = self.totals(), self.tuning
        near = totals[PLAIN] >= max(totals.values()) - tuning.hopeless
        return bool(
            near and np.ptp(self.coordinates[PLAIN].U) <= tuning.likelihood_range
        )

    @property
    def tilted(self) -> set[str]:
        """Coordinates in which kernels were tried."""
        return {c.coordinates for c in self.candidates if c.kernel is not None}

    def summaries(self) -> list[str]:
        """Coordinates on a learned summary of x."""
        return [name for name in self.coordinates if self.has_summary(name)]

    def has_summary(self, name: str) -> bool:
        """Whether the kernel of x acts on a learned summary of it."""
        return self.coordinates[name].coordinates.summary is not None

    @cached_property
    def rounding(self) -> float:
        """Width that the responses were rounded to; zero if they were not."""
        if self.spec.rounding is not None:
            return self.spec.rounding
        Y = self.all_rows.Y
        return rounding_width(Y[:, 0]) if Y.shape[1] == 1 else 0.0

    def is_regression(self, name: str) -> bool:
        """Whether coordinates have a location and scale that depend on x."""
        return self.coordinates[name].coordinates.location_scale is not None

    def tasks(
        self,
        name: str,
        paths: Sequence[LambdaPath],
        *,
        bases: Sequence[BaseDensity | None] = (None,),
        method: str = "score",
        n_components: int | None = None,
        criterion: str = "likelihood",
    ) -> list[Task]:
        """Kernels in some coordinates with base densities, or their own if None."""
        offset = self.coordinates[name].log_abs_det_jacobian
        if not CRITERIA[criterion].comparable:  # no units that could be converted
            offset = np.zeros_like(offset)
        count = n_components or SOLVERS[method].components_for(len(self.rows))
        return [
            Task(name, problem, path, method, CRITERIA[criterion].of, offset)
            for problem in (self.problem(name, base, count) for base in bases)
            for path in paths
        ]

    def run(self, tasks: Sequence[Task], progress: Progress | None = None) -> None:
        """Try tasks; Ctrl-C ends this, and what was tried so far counts.

        So does the end of the time, after the first family.
        """
        if math.isfinite(self.deadline):
            tasks = _in_turns(tasks, self.totals())
        done, calls = 0, [(task,) for task in tasks]
        if self.ended and self.tilted:
            calls = []
        try:
            for results in shared_out(Task.candidates, calls, self.spec.n_jobs):
                self.candidates += itertools.chain.from_iterable(results)
                done += len(results)
                if progress is not None:
                    best = max(c.mean(self.weights) for c in self.candidates)
                    progress(done, len(tasks), best)
                if self.ended:
                    break
        except KeyboardInterrupt:
            if not self.candidates:
                raise
            self.interrupted = True
        self.kernels = self.kernels[0] + done, self.kernels[1] + len(tasks)
        if done < len(tasks) and _KERNELS not in self.left_out:
            self.left_out.append(_KERNELS)

    def problem(
        self, name: str, base: BaseDensity | None = None, n_components: int = 150
    ) -> HeldOutProblem:
        """Rows in some coordinates with their folds and centres, for a base density."""
        placed = self.coordinates[name]
        return held_out_problem(
            replace(placed, base=base or placed.base, weights=self.weights),
            self.folds,
            chosen_centers(len(placed), n_components),
        )


def _in_turns(tasks: Sequence[Task], totals: Mapping[str, float]) -> list[Task]:
    """Tasks in an order in which all coordinates have a turn, and another.

    The best ones so far are first: what is tried first may be all there is.
    """
    turns: dict[str, int] = {}
    order = []
    for task in tasks:
        name = task.coordinates
        turns[name] = turns.get(name, -1) + 1
        order.append((turns[name], -totals[name]))
    return [tasks[k] for k in sorted(range(len(tasks)), key=order.__getitem__)]


def is_heavy_tailed(rows: Rows, spec: Spec) -> bool:
    """Whether y is one column whose moments say nothing, to be standardised."""
    one = rows.Y.shape[1] == 1 and spec.standardize
    return one and bool(robust_scaling(rows.Y, rows.weights)[2][0])


def held_out_problem(
    rows: CoordinateRows, folds: tuple[slice, ...], centers: Indices
) -> HeldOutProblem:
    """Rows that are sorted by fold, with centres among them."""
    sample = weighted_score_sample(rows.base, rows.Z, rows.U, rows.weights)
    reach = float(np.max(np.abs(rows.base.column_range(0))))
    return HeldOutProblem(sample, folds, centers, rows.base, reach, derivatives=False)


def _mean_without_kernel(placed: CoordinateRows) -> float:
    """Mean log density of the rows without a kernel part, with the better tails."""
    share = placed.weights / placed.weights.sum()
    log_q = [base.log_density(placed.U) @ share for base in RESIDUAL_BASES]
    return float(max(log_q) + placed.log_abs_det_jacobian @ share)
