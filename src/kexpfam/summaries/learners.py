"""Regressions that predict training rows they have not seen.

A summary of x that is learned from y must not have seen the row that it is used for.
That is not enough: what leaves out a row alone moves against its response, h₋ᵢ(xᵢ) =
h(xᵢ) − a(yᵢ − h(xᵢ)), and where h(x) is known, because rows have equal x or x has few
columns, a kernel or a further regression reads yᵢ off the difference. So all
regressions leave out the same five parts of the rows, one after another, and for the
rows of a part a summary is one function of x. New rows are predicted by the fit to all.

Held-out predictions of several regressions are combined by the non-negative weights
with the smallest squared error (stacked regressions: Breiman 1996).
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy import optimize
from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter

from kexpfam._typing import Array
from kexpfam.persistence import saved_fit
from kexpfam.regression import (
    GaussianProcessFit,
    Process,
    fit_gaussian_process,
    process_given,
)
from kexpfam.summaries.category_means import FOLDS, fold_of_rows
from kexpfam.summaries.repeats import Repeats
from kexpfam.summaries.views import ColumnKinds, TreeView
from kexpfam.trees import Forest, fit_boosting, fit_forest


class Predictor(ABC):
    """A fitted regression."""

    @abstractmethod
    def predict(self, X: Array) -> Array:
        """Predictions at conditions X (n, p), (n, k)."""


@dataclass(frozen=True)
class Learned:
    """A regression of training rows, and its honest predictions of them."""

    model: Predictor  # For new rows
    held_out: Array  # Predictions of each row by fits that have not seen it, (n, k)
    feature: Array  # The same by fits that have not seen its part of the rows, (n, k)


class Learner(ABC):
    """A kind of regression."""

    @abstractmethod
    def cross_fit(
        self, X: Array, Y: Array, weights: Array, rng: np.random.Generator
    ) -> Learned:
        """Fit Y (n, k) given X (n, p)."""


@saved_fit({"forest": "k"})
@dataclass(frozen=True, eq=False)
class TreePredictor(Predictor):
    """Trees, evaluated from plain arrays."""

    forest: Forest

    def predict(self, X: Array) -> Array:
        return self.forest.predict(X)


@saved_fit({"processes": "k"})
@dataclass(frozen=True, eq=False)
class ProcessPredictor(Predictor):
    """Means of Gaussian processes, one for each column."""

    processes: tuple[Process, ...]

    def predict(self, X: Array) -> Array:
        return np.column_stack([process.mean(X) for process in self.processes])


@saved_fit({"predictors": "m k", "shares": "m nonnegative"})
@dataclass(frozen=True, eq=False)
class StackedPredictor(Predictor):
    """A weighted sum of predictions."""

    predictors: tuple[Predictor, ...]
    shares: Array  # Weight of each, (m,)

    def predict(self, X: Array) -> Array:
        parts = zip(self.shares, self.predictors, strict=True)
        return sum((w * part.predict(X) for w, part in parts), np.zeros(1))


@saved_fit({"predictor": "k"})
@dataclass(frozen=True, eq=False)
class ViewedPredictor(Predictor):
    """A regression that sees gaps and categories of x as trees do best."""

    view: TreeView
    predictor: Predictor

    def predict(self, X: Array) -> Array:
        return self.predictor.predict(self.view.at(X))

    def check_saved(self) -> None:
        """Refuse trees that see other columns."""
        trees = self.predictor
        if not isinstance(trees, TreePredictor):
            raise ValueError("a view is one of trees")
        if trees.forest.n_features != self.view.columns_seen:
            raise ValueError("trees have other columns than their view")


@saved_fit({"predictor": "k=1"})
@dataclass(frozen=True, eq=False)
class ShiftedPredictor(Predictor):
    """Predictions of one column, moved by effects of repeated values."""

    predictor: Predictor
    repeats: Repeats

    def predict(self, X: Array) -> Array:
        effects = self.repeats.at(X)[:, ::2].sum(axis=1, keepdims=True)
        return self.predictor.predict(X) + effects


@saved_fit({"predictor": "k"})
@dataclass(frozen=True, eq=False)
class WidenedPredictor(Predictor):
    """A regression that sees effects of repeated values as further columns."""

    predictor: Predictor
    repeats: Repeats

    def predict(self, X: Array) -> Array:
        return self.predictor.predict(self.repeats.beside(X))

    def check_saved(self) -> None:
        """Refuse trees that see other columns."""
        trees = self.predictor
        if isinstance(trees, TreePredictor):
            columns = trees.forest.n_features
        elif isinstance(trees, ViewedPredictor):
            columns = trees.view.n_features
        else:
            raise ValueError("effects of repeated values are beside x for trees")
        if columns != self.repeats.columns_seen:
            raise ValueError("trees have other columns than x and its effects")


@dataclass(frozen=True, eq=False)
class RegressorPredictor(Predictor):
    """A fitted regressor of scikit-learn, which files cannot hold."""

    regressor: Any
    k: int  # Columns that it predicts

    def predict(self, X: Array) -> Array:
        return np.asarray(self.regressor.predict(X), float).reshape(len(X), self.k)


@dataclass(frozen=True)
class ForestLearner(Learner):
    """Randomised trees, each grown without a part of the rows.

    Attributes:
        kind: "extra" for extremely randomised trees, "random" for a random forest.
        trees: How many.
        min_leaf: Rows in a leaf, at least.
        max_features: Share of the columns that a split looks at.
        most_leaves: About so many leaves of a tree at most: with more rows each holds
            more of them, so that files stay small.
        components: Principal components of the predictions that are kept, if there are
            more columns.
    """

    kind: Literal["extra", "random"] = "extra"
    trees: int = 100
    min_leaf: int = 1
    max_features: float = 1.0
    most_leaves: int = 12_000
    components: int = 6

    def cross_fit(
        self, X: Array, Y: Array, weights: Array, rng: np.random.Generator
    ) -> Learned:
        fit = fit_forest(
            X,
            Y,
            weights,
            rng,
            kind=self.kind,
            trees=self.trees,
            min_leaf=max(self.min_leaf, len(Y) // self.most_leaves),
            max_features=self.max_features,
            groups=fold_of_rows(len(Y)),
        )
        if Y.shape[1] > self.components:
            fit = fit.compressed(self.components)
        return Learned(TreePredictor(fit.forest), fit.held_out, fit.held_out)


@dataclass(frozen=True)
class BoostingLearner(Learner):
    """Histogram gradient boosting of one column, fitted again without each part.

    Few rounds, with large steps: as a part of a stack it need not be the best on its
    own, and ten times as much work gains little.

    Attributes:
        rounds: Trees at most.
        learning_rate: Size of a step.
        leaves: Leaves of a tree at most.
    """

    rounds: int = 100
    learning_rate: float = 0.15
    leaves: int = 31

    def cross_fit(
        self, X: Array, Y: Array, weights: Array, rng: np.random.Generator
    ) -> Learned:
        fit = fit_boosting(
            X,
            Y[:, 0],
            weights,
            rng,
            folds=fold_of_rows(len(Y)),
            rounds=self.rounds,
            learning_rate=self.learning_rate,
            leaves=self.leaves,
        )
        return Learned(TreePredictor(fit.forest), fit.held_out, fit.held_out)


@dataclass(frozen=True)
class ViewedLearner(Learner):
    """Trees that see gaps and categories of x as such.

    Attributes:
        learner: The trees.
        kinds: Which columns of X are gaps and categories.
    """

    learner: Learner
    kinds: ColumnKinds

    def cross_fit(
        self, X: Array, Y: Array, weights: Array, rng: np.random.Generator
    ) -> Learned:
        view, seen = TreeView.fit(self.kinds, X, Y, weights)
        found = self.learner.cross_fit(seen, Y, weights, rng)
        model = ViewedPredictor(view, found.model)
        return Learned(model, found.held_out, found.feature)


@dataclass(frozen=True)
class ProcessLearner(Learner):
    """A Gaussian process for each column, with leave-one-out predictions."""

    def cross_fit(
        self, X: Array, Y: Array, weights: Array, rng: np.random.Generator
    ) -> Learned:
        fits = [fit_gaussian_process(X, y, weights=weights) for y in Y.T]
        return process_location(fits, X, Y, weights)


def process_location(
    fits: Sequence[GaussianProcessFit], X: Array, Y: Array, weights: Array
) -> Learned:
    """Gaussian processes of Y (n, k) given X (n, p) that are fitted already.

    Without each part of the rows they keep their hyperparameters.
    """
    fold, feature = fold_of_rows(len(X)), np.empty(Y.shape)
    for column, (fit, y) in enumerate(zip(fits, Y.T, strict=True)):
        for k in range(FOLDS):
            rest, own = fold != k, fold == k
            kept = fit.process.hyperparameters
            without = process_given(X[rest], y[rest], weights[rest], kept)
            feature[own, column] = without.mean(X[own])
    held_out = np.column_stack([fit.held_out_mean for fit in fits])
    model = ProcessPredictor(tuple(fit.process for fit in fits))
    return Learned(model, held_out, feature)


@dataclass(frozen=True)
class RegressorLearner(Learner):
    """Any regressor of scikit-learn, fitted again without each part of the rows."""

    regressor: Any

    def cross_fit(
        self, X: Array, Y: Array, weights: Array, rng: np.random.Generator
    ) -> Learned:
        n, k = Y.shape
        fold, held_out = fold_of_rows(n), np.empty((n, k))
        for j in range(FOLDS):
            rest, own = fold != j, fold == j
            fitted = self._fit(X[rest], Y[rest], weights[rest])
            held_out[own] = RegressorPredictor(fitted, k).predict(X[own])
        model = RegressorPredictor(self._fit(X, Y, weights), k)
        return Learned(model, held_out, held_out)

    def _fit(self, X: Array, Y: Array, weights: Array) -> Any:
        target = Y[:, 0] if Y.shape[1] == 1 else Y
        own = clone(self.regressor)
        if has_fit_parameter(own, "sample_weight"):
            return own.fit(X, target, sample_weight=weights)
        return own.fit(X, target)


def stacked(
    parts: Sequence[Learned],
    y: Array,
    weights: Array,
    *,
    negligible: float = 0.03,
) -> Learned:
    """Non-negative weights that sum to one and predict one column y (n,) best.

    Parts with a negligible weight are left out: each costs time at every prediction.
    """
    P = np.column_stack([part.held_out[:, 0] for part in parts])
    shares = _simplex_weights(P, y, weights)
    kept = np.flatnonzero(shares >= negligible).tolist()
    if len(kept) < len(shares):
        shares = np.zeros(len(shares))
        shares[kept] = _simplex_weights(P[:, kept], y, weights)
    if len(kept) == 1:
        return parts[kept[0]]
    model = StackedPredictor(tuple(parts[k].model for k in kept), shares[kept])
    features = np.column_stack([part.feature[:, 0] for part in parts])
    return Learned(model, (P @ shares)[:, None], (features @ shares)[:, None])


def _simplex_weights(P: Array, y: Array, weights: Array) -> Array:
    """Weights w ≥ 0 that sum to one with the least Σ weights (y − P w)², (m,)."""
    root = np.sqrt(weights / weights.sum())
    # A heavy row that asks for a sum of one makes it an ordinary NNLS problem.
    heavy = 1e4 * (np.std(y) + np.finfo(float).tiny)
    A = np.vstack([root[:, None] * P, np.full(P.shape[1], heavy)])
    shares, _ = optimize.nnls(A, np.append(root * y, heavy))
    total = shares.sum()
    return shares / total if total > 0 else np.full(P.shape[1], 1.0 / P.shape[1])
