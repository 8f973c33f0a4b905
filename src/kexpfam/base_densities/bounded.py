"""Base densities on bounded and half-bounded supports, and the weights they need.

Bounds are facts about the user's variable, so they are given in the user's units,
unlike every other base parameter. Integration by parts, on which score matching rests,
leaves a term at the edge of a bounded support; weighting the objective by a function
g that vanishes there removes it (Hyvärinen 2007; Yu, Drton and Shojaie 2019).
"""

import math
from dataclasses import dataclass, field, replace

import numpy as np

from kexpfam._typing import Array, namespace_of
from kexpfam.base_densities.fixed import GaussianBase, LocationScaleDensity
from kexpfam.base_densities.interface import BaseDensity, TrainingResponses
from kexpfam.base_densities.parameters import as_parameter, per_column, require_columns
from kexpfam.errors import DegenerateDataError
from kexpfam.persistence import saved_value

# How far from an edge the weight g has risen to 1 − 1/e, in standard deviations of the
# column. A guess: short against the data, long against their usual spacing.
_EDGE_WIDTH = 0.5

# One bound for all columns, or one per column.
Bound = float | tuple[float, ...]


def boundary_weights(Y: Array, support: Array, spread: Array) -> tuple[Array, Array]:
    """g_i and g_i′ at each row, (n, d) each: theory (12), g = Π (1 − e^(−t/τ)).

    Args:
        Y: Rows inside the support, (n, d).
        support: Ends of each column's support, (d, 2).
        spread: A typical width of each column, (d,), that sets τ.
    """
    g, slope = np.ones_like(Y), np.zeros_like(Y)
    tau = _EDGE_WIDTH * np.minimum(spread, 0.5 * (support[:, 1] - support[:, 0]))
    for side, sign in ((0, 1.0), (1, -1.0)):
        bounded = np.isfinite(support[:, side])
        edge = np.where(bounded, support[:, side], 0.0)
        t = np.maximum(sign * (Y - edge) / tau, 0.0)
        factor = np.where(bounded, -np.expm1(-t), 1.0)
        factor_slope = np.where(bounded, sign * np.exp(-t) / tau, 0.0)
        g, slope = g * factor, slope * factor + g * factor_slope
    return g, slope


def _bounds(lower: object, upper: object) -> tuple[Bound, Bound]:
    low = as_parameter("lower", lower, finite=False)
    high = as_parameter("upper", upper, finite=False)
    if not np.all(np.asarray(low) < np.asarray(high)):
        raise ValueError(
            f"lower must be below upper in every column, got lower={lower!r} and "
            f"upper={upper!r}."
        )
    return low, high


