"""What the baselines share whose density is a mixture of normals at each x."""

from abc import abstractmethod

import numpy as np
from sklearn.utils import Tags

from kexpfam._typing import Array
from kexpfam._validation import spread_of
from kexpfam.distributions import (
    Density,
    NormalMixtureColumns,
    NormalMixtureDensity,
)
from kexpfam.errors import DegenerateDataError
from kexpfam.models.estimator import ConditionalEstimator
from kexpfam.models.neighbourhood import Neighbourhood


class MixtureEstimator(ConditionalEstimator):
    """An estimator of p(y|x) with normal components on training responses.

    Concrete ones say which weights the components have at an x.
    """

    centers_y_: Array
    width_y_: Array
    x_center_: Array
    x_scale_: Array
    y_center_: Array
    y_scale_: Array

    @abstractmethod
    def _log_weights(self, Z: Array) -> Array:
        """Log weights of the components at standardised conditions, (n, k)."""

    @property
    def _response_columns(self) -> int:
        return int(self.centers_y_.shape[1])

    def _density(self, X: Array) -> Density:
        log_weights = self._log_weights((X - self.x_center_) / self.x_scale_)
        means = (self.centers_y_ * self.y_scale_ + self.y_center_)[None]
        scales = (self.width_y_ * self.y_scale_)[None, None]
        kind = NormalMixtureDensity if means.shape[2] == 1 else NormalMixtureColumns
        return kind(log_weights, means, scales)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def _standardized(self, X: Array, Y: Array, weights: Array) -> tuple[Array, Array]:
        """Rows with unit spread in each column, and how that was done."""
        self.neighbourhood_ = Neighbourhood.of(X, weights)
        self.x_center_, deviation = spread_of("X", X, weights)
        # A column of x that does not vary says nothing, whatever its values are later.
        self.x_scale_ = np.where(deviation > 0, deviation, np.inf)
        self.y_center_, self.y_scale_ = spread_of("y", Y, weights)
        if np.any(self.y_scale_ == 0):
            column = int(np.flatnonzero(self.y_scale_ == 0)[0])
            raise DegenerateDataError(
                f"y is constant in column {column}, so it has no density; remove the "
                f"column."
            )
        return (
            (X - self.x_center_) / self.x_scale_,
            (Y - self.y_center_) / self.y_scale_,
        )
