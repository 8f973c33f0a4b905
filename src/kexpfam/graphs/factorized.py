"""FactorizedDensity: a joint density as a product of conditionals along a graph."""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from kexpfam._parallel import shared_out
from kexpfam._typing import Array, ArrayLike, RandomState
from kexpfam._validation import as_generator, check_count, check_weights
from kexpfam.distributions import ChainRuleDensity, OneColumnDensity
from kexpfam.estimators import KCEF, KEF
from kexpfam.estimators.base import DensityEstimator
from kexpfam.graphs.columns import JointColumns
from kexpfam.graphs.evidence import (
    AncestralSampling,
    Imputation,
    OrderSampling,
    WeightedDraws,
    check_conditions,
    read_evidence,
)
from kexpfam.graphs.factors import Factor, check_estimator_of, fit_factor, seeded
from kexpfam.graphs.held_out import (
    FactorGains,
    OrderProposal,
    check_greedy,
    factor_gains,
    propose_order,
)
from kexpfam.graphs.orders import (
    ColumnOrder,
    averaged_graphs,
    density_given,
    distinct_nodes,
    mixed_log_densities,
    plain_orders,
    read_orders,
    saved_estimators,
)
from kexpfam.graphs.structure import Graph, Node, read_graph
from kexpfam.graphs.tables import (
    JointTable,
    exogenous_rows,
    joint_table,
    refuse_constants,
    rows_asked,
)
from kexpfam.persistence import save_factors, saved_joint
from kexpfam.sampling import Sampler


