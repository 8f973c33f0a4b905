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

The variance at a new x, prior(x) − ‖L⁻¹k(x)‖² with K = LL', takes n² operations. But
the vectors k(x) of covariances with the training rows lie almost in a space of few
dimensions r, that of some columns of K, which pivoted Cholesky finds. With orthonormal
columns Q of L⁻¹ times such a basis,

    var(x) ≈ prior(x) − ‖D k(x)‖²,    D = Q'L⁻¹, (r, n),

is never too small. Let R be what these columns leave of the training rows' covariance
in units of their noise, and e(x) what they leave of the variance at x. What is
missing is at most e(x) ‖R‖, and var(x) ≥ e(x)/(1 + ‖R‖) even if all else is known, so
that the relative error is below ‖R‖ (1 + ‖R‖) anywhere. Near the data e(x) is as small
as R, and the error of the order of its square.

D k(x) needs no covariance with most rows: with more of these columns, up to where they
explain all rows but for 1e-10 of their noise, k(x) is found from its values at their
rows P, k(x) ≈ B k_P(x), and D B has a third of the columns. With these the variance
may be too small, by less than 1e-7 of itself and the noise wherever it was looked at.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import blas, lapack

from kexpfam._parallel import cached_property, single_threaded_blas
from kexpfam._typing import Array, Indices
from kexpfam.persistence import saved_fit
from kexpfam.regression.inducing_process import (
    InducingProcess,
    condition_on_sums,
    feature_means,
)
from kexpfam.regression.log_scale import LogScale, fit_log_scale
from kexpfam.regression.process import (
    CONSTANT_VARIANCE,
    PROCESS_SPEC,
    GaussianProcessSpec,
    Hyperparameters,
    Process,
    covariance,
    factorise,
    maximise_log_posterior,
    positive_variance,
)
from kexpfam.regression.scaling import Scaling, scaling_of, usable_weights
from kexpfam.regression.starts import best_start


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

    def standard_predict(
        self,
        Z: Array,
        chunk_numbers: int = 2**21,  # Covariances with training rows held in memory
    ) -> tuple[Array, Array]:
        if self._reduced is not None:
            return self._reduced.standard_predict(Z)
        h = self.hyperparameters
        mean, variance = np.empty(len(Z)), h.prior_variance(Z)
        height = max(1, chunk_numbers // max(len(self.X), 1))
        for start in range(0, len(Z), height):
            rows = slice(start, start + height)
            cross = covariance(h, Z[rows], self.X)
            mean[rows] = cross @ self.coefficients
            whitened = blas.dtrsm(1.0, self._factor, cross.T, lower=1, overwrite_b=1)
            variance[rows] -= np.einsum("ij,ij->j", whitened, whitened)
        return mean, variance

    def standard_mean(self, Z: Array) -> Array:
        return feature_means(self.hyperparameters, self.X, self._feature_weights, Z)

    @cached_property
    def _feature_weights(self) -> Array:
        """Coefficients of s(x, x_1) … s(x, x_n), x and 1 in the mean, (n + p + 1,)."""
        linear = self.hyperparameters.linear_variance * (self.coefficients @ self.X)
        constant = CONSTANT_VARIANCE * self.coefficients.sum()
        return np.concatenate([self.coefficients, linear, [constant]])

    @cached_property
    def _reduced(self) -> InducingProcess | None:
        """The process with its variance in few directions; None if these are many."""
        n = len(self.X)
        if n < PROCESS_SPEC.reduced_rows:
            return None
        h = self.hyperparameters
        with single_threaded_blas():
            found = _directions(h, self.X, self.noise, self._factor, PROCESS_SPEC)
            if found is None:
                return None
            D, points = found
            # D k(x) as a product with the features of `inducing_process`.
            linear = h.linear_variance * (D @ self.X[points])
            constant = CONSTANT_VARIANCE * D.sum(axis=1, keepdims=True)
            D = np.concatenate([D, linear, constant], axis=1)
            # A rotation changes no norm, and leaves zeros that need no products.
            directions = np.ascontiguousarray(np.linalg.qr(D, mode="r"))
        # Features of the mean first, and last those that the variance needs, too.
        order = np.append(np.delete(np.arange(n), points), points)
        weights = np.append(self.coefficients[order], self._feature_weights[n:])
        scalings = self.x_scaling, self.y_scaling
        return InducingProcess(self.X[order], weights, directions, h, *scalings)

    @cached_property
    def _factor(self) -> Array:
        # Not kept by a file; found again when it is first needed.
        return _factor_of(self.hyperparameters, self.X, self.noise)


@dataclass(frozen=True, eq=False)
class GaussianProcessFit:
    """A fitted Gaussian process and its leave-one-out predictions."""

    process: Process  # For predictions at new conditions
    fitted_mean: Array  # Mean at the training rows given all of them, (n,)
    held_out_mean: Array  # Mean of each row given all others, in units of y, (n,)
    held_out_variance: Array  # Variance of that mean, without noise, (n,)
    # Log scale l of each row's noise by models that have not seen it, (n,)
    held_out_log_scale: Array
    log_scale: LogScale | None = None  # l at any x; None for constant noise

    @property
    def response_variance(self) -> Array:
        """Variance of each row's response, noise of weight one included, (n,)."""
        noise = self.process.noise_variance * np.exp(2.0 * self.held_out_log_scale)
        return self.held_out_variance + noise


def fit_gaussian_process(
    X: Array,  # Conditions, (n, p)
    y: Array,  # Responses, (n,)
    *,
    weights: Array | None = None,  # Noise variances are divided by them, (n,)
    # Known part l of the log deviation of the noise, (n,); the noise variance is
    # multiplied by exp(2 l)
    log_scale: Array | None = None,
    # Of the search; if None the prior's, and others where that explains little
    start: Hyperparameters | None = None,
    # Optima of similar data, that take the place of these others
    similar: Sequence[Hyperparameters] = (),
    max_iterations: int = 40,  # Of each search at most; 0 takes `start` as it is
    spec: GaussianProcessSpec = PROCESS_SPEC,
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
    Z, u, factors, of_x, of_y = _standard_rows(X, y, weights, log_scale, spec)
    h = _search(Z, u, factors, start, similar, max_iterations, spec)
    noise, n = h.noise(factors), len(y)
    if n > spec.most_exact_rows:
        found = condition_on_sums(Z, u, noise, h, of_x, of_y)
    else:
        found = _condition_exactly(Z, u, noise, h, of_x, of_y, y)
    return GaussianProcessFit(*found, held_out_log_scale=np.zeros(n))


def process_given(
    X: Array,  # Conditions, (n, p)
    y: Array,  # Responses, (n,)
    weights: Array,  # Noise variances are divided by them, (n,)
    hyperparameters: Hyperparameters,  # In standard units of these rows
    spec: GaussianProcessSpec = PROCESS_SPEC,
) -> Process:
    """The process alone, which takes half the time: no row is predicted from others."""
    Z, u, factors, of_x, of_y = _standard_rows(X, y, weights, None, spec)
    h = _search(Z, u, factors, hyperparameters, (), 0, spec)
    if len(y) > spec.most_exact_rows:
        return condition_on_sums(Z, u, h.noise(factors), h, of_x, of_y)[0]
    return _process(Z, u, h.noise(factors), h, of_x, of_y)


def _standard_rows(
    X: Array,
    y: Array,
    weights: Array | None,
    log_scale: Array | None,
    spec: GaussianProcessSpec,
) -> tuple[Array, Array, Array, Scaling, Scaling]:
    """Rows in standard units, factors of their noise variances, and both scalings."""
    weights = np.ones(len(y)) if weights is None else usable_weights(weights)
    x_scaling = scaling_of("x", X, weights)
    y_scaling = scaling_of("y", y[:, None], weights)
    Z, u = x_scaling.forward(X), y_scaling.forward(y[:, None])[:, 0]
    factors = 1.0 / np.clip(weights, spec.smallest_weight, spec.largest_weight)
    if log_scale is not None:
        factors *= np.exp(2.0 * log_scale)
    return Z, u, factors, x_scaling, y_scaling


def _search(
    Z: Array,
    u: Array,
    factors: Array,
    start: Hyperparameters | None,
    similar: Sequence[Hyperparameters],
    max_iterations: int,
    spec: GaussianProcessSpec,
) -> Hyperparameters:
    """Hyperparameters from few rows, and then from more, and from the best start."""
    theta = spec.prior(Z.shape[1])[0] if start is None else start.logs()
    n = len(u)
    # Seeded, so that a fit depends on its data only.
    order = np.random.default_rng(20180611).permutation(n)
    most = min(n, spec.most_rows)
    stages = [(most, max_iterations)]
    if start is None and most > 2 * spec.first_rows:
        stages.insert(0, (spec.first_rows, max_iterations))
    if n > max(spec.most_exact_rows, spec.most_rows):
        last = min(n, spec.last_rows), min(max_iterations, spec.last_iterations)
        stages = [*stages, last] if start is None else [last]
    for size, iterations in stages:
        rows = order[:size] if size < n else slice(None)
        some = Z[rows], u[rows], factors[rows]
        theta = maximise_log_posterior(*some, theta, iterations, spec)
        if size == most and start is None and max_iterations > 0:
            optima = [h.logs() for h in similar]
            mixed = Z[order], u[order], factors[order]
            theta = best_start(some, mixed, theta, optima, max_iterations, spec)
    return Hyperparameters.from_logs(theta)


def _process(
    Z: Array,  # Conditions in standard units, (n, p)
    u: Array,  # Responses in standard units, (n,)
    noise: Array,  # Noise variance of each row, positive, (n,)
    h: Hyperparameters,
    x_scaling: Scaling,
    y_scaling: Scaling,
) -> GaussianProcess:
    factor = _factor_of(h, Z, noise)
    alpha, _ = lapack.dpotrs(factor, u, lower=1)
    process = GaussianProcess(Z, alpha, noise, h, x_scaling, y_scaling)
    # Predictions will need the factor, so it is not computed twice.
    process.__dict__["_factor"] = factor
    return process


def _condition_exactly(
    Z: Array,
    u: Array,
    noise: Array,
    h: Hyperparameters,
    x_scaling: Scaling,
    y_scaling: Scaling,
    y: Array,  # Responses in their own units, (n,)
) -> tuple[Process, Array, Array, Array]:
    """The process, its mean at the rows, and leave-one-out means and variances."""
    process = _process(Z, u, noise, h, x_scaling, y_scaling)
    alpha = process.coefficients
    # [K⁻¹]_ii are the sums of squares of the columns of L⁻¹.
    inverse, info = lapack.dtrtri(process._factor, lower=1)
    assert info == 0
    precision = np.empty(len(u))
    # The upper triangle is not defined; blocks of columns skip most of it.
    for first in range(0, len(u), 64):
        last = min(first + 64, len(u))
        block = inverse[first:, first:last]
        block[: last - first] = np.tril(block[: last - first])
        precision[first:last] = np.einsum("ij,ij->j", block, block)
    center, scale = float(y_scaling.center[0]), float(y_scaling.scale[0])
    return (
        process,
        center + scale * (covariance(h, Z, Z) @ alpha),
        y - scale * alpha / precision,
        scale**2 * positive_variance(1.0 / precision - noise),
    )


def _factor_of(h: Hyperparameters, X: Array, noise: Array) -> Array:
    """Cholesky factor of the responses' covariance, to the same bits every time."""
    # With another number of threads BLAS rounds in another order, and a model would
    # not give the same numbers after it was saved and loaded.
    with single_threaded_blas():
        return factorise(covariance(h, X, X), noise)


def _directions(
    h: Hyperparameters,
    X: Array,  # Training conditions in standard units, (n, p)
    noise: Array,  # Noise variance of each row, (n,)
    factor: Array,  # L of the responses' covariance, (n, n)
    spec: GaussianProcessSpec,
) -> tuple[Array, Indices] | None:
    """D of the head of this file, (r, m), and its m rows; None if these are many."""
    std = np.sqrt(noise)
    K = covariance(h, X, X)
    K /= std
    K /= std[:, None]
    columns, pivots, most, _ = lapack.dpstrf(
        K.T, tol=spec.interpolated_tolerance, lower=1, overwrite_a=1
    )
    # Squares of the diagonal are what the columns before leave unexplained at most.
    left = columns.diagonal()[:most] ** 2
    rank = int(np.searchsorted(-left, -spec.reduced_tolerance))
    if 3 * rank > len(X):
        return None
    basis = np.empty((len(X), most))
    basis[pivots - 1] = np.tril(columns[:, :most])
    basis *= std[:, None]
    some = np.asfortranarray(basis[:, :rank])
    Q, _ = np.linalg.qr(blas.dtrsm(1.0, factor, some, lower=1))
    D = blas.dtrsm(1.0, factor, Q, lower=1, trans_a=1).T
    # k(x) ≈ B B_P⁻¹ k_P(x) with the factor B of all rows and B_P of the points
    points = pivots[:most] - 1
    square = np.asfortranarray(basis[points])
    D = blas.dtrsm(1.0, square, np.asfortranarray(D @ basis), side=1, lower=1)
    return D, points


def fit_heteroscedastic(
    first: GaussianProcessFit,  # Fit of the same rows with constant noise
    X: Array,  # Conditions, (n, p)
    y: Array,  # Responses, (n,)
    weights: Array,  # Row weights, (n,)
    rng: np.random.Generator,  # Deals the folds of the log scale
    spec: GaussianProcessSpec = PROCESS_SPEC,
) -> GaussianProcessFit:
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
    residuals = (y - first.held_out_mean) / np.sqrt(first.response_variance)
    # The mean as a function of x, not the one held out: that moves against the row's
    # own response, and a scale that follows it would know the residual in advance.
    unit = spec.least_mean_unit * float(first.process.y_scaling.scale[0])
    scale = fit_log_scale(
        X, first.fitted_mean, residuals, weights, rng, least_mean_unit=unit
    )
    middle = float(np.average(scale.values, weights=weights))
    low, high = middle - spec.largest_log_scale, middle + spec.largest_log_scale
    second = fit_gaussian_process(
        X,
        y,
        weights=weights,
        log_scale=np.clip(scale.values, low, high),
        start=first.process.hyperparameters,
        max_iterations=spec.refit_iterations,
        spec=spec,
    )
    return replace(
        second,
        held_out_log_scale=np.clip(scale.held_out, low, high),
        log_scale=replace(
            scale.model,
            lower=max(scale.model.lower, low),
            upper=min(scale.model.upper, high),
        ),
    )
