"""What the estimators need to know of a base density q0.

Score matching uses only the gradient of log q0; normalised densities also use its log
density, its support and where its mass lies; d ≥ 3 draws from it. A base density acts
on the coordinates of the kernel: standardised responses, or residuals.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from kexpfam._typing import Array, Indices, namespace_of
from kexpfam.base_densities.transforms import MonotoneTransform


class Base(ABC):
    """What the `base` of an estimator may be: a density q0(y) or q0(y|x).

    A `BaseDensity` is fixed, a `ConditionalBase` moves and widens with x, and a
    `TransformedBase` is one of both for a transformed y.
    """

    @property
    @abstractmethod
    def is_conditional(self) -> bool:
        """Whether it depends on x."""


class BaseDensity(Base):
    """A density q0(y) that is a product over the d columns of y.

    The public methods work on rows; a concrete density gives its columns.
    """

    @property
    def is_conditional(self) -> bool:
        return False

    def log_density(self, Y: Array) -> Array:
        """Log q0 of each row of Y (n, d), shape (n,); −inf outside the support."""
        with np.errstate(
            over="ignore"
        ):  # far away the density is zero, and that is all
            return sum(
                (self.column_log_density(Y[:, i], i) for i in range(Y.shape[1])),
                start=np.zeros(len(Y)),
            )

    def grad_log_density(self, Y: Array) -> Array:
        """∂_i log q0 of each row, shape (n, d)."""
        with np.errstate(over="ignore"):
            return namespace_of(Y).stack(
                [self.column_gradient(Y[:, i], i) for i in range(Y.shape[1])], axis=1
            )

    def sample(self, n: int, d: int, rng: np.random.Generator) -> Array:
        """Draws from q0, shape (n, d)."""
        return np.stack([self.column_sample(n, i, rng) for i in range(d)], axis=1)

    def support(self, d: int) -> Array:
        """Lower and upper end of each column's support, shape (d, 2)."""
        return np.array([self.column_support(i) for i in range(d)], dtype=float)

    @property
    @abstractmethod
    def tail_index(self) -> float:
        """Moments of order below this are finite; infinity for light tails."""

    @abstractmethod
    def column_log_density(self, y: Array, i: int) -> Array:
        """Log q0 of values y (n,) of column i."""

    @abstractmethod
    def column_gradient(self, y: Array, i: int) -> Array:
        """D log q0/dy at values y (n,) of column i."""

    @abstractmethod
    def column_sample(self, n: int, i: int, rng: np.random.Generator) -> Array:
        """Draws of column i, (n,)."""

    @abstractmethod
    def column_support(self, i: int) -> tuple[float, float]:
        """Ends of the support of column i."""

    @abstractmethod
    def column_range(self, i: int) -> tuple[float, float]:
        """An interval that holds nearly all mass of column i; not a bound."""

    @abstractmethod
    def prepared(self, training: "TrainingResponses") -> "BaseDensity":
        """The density to use for these training responses.

        Fixed densities return themselves; others learn from the responses, or convert
        bounds from the user's units.
        """


@dataclass(frozen=True)
class TrainingResponses:
    """Training responses as the kernel sees them, and how they were made.

    Attributes:
        Y: Responses in the coordinates of the kernel, (n, d).
        weights: Row weights, (n,); their sum counts the rows.
        center: What was subtracted from the user's responses, or from their transform,
            (d,).
        scale: What they were then divided by, (d,).
        row_numbers: Where the user finds the rows, (n,), if not in this order.
        name: What the user calls the responses.
        transform: What was applied to the user's responses first; None for nothing.
    """

    Y: Array
    weights: Array
    center: Array
    scale: Array
    row_numbers: Indices | None = None
    name: str = "y"
    transform: MonotoneTransform | None = None

    def to_kernel(self, Y: Array) -> Array:
        """The user's values (..., d) in the coordinates of the kernel."""
        if self.transform is not None:
            Y = self.transform.forward(Y)
        return (Y - self.center) / self.scale

    def to_user(self, U: Array) -> Array:
        """Coordinates of the kernel (..., d) as the user's values."""
        V = U * self.scale + self.center
        return V if self.transform is None else self.transform.inverse(V)
