"""Linear mean and linear log scale, fitted together by penalised likelihood.

    Σ_i w_i [l_i + ½ (y_i − m_i)² exp(−2 l_i)] + ½ ρ ‖b‖² + ½ τ ‖c‖² is least over b, c,
    m = b_0 + x·b,  l = c_0 + x·c,

for x and y in standard units. Given l the mean is a weighted ridge regression; given
the mean, l takes a step of Fisher scoring, whose Hessian is constant. The two
alternate, for all folds and all penalties at once: a *problem* is one fold left out (or
none) with one pair of penalties, and problems are rows of the arrays below.
"""

import math
from dataclasses import dataclass

import numpy as np

from kexpfam._typing import Array, Indices
from kexpfam.persistence import saved_fit
from kexpfam.regression.log_scale import LOG_SCALE_MARGIN
from kexpfam.regression.scaling import Scaling, scaling_of, usable_weights

# Penalties ρ of the mean and τ of the log scale; the last τ leaves a constant.
MEAN_PENALTIES = (0.1, 1.0, 10.0)
SCALE_PENALTIES = (0.3, 3.0, 30.0, 1e4)

# Few rows are dealt into more folds, so that fits see nearly all of them.
_FEW_ROWS = 60

# Added to squared errors, in standard units: an exact fit must not have width zero.
_SMALLEST_SQUARE = 1e-8

# No optimum is near these log scales, but rows left out may be far from the others and
# steps may be too long; exponentials must stay finite there, too.
_LARGEST_LOG_SCALE = 25.0

_MOST_ROUNDS = 30
_MOST_HALVINGS = 6

# Rounds end when none gains more than this many nats.
_ENOUGH_NATS = 1e-3

# Products of pairs of columns are made for so many numbers at once.
_CHUNK_NUMBERS = 2**19


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
        D = _design(self.x_scaling.forward(X))
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
    rng: np.random.Generator,  # Deals the folds: 5, or 10 for at most 60 rows
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
    D, u = _design(x_scaling.forward(X)), y_scaling.forward(y[:, None])[:, 0]
    n_folds = min(10 if len(y) <= _FEW_ROWS else 5, len(y))
    folds = rng.permutation(len(y)) % n_folds
    grids = np.meshgrid(MEAN_PENALTIES, SCALE_PENALTIES)
    rho, tau = (grid.ravel() for grid in grids)
    # Problem (k, g): fold k left out, penalties g; the last k leaves no fold out.
    kept = np.arange(n_folds + 1)[:, None] != folds
    W = np.repeat(kept * weights, len(rho), axis=0)
    b, c = _fit_problems(D, u, W, np.tile(rho, n_folds + 1), np.tile(tau, n_folds + 1))
    log_scale, lower, upper = _bounded_log_scale(D, c, W)
    held_out = _held_out(b @ D.T, folds), _held_out(log_scale, folds)
    errors = (u - held_out[0]) * np.exp(-held_out[1])
    best = int(np.argmin((held_out[1] + 0.5 * errors**2) @ weights))
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
        center + scale * held_out[0][best],
        math.log(scale) + held_out[1][best],
        (float(rho[best]), float(tau[best])),
    )


def _design(Z: Array) -> Array:
    return np.column_stack([np.ones(len(Z)), Z])


def _held_out(values: Array, folds: Indices) -> Array:
    """Of values (problems, n), those of the problems without the row, (grid, n)."""
    n_folds, n = int(folds.max()) + 1, len(folds)
    by_fold = values.reshape(n_folds + 1, -1, n)
    return by_fold[folds, :, np.arange(n)].T


def _bounded_log_scale(D: Array, c: Array, W: Array) -> tuple[Array, Array, Array]:
    """Log scale of every row in every problem, and the bounds of each problem."""
    values = c @ D.T
    lower = np.min(values, axis=1, where=W > 0, initial=np.inf) - LOG_SCALE_MARGIN
    upper = np.max(values, axis=1, where=W > 0, initial=-np.inf) + LOG_SCALE_MARGIN
    return np.clip(values, lower[:, None], upper[:, None]), lower, upper


