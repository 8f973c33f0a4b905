"""What held-out rows say of a graph: the worth of parents, and a better order.

In theory every order of the columns gives the same joint density; fitted ones differ,
because some conditionals are easier to learn than their reverse. The search is greedy,
from the last column to the first: of the columns that are left, the one is put last
that gains most from all others. Candidates are fitted with a fast estimator, the order
found against the given one with the factor that will be used.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kexpfam._parallel import shared_out
from kexpfam._typing import Array, Indices, RandomState
from kexpfam._validation import as_generator, check_count
from kexpfam.estimators import KCEF, KEF
from kexpfam.graphs.columns import JointColumns
from kexpfam.graphs.factors import fit_factor, seeded
from kexpfam.graphs.structure import Columns, Graph, Node, read_graph


@dataclass(frozen=True, eq=False)
class FactorGains:
    """What conditioning on parents gains on rows that were not seen, in nats per row.

    Attributes:
        labels: The nodes.
        gains: Mean of log p(y_v|parents) − log p(y_v), (k,); not a number for roots.
        errors: Standard errors of the gains, (k,).
        scores: Mean of log p(y_v|parents), of log p(y_v) for roots, (k,).

    Example:
        >>> print(FactorGains(("a", "b"), np.array([np.nan, 0.5]),
        ...                   np.array([np.nan, 0.02]), np.array([-1.4, -0.9])))
        node  held-out log density  gained by its parents
        a                   -1.400
        b                   -0.900  +0.500 ± 0.020
    """

    labels: tuple[str, ...]
    gains: Array
    errors: Array
    scores: Array

    @property
    def total(self) -> float:
        """The gain over independent columns."""
        return float(np.nansum(self.gains))

    def by_label(self) -> dict[str, dict[str, float]]:
        """Gains and errors of nodes with parents, as a picture takes them."""
        inner = [i for i, gain in enumerate(self.gains) if not np.isnan(gain)]
        return {
            "gains": {self.labels[i]: float(self.gains[i]) for i in inner},
            "gain_errors": {self.labels[i]: float(self.errors[i]) for i in inner},
        }

    def __str__(self) -> str:
        width = max(4, *(len(label) for label in self.labels))
        lines = [f"{'node':<{width}}  held-out log density  gained by its parents"]
        rows = zip(self.labels, self.scores, self.gains, self.errors, strict=True)
        for label, score, gain, error in rows:
            gained = "" if np.isnan(gain) else f"  {gain:+.3f} ± {error:.3f}"
            lines.append(f"{label:<{width}}  {score:>20.3f}{gained}")
        return "\n".join(lines)


def factor_gains(
    tasks: Sequence[tuple[Node, Any]],
    root: Any,
    Y: Array,
    cv: int,
    n_jobs: int | None,
    rng: np.random.Generator,
    table: JointColumns | None = None,
) -> FactorGains:
    """Gains of nodes with their estimators over `root`, which has no parents."""
    inner = [i for i, (node, _) in enumerate(tasks) if node.parents]
    alone = [(Node(tasks[i][0].columns, (), tasks[i][0].label), root) for i in inner]
    log_p = _HeldOut.dealt(Y, cv, n_jobs, rng, table).log_densities([*tasks, *alone])
    gains, errors = np.full((2, len(tasks)), np.nan)
    for i, marginal in zip(inner, log_p[len(tasks) :], strict=True):
        gains[i], errors[i] = _mean_and_error(log_p[i] - marginal)
    scores = np.array([part.mean() for part in log_p[: len(tasks)]])
    return FactorGains(tuple(node.label for node, _ in tasks), gains, errors, scores)


@dataclass(frozen=True, eq=False)
class _HeldOut:
    """Rows in folds, each of which is held out once."""

    Y: Array
    folds: list[Indices]
    n_jobs: int | None
    table: JointColumns | None

    @classmethod
    def dealt(
        cls,
        Y: Array,
        cv: int,
        n_jobs: int | None,
        rng: np.random.Generator,
        table: JointColumns | None,
    ) -> "_HeldOut":
        parts = np.array_split(rng.permutation(len(Y)), check_count("cv", cv, least=2))
        return cls(Y, [np.sort(fold) for fold in parts], n_jobs, table)

    def log_densities(self, tasks: Sequence[tuple[Node, Any]]) -> list[Array]:
        """Of each row under each factor, fitted without the row's fold."""
        rng = np.random.default_rng(0)  # for estimators without a seed
        calls = [
            (node, seeded(estimator, rng), self.Y, fold, self.table)
            for node, estimator in tasks
            for fold in self.folds
        ]
        results = shared_out(_fold_log_density, calls, self.n_jobs, prefer="processes")
        flat = iter([log_p for some in results for log_p in some])
        found = np.empty((len(tasks), len(self.Y)))
        for log_p in found:
            for fold in self.folds:
                log_p[fold] = next(flat)
        return list(found)


