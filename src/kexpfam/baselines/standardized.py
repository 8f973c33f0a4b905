"""What the baselines share: they are fitted to columns with a std of one.

Several have a mixture of normals on training responses as their density at each x.
Rounded responses have ties, which reward components of no width: `rounding_scales` is
what bounds these.
"""

import math
from abc import abstractmethod
from typing import Self

import numpy as np
from sklearn.utils import Tags

from kexpfam._typing import Array, ArrayLike
from kexpfam._validation import mean_and_std
from kexpfam.data import Rows, conditional_rows
from kexpfam.distributions import Density, NormalMixtureColumns, NormalMixtureDensity
from kexpfam.errors import DegenerateDataError
from kexpfam.estimators.base import ConditionalEstimator, warn_of_a_column
from kexpfam.family.neighbourhood import Neighbourhood


class StandardizedEstimator(ConditionalEstimator[Density]):
    """An estimator of p(y|x) that sees standardised rows."""

    x_center_: Array
    x_scale_: Array
    y_center_: Array
    y_scale_: Array

    def _standardized(self, rows: Rows) -> Rows:
        """Rows with unit standard deviation in each column."""
        self.neighbourhood_ = Neighbourhood.of(rows.X, rows.weights)
        self.x_center_, std = mean_and_std("X", rows.X, rows.weights)
        # A column of x that does not vary says nothing, whatever its values are later.
        self.x_scale_ = np.where(std > 0, std, np.inf)
        self.y_center_, self.y_scale_ = mean_and_positive_std("y", rows.Y, rows.weights)
        U = (rows.Y - self.y_center_) / self.y_scale_
        return Rows(self._scaled(rows.X), U, rows.weights)

    def _scaled(self, X: Array) -> Array:
        """Standardised conditions."""
        return (X - self.x_center_) / self.x_scale_


class OneColumnEstimator(StandardizedEstimator):
    """An estimator of p(y|x) for one column of y."""

    @property
    def _response_columns(self) -> int:
        return 1

    def _rows(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Rows:
        """Standardised rows; ValueError if y has several columns."""
        rows = conditional_rows(self, X, y, sample_weight)
        if (d := rows.Y.shape[1]) > 1:
            raise ValueError(
                f"y must have one column for {type(self).__name__}, got {d}; "
                f"model them one after another with FactorizedDensity."
            )
        warn_of_a_column(y, rows.Y)
        return self._standardized(rows)


class MixtureEstimator(StandardizedEstimator):
    """An estimator of p(y|x) with normal components on training responses.

    Concrete ones say which weights the components have at an x.
    """

    centers_y_: Array
    width_y_: Array

    def fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Fit p(y|x) to rows (x, y).

        Args:
            X: Conditions, (n, p).
            y: Responses, (n,) or (n, d).
            sample_weight: Weight of each row.
        """
        return self._fit(conditional_rows(self, X, y, sample_weight))

    @abstractmethod
    def _fit(self, rows: Rows) -> Self:
        """Fit to rows in the units of the user."""

    @abstractmethod
    def _log_weights(self, Z: Array) -> Array:
        """Log weights of the components at standardised conditions, (n, k)."""

    @property
    def _response_columns(self) -> int:
        return int(self.centers_y_.shape[1])

    def _density(self, X: Array) -> Density:
        log_weights = self._log_weights(self._scaled(X))
        means = (self.centers_y_ * self.y_scale_ + self.y_center_)[None]
        scales = (self.width_y_ * self.y_scale_)[None, None]
        kind = NormalMixtureDensity if means.shape[2] == 1 else NormalMixtureColumns
        return kind(log_weights, means, scales)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def mean_and_positive_std(name: str, Y: Array, weights: Array) -> tuple[Array, Array]:
    """Mean and std of the columns; `DegenerateDataError` if one is constant."""
    center, scale = mean_and_std(name, Y, weights)
    if np.any(scale == 0):
        column = int(np.flatnonzero(scale == 0)[0])
        raise DegenerateDataError(
            f"{name} is constant in column {column} (all {len(Y)} values are "
            f"{Y[0, column]:g}), so it has no density; remove the column."
        )
    return center, scale


def rounding_scales(U: Array) -> Array:
    """The deviation that rounding alone gives each column, (d,).

    A column with ties was rounded to steps of some size h, taken as the median distance
    of neighbouring values: the truth is anywhere in an interval of that length, whose
    deviation is h/√12. Narrower components would only find the grid.

    Example:
        >>> import numpy as np
        >>> U = np.array([[0.0, 0.1], [0.5, 0.2], [0.5, 0.4], [1.0, 0.8]])
        >>> rounding_scales(U).round(3)
        array([0.144, 0.   ])
    """
    steps = np.zeros(U.shape[1])
    for j, column in enumerate(U.T):
        values = np.unique(column)
        if 1 < len(values) < len(column):
            steps[j] = np.median(np.diff(values))
    return steps / math.sqrt(12.0)
