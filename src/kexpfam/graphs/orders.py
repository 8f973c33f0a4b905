"""Averages over orders of the columns, p(y) = Σ_k w_k p_k(y).

Every order of the columns factorises the same joint density, p_k(y) = Π_v p(y_v | those
before v), but fitted factors err in ways of their own, and the average errs less. A
factor depends on the set of its parents and not on their order, so that orders share
it. They are chosen to share many: a set of columns comes first, in one of two
arrangements, and the rest follows in one of two. These four orders have the factors of
two, and eight have those of four.
"""

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import special

from kexpfam._typing import Array
from kexpfam.distributions import ChainRuleDensity, OneColumnDensity
from kexpfam.errors import CannotSaveError
from kexpfam.estimators import KCEF, KEF, AutoKCEF
from kexpfam.graphs.columns import JointColumns
from kexpfam.graphs.factors import Factor
from kexpfam.graphs.structure import Columns, Graph, Node, read_graph, read_plain

# Factors that files may hold.
_SAVED = KCEF | KEF | AutoKCEF


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


def density_given(
    orders: Sequence[ColumnOrder], rows: Array
) -> ChainRuleDensity | OneColumnDensity:
    """Densities of all modelled columns at whole rows, which have the conditions."""
    own = {factor.node: factor for order in orders for factor in order.factors}
    for factor in own.values():
        if not factor.has_given:
            raise TypeError(
                f"given(X) needs densities of one column from every factor, and that "
                f"of {factor.node.label!r}, {type(factor.estimator).__name__}, has "
                f"none; use score_samples, and sample or conditional."
            )
    graph = orders[0].graph
    columns = sorted(node.columns[0] for node in graph.nodes)
    if len(columns) == 1:
        found: OneColumnDensity = own[graph.nodes[0]].given(rows)
        return found
    return ChainRuleDensity(
        rows,
        columns,
        # Factors that are shared are one object.
        [[own[node] for node in order.graph.nodes] for order in orders],
        [order.weight for order in orders],
        [graph.names[c] for c in columns],
    )


def saved_estimators(orders: Sequence[ColumnOrder]) -> list[Any]:
    """Estimators of `distinct_nodes`, if files may hold them all."""
    own = {factor.node: factor for order in orders for factor in order.factors}
    for factor in own.values():
        if not isinstance(factor.estimator, _SAVED):
            raise CannotSaveError(
                f"the factor of {factor.node.label!r}, "
                f"{type(factor.estimator).__name__}, cannot be saved: only KCEF, KEF "
                f"and AutoKCEF have a file format that is safe to open."
            )
    return [factor.estimator for factor in own.values()]


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


def read_orders(
    plain: Mapping[str, Any],
    factors: Sequence[Any],
    columns: JointColumns | None = None,
) -> list[ColumnOrder]:
    """What `plain_orders` described, with its estimators; ValueError if it is none."""
    weights, lists = [1.0], [list(range(len(plain["nodes"])))]
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
        if len(plain["nodes"]) != len(factors):
            raise ValueError("there is not one factor for each node")
        pairs = zip(graph.nodes, numbers, strict=True)
        own = tuple(Factor(node, factors[k], columns) for node, k in pairs)
        for factor in own:
            if not isinstance(factor.estimator, _SAVED) or not factor.fits:
                label = factor.node.label
                raise ValueError(f"the factor of {label!r} has other columns")
        found.append(ColumnOrder(weight, graph, own))
    return found


def mixed_log_densities(orders: Sequence[ColumnOrder], Y: Array) -> Array:
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
