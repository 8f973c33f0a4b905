"""From rows in a chart to T: three ways to fit, in the same coordinates.

Score matching is one linear system. Penalised likelihood takes a few steps of Newton's
method from there, and sees the masses of separated islands, to which score matching is
blind. Bridging is score matching again, of the rows mixed with draws from the base
density, which connect the islands; the base is taken away from the fitted density.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kexpfam._typing import Array, Indices
from kexpfam._validation import mean_and_std
from kexpfam.base_densities import BaseDensity, boundary_weights
from kexpfam.distributions import Bridge, bridge_sample
from kexpfam.errors import DegenerateDataError, IllConditionedError
from kexpfam.kernels import JointKernel
from kexpfam.likelihood import fit_likelihood
from kexpfam.models.chart import Charted
from kexpfam.score_matching import (
    Basis,
    KernelExpansion,
    ScoreSample,
    fit_exact,
    fit_low_rank,
    statistics,
)
from kexpfam.selection import Candidate, HeldOutProblem, Line, tilted

# How T can be fitted, and how many centres the basis of a low-rank fit then has; fewer
# for likelihood, whose cost grows with their square.
COMPONENTS = {"score": 150, "likelihood": 80, "bridged": 150}

# Untuned defaults (docs/decisions/0003-untuned-defaults.md says how they were found):
# λ = LAMBDA · n^(−LAMBDA_RATE) / ℓ_y² for score matching. For likelihood λ is
# LIKELIHOOD_LAMBDA / n, whatever the lengthscale: penalty and log-likelihood of all
# rows then keep their proportion, as prior and likelihood do.
LAMBDA = 0.2
LAMBDA_RATE = 0.75
LIKELIHOOD_LAMBDA = 0.1

# Share of the bridge in the mixture, and draws from it for each row, which make the
# mixture less noisy.
BRIDGE_SHARE = 0.3
BRIDGE_DRAWS = 4


@dataclass(frozen=True)
class Solution:
    """A fitted T.

    Attributes:
        T: The function.
        lam: The λ that was used.
        rcond: Lower bound of the reciprocal condition number; NaN if not known.
        bridge: What was mixed in, and is to be taken away; None if nothing was.
    """

    T: KernelExpansion
    lam: float
    rcond: float = float("nan")
    bridge: Bridge | None = None


def fit_function(
    charted: Charted,
    kernel: JointKernel,
    lam: float,
    centers: Indices | None,
    n_jobs: int | None,
    method: str,
) -> Solution:
    """T by "score", "likelihood" or "bridged"; without centres an exact one by score.

    Likelihood goes on from score matching. Bridged is score matching of the rows mixed
    with draws from their base density.
    """
    if method == "bridged":
        assert centers is not None
        mixed, both = bridged_rows(charted), bridged_centers(centers, len(charted.U))
        solution = fit_function(mixed, kernel, lam, both, n_jobs, "score")
        return replace(solution, bridge=Bridge(BRIDGE_SHARE, charted.base))
    if centers is None:
        sample = score_sample(charted)
        _check_memory(charted.U.size)
        fit = fit_exact(kernel, sample, lam, n_jobs=n_jobs)
        return Solution(fit.T, fit.lam, fit.rcond)
    basis = Basis(kernel, charted.Z[centers], charted.U[centers], derivatives=False)
    if method == "score":
        T = fit_low_rank(basis, score_sample(charted), lam, n_jobs=n_jobs)
        return Solution(T, lam)
    rows = charted.Z, charted.U, charted.weights
    start = _score_matching_start(charted, basis)
    found = fit_likelihood(basis, charted.base, *rows, lam, start=start)
    return Solution(replace(found.T, n_jobs=n_jobs), lam)


def bridged_centers(centers: Indices, n: int) -> Indices:
    """Centres, and a draw for the condition of each: the bridge needs centres too."""
    return np.append(centers, n + centers)


def bridged_rows(charted: Charted) -> Charted:
    """Rows, then draws from their base density, always the same ones."""
    rng = np.random.default_rng(0)
    rows = charted.Z, charted.U, charted.weights
    Z, U, weights = bridge_sample(
        *rows, BRIDGE_SHARE, charted.base, rng, draws=BRIDGE_DRAWS
    )
    log_abs_det_jacobian = np.tile(charted.log_abs_det_jacobian, 1 + BRIDGE_DRAWS)
    return replace(
        charted, Z=Z, U=U, weights=weights, log_abs_det_jacobian=log_abs_det_jacobian
    )


def chosen_centers(n: int, n_components: int) -> Indices:
    """Rows at random, always the same for the same number."""
    rng = np.random.default_rng(0)
    return np.sort(rng.choice(n, min(n, n_components), replace=False))


def untuned_lambda(kernel: JointKernel, weights: Array, method: str) -> float:
    """A λ from the number of rows and the lengthscale of y alone."""
    n = float(weights.sum())
    if method == "likelihood":
        return LIKELIHOOD_LAMBDA / n
    # G has 1/ℓ² on its diagonal, so λ in units of 1/ℓ² has the same effect at any ℓ.
    ell = kernel.resolution if np.isfinite(kernel.resolution) else 1.0
    return LAMBDA / (ell**2 * n**LAMBDA_RATE)


def score_sample(charted: Charted, base: BaseDensity | None = None) -> ScoreSample:
    """What score matching needs to know of rows in a chart, for its base or another.

    Weights are made to sum to one.
    """
    base, U, weights = base or charted.base, charted.U, charted.weights
    _, spread = mean_and_std("y", U, weights)
    sample = weighted_sample(base, charted.Z, U, weights / weights.sum(), spread)
    if not np.any(sample.gsm_weights > 0):
        raise DegenerateDataError(
            f"All {len(U)} rows lie on an edge of the base density's support, where "
            f"score matching learns nothing; widen the bounds."
        )
    return sample


def weighted_sample(
    base: BaseDensity, Z: Array, U: Array, weights: Array, spread: Array
) -> ScoreSample:
    """The same for any rows, whose weights are taken as they are.

    The deviation of all responses, `spread` (d,), says how near an edge is.
    """
    g, slope = boundary_weights(U, base.support(U.shape[1]), spread)
    gsm_linear = slope + g * base.grad_log_density(U)
    return ScoreSample(Z, U, weights, gsm_linear, g)


def _score_matching_start(charted: Charted, basis: Basis) -> Array | None:
    """Coefficients of score matching; None, for zero, where it has no solution."""
    lam = untuned_lambda(basis.kernel, charted.weights, "score")
    try:
        found = statistics(basis, score_sample(charted)).solve(basis.gram(), lam)
    except (IllConditionedError, DegenerateDataError):
        return None
    return found if np.isfinite(found).all() else None


def _check_memory(size: int) -> None:
    """Refuse a fit whose matrix does not fit in memory, before it takes the machine."""
    needed = 8 * size * size
    try:
        physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return
    if needed > 0.8 * physical:
        raise MemoryError(
            f"An exact fit of {size} responses (rows x columns) needs a matrix of "
            f"{needed / 2**30:.0f} GiB, and this machine has "
            f"{physical / 2**30:.0f} GiB; fit a random subset of the rows."
        )


def bridged_in_folds(
    charted: Charted, centers: Indices, folds: Sequence[slice]
) -> tuple[Charted, Indices, tuple[slice, ...]]:
    """Rows and draws sorted by fold, with centres and folds among them."""
    n = len(charted.U)
    mixed = bridged_rows(charted)
    copies = n * np.arange(1 + BRIDGE_DRAWS)[:, None]
    order = np.concatenate([(copies + np.arange(n)[fold]).ravel() for fold in folds])
    place = np.argsort(order)
    sizes = (1 + BRIDGE_DRAWS) * np.array([fold.stop - fold.start for fold in folds])
    ends = np.cumsum(sizes)
    sorted_folds = tuple(
        slice(int(end - size), int(end)) for end, size in zip(ends, sizes, strict=True)
    )
    mixed = replace(
        mixed,
        Z=mixed.Z[order],
        U=mixed.U[order],
        weights=mixed.weights[order],
        log_abs_det_jacobian=mixed.log_abs_det_jacobian[order],
    )
    return mixed, place[bridged_centers(centers, n)], sorted_folds


def bridged_candidates(
    chart: str, log_abs_det_jacobian: Array, problem: HeldOutProblem, line: Line
) -> Iterator[Candidate]:
    """Families fitted to rows and draws of `bridged_in_folds`, one for each λ.

    `log_abs_det_jacobian` is that of the rows without the bridge, sorted by fold.
    """
    bridge = Bridge(BRIDGE_SHARE, problem.base)
    rows = _own_rows(problem.folds)
    slope = np.zeros(len(problem.sample.Y))
    # The bridge is the base density, so that log q0 on the nodes is log m.
    for candidate in tilted(chart, problem, slope, [line], remainder=bridge.log_rest):
        log_p = candidate.held_out[rows] + log_abs_det_jacobian
        yield replace(candidate, method="bridged", held_out=log_p)


def _own_rows(folds: Sequence[slice]) -> Array:
    """Where the rows are among rows and draws: at the beginning of each fold."""
    sizes = [(fold.stop - fold.start) // (1 + BRIDGE_DRAWS) for fold in folds]
    return np.concatenate(
        [fold.start + np.arange(size) for fold, size in zip(folds, sizes, strict=True)]
    )
