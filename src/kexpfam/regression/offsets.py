"""Offsets of components that move with x together.

    y = x·b + m_c + σ_c ε,   c = 1, ..., k with probability π_c,

is fitted by EM: given the responsibilities of components for rows, slopes and offsets
are one weighted ridge regression. A regression of y − m_c then has neither the scatter
of the offsets as noise, nor what masses that depend on x add to the mean of y.

References:
    DeSarbo and Cron (1988), mixtures of linear regressions; here slopes are shared.
"""

from dataclasses import dataclass

import numpy as np
from scipy import special

from kexpfam._typing import Array
from kexpfam.regression.scaling import scaling_of, usable_weights


@dataclass(frozen=True)
class OffsetSpec:
    """How many components are tried, and when EM ends."""

    most_components: int = 4
    most_rounds: int = 50
    enough_nats: float = 1e-3  # Rounds end when none gains more for each row
    # Std of a component, in standard units of y, at least: a component of one row must
    # not have width zero
    smallest_std: float = 0.01
    # A component of fewer rows is none
    fewest_rows: float = 5.0
    # Rows that EM is run on at most
    most_rows: int = 1000


OFFSET_SPEC = OffsetSpec()


@dataclass(frozen=True)
class ComponentOffsets:
    """Components around a common linear location, in standard units of x and y."""

    slopes: Array  # b, (p,)
    means: Array  # m, in increasing order, (k,)
    stds: Array  # σ, (k,)
    log_masses: Array  # log π, (k,)
    bic: float  # −2 log-likelihood plus log n for each parameter

    def log_joint(self, D: Array, u: Array) -> Array:
        """Log π_c + log N(u; x·b + m_c, σ_c²) of each row and component, (n, k)."""
        z = ((u - D @ self.slopes)[:, None] - self.means) / self.stds
        scales = np.log(self.stds) + 0.5 * np.log(2.0 * np.pi)
        return np.asarray(-0.5 * z * z - scales + self.log_masses)

    def expected(self, D: Array, u: Array) -> Array:
        """Mean offset of each row given its response, (n,)."""
        return np.asarray(special.softmax(self.log_joint(D, u), axis=1) @ self.means)


def offsets_of(
    X: Array,  # Conditions, (n, p)
    y: Array,  # Responses, (n,)
    weights: Array,  # Row weights, (n,)
    spec: OffsetSpec = OFFSET_SPEC,
) -> Array:
    """Offset of the component that each row is of, (n,); zero if there is but one.

    The number of components has the best BIC. Offsets have mean zero.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> x = rng.normal(size=(200, 1))
        >>> side = rng.choice([-3.0, 3.0], size=200)
        >>> y = x[:, 0] + side + 0.3 * rng.normal(size=200)
        >>> found = offsets_of(x, y, np.ones(200))
        >>> np.unique(np.sign(found) == np.sign(side))
        array([ True])
    """
    weights = usable_weights(weights)
    D = scaling_of("x", X, weights).forward(X)
    y_scaling = scaling_of("y", y[:, None], weights)
    u = y_scaling.forward(y[:, None])[:, 0]
    some = np.unique(np.linspace(0, len(u) - 1, spec.most_rows).astype(int))
    rows = D[some], u[some], weights[some]
    alone = _fit_components(*rows, np.ones((len(some), 1)), spec)
    assert alone is not None
    best = alone
    for location in (rows[0] @ alone.slopes, np.zeros(len(some))):
        for k in range(2, spec.most_components + 1):
            start = _nearest(rows[1] - location, rows[2], k)
            found = _fit_components(*rows, start, spec)
            if found is not None and found.bic < best.bic:
                best = found
    offsets = best.expected(D, u) * float(y_scaling.scale[0])
    return np.asarray(offsets - np.average(offsets, weights=weights))


def _nearest(residuals: Array, weights: Array, k: int, rounds: int = 20) -> Array:
    """Memberships by k-means in one dimension, from evenly spaced centres, (n, k)."""
    low, high = np.quantile(residuals, [0.02, 0.98])
    centers = np.linspace(low, high, k)
    for _ in range(rounds):
        own = np.abs(residuals[:, None] - centers).argmin(axis=1)
        counts = np.bincount(own, weights, k)
        sums = np.bincount(own, weights * residuals, k)
        centers = np.where(counts > 0, sums / np.maximum(counts, 1e-300), centers)
    return np.asarray(np.eye(k)[own])


def _fit_components(
    D: Array, u: Array, weights: Array, R: Array, spec: OffsetSpec
) -> ComponentOffsets | None:
    """EM from given responsibilities R (n, k); None if a component dies out."""
    n, p, k = float(weights.sum()), D.shape[1], R.shape[1]
    stds, before = np.ones(k), -np.inf
    # Slopes of one standard unit are nothing unusual.
    ridge = np.append(np.ones(p), np.full(k, 1e-9))
    for _ in range(spec.most_rounds):
        counts = weights @ R
        if k > 1 and counts.min() < spec.fewest_rows:
            return None
        W = weights[:, None] * R / stds**2
        G, rhs = np.zeros((p + k, p + k)), np.zeros(p + k)
        G[:p, :p] = D.T @ (W.sum(axis=1)[:, None] * D)
        G[:p, p:] = D.T @ W
        G[p:, :p] = G[:p, p:].T
        G[p:, p:] = np.diag(W.sum(axis=0))
        rhs[:p], rhs[p:] = D.T @ (W.sum(axis=1) * u), W.T @ u
        solution = np.linalg.solve(G + np.diag(ridge), rhs)
        slopes, means = solution[:p], solution[p:]
        squares = ((u - D @ slopes)[:, None] - means) ** 2
        variances = np.sum(weights[:, None] * R * squares, axis=0) / counts
        stds = np.sqrt(np.maximum(variances, spec.smallest_std**2))
        found = ComponentOffsets(slopes, means, stds, np.log(counts / n), 0.0)
        joint = found.log_joint(D, u)
        log_p = special.logsumexp(joint, axis=1)
        total = float(weights @ log_p)
        if total - before < spec.enough_nats * n:
            break
        before, R = total, np.exp(joint - log_p[:, None])
    bic = -2.0 * total + (p + 3 * k - 1) * np.log(n)
    return ComponentOffsets(slopes, means, stds, np.log(counts / n), float(bic))
