"""AutoKCEF: an average of families, weighted by what they say about unseen rows."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from kexpfam._parallel import single_threaded_blas
from kexpfam._typing import Array, Indices, RandomState
from kexpfam._validation import as_generator, check_range
from kexpfam.data import (
    ArraySource,
    Rows,
    Source,
    TrainingRows,
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
    Replicates,
    SupportMap,
    UnitMap,
)
from kexpfam.errors import AccuracyWarning, BlindnessWarning
from kexpfam.estimators.base import ConditionalEstimator, warn_of_a_column
from kexpfam.estimators.bounds import (
    blocks_on_the_line,
    bounded,
    bounds_of,
    component_beyond,
    on_the_line,
    weight_beyond,
    with_rounding,
)
from kexpfam.estimators.censored import censored_data
from kexpfam.estimators.counts import CountLaw, fit_count_law
from kexpfam.estimators.experts import (
    Competitors,
    check_weights_for,
)
from kexpfam.estimators.fitting import FamilyFit, collected
from kexpfam.estimators.joint import (
    ByColumn,
    chain_density,
    fit_columns,
    response_names,
)
from kexpfam.estimators.kcef import KCEF
from kexpfam.estimators.members import (
    FittedMembers,
    fit_average,
    mixed_density,
    restored_member,
)
from kexpfam.estimators.mixed import AtomsAndRest, ResponseKind, fit_atoms
from kexpfam.estimators.replicates import Replicate, fit_replicates
from kexpfam.estimators.saved import (
    FittedAtoms,
    FittedAverage,
    FittedColumns,
    FittedCounts,
    FittedMember,
)
from kexpfam.estimators.trials import try_experts, try_families
from kexpfam.family import (
    IsolatedComponents,
    RowsBeyond,
    SampledRows,
    Spec,
    check_masses,
    sample_rows,
)
from kexpfam.family.neighbourhood import Neighbourhood
from kexpfam.persistence import save_estimator, saved_estimator
from kexpfam.selection import Member, Members
from kexpfam.selection.bootstrap import check_bootstrap, refuse_bootstrap
from kexpfam.selection.censored import CensoredData, average_censored
from kexpfam.selection.choosing import best_of
from kexpfam.selection.defensive import DefensiveComponent
from kexpfam.selection.mixtures import FittedMixture, MixtureExpert, try_mixture
from kexpfam.selection.spec import (
    default_coordinates,
)
from kexpfam.selection.supports import ResponseBounds
from kexpfam.selection.validation import Validation

# What `given(X)` returns: of one column, with bounds, with atoms, of several columns.
AutoDensity = (
    MixtureDensity
    | RecalibratedDensity
    | BoundedDensity
    | MixedDensity
    | ChainRuleDensity
)

# What a law with atoms shares with the average of its rest.
_LEARNED = (
    "members_",
    "best_",
    "calibration_",
    "defensive_",
    "isolated_components_",
    "n_candidates_",
    "stopped_",
    "support_",
    "beyond_",
    "beyond_weight_",
)

_NO_COMPONENTS = IsolatedComponents(())


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
            of the three that are not take no part. A mapping
            gives experts names of your own. An estimator is fitted once for every fold,
            and once to all rows in memory, up to 100,000, or to a sample of 20,000. An
            average with an estimator or a regressor cannot be saved.
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
            tried. Of many rows the fit to all of them may take longer.
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
    n_features_in_: int

    replicates_: tuple[Replicate, ...]
    # Where y ends because atoms are there; and held-out log densities of rows, whose
    # numbers are those in the order of `in_row_order`.
    _ends: ResponseBounds | None = None
    _held_out: tuple[Indices, Array] | None = None

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
        if self.likelihood not in (True, False, None):
            raise ValueError(
                f"likelihood must be True, False or None, got {self.likelihood!r}."
            )
        check_bootstrap(self.bootstrap)
        rng = as_generator(self.random_state)
        budget = parse_memory(self.memory_budget)
        if censoring is not None:
            found = censored_data(self, X, y, sample_weight, censoring)
            if found is not None:
                return self._fit_censored(*found, rng)
            y = np.asarray(censoring, dtype=float)[:, 0] if y is None else y
        rows = training_data(
            self, X, y, sample_weight, memory_budget=budget, n_jobs=self.n_jobs
        )
        if isinstance(rows, Source):
            self._fit_blocks(rows, y, rng, client)
            note_columns(self, rows)
            return self
        return self._fit_known(rows, y, rng, client)

    def _fit_known(
        self, rows: Rows, y: Any, rng: np.random.Generator, client: Any
    ) -> Self:
        """Fit to rows in memory; y is what the user calls the responses."""
        # All that is dealt by position does not depend on how the user sorts them.
        rows = in_row_order(rows)
        check_range("X", rows.X)
        check_range("y", rows.Y)
        if rows.Y.shape[1] > 1:
            refuse_bootstrap(self.bootstrap, "several columns of y")
            names = response_names(y, rows.Y.shape[1])
            return self._take(ByColumn(fit_columns(self, rows, names, rng), names))
        warn_of_a_column(y, rows.Y)
        kind = ResponseKind.of(rows, self.atoms, self.counts)
        self.rounding_ = kind.rounding
        if kind.counted:
            return self._take_discrete(fit_count_law(self, rows, rng), rows)
        if len(kind.atoms):
            return self._take_discrete(fit_atoms(self, rows, kind.atoms, rng), rows)
        bounds = bounds_of(rows, self.lower, self.upper, notice=True, ends=self._ends)
        mapped, self.support_ = on_the_line(rows, bounds, self._spec())
        self._guard(bounds, rows)
        with single_threaded_blas():
            if np.count_nonzero(rows.weights) > self._limits.average_rows:
                source = ArraySource(mapped.X, mapped.Y, mapped.weights)
                return self._fit_sampled(
                    source, self._sampled(source, rng, client), rng, client
                )
            return self._fit_rows(mapped, rng, None)

    def _fit_blocks(
        self, source: Source, y: Any, rng: np.random.Generator, client: Any
    ) -> Self:
        """Fit to rows that are read block by block; a sample tells what y is."""
        state = rng.bit_generator.state
        sampled = self._sampled(source, rng, client)
        if sampled.complete:
            rng.bit_generator.state = state  # as if they had been in memory all along
            return self._fit_known(collected(source), y, rng, client)
        rows = sampled.rows
        if rows.Y.shape[1] > 1:
            raise ValueError(
                f"AutoKCEF takes one column of y from rows that are read block by "
                f"block, got {rows.Y.shape[1]}; fit each given those before it, or "
                f"pass rows in memory."
            )
        kind = ResponseKind.of(rows, self.atoms, self.counts)
        self.rounding_ = kind.rounding
        if kind.counted:
            self._take_discrete(fit_count_law(self, rows, rng), rows)
        elif len(kind.atoms):
            law = fit_atoms(self, rows, kind.atoms, rng, source, client)
            self._take_discrete(law, rows)
        if kind.counted or len(kind.atoms):
            self.neighbourhood_ = self.neighbourhood_.scaled(sampled.weight)
            return self
        bounds = bounds_of(rows, self.lower, self.upper, notice=True, ends=self._ends)
        mapped, self.support_ = blocks_on_the_line(
            source, sampled, bounds, self._spec()
        )
        self._guard(bounds, rows)
        with single_threaded_blas():
            if self.support_ is not None:
                sampled = self._sampled(mapped, rng, client)
            return self._fit_sampled(mapped, sampled, rng, client)

    def _guard(self, bounds: ResponseBounds, rows: Rows) -> None:
        """Keep every y possible beside a bound that is only likely."""
        self.beyond_ = None
        if self.support_ is not None and bounds.likely:
            y, p = rows.Y[:, 0], rows.X.shape[1]
            self.beyond_ = component_beyond(y, rows.weights, p)

    def _fit_censored(
        self, data: CensoredData, rows: Rows, rng: np.random.Generator
    ) -> Self:
        """An average of families by likelihood for censored rows."""
        refuse_bootstrap(self.bootstrap, "censored rows")
        if self.experts is not None or self.likelihood is False:
            raise ValueError(
                "experts and likelihood=False are for rows that are not censored; "
                "leave them out."
            )
        spec = replace(self._spec(), fit_method="likelihood")
        found = average_censored(data, spec, rng)
        selection = found.selection
        self.neighbourhood_ = Neighbourhood.of(rows.X, rows.weights)
        self.best_ = self._best("likelihood", FamilyFit(found.best, selection))
        members = [
            Member(float(w), c.coordinates, c, family, c.mean(selection.weights))
            for w, (c, family) in zip(found.weights, found.members, strict=True)
        ]
        self.members_ = Members(members, found.defensive_weight)
        self.defensive_, self.calibration_ = found.defensive, None
        self.n_candidates_ = len(selection.path)
        self.stopped_ = selection.reason
        self.columns_ = self.isolated_components_ = self.discrete_ = None
        self.support_ = self.beyond_ = None
        self.atoms_, self.rounding_, self.replicates_ = np.empty(0), 0.0, ()
        return self

    def _sampled(
        self, source: Source, rng: np.random.Generator, client: Any
    ) -> SampledRows:
        """A sample of rows, on which everything is chosen."""
        seed, most = int(rng.integers(2**31)), self._limits.design_rows
        return sample_rows(source, most, seed, n_jobs=self.n_jobs, client=client)

    def _fit_sampled(
        self,
        source: Source,
        sampled: SampledRows,
        rng: np.random.Generator,
        client: Any,
    ) -> Self:
        """Choose on a sample, and fit to all rows of a source."""
        refuse_bootstrap(self.bootstrap, "rows that are not all in memory")
        others = RowsBeyond(source, sampled, self.n_jobs, client)
        return self._fit_rows(sampled.rows, rng, others)

    def _fit_rows(
        self, rows: Rows, rng: np.random.Generator, others: RowsBeyond | None
    ) -> Self:
        """Validate on rows in memory, and fit the best to these and to others."""
        competing = Competitors.of(self.experts)
        experts = competing.estimators
        training = TrainingRows.of(rows, shuffled=True)
        check_weights_for(experts, training.weights)
        _warn_of_few(max(len(training), round(float(training.weights.sum()))))
        spec = with_rounding(self._spec(), training, self.support_)
        validation = Validation.of(training, spec, rng)
        isolated = try_families(
            validation,
            competing,
            self._coordinates(),
            likelihood=self.likelihood,
            verbose=self.verbose,
        )
        try_experts(validation, experts)
        if competing.mixtures:
            experts = {**experts, **try_mixture(validation)}
        seed = int(rng.integers(2**31))
        found = fit_average(
            validation,
            spec,
            seed,
            others,
            experts,
            support=self.support_,
            verbose=self.verbose,
        )
        near = Neighbourhood.of(rows.X, rows.weights)
        self.neighbourhood_ = (
            near if found.weight is None else near.scaled(found.weight)
        )
        self._take_average(found.on_top_of(self._log_slopes(validation.rows)))
        self.beyond_weight_ = weight_beyond(
            self.beyond_, found.moments, validation.weights
        )
        self.columns_ = self.discrete_ = None
        self.replicates_ = ()
        self.atoms_ = np.empty(0)
        self.isolated_components_ = _NO_COMPONENTS
        if isolated:
            self.isolated_components_ = self._masses(validation)
        self.replicates_ = fit_replicates(
            validation,
            self.members_,
            self.bootstrap,
            self.best_.family_.seed,
            n_jobs=self.n_jobs,
            verbose=self.verbose and self.bootstrap > 0,
        )
        return self

    def _take(self, columns: "ByColumn[AutoKCEF]") -> Self:
        """Be the product of averages, each of a column of y given those before it."""
        names = columns.names
        self.columns_, self.discrete_, self.replicates_ = columns, None, ()
        self.members_ = ByColumn([own.members_ for own in columns], names)
        self.best_ = ByColumn([own.best_ for own in columns], names)
        self.neighbourhood_ = columns[0].neighbourhood_
        self.n_candidates_ = sum(own.n_candidates_ for own in columns)
        self.stopped_ = "; ".join(dict.fromkeys(own.stopped_ for own in columns))
        self.isolated_components_ = None
        return self

    def _take_discrete(self, law: AtomsAndRest | CountLaw, rows: Rows) -> Self:
        """Be a law with atoms, or a mass function."""
        self._share(law)
        self.neighbourhood_ = Neighbourhood.of(rows.X, rows.weights)
        return self

    def _share(self, law: AtomsAndRest | CountLaw) -> None:
        """Take what the average of the rest has learned."""
        self.columns_, self.discrete_, self.atoms_ = None, law, law.values
        rest, nothing = law.rest, {"n_candidates_": 0, "stopped_": "nothing to try"}
        for name in _LEARNED:
            setattr(self, name, getattr(rest, name, nothing.get(name)))

    def _masses(self, validation: Validation) -> IsolatedComponents:
        """Masses of isolated components by the average and by counting.

        A learned summary has seen the rows: there it is the best family that is looked
        at, where they are held out.
        """
        rows, family = validation.all_rows, self.best_.family_
        if family.coordinates.summary is None:
            how: dict[str, Any] = {"density": self._on_line}
        else:
            how = {"placed": validation.final(best_of(validation).chosen.coordinates)}
        found = check_masses(family, rows.X, rows.Y, rows.weights, **how)
        if found.suspicious and self.likelihood is False:
            warnings.warn(
                f"Masses of isolated components are wrong: {found.finding}. Score "
                f"matching does not see them; use likelihood=None.",
                BlindnessWarning,
                stacklevel=4,
            )
        return found

    def save(self, path: str | Path, *, extra: Mapping[str, Any] | None = None) -> None:
        """Write the fitted model to one file; `kexpfam.load` reads it.

        Candidates keep what `members_` prints, but not the log density of each row.

        `extra`, in the terms of JSON (texts, numbers, lists, mappings), is kept in the
        file, too; the loaded model has it as `extra_`.
        """
        check_is_fitted(self)
        save_estimator(self, path, extra)

    def _spec(self) -> Spec:
        limits = replace(self._limits, most_centers=self._limits.member_centers)
        return Spec(
            kinds=self._column_kinds,
            standardize=self.standardize,
            limits=limits,
            time_budget=self.time_budget,
            n_jobs=self.n_jobs,
        )

    def _take_average(self, found: FittedMembers) -> None:
        """Be the average of what was fitted."""
        if self._held_out is not None:  # someone wants them
            self._held_out = found.rows, found.held_out
        self.members_, self.defensive_ = found.members, found.defensive
        self.calibration_ = found.calibration
        self.best_ = self._best(
            found.selection.chosen.method, FamilyFit(found.best, found.selection)
        )
        self.n_candidates_ = len(found.selection.path)
        self.stopped_ = found.selection.reason

    def _log_slopes(self, rows: Rows) -> Array:
        """What log densities on the line are less than those of y, (n,)."""
        if self.support_ is None:
            return np.zeros(len(rows))
        return self.support_.log_slope(self.support_.inverse(rows.Y[:, 0]))

    def _best(self, method: str, fit: FamilyFit) -> KCEF:
        """The best single family, as the estimator it would be."""
        support = self.support_
        model = KCEF(
            fit_method=method,
            lower=None if support is None else support.lower,
            upper=None if support is None else support.upper,
            standardize=self.standardize,
            n_jobs=self.n_jobs,
        )
        model.support_ = support
        model._restore(replace(fit, neighbourhood=self.neighbourhood_))
        if self.coder_ is not None:
            model._adopt(self.coder_)
        return model

    def _learned(self) -> Any:
        if self.columns_ is not None:
            parts = tuple(own._learned() for own in self.columns_)
            return FittedColumns(parts, self.columns_.names)
        if self.discrete_ is not None:
            return self.discrete_.saved(self.neighbourhood_, self.rounding_)
        # Without weight, too: they are among the parameters, which files hold.
        experts = [m for m in self.members_ if m.family is None]
        mixtures = [m for m in experts if isinstance(m.expert, MixtureExpert)]
        others = [m.coordinates for m in experts if m not in mixtures]
        Competitors.of(self.experts).require_saveable(others)
        members = [
            FittedMember(
                m.weight, m.coordinates, m.candidate.method, m.held_out, m.family
            )
            for m in self.members_
            if m.family is not None
        ]
        return FittedAverage(
            tuple(members),
            self.members_.defensive,
            self.defensive_,
            self.best_.family_,
            self.best_.fit_method_,
            self.neighbourhood_,
            self.n_candidates_,
            self.stopped_,
            self.calibration_,
            self.replicates_ or None,
            self.support_,
            self.beyond_,
            self.rounding_,
            FittedMixture.of(mixtures[0]) if mixtures else None,
            self.beyond_weight_,
        )

    def _relearn(self, fitted: object) -> None:
        if isinstance(fitted, FittedColumns):
            columns = [type(self)(**self.get_params()) for _ in fitted.columns]
            for own, average in zip(columns, fitted.columns, strict=True):
                own._relearn(average)
                own.check_saved()
            self.n_features_in_ = columns[0].n_features_in_
            self._take(ByColumn(columns, fitted.names))
            return
        if isinstance(fitted, FittedAtoms | FittedCounts):
            rest = None
            if fitted.rest is not None:
                rest = type(self)(**self.get_params())
                rest._relearn(fitted.rest)
            kind: Any = CountLaw if isinstance(fitted, FittedCounts) else AtomsAndRest
            self.neighbourhood_ = fitted.neighbourhood
            self.n_features_in_ = len(fitted.neighbourhood.center)
            self.rounding_ = fitted.rounding
            self._share(kind.of(fitted, rest))
            return
        if not isinstance(fitted, FittedAverage):
            raise ValueError("an AutoKCEF is an average")
        self.columns_ = self.discrete_ = None
        self.atoms_, self.rounding_ = np.empty(0), fitted.rounding
        members = [restored_member(member) for member in fitted.members]
        if fitted.mixture is not None:
            members.append(fitted.mixture.member())
        self.n_features_in_ = len(fitted.neighbourhood.center)
        self.neighbourhood_ = fitted.neighbourhood
        self.members_ = Members(members, fitted.defensive_weight)
        # Numbers of a wrong form in its members show when they are printed.
        repr(self.members_)
        self.support_, self.beyond_ = fitted.support, fitted.beyond
        self.beyond_weight_ = fitted.beyond_weight
        self.best_ = self._best(fitted.best_method, FamilyFit(fitted.best))
        self.defensive_ = fitted.defensive_component
        self.calibration_ = fitted.calibration
        self.replicates_ = fitted.replicates or ()
        self.n_candidates_ = fitted.n_candidates
        self.stopped_ = fitted.stopped
        self.isolated_components_ = None

    def _density(self, X: Array) -> AutoDensity:
        if self.columns_ is not None:
            return chain_density(X, self.columns_, self.columns_.names)
        if self.discrete_ is not None:
            return self.discrete_.density(X)
        line = self._on_line(X)
        p = self._in_bounds(line, X)
        if self.replicates_:
            mixture: Any = (
                line.density if isinstance(line, RecalibratedDensity) else line
            )
            parts = [bounded(c, self.support_, None, X) for c in mixture.components]
            p._replicates = Replicates(parts, mixture.weights, self._replicated, X)
        return p

    def _replicated(self, X: Array) -> list[AutoDensity]:
        """The densities of every replicate."""
        found = []
        for replicate in self.replicates_:
            line = self._on_line(X, replicate.of(self.members_))
            found.append(self._in_bounds(line, X))
        return found

    def _in_bounds(self, line: Any, X: Array) -> Any:
        """Densities of y itself."""
        return bounded(line, self.support_, self.beyond_, X, self.beyond_weight_)

    def _on_line(
        self, X: Array, members: Members | None = None
    ) -> MixtureDensity | RecalibratedDensity:
        """Densities of what families are fitted to: y, or a map of it to the line."""
        members = self.members_ if members is None else members
        return mixed_density(X, members, self.defensive_, self.calibration_)

    @property
    def _response_columns(self) -> int:
        return 1 if self.columns_ is None else len(self.columns_)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "members_")


def _warn_of_few(n: int, enough: int = 10) -> None:
    """Say what intervals rest on where rows are too few to tell."""
    if n < enough:
        warnings.warn(
            f"Intervals rest on {n} rows: too few to tell the shape of a density. Its "
            f"tails are nearly those of a t distribution with {max(n - 1, 1)} degrees "
            f"of freedom, and intervals above 80 % cover less than they say; take "
            f"{enough} rows or more.",
            AccuracyWarning,
            stacklevel=4,
        )
