"""Pipelines of scikit-learn that end in an estimator of p(y|x), and answer like it."""

from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from kexpfam._optional import needed
from kexpfam._typing import Array, ArrayLike
from kexpfam.explanation import Explained, ModelColumns
from kexpfam.tables import TableCoder


class DensityPipeline(Explained, Pipeline):
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
        """The distributions p(·|x) at each row of X, as one object.

        Args:
            X: Rows as the first step takes them, (n, p) or a frame.

        Returns:
            What `given` of the last step returns: all n densities at once.
        """
        return self._last.given(self._transformed(X))

    def score_samples(self, X: Any, y: ArrayLike) -> Array:
        """Log p(y_a|x_a) of each row, (n,).

        Args:
            X: Rows as the first step takes them, (n, p) or a frame.
            y: The response of each row, in its own units, (n,).
        """
        found: Array = self._last.score_samples(self._transformed(X), y)
        return found

    def predict_quantiles(self, X: Any, quantiles: ArrayLike) -> Array:
        """Conditional quantiles, (n, k) for k levels.

        Args:
            X: Rows as the first step takes them, (n, p) or a frame.
            quantiles: Levels between 0 and 1, (k,).
        """
        found: Array = self._last.predict_quantiles(self._transformed(X), quantiles)
        return found

    def predict_interval(self, X: Any, confidence: float = 0.9) -> Array:
        """Central intervals with this probability, (n, 2).

        Args:
            X: Rows as the first step takes them, (n, p) or a frame.
            confidence: Probability between the ends; half of the rest is beyond either.
        """
        found: Array = self._last.predict_interval(self._transformed(X), confidence)
        return found

    def sample(self, X: Any, n_samples: int = 1, **how: Any) -> Array:
        """Draws from p(·|x) at each row, (n, n_samples).

        Args:
            X: Rows as the first step takes them, (n, p) or a frame.
            n_samples: Draws for each row.
            how: Other arguments of `sample` of the last step, such as `random_state`.
        """
        found: Array = self._last.sample(self._transformed(X), n_samples, **how)
        return found

    @property
    def _target(self) -> str | None:
        """Name of y, if the last step knows one."""
        return getattr(self._last, "_target", None)

    @property
    def _last(self) -> Any:
        check_is_fitted(self)
        return self.steps[-1][1]

    def _transformed(self, X: Any, *, coded: bool = False) -> Any:
        """X as the last step has it; if it is coded, the first was a coder."""
        for i, (_, _, step) in enumerate(self._iter(with_final=False)):
            X = X if coded and i == 0 else step.transform(X)
        return X

    def _columns(self) -> ModelColumns:
        """Those of a `TableCoder`, if it is the first step, or else of numbers."""
        last, (_, first) = self._last, self.steps[0]
        how: dict[str, Any] = {
            "response": getattr(last, "_target", None) or "y",
            "n_jobs": getattr(last, "n_jobs", None),
        }
        if isinstance(first, TableCoder):
            names = [feature.name for feature in first.features_]
            return ModelColumns.of(
                names,
                first.coding_,
                first.transform,
                lambda Z: last.given(self._transformed(Z, coded=True)),
                **how,
            )
        known = getattr(self, "feature_names_in_", None)
        numbered = [f"x{i}" for i in range(self.n_features_in_)]
        names = numbered if known is None else [str(name) for name in known]

        def given(Z: Array) -> Any:
            if known is None:
                return self.given(Z)
            pandas = needed("pandas", "by steps that were fitted to a frame")
            return self.given(pandas.DataFrame(Z, columns=names))

        return ModelColumns.of(names, None, _numbers, given, **how)


def _numbers(X: Any) -> Array:
    """Rows of numbers without gaps, as explanations need them."""
    try:
        found = np.asarray(X, dtype=float)
    except (TypeError, ValueError):
        found = np.full((1, 1), np.nan)
    if found.ndim != 2 or not np.isfinite(found).all():
        raise ValueError(
            "X must be rows of numbers without gaps, to explain a pipeline; make a "
            "kexpfam.tables.TableCoder its first step for others."
        )
    return found


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
