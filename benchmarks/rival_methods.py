"""Other methods for p(y|x), behind one interface.

`METHODS[name].fit(X, y, seed)` gives a density whose `log_density(X, y)` is (n,), in
the units of the y that was passed. Each fit standardises with the mean and standard
deviation of its own training rows and nothing else. Except for the network, which has
its own module, the methods are of two shapes: a normal distribution whose mean and
width depend on x, or Gaussian bumps on responses with weights that depend on x,

    p(y|x) = Σᵢ wᵢ(x) N(y; vᵢ, b²),   Σᵢ wᵢ(x) = 1.

Conditional kernel density, least-squares conditional density (LSCDE) and quantile
forest are of the second shape and differ in where w comes from. Weights stay in the log
domain, so a row far from all training rows still has weights that sum to one; what can
vanish is only the density of a y that is far from every vᵢ. NGBoost and quantile-forest
are imported when they are used.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from protocol import LOG_FLOOR
from rival_network import fit_mixture_network
from scipy.optimize import minimize
from scipy.spatial.distance import cdist
from scipy.special import log_softmax, logsumexp, softmax

Array = np.ndarray
_LOG_ROOT_TWO_PI = 0.5 * np.log(2.0 * np.pi)


class Density(Protocol):
    """A fitted p(y|x)."""

    def log_density(self, X: Array, y: Array) -> Array:
        """Log density of each row, (n,)."""


@dataclass(frozen=True)
class ConditionalNormal:
    """N(y; m(x), s(x)²); `moments` maps X to m and s, both (n,)."""

    moments: Callable[[Array], tuple[Array, Array]]

    def log_density(self, X: Array, y: Array) -> Array:
        mean, std = self.moments(X)
        return -0.5 * ((y - mean) / std) ** 2 - np.log(std) - _LOG_ROOT_TWO_PI


@dataclass(frozen=True)
class WeightedBumps:
    """Σᵢ wᵢ(x) N(y; vᵢ, b²); `log_weights` maps X to log w, (n, m)."""

    log_weights: Callable[[Array], Array]
    centers: Array
    width: float

    def log_density(self, X: Array, y: Array) -> Array:
        return bumps_log_density(self.log_weights(X), self.centers, self.width, y)


def bumps_log_density(log_w: Array, centers: Array, width: float, y: Array) -> Array:
    exponent = -0.5 * ((y[:, None] - centers) / width) ** 2
    return logsumexp(log_w + exponent, axis=1) - np.log(width) - _LOG_ROOT_TWO_PI


@dataclass(frozen=True)
class Standardized:
    """A density of standardised (x, y) in the units before."""

    inner: Density
    center: Array
    scale: Array

    def log_density(self, X: Array, y: Array) -> Array:
        X = (X - self.center[:-1]) / self.scale[:-1]
        y = (y - self.center[-1]) / self.scale[-1]
        return self.inner.log_density(X, y) - np.log(self.scale[-1])


@dataclass(frozen=True)
class Method:
    """One rival.

    Attributes:
        description: What it is and how its parameters are chosen.
        fit_standardized: Fit to training rows of mean 0 and standard deviation 1.
        can_vanish: Whether its density can be zero at a test row, to machine precision.
    """

    description: str
    fit_standardized: Callable[[Array, Array, int], Density]
    can_vanish: bool = False

    def fit(self, X: Array, y: Array, seed: int) -> Density:
        rows = np.column_stack([X, y])
        center, scale = rows.mean(axis=0), rows.std(axis=0)
        scale[scale == 0] = 1.0  # a column that is constant in the training half
        rows = (rows - center) / scale
        inner = self.fit_standardized(rows[:, :-1], rows[:, -1], seed)
        return Standardized(inner, center, scale)


def fit_iid_normal(X: Array, y: Array, seed: int) -> Density:
    mean, std = y.mean(), y.std(ddof=1)
    return ConditionalNormal(lambda X: (np.full(len(X), mean), np.full(len(X), std)))


def fit_ridge_normal(X: Array, y: Array, seed: int) -> Density:
    from sklearn.linear_model import RidgeCV

    penalties = np.logspace(-3, 3, 25)
    model = RidgeCV(penalties, store_cv_results=True).fit(X, y)
    # Squared leave-one-out residuals: training residuals are far too small where the
    # rows are hardly more than the columns.
    errors = model.cv_results_[:, np.flatnonzero(penalties == model.alpha_)[0]]
    std = np.sqrt(errors.mean())
    return ConditionalNormal(lambda X: (model.predict(X), np.full(len(X), std)))


def fit_gaussian_process(X: Array, y: Array, seed: int) -> Density:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    kernel = ConstantKernel(1.0, (1e-3, 1e3)) * RBF(
        np.ones(X.shape[1]), (1e-2, 1e3)
    ) + WhiteKernel(0.1, (1e-5, 1e1))
    model = GaussianProcessRegressor(
        kernel, normalize_y=True, n_restarts_optimizer=2, random_state=seed
    )
    with warnings.catch_warnings():
        # A lengthscale at its upper bound is a column without influence, not a fault.
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)
    # The standard deviation of a new response: WhiteKernel is part of it.
    return ConditionalNormal(lambda X: model.predict(X, return_std=True))


def _boosted(X: Array, y: Array, seed: int, trees: int) -> Density:
    from ngboost import NGBRegressor
    from sklearn.tree import DecisionTreeRegressor

    # The default learner, with a seed: otherwise ties follow the global generator.
    learner = DecisionTreeRegressor(max_depth=3, random_state=seed)
    model = NGBRegressor(
        Base=learner, n_estimators=trees, verbose=False, random_state=seed
    ).fit(X, y)

    def moments(X: Array) -> tuple[Array, Array]:
        parameters = model.pred_dist(X).params
        return parameters["loc"], parameters["scale"]

    return ConditionalNormal(moments)


def fit_ngboost(X: Array, y: Array, seed: int) -> Density:
    return _boosted(X, y, seed, 500)


def fit_ngboost_stopped(X: Array, y: Array, seed: int) -> Density:
    from ngboost import NGBRegressor
    from sklearn.model_selection import train_test_split
    from sklearn.tree import DecisionTreeRegressor

    X_fit, X_held, y_fit, y_held = train_test_split(
        X, y, test_size=0.2, random_state=seed
    )
    learner = DecisionTreeRegressor(max_depth=3, random_state=seed)
    # 2000 is only a ceiling: at rate 0.01 some sets still improve after 500.
    search = NGBRegressor(
        Base=learner, n_estimators=2000, verbose=False, random_state=seed
    ).fit(X_fit, y_fit, X_held, y_held, early_stopping_rounds=20)
    return _boosted(X, y, seed, search.best_val_loss_itr + 1)


FOREST_LEAVES = (1, 5, 10, 20)
FOREST_TREES = 200
BUMP_WIDTHS = np.logspace(-2.0, 0.3, 24)


def leaf_weights(
    query: Array, leaves: Array, counts: Array, use: Array | None = None
) -> Array:
    """Weights of training rows by shared leaves (Meinshausen, 2006), (q, n).

    Args:
        query: Leaf of each query row in each tree, (q, trees).
        leaves: Leaf of each training row in each tree, (n, trees).
        counts: How often a tree drew the row, (n, trees).
        use: Which trees a query row may use, (q, trees); all unless given.
    """
    total = np.zeros((len(query), len(leaves)))
    use = np.ones(query.shape, dtype=bool) if use is None else use
    for t in range(query.shape[1]):
        rows = np.flatnonzero(use[:, t])
        shared = (query[rows, t, None] == leaves[:, t]) * counts[:, t]
        total[rows] += shared / shared.sum(axis=1, keepdims=True)
    return total / use.sum(axis=1, keepdims=True)


def _log(weights: Array) -> Array:
    with np.errstate(divide="ignore"):
        return np.log(weights)


def _judged(log_p: Array) -> float:
    """Mean log density as the benchmark judges it."""
    return float(np.maximum(log_p, LOG_FLOOR).mean())


def fit_quantile_forest(X: Array, y: Array, seed: int) -> Density:
    from quantile_forest import RandomForestQuantileRegressor

    best = -np.inf
    for smallest in FOREST_LEAVES:
        if 2 * smallest > len(y):
            continue
        forest = RandomForestQuantileRegressor(
            FOREST_TREES, min_samples_leaf=smallest, random_state=seed
        ).fit(X, y)
        leaves = forest.apply(X)
        counts = np.column_stack(
            [np.bincount(i, minlength=len(y)) for i in forest.estimators_samples_]
        )
        log_w = _log(leaf_weights(leaves, leaves, counts, counts == 0))
        for width in BUMP_WIDTHS:
            score = _judged(bumps_log_density(log_w, y, width, y))
            if score > best:
                best, chosen = score, (forest, leaves, counts, float(width))
    forest, leaves, counts, width = chosen
    return WeightedBumps(
        lambda X: _log(leaf_weights(forest.apply(X), leaves, counts)), y, width
    )


# One standard deviation is 1. Wider than 50 is a column without influence; narrower
# than 0.01 is narrower than the rounding of most of the responses, where repeated
# values make the likelihood grow without bound.
WIDTHS_X, WIDTHS_Y = (0.02, 50.0), (0.01, 5.0)


def left_out_loss(
    log_widths: Array, squares_x: Array, squares_y: Array
) -> tuple[float, Array]:
    """Mean negative log density of each row given all others, and its gradient.

    Args:
        log_widths: Of every column of x, then of y, (p + 1,).
        squares_x: Squared differences (x_kj - x_ij)², (n, n, p).
        squares_y: Squared differences of y, (n, n).
    """
    precision = np.exp(-2.0 * log_widths)
    in_x = -0.5 * squares_x @ precision[:-1]
    np.fill_diagonal(in_x, -np.inf)
    in_both = in_x - 0.5 * squares_y * precision[-1]
    log_p = logsumexp(in_both, axis=1) - logsumexp(in_x, axis=1)
    joint = softmax(in_both, axis=1)
    moved = joint - softmax(in_x, axis=1)
    n = len(squares_y)
    gradient = np.empty(len(log_widths))
    gradient[:-1] = -np.einsum("ki,kij->j", moved, squares_x) * precision[:-1] / n
    gradient[-1] = 1.0 - np.sum(joint * squares_y) * precision[-1] / n
    return -log_p.mean() + log_widths[-1] + _LOG_ROOT_TWO_PI, gradient


def kernel_density(X: Array, y: Array, widths: Array) -> Density:
    """Conditional kernel density: w ∝ Gaussian kernels of x."""
    scaled = X / widths[:-1]
    return WeightedBumps(
        lambda X: log_softmax(
            -0.5 * cdist(X / widths[:-1], scaled, "sqeuclidean"), axis=1
        ),
        y,
        float(widths[-1]),
    )


def fit_kernel_density(X: Array, y: Array, seed: int) -> Density:
    n, p = X.shape
    squares_x = (X[:, None] - X) ** 2
    squares_y = (y[:, None] - y) ** 2
    bounds = [np.log(WIDTHS_X)] * p + [np.log(WIDTHS_Y)]
    reference = n ** (-1.0 / (p + 5))
    # The likelihood has several maxima; wide, reference and narrow starts.
    runs = [
        minimize(
            left_out_loss,
            np.log([factor_x * reference] * p + [factor_y * reference]),
            (squares_x, squares_y),
            jac=True,
            method="L-BFGS-B",
            bounds=bounds,
        )
        for factor_x, factor_y in ((1.0, 1.0), (3.0, 1.0), (0.5, 0.5))
    ]
    best = min(runs, key=lambda run: run.fun)
    return kernel_density(X, y, np.exp(best.x))


LSCDE_CENTERS, LSCDE_FOLDS = 100, 5
LSCDE_WIDTHS = np.logspace(-1.0, 0.7, 12)
LSCDE_PENALTIES = np.logspace(-4.0, 1.0, 11)


def lscde_system(
    X: Array, y: Array, U: Array, v: Array, width: float
) -> tuple[Array, Array]:
    """H = mean of ∫ φ φᵀ dy over rows of x, h = mean of φ over rows (x, y).

    φ_l(x, y) = exp(−(‖x − u_l‖² + (y − v_l)²) / 2σ²), and the integral of two bumps
    in y is √π σ exp(−(v_l − v_m)² / 4σ²).
    """
    in_x = np.exp(-0.5 * cdist(X, U, "sqeuclidean") / width**2)
    in_y = np.exp(-0.5 * ((y[:, None] - v) / width) ** 2)
    overlap = np.exp(-0.25 * ((v[:, None] - v) / width) ** 2)
    H = np.sqrt(np.pi) * width * overlap * (in_x.T @ in_x) / len(y)
    return H, np.mean(in_x * in_y, axis=0)


def lscde(U: Array, v: Array, width: float, alpha: Array) -> Density:
    """The density of non-negative coefficients, normalised in y for each x.

    All α cannot be negative: hᵀα = hᵀ(H + λ)⁻¹h > 0 and h ≥ 0.
    """
    log_alpha = _log(np.maximum(alpha, 0.0))
    return WeightedBumps(
        lambda X: log_softmax(
            log_alpha - 0.5 * cdist(X, U, "sqeuclidean") / width**2, axis=1
        ),
        v,
        width,
    )


def _lscde_path(
    X: Array, y: Array, centers: Array, width: float, penalties: Array
) -> list[Density]:
    """One fit for each λ; one eigendecomposition serves all."""
    U, v = X[centers], y[centers]
    H, h = lscde_system(X, y, U, v, width)
    values, vectors = np.linalg.eigh(H)
    projected = vectors.T @ h
    return [
        lscde(U, v, width, vectors @ (projected / (np.maximum(values, 0) + penalty)))
        for penalty in penalties
    ]


def fit_lscde(X: Array, y: Array, seed: int) -> Density:
    rng = np.random.default_rng(seed)
    fold_of = rng.permutation(len(y)) % LSCDE_FOLDS
    scores = np.zeros((len(LSCDE_WIDTHS), len(LSCDE_PENALTIES)))
    for fold in range(LSCDE_FOLDS):
        held = fold_of == fold
        X_fit, y_fit = X[~held], y[~held]
        # Centres come from the rows that are fitted, never from those held out.
        centers = rng.permutation(len(y_fit))[:LSCDE_CENTERS]
        for i, width in enumerate(LSCDE_WIDTHS):
            path = _lscde_path(X_fit, y_fit, centers, width, LSCDE_PENALTIES)
            for j, model in enumerate(path):
                log_p = model.log_density(X[held], y[held])
                scores[i, j] += _judged(log_p) * held.sum()
    best_width, best_penalty = np.unravel_index(np.argmax(scores), scores.shape)
    centers = rng.permutation(len(y))[:LSCDE_CENTERS]
    penalties = LSCDE_PENALTIES[[best_penalty]]
    return _lscde_path(X, y, centers, LSCDE_WIDTHS[best_width], penalties)[0]


METHODS = {
    "iid_normal": Method("one normal distribution for all x", fit_iid_normal),
    "ridge_normal": Method(
        "ridge regression, penalty and variance from leave-one-out residuals",
        fit_ridge_normal,
    ),
    "gaussian_process": Method(
        "scikit-learn, constant * RBF (one lengthscale a column) + white noise, "
        "marginal likelihood, 2 restarts",
        fit_gaussian_process,
    ),
    "ngboost": Method("normal, the package's defaults: 500 trees", fit_ngboost),
    "ngboost_stopped": Method(
        "normal, trees (at most 2000) by early stopping after 20 rounds on 20 % of "
        "the rows, refitted on all rows",
        fit_ngboost_stopped,
    ),
    "mixture_network": Method(
        "mixture density network, 3 normals, 10 tanh units beside a linear map, weight "
        "decay by 5-fold likelihood, average of 5",
        fit_mixture_network,
    ),
    "quantile_forest": Method(
        "leaf weights of 200 trees on training responses, smoothed by a Gaussian; "
        "its width and the smallest leaf (1, 5, 10, 20) by out-of-bag likelihood",
        fit_quantile_forest,
        can_vanish=True,
    ),
    "kernel_density": Method(
        "conditional kernel density, Gaussian kernels, one width a column by "
        "leave-one-out likelihood",
        fit_kernel_density,
        can_vanish=True,
    ),
    "lscde": Method(
        "least-squares conditional density (Sugiyama et al., 2010), 100 centres, "
        "width and penalty by 5-fold likelihood",
        fit_lscde,
        can_vanish=True,
    ),
}
