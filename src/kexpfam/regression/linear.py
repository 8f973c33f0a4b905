"""Linear mean and linear log scale, fitted together by penalised likelihood.

    Σ_i w_i [l_i + ½ (y_i − m_i)² exp(−2 l_i)] + ½ ρ ‖b‖² + ½ τ ‖c‖² is least over b, c,
    m = b_0 + x·b,  l = c_0 + x·c,

for x and y in standard units. Given l the mean is a weighted ridge regression; given
the mean, l takes a step of Fisher scoring, whose Hessian is constant. The two
alternate, for all folds and all penalties at once: a *problem* is one fold left out (or
none) with one pair of penalties, and problems are rows of the arrays below.

The weights of the ridge regression, w exp(−2 l), differ between problems and rounds,
and so would its matrix. With many columns none is computed but D'diag(w)D of each fold,
whose inverse with ρ preconditions conjugate gradients, and folds take turns.
"""

import math
from dataclasses import dataclass

import numpy as np

from kexpfam._typing import Array, Indices
from kexpfam.persistence import saved_fit
from kexpfam.regression.scaling import Scaling, scaling_of, usable_weights


@dataclass(frozen=True)
class LinearSpec:
    """Penalties that are tried, and how problems are solved."""

    # Of the mean, ρ, and of the log scale, τ; the last τ leaves a constant.
    mean_penalties: tuple[float, ...] = (0.1, 1.0, 10.0)
    scale_penalties: tuple[float, ...] = (0.3, 3.0, 30.0, 1e4)
    # Up to so many rows are dealt into ten folds instead of five, so that fits see
    # nearly all of them.
    few_rows: int = 60
    # Added to squared errors, in standard units: an exact fit must not have width zero.
    smallest_square: float = 1e-8
    # No optimum is near these log scales, but rows left out may be far from the others
    # and steps may be too long; exponentials must stay finite there, too.
    largest_log_scale: float = 25.0
    # The log scale may leave the range it has on the training rows by this much.
    margin: float = 0.5
    most_rounds: int = 30
    most_halvings: int = 6
    enough_nats: float = 1e-3  # Rounds end when none gains more
    # With more columns the mean is found by conjugate gradients: steps at most, and the
    # nats that are left to gain when they end
    many_columns: int = 60
    most_steps: int = 5
    left_nats: float = 1e-6


LINEAR_SPEC = LinearSpec()


@saved_fit(
    {
        "x_scaling": "p",
        "location": "p+1 moderate",
        "log_scale": "p+1 moderate",
        "lower": "log_scale",
        "upper": "log_scale >=lower",
    }
)
@dataclass(frozen=True, eq=False)
class LinearLocationScale:
    """y = m(x) + exp(l(x))·noise with linear m and l."""

    x_scaling: Scaling  # Standard units of x
    location: Array  # b_0 and b, in units of y per standard unit of x, (1 + p,)
    log_scale: Array  # c_0 and c, (1 + p,)
    lower: float  # Smallest l at any x
    upper: float  # Largest l at any x

    def at(self, X: Array) -> tuple[Array, Array]:
        """Location and log scale at conditions X, (n,) each."""
        D = np.column_stack([np.ones(len(X)), self.x_scaling.forward(X)])
        log_scale = np.clip(D @ self.log_scale, self.lower, self.upper)
        return D @ self.location, log_scale


@dataclass(frozen=True, eq=False)
class LinearFit:
    """A linear location and log scale, and held-out ones of the training rows."""

    model: LinearLocationScale  # Fitted on all rows
    held_out_location: Array  # Location of each row by a fit without it, (n,)
    held_out_log_scale: Array  # Log scale of each row by the same fit, (n,)
    penalties: tuple[float, float]  # The chosen ρ and τ


