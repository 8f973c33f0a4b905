"""Tempered sequential Monte Carlo: log Z and draws where importance weights fail.

Particles drawn from q0 follow the path q0 exp(βT), theory (24), from β = 0 to 1. A
level is as long as the effective sample size of its weights allows; then particles are
resampled by these weights, and moved by Langevin steps that leave q0 exp(βT) unchanged,
scaled by the covariance and the acceptance rate of the particles themselves (Del Moral,
Doucet and Jasra 2006). Modes keep their masses: no particle has to cross the barriers
at β = 1, it was on its side before they rose.

The particles of a density form groups that never exchange members; only the schedule
and the scale of the moves are common. So each group has an estimate Z_g of its own.
They are unbiased but for the influence of the adaptation, which is of smaller order
(Beskos et al. 2016), and as good as independent: their mean estimates Z, and their
spread says how well. That includes what the genealogy of a single population (Chan and
Lai 2013, Lee and Whiteley 2018) no longer tells when few ancestors are left.

`resample_move` is one level of it that starts from importance weights: it resamples
weighted draws and moves the repeats apart (Gilks and Berzuini 2001).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import ClassVar

import numpy as np
from scipy import special

from kexpfam._typing import Array, Indices, Mask
from kexpfam.partition.unnormalized import UnnormalizedDensity, rows_of

# An error of log Z above this is itself known badly: a few groups hold most of the
# weight.
WORST_ERROR = 0.3

# The first step of moves, in units of the std of the points.
_FIRST_STEP = 0.5


@dataclass(frozen=True, eq=False)
class TemperedEstimate:
    """log Z of n densities and weighted draws from them."""

    method: ClassVar[str] = "smc"
    log_partition: Array  # (n,)
    error: Array  # Standard error of log Z, from how groups differ, (n,)
    draws: Array  # Particles at β = 1, (n, s, d)
    weights: Array  # Their normalised weights, equal within a group, (n, s)
    log_mean: Array  # Weighted mean of the log unnormalised density, (n,)
    step: Array  # Step size of the moves at β = 1, (n,)
    levels: Indices  # How many steps β took, (n,)
    acceptance: Array  # Acceptance rate of the moves at β = 1, (n,)
    ancestors: Indices  # How many particles of q0 have descendants, (n,)

    def rows(self, index: Indices) -> "TemperedEstimate":
        """Only these densities."""
        return rows_of(self, index)

    @property
    def mean(self) -> Array:
        """Weighted mean of the draws, (n, d)."""
        return np.einsum("ns,nsi->ni", self.weights, self.draws)

    @property
    def covariance(self) -> Array:
        """Weighted covariance of the draws, (n, d, d)."""
        gaps = self.draws - self.mean[:, None]
        return np.einsum("ns,nsi,nsj->nij", self.weights, gaps, gaps, optimize=True)

    @property
    def effective_draws(self) -> Array:
        """Independent weighted draws that would have this error of log Z, (n,)."""
        return 1.0 / (self.error**2 + 1.0 / self.weights.shape[1])

    @property
    def tail_index(self) -> Array:
        """Not a number, (n,): particles have no importance weights."""
        return np.full_like(self.error, np.nan)

    @property
    def unreliable(self) -> Mask:
        """Rows whose estimate should not be trusted, (n,) of bool."""
        # With fewer first particles that have descendants, masses of modes are luck;
        # moves that are nearly all rejected leave copies of resampling where they are.
        diverse = (self.ancestors >= 20) & (self.acceptance >= 0.1)
        return ~((self.error <= WORST_ERROR) & diverse)

    def sample(
        self,
        target: UnnormalizedDensity,
        size: int,
        rngs: Sequence[np.random.Generator],
        *,
        moves: int,
    ) -> Array:
        """Draws, (n, size, d), from the particles, in random order and moved on."""
        n, _, d = self.draws.shape
        if not n or not size:
            return np.empty((n, size, d))
        chosen = [
            points[rng.permutation(systematic(w, rng.random(), size))]
            for points, w, rng in zip(self.draws, self.weights, rngs, strict=True)
        ]
        return move(
            target.log_unnormalized,
            target.gradient,
            np.stack(chosen),
            self.step,
            covariance_root(self.draws),
            rngs,
            moves=moves,
        ).points


def temper(
    target: UnnormalizedDensity,  # The densities
    rngs: Sequence[np.random.Generator],  # Source of randomness of each density
    *,
    particles: int = 2000,  # Of each density, in all groups together
    groups: int = 8,  # That they form; the error has one degree of freedom less
    threshold: float = 0.7,  # Effective share of particles after each level
    moves: int = 5,  # Proposals to each particle at each level
    block_numbers: int = 1_000_000,  # Particles of a block of rows stay below this
) -> TemperedEstimate:
    """Normalise and draw from n densities q0 exp T, theory (24) and (25)."""
    block = max(1, block_numbers // (particles * target.d))
    size = -(-particles // groups)
    parts = [
        _Populations(
            target.rows(slice(start, start + block)),
            rngs[start : start + block],
            (groups, size),
            threshold,
            moves,
        ).run()
        for start in range(0, max(len(rngs), 1), block)
    ]
    return TemperedEstimate(
        *(
            np.concatenate([getattr(p, f.name) for p in parts])
            for f in fields(TemperedEstimate)
        )
    )


class _Populations:
    """Particles of a block of densities on their way from β = 0 to 1."""

    def __init__(
        self,
        target: UnnormalizedDensity,
        rngs: Sequence[np.random.Generator],
        shape: tuple[int, int],
        threshold: float,
        moves: int,
    ) -> None:
        self._target, self._rngs = target, rngs
        self._threshold, self._moves = threshold, moves
        n, (g, size) = len(rngs), shape
        self._shape = (n, g, size)
        draws = [target.base.sample(g * size, target.d, rng) for rng in rngs]
        self._u = np.reshape(draws, (n, g * size, target.d))
        self._beta = np.zeros(n)
        self._log_z = np.zeros((n, g))  # of each group
        self._ancestors = np.broadcast_to(np.arange(size), self._shape).copy()
        self._step = np.full(n, _FIRST_STEP)
        self._acceptance = np.ones(n)
        self._levels = np.zeros(n, dtype=np.int64)

    def run(self) -> TemperedEstimate:
        """Take every density to β = 1."""
        active = np.arange(self._shape[0])
        target = self._target
        while len(active):
            self._level(active, target)
            left = self._beta[active] < 1.0
            if not left.all():
                active = active[left]
                target = self._target.rows(active)
        return self._estimate()

    def _level(self, rows: Indices, target: UnnormalizedDensity) -> None:
        """One step of β: weigh, resample, move."""
        n, (_, g, size) = len(rows), self._shape
        points = self._u[rows]
        T = _tilt(target, points).reshape(n, g, size)
        beta, old = self._next_beta(rows, T), self._beta[rows]
        log_w = (beta - old)[:, None, None] * T
        peak = log_w.max(axis=2, keepdims=True)
        w = np.exp(log_w - peak)
        # theory (25): each level multiplies Z_g by the mean of its weights
        self._log_z[rows] += peak[..., 0] + np.log(w.mean(axis=2))
        index = self._resampled(rows, w)
        points = points.reshape(n, g, size, -1)
        points = np.take_along_axis(points, index[..., None], axis=2)
        self._ancestors[rows] = np.take_along_axis(self._ancestors[rows], index, axis=2)
        log_density, gradient = _tempered(target, beta)
        points = points.reshape(n, g * size, -1)
        moved = move(
            log_density,
            gradient,
            points,
            self._step[rows],
            covariance_root(points),
            [self._rngs[r] for r in rows],
            moves=self._moves,
        )
        self._u[rows], self._beta[rows] = moved.points, beta
        self._step[rows], self._acceptance[rows] = moved.step, moved.acceptance
        self._levels[rows] += 1

    def _next_beta(self, rows: Indices, T: Array) -> Array:
        """The largest β at which enough of the particles count, by bisection.

        The conditional effective share is (Σ W w)²/Σ W w² with weights W before the
        level, equal within groups, and w = exp((β − β_old) T).
        """
        shares = special.softmax(self._log_z[rows], axis=1)[..., None] / self._shape[2]
        low, high = self._beta[rows], np.ones(len(rows))
        top = T.max(axis=(1, 2), keepdims=True)

        def share(beta: Array) -> Array:
            w = np.exp((beta - self._beta[rows])[:, None, None] * (T - top))
            return (shares * w).sum((1, 2)) ** 2 / (shares * w * w).sum((1, 2))

        done = share(high) >= self._threshold
        # Densities that need more have log Z of hundreds, of which no digit would be
        # right: they are given up, and β is set to one in one step.
        done |= self._levels[rows] >= 200
        for _ in range(40):
            middle = 0.5 * (low + high)
            enough = share(middle) >= self._threshold
            low, high = np.where(enough, middle, low), np.where(enough, high, middle)
        return np.where(done, 1.0, high)

    def _resampled(self, rows: Indices, w: Array) -> Indices:
        """Systematic resampling within each group, indices (n, g, size)."""
        size = w.shape[2]
        offsets = np.stack([self._rngs[r].random(w.shape[1]) for r in rows])
        flat = zip(w.reshape(-1, size), offsets.ravel(), strict=True)
        index = np.stack([systematic(row, offset, size) for row, offset in flat])
        return index.reshape(w.shape)

    def _estimate(self) -> TemperedEstimate:
        _, g, size = self._shape
        shares = special.softmax(self._log_z, axis=1)
        peak = self._log_z.max(axis=1)
        mean = np.exp(self._log_z - peak[:, None]).mean(axis=1)
        # sd(Z_g)/(√g mean Z_g), the delta method for the log of a mean
        relative = g * shares - 1.0
        weights = np.repeat(shares / size, size, axis=1)
        log_values = self._target.log_unnormalized(self._u)
        return TemperedEstimate(
            log_partition=peak + np.log(mean),
            error=np.sqrt((relative**2).sum(axis=1) / (g * (g - 1))),
            draws=self._u,
            weights=weights,
            log_mean=np.einsum("ns,ns->n", weights, log_values),
            step=self._step,
            levels=self._levels,
            acceptance=self._acceptance,
            ancestors=np.array(
                [sum(len(np.unique(x)) for x in row) for row in self._ancestors],
                dtype=np.int64,
            ),
        )


def _log_base(target: UnnormalizedDensity, U: Array) -> Array:
    return target.base.log_density(U.reshape(-1, target.d)).reshape(U.shape[:2])


def _tilt(target: UnnormalizedDensity, U: Array) -> Array:
    """T at points of the support, (n, q, d) -> (n, q)."""
    return target.log_unnormalized(U) - _log_base(target, U)


def _tempered(
    target: UnnormalizedDensity, beta: Array
) -> tuple[Callable[[Array], Array], Callable[[Array], Array]]:
    """Log of q0 exp(βT) and its gradient."""

    def log_density(U: Array) -> Array:
        log_q0 = _log_base(target, U)
        inside = np.isfinite(log_q0)
        log_p = np.where(inside, target.log_unnormalized(U), 0.0)
        safe = np.where(inside, log_q0, 0.0)
        tempered = safe + beta[:, None] * (log_p - safe)
        return np.where(inside, tempered, -np.inf)

    def gradient(U: Array) -> Array:
        slope = target.base.grad_log_density(U.reshape(-1, target.d)).reshape(U.shape)
        return slope + beta[:, None, None] * (target.gradient(U) - slope)

    return log_density, gradient


@dataclass(frozen=True, eq=False)
class Moved:
    """Points after some moves."""

    points: Array  # (n, q, d)
    step: Array  # Step size to go on with, (n,)
    acceptance: Array  # Mean acceptance rate of the last half of the moves, (n,)


def generators(rng: np.random.Generator, n: int) -> list[np.random.Generator]:
    """One source of randomness for each density, so that none depends on the others."""
    return [np.random.default_rng(seed) for seed in rng.integers(2**63, size=n)]


def systematic(
    weights: Array,  # Not negative, of any sum, (s,)
    offset: float,  # Uniform on [0, 1); all the randomness there is
    size: int,  # How many
) -> Indices:
    """Choose `size` of some points by weights: each as often as expected, or nearly."""
    levels = np.cumsum(weights)
    places = (np.arange(size) + offset) / size * levels[-1]
    # Rounding may put the last place above the last level.
    last = int(np.flatnonzero(weights)[-1])
    return np.minimum(np.searchsorted(levels, places, side="right"), last)


def covariance_root(points: Array) -> Array:
    """A root R of the covariance RRᵀ of points (n, q, d), (n, d, d).

    Columns are cut at outer quantiles first, since a few points far out in heavy tails
    would set the size of everybody's steps; correlations are shrunk by q/(q + d).
    """
    _, q, d = points.shape
    low, high = np.quantile(points, (0.01, 0.99), axis=1, keepdims=True)
    cut = np.clip(points, low, high)
    gaps = cut - cut.mean(axis=1, keepdims=True)
    covariance = gaps.swapaxes(1, 2) @ gaps / q
    variance = np.einsum("nii->ni", covariance)  # a view into it
    diagonal = variance + 1e-12 * variance.max(axis=1, keepdims=True) + 1e-200
    covariance *= q / (q + d)
    variance[...] = diagonal
    return np.linalg.cholesky(covariance)


def move(
    log_density: Callable[[Array], Array],  # (n, q, d) -> (n, q); −inf outside
    gradient: Callable[[Array], Array],  # (n, q, d) -> (n, q, d)
    points: Array,  # Where to start, inside the support, (n, q, d)
    step: Array,  # Length of a step in units of `root`, (n,)
    root: Array,  # R of the covariance RRᵀ that scales the moves, (n, d, d)
    rngs: Sequence[np.random.Generator],  # Source of randomness of each density
    *,
    moves: int,  # How many proposals
) -> Moved:
    """Propose Metropolis-adjusted Langevin moves to all points, `moves` times.

    A step along the gradient with noise is one leapfrog step of Hamiltonian dynamics
    from a random momentum, and is written so here. Points of a density share the root
    that scales their moves, and a step size that follows their acceptance rate.
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
            # Points further out have left for good, and would overflow.
            near = np.all(np.abs(candidate) < 1e100, axis=2)
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
        # Langevin proposals work best at this rate (Roberts and Rosenthal 1998).
        step *= np.exp(0.5 * (rates[-1] - 0.574))
    return Moved(points, step, np.mean(rates[moves // 2 :], axis=0))


def resample_move(
    log_density: Callable[[Array], Array],  # (n, q, d) -> (n, q); −inf outside
    gradient: Callable[[Array], Array],  # (n, size, d) -> (n, size, d)
    draws: Array,  # Shared importance draws, (s, d)
    weights: Array,  # Normalised weights of each row, (n, s)
    size: int,  # How many points per row
    rng: np.random.Generator,  # Source of randomness
) -> Array:
    """Draw `size` points for each of n densities, (n, size, d)."""
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
    # The covariance of as many as there are: one point that is wanted has none.
    many = np.stack([draws[systematic(row, 0.5, len(draws))] for row in weights])
    step = np.full(n, _FIRST_STEP)
    root = covariance_root(many)
    # So many decorrelate repeats in the dimensions that exact fits can handle.
    return move(log_density, gradient, u, step, root, rngs, moves=20).points
