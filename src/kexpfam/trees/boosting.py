"""Boosted trees on histograms, with cross-fitted predictions.

Folds are fitted in turn, each stopped early on rows of its own that it has not seen, so
that the predictions of the fold that was left out are honest. All rows are then fitted
with the median of the folds' numbers of rounds, and no row is set aside.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from kexpfam._parallel import on_threads, openmp_threads, thread_count
from kexpfam._typing import Array, Indices
from kexpfam.trees.forest import Forest, ForestFit, forest_of, tree_of
from kexpfam.trees.growing import check_rows, power_of_two
from kexpfam.trees.spec import TREE_SPEC, TreeSpec


class _Boosted(NamedTuple):
    forest: Forest  # All rounds that were run
    best: int  # Rounds after which rows that were set aside were predicted best
    importances: Array


def fit_boosting(
    X: Array,
    y: Array,
    weights: Array,
    rng: np.random.Generator,
    *,
    folds: int = 5,
    learning_rate: float = 0.06,
    rounds: int = 400,
    leaves: int = 15,
    min_leaf: int | None = None,
    l2: float = 0.0,
    n_jobs: int | None = None,
    spec: TreeSpec = TREE_SPEC,
) -> ForestFit:
    """Boost trees for the mean of y, with predictions by folds that were left out.

    With fewer than `spec.rows_to_stop_early` rows nothing is set aside: folds run all
    rounds, and the number with least squared held-out error is taken for all of them.

    Args:
        X: Conditions, (n, p); NaN where a value is missing.
        y: Responses, (n,) or (n, 1).
        weights: Row weights, (n,).
        rng: Deals the folds, and the rows that are set aside.
        folds: Number of folds.
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
    folds = min(folds, len(positive))
    if folds < 2:
        raise ValueError(f"folds must be at least 2, got {folds}.")
    unit = power_of_two(y[:, None])
    stops = len(positive) >= spec.rows_to_stop_early
    options = {
        "learning_rate": learning_rate,
        "max_leaf_nodes": leaves,
        "min_samples_leaf": min_leaf or spec.boosting_min_leaf,
        "l2_regularization": l2,
    }
    fold = _dealt(weights, folds, rng)
    seeds = rng.integers(2**31, size=folds + 1).tolist()

    def boost(kept: Indices, rounds: int, seed: int, stops: bool) -> _Boosted:
        data = X[kept], y[kept] / unit, weights[kept] / weights.max()
        stopping = {
            "early_stopping": stops,
            "validation_fraction": spec.validation_share,
            "n_iter_no_change": spec.patience,
        }
        known = options | stopping | {"max_iter": rounds, "random_state": seed}
        return _boosted(*data, known, unit)

    def without(k: int) -> _Boosted:
        with openmp_threads(1):
            return boost(np.flatnonzero(fold != k), rounds, seeds[k], stops)

    fits = on_threads(without, range(folds), n_jobs)
    left_out = [np.flatnonzero(fold == k) for k in range(folds)]
    if stops:
        best = [fit.best for fit in fits]
        enough = int(np.median(best))
    else:
        enough = _common_rounds(fits, X, y, weights, left_out)
        best = [enough] * folds
    held_out = np.empty((len(y), 1))
    for fit, rows, count in zip(fits, left_out, best, strict=True):
        held_out[rows] = fit.forest.first(count).predict(X[rows], n_jobs)
    # Threads of OpenMP wait for each other at every split: with few rows, or on a busy
    # machine, for longer than they work.
    threads = thread_count(n_jobs) if len(y) >= spec.rows_to_share else 1
    with openmp_threads(threads):
        final = boost(np.arange(len(y)), max(1, enough), seeds[-1], False)
    return ForestFit(final.forest.first(enough), held_out, final.importances)


def _dealt(weights: Array, folds: int, rng: np.random.Generator) -> Indices:
    """Fold of each row; those with weight are dealt out first, and evenly."""
    order = rng.permutation(len(weights))
    order = order[np.argsort(weights[order] == 0, kind="stable")]
    fold = np.empty(len(weights), dtype=np.intp)
    fold[order] = np.arange(len(weights)) % folds
    return fold


def _common_rounds(
    fits: list[_Boosted], X: Array, y: Array, weights: Array, left_out: list[Indices]
) -> int:
    """Number of rounds with least squared error of rows that were left out."""
    errors = []
    for fit, rows in zip(fits, left_out, strict=True):
        residual = y[rows] - fit.forest.cumulative(X[rows])
        errors.append(np.sum(weights[rows] * residual**2, axis=1))
    return int(np.argmin(np.sum(errors, axis=0)))


def _boosted(
    X: Array, y: Array, weights: Array, options: dict[str, Any], unit: float
) -> _Boosted:
    from sklearn.ensemble import HistGradientBoostingRegressor

    model = HistGradientBoostingRegressor(**options).fit(X, y, sample_weight=weights)
    forest, gains = as_forest(model, X)
    forest = replace(forest, scale=unit, offset=unit * forest.offset)
    best = int(np.argmax(model.validation_score_)) if options["early_stopping"] else 0
    total = gains.sum()
    return _Boosted(forest, best, gains / total if total > 0 else gains)


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
