"""One factor of a joint density: an estimator of a node's columns given its parents.

An estimator of p(y|x) has `fit(X, y)`, `score_samples(X, y)` and `sample(X, n_samples,
random_state)`, as `KCEF` has; one of p(y) has `fit(Y)`, `score_samples(Y)` and
`sample(n_samples, random_state)`, as `KEF` and scikit-learn's density estimators have.
A node with parents takes the first kind, a root takes either.
"""

import copy
import inspect
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from kexpfam._typing import Array
from kexpfam.estimators.base import ConditionalEstimator
from kexpfam.graphs.columns import JointColumns
from kexpfam.graphs.structure import Node
from kexpfam.sampling import Sampler
from kexpfam.tables import Table

# A warning: its kind, and what it says.
Caught = tuple[type[Warning], str]


def is_conditional(estimator: Any) -> bool:
    """Whether an estimator is one of p(y|x): its `score_samples` needs a y."""
    parameters = inspect.signature(estimator.score_samples).parameters.values()
    by_place = [p for p in parameters if p.kind <= p.POSITIONAL_OR_KEYWORD]
    return sum(p.default is p.empty for p in by_place) > 1


def check_estimator_of(node: Node, estimator: Any) -> None:
    """Refuse an estimator that lacks a method, or cannot depend on the parents."""
    for method in ("fit", "score_samples", "sample"):
        if not hasattr(estimator, method):
            raise TypeError(
                f"the factor of {node.label!r}, {type(estimator).__name__}, has no "
                f"method {method}; use KCEF, AutoKCEF, KEF (for roots) or an "
                f"estimator with fit, score_samples and sample."
            )
    if node.parents and not is_conditional(estimator):
        raise TypeError(
            f"the factor of {node.label!r}, {type(estimator).__name__}, has a density "
            f"p(y) that cannot depend on the parents of {node.label!r}; use an "
            f"estimator of p(y|x), or remove the parents."
        )


def seeded(estimator: Any, rng: np.random.Generator | None) -> Any:
    """A clone, with a seed of its own if it takes one and has none."""
    own = clone(estimator)
    if rng is not None and own.get_params(deep=False).get("random_state", 0) is None:
        own.set_params(random_state=int(rng.integers(2**31)))
    return own


