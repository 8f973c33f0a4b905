"""The one door for arrays from outside: cast, check, and name what is wrong."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from kexpfam._typing import Array, ArrayLike, RandomState
from kexpfam.errors import DegenerateDataError


def as_generator(random_state: RandomState) -> np.random.Generator:
    """A Generator from a seed, a Generator, a RandomState or None.

    Example:
        >>> bool(as_generator(0).integers(10) == as_generator(0).integers(10))
        True
    """
    if isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31))
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"random_state must be a seed from 0 on, a Generator, a RandomState or "
            f"None, got {random_state!r}."
        ) from error


def unmasked(value: Any) -> Any:
    """An array with NaN, or None, where it is masked; anything else as it is.

    NumPy and scikit-learn would take what is behind the mask.

    Example:
        >>> unmasked(np.ma.array([1, -999], mask=[False, True]))
        array([ 1., nan])
    """
    if not isinstance(value, np.ma.MaskedArray):
        return value
    numbers = value.dtype.kind in "buif"
    cells: Any = value.astype(float if numbers else object)
    return cells.filled(np.nan if numbers else None)


def as_numbers(name: str, value: Any) -> Array:
    """An array of floats; ValueError if the value is something else.

    Example:
        >>> as_numbers("y", [1, 2])
        array([1., 2.])
    """
    try:
        return np.asarray(unmasked(value), dtype=float)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{name} must be a number or an array of numbers, got {value!r:.80}."
        ) from error


@contextmanager
def naming_cells(**arrays: Any) -> Iterator[None]:
    """Say which cell is a text, or infinite, where a check refuses arrays or frames.

    Example:
        >>> with naming_cells(X=[["1", "a"]]):
        ...     np.asarray([["1", "a"]], dtype=float)
        Traceback (most recent call last):
        ...
        ValueError: X must hold numbers, got 'a' in column 1, row 0; ...
    """
    try:
        yield
    except ValueError as error:
        for name, values in arrays.items():
            _refuse_cells(name, values, error)
        raise


def _refuse_cells(name: str, values: Any, error: Exception) -> None:
    cells = np.asarray(values)
    if cells.ndim not in (1, 2) or cells.dtype.kind not in "fOU":
        return
    if cells.dtype.kind != "f":
        for index, cell in np.ndenumerate(cells):
            if isinstance(cell, str) and not _is_number(cell):
                raise ValueError(
                    f"{name} must hold numbers, got {str(cell)!r:.60} in "
                    f"{_place_of(values, index)}; pass numbers, or for conditions a "
                    f"frame of pandas or Polars, whose texts are categories."
                ) from error
    try:
        infinite = np.isinf(cells.astype(float))
    except TypeError:  # something else is wrong
        return
    if infinite.any():
        raise ValueError(
            f"Input {name} contains infinity in "
            f"{_place_of(values, np.argwhere(infinite)[0])}, which is no observation; "
            f"leave such rows out."
        ) from error


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _place_of(values: Any, index: Sequence[int]) -> str:
    """Column and row, from zero, in words."""
    if len(index) == 1:
        return f"row {index[0]}"
    names = getattr(values, "columns", range(index[1] + 1))
    names = getattr(values, "column_names", names)  # of Arrow, whose columns are cells
    column = list(names)[index[1]]
    return f"column {column!r}, row {index[0]}"


def check_probability(name: str, values: Any) -> None:
    """Refuse anything that is not in [0, 1]."""
    values = as_numbers(name, values)
    wrong = ~((values >= 0) & (values <= 1))
    if np.any(wrong):
        raise ValueError(
            f"{name} must lie between 0 and 1, got "
            f"{float(np.asarray(values)[wrong][0])!r}."
        )


def check_levels(name: str, values: Any) -> Array:
    """Probabilities as a number or a flat array; ValueError if they are not.

    Example:
        >>> check_levels("levels", [0.1, 0.5])
        array([0.1, 0.5])
    """
    levels = as_numbers(name, values)
    check_probability(name, levels)
    if levels.ndim > 1:
        raise ValueError(
            f"{name} must be a number or a flat list, got shape {levels.shape}."
        )
    return levels


def check_confidence(value: Any, name: str = "confidence") -> float:
    """One probability; ValueError if it is something else."""
    check_probability(name, value)
    if np.ndim(value) != 0 or value is None:
        raise ValueError(f"{name} must be one number, got {value!r}.")
    return float(value)


def check_count(name: str, value: Any, *, least: int = 0) -> int:
    """A whole number that is not less than `least`; ValueError if it is another."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if whole and value >= least:
        return int(value)
    raise ValueError(f"{name} must be a whole number from {least} on, got {value!r}.")


