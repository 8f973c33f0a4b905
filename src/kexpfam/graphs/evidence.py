"""Draws given some of the columns, and missing entries as such draws.

Columns are drawn node by node, parents first. Where a column is known it is kept, and
the row's draws are weighted by how well they predict it: likelihood weighting. Weights
are equal as long as all ancestors of what is known are known as well, and draws are
then exact. Otherwise the effective sample size says what the draws are worth.

A row with missing entries has a population of draws, and one of them is taken by
weight. Where a row's draws are worth too little there are more of them, up to a limit.

In an average over orders of the columns, order k has the weight w_k p_k(evidence):
draws come from each order, and are weighted by the whole density of the evidence there.
"""

import math
import warnings
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from kexpfam._typing import Array, ArrayLike, Indices, Mask, RandomState
from kexpfam._validation import as_generator, as_numbers, check_count
from kexpfam.errors import SamplingWarning
from kexpfam.graphs.columns import JointColumns
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
    graph: Graph,
    given: Mapping[Any, Any] | None,
    n: int | None = None,
    columns: JointColumns | None = None,
) -> dict[int, Array]:
    """Values of known columns by position, a number each or n of them, checked."""
    if given is not None and not isinstance(given, Mapping):
        raise ValueError(
            f"given must map columns to values, such as {{'a': 1.0}}, got "
            f"{given!r:.80}."
        )
    known: dict[int, Array] = {}
    for column, value in (given or {}).items():
        place, name = graph.position(column), f"given[{column!r}]"
        if columns is None:
            values = as_numbers(name, value)
        else:
            values = columns.value(place, name, value)
        shapes = [()] if n is None else [(), (n,)]
        if values.shape not in shapes:
            expected = "one number" if n is None else f"one number, or {n} of them"
            raise ValueError(
                f"given[{column!r}] must be {expected}, got shape {values.shape}."
            )
        gaps = columns is not None and columns.columns[place].gaps
        if not np.all(np.isfinite(values) | (np.isnan(values) & gaps)):
            raise ValueError(f"{name} must be finite, got {value!r:.80}.")
        known[place] = values
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
        Y = _placed(self.graph, evidence, n)
        known = _known(self.graph, Y)
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
        log_weights = self._fill_in(tiled, _known(self.graph, tiled))
        return tiled.reshape(size, *Y.shape), log_weights.reshape(size, len(Y))


