"""Held-out residuals brought to mean zero and unit deviation."""

from dataclasses import dataclass

import numpy as np

from kexpfam._typing import Array

# A regression that interpolates even held-out rows leaves rounding errors only.
_SMALLEST_UNIT = 1e-12


@dataclass(frozen=True, eq=False)
class StandardResiduals:
    """Held-out residuals in units of their own deviation.

    Attributes:
        values: Mean zero and unit deviation, (n, d).
        log_scale: Held-out log scale, the unit included, (n, d).
        center: Mean of the residuals before, (d,).
        unit: Their deviation, (d,).
    """

    values: Array
    log_scale: Array
    center: Array
    unit: Array


def standard_residuals(
    Y: Array, location: Array, log_scale: Array, weights: Array
) -> StandardResiduals:
    """Residuals of held-out locations and log scales, standardised.

    Args:
        Y: Responses, (n, d).
        location: Held-out locations, (n, d).
        log_scale: Held-out log scales, (n, d).
        weights: Row weights, (n,).

    Example:
        >>> import numpy as np
        >>> Y, zeros = np.array([[1.0], [5.0]]), np.zeros((2, 1))
        >>> part = standard_residuals(Y, zeros, zeros, np.ones(2))
        >>> part.values[:, 0], part.center, part.unit
        (array([-1.,  1.]), array([3.]), array([2.]))
    """
    raw = (Y - location) * np.exp(-log_scale)
    center = np.average(raw, axis=0, weights=weights)
    unit = np.sqrt(np.average((raw - center) ** 2, axis=0, weights=weights))
    unit = np.maximum(unit, _SMALLEST_UNIT)
    return StandardResiduals(
        (raw - center) / unit, log_scale + np.log(unit), center, unit
    )
