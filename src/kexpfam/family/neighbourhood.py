"""How many training rows are near an x: how much a density there rests on data.

Far from all data a fitted density is its base density, or what a regression
extrapolates. It looks like any other, so the number of rows behind it has to be asked
for.
"""

from dataclasses import dataclass, replace

import numpy as np

from kexpfam._heuristics import median_distance, robust_scaling
from kexpfam._row_order import row_order
from kexpfam._typing import Array
from kexpfam.kernels import Gaussian
from kexpfam.persistence import saved_fit


@saved_fit(
    {
        "center": "p",
        "scale": "p positive",
        "rows": "m p moderate",
        "weights": "m moderate nonnegative",
        "width": "positive moderate divisor",
    }
)
@dataclass(frozen=True, eq=False)
class Neighbourhood:
    """Training rows, standardised, and what counts as near."""

    center: Array  # What is subtracted from x, (p,)
    scale: Array  # What x is then divided by, (p,)
    rows: Array  # Standardised rows, (m, p)
    weights: Array  # How many training rows each of them stands for, (m,)
    width: float  # Lengthscale of nearness

    @classmethod
    def of(
        cls, X: Array, weights: Array, *, most: int = 1000, medians: float = 0.25
    ) -> "Neighbourhood":
        """Take the training rows, or so many that stand for all.

        Near means within about so many median distances between rows.
        """
        order = row_order(weights, X)
        X, weights = X[order], weights[order]
        center, std, _ = robust_scaling(X, weights, name="X")
        scale = np.where(std > 0, std, 1.0)
        Z = (X - center) / scale
        width = medians * median_distance(Z, weights)
        kept = weights[:most]  # in a random order
        weights = kept * (weights.sum() / kept.sum())
        return cls(center, scale, Z[:most], weights, width)

    def scaled(self, total: float) -> "Neighbourhood":
        """The same, standing for rows of another total weight."""
        factor = total / max(float(self.weights.sum()), np.finfo(float).tiny)
        return replace(self, weights=self.weights * factor)

    def count(self, X: Array) -> Array:
        """About how many training rows are near each row of X, (n,).

        Σ_i w_i exp(−½‖(z − z_i)/width‖²): one for each row at the same place, less for
        those farther away.
        """
        Z = (X - self.center) / self.scale
        return Gaussian(self.width).values(Z, self.rows) @ self.weights