def _fold_log_density(
    node: Node, estimator: Any, Y: Array, fold: Indices, table: JointColumns | None
) -> Array:
    kept = np.setdiff1d(np.arange(len(Y)), fold, assume_unique=True)
    factor, _ = fit_factor(node, estimator, Y[kept], None, table)
    return factor.log_density(Y[fold])


def _mean_and_error(values: Array) -> tuple[float, float]:
    """Mean over rows, and its standard error."""
    return float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values)))


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


def check_greedy(order: str, graph: Any, factor: Any) -> None:
    """Refuse what no order can be looked for with."""
    if order != "greedy":
        raise ValueError(
            f"order must be a list of columns, 'greedy' or None, got {order!r}."
        )
    if not isinstance(graph, str) or graph not in ("full", "markov"):
        raise ValueError(
            f"order='greedy' is for graph='full' and 'markov', got graph={graph!r:.80}."
        )
    if isinstance(factor, Mapping):
        raise ValueError(
            "order='greedy' needs one factor for all columns, got a mapping."
        )


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
    columns: JointColumns | None = None,
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
        columns: What the columns of Y are, if some conditions are more than numbers.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> b = rng.normal(size=(150, 1))
        >>> a = b**2 + 0.1 * rng.normal(size=(150, 1))  # a from b, not b from a
        >>> proposal = propose_order(np.hstack([a, b]), names=["a", "b"])
        >>> proposal.order
        ('b', 'a')
    """
    if graph not in ("full", "markov"):
        raise ValueError(
            f"an order can be proposed for graph='full' or 'markov', got {graph!r}."
        )
    labels = getattr(Y, "columns", range(np.shape(Y)[1])) if names is None else names
    table = np.asarray(Y, dtype=float)
    held_out = _HeldOut.dealt(table, cv, n_jobs, as_generator(random_state), columns)
    given = read_graph(graph, tuple(labels), exogenous)
    fast = search_factor or KCEF(base="linear", select=None, n_components=100)
    search = _Search(held_out, given, fast, KEF(select=None))
    order = search.backward() if graph == "full" else search.chain()
    found = read_graph(graph, given.names, given.exogenous, order)
    gain, error = _gain(held_out, found, given, factor or KCEF(), root or KEF())
    named = tuple(given.names[c] for c in order)
    before = tuple(given.names[node.columns[0]] for node in given.nodes)
    better = gain > 0
    return OrderProposal(
        named if better else before, max(gain, 0.0), error, named, gain
    )


@dataclass(frozen=True, eq=False)
class _Search:
    held_out: _HeldOut
    graph: Graph
    factor: Any
    root: Any

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
        return [float(p.mean()) for p in self.held_out.log_densities(tasks)]


def _gain(
    held_out: _HeldOut, found: Graph, given: Graph, factor: Any, root: Any
) -> tuple[float, float]:
    """Gain of one graph over another and its standard error; equal factors cancel."""
    ours, theirs = set(found.nodes), set(given.nodes)
    changed = [*(ours - theirs), *(theirs - ours)]
    if not changed:
        return 0.0, 0.0
    changed.sort(key=lambda node: (node not in ours, node.columns))
    tasks = [(node, factor if node.parents else root) for node in changed]
    log_p = held_out.log_densities(tasks)
    signs = [1.0 if node in ours else -1.0 for node in changed]
    rows = np.sum([s * lp for s, lp in zip(signs, log_p, strict=True)], axis=0)
    return _mean_and_error(rows)
