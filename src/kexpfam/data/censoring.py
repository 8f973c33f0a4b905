"""Censored responses: of some rows only an interval is known that holds y.

A row is right-censored if y is above what was recorded (a patient who is alive at the
end of a study), left-censored if it is below (less than a detection limit), and
interval-censored if it lies between two numbers. Whatever the user says becomes a lower
and an upper end for each row, which are equal where y was observed.
"""

from typing import Any

import numpy as np

from kexpfam._typing import Array
from kexpfam._validation import as_numbers

_SIDES = {"right": 1, "left": -1, "none": 0}


def response_limits(y: Any, censoring: Any) -> tuple[Array, Array]:
    """Lower and upper ends of the responses, (n,) each.

    Args:
        y: Recorded responses, (n,); None if `censoring` has both ends.
        censoring: For each row "right", "left" or "none"; or 1, -1 or 0; or True where
            it is right-censored; or both ends of each row, (n, 2), equal where y was
            observed, and infinite where there is none.

    Raises:
        ValueError: They do not fit together, or an interval is empty.

    Example:
        >>> lower, upper = response_limits([1.0, 2.0], ["none", "right"])
        >>> lower.tolist(), upper.tolist()
        ([1.0, 2.0], [1.0, inf])
        >>> response_limits(None, [[0.0, 1.0], [2.0, 2.0]])[1].tolist()
        [1.0, 2.0]
    """
    given = np.asarray(censoring)
    if given.ndim == 2:
        return _ends(y, as_numbers("censoring", censoring))
    values = as_numbers("y", y)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1 or given.shape != values.shape:
        raise ValueError(
            f"censoring must have one entry for each response of one column, or shape "
            f"(n, 2) with both ends; got shape {given.shape} for y of shape "
            f"{values.shape}."
        )
    if not np.isfinite(values).all():
        raise ValueError(
            "y must hold finite numbers; an open end is said by censoring."
        )
    sides = _sides(given)
    lower = np.where(sides < 0, -np.inf, values)
    return lower, np.where(sides > 0, np.inf, values)


def _sides(given: Any) -> Array:
    """1, −1 or 0 for each row."""
    if given.dtype.kind in "US" or given.dtype == object:
        words = [str(word) for word in given]
        for word in words:
            if word not in _SIDES:
                raise ValueError(
                    f"censoring must be 'right', 'left' or 'none' for each row, got "
                    f"{word!r}."
                )
        return np.array([_SIDES[word] for word in words], dtype=float)
    sides = given.astype(float)
    if not np.isin(sides, (-1.0, 0.0, 1.0)).all():
        wrong = sides[~np.isin(sides, (-1.0, 0.0, 1.0))][0]
        raise ValueError(
            f"censoring must be 1 (right), -1 (left) or 0 (none), got {wrong:g}; for "
            f"intervals give both ends, shape (n, 2)."
        )
    return sides


def _ends(y: Any, ends: Array) -> tuple[Array, Array]:
    if y is not None:
        raise ValueError(
            "y must be None where censoring has both ends of each row, shape (n, 2)."
        )
    if ends.shape[1] != 2 or np.isnan(ends).any():
        raise ValueError(
            f"censoring must be two ends for each row, shape (n, 2), without NaN; got "
            f"shape {ends.shape}."
        )
    lower, upper = ends[:, 0].copy(), ends[:, 1].copy()
    bad = (lower > upper) | (np.isinf(lower) & np.isinf(upper))
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise ValueError(
            f"censoring must have a lower end that is not above the upper one, and one "
            f"of them finite; got {lower[row]:g} and {upper[row]:g} in row {row}."
        )
    return lower, upper
