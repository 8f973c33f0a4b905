"""Draws given some of the columns, and missing entries as such draws.

Columns are drawn node by node, parents first. Where a column is known it is kept, and
the row's draws are weighted by how well they predict it: likelihood weighting. Weights
are equal as long as all ancestors of what is known are known as well, and draws are
then exact. Otherwise the effective sample size says what the draws are worth.

A row with missing entries has a population of draws, and one of them is taken by
weight. Where a row's draws are worth too little there are more of them, up to a limit.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from kexpfam._typing import Array, ArrayLike, Indices, Mask, RandomState
from kexpfam._validation import as_generator, as_numbers, check_count
from kexpfam.graphs.factors import Factor
from kexpfam.graphs.structure import Graph
from kexpfam.sampling import Sampler


@dataclass(frozen=True, eq=False)
class WeightedDraws:
    """Draws from a distribution given evidence, each with a weight.

    Attributes:
        names: Names of the columns.
        draws: All columns, evidence repeated, (n, d).
        weights: Not negative, with sum one, (n,).
        log_evidence: Log density of the evidence, given the exogenous columns.
        log_evidence_error: Its standard error.
        tails: How far out the evidence is that depends on unknown columns: the share
            of draws of it that are farther out, on its side, by name of its column.
    """

    names: tuple[Hashable, ...]
    draws: Array
    weights: Array
    log_evidence: float
    log_evidence_error: float
    tails: Mapping[Hashable, float]

    @property
    def effective_sample_size(self) -> float:
        """How many independent draws these are worth, 1/Σw²."""
        return float(1.0 / np.sum(self.weights**2))

    def mean(self) -> Array:
        """Expectation of each column, (d,)."""
        return self.weights @ self.draws

    def cov(self) -> Array:
        """Covariance of the columns, (d, d)."""
        centered = self.draws - self.mean()
        return (self.weights[:, None] * centered).T @ centered

    def std(self) -> Array:
        """Standard deviation of each column, (d,)."""
        return np.sqrt(self.weights @ (self.draws - self.mean()) ** 2)

    def quantile(self, q: ArrayLike) -> Array:
        """Quantiles of each column, (d,) for one level and (k, d) for k."""
        levels = as_numbers("q", q)
        out = [
            _weighted_quantiles(column, self.weights, np.atleast_1d(levels))
            for column in self.draws.T
        ]
        return np.stack(out, axis=1).reshape(*levels.shape, len(self.names))

    def resample(self, size: int, random_state: RandomState = None) -> Array:
        """Draws without weights, with repetitions, (size, d)."""
        size = check_count("size", size)
        rng = as_generator(random_state)
        return self.draws[rng.choice(len(self.draws), size, p=self.weights)]

    def __repr__(self) -> str:
        return (
            f"<WeightedDraws: {len(self.draws)} draws of {len(self.names)} columns, "
            f"worth {self.effective_sample_size:.0f}; log evidence "
            f"{self.log_evidence:.3f} ± {self.log_evidence_error:.3f}>"
        )


def _weighted_quantiles(values: Array, weights: Array, levels: Array) -> Array:
    order = np.argsort(values)
    reached = np.cumsum(weights[order])
    # Rounding may leave the last sum below one.
    place = np.searchsorted(reached, levels * reached[-1], side="left")
    return values[order][np.minimum(place, len(values) - 1)]


def read_evidence(
    graph: Graph, given: Mapping[Any, Any] | None, n: int | None = None
) -> dict[int, Array]:
    """Values of known columns by position, a number each or n of them, checked."""
    if given is not None and not isinstance(given, Mapping):
        raise ValueError(
            f"given must map columns to values, such as {{'a': 1.0}}, got "
            f"{given!r:.80}."
        )
    known: dict[int, Array] = {}
    for column, value in (given or {}).items():
        values = as_numbers(f"given[{column!r}]", value)
        shapes = [()] if n is None else [(), (n,)]
        if values.shape not in shapes:
            expected = "one number" if n is None else f"one number, or {n} of them"
            raise ValueError(
                f"given[{column!r}] must be {expected}, got shape {values.shape}."
            )
        if not np.all(np.isfinite(values)):
            raise ValueError(f"given[{column!r}] must be finite, got {value!r:.80}.")
        known[graph.position(column)] = values
    missing = [graph.names[c] for c in graph.exogenous if c not in known]
    if missing:
        raise ValueError(
            f"given has no value for the exogenous column {missing[0]!r}, which has no "
            f"density of its own; add one."
        )
    for node in graph.nodes:
        there = [c in known for c in node.columns]
        if any(there) and not all(there):
            raise ValueError(
                f"given has some columns of the block {node.label!r}, but not all; a "
                f"block has one density, so give all or none."
            )
    return known


def unknown_ancestor(graph: Graph, known: Mapping[int, Any]) -> tuple[int, int] | None:
    """A known column and its unknown parent, if there are such; else None."""
    pairs = ((v.columns[0], p) for v in graph.nodes for p in v.parents)
    return next(
        (pair for pair in pairs if pair[0] in known and pair[1] not in known), None
    )


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


@dataclass(frozen=True, eq=False)
class AncestralSampling:
    """Draws from a joint density along one graph, node by node, parents first."""

    graph: Graph
    factors: tuple[Factor, ...]
    rng: np.random.Generator
    sampler: Sampler | str | None = None

    def draws(self, evidence: Mapping[int, Array], n: int) -> tuple[Array, Mask, Array]:
        """Rows (n, d), what of them is known, and their log weights (n,)."""
        Y = placed(self.graph, evidence, n)
        known = np.isfinite(Y)
        return Y, known, self._fill_in(Y, known)

    def _fill_in(self, Y: Array, known: Mask) -> Array:
        """Fill in what is unknown in place, and weigh rows by what is known, (n,).

        A factor is weighed only if it depends on something that was drawn: others are
        the same for all draws, and need not be computed. What is known is the same for
        all columns of a block.
        """
        log_weights = np.zeros(len(Y))
        for factor in self.factors:
            columns, parents = factor.node.columns, factor.node.parents
            unknown = ~known[:, columns[0]]
            if np.any(unknown):
                rows = np.flatnonzero(unknown)
                drawn = factor.sample(Y[rows], self.rng, self.sampler)
                Y[rows[:, None], columns] = drawn
            weighed = ~unknown & np.any(~known[:, parents], axis=1)
            if np.any(weighed):
                log_weights[weighed] += factor.log_density(Y[weighed])
        return log_weights

    def constants(self, Y: Array, known: Mask) -> Array:
        """Log density of known nodes whose parents are known, (n,).

        It is alike for all draws: only what is known is looked at.
        """
        total = np.zeros(len(Y))
        for factor in self.factors:
            needed = [*factor.node.columns, *factor.node.parents]
            rows = known[:, needed].all(axis=1)
            if rows.any():
                total[rows] += factor.log_density(Y[rows])
        return total

    def beyond(self, Y: Array, known: Mask) -> dict[Hashable, float]:
        """Share of draws above each known value that depends on unknown columns."""
        shares: dict[Hashable, float] = {}
        for factor in self.factors:
            columns, parents = factor.node.columns, factor.node.parents
            if not known[0, columns[0]] or known[0, parents].all():
                continue
            drawn = factor.sample(Y, self.rng, self.sampler)
            for k, column in enumerate(columns):
                above = np.mean(drawn[:, k] >= Y[0, column])
                shares[self.graph.names[column]] = float(above)
        return shares

    def population(self, Y: Array, size: int) -> tuple[Array, Array]:
        """`size` completions of each row, (size, n, d), and log weights, (size, n)."""
        tiled = np.tile(Y, (size, 1))
        log_weights = self._fill_in(tiled, np.isfinite(tiled))
        return tiled.reshape(size, *Y.shape), log_weights.reshape(size, len(Y))


def placed(graph: Graph, evidence: Mapping[int, Array], n: int) -> Array:
    """Rows with the evidence, and NaN elsewhere, (n, d)."""
    Y = np.full((n, len(graph.names)), np.nan)
    for column, values in evidence.items():
        Y[:, column] = values
    return Y


def check_missing(graph: Graph, known: Mask) -> None:
    """Refuse rows without a condition, or with a part of a block."""
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


def contradictable(graph: Graph, known: Mask) -> Mask:
    """Rows in which something known has an unknown parent, (n,)."""
    found = np.zeros(len(known), dtype=bool)
    for node in graph.nodes:
        if node.parents:
            unsure = np.any(~known[:, node.parents], axis=1)
            found |= known[:, node.columns[0]] & unsure
    return found


def parts_of(rows: Indices, size: int) -> list[Indices]:
    """Rows, so many at a time that populations of this size fit into memory."""
    step = max(1, 200_000 // max(size, 1))  # rows times draws that are held at once
    return [rows[start : start + step] for start in range(0, len(rows), step)]


def taken(
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
