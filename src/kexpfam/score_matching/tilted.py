"""q0(u) exp T(x, u) at given conditions: the family before it is normalised."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kexpfam._typing import Array
from kexpfam.base_densities import BaseDensity
from kexpfam.score_matching.expansion import KernelExpansion


@dataclass(frozen=True)
class TiltedDensity:
    """n unnormalised densities in the coordinates of the kernel, theory (1).

    Attributes:
        base: q0.
        T: The fitted function.
        X: The conditions, (n, p).
        data_range: Range of the training responses, (d, 2).
    """

    base: BaseDensity
    T: KernelExpansion
    X: Array
    data_range: Array

    def __len__(self) -> int:
        return len(self.X)

    @property
    def d(self) -> int:
        """Number of columns of the response."""
        return self.T.Y.shape[1]

    def rows(self, index: Array | slice) -> "TiltedDensity":
        """Only these conditions."""
        return TiltedDensity(self.base, self.T, self.X[index], self.data_range)

    def on_grid(self) -> Callable[[Array], Array]:
        """A function of shared nodes, (g, d) -> (n, g), that may be called repeatedly.

        What depends on the conditions only is computed once.
        """
        T_on_grid = self.T.at_conditions(self.X)

        def log_unnormalized(nodes: Array) -> Array:
            return T_on_grid(nodes) + self.base.log_density(nodes)

        return log_unnormalized

    def log_unnormalized(self, U: Array) -> Array:
        """Log q0 + T at each row's own points, (n, q, d) -> (n, q)."""
        flat = U.reshape(-1, self.d)
        log_q0 = self.base.log_density(flat)
        T = self.T.value(np.repeat(self.X, U.shape[1], axis=0), flat)
        # Outside the support q0 is zero whatever T is.
        return np.where(np.isneginf(log_q0), -np.inf, log_q0 + T).reshape(U.shape[:2])

    def gradient(self, U: Array) -> Array:
        """∂(log q0 + T) at each row's own points, (n, q, d) -> (n, q, d)."""
        flat = U.reshape(-1, self.d)
        T = self.T.gradient(np.repeat(self.X, U.shape[1], axis=0), flat)
        return (self.base.grad_log_density(flat) + T).reshape(U.shape)
