"""Averages over orders of the columns, p(y) = Σ_k w_k p_k(y).

Every order of the columns factorises the same joint density, p_k(y) = Π_v p(y_v | those
before v), but fitted factors err in ways of their own, and the average errs less. A
factor depends on the set of its parents and not on their order, so that orders share
it. They are chosen to share many: a set of columns comes first, in one of two
arrangements, and the rest follows in one of two. These four orders have the factors of
two, and eight have those of four.

Given evidence, order k has the weight w_k p_k(evidence): draws come from each order,
and are weighted by the whole density of the evidence there.
"""

import math
import warnings
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import special

from kexpfam._typing import Array, Indices
from kexpfam.errors import SamplingWarning
from kexpfam.graphs.evidence import (
    AncestralSampling,
    Imputation,
    WeightedDraws,
    check_missing,
    contradictable,
    parts_of,
    placed,
    taken,
    unknown_ancestor,
)
from kexpfam.graphs.factors import Factor
from kexpfam.graphs.structure import Columns, Graph, Node, read_graph, read_plain


@dataclass(frozen=True, eq=False)
class ColumnOrder:
    """One order of the columns in an average over orders.

    Attributes:
        weight: Its share of the average.
        graph: Its nodes, parents first.
        factors: Its factors; other orders may have the same.
    """

    weight: float
    graph: Graph
    factors: tuple[Factor, ...]

    @property
    def columns(self) -> tuple[Hashable, ...]:
        """Names of the columns, or of the blocks, parents first."""
        return tuple(self.graph.key(node) for node in self.graph.nodes)


def crossed_orders(
    columns: Sequence[int], count: int, rng: np.random.Generator
) -> list[list[int]]:
    """Different orders that share factors, the given one first.

    Four at a time: two arrangements of the columns that come first, each followed by
    two of the others. All orders, if there are fewer than asked for.

    Example:
        >>> crossed_orders([0, 1, 2, 3], 4, np.random.default_rng(0))
        [[0, 1, 2, 3], [1, 0, 3, 2], [0, 1, 3, 2], [1, 0, 2, 3]]
    """
    start, found = list(columns), [list(columns)]
    most = min(count, math.factorial(len(columns)))
    while len(found) < most:
        cut = len(start) // 2
        firsts, lasts = (
            (part, _rearranged(part, rng)) for part in (start[:cut], start[cut:])
        )
        for i, j in ((0, 0), (1, 1), (0, 1), (1, 0)):
            order = firsts[i] + lasts[j]
            if order not in found and len(found) < most:
                found.append(order)
        start = rng.permutation(columns).tolist()
    return found


def _rearranged(part: list[int], rng: np.random.Generator) -> list[int]:
    """Another arrangement, if there is one."""
    other = rng.permutation(part).tolist() if part else part
    return part[::-1] if other == part else other


def averaged_graphs(
    graph: Any,
    names: Sequence[Hashable],
    exogenous: Iterable[Any] | None,
    order: Sequence[Any] | str | None,
    count: int,
    rng: np.random.Generator,
) -> list[Graph]:
    """Graphs of several orders, the given one first; equal factors are equal nodes."""
    if not isinstance(graph, str) or graph not in ("full", "markov"):
        raise ValueError(
            f"orders={count} is for graph='full' and 'markov', whose columns can be "
            f"taken in other orders, got graph={graph!r:.80}; leave orders=1."
        )
    if isinstance(order, str):
        raise ValueError(
            f"orders={count} averages over orders, and order={order!r} looks for one; "
            f"leave order=None, or orders=1."
        )
    first = read_graph(graph, names, exogenous, order)
    columns = [node.columns[0] for node in first.nodes]
    graphs = [
        read_graph(graph, first.names, first.exogenous, other)
        for other in crossed_orders(columns, count, rng)
    ]
    known: dict[tuple[Columns, frozenset[int]], Node] = {}
    shared = []
    for found in graphs:
        nodes = tuple(
            known.setdefault((v.columns, frozenset(v.parents)), v) for v in found.nodes
        )
        shared.append(replace(found, nodes=nodes))
    return shared


