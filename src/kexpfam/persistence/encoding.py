"""Trees of frozen dataclasses to and from JSON and named arrays.

Numbers, strings, tuples and mappings become JSON, an object its class name and fields,
an array a reference to an entry of its own, named after its place, such as
`family.T.zeroth`.
Objects of some classes are kept in a list and referred to, so that two families in the
same coordinates share them in the file and after loading.

A reader makes objects of registered classes only, and each is checked when it is made.
"""

import hashlib
import math
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from kexpfam._typing import Array
from kexpfam.errors import CannotSaveError
from kexpfam.persistence.registry import COMPACT, Kind, kind_named, kind_of, made


class Encoder:
    """Collects the arrays and shared objects of what it encodes."""

    def __init__(self) -> None:
        self.arrays: dict[str, Array] = {}
        self.objects: list[Any] = []
        # By id, and held: another object could get the id of one that is gone.
        self._shared: dict[int, tuple[int, Any]] = {}
        self._names: dict[tuple[str, tuple[int, ...], bytes], str] = {}  # by content

    def encode(self, value: Any, place: str = "") -> Any:
        """JSON for a value that is found at some place in the model."""
        kind = kind_of(value)
        if kind is not None:
            return self._object(value, kind, place)
        if isinstance(value, np.ndarray):
            return self._array(value, place)
        if isinstance(value, dict) and all(isinstance(key, str) for key in value):
            pairs = [[key, self.encode(part)] for key, part in value.items()]
            return {"class": "dict", "items": pairs}
        if isinstance(value, tuple | list):
            return [self.encode(item, f"{place}.{i}") for i, item in enumerate(value)]
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, float) and not math.isfinite(value):
            return {"class": "float", "value": str(value)}
        if value is None or isinstance(value, bool | int | float | str):
            return value
        raise CannotSaveError(
            f"{value!r} cannot be saved: only the kernels and base densities that come "
            f"with kexpfam have a file representation."
        )

    def _object(self, value: Any, kind: Kind, place: str) -> Any:
        if id(value) in self._shared:
            return {"object": self._shared[id(value)][0]}
        parts: dict[str, Any] = {"class": kind.name}
        for name, stored in kind.stored.items():
            part = getattr(value, name)
            if part is None and "optional" in kind.said(name).flags:
                continue
            if kind.declared is None and isinstance(part, np.ndarray):
                part = part.tolist()
            inner = f"{place}.{stored}" if place else stored
            if isinstance(part, np.ndarray) and kind.said(name).types:
                parts[stored] = self._array(part, inner, part.dtype)
            else:
                parts[stored] = self.encode(part, inner)
        if not kind.shared:
            return parts
        # Its parts came first in the list, so that references go back only.
        self._shared[id(value)] = len(self.objects), value
        self.objects.append(parts)
        return {"object": len(self.objects) - 1}

    def _array(self, array: Array, place: str, dtype: DTypeLike = np.float64) -> Any:
        array = np.ascontiguousarray(array, dtype=dtype)
        # Sums may be large; a digest of them is not.
        key = str(array.dtype), array.shape, hashlib.sha256(array.data).digest()
        # Smaller ones keep their names, since there is nothing to save.
        if array.size >= 64 and key in self._names:
            return {"array": self._names[key]}
        self._names[key] = place
        self.arrays[place] = array
        return {"array": place}


class Decoder:
    """Makes what an `Encoder` encoded, from arrays by name and shared objects.

    It raises ValueError where something is missing, foreign, or does not fit.
    """

    def __init__(self, arrays: dict[str, Array], objects: Any) -> None:
        self._arrays = arrays
        self._objects: list[Any] = []
        self._used: set[str | int] = set()
        if not isinstance(objects, list):
            raise ValueError("the shared objects are not a list")
        for item in objects:
            shared = self.decode(item)
            kind = kind_of(shared)
            if kind is None or not kind.shared:
                raise ValueError(f"a {type(shared).__name__} cannot be shared")
            self._objects.append(shared)

    def decode(self, value: Any) -> Any:
        """The value that some JSON stands for."""
        if isinstance(value, list):
            return tuple(self.decode(item) for item in value)
        if not isinstance(value, dict):
            return value
        if value.keys() == {"array"}:
            return self._array(value["array"])
        if value.keys() == {"object"}:
            return self._object(value["object"])
        name = value.get("class")
        parts = {key: self.decode(v) for key, v in value.items() if key != "class"}
        if name == "float":
            return float(parts["value"])
        if name == "dict":
            return dict(parts["items"])
        return made(kind_named(name).cls, parts)

    def finish(self) -> None:
        """Refuse arrays and shared objects that nothing has used."""
        unused = [*self._arrays.keys() - self._used]
        if unused:
            raise ValueError(f"array {min(unused)!r:.60} is not a part of it")
        if len(self._used) < len(self._arrays) + len(self._objects):
            raise ValueError("a shared object is used by nothing")

    def _array(self, name: Any) -> Array:
        if not isinstance(name, str) or name not in self._arrays:
            raise ValueError(f"array {name!r:.60} is missing")
        array = self._arrays[name]
        if str(array.dtype) not in COMPACT:  # a class says which of them it holds
            raise ValueError(f"array {name:.60} is {array.dtype}{array.shape}")
        self._used.add(name)
        return array

    def _object(self, number: Any) -> Any:
        known = range(len(self._objects))
        if not isinstance(number, int) or number not in known:
            raise ValueError(f"shared object {number!r:.60} is missing")
        self._used.add(int(number))
        return self._objects[number]