@dataclass(frozen=True, eq=False)
class OrderSampling:
    """Draws from an average over orders; one order is drawn from as it is.

    Attributes:
        orders: What draws of each order are made with, (k,).
        weights: Their shares, (k,).
        rng: Generator of all draws.
    """

    orders: tuple[AncestralSampling, ...]
    weights: Array
    rng: np.random.Generator

    @property
    def graph(self) -> Graph:
        """The graph of the first order."""
        return self.orders[0].graph

    def draws(self, evidence: Mapping[int, Array], n: int) -> Array:
        """Independent draws (n, d), given columns that come first in every order."""
        for order in self.orders:
            found = unknown_ancestor(order.graph, evidence)
            if found is not None:
                self._refuse(*(self.graph.names[c] for c in found))
        if len(self.orders) == 1:
            return self.orders[0].draws(evidence, n)[0]
        Y = _placed(self.graph, evidence, n)
        known = _known(self.graph, Y)
        # Where all draws have the same evidence, it has one density.
        some = slice(min(n, 1)) if all(v.ndim == 0 for v in evidence.values()) else ...
        terms = [order.constants(Y[some], known[some]) for order in self.orders]
        shares = special.softmax(np.log(self.weights)[:, None] + terms, axis=0)
        levels = self.rng.random(n)
        reached = np.broadcast_to(np.cumsum(shares, axis=0), (len(self.orders), n))
        chosen = np.minimum((reached < levels).sum(axis=0), len(self.orders) - 1)
        for k, order in enumerate(self.orders):
            rows = np.flatnonzero(chosen == k)
            if len(rows):
                Y[rows] = order.population(Y[rows], 1)[0][0]
        return Y

    def _refuse(self, child: Hashable, parent: Hashable) -> None:
        where, way = "", ""
        if len(self.orders) > 1:
            where = f" in one of {len(self.orders)} orders"
            way = f", or name {child!r} in exogenous"
        raise ValueError(
            f"given has column {child!r}, but not its parent {parent!r}{where}, which "
            f"draws would have to agree with; add it, or use "
            f"conditional(given, ...), which weighs draws{way}."
        )

    def weighted(self, evidence: Mapping[int, Array], n: int) -> WeightedDraws:
        """Draws given evidence anywhere, by likelihood weighting.

        Orders have draws in proportion to their weights, so that the mean weight, with
        the whole density of the evidence, estimates Σ_k w_k p_k(evidence).
        """
        counts = self._counts(n)
        rows, log_weights, constants = [], [], []
        shares: dict[Hashable, list[tuple[int, float]]] = {}
        for order, count in zip(self.orders, counts, strict=True):
            if not count:
                continue
            Y, known, own = order.draws(evidence, count)
            rows.append(Y)
            log_weights.append(own)
            constants.append(float(order.constants(Y[:1], known[:1])[0]))
            for name, share in order.beyond(Y, known).items():
                shares.setdefault(name, []).append((count, share))
        # What is alike for all draws of all orders says nothing about their weights.
        common = max(constants)
        if np.isfinite(common):
            log_weights = [
                own + (constant - common)
                for own, constant in zip(log_weights, constants, strict=True)
            ]
        every = np.concatenate(log_weights)
        total = special.logsumexp(every)
        if not np.isfinite(total):
            raise ValueError(
                "given is impossible under the model: the evidence has density zero "
                "for every draw; check its values."
            )
        tails = {}
        for name, found in shares.items():
            above = sum(c * s for c, s in found) / sum(c for c, _ in found)
            tails[name] = min(above, 1.0 - above)
        result = WeightedDraws(
            self.graph.names,
            np.concatenate(rows),
            np.exp(every - total),
            float(total - np.log(n)) + common,
            _relative_error(log_weights, total - np.log(n)),
            tails,
        )
        effective = result.effective_sample_size
        # With fewer than 50, a standard error is known to a third of itself at best.
        # Whoever asks for few draws knows, and is warned only if most are lost.
        if effective < min(50.0, 0.2 * n):
            warnings.warn(
                f"{n} draws given this evidence are worth {effective:.1f} only: most "
                f"of them contradict it. Raise n_samples, or put the known columns "
                f"first in the graph.",
                SamplingWarning,
                stacklevel=3,
            )
        # Evidence with fewer draws beyond it is farther out than the draws reach.
        least = min(5 / n, 0.01)
        far = next((name for name, share in tails.items() if share < least), None)
        if far is not None:
            warnings.warn(
                f"given[{far!r}] is farther out than nearly all draws of that column "
                f"(share {tails[far]:.2g} of {n} beyond it): the draws that could "
                f"explain it may be missing, which the effective sample size cannot "
                f"show. Check its value, or raise n_samples.",
                SamplingWarning,
                stacklevel=3,
            )
        return result

    def impute(self, Y: Array, n_draws: int, population: int) -> Imputation:
        """Fill in what is not a number, `n_draws` times.

        Each draw is chosen from a population of that size, or of more where needed.
        """
        # A draw taken from a population worth fewer draws than this is hardly random:
        # populations grow by this factor where they are worth too little, twice.
        enough, growth, rounds = 10.0, 4, 3
        known = _known(self.graph, Y)
        _check_missing(self.graph, known)
        draws = np.repeat(Y[None], n_draws, axis=0)
        effective = np.full(len(Y), np.inf)
        exact = known.all(axis=1)
        # Several orders are weighed against each other wherever something is known.
        if len(self.orders) == 1:
            exact = ~_contradictable(self.graph, known)
            rows = np.flatnonzero(exact & ~known.all(axis=1))
            for part in _parts_of(rows, n_draws):
                draws[:, part] = self.orders[0].population(Y[part], n_draws)[0]
        rows, size = np.flatnonzero(~exact), population
        for round_ in range(rounds):
            if not len(rows):
                break
            for part in _parts_of(rows, size):
                found = self._population(Y[part], size)
                draws[:, part], effective[part] = _taken(*found, n_draws, self.rng)
            rows = rows[effective[rows] < enough]
            size *= growth if round_ < rounds - 1 else 1
        if len(rows):
            warnings.warn(
                f"in {len(rows)} of {len(Y)} rows the missing entries were chosen from "
                f"draws worth fewer than {enough:.0f} (down to "
                f"{effective[rows].min():.1f} of {size}): what is known there "
                f"contradicts nearly all of them. Put columns with missing entries "
                f"last in the graph, or raise population.",
                SamplingWarning,
                stacklevel=3,
            )
        return Imputation(draws, effective)

    def _population(self, Y: Array, size: int) -> tuple[Array, Array]:
        """Completions of each row, (size, n, d), and log weights, (size, n)."""
        if len(self.orders) == 1:
            return self.orders[0].population(Y, size)
        known, draws, log_weights = _known(self.graph, Y), [], []
        for order, count in zip(self.orders, self._counts(size), strict=True):
            if count:
                found, own = order.population(Y, count)
                draws.append(found)
                log_weights.append(own + order.constants(Y, known))
        return np.concatenate(draws), np.concatenate(log_weights)

    def _counts(self, n: int) -> Indices:
        """How many of n draws are of each order: n w_k on average, and at most one off.

        Systematic sampling, so that every draw counts alike, also if n is small.
        """
        if len(self.orders) == 1:
            return np.array([n])
        reached = np.cumsum(self.weights)[:-1]
        levels = (np.arange(n) + self.rng.random()) / n
        return np.bincount(np.searchsorted(reached, levels), minlength=len(self.orders))


