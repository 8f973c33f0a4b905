"""Held-out log-likelihood of many fits at once.

For one kernel, the fits to all but one fold differ only in sums over rows (theory 16),
and those for several base densities and λ differ only in a right-hand side and in a
multiple of R. So the features are computed once, the statistics of a fold are
subtracted from the total, and each λ costs one small Cholesky factorisation per fold.

With several columns of y the nodes are scattered around the rows, importance sampling
with points that all fits share. For one column the densities are normalised on shared
nodes by the trapezoidal rule, and the log density at a held-out response is
interpolated linearly between its two nodes. Exponentials are convex, so the trapezoidal
sum is never below the integral of that interpolant: what is reported never integrates
to more than one, however narrow a spike, and a spike between two nodes earns nothing.
"""

import contextlib
import functools
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import special
from scipy.spatial.distance import cdist

from kexpfam._typing import Array, Indices
from kexpfam.base_densities import BaseDensity
from kexpfam.errors import IllConditionedError
from kexpfam.kernels import Kernel, SumOfProducts
from kexpfam.partition import Nodes
from kexpfam.score_matching import Basis, ScoreSample, Statistics, statistics


def nodes_inside(
    bases: Sequence[BaseDensity], U: Array, reach: float, resolution: float
) -> Nodes:
    """Nodes fine near responses U (n, 1), within the support of the base densities.

    The ends of a bounded support are nodes; with nodes beyond them, a response between
    the last node inside and the end would have a neighbour where q0 is zero.
    """
    nodes = Nodes.covering(U, reach, resolution)
    supports = np.array([base.support(1)[0] for base in bases])
    low, high = supports[:, 0].min(), supports[:, 1].max()
    if low < nodes.points[0] and high > nodes.points[-1]:
        return nodes
    inside = nodes.points[(nodes.points > low) & (nodes.points < high)]
    ends = [np.array([end]) if np.isfinite(end) else np.zeros(0) for end in (low, high)]
    points = np.concatenate([ends[0], inside, ends[1]])
    return Nodes.trapezoidal(points)


def log_densities(nodes: Nodes, log_tilted: Array, u: Array) -> tuple[Array, Array]:
    """Log density of one response per row, and the mass of each node.

    `log_tilted` is log q0 + T of each row at the nodes, (n, g), and is destroyed. Log
    densities (n,) are −∞ where q0 vanishes at a neighbouring node; masses (n, g) sum to
    one.
    """
    rows = np.arange(len(u))
    left, share = nodes.interpolation(u)
    with np.errstate(invalid="ignore"):  # 0 · (−∞) outside the support of q0
        log_p = (1 - share) * log_tilted[rows, left]
        log_p += share * log_tilted[rows, left + 1]
    log_tilted += nodes.log_weights
    peak = log_tilted.max(axis=1)
    log_tilted -= peak[:, None]
    masses = np.exp(log_tilted, out=log_tilted)
    total = masses.sum(axis=1)
    masses /= total[:, None]
    log_p -= np.log(total) + peak
    return np.nan_to_num(log_p, nan=-np.inf, neginf=-np.inf, posinf=np.inf), masses


# With several columns of y: how many nodes, the least width around each row in
# deviations, and the width and share of draws far from all rows.
_SCATTERED = 2000
_NARROWEST = 0.25
_FAR, _FAR_SHARE = 2.0, 0.2

# Log density of a row whose fit failed; no other is below it.
LOWEST_LOG_DENSITY = -1e4


# From the log of a fitted density on nodes (n, g) and log q0 there (g,) to the log of
# what is left of it, not normalised, (n, g).
Remainder = Callable[[Array, Array], Array]


@dataclass(frozen=True)
class FoldedRows:
    """Training rows sorted by fold.

    Attributes:
        X: Conditions in the coordinates of the kernel, (n, p).
        U: Responses in the coordinates of the kernel, (n, d).
        weights: Row weights, (n,).
        folds: Rows of each fold, as slices.
    """

    X: Array
    U: Array
    weights: Array
    folds: tuple[slice, ...]


def fold_statistics(
    basis: Basis, rows: FoldedRows, sample: ScoreSample
) -> list[Statistics]:
    """Statistics (16) of each fold."""
    weighted = replace(sample, weights=rows.weights)
    return [statistics(basis, weighted.part(fold)) for fold in rows.folds]


def log_densities_by_score(
    basis: Basis,
    rows: FoldedRows,
    base: BaseDensity,
    sample: ScoreSample,
    lams: Sequence[float],
    reach: float,
    remainder: Remainder | None = None,
) -> Array:
    """Log density of every row under fits that have not seen its fold, (l, n).

    Densities of one variable are normalised from −reach to reach, at least. `remainder`
    tells what is left of a fitted density, and is judged in its place.
    """
    normalizer = Normalizer.of(basis, rows, base, reach)
    per_fold = fold_statistics(basis, rows, sample)
    return judged_log_densities(
        normalizer, per_fold, basis.gram(), rows.folds, lams, remainder
    )


