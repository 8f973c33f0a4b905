"""Split-conformal sets: intervals and regions that cover as often as they say.

Densities are estimates, and so are their intervals. If rows that were not used for
fitting are exchangeable with those to come, a set can be made that covers the next y
with at least the probability asked for, whatever the estimator got wrong. A score says
how far out in its density an observed y lies: for intervals |2F(y|x) − 1|, the
confidence of the smallest central interval that holds it; for regions
P(p(Y|x) ≥ p(y|x)), that of the smallest highest-density region. With n calibration
rows the ⌈(n + 1) coverage⌉-th smallest score is the confidence to ask the estimator
for. Sets are as wide as the density at their x says; only how much of it they take is
calibrated.

Coverage is over rows and calibration sets together, not at each x.

References:
    Vovk, Gammerman and Shafer, Algorithmic Learning in a Random World, Springer 2005.
    Chernozhukov, Wüthrich and Zhu, Distributional conformal prediction, PNAS 2021.
    Izbicki, Shimizu and Stern, CD-split and HPD-split, JMLR 2022.
"""

import math
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, RegressorMixin, clone
from sklearn.model_selection import train_test_split
from sklearn.utils import Tags, get_tags
from sklearn.utils.validation import check_is_fitted

from kexpfam._typing import Array, ArrayLike, RandomState
from kexpfam._validation import as_generator, check_share
from kexpfam.estimators import AutoKCEF
from kexpfam.estimators.base import warn_of_a_column
from kexpfam.metrics import hpd_values, pit


