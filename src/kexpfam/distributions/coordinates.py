"""ResponseCoordinates u of the kernel, in which the work is done, and the user's y.

y = location + scale·u, or such a line behind a transform of y.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kexpfam._typing import Array
from kexpfam.base_densities import MonotoneTransform


@dataclass(frozen=True)
class ResponseCoordinates:
    """t(y) = location + scale·u, row by row."""

    location: Array  # (n, d)
    scale: Array  # (n, d), positive
    support: Array  # Ends of the support as the user gave them, (d, 2)
    transform: MonotoneTransform | None = None  # t of all rows; None for t(y) = y

    def rows(self, index: Any) -> "ResponseCoordinates":
        """Only some rows."""
        return replace(self, location=self.location[index], scale=self.scale[index])

    @property
    def shared(self) -> bool:
        """Whether all rows, and there are some, have the same coordinates."""
        same = self.location == self.location[:1], self.scale == self.scale[:1]
        return bool(len(self.location)) and bool(np.all(same))

    def shared_breaks(self) -> Array:
        """Where y is not smooth in u, if that is the same in all rows; one column."""
        if self.transform is None or not self.shared:
            return np.empty(0)
        breaks = self.transform.column_breaks(0)
        return self.rows([0]).to_kernel(breaks[None, :, None])[0, :, 0]

    def to_user(self, U: Array) -> Array:
        """(n, q, d) -> (n, q, d), never outside the support by a rounding error."""
        Y = self.location[:, None] + self.scale[:, None] * U
        if self.transform is not None:
            Y = self.transform.inverse(Y)
        return np.clip(Y, self.support[:, 0], self.support[:, 1])

    def to_kernel(self, Y: Array) -> Array:
        """(n, q, d) -> (n, q, d)."""
        if self.transform is not None:
            Y = self.transform.forward(Y)
        with np.errstate(over="ignore"):  # infinitely far is far enough
            return (Y - self.location[:, None]) / self.scale[:, None]

    @property
    def log_scale(self) -> Array:
        """Log |dt(y)/du| of each row, (n,)."""
        return np.log(self.scale).sum(axis=1)

    def log_volume(self, Y: Array) -> Array:
        """Log |dy/du| at points (n, q, d), (n, q), or (n, 1) if it is the same."""
        if self.transform is None:
            return self.log_scale[:, None]
        return self.log_scale[:, None] - self.transform.log_abs_det_jacobian(Y).sum(
            axis=-1
        )

    def gradient(self, slope: Array, Y: Array) -> Array:
        """Slope of log p(y) at points Y, from d log p(u)/du there, (n, q, d) each."""
        slope = slope / self.scale[:, None]
        if self.transform is None:
            return slope
        inner = slope * np.exp(self.transform.log_abs_det_jacobian(Y))
        return inner + self.transform.slope_gradient(Y)
