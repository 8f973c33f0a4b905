"""Cross-validation: what rows say of fits that have not seen them.

Whatever the fitting method, it comes down to coefficients α of a basis for the fit
without each fold, for several λ. Whatever the criterion, it takes such coefficients and
says what each held-out row is worth under them. `cross_validated` brings them together.

Of score matching, the fits to all but one fold differ only in sums over rows (theory
16), and those for several λ only in a multiple of R. So the features are computed once,
the statistics of a fold are subtracted from the total, and each λ costs one small
Cholesky factorisation per fold.

Densities of one column of y are normalised on nodes that all rows share by the
trapezoidal rule, and the log density at a held-out response is interpolated linearly
between its two nodes. Exponentials are convex, so the trapezoidal sum is never below
the integral of that interpolant: what is reported never integrates to more than one,
however narrow a spike, and a spike between two nodes earns nothing. With several
columns of y the nodes are scattered around the rows, importance sampling with points
that all fits share.
"""

import functools
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from scipy import special
from scipy.spatial.distance import cdist

from kexpfam._typing import Array, Indices
from kexpfam.base_densities import BaseDensity
from kexpfam.errors import IllConditionedError
from kexpfam.kernels import JointKernel
from kexpfam.partition import Nodes
from kexpfam.score_matching import Basis, ScoreSample, Statistics, statistics

# Log density of a row whose fit failed; no other is below it.
LOWEST_LOG_DENSITY = -1e4

# From the log of a fitted density on nodes (n, g) and log q0 there (g,) to the log of
# what is left of it, not normalised, (n, g).
Remainder = Callable[[Array, Array], Array]


@dataclass(frozen=True)
class HeldOutProblem:
    """Rows in folds, the centres of low-rank fits, and the base density."""

    # Rows in the coordinates of the kernel, sorted by fold; their weights need not sum
    # to one
    sample: ScoreSample
    folds: tuple[slice, ...]  # Rows of each fold, slices that follow each other
    centers: Indices  # Rows that are centres of the low-rank basis
    base: BaseDensity  # q0, not needed by the score
    reach: float  # Densities are normalised from −reach to reach, at least
    derivatives: bool = True  # Whether the basis holds derivatives of the kernel too

    @property
    def rows_of_folds(self) -> list[Indices]:
        """Numbers of the rows of each fold."""
        return [np.arange(fold.start, fold.stop) for fold in self.folds]

    @property
    def mean_weights(self) -> Array:
        """Row weights that sum to one, (n,)."""
        return self.sample.weights / self.sample.weights.sum()

    def basis(self, kernel: JointKernel) -> Basis:
        """The low-rank basis of a kernel."""
        sample, centers = self.sample, self.centers
        return Basis(kernel, sample.X[centers], sample.Y[centers], self.derivatives)

    def nodes(self, kernel: JointKernel) -> Nodes:
        """Nodes for fits with a kernel; one column of y."""
        return nodes_inside(self.base, self.sample.Y, self.reach, kernel.resolution)


def equal_folds(n: int, count: int) -> tuple[slice, ...]:
    """Numbers 0 to n − 1 in so many parts of nearly the same size.

    Example:
        >>> equal_folds(5, 2)
        (slice(0, 2, None), slice(2, 5, None))
    """
    edges = np.linspace(0, n, count + 1).astype(int).tolist()
    return tuple(map(slice, edges[:-1], edges[1:]))


def coefficients_without_folds(
    per_fold: Sequence[Statistics], R: Array, lams: Sequence[float]
) -> Iterator[Array]:
    """α of (16) without each fold, for each λ, (M, l); NaN where there is none.

    `per_fold` are sums over the rows of each fold, and R the Gram matrix of the basis.
    """
    total = functools.reduce(operator.add, per_fold)
    for own in per_fold:
        rest = total - own
        alphas = np.full((len(R), len(lams)), np.nan)
        for k, lam in enumerate(lams):
            with suppress(IllConditionedError):
                alphas[:, k] = rest.solve(R, lam)
        yield alphas


