"""Weights for the effect of a continuous treatment: p(t) / p(t|x) of each row.

Where confounders x move both treatment t and outcome, a regression of the outcome on t
mixes their effects. Weighted by p(t)/p(t|x), with the generalised propensity score
below the line, rows look as if t had been given out independently of x. A weighted
regression on t alone then shows its effect, provided that x holds all confounders and
that every t is possible at every x. Both densities are taken from fits that have not
seen the row, or else rows that were overfitted get weights that are too small.

References:
    Hirano and Imbens, The propensity score with continuous treatments, Wiley 2004.
    Robins, Hernán and Brumback, Marginal structural models and causal inference in
    epidemiology, Epidemiology 2000.
    Cole and Hernán, Constructing inverse probability weights for marginal structural
    models, American Journal of Epidemiology 2008.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import KFold

from kexpfam._typing import Array, ArrayLike, Indices, RandomState
from kexpfam._validation import as_generator, as_numbers, check_count
from kexpfam.estimators import KEF, AutoKCEF


@dataclass(frozen=True, eq=False)
class PropensityWeights:
    """Weights that make a treatment independent of its confounders; prints as a table.

    Attributes:
        weights: One per row, in the order of the rows, (n,).
        log_propensity: log p(t|x) of each row, by a fit without it, (n,).
        balance_before: Correlation of each confounder with the treatment, (p,).
        balance_after: The same with weights, (p,).
        trimmed: How many weights were cut down.
        names: Names of the confounders.
    """

    weights: Array
    log_propensity: Array
    balance_before: Array
    balance_after: Array
    trimmed: int
    names: tuple[str, ...]

    @property
    def effective_sample_size(self) -> float:
        """(Σw)²/Σw²: as many rows of equal weight estimate a mean as well."""
        return float(self.weights.sum() ** 2 / np.sum(self.weights**2))

    @property
    def largest(self) -> float:
        """The largest weight."""
        return float(self.weights.max())

    def __str__(self) -> str:
        n = len(self.weights)
        width = max(len("confounder"), *map(len, self.names))
        lines = [
            f"{n} weights, mean {self.weights.mean():.3g}, largest {self.largest:.3g}, "
            f"{self.trimmed} trimmed; worth {self.effective_sample_size:.0f} rows",
            f"{'confounder':<{width}}  correlation with treatment  weighted",
        ]
        lines += [
            f"{name:<{width}}  {before:>26.3f}  {after:>8.3f}"
            for name, before, after in zip(
                self.names, self.balance_before, self.balance_after, strict=True
            )
        ]
        worst = float(np.abs(self.balance_after).max())
        # Correlations below this are usually called balanced.
        state = "balanced" if worst < 0.1 else "not balanced"
        return "\n".join([*lines, f"{state}: |weighted| up to {worst:.3f}"])


def generalized_propensity_weights(
    treatment: ArrayLike,
    confounders: Any,
    *,
    estimator: Any = None,
    stabilized: bool = True,
    cross_fit: int = 5,
    trim: float = 0.01,
    random_state: RandomState = None,
) -> PropensityWeights:
    """Weights p(t_i)/p(t_i|x_i) for a continuous treatment.

    Args:
        treatment: t, (n,).
        confounders: x, (n, p): array or frame.
        estimator: Of p(t|x), with `fit(X, y)` and `score_samples(X, y)`; None for
            `AutoKCEF`. The numerator p(t) is a `KEF`.
        stabilized: False for 1/p(t|x), whose weights vary far more.
        cross_fit: Folds. Each row's densities are fitted to the other folds; 1 means
            one fit to all rows, which then weighs the rows it was fitted to.
        trim: Share of the largest weights that are cut down to the largest of the
            others: a few huge ones decide everything. It costs a little bias; 0 for
            none.
        random_state: Seed of the folds and of the fits.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> x = rng.normal(size=(120, 1))
        >>> t = 0.5 * x[:, 0] + rng.normal(size=120)
        >>> from kexpfam import KCEF
        >>> result = generalized_propensity_weights(
        ...     t, x, estimator=KCEF(select=None), cross_fit=2, random_state=0
        ... )
        >>> bool(abs(result.balance_after[0]) < abs(result.balance_before[0]))
        True
    """
    T, X = _rows(treatment, confounders)
    share = float(as_numbers("trim", trim))
    if not 0.0 <= share < 0.5:
        raise ValueError(f"trim must be 0 or a share below 0.5, got {trim!r}.")
    seed = int(as_generator(random_state).integers(2**31))
    base = AutoKCEF(random_state=seed) if estimator is None else estimator
    log_conditional, log_marginal = np.empty(len(T)), np.zeros(len(T))
    for fit, held_out in _folds(len(T), cross_fit, seed):
        model = clone(base).fit(X[fit], T[fit])
        log_conditional[held_out] = model.score_samples(X[held_out], T[held_out])
        if stabilized:
            marginal = KEF(random_state=seed).fit(T[fit, None])
            log_marginal[held_out] = marginal.score_samples(T[held_out, None])
    wrong = np.flatnonzero(~np.isfinite(log_marginal - log_conditional))
    if len(wrong):
        raise ValueError(
            f"the density of the treatment given the confounders is zero or not a "
            f"number in {len(wrong)} rows, the first of them row {wrong[0]}; leave out "
            f"treatments that hardly occur, or use an estimator with wider tails."
        )
    weights = np.exp(log_marginal - log_conditional)
    count = int(np.ceil(share * len(weights)))
    highest = np.sort(weights)[-count - 1]  # of those that are not cut down
    names = getattr(confounders, "columns", [f"x{k}" for k in range(X.shape[1])])
    return PropensityWeights(
        np.minimum(weights, highest),
        log_conditional,
        weighted_correlations(T, X, np.ones(len(T))),
        weighted_correlations(T, X, np.minimum(weights, highest)),
        int(np.sum(weights > highest)),
        tuple(map(str, names)),
    )


def weighted_correlations(t: Array, X: Array, weights: Array) -> Array:
    """Weighted correlation of t with each column of X, (p,); 0 for a constant one.

    Example:
        >>> t = np.array([0.0, 1.0, 2.0])
        >>> X, weights = np.array([[0.0], [1.0], [-7.0]]), np.array([1, 1, 0])
        >>> weighted_correlations(t, X, weights)
        array([1.])
    """
    share = weights / weights.sum()
    t = t - share @ t
    X = X - share @ X
    scale = np.sqrt((share @ t**2) * (share @ X**2))
    return np.divide(
        share @ (t[:, None] * X), scale, np.zeros(len(scale)), where=scale > 0
    )


def _rows(treatment: ArrayLike, confounders: Any) -> tuple[Array, Array]:
    T, X = as_numbers("treatment", treatment), as_numbers("confounders", confounders)
    if T.ndim != 1 or len(T) < 2 or not np.all(np.isfinite(T)):
        raise ValueError(
            f"treatment must be a flat list of two or more finite numbers, got shape "
            f"{T.shape}."
        )
    if X.ndim != 2 or len(X) != len(T) or not np.all(np.isfinite(X)):
        raise ValueError(
            f"confounders must be finite numbers with one row per treatment, shape "
            f"({len(T)}, p), got shape {X.shape}."
        )
    return T, X


def _folds(n: int, cross_fit: int, seed: int) -> list[tuple[Indices, Indices]]:
    folds = check_count("cross_fit", cross_fit, least=1)
    if folds == 1:
        return [(np.arange(n), np.arange(n))]
    if folds > n // 2:
        raise ValueError(f"cross_fit={folds} is too many folds for {n} rows.")
    return list(KFold(folds, shuffle=True, random_state=seed).split(np.empty((n, 1))))
