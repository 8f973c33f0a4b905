"""Probabilities of classes that depend on x, as an average with held-out weights.

Members are the shares of the classes, which ignore x, logistic regressions of first and
second degree, and forests of indicators. Weights maximise the log probability of rows
that members have not seen (`stacking`). Everything is plain arrays, and goes to files.
"""

from dataclasses import dataclass

import numpy as np
from scipy import special

from kexpfam._typing import Array, Indices
from kexpfam.persistence import saved_fit
from kexpfam.regression import LogisticRegression, fit_logistic
from kexpfam.selection.spec import CLASSES, ClassesSpec
from kexpfam.selection.stacking import stacked_without_hopeless
from kexpfam.summaries import FOLDS, fold_of_rows
from kexpfam.trees import Forest, fit_forest


@saved_fit(
    {
        "shares": "k positive share",
        "weights": "m nonnegative share",
    }
)
@dataclass(frozen=True, eq=False)
class ClassProbabilities:
    """Probabilities of k classes given x."""

    shares: Array  # Of the classes, the same at all x, (k,)
    weights: Array  # Of the shares, and of the members that follow
    regressions: tuple[LogisticRegression, ...]
    forests: tuple[Forest, ...]
    # Mean held-out log probability of the rows
    held_out: float

    def check_saved(self) -> None:
        """Refuse weights of something else than the members."""
        members = 1 + len(self.regressions) + len(self.forests)
        if len(self.weights) != members or abs(self.weights.sum() - 1.0) > 1e-6:
            raise ValueError("the weights are not those of the members")
        sizes = [part.coefficients.shape[1] for part in self.regressions]
        sizes += [part.n_outputs for part in self.forests]
        if any(size != len(self.shares) for size in sizes):
            raise ValueError("a member has other classes")

    @property
    def p(self) -> int | None:
        """Columns of x; None if it is not looked at."""
        for part in self.regressions:
            return len(part.scaling.center)
        for forest in self.forests:
            return forest.n_features
        return None

    def at(self, X: Array) -> Array:
        """Probabilities at conditions X (n, p), (n, k)."""
        total = np.tile(self.weights[0] * self.shares, (len(X), 1))
        parts = iter(self.weights[1:])
        for regression in self.regressions:
            total += next(parts) * np.exp(regression.log_probabilities(X))
        for forest in self.forests:
            total += next(parts) * _as_probabilities(forest.predict(X))
        return total / total.sum(axis=1, keepdims=True)


def few_rows(
    weights: Array, rng: np.random.Generator, spec: ClassesSpec = CLASSES
) -> Indices:
    """Numbers of the rows with weight, or of some of them if they are very many."""
    used = np.flatnonzero(weights > 0)
    if len(used) <= spec.most_rows:
        return used
    return np.sort(rng.choice(used, spec.most_rows, replace=False))


def fit_probabilities(
    X: Array,
    labels: Indices,
    weights: Array,
    classes: int,
    rng: np.random.Generator,
    spec: ClassesSpec = CLASSES,
) -> tuple[ClassProbabilities, Array]:
    """Fit probabilities of classes 0, 1, ... to rows.

    Args:
        X: Conditions, (n, p).
        labels: Class of each row, (n,).
        weights: Row weights, positive, (n,).
        classes: Number of classes.
        rng: Draws the rows of trees.
        spec: What is tried.

    Returns:
        The probabilities, and the held-out log probability of each row's own class,
        (n,).

    Example:
        >>> rng = np.random.default_rng(0)
        >>> X = rng.uniform(-1, 1, size=(300, 1))
        >>> labels = (rng.random(300) < 0.2 + 0.6 * (X[:, 0] > 0)).astype(int)
        >>> found, _ = fit_probabilities(X, labels, np.ones(300), 2, rng)
        >>> low, high = found.at(np.array([[-0.5], [0.5]]))[:, 1]
        >>> bool(low < 0.4 < 0.6 < high)
        True
    """
    n, row = len(X), np.arange(len(X))
    counts = np.bincount(labels, weights, minlength=classes)
    shares = (counts + spec.pseudo_rows / classes) / (weights.sum() + spec.pseudo_rows)
    folds = fold_of_rows(n)
    # Shares without a row's own fold
    log_p = [np.empty(n)]
    for k in range(FOLDS):
        rest = folds != k
        own = spec.pseudo_rows / classes + np.bincount(
            labels[rest], weights[rest], minlength=classes
        )
        log_p[0][~rest] = np.log(own / own.sum())[labels[~rest]]
    regressions, forests = [], []
    if X.shape[1] and n >= spec.fewest_rows and np.any(np.ptp(X, axis=0) > 0):
        for degree in (1, 2):
            ridge, found = _held_out_logistic(
                X, labels, weights, classes, folds, degree, spec
            )
            log_p.append(found)
            regressions.append(
                fit_logistic(X, labels, weights, classes, ridge=ridge, degree=degree)
            )
        for leaf in spec.leaves if n >= spec.forest_rows else ():
            fit = fit_forest(
                X,
                np.eye(classes)[labels],
                weights,
                rng,
                trees=spec.trees,
                min_leaf=leaf,
                groups=folds,
            )
            log_p.append(np.log(_as_probabilities(fit.held_out))[row, labels])
            forests.append(fit.forest)
    table = np.stack(log_p)
    # Some per cent of the shares put an atom where no row like it has one, which adds
    # much to the variance of what is far from the atom.
    found = stacked_without_hopeless(
        table, weights, spec.stacked_pseudo_rows, spec.hopeless
    )
    held_out = special.logsumexp(table, axis=0, b=found[:, None])
    model = ClassProbabilities(
        shares,
        found,
        tuple(regressions),
        tuple(forests),
        float(np.average(held_out, weights=weights)),
    )
    return model, held_out


def _held_out_logistic(
    X: Array,
    labels: Indices,
    weights: Array,
    classes: int,
    folds: Indices,
    degree: int,
    spec: ClassesSpec,
) -> tuple[float, Array]:
    """The best ridge, and the held-out log probability of each row's class."""
    best: tuple[float, Array] | None = None
    row, most = np.arange(len(X)), -np.inf
    for ridge in spec.ridges:
        log_p = np.empty(len(X))
        for k in range(FOLDS):
            own = folds == k
            fit = fit_logistic(
                X[~own],
                labels[~own],
                weights[~own],
                classes,
                ridge=ridge,
                degree=degree,
            )
            found = fit.log_probabilities(X[own])
            log_p[own] = found[row[: len(found)], labels[own]]
        total = float(log_p @ weights)
        if total > most:
            best, most = (ridge, log_p), total
    assert best is not None
    return best


def _as_probabilities(found: Array, least: float = 1e-6) -> Array:
    """Predictions of indicators as probabilities, (n, k)."""
    p = np.maximum(found, least)
    return p / p.sum(axis=1, keepdims=True)
