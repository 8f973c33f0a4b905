"""AutoKCEF: an average of families, weighted by what they say about unseen rows."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from kexpfam._progress import ProgressBar
from kexpfam._typing import Array, RandomState
from kexpfam._validation import as_generator, mean_and_std
from kexpfam.base_densities import LocationScaleDensity, StudentBase
from kexpfam.data import ArraySource, Rows, Source, parse_memory, training_data
from kexpfam.distributions import (
    ClosedFormDensity,
    Coordinates,
    MixtureDensity,
    OneColumnDensity,
    UnivariateDensity,
)
from kexpfam.kernels import Constant, Gaussian, separable
from kexpfam.models.chart import Charted
from kexpfam.models.choice import Member, Members
from kexpfam.models.conditional import KCEF
from kexpfam.models.contest import Contest
from kexpfam.models.entries import PLAIN, default_entries
from kexpfam.models.estimator import (
    ConditionalEstimator,
    warn_of_a_column,
)
from kexpfam.models.family import FittedFamily, Options, solve, training_rows
from kexpfam.models.fitting import FamilyFit, collected
from kexpfam.models.learned import FittedAverage, FittedMember
from kexpfam.models.many_rows import (
    Start,
    begin,
    sample_rows,
    with_all_rows,
)
from kexpfam.models.neighbourhood import Neighbourhood
from kexpfam.models.running import LambdaRule, Running
from kexpfam.models.selected import best_of
from kexpfam.models.solvers import COMPONENTS, chosen_centers
from kexpfam.persistence import save_estimator, saved_estimator
from kexpfam.score_matching import KernelExpansion, TiltedDensity
from kexpfam.selection import (
    Candidate,
    prior_weights,
    representatives,
    tempered_weights,
    without_negligible,
)

# Weight of the guard, a wide t distribution of y that ignores x: no response is
# impossible. More than two per cent costs likelihood everywhere.
GUARD_WEIGHT = 0.01
GUARD = StudentBase(scale=0.85, df=5.0)

# In each chart so many families carry the weight of all, which changes little: their
# neighbours on the grid are much alike. Members that together hold less than the second
# number are left out of the final density.
PER_CHART = 2
DROPPED_WEIGHT = 0.005


# Adds rows to fits beside those that the families compete on.
Others = Callable[..., list[Running]]


@saved_estimator
class AutoKCEF(ConditionalEstimator[MixtureDensity]):
    """The best density, no questions: an average of families over bases and kernels.

    Families with several base densities (with and without a regression, with and
    without transforms of skewed columns), kernels and λ compete. Each is weighed by the
    log density it gives to rows that it has not seen; a null model that ignores x takes
    part, and a heavy-tailed guard of one per cent keeps every response possible.

    For one column of y.

    Args:
        likelihood: Whether families fitted by penalised likelihood compete too, beside
            those by score matching. They are slower, and better where y has islands or
            recorded values that repeat. None means: up to 500 rows.
        memory_budget: Bytes, or a text such as "500 MB", that a fit to rows read block
            by block may take above what the process has.
        standardize: Whether to centre and scale the columns of X and y first.
        n_jobs: Threads; None for all cores. Candidates of a search are tried one after
            another unless it is given, or `joblib.parallel_config` is around.
        random_state: Seed of the folds and of the centres.
        verbose: Show a progress bar.

    Attributes:
        members_: The families of the average, with weight, base density and
            hyperparameters; prints as a table.
        best_: The best single family, a `KCEF`.
        n_candidates_: How many competed.
        stopped_: Why no more were tried.
        n_features_in_: Columns of X.
        feature_names_in_: Their names, if X had any.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> x = rng.uniform(-1, 1, size=(60, 1))
        >>> y = np.sin(3 * x[:, 0]) + 0.2 * rng.normal(size=60)
        >>> model = AutoKCEF(random_state=0).fit(x, y)
        >>> model.predict_quantiles([[0.5]], [0.05, 0.5, 0.95]).round(1)
        array([[0.7, 1. , 1.4]])
    """

    # What competes.
    _entries = staticmethod(default_entries)

    def __init__(
        self,
        *,
        likelihood: bool | None = None,
        memory_budget: int | str = "1 GiB",
        standardize: bool = True,
        n_jobs: int | None = None,
        random_state: RandomState = None,
        verbose: bool = False,
    ) -> None:
        self.likelihood = likelihood
        self.memory_budget = memory_budget
        self.standardize = standardize
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        client: Any = None,
    ) -> Self:
        """Fit p(y|x) to rows.

        Args:
            X: Conditions, (n, p): array, pandas or polars; or rows that are read block
                by block, as in `KCEF.fit`.
            y: Responses, (n,), or the name of a column.
            sample_weight: Weight of each row; a row of weight two equals two rows.
            client: A Dask client that passes over the rows, or None.

        Returns:
            The estimator itself.
        """
        if self.likelihood not in (True, False, None):
            raise ValueError(
                f"likelihood must be True, False or None, got {self.likelihood!r}."
            )
        rng = as_generator(self.random_state)
        budget = parse_memory(self.memory_budget)
        rows = training_data(
            self, X, y, sample_weight, memory_budget=budget, n_jobs=self.n_jobs
        )
        if isinstance(rows, Source):
            return self._fit_source(rows, rng, client)
        warn_of_a_column(y, rows.Y)
        if np.count_nonzero(rows.weights) > self._limits.design_rows:
            source = ArraySource(rows.X, rows.Y, rows.weights)
            return self._fit_source(source, rng, client)
        return self._fit_rows(rows, rng, None)

    def _fit_source(
        self, source: Source, rng: np.random.Generator, client: Any
    ) -> Self:
        seed = int(rng.integers(2**31))
        sampled = sample_rows(
            source,
            self._limits.design_rows,
            seed,
            n_jobs=self.n_jobs,
            client=client,
        )
        if sampled.complete:
            return self._fit_rows(collected(source), rng, None)
        others = partial(with_all_rows, source=source, sampled=sampled, client=client)
        return self._fit_rows(sampled.block, rng, others)

    def _fit_rows(
        self, rows: Rows, rng: np.random.Generator, others: Others | None
    ) -> Self:
        """Compete on rows in memory, and fit the best to these and to others."""
        if rows.Y.shape[1] > 1:
            raise ValueError(
                f"AutoKCEF is for one column of y, got {rows.Y.shape[1]}; use KCEF for "
                f"several columns at once."
            )
        training = training_rows(rows.X, rows.Y, rows.weights, self._options())
        self.neighbourhood_ = Neighbourhood.of(rows.X, rows.weights)
        contest = Contest.of(training, rng, self._limits)
        contest.n_jobs = self.n_jobs
        self._compete(contest)
        self._average(contest, int(rng.integers(2**31)), others)
        return self

    def save(self, path: str | Path, *, extra: Mapping[str, Any] | None = None) -> None:
        """Write the fitted model to one file; `kexpfam.load` reads it.

        Candidates keep what `members_` prints, but not the log density of each row.

        `extra`, in the terms of JSON (texts, numbers, lists, mappings), is kept in the
        file, too; the loaded model has it as `extra_`.
        """
        check_is_fitted(self)
        save_estimator(self, path, extra)

    def _options(self) -> Options:
        none = (None,) * 5  # kernels, base density and λ compete
        limits = replace(self._limits, most_centers=self._limits.member_centers)
        return Options(*none, self.standardize, self.n_jobs, limits=limits)

    def _compete(self, contest: Contest) -> None:
        contest.add_charts(self._entries())
        contest.add_bases()
        few = len(contest.rows.Y) <= LIKELIHOOD_ROWS
        wanted = few if self.likelihood is None else self.likelihood
        with ProgressBar("AutoKCEF, mean log p", shown=self.verbose) as bar:
            contest.run(contest.tasks(contest.promising()), bar)
            if wanted and contest.reason != "interrupted":
                contest.run(contest.likelihood_tasks(), bar)

    def _average(self, contest: Contest, seed: int, others: Others | None) -> None:
        candidates = contest.candidates
        center, scale = mean_and_std("y", contest.rows.Y, contest.weights)
        guard = GUARD.log_density((contest.rows.Y - center) / scale) - np.log(scale)
        # What is judged is what will be used: every member beside the guard.
        held_out = np.logaddexp(
            np.log1p(-GUARD_WEIGHT) + np.stack([c.held_out for c in candidates]),
            np.log(GUARD_WEIGHT) + guard,
        )
        prior = prior_weights(candidates, PLAIN)
        weights = tempered_weights(held_out, prior, contest.weights)
        weights = representatives(candidates, weights, PER_CHART)
        weights = without_negligible(weights, DROPPED_WEIGHT)
        kept = np.flatnonzero(weights)
        chosen = [candidates[k] for k in kept]
        selection = best_of(contest)
        fits = self._families(contest, [*chosen, selection.chosen], seed, others)
        members = [
            Member(
                float(weights[k] * (1.0 - GUARD_WEIGHT)),
                candidates[k].chart,
                candidates[k],
                family,
                candidates[k].mean(contest.weights),
            )
            for k, family in zip(kept, fits, strict=False)
        ]
        best = FamilyFit(fits[-1], selection)
        self.best_ = self._best(selection.chosen.method, best)
        self.members_ = Members(members, GUARD_WEIGHT)
        self.guard_ = (float(center[0]), float(scale[0]))
        self.n_candidates_ = len(candidates)
        self.stopped_ = contest.reason

    def _families(
        self,
        contest: Contest,
        chosen: list[Candidate],
        seed: int,
        others: Others | None,
    ) -> list[FittedFamily]:
        """Candidates fitted to all rows."""
        if others is None and len(contest.all_rows.Y) < self._limits.counted_rows:
            return [
                fit_candidate(contest.final(c.chart), c, seed, self.n_jobs)
                for c in chosen
            ]
        # With more rows λ is judged again, and so is the number of centres.
        options = self._options()
        tilted = [k for k, c in enumerate(chosen) if c.method == "score"]
        fits = [begin(_start(contest, chosen[k], seed), options) for k in tilted]
        if others is not None:
            fits = [fit.narrowed() for fit in fits]
            with ProgressBar("AutoKCEF, parts of the data", shown=self.verbose) as bar:
                fits = others(fits, n_jobs=self.n_jobs, progress=bar)
        if others is not None and fits:
            self.neighbourhood_ = self.neighbourhood_.scaled(fits[0].weight)
        solved = dict(zip(tilted, fits, strict=True))
        return [
            solved[k].solved(self.n_jobs)[0]
            if k in solved
            else fit_candidate(contest.final(c.chart), c, seed, self.n_jobs)
            for k, c in enumerate(chosen)
        ]

    def _best(self, method: str, fit: FamilyFit) -> KCEF:
        """The best single family, as the estimator it would be."""
        model = KCEF(
            fit_method=method, standardize=self.standardize, n_jobs=self.n_jobs
        )
        model._restore(replace(fit, neighbourhood=self.neighbourhood_))
        return model

    def _learned(self) -> FittedAverage:
        members = tuple(
            FittedMember(m.weight, m.chart, m.candidate.method, m.held_out, m.family)
            for m in self.members_
        )
        return FittedAverage(
            members,
            self.members_.guard,
            self.guard_,
            self.best_.family_,
            self.best_.fit_method,
            self.neighbourhood_,
            self.n_candidates_,
            self.stopped_,
        )

    def _relearn(self, fitted: object) -> None:
        if not isinstance(fitted, FittedAverage):
            raise ValueError("an AutoKCEF is an average")
        members = [_restored(member) for member in fitted.members]
        self.n_features_in_ = len(fitted.neighbourhood.center)
        self.neighbourhood_ = fitted.neighbourhood
        self.members_ = Members(members, fitted.guard_weight)
        # Numbers of a wrong form in its members show when they are printed.
        repr(self.members_)
        self.best_ = self._best(fitted.best_method, FamilyFit(fitted.best))
        self.guard_ = fitted.guard
        self.n_candidates_ = fitted.n_candidates
        self.stopped_ = fitted.stopped

    def _density(self, X: Array) -> MixtureDensity:
        # Members share charts, whose regressions are the slow part of them.
        charts = {
            id(member.family.chart): member.family.chart for member in self.members_
        }
        placed = {
            key: (Z, chart.coordinates(Z))
            for key, chart in charts.items()
            for Z in [chart.conditions(X)]
        }
        parts = [
            member_density(member.family, *placed[id(member.family.chart)])
            for member in self.members_
        ]
        weights = [member.weight for member in self.members_]
        center, scale = self.guard_
        guard = ClosedFormDensity(
            GUARD, np.full(len(X), center), np.full(len(X), scale)
        )
        return MixtureDensity([*parts, guard], [*weights, self.members_.guard])

    @property
    def _response_columns(self) -> int:
        return 1

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "members_")


def _start(contest: Contest, candidate: Candidate, seed: int) -> Start:
    assert candidate.kernel is not None
    charted = replace(contest.final(candidate.chart), base=candidate.base)
    rule = LambdaRule("likelihood", candidate.lam)
    return Start(charted, contest.all_rows, candidate.kernel, rule, seed)


def member_density(
    family: FittedFamily, Z: Array, coordinates: Coordinates
) -> OneColumnDensity:
    """Densities of a family at conditions and coordinates of its chart."""
    base, T = family.base, family.T
    alone = coordinates.transform is None and not any(
        np.any(coefficients) for _, _, coefficients in T.derivatives
    )
    if alone and isinstance(base, LocationScaleDensity):
        # There is no T, and nothing to integrate.
        location, scale = coordinates.location[:, 0], coordinates.scale[:, 0]
        return ClosedFormDensity(base, location, scale)
    tilted = TiltedDensity(base, T, Z)
    return UnivariateDensity.normalize(tilted, coordinates, T.kernel.resolution)


def fit_candidate(
    charted: Charted,
    candidate: Candidate,
    seed: int,
    n_jobs: int | None,
) -> FittedFamily:
    """Fit a candidate to all rows of its chart."""
    charted = replace(charted, base=candidate.base)
    if candidate.kernel is not None:
        return solve(
            charted,
            candidate.kernel,
            candidate.lam,
            seed=seed,
            centers=chosen_centers(len(charted.U), COMPONENTS[candidate.method]),
            n_jobs=n_jobs,
            method=candidate.method,
        )
    kernel = separable(Constant(), Gaussian(1.0))
    T = KernelExpansion(
        kernel, charted.Z[:1], charted.U[:1], zeroth=np.zeros(1), n_jobs=n_jobs
    )
    return FittedFamily(
        charted.chart, candidate.base, T, candidate.lam, float("nan"), seed
    )


def _restored(member: FittedMember) -> Member:
    """A member from a file, which has no log densities of rows."""
    family = member.family
    kernel = None if member.method == "none" else family.T.kernel
    candidate = Candidate(
        member.chart, family.base, kernel, family.lam, member.method, np.empty(0)
    )
    return Member(member.weight, member.chart, candidate, family, member.held_out)


# Rows up to which the likelihood fits compete unless told otherwise.
LIKELIHOOD_ROWS = 500
