"""Inducing points: training rows that explain the covariance of the others.

Pivoted Cholesky takes the row next that the rows taken so far explain least (greedily
the largest conditional variance). It sees some of the rows only, and responses not at
all, so that predictions of held-out rows stay honest.
"""

import math

import numpy as np
from scipy.linalg import lapack

from kexpfam._parallel import single_threaded_blas
from kexpfam._typing import Array
from kexpfam.regression.marginal_likelihood import Hyperparameters, signal_covariance

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
_SHARE_OF_NOISE = 1e-4

# Points at most: conditioning costs 3nm² operations and predicting up to m² a row, so
# that smooth functions, which need few points, are fast, and rough ones get all they
# can in a few seconds.
_MOST_POINTS = 1500
_OPERATIONS = 3e10
_POINTS_AT_ANY_PRICE = 800


def number_of_points(n: int) -> int:
    """Inducing points for n rows, at most.

    Example:
        >>> [number_of_points(n) for n in (3000, 20_000, 1_000_000)]
        [1500, 1224, 800]
    """
    affordable = math.sqrt(_OPERATIONS / max(n, 1))
    return int(min(max(affordable, _POINTS_AT_ANY_PRICE), _MOST_POINTS))


def choose_inducing_points(Z: Array, h: Hyperparameters, n_points: int) -> Array:
    """Rows that explain the others, most important first, (m, p).

    Args:
        Z: Conditions in standard units, (n, p).
        h: Hyperparameters; the noise says when more points would not show.
        n_points: Points at most.

    Example:
        >>> import numpy as np
        >>> h = Hyperparameters(1.0, 1.0, 0.01, np.ones(1))
        >>> choose_inducing_points(np.array([[0.0], [0.0], [3.0]]), h, 10)
        array([[0.],
               [3.]])
    """
    n = len(Z)
    if n > _MOST_CANDIDATES:
        rng = np.random.default_rng(_CANDIDATES_SEED)
        Z = Z[np.sort(rng.permutation(n)[:_MOST_CANDIDATES])]
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
    enough = left <= max(_COEFFICIENTS / n, _SHARE_OF_NOISE) * h.noise_variance
    count = int(np.argmax(enough)) + 1 if enough.any() else len(left)
    return Z[pivots[:count] - 1]


def _squares(factor: Array, j: int) -> float:
    column = factor[j:, j]
    return float(column @ column)
