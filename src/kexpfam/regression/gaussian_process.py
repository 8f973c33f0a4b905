"""Gaussian process regression with leave-one-out predictions in closed form.

The prediction of row i from all other rows needs no other fit: with the covariance K of
the responses, noise included (Rasmussen & Williams 2006, section 5.4.2),

    μ_-i = y_i − [K⁻¹y]_i / [K⁻¹]_ii,    var_-i = 1 / [K⁻¹]_ii.

The hyperparameters are those of all rows; they are few, so that the row's own share in
them is small. On many rows they are learned from some of them, and the rest of the work
is one factorisation. On very many rows inducing points take over (`inducing_process`).

Noise whose width depends on x takes three steps: a process with constant noise; a log
scale of its leave-one-out residuals; the process again with noise variances
σ_n² exp(2 l_i). A row's held-out width uses the log scale that other rows give it, not
the one it took part in.
"""

import functools
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import blas, lapack

from kexpfam._parallel import single_threaded_blas
from kexpfam._typing import Array
from kexpfam.persistence import saved_fit
from kexpfam.regression.inducing_process import (
    choose_inducing_points,
    condition_on_sums,
    number_of_points,
)
from kexpfam.regression.log_scale import LogScale, fit_log_scale
from kexpfam.regression.process import (
    CONSTANT_VARIANCE,
    SMALLEST_VARIANCE,
    Hyperparameters,
    Process,
    factorise,
    maximise_log_posterior,
    prior_of,
    signal_covariance,
)
from kexpfam.regression.scaling import Scaling, scaling_of, usable_weights

# Rows the hyperparameters are learned from: first few, to come near cheaply, then as
# many as are worth their time. An iteration costs the cube of it.
_FIRST_ROWS = 120
_MOST_ROWS = 400

# Where a fit is longer anyway, a few iterations on more rows are worth their time:
# 0.002 to 0.005 nats on 20,000 rows of ten columns, for a third of a second.
_LAST_ROWS = 1000
_LAST_ITERATIONS = 15

# Rows that a process is conditioned on exactly: the factorisation costs their cube.
MOST_EXACT_ROWS = 2000

# Seed of the choice of those rows, fixed so that a fit depends on its data only.
_ROWS_SEED = 20180611

# Weights beyond these count as much as these: noise must stay finite and positive.
_SMALLEST_WEIGHT = 1e-6
_LARGEST_WEIGHT = 1e6

# Rows predicted together: their covariances with the training rows stay in memory.
_CHUNK_NUMBERS = 2**21


