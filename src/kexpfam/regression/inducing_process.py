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

import functools
import math
from dataclasses import dataclass

import numpy as np
from scipy.linalg import blas, lapack

from kexpfam._linalg import (
    BLOCK_BYTES,
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
    Hyperparameters,
    Process,
    factorise,
    positive_variance,
    signal_covariance,
)
from kexpfam.regression.scaling import Scaling


@dataclass(frozen=True)
class InducingSpec:
    """How inducing points are chosen, and directions of the variance."""

    # Rows among which points are chosen: the factorisation costs a third of its cube.
    most_candidates: int = 2000
    # Points with less conditional variance than this share are duplicates of others, up
    # to what can be factorised together with them.
    smallest_share: float = 1e-7
    # No more points are taken when the variance that they leave unexplained, on
    # average, is less than that of a mean of the data with this many free coefficients,
    # or than this share of the noise, which costs less than 0.0001 nats.
    coefficients: float = 3.0
    unexplained_share: float = 1e-4
    # Points at most: conditioning costs 3nm² operations and predicting up to m² a row,
    # so that smooth functions, which need few points, are fast, and rough ones get all
    # they can in a few seconds.
    most_points: int = 1500
    operations: float = 3e10
    points_at_any_price: int = 800
    # The variance of new rows is reduced in so many directions that the others add, on
    # average over the rows, no more than this share of the noise, or of the variance
    # itself: 150 for smooth functions and nearly all for rough ones, where a fixed
    # number made variances five times too large.
    share_of_noise: float = 1e-3
    share_of_variance: float = 0.1
    # Directions that are reduced by less than this share are left alone: their inverse
    # would be rounding errors.
    smallest_reduction: float = 1e-10


INDUCING_SPEC = InducingSpec()


def number_of_points(n: int, spec: InducingSpec = INDUCING_SPEC) -> int:
    """Inducing points for n rows, at most."""
    affordable = math.sqrt(spec.operations / max(n, 1))
    return int(min(max(affordable, spec.points_at_any_price), spec.most_points))


def choose_inducing_points(
    Z: Array,  # Conditions in standard units, (n, p)
    h: Hyperparameters,  # The noise says when more points would not show
    n_points: int,  # Points at most
    spec: InducingSpec = INDUCING_SPEC,
) -> Array:
    """Rows that explain the others, most important first, (m, p)."""
    n = len(Z)
    if n > spec.most_candidates:
        # Seeded, so that a fit depends on its data only.
        rng = np.random.default_rng(20180612)
        Z = Z[np.sort(rng.permutation(n)[: spec.most_candidates])]
    with single_threaded_blas():
        K = signal_covariance(h, Z, Z)
        # Without the rounding that would decide where to begin.
        np.fill_diagonal(K, h.signal_variance)
        factor, pivots, rank, _ = lapack.dpstrf(
            K.T, tol=spec.smallest_share * h.signal_variance, lower=1, overwrite_a=1
        )
    # Column j of the factor holds what point j explains of each row.
    columns = [factor[j:, j] for j in range(min(rank, n_points))]
    explained = np.cumsum([float(column @ column) for column in columns])
    left = h.signal_variance - explained / len(Z)
    share = max(spec.coefficients / n, spec.unexplained_share)
    enough = left <= share * h.noise_variance
    count = int(np.argmax(enough)) + 1 if enough.any() else len(left)
    return Z[pivots[:count] - 1]


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
    # D, zero below its diagonal, (r, m + p + 1), or of the last features only
    directions: Array
    hyperparameters: Hyperparameters  # Those of the covariance
    x_scaling: Scaling  # Standard units of x
    y_scaling: Scaling  # Standard units of y, one column

    def __getattr__(self, name: str) -> Array:
        # Called for attributes that are not there (yet) only. Directions take as long
        # to find as all else here, and most processes are never asked for a variance.
        find = vars(self).get("_find_directions")
        if name != "directions" or find is None:
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        # Two threads may both get here: they find the same.
        found: Array = find()
        vars(self)["directions"] = found
        return found

    def standard_predict(self, Z: Array) -> tuple[Array, Array]:
        h, directions = self.hyperparameters, self.directions
        mean, variance = np.empty(len(Z)), h.prior_variance(Z)
        first = len(self.coefficients) - directions.shape[1]

        def work(rows: slice, empty: Empty) -> None:
            psi = _features(h, self.inducing, Z[rows], empty)
            np.matmul(psi, self.coefficients, out=mean[rows])
            variance[rows] -= _squared_norms(directions, psi[:, first:], empty)

        for_each_row_block(len(Z), len(self.coefficients), work)
        return mean, variance

    def standard_mean(self, Z: Array) -> Array:
        return feature_means(self.hyperparameters, self.inducing, self.coefficients, Z)