class ConformalDensity(MetaEstimatorMixin, RegressorMixin, BaseEstimator):
    """Calibrated intervals and highest-density regions around an estimator of p(y|x).

    For one column of y.

    Args:
        estimator: Anything with `fit(X, y)` and `given(X)`, whose densities have `cdf`
            and `ppf` for intervals, `logpdf` and `hpd` too for regions; None for
            `AutoKCEF()`.
        calibration_share: Share of the rows that calibrate and are not fitted.
        prefit: Whether the estimator is fitted already. Then all rows of `fit`
            calibrate; they must not be those that it was fitted to. Wrap it in
            scikit-learn's `FrozenEstimator` if it has to survive `clone`.
        random_state: Seed of the split.

    Attributes:
        estimator_: The fitted estimator.
        interval_scores_: Scores of the calibration rows for intervals, increasing.
        hpd_scores_: The same for regions; None if the densities have no `hpd`.
        n_features_in_: Columns of X.

    Example:
        >>> import numpy as np
        >>> from kexpfam import KCEF
        >>> rng = np.random.default_rng(0)
        >>> x = rng.uniform(-1, 1, size=(200, 1))
        >>> y = x[:, 0] + 0.3 * rng.normal(size=200)
        >>> model = ConformalDensity(KCEF(select=None), random_state=0).fit(x, y)
        >>> model.predict_interval([[0.0]], 0.9).shape
        (1, 2)
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        calibration_share: float = 0.25,
        prefit: bool = False,
        random_state: RandomState = None,
    ) -> None:
        self.estimator = estimator
        self.calibration_share = calibration_share
        self.prefit = prefit
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Fit to some rows and calibrate with the others.

        Args:
            X: Conditions, (n, p): array or frame.
            y: Responses, (n,).
        """
        if y is None:
            raise ValueError(
                "ConformalDensity requires y to be passed, but the target y is None."
            )
        responses = np.asarray(y)
        if responses.ndim == 2 and responses.shape[1] == 1:
            warn_of_a_column(y, responses)
            y = responses[:, 0]
        if self.prefit:
            if self.estimator is None:
                raise ValueError(
                    "prefit=True needs an estimator that is fitted, got None."
                )
            check_is_fitted(self.estimator)
            return self._calibrate(self.estimator, X, y)
        share = check_share("calibration_share", self.calibration_share)
        seed = int(as_generator(self.random_state).integers(2**31))
        X_fit, X_rest, y_fit, y_rest = train_test_split(
            X, y, test_size=share, random_state=seed
        )
        default = AutoKCEF(random_state=seed)
        base = default if self.estimator is None else clone(self.estimator)
        return self._calibrate(base.fit(X_fit, y_fit), X_rest, y_rest)

    def _calibrate(self, estimator: Any, X: Any, y: Any) -> Self:
        densities = estimator.given(X)
        place = pit(densities, y)
        self.estimator_ = estimator
        self.interval_scores_ = np.sort(np.abs(2.0 * place - 1.0))
        self.hpd_scores_ = (
            np.sort(hpd_values(densities, y)) if hasattr(densities, "hpd") else None
        )
        for name in ("n_features_in_", "feature_names_in_"):
            self.__dict__.pop(name, None)
            if hasattr(estimator, name):
                setattr(self, name, getattr(estimator, name))
        return self

    def given(self, X: ArrayLike) -> Any:
        """The estimator's densities, which are not calibrated."""
        check_is_fitted(self)
        return self.estimator_.given(X)

    def predict(self, X: ArrayLike) -> Array:
        """The estimator's conditional means, (n,)."""
        return self.given(X).mean()

    def predict_interval(self, X: ArrayLike, coverage: float = 0.9) -> Array:
        """Intervals that hold the next y with at least this probability, (n, 2).

        They have equal mass of the estimated density outside on either side, and are
        infinite where only that is sure to cover.

        Raises:
            ValueError: There are too few calibration rows for this coverage.
        """
        confidence = self.interval_confidence(coverage)
        densities = self.given(X)
        if confidence >= 1.0:
            return np.tile([-np.inf, np.inf], (len(densities), 1))
        tails = 0.5 * np.array([1.0 - confidence, 1.0 + confidence])
        return densities.ppf(tails[None])

    def predict_hpd(self, X: ArrayLike, coverage: float = 0.9) -> list[Array]:
        """Highest-density regions that hold the next y with at least this probability.

        Returns:
            For each row an array (k, 2) of intervals.

        Raises:
            ValueError: There are too few calibration rows for this coverage.
        """
        confidence = self.hpd_confidence(coverage)
        densities = self.given(X)
        if confidence >= 1.0:
            return [np.array([[-np.inf, np.inf]]) for _ in range(len(densities))]
        if confidence <= 0.0:
            return [np.repeat(mode, 2)[None] for mode in np.ravel(densities.mode())]
        return densities.hpd(confidence)

    def interval_confidence(self, coverage: float = 0.9) -> float:
        """The confidence at which the estimator's intervals have this coverage.

        It equals the coverage, up to noise, if the densities are right; 1 stands for
        sets that leave nothing out.
        """
        check_is_fitted(self)
        return conformal_quantile(self.interval_scores_, coverage)

    def hpd_confidence(self, coverage: float = 0.9) -> float:
        """The same for highest-density regions."""
        check_is_fitted(self)
        if self.hpd_scores_ is None:
            raise ValueError(
                f"{type(self.estimator_).__name__} gives densities without hpd; use "
                f"predict_interval."
            )
        return conformal_quantile(self.hpd_scores_, coverage)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        inner = get_tags(AutoKCEF() if self.estimator is None else self.estimator)
        tags.input_tags.allow_nan = inner.input_tags.allow_nan
        tags.input_tags.sparse = inner.input_tags.sparse
        return tags


def conformal_quantile(scores: Array, coverage: float) -> float:
    """The ⌈(n + 1) coverage⌉-th smallest of n scores.

    A further score that is exchangeable with them is not above it with a probability of
    at least the coverage, and at most 1/(n + 1) more if no two are equal. Scores are
    increasing; ValueError if they are too few.

    Example:
        >>> conformal_quantile(np.arange(1.0, 10.0), 0.9)
        9.0
    """
    level, n = check_share("coverage", coverage), len(scores)
    # Products such as 10 · 0.9 must not be pushed above a whole number by rounding.
    rank = math.ceil((n + 1) * level * (1.0 - 1e-12))
    if rank > n:
        needed = math.ceil(level / (1.0 - level) * (1.0 - 1e-12))
        raise ValueError(
            f"coverage={level:g} needs at least {needed} calibration rows, and there "
            f"are {n}; pass more rows, raise calibration_share, or lower coverage."
        )
    return float(scores[rank - 1])
