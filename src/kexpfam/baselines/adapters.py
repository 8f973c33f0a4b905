"""Estimators of other libraries as densities p(y|x), with the methods of `KCEF`.

A Gaussian process and natural gradient boosting give a normal density at each x, with
its own mean and width. A quantile forest gives each training row a weight at x, and
normal densities on the responses of these rows make a smooth density of it.
"""

import warnings
from abc import abstractmethod
from typing import Any, Self

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.model_selection import train_test_split
from sklearn.tree import DecisionTreeRegressor

from kexpfam._optional import needed
from kexpfam._typing import Array, ArrayLike, Indices, Mask, RandomState
from kexpfam._validation import as_generator, check_count, check_positive
from kexpfam.base_densities import GaussianBase
from kexpfam.baselines.standardized import OneColumnEstimator, rounding_scales
from kexpfam.distributions import ClosedFormDensity, Density, NormalMixtureDensity


class _Adapter(OneColumnEstimator):
    """What the adapters share: standardised rows without weights, and a seed."""

    random_state: RandomState

    def _rows_and_seed(self, X: ArrayLike, y: ArrayLike) -> tuple[Array, Array, int]:
        rows = self._rows(X, y)
        seed = int(as_generator(self.random_state).integers(2**31))
        return rows.X, rows.Y[:, 0], seed


class _NormalAdapter(_Adapter):
    """A normal density at each x."""

    @abstractmethod
    def _moments(self, Z: Array) -> tuple[Array, Array]:
        """Mean and std of standardised y, (n,) each."""

    def _density(self, X: Array) -> Density:
        mean, std = self._moments(self._scaled(X))
        return ClosedFormDensity(
            GaussianBase(1.0),
            np.asarray(mean, dtype=float) * self.y_scale_ + self.y_center_,
            np.asarray(std, dtype=float) * self.y_scale_,
        )


class GaussianProcessDensity(_NormalAdapter):
    """scikit-learn's Gaussian process regression, as a normal density at each x.

    Args:
        estimator: A `GaussianProcessRegressor` to be fitted to standardised rows, with
            the noise of y in its kernel; None for a Gaussian kernel with a lengthscale
            for each column, and noise.
        n_jobs: Threads of evaluation; None for all cores.
        random_state: Seed of the restarts.

    Example:
        >>> import numpy as np
        >>> x = np.linspace(0, 1, 40)[:, None]
        >>> y = np.sin(6 * x[:, 0]) + 0.1 * np.cos(90 * x[:, 0])
        >>> GaussianProcessDensity(random_state=0).fit(x, y).predict([[0.25]]).round(1)
        array([1.])
    """

    def __init__(
        self,
        *,
        estimator: Any = None,
        n_jobs: int | None = None,
        random_state: RandomState = None,
    ) -> None:
        self.estimator = estimator
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Fit p(y|x) to rows (x, y)."""
        Z, u, seed = self._rows_and_seed(X, y)
        if self.estimator is None:
            noise = WhiteKernel(0.1, (1e-5, 1e1))
            signal = ConstantKernel(1.0, (1e-3, 1e3))
            kernel = signal * RBF(np.ones(Z.shape[1]), (1e-2, 1e3)) + noise
            regressor = GaussianProcessRegressor(
                kernel, normalize_y=True, n_restarts_optimizer=2
            )
        else:
            regressor = clone(self.estimator)
        if "random_state" in regressor.get_params():
            regressor.set_params(random_state=seed)
        with warnings.catch_warnings():
            if self.estimator is None:
                # A lengthscale at its upper bound is a column without influence.
                warnings.simplefilter("ignore", ConvergenceWarning)
            self.estimator_ = regressor.fit(Z, u)
        return self

    def _moments(self, Z: Array) -> tuple[Array, Array]:
        mean, std = self.estimator_.predict(Z, return_std=True)
        return mean, np.maximum(std, np.finfo(float).tiny)


class NGBoostDensity(_NormalAdapter):
    """Natural gradient boosting (Duan et al. 2020), a normal density at each x.

    Args:
        n_estimators: Trees; None to stop when a fifth of the rows, held out, is not
            predicted better any more, and to fit so many trees to all rows. The 500 of
            the library overfit small sets badly.
        learning_rate: Length of the steps.
        max_depth: Of the trees.
        n_jobs: Threads of evaluation; None for all cores.
        random_state: Seed.

    Raises:
        MissingDependencyError: ngboost is not installed.
    """

    def __init__(
        self,
        *,
        n_estimators: int | None = None,
        learning_rate: float = 0.01,
        max_depth: int = 3,
        n_jobs: int | None = None,
        random_state: RandomState = None,
    ) -> None:
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.max_depth = max_depth
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Fit p(y|x) to rows (x, y)."""
        Z, u, seed = self._rows_and_seed(X, y)
        check_positive("learning_rate", self.learning_rate)
        if self.n_estimators is None:
            if len(u) < 10:
                raise ValueError(
                    f"X has {len(u)} rows, too few to hold some out and stop by them; "
                    f"give n_estimators, or 10 rows."
                )
            fit_Z, held_Z, fit_u, held_u = train_test_split(
                Z, u, test_size=0.2, random_state=seed
            )
            # At most 2000 trees, until 20 in a row have not helped.
            search = self._boosting(2000, seed).fit(
                fit_Z, fit_u, held_Z, held_u, early_stopping_rounds=20
            )
            self.n_estimators_ = int(search.best_val_loss_itr) + 1
        else:
            self.n_estimators_ = check_count("n_estimators", self.n_estimators, least=1)
        self.estimator_ = self._boosting(self.n_estimators_, seed).fit(Z, u)
        return self

    def _boosting(self, trees: int, seed: int) -> Any:
        # The default learner, with a seed: ties would follow the global generator.
        ngboost = needed("ngboost", "for NGBoostDensity", "rivals")
        return ngboost.NGBRegressor(
            Base=DecisionTreeRegressor(max_depth=self.max_depth, random_state=seed),
            n_estimators=trees,
            learning_rate=self.learning_rate,
            verbose=False,
            random_state=seed,
        )

    def _moments(self, Z: Array) -> tuple[Array, Array]:
        parameters = self.estimator_.pred_dist(Z).params
        return parameters["loc"], parameters["scale"]


