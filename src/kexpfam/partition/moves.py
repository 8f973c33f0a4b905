"""Metropolis-adjusted Langevin steps, which leave a density unchanged.

A step along the gradient with noise is one leapfrog step of Hamiltonian dynamics from a
random momentum, and is written so here. Many points of many densities move at once.
Those of a density share the spread that scales their moves, and a step size that
follows their acceptance rate.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from kexpfam._typing import Array, Indices

# Acceptance rate that Langevin proposals work best at (Roberts and Rosenthal 1998).
_TARGET_ACCEPTANCE = 0.574

# How fast log step follows the acceptance rate.
_RATE = 0.5

# Columns are cut at these quantiles before their covariance is taken: a few points far
# out in heavy tails would set the size of everybody's steps.
_CUT = (0.01, 0.99)

# Points further out than this have left for good, and would overflow.
_FAR = 1e100


@dataclass(frozen=True, eq=False)
class Moved:
    """Points after some moves.

    Attributes:
        points: (n, q, d).
        step: Step size to go on with, (n,).
        acceptance: Mean acceptance rate of the last half of the moves, (n,).
    """

    points: Array
    step: Array
    acceptance: Array


def generators(rng: np.random.Generator, n: int) -> list[np.random.Generator]:
    """One source of randomness for each density, so that none depends on the others."""
    return [np.random.default_rng(seed) for seed in rng.integers(2**63, size=n)]


def systematic(weights: Array, offset: float, size: int) -> Indices:
    """Choose `size` of some points by weights: each as often as expected, or nearly.

    Args:
        weights: Not negative, of any sum, (s,).
        offset: Uniform on [0, 1); all the randomness there is.
        size: How many.

    Example:
        >>> systematic(np.array([2.0, 0.0, 1.0, 1.0]), 0.5, 4)
        array([0, 0, 2, 3])
    """
    levels = np.cumsum(weights)
    places = (np.arange(size) + offset) / size * levels[-1]
    # Rounding may put the last place above the last level.
    last = int(np.flatnonzero(weights)[-1])
    return np.minimum(np.searchsorted(levels, places, side="right"), last)


def spread_root(points: Array) -> Array:
    """A root R of the covariance RRᵀ of points (n, q, d), (n, d, d).

    Columns are cut at outer quantiles first, and correlations shrunk by q/(q + d).
    """
    _, q, d = points.shape
    low, high = np.quantile(points, _CUT, axis=1, keepdims=True)
    cut = np.clip(points, low, high)
    gaps = cut - cut.mean(axis=1, keepdims=True)
    covariance = gaps.swapaxes(1, 2) @ gaps / q
    variance = np.einsum("nii->ni", covariance)  # a view into it
    kept = variance + 1e-12 * variance.max(axis=1, keepdims=True) + 1e-200
    covariance *= q / (q + d)
    variance[...] = kept
    return np.linalg.cholesky(covariance)


def move(
    log_density: Callable[[Array], Array],
    gradient: Callable[[Array], Array],
    points: Array,
    step: Array,
    root: Array,
    rngs: Sequence[np.random.Generator],
    *,
    moves: int,
) -> Moved:
    """Propose moves to all points of n densities, `moves` times.

    Args:
        log_density: (n, q, d) -> (n, q); −inf outside the support.
        gradient: (n, q, d) -> (n, q, d).
        points: Where to start, inside the support, (n, q, d).
        step: Length of a step in units of `root`, (n,).
        root: R of the covariance RRᵀ that scales the moves, (n, d, d).
        rngs: Source of randomness of each density.
        moves: How many proposals.
    """

    def slope_at(u: Array) -> Array:
        slope = gradient(u)
        return np.where(np.isfinite(slope), slope, 0.0) @ root  # Rᵀ∂ log p

    step, rates = step.copy(), []
    log_p, slope = log_density(points), slope_at(points)
    for _ in range(moves):
        noise = np.stack([rng.standard_normal(points.shape[1:]) for rng in rngs])
        epsilon = step[:, None, None]
        with np.errstate(over="ignore", invalid="ignore"):
            momentum = noise + 0.5 * epsilon * slope
            candidate = points + epsilon * (momentum @ root.swapaxes(1, 2))
            near = np.all(np.abs(candidate) < _FAR, axis=2)
        candidate = np.where(near[..., None], candidate, points)
        new_log_p, new_slope = log_density(candidate), slope_at(candidate)
        with np.errstate(over="ignore", invalid="ignore"):
            momentum += 0.5 * epsilon * new_slope
            # Energies before and after; what became infinite is not accepted.
            log_ratio = new_log_p - 0.5 * (momentum**2).sum(axis=2)
            log_ratio -= log_p - 0.5 * (noise**2).sum(axis=2)
        uniform = np.stack([rng.random(points.shape[1]) for rng in rngs])
        accepted = near & (np.log(uniform) < log_ratio)
        points = np.where(accepted[..., None], candidate, points)
        log_p = np.where(accepted, new_log_p, log_p)
        slope = np.where(accepted[..., None], new_slope, slope)
        rates.append(accepted.mean(axis=1))
        step *= np.exp(_RATE * (rates[-1] - _TARGET_ACCEPTANCE))
    return Moved(points, step, np.mean(rates[moves // 2 :], axis=0))
