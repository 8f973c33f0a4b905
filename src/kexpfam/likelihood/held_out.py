"""Held-out log-likelihood of likelihood fits along a path of λ.

Each λ is fitted to all rows first, from the fit before it. From there a fit without one
fold is a few steps away; being convex, it does not remember where it came from.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from kexpfam._typing import Array
from kexpfam.base_densities import BaseDensity
from kexpfam.likelihood.fit import minimize
from kexpfam.likelihood.objective import Parts, PenalizedLikelihood, quadrature_nodes
from kexpfam.score_matching import Basis

# Log density of a row that is nowhere; no other is below it.
LOWEST_LOG_DENSITY = -1e4

# Gradients, relative to the mean of φ, below which log densities do not change in the
# digits that choose among fits.
TOLERANCE = 1e-5

# Held-out densities are normalised on nodes whose distances are halved so often:
# interpolating between them then costs no more than a thousandth of a nat or so.
_REFINEMENT = 2

_MOST_STEPS = 30


def held_out_log_densities(
    basis: Basis,  # Kernel functions, of products k_X·k_Y or sums of them
    base: BaseDensity,  # q0 in the coordinates of the kernel
    X: Array,  # Conditions, (n, p)
    U: Array,  # Responses, (n, 1)
    weights: Array,  # Row weights, (n,)
    folds: Sequence[slice],  # Rows of each fold; every row in one
    lams: Sequence[float],  # The λ, in an order in which neighbours are similar
) -> Array:
    """Log density of every row under fits that have not seen its fold, (l, n)."""
    resolution = basis.kernel.resolution
    nodes = quadrature_nodes(base, U, resolution)
    problem = PenalizedLikelihood.of(basis, base, X, U, weights, lams[0], nodes)
    starts = _path(problem, [np.zeros(basis.size)] * len(lams), lams)
    fine = quadrature_nodes(base, U, resolution, refinement=_REFINEMENT)
    judge = Parts.of(basis, base, X, fine)
    log_q0 = judge.log_base - fine.log_weights
    left, share = fine.interpolation(U[:, 0])
    out = np.empty((len(lams), len(U)))
    for fold in folds:
        rest = np.delete(np.arange(len(U)), fold)
        problem = PenalizedLikelihood.of(
            basis, base, X[rest], U[rest], weights[rest], lams[0], nodes
        )
        held_out = judge.at(fold)
        here = np.arange(len(held_out.Kx))
        for k, beta in enumerate(_path(problem, starts, lams)):
            T = held_out.on_nodes(problem.alpha(beta))
            log_p = T + log_q0
            _, log_z = held_out.probabilities(T)
            at = (1 - share[fold]) * log_p[here, left[fold]]
            at += share[fold] * log_p[here, left[fold] + 1]
            out[k, fold] = at - log_z
    return np.maximum(np.nan_to_num(out, nan=LOWEST_LOG_DENSITY), LOWEST_LOG_DENSITY)


def _path(
    problem: PenalizedLikelihood, starts: list[Array], lams: Sequence[float]
) -> list[Array]:
    """Whitened coefficients for each λ, from given starts or the λ before."""
    found: list[Array] = []
    for start, lam in zip(starts, lams, strict=True):
        here = replace(problem, lam=lam)
        beta = start if start.any() or not found else found[-1]
        found.append(minimize(here, beta, _MOST_STEPS, TOLERANCE).state.beta)
    return found
