"""What is normalised, and sampled from: densities known up to a constant."""

from collections.abc import Hashable
from dataclasses import fields, replace
from typing import Any, Protocol, TypeVar

from kexpfam._typing import Array
from kexpfam.base_densities import BaseDensity

Estimate = TypeVar("Estimate", bound=Any)


def rows_of(estimate: Estimate, index: Any, *shared: str) -> Estimate:
    """Only some rows of an estimate, whose `shared` fields stay as they are."""
    names = {field.name for field in fields(estimate)} - set(shared)
    return replace(estimate, **{name: getattr(estimate, name)[index] for name in names})


class Formula(Hashable, Protocol):
    """An unnormalised density without its arrays, which it is given.

    It takes arrays of NumPy or of JAX (`namespace_of`). Equal formulas do the same to
    equal arrays, so a program that was compiled for one serves the other.
    """

    def at(
        self,
        shared: tuple[Array, ...],  # `shared_parameters` of the densities
        row: tuple[Array, ...],  # One entry of each of their `row_parameters`
        u: Array,  # The point
    ) -> tuple[Array, Array]:
        """The log density of one row at one point u (d,), and its gradient (d,)."""


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

    @property
    def same_rows(self) -> bool:
        """Whether all densities are known to be the same in these coordinates."""

    def __len__(self) -> int: ...

    def rows(self, index: Any) -> "UnnormalizedDensity":
        """Only some of the densities."""

    def on_grid(self, nodes: Array) -> Array:
        """Log densities at shared nodes, (g, d) -> (n, g)."""

    def log_unnormalized(self, U: Array) -> Array:
        """Log densities at each row's own points, (n, q, d) -> (n, q)."""

    def gradient(self, U: Array) -> Array:
        """Their gradients, (n, q, d) -> (n, q, d)."""

    @property
    def formula(self) -> Formula:
        """The densities without their arrays."""

    def shared_parameters(self) -> tuple[Array, ...]:
        """The arrays that all densities have in common."""

    def row_parameters(self) -> tuple[Array, ...]:
        """The arrays that differ between densities, each (n, ...)."""

    def nearness(self) -> Array:
        """How near each training response is to each density's x, (n, m), from 0."""
