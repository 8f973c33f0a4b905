"""Array aliases and the shape vocabulary used in every docstring.

Shapes are written with the same letters everywhere: n rows, p columns of the
condition x, d columns of the modelled y, m centres of an expansion, q query points
per row. Inside the library data are rank 2 even when a dimension is 1.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]
Indices = NDArray[np.intp]
Mask = NDArray[np.bool_]
RandomState = int | np.random.Generator | np.random.RandomState | None

__all__ = ["Array", "ArrayLike", "Indices", "Mask", "RandomState", "has_values"]


def has_values(array: object) -> bool:
    """Whether it is an array of NumPy's own, whose values code may branch on.

    Others stand for arrays of a library that runs NumPy code before values are known
    (`kexpfam.sampling.tracing`).
    """
    return isinstance(array, np.ndarray)