@dataclass(frozen=True, eq=False)
class Factor:
    """A fitted factor p(y_v | y_pa(v)) of a node v, as a function of whole rows.

    Attributes:
        node: Its columns and parents.
        estimator: What was fitted to them.
        columns: What the columns of rows are, if some are more than numbers.
    """

    node: Node
    estimator: Any
    columns: JointColumns | None = None

    def log_density(self, Y: Array) -> Array:
        """Log p(y_v | y_pa(v)) of each row of the whole table, (n,)."""
        responses = Y[:, self.node.columns]
        if is_conditional(self.estimator):
            X = _conditions(self.node, Y, self.columns)
            log_p = self.estimator.score_samples(X, _target(responses))
        else:
            log_p = self.estimator.score_samples(responses)
        return self._checked("score_samples", log_p, (len(Y),))

    def sample(
        self, Y: Array, rng: np.random.Generator, sampler: Sampler | str | None = None
    ) -> Array:
        """One draw of the node's columns for each row of the whole table, (n, k).

        Only the columns of the parents are looked at.
        """
        n, k = len(Y), len(self.node.columns)
        if not n:
            return np.empty((0, k))
        estimator, how = self._seeded_draws(rng)
        how |= self._sampler(sampler)
        if not is_conditional(estimator):
            drawn = estimator.sample(n, **how)
            # scikit-learn's mixtures also say which component a draw is from.
            drawn = drawn[0] if isinstance(drawn, tuple) else drawn
            return self._checked("sample", drawn, (n, k))
        # At one and the same condition there is one density to draw from.
        same = Y[:, self.node.parents]
        if n > 1 and np.all(same[:1] == same):
            X = _conditions(self.node, Y[:1], self.columns)
            drawn = estimator.sample(X, n_samples=n, **how)
        else:
            X = _conditions(self.node, Y, self.columns)
            drawn = estimator.sample(X, n_samples=1, **how)
        return self._checked("sample", drawn, (n, k))

    @property
    def column(self) -> int:
        """The column, or the first of a block, by position."""
        return self.node.columns[0]

    def given(self, rows: Array) -> Any:
        """The densities p(· | parents) at each row of the whole table."""
        if is_conditional(self.estimator):
            return self.estimator.given(_conditions(self.node, rows, self.columns))
        alone = self.estimator.distribution()
        return alone._rows(np.zeros(len(rows), dtype=int), single=False)

    @property
    def has_given(self) -> bool:
        """Whether the estimator gives densities of one column, as ours do."""
        method = "given" if is_conditional(self.estimator) else "distribution"
        return hasattr(self.estimator, method) and len(self.node.columns) == 1

    @property
    def fits(self) -> bool:
        """Whether a fitted estimator of this library has the columns of the node."""
        parents, columns = len(self.node.parents), len(self.node.columns)
        model = self.estimator
        if not is_conditional(model):
            return (0, model.n_features_in_) == (parents, columns)
        found = model.n_features_in_, model._response_columns
        return bool(found == (max(parents, 1), columns))

    def _seeded_draws(self, rng: np.random.Generator) -> tuple[Any, dict[str, Any]]:
        """The estimator and the arguments that make its draws those of `rng`."""
        if type(self.estimator).__module__.startswith("kexpfam."):
            return self.estimator, {"random_state": rng}
        # Others may not know NumPy's generators, and some take a seed only at birth.
        seed = int(rng.integers(2**31))
        if _takes(self.estimator.sample, "random_state"):
            return self.estimator, {"random_state": seed}
        own = copy.copy(self.estimator)
        if "random_state" in getattr(own, "get_params", dict)():
            own.set_params(random_state=seed)
        return own, {}

    def _checked(self, method: str, values: Any, shape: tuple[int, ...]) -> Array:
        """What an estimator returned, in the shape it should have, and without NaN."""
        found = np.asarray(values, dtype=float)
        name = f"{method} of the factor of {self.node.label!r}"
        kind = type(self.estimator).__name__
        if found.size != np.prod(shape):
            raise ValueError(
                f"{name}, {kind}, returned shape {found.shape} where {shape} was "
                f"expected; docs/graphs.md says what a factor has to do."
            )
        if np.isnan(found).any():
            raise ValueError(f"{name}, {kind}, returned NaN.")
        return found.reshape(shape)

    def _sampler(self, sampler: Sampler | str | None) -> dict[str, Any]:
        if sampler is None:
            return {}
        if not _takes(self.estimator.sample, "sampler"):
            raise TypeError(
                f"sampler={sampler!r} was asked for, but the factor of "
                f"{self.node.label!r}, {type(self.estimator).__name__}, draws in its "
                f"own way only; leave sampler=None."
            )
        return {"sampler": sampler}


def fit_factor(
    node: Node,
    estimator: Any,
    Y: Array,
    weights: Array | None,
    columns: JointColumns | None = None,
) -> tuple[Factor, list[Caught]]:
    """Fit one factor to rows of the whole table, and what it warned about.

    Warnings are returned, since those of another process would be lost.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        responses = Y[:, node.columns]
        how = {} if weights is None else {"sample_weight": weights}
        try:
            if is_conditional(estimator):
                X = _conditions(node, Y, columns)
                if isinstance(X, Table):
                    _check_tables(node, estimator, X)
                estimator.fit(X, _target(responses), **how)
            else:
                estimator.fit(responses, **how)
        except Exception as error:
            error.add_note(f"This happened in the factor of {node.label!r}.")
            raise
    return Factor(node, estimator, columns), [
        (w.category, str(w.message)) for w in caught
    ]


def _takes(method: Any, name: str) -> bool:
    """Whether a method takes an argument of this name."""
    parameters = inspect.signature(method).parameters
    anything = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    return name in parameters or anything


def _conditions(node: Node, Y: Array, columns: JointColumns | None) -> Any:
    """Columns of the parents; a constant for an estimator of p(y|x) at a root."""
    if not node.parents:
        return np.zeros((len(Y), 1))
    if columns is None:
        return Y[:, node.parents]
    return columns.conditions(Y, node.parents)


def _check_tables(node: Node, estimator: Any, X: Table) -> None:
    """Refuse an estimator that takes numbers only."""
    if not isinstance(estimator, ConditionalEstimator):
        raise TypeError(
            f"the factor of {node.label!r}, {type(estimator).__name__}, is not made "
            f"for conditions with texts, dates or gaps, as among "
            f"{', '.join(map(repr, X.names))}; use KCEF or AutoKCEF."
        )


def _target(responses: Array) -> Array:
    return responses[:, 0] if responses.shape[1] == 1 else responses