def fit_linear(
    X: Array,  # Conditions, (n, p)
    y: Array,  # Responses, (n,)
    weights: Array,  # Row weights, (n,)
    rng: np.random.Generator,  # Deals the folds
    spec: LinearSpec = LINEAR_SPEC,
) -> LinearFit:
    """Fit mean and log scale with the penalties of best held-out likelihood.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> x = rng.uniform(1, 2, size=(300, 1))
        >>> y = 2 * x[:, 0] + 0.2 * np.exp(x[:, 0]) * rng.normal(size=300)
        >>> fit = fit_linear(x, y, np.ones(300), rng)
        >>> location, log_scale = fit.model.at(np.array([[1.0], [2.0]]))
        >>> np.diff(location).round(0), np.diff(log_scale).round(0)
        (array([2.]), array([1.]))
    """
    weights = usable_weights(weights)
    x_scaling = scaling_of("x", X, weights)
    y_scaling = scaling_of("y", y[:, None], weights)
    D = np.column_stack([np.ones(len(X)), x_scaling.forward(X)])
    u = y_scaling.forward(y[:, None])[:, 0]
    n_folds = min(10 if len(y) <= spec.few_rows else 5, len(y))
    folds = rng.permutation(len(y)) % n_folds
    rho = np.tile(spec.mean_penalties, len(spec.scale_penalties))
    tau = np.repeat(spec.scale_penalties, len(spec.mean_penalties))
    # Problem (k, g): fold k left out, penalties g; the last k leaves no fold out.
    kept = np.arange(n_folds + 1)[:, None] != folds
    in_turn = n_folds + 1 if D.shape[1] > spec.many_columns else 1
    found = [
        _fit_problems(D, u, some, rho, tau, spec)
        for some in np.array_split(kept * weights, in_turn)
    ]
    b, c = map(np.concatenate, zip(*found, strict=True))
    W = np.repeat(kept, len(rho), axis=0)
    # Of each problem the range of its own rows bounds the log scale.
    values = c @ D.T
    lower = np.min(values, axis=1, where=W, initial=np.inf) - spec.margin
    upper = np.max(values, axis=1, where=W, initial=-np.inf) + spec.margin
    values = np.clip(values, lower[:, None], upper[:, None])
    # Of every row the problems that have not seen it, (grid, n).
    own = folds, slice(None), np.arange(len(y))
    location = (b @ D.T).reshape(n_folds + 1, -1, len(y))[own].T
    log_scale = values.reshape(n_folds + 1, -1, len(y))[own].T
    errors = (u - location) * np.exp(-log_scale)
    best = int(np.argmin((log_scale + 0.5 * errors**2) @ weights))
    final = n_folds * len(rho) + best
    center, scale = float(y_scaling.center[0]), float(y_scaling.scale[0])
    shift = np.append(1.0, np.zeros(X.shape[1]))  # of the intercept only
    model = LinearLocationScale(
        x_scaling,
        scale * b[final] + center * shift,
        c[final] + math.log(scale) * shift,
        float(lower[final]) + math.log(scale),
        float(upper[final]) + math.log(scale),
    )
    return LinearFit(
        model,
        center + scale * location[best],
        math.log(scale) + log_scale[best],
        (float(rho[best]), float(tau[best])),
    )


def _fit_problems(
    D: Array,  # Conditions in standard units after a column of ones, (n, 1 + p)
    y: Array,  # Responses in standard units, (n,)
    kept: Array,  # Row weights, zero in what is left out, (folds, n)
    rho: Array,  # Penalties of the mean, (g,)
    tau: Array,  # Penalties of the log scale, (g,)
    spec: LinearSpec = LINEAR_SPEC,
) -> tuple[Array, Array]:
    """Coefficients b and c with each fold left out, (folds · g, 1 + p) each."""
    q = D.shape[1]
    free = np.append(0.0, np.ones(q - 1))  # the intercept is not penalised
    grams = _grams(D, kept)
    W = np.repeat(kept, len(rho), axis=0)
    ridge_b = np.tile(rho[:, None] * free, (len(kept), 1))
    ridge_c = np.tile(tau[:, None] * free, (len(kept), 1))
    mean, which_b = _inverses(grams, rho)
    fisher, which_c = _inverses(2.0 * grams, tau)
    mean_of: _ExactRidge | _PreconditionedRidge
    if q > spec.many_columns:
        mean_of = _PreconditionedRidge(D, y, ridge_b, mean, which_b, spec)
    else:
        mean_of = _ExactRidge(D, y, ridge_b)
    b = _applied(mean, which_b, (W * y) @ D)
    squares = (y - b @ D.T) ** 2 + spec.smallest_square
    c = np.zeros_like(b)
    c[:, 0] = 0.5 * np.log(np.einsum("bn,bn->b", W, squares) / W.sum(axis=1))
    log_scale = _log_scale(D, c, spec)
    loss = _loss(log_scale, squares, W, c, ridge_c)
    total = loss + 0.5 * np.sum(ridge_b * b * b, axis=1)
    for _ in range(spec.most_rounds):
        # A step of Fisher scoring in each problem, shortened until none is worse.
        ratio = squares * np.exp(-2.0 * log_scale)
        gradient = (W * (1.0 - ratio)) @ D + ridge_c * c
        step = -_applied(fisher, which_c, gradient)
        length = np.ones((len(c), 1))
        for _ in range(spec.most_halvings):
            new = c + length * step
            new_loss = _loss(_log_scale(D, new, spec), squares, W, new, ridge_c)
            worse = ~(new_loss <= loss)
            if not worse.any():
                break
            length[worse] *= 0.5
        c = np.where(worse[:, None], c, new)
        log_scale = _log_scale(D, c, spec)
        b = mean_of(W * np.exp(-2.0 * log_scale), b)
        squares = (y - b @ D.T) ** 2 + spec.smallest_square
        loss = _loss(log_scale, squares, W, c, ridge_c)
        before, total = total, loss + 0.5 * np.sum(ridge_b * b * b, axis=1)
        if float(np.max(before - total)) < spec.enough_nats:
            break
    return b, c


