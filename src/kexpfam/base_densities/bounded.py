"""Base densities on bounded and half-bounded supports, and the weights they need.

Bounds are facts about the user's variable, so they are given in the user's units,
unlike every other base parameter. Integration by parts, on which score matching rests,
leaves a term at the edge of a bounded support; weighting the objective by a function
g that vanishes there removes it (Hyvärinen 2007; Yu, Drton and Shojaie 2019).
"""

import math
from dataclasses import dataclass, field, replace

import numpy as np

from kexpfam._typing import Array, Indices, namespace_of
from kexpfam.base_densities.fixed import GaussianBase, LocationScaleDensity
from kexpfam.base_densities.interface import BaseDensity, ToKernel
from kexpfam.base_densities.parameters import (
    PerColumn,
    as_parameter,
    per_column,
    require_columns,
)
from kexpfam.errors import DegenerateDataError
from kexpfam.persistence import saved_value


def boundary_weights(
    Y: Array,  # Rows inside the support, (n, d)
    support: Array,  # Ends of each column's support, (d, 2)
    std: Array,  # A typical width of each column, (d,)
    # How far from an edge g has risen to 1 − 1/e, in these widths. A guess: short
    # against the data, long against their usual spacing.
    edge_width: float = 0.5,
) -> tuple[Array, Array]:
    """g_i and g_i′ at each row, (n, d) each: theory (12), g = Π (1 − e^(−t/τ))."""
    g, slope = np.ones_like(Y), np.zeros_like(Y)
    tau = edge_width * np.minimum(std, 0.5 * (support[:, 1] - support[:, 0]))
    for side, sign in ((0, 1.0), (1, -1.0)):
        bounded = np.isfinite(support[:, side])
        edge = np.where(bounded, support[:, side], 0.0)
        t = np.maximum(sign * (Y - edge) / tau, 0.0)
        factor = np.where(bounded, -np.expm1(-t), 1.0)
        factor_slope = np.where(bounded, sign * np.exp(-t) / tau, 0.0)
        g, slope = g * factor, slope * factor + g * factor_slope
    return g, slope


def _bounds(lower: object, upper: object) -> tuple[PerColumn, PerColumn]:
    low = as_parameter("lower", lower, finite=False)
    high = as_parameter("upper", upper, finite=False)
    if not np.all(np.asarray(low) < np.asarray(high)):
        raise ValueError(
            f"lower must be below upper in every column, got lower={lower!r} and "
            f"upper={upper!r}."
        )
    return low, high


def _in_kernel_units(
    lower: PerColumn, upper: PerColumn, d: int, to_kernel: ToKernel
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Bounds of d columns in the coordinates of the kernel."""
    require_columns(d, lower=lower, upper=upper)
    low = to_kernel(np.broadcast_to(lower, d))
    high = to_kernel(np.broadcast_to(upper, d))
    return tuple(low.tolist()), tuple(high.tolist())


def require_inside(
    U: Array,  # Responses in the coordinates of the kernel, (n, d)
    support: Array,  # Support of each column in these coordinates, (d, 2)
    Y: Array,  # The same responses in the user's units, (n, d)
    bounds: Array,  # Support of each column in these units, (d, 2)
    *,
    row_numbers: Indices | None = None,  # Where the user finds the rows, (n,)
    name: str = "y",  # What the user calls the responses
) -> None:
    """Refuse responses outside the support of a base density.

    Bounds and responses get into the coordinates of the kernel by the same formula, so
    a row on the edge stays on it.
    """
    outside = (support[:, 0] > U) | (support[:, 1] < U)
    if not outside.any():
        return
    numbers = np.arange(len(Y)) if row_numbers is None else row_numbers
    rows = np.flatnonzero(outside.any(axis=1))
    row = int(rows[np.argmin(numbers[rows])])  # the first that the user finds
    column = int(np.argmax(outside[row]))
    low, high = bounds[column].tolist()
    raise DegenerateDataError(
        f"{name} has {len(rows)} rows outside the support of the base density, "
        f"[{low}, {high}]; row {int(numbers[row])} is {Y[row, column]:g}. Widen the "
        f"bounds or remove the rows."
    )


@saved_value
@dataclass(frozen=True)
class UniformBase(BaseDensity):
    """The uniform density on [lower, upper], bounds in the user's units of y.

    Example:
        >>> import numpy as np
        >>> UniformBase(0.0, 4.0).log_density(np.array([[1.0], [5.0]])).round(4)
        array([-1.3863,    -inf])
    """

    lower: PerColumn
    upper: PerColumn

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

    def prepared(
        self, U: Array, weights: Array, to_kernel: ToKernel = np.asarray
    ) -> BaseDensity:
        low, high = _in_kernel_units(self.lower, self.upper, U.shape[1], to_kernel)
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
    lower: PerColumn = -math.inf
    upper: PerColumn = math.inf

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
        inside = self.base.column_log_density(y, i) - math.log(self._mass(i))
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
        low, high = self.column_support(i)
        inner_low, inner_high = self.base.column_range(i)
        return max(low, inner_low), min(high, inner_high)

    def prepared(
        self, U: Array, weights: Array, to_kernel: ToKernel = np.asarray
    ) -> BaseDensity:
        self.base.prepared(U, weights)  # it is fixed; this checks its parameters
        low, high = _in_kernel_units(self.lower, self.upper, U.shape[1], to_kernel)
        cut = replace(self, lower=low, upper=high)
        for i in range(len(low)):
            if cut._mass(i) < 1e-6:
                raise DegenerateDataError(
                    f"TruncatedBase keeps less than 1e-6 of its inner density in "
                    f"column {i}; choose bounds nearer to the data or a wider base."
                )
        return cut

    def _mass(self, i: int) -> float:
        """What the bounds leave of column i of the inner density."""
        low, high = self.base.column_cdf(np.array(self.column_support(i)), i)
        return float(high - low)