class FoldCriterion(ABC):
    """What held-out rows are worth under fits that have not seen them."""

    # Whether it has units that a change of variables converts, so that fits in
    # different coordinates can be compared by it
    comparable: ClassVar[bool] = True
    # Whether sums over the rows of a fold are all that it needs of them
    additive: ClassVar[bool] = False

    @abstractmethod
    def of_fold(self, k: int, alphas: Array) -> Array:
        """Rows of fold k under α (M, l) without it, (l, rows of it) or more axes."""


def cross_validated(coefficients: Iterable[Array], criterion: FoldCriterion) -> Array:
    """What each row is worth under fits without its fold, (l, n) or more axes."""
    parts = [criterion.of_fold(k, alphas) for k, alphas in enumerate(coefficients)]
    return np.concatenate(parts, axis=1)


def cross_validated_by_score(
    problem: HeldOutProblem,
    kernel: JointKernel,
    lams: Sequence[float],
    criterion: Callable[..., FoldCriterion],
) -> Array:
    """The same for low-rank fits by score matching."""
    basis = problem.basis(kernel)
    per_fold = [statistics(basis, problem.sample.part(fold)) for fold in problem.folds]
    coefficients = coefficients_without_folds(per_fold, basis.gram(), lams)
    return cross_validated(coefficients, criterion(problem, basis))


@dataclass(frozen=True, eq=False)
class LogDensities(FoldCriterion):
    """Log density of each row, in the coordinates of the kernel, from T on nodes."""

    # For each product k_X·k_Y: k_X at rows and centres (n, m), and derivatives of k_Y
    # at centres and nodes, one (m, g) for each group of basis functions
    terms: list[tuple[Any, list[Any]]]
    log_q0: Any  # At the nodes, (g,)
    log_weights: Any  # Of the nodes, (g,)
    left: Indices  # Left neighbour of each row among the nodes, (n,), itself if d > 1
    share: Array  # How far each row is towards the right neighbour, (n,)
    folds: tuple[slice, ...]
    remainder: Remainder | None = None  # Tells what of a density counts, if not all

    @classmethod
    def of(
        cls,
        problem: HeldOutProblem,
        basis: Basis,
        *,
        nodes: Nodes | None = None,
        dtype: Any = np.float32,
        remainder: Remainder | None = None,
    ) -> "LogDensities":
        """With nodes for the kernel unless told otherwise.

        Single precision is enough to choose, and twice as fast.
        """
        X, U = problem.sample.X, problem.sample.Y
        assert basis.kernel.products
        if U.shape[1] == 1:
            nodes = problem.nodes(basis.kernel) if nodes is None else nodes
            points, log_weights = nodes.points[:, None], nodes.log_weights
            left, share = nodes.interpolation(U[:, 0])
        else:
            # The rows are nodes too, so a spike on one of them cannot hide.
            points, log_weights = scattered_nodes(U)
            left, share = np.arange(len(U)), np.zeros(len(U))
        terms = []
        for kx, ky in basis.kernel.products:
            pairs = ky.at(points, basis.Y)
            on_nodes = [
                np.ascontiguousarray(pairs.partial(0, 0, s, j).T, dtype=dtype)
                for s, j in basis.orders
            ]
            terms.append((kx.values(X, basis.X).astype(dtype, copy=False), on_nodes))
        with np.errstate(over="ignore"):
            log_q0 = problem.base.log_density(points).astype(dtype)
        log_weights = log_weights.astype(dtype)
        return cls(terms, log_q0, log_weights, left, share, problem.folds, remainder)

    def leading(self, centers: int) -> "LogDensities":
        """For functions at the first centres only."""
        terms = [
            (Kx[:, :centers], [part[:centers] for part in features])
            for Kx, features in self.terms
        ]
        return replace(self, terms=terms)

    def of_fold(self, k: int, alphas: Array) -> Array:
        fold = self.folds[k]
        out = np.full(
            (alphas.shape[1], fold.stop - fold.start), LOWEST_LOG_DENSITY, dtype=float
        )
        for row, alpha in zip(out, alphas.T, strict=True):
            if np.isfinite(alpha).all():
                row[:] = self._log_densities(alpha, fold)
        return np.maximum(
            np.nan_to_num(out, nan=LOWEST_LOG_DENSITY), LOWEST_LOG_DENSITY
        )

    def _log_densities(self, alpha: Array, fold: slice) -> Array:
        """Log density of the rows of a fold under αᵀφ, or under what is left of it."""
        T = self.log_on_nodes(alpha, fold)
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

    def log_on_nodes(self, alpha: Array, fold: slice) -> Any:
        """The log of what is left of q0 exp αᵀφ for each row, not normalised."""
        T, alpha = None, alpha.astype(self.log_q0.dtype)
        for Kx, features in self.terms:
            m = Kx.shape[1]
            weighted = alpha[:m, None] * features[0]
            for g in range(1, len(features)):
                weighted += alpha[g * m : (g + 1) * m, None] * features[g]
            part = Kx[fold] @ weighted
            T = part if T is None else T + part
        assert T is not None
        T += self.log_q0
        if self.remainder is not None:
            T -= special.logsumexp(T + self.log_weights, axis=1, keepdims=True)
            T = self.remainder(T, self.log_q0)
        return T