def check_positive(name: str, value: Any, *, finite: bool = True) -> float:
    """A positive number, and a finite one unless told otherwise; else ValueError."""
    if isinstance(value, int | float | np.number) and not isinstance(value, bool):
        number = float(value)
        if number > 0 and (np.isfinite(number) or not finite):
            return number
    raise ValueError(f"{name} must be a positive number, got {value!r}.")


def check_share(name: str, value: Any, hint: str = "") -> float:
    """A number strictly between 0 and 1; else ValueError, with a hint what to try."""
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if number and 0.0 < value < 1.0:
        return float(value)
    hint = f"; {hint}" if hint else ""
    raise ValueError(f"{name} must lie between 0 and 1, got {value!r}{hint}.")


def check_weights(sample_weight: ArrayLike | None, n: int) -> Array:
    """Row weights as (n,), checked; ones if there are none."""
    if sample_weight is None:
        return np.ones(n)
    weights = as_numbers("sample_weight", sample_weight)
    if weights.ndim == 0:
        weights = np.full(n, float(weights))
    if weights.shape != (n,):
        raise ValueError(
            f"sample_weight must have shape ({n},), one weight per row, got "
            f"{weights.shape}."
        )
    if not np.all(np.isfinite(weights)) or weights.min() < 0 or weights.max() == 0:
        raise ValueError(
            "sample_weight must be finite, not negative, and not zero everywhere; got "
            f"values from {weights.min():g} to {weights.max():g}."
        )
    return weights


def mean_and_std(name: str, Y: Array, weights: Array) -> tuple[Array, Array]:
    """Weighted mean and standard deviation of each column, safe at any scale.

    A column whose values differ only by rounding has standard deviation zero.
    """
    # Divide by the largest magnitude first: squares of 1e160 overflow, and squares of
    # 1e-170 vanish.
    size = np.abs(Y).max(axis=0)
    size = np.where(size > 0, size, 1.0)
    scaled = Y / size
    share = weights / weights.sum()
    mean = share @ scaled
    std = np.sqrt(share @ (scaled - mean) ** 2)
    std = np.where(std > 1e-14, std, 0.0)
    if not np.all(np.isfinite(mean * size)):
        raise DegenerateDataError(
            f"{name} has values up to {np.abs(Y).max():.1e}, too large to average in "
            f"double precision; rescale it."
        )
    return mean * size, std * size


def check_range(name: str, values: Array) -> None:
    """Refuse columns (n, k) so large, or so close together, that doubles end there.

    Transforms and regressions multiply a few of them; what has no bounds like these is
    standardised and no more.

    Example:
        >>> check_range("y", np.array([[1e-310], [2e-310]]))
        Traceback (most recent call last):
        ...
        kexpfam.errors.DegenerateDataError: y has values from 1e-310 to 2e-310, where...
    """
    low, high = values.min(axis=0, initial=np.inf), values.max(axis=0, initial=-np.inf)
    with np.errstate(over="ignore"):
        width = high - low
    bad = (np.maximum(-low, high) > 1e300) | ((width > 0) & (width < 1e-300))
    if np.any(bad):
        j = int(np.argmax(bad))
        raise DegenerateDataError(
            f"{name} has values from {low[j]:g} to {high[j]:g}, where double precision "
            f"ends; rescale it, so that they differ by more than 1e-300 and are below "
            f"1e300."
        )


def check_flag(name: str, value: object) -> bool:
    """True or False; ValueError if it is something else."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} must be True or False, got {value!r}.")
    return bool(value)


def check_choice(name: str, value: Any, known: Iterable[str | None]) -> None:
    """Refuse what is none of the words known, of which one may be None.

    Example:
        >>> check_choice("solver", "fast", ("exact", "low-rank", None))
        Traceback (most recent call last):
        ...
        ValueError: solver must be one of 'exact', 'low-rank', or None, got 'fast'.
    """
    known = tuple(known)
    if value not in known:
        words = ", ".join(repr(word) for word in known if word is not None)
        ending = ", or None" if None in known else ""
        raise ValueError(f"{name} must be one of {words}{ending}, got {value!r}.")
