"""What Gaussian processes share, and their hyperparameters by posterior mode.

The covariance of the responses is

    K = σ_f² exp(−½ Σ_j (x_j − x'_j)²/ℓ_j²) + σ_l² x·x' + 0.01 + diag(σ_n² f),

with known noise factors f. The log marginal likelihood plus normal log priors is
maximised over θ = (log σ_f², log σ_l², log σ_n², log ℓ_1 … log ℓ_p) by L-BFGS. With
W = αα' − K⁻¹, α = K⁻¹y, its gradient is ½ Σ_ab W_ab ∂K_ab, and no term needs more than
products of an n × n with an n × p matrix: with S the first term of K, z = x/ℓ and
M = W∘S, ½ Σ_ab M_ab (z_aj − z_bj)² = Σ_a z_aj² (M1)_a − z_j'Mz_j.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from scipy.linalg import blas, lapack
from scipy.optimize import minimize

from kexpfam._parallel import single_threaded_blas
from kexpfam._typing import Array
from kexpfam.errors import IllConditionedError
from kexpfam.persistence import saved_fit
from kexpfam.regression.scaling import Scaling

# Variance of the constant: the responses are centred, so little of it is left.
CONSTANT_VARIANCE = 0.01

# Smallest noise, added to the modelled one, in squared deviations of y: above the
# rounding of Cholesky, far below any noise that is worth modelling.
SMALLEST_NOISE = 1e-8


@dataclass(frozen=True)
class GaussianProcessSpec:
    """How hyperparameters are searched, and what a process is conditioned on."""

    # Means and deviations of the normal priors of the logarithms, for standardised x
    # and y. Lengthscales grow with √p because distances do.
    variance_prior: tuple[float, float] = (math.log(0.5), 2.0)
    noise_prior: tuple[float, float] = (math.log(0.2), 1.5)
    lengthscale_prior: tuple[float, float] = (math.log(2.0), 1.0)
    # How far the logarithms may be from their prior means: up to where nothing changes
    # any more, and noise no smaller than what can be factorised.
    variance_reach: tuple[float, float] = (-9.0, 4.5)
    noise_reach: tuple[float, float] = (-12.0, 4.0)
    lengthscale_reach: tuple[float, float] = (-5.0, 5.0)
    enough_nats: float = 2e-3  # The search ends when a step gains less
    # Rows the hyperparameters are learned from: first few, to come near cheaply, then
    # as many as are worth their time. An iteration costs the cube of it.
    first_rows: int = 120
    most_rows: int = 400
    # Where a fit is longer anyway, a few iterations on more rows are worth their time:
    # 0.002 to 0.005 nats on 20,000 rows of ten columns, for a third of a second.
    last_rows: int = 1000
    last_iterations: int = 15
    # Rows that a process is conditioned on exactly, at most: the factorisation costs
    # their cube. Above, inducing points stand for them.
    most_exact_rows: int = 2000
    # Weights beyond these count as much as these: noise must stay finite and positive.
    smallest_weight: float = 1e-6
    largest_weight: float = 1e6
    # With noise whose width depends on x the second search starts at the first one's
    # result and has little left to do.
    refit_iterations: int = 10
    # Noise deviations of different rows differ by at most e^(2·4): the covariance must
    # remain one that can be factorised.
    largest_log_scale: float = 4.0
    # The unit of the mean, as a feature of the log scale, in deviations of the response
    # at least: a mean that hardly varies says nothing, and the second process has
    # another.
    least_mean_unit: float = 0.2
    # From so many rows on the variance of new rows is reduced in few directions, if
    # that is faster: those that explain each training row up to this share of its
    # noise. With 2,000 rows of five columns 162 did, and the error was at most 1.3e-8
    # of variance and noise at rows like these (with a third of the share 2e-9).
    reduced_rows: int = 1000
    reduced_tolerance: float = 3e-5
    # Their products are with covariances of as many rows as explain the others up to
    # this share: 771 of 2,000 rows where 162 directions do.
    interpolated_tolerance: float = 1e-10

    def prior(self, p: int) -> tuple[Array, Array, Array]:
        """Prior means and deviations of θ, (3 + p,) each, and bounds, (3 + p, 2)."""
        middle, width = self.lengthscale_prior
        length = (middle + 0.5 * math.log(max(p, 1)), width)
        variance = self.variance_prior
        mean, std = np.array([variance, variance, self.noise_prior, *[length] * p]).T
        reach = [self.variance_reach, self.variance_reach, self.noise_reach]
        return mean, std, mean[:, None] + [*reach, *[self.lengthscale_reach] * p]


PROCESS_SPEC = GaussianProcessSpec()


@saved_fit(
    {
        "signal_variance": "positive moderate",
        "linear_variance": "positive moderate",
        "noise_variance": "positive moderate",
        "lengthscales": "p positive moderate divisor",
    }
)
@dataclass(frozen=True, eq=False)
class Hyperparameters:
    """Hyperparameters in standard units of x and y."""

    signal_variance: float  # σ_f² of the nonlinear part
    linear_variance: float  # σ_l² of the coefficients of the linear part
    noise_variance: float  # σ_n² of a row with noise factor one
    lengthscales: Array  # ℓ of each column, (p,)

    @classmethod
    def from_logs(cls, theta: Array) -> "Hyperparameters":
        """The hyperparameters with logarithms θ, (3 + p,)."""
        values = np.exp(theta)
        signal, linear, noise = values[:3].tolist()
        return cls(signal, linear, noise, values[3:])

    def logs(self) -> Array:
        """Logarithms θ, (3 + p,)."""
        variances = [self.signal_variance, self.linear_variance, self.noise_variance]
        return np.log(np.append(variances, self.lengthscales))

    def noise(self, factors: Array) -> Array:
        """Noise variances of rows with noise factors f, (n,)."""
        return self.noise_variance * factors + SMALLEST_NOISE

    def prior_variance(self, X: Array) -> Array:
        """Variance of the latent function before any response is seen, (n,)."""
        constant = self.signal_variance + CONSTANT_VARIANCE
        return constant + self.linear_variance * np.einsum("ij,ij->i", X, X)


def signal_covariance(
    hyperparameters: Hyperparameters, A: Array, B: Array, out: Array | None = None
) -> Array:
    """S_ab = σ_f² exp(−½‖(a − b)/ℓ‖²), (len(A), len(B))."""
    U, V = A / hyperparameters.lengthscales, B / hyperparameters.lengthscales
    # −½‖u − v‖² + log σ_f² as one product of vectors with two columns more
    u2, v2 = np.einsum("ij,ij->i", U, U), np.einsum("ij,ij->i", V, V)
    shift = math.log(hyperparameters.signal_variance)
    left = np.column_stack([U, shift - 0.5 * u2, np.ones(len(U))])
    right = np.column_stack([V, np.ones(len(V)), -0.5 * v2])
    S = np.matmul(left, right.T, out=out)
    return np.exp(S, out=S)


def covariance(h: Hyperparameters, A: Array, B: Array) -> Array:
    """Covariance of the latent function, (len(A), len(B))."""
    K = signal_covariance(h, A, B)
    K += (h.linear_variance * A) @ B.T
    K += CONSTANT_VARIANCE
    return K


class NegativeLogPosterior:
    """Minus the log marginal likelihood and the log prior of θ, and its gradient.

    It owns the n × n buffers that every evaluation uses again.
    """

    def __init__(
        self,
        X: Array,  # Conditions in standard units, (n, p)
        y: Array,  # Responses in standard units, (n,)
        noise_factors: Array,  # f, positive, (n,)
        spec: GaussianProcessSpec = PROCESS_SPEC,
    ) -> None:
        n, p = X.shape
        self._X, self._y, self._factors = X, y, noise_factors
        self._mean, self._std, _ = spec.prior(p)
        self._linear = X @ X.T
        self._signal, self._matrix = np.empty((n, n)), np.empty((n, n))

    def __call__(self, theta: Array) -> tuple[float, Array]:
        """Value at θ, up to the constant of the prior, and gradient."""
        h = Hyperparameters.from_logs(theta)
        S = signal_covariance(h, self._X, self._X, out=self._signal)
        K = self._matrix
        np.multiply(self._linear, h.linear_variance, out=K)
        K += S
        K += CONSTANT_VARIANCE
        factor = factorise(K, h.noise(self._factors))
        alpha, _ = lapack.dpotrs(factor, self._y, lower=1)
        value = 0.5 * self._y @ alpha + np.log(factor.diagonal()).sum()
        value += 0.5 * len(S) * math.log(2.0 * math.pi)
        inverse, _ = lapack.dpotri(factor, lower=1, overwrite_c=1)
        # Only the lower triangle of `inverse` is defined; dsymm reads no other.
        minus_W = blas.dsyr(-1.0, alpha, a=inverse, lower=1, overwrite_a=1)
        off = (theta - self._mean) / self._std
        gradient = self._gradient(h, S, minus_W) + off / self._std
        return float(value + 0.5 * off @ off), gradient

    def _gradient(self, h: Hyperparameters, S: Array, minus_W: Array) -> Array:
        """−½ Σ_ab W_ab ∂K_ab for each logarithm, as the head of this file has it."""
        X = self._X
        by_noise = 0.5 * h.noise_variance * float(minus_W.diagonal() @ self._factors)
        product = blas.dsymm(1.0, minus_W, X, lower=1)
        by_linear = 0.5 * h.linear_variance * float(np.vdot(X, product))
        minus_W *= S.T
        Z = X / h.lengthscales
        columns = np.column_stack([Z, np.ones(len(Z))])
        product = blas.dsymm(1.0, minus_W, columns, lower=1)
        sums, rest = product[:, -1], product[:, :-1]
        by_signal = 0.5 * float(sums.sum())
        by_length = sums @ (Z * Z) - np.einsum("aj,aj->j", Z, rest)
        return np.append([by_signal, by_linear, by_noise], by_length)


def factorise(
    K: Array,  # Symmetric, C-contiguous, (n, n); destroyed
    noise: Array,  # Noise variances, (n,)
) -> Array:
    """Cholesky factor of K + diag(noise), in place, in the lower triangle only.

    Raises:
        IllConditionedError: The matrix is not positive definite or not finite.
    """
    n = len(K)
    K.flat[:: n + 1] += noise
    factor, info = lapack.dpotrf(K.T, lower=1, overwrite_a=1, clean=0)
    if info != 0 or not math.isfinite(float(factor.diagonal().sum())):
        raise IllConditionedError(
            f"The {n}x{n} covariance of a Gaussian process is not positive definite in "
            f"double precision; remove outliers of x or rescale it."
        )
    return factor


def maximise_log_posterior(
    X: Array,  # Conditions in standard units, (n, p)
    y: Array,  # Responses in standard units, (n,)
    noise_factors: Array,  # Known factors of the noise variances, (n,)
    start: Array,  # Where the search begins, (3 + p,)
    max_iterations: int,  # Iterations of L-BFGS at most
    spec: GaussianProcessSpec = PROCESS_SPEC,
) -> Array:
    """The θ of largest posterior density that L-BFGS finds from `start`."""
    _, _, bounds = spec.prior(X.shape[1])
    first = np.clip(start, *bounds.T)
    if max_iterations == 0:
        return first
    options = {
        "maxiter": max_iterations,
        "maxfun": 2 * max_iterations,
        "maxcor": 20,  # curvatures it remembers: parameters are few, so all of them
        # relative to the objective, which is of the order of n
        "ftol": spec.enough_nats / max(len(y), 1),
        "gtol": 0.01,
    }
    # On these sizes BLAS threads wait for each other longer than they work.
    with single_threaded_blas():
        found = minimize(
            NegativeLogPosterior(X, y, noise_factors, spec),
            first,
            jac=True,
            method="L-BFGS-B",
            bounds=bounds,
            options=options,
        )
    return np.clip(found.x, *bounds.T)


class Process(ABC):
    """A Gaussian process given its training rows, for predictions anywhere."""

    hyperparameters: Hyperparameters
    x_scaling: Scaling
    y_scaling: Scaling

    @property
    def lengthscales(self) -> Array:
        """Lengthscale of each column of x, in the units of x, (p,)."""
        return self.hyperparameters.lengthscales * self.x_scaling.scale

    @property
    def noise_variance(self) -> float:
        """Noise variance of a row of weight one, in squared units of y."""
        scale = float(self.y_scaling.scale[0])
        return self.hyperparameters.noise_variance * scale**2

    def predict(self, X: Array) -> tuple[Array, Array]:
        """Mean of the response and variance of that mean, without noise, (m,) each."""
        mean, variance = self.standard_predict(self.x_scaling.forward(X))
        center, scale = self.y_scaling.center[0], self.y_scaling.scale[0]
        return center + scale * mean, scale**2 * positive_variance(variance)

    def mean(self, X: Array) -> Array:
        """Mean of the response alone, (m,); its variance takes most of the time."""
        mean = self.standard_mean(self.x_scaling.forward(X))
        return self.y_scaling.center[0] + self.y_scaling.scale[0] * mean

    @abstractmethod
    def standard_predict(self, Z: Array) -> tuple[Array, Array]:
        """Mean and variance at conditions Z, (m, p), all in standard units."""

    @abstractmethod
    def standard_mean(self, Z: Array) -> Array:
        """The mean alone, likewise."""


def positive_variance(variance: Array) -> Array:
    """Latent variances that are not below a tiny share of the response's variance."""
    return np.maximum(variance, 1e-12)
