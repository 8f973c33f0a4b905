"""KCEF: the kernel conditional exponential family as a scikit-learn estimator."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import clone
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from kexpfam._parallel import threads_of
from kexpfam._typing import Array, ArrayLike, RandomState
from kexpfam._validation import as_generator, check_count, check_flag
from kexpfam.base_densities import Base, BaseDensity
from kexpfam.data import (
    Rows,
    Source,
    coded_rows,
    note_columns,
    parse_memory,
    training_data,
)
from kexpfam.distributions import (
    BoundedDensity,
    MultivariateDensity,
    Replicates,
    SupportMap,
    UnivariateDensity,
)
from kexpfam.errors import CannotSaveError
from kexpfam.estimators.base import ConditionalEstimator
from kexpfam.estimators.bounds import (
    blocks_on_the_line,
    bounded,
    bounds_of,
    in_units_of_y,
    on_the_line,
    with_rounding,
)
from kexpfam.estimators.censored import (
    censored_columns,
    censored_data,
    censored_support,
    fit_censored,
)
from kexpfam.estimators.fitting import FamilyFit, fit_rows, fit_source
from kexpfam.estimators.saved import FittedModel, opened
from kexpfam.estimators.streams import KeptRows, Stream, SummedRows, check_forgetting
from kexpfam.family import (
    SOLVERS,
    Components,
    FittedFamily,
    IsolatedComponents,
    Spec,
    sample_rows,
    solve_statistics,
)
from kexpfam.family.neighbourhood import Neighbourhood
from kexpfam.kernels import JointKernel, Kernel
from kexpfam.persistence import save_estimator, saved_estimator
from kexpfam.score_matching import IterativeFit
from kexpfam.selection import SearchMethod, SearchResult, Selection, resolve_search
from kexpfam.selection.bootstrap import check_bootstrap
from kexpfam.selection.supports import given_bounds, mapped_rows, require_within
from kexpfam.summaries import LearnedSummary

# What `given(X)` returns; the last with bounds of y.
KCEFDensity = UnivariateDensity | MultivariateDensity | BoundedDensity

_NOTHING_LEFT = (
    "needs the rows or the sums of a fit, which a model does not have that was saved "
    "without sums=True, is part of an average, or was fitted to more than 20,000 rows "
    "iteratively, by likelihood (also where isolated components were found) or by "
    "bridging; fit a new one."
)


@saved_estimator
class KCEF(ConditionalEstimator[KCEFDensity]):
    """The kernel conditional exponential family, p(y|x) = q0(y|x) exp T(x, y) / Z(x).

    T is a function in a reproducing kernel Hilbert space, found by score matching:
    one linear system, no iterations. Densities are normalised, by quadrature for one
    or two columns of y and by importance sampling for more, with a stated error.

    Score matching hardly sees the masses of modes that are far apart. After a fit they
    are looked for; where one column of y has such modes the fit is finished by
    likelihood, which sees them, unless `fit_method` says otherwise. Where that is not
    done a `BlindnessWarning` says if masses are wrong; see docs/blindness.md.

    What is not given is chosen by held-out likelihood: base density, lengthscales, λ.
    Lengthscales, λ and base parameters are in standardised units when
    `standardize=True`; densities, samples and quantiles are in the user's units.

    Args:
        kernel_y: Kernel of y; None for a Gaussian with a lengthscale to be chosen.
        kernel_x: Kernel of x; None for a Gaussian, with a lengthscale for each column,
            or a constant, whatever predicts best.
        kernel: A joint kernel of (x, y) instead of the two.
        base: Base density q0: an object, or one of the names "gaussian" (the paper's
            N(0, 2²)), "normal", "gaussian_process", "heteroscedastic", "linear",
            "marginal", "student", "yeo_johnson", "gaussianize", "arcsinh"; None to
            choose among several, if kernels and λ are open too, and the paper's if not.
        features: What the kernel of x acts on instead of x: a
            `kexpfam.summaries.LearnedSummary`, whose location and scale are those of
            the base density; `base` is then that of standardised residuals. None for
            x as it is.
        regularization: λ; None to choose it.
        lower: A bound of y, which no mass is below: families are fitted to a map of
            [lower, upper] to the line, so lengthscales and `base` are those of what is
            there. For one column of y. None for none.
        upper: A bound of y that no mass is above.
        bootstrap: Fits to rows with random weights, with kernels and λ as they were
            chosen, for error bars of the density, `given(X).band()`; 0 for none. For
            one column of y, and rows in memory that are fitted to all at once. Bias is
            not in them, so that they hold the truth less often than their level says;
            those of `AutoKCEF` know what its members disagree on, too.
        fit_method: How T is fitted. None: by score matching, and where one column of y
            has isolated components, finished by likelihood, with kernels and λ chosen
            for that as far as they are open; if all are given, nothing is finished.
            "score": score matching, the paper's estimator. "likelihood": penalised
            likelihood, which sees the masses of separated modes, by a few steps of
            Newton's method from score matching on. "bridged": score matching of the
            rows mixed with draws from the base density, which is then taken away
            again. The last two are for one column of y, and always low-rank.
        select: How to choose what is None: by held-out "likelihood", by the paper's
            held-out "score", or None for untuned rules that look at distances and
            the number of rows only: for a likelihood fit ℓ_y is 0.7 median distances,
            and λ = 0.1/n, which keeps the proportion of penalty and likelihood.
        search: Where to look: "grid" (coarse, hard to overfit), "gradient" (descent
            from there, over one lengthscale per column), "paper" (the grid of the
            paper), or a search object of `kexpfam.selection`.
        n_components: Centres of a low-rank fit. None means: an exact fit where nothing
            is chosen and rows times columns of y are at most 5000; else 150 below 1000
            rows, and from there on as many as pay, up to 1024, by what is held out. For
            likelihood fits 80 below 1000 rows, and 150 from there on.
        centers: How centres are chosen among the rows where there are 1000 rows or
            more, or where their number is given: "random_pivoted" (what the others do
            not explain, at random), "pivoted", "leverage", "kmeans" or "uniform".
        derivative_features: Whether the basis of a low-rank fit also holds derivatives
            of the kernel: better with few centres, and twice as large.
        solver: How the linear system is solved. "exact": at all rows, for kernels and
            λ that are given. "low-rank": at centres, by sums over the rows and one
            Cholesky factorisation. "iterative": at thousands of centres, by conjugate
            gradients, one pass over the rows for each iteration. None for "exact" or
            "low-rank", see `n_components`.
        memory_budget: Bytes, or a text such as "500 MB", that a fit to rows read block
            by block may take above what the process has.
        time_budget: Seconds after which the best found so far is taken; None for no
            limit. `selection_` says what was not tried.
        standardize: Whether to centre and scale the columns of X and y first.
        ordered: Orders of categories in frames by the name of their column, such as
            `{"size": ["S", "M", "L"]}`; types that have an order need none.
        n_jobs: Threads: -1 for all cores, -2 for all but one. None for what a
            surrounding `joblib.parallel_config` says, and all cores without one; then
            candidates of a search are tried one after another.
        random_state: Seed of folds, cross-fitting and importance sampling.
        verbose: Show a progress bar while searching.

    Attributes:
        kernel_: The joint kernel used.
        base_: The base density used, in the coordinates of the kernel.
        regularization_: The λ used.
        support_: The map of y to the line, a `SupportMap`; None without bounds.
        solver_: How the fit was computed, "exact", "low-rank" or "iterative".
        selection_: What was tried, what was chosen, and why the search stopped; None
            if there was nothing to choose.
        components_: Numbers of centres that were tried, and whether more would help;
            None if that was settled.
        iterative_: How conjugate gradients went; None if they were not used.
        n_rows_: Sum of the weights of all rows, less what was forgotten.
        fit_method_: How T was fitted: "likelihood" if the fit was finished by it.
        replicates_: The family fitted to rows with random weights, `bootstrap` times;
            none where `partial_fit` or `merge` have added rows to sums.
        isolated_components_: Masses of separated modes, or clusters of several columns
            of y, by the fit and by counting; None if loaded from a file.
        coder_: What codes frames with texts, categories, dates or gaps, a
            `kexpfam.data.TableCoder`; None if X was numbers.
        n_features_in_: Columns of X.
        feature_names_in_: Their names, if X had any.

    References:
        Arbel and Gretton, Kernel Conditional Exponential Family, AISTATS 2018.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> x = rng.uniform(-1, 1, size=(100, 1))
        >>> y = np.sin(3 * x[:, 0]) + 0.2 * rng.normal(size=100)
        >>> model = KCEF(random_state=0).fit(x, y)
        >>> model.predict_quantiles([[0.5]], [0.05, 0.5, 0.95]).round(1)
        array([[0.5, 0.9, 1.2]])
    """

    # What was solved for; None as long as only rows were seen.
    _fitted: FamilyFit | None = None
    # What partial_fit goes on with; None if there is nothing.
    stream_: Stream | None = None
    support_: SupportMap | None = None

    def __init__(
        self,
        *,
        kernel_y: Kernel | None = None,
        kernel_x: Kernel | None = None,
        kernel: JointKernel | None = None,
        base: Base | str | None = None,
        features: LearnedSummary | None = None,
        regularization: float | None = None,
        lower: float | None = None,
        upper: float | None = None,
        bootstrap: int = 0,
        fit_method: str | None = None,
        select: str | None = "likelihood",
        search: str | SearchMethod = "grid",
        n_components: int | None = None,
        centers: str = "random_pivoted",
        derivative_features: bool = False,
        solver: str | None = None,
        memory_budget: int | str = "1 GiB",
        time_budget: float | None = None,
        standardize: bool = True,
        ordered: Mapping[str, Sequence[Any]] | None = None,
        n_jobs: int | None = None,
        random_state: RandomState = None,
        verbose: bool = False,
    ) -> None:
        self.kernel_y = kernel_y
        self.kernel_x = kernel_x
        self.kernel = kernel
        self.base = base
        self.features = features
        self.regularization = regularization
        self.lower = lower
        self.upper = upper
        self.bootstrap = bootstrap
        self.fit_method = fit_method
        self.select = select
        self.search = search
        self.n_components = n_components
        self.centers = centers
        self.derivative_features = derivative_features
        self.solver = solver
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
            X: Conditions, (n, p): array, pandas or polars, whose columns may be
                numbers, texts, categories, dates, and have gaps
                (`kexpfam.data.TableCoder`). Or rows of numbers that are read block by
                block: a `numpy.memmap`, a path of Parquet files, a pyarrow dataset,
                a lazy Polars frame, a Dask array or data frame, or a source of
                `kexpfam.data`.
            y: Responses, (n,) or (n, d); of frames and Parquet files also the name of
                their column, or several names. Rows without y are left out.
            sample_weight: Weight of each row; a row of weight two equals two rows, so
                the sum of weights counts as the number of rows.
            client: A Dask client that passes over the rows; None for the threads of
                this process, or the scheduler that Dask collections use by default.
            censoring: Which rows of one column of y are censored: for each "right",
                "left" or "none", or 1, -1 or 0, or True where y is known to be above
                what was recorded; or the name of a column of X that says so. For
                intervals both ends of each row, (n, 2), equal where y was observed, and
                y None. Such fits are by likelihood.

        Returns:
            The estimator itself.
        """
        spec = replace(self._spec(), client=client)
        rng = as_generator(self.random_state)
        if censoring is not None:
            given = censored_columns(X, y, sample_weight, censoring)
            X, y, sample_weight, censoring = given
            found = censored_data(self, *given)
            if found is not None:
                ends = self.lower, self.upper
                with threads_of(self.n_jobs):
                    support, _ = censored_support(found[0], *ends, spec, notice=False)
                    fit = fit_censored(found[0], spec, rng, support)
                    self.support_ = None  # of a fit in units of y already
                    self._take(fit, found[1])
                    self.support_ = support
                note_columns(self, found[1])
                return self
            y = np.asarray(censoring, dtype=float)[:, 0] if y is None else y
        data = training_data(
            self,
            X,
            y,
            sample_weight,
            memory_budget=spec.memory_budget,
            n_jobs=self.n_jobs,
        )
        spec = replace(spec, kinds=self._column_kinds)
        with threads_of(self.n_jobs):
            if isinstance(data, Source):
                source, spec = self._blocks_on_the_line(data, spec)
                self._take(*fit_source(source, spec, rng))
            else:
                data = self._on_the_line(data, spec, first=True)
                spec = with_rounding(spec, data, self.support_)
                self._take(fit_rows(data, spec, rng), data)
        note_columns(self, data)
        return self

    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        forgetting: float = 1.0,
    ) -> Self:
        """Add rows to a fit; the sums are exact, whatever the blocks and their order.

        Without a `fit` before, or after an exact one, rows are kept up to 20,000, and
        the model is the one that `fit` makes of all of them. From then on, and after a
        low-rank fit, base density, kernel and centres stay, and rows are added to the
        sums; λ and the number of centres are chosen anew. The model is solved for when
        it is first used. A model that was finished by likelihood has no sums: its rows
        are kept, up to 20,000, and it is made anew from all of them; with more rows it
        is fitted to all, and takes no others.

        Args:
            X: Conditions, (n, p).
            y: Responses, (n,) or (n, d).
            sample_weight: Weight of each row.
            forgetting: What was seen before counts so many times as much, for streams
                that change; 1 forgets nothing.

        Returns:
            The estimator itself.

        Raises:
            ValueError: The model was loaded from a file without sums.

        Example:
            >>> import numpy as np
            >>> rng = np.random.default_rng(0)
            >>> x = rng.uniform(-1, 1, size=(300, 1))
            >>> y = np.sin(3 * x[:, 0]) + 0.2 * rng.normal(size=300)
            >>> model = KCEF(random_state=0).fit(x[:100], y[:100])
            >>> model = model.partial_fit(x[100:], y[100:])
            >>> model.n_rows_
            300.0
        """
        factor = check_forgetting(forgetting)
        first = not self.__sklearn_is_fitted__()
        if not first and self.stream_ is None:
            raise ValueError(f"partial_fit {_NOTHING_LEFT}")
        rows = coded_rows(self, X, y, sample_weight, first=first, least=1)
        rows = self._on_the_line(rows, self._spec(), first=first)
        if first:
            self._settle_later(KeptRows(rows))
        else:
            assert self.stream_ is not None
            self.stream_.require_columns(rows.X.shape[1], rows.Y.shape[1])
            self._settle_later(self.stream_.forgetting(factor).plus(rows))
        return self

    def merge(self, other: "KCEF") -> Self:
        """Add all rows that another model has seen.

        Both must have the same design: make them with `emptied()` of one model, or
        with fewer than 20,000 rows by `partial_fit` alone.

        Example:
            >>> import numpy as np
            >>> rng = np.random.default_rng(0)
            >>> x = rng.uniform(-1, 1, size=(300, 1))
            >>> y = np.sin(3 * x[:, 0]) + 0.2 * rng.normal(size=300)
            >>> model = KCEF(random_state=0).fit(x[:100], y[:100])
            >>> here = model.emptied().partial_fit(x[100:200], y[100:200])
            >>> there = model.emptied().partial_fit(x[200:], y[200:])
            >>> model.merge(here).merge(there).n_rows_
            300.0
        """
        if not isinstance(other, KCEF):
            raise TypeError(f"merge takes another KCEF, got {other!r}.")
        check_is_fitted(self)
        check_is_fitted(other)
        if self.stream_ is None or other.stream_ is None:
            raise ValueError(f"merge {_NOTHING_LEFT}")
        if self.support_ != other.support_:
            raise ValueError(
                "merge takes a model whose y has the same bounds, and the same map of "
                "them to the line; make both with emptied() of one model."
            )
        self.stream_.require_columns(*other.stream_.columns)
        codings = [
            None if m.coder_ is None else m.coder_.coding_ for m in (self, other)
        ]
        if codings[0] != codings[1]:
            raise ValueError(
                "merge needs models that code tables in the same way; make them with "
                "emptied() of one model."
            )
        self._settle_later(self.stream_.merged(other.stream_))
        return self

    def emptied(self) -> "KCEF":
        """A model with the same design that has seen no rows, for `partial_fit`."""
        check_is_fitted(self)
        if self.stream_ is None:
            raise ValueError(f"emptied {_NOTHING_LEFT}")
        copy: KCEF = clone(self)
        copy.support_ = self.support_
        for name in ("n_features_in_", "feature_names_in_", "coder_"):
            if name in vars(self):
                setattr(copy, name, getattr(self, name))
        copy._settle_later(self.stream_.emptied())
        return copy

    @property
    def n_rows_(self) -> float:
        """Sum of the weights of all rows seen, less what was forgotten."""
        check_is_fitted(self)
        if self.stream_ is None:
            return float(self.neighbourhood_.weights.sum())
        return self.stream_.weight

    def save(
        self,
        path: str | Path,
        *,
        sums: bool = False,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        """Write the fitted model to one file; `kexpfam.load` reads it.

        Args:
            path: Where to; a file that is there is replaced, all or nothing.
            sums: Whether `partial_fit`, `merge` and `emptied` of the loaded model go on
                where this one is. The file then holds what they need: the rows, up to
                20,000, or sums, about 20 m² bytes for m centres. A generator as
                `random_state` is not kept, so that rows are then fitted with seed 0.
            extra: What else to keep in the file, in the terms of JSON: texts, numbers,
                lists and mappings. The loaded model has it as `extra_`.

        Raises:
            CannotSaveError: A part has no safe file representation, no rows have been
                seen since `emptied`, or there is nothing to go on with.

        Example:
            >>> import numpy as np, tempfile
            >>> from kexpfam import load
            >>> rng = np.random.default_rng(0)
            >>> x = rng.uniform(-1, 1, size=(300, 1))
            >>> y = np.sin(3 * x[:, 0]) + 0.2 * rng.normal(size=300)
            >>> model = KCEF(random_state=0).fit(x[:100], y[:100])
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     model.save(f"{folder}/model.kexpfam", sums=True)
            ...     again = load(f"{folder}/model.kexpfam")
            >>> again.partial_fit(x[100:], y[100:]).n_rows_
            300.0
        """
        check_is_fitted(self)
        wanted = check_flag("sums", sums)
        if self.stream_ is not None and not self.stream_.weight > 0:
            raise CannotSaveError(
                "A model that has seen no rows cannot be saved; save the one that it "
                "was made from with sums=True, and call emptied() after loading."
            )
        family = self.family_  # solved for first: rows may have become sums then
        if wanted and self.stream_ is None:
            raise CannotSaveError(
                "sums=True needs rows or sums to go on with, and this model has none: "
                "it was saved without them before, is part of an average, or was "
                "solved by iterations; save it with sums=False."
            )
        learned = FittedModel.of(self, family, self.stream_ if wanted else None)
        save_estimator(self, path, extra, learned)

    def _learned(self) -> FittedModel:
        return FittedModel.of(self, self.family_)

    def _relearn(self, learned: object) -> None:
        if not isinstance(learned, FittedModel) or learned.neighbourhood is None:
            raise ValueError("a KCEF has a family with conditions")
        stream = learned.stream
        self.support_ = learned.support
        self._restore(
            FamilyFit(
                learned.family,
                neighbourhood=learned.neighbourhood,
                replicates=learned.replicates or (),
            ),
            None if stream is None else opened(stream, learned.family),
        )

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return self._fitted is not None or self.stream_ is not None

    @property
    def _solved(self) -> FamilyFit:
        """What was learned; after partial_fit it is solved for here."""
        check_is_fitted(self)
        return self._fitted or self._settle()

    @property
    def family_(self) -> FittedFamily:
        """The fitted family."""
        return self._solved.family

    @property
    def kernel_(self) -> JointKernel:
        """The joint kernel used."""
        return self.family_.T.kernel

    @property
    def base_(self) -> BaseDensity:
        """The base density used, in the coordinates of the kernel."""
        return self.family_.base

    @property
    def regularization_(self) -> float:
        """The λ used."""
        return self.family_.lam

    @property
    def solver_(self) -> str:
        """How the fit was computed, "exact", "low-rank" or "iterative"."""
        return self._solved.solver

    @property
    def fit_method_(self) -> str:
        """How T was fitted, "score", "likelihood" or "bridged"."""
        return self._solved.method

    @property
    def selection_(self) -> Selection | SearchResult | None:
        """What was tried and chosen; None if there was nothing to choose."""
        return self._solved.selection

    @property
    def isolated_components_(self) -> IsolatedComponents | None:
        """Masses of separated modes by the fit and by counting."""
        return self._solved.isolated

    @property
    def components_(self) -> Components | None:
        """Numbers of centres that were tried; None if that was settled."""
        return self._solved.components

    @property
    def iterative_(self) -> IterativeFit | None:
        """How conjugate gradients went; None if they were not used."""
        return self._solved.iterative

    @property
    def replicates_(self) -> tuple[FittedFamily, ...]:
        """The family fitted to rows with random weights, `bootstrap` times."""
        return self._solved.replicates

    @property
    def neighbourhood_(self) -> Neighbourhood:  # type: ignore[override]  # read-only
        """The rows behind `reliability`."""
        found = self._solved.neighbourhood
        assert found is not None
        return found

    def _settle_later(self, stream: Stream) -> None:
        """Take a stream, whose model is made when it is needed."""
        most = self._limits.design_rows
        kept = len(stream.rows) if isinstance(stream, KeptRows) else 0
        if kept > most and not SOLVERS[self._spec().fit_method].additive:
            raise ValueError(
                f"fit_method={self.fit_method!r} has no sums to add rows to, so at "
                f"most {most} rows can come in pieces, got {kept}; "
                f"use fit, or fit_method='score'."
            )
        self._fitted, self.stream_ = None, stream
        if kept > most:
            self._settle()  # and give the rows up

    def _settle(self) -> FamilyFit:
        """Make the model of the rows in the stream."""
        stream = self.stream_
        if isinstance(stream, SummedRows):
            family, components = solve_statistics(stream.statistics, self.n_jobs)
            near = stream.neighbourhood.scaled(stream.weight)
            fit = FamilyFit(family, components=components, neighbourhood=near)
            return self._restore(fit, stream)
        assert isinstance(stream, KeptRows)
        # The same for any order of blocks, also without a seed.
        seed = 0 if self.random_state is None else self.random_state
        spec = with_rounding(self._spec(), stream.rows, self.support_)
        with threads_of(self.n_jobs):
            fit = fit_rows(stream.rows, spec, as_generator(seed))
        return self._take(fit, stream.rows, keep=True)

    def _take(self, fit: FamilyFit, rows: Rows, *, keep: bool = False) -> FamilyFit:
        """Take what was fitted to these rows or to more; keep few rows, not sums."""
        fit = in_units_of_y(fit, rows, self.support_)
        near = Neighbourhood.of(rows.X, rows.weights)
        stream: Stream | None = None
        keep = keep or (fit.statistics is None and fit.complete)
        if keep and len(rows) <= self._limits.design_rows:
            stream = KeptRows(rows)
        elif fit.statistics is not None:
            stream = SummedRows(fit.statistics, near)
        fit = replace(fit, statistics=None, neighbourhood=near.scaled(fit.weight))
        return self._restore(fit, stream)

    def _spec(self) -> Spec:
        components = self.n_components
        if components is not None:
            components = check_count("n_components", components, least=1)
        return Spec(
            self.kernel_x,
            self.kernel_y,
            self.kernel,
            self.base,
            self.regularization,
            features=self.features,
            kinds=self._column_kinds,
            fit_method="score" if self.fit_method is None else self.fit_method,
            finish=self.fit_method is None,
            select=self.select,
            search=resolve_search(self.search),
            solver=self.solver,
            n_components=components,
            centers=self.centers,
            derivatives=check_flag("derivative_features", self.derivative_features),
            standardize=self.standardize,
            memory_budget=parse_memory(self.memory_budget),
            time_budget=self.time_budget,
            bootstrap=check_bootstrap(self.bootstrap),
            limits=self._limits,
            n_jobs=self.n_jobs,
            verbose=self.verbose,
        )

    def _restore(self, fit: FamilyFit, stream: Stream | None = None) -> FamilyFit:
        """Take what was learned, from `fit` or from a file."""
        solver = fit.family.solver
        if solver == "low-rank" and self.solver == "iterative":
            solver = "iterative"
        if self.coder_ is None:
            self.n_features_in_ = fit.family.coordinates.p
        method = fit.method or self.fit_method or "score"
        fit = replace(fit, solver=solver, method=method)
        self._fitted, self.stream_ = fit, stream
        return self._fitted

    def _on_the_line(self, rows: Rows, spec: Spec, *, first: bool) -> Rows:
        """Rows as families see them; the first ones choose how bounds are mapped."""
        if self.lower is None and self.upper is None:
            self.support_ = None if first else self.support_
            return rows
        bounds = bounds_of(rows, self.lower, self.upper, notice=False)
        if not first:
            if self.support_ is None:
                return rows
            require_within(rows.Y[:, 0], bounds)
            return mapped_rows(rows, self.support_)
        rows, self.support_ = on_the_line(rows, bounds, spec)
        return rows

    def _blocks_on_the_line(self, source: Source, spec: Spec) -> tuple[Source, Spec]:
        """The same for rows that are read block by block, by a sample of them."""
        self.support_ = None
        if not given_bounds(self.lower, self.upper):
            return source, spec
        work = {"n_jobs": self.n_jobs, "client": spec.client}
        sampled = sample_rows(source, spec.limits.design_rows, 0, **work)
        bounds = bounds_of(sampled.rows, self.lower, self.upper, notice=False)
        source, self.support_ = blocks_on_the_line(source, sampled, bounds, spec)
        if self.support_ is None:
            return source, spec
        rows = mapped_rows(sampled.rows, self.support_)
        return source, with_rounding(spec, rows, self.support_)

    def _density(self, X: Array) -> KCEFDensity:
        found: KCEFDensity = bounded(self.family_.density(X), self.support_)
        if self.replicates_:
            found._replicates = Replicates([found], np.ones(1), self._replicated, X)
        return found

    def _replicated(self, X: Array) -> list[KCEFDensity]:
        """The densities of every replicate."""
        families = self.replicates_
        return [bounded(family.density(X), self.support_) for family in families]

    @property
    def _response_columns(self) -> int:
        return self.family_.d
