"""Draws from a density known up to a constant, starting from importance weights.

Resampling the weighted draws gives points with the right distribution but many
repeats; a few Metropolis-adjusted Langevin steps, which leave the target unchanged,
move the repeats apart (Gilks and Berzuini 2001).
"""

from collections.abc import Callable

import numpy as np

from kexpfam._typing import Array
from kexpfam.partition.moves import generators, move, spread_root, systematic

# Steps after resampling, and the first step size in units of the spread. Twenty steps
# of this size decorrelate repeats in the dimensions exact fits can handle.
_STEPS = 20
_FIRST_STEP = 0.5


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
    n, d = len(weights), draws.shape[1]
    if not size or not n:
        return np.empty((n, size, d))
    rngs = generators(rng, n)
    u = np.stack(
        [
            draws[own.choice(len(draws), size, p=row)]
            for own, row in zip(rngs, weights, strict=True)
        ]
    )
    # The spread of as many as there are: one point that is wanted has none.
    many = np.stack([draws[systematic(row, 0.5, len(draws))] for row in weights])
    step = np.full(n, _FIRST_STEP)
    root = spread_root(many)
    return move(log_density, gradient, u, step, root, rngs, moves=_STEPS).points