@saved_fit(
    {
        "X": "n p moderate",
        "coefficients": "n moderate",
        "noise": "n positive moderate",
        "hyperparameters": "p",
        "x_scaling": "p",
        "y_scaling": "p=1",
    },
    shared=True,
)
@dataclass(frozen=True, eq=False)
class GaussianProcess(Process):
    """A Gaussian process given its training rows, for predictions anywhere.

    Everything but the scalings is in standard units.
    """

    X: Array  # Training conditions, (n, p)
    coefficients: Array  # α = K⁻¹y, (n,)
    noise: Array  # Noise variance of each training row, (n,)
    hyperparameters: Hyperparameters  # Those of the covariance
    x_scaling: Scaling  # Standard units of x
    y_scaling: Scaling  # Standard units of y, one column

    def mean(self, X: Array) -> Array:
        means = [
            _covariance(self.hyperparameters, Z, self.X) @ self.coefficients
            for Z in self._chunks(X)
        ]
        return self.in_units(np.concatenate([*means, np.empty(0)]))

    def predict(
        self, X: Array, chunk_numbers: int = _CHUNK_NUMBERS
    ) -> tuple[Array, Array]:
        parts = [self._predict(Z) for Z in self._chunks(X, chunk_numbers)]
        mean, variance = np.concatenate([*parts, np.empty((2, 0))], axis=1)
        return self.in_units(mean), float(self.y_scaling.scale[0]) ** 2 * variance

    def _chunks(self, X: Array, chunk_numbers: int = _CHUNK_NUMBERS) -> list[Array]:
        Z = self.x_scaling.forward(X)
        height = max(1, chunk_numbers // max(len(self.X), 1))
        return [Z[start : start + height] for start in range(0, len(Z), height)]

    def _predict(self, Z: Array) -> tuple[Array, Array]:
        cross = _covariance(self.hyperparameters, Z, self.X)
        prior = self.hyperparameters.prior_variance(Z)
        mean = cross @ self.coefficients
        whitened = blas.dtrsm(1.0, self._factor, cross.T, lower=1, overwrite_b=1)
        variance = prior - np.einsum("ij,ij->j", whitened, whitened)
        return mean, np.maximum(variance, SMALLEST_VARIANCE)

    @functools.cached_property
    def _factor(self) -> Array:
        # Not kept by a file; found again when it is first needed.
        return _factor_of(self.hyperparameters, self.X, self.noise)


@dataclass(frozen=True, eq=False)
class GaussianProcessFit:
    """A fitted Gaussian process and its leave-one-out predictions."""

    process: Process  # For predictions at new conditions
    held_out_mean: Array  # Mean of each row given all others, in units of y, (n,)
    held_out_variance: Array  # Variance of that mean, without noise, (n,)


def fit_gaussian_process(
    X: Array,  # Conditions, (n, p)
    y: Array,  # Responses, (n,)
    *,
    weights: Array | None = None,  # Noise variances are divided by them, (n,)
    # Known part l of the log deviation of the noise, (n,); the noise variance is
    # multiplied by exp(2 l)
    log_scale: Array | None = None,
    start: Hyperparameters | None = None,  # Of the search; the prior's if None
    max_iterations: int = 40,  # Of the search at most; 0 takes `start` as it is
    most_exact_rows: int = MOST_EXACT_ROWS,  # Above, inducing points stand for rows
) -> GaussianProcessFit:
    """Fit a Gaussian process and predict every row from the others.

    Example:
        >>> import numpy as np
        >>> x = np.linspace(0, 6, 60)[:, None]
        >>> y = np.sin(x[:, 0]) + np.random.default_rng(0).normal(0, 0.1, 60)
        >>> fit = fit_gaussian_process(x, y)
        >>> mean, variance = fit.process.predict(np.array([[1.5]]))
        >>> mean.round(1), round(fit.process.noise_variance**0.5, 1)
        (array([1.]), 0.1)
    """
    n = len(y)
    weights = np.ones(n) if weights is None else usable_weights(weights)
    x_scaling = scaling_of("x", X, weights)
    y_scaling = scaling_of("y", y[:, None], weights)
    Z, u = x_scaling.forward(X), y_scaling.forward(y[:, None])[:, 0]
    factors = 1.0 / np.clip(weights, _SMALLEST_WEIGHT, _LARGEST_WEIGHT)
    if log_scale is not None:
        factors *= np.exp(2.0 * log_scale)
    many = n > most_exact_rows
    theta = _search(Z, u, factors, start, max_iterations, many=many)
    h = Hyperparameters.from_logs(theta)
    scalings = x_scaling, y_scaling
    if many:
        return _summed_up(Z, u, h.noise(factors), h, scalings)
    return _exact(Z, u, y, h.noise(factors), h, scalings)


def _exact(
    Z: Array,
    u: Array,
    y: Array,
    noise: Array,
    h: Hyperparameters,
    scalings: tuple[Scaling, Scaling],
) -> GaussianProcessFit:
    """The process given rows in standard units; y are the responses in their own."""
    factor = _factor_of(h, Z, noise)
    alpha, _ = lapack.dpotrs(factor, u, lower=1)
    process = GaussianProcess(Z, alpha, noise, h, *scalings)
    # Predictions will need the factor, so it is not computed twice.
    process.__dict__["_factor"] = factor
    inverse_diagonal = _inverse_diagonal(factor)
    scale = float(scalings[1].scale[0])
    mean = y - scale * alpha / inverse_diagonal
    latent = np.maximum(1.0 / inverse_diagonal - noise, SMALLEST_VARIANCE)
    return GaussianProcessFit(process, mean, scale**2 * latent)


def _summed_up(
    Z: Array,
    u: Array,
    noise: Array,
    h: Hyperparameters,
    scalings: tuple[Scaling, Scaling],
) -> GaussianProcessFit:
    """The process given rows in standard units, through inducing points."""
    inducing = choose_inducing_points(Z, h, number_of_points(len(u)))
    process, left_out = condition_on_sums(inducing, Z, u, noise, h, scalings)
    center, scale = float(scalings[1].center[0]), float(scalings[1].scale[0])
    mean = center + scale * left_out.mean
    return GaussianProcessFit(process, mean, scale**2 * left_out.variance)


def _factor_of(h: Hyperparameters, X: Array, noise: Array) -> Array:
    """Cholesky factor of the responses' covariance, to the same bits every time."""
    # With another number of threads BLAS rounds in another order, and a model would
    # not give the same numbers after it was saved and loaded.
    with single_threaded_blas():
        return factorise(_covariance(h, X, X), noise)


def _covariance(h: Hyperparameters, A: Array, B: Array) -> Array:
    """Covariance of the latent function, (len(A), len(B))."""
    K = signal_covariance(h, A, B)
    K += (h.linear_variance * A) @ B.T
    K += CONSTANT_VARIANCE
    return K


def _inverse_diagonal(factor: Array) -> Array:
    """Diagonal of (LL')⁻¹ from L: the sums of squares of the columns of L⁻¹."""
    inverse, info = lapack.dtrtri(factor, lower=1)
    assert info == 0
    n = len(factor)
    squares = np.empty(n)
    # The upper triangle is not defined; panels of columns skip most of it.
    for first in range(0, n, 64):
        last = min(first + 64, n)
        panel = inverse[first:, first:last]
        panel[: last - first] = np.tril(panel[: last - first])
        squares[first:last] = np.einsum("ij,ij->j", panel, panel)
    return squares


def _search(
    Z: Array,
    u: Array,
    factors: Array,
    start: Hyperparameters | None,
    max_iterations: int,
    *,
    many: bool,
) -> Array:
    """Logarithms of the hyperparameters, from few rows and then from more."""
    theta = prior_of(Z.shape[1])[0] if start is None else start.logs()
    n = len(u)
    order = np.random.default_rng(_ROWS_SEED).permutation(n)
    sizes = [min(n, _MOST_ROWS)]
    if start is None and sizes[0] > 2 * _FIRST_ROWS:
        sizes.insert(0, _FIRST_ROWS)
    stages = [(size, max_iterations) for size in sizes]
    if many and n > _MOST_ROWS:
        last = min(n, _LAST_ROWS), min(max_iterations, _LAST_ITERATIONS)
        stages = [*stages, last] if start is None else [last]
    for size, iterations in stages:
        rows = order[:size] if size < n else slice(None)
        theta = maximise_log_posterior(
            Z[rows], u[rows], factors[rows], theta, iterations
        )
    return theta


# The unit of the mean, as a feature of the log scale, in deviations of the response at
# least: a mean that hardly varies says nothing, and the second process has another.
_LEAST_MEAN_UNIT = 0.2


# The second search starts at the first one's result and has little left to do.
_REFIT_ITERATIONS = 10

# Noise deviations of different rows differ by at most e^(2·4): the covariance must
# remain one that can be factorised.
_LARGEST_LOG_SCALE = 4.0


@dataclass(frozen=True, eq=False)
class HeteroscedasticFit:
    """A Gaussian process with noise σ_n exp(l(x))."""

    fit: GaussianProcessFit  # The process and its leave-one-out predictions
    log_scale: LogScale  # l at any x
    held_out_log_scale: Array  # l of each row by models that have not seen it, (n,)


def fit_heteroscedastic(
    first: GaussianProcessFit,  # Fit of the same rows with constant noise
    X: Array,  # Conditions, (n, p)
    y: Array,  # Responses, (n,)
    weights: Array,  # Row weights, (n,)
    rng: np.random.Generator,  # Deals the folds of the log scale
) -> HeteroscedasticFit:
    """Continue from a process with constant noise.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> x = rng.uniform(-1, 1, size=(200, 1))
        >>> y = x[:, 0] + 0.3 * np.exp(x[:, 0]) * rng.normal(size=200)
        >>> first = fit_gaussian_process(x, y)
        >>> fit = fit_heteroscedastic(first, x, y, np.ones(200), rng)
        >>> points = np.array([[-0.5], [0.5]])
        >>> np.diff(fit.log_scale.at(points, points[:, 0])).round(0)
        array([1.])
    """
    variance = first.held_out_variance + first.process.noise_variance
    residuals = (y - first.held_out_mean) / np.sqrt(variance)
    # The mean as a function of x, not the one held out: that moves against the row's
    # own response, and a scale that follows it would know the residual in advance.
    mean = first.process.mean(X)
    unit = _LEAST_MEAN_UNIT * float(first.process.y_scaling.scale[0])
    scale = fit_log_scale(X, mean, residuals, weights, rng, least_mean_unit=unit)
    middle = float(np.average(scale.values, weights=weights))
    low, high = middle - _LARGEST_LOG_SCALE, middle + _LARGEST_LOG_SCALE
    model = replace(
        scale.model,
        lower=max(scale.model.lower, low),
        upper=min(scale.model.upper, high),
    )
    second = fit_gaussian_process(
        X,
        y,
        weights=weights,
        log_scale=np.clip(scale.values, low, high),
        start=first.process.hyperparameters,
        max_iterations=_REFIT_ITERATIONS,
    )
    return HeteroscedasticFit(second, model, np.clip(scale.held_out, low, high))
