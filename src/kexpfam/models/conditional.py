"""KCEF: the kernel conditional exponential family as a scikit-learn estimator."""

from pathlib import Path
from typing import Self

from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from kexpfam._typing import Array, ArrayLike, RandomState
from kexpfam._validation import as_generator, check_count
from kexpfam.base_densities import BaseDensity, ConditionalBase, TransformedBase
from kexpfam.distributions import MultivariateDensity, UnivariateDensity
from kexpfam.islands import IslandReport
from kexpfam.kernels import JointKernel, Kernel
from kexpfam.models.estimator import ConditionalEstimator
from kexpfam.models.family import FittedFamily, Options
from kexpfam.models.fitting import How, fit_rows
from kexpfam.models.neighbourhood import Neighbourhood
from kexpfam.models.saving import save_model
from kexpfam.models.selected import Selection
from kexpfam.selection import SearchMethod, SearchResult, resolve_search


class KCEF(ConditionalEstimator):
    """The kernel conditional exponential family, p(y|x) = q0(y|x) exp T(x, y) / Z(x).

    T is a function in a reproducing kernel Hilbert space, found by score matching:
    one linear system, no iterations. Densities are normalised, by quadrature for one
    or two columns of y and by importance sampling for more, with a stated error.

    Score matching hardly sees the masses of modes that are far apart. After a fit with
    one column of y they are compared with counts, and a `BlindnessWarning` says if they
    are wrong; docs/blindness.md shows the ways out.

    What is not given is chosen by held-out likelihood: base density, lengthscales, λ.
    Lengthscales, λ and base parameters are in standardised units when
    `standardize=True`; densities, samples and quantiles are in the user's units.

    Args:
        kernel_y: Kernel of y; None for a Gaussian with a lengthscale to be chosen.
        kernel_x: Kernel of x; None for a Gaussian, with a lengthscale for each column,
            or a constant, whatever predicts best.
        kernel: A joint kernel of (x, y) instead of the two.
        base: Base density q0: an object, or one of the names "gaussian" (the paper's
            N(0, 2²)), "gaussian_process", "heteroscedastic", "linear", "marginal",
            "student", "yeo_johnson", "gaussianize"; None to choose among several, if
            kernels and λ are open too, and the paper's if not.
        regularization: λ; None to choose it.
        fit_method: How T is fitted. "score": score matching. "likelihood": penalised
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
        n_components: Centres of a low-rank fit. None means 150 where something is
            chosen, since that many are judged, and an exact fit where nothing is; 80
            for likelihood fits.
        standardize: Whether to centre and scale the columns of X and y first.
        n_jobs: Threads; None for all cores.
        random_state: Seed of folds, cross-fitting and importance sampling.
        verbose: Show a progress bar while searching.

    Attributes:
        kernel_: The joint kernel used.
        base_: The base density used, in the coordinates of the kernel.
        regularization_: The λ used.
        solver_: How the fit was computed, "exact" or "low-rank".
        selection_: What was tried, what was chosen, and why the search stopped; None
            if there was nothing to choose.
        islands_: Masses of separated modes by the fit and by counting, an
            `IslandReport`; None for several columns of y, or if loaded from a file.
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
        array([[0.6, 0.9, 1.2]])
    """

    def __init__(
        self,
        *,
        kernel_y: Kernel | None = None,
        kernel_x: Kernel | None = None,
        kernel: JointKernel | None = None,
        base: BaseDensity | ConditionalBase | TransformedBase | str | None = None,
        regularization: float | None = None,
        fit_method: str = "score",
        select: str | None = "likelihood",
        search: str | SearchMethod = "grid",
        n_components: int | None = None,
        standardize: bool = True,
        n_jobs: int | None = None,
        random_state: RandomState = None,
        verbose: bool = False,
    ) -> None:
        self.kernel_y = kernel_y
        self.kernel_x = kernel_x
        self.kernel = kernel
        self.base = base
        self.regularization = regularization
        self.fit_method = fit_method
        self.select = select
        self.search = search
        self.n_components = n_components
        self.standardize = standardize
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Fit p(y|x) to rows.

        Args:
            X: Conditions, (n, p): array, pandas or polars.
            y: Responses, (n,) or (n, d).
            sample_weight: Weight of each row; a row of weight two equals two rows, so
                the sum of weights counts as the number of rows.

        Returns:
            The estimator itself.
        """
        search = resolve_search(self.search)
        conditions, Y, weights = self._training_rows(X, y, sample_weight)
        fit = fit_rows(
            conditions,
            Y,
            weights,
            self._options(),
            as_generator(self.random_state),
            How(self.select, search, self.verbose),
        )
        self.neighbourhood_ = Neighbourhood.of(conditions, weights)
        return self._restore(fit.family, fit.selection, fit.islands)

    def save(self, path: str | Path) -> None:
        """Write the fitted model to one file; `kexpfam.load` reads it."""
        save_model(self, self._family, path)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "family_")

    def _options(self) -> Options:
        components = self.n_components
        if components is not None:
            components = check_count("n_components", components, least=1)
        return Options(
            self.kernel_y,
            self.kernel_x,
            self.kernel,
            self.base,
            self.regularization,
            self.standardize,
            self.n_jobs,
            components,
            self.fit_method,
        )

    def _restore(
        self,
        family: FittedFamily,
        result: Selection | SearchResult | None = None,
        islands: IslandReport | None = None,
    ) -> Self:
        """Take a fitted family, from `fit` or from a file."""
        self.family_ = family
        self.n_features_in_ = family.chart.p
        self.kernel_ = family.T.kernel
        self.base_ = family.base
        self.regularization_ = family.lam
        self.solver_ = family.solver
        self.selection_ = result
        self.islands_ = islands
        return self

    @property
    def _family(self) -> FittedFamily:
        check_is_fitted(self)
        return self.family_

    def _density(self, X: Array) -> UnivariateDensity | MultivariateDensity:
        return self._family.density(X)

    @property
    def _response_columns(self) -> int:
        return self._family.d