def _relative_error(log_weights: Sequence[Array], log_mean: float) -> float:
    """Relative standard error of the mean weight of draws in strata, one per order."""
    n = sum(map(len, log_weights))
    weights = [np.exp(own - log_mean) for own in log_weights]
    overall = float(np.var(np.concatenate(weights)))
    # One draw of an order says nothing about how these differ.
    variances = [np.var(own) if len(own) > 1 else overall for own in weights]
    total = sum(len(own) * v for own, v in zip(weights, variances, strict=True))
    return math.sqrt(total) / n


def _placed(graph: Graph, evidence: Mapping[int, Array], n: int) -> Array:
    """Rows with the evidence, and NaN elsewhere, (n, d)."""
    Y = np.full((n, len(graph.names)), np.nan)
    for column, values in evidence.items():
        Y[:, column] = values
    return Y


def _known(graph: Graph, Y: Array) -> Mask:
    """What of rows is not to be drawn: conditions, which may have gaps, and numbers."""
    known = np.isfinite(Y)
    known[:, graph.exogenous] = True
    return known


def check_conditions(
    graph: Graph, Y: Array, columns: JointColumns | None = None
) -> None:
    """Refuse rows without a condition that was always there at the fit."""
    for c in graph.exogenous:
        gaps = np.isnan(Y[:, c])
        if gaps.any() and not (columns is not None and columns.columns[c].gaps):
            raise ValueError(
                f"Y has no value of the exogenous column {graph.names[c]!r} in row "
                f"{int(np.argmax(gaps))}, and there is no density to draw it from; "
                f"fill it in."
            )


def _check_missing(graph: Graph, known: Mask) -> None:
    """Refuse rows with a part of a block."""
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


def _parts_of(rows: Indices, size: int) -> list[Indices]:
    """Rows, so many at a time that populations of this size fit into memory."""
    step = max(1, 200_000 // max(size, 1))  # rows times draws that are held at once
    return [rows[start : start + step] for start in range(0, len(rows), step)]


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
