"""NumPy code, run by JAX.

Kernels and base densities are written once, in NumPy. To run them compiled, their
arrays are replaced by `Traced`, which stands for an array of JAX and hands on what
NumPy is asked to do with it: NumPy's own rules for foreign arrays (`__array_ufunc__`,
`__array_function__`) see to that. Arrays of JAX cannot be written to, so where NumPy
code writes in place the stand-in takes on a new value. Slices are copies: code that
writes through a view of another array does not work here, and none of ours does.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from kexpfam.sampling.optional import needed


class Traced(NDArrayOperatorsMixin):
    """Stands for an array of JAX where NumPy code expects one of NumPy.

    Attributes:
        value: The array of JAX; None if nothing was written to it yet.
        shape: Its shape.

    Example:
        >>> np.sqrt(Traced([1.0, 4.0])).value.tolist()
        [1.0, 2.0]
    """

    def __init__(self, value: Any, shape: tuple[int, ...] | None = None) -> None:
        """Wrap a value; None is a place of the given shape that will be written to."""
        self.value: Any = value
        if value is not None:
            self.value = needed("jax.numpy").asarray(value)
        self.shape = tuple(self.value.shape) if shape is None else shape

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of entries."""
        return int(np.prod(self.shape, dtype=int))

    @property
    def dtype(self) -> Any:
        """Type of the entries."""
        return self.value.dtype

    @property
    def T(self) -> "Traced":
        """The transpose."""
        return Traced(self.value.T)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: Any) -> "Traced":
        return Traced(self.value[_bare(index)])

    def __setitem__(self, index: Any, value: Any) -> None:
        jnp = needed("jax.numpy")
        if index is Ellipsis:
            self.value = jnp.broadcast_to(_bare(value), self.shape).astype(float)
            return
        old = jnp.zeros(self.shape) if self.value is None else self.value
        self.value = old.at[_bare(index)].set(_bare(value))

    def __array_ufunc__(
        self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **kwargs: Any
    ) -> Any:
        function = getattr(needed("jax.numpy"), ufunc.__name__, None)
        if method != "__call__" or function is None or kwargs:
            return NotImplemented
        return _written(function(*_bare(inputs)), out)

    def __array_function__(
        self, func: Callable[..., Any], types: Any, args: Any, kwargs: Any
    ) -> Any:
        function = getattr(needed("jax.numpy"), func.__name__, None)
        if function is None:
            return NotImplemented
        out = kwargs.get("out")
        options = {name: v for name, v in kwargs.items() if name != "out"}
        result = function(*_bare(args), **_bare(options))
        return _written(result, None if out is None else (out,))

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError("the entries of an array that is being traced are not known.")

    def __bool__(self) -> bool:
        raise TypeError("whether a traced array is true is not known yet.")

    __float__ = __int__ = __index__ = __array__

    def reshape(self, *shape: Any) -> "Traced":
        """The entries in another shape."""
        return Traced(self.value.reshape(*shape))

    def astype(self, dtype: Any) -> "Traced":
        """The entries in another type."""
        return Traced(self.value.astype(dtype))

    def copy(self) -> "Traced":
        """Another stand-in for the same value."""
        return Traced(self.value)

    def sum(self, **kwargs: Any) -> "Traced":
        """Sum over axes."""
        return Traced(self.value.sum(**kwargs))

    def mean(self, **kwargs: Any) -> "Traced":
        """Mean over axes."""
        return Traced(self.value.mean(**kwargs))

    def max(self, **kwargs: Any) -> "Traced":
        """Largest entry over axes."""
        return Traced(self.value.max(**kwargs))

    def min(self, **kwargs: Any) -> "Traced":
        """Smallest entry over axes."""
        return Traced(self.value.min(**kwargs))


def traced_empty(shape: tuple[int, int]) -> Any:
    """A place for a result, as `np.empty` gives one."""
    return Traced(None, tuple(shape))


def bare(value: Any) -> Any:
    """The array of JAX that a stand-in stands for; other things are left as they are.

    Example:
        >>> bare(2.0)
        2.0
    """
    return value.value if isinstance(value, Traced) else value


def _bare(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return type(value)(_bare(part) for part in value)
    if isinstance(value, dict):
        return {name: _bare(part) for name, part in value.items()}
    return bare(value)


def _written(result: Any, out: Any) -> Any:
    """The result as a stand-in: that of `out`, if NumPy code said where to write."""
    if not out or out[0] is None:
        return Traced(result)
    (place,) = out
    if not isinstance(place, Traced):
        raise TypeError("a traced result cannot be written to an array of NumPy.")
    place.value = needed("jax.numpy").broadcast_to(result, place.shape)
    return place
