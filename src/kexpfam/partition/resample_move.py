"""Draws from a density known up to a constant, starting from importance weights.

Resampling the weighted draws gives points with the right distribution but many
repeats; a few Metropolis-adjusted Langevin steps, which leave the target unchanged,
move the repeats apart (Gilks and Berzuini 2001).
"""

from collections.abc import Callable

import numpy as np

from kexpfam._typing import Array

# Steps after resampling, and the first step size in units of the marginal deviations.
# Twenty steps of this size decorrelate repeats in the dimensions exact fits can handle.
_STEPS = 20
_FIRST_STEP = 0.5

# Acceptance rate that Langevin proposals work best at (Roberts and Rosenthal 1998).
_TARGET_ACCEPTANCE = 0.574


def resample_move(
    log_density: Callable[[Array], Array],
    gradient: Callable[[Array], Array],
    draws: Array,
    weights: Array,
    size: int,
    rng: np.random.Generator,
) -> Array:
    """Draw `size` points for each of n densities.

    Args:
        log_density: (n, size, d) -> (n, size); −inf outside the support.
        gradient: (n, size, d) -> (n, size, d).
        draws: Shared importance draws, (s, d).
        weights: Normalised weights of each row, (n, s).
        size: How many points per row.
        rng: Source of randomness.

    Returns:
        Points, (n, size, d).
    """
    if not size:
        return np.empty((len(weights), 0, draws.shape[1]))
    u = np.stack([draws[rng.choice(len(draws), size, p=row)] for row in weights])
    mean = weights @ draws
    spread = np.sqrt(np.maximum(weights @ draws**2 - mean**2, 1e-12))[:, None, :]
    step = np.full((len(u), 1, 1), _FIRST_STEP)
    log_p, slope = log_density(u), gradient(u)

    def log_proposal(to: Array, start: Array, slope: Array) -> Array:
        gap = (to - start - 0.5 * step**2 * spread**2 * slope) / (step * spread)
        return -0.5 * (gap**2).sum(axis=2)

    for _ in range(_STEPS):
        noise = rng.standard_normal(u.shape)
        candidate = u + 0.5 * step**2 * spread**2 * slope + step * spread * noise
        new_log_p = log_density(candidate)
        inside = np.isfinite(new_log_p)
        new_slope = np.where(inside[..., None], gradient(candidate), 0.0)
        log_ratio = new_log_p - log_p
        log_ratio += log_proposal(u, candidate, new_slope)
        log_ratio -= log_proposal(candidate, u, slope)
        accepted = inside & (np.log(rng.random(log_ratio.shape)) < log_ratio)
        u = np.where(accepted[..., None], candidate, u)
        log_p = np.where(accepted, new_log_p, log_p)
        slope = np.where(accepted[..., None], new_slope, slope)
        rate = accepted.mean(axis=1)[:, None, None]
        step *= np.exp(0.5 * (rate - _TARGET_ACCEPTANCE))
    return u
