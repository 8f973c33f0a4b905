"""Integrals of many functions at once, each on its own panels.

As in `partition.panels` a panel has sixteen Gauss-Legendre nodes and is halved while
its last two Legendre coefficients are too large. There all rows share their panels;
here the functions live at different places and scales, so every row has its own, and
rows with fewer panels are filled up with empty ones.
"""

import warnings
from collections.abc import Callable

import numpy as np

from kexpfam._typing import Array, Mask
from kexpfam.errors import AccuracyWarning
from kexpfam.partition.panels import panel_rule

# A panel is halved while its error exceeds this share of the integral. The estimate is
# that of the polynomial, whose integral is far more accurate.
TOLERANCE = 1e-9

# A remaining error above this share is worth a warning.
_WORST_ERROR = 1e-6

# A jump is found to 2⁻⁴⁵ of its panel, better than the tolerance; smooth functions
# need two or three rounds.
_ROUNDS = 45

# Panels of one row that may be halved in a round: more means noise, not features.
_MOST_HALVED = 128

# Functions of n rows at each row's own points, (n, q) -> (n, q)
RowFunction = Callable[[Array], Array]

# Error that the coefficients do not show: left and right ends (n, k), values at the
# nodes (n, k, 16) and the integrals so far (n, 1) -> (n, k)
Doubt = Callable[[Array, Array, Array, Array], Array]


def integrate_rows(
    function: RowFunction, edges: Array, doubt: Doubt | None = None
) -> Array:
    """Integrals from the first to the last edge of each row.

    Args:
        function: What to integrate, not negative.
        edges: Panels to begin with, (n, k + 1), not decreasing.
        doubt: Further reasons to halve a panel; None for none.

    Returns:
        Integrals, (n,), to a relative error of about 1e-9 if the function is smooth
        between a finite number of jumps.

    Example:
        >>> edges = np.array([[0.0, 1.0, 2.0], [0.0, 1.0, 3.0]])
        >>> integrate_rows(lambda t: t**2, edges).round(6)
        array([2.666667, 9.      ])
    """
    rule = panel_rule()
    left, right = edges[:, :-1], edges[:, 1:]
    settled, remaining = np.zeros(len(edges)), np.zeros(len(edges))
    for step in range(_ROUNDS):
        half = 0.5 * (right - left)
        nodes = (left + half)[..., None] + half[..., None] * rule.nodes
        values = function(nodes.reshape(len(edges), -1)).reshape(nodes.shape)
        part = half * (values @ rule.weights)
        error = 2 * half * np.abs(values @ rule.coefficients[:, -2:]).sum(axis=-1)
        total = settled + part.sum(axis=1)
        if doubt is not None:
            error = np.maximum(error, doubt(left, right, values, total[:, None]))
        split = error > TOLERANCE * total[:, None]
        # No double lies between the ends of a panel that is narrower.
        split &= half > 1e-15 * np.maximum(np.abs(left), np.abs(right))
        split &= split.sum(axis=1, keepdims=True) <= _MOST_HALVED
        split &= step < _ROUNDS - 1
        settled += np.where(split, 0.0, part).sum(axis=1)
        remaining += np.where(split, 0.0, error).sum(axis=1)
        if not split.any():
            break
        left, right = _halved(left, right, split)
    _warn_if_rough(remaining, settled)
    return settled


def _halved(left: Array, right: Array, split: Mask) -> tuple[Array, Array]:
    """Both halves of the panels to split, filled up with empty ones, (n, 2m)."""
    most = int(split.sum(axis=1).max())
    chosen = np.argsort(~split, axis=1, kind="stable")[:, :most]
    left = np.take_along_axis(left, chosen, axis=1)
    right = np.take_along_axis(right, chosen, axis=1)
    empty = ~np.take_along_axis(split, chosen, axis=1)
    right = np.where(empty, left, right)
    middle = left + 0.5 * (right - left)
    return np.hstack([left, middle]), np.hstack([middle, right])


def _warn_if_rough(error: Array, total: Array) -> None:
    rough = error > _WORST_ERROR * total
    if np.any(rough):
        worst = np.max(error[rough] / total[rough])
        warnings.warn(
            f"A score is known to a relative error of {worst:.0e} only for "
            f"{int(rough.sum())} of {len(total)} rows: the densities there are too "
            f"rough, or pdf and cdf do not agree.",
            AccuracyWarning,
            stacklevel=4,
        )