def _fit_problems(
    D: Array, y: Array, W: Array, rho: Array, tau: Array
) -> tuple[Array, Array]:
    """Coefficients b and c of every problem, (problems, 1 + p) each."""
    free = np.append(0.0, np.ones(D.shape[1] - 1))  # the intercept is not penalised
    ridge_b, ridge_c = rho[:, None] * free, tau[:, None] * free
    b = _weighted_ridge(D, y, W, ridge_b)
    c = np.zeros_like(b)
    squares = _squares(D, y, b)
    total = W.sum(axis=1)
    c[:, 0] = 0.5 * np.log(np.einsum("bn,bn->b", W, squares) / total)
    fisher = 2.0 * _grams(D, W) + ridge_c[:, :, None] * np.eye(D.shape[1])
    fisher = np.linalg.pinv(fisher, hermitian=True)
    loss = _loss(D, squares, W, c, ridge_c) + 0.5 * np.sum(ridge_b * b * b, axis=1)
    for _ in range(_MOST_ROUNDS):
        c = _scale_step(D, squares, W, c, ridge_c, fisher)
        b = _weighted_ridge(D, y, W * np.exp(-2.0 * _log_scale(D, c)), ridge_b)
        squares = _squares(D, y, b)
        new_loss = _loss(D, squares, W, c, ridge_c)
        new_loss += 0.5 * np.sum(ridge_b * b * b, axis=1)
        gain = float(np.max(loss - new_loss))
        loss = new_loss
        if gain < _ENOUGH_NATS:
            break
    return b, c


def _scale_step(
    D: Array, squares: Array, W: Array, c: Array, ridge: Array, fisher: Array
) -> Array:
    """One step of Fisher scoring in each problem, shortened until none is worse."""
    ratio = squares * np.exp(-2.0 * _log_scale(D, c))
    gradient = (W * (1.0 - ratio)) @ D + ridge * c
    step = -np.einsum("bij,bj->bi", fisher, gradient)
    before = _loss(D, squares, W, c, ridge)
    length = np.ones((len(c), 1))
    for _ in range(_MOST_HALVINGS):
        new = c + length * step
        worse = ~(_loss(D, squares, W, new, ridge) <= before)
        if not worse.any():
            return new
        length[worse] *= 0.5
    return np.where(worse[:, None], c, new)


def _loss(D: Array, squares: Array, W: Array, c: Array, ridge: Array) -> Array:
    log_scale = _log_scale(D, c)
    terms = log_scale + 0.5 * squares * np.exp(-2.0 * log_scale)
    return np.einsum("bn,bn->b", W, terms) + 0.5 * np.sum(ridge * c * c, axis=1)


def _log_scale(D: Array, c: Array) -> Array:
    return np.clip(c @ D.T, -_LARGEST_LOG_SCALE, _LARGEST_LOG_SCALE)


def _squares(D: Array, y: Array, b: Array) -> Array:
    return (y - b @ D.T) ** 2 + _SMALLEST_SQUARE


def _weighted_ridge(D: Array, y: Array, W: Array, ridge: Array) -> Array:
    """Minimisers of Σ w (y − D b)² + Σ ridge b², one per problem."""
    grams = _grams(D, W)
    q = D.shape[1]
    grams[:, np.arange(q), np.arange(q)] += ridge
    solutions = np.linalg.solve(grams, ((W * y) @ D)[:, :, None])
    return np.asarray(solutions[:, :, 0], dtype=np.float64)


def _grams(D: Array, W: Array, chunk_numbers: int = _CHUNK_NUMBERS) -> Array:
    """D'diag(w)D of every problem, (problems, 1 + p, 1 + p), by matrix products."""
    n, q = D.shape
    grams = np.zeros((len(W), q * q))
    height = max(1, chunk_numbers // (q * q))
    for start in range(0, n, height):
        part = D[start : start + height]
        pairs = (part[:, :, None] * part[:, None, :]).reshape(len(part), q * q)
        grams += W[:, start : start + height] @ pairs
    return grams.reshape(len(W), q, q)