def distinct_nodes(graphs: Iterable[Graph]) -> list[Node]:
    """Every node once, those of the first graph first."""
    return list(dict.fromkeys(node for graph in graphs for node in graph.nodes))


def shared_factors(orders: Sequence[ColumnOrder]) -> list[list[Factor]]:
    """Factors of each order, equal ones as one object."""
    own = {factor.node: factor for order in orders for factor in order.factors}
    return [[own[node] for node in order.graph.nodes] for order in orders]


def plain_orders(orders: Sequence[ColumnOrder], kind: Any) -> dict[str, Any]:
    """All orders in numbers and texts, whose nodes are `distinct_nodes`.

    One order is described by its graph, several also by the name of theirs.
    """
    graphs = [order.graph for order in orders]
    nodes = distinct_nodes(graphs)
    whole = replace(graphs[0], nodes=tuple(nodes)).plain()
    if len(orders) == 1:
        return whole
    return whole | {
        "graph": kind,
        "orders": [[nodes.index(node) for node in graph.nodes] for graph in graphs],
        "weights": [order.weight for order in orders],
    }


def read_orders(plain: Mapping[str, Any], factors: Sequence[Any]) -> list[ColumnOrder]:
    """What `plain_orders` described, with its estimators; ValueError if it is none."""
    if len(plain["nodes"]) != len(factors):
        raise ValueError("there is not one factor for each node")
    weights, lists = [1.0], [list(range(len(factors)))]
    if "orders" in plain:
        weights, lists = [float(w) for w in plain["weights"]], plain["orders"]
        if (
            not all(0 < weight < 1 for weight in weights)
            or abs(sum(weights) - 1) > 1e-6
        ):
            raise ValueError("weights of orders are no shares of one")
        if plain["graph"] not in ("full", "markov"):
            raise ValueError(f"a graph {plain['graph']!r:.60} has no orders")
    found = []
    for weight, numbers in zip(weights, lists, strict=True):
        written = [plain["nodes"][number] for number in numbers]
        graph = read_plain({**plain, "nodes": written})
        pairs = zip(graph.nodes, numbers, strict=True)
        own = tuple(Factor(node, factors[number]) for node, number in pairs)
        found.append(ColumnOrder(weight, graph, own))
    return found


def log_densities(orders: Sequence[ColumnOrder], Y: Array) -> Array:
    """Log p of each row, (n,): factors that orders share are computed once."""
    known: dict[Node, Array] = {}
    totals = []
    for order in orders:
        for factor in order.factors:
            if factor.node not in known:
                known[factor.node] = factor.log_density(Y)
        parts = [known[factor.node] for factor in order.factors]
        totals.append(np.stack(parts, axis=1).sum(axis=1))
    if len(orders) == 1:
        return totals[0]
    shares = np.array([order.weight for order in orders])
    return special.logsumexp(totals, axis=0, b=shares[:, None])


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
        Y = placed(self.graph, evidence, n)
        known = np.isfinite(Y)
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
        known = np.isfinite(Y)
        check_missing(self.graph, known)
        draws = np.repeat(Y[None], n_draws, axis=0)
        effective = np.full(len(Y), np.inf)
        exact = known.all(axis=1)
        # Several orders are weighed against each other wherever something is known.
        if len(self.orders) == 1:
            exact = ~contradictable(self.graph, known)
            rows = np.flatnonzero(exact & ~known.all(axis=1))
            for part in parts_of(rows, n_draws):
                draws[:, part] = self.orders[0].population(Y[part], n_draws)[0]
        rows, size = np.flatnonzero(~exact), population
        for round_ in range(rounds):
            if not len(rows):
                break
            for part in parts_of(rows, size):
                found = self._population(Y[part], size)
                draws[:, part], effective[part] = taken(*found, n_draws, self.rng)
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
        known, draws, log_weights = np.isfinite(Y), [], []
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
