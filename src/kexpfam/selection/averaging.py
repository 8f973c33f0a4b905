"""Weights of candidates that are averaged.

A Bayesian would weigh candidates by exp(n · mean log-likelihood). Held-out
log-likelihoods of neighbouring candidates are nearly the same number, known from the
same few rows, so these weights are tempered: their logarithm is multiplied by η < 1.
A few steps of expectation maximisation then move the weights towards the average that
predicts best together; many steps would overfit small data.

With many rows any softmax of totals takes the best candidate, and leaves those out that
err on other rows. So the weights are those that maximise the held-out log density of
the mixture (`stacking`), shrunk to the tempered ones as if these had been seen on a few
rows more. The defaults were measured on the paper's data sets and on tables
(docs/decisions/0006-averaging.md, 0015-stacking-and-starts.md).
"""

from collections.abc import Sequence

import numpy as np
from scipy import special

from kexpfam._typing import Array
from kexpfam.selection.candidates import Candidate
from kexpfam.selection.spec import PLAIN
from kexpfam.selection.stacking import stacked_weights


def average_weights(
    candidates: Sequence[Candidate],
    held_out: Array,
    row_weights: Array,
    *,
    null: str = PLAIN,
    pseudo_rows: float = 50.0,
    many_rows: float = 1000.0,
    few_rows: float = 100.0,
    hopeless: float = 0.5,
    dropped: tuple[float, float] = (0.02, 0.05),
) -> Array:
    """Weights of candidates in an average, (k,), zero for most.

    Args:
        candidates: All candidates.
        held_out: Log density of each row under each of them, (k, n).
        row_weights: Weights of the rows, (n,).
        null: Name of the coordinates of the null model.
        pseudo_rows: So many rows the tempered weights count as much as,
        many_rows: and half as many if there are so many rows: the more there are, the
            less caution is in the tempered weights, which take the best candidate.
        few_rows: Up to so many rows two families in the same coordinates carry the
            tempered weight of all there, and with more rows one: what the others can
            add, stacking finds.
        hopeless: Candidates whose mean log density is below the best one's by so much
            are not stacked: they gain on a few rows such as repeated values, which the
            fit to all rows, with a λ of its own, need not keep.
        dropped: Members that together hold less than this are left out, with few rows
            and with `many_rows`, where each of them costs time at every prediction.
    """
    n = float(row_weights.sum())
    negligible = dropped[n >= many_rows]
    per_group = 2 if n <= few_rows else 1
    weights = tempered_weights(held_out, prior_weights(candidates, null), row_weights)
    center = representatives(candidates, weights, per_group)
    center = without_negligible(center, dropped[0] / 4)
    pseudo = pseudo_rows / (1.0 + n / many_rows)
    means = held_out @ row_weights / n
    near = (means >= means.max() - hopeless) | (center > 0)
    weights = np.zeros_like(center)
    weights[near] = stacked_weights(held_out[near], row_weights, center[near], pseudo)
    return without_negligible(weights, negligible)


def prior_weights(
    candidates: Sequence[Candidate],
    null: str,
    *,
    null_mass: float = 0.1,
    bases_mass: float = 0.1,
) -> Array:
    """Prior mass of each candidate: equal for all coordinates, and equal inside them.

    Args:
        candidates: All candidates; the first base density alone in the coordinates
            `null` is the null model, which does not look at x.
        null: Name of coordinates without a regression.
        null_mass: Prior mass of the null model,
        bases_mass: and of the other base densities without a kernel part.
    """
    alone = np.array([c.method == "none" for c in candidates])
    in_null = np.array([c.coordinates == null for c in candidates])
    prior = np.zeros(len(candidates))
    first = np.flatnonzero(alone & in_null)[:1]
    others = np.setdiff1d(np.flatnonzero(alone), first)
    prior[first] = null_mass
    prior[others] = bases_mass / max(len(others), 1)
    groups: dict[tuple[str, str], list[int]] = {}
    for k, candidate in enumerate(candidates):
        if candidate.method != "none":
            groups.setdefault((candidate.coordinates, candidate.method), []).append(k)
    for members in groups.values():
        prior[members] = (1.0 - null_mass - bases_mass) / len(groups) / len(members)
    return prior / prior.sum()


def tempered_weights(
    held_out: Array,
    prior: Array,
    row_weights: Array,
    *,
    temperature: float = 0.35,
    steps: int = 3,
    negligible: float = 1e-5,
) -> Array:
    """Weights of candidates from their held-out log densities, (k,).

    Args:
        held_out: Log density of each row under each candidate, (k, n).
        prior: Prior mass of each candidate, (k,).
        row_weights: Weights of the rows, (n,).
        temperature: η, what the logarithms of the likelihoods are multiplied by.
        steps: Steps of expectation maximisation.
        negligible: Candidates below this share of the largest weight are dropped.

    Example:
        >>> import numpy as np
        >>> good, bad = np.full(20, -1.0), np.full(20, -2.0)
        >>> rows = np.ones(20)
        >>> tempered_weights(np.stack([good, bad]), np.ones(2) / 2, rows).round(2)
        array([1., 0.])
    """
    logs = temperature * (held_out @ row_weights) + np.log(prior)
    weights = _kept(special.softmax(logs), negligible)
    kept = np.flatnonzero(weights)
    log_p = held_out[kept]
    for _ in range(steps):
        with np.errstate(divide="ignore"):
            shares = special.softmax(np.log(weights[kept])[:, None] + log_p, axis=0)
        weights[kept] = shares @ row_weights / row_weights.sum()
    return weights


def representatives(
    candidates: Sequence[Candidate], weights: Array, count: int
) -> Array:
    """Let the heaviest few of each group carry the weight of the group, (k,).

    A group is what is fitted in the same coordinates in the same way.
    """
    groups: dict[tuple[str, str], list[int]] = {}
    for k, candidate in enumerate(candidates):
        groups.setdefault((candidate.coordinates, candidate.method), []).append(k)
    kept = np.zeros_like(weights)
    for members in groups.values():
        total = weights[members].sum()
        best = np.array(members)[np.argsort(-weights[members], kind="stable")[:count]]
        if total > 0:
            kept[best] = weights[best] / weights[best].sum() * total
    return kept


def without_negligible(weights: Array, total: float) -> Array:
    """The fewest candidates that hold all but `total` of the weight, rescaled."""
    order = np.argsort(weights)
    dropped = order[np.cumsum(weights[order]) <= total]
    kept = weights.copy()
    kept[dropped] = 0.0
    return kept / kept.sum()


def _kept(weights: Array, negligible: float) -> Array:
    kept = np.where(weights < negligible * weights.max(), 0.0, weights)
    return kept / kept.sum()
