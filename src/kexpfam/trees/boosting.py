"""Boosted trees on histograms, with cross-fitted predictions.

Folds are boosted side by side, until further rounds no longer predict the rows that
each has left out better. One number of rounds is chosen for all of them by all rows,
which leaves the held-out predictions honest for every practical purpose, and no row has
to be set aside for stopping. Then all rows are fitted with that number of rounds.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from operator import methodcaller
from typing import Any

import numpy as np

from kexpfam._parallel import on_threads, single_threaded_openmp
from kexpfam._typing import Array, Indices, Mask
from kexpfam._validation import check_count
from kexpfam.trees.forest import Forest, ForestFit, forest_of, tree_of
from kexpfam.trees.growing import check_rows, power_of_two, shares
from kexpfam.trees.spec import TREE_SPEC, TreeSpec


def fit_boosting(
    X: Array,
    y: Array,
    weights: Array,
    rng: np.random.Generator,
    *,
    folds: int | Indices = 5,
    learning_rate: float = 0.06,
    rounds: int = 400,
    leaves: int = 15,
    min_leaf: int | None = None,
    l2: float = 0.0,
    n_jobs: int | None = None,
    spec: TreeSpec = TREE_SPEC,
) -> ForestFit:
    """Boost trees for the mean of y, with predictions by folds that were left out.

    Args:
        X: Conditions, (n, p); NaN where a value is missing.
        y: Responses, (n,) or (n, 1).
        weights: Row weights, (n,).
        rng: Deals the folds.
        folds: Number of folds, or the fold of each row, (n,).
        learning_rate: Share of each tree's prediction that is added.
        rounds: Most trees.
        leaves: Most leaves of a tree.
        min_leaf: Least number of rows in a leaf, `spec.boosting_min_leaf` unless given.
        l2: Penalty of values of leaves.
        n_jobs: Number of threads; None for all cores. The result is the same for any.
        spec: When boosting stops.

    Raises:
        ValueError: X has no columns, or there are too few rows with weight.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> X = rng.uniform(-1, 1, size=(300, 2))
        >>> y = np.abs(X[:, 0]) + 0.1 * rng.normal(size=300)
        >>> fit = fit_boosting(X, y, np.ones(300), rng, rounds=100)
        >>> fit.held_out.shape, float(np.std(y - fit.held_out[:, 0]).round(1))
        ((300, 1), 0.1)
    """
    y = y.reshape(-1)
    positive = check_rows(X, weights)
    if isinstance(folds, int):
        count = min(check_count("folds", folds, least=2), len(positive))
        fold = _dealt(weights, count, rng)
    else:
        fold, count = folds, int(folds.max()) + 1
    unit = power_of_two(y[positive, None])
    options = {
        "learning_rate": learning_rate,
        "max_leaf_nodes": leaves,
        "min_samples_leaf": min_leaf or spec.boosting_min_leaf,
        "l2_regularization": l2,
        "random_state": int(rng.integers(2**31)),
    }
    rows = _Rows(X, y / unit, weights / weights.max())
    fits = [_FoldFit.begin(rows, fold == k, options) for k in range(count)]
    errors = [sum(fit.error(fit.mean) for fit in fits)]
    while (
        len(errors) <= rounds and np.argmin(errors) + spec.patience >= len(errors) - 1
    ):
        more = min(spec.patience, rounds + 1 - len(errors))
        found = on_threads(methodcaller("further", more), fits, n_jobs)
        errors += [sum(each) for each in zip(*found, strict=True)]
    best = int(np.argmin(errors))
    held_out = np.empty((len(y), 1))
    for fit in fits:
        held_out[fit.left_out, 0] = unit * fit.predictions(best)
    forest, importances = _fitted(rows, options | {"max_iter": max(1, best)})
    forest = replace(forest.first(best), scale=unit, offset=unit * forest.offset)
    return ForestFit(forest, held_out, importances * (best > 0))


def _dealt(weights: Array, folds: int, rng: np.random.Generator) -> Indices:
    """Fold of each row; those with weight are dealt out first, and evenly."""
    order = rng.permutation(len(weights))
    order = order[np.argsort(weights[order] == 0, kind="stable")]
    fold = np.empty(len(weights), dtype=np.intp)
    fold[order] = np.arange(len(weights)) % folds
    return fold


@dataclass(frozen=True, eq=False)
class _Rows:
    X: Array
    y: Array
    weights: Array

    def fit(self, model: Any, kept: Indices | slice) -> None:
        """Fit a model of scikit-learn to some rows."""
        weights = self.weights[kept]
        # Bins of weighted rows take longer than boosting, if there are few rows.
        given = None if np.ptp(weights) == 0 else weights
        # Threads of OpenMP wait for each other after every split: on two busy cores
        # they took forty times as long as one thread.
        with single_threaded_openmp():
            model.fit(self.X[kept], self.y[kept], sample_weight=given)


@dataclass(frozen=True, eq=False)
class _FoldFit:
    """A model that is boosted further and further without a fold."""

    rows: _Rows
    kept: Indices
    left_out: Indices
    model: Any
    mean: float  # What is predicted before the first round

    @classmethod
    def begin(cls, rows: _Rows, fold: Mask, options: dict[str, Any]) -> "_FoldFit":
        kept, left_out = np.flatnonzero(~fold), np.flatnonzero(fold)
        mean = float(np.average(rows.y[kept], weights=rows.weights[kept]))
        model = _learner(options | {"max_iter": 0, "warm_start": True})
        return cls(rows, kept, left_out, model, mean)

    def error(self, predicted: Array | float) -> float:
        """Weighted squared error of the rows that are left out."""
        y, weights = self.rows.y[self.left_out], self.rows.weights[self.left_out]
        return float(np.sum(weights * (y - predicted) ** 2))

    def further(self, rounds: int) -> list[float]:
        """Errors after each of so many rounds more."""
        done = self.model.max_iter
        self.model.set_params(max_iter=done + rounds)
        self.rows.fit(self.model, self.kept)
        return [self.error(stage) for stage in islice(self._stages(), done, None)]

    def predictions(self, rounds: int) -> Array:
        """Predictions of the rows that are left out after so many rounds."""
        if rounds == 0:
            return np.full(len(self.left_out), self.mean)
        return next(islice(self._stages(), rounds - 1, None))

    def _stages(self) -> Iterator[Array]:
        with single_threaded_openmp():
            yield from self.model.staged_predict(self.rows.X[self.left_out])


def _learner(options: dict[str, Any]) -> Any:
    from sklearn.ensemble import HistGradientBoostingRegressor

    return HistGradientBoostingRegressor(early_stopping=False, **options)


def _fitted(rows: _Rows, options: dict[str, Any]) -> tuple[Forest, Array]:
    """Trees fitted to all rows, and importances of columns."""
    model = _learner(options)
    rows.fit(model, slice(None))
    with single_threaded_openmp():
        forest, gains = as_forest(model, rows.X)
    return forest, shares(gains)


# Rows on which converted trees are compared with scikit-learn's own predictions.
_ROWS_COMPARED = 200


def as_forest(model: Any, X: Array) -> tuple[Forest, Array]:
    """Trees and gain of each column of a fitted HistGradientBoostingRegressor.

    scikit-learn has no public names for them, so they are compared with its own
    predictions at some rows of X.

    Raises:
        RuntimeError: This version of scikit-learn keeps its trees in another way.
    """
    p = X.shape[1]
    gains = np.zeros(p)
    trees, values = [], []
    try:
        for (predictor,) in model._predictors:
            nodes = predictor.nodes
            is_leaf = nodes["is_leaf"].astype(bool)
            if nodes["is_categorical"].any():
                raise ValueError("it splits categories")
            feature, gain = nodes["feature_idx"][~is_leaf], nodes["gain"][~is_leaf]
            gains += np.bincount(feature, gain, minlength=p)
            tree = tree_of(
                nodes["feature_idx"],
                nodes["num_threshold"],
                nodes["left"],
                nodes["right"],
                nodes["missing_go_to_left"],
                is_leaf,
            )
            trees.append(tree)
            values.append(nodes["value"][tree.nodes[tree.feature < 0], None])
        offset = np.asarray(model._baseline_prediction, dtype=np.float64).reshape(1)
        forest = forest_of(trees, values, offset, p, 1.0)
        rows = X[:: max(1, len(X) // _ROWS_COMPARED)]
        expected = model.predict(rows)
        error = np.abs(forest.predict(rows, n_jobs=1)[:, 0] - expected).max()
        if not error <= 1e-9 * max(1.0, np.abs(expected).max()):
            raise ValueError(f"predictions differ by {error:.3g}")
    except (AttributeError, KeyError, TypeError, ValueError, IndexError) as problem:
        import sklearn

        raise RuntimeError(
            f"kexpfam cannot read the trees of HistGradientBoostingRegressor of "
            f"scikit-learn {sklearn.__version__} ({problem}); install a version that "
            f"it was tested with, such as 1.9."
        ) from problem
    return forest, gains
