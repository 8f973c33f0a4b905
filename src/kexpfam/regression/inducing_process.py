"""Gaussian process regression on many rows, through inducing points.

With inducing points z_1 … z_m and s the nonlinear part of the covariance, the latent
function at x is approximated by the features

    ψ(x) = (s(x, z_1) … s(x, z_m), x_1 … x_p, 1),    φ(x) = W⁻¹ψ(x),

whose coefficients have independent standard normal priors: W is block diagonal, with
the Cholesky factor of the points' covariance, 1/σ_l and 10. The linear part and the
constant are exact, so that points are not spent on them. What the points do not
explain, ρ(x) = σ_f² − ‖φ_1…m(x)‖², counts as noise of the row (FITC, Snelson &
Ghahramani 2006): ν_a = noise_a + ρ(x_a). All rows enter through two sums,

    A = I + Σ_a φ_a φ_a'/ν_a,    b = Σ_a φ_a y_a/ν_a,

and predictions are μ(x) = φ'A⁻¹b with variance ρ + φ'A⁻¹φ. A row is left out in closed
form: with its leverage h_i = φ_i'A⁻¹φ_i/ν_i,

    μ_-i = y_i − (y_i − μ_i)/(1 − h_i),    var_-i = ρ_i + ν_i h_i/(1 − h_i).

Inducing points are training rows that explain the covariance of the others. Pivoted
Cholesky takes the row next that the rows taken so far explain least (greedily the
largest conditional variance). It sees some of the rows only, and responses not at all,
so that predictions of held-out rows stay honest.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.linalg import blas, lapack

from kexpfam._linalg import (
    PANEL_BYTES,
    RIDGE_FLOOR,
    Empty,
    block_height,
    for_each_row_block,
)
from kexpfam._parallel import single_threaded_blas
from kexpfam._typing import Array
from kexpfam.persistence import saved_fit
from kexpfam.regression.process import (
    CONSTANT_VARIANCE,
    SMALLEST_VARIANCE,
    Hyperparameters,
    Process,
    factorise,
    signal_covariance,
)
from kexpfam.regression.scaling import Scaling

# Rows among which points are chosen: the factorisation costs a third of its cube.
_MOST_CANDIDATES = 2000

# Seed of their choice, fixed so that a fit depends on its data only.
_CANDIDATES_SEED = 20180612

# Points with less conditional variance than this share are duplicates of others, up to
# what can be factorised together with them.
_SMALLEST_SHARE = 1e-7

# No more points are taken when the variance that they leave unexplained, on average, is
# less than that of a mean of the data with this many free coefficients, or than this
# share of the noise, which costs less than 0.0001 nats.
_COEFFICIENTS = 3.0
_UNEXPLAINED_SHARE = 1e-4

# Points at most: conditioning costs 3nm² operations and predicting up to m² a row, so
# that smooth functions, which need few points, are fast, and rough ones get all they
# can in a few seconds.
_MOST_POINTS = 1500
_OPERATIONS = 3e10
_POINTS_AT_ANY_PRICE = 800


def number_of_points(n: int) -> int:
    """Inducing points for n rows, at most."""
    affordable = math.sqrt(_OPERATIONS / max(n, 1))
    return int(min(max(affordable, _POINTS_AT_ANY_PRICE), _MOST_POINTS))


def choose_inducing_points(
    Z: Array,  # Conditions in standard units, (n, p)
    h: Hyperparameters,  # The noise says when more points would not show
    n_points: int,  # Points at most
    most_candidates: int = _MOST_CANDIDATES,
) -> Array:
    """Rows that explain the others, most important first, (m, p)."""
    n = len(Z)
    if n > most_candidates:
        rng = np.random.default_rng(_CANDIDATES_SEED)
        Z = Z[np.sort(rng.permutation(n)[:most_candidates])]
    with single_threaded_blas():
        K = signal_covariance(h, Z, Z)
        # Without the rounding that would decide where to begin.
        np.fill_diagonal(K, h.signal_variance)
        tolerance = _SMALLEST_SHARE * h.signal_variance
        factor, pivots, rank, _ = lapack.dpstrf(
            K.T, tol=tolerance, lower=1, overwrite_a=1
        )
    # Column j of the factor holds what point j explains of each row.
    explained = np.cumsum([_squares(factor, j) for j in range(min(rank, n_points))])
    left = h.signal_variance - explained / len(Z)
    enough = left <= max(_COEFFICIENTS / n, _UNEXPLAINED_SHARE) * h.noise_variance
    count = int(np.argmax(enough)) + 1 if enough.any() else len(left)
    return Z[pivots[:count] - 1]


def _squares(factor: Array, j: int) -> float:
    column = factor[j:, j]
    return float(column @ column)


# Sums over rows are made in so many parts, each in the order of its rows, so that the
# number of threads and their pace do not change a bit of the result.
_PARTS = 8

# The variance of new rows is reduced in so many directions that the others add, on
# average over the rows, no more than this share of the noise, or of the variance
# itself: 150 for smooth functions and nearly all for rough ones, where a fixed number
# made variances five times too large.
_SHARE_OF_NOISE = 1e-3
_SHARE_OF_VARIANCE = 0.1

# Directions that are multiplied together.
_BAND = 128

# Directions that are reduced by less than this share are left alone: their inverse
# would be rounding errors.
_SMALLEST_REDUCTION = 1e-10

# 1 − h is not smaller, for rows that nothing but rounding distinguishes from 1.
_SMALLEST_COMPLEMENT = 1e-10


@saved_fit(
    {
        "inducing": "m p moderate",
        "coefficients": "m+p+1 moderate",
        "directions": "r m+p+1 moderate",
        "hyperparameters": "p",
        "x_scaling": "p",
        "y_scaling": "p=1",
    },
    shared=True,
)
@dataclass(frozen=True, eq=False)
class InducingProcess(Process):
    """A Gaussian process that has many training rows summed up in a few features.

    Everything but the scalings is in standard units. The variance of a new row is
    reduced in some directions D of the features only, which makes it cheap and never
    too small: var(x) = prior(x) − ‖Dψ(x)‖².
    """

    inducing: Array  # Inducing points, (m, p)
    coefficients: Array  # Of the features ψ in the mean, (m + p + 1,)
    directions: Array  # D, zero below its diagonal, (r, m + p + 1)
    hyperparameters: Hyperparameters  # Those of the covariance
    x_scaling: Scaling  # Standard units of x
    y_scaling: Scaling  # Standard units of y, one column

    @classmethod
    def before_directions(
        cls,
        inducing: Array,
        coefficients: Array,
        reduction: "Reduction",
        hyperparameters: Hyperparameters,
        scalings: tuple[Scaling, Scaling],
    ) -> "InducingProcess":
        """A process whose directions are found when a variance is first asked for.

        That takes as long as all else here, and most processes of a contest are never
        asked.
        """
        process = object.__new__(cls)
        known = {
            "inducing": inducing,
            "coefficients": coefficients,
            "hyperparameters": hyperparameters,
            "x_scaling": scalings[0],
            "y_scaling": scalings[1],
            "_reduction": reduction,
        }
        vars(process).update(known)
        return process

    def __getattr__(self, name: str) -> Array:
        # Called for attributes that are not there (yet) only.
        reduction = vars(self).get("_reduction")
        if name != "directions" or reduction is None:
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        # Two threads may both get here: they find the same.
        found: Array = reduction.directions(self.hyperparameters)
        vars(self)["directions"] = found
        return found

    def mean(self, X: Array) -> Array:
        Z = self.x_scaling.forward(X)
        mean = np.empty(len(Z))

        def work(rows: slice, empty: Empty) -> None:
            psi = _features(self.hyperparameters, self.inducing, Z[rows], empty)
            np.matmul(psi, self.coefficients, out=mean[rows])

        for_each_row_block(len(Z), len(self.coefficients), work)
        return self.in_units(mean)

    def predict(self, X: Array) -> tuple[Array, Array]:
        Z = self.x_scaling.forward(X)
        h = self.hyperparameters
        mean, reduction = np.empty(len(Z)), np.empty(len(Z))
        directions = self.directions  # before threads start: found once

        def work(rows: slice, empty: Empty) -> None:
            psi = _features(h, self.inducing, Z[rows], empty)
            np.matmul(psi, self.coefficients, out=mean[rows])
            reduction[rows] = _squared_norms(directions, psi, empty)

        for_each_row_block(len(Z), len(self.coefficients), work)
        variance = np.maximum(h.prior_variance(Z) - reduction, SMALLEST_VARIANCE)
        scale = float(self.y_scaling.scale[0])
        return self.in_units(mean), scale**2 * variance


@dataclass(frozen=True, eq=False)
class LeftOut:
    """Predictions of each row from the others, in standard units, (n,) each."""

    mean: Array
    variance: Array


def condition_on_sums(
    inducing: Array,  # Inducing points in standard units, (m, p)
    Z: Array,  # Conditions in standard units, (n, p)
    u: Array,  # Responses in standard units, (n,)
    noise: Array,  # Noise variance of each row, positive, (n,)
    hyperparameters: Hyperparameters,  # Those of the covariance
    scalings: tuple[Scaling, Scaling],  # Standard units of x and of y
) -> tuple[InducingProcess, LeftOut]:
    """The process given all rows, and the prediction of each row from the others.

    Raises:
        IllConditionedError: The sums are not finite.
    """
    h = hyperparameters
    W = _prior_factor(h, inducing)
    A, b, unexplained = _sums(h, inducing, W, Z, u, noise)
    total = noise + unexplained
    with single_threaded_blas():
        # Rounding of A is about eps·tr A, and must not exceed the prior's share of it.
        ridge = max(1.0, RIDGE_FLOOR * float(np.trace(A)))
        R = factorise(A.T.copy(), np.full(len(A), ridge))
        weights, _ = lapack.dpotrs(R, b, lower=1)
        coefficients = blas.dtrsv(W, weights, lower=1, trans=1)
        joint = blas.dtrmm(1.0, W, np.tril(R), lower=1)
    reduction = Reduction(A, ridge, W, len(u))
    process = InducingProcess.before_directions(
        inducing, coefficients, reduction, h, scalings
    )
    return process, _left_out(process, joint, Z, u, total, unexplained)


def _features(h: Hyperparameters, inducing: Array, Z: Array, empty: Empty) -> Array:
    """ψ of each row, (n, m + p + 1), C-contiguous."""
    m, p = inducing.shape
    psi = empty((len(Z), m + p + 1))
    signal_covariance(h, Z, inducing, out=psi[:, :m])
    psi[:, m:-1] = Z
    psi[:, -1] = 1.0
    return psi


def _squared_norms(D: Array, psi: Array, empty: Empty) -> Array:
    """‖Dψ‖² of each row, without the zeros below the diagonal of D, (n,)."""
    norms = np.zeros(len(psi))
    for first in range(0, len(D), _BAND):
        band = D[first : first + _BAND, first:]
        product = empty((len(psi), len(band)))
        np.matmul(psi[:, first:], band.T, out=product)
        norms += np.einsum("ij,ij->i", product, product)
    return norms


def _prior_factor(h: Hyperparameters, inducing: Array) -> Array:
    """W with φ = W⁻¹ψ, lower triangular, Fortran-contiguous."""
    m, p = inducing.shape
    W = np.zeros((m + p + 1, m + p + 1), order="F")
    with single_threaded_blas():
        K = signal_covariance(h, inducing, inducing)
        W[:m, :m] = np.tril(factorise(K, np.zeros(m)))
    rest = np.arange(m, m + p + 1)
    W[rest, rest] = 1.0 / math.sqrt(h.linear_variance)
    W[-1, -1] = 1.0 / math.sqrt(CONSTANT_VARIANCE)
    return W


def _panels(start: int, stop: int, row_length: int) -> Iterator[slice]:
    height = block_height(row_length)
    for first in range(start, stop, height):
        yield slice(first, min(first + height, stop))


def _sums(
    h: Hyperparameters, inducing: Array, W: Array, Z: Array, u: Array, noise: Array
) -> tuple[Array, Array, Array]:
    """A − I in the lower triangle, b, and the unexplained variance ρ of each row."""
    n, m, q = len(u), len(inducing), len(W)
    A = [np.zeros((q, q), order="F") for _ in range(_PARTS)]
    b = [np.zeros(q) for _ in range(_PARTS)]
    unexplained = np.empty(n)

    def add(k: int, rows: slice, empty: Empty) -> None:
        psi = _features(h, inducing, Z[rows], empty)
        phi = blas.dtrsm(1.0, W, psi.T, lower=1, overwrite_b=1)
        explained = np.einsum("ij,ij->j", phi[:m], phi[:m])
        unexplained[rows] = np.maximum(h.signal_variance - explained, 0.0)
        deviation = np.sqrt(noise[rows] + unexplained[rows])
        phi /= deviation
        A[k] = blas.dsyrk(1.0, phi, beta=1.0, c=A[k], lower=1, overwrite_c=1)
        b[k] += phi @ (u[rows] / deviation)

    def work(parts: slice, empty: Empty) -> None:
        buffer = empty((block_height(q), q))
        for k in range(parts.start, parts.stop):
            for rows in _panels(k * n // _PARTS, (k + 1) * n // _PARTS, q):
                add(k, rows, lambda shape: buffer[: shape[0]])

    # So long a row makes each part a panel of its own.
    for_each_row_block(_PARTS, PANEL_BYTES, work)
    return sum(A[1:], A[0]), sum(b[1:], b[0]), unexplained


@dataclass(frozen=True, eq=False)
class Reduction:
    """What the rows tell about the features: enough to find directions D."""

    A: Array  # A − I in the lower triangle, (q, q)
    ridge: float  # What is added to its diagonal
    W: Array  # With φ = W⁻¹ψ, (q, q)
    n: int  # Number of rows

    def directions(self, h: Hyperparameters) -> Array:
        """D with ‖Dψ‖² ≤ φ'(I − A⁻¹)φ for every x, equal where it matters.

        For any V and M = I − A⁻¹, the matrix MV(V'MV)⁻¹V'M is not larger than M. V has
        the leading eigenvectors of A, where the rows are, and the linear features,
        which are all that is left far away from them.
        """
        with single_threaded_blas():
            return self._directions(h)

    def _directions(self, h: Hyperparameters) -> Array:
        q, linear = len(self.W), 1 + len(h.lengthscales)
        spectrum, vectors = np.linalg.eigh(self.A)
        excess = np.maximum(spectrum + self.ridge - 1.0, 0.0)
        reduction = excess / (1.0 + excess)
        # In units of the noise an eigenvector has n⁻¹λ/(1 + λ) of the mean variance,
        # with λ = a − 1, and leaving it out adds n⁻¹λ²/(1 + λ).
        added = np.cumsum(excess * reduction)
        allowed = max(
            _SHARE_OF_NOISE * self.n, _SHARE_OF_VARIANCE * float(reduction.sum())
        )
        count = q - int(np.searchsorted(added, allowed, side="right"))
        top = vectors[:, q - count :]
        V = np.column_stack([top, np.eye(q)[:, q - linear :]])
        MV = vectors @ (reduction[:, None] * (vectors.T @ V))
        values, B = np.linalg.eigh(V.T @ MV)
        kept = values > _SMALLEST_REDUCTION
        D = (MV @ (B[:, kept] / np.sqrt(values[kept]))).T
        D = blas.dtrsm(1.0, self.W, D, side=1, lower=1)
        # A rotation changes no norm, and makes half of a square D zero.
        return np.ascontiguousarray(np.linalg.qr(D, mode="r"))


def _left_out(
    process: InducingProcess,
    joint: Array,
    Z: Array,
    u: Array,
    total: Array,
    unexplained: Array,
) -> LeftOut:
    """Each row's prediction without it; φ'A⁻¹φ = ‖(WR)⁻¹ψ‖², A = RR'."""
    fitted, spread = np.empty(len(u)), np.empty(len(u))

    def work(rows: slice, empty: Empty) -> None:
        psi = _features(process.hyperparameters, process.inducing, Z[rows], empty)
        np.matmul(psi, process.coefficients, out=fitted[rows])
        whitened = blas.dtrsm(1.0, joint, psi.T, lower=1, overwrite_b=1)
        np.einsum("ij,ij->j", whitened, whitened, out=spread[rows])

    for_each_row_block(len(u), len(joint), work)
    complement = np.maximum(1.0 - spread / total, _SMALLEST_COMPLEMENT)
    mean = u - (u - fitted) / complement
    variance = unexplained + spread / complement
    return LeftOut(mean, np.maximum(variance, SMALLEST_VARIANCE))