def _in_kernel_units(
    lower: Bound, upper: Bound, training: TrainingResponses
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Bounds in the coordinates of the kernel, after checking the responses."""
    d = training.Y.shape[1]
    require_columns(d, lower=lower, upper=upper)
    low = training.to_kernel(np.broadcast_to(lower, d))
    high = training.to_kernel(np.broadcast_to(upper, d))
    # Rows were standardised by the same formula, so a row on the edge stays on it.
    outside = (low > training.Y) | (high < training.Y)
    if outside.any():
        numbers = training.row_numbers
        numbers = np.arange(len(outside)) if numbers is None else numbers
        rows = np.flatnonzero(outside.any(axis=1))
        row = int(rows[np.argmin(numbers[rows])])  # the first that the user finds
        number, column = int(numbers[row]), int(np.argmax(outside[row]))
        value = training.to_user(training.Y[row])[column]
        raise DegenerateDataError(
            f"{training.name} has {int(outside.any(axis=1).sum())} rows outside the "
            f"support of the base density, [{per_column(lower, column)}, "
            f"{per_column(upper, column)}]; row {number} is {value:g}. Widen the "
            f"bounds or remove the rows."
        )
    return tuple(low.tolist()), tuple(high.tolist())


@saved_value
@dataclass(frozen=True)
class UniformBase(BaseDensity):
    """The uniform density on [lower, upper], bounds in the user's units of y.

    Example:
        >>> import numpy as np
        >>> UniformBase(0.0, 4.0).log_density(np.array([[1.0], [5.0]])).round(4)
        array([-1.3863,    -inf])
    """

    lower: Bound
    upper: Bound

    def __post_init__(self) -> None:
        low, high = _bounds(self.lower, self.upper)
        if not (np.all(np.isfinite(low)) and np.all(np.isfinite(high))):
            raise ValueError(
                f"UniformBase needs finite bounds, got lower={self.lower!r} and "
                f"upper={self.upper!r}; use TruncatedBase for a half-bounded support."
            )
        object.__setattr__(self, "lower", low)
        object.__setattr__(self, "upper", high)

    @property
    def tail_index(self) -> float:
        return math.inf

    def column_log_density(self, y: Array, i: int) -> Array:
        low, high = self.column_support(i)
        inside = (y >= low) & (y <= high)
        return namespace_of(y).where(inside, -math.log(high - low), -np.inf)

    def column_gradient(self, y: Array, i: int) -> Array:
        return namespace_of(y).zeros_like(y)

    def column_sample(self, n: int, i: int, rng: np.random.Generator) -> Array:
        return rng.uniform(*self.column_support(i), n)

    def column_support(self, i: int) -> tuple[float, float]:
        return per_column(self.lower, i), per_column(self.upper, i)

    def column_range(self, i: int) -> tuple[float, float]:
        return self.column_support(i)

    def prepared(self, training: TrainingResponses) -> BaseDensity:
        low, high = _in_kernel_units(self.lower, self.upper, training)
        return replace(self, lower=low, upper=high)


@saved_value
@dataclass(frozen=True)
class TruncatedBase(BaseDensity):
    """Another base density cut to [lower, upper]; either end may be infinite.

    The bounds are in the user's units of y, the parameters of the inner density in the
    coordinates of the kernel. `TruncatedBase(lower=0.0)` suits a positive variable.

    Example:
        >>> import numpy as np
        >>> half = TruncatedBase(GaussianBase(1.0), lower=0.0)
        >>> half.log_density(np.array([[0.0], [-1.0]])).round(4)
        array([-0.2258,    -inf])
    """

    base: LocationScaleDensity = field(default_factory=GaussianBase)
    lower: Bound = -math.inf
    upper: Bound = math.inf

    def __post_init__(self) -> None:
        low, high = _bounds(self.lower, self.upper)
        object.__setattr__(self, "lower", low)
        object.__setattr__(self, "upper", high)

    @property
    def tail_index(self) -> float:
        finite = np.all(np.isfinite(self.lower)) and np.all(np.isfinite(self.upper))
        return math.inf if finite else self.base.tail_index

    def column_log_density(self, y: Array, i: int) -> Array:
        low, high = self.column_support(i)
        mass = self.base.cumulative(high, i) - self.base.cumulative(low, i)
        inside = self.base.column_log_density(y, i) - math.log(mass)
        return namespace_of(y).where((y >= low) & (y <= high), inside, -np.inf)

    def column_gradient(self, y: Array, i: int) -> Array:
        return self.base.column_gradient(y, i)

    def column_sample(self, n: int, i: int, rng: np.random.Generator) -> Array:
        low, high = self.column_support(i)
        draws = np.empty(0)
        while len(draws) < n:
            fresh = self.base.column_sample(2 * n, i, rng)
            draws = np.append(draws, fresh[(fresh >= low) & (fresh <= high)])
        return draws[:n]

    def column_support(self, i: int) -> tuple[float, float]:
        return per_column(self.lower, i), per_column(self.upper, i)

    def column_range(self, i: int) -> tuple[float, float]:
        (low, high), (inner_low, inner_high) = (
            self.column_support(i),
            self.base.column_range(i),
        )
        return max(low, inner_low), min(high, inner_high)

    def prepared(self, training: TrainingResponses) -> BaseDensity:
        self.base.prepared(training)  # it is fixed; this checks its parameters
        low, high = _in_kernel_units(self.lower, self.upper, training)
        for i, (a, b) in enumerate(zip(low, high, strict=True)):
            if self.base.cumulative(b, i) - self.base.cumulative(a, i) < 1e-6:
                raise DegenerateDataError(
                    f"TruncatedBase keeps less than 1e-6 of its inner density in "
                    f"column {i}; choose bounds nearer to the data or a wider base."
                )
        return replace(self, lower=low, upper=high)