def judged_log_densities(
    normalizer: "Normalizer",
    per_fold: Sequence[Statistics],
    R: Array,
    folds: Sequence[slice],
    lams: Sequence[float],
    remainder: Remainder | None = None,
) -> Array:
    """Log density of the rows of a normaliser, under fits without their fold, (l, n).

    Args:
        normalizer: The rows that judge, sorted by fold.
        per_fold: Sums over the rows of each fold, which may be many more.
        R: Gram matrix of the basis.
        folds: Those of the rows that judge.
        lams: Values of λ.
        remainder: See `log_densities_by_score`.
    """
    total = functools.reduce(operator.add, per_fold)
    out = np.full((len(lams), len(normalizer.left)), LOWEST_LOG_DENSITY)
    for fold, own in zip(folds, per_fold, strict=True):
        rest = total - own
        for k, lam in enumerate(lams):
            with contextlib.suppress(IllConditionedError):
                alpha = rest.solve(R, lam)
                out[k, fold] = normalizer.log_densities(alpha, fold, remainder)
    return np.maximum(np.nan_to_num(out, nan=LOWEST_LOG_DENSITY), LOWEST_LOG_DENSITY)


@dataclass(frozen=True, eq=False)
class Normalizer:
    """T of some rows on shared nodes.

    In single precision, which is enough to choose, and twice as fast.

    Attributes:
        terms: For each product k_X·k_Y: k_X at rows and centres (n, m), and derivatives
            of k_Y at centres and nodes, one (m, g) for each group of basis functions.
        log_q0: At the nodes, (g,).
        log_weights: Of the nodes, (g,).
        left: Left neighbour of each row among the nodes, (n,), or of itself if d > 1.
        share: How far each row is towards the right neighbour, (n,).
    """

    terms: list[tuple[Any, list[Any]]]
    log_q0: Any
    log_weights: Any
    left: Indices
    share: Array

    @classmethod
    def of(
        cls, basis: Basis, rows: FoldedRows, base: BaseDensity, reach: float
    ) -> "Normalizer":
        assert isinstance(basis.kernel, SumOfProducts)
        if rows.U.shape[1] == 1:
            nodes = nodes_inside([base], rows.U, reach, basis.kernel.resolution)
            points, log_weights = nodes.points[:, None], nodes.log_weights
            left, share = nodes.interpolation(rows.U[:, 0])
        else:
            # The rows are nodes too, so a spike on one of them cannot hide.
            points, log_weights = scattered_nodes(rows.U)
            left, share = np.arange(len(rows.U)), np.zeros(len(rows.U))
        terms = [
            (
                kx.values(rows.X, basis.X).astype(np.float32),
                _node_features(basis, ky, points),
            )
            for kx, ky in basis.kernel.terms
        ]
        with np.errstate(over="ignore"):
            log_q0 = base.log_density(points).astype(np.float32)
        return cls(terms, log_q0, log_weights.astype(np.float32), left, share)

    def leading(self, centers: int) -> "Normalizer":
        """For functions at the first centres only."""
        terms = [
            (Kx[:, :centers], [part[:centers] for part in features])
            for Kx, features in self.terms
        ]
        return replace(self, terms=terms)

    def log_densities(
        self, alpha: Array, fold: slice, remainder: Remainder | None
    ) -> Array:
        """Log density of the rows of a fold under αᵀφ, or under what is left of it."""
        T = self._on_nodes(alpha.astype(np.float32), fold)
        T += self.log_q0
        if remainder is not None:
            T -= special.logsumexp(T + self.log_weights, axis=1, keepdims=True)
            T = remainder(T, self.log_q0)
        here, left, share = np.arange(len(T)), self.left[fold], self.share[fold]
        right = np.minimum(left + 1, T.shape[1] - 1)
        with np.errstate(invalid="ignore"):  # 0 · (−∞) outside the support of q0
            at = np.where(share < 1, (1 - share) * T[here, left], 0.0)
            at += np.where(share > 0, share * T[here, right], 0.0)
        T += self.log_weights
        peak = T.max(axis=1, keepdims=True)
        T -= peak
        np.exp(T, out=T)
        return at - np.log(T.sum(axis=1)) - peak[:, 0]

    def _on_nodes(self, alpha: Any, fold: slice) -> Any:
        T = None
        for Kx, features in self.terms:
            m = Kx.shape[1]
            weighted = alpha[:m, None] * features[0]
            for g in range(1, len(features)):
                weighted += alpha[g * m : (g + 1) * m, None] * features[g]
            part = Kx[fold] @ weighted
            T = part if T is None else T + part
        return T


def scattered_nodes(U: Array) -> tuple[Array, Array]:
    """Points (g, d) near responses of several columns U (n, d), and their log weights.

    Rows first, then draws from a kernel estimate of their density widened by a few far
    ones, weighted by the inverse of that density: importance sampling with shared
    points.
    """
    n, d = U.shape
    rng = np.random.default_rng(0)
    width = max(_NARROWEST, n ** (-1.0 / (d + 4)))
    draws = max(_SCATTERED - n, n)
    centers = U[rng.integers(n, size=draws)]
    widths = np.where(rng.random(draws) < _FAR_SHARE, _FAR, width)
    points = np.concatenate(
        [U, centers + widths[:, None] * rng.standard_normal((draws, d))]
    )
    squares = cdist(points, U, "sqeuclidean")
    near = special.logsumexp(-0.5 * squares / width**2, axis=1) - d * np.log(width)
    far = special.logsumexp(-0.5 * squares / _FAR**2, axis=1) - d * np.log(_FAR)
    log_density = np.logaddexp(np.log1p(-_FAR_SHARE) + near, np.log(_FAR_SHARE) + far)
    log_density -= np.log(n) + 0.5 * d * np.log(2.0 * np.pi)
    return points, -log_density - np.log(len(points))


def _node_features(basis: Basis, ky: Kernel, points: Array) -> list[Any]:
    pairs = ky.at(points, basis.Y)
    return [
        np.ascontiguousarray(pairs.partial(0, 0, s, j).T, dtype=np.float32)
        for s, j in basis.orders
    ]
