"""Parameters of base densities and transforms, given once or per column."""

import numpy as np

from kexpfam._validation import as_numbers

# One value for all columns, or one per column.
PerColumn = float | tuple[float, ...]


def per_column(value: PerColumn, i: int) -> float:
    """Entry i of a parameter given once or per column."""
    return value[i] if isinstance(value, tuple) else value


def require_columns(d: int, **parameters: PerColumn) -> None:
    """Refuse parameters given per column for another number of columns than d."""
    for name, value in parameters.items():
        if isinstance(value, tuple) and len(value) != d:
            raise ValueError(
                f"{name} of the base density has {len(value)} values, but y has {d} "
                f"column(s); give one number, or one per column."
            )


def as_parameter(
    name: str, value: object, *, positive: bool = False, finite: bool = True
) -> PerColumn:
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
    # Widths beyond these have squares or tails that a double cannot hold.
    narrowest, widest = 1e-50, 1e50
    if positive and not np.all((array > narrowest) & (array < widest)):
        if np.all(array > 0):
            message = (
                f"{name} must lie between {narrowest} and {widest}, got {value!r}."
            )
        raise ValueError(message)
    return float(array) if array.ndim == 0 else tuple(array.tolist())
