"""What the baselines share whose density is a mixture of normals at each x."""

from abc import abstractmethod

from sklearn.utils import Tags

from kexpfam._typing import Array
from kexpfam.baselines.standardized import StandardizedEstimator
from kexpfam.distributions import (
    Density,
    NormalMixtureColumns,
    NormalMixtureDensity,
)


class MixtureEstimator(StandardizedEstimator):
    """An estimator of p(y|x) with normal components on training responses.

    Concrete ones say which weights the components have at an x.
    """

    centers_y_: Array
    width_y_: Array

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
