"""Rows of which some are censored, in units of y or on the line behind its bounds."""

from dataclasses import dataclass

import numpy as np

from kexpfam._typing import Array, Indices
from kexpfam.distributions import SupportMap


@dataclass(frozen=True, eq=False)
class CensoredData:
    """Rows of the user's, one column of y."""

    X: Array  # Conditions, (n, p)
    lower: Array  # Lower ends of the responses, (n,)
    upper: Array  # Upper ends, equal where they were observed, (n,)
    weights: Array  # Row weights, positive, (n,)
    mapped: bool = False  # Whether ends are behind a map that takes bounds away

    def __len__(self) -> int:
        return len(self.lower)

    def part(self, index: Indices) -> "CensoredData":
        """Some of the rows."""
        parts = self.X, self.lower, self.upper, self.weights
        X, lower, upper, weights = (array[index] for array in parts)
        return CensoredData(X, lower, upper, weights, self.mapped)

    def behind(self, support: SupportMap) -> "CensoredData":
        """The same with ends on the line; those that are not known stay so."""
        lower, upper = (
            np.where(np.isfinite(end), support.forward(end), end)
            for end in (self.lower, self.upper)
        )
        return CensoredData(self.X, lower, upper, self.weights, mapped=True)

    def log_jacobian(self, support: SupportMap) -> float:
        """Mean log s′(y), zero of rows that are censored: masses have no units."""
        exact = self.lower == self.upper
        y = np.where(exact, self.lower, self.ends[0])
        values = np.where(exact, support.log_abs_det_jacobian(y), 0.0)
        return float(np.average(values, weights=self.weights))

    @property
    def ends(self) -> Array:
        """All finite ends, those of observed rows twice."""
        both = np.concatenate([self.lower, self.upper])
        return both[np.isfinite(both)]
