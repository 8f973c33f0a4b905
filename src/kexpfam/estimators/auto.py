"""AutoKCEF: an average of families, weighted by what they say about unseen rows."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from kexpfam._parallel import threads_of
from kexpfam._typing import Array, RandomState
from kexpfam._validation import as_generator, check_range
from kexpfam.data import (
    Rows,
    Source,
    in_row_order,
    note_columns,
    parse_memory,
    training_data,
)
from kexpfam.distributions import (
    BoundedDensity,
    ChainRuleDensity,
    MixedDensity,
    MixtureDensity,
    RecalibratedDensity,
    SupportMap,
    UnitMap,
)
from kexpfam.estimators.average import (
    Average,
    fit_average,
    fit_average_to_blocks,
    fit_censored_average,
    read,
)
from kexpfam.estimators.base import ConditionalEstimator, warn_of_a_column
from kexpfam.estimators.censored import censored_columns, censored_data
from kexpfam.estimators.counts import CountLaw, fit_count_law
from kexpfam.estimators.experts import ExpertSpec
from kexpfam.estimators.joint import (
    ByColumn,
    ChainLaw,
    fit_columns,
    response_names,
)
from kexpfam.estimators.kcef import KCEF
from kexpfam.estimators.kinds import ResponseKind
from kexpfam.estimators.laws import AverageSpec, Law
from kexpfam.estimators.mixed import AtomsAndRest, fit_atoms
from kexpfam.estimators.replicates import Replicate
from kexpfam.estimators.saved import (
    FittedAtoms,
    FittedAverage,
    FittedColumns,
    FittedCounts,
)
from kexpfam.family import IsolatedComponents, Spec
from kexpfam.persistence import save_estimator, saved_estimator
from kexpfam.selection.bootstrap import check_bootstrap, refuse_bootstrap
from kexpfam.selection.defensive import DefensiveComponent
from kexpfam.selection.spec import default_coordinates

# What `given(X)` returns: of one column, with bounds, with atoms, of several columns.
AutoDensity = (
    MixtureDensity
    | RecalibratedDensity
    | BoundedDensity
    | MixedDensity
    | ChainRuleDensity
)


@saved_estimator
class AutoKCEF(ConditionalEstimator[AutoDensity]):
    """The best density, no questions: an average of families over bases and kernels.

    Families with several base densities (with and without a regression, with and
    without transforms of skewed columns), kernels and λ are tried; above 400 rows also
    families whose kernel acts on a summary of x that trees learn
    (`kexpfam.summaries.LearnedSummary`). Weights are those with which the average gives
    the largest log density to rows that its members have not seen; a null model that
    ignores x takes part, and a heavy-tailed defensive component of a per cent or so,
    around what a regression says of x, keeps every response possible.

    Several columns of y are modelled by the chain rule, each given x and the columns
    before it, with an average of its own; `given(X)` is one density of all of them.

    Args:
        experts: What else takes part, and what of our own, in a list: estimators with
            `fit(X, y)` and `given(X)`, such as those of `kexpfam.baselines`, whose
            `given` returns densities of `kexpfam.distributions`; regressors of
            scikit-learn, and `LearnedSummary` objects, on which families are fitted as
            on our own summary; and the names "families" (on x), "summaries" (on what
            trees learn) and "mixtures" (of linear regressions). If one is named, those
            of the three that are not take no part, but for plain families where only
            mixtures are. A mapping gives experts names of your own. An estimator is
            fitted once for every fold, and once to all rows in memory, up to 100,000,
            or to a sample of 20,000. An average with an estimator or a regressor cannot
            be saved.
        likelihood: Whether families fitted by penalised likelihood are tried too,
            beside those by score matching. They see the masses of isolated components,
            and are better where recorded values repeat. None means: where isolated
            components are found, with any number of rows, and then in the place of
            families that do not see them; elsewhere up to 500 rows. False leaves them
            out, and a `BlindnessWarning` says if masses are wrong.
        bootstrap: Fits of the members to rows with random weights, for error bars of
            the density, `given(X).band()`; 0 for none. Ten take half as long as the fit
            without them from 200 rows, and one to three times as long with a learned
            summary; they make files up to eleven times as large. For one column of y,
            and rows in memory.
        lower: A bound of y that no mass is below. None for both bounds means: if y
            ends at 0, or at 0 and 1, that is noticed, and all but 0.1 % of the mass or
            less is within. −∞ (`-numpy.inf`) says there is no bound.
        upper: A bound of y that no mass is above.
        atoms: Values of y that have a probability of their own, which depends on x,
            beside a density of all others. None: values that repeat far more than a
            density allows are looked for, and a `MeasureWarning` says what was found.
            False: none, and no counts unless `counts` says so.
        counts: Whether y are whole numbers with a mass function instead of a density.
            None: if y are few whole numbers from zero on, with many rows at each, and
            `atoms` is None; a `MeasureWarning` says so. Of more than 20,000 rows it is
            fitted to so many.
        memory_budget: Bytes, or a text such as "500 MB", that a fit to rows read block
            by block may take above what the process has.
        time_budget: Seconds after which the best found so far is taken; None for no
            limit. One family is fitted in any case, and `stopped_` says what was not
            tried. Of many rows the fits to all of them are then to some. Several
            columns of y share it; fits for `bootstrap` come after it.
        standardize: Whether to centre and scale the columns of X and y first.
        ordered: Orders of categories in frames by the name of their column, such as
            `{"size": ["S", "M", "L"]}`; types that have an order need none.
        n_jobs: Threads: -1 for all cores, -2 for all but one. None for what a
            surrounding `joblib.parallel_config` says, and all cores without one; then
            candidates of a search are tried one after another.
        random_state: Seed of the folds and of the centres.
        verbose: Show a progress bar.

    Attributes:
        members_: The families of the average, with weight, base density and
            hyperparameters; prints as a table. Of several columns of y a tuple of such,
            one for each.
        best_: The best single family, a `KCEF`; of several columns a tuple of them.
        columns_: Of several columns of y the averages, one for each given x and the
            columns before it; None for one column.
        calibration_: The map of PIT values that densities are behind, a `UnitMap`; None
            if there is none, or of several columns of y.
        replicates_: The members fitted to rows with random weights, `bootstrap` times.
        support_: The map of y to the line on which families are fitted, a `SupportMap`;
            None without bounds.
        beyond_: A component beside bounds that are only likely, or None.
        beyond_weight_: Its mass, 0.2 % at most.
        atoms_: Values of y with a probability of their own, (k,); of counts all that
            have one. Empty if there are none.
        discrete_: Atoms with their probabilities and the average of the rest, or the
            mass function of counts; None without them. `members_` and `best_` are then
            those of the rest, None if there is none.
        rounding_: The width that y was rounded to, such as 0.1; zero if it was not. No
            kernel of y is narrower.
        defensive_: The defensive component; `members_.defensive` is its weight.
        isolated_components_: Masses of separated modes by the average and by counting;
            None if loaded from a file, or of several columns of y.
        n_candidates_: How many were tried.
        stopped_: Why no more were tried.
        coder_: What codes frames with texts, categories, dates or gaps, a
            `kexpfam.data.TableCoder`; None if X was numbers.
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

    # What was learned; the attributes show what it holds.
    _law: Law

    isolated_components_: IsolatedComponents | None
    columns_: "ByColumn[AutoKCEF] | None" = None
    discrete_: AtomsAndRest | CountLaw | None = None
    support_: SupportMap | None = None
    beyond_: DefensiveComponent | None = None
    beyond_weight_: float = 0.0
    members_: Any  # Members, or ByColumn[Members]
    best_: Any  # KCEF, or ByColumn[KCEF]
    calibration_: UnitMap | None
    n_candidates_: int
    stopped_: str
    replicates_: tuple[Replicate, ...]
    atoms_: Array
    rounding_: float
    n_features_in_: int

    # Coordinates that are tried.
    _coordinates = staticmethod(default_coordinates)

    def __init__(
        self,
        *,
        experts: Sequence[Any] | Mapping[str, Any] | None = None,
        likelihood: bool | None = None,
        bootstrap: int = 0,
        lower: float | None = None,
        upper: float | None = None,
        atoms: Sequence[float] | bool | None = None,
        counts: bool | None = None,
        memory_budget: int | str = "1 GiB",
        time_budget: float | None = None,
        standardize: bool = True,
        ordered: Mapping[str, Sequence[Any]] | None = None,
        n_jobs: int | None = None,
        random_state: RandomState = None,
        verbose: bool = False,
    ) -> None:
        self.experts = experts
        self.likelihood = likelihood
        self.bootstrap = bootstrap
        self.lower = lower
        self.upper = upper
        self.atoms = atoms
        self.counts = counts
        self.memory_budget = memory_budget
        self.time_budget = time_budget
        self.standardize = standardize
        self.ordered = ordered
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
        censoring: Any = None,
    ) -> Self:
        """Fit p(y|x) to rows.

        Args:
            X: Conditions, (n, p): array, pandas or polars, with columns of any kind;
                or rows that are read block by block; as in `KCEF.fit`.
            y: Responses, (n,), or the name of a column; (n, d), or several names, for
                rows in memory. Rows without y are left out.
            sample_weight: Weight of each row; a row of weight two equals two rows. Ten
                for all are ten times as many rows, of which more is believed; divide
                weights by their mean if only their ratios matter.
            client: A Dask client that passes over the rows, or None.
            censoring: Which rows are censored, as in `KCEF.fit`. Families by
                likelihood take part then, without learned summaries and experts.

        Returns:
            The estimator itself.
        """
        spec, rng = self._spec(client), as_generator(self.random_state)
        if censoring is not None:
            given = censored_columns(X, y, sample_weight, censoring)
            X, y, sample_weight, censoring = given
            found = censored_data(self, *given)
            if found is not None:
                self._refuse_censoring()
                with threads_of(self.n_jobs):
                    return self._take(fit_censored_average(*found, spec, rng))
            y = np.asarray(censoring, dtype=float)[:, 0] if y is None else y
        data = training_data(
            self,
            X,
            y,
            sample_weight,
            memory_budget=spec.family.memory_budget,
            n_jobs=self.n_jobs,
        )
        # What columns are is known by now.
        spec = replace(spec, family=replace(spec.family, kinds=self._column_kinds))
        with threads_of(self.n_jobs):
            if not isinstance(data, Source):
                # What is dealt by position does not depend on how the user sorts rows.
                return self._take(self._fit_rows(in_row_order(data), y, spec, rng))
            self._take(self._fit_blocks(data, y, spec, rng))
        note_columns(self, data)
        return self

    def _fit_rows(
        self, rows: Rows, y: Any, spec: AverageSpec, rng: np.random.Generator
    ) -> Law:
        """The law of rows in memory; y is what the user calls the responses."""
        check_range("X", rows.X)
        check_range("y", rows.Y)
        if rows.Y.shape[1] > 1:
            refuse_bootstrap(self.bootstrap, "several columns of y")
            names = response_names(y, rows.Y.shape[1])
            return ChainLaw(ByColumn(fit_columns(self, rows, names, rng), names))
        warn_of_a_column(y, rows.Y)
        kind = ResponseKind.of(rows, self.atoms, self.counts)
        if kind.counted:
            return fit_count_law(rows, kind, spec, rng, fit_average)
        if len(kind.atoms):
            return fit_atoms(rows, kind, spec, rng, fit_average)
        return fit_average(rows, spec, rng)

    def _fit_blocks(
        self, source: Source, y: Any, spec: AverageSpec, rng: np.random.Generator
    ) -> Law:
        """The law of rows that are read block by block; a sample tells what y is."""
        sampled = read(source, spec, rng)
        if isinstance(sampled, Rows):
            return self._fit_rows(sampled, y, spec, rng)
        rows = sampled.rows
        if rows.Y.shape[1] > 1:
            raise ValueError(
                f"AutoKCEF takes one column of y from rows that are read block by "
                f"block, got {rows.Y.shape[1]}; fit each given those before it, or "
                f"pass rows in memory."
            )
        kind = ResponseKind.of(rows, self.atoms, self.counts)
        law: AtomsAndRest | CountLaw
        if kind.counted:
            law = fit_count_law(rows, kind, spec, rng, fit_average)
        elif len(kind.atoms):
            law = fit_atoms(rows, kind, spec, rng, fit_average, source)
        else:
            return fit_average_to_blocks(source, sampled, spec, rng)
        return replace(law, neighbourhood=law.neighbourhood.scaled(sampled.weight))

    def _refuse_censoring(self) -> None:
        if self.experts is not None or self.likelihood is False:
            raise ValueError(
                "experts and likelihood=False are for rows that are not censored; "
                "leave them out."
            )

    def _take(self, law: Law) -> Self:
        """Be a law, and show what it holds."""
        self._law = law
        self.neighbourhood_, self.rounding_ = law.neighbourhood, law.rounding
        self.discrete_ = law if isinstance(law, AtomsAndRest | CountLaw) else None
        self.atoms_ = np.empty(0) if self.discrete_ is None else self.discrete_.values
        self.columns_ = law.columns if isinstance(law, ChainLaw) else None
        self.replicates_ = law.replicates if isinstance(law, Average) else ()
        if self.columns_ is not None:
            return self._show_columns(self.columns_)
        average = law.average
        none = average is None
        self.support_ = None if none else average.support
        self.beyond_ = None if none else average.beyond
        self.beyond_weight_ = 0.0 if none else average.beyond_weight
        self.members_ = None if none else average.members
        self.best_ = None if none else self._best(average)
        self.defensive_ = None if none else average.defensive
        self.calibration_ = None if none else average.calibration
        self.isolated_components_ = None if none else average.isolated
        self.n_candidates_ = 0 if none else average.n_candidates
        self.stopped_ = "nothing to try" if none else average.stopped
        return self

    def _show_columns(self, columns: "ByColumn[AutoKCEF]") -> Self:
        """Of several columns what each has, or what they have together."""
        names = columns.names
        self.members_ = ByColumn([own.members_ for own in columns], names)
        self.best_ = ByColumn([own.best_ for own in columns], names)
        self.n_candidates_ = sum(own.n_candidates_ for own in columns)
        self.stopped_ = "; ".join(dict.fromkeys(own.stopped_ for own in columns))
        self.isolated_components_ = None
        return self

    def save(self, path: str | Path, *, extra: Mapping[str, Any] | None = None) -> None:
        """Write the fitted model to one file; `kexpfam.load` reads it.

        Candidates keep what `members_` prints, but not the log density of each row.

        `extra`, in the terms of JSON (texts, numbers, lists, mappings), is kept in the
        file, too; the loaded model has it as `extra_`.
        """
        check_is_fitted(self)
        save_estimator(self, path, extra)

    def _spec(self, client: Any = None) -> AverageSpec:
        if self.likelihood not in (True, False, None):
            raise ValueError(
                f"likelihood must be True, False or None, got {self.likelihood!r}."
            )
        limits = replace(self._limits, most_centers=self._limits.member_centers)
        family = Spec(
            kinds=self._column_kinds,
            standardize=self.standardize,
            limits=limits,
            memory_budget=parse_memory(self.memory_budget),
            time_budget=self.time_budget,
            bootstrap=check_bootstrap(self.bootstrap),
            n_jobs=self.n_jobs,
            verbose=self.verbose,
            client=client,
        )
        return AverageSpec(
            family,
            ExpertSpec.of(self.experts),
            tuple(self._coordinates()),
            self.likelihood,
            self.lower,
            self.upper,
        )

    def _best(self, average: Average) -> KCEF:
        """The best single family, as the estimator it would be."""
        support = average.support
        model = KCEF(
            fit_method=average.best.method,
            lower=None if support is None else support.lower,
            upper=None if support is None else support.upper,
            standardize=self.standardize,
            n_jobs=self.n_jobs,
        )
        model.support_ = support
        model._restore(replace(average.best, neighbourhood=average.neighbourhood))
        if self.coder_ is not None:
            model._adopt(self.coder_)
        return model

    def _learned(self) -> Any:
        average = self._law.average
        others = [] if average is None else average.unsaveable
        # Without weight, too: they are among the parameters, which files hold.
        ExpertSpec.of(self.experts).require_saveable(others)
        return self._law.saved()

    def _relearn(self, fitted: object) -> None:
        if isinstance(fitted, FittedColumns):
            columns = [type(self)(**self.get_params()) for _ in fitted.columns]
            for own, saved in zip(columns, fitted.columns, strict=True):
                own._relearn(saved)
                own.check_saved()
            self.n_features_in_ = columns[0].n_features_in_
            self._take(ChainLaw(ByColumn(columns, fitted.names)))
            return
        if not isinstance(fitted, FittedAverage | FittedAtoms | FittedCounts):
            raise ValueError("an AutoKCEF is an average")
        self.n_features_in_ = len(fitted.neighbourhood.center)
        if isinstance(fitted, FittedAverage):
            self._take(Average.of(fitted))
            return
        rest = None if fitted.rest is None else Average.of(fitted.rest)
        kind: Any = CountLaw if isinstance(fitted, FittedCounts) else AtomsAndRest
        self._take(kind.of(fitted, rest))

    def _density(self, X: Array) -> AutoDensity:
        return self._law.density(X)

    @property
    def _response_columns(self) -> int:
        return 1 if self.columns_ is None else len(self.columns_)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_law")
