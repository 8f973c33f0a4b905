"""What the baselines share: they are fitted to columns of unit spread."""

import numpy as np

from kexpfam._typing import Array
from kexpfam._validation import spread_of
from kexpfam.distributions import Density
from kexpfam.errors import DegenerateDataError
from kexpfam.models.estimator import ConditionalEstimator
from kexpfam.models.neighbourhood import Neighbourhood


class StandardizedEstimator(ConditionalEstimator[Density]):
    """An estimator of p(y|x) that sees standardised rows."""

    x_center_: Array
    x_scale_: Array
    y_center_: Array
    y_scale_: Array

    def _standardized(self, X: Array, Y: Array, weights: Array) -> tuple[Array, Array]:
        """Rows with unit spread in each column, and how that was done.

        Raises:
            DegenerateDataError: A column of y is constant.
        """
        Z = self._standardized_conditions(X, weights)
        self.y_center_, self.y_scale_ = spread_of("y", Y, weights)
        if np.any(self.y_scale_ == 0):
            column = int(np.flatnonzero(self.y_scale_ == 0)[0])
            raise DegenerateDataError(
                f"y is constant in column {column} (all {len(Y)} values are "
                f"{Y[0, column]:g}), so it has no density; remove the column."
            )
        return Z, (Y - self.y_center_) / self.y_scale_

    def _standardized_conditions(self, X: Array, weights: Array) -> Array:
        """Conditions with unit spread in each column."""
        self.neighbourhood_ = Neighbourhood.of(X, weights)
        self.x_center_, deviation = spread_of("X", X, weights)
        # A column of x that does not vary says nothing, whatever its values are later.
        self.x_scale_ = np.where(deviation > 0, deviation, np.inf)
        return self._scaled(X)

    def _scaled(self, X: Array) -> Array:
        """Standardised conditions."""
        return (X - self.x_center_) / self.x_scale_
