"""KEF: the kernel exponential family as a scikit-learn density estimator."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from kexpfam._parallel import threads_of
from kexpfam._typing import Array, ArrayLike, RandomState
from kexpfam._validation import as_generator, check_count
from kexpfam.base_densities import Base, resolve_base
from kexpfam.data import (
    Source,
    complete_numbers,
    note_columns,
    parse_memory,
    training_data,
)
from kexpfam.distributions import (
    MultivariateDensity,
    Replicates,
    UnivariateDensity,
    check_partition,
)
from kexpfam.estimators.base import DensityEstimator, refuse_no_density
from kexpfam.estimators.fitting import FamilyFit, fit_rows, fit_source
from kexpfam.estimators.saved import FittedModel
from kexpfam.family import Spec
from kexpfam.kernels import Constant, Kernel
from kexpfam.persistence import save_estimator, saved_estimator
from kexpfam.sampling import Sampler
from kexpfam.selection import CoarseSearch
from kexpfam.selection.bootstrap import check_bootstrap


@saved_estimator
class KEF(DensityEstimator):
    """The kernel exponential family, p(y) = q0(y) exp T(y) / Z.

    The same estimator as `KCEF` without a condition: where modes of one column are so
    far apart that score matching does not see their masses, the fit is finished by
    likelihood, and where that is not done a warning says if masses are wrong.

    Args:
        kernel: Kernel of y; None for a Gaussian with a lengthscale to be chosen.
        base: Base density q0 that does not depend on x: an object, or a name as in
            `KCEF`; None for "gaussian", N(0, 2²) in standardised units.
        regularization: λ; None to choose it.
        fit_method: How T is fitted, by "score" matching, by penalised "likelihood" or
            "bridged"; None for score matching that is finished by likelihood where
            components are isolated; see `KCEF`.
        bootstrap: Fits to rows with random weights, for error bars of the density,
            `distribution().band()`, as in `KCEF`; 0 for none. For one column.
        select: How to choose what is None: by held-out "likelihood", by held-out
            "score", or None for untuned rules that look at distances and the number
            of rows only.
        partition: How log Z of several columns is found. "auto" takes quadrature for
            two, importance sampling for more, and tempered sequential Monte Carlo where
            the importance weights say that they are unreliable; "importance" and "smc"
            take one of the two whatever it says. One column has quadrature always.
        memory_budget: Bytes, or a text such as "500 MB", that a fit to rows read block
            by block may take above what the process has.
        standardize: Whether to centre and scale the columns first.
        n_jobs: Threads: -1 for all cores, -2 for all but one. None for what a
            surrounding `joblib.parallel_config` says, and all cores without one; then
            candidates of a search are tried one after another.
        random_state: Seed of folds, and of the draws that normalise three and more
            columns.

    Attributes:
        kernel_: The kernel used.
        base_: The base density used, in the coordinates of the kernel.
        regularization_: The λ used.
        selection_: What was tried and what was chosen; None if there was nothing to
            choose.
        replicates_: The family fitted to rows with random weights, `bootstrap` times.
        isolated_components_: Masses of separated modes by the fit and by counting;
            None for several columns, or if loaded from a file.
        n_features_in_: Columns of the data.
        feature_names_in_: Their names, if X had any.

    References:
        Sriperumbudur et al., Density Estimation in Infinite Dimensional Exponential
        Families, JMLR 2017.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> two_bumps = np.append(rng.normal(-2, 0.5, 200), rng.normal(2, 0.5, 200))
        >>> model = KEF(fit_method="likelihood", random_state=0)
        >>> p = model.fit(two_bumps[:, None]).distribution()
        >>> p.hpd(0.8).shape  # two intervals
        (2, 2)
    """

    def __init__(
        self,
        *,
        kernel: Kernel | None = None,
        base: Base | str | None = None,
        regularization: float | None = None,
        fit_method: str | None = None,
        bootstrap: int = 0,
        select: str | None = "likelihood",
        partition: str = "auto",
        memory_budget: int | str = "1 GiB",
        standardize: bool = True,
        n_jobs: int | None = None,
        random_state: RandomState = None,
    ) -> None:
        self.kernel = kernel
        self.base = base
        self.regularization = regularization
        self.fit_method = fit_method
        self.bootstrap = bootstrap
        self.select = select
        self.partition = partition
        self.memory_budget = memory_budget
        self.standardize = standardize
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(
        self,
        X: Any,
        y: None = None,
        sample_weight: Any = None,
        *,
        client: Any = None,
    ) -> Self:
        """Fit p(y) to the rows of X, (n, d).

        Args:
            X: The data; scikit-learn's name for it. An array, pandas or polars; or rows
                that are read block by block, as in `KCEF.fit`: of files and frames, all
                numeric columns.
            y: Ignored; present because scikit-learn passes it.
            sample_weight: Weight of each row; a row of weight two equals two rows, so
                the sum of weights counts as the number of rows. Of Parquet files and of
                lazy or Dask frames, the name of a column.
            client: A Dask client that passes over the rows, as in `KCEF.fit`.

        Returns:
            The estimator itself.
        """
        spec = replace(self._spec(), client=client)
        rng = as_generator(self.random_state)
        data = training_data(
            self,
            X,
            None,
            sample_weight,
            conditional=False,
            memory_budget=parse_memory(self.memory_budget),
            n_jobs=self.n_jobs,
        )
        with threads_of(self.n_jobs):
            if isinstance(data, Source):
                fit, _ = fit_source(data, spec, rng)
            else:
                fit = fit_rows(data, spec, rng)
        note_columns(self, data)
        return self._restore(fit)

    def _spec(self) -> Spec:
        check_partition(self.partition)
        if self.base is not None and resolve_base(self.base).is_conditional:
            raise TypeError(
                f"base must be an unconditional base density such as "
                f"GaussianBase(scale=2.0), or None; got {self.base!r}."
            )
        return Spec(
            Constant(),
            self.kernel,
            base=self.base,
            regularization=self.regularization,
            fit_method="score" if self.fit_method is None else self.fit_method,
            finish=self.fit_method is None,
            select=self.select,
            search=CoarseSearch(),
            standardize=self.standardize,
            bootstrap=check_bootstrap(self.bootstrap),
            limits=self._limits,
            n_jobs=self.n_jobs,
            response_name="X",
            kernel_name="kernel",
        )

    def distribution(self) -> UnivariateDensity | MultivariateDensity:
        """The fitted distribution, with density, quantiles, samples and so on.

        `log_partition_error` is the error of its log Z, and `partition_method` says how
        that was found.
        """
        check_is_fitted(self)
        return self.distribution_

    def score_samples(self, X: ArrayLike) -> Array:
        """Log p of each row, (n,), in nats and in one over the units of the columns.

        Args:
            X: Rows, (n, d), as in `fit`.

        Example:
            >>> import numpy as np
            >>> data = np.random.default_rng(0).normal(size=(100, 1))
            >>> model = KEF(random_state=0).fit(data)
            >>> inside, far = model.score_samples([[0.0], [3.0]])
            >>> bool(inside > far)
            True
        """
        check_is_fitted(self)
        data = complete_numbers(self, X)
        return self.distribution_.logpdf(data[:, 0] if data.shape[1] == 1 else data)

    def sample(
        self,
        n_samples: int = 1,
        random_state: RandomState = None,
        sampler: Sampler | str | None = None,
    ) -> Array:
        """Draws, (n_samples, d).

        Args:
            n_samples: How many.
            random_state: Seed or generator.
            sampler: As in `distribution().rvs`; None draws exactly where that is
                possible.
        """
        check_is_fitted(self)
        n_samples = check_count("n_samples", n_samples)
        draws = self.distribution_.rvs(n_samples, random_state, sampler)
        return draws.reshape(n_samples, self.n_features_in_)

    def plot(self, ax: Any = None, *, band: float | None = None) -> Any:
        """Draw the density (one column); returns the matplotlib Axes.

        Args:
            ax: Where to draw; None for a new figure.
            band: Level of a ribbon around the curve, with `bootstrap`.
        """
        distribution = self.distribution()
        if ax is not None and not hasattr(ax, "plot"):
            raise TypeError(
                f"ax must be Axes of matplotlib, got {type(ax).__name__}; the density "
                f"is drawn without the data."
            )
        if not isinstance(distribution, UnivariateDensity):
            raise ValueError(
                f"plot is for one column, and this model has {self.n_features_in_}."
            )
        return distribution.plot(ax=ax, band=band)

    def save(self, path: str | Path, *, extra: Mapping[str, Any] | None = None) -> None:
        """Write the fitted model to one file; `kexpfam.load` reads it.

        `extra`, in the terms of JSON (texts, numbers, lists, mappings), is kept in the
        file, too; the loaded model has it as `extra_`.
        """
        check_is_fitted(self)
        save_estimator(self, path, extra)

    def _learned(self) -> FittedModel:
        return FittedModel.of(self, self.family_)

    def _relearn(self, learned: object) -> None:
        if not isinstance(learned, FittedModel) or learned.family.coordinates.p:
            raise ValueError("a KEF has a family without conditions")
        kernel = learned.family.T.kernel
        if len(kernel.products) != 1:
            raise ValueError("a KEF has one kernel")
        self._restore(FamilyFit(learned.family, replicates=learned.replicates or ()))

    def check_saved(self) -> None:
        """Refuse numbers of a file that are no density together."""
        p = self.distribution_
        if not np.isfinite(p.log_partition):
            raise ValueError("it has no density")
        if self.n_features_in_ == 1:
            refuse_no_density(p, "of its column")

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "family_")

    def _restore(self, fit: FamilyFit) -> Self:
        """Take what was learned, from `fit` or from a file."""
        self.family_ = family = fit.family
        self.n_features_in_ = family.d
        ((_, self.kernel_),) = family.T.kernel.products
        self.base_ = family.base
        self.regularization_ = family.lam
        self.selection_ = fit.selection
        self.isolated_components_ = fit.isolated
        self.replicates_ = fit.replicates
        check_partition(self.partition)  # of a file, too
        nowhere = np.empty((1, 0))
        p = family.density(nowhere, single=True, partition=self.partition)
        if fit.replicates:
            p._replicates = Replicates([p], np.ones(1), self._replicated, nowhere)
        self.distribution_ = p
        return self

    def _replicated(self, X: Array) -> list[UnivariateDensity | MultivariateDensity]:
        """The density of every replicate, at conditions without columns."""
        return [family.density(X, single=True) for family in self.replicates_]
