"""Mass functions of counts given x: Poisson and negative binomial regressions.

The mean is log-linear in x, or in x and its squares, or what a forest says; the
variance is μ + α μ², with α = 0 for a Poisson law. All are validated on rows that they
have not seen, and are plain arrays that go to files.
"""

from dataclasses import dataclass

import numpy as np
from scipy import optimize, special

from kexpfam._typing import Array
from kexpfam.persistence import saved_fit
from kexpfam.regression import Scaling, power_features, scaling_of
from kexpfam.selection.spec import COUNTS, CountsSpec
from kexpfam.summaries import FOLDS, fold_of_rows
from kexpfam.trees import Forest, fit_forest


@saved_fit({"scaling": "p", "coefficients": "q", "degree": "positive"})
@dataclass(frozen=True, eq=False)
class LogLinearMean:
    """μ(x) = exp(f(x) b) with features of standardised x."""

    scaling: Scaling
    coefficients: Array  # b, (1 + degree · p,)
    degree: int

    def check_saved(self) -> None:
        """Refuse coefficients of other features."""
        columns = 1 + self.degree * len(self.scaling.center)
        if self.degree not in (1, 2) or len(self.coefficients) != columns:
            raise ValueError("array coefficients is not of these features")

    def predict(self, X: Array) -> Array:
        """Means at conditions X (n, p), (n,)."""
        features = power_features(self.scaling, X, self.degree)
        return np.exp(np.clip(features @ self.coefficients, -20.0, 20.0))


@saved_fit({"dispersion": "nonnegative"})
@dataclass(frozen=True, eq=False)
class CountRegression:
    """A Poisson or negative binomial law around a mean."""

    mean: LogLinearMean | Forest
    dispersion: float  # α

    @property
    def p(self) -> int:
        """Columns of x."""
        if isinstance(self.mean, LogLinearMean):
            return len(self.mean.scaling.center)
        return self.mean.n_features

    def means(self, X: Array) -> Array:
        """μ(x), positive, (n,)."""
        found = self.mean.predict(X)
        return np.maximum(found if found.ndim == 1 else found[:, 0], 1e-3)

    def log_pmf(self, X: Array, k: Array) -> Array:
        """Log probabilities of counts (m,) at conditions X (n, p), (n, m)."""
        return count_log_pmf(k[None], self.means(X)[:, None], self.dispersion)


def count_log_pmf(k: Array, mean: Array, dispersion: float) -> Array:
    """Log probabilities of counts, of shapes that fit together.

    Example:
        >>> float(np.exp(count_log_pmf(np.array(0.0), np.array(2.0), 0.0)).round(4))
        0.1353
        >>> float(np.exp(count_log_pmf(np.array(0.0), np.array(2.0), 0.5)).round(4))
        0.25
    """
    if dispersion < 1e-6:
        return k * np.log(mean) - mean - special.gammaln(k + 1.0)
    r = 1.0 / dispersion
    choose = special.gammaln(k + r) - special.gammaln(r) - special.gammaln(k + 1.0)
    return choose - r * np.log1p(mean / r) + k * (np.log(mean) - np.log(r + mean))