def feature_means(
    h: Hyperparameters,
    points: Array,  # Where the features are, (m, p)
    coefficients: Array,  # Of the features, (m + p + 1,)
    Z: Array,  # Conditions in standard units, (n, p)
) -> Array:
    """Sums of the features ψ of each row, (n,)."""
    mean = np.empty(len(Z))

    def work(rows: slice, empty: Empty) -> None:
        np.matmul(_features(h, points, Z[rows], empty), coefficients, out=mean[rows])

    for_each_row_block(len(Z), len(coefficients), work)
    return mean


def condition_on_sums(
    Z: Array,  # Conditions in standard units, (n, p)
    u: Array,  # Responses in standard units, (n,)
    noise: Array,  # Noise variance of each row, positive, (n,)
    h: Hyperparameters,
    x_scaling: Scaling,
    y_scaling: Scaling,
    inducing: Array | None = None,  # Points in standard units, (m, p); None to choose
    spec: InducingSpec = INDUCING_SPEC,
) -> tuple[Process, Array, Array, Array]:
    """The process, its mean at the rows, and leave-one-out means and variances.

    Raises:
        IllConditionedError: The sums are not finite.
    """
    n = len(u)
    if inducing is None:
        inducing = choose_inducing_points(Z, h, number_of_points(n, spec), spec)
    W = _prior_factor(h, inducing)
    A, b, unexplained = _sums(h, inducing, W, Z, u, noise)
    with single_threaded_blas():
        # Rounding of A is about eps·tr A, and must not exceed the prior's share of it.
        ridge = max(1.0, RIDGE_FLOOR * float(np.trace(A)))
        R = factorise(A.T.copy(), np.full(len(A), ridge))
        weights, _ = lapack.dpotrs(R, b, lower=1)
        coefficients = blas.dtrsv(W, weights, lower=1, trans=1)
        joint = blas.dtrmm(1.0, W, np.tril(R), lower=1)
    # Without its directions, which are found when a variance is first asked for.
    process = object.__new__(InducingProcess)
    vars(process).update(
        inducing=inducing,
        coefficients=coefficients,
        hyperparameters=h,
        x_scaling=x_scaling,
        y_scaling=y_scaling,
        _find_directions=functools.partial(_directions, A, ridge, W, h, n, spec),
    )
    # φ'A⁻¹φ = ‖(WR)⁻¹ψ‖², A = RR'
    fitted, variance = np.empty(n), np.empty(n)

    def work(rows: slice, empty: Empty) -> None:
        psi = _features(h, inducing, Z[rows], empty)
        np.matmul(psi, coefficients, out=fitted[rows])
        whitened = blas.dtrsm(1.0, joint, psi.T, lower=1, overwrite_b=1)
        np.einsum("ij,ij->j", whitened, whitened, out=variance[rows])

    for_each_row_block(n, len(joint), work)
    # 1 − h, no smaller for rows that nothing but rounding distinguishes from h = 1.
    complement = np.maximum(1.0 - variance / (noise + unexplained), 1e-10)
    center, scale = float(y_scaling.center[0]), float(y_scaling.scale[0])
    return (
        process,
        center + scale * fitted,
        center + scale * (u - (u - fitted) / complement),
        scale**2 * positive_variance(unexplained + variance / complement),
    )


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
    norms, height = np.zeros(len(psi)), 128
    for first in range(0, len(D), height):
        band = D[first : first + height, first:]
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


