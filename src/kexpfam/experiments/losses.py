"""What is kept of the log densities of test rows."""

import numpy as np
from numpy.typing import NDArray

from kexpfam.experiments.task import Figures

# A factor of a test row costs at most so many nats where a density can vanish.
FLOOR = -20.0


def losses(log_factors: NDArray[np.float64], *, vanishing: bool) -> Figures:
    """Means and extremes of negative log densities.

    Args:
        log_factors: Log density of each factor of each test row, (n, d); one column if
            there is only one.
        vanishing: Whether densities of the method can be zero, as those of LSCDE: then
            each factor costs at most 20 nats.

    Raises:
        ValueError: A log density is not a number.

    Example:
        >>> losses(np.array([[-1.0], [-30.0]]), vanishing=True)["nll"]
        10.5
    """
    if np.any(np.isnan(log_factors)):
        raise ValueError(f"{np.isnan(log_factors).sum()} log densities are not numbers")
    floored = np.maximum(log_factors, FLOOR)
    judged = (floored if vanishing else log_factors).sum(axis=1)
    return {
        "nll": round(-float(judged.mean()), 6),
        "nll_floored": round(-float(floored.sum(axis=1).mean()), 6),
        "below_floor": int(np.sum(log_factors < FLOOR)),
        "worst": round(-float(judged.min()), 3),
    }