class QuantileForestDensity(_Adapter):
    """A quantile regression forest (Meinshausen 2006), smoothed to a density.

    The weight of a training row at x is how often it shares a leaf with x; the density
    is the mixture of normals of one width on the responses with these weights. Width
    and size of the leaves are those with the best out-of-bag likelihood.

    Args:
        n_estimators: Trees.
        min_samples_leaf: Rows of a leaf, at least; None to choose 1, 5, 10 or 20.
        width: Of the normals, in standard deviations of y; None to choose it.
        n_jobs: Threads of evaluation; None for all cores.
        random_state: Seed.

    Raises:
        MissingDependencyError: quantile-forest is not installed.
    """

    def __init__(
        self,
        *,
        n_estimators: int = 200,
        min_samples_leaf: int | None = None,
        width: float | None = None,
        n_jobs: int | None = None,
        random_state: RandomState = None,
    ) -> None:
        self.n_estimators = n_estimators
        self.min_samples_leaf = min_samples_leaf
        self.width = width
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Fit p(y|x) to rows (x, y)."""
        Z, u, seed = self._rows_and_seed(X, y)
        trees = check_count("n_estimators", self.n_estimators, least=1)
        leaves = [size for size in (1, 5, 10, 20) if 2 * size <= len(u)]
        if self.min_samples_leaf is not None:
            leaves = [check_count("min_samples_leaf", self.min_samples_leaf, least=1)]
        given = None if self.width is None else check_positive("width", self.width)
        widths = np.array([given])
        if given is None:
            least = rounding_scales(u[:, None])[0]
            widths = np.maximum(np.logspace(-2.0, 0.3, 24), least)
        library = needed("quantile_forest", "for QuantileForestDensity", "rivals")
        kind = np.unique(np.column_stack([Z, u]), axis=0, return_inverse=True)[1]
        twins = kind[:, None] == kind
        best = -np.inf
        for size in leaves:
            forest = library.RandomForestQuantileRegressor(
                trees, min_samples_leaf=size, random_state=seed
            ).fit(Z, u)
            mine = forest.apply(Z)
            counts = np.column_stack(
                [np.bincount(i, minlength=len(u)) for i in forest.estimators_samples_]
            )
            weights = leaf_weights(mine, mine, counts, counts == 0)
            log_weights = _log(np.where(twins, 0.0, weights))
            # A row of which only twins know may have any density.
            log_weights[np.isneginf(log_weights).all(axis=1)] = 0.0
            for width in widths:
                p = NormalMixtureDensity(log_weights, u[None], np.array([[width]]))
                # A density of a forest may vanish at a row, which should not decide.
                score = float(np.maximum(p.logpdf(u), -20.0).mean())
                if score > best or not np.isfinite(best):
                    best = score
                    self.estimator_, self.leaves_, self.counts_ = forest, mine, counts
                    self.min_samples_leaf_, self.width_ = size, float(width)
        self.centers_y_ = u
        return self

    def _density(self, X: Array) -> Density:
        query = self.estimator_.apply(self._scaled(X))
        weights = leaf_weights(query, self.leaves_, self.counts_)
        return NormalMixtureDensity(
            _log(weights),
            (self.centers_y_ * self.y_scale_ + self.y_center_)[None],
            np.array([[self.width_ * self.y_scale_]]),
        )


def leaf_weights(
    query: Indices, leaves: Indices, counts: Indices, use: Mask | None = None
) -> Array:
    """Weights of training rows by shared leaves (Meinshausen 2006), (q, n).

    Query and leaves are those of query and training rows in each tree, counts how often
    a tree drew the row. Without a tree that it may `use`, a row has equal weights.

    Example:
        >>> import numpy as np
        >>> leaves = np.array([[0, 0], [0, 1], [1, 1]])  # three rows, two trees
        >>> leaf_weights(np.array([[0, 1]]), leaves, np.ones((3, 2), dtype=int))
        array([[0.25, 0.5 , 0.25]])
    """
    use = np.ones(query.shape, dtype=bool) if use is None else use
    total = np.zeros((len(query), len(leaves)))
    for t in range(query.shape[1]):
        rows = np.flatnonzero(use[:, t])
        shared = (query[rows, t, None] == leaves[:, t]) * counts[:, t]
        total[rows] += shared / shared.sum(axis=1, keepdims=True)
    total[~use.any(axis=1)] = 1.0
    return total / total.sum(axis=1, keepdims=True)


def _log(weights: Array) -> Array:
    with np.errstate(divide="ignore"):
        return np.log(weights)
