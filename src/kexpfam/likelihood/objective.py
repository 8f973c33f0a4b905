"""The penalised likelihood of T = αᵀφ, its gradient and its Hessian.

With rows (x_a, u_a), weights w_a that sum to W, and one column of y,

    L(α) = −(1/W) Σ_a w_a [αᵀφ(x_a, u_a) − log Z_α(x_a)] + (λ/2) αᵀRα               (17)

is convex: its Hessian is the mean covariance of φ under p(·|x_a), plus λR. For products
φ_sc(x, u) = k(x, x_c) κ_sc(u), where s is the order of the derivative, expectations on
shared nodes u_g with probabilities P_ag are matrix products, and so is the Hessian:

    Σ_a w_a E_a[φ_sc φ_td] = Σ_g κ_sc(u_g) κ_td(u_g) Σ_a w_a P_ag k_ac k_ad,        (18)

whose inner sum is one product of (nodes, rows) and (rows, pairs of centres) that does
not know of s and t. A sum of products is one with more centres, some of which share
an α.

The unknown is β = Lᵀα with R = LLᵀ: the penalty becomes ‖β‖²/2, gradients are gradients
in the RKHS, and the Hessian is at least λ.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from scipy import linalg

from kexpfam._parallel import cached_property
from kexpfam._typing import Array, Indices
from kexpfam.base_densities import BaseDensity
from kexpfam.partition import Nodes
from kexpfam.score_matching import Basis


@dataclass(frozen=True)
class NodeSpec:
    """Nodes on which log Z is computed, and how well it must be known."""

    # Distance in lengthscales of y, and its largest value in units of the responses'
    # std: peaks of exp(T) as narrow as that are integrated to 1e-8
    step_in_lengthscales: float = 0.25
    largest_step: float = 0.1
    # Features reach so many lengthscales beyond the data before nodes may thin out, by
    # this much from each to the next
    margin: float = 2.0
    growth: float = 0.14
    # Nodes go on until so little of q0 is beyond, or so far that no tail matters
    negligible_tail: float = 1e-10
    far_away: float = 1e6
    most_nodes: int = 4000  # They are not closer than so many in the range of the data
    # Log Z on nodes half as far apart may differ by this much, else those are used, up
    # to so many times; an error above the last number shows in printed figures
    tolerance: float = 1e-6
    most_refinements: int = 3
    worst_error: float = 1e-4


NODES = NodeSpec()


def quadrature_nodes(
    base: BaseDensity,  # q0
    U: Array,  # Training responses, (n, 1)
    resolution: float,  # Length below which T is smooth
    *,
    refinement: int = 0,  # How often the distances are halved
    spec: NodeSpec = NODES,
) -> Nodes:
    """Nodes on which q0 exp T can be integrated."""
    data_low, data_high = float(U.min()), float(U.max())
    ell = min(resolution, 0.5 * (data_high - data_low) + 1e-3)
    step = min(spec.step_in_lengthscales * resolution, spec.largest_step)
    low, high = data_low - spec.margin * ell, data_high + spec.margin * ell
    step = max(step / 2**refinement, (high - low) / spec.most_nodes)

    def reach(u: float, sign: float) -> float:
        """Where nearly nothing of q0 is left on one side."""
        while abs(u) < spec.far_away:
            density = np.exp(base.log_density(np.array([[u]]))[0])
            if abs(u) * density < spec.negligible_tail:
                break
            u += sign * max(1.0, abs(u))
        return u

    reach_low, reach_high = base.column_range(0)
    return Nodes.analytic(
        low,
        high,
        step=step,
        support=base.column_support(0),
        reach=(reach(min(reach_low, low), -1.0), reach(max(reach_high, high), 1.0)),
        growth=spec.growth / 2**refinement,
    )


@dataclass(frozen=True)
class State:
    """The objective at one point of its domain."""

    beta: Array  # Whitened coefficients, (M,)
    value: float  # L
    gradient: Array  # In whitened coordinates, (M,)
    rounding: float  # Differences of L below this are not visible
    P: Array  # Probabilities of the nodes for each condition, (r, g)


class CenterPairs(NamedTuple):
    """Some pairs of centres (i, j), and products of their kernel functions."""

    i: Indices
    j: Indices
    of_x: Array  # k_ri k_rj, (r, pairs)
    of_y: dict[tuple[int, int], Array]  # (s, t) -> κ_si(u_g) κ_tj(u_g), (g, pairs)


@dataclass(frozen=True)
class NodeMatrices:
    """What the likelihood needs of a basis, whether it depends on rows or on nodes."""

    Kx: Array  # k(x_r, x_c) for each condition and centre of each term, (r, c)
    kappa: Array  # κ_sc(u_g) for each derivative s, (s, g, c)
    log_base: Array  # log q0 plus the logarithm of the rule's weight, (g,)
    L: Array  # Cholesky factor of R, lower, (M, M)
    terms: int  # How many centres share one coefficient
    block_numbers: int = 2**22  # Kept for the Hessian, or held in a block of it: 32 MiB
    # Products of kappa for all pairs of centres, if these are few; of all rows alike
    _of_y: dict[tuple[int, int], Array] = field(default_factory=dict, repr=False)

    @classmethod
    def of(
        cls, basis: Basis, base: BaseDensity, X: Array, nodes: Nodes
    ) -> "NodeMatrices":
        """Kernel matrices between conditions X, nodes and the centres of a basis."""
        products = basis.kernel.products
        if not products:
            raise TypeError(
                f"kernel must be a product k_X·k_Y or a sum of such to be fitted by "
                f"likelihood, got {type(basis.kernel).__name__}; use separable(...)."
            )
        nothing = np.empty((0, 0))
        L = np.asfortranarray(linalg.cholesky(basis.gram(), lower=True))
        parts = cls(nothing, *_at_nodes(basis, base, nodes), L, len(products))
        return parts.with_conditions(basis, X)

    def on(self, basis: Basis, base: BaseDensity, nodes: Nodes) -> "NodeMatrices":
        """The same with other nodes."""
        kappa, log_base = _at_nodes(basis, base, nodes)
        return replace(self, kappa=kappa, log_base=log_base, _of_y={})

    def with_conditions(self, basis: Basis, X: Array) -> "NodeMatrices":
        """The same at other conditions."""
        Kx = [kx.values(X, basis.X) for kx, _ in basis.kernel.products]
        return replace(self, Kx=np.concatenate(Kx, axis=1))

    def at(self, rows: slice | Indices) -> "NodeMatrices":
        """The same at some of the conditions."""
        return replace(self, Kx=self.Kx[rows])

    def without_conditions(self) -> "NodeMatrices":
        """What does not depend on rows: little to send to other processes."""
        return replace(self, Kx=self.Kx[:0], _of_y={})

    def on_nodes(self, alpha: Array) -> Array:
        """T(x_r, u_g), (r, g)."""
        groups = np.tile(alpha.reshape(len(self.kappa), -1), self.terms)
        weighted = np.einsum("sgc,sc->gc", self.kappa, groups)
        return self.Kx @ weighted.T

    def probabilities(self, T: Array) -> tuple[Array, Array]:
        """Probabilities of nodes (r, g), in place of T, and log Z (r,)."""
        T += self.log_base
        peak = T.max(axis=1, keepdims=True)
        T -= peak
        np.exp(T, out=T)
        total = T.sum(axis=1, keepdims=True)
        T /= total
        return T, (np.log(total) + peak)[:, 0]

    def join(self, features: Array) -> Array:
        """Add up features (..., s·c) of centres that share a coefficient."""
        shape = (*features.shape[:-1], len(self.kappa), self.terms, -1)
        return features.reshape(shape).sum(axis=-2).reshape(*features.shape[:-1], -1)

    def pairs(self) -> Iterable[CenterPairs]:
        """All pairs of centres i ≤ j, in blocks; kept if they are few."""
        return self._few_pairs or map(self._pair_block, self._pair_blocks)

    @cached_property
    def _few_pairs(self) -> list[CenterPairs]:
        blocks = self._pair_blocks
        return [self._pair_block(blocks[0], keep=True)] if len(blocks) == 1 else []

    @property
    def _pair_blocks(self) -> list[Indices]:
        orders, nodes, centers = self.kappa.shape
        count = centers * (centers + 1) // 2
        numbers = count * (len(self.Kx) + orders**2 * nodes)
        return np.array_split(np.arange(count), -(-numbers // self.block_numbers))

    def _pair_block(self, block: Indices, *, keep: bool = False) -> CenterPairs:
        i, j = (side[block] for side in np.triu_indices(self.Kx.shape[1]))
        of_y = self._of_y if keep else {}
        if not of_y:
            orders = range(len(self.kappa))
            left, right = self.kappa[:, :, i], self.kappa[:, :, j]
            of_y |= {(s, t): left[s] * right[t] for s in orders for t in orders}
        return CenterPairs(i, j, self.Kx[:, i] * self.Kx[:, j], of_y)

    def expectations(self, P: Array) -> Array:
        """Σ_g P_rg φ(x_r, u_g), (r, M)."""
        found = [self.Kx * (P @ kappa) for kappa in self.kappa]
        return self.join(np.concatenate(found, axis=1))

    def total(self, weighted: Array) -> Array:
        """Σ_r Σ_g weighted_rg φ(x_r, u_g) in one product, (M,)."""
        S = weighted.T @ self.Kx
        return self.join(np.einsum("gc,sgc->sc", S, self.kappa).ravel())

    def features(self, rows: Indices, nodes: Indices) -> Array:
        """φ(x_r, u_g) for pairs of a condition and a node, (pairs, M)."""
        Kx = self.Kx[rows]
        return self.join(np.concatenate([Kx * k[nodes] for k in self.kappa], axis=1))


def _at_nodes(basis: Basis, base: BaseDensity, nodes: Nodes) -> tuple[Array, Array]:
    """`kappa` and `log_base` of `NodeMatrices`."""
    points = nodes.points[:, None]
    pairs = [ky.at(points, basis.Y) for _, ky in basis.kernel.products]
    kappa = [
        np.concatenate([p.partial(0, 0, s, j) for p in pairs], axis=1)
        for s, j in basis.orders
    ]
    return np.stack(kappa), base.log_density(points) + nodes.log_weights


class RowSums(ABC):
    """Rows that the likelihood knows by sums over them, one pass for each."""

    @property
    @abstractmethod
    def observed(self) -> Array:
        """Σ_a w_a (1, φ(x_a, u_a)), (1 + M,), once."""

    @abstractmethod
    def expected(self, parts: NodeMatrices, alpha: Array) -> Array:
        """Σ_a w_a (log Z_α(x_a), E_a[φ]), (1 + M,), on the nodes of some parts."""


class OtherRows(NamedTuple):
    """Rows beside those whose Hessian is taken."""

    sums: tuple[RowSums, ...]
    share: float  # Their part of the weight of all rows
    weight: float  # Of all rows

    def expected(self, parts: NodeMatrices, alpha: Array) -> Array:
        """Their part of the mean of (log Z, E[φ]) over all rows, (1 + M,)."""
        found = [own.expected(parts, alpha) for own in self.sums]
        return np.sum(found, axis=0) / self.weight


class Intervals(NamedTuple):
    """Conditions whose response is known by an interval only.

    They add −log ∫ q0 exp T / Z over the interval, whose gradient is a difference of
    two expectations of φ: given nothing, and given the interval. Its Hessian is the
    difference of two covariances; the second is left out, as in EM, so that steps are
    downhill and short of Newton's.
    """

    rows: Indices  # Which conditions, (c,)
    share: Array  # Weight of each, in that of all rows, (c,)
    ratios: Array  # Weights of the interval by those of the nodes' rule, (c, g)
    imputed: Array  # Σ_c share_c φ(x_c, u) at likely u, (M,): the size of gradients

    def given(self, P: Array) -> tuple[Array, Array]:
        """Log masses (c,), and probabilities of nodes given the interval (c, g)."""
        Q = P[self.rows] * self.ratios
        mass = np.maximum(Q.sum(axis=1), 1e-300)  # with a logarithm, however small
        return np.log(mass), Q / mass[:, None]


@dataclass(frozen=True)
class PenalizedLikelihood:
    """L of (17) as a function of whitened coefficients."""

    parts: NodeMatrices  # Kernel matrices at the distinct conditions and nodes
    share: Array  # Weight of each distinct condition, summing to one, (r,)
    mean: Array  # (1/W) Σ_a w_a φ(x_a, u_a), (M,), over all rows
    lam: float  # λ
    # Rows that count in values and gradients, but not in the Hessian and in what is
    # about it: these are those of the conditions above
    others: OtherRows | None = None
    intervals: Intervals | None = None  # Censored rows, which `mean` leaves out

    @classmethod
    def of(
        cls,
        basis: Basis,
        base: BaseDensity,
        X: Array,
        U: Array,
        weights: Array,
        lam: float,
        nodes: Nodes,
        like: NodeMatrices | None = None,
    ) -> "PenalizedLikelihood":
        """The objective for rows (X, U), normalised on nodes.

        `like` are the parts of other rows with the same basis and nodes, if there are.
        """
        share = weights / weights.sum()
        mean = share @ basis.features(basis.pairs(X, U), 0, 0)
        conditions, share = distinct(X, share)
        if like is None:
            parts = NodeMatrices.of(basis, base, conditions, nodes)
        else:
            parts = like.with_conditions(basis, conditions)
        return cls(parts, share, mean, lam)

    def without(
        self, fold: slice, basis: Basis, X: Array, U: Array, weights: Array
    ) -> "PenalizedLikelihood":
        """The objective for all rows (X, U) but those of a fold."""
        if len(self.share) != len(X):  # conditions of several rows are one
            rest = np.delete(np.arange(len(X)), fold)
            share = weights[rest] / weights[rest].sum()
            mean = share @ basis.features(basis.pairs(X[rest], U[rest]), 0, 0)
            conditions, share = distinct(X[rest], share)
            parts = self.parts.with_conditions(basis, conditions)
            return replace(self, parts=parts, share=share, mean=mean)
        rest = np.delete(np.arange(len(X)), fold)
        own = weights[fold] / weights.sum()
        part = own @ basis.features(basis.pairs(X[fold], U[fold]), 0, 0)
        left = 1.0 - own.sum()
        return replace(
            self,
            parts=self.parts.at(rest),
            share=self.share[rest] / left,
            mean=(self.mean - part) / left,
        )

    def with_others(
        self, sums: Sequence[RowSums], weight: float
    ) -> "PenalizedLikelihood":
        """The objective for more rows, beside those here of some weight together."""
        observed = np.sum([own.observed for own in sums], axis=0)
        total = weight + observed[0]
        mean = (weight * self.mean + observed[1:]) / total
        others = OtherRows(tuple(sums), observed[0] / total, total)
        return replace(self, mean=mean, others=others)

    def alpha(self, beta: Array) -> Array:
        """Coefficients of the basis functions."""
        return _solve_triangular(self.parts.L, beta, trans=1)

    def beta(self, alpha: Array) -> Array:
        """Whitened coefficients."""
        return self.parts.L.T @ alpha

    @property
    def share_of_conditions(self) -> float:
        """Part of the weight of all rows that those of the conditions have."""
        return 1.0 if self.others is None else 1.0 - self.others.share

    @cached_property
    def scale(self) -> float:
        """Norm of the mean of φ in the RKHS, that gradients are compared with."""
        seen = (
            self.mean if self.intervals is None else self.mean + self.intervals.imputed
        )
        return float(np.linalg.norm(self._whiten(seen)))

    @property
    def hessian_work(self) -> int:
        """Multiplications of the inner sum of (18)."""
        rows, centers = self.parts.Kx.shape
        return rows * self.parts.kappa.shape[1] * centers**2

    def at(self, beta: Array) -> State:
        """Value and gradient."""
        alpha = self.alpha(beta)
        P, log_z = self.parts.probabilities(self.parts.on_nodes(alpha))
        mean_log_z = self.share @ log_z
        expected = self.parts.total(self.share[:, None] * P)
        if self.others is not None:
            own = self.share_of_conditions
            more = self.others.expected(self.parts, alpha)
            mean_log_z = own * mean_log_z + more[0]
            expected = own * expected + more[1:]
        if self.intervals is not None:
            rows, share = self.intervals.rows, self.intervals.share
            log_mass, Q = self.intervals.given(P)
            mean_log_z -= share @ (log_mass + log_z[rows])
            expected = expected - self.parts.at(rows).total(share[:, None] * Q)
        value = mean_log_z - self.mean @ alpha + 0.5 * self.lam * (beta @ beta)
        gradient = self._whiten(expected - self.mean) + self.lam * beta
        # Coefficients are large, and cancel, where neighbouring centres are alike.
        size = 4.0 + 4.0 * abs(float(value)) + float(np.linalg.norm(alpha))
        rounding = float(np.finfo(float).eps) * size
        return State(beta, float(value), gradient, rounding, P)

    def hessian(self, state: State) -> Array:
        """The exact Hessian in whitened coordinates, (M, M)."""
        mean = self.parts.expectations(state.P)
        H = self._second_moment(state.P)
        H -= mean.T @ (self.share[:, None] * mean)
        H = self._whiten(self._whiten(H).T)
        H = 0.5 * (H + H.T)
        H[np.diag_indices_from(H)] += self.lam
        return H

    def hessian_product(self, state: State, v: Array) -> Array:
        """The Hessian times a vector: the covariance of φ and φᵀv; as cheap as `at`."""
        t = self.parts.on_nodes(self.alpha(v))
        t -= np.einsum("rg,rg->r", state.P, t)[:, None]
        t *= state.P
        t *= self.share[:, None]
        return self._whiten(self.parts.total(t)) + self.lam * v

    def rough_covariance(self, state: State, rows: int, draws: int) -> Array:
        """The Hessian without λ from so few conditions and values of u, (M, M).

        Conditions are evenly spread over the rows, and values of u over the
        probabilities of each: good enough to precondition with, at the price of a
        few products with the Hessian.
        """
        count = min(rows, len(self.share))
        some = np.linspace(0, len(self.share) - 1, count).astype(int)
        P, parts = state.P[some], self.parts.at(some)
        levels = (np.arange(draws) + 0.5) / draws
        below = np.cumsum(P, axis=1)
        nodes = np.stack([np.sum(below < level, axis=1) for level in levels], axis=1)
        nodes = np.minimum(nodes, P.shape[1] - 1)
        pairs = np.repeat(np.arange(count), draws)
        F = parts.features(pairs, nodes.ravel())
        F -= np.repeat(parts.expectations(P), draws, axis=0)
        share = self.share[some] / self.share[some].sum()
        F *= np.sqrt(np.repeat(share, draws) / draws)[:, None]
        white = self._whiten(F.T)
        return white @ white.T

    def _whiten(self, slope: Array) -> Array:
        return _solve_triangular(self.parts.L, slope)

    def _second_moment(self, P: Array) -> Array:
        """Σ_r share_r E_r[φφᵀ] by (18), (M, M)."""
        parts = self.parts
        orders, c = len(parts.kappa), parts.Kx.shape[1]
        weighted = (self.share[:, None] * P).T
        H = np.empty((orders, c, orders, c))
        for i, j, of_x, of_y in parts.pairs():
            S = weighted @ of_x
            for (s, t), product in of_y.items():
                moment = np.einsum("gp,gp->p", S, product)
                H[s, i, t, j] = moment
                H[t, j, s, i] = moment
        H = parts.join(H.reshape(orders * c, orders * c))
        return parts.join(H.T)


def _solve_triangular(L: Array, rhs: Array, trans: int = 0) -> Array:
    """L⁻¹ or L⁻ᵀ times a vector or matrix; checks would take longer than the work."""
    solution, info = linalg.lapack.dtrtrs(L, rhs, lower=1, trans=trans)
    assert info == 0
    return solution


def distinct(X: Array, share: Array) -> tuple[Array, Array]:
    """Distinct conditions and the sum of the shares of each."""
    if X.shape[1] == 0:
        return X[:1], np.array([share.sum()])
    conditions, index = np.unique(X, axis=0, return_inverse=True)
    if len(conditions) == len(X):
        return X, share
    total = np.zeros(len(conditions))
    np.add.at(total, index.ravel(), share)
    return conditions, total