def _log_scale(D: Array, c: Array, spec: LinearSpec) -> Array:
    """Log scale of every row in every problem, (problems, n)."""
    return np.clip(c @ D.T, -spec.largest_log_scale, spec.largest_log_scale)


def _loss(log_scale: Array, squares: Array, W: Array, c: Array, ridge: Array) -> Array:
    """The objective of every problem, but for the penalty of the mean."""
    terms = log_scale + 0.5 * squares * np.exp(-2.0 * log_scale)
    return np.einsum("bn,bn->b", W, terms) + 0.5 * np.sum(ridge * c * c, axis=1)


@dataclass(frozen=True, eq=False)
class _ExactRidge:
    """Minimisers of Σ w (y − D b)² + Σ ridge b², one per problem."""

    D: Array
    y: Array
    ridge: Array  # (problems, 1 + p)

    def __call__(self, W: Array, _: Array) -> Array:
        grams = _grams(self.D, W)
        columns = np.arange(self.D.shape[1])
        grams[:, columns, columns] += self.ridge
        solutions = np.linalg.solve(grams, ((W * self.y) @ self.D)[:, :, None])
        return np.asarray(solutions[:, :, 0], dtype=np.float64)


@dataclass(frozen=True, eq=False)
class _PreconditionedRidge:
    """The same by conjugate gradients from where the last round has ended."""

    D: Array
    y: Array
    ridge: Array
    inverses: Array  # Of the matrices without a log scale, (k, 1 + p, 1 + p)
    which: Indices  # That of each problem, (problems,)
    spec: LinearSpec

    def __call__(self, W: Array, b: Array) -> Array:
        left = (W * (self.y - b @ self.D.T)) @ self.D - self.ridge * b
        down = near = _applied(self.inverses, self.which, left)
        gain = np.einsum("bi,bi->b", left, near)
        for _ in range(self.spec.most_steps):
            # About twice what is left to gain, in nats
            if gain.max() < self.spec.left_nats:
                break
            image = (W * (down @ self.D.T)) @ self.D + self.ridge * down
            curvature = np.einsum("bi,bi->b", down, image)
            length = gain / np.maximum(curvature, np.finfo(float).tiny)
            b = b + length[:, None] * down
            left = left - length[:, None] * image
            near = _applied(self.inverses, self.which, left)
            before, gain = gain, np.einsum("bi,bi->b", left, near)
            turn = gain / np.maximum(before, np.finfo(float).tiny)
            down = near + turn[:, None] * down
        return b


def _inverses(grams: Array, penalties: Array) -> tuple[Array, Indices]:
    """(G + penalty)⁻¹ for each fold and penalty, and the number of each problem's."""
    own, which = np.unique(penalties, return_inverse=True)
    q = grams.shape[-1]
    systems = np.repeat(grams, len(own), axis=0)
    columns = np.arange(1, q)  # the intercept is not penalised
    systems[:, columns, columns] += np.tile(own, len(grams))[:, None]
    numbers = len(own) * np.arange(len(grams))[:, None] + which
    inverses = np.linalg.pinv(systems, hermitian=True)
    return np.asarray(inverses, dtype=np.float64), numbers.ravel()


def _applied(matrices: Array, which: Indices, vectors: Array) -> Array:
    """The product of each vector with the symmetric matrix of its number."""
    out = np.empty_like(vectors)
    for k, matrix in enumerate(matrices):
        rows = which == k
        out[rows] = vectors[rows] @ matrix
    return out


def _grams(
    D: Array,
    W: Array,
    chunk_numbers: int = 2**19,  # Products of pairs of columns held in memory
) -> Array:
    """D'diag(w)D of every problem, (problems, 1 + p, 1 + p), by matrix products."""
    n, q = D.shape
    if len(W) == 1:
        weighted = np.sqrt(W[0])[:, None] * D
        return (weighted.T @ weighted)[None]
    grams = np.zeros((len(W), q * q))
    height = max(1, chunk_numbers // (q * q))
    for start in range(0, n, height):
        part = D[start : start + height]
        pairs = (part[:, :, None] * part[:, None, :]).reshape(len(part), q * q)
        grams += W[:, start : start + height] @ pairs
    return grams.reshape(len(W), q, q)
