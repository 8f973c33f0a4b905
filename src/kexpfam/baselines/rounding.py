"""Rounded responses, whose ties reward densities of no width."""

import math

import numpy as np

from kexpfam._typing import Array


def rounding_scales(U: Array) -> Array:
    """The deviation that rounding alone gives each column, (d,).

    A column with ties was rounded to steps of some size h, taken as the median distance
    of neighbouring values: the truth is anywhere in an interval of that length, whose
    deviation is h/√12. Narrower components would only find the grid.

    Example:
        >>> import numpy as np
        >>> U = np.array([[0.0, 0.1], [0.5, 0.2], [0.5, 0.4], [1.0, 0.8]])
        >>> rounding_scales(U).round(3)
        array([0.144, 0.   ])
    """
    steps = np.zeros(U.shape[1])
    for j, column in enumerate(U.T):
        values = np.unique(column)
        if 1 < len(values) < len(column):
            steps[j] = np.median(np.diff(values))
    return steps / math.sqrt(12.0)
