"""Samples as the tests take them, and the kernel that they get by default.

Kernels act on the values as they are given. The default one therefore has one
lengthscale per column: the column's spread times the median distance between rows in
units of these spreads, so that no column counts more because of its units.
"""

from typing import Any

import numpy as np

from kexpfam._heuristics import median_distance, median_filler
from kexpfam._typing import Array
from kexpfam._validation import as_numbers, check_count, spread_of
from kexpfam.errors import DegenerateDataError
from kexpfam.kernels import Gaussian, Kernel


def as_samples(*, least: int, **samples: Any) -> list[Array]:
    """Samples of the same columns as arrays, (n, d).

    Args:
        least: Fewest rows that a sample may have.
        samples: The samples by the names of their arguments, (n,) or (n, d).

    Raises:
        ValueError: A sample is not a table of finite numbers, or has other columns.
        DegenerateDataError: A sample has too few rows.
    """
    arrays = [_as_sample(name, value, least) for name, value in samples.items()]
    names, columns = list(samples), [_column_names(s) for s in samples.values()]
    for name, array, own in zip(names, arrays, columns, strict=True):
        if array.shape[1] != arrays[0].shape[1]:
            raise ValueError(
                f"{name} has {array.shape[1]} columns, but {names[0]} has "
                f"{arrays[0].shape[1]}; give samples of the same variables."
            )
        if None not in (own, columns[0]) and own != columns[0]:
            raise ValueError(
                f"{name} has the columns {own}, but {names[0]} has {columns[0]}; give "
                f"the same columns in the same order."
            )
    return arrays


def thinned(sample: Array, most: int | None, rng: np.random.Generator) -> Array:
    """At most so many rows, drawn at random without replacement, in their order."""
    if most is None or len(sample) <= most:
        return sample
    return sample[np.sort(rng.choice(len(sample), size=most, replace=False))]


def check_most_rows(max_rows: int | None, least: int) -> None:
    """Refuse a `max_rows` that no test could use."""
    if max_rows is not None:
        check_count("max_rows", max_rows, least=least)


def kernel_for(kernel: Kernel | None, sample: Array) -> Kernel:
    """The kernel that was given, or the default for such a sample.

    Both do not depend on the order of the rows, which a permutation test needs.

    Raises:
        ValueError: The kernel is something else.
    """
    if kernel is not None and not isinstance(kernel, Kernel):
        raise ValueError(
            f"kernel must be a Kernel, such as kexpfam.kernels.Gaussian(1.0), or None, "
            f"got {kernel!r:.80}."
        )
    # The median is that of some rows of the sample, evenly spaced: sorted, these are
    # the same in whatever order the rows come.
    ordered = sample[np.lexsort(sample.T[::-1])]
    ones = np.ones(len(ordered))
    if kernel is not None:
        return kernel.map_lengthscales(median_filler(ordered, ones, 1.0))
    _, spread = spread_of("The sample", ordered, ones)
    # A constant column has no length of its own, and one is as good as another.
    spread = np.where(spread > 0, spread, 1.0)
    return Gaussian(tuple(median_distance(ordered / spread) * spread))


def _as_sample(name: str, value: Any, least: int) -> Array:
    array = as_numbers(name, value)
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2 or array.shape[1] == 0:
        raise ValueError(
            f"{name} must have rows and columns, shape (n,) or (n, d), got shape "
            f"{array.shape}."
        )
    if not np.all(np.isfinite(array)):
        raise ValueError(f"{name} contains NaN or infinity; remove these rows.")
    if len(array) < least:
        raise DegenerateDataError(
            f"{name} has {len(array)} rows, and this comparison needs at least {least}."
        )
    return array


def _column_names(sample: Any) -> list[str] | None:
    if not hasattr(sample, "columns"):
        return None
    names = list(sample.columns)
    return names if all(isinstance(name, str) for name in names) else None
