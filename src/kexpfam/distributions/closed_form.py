"""Location-scale densities without a kernel part: everything in closed form.

With T = 0 a family is its base density, moved and stretched by a regression. Null
models and defensive components of averages are such densities; they need no quadrature.
"""

from typing import Any, Self

import numpy as np

from kexpfam._typing import Array, Indices
from kexpfam.base_densities import LocationScaleDensity
from kexpfam.distributions.interface import ExactDensity
from kexpfam.distributions.one_column import OneColumnDensity


class ClosedFormDensity(ExactDensity, OneColumnDensity):
    """n densities of y = location + scale·z, z from a Gaussian, Student's t and so on.

    Example:
        >>> import numpy as np
        >>> from kexpfam.base_densities import StudentBase
        >>> p = ClosedFormDensity(
        ...     StudentBase(scale=1.0, df=3.0), np.array([0.0, 5.0]), np.ones(2)
        ... )
        >>> p.cdf([0.0, 5.0])
        array([0.5, 0.5])
    """

    def __init__(
        self,
        base: LocationScaleDensity,  # Of z; its own location and scale apply to z
        location: Array,  # (n,)
        scale: Array,  # (n,), positive
        *,
        single: bool = False,  # Whether the leading axis is dropped
    ) -> None:
        if location.ndim != 1 or location.shape != scale.shape:
            raise ValueError(
                f"location and scale must have one number per density, got shapes "
                f"{location.shape} and {scale.shape}."
            )
        if not (np.all(np.isfinite(location)) and np.all(scale > 0)):
            raise ValueError("location must be finite and scale positive everywhere.")
        self._base = base
        self._location = location
        self._scale = scale
        self._single = single

    def mean(self) -> Array:
        if self._base.tail_index <= 1:
            return self._out(np.full(self._n, np.nan))
        return self.mode()

    def std(self) -> Array:
        return self._out(self._scale * self._base.column_std(0))

    def mode(self) -> Array:
        """The centre: all these densities are symmetric."""
        return self._out(self._ppf(np.full((self._n, 1), 0.5))[:, 0])

    def entropy(self) -> Array:
        return self._out(np.log(self._scale) + self._base.column_entropy(0))

    @property
    def _n(self) -> int:
        return len(self._location)

    def _log_pdf(self, Y: Array) -> Array:
        z = self._standardized(Y[..., 0])
        log_p = self._base.log_density(z.reshape(-1, 1)).reshape(z.shape)
        return log_p - np.log(self._scale)[:, None]

    def _gradient(self, Y: Array) -> Array:
        z = self._standardized(Y[..., 0])
        gradient = self._base.grad_log_density(z.reshape(-1, 1)).reshape(Y.shape)
        return gradient / self._scale[:, None, None]

    def _cdf(self, y: Array, rows: Indices | None = None) -> Array:
        return self._base.column_cdf(self._standardized(y, rows), 0)

    def _sf(self, y: Array, rows: Indices | None = None) -> Array:
        return self._base.column_sf(self._standardized(y, rows), 0)

    def _ppf(self, levels: Array) -> Array:
        return self._from_standardized(self._base.column_quantile(levels, 0))

    def _draws(self, size: int, rng: np.random.Generator) -> Array:
        z = self._base.column_sample(self._n * size, 0, rng)
        return self._from_standardized(z.reshape(self._n, size))[..., None]

    def _regions(self, confidence: float) -> list[Array]:
        # One symmetric peak: the central interval.
        tails = np.array([[0.5 * (1.0 - confidence), 0.5 * (1.0 + confidence)]])
        return list(self._ppf(tails)[:, None])

    def _rough_pdf(self, y: Array, rows: Indices | None = None) -> Array:
        z = self._standardized(y, rows)
        return np.exp(self._base.column_log_density(z, 0)) / self._lines(rows)[1]

    def _around(
        self, levels: Array, rows: Indices | None = None
    ) -> tuple[Array, Array]:
        y = self._from_standardized(self._base.column_quantile(levels, 0), rows)
        return y, y

    def _breaks(self) -> Array:
        # There may be a kink at the centre, which is a point of the outline.
        return np.empty(0)

    def _rows(self, index: Any, *, single: bool) -> Self:
        location, scale = self._location[index], self._scale[index]
        return type(self)(self._base, location, scale, single=single)

    def _standardized(self, y: Array, rows: Indices | None = None) -> Array:
        location, scale = self._lines(rows)
        return (y - location) / scale

    def _from_standardized(self, z: Array, rows: Indices | None = None) -> Array:
        location, scale = self._lines(rows)
        return location + scale * z

    def _lines(self, rows: Indices | None) -> tuple[Array, Array]:
        """Location and scale of some rows, (m, 1) each."""
        if rows is None:
            return self._location[:, None], self._scale[:, None]
        return self._location[rows, None], self._scale[rows, None]
