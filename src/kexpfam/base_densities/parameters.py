"""Parameters of base densities and transforms, given once or per column."""

import numpy as np

from kexpfam._validation import as_numbers

# Widths beyond these have squares or tails that a double cannot hold.
_NARROWEST, _WIDEST = 1e-50, 1e50


def per_column(value: float | tuple[float, ...], i: int) -> float:
    """Entry i of a parameter given once or per column."""
    return value[i] if isinstance(value, tuple) else value


def require_columns(d: int, **parameters: float | tuple[float, ...]) -> None:
    """Refuse parameters given per column for another number of columns.

    Raises:
        ValueError: Some parameter has not one value and not d of them.
    """
    for name, value in parameters.items():
        if isinstance(value, tuple) and len(value) != d:
            raise ValueError(
                f"{name} of the base density has {len(value)} values, but y has {d} "
                f"column(s); give one number, or one per column."
            )


def as_parameter(
    name: str, value: object, *, positive: bool = False, finite: bool = True
) -> float | tuple[float, ...]:
    """A parameter given once or per column, checked and made hashable."""
    kind = "a positive number" if positive else "a number"
    message = f"{name} must be {kind}, or one per column, got {value!r}."
    try:
        array = as_numbers(name, value)
    except ValueError as error:
        raise ValueError(message) from error
    bad = array.ndim > 1 or not array.size or np.any(np.isnan(array))
    if bad or (finite and not np.all(np.isfinite(array))):
        raise ValueError(message)
    if positive and not np.all((array > _NARROWEST) & (array < _WIDEST)):
        if np.all(array > 0):
            message = (
                f"{name} must lie between {_NARROWEST} and {_WIDEST}, got {value!r}."
            )
        raise ValueError(message)
    return float(array) if array.ndim == 0 else tuple(array.tolist())
