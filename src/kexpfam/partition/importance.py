"""Importance sampling for three and more dimensions, with its own diagnosis.

One set of draws serves all rows: half from q0, half from a kernel density estimate of
the training responses. The mixture makes every weight at most 2 exp(T), so weights are
bounded and their variance is finite; whether it is *small* is what the effective
sample size and the tail index k̂ of the weights tell (Vehtari et al. 2024).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy import special

from kexpfam._typing import Array, Indices, Mask
from kexpfam.partition.unnormalized import rows_of


@dataclass(frozen=True)
class Proposal:
    """Draws shared by all rows, and their log density."""

    draws: Array  # (s, d)
    log_density: Array  # Log density of the mixture they come from, (s,)


def make_proposal(
    log_q0: Callable[[Array], Array],  # Log density of q0, (s, d) -> (s,)
    sample_q0: Callable[[int, np.random.Generator], Array],  # Draws from q0
    training: Array,  # Training responses, (n, d)
    n_draws: int,  # How many to draw in all
    rng: np.random.Generator,  # Source of randomness
) -> Proposal:
    """Draw half from q0 and half from an estimate of the training responses."""
    d = training.shape[1]
    centers = training
    most = 1000  # more would not change the shape of the estimate
    if len(training) > most:
        centers = training[rng.choice(len(training), most, replace=False)]
    # Scott's rule per column.
    width = np.maximum(training.std(axis=0), 1e-8) * len(centers) ** (-1.0 / (d + 4))
    half = n_draws // 2
    near = centers[rng.integers(len(centers), size=half)]
    near = near + width * rng.standard_normal(near.shape)
    draws = np.concatenate([near, sample_q0(n_draws - half, rng)])
    log_near = _log_mixture(draws / width, centers / width) - np.log(width).sum()
    return Proposal(draws, np.logaddexp(log_near, log_q0(draws)) - np.log(2.0))


def _log_mixture(points: Array, centers: Array) -> Array:
    d = points.shape[1]
    out = np.empty(len(points))
    for start in range(0, len(points), 1024):
        block = points[start : start + 1024]
        squared = (block**2).sum(1)[:, None] + (centers**2).sum(1)
        squared -= 2.0 * block @ centers.T
        out[start : start + 1024] = special.logsumexp(-0.5 * squared, axis=1)
    return out - np.log(len(centers)) - 0.5 * d * np.log(2.0 * np.pi)


@dataclass(frozen=True)
class ImportanceEstimate:
    """log Z of n rows with what is needed to trust or distrust it."""

    method: ClassVar[str] = "importance"
    log_partition: Array  # (n,)
    error: Array  # Standard error of log Z, (n,)
    effective_draws: Array  # Effective sample size of the weights, (n,)
    tail_index: Array  # Pareto k̂ of the largest weights, (n,)
    weights: Array  # Normalised weights of the shared draws, (n, s)
    log_mean: Array  # Weighted mean of the log unnormalised density, (n,)
    draws: Array  # The shared draws, (s, d)

    def rows(self, index: Indices) -> "ImportanceEstimate":
        """Only these rows."""
        return rows_of(self, index, "draws")

    @property
    def mean(self) -> Array:
        """Weighted mean of the draws, (n, d)."""
        return self.weights @ self.draws

    @property
    def covariance(self) -> Array:
        """Weighted covariance of the draws, (n, d, d)."""
        second = np.einsum("ns,si,sj->nij", self.weights, self.draws, self.draws)
        mean = self.mean
        return second - mean[:, :, None] * mean[:, None, :]

    @property
    def unreliable(self) -> Mask:
        """Rows whose estimate should not be trusted, (n,) of bool."""
        # Above this k̂ the mean of the weights converges too slowly to be trusted at any
        # practical number of draws (Vehtari et al. 2024); below this effective number
        # of draws a standard error is itself unreliable.
        return (self.tail_index > 0.7) | (self.effective_draws < 50.0)


def estimate_partition(
    log_values: Array,  # Log unnormalised densities at the draws, (n, s)
    proposal: Proposal,  # The draws
) -> ImportanceEstimate:
    """Log Z = log mean of exp(log_values − log proposal) for each row."""
    s = log_values.shape[1]
    log_weights = log_values - proposal.log_density
    peak = log_weights.max(axis=1, keepdims=True)
    raw = np.exp(log_weights - peak)
    total = raw.sum(axis=1)
    weights = raw / total[:, None]
    effective = 1.0 / np.einsum("ns,ns->n", weights, weights)
    return ImportanceEstimate(
        log_partition=peak[:, 0] + np.log(total / s),
        # sd(w)/(√s mean(w)), since Σw² = 1/effective for normalised weights
        error=np.sqrt(np.maximum(1.0 / effective - 1.0 / s, 0.0)),
        effective_draws=effective,
        tail_index=np.array([pareto_tail_index(row) for row in raw]),
        weights=weights,
        log_mean=np.einsum("ns,ns->n", weights, np.where(weights > 0, log_values, 0.0)),
        draws=proposal.draws,
    )


def pareto_tail_index(weights: Array) -> float:
    """k̂ of a generalised Pareto fitted to the largest weights.

    The tail is the largest min(s/5, 3√s) weights; the fit is the posterior mean of
    Zhang and Stephens (2009) with the small-sample shrinkage of Vehtari et al. (2024).

    Example:
        >>> import numpy as np
        >>> u = np.random.default_rng(0).random(20_000)
        >>> round(pareto_tail_index(u**-0.5), 1)  # tail P(w > t) = t^-2, so k = 1/2
        0.5
    """
    s = len(weights)
    m = int(min(s / 5, 3 * np.sqrt(s)))
    if m < 5:
        return np.inf
    tail = np.partition(weights, s - m - 1)[s - m - 1 :]
    tail.sort()
    excess = tail[1:] - tail[0]
    if excess[-1] <= 0 or excess[-1] <= 1e-12 * tail[-1]:
        return -np.inf  # bounded weights, all alike: nothing can be better
    excess = np.maximum(excess, np.finfo(float).tiny)
    grid_size = 30 + int(np.sqrt(m))
    quarter = excess[max(0, int(m / 4 + 0.5) - 1)]
    j = np.arange(1, grid_size + 1)
    theta = 1.0 / excess[-1] + (1.0 - np.sqrt(grid_size / (j - 0.5))) / (3.0 * quarter)
    # Profile log likelihood of θ: m (log(−θ/k) − k − 1) with k = mean log(1 − θx)
    k = np.log1p(-theta[:, None] * excess).mean(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        profile = m * (np.log(-theta / k) - k - 1.0)
    profile = np.where(np.isfinite(profile), profile, -np.inf)
    posterior = special.softmax(profile)
    best = float(posterior @ theta)
    shape = float(np.log1p(-best * excess).mean())
    return (m * shape + 10 * 0.5) / (m + 10)