@dataclass(frozen=True, eq=False)
class RowLaws(FoldCriterion):
    """What is said of each row: the mass below its response, a mean and a variance.

    The mass below is its PIT value. One column of y; (l, rows, 3), NaN where a fit
    failed. Densities are linear between the nodes of `LogDensities`.
    """

    log_densities: LogDensities
    points: Array  # The nodes, (g,)
    # The user's y at the nodes for the rows of a fold, (rows, g); the nodes if None
    responses: Callable[[slice, Array], Array] | None = None

    @classmethod
    def of(
        cls,
        problem: HeldOutProblem,
        basis: Basis,
        *,
        nodes: Nodes | None = None,
        responses: Callable[[slice, Array], Array] | None = None,
        **how: Any,
    ) -> "RowLaws":
        """As in `LogDensities.of`, in double precision."""
        nodes = problem.nodes(basis.kernel) if nodes is None else nodes
        how = {"dtype": np.float64, **how}
        found = LogDensities.of(problem, basis, nodes=nodes, **how)
        return cls(found, nodes.points, responses)

    def of_fold(self, k: int, alphas: Array) -> Array:
        fold = self.log_densities.folds[k]
        out = np.full((alphas.shape[1], fold.stop - fold.start, 3), np.nan)
        for rows, alpha in zip(out, alphas.T, strict=True):
            if np.isfinite(alpha).all():
                log_p = self.log_densities.log_on_nodes(alpha, fold)
                p = np.exp(log_p - log_p.max(axis=1, keepdims=True))
                rows[:, 0] = self._below(p, fold)
                y = self.points
                if self.responses is not None:
                    y = self.responses(fold, y)
                rows[:, 1:] = moments_on_nodes(p, self.points, y)
        return out

    def _below(self, p: Array, fold: slice) -> Array:
        steps = np.diff(self.points)
        cells = 0.5 * steps * (p[:, :-1] + p[:, 1:])
        below = np.cumsum(cells, axis=1)
        here = np.arange(len(p))
        left, share = self.log_densities.left[fold], self.log_densities.share[fold]
        cell = np.minimum(left, len(steps) - 1)
        share = np.where(left > cell, 1.0, share)  # at the last node
        p_left, p_right = p[here, cell], p[here, cell + 1]
        inside = steps[cell] * share * (p_left + 0.5 * share * (p_right - p_left))
        return (below[here, cell] - cells[here, cell] + inside) / below[:, -1]


def moments_on_nodes(p: Array, points: Array, y: Array) -> Array:
    """Mean and variance of y, from densities at nodes by the trapezoidal rule, (n, 2).

    Args:
        p: Densities with respect to the nodes, not normalised, (n, g).
        points: The nodes, increasing, (g,).
        y: The variable at the nodes, (g,) or (n, g).
    """
    masses = p * np.exp(Nodes.trapezoidal(points).log_weights)
    masses /= masses.sum(axis=1, keepdims=True)
    mean = (masses * y).sum(axis=1)
    variance = (masses * np.square(y - mean[:, None])).sum(axis=1)
    return np.stack([mean, variance], axis=1)


