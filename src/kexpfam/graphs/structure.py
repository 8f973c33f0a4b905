"""Directed acyclic graphs over the columns of a table.

A joint density factorises along a graph, p(y) = Π_v p(y_v | y_pa(v)). A node v is one
column, or a block of several; its parents are columns. Exogenous columns are conditions
only: they may be parents, and have no density of their own.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Columns = tuple[int, ...]

# What a graph can be, in messages.
_GRAPHS = (
    "graph must be one of 'full', 'markov', 'independent', a mapping from child to "
    "parents or a networkx DiGraph"
)


@dataclass(frozen=True)
class Node:
    """One factor of a joint density.

    Attributes:
        columns: Its columns, by position.
        parents: The columns that it is conditioned on, in the order in which its
            factor takes them.
        label: What it is called in pictures and messages.
    """

    columns: Columns
    parents: Columns
    label: str


@dataclass(frozen=True)
class Graph:
    """Nodes in an order in which parents come first.

    Attributes:
        names: Names of all columns; positions if they have none.
        nodes: The factors.
        exogenous: Columns that are conditions only.
    """

    names: tuple[Hashable, ...]
    nodes: tuple[Node, ...]
    exogenous: Columns = ()

    def plain(self) -> dict[str, Any]:
        """The graph in numbers and texts; names of other kinds become positions."""
        names = [name if _is_plain(name) else c for c, name in enumerate(self.names)]
        nodes = [[list(node.columns), list(node.parents)] for node in self.nodes]
        return {"names": names, "nodes": nodes, "exogenous": list(self.exogenous)}

    def position(self, column: Any, argument: str = "given") -> int:
        """Position of a column from its name or position."""
        return _position(column, self.names, argument)

    def key(self, node: Node) -> Hashable:
        """Name of the column of a node, or names of those of a block."""
        names = tuple(self.names[c] for c in node.columns)
        return names[0] if len(names) == 1 else names

    def node_named(self, key: Any) -> Node:
        """The node of a column or block in the mapping `factor`."""
        block = isinstance(key, tuple) and key not in self.names
        columns = {self.position(c, "factor") for c in (key if block else (key,))}
        for node in self.nodes:
            if set(node.columns) == columns:
                return node
        raise ValueError(
            f"factor has an entry for {key!r}, which is no node of the graph; its "
            f"nodes are {', '.join(repr(node.label) for node in self.nodes)}."
        )

    def parent_labels(self) -> dict[str, tuple[str, ...]]:
        """Labels of the parents of each node, blocks as one; for pictures."""
        labels = {c: node.label for node in self.nodes for c in node.columns}
        labels |= {c: str(self.names[c]) for c in self.exogenous}
        return {
            node.label: tuple(dict.fromkeys(labels[c] for c in node.parents))
            for node in self.nodes
        }


def read_graph(
    graph: Any,
    names: Sequence[Hashable],
    exogenous: Iterable[Any] | None = None,
    order: Sequence[Any] | None = None,
) -> Graph:
    """A graph of named columns from what users write, as in `FactorizedDensity`.

    Example:
        >>> graph = read_graph({"b": ["a"], "a": [], "c": "b"}, ["a", "b", "c"])
        >>> [node.label for node in graph.nodes]
        ['a', 'b', 'c']
        >>> graph.nodes[2].parents
        (1,)
    """
    names = tuple(names)
    outside = exogenous_columns(exogenous, names)
    modelled = [c for c in range(len(names)) if c not in outside]
    if not modelled:
        raise ValueError(
            "exogenous names every column, so that none is left to model; leave out "
            "those that should have a density."
        )
    if isinstance(graph, str):
        columns = modelled if order is None else _ordered(order, names, modelled)
        parents = _shape(graph, columns, outside)
    else:
        if order is not None:
            raise ValueError(
                "order is for graph='full' and 'markov'; a mapping or DiGraph has its "
                "own, so leave order=None."
            )
        parents = _mapping(graph, names)
    _check_columns(parents, names, outside)
    return Graph(names, _sorted(parents, names), outside)


def exogenous_columns(
    exogenous: Iterable[Any] | None, names: Sequence[Hashable]
) -> Columns:
    """Positions of the columns that are conditions only."""
    given = [_position(c, tuple(names), "exogenous") for c in _listed(exogenous)]
    return tuple(sorted(set(given)))


def read_plain(plain: Any) -> Graph:
    """The graph that `Graph.plain` described; ValueError if it is none."""
    names = tuple(plain["names"])
    if not all(map(_is_plain, names)) or len(set(names)) != len(names):
        raise ValueError("names of columns are not different texts or numbers")
    parents = {tuple(child): above for child, above in plain["nodes"]}
    graph = read_graph(parents, range(len(names)), plain["exogenous"])
    if list(parents) != [node.columns for node in graph.nodes]:
        raise ValueError("parents do not come first")
    nodes = []
    for v, above in zip(graph.nodes, parents.values(), strict=True):
        # As they were written: factors take their columns in that order.
        written = tuple(map(int, above))
        if tuple(sorted(written)) != v.parents:
            raise ValueError("parents are not different columns")
        nodes.append(Node(v.columns, written, _label(v.columns, names)))
    return Graph(names, tuple(nodes), graph.exogenous)


def _is_plain(name: Any) -> bool:
    """Whether a name of a column can be written as it is."""
    return isinstance(name, str | int) and not isinstance(name, bool)


def _shape(graph: str, columns: list[int], outside: Columns) -> dict[Columns, Columns]:
    reach = {"full": len(columns), "markov": 1, "independent": 0}.get(graph)
    if reach is None:
        raise ValueError(f"{_GRAPHS}, got {graph!r}.")
    return {
        (c,): (*outside, *columns[max(0, i - reach) : i]) for i, c in enumerate(columns)
    }


def _mapping(graph: Any, names: tuple[Hashable, ...]) -> dict[Columns, Columns]:
    """Children and parents by position, from a mapping or a DiGraph."""
    if hasattr(graph, "predecessors") and hasattr(graph, "is_directed"):
        graph = {child: list(graph.predecessors(child)) for child in graph.nodes}
    elif hasattr(graph, "is_directed") and not graph.is_directed():
        raise ValueError(
            "graph is an undirected networkx Graph; use a DiGraph with an arrow from "
            "each parent to its child."
        )
    if not isinstance(graph, Mapping):
        raise ValueError(f"{_GRAPHS}, got {graph!r:.80}.")
    parents: dict[Columns, Columns] = {}
    for child, given in graph.items():
        columns = tuple(_position(c, names, "graph") for c in _flat(child, names))
        mine = {_position(c, names, "graph") for c in _flat(given, names)}
        if not columns:
            raise ValueError("graph has an empty block of columns; remove that entry.")
        parents[columns] = tuple(sorted(mine))
    return parents


def _check_columns(
    parents: dict[Columns, Columns], names: tuple[Hashable, ...], outside: Columns
) -> None:
    """Each modelled column has one entry, and is not its own parent."""
    seen: set[int] = set()
    for columns, mine in parents.items():
        for c in columns:
            if c in seen:
                raise ValueError(
                    f"graph has column {names[c]!r} in two nodes; a column belongs to "
                    f"one."
                )
            if c in outside:
                raise ValueError(
                    f"column {names[c]!r} is exogenous, but has an entry in graph; "
                    f"remove one of the two."
                )
            if c in mine:
                raise ValueError(f"graph makes column {names[c]!r} its own parent.")
            seen.add(c)
    for c, name in enumerate(names):
        if c not in seen and c not in outside:
            raise ValueError(
                f"graph has no entry for column {name!r}; give it one (an empty list "
                f"makes it a root), or name it in exogenous if it is a condition only."
            )


def _sorted(
    parents: dict[Columns, Columns], names: tuple[Hashable, ...]
) -> tuple[Node, ...]:
    """Nodes with parents first, otherwise in the order given; refuses a cycle."""
    owner = {c: columns for columns in parents for c in columns}
    waiting = {
        columns: {owner[c] for c in mine if c in owner}
        for columns, mine in parents.items()
    }
    nodes: list[Node] = []
    while waiting:
        free = next((v for v, above in waiting.items() if not above), None)
        if free is None:
            _refuse_cycle(waiting, names)
            break
        del waiting[free]
        for above in waiting.values():
            above.discard(free)
        nodes.append(Node(free, parents[free], _label(free, names)))
    return tuple(nodes)


def _refuse_cycle(
    waiting: dict[Columns, set[Columns]], names: tuple[Hashable, ...]
) -> None:
    path = [next(iter(waiting))]
    while path[-1] not in path[:-1]:  # every node left has a parent that is left
        path.append(next(iter(waiting[path[-1]])))
    cycle = path[path.index(path[-1]) :][::-1]
    raise ValueError(
        f"graph has a cycle, {' → '.join(_label(v, names) for v in cycle)}; remove one "
        f"of these arrows."
    )


def _label(columns: Columns, names: tuple[Hashable, ...]) -> str:
    return ", ".join(str(names[c]) for c in columns)


def _ordered(
    order: Sequence[Any], names: tuple[Hashable, ...], modelled: list[int]
) -> list[int]:
    columns = [_position(c, names, "order") for c in _listed(order)]
    if sorted(columns) != modelled:
        raise ValueError(
            f"order must name every modelled column once, "
            f"{', '.join(repr(names[c]) for c in modelled)}; got {list(order)!r}."
        )
    return columns


def _listed(columns: Iterable[Any] | None) -> list[Any]:
    if columns is None:
        return []
    if isinstance(columns, str) or not isinstance(columns, Iterable):
        return [columns]
    return list(columns)


def _flat(columns: Any, names: tuple[Hashable, ...]) -> list[Any]:
    """A column, a block or a list of either, as a list of columns."""
    if isinstance(columns, Hashable) and columns in names:
        return [columns]
    if isinstance(columns, str) or not isinstance(columns, Iterable):
        return [columns]
    return [c for part in columns for c in _flat(part, names)]


def _position(column: Any, names: tuple[Hashable, ...], argument: str) -> int:
    if isinstance(column, Hashable) and column in names:
        return names.index(column)
    # A name of its own comes first; then whole numbers are positions.
    whole = hasattr(column, "__index__") and not isinstance(column, bool)
    if whole and -len(names) <= int(column) < len(names):
        return int(column) % len(names)
    raise ValueError(
        f"{argument} names column {column!r}, which the data do not have; their "
        f"columns are {', '.join(map(repr, names))}."
    )
