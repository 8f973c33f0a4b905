"""Pipelines of scikit-learn that end in an estimator of p(y|x), and answer like it."""

from typing import Any

from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from kexpfam._typing import Array, ArrayLike


class DensityPipeline(Pipeline):
    """A scikit-learn `Pipeline` with the methods of its last step, such as `given`.

    X goes through the transformers before it; y is left as it is. Everything else is
    scikit-learn's: parameters by `step__name`, `GridSearchCV`, `clone`.

    Example:
        >>> import numpy as np
        >>> from sklearn.preprocessing import StandardScaler
        >>> from kexpfam import KCEF
        >>> x = np.linspace(0, 1, 50)[:, None]
        >>> y = x[:, 0] ** 2 + 0.1 * np.sin(40 * x[:, 0])
        >>> model = make_pipeline(StandardScaler(), KCEF(random_state=0)).fit(x, y)
        >>> model.given([[0.2], [0.8]]).interval(0.9).shape
        (2, 2)
    """

    def given(self, X: Any) -> Any:
        """The distributions p(·|x) at each row of X, as one object."""
        return self._last.given(self._transformed(X))

    def score_samples(self, X: Any, y: ArrayLike) -> Array:
        """Log p(y_a|x_a) of each row, (n,)."""
        found: Array = self._last.score_samples(self._transformed(X), y)
        return found

    def predict_quantiles(self, X: Any, quantiles: ArrayLike) -> Array:
        """Conditional quantiles, (n, k) for k levels."""
        found: Array = self._last.predict_quantiles(self._transformed(X), quantiles)
        return found

    def predict_interval(self, X: Any, confidence: float = 0.9) -> Array:
        """Central intervals with this probability, (n, 2)."""
        found: Array = self._last.predict_interval(self._transformed(X), confidence)
        return found

    def sample(self, X: Any, n_samples: int = 1, **how: Any) -> Array:
        """Draws from p(·|x) at each row, (n, n_samples)."""
        found: Array = self._last.sample(self._transformed(X), n_samples, **how)
        return found

    @property
    def _last(self) -> Any:
        check_is_fitted(self)
        return self.steps[-1][1]

    def _transformed(self, X: Any) -> Any:
        for _, _, step in self._iter(with_final=False):
            X = step.transform(X)
        return X


def make_pipeline(*steps: Any) -> DensityPipeline:
    """A `DensityPipeline` of steps, named after their classes.

    Example:
        >>> from sklearn.preprocessing import StandardScaler
        >>> from kexpfam import KCEF
        >>> [name for name, _ in make_pipeline(StandardScaler(), KCEF()).steps]
        ['standardscaler', 'kcef']
    """
    from sklearn.pipeline import make_pipeline as plain

    return DensityPipeline(plain(*steps).steps)
