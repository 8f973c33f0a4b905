"""Penalised likelihood of rows of which some are censored.

A censored row counts by the mass of its interval, computed on the nodes that normalise
all densities (`Intervals`); the others by their log density. The objective is a convex
function minus another one, so that its minimum may be a local one; fits start from
zero, the base density.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from kexpfam._typing import Array, Indices
from kexpfam.base_densities import BaseDensity
from kexpfam.likelihood.fit import minimize
from kexpfam.likelihood.objective import (
    Intervals,
    NodeMatrices,
    PenalizedLikelihood,
    quadrature_nodes,
)
from kexpfam.partition import Nodes
from kexpfam.score_matching import Basis


@dataclass(frozen=True)
class CensoredRows:
    """Rows in the coordinates of the kernel, one column of y."""

    X: Array  # Conditions, (n, p)
    lower: Array  # Lower ends of the responses, (n,)
    upper: Array  # Upper ends, equal where they were observed, (n,)
    likely: Array  # Responses, or likely ones inside the interval, (n,)
    weights: Array  # Row weights, (n,)

    @property
    def exact(self) -> NDArray[np.bool_]:
        """Which responses were observed, (n,)."""
        return self.lower == self.upper

    def part(self, index: Indices) -> "CensoredRows":
        """Some of the rows."""
        parts = self.X, self.lower, self.upper, self.likely, self.weights
        return CensoredRows(*(array[index] for array in parts))


def censored_nodes(
    base: BaseDensity, rows: CensoredRows, resolution: float, refinement: int = 2
) -> Nodes:
    """Nodes on which densities and masses of intervals are integrated.

    Masses of intervals are those of functions linear between nodes: with distances
    halved twice they are right to about 1e-4 of the hazard.
    """
    ends = np.concatenate([rows.lower, rows.upper, rows.likely])
    U = ends[np.isfinite(ends)][:, None]
    return quadrature_nodes(base, U, resolution, refinement=refinement)


def censored_objective(
    basis: Basis, base: BaseDensity, rows: CensoredRows, lam: float, nodes: Nodes
) -> PenalizedLikelihood:
    """The objective for rows of which some are censored."""
    share = rows.weights / rows.weights.sum()
    exact = rows.exact
    features = basis.features(basis.pairs(rows.X, rows.likely[:, None]), 0, 0)
    hidden = np.flatnonzero(~exact)
    weights = nodes.interval_weights(rows.lower[hidden], rows.upper[hidden])
    intervals = Intervals(
        hidden,
        share[hidden],
        weights * np.exp(-nodes.log_weights),
        share[hidden] @ features[hidden],
    )
    return PenalizedLikelihood(
        NodeMatrices.of(basis, base, rows.X, nodes),
        share,
        share[exact] @ features[exact],
        lam,
        intervals=intervals if len(hidden) else None,
    )


def censored_path(
    basis: Basis,
    base: BaseDensity,
    rows: CensoredRows,
    lams: Sequence[float],
    nodes: Nodes,
    *,
    tolerance: float = 1e-6,
    max_iterations: int = 100,
) -> list[Array]:
    """Coefficients of fits for several λ, each from the one before, (M,) each."""
    problem = censored_objective(basis, base, rows, lams[0], nodes)
    beta, found = np.zeros(basis.size), []
    for lam in lams:
        here = replace(problem, lam=lam)
        beta = minimize(here, beta, max_iterations, tolerance).state.beta
        found.append(here.alpha(beta))
    return found


def censored_log_scores(
    basis: Basis, base: BaseDensity, rows: CensoredRows, alpha: Array, nodes: Nodes
) -> Array:
    """Log density of observed rows, and log mass of the intervals of others, (n,)."""
    parts = NodeMatrices.of(basis, base, rows.X, nodes)
    P, log_z = parts.probabilities(parts.on_nodes(alpha))
    U = rows.likely[:, None]
    found = basis.features(basis.pairs(rows.X, U), 0, 0) @ alpha
    found += base.log_density(U) - log_z
    hidden = np.flatnonzero(~rows.exact)
    weights = nodes.interval_weights(rows.lower[hidden], rows.upper[hidden])
    mass = (P[hidden] * weights * np.exp(-nodes.log_weights)).sum(axis=1)
    found[hidden] = np.log(np.maximum(mass, 1e-300))
    return found
