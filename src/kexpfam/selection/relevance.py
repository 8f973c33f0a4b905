"""Which columns of x matter, and over what distance, found one after another.

A Gaussian process knows over what distances the mean of y changes. Where the shape of
p(y|x) changes and the mean does not, or where few of many columns matter, that is a bad
metric, and so is the same length for all columns: distances are then made of columns
that say nothing. Here columns are taken up in the order in which they help a family of
densities, each with the best of a few lengths, until none helps any more.
"""

from collections.abc import Callable

import numpy as np

from kexpfam._typing import Array
from kexpfam.kernels import Constant, Gaussian, Kernel, separable
from kexpfam.selection import HeldOutProblem, Line, tilted

# Length of a column that does not count, in units of its own: distances along it are
# nothing beside those of others.
IGNORED = 1e4

# Lengths that are tried for a column, in its median distances.
MULTIPLES = (0.25, 0.6, 1.5)

# With this lengthscale of y, in deviations, these values of λ·ℓ_y², and so many
# centres: enough to tell columns apart.
LENGTHSCALE_Y = 0.8
RELATIVE_LAMS = (1e-3, 1e-2, 1e-1)
CENTERS = 75

# Multiples of the lengths found that compete with other kernels.
RELEVANT_MULTIPLES = (0.6, 1.0, 1.7)

# Columns that are taken up, at most. Each must gain so many nats in total, and the
# logarithm of the number of trials more: among many, the best of noise gains as much.
MOST_COLUMNS = 5
LEAST_GAIN = 3.0


def relevant_lengthscales(
    worth: Callable[[Array], float], units: Array
) -> Array | None:
    """Lengths of the columns of x, large for those that do not help; None if none does.

    `worth` is the total held-out log density with some lengths, and `units` are typical
    distances along each column, (p,).

    Example:
        >>> target = np.array([IGNORED, 0.5])
        >>> found = relevant_lengthscales(
        ...     lambda lengths: -10 * np.abs(np.log(lengths / target)).sum(), np.ones(2)
        ... )
        >>> found.tolist()
        [10000.0, 0.6]
    """
    lengths = IGNORED * units
    best = worth(lengths)
    left = list(range(len(units)))
    taken = 0
    while left and taken < MOST_COLUMNS:
        trials = [
            (column, _with(lengths, column, multiple * units[column], taken))
            for column in left
            for multiple in MULTIPLES
        ]
        gains = [worth(trial) for _, trial in trials]
        first = int(np.argmax(gains))
        if not gains[first] > best + LEAST_GAIN + np.log(len(trials)):
            break
        best = gains[first]
        column, lengths = trials[first]
        left.remove(column)
        taken += 1
    return lengths if taken else None


def held_out_worth(
    problem: HeldOutProblem, log_abs_det_jacobian: Array, weights: Array, units: Array
) -> Callable[[Array], float]:
    """Total held-out log density as a function of the lengths of the columns of x."""
    y = Gaussian(LENGTHSCALE_Y)
    lams = tuple(relative / LENGTHSCALE_Y**2 for relative in RELATIVE_LAMS)

    def worth(lengths: Array) -> float:
        everywhere = bool(np.all(lengths >= IGNORED * units))
        x: Kernel = Constant() if everywhere else Gaussian(tuple(lengths.tolist()))
        fits = tilted("", problem, log_abs_det_jacobian, [Line(separable(x, y), lams)])
        return max(float(fit.held_out @ weights) for fit in fits)

    return worth


def _with(lengths: Array, column: int, length: float, taken: int) -> Array:
    """One more column; the more there are, the longer distances are."""
    trial = lengths.copy()
    trial[column] = length * np.sqrt(1 + taken)
    return trial
