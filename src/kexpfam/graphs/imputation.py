"""Missing entries as draws from their distribution given the row's other entries.

Each row has a population of draws, weighted as in `evidence`; one of them is taken by
weight. Where a row's draws are worth too little there are more of them, up to a limit.
"""

import warnings
from dataclasses import dataclass

import numpy as np
from scipy import special

from kexpfam._typing import Array, Indices, Mask
from kexpfam.errors import SamplingWarning
from kexpfam.graphs.evidence import forward
from kexpfam.graphs.factors import Factor
from kexpfam.graphs.structure import Graph
from kexpfam.sampling import Sampler

# A draw taken from a population worth fewer draws than this is hardly random.
ENOUGH = 10.0

# Populations grow by this factor where they are worth too little, so many times.
_GROWTH = 4
_ROUNDS = 3

# Rows times draws that are held at once.
_AT_ONCE = 200_000


@dataclass(frozen=True, eq=False)
class Imputation:
    """Completed rows, and how well the draws were supported.

    Attributes:
        draws: Completed tables, (n_draws, n, d).
        effective_sample_size: What the population of each row was worth, (n,);
            infinite where draws are exact.
    """

    draws: Array
    effective_sample_size: Array


def impute(
    graph: Graph,
    factors: tuple[Factor, ...],
    Y: Array,
    n_draws: int,
    population: int,
    rng: np.random.Generator,
    sampler: Sampler | str | None = None,
) -> Imputation:
    """Fill in what is not a number, `n_draws` times.

    Args:
        graph: The graph.
        factors: Fitted factors, parents first.
        Y: Rows of the whole table, (n, d).
        n_draws: How many completed tables.
        population: Draws that one is chosen from, at first.
        rng: Where draws come from.
        sampler: How they are made.
    """
    known = np.isfinite(Y)
    _check_missing(graph, known)
    draws = np.repeat(Y[None], n_draws, axis=0)
    effective = np.full(len(Y), np.inf)
    exact = ~_contradictable(graph, known)
    rows = np.flatnonzero(exact & ~known.all(axis=1))
    for part in _parts(rows, n_draws):
        draws[:, part] = _population(factors, Y[part], n_draws, rng, sampler)[0]
    rows, size = np.flatnonzero(~exact), population
    for round_ in range(_ROUNDS):
        if not len(rows):
            break
        for part in _parts(rows, size):
            found, log_weights = _population(factors, Y[part], size, rng, sampler)
            draws[:, part], effective[part] = _taken(found, log_weights, n_draws, rng)
        rows = rows[effective[rows] < ENOUGH]
        size *= _GROWTH if round_ < _ROUNDS - 1 else 1
    if len(rows):
        warnings.warn(
            f"in {len(rows)} of {len(Y)} rows the missing entries were chosen from "
            f"draws worth fewer than {ENOUGH:.0f} (down to "
            f"{effective[rows].min():.1f} of {size}): what is known there contradicts "
            f"nearly all of them. Put columns with missing entries last in the graph, "
            f"or raise population.",
            SamplingWarning,
            stacklevel=3,
        )
    return Imputation(draws, effective)


def _check_missing(graph: Graph, known: Mask) -> None:
    for c in graph.exogenous:
        if not known[:, c].all():
            row = int(np.flatnonzero(~known[:, c])[0])
            raise ValueError(
                f"Y has no value of the exogenous column {graph.names[c]!r} in row "
                f"{row}, and there is no density to draw it from; fill it in."
            )
    for node in graph.nodes:
        there = known[:, node.columns]
        part = there.any(axis=1) & ~there.all(axis=1)
        if part.any():
            raise ValueError(
                f"Y has some columns of the block {node.label!r}, but not all, in row "
                f"{int(np.flatnonzero(part)[0])}; make them nodes of their own to "
                f"impute some from the others."
            )


def _contradictable(graph: Graph, known: Mask) -> Mask:
    """Rows in which something known has an unknown parent, (n,)."""
    found = np.zeros(len(known), dtype=bool)
    for node in graph.nodes:
        if node.parents:
            unsure = np.any(~known[:, node.parents], axis=1)
            found |= known[:, node.columns[0]] & unsure
    return found


def _parts(rows: Indices, size: int) -> list[Indices]:
    step = max(1, _AT_ONCE // max(size, 1))
    return [rows[start : start + step] for start in range(0, len(rows), step)]


def _population(
    factors: tuple[Factor, ...],
    Y: Array,
    size: int,
    rng: np.random.Generator,
    sampler: Sampler | str | None,
) -> tuple[Array, Array]:
    """`size` completions of each row, (size, n, d), and log weights, (size, n)."""
    tiled = np.tile(Y, (size, 1))
    log_weights = forward(factors, tiled, np.isfinite(tiled), rng, sampler)
    return tiled.reshape(size, *Y.shape), log_weights.reshape(size, len(Y))


def _taken(
    draws: Array, log_weights: Array, n_draws: int, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Some of each row's draws by weight, (n_draws, n, d), and what they are worth."""
    impossible = np.isneginf(log_weights).all(axis=0)
    weights = special.softmax(np.where(impossible, 0.0, log_weights), axis=0)
    effective = np.where(impossible, 0.0, 1.0 / np.sum(weights**2, axis=0))
    reached = np.cumsum(weights, axis=0)
    levels = rng.random((n_draws, draws.shape[1])) * reached[-1]
    chosen = (reached[None] < levels[:, None]).sum(axis=1)
    return draws[chosen, np.arange(draws.shape[1])], effective
