"""Forests of trees on parts of the rows, with predictions of the rows left out.

Each tree is grown by scikit-learn on a bootstrap sample, or without one of some groups
of rows, and predicts the rows that it has not seen; the mean of these predictions over
trees is honest, and free. A tree becomes arrays as soon as it is grown.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray
from sklearn import config_context

from kexpfam._parallel import on_threads
from kexpfam._typing import Array, Indices, Mask
from kexpfam._validation import check_count
from kexpfam.trees.forest import ForestFit, Tree, forest_of, tree_of

# Out-of-bag predictions are added up after so many trees, so that leaves of all rows in
# all trees are never held at once.
_TREES_AT_ONCE = 20


class _Grown(NamedTuple):
    """A tree, and the rows that it has not seen."""

    tree: Tree
    values: NDArray[np.floating]  # Of leaves, (l, k)
    unseen: Indices
    leaves: Indices  # Of the unseen rows
    importances: Array


def fit_forest(
    X: Array,
    Y: Array,
    weights: Array,
    rng: np.random.Generator,
    *,
    kind: Literal["extra", "random"] = "extra",
    trees: int = 300,
    min_leaf: int = 1,
    max_features: float | int | str = 1.0,
    max_rows: int | None = None,
    groups: Indices | None = None,
    n_jobs: int | None = None,
) -> ForestFit:
    """Grow a forest that predicts the columns of Y, with out-of-bag predictions.

    A bootstrap sample is drawn from the rows with positive weight, each as likely, and
    weights multiply how often a row was drawn; rows of weight zero are always out of
    bag. A row that no tree has left out (there are few trees) gets the weighted mean of
    the other rows. Values of leaves are stored in single precision, as differences from
    the mean of Y in units of its size.

    scikit-learn rounds X to single precision and does not split differences below 1e-7:
    columns such as times in seconds should be standardised before.

    Args:
        X: Conditions, (n, p); NaN where a value is missing.
        Y: Responses, (n, k).
        weights: Row weights, (n,).
        rng: Draws the bootstrap samples, and what trees leave to chance.
        kind: "extra" for thresholds drawn at random (extremely randomised trees),
            "random" for the best ones (a random forest).
        trees: Number of trees.
        min_leaf: Least number of different rows in a leaf.
        max_features: Columns that compete at each split, as scikit-learn counts them.
        max_rows: Most rows that are drawn for a tree; None for as many as there are.
        groups: Group of each row, (n,): trees leave out one after another, and each row
            is predicted by those that have not seen its group. Extremely randomised
            trees take the other groups as they are, others draw from them. None for
            bootstrap samples of all rows.
        n_jobs: Number of threads; None for all cores. The result is the same for any.

    Raises:
        ValueError: X has no columns, or fewer than two rows have weight.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> X = rng.uniform(-1, 1, size=(300, 2))
        >>> y = X[:, :1] + 0.1 * rng.normal(size=(300, 1))
        >>> fit = fit_forest(X, y, np.ones(300), rng, trees=50, min_leaf=3)
        >>> float(np.std(y - fit.held_out).round(1)), fit.importances.round(1)
        (0.1, array([1., 0.]))
    """
    drawn_from = check_rows(X, weights)
    check_count("trees", trees, least=1)
    size = check_count("max_rows", max_rows or len(drawn_from), least=1)
    unit = power_of_two(Y[drawn_from])
    offset = np.average(Y, axis=0, weights=weights)
    with np.errstate(over="ignore"):  # scikit-learn refuses what is infinite
        narrow = np.ascontiguousarray(X, dtype=np.float32)
    grower = _Grower(
        _learner(kind, min_leaf, max_features),
        narrow,
        (Y - offset) / unit,
        weights,
        drawn_from,
        min(size, len(drawn_from)),
        groups,
        groups is None or kind == "random",
        bool(np.isfinite(narrow).all()),
    )
    grown, sums, votes = [], np.zeros(Y.shape), np.zeros(len(X))
    importances = np.zeros(X.shape[1])
    seeds = list(enumerate(rng.integers(2**63, size=trees).tolist()))
    for start in range(0, trees, _TREES_AT_ONCE):
        some = seeds[start : start + _TREES_AT_ONCE]
        for one in on_threads(grower.grown, some, n_jobs):
            sums[one.unseen] += one.values[one.leaves]
            votes[one.unseen] += 1
            importances += one.importances
            grown.append((one.tree, one.values))
    parts, values = zip(*grown, strict=True)
    forest = forest_of(parts, values, offset, X.shape[1], unit / trees)
    held_out = offset + unit * sums / np.maximum(votes, 1)[:, None]
    seen = votes == 0
    held_out[seen] = _means_of_others(Y, weights, offset, seen)
    return ForestFit(forest, held_out, shares(importances))


@dataclass(frozen=True, eq=False)
class _Grower:
    """What all trees have in common."""

    learner: Callable[[int], Any]  # A tree of scikit-learn with this seed, not fitted
    X: NDArray[np.float32]
    Y: Array
    weights: Array
    drawn_from: Indices  # Rows with weight
    size: int  # Number of rows that are drawn
    groups: Indices | None  # Of which one is left out, (n,)
    draws: bool  # Whether rows are drawn with replacement
    finite: bool  # Whether X has neither gaps nor infinite values

    def grown(self, numbered: tuple[int, int]) -> _Grown:
        """A tree on some of the rows, by its number and seed."""
        number, seed = numbered
        rng = np.random.default_rng(seed)
        rows, size = self.drawn_from, self.size
        if self.groups is not None:
            without = self.groups != number % (int(self.groups.max()) + 1)
            rows = rows[without[rows]]
            size = min(size, len(rows))
        if self.draws:
            rows = rows[rng.integers(len(rows), size=size)]
        counts = np.bincount(rows, minlength=len(self.X))
        model = self.learner(int(rng.integers(2**31)))
        # All trees have the same rows, and checks take longer than small trees.
        with config_context(assume_finite=self.finite, skip_parameter_validation=True):
            model.fit(
                self.X, self.Y, counts * self.weights, check_input=not self.finite
            )
        tree, values = as_tree(model, np.float32)
        place = np.empty(tree.nodes.size, dtype=np.intp)
        place[tree.nodes] = np.cumsum(tree.feature < 0) - 1
        unseen = np.flatnonzero(counts == 0 if self.groups is None else ~without)
        leaves = place[model.tree_.apply(self.X[unseen])]
        return _Grown(tree, values, unseen, leaves, model.feature_importances_)


def _means_of_others(Y: Array, weights: Array, mean: Array, rows: Mask) -> Array:
    """Weighted mean of all rows but each of some."""
    # It is the mean, less what the row itself adds to it.
    smallest = weights[weights > 0].min()
    share = weights[rows] / np.maximum(weights.sum() - weights[rows], smallest)
    return mean - share[:, None] * (Y[rows] - mean)


def shares(gains: Array) -> Array:
    """Numbers in shares of their sum; zeros stay zeros."""
    total = gains.sum()
    return gains / total if total > 0 else gains


def check_rows(X: Array, weights: Array) -> Indices:
    """Rows with positive weight; ValueError if trees cannot be grown on them."""
    if X.shape[1] == 0:
        raise ValueError(
            "X has no columns, and trees split columns of x; use an unconditional "
            "model, or give at least one column."
        )
    positive = np.flatnonzero(weights > 0)
    if len(positive) < 2:
        raise ValueError(
            f"Trees need at least two rows with positive weight, got {len(positive)} "
            f"of {len(X)}."
        )
    return positive


def power_of_two(Y: Array) -> float:
    """The size of Y, as a power of two, so that dividing by it rounds nothing.

    scikit-learn's trees do not split what varies by less than 1e-8, and single
    precision does not hold numbers beyond 1e38.
    """
    spread = float(np.max(np.ptp(Y, axis=0)))
    return float(2.0 ** np.floor(np.log2(spread))) if spread > 0 else 1.0


def as_tree(model: Any, dtype: DTypeLike) -> tuple[Tree, NDArray[np.floating]]:
    """Nodes and values of leaves of a fitted tree of scikit-learn."""
    nodes = model.tree_
    tree = tree_of(
        nodes.feature,
        _rounded_down(nodes.threshold),
        nodes.children_left,
        nodes.children_right,
        nodes.missing_go_to_left,
        nodes.children_left < 0,
    )
    leaves = tree.nodes[tree.feature < 0]
    return tree, nodes.value[leaves, :, 0].astype(dtype)


def _rounded_down(threshold: Array) -> NDArray[np.float32]:
    """Thresholds in single precision: x ≤ t is the same for every x that is single."""
    near = threshold.astype(np.float32)
    return np.where(near > threshold, np.nextafter(near, np.float32(-np.inf)), near)


def _learner(
    kind: str, min_leaf: int, max_features: float | int | str
) -> Callable[[int], Any]:
    from sklearn.tree import DecisionTreeRegressor, ExtraTreeRegressor

    kinds = {"extra": ExtraTreeRegressor, "random": DecisionTreeRegressor}
    if kind not in kinds:
        raise ValueError(f"kind must be 'extra' or 'random', got {kind!r}.")
    return lambda seed: kinds[kind](
        min_samples_leaf=min_leaf, max_features=max_features, random_state=seed
    )
