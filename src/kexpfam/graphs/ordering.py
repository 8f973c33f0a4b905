"""A better order of the columns, found on rows that were held out.

In theory every order of the columns gives the same joint density; fitted ones differ,
because some conditionals are easier to learn than their reverse. The search is greedy,
from the last column to the first: of the columns that are left, the one is put last
that gains most from all others. Candidates are judged with a fast estimator, the order
found against the given one with the factor that will be used.
"""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kexpfam._typing import Array, Indices, RandomState
from kexpfam._validation import as_generator, check_count
from kexpfam.graphs.held_out import dealt_folds, held_out, mean_and_error
from kexpfam.graphs.structure import Columns, Graph, Node, read_graph
from kexpfam.models import KCEF, KEF

ORDERED = ("full", "markov")


@dataclass(frozen=True, eq=False)
class OrderProposal:
    """An order of columns, and what it gains on rows that were held out.

    Attributes:
        order: Names of the columns, the first without parents.
        gain: Mean log density over that of the given order, in nats per row; zero if
            the given order was kept.
        gain_error: Standard error of the gain of the order found.
        found: The order that the search found, also if it was not better.
        found_gain: Its gain, which may be negative.
    """

    order: tuple[Hashable, ...]
    gain: float
    gain_error: float
    found: tuple[Hashable, ...]
    found_gain: float

    def __str__(self) -> str:
        names = " → ".join(map(str, self.found))
        if self.found_gain == self.gain_error == 0.0:
            return f"{names}: the given order, and the search found no other"
        figure = f"{self.found_gain:+.3f} ± {self.gain_error:.3f} nats per row"
        verdict = "" if self.order == self.found else "; the given order is kept"
        return f"{names}: {figure} beside the given order{verdict}"


def propose_order(
    Y: Array,
    *,
    names: Sequence[Hashable] | None = None,
    graph: str = "full",
    factor: Any = None,
    root: Any = None,
    search_factor: Any = None,
    exogenous: Iterable[Any] | None = None,
    cv: int = 3,
    n_jobs: int | None = None,
    random_state: RandomState = 0,
) -> OrderProposal:
    """Propose an order of the columns for a full or Markov graph.

    It fits d(d + 1)/2 · cv factors with the fast estimator.

    Args:
        Y: Rows, (n, d).
        names: Names of the columns; None for those of a data frame, or positions.
        graph: "full" or "markov".
        factor: The factor that will be used; None for `KCEF()`.
        root: The density of the first column; None for `KEF()`.
        search_factor: The fast estimator of the search; None for an untuned `KCEF`
            around a linear regression.
        exogenous: Columns that are conditions only.
        cv: Folds.
        n_jobs: Processes, as joblib counts them.
        random_state: Seed of the folds.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> b = rng.normal(size=(150, 1))
        >>> a = b**2 + 0.1 * rng.normal(size=(150, 1))  # a from b, not b from a
        >>> proposal = propose_order(np.hstack([a, b]), names=["a", "b"])
        >>> proposal.order
        ('b', 'a')
    """
    if graph not in ORDERED:
        raise ValueError(
            f"an order can be proposed for graph='full' or 'markov', got {graph!r}."
        )
    labels = getattr(Y, "columns", range(np.shape(Y)[1])) if names is None else names
    table = np.asarray(Y, dtype=float)
    rng = as_generator(random_state)
    folds = dealt_folds(len(table), check_count("cv", cv, least=2), rng)
    given = read_graph(graph, tuple(labels), exogenous)
    search = _Search(
        table,
        given,
        folds,
        search_factor or KCEF(base="linear", select=None, n_components=100),
        KEF(select=None),
        n_jobs,
    )
    columns = search.backward() if graph == "full" else search.chain()
    found = read_graph(graph, given.names, given.exogenous, columns)
    gain, error = _gain(
        found, given, table, folds, factor or KCEF(), root or KEF(), n_jobs
    )
    named = tuple(given.names[c] for c in columns)
    before = tuple(given.names[node.columns[0]] for node in given.nodes)
    better = gain > 0
    return OrderProposal(
        named if better else before, max(gain, 0.0), error, named, gain
    )


@dataclass(frozen=True, eq=False)
class _Search:
    Y: Array
    graph: Graph
    folds: list[Indices]
    factor: Any
    root: Any
    n_jobs: int | None

    @property
    def columns(self) -> list[int]:
        return [node.columns[0] for node in self.graph.nodes]

    def backward(self) -> list[int]:
        """The last column first: the one that gains most from all that are left."""
        alone = self._scores([(c, ()) for c in self.columns])
        marginal = dict(zip(self.columns, alone, strict=True))
        left, order = list(self.columns), []
        while len(left) > 1:
            scores = self._scores([(c, tuple(o for o in left if o != c)) for c in left])
            gains = [s - marginal[c] for c, s in zip(left, scores, strict=True)]
            order.append(left.pop(int(np.argmax(gains))))
        return [*left, *order[::-1]]

    def chain(self) -> list[int]:
        """A chain: the pair that gains most, then what gains most at either end."""
        columns = self.columns
        alone = self._scores([(c, ()) for c in columns])
        pairs = [(p, c) for p in columns for c in columns if c != p]
        if not pairs:
            return columns
        scores = self._scores([(c, (p,)) for p, c in pairs])
        gains = {
            (p, c): score - alone[columns.index(c)]
            for (p, c), score in zip(pairs, scores, strict=True)
        }
        order = list(pairs[int(np.argmax([gains[pair] for pair in pairs]))])
        while len(order) < len(columns):
            left = [c for c in columns if c not in order]
            after = [gains[order[-1], c] for c in left]
            before = [gains[c, order[0]] for c in left]
            if max(after) >= max(before):
                order.append(left[int(np.argmax(after))])
            else:
                order.insert(0, left[int(np.argmax(before))])
        return order

    def _scores(self, wanted: Sequence[tuple[int, Columns]]) -> list[float]:
        """Held-out mean log density of columns given others."""
        tasks = []
        for column, others in wanted:
            parents = tuple(sorted((*self.graph.exogenous, *others)))
            node = Node((column,), parents, str(self.graph.names[column]))
            tasks.append((node, self.factor if parents else self.root))
        found = held_out(
            tasks, self.Y, self.folds, self.n_jobs, np.random.default_rng(0)
        )
        return [float(log_p.mean()) for log_p in found]


def _gain(
    found: Graph,
    given: Graph,
    Y: Array,
    folds: list[Indices],
    factor: Any,
    root: Any,
    n_jobs: int | None,
) -> tuple[float, float]:
    """Gain of one graph over another and its standard error; equal factors cancel."""
    ours, theirs = set(found.nodes), set(given.nodes)
    changed = [*(ours - theirs), *(theirs - ours)]
    if not changed:
        return 0.0, 0.0
    changed.sort(key=lambda node: (node not in ours, node.columns))
    tasks = [(node, factor if node.parents else root) for node in changed]
    log_p = held_out(tasks, Y, folds, n_jobs, np.random.default_rng(0))
    signs = [1.0 if node in ours else -1.0 for node in changed]
    rows = np.sum([s * lp for s, lp in zip(signs, log_p, strict=True)], axis=0)
    return mean_and_error(rows)
