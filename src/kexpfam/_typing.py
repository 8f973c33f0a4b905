"""Array aliases, the library of an array, and the shape vocabulary of every docstring.

Shapes are written with the same letters everywhere: n rows, p columns of the
condition x, d columns of the modelled y, m centres of an expansion, q query points
per row. Inside the library data are rank 2 even when a dimension is 1.

What evaluates densities at points (kernels, base densities, T) is written once for
NumPy and JAX: it looks up its functions in the namespace of its arrays.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]
Indices = NDArray[np.intp]
Mask = NDArray[np.bool_]
RandomState = int | np.random.Generator | np.random.RandomState | None

__all__ = [
    "Array",
    "ArrayLike",
    "Indices",
    "Mask",
    "RandomState",
    "namespace_of",
    "written",
]


def namespace_of(*arrays: Any) -> Any:
    """Where the functions of these arrays are: `numpy`, or `jax.numpy` for JAX's.

    Example:
        >>> namespace_of(np.zeros(3), 2.0) is np
        True
    """
    for array in arrays:
        # NumPy's arrays have the attribute only from version 2 on.
        if not isinstance(array, np.ndarray) and hasattr(array, "__array_namespace__"):
            return array.__array_namespace__()
    return np


def written(function: Callable[..., Any], *args: Any, out: Any) -> Any:
    """function(*args), in the memory of `out`; None for arrays that cannot be written.

    Example:
        >>> written(np.add, np.ones(2), 2.0, out=None)
        array([3., 3.])
    """
    return function(*args) if out is None else function(*args, out=out)