@dataclass(frozen=True, eq=False)
class RowScores(FoldCriterion):
    """Minus the score-matching loss of each row, theory (2); −∞ where a fit failed."""

    comparable: ClassVar[bool] = False
    additive: ClassVar[bool] = True

    problem: HeldOutProblem
    basis: Basis

    @classmethod
    def of(cls, problem: HeldOutProblem, basis: Basis, **_: Any) -> "RowScores":
        """However densities are normalised, which a score does not need."""
        return cls(problem, basis)

    def of_fold(self, k: int, alphas: Array) -> Array:
        sample = self.problem.sample.part(self.problem.folds[k])
        pairs = self.basis.pairs(sample.X, sample.Y)
        scores = np.zeros((len(sample.Y), alphas.shape[1]))
        for i in range(sample.Y.shape[1]):
            gradient = self.basis.features(pairs, 1, i) @ alphas
            curvature = self.basis.features(pairs, 2, i) @ alphas
            g, linear = sample.gsm_weights[:, i, None], sample.gsm_linear[:, i, None]
            scores += g * (0.5 * gradient**2 + curvature) + linear * gradient
        return -np.nan_to_num(scores, nan=np.inf, posinf=np.inf).T


@dataclass(frozen=True, eq=False)
class FoldScores(FoldCriterion):
    """Minus the mean loss of the rows of a fold, ½αᵀCα + bᵀα, from their sums alone."""

    comparable: ClassVar[bool] = False
    additive: ClassVar[bool] = True

    per_fold: Sequence[Statistics]

    def of_fold(self, k: int, alphas: Array) -> Array:
        own = self.per_fold[k]
        losses = [0.5 * alpha @ own.C @ alpha + own.b @ alpha for alpha in alphas.T]
        found = -np.array(losses)[:, None] / own.weight
        return np.nan_to_num(found, nan=-np.inf, posinf=np.inf, neginf=-np.inf)


# What `KCEF.select` may say.
CRITERIA: dict[str, type[LogDensities] | type[RowScores]] = {
    "likelihood": LogDensities,
    "score": RowScores,
}


def nodes_inside(base: BaseDensity, U: Array, reach: float, resolution: float) -> Nodes:
    """Nodes fine near responses U (n, 1), within the support of the base density.

    The ends of a bounded support are nodes; with nodes beyond them, a response between
    the last node inside and the end would have a neighbour where q0 is zero.
    """
    nodes = Nodes.covering(U, reach, resolution)
    low, high = base.column_support(0)
    if low < nodes.points[0] and high > nodes.points[-1]:
        return nodes
    inside = nodes.points[(nodes.points > low) & (nodes.points < high)]
    ends = [np.array([end]) if np.isfinite(end) else np.zeros(0) for end in (low, high)]
    return Nodes.trapezoidal(np.concatenate([ends[0], inside, ends[1]]))


def scattered_nodes(
    U: Array,
    *,
    count: int = 2000,
    narrowest: float = 0.25,  # Least width around each row, in standard deviations
    far: float = 2.0,  # Width of the draws far from all rows,
    far_share: float = 0.2,  # and their share
) -> tuple[Array, Array]:
    """Points (g, d) near responses of several columns U (n, d), and their log weights.

    Rows first, then draws from a kernel estimate of their density widened by a few far
    ones, weighted by the inverse of that density: importance sampling with shared
    points.
    """
    n, d = U.shape
    rng = np.random.default_rng(0)
    width = max(narrowest, n ** (-1.0 / (d + 4)))
    draws = max(count - n, n)
    centers = U[rng.integers(n, size=draws)]
    widths = np.where(rng.random(draws) < far_share, far, width)
    points = np.concatenate(
        [U, centers + widths[:, None] * rng.standard_normal((draws, d))]
    )
    squares = cdist(points, U, "sqeuclidean")
    near = special.logsumexp(-0.5 * squares / width**2, axis=1) - d * np.log(width)
    away = special.logsumexp(-0.5 * squares / far**2, axis=1) - d * np.log(far)
    log_density = np.logaddexp(np.log1p(-far_share) + near, np.log(far_share) + away)
    log_density -= np.log(n) + 0.5 * d * np.log(2.0 * np.pi)
    return points, -log_density - np.log(len(points))
