"""The one door for arrays from outside: cast, check, and name what is wrong."""

from typing import Any

import numpy as np

from kexpfam._typing import Array, ArrayLike, RandomState
from kexpfam.errors import DegenerateDataError


def as_generator(random_state: RandomState) -> np.random.Generator:
    """A Generator from a seed, a Generator, a RandomState or None.

    Example:
        >>> as_generator(0).integers(10) == as_generator(0).integers(10)
        True
    """
    if isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31))
    return np.random.default_rng(random_state)


def check_probability(name: str, values: Array) -> None:
    """Refuse anything that is not in [0, 1].

    Raises:
        ValueError: Some value is outside, or NaN.
    """
    wrong = ~((values >= 0) & (values <= 1))
    if np.any(wrong):
        raise ValueError(
            f"{name} must lie between 0 and 1, got "
            f"{float(np.asarray(values)[wrong][0])!r}."
        )


def check_positive(name: str, value: Any) -> float:
    """A positive, finite number.

    Raises:
        ValueError: It is not.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        raise ValueError(f"{name} must be a positive number, got {value!r}.")
    number = float(value)
    if not (np.isfinite(number) and number > 0):
        raise ValueError(f"{name} must be a positive number, got {value!r}.")
    return number


def check_weights(sample_weight: ArrayLike | None, n: int) -> Array:
    """Row weights as (n,); ones if there are none.

    Raises:
        ValueError: Wrong shape, negative, not finite, or all zero.
    """
    if sample_weight is None:
        return np.ones(n)
    weights = np.asarray(sample_weight, dtype=float)
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


def spread_of(name: str, Y: Array, weights: Array) -> tuple[Array, Array]:
    """Weighted mean and standard deviation of each column, safe at any scale.

    A column whose values differ only by rounding has spread zero.
    """
    # Divide by the largest magnitude first: squares of 1e160 overflow, and squares of
    # 1e-170 vanish.
    size = np.abs(Y).max(axis=0)
    size = np.where(size > 0, size, 1.0)
    scaled = Y / size
    share = weights / weights.sum()
    mean = share @ scaled
    deviation = np.sqrt(share @ (scaled - mean) ** 2)
    deviation = np.where(deviation > 1e-14, deviation, 0.0)
    if not np.all(np.isfinite(mean * size)):
        raise DegenerateDataError(
            f"{name} has values up to {np.abs(Y).max():.1e}, too large to average in "
            f"double precision; rescale it."
        )
    return mean * size, deviation * size
