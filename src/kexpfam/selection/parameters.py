"""What is searched: lengthscales and λ, their bounds, and a pull towards the start.

Objectives take θ, the logarithms of the parameters in the order of `Parameters.names`:
one lengthscale per column of x, the lengthscale of y, and λ. Penalty and bounds are
values of their own, so that a result can show them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from kexpfam._heuristics import median_distance
from kexpfam._typing import Array
from kexpfam.kernels import Kernel, RadialKernel
from kexpfam.persistence import saved_value


@dataclass(frozen=True)
class Parameters:
    """Hyperparameters of one family with a separable kernel.

    Attributes:
        lengthscale_x: One length per column of x; empty for a constant kernel of x.
        lengthscale_y: The length of y.
        regularization: λ.

    Example:
        >>> start = Parameters((0.5, 2.0), 1.0, 0.01)
        >>> Parameters.from_theta(start.theta).names
        ('lengthscale_x[0]', 'lengthscale_x[1]', 'lengthscale_y', 'regularization')
    """

    lengthscale_x: tuple[float, ...]
    lengthscale_y: float
    regularization: float

    @property
    def theta(self) -> Array:
        """Logarithms of all parameters, (p + 2,)."""
        return np.log([*self.lengthscale_x, self.lengthscale_y, self.regularization])

    @classmethod
    def from_theta(cls, theta: Array) -> "Parameters":
        """The parameters with these logarithms."""
        *lengths, ell_y, lam = np.exp(np.asarray(theta, dtype=float)).tolist()
        return cls(tuple(lengths), ell_y, lam)

    @property
    def names(self) -> tuple[str, ...]:
        """Name of each entry of θ."""
        columns = tuple(f"lengthscale_x[{j}]" for j in range(len(self.lengthscale_x)))
        return (*columns, "lengthscale_y", "regularization")

    def __str__(self) -> str:
        lengths = ", ".join(f"{ell:.3g}" for ell in self.lengthscale_x)
        return (
            f"lengthscale_x=({lengths}), lengthscale_y={self.lengthscale_y:.3g}, "
            f"regularization={self.regularization:.3g}"
        )


@saved_value
@dataclass(frozen=True)
class Bounds:
    """Smallest and largest value of each kind of parameter.

    Attributes:
        lengthscale_x: For every column of x.
        lengthscale_y: For the length of y.
        regularization: For λ.
    """

    lengthscale_x: tuple[float, float] = (1e-3, 1e3)
    lengthscale_y: tuple[float, float] = (1e-2, 1e2)
    regularization: tuple[float, float] = (1e-8, 1e4)

    def __post_init__(self) -> None:
        for name, (low, high) in self._items():
            if not 0 < low <= high < np.inf:
                raise ValueError(
                    f"Bounds of {name} must be two positive numbers in increasing "
                    f"order, got ({low}, {high})."
                )

    @classmethod
    def of_data(cls, X: Array, Y: Array) -> "Bounds":
        """Bounds from the resolution of the data.

        Tied responses reward ever shorter lengthscales and ever smaller λ: a spike on
        each recorded value. So ℓ_y is at least a tenth of the responses' standard
        deviation and, if a tenth of the rows or more repeat values of others, two
        steps of their recording (the median gap between neighbouring distinct values);
        and λ is at least 1e-4 over the number of distinct responses and their variance.
        For lengthscales of x the bounds are a twentieth and a hundred times the median
        distance.

        Args:
            X: Conditions in the coordinates of the kernel, (n, p).
            Y: Responses in the coordinates of the kernel, (n, d).

        Example:
            >>> import numpy as np
            >>> tied = np.repeat([[-1.0], [0.0], [1.0]], 10, axis=0)
            >>> Bounds.of_data(np.zeros((30, 0)), tied).lengthscale_y[0]
            2.0
        """
        std = float(np.mean(Y.std(axis=0))) or 1.0
        distinct = min(len(_distinct(column)) for column in Y.T)
        # Guesses on the safe side: below a fit describes how the data were rounded. λ
        # leaves room for all values of the grid of `KCEF` from sixteen distinct
        # responses on.
        shortest = max(0.1 * std, 2.0 * recording_step(Y))
        far = median_distance(X)
        return cls(
            (0.05 * far, 100.0 * far),
            (shortest, max(20.0 * std, shortest)),
            (1e-4 / (distinct * std**2), 1e3 / shortest**2),
        )

    def theta(self, columns: int) -> Array:
        """Logarithms of the bounds for p columns of x, (p + 2, 2)."""
        per_column = [self.lengthscale_x] * columns
        return np.log([*per_column, self.lengthscale_y, self.regularization])

    def clip(self, parameters: Parameters) -> Parameters:
        """The nearest parameters within the bounds."""
        lengths = np.clip(parameters.lengthscale_x, *self.lengthscale_x)
        return Parameters(
            tuple(lengths.tolist()),
            float(np.clip(parameters.lengthscale_y, *self.lengthscale_y)),
            float(np.clip(parameters.regularization, *self.regularization)),
        )

    def active(self, parameters: Parameters) -> tuple[str, ...]:
        """Names of the bounds that parameters lie on, such as "lengthscale_y lower"."""
        found = []
        limits = self.theta(len(parameters.lengthscale_x))
        for name, value, (low, high) in zip(
            parameters.names, parameters.theta, limits, strict=True
        ):
            if value <= low + 1e-9:
                found.append(f"{name} lower")
            elif value >= high - 1e-9:
                found.append(f"{name} upper")
        return tuple(found)

    def __str__(self) -> str:
        return ", ".join(
            f"{name} {lo:.3g}–{hi:.3g}" for name, (lo, hi) in self._items()
        )

    def _items(self) -> list[tuple[str, tuple[float, float]]]:
        return [
            ("lengthscale_x", self.lengthscale_x),
            ("lengthscale_y", self.lengthscale_y),
            ("regularization", self.regularization),
        ]


@dataclass(frozen=True)
class Penalty:
    """½ · strength · Σ (log ℓ − log ℓ_center)² over all lengthscales; λ is free.

    Attributes:
        strength: How strong the pull is, in units of the objective.
        center: Where it pulls to.
    """

    strength: float
    center: Parameters

    def __call__(self, theta: Array) -> tuple[float, Array]:
        """Value, and gradient with respect to θ, (p + 2,)."""
        distance = theta - self.center.theta
        distance[-1] = 0.0
        return 0.5 * self.strength * float(
            distance @ distance
        ), self.strength * distance

    def __str__(self) -> str:
        return f"{self.strength:.3g}/2 · squared log-distance from ({self.center})"


def recording_step(Y: Array, many_ties: float = 0.1) -> float:
    """Median gap between neighbouring distinct values; 0 if few values are repeated.

    That is less than a share of `many_ties`, a guess: a few ties are chance. With
    several columns, the largest step in any of them.
    """
    steps = [0.0]
    for column in Y.T:
        values = _distinct(column)
        if 1 < len(values) <= (1.0 - many_ties) * len(column):
            steps.append(float(np.median(np.diff(values))))
    return max(steps)


def _distinct(column: Array, same: float = 1e-9) -> Array:
    """Values that differ by more than so many standard deviations."""
    values = np.unique(column)
    gaps = np.diff(values)
    return values[np.append(True, gaps > same * column.std())]


def with_lengthscale(kernel: Kernel, lengthscale: float | Sequence[float]) -> Kernel:
    """A radial kernel with another lengthscale; any other kernel as it is."""
    if isinstance(kernel, RadialKernel):
        return replace(kernel, lengthscale=lengthscale)
    return kernel
