"""Can a classifier tell two samples apart? The classifier two-sample test.

Its cross-validated accuracy is a distance that anyone can read: a half if the samples
cannot be told apart, one if every row gives away where it came from. Accuracy is that
of both samples equally, (share of first rows recognised + share of second rows)/2, so
that a half means the same for samples of different sizes.
"""

from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr
from sklearn.base import clone

from kexpfam._parallel import single_threaded_openmp
from kexpfam._typing import Array, Indices, RandomState
from kexpfam._validation import as_generator, check_count
from kexpfam.comparison.samples import as_samples

# Variance of the accuracy over that of independent rows. Each row also teaches the
# classifiers of other rows: if a is near b, both are recognised, or both are not. With
# votes s_i = ±1 of the training rows and weights w, the sum over rows is
# Σ_{i≠j} w_ij s_i s_j, whose variance ½ Σ (w_ij + w_ji)² is at most twice Σ w_ij².
_DEPENDENCE = 2.0


@dataclass(frozen=True)
class ClassifierResult:
    """What `classifier_score` found.

    Attributes:
        accuracy: Mean of the shares of either sample that were recognised; 0.5 if the
            samples cannot be told apart.
        standard_error: Its standard error, rather too large than too small.
        p_value: Of the hypothesis that both samples have one distribution.
        auc: Probability that a row of `first` looks more like `first` than a row of
            `second` does; 0.5 if they cannot be told apart.
    """

    accuracy: float
    standard_error: float
    p_value: float
    auc: float

    def __str__(self) -> str:
        return (
            f"told apart with accuracy {self.accuracy:.3f} ± {self.standard_error:.3f} "
            f"(0.5 is a guess), AUC {self.auc:.3f}, p = {self.p_value:.3g} for samples "
            f"of one distribution"
        )


def classifier_score(
    first: ArrayLike,
    second: ArrayLike,
    *,
    estimator: Any = None,
    cv: int = 5,
    n_permutations: int = 0,
    random_state: RandomState = None,
) -> ClassifierResult:
    """Cross-validated accuracy of telling two samples apart; 0.5 if that is a guess.

    A row is taken for the first sample if its probability exceeds that sample's share
    of the training rows, so that a larger sample has no advantage. If the samples have
    one distribution, rows of both are so taken with the same probability q, and the
    accuracy is 0.5 on average. Its variance would be q(1 − q)(1/m + 1/n)/4 for rows
    judged independently. Rows that teach the classifier of each other are not, and
    up to twice as much is found; the p-value assumes a normal distribution with twice
    as much, and is therefore rather too large. It is exact with `n_permutations`.

    Args:
        first: Rows (m,) or (m, d), independent; arrays or frames.
        second: Rows (n,) or (n, d).
        estimator: A scikit-learn classifier; None for boosted trees on histograms. One
            without `predict_proba` must balance the classes itself.
        cv: Folds, at least two.
        n_permutations: So many times the labels are permuted, and everything is fitted
            again, for an exact p-value; zero for the approximation.
        random_state: Seed or Generator of folds, permutations and default classifier.

    Returns:
        The accuracy with its error, p-value and the area under the ROC curve.

    Raises:
        ValueError: Different columns, NaN or infinity, or fewer than ten rows.

    References:
        D. Lopez-Paz, M. Oquab: Revisiting Classifier Two-Sample Tests, ICLR 2017.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> one, other = rng.normal(size=(300, 2)), rng.normal(2.0, 1.0, size=(200, 2))
        >>> result = classifier_score(one, other, random_state=0)
        >>> result.accuracy > 0.85
        True
    """
    # Slow to import, and most who import the library do not call this.
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.model_selection import StratifiedKFold

    X, Y = as_samples(least=10, first=first, second=second)
    check_count("cv", cv, least=2)
    if cv > min(len(X), len(Y)):
        raise ValueError(
            f"cv must not exceed the {min(len(X), len(Y))} rows of the smaller sample, "
            f"got {cv}."
        )
    check_count("n_permutations", n_permutations)
    rng = as_generator(random_state)
    seed = int(rng.integers(2**31))
    rows, labels = np.concatenate([X, Y]), np.repeat([1, 0], [len(X), len(Y)])
    # Up to so many rows the default classifier runs on one thread: with more, OpenMP's
    # threads wait for each other longer than they work, on a busy machine a hundred
    # times. It has fewer and smaller trees than scikit-learn's: on 200 and 200 rows
    # that differ in mean, scale or correlation they recognised a little more, in half
    # the time.
    small = estimator is None and len(rows) <= 20_000
    if estimator is None:
        options = {"max_iter": 50, "max_leaf_nodes": 8} if small else {}
        estimator = HistGradientBoostingClassifier(**options, random_state=seed)
    folds = StratifiedKFold(cv, shuffle=True, random_state=seed)
    with single_threaded_openmp() if small else nullcontext():
        result = _cross_validated(estimator, rows, labels, folds)
        null = [
            _cross_validated(estimator, rows, rng.permutation(labels), folds).accuracy
            for _ in range(n_permutations)
        ]
    if not null:
        return result
    # Accuracies are fractions: equal ones may differ by rounding.
    as_large = np.count_nonzero(np.array(null) >= result.accuracy - 1e-12)
    return replace(result, p_value=(1 + as_large) / (1 + n_permutations))


def _cross_validated(
    estimator: Any, rows: Array, labels: Indices, folds: Any
) -> ClassifierResult:
    from sklearn.metrics import roc_auc_score

    taken, areas = np.zeros(len(rows)), []
    for train, test in folds.split(rows, labels):
        fitted = clone(estimator).fit(rows[train], labels[train])
        taken[test], scores = _recognized(fitted, rows[test], labels[train].mean())
        # Scores of different fits are not on one scale.
        areas.append(roc_auc_score(labels[test], scores))
    return _summary(taken[labels == 1], taken[labels == 0], float(np.mean(areas)))


def _recognized(fitted: Any, rows: Array, share: float) -> tuple[Array, Array]:
    """Whether each row is taken for the first sample, and how much it looks like it."""
    if hasattr(fitted, "predict_proba"):
        probability = fitted.predict_proba(rows)[:, 1]
        return (probability > share).astype(float), probability
    decided = np.asarray(fitted.predict(rows), dtype=float)
    if hasattr(fitted, "decision_function"):
        return decided, fitted.decision_function(rows)
    return decided, decided


def _summary(of_first: Array, of_second: Array, auc: float) -> ClassifierResult:
    m, n = len(of_first), len(of_second)
    right, wrong = float(of_first.mean()), float(of_second.mean())
    accuracy = 0.5 * (right + 1.0 - wrong)
    q = (m * right + n * wrong) / (m + n)
    null_variance = 0.25 * _DEPENDENCE * q * (1.0 - q) * (1.0 / m + 1.0 / n)
    # Without any variance all rows were taken for one sample, which tells nothing.
    z = (accuracy - 0.5) / np.sqrt(null_variance) if null_variance > 0 else 0.0
    variance = right * (1.0 - right) / m + wrong * (1.0 - wrong) / n
    error = np.sqrt(0.25 * _DEPENDENCE * variance)
    return ClassifierResult(accuracy, float(error), float(ndtr(-z)), auc)