def _sums(
    h: Hyperparameters, inducing: Array, W: Array, Z: Array, u: Array, noise: Array
) -> tuple[Array, Array, Array]:
    """A − I in the lower triangle, b, and the unexplained variance ρ of each row."""
    n, m, q = len(u), len(inducing), len(W)
    # Sums over rows are made in so many parts, each in the order of its rows, so that
    # the number of threads and their pace do not change a bit of the result.
    parts = 8
    A = [np.zeros((q, q), order="F") for _ in range(parts)]
    b = [np.zeros(q) for _ in range(parts)]
    unexplained = np.empty(n)

    def add(k: int, rows: slice, empty: Empty) -> None:
        psi = _features(h, inducing, Z[rows], empty)
        phi = blas.dtrsm(1.0, W, psi.T, lower=1, overwrite_b=1)
        explained = np.einsum("ij,ij->j", phi[:m], phi[:m])
        unexplained[rows] = np.maximum(h.signal_variance - explained, 0.0)
        std = np.sqrt(noise[rows] + unexplained[rows])
        phi /= std
        A[k] = blas.dsyrk(1.0, phi, beta=1.0, c=A[k], lower=1, overwrite_c=1)
        b[k] += phi @ (u[rows] / std)

    def work(some: slice, empty: Empty) -> None:
        height = block_height(q)
        buffer = empty((height, q))
        for k in range(some.start, some.stop):
            last = (k + 1) * n // parts
            for first in range(k * n // parts, last, height):
                rows = slice(first, min(first + height, last))
                add(k, rows, lambda shape: buffer[: shape[0]])

    # So long a row makes each part a block of its own.
    for_each_row_block(parts, BLOCK_BYTES, work)
    return sum(A[1:], A[0]), sum(b[1:], b[0]), unexplained


def _directions(
    A: Array,  # A − I in the lower triangle, (q, q)
    ridge: float,  # What is added to its diagonal
    W: Array,  # With φ = W⁻¹ψ, (q, q)
    h: Hyperparameters,
    n: int,  # Number of rows
    spec: InducingSpec,
) -> Array:
    """D with ‖Dψ‖² ≤ φ'(I − A⁻¹)φ for every x, equal where it matters.

    For any V and M = I − A⁻¹, the matrix MV(V'MV)⁻¹V'M is not larger than M. V has the
    leading eigenvectors of A, where the rows are, and the linear features, which are
    all that is left far away from them.
    """
    with single_threaded_blas():
        q, linear = len(W), 1 + len(h.lengthscales)
        spectrum, vectors = np.linalg.eigh(A)
        excess = np.maximum(spectrum + ridge - 1.0, 0.0)
        reduction = excess / (1.0 + excess)
        # In units of the noise an eigenvector has n⁻¹λ/(1 + λ) of the mean variance,
        # with λ = a − 1, and leaving it out adds n⁻¹λ²/(1 + λ).
        added = np.cumsum(excess * reduction)
        allowed = max(
            spec.share_of_noise * n, spec.share_of_variance * float(reduction.sum())
        )
        count = q - int(np.searchsorted(added, allowed, side="right"))
        V = np.column_stack([vectors[:, q - count :], np.eye(q)[:, q - linear :]])
        MV = vectors @ (reduction[:, None] * (vectors.T @ V))
        values, B = np.linalg.eigh(V.T @ MV)
        kept = values > spec.smallest_reduction
        D = (MV @ (B[:, kept] / np.sqrt(values[kept]))).T
        D = blas.dtrsm(1.0, W, D, side=1, lower=1)
        # A rotation changes no norm, and makes half of a square D zero.
        return np.ascontiguousarray(np.linalg.qr(D, mode="r"))
