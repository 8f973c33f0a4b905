"""KCEF: the kernel conditional exponential family as a scikit-learn estimator."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from kexpfam._typing import Array, ArrayLike, RandomState
from kexpfam._validation import (
    as_generator,
    as_numbers,
    check_confidence,
    check_count,
    check_probability,
    check_weights,
)
from kexpfam.base_densities import BaseDensity, ConditionalBase, TransformedBase
from kexpfam.distributions import (
    BLOCK_ROWS,
    MultivariateDensity,
    UnivariateDensity,
)
from kexpfam.kernels import JointKernel, Kernel
from kexpfam.models.family import FittedFamily, Options, fit_family
from kexpfam.models.saving import save_model


class KCEF(RegressorMixin, BaseEstimator):
    """The kernel conditional exponential family, p(y|x) = q0(y|x) exp T(x, y) / Z(x).

    T is a function in a reproducing kernel Hilbert space, found by score matching:
    one linear system, no iterations. Densities are normalised, by quadrature for one
    or two columns of y and by importance sampling for more, with a stated error.

    Lengthscales, λ and base parameters are in standardised units when
    `standardize=True`; densities, samples and quantiles are in the user's units.

    Args:
        kernel_y: Kernel of y; None for a Gaussian whose lengthscale is 1.4 median
            distances between responses.
        kernel_x: Kernel of x; None for a Gaussian with half a median distance.
        kernel: A joint kernel of (x, y) instead of the two.
        base: Base density q0; None for the paper's N(0, 2²). `TransformedBase` lets it
            act on a transform of y.
        regularization: λ; None for a rule that decreases with n.
        select: How to choose what is None: None uses untuned rules.
        standardize: Whether to centre and scale the columns of X and y first.
        n_jobs: Threads; None for all cores.
        random_state: Seed of cross-fitting and importance sampling.

    Attributes:
        kernel_: The joint kernel used.
        base_: The base density used, in the coordinates of the kernel.
        regularization_: The λ used.
        solver_: How the fit was computed, "exact".
        n_features_in_: Columns of X.
        feature_names_in_: Their names, if X had any.

    References:
        Arbel and Gretton, Kernel Conditional Exponential Family, AISTATS 2018.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> x = rng.uniform(-1, 1, size=(300, 1))
        >>> y = np.sin(3 * x[:, 0]) + 0.2 * rng.normal(size=300)
        >>> model = KCEF().fit(x, y)
        >>> model.predict_quantiles([[0.5]], [0.05, 0.5, 0.95]).round(1)
        array([[0.7, 1. , 1.3]])
    """

    def __init__(
        self,
        *,
        kernel_y: Kernel | None = None,
        kernel_x: Kernel | None = None,
        kernel: JointKernel | None = None,
        base: BaseDensity | ConditionalBase | TransformedBase | None = None,
        regularization: float | None = None,
        select: str | None = None,
        standardize: bool = True,
        n_jobs: int | None = None,
        random_state: RandomState = None,
    ) -> None:
        self.kernel_y = kernel_y
        self.kernel_x = kernel_x
        self.kernel = kernel
        self.base = base
        self.regularization = regularization
        self.select = select
        self.standardize = standardize
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Fit p(y|x) to rows.

        Args:
            X: Conditions, (n, p): array, pandas or polars.
            y: Responses, (n,) or (n, d).
            sample_weight: Weight of each row; a row of weight two equals two rows, so
                the sum of weights counts as the number of rows, on which the default
                λ depends.

        Returns:
            The estimator itself.
        """
        if self.select is not None:
            raise ValueError(
                f"select={self.select!r} is not known; this version has select=None, "
                f"which uses the given hyperparameters, or rules where they are None."
            )
        conditions, responses = validate_data(
            self,
            X,
            y,
            dtype=np.float64,
            multi_output=True,
            y_numeric=True,
            ensure_min_samples=2,
        )
        Y = _as_columns(responses)
        weights = check_weights(sample_weight, len(Y))
        options = Options(
            self.kernel_y,
            self.kernel_x,
            self.kernel,
            self.base,
            self.regularization,
            self.standardize,
            self.n_jobs,
        )
        rng = as_generator(self.random_state)
        return self._restore(fit_family(conditions, Y, weights, options, rng))

    def given(self, X: ArrayLike) -> UnivariateDensity | MultivariateDensity:
        """The distributions p(·|x) at each row of X, as one object.

        Example:
            >>> import numpy as np
            >>> x = np.linspace(0, 1, 50)[:, None]
            >>> y = x[:, 0] ** 2 + 0.1 * np.sin(40 * x[:, 0])
            >>> p = KCEF().fit(x, y).given([[0.2], [0.8]])
            >>> p.interval(0.9).shape
            (2, 2)
        """
        return self._family.density(self._conditions(X))

    def score_samples(self, X: ArrayLike, y: ArrayLike) -> Array:
        """Log p(y_a|x_a) of each row, (n,)."""
        X, Y = self._conditions(X), _as_columns(as_numbers("y", y))
        d = self._family.d
        if Y.shape != (len(X), d):
            raise ValueError(
                f"y must have {len(X)} rows like X and {d} column(s) as in fit, got "
                f"shape {np.shape(y)}."
            )
        if np.isnan(Y).any():
            raise ValueError("y contains NaN; remove these rows.")
        points = Y[:, 0] if d == 1 else Y
        return self._blockwise(X, lambda p, rows: p.logpdf(points[rows]))

    def score(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> float:
        """Mean of log p(y_a|x_a); higher is better."""
        log_p = self.score_samples(X, y)
        return float(
            np.average(log_p, weights=check_weights(sample_weight, len(log_p)))
        )

    def predict(self, X: ArrayLike) -> Array:
        """Conditional means, (n,) or (n, d)."""
        return self._blockwise(self._conditions(X), lambda p, _: p.mean())

    def predict_quantiles(self, X: ArrayLike, quantiles: ArrayLike) -> Array:
        """Conditional quantiles, (n, k) for k levels; one column of y only."""
        X = self._conditions(X)
        levels = np.atleast_1d(as_numbers("quantiles", quantiles))
        self._require_one_column("predict_quantiles")
        check_probability("quantiles", levels)
        if levels.ndim > 1:
            raise ValueError(
                f"quantiles must be a number or a flat list, got shape {levels.shape}."
            )
        return self._blockwise(X, lambda p, _: p.ppf(levels[None, :]))

    def predict_interval(self, X: ArrayLike, confidence: float = 0.9) -> Array:
        """Central intervals with this probability, (n, 2); one column of y only."""
        X = self._conditions(X)
        confidence = check_confidence(confidence)
        self._require_one_column("predict_interval")
        return self._blockwise(X, lambda p, _: p.interval(confidence))

    def sample(
        self, X: ArrayLike, n_samples: int = 1, random_state: RandomState = None
    ) -> Array:
        """Draws from p(·|x) at each row, (n, n_samples) or (n, n_samples, d)."""
        rng = as_generator(random_state)
        n_samples = check_count("n_samples", n_samples)
        return self._blockwise(self._conditions(X), lambda p, _: p.rvs(n_samples, rng))

    def plot(self, X: ArrayLike, y: ArrayLike | None = None, ax: Any = None) -> Any:
        """Heat map of p(y|x) with quantile lines and the data; returns the Axes.

        For one column of x and one of y.
        """
        from kexpfam.display import ConditionalDensityDisplay

        return ConditionalDensityDisplay.from_estimator(self, X, y, ax=ax).ax_

    def save(self, path: str | Path) -> None:
        """Write the fitted model to one file; `kexpfam.load` reads it."""
        save_model(self, self._family, path)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        # `score` is a mean log density, not R², so thresholds on R² do not apply.
        tags.regressor_tags.poor_score = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "family_")

    def _restore(self, family: FittedFamily) -> Self:
        """Take a fitted family, from `fit` or from a file."""
        self.family_ = family
        self.n_features_in_ = family.chart.p
        self.kernel_ = family.T.kernel
        self.base_ = family.base
        self.regularization_ = family.lam
        self.solver_ = "exact"
        return self

    @property
    def _family(self) -> FittedFamily:
        check_is_fitted(self)
        return self.family_

    def _conditions(self, X: ArrayLike) -> Array:
        check_is_fitted(self)
        return validate_data(self, X, dtype=np.float64, reset=False)

    def _require_one_column(self, method: str) -> None:
        if self._family.d > 1:
            raise ValueError(
                f"{method} is for one column of y, and this model has "
                f"{self._family.d}; use given(X) or sample(X)."
            )

    def _blockwise(self, X: Array, work: Callable[[Any, slice], Array]) -> Array:
        blocks = [
            work(self._family.density(X[rows]), rows) for rows in _row_blocks(len(X))
        ]
        return np.concatenate(blocks)


def _row_blocks(n: int) -> Iterator[slice]:
    for start in range(0, n, BLOCK_ROWS):
        yield slice(start, min(start + BLOCK_ROWS, n))


def _as_columns(y: Array) -> Array:
    Y = np.asarray(y, dtype=np.float64)
    return Y[:, None] if Y.ndim == 1 else Y
