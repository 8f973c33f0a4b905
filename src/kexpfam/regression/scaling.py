"""Columns in standard units, and the way back.

Priors and ridges of the regressions mean something only for columns of unit std,
so each regression standardises for itself, whatever units it is given.
"""

from dataclasses import dataclass

import numpy as np

from kexpfam._typing import Array
from kexpfam._validation import mean_and_std
from kexpfam.persistence import saved_fit


@saved_fit({"center": "p", "scale": "p positive"})
@dataclass(frozen=True, eq=False)
class Scaling:
    """Centre and standard deviation of each column."""

    center: Array  # What is subtracted, (p,)
    scale: Array  # What is divided by, positive, (p,)

    def forward(self, data: Array) -> Array:
        """Data in standard units, (n, p)."""
        standard = (data - self.center) / self.scale
        # Points further out are moved here: squares stay far from overflow, and nothing
        # is known about the response out there anyway.
        return np.clip(standard, -1e6, 1e6)


def scaling_of(name: str, data: Array, weights: Array) -> Scaling:
    """The scaling that standardises weighted data; constant columns are centred only.

    Example:
        >>> import numpy as np
        >>> scaling_of("x", np.array([[1.0, 5.0], [3.0, 5.0]]), np.ones(2)).scale
        array([1., 1.])
    """
    center, std = mean_and_std(name, data, weights)
    return Scaling(center, np.where(std > 0, std, 1.0))


def usable_weights(weights: Array) -> Array:
    """Row weights of which none is zero, so that every fold has some weight.

    A row without weight counts a millionth, which no result shows.
    """
    return np.maximum(weights, 1e-6 * weights.max())
