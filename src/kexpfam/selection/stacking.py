"""Stacking: the weights that maximise the held-out log density of the mixture.

With p_ki the held-out density of row i under candidate k, ω_i the weights of the rows
and c pseudo-rows shared out as a (of which a_k c are rows that candidate k alone
explains), the weights π maximise

    Σ_i ω_i log Σ_k π_k p_ki + c Σ_k a_k log π_k,    π ≥ 0, Σ_k π_k = 1,

a concave function: no pseudo-rows give the stacking of predictive distributions (Yao,
Vehtari, Simpson & Gelman 2018), infinitely many give a. Candidates that err on
different rows share the weight however many rows there are, where a softmax of totals
ends at one of them.

Most of hundreds of candidates get nothing. So the problem is solved for few, and those
are added that the mixture gains by: with ω and c divided by Σω + c, the gradient g_k
is one for all with weight, and max_k g_k − 1 bounds what any other weights could gain.
For few, sequential quadratic programs are solved (Kim, Carbonetto, Stephens & Anitescu
2020), each of which is a problem of non-negative least squares: some ten steps, where
expectation maximisation needs thousands near the boundary.
"""

from dataclasses import dataclass

import numpy as np
from scipy import linalg, optimize

from kexpfam._typing import Array, Mask


@dataclass(frozen=True)
class StackingSpec:
    """When searches for weights end."""

    # Candidates are added as long as one of them could gain so many nats in total: less
    # than one is what the weight of a candidate without merit gains by chance
    enough_nats: float = 1.0
    added: int = 3  # Candidates that are added at once: neighbours are much alike
    most_rounds: int = 30
    # Steps end when the others with weight could gain so many nats in total
    exact_nats: float = 1e-4
    most_steps: int = 50
    # Candidates much alike make the quadratic programs singular up to this share
    ridge: float = 1e-10


STACKING = StackingSpec()


def stacked_weights(
    log_p: Array,
    row_weights: Array,
    center: Array | None = None,
    pseudo_rows: float = 0.0,
    spec: StackingSpec = STACKING,
) -> Array:
    """Weights that maximise the log density of the mixture, (k,), zero for most.

    Args:
        log_p: Held-out log density of each row under each candidate, (k, n).
        row_weights: Weights of the rows, ω, (n,).
        center: a, what weights are shrunk to, of sum one, (k,); None for none.
        pseudo_rows: c, the number of rows that it counts as much as.
        spec: When the search ends.

    Example:
        >>> import numpy as np
        >>> left = np.log([0.9, 0.9, 0.9, 0.1, 0.1])
        >>> right = np.log([0.1, 0.1, 0.1, 0.9, 0.9])
        >>> never = np.log([0.2, 0.2, 0.2, 0.2, 0.2])
        >>> stacked_weights(np.stack([left, right, never]), np.ones(5)).round(3)
        array([0.625, 0.375, 0.   ])
    """
    total = float(row_weights.sum()) + pseudo_rows
    omega = row_weights / total
    center = np.zeros(len(log_p)) if center is None else center
    pseudo = pseudo_rows / total * center
    # Rows enter by ratios of densities only.
    P = np.exp(log_p - log_p.max(axis=0))
    held = pseudo > 0
    held[np.argmax(log_p @ row_weights)] = True
    support = np.flatnonzero(held)
    x = np.full(len(support), 1.0 / len(support))
    for _ in range(spec.most_rounds):
        x = _maximised(P[support], omega, pseudo[support], x, total, spec)
        gain = P @ (omega / (x @ P[support]))
        gain[support] = 0.0
        new = np.argsort(-gain, kind="stable")[: spec.added]
        new = new[total * (gain[new] - 1.0) > spec.enough_nats]
        if not len(new):
            break
        kept = x > 0
        support = np.append(support[kept], new)
        # A little weight for those that are new, so that steps have a direction.
        share = 0.01 * len(new)
        x = np.append((1.0 - share) * x[kept], np.full(len(new), 0.01))
    weights = np.zeros(len(log_p))
    weights[support] = x / x.sum()
    return weights


