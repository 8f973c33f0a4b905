"""Held-out log-likelihood of many fits at once.

For one kernel, the fits to all but one fold differ only in sums over rows (theory 16),
and those for several base densities and λ differ only in a right-hand side and in a
multiple of R. So the features are computed once, the statistics of a fold are
subtracted from the total, and each λ costs one small Cholesky factorisation per fold.

For one column of y the densities are normalised on shared nodes by the trapezoidal
rule, and the log density at a held-out response is interpolated linearly between its
two nodes. Exponentials are convex, so the trapezoidal sum is never below the integral
of that interpolant: what is reported never integrates to more than one, however
narrow a spike is, and a spike between two nodes earns nothing.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from kexpfam._typing import Array
from kexpfam.base_densities import BaseDensity
from kexpfam.errors import IllConditionedError
from kexpfam.kernels import Kernel, SumOfProducts
from kexpfam.score_matching import Basis, ScoreSample, Statistics
from kexpfam.selection.normalize import nodes_inside

# A held-out point is not worth less than this log density, in units of the responses:
# one absurd fit at one point shall not outweigh everything else that is known of it.
LOWEST_LOG_DENSITY = -50.0


@dataclass(frozen=True)
class Rows:
    """Training rows sorted by fold.

    Attributes:
        X: Conditions in the coordinates of the kernel, (n, p).
        U: Responses in the coordinates of the kernel, (n, 1).
        weights: Row weights, (n,).
        folds: Rows of each fold, as slices.
    """

    X: Array
    U: Array
    weights: Array
    folds: tuple[slice, ...]


def fold_statistics(
    basis: Basis, rows: Rows, samples: list[ScoreSample]
) -> list[Statistics]:
    """Statistics (16) of each fold, for several base densities at once."""
    pairs = basis.pairs(rows.X, rows.U)
    F, S = basis.features(pairs, 1, 0), basis.features(pairs, 2, 0)
    diffusion = rows.weights * samples[0].diffusion[:, 0]
    drift = np.stack([rows.weights * s.drift[:, 0] for s in samples], axis=1)
    statistics = []
    for fold in rows.folds:
        C = F[fold].T @ (diffusion[fold, None] * F[fold])
        b = F[fold].T @ drift[fold] + (diffusion[fold] @ S[fold])[:, None]
        statistics.append(Statistics(C, b, float(rows.weights[fold].sum())))
    return statistics


def held_out_log_densities(
    basis: Basis,
    rows: Rows,
    bases: list[BaseDensity],
    samples: list[ScoreSample],
    lams: list[float],
    reach: float,
) -> Array:
    """Log density of every row under fits that have not seen its fold, (q, l, n)."""
    nodes = nodes_inside(bases, rows.U, reach, basis.kernel.resolution)
    grid = nodes.points[:, None]
    log_q0 = np.stack([base.log_density(grid) for base in bases]).astype(np.float32)
    log_w = nodes.log_weights.astype(np.float32)
    left, share = nodes.interpolation(rows.U[:, 0])
    assert isinstance(basis.kernel, SumOfProducts)
    terms = [
        (
            kx.values(rows.X, basis.X).astype(np.float32),
            _node_features(basis, ky, grid),
        )
        for kx, ky in basis.kernel.terms
    ]
    per_fold = fold_statistics(basis, rows, samples)
    total = sum(per_fold[1:], start=per_fold[0])
    R = basis.gram()
    out = np.full((len(bases), len(lams), len(rows.U)), LOWEST_LOG_DENSITY)
    for fold, own in zip(rows.folds, per_fold, strict=True):
        rest = total - own
        here = np.arange(fold.stop - fold.start)
        for k, lam in enumerate(lams):
            try:
                alpha = rest.solve(R, lam).astype(np.float32)
            except IllConditionedError:
                continue
            for q in range(len(bases)):
                T = _on_nodes(terms, alpha[:, q], fold)
                T += log_q0[q]
                at = (1 - share[fold]) * T[here, left[fold]]
                at += share[fold] * T[here, left[fold] + 1]
                T += log_w
                peak = T.max(axis=1, keepdims=True)
                T -= peak
                np.exp(T, out=T)
                log_z = np.log(T.sum(axis=1)) + peak[:, 0]
                out[q, k, fold] = at - log_z
    return np.maximum(np.nan_to_num(out, nan=LOWEST_LOG_DENSITY), LOWEST_LOG_DENSITY)


def _node_features(basis: Basis, ky: Kernel, grid: Array) -> list[Any]:
    pairs = ky.at(grid, basis.Y)
    return [
        np.ascontiguousarray(pairs.partial(0, 0, s, j).T, dtype=np.float32)
        for s, j in basis.orders
    ]


def _on_nodes(terms: list[Any], alpha: Any, fold: slice) -> Any:
    T = None
    for Kx, features in terms:
        m = Kx.shape[1]
        weighted = alpha[:m, None] * features[0]
        for g in range(1, len(features)):
            weighted += alpha[g * m : (g + 1) * m, None] * features[g]
        part = Kx[fold] @ weighted
        T = part if T is None else T + part
    return T