@saved_joint
class FactorizedDensity(DensityEstimator):
    """A joint density along a directed acyclic graph, p(y) = Π_v p(y_v | parents).

    Each factor is an estimator of its own, fitted to its columns and those of its
    parents. Log densities are sums, draws are made parents first. With `orders=8` the
    density is an average over eight orders of the columns, which share factors.

    Args:
        graph: "full": every column is conditioned on all columns before it. "markov":
            on the one before it. "independent": on none. A mapping from child to
            parents, by names or positions; a tuple of columns is a block with one
            density. Or a networkx DiGraph with an arrow from each parent to its child.
        factor: Estimator of p(y|x) for nodes with parents; None for `KCEF()`. A
            mapping from columns to estimators gives some of them their own.
        root: Estimator for nodes without parents; None for `KEF()`.
        exogenous: Columns that are conditions only, and are not modelled, so that
            p(y1, y2|x) is a factorised density too. In graphs given by a name they
            are parents of all columns.
        order: Columns in the order in which "full" and "markov" take them; "greedy"
            to look for one on held-out rows, which takes many fits; None for that of
            the table.
        orders: How many orders of the columns are averaged with equal weights, for
            "full" and "markov": the one above, and others at random that share
            factors, so that four take the fits of two, and eight those of four. All
            orders, if there are fewer.
        n_jobs: Processes that fit factors, as joblib counts them: None for one, or
            what a surrounding `joblib.parallel_config` says; -1 for all cores.
        random_state: Seed of factors that have none, and of the orders.

    Attributes:
        factors_: Fitted estimators by column, or by tuple of columns for blocks, in an
            order in which parents come first; those of the first order, if there are
            several.
        graph_: The graph, with columns by position, of the first order.
        orders_: All orders, with weight, graph and factors of each.
        order_: The order that was proposed, with its gain; None unless
            `order="greedy"`.
        n_features_in_: Columns of the data.
        feature_names_in_: Their names, if X had any.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> a = rng.normal(size=200)
        >>> b = a**2 + 0.3 * rng.normal(size=200)
        >>> model = FactorizedDensity(random_state=0).fit(np.column_stack([a, b]))
        >>> model.sample(3, random_state=0).shape
        (3, 2)
        >>> draws = model.sample(500, random_state=0, given={0: 2.0})
        >>> bool(3.5 < draws[:, 1].mean() < 4.5)
        True
    """

    def __init__(
        self,
        *,
        graph: Any = "full",
        factor: Any = None,
        root: Any = None,
        exogenous: Iterable[Any] | None = None,
        order: Sequence[Any] | str | None = None,
        orders: int = 1,
        n_jobs: int | None = None,
        random_state: RandomState = None,
    ) -> None:
        self.graph = graph
        self.factor = factor
        self.root = root
        self.exogenous = exogenous
        self.order = order
        self.orders = orders
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(
        self,
        X: ArrayLike,
        y: Any = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Fit all factors to the rows of X, (n, d).

        Args:
            X: The data; scikit-learn's name for it. An array, pandas or polars.
                Exogenous columns are among them.
            y: Labels that scikit-learn passes, and that are ignored; a table is
                refused, since p(y|x) is `exogenous=` of the one table X.
            sample_weight: Weight of each row.

        Returns:
            The estimator itself.
        """
        shape = np.asarray(y).shape
        if isinstance(y, str) or len(shape) > 1:
            got = repr(y) if isinstance(y, str) else f"shape {shape}"
            raise ValueError(
                f"y must not be a column or a table, got {got}: fit takes one table "
                f"of all columns, and FactorizedDensity(exogenous=[...]) says which "
                f"of them are conditions, as given(X) takes them."
            )
        table = joint_table(self, X, self.exogenous)
        Y, columns, weights = table.Y, table.columns, None
        if sample_weight is not None:
            weights = check_weights(sample_weight, len(table.kept))[table.kept]
        rng = None if self.random_state is None else as_generator(self.random_state)
        graphs, proposal = self._read_graphs(table)
        refuse_constants(Y, graphs[0])
        tasks = self._tasks(distinct_nodes(graphs), graphs[0])
        calls = [(node, seeded(e, rng), Y, weights, columns) for node, e in tasks]
        results = shared_out(fit_factor, calls, self.n_jobs, prefer="processes")
        fitted = [result for some in results for result in some]
        for factor, caught in fitted:
            for category, text in caught:
                message = f"Factor of {factor.node.label!r}: {text}"
                warnings.warn(message, category, stacklevel=2)
        self.order_ = proposal
        own = {factor.node: factor for factor, _ in fitted}
        share = 1.0 / len(graphs)
        return self._restore(
            [
                ColumnOrder(share, graph, tuple(own[node] for node in graph.nodes))
                for graph in graphs
            ],
            columns,
        )

    def factor_log_densities(self, X: ArrayLike) -> Array:
        """Log p(y_v | parents) of each row and node, (n, k), in the order of factors_.

        They sum to the log density of the first order, which is that of the model
        unless it averages over several.

        Example:
            >>> import numpy as np
            >>> Y = np.random.default_rng(0).normal(size=(50, 2))
            >>> model = FactorizedDensity(graph="independent").fit(Y)
            >>> parts = model.factor_log_densities(Y)
            >>> bool(np.allclose(parts.sum(axis=1), model.score_samples(Y)))
            True
        """
        Y = self._table(X)
        return np.stack([factor.log_density(Y) for factor in self._factors], axis=1)

    def score_samples(self, X: ArrayLike) -> Array:
        """Log p of each row, given its exogenous columns, (n,).

        The sum of log p(column | parents) along the graph; with several orders, the log
        of the weighted mean of what each says.

        Args:
            X: Rows of the whole table, (n, p) or a frame.
        """
        return mixed_log_densities(self.orders_, self._table(X))

    def given(self, X: ArrayLike) -> ChainRuleDensity | OneColumnDensity:
        """The distributions of all modelled columns at each row of X, as one object.

        Args:
            X: The exogenous columns, (n, p), in the order of the table; of a data frame
                those with their names.

        Returns:
            n densities with `logpdf`, `rvs`, `mean`, `std`, `cov`, `entropy` and
            `marginal(column)`; what the factor gives if one column is modelled.

        Raises:
            ValueError: No column is exogenous.
            TypeError: A factor has no `given`, or is that of a block.

        Example:
            >>> import numpy as np
            >>> rng = np.random.default_rng(0)
            >>> x, e = rng.normal(size=200), 0.3 * rng.normal(size=(2, 200))
            >>> table = np.column_stack([x, x**2 + e[0], x + e[0] + e[1]])
            >>> model = FactorizedDensity(exogenous=[0], random_state=0).fit(table)
            >>> p = model.given([[0.0], [1.0]])
            >>> p.logpdf([[0.0, 0.0], [1.0, 1.0]]).shape
            (2,)
            >>> p.marginal(2).interval(0.9).shape
            (2, 2)
        """
        check_is_fitted(self)
        return density_given(
            self.orders_, exogenous_rows(X, self.graph_, self._columns)
        )

    def sample(
        self,
        n_samples: int = 1,
        random_state: RandomState = None,
        given: Mapping[Any, ArrayLike] | None = None,
        sampler: Sampler | str | None = None,
    ) -> Array:
        """Draws of whole rows, (n_samples, d), independent of each other.

        Args:
            n_samples: How many.
            random_state: Seed or generator.
            given: Values of some columns, a number or one per draw, such as
                `{"a": 1.0}`. All ancestors of a column that is given have to be given
                too, in every order; see `conditional` for evidence elsewhere. Exogenous
                columns always are.
            sampler: How factors draw, as in `KCEF.sample`.

        Raises:
            ValueError: A column that is given has an ancestor that is not.
        """
        check_is_fitted(self)
        n_samples = check_count("n_samples", n_samples)
        evidence = read_evidence(self.graph_, given, n_samples, self._columns)
        draws = self._draws(random_state, sampler).draws(evidence, n_samples)
        return self._cells(draws)

    def conditional(
        self,
        given: Mapping[Any, ArrayLike],
        n_samples: int = 2000,
        random_state: RandomState = None,
        sampler: Sampler | str | None = None,
    ) -> WeightedDraws:
        """Draws given evidence on any columns, by likelihood weighting.

        Unknown columns are drawn parents first, and each draw is weighted by the
        density of the evidence that depends on it. The effective sample size says what
        the draws are worth, and is warned about if small. Several orders have draws in
        proportion to their weights, and are weighted by their density of the evidence.

        Args:
            given: Values of some columns, one number each.
            n_samples: How many draws.
            random_state: Seed or generator.
            sampler: How factors draw, as in `KCEF.sample`.

        Example:
            >>> import numpy as np
            >>> rng = np.random.default_rng(0)
            >>> a = rng.normal(size=300)
            >>> Y = np.column_stack([a, a + 0.5 * rng.normal(size=300)])
            >>> model = FactorizedDensity(random_state=0).fit(Y)
            >>> draws = model.conditional({1: 1.0}, random_state=0)  # evidence on b
            >>> bool(0.6 < draws.mean()[0] < 1.0)  # 0.8 in truth
            True
        """
        check_is_fitted(self)
        evidence = read_evidence(self.graph_, given, columns=self._columns)
        n_samples = check_count("n_samples", n_samples, least=1)
        return self._draws(random_state, sampler).weighted(evidence, n_samples)

    def impute(
        self,
        X: ArrayLike,
        n_draws: int | None = None,
        random_state: RandomState = None,
        *,
        population: int = 100,
        sampler: Sampler | str | None = None,
    ) -> Array:
        """Missing entries as draws from their distribution given the rest of the row.

        Where only descendants are missing draws are exact; elsewhere one is chosen by
        weight out of `population`, or more where that is not enough.

        Args:
            X: Rows with NaN where something is missing.
            n_draws: How many completed tables; None for one, without a leading axis.
            random_state: Seed or generator.
            population: Draws that one is chosen from.
            sampler: How factors draw, as in `KCEF.sample`.

        Returns:
            Completed rows, (n, d), or (n_draws, n, d).
        """
        done = self.imputation(
            X, 1 if n_draws is None else n_draws, random_state, population, sampler
        )
        draws = self._cells(done.draws)
        return draws[0] if n_draws is None else draws

    def imputation(
        self,
        X: ArrayLike,
        n_draws: int = 1,
        random_state: RandomState = None,
        population: int = 100,
        sampler: Sampler | str | None = None,
    ) -> Imputation:
        """As `impute`, with what the draws of each row are worth."""
        Y = self._table(X, missing=True)
        check_conditions(self.graph_, Y, self._columns)
        n_draws = check_count("n_draws", n_draws, least=1)
        population = check_count("population", population, least=2)
        return self._draws(random_state, sampler).impute(Y, n_draws, population)

    def held_out_gains(
        self, X: ArrayLike, cv: int = 5, random_state: RandomState = 0
    ) -> FactorGains:
        """What its parents gain each factor on rows that were held out.

        Factors of the first order are fitted again, cv times, as are densities without
        parents.

        Args:
            X: Rows, such as those of the fit.
            cv: Folds.
            random_state: Seed of the folds.
        """
        Y, rng = self._table(X), as_generator(random_state)
        return factor_gains(
            self._tasks(self.graph_.nodes, self.graph_),
            self._root(),
            Y,
            cv,
            self.n_jobs,
            rng,
            self._columns,
        )

    def plot(self, gains: FactorGains | None = None, ax: Any = None) -> Any:
        """Draw the graph (of the first order), with `held_out_gains` if given.

        Returns:
            The Axes.
        """
        from kexpfam.display import GraphDisplay

        check_is_fitted(self)
        figures = {} if gains is None else gains.by_label()
        display = GraphDisplay(
            [node.label for node in self.graph_.nodes],
            self.graph_.parent_labels(),
            **figures,
            exogenous=[str(self.graph_.names[c]) for c in self.graph_.exogenous],
        )
        return display.plot(ax=ax).ax_

    def save(self, path: str | Path, *, extra: Mapping[str, Any] | None = None) -> None:
        """Write the fitted model to one file; `kexpfam.load` reads it.

        The loaded model answers as this one. Its parameters hold the graph that was
        fitted, and not how its factors were chosen.

        `extra`, in the terms of JSON (texts, numbers, lists, mappings), is kept in the
        file, too; the loaded model has it as `extra_`.

        Raises:
            CannotSaveError: A factor is not one of `KCEF`, `KEF` and `AutoKCEF`, or
                holds a part without a safe file representation.
        """
        check_is_fitted(self)
        structure = plain_orders(self.orders_, self.graph)
        if self._columns is not None:
            structure |= self._columns.plain()
        save_factors(self, path, structure, saved_estimators(self.orders_), extra)

    @classmethod
    def _of_factors(
        cls, structure: Any, feature_names: list[str], factors: list[Any]
    ) -> Self:
        """The density of a file, whose parameters say what its graph is."""
        columns = JointColumns.of_plain(structure, structure["names"])
        orders = read_orders(structure, factors, columns)
        graph = orders[0].graph
        if feature_names and feature_names != list(graph.names):
            raise ValueError("feature names do not match the columns")
        parents = {node.columns: list(node.parents) for node in graph.nodes}
        how: dict[str, Any] = {"graph": parents}
        if len(orders) > 1:
            how = {"graph": structure["graph"], "orders": len(orders)}
            how["order"] = [node.columns[0] for node in graph.nodes]
        model = cls(**how, exogenous=list(graph.exogenous) or None)
        model.n_features_in_ = len(graph.names)
        model.order_ = None
        return model._restore(orders, columns)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "graph_")

    @property
    def _factors(self) -> tuple[Factor, ...]:
        estimators = self.factors_.values()
        pairs = zip(self.graph_.nodes, estimators, strict=True)
        return tuple(Factor(node, own, self._columns) for node, own in pairs)

    @property
    def orders_(self) -> tuple[ColumnOrder, ...]:
        """The orders that are averaged, the first with the factors of `factors_`."""
        share = 1.0 - sum(order.weight for order in self._further)
        return (ColumnOrder(share, self.graph_, self._factors), *self._further)

    def _draws(
        self, random_state: RandomState, sampler: Sampler | str | None
    ) -> OrderSampling:
        rng, orders = as_generator(random_state), self.orders_
        ways = [AncestralSampling(o.graph, o.factors, rng, sampler) for o in orders]
        weights = np.array([order.weight for order in orders])
        return OrderSampling(tuple(ways), weights, rng)

    def _root(self) -> Any:
        return KEF() if self.root is None else self.root

    def _read_graphs(
        self, table: JointTable
    ) -> tuple[list[Graph], OrderProposal | None]:
        """The graph of each order, with one that was looked for if so wished."""
        names = table.names
        count = check_count("orders", self.orders, least=1)
        seed = 0 if self.random_state is None else self.random_state
        if count > 1:
            rng = as_generator(seed).spawn(1)[0]  # factors have the same seeds as alone
            how = self.graph, names, self.exogenous, self.order
            return averaged_graphs(*how, count, rng), None
        if not isinstance(self.order, str):
            return [read_graph(self.graph, names, self.exogenous, self.order)], None
        check_greedy(self.order, self.graph, self.factor)
        proposal = propose_order(
            table.Y,
            names=names,
            graph=self.graph,
            factor=self.factor,
            root=self.root,
            exogenous=self.exogenous,
            n_jobs=self.n_jobs,
            random_state=seed,
            columns=table.columns,
        )
        graph = read_graph(self.graph, names, self.exogenous, proposal.order)
        return [graph], proposal

    def _tasks(self, nodes: Iterable[Node], graph: Graph) -> list[tuple[Node, Any]]:
        """Each node with its estimator, checked; the graph knows nodes by name."""
        own = self.factor if isinstance(self.factor, Mapping) else {}
        chosen = {graph.node_named(key).columns: value for key, value in own.items()}
        usual = KCEF() if self.factor is None or own else self.factor
        tasks = [
            (node, chosen.get(node.columns, usual if node.parents else self._root()))
            for node in nodes
        ]
        for node, estimator in tasks:
            check_estimator_of(node, estimator)
        return tasks

    def _table(self, X: ArrayLike, *, missing: bool = False) -> Array:
        check_is_fitted(self)
        return rows_asked(self, X, self.graph_, self._columns, gaps=missing)

    def _cells(self, draws: Array) -> Array:
        """Draws with texts and moments where the table had such."""
        return draws if self._columns is None else self._columns.cells(draws)

    def _restore(
        self, orders: Sequence[ColumnOrder], columns: JointColumns | None
    ) -> Self:
        """Take fitted orders, from `fit` or from a file."""
        first, *further = orders
        self._columns = columns
        self.graph_ = first.graph
        self.factors_ = {first.graph.key(f.node): f.estimator for f in first.factors}
        self._further = tuple(further)
        return self