def stacked_without_hopeless(
    log_p: Array,
    row_weights: Array,
    pseudo_rows: float,
    errors: float,
    needed: Mask | None = None,
) -> Array:
    """Weights shrunk to equal ones, of those that held-out rows do not rule out.

    Args:
        log_p: Held-out log density of each row under each candidate, (k, n).
        row_weights: Weights of the rows, (n,).
        pseudo_rows: The number of rows that equal weights count as much as.
        errors: A candidate is ruled out so many standard errors below the best.
        needed: Candidates of which the best stays even if all are ruled out, (k,).
    """
    kept = ~is_hopeless(log_p, row_weights, errors)
    if needed is not None and np.any(needed) and not np.any(kept & needed):
        kept[np.argmax(np.where(needed, log_p @ row_weights, -np.inf))] = True
    weights = np.zeros(len(log_p))
    weights[kept] = stacked_weights(
        log_p[kept], row_weights, np.full(kept.sum(), 1.0 / kept.sum()), pseudo_rows
    )
    return weights


def is_hopeless(log_p: Array, row_weights: Array, errors: float) -> Mask:
    """Which candidates held-out rows rule out, so many errors below the best, (k,)."""
    share = row_weights / row_weights.sum()
    # A candidate that gives a row no density at all is left to the weights.
    with np.errstate(invalid="ignore"):
        gap = log_p[np.argmax(log_p @ share)] - log_p
        mean = gap @ share
        error = np.sqrt(np.square(gap - mean[:, None]) @ share**2)
        ruled_out: Mask = mean > errors * error
    return ruled_out


def _maximised(
    P: Array,  # Densities of rows under few candidates, (s, n)
    omega: Array,  # Shares of the rows, (n,)
    pseudo: Array,  # Shares of the pseudo-rows, (s,)
    x: Array,  # First weights, positive, (s,)
    total: float,  # Rows that shares are shares of
    spec: StackingSpec,
) -> Array:
    """The weights of few candidates, (s,).

    Minimises −Σ ω_i log (P'x)_i − Σ a_k log x_k + Σ x_k for x ≥ 0, at whose minimum
    the sum of x is one by itself.
    """
    shrunk = pseudo > 0

    def loss(x: Array) -> float:
        mixed = x @ P
        if np.any(x[shrunk] <= 0) or np.any(mixed <= 0):
            return np.inf
        logs = omega @ np.log(mixed) + pseudo[shrunk] @ np.log(x[shrunk])
        return float(x.sum() - logs)

    best = loss(x)
    for _ in range(spec.most_steps):
        scaled = P * (np.sqrt(omega) / (x @ P))
        by_pseudo = np.divide(pseudo, x, out=np.zeros_like(x), where=shrunk)
        gain = scaled @ np.sqrt(omega) + by_pseudo  # minus the gradient, plus one
        if total * (max(gain.max(), 1.0) - gain @ x) < spec.exact_nats:
            break
        hessian = scaled @ scaled.T
        curvature = np.divide(by_pseudo, x, out=np.zeros_like(x), where=shrunk)
        hessian[np.diag_indices(len(x))] += curvature
        hessian[np.diag_indices(len(x))] += spec.ridge * np.trace(hessian)
        factor = np.linalg.cholesky(hessian)
        # The gradient is 1 − gain, and without the pseudo-rows too Hx = gain.
        right = linalg.solve_triangular(factor, 2.0 * gain - 1.0, lower=True)
        direction = optimize.nnls(factor.T, right)[0] - x
        slope, length = float((1.0 - gain) @ direction), 1.0
        while not (new := loss(x + length * direction)) <= best + 0.01 * length * slope:
            length *= 0.5
            if length < 1e-10:
                return x
        x, best = np.maximum(x + length * direction, 0.0), new
    return x
