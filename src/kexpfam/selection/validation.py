"""The contest: base densities, kernels and λ that compete for the same rows.

Every chart (a base density with its regression and transforms) gets a coarse grid of
kernels and λ. Each candidate is judged by the log density it gives to rows that it has
not seen. With few rows everything that depends on y is fitted again for every fold:
regressions, transforms and standardisation too. With many, leave-one-out residuals in
closed form are honest enough, and much faster.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from kexpfam._heuristics import median_distance
from kexpfam._parallel import shared_out, single_threaded_blas
from kexpfam._typing import Array, Indices
from kexpfam.base_densities import (
    BaseDensity,
    fit_processes,
)
from kexpfam.kernels import Constant, Gaussian, Kernel
from kexpfam.models.chart import (
    Charted,
    SharedProcesses,
    fit_chart,
    refitted,
)
from kexpfam.models.entries import (
    GAUSSIANIZED,
    LIKELIHOOD_GRID,
    PLAIN,
    PLAIN_GRID,
    REFITTED_ROWS,
    REGRESSION_GRID,
    ChartEntry,
    KernelGrid,
    is_marginal,
    lines_of,
)
from kexpfam.models.family import Limits, TrainingRows
from kexpfam.models.relevance import (
    CENTERS,
    RELEVANT_MULTIPLES,
    held_out_worth,
    relevant_lengthscales,
)
from kexpfam.models.solvers import (
    COMPONENTS,
    bridged_candidates,
    bridged_in_folds,
    chosen_centers,
    score_sample,
)
from kexpfam.selection import (
    BASES_ALONE,
    Candidate,
    HeldOutProblem,
    Line,
    bases_alone,
    tilted,
)

# Folds, and the number of rows up to which there are more of them.
FOLDS, MANY_FOLDS, FEW_ROWS = 5, 10, 60

# Rows from which on regressions compete. A guess: with fewer, what is left of them
# without a fold does not tell a regression from chance.
FEWEST_ROWS = 8

# Charts that are worse than the best by more than this many nats in total are not tried
# any further: regressions without a kernel part, and the plain chart by likelihood.
HOPELESS = 20.0

# Range of the responses, in deviations, up to which likelihood fits compete: with
# outliers their nodes, and with them their cost, would be many.
WIDEST = 12.0

# Most regressions that are tilted.
MOST_REGRESSIONS = 6

# Responses made normal by their marginal distribution are worth a kernel part if they
# are better by so many nats in total than the plain ones, both without one.
LEAST_GAIN = 3.0

Progress = Callable[[int, int, float], None]


@dataclass
class Contest:
    """Rows sorted by fold, charts, and the candidates found so far.

    Attributes:
        rows: Rows that the candidates are judged on, sorted by fold.
        everyone: All training rows, if these are more; None if they are the same.
        folds: Rows of each fold.
        rng: Deals folds inside regressions.
        n_centers: Centres of the low-rank fits.
        n_jobs: How many tasks are tried at the same time; None for what joblib is
            told by a surrounding `joblib.parallel_config`.
        charts: Charted rows by name.
        candidates: All candidates.
        reason: Why no more candidates were tried.
        entries: What the charts were made of, by name.
        finals: Charts of all training rows, by name, if these are more.
        final_processes: What these charts share.
        order: Where the rows that judge are among all training rows.
        relevant: Lengthscales of relevant columns of x, by chart.
    """

    rows: TrainingRows
    folds: tuple[slice, ...]
    rng: np.random.Generator
    n_centers: int = COMPONENTS["score"]
    charts: dict[str, Charted] = field(default_factory=dict)
    candidates: list[Candidate] = field(default_factory=list)
    reason: str = "all candidates were tried"
    everyone: TrainingRows | None = None
    entries: dict[str, ChartEntry] = field(default_factory=dict)
    finals: dict[str, Charted] = field(default_factory=dict)
    final_processes: SharedProcesses = field(default_factory=SharedProcesses)
    order: Indices = field(default_factory=lambda: np.arange(0))
    relevant: dict[str, Array | None] = field(default_factory=dict)
    n_jobs: int | None = None

    @classmethod
    def of(
        cls, rows: TrainingRows, rng: np.random.Generator, limits: Limits
    ) -> "Contest":
        """Shuffle rows into folds; of very many rows, some."""
        several = rows.Y.shape[1] > 1
        most = limits.judged_rows_of_several if several else limits.judged_rows
        n = min(len(rows.Y), most)
        order = rng.permutation(len(rows.Y))[:n]
        count = min(n, MANY_FOLDS if n <= FEW_ROWS else FOLDS)
        edges = np.linspace(0, n, count + 1).astype(int)
        folds = tuple(slice(int(a), int(b)) for a, b in itertools.pairwise(edges))
        numbers = rows.options.row_numbers
        options = replace(
            rows.options, row_numbers=order if numbers is None else numbers[order]
        )
        return cls(
            TrainingRows(rows.X[order], rows.Y[order], rows.weights[order], options),
            folds,
            rng,
            everyone=rows if n < len(rows.Y) else None,
            order=order,
        )

    def final(self, name: str) -> Charted:
        """All training rows in a chart, for the fit to keep."""
        if self.everyone is None:
            return self.charts[name]
        if name not in self.finals:
            entry, processes = self.entries[name], self.final_processes
            refitted = self._chart(entry, slice(None), processes, self.everyone)
            # More rows are usually better, but a regression can go astray.
            both = [refitted, self._extended(name)]
            self.finals[name] = max(both, key=_held_out_mean)
        return self.finals[name]

    def _extended(self, name: str) -> Charted:
        """All training rows in the chart that was fitted to those that judge."""
        assert self.everyone is not None
        judged, rows = self.charts[name], self.everyone
        Z = judged.chart.conditions(rows.X)
        coordinates, points = judged.chart.coordinates(Z), rows.Y[:, None]
        U = coordinates.to_kernel(points)[:, 0]
        log_abs_det_jacobian = -np.broadcast_to(
            coordinates.log_volume(points), (len(Z), 1)
        )[:, 0]
        log_abs_det_jacobian = log_abs_det_jacobian.copy()
        # Those that the chart was fitted to have held-out residuals; the others have
        # not helped by nature.
        U[self.order], log_abs_det_jacobian[self.order] = (
            judged.U,
            judged.log_abs_det_jacobian,
        )
        return replace(
            judged,
            Z=Z,
            U=U,
            log_abs_det_jacobian=log_abs_det_jacobian,
            weights=rows.weights,
        )

    @property
    def all_rows(self) -> TrainingRows:
        """All training rows, in the order of `final`."""
        return self.everyone or self.rows

    @property
    def weights(self) -> Array:
        """Row weights, in the order of `held_out`."""
        return self.rows.weights

    def add_charts(self, entries: Sequence[ChartEntry]) -> None:
        """Fit charts, honestly for every row; those without an effect are left out."""
        # Products and factorisations here are small: threads of BLAS would wait for
        # each other for longer than they work.
        with single_threaded_blas():
            self._add_charts(entries)

    def _add_charts(self, entries: Sequence[ChartEntry]) -> None:
        n, several, everyone = len(self.rows.Y), len(entries) > 1, SharedProcesses()
        in_fold = [SharedProcesses(start=everyone) for _ in self.folds]
        for entry in entries:
            learned = not isinstance(entry.base, BaseDensity)
            fewest = max(entry.fewest_rows, FEWEST_ROWS if learned else 0)
            if several and n < fewest:
                continue
            charted = self._chart(entry, slice(None), everyone)
            if several and _is_idle(entry, charted):
                continue
            # A transform alone is cheap to fit again, and a density estimate that has
            # seen a row flatters it.
            if learned and (n <= REFITTED_ROWS or is_marginal(entry)):
                try:
                    charted = self._refitted(entry, charted, in_fold)
                except ValueError:
                    # Without some fold too few rows, or rows that are all alike, are
                    # left. A chart that cannot be judged does not compete; the only
                    # one is judged by what is known of it.
                    if several:
                        continue
            self.charts[entry.name] = charted
            self.entries[entry.name] = entry

    def add_bases(self) -> None:
        """Candidates without a kernel part, in every chart."""
        for name, charted in self.charts.items():
            self.candidates += bases_alone(
                name, charted.U, charted.log_abs_det_jacobian
            )

    def promising(self) -> list[str]:
        """Charts worth a kernel part: plain ones, and the best regressions."""
        merit = self._merits()
        plain = [name for name in (PLAIN, GAUSSIANIZED) if name in merit]
        ranked = sorted((n for n in merit if n not in plain), key=lambda n: -merit[n])
        best = max((merit[name] for name in ranked), default=0.0)
        kept = [name for name in ranked if merit[name] > best - HOPELESS]
        if len(plain) > 1 and merit[GAUSSIANIZED] < merit[PLAIN] + LEAST_GAIN:
            plain = [PLAIN]
        return plain + kept[:MOST_REGRESSIONS]

    def _merits(self) -> dict[str, float]:
        """Total held-out log density of the best candidate so far in each chart."""
        merits = dict.fromkeys(self.charts, -np.inf)
        for candidate in self.candidates:
            worth = float(candidate.held_out @ self.weights)
            merits[candidate.chart] = max(merits[candidate.chart], worth)
        return merits

    def tasks(self, names: Sequence[str]) -> list["Task"]:
        """Grids of these charts, as lines that can be tried one after another."""
        found = []
        for name in names:
            regression = self.charts[name].chart.frame is not None
            grid = REGRESSION_GRID if regression else PLAIN_GRID
            kernels = self.kernels_x(name, grid)
            for base in BASES_ALONE if regression else BASES_ALONE[:1]:
                problem = self.problem(name, base)
                found += [
                    Task(name, problem, line, "score")
                    for line in lines_of(grid, kernels)
                ]
        return found

    def likelihood_tasks(self) -> list["Task"]:
        """Likelihood fits in the plain chart, if that is not far behind the others.

        They find what score matching does not see, but are many times slower.
        """
        if PLAIN not in self.charts:
            return []
        worth = [float(c.held_out @ self.weights) for c in self.candidates]
        charts = [c.chart for c in self.candidates]
        plain = max(w for w, name in zip(worth, charts, strict=True) if name == PLAIN)
        if plain < max(worth) - HOPELESS or np.ptp(self.charts[PLAIN].U) > WIDEST:
            return []
        problem = self.problem(PLAIN)
        centers = chosen_centers(len(problem.sample.Y), COMPONENTS["likelihood"])
        problem = replace(problem, centers=centers)
        kernels = self.kernels_x(PLAIN, LIKELIHOOD_GRID)[1:]  # not the constant
        return [
            Task(PLAIN, problem, line, "likelihood")
            for line in lines_of(LIKELIHOOD_GRID, kernels, relative=False)
        ]

    def run(
        self,
        tasks: Sequence["Task"],
        progress: Progress | None = None,
        *,
        objective: str = "likelihood",
    ) -> None:
        """Try tasks; Ctrl-C ends this, and what was tried so far counts."""
        calls = [
            (task, self.charts[task.chart].log_abs_det_jacobian, objective)
            for task in tasks
        ]
        done = 0
        try:
            for results in shared_out(_tried, calls, self.n_jobs):
                self.candidates += itertools.chain.from_iterable(results)
                done += len(results)
                if progress is not None:
                    best = max(c.mean(self.weights) for c in self.candidates)
                    progress(done, len(tasks), best)
        except KeyboardInterrupt:
            if not self.candidates:
                raise
            self.reason = "interrupted"

    def problem(
        self, name: str, base: BaseDensity | None = None, *, bridged: bool = False
    ) -> HeldOutProblem:
        """Rows of a chart with their folds and centres, for its base or another.

        If bridged, these are the rows of each fold, followed by the draws for them.
        """
        charted = self.charts[name]
        charted = replace(charted, base=base or charted.base, weights=self.weights)
        centers, folds = chosen_centers(len(charted.U), self.n_centers), self.folds
        if bridged:
            charted, centers, folds = bridged_in_folds(charted, centers, folds)
        reach = float(np.max(np.abs(charted.base.column_range(0))))
        sample = replace(score_sample(charted), weights=charted.weights)
        return HeldOutProblem(
            sample, folds, centers, charted.base, reach, derivatives=False
        )

    def _chart(
        self,
        entry: ChartEntry,
        index: slice | Indices,
        processes: SharedProcesses,
        rows: TrainingRows | None = None,
    ) -> Charted:
        rows = rows or self.rows
        numbers = rows.options.row_numbers
        options = replace(
            rows.options,
            base=entry.base,
            warp_x=entry.warp_x,
            row_numbers=None if numbers is None else numbers[index],
        )
        some = rows.X[index], rows.Y[index], rows.weights[index]
        return fit_chart(*some, options, self.rng, processes)

    def _refitted(
        self, entry: ChartEntry, charted: Charted, in_fold: list[SharedProcesses]
    ) -> Charted:
        shared = iter(in_fold)
        everyone = np.arange(len(self.rows.Y))
        folds = [everyone[fold] for fold in self.folds]
        return refitted(
            charted,
            self.rows.X,
            self.rows.Y,
            lambda index: self._chart(entry, index, next(shared)),
            folds,
        )

    def _metric(self, plain: Charted) -> Array:
        """Lengthscales of the columns of x, from a Gaussian process of some chart."""
        for charted in self.charts.values():
            if charted.lengthscales is not None:
                return charted.lengthscales
        fits = fit_processes(plain.Z, plain.U, plain.weights)
        lengths: Array = np.min([fit.process.lengthscales for fit in fits], axis=0)
        return lengths

    def kernels_x(self, name: str, grid: KernelGrid) -> list[Kernel]:
        """Kernels of x to try: none, isotropic, by a process, by columns that help."""
        charted = self.charts[name]
        Z, p = charted.Z, charted.Z.shape[1]
        metrics = []
        if charted.chart.frame is None or charted.lengthscales is None:
            metrics.append(np.ones(p))
        if charted.lengthscales is not None:
            metrics.append(charted.lengthscales)
        elif charted.chart.frame is None and p > 1 and len(Z) >= FEWEST_ROWS:
            metrics.append(self._metric(charted))
        kernels: list[Kernel] = [Constant()]
        if not p:
            return kernels
        for metric in metrics:
            unit = median_distance(Z / metric, charted.weights) * metric
            kernels += [
                Gaussian(tuple((multiple * unit).tolist()))
                for multiple in grid.multiples_x
            ]
        lengths = self._relevant_lengthscales(name)
        if lengths is not None:
            kernels += [
                Gaussian(tuple((multiple * lengths).tolist()))
                for multiple in RELEVANT_MULTIPLES
            ]
        return kernels

    def _relevant_lengthscales(self, name: str) -> Array | None:
        """Lengthscales of the columns of x that matter; None if not looked for.

        With few rows the best of many choices is mostly chance. Of the regressions the
        best one so far is worth it; charts without one share what the best of them
        finds.
        """
        charted = self.charts[name]
        n, p = charted.Z.shape
        if n <= REFITTED_ROWS or not p or charted.U.shape[1] > 1:
            return None
        merits = self._merits()
        regression = charted.chart.frame is not None
        alike = [
            other
            for other, its in self.charts.items()
            if (its.chart.frame is not None) == regression
        ]
        best = max(alike, key=lambda other: merits[other])
        if regression and name != best:
            return None
        if best not in self.relevant:
            self.relevant[best] = self._search_lengthscales(best)
        return self.relevant[best]

    def _search_lengthscales(self, name: str) -> Array | None:
        charted = self.charts[name]
        units = np.array(
            [median_distance(Z[:, None], charted.weights) for Z in charted.Z.T]
        )
        problem = self.problem(name, BASES_ALONE[0])
        problem = replace(problem, centers=chosen_centers(len(charted.U), CENTERS))
        worth = held_out_worth(
            problem, charted.log_abs_det_jacobian, self.weights, units
        )
        return relevant_lengthscales(worth, units)


@dataclass(frozen=True)
class Task:
    """One line of a grid in one chart."""

    chart: str
    problem: HeldOutProblem
    line: Line
    method: str


def _tried(task: Task, log_abs_det_jacobian: Array, objective: str) -> list[Candidate]:
    """Candidates of a task, from any thread or process."""
    if task.method == "bridged":
        found = bridged_candidates(
            task.chart, log_abs_det_jacobian, task.problem, task.line
        )
    else:
        found = tilted(
            task.chart,
            task.problem,
            log_abs_det_jacobian,
            [task.line],
            method=task.method,
            objective=objective,
        )
    return list(found)


def _held_out_mean(charted: Charted) -> float:
    """Mean log density of the rows without a kernel part, with the better tails."""
    share = charted.weights / charted.weights.sum()
    log_q = [base.log_density(charted.U) @ share for base in BASES_ALONE]
    return float(max(log_q) + charted.log_abs_det_jacobian @ share)


def _is_idle(entry: ChartEntry, charted: Charted) -> bool:
    """Whether a transform turned out to be none, so that another chart is the same."""
    if entry.warp_x and charted.chart.x_transform is None:
        return True
    transform = charted.chart.transform
    powers = getattr(getattr(transform, "inner", None), "lam", None)
    return powers is not None and bool(np.all(np.asarray(powers) == 1.0))
