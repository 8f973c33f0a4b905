"""What the estimators need to know of a base density q0.

Score matching uses only the gradient of log q0; normalised densities also use its log
density, its support and where its mass lies; d ≥ 3 draws from it. A base density acts
on the coordinates of the kernel: standardised responses, or residuals.

A *conditional* base density q0(y|x) is a noise density around a location-scale model.
With y = μ(x) + σ(x)·u, the kernel acts on the residual u, and the exponential family
models the shape of p(u|x) instead of the course of the mean. This is theory (13): the
joint kernel K((x, y), (x', y')) = k_X(x, x') k_Y(u(x, y), u(x', y')) with the base
density q0(y|x) = noise(u)/σ(x).

Residuals of the rows a regression was fitted on are too small. So the training
residuals come from cross-fitting: each row is predicted by a regression that has not
seen it. New x are predicted by the regression fitted on all rows.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kexpfam._typing import Array, namespace_of

# The user's values (..., d) in the coordinates of the kernel.
ToKernel = Callable[[Array], Array]


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
        total = np.zeros(len(Y))
        with np.errstate(over="ignore"):  # far away the density is zero, that is all
            for i in range(Y.shape[1]):
                total = total + self.column_log_density(Y[:, i], i)
        return total

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
    def prepared(
        self, U: Array, weights: Array, to_kernel: ToKernel = np.asarray
    ) -> "BaseDensity":
        """The density to use for these training responses.

        Fixed densities return themselves; others learn from the responses, or convert
        bounds from the user's units.

        Args:
            U: Responses in the coordinates of the kernel, (n, d).
            weights: Row weights, (n,); their sum counts the rows.
            to_kernel: The user's values (..., d) in the coordinates of the kernel.
        """


class LocationScaleModel(ABC):
    """Where the residual's origin is, and its unit, at each x."""

    @abstractmethod
    def at(self, X: Array) -> tuple[Array, Array]:
        """Location μ(x) and scale σ(x) > 0 at each row, (n, d) each."""


class Summary(ABC):
    """Features z(x) that the kernel of x acts on instead of x, learned from y too."""

    @property
    @abstractmethod
    def q(self) -> int:
        """Columns of z."""

    @abstractmethod
    def at(self, X: Array) -> Array:
        """Features of conditions X (n, p) that did not help to learn them, (n, q)."""


@dataclass(frozen=True)
class CrossFit:
    """A conditional base fitted to data.

    The held-out location of a row is Y − residuals·exp(log_scale), and its held-out
    log density is the noise's at the residual minus the sum of its log scales.

    With a summary, the location-scale model takes z instead of x.
    """

    model: LocationScaleModel  # Location and scale at any x
    residuals: Array  # Cross-fitted residuals of the training rows, (n, d)
    log_scale: Array  # Held-out log scale of each training row, (n, d)
    summary: Summary | None = None  # x → z, if that is learned
    Z: Array | None = None  # Held-out z of the training rows, (n, q)
    noise: BaseDensity | None = None  # Of the residual, if it was fitted


class ConditionalBase(Base):
    """A base density that depends on x through a location and a scale."""

    noise: BaseDensity

    def __post_init__(self) -> None:
        # Bounds would move with the location.
        if np.isfinite(self.noise.support(1)).any():
            raise ValueError(
                f"noise={self.noise!r} has a bounded support, which a moving location "
                f"would carry along; use an unbounded density here."
            )

    @property
    def is_conditional(self) -> bool:
        return True

    @abstractmethod
    def cross_fit(
        self, X: Array, Y: Array, weights: Array, rng: np.random.Generator
    ) -> CrossFit:
        """Fit location and scale, and compute residuals that do not deceive."""


class MonotoneTransform(ABC):
    """v = t(y), an increasing bijection of the line for each column."""

    @abstractmethod
    def forward(self, Y: Array) -> Array:
        """t(y), (..., d) -> (..., d)."""

    @abstractmethod
    def inverse(self, V: Array) -> Array:
        """The y with t(y) = v, (..., d) -> (..., d)."""

    @abstractmethod
    def log_abs_det_jacobian(self, Y: Array) -> Array:
        """Log dt/dy, (..., d) -> (..., d)."""

    @abstractmethod
    def slope_gradient(self, Y: Array) -> Array:
        """d/dy log dt/dy, (..., d) -> (..., d)."""

    @abstractmethod
    def column_breaks(self, i: int) -> Array:
        """Increasing points in y where t is not smooth in column i."""


class ContinuedTransform(MonotoneTransform):
    """A formula between two ends of each column, and straight lines beyond."""

    @property
    @abstractmethod
    def ends(self) -> tuple[Array, Array]:
        """Where the formula ends, (d,) each, or () if that is the same for all."""

    @abstractmethod
    def _formula(self, Y: Array) -> Array: ...

    @abstractmethod
    def _formula_inverse(self, V: Array) -> Array: ...

    @abstractmethod
    def _formula_log_abs_det_jacobian(self, Y: Array) -> Array: ...

    @abstractmethod
    def _formula_slope_gradient(self, Y: Array) -> Array: ...

    def forward(self, Y: Array) -> Array:
        inside = np.clip(Y, *self.ends)
        beyond = (Y - inside) * np.exp(self._formula_log_abs_det_jacobian(inside))
        return self._formula(inside) + beyond

    def inverse(self, V: Array) -> Array:
        low, high = self.ends
        inside = np.clip(V, self._formula(low), self._formula(high))
        # Rounding of the inverse must not leave the formula's range.
        Y = np.clip(self._formula_inverse(inside), low, high)
        return Y + (V - inside) * np.exp(-self._formula_log_abs_det_jacobian(Y))

    def log_abs_det_jacobian(self, Y: Array) -> Array:
        return self._formula_log_abs_det_jacobian(np.clip(Y, *self.ends))

    def slope_gradient(self, Y: Array) -> Array:
        inside = np.clip(Y, *self.ends)
        return np.where(inside == Y, self._formula_slope_gradient(inside), 0.0)