def fit_counts(
    X: Array,
    y: Array,
    weights: Array,
    rng: np.random.Generator,
    spec: CountsSpec = COUNTS,
) -> tuple[list[CountRegression], Array]:
    """Regressions of counts, and held-out log probabilities of the rows, (m, n).

    Args:
        X: Conditions, (n, p).
        y: Counts, (n,).
        weights: Row weights, positive, (n,).
        rng: Draws the rows of trees.
        spec: What is tried.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> X = rng.uniform(-1, 1, size=(200, 1))
        >>> found, log_p = fit_counts(X, 1.0 * rng.poisson(4.0, 200), np.ones(200), rng)
        >>> found[0].means(np.zeros((1, 1))).round()
        array([4.])
    """
    folds, found, log_p = fold_of_rows(len(X)), [], []
    for degree in (1, 2):
        own = np.empty((2, len(X)))
        for k in range(FOLDS):
            out = folds == k
            for j, fit in enumerate(
                _pair(X[~out], y[~out], weights[~out], degree, spec)
            ):
                mean = fit.means(X[out])
                own[j, out] = count_log_pmf(y[out], mean, fit.dispersion)
        found += _pair(X, y, weights, degree, spec)
        log_p += list(own)
    if X.shape[1] and len(X) >= spec.forest_rows:
        grown = fit_forest(
            X,
            y[:, None],
            weights,
            rng,
            trees=spec.trees,
            min_leaf=spec.leaf,
            groups=folds,
        )
        mean = np.maximum(grown.held_out[:, 0], 1e-3)
        for alpha in (0.0, _dispersion(y, mean, weights)):
            found.append(CountRegression(grown.forest, alpha))
            log_p.append(count_log_pmf(y, mean, alpha))
    return found, np.stack(log_p)


def _pair(
    X: Array, y: Array, weights: Array, degree: int, spec: CountsSpec
) -> list[CountRegression]:
    """Poisson, and negative binomial with its own coefficients."""
    scaling = scaling_of("X", X, weights)
    features = power_features(scaling, X, degree)
    b = _coefficients(features, y, weights, 0.0, spec)
    poisson = CountRegression(LogLinearMean(scaling, b, degree), 0.0)
    alpha = _dispersion(y, poisson.means(X), weights)
    if alpha < 1e-6:
        return [poisson, poisson]
    b = _coefficients(features, y, weights, alpha, spec)
    mean = LogLinearMean(scaling, b, degree)
    alpha = _dispersion(y, np.maximum(mean.predict(X), 1e-3), weights)
    return [poisson, CountRegression(mean, alpha)]


def _coefficients(
    features: Array, y: Array, weights: Array, alpha: float, spec: CountsSpec
) -> Array:
    """B of the largest penalised likelihood with a given dispersion."""
    share = weights / weights.sum()

    def loss(b: Array) -> tuple[float, Array]:
        eta = np.clip(features @ b, -20.0, 20.0)
        mu = np.exp(eta)
        if alpha:
            value = (y + 1.0 / alpha) * np.log1p(alpha * mu) - y * eta
        else:
            value = mu - y * eta
        slope = features.T @ (share * (mu - y) / (1.0 + alpha * mu))
        ridge = spec.ridge * b
        ridge[0] = 0.0
        return float(share @ value) + 0.5 * float(ridge @ b), slope + ridge

    start = np.zeros(features.shape[1])
    start[0] = np.log(max(float(share @ y), 1e-3))
    found = optimize.minimize(
        loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 300}
    )
    return np.asarray(found.x)


def _dispersion(y: Array, mean: Array, weights: Array) -> float:
    """α of the largest likelihood around known means."""

    def loss(log_alpha: float) -> float:
        return -float(count_log_pmf(y, mean, float(np.exp(log_alpha))) @ weights)

    found = optimize.minimize_scalar(loss, bounds=(-9.0, 4.0), method="bounded")
    poisson = -float(count_log_pmf(y, mean, 0.0) @ weights)
    return float(np.exp(found.x)) if found.fun < poisson else 0.0


def table_of_counts(
    y: Array, lower: float, upper: float, spec: CountsSpec = COUNTS
) -> Array:
    """The whole numbers that a mass function is about, increasing, (k,)."""
    low, high = float(y.min()), float(y.max())
    reach = spec.times_range * (high - min(low, 0.0)) + spec.more
    first = 0.0 if low >= 0 else low - reach
    first = max(first, np.ceil(lower)) if np.isfinite(lower) else first
    last = min(high + reach, np.floor(upper)) if np.isfinite(upper) else high + reach
    if not last - first < spec.most_values:
        raise ValueError(
            f"counts are for whole numbers of a moderate size, and y has values from "
            f"{low:g} to {high:g}, so that {last - first:.3g} numbers would have a "
            f"probability each; use counts=False, or upper=."
        )
    return np.arange(first, last + 1.0)
