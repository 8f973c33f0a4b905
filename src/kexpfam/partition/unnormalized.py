"""What is normalised, and sampled from: densities known up to a constant."""

from typing import Any, Protocol

from kexpfam._typing import Array
from kexpfam.base_densities import BaseDensity


class UnnormalizedDensity(Protocol):
    """n unnormalised densities in the coordinates u."""

    @property
    def base(self) -> BaseDensity:
        """The base density q0."""

    @property
    def responses(self) -> Array:
        """Training responses, near which the densities may have features, (m, d)."""

    @property
    def d(self) -> int:
        """Number of columns."""

    @property
    def rounding(self) -> float:
        """Absolute rounding error of the log densities."""

    def __len__(self) -> int: ...

    def rows(self, index: Any) -> "UnnormalizedDensity":
        """Only some of the densities."""

    def on_grid(self, nodes: Array) -> Array:
        """Log densities at shared nodes, (g, d) -> (n, g)."""

    def log_unnormalized(self, U: Array) -> Array:
        """Log densities at each row's own points, (n, q, d) -> (n, q)."""

    def gradient(self, U: Array) -> Array:
        """Their gradients, (n, q, d) -> (n, q, d)."""
