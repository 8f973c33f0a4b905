"""A Gaussian kernel of x as a few features, for ridge penalties on its functions.

With centres c and K = V D Vᵀ their kernel matrix, φ(x) = D^(−1/2) Vᵀ k(c, x): then
φ(x)·φ(x') = k(x, x') for x or x' among the centres, so that with a centre on each row
w·φ(x) is what the representer theorem gives, and the penalty ‖w‖² the norm in the RKHS.
Directions without a share in the kernel's values are left out: of smooth kernels few
are left.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy import linalg

from kexpfam._heuristics import median_distance
from kexpfam._typing import Array
from kexpfam._validation import check_positive
from kexpfam.data import Rows
from kexpfam.kernels import Gaussian

# Eigenvalues below this share of the largest change values of a function by less than
# a hundred-thousandth of its norm.
_SMALLEST_EIGENVALUE = 1e-10

# Lengthscales to choose from, in median distances of the rows.
_MEDIANS = (0.2, 0.5, 1.0, 2.0, 5.0)


class KernelFeatures(NamedTuple):
    """Features φ of a Gaussian kernel.

    Attributes:
        centers: (m, p).
        lengthscale: Of the kernel.
        projection: D^(−1/2) Vᵀ, transposed, (m, r).
    """

    centers: Array
    lengthscale: float
    projection: Array

    @classmethod
    def on(cls, centers: Array, lengthscale: float) -> "KernelFeatures":
        """Features of functions on these centres.

        Example:
            >>> x = np.linspace(-1, 1, 7)[:, None]
            >>> phi = KernelFeatures.on(x, 0.5).of(x)
            >>> bool(np.allclose(phi @ phi.T, Gaussian(0.5)(x, x)))
            True
        """
        values, vectors = linalg.eigh(Gaussian(lengthscale)(centers, centers))
        kept = values > _SMALLEST_EIGENVALUE * values[-1]
        return cls(centers, lengthscale, vectors[:, kept] / np.sqrt(values[kept]))

    def of(self, Z: Array) -> Array:
        """φ of each row, (n, r)."""
        return Gaussian(self.lengthscale)(Z, self.centers) @ self.projection


class KernelTrials(NamedTuple):
    """Losses of a grid on rows that were not fitted.

    Attributes:
        lengthscales: (k,).
        regularizations: (l,).
        losses: Means, lower is better, (k, l).
    """

    lengthscales: Array
    regularizations: Array
    losses: Array


def usual_lengthscales(rows: Rows) -> Array:
    """Lengthscales of x to choose from."""
    return median_distance(rows.X, rows.weights) * np.array(_MEDIANS)


def given_or(model: Any, name: str, usual: Array) -> Array:
    """What an argument of a model leaves to choose from: its value, or the usual."""
    value = getattr(model, name)
    return usual if value is None else np.array([check_positive(name, value)])
