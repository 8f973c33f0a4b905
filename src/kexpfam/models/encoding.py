"""Trees of frozen dataclasses to and from JSON and named arrays.

Numbers, strings and tuples become JSON, an object its class name and fields, an array a
reference to an entry of its own, named after its place, such as `family.T.zeroth`.
Objects of some classes are kept in a list and referred to, so that two families in one
chart share it in the file and after loading.

A reader makes objects of listed classes only, and every one is checked when it is made.
"""

import functools
import hashlib
import math
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np

from kexpfam._typing import Array
from kexpfam.errors import CannotSaveError

# Equal arrays of at least so many numbers are stored once; smaller ones keep their
# names, since there is nothing to save.
_WORTH_SHARING = 64

# Integers up to this one are doubles, too.
_LARGEST_INTEGER = 2**53


@dataclass(frozen=True)
class Kind:
    """How objects of a class are kept in files.

    Attributes:
        cls: The class, a dataclass.
        check: Raises ValueError if the parts of an object do not fit together. None for
            classes whose constructors do so; these hold no arrays.
        omitted: Fields that files do not keep; they need a default.
        optional: Fields that files keep unless they are None, which is their default.
        unbounded: Fields that may be infinite or NaN.
        shared: Whether an object that occurs several times is stored once.
    """

    cls: type
    check: Callable[[Any], None] | None = None
    omitted: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    unbounded: tuple[str, ...] = ()
    shared: bool = False

    @property
    def kept(self) -> list[str]:
        """Names of the fields that files keep."""
        names = [part.name for part in fields(self.cls)]
        return [name for name in names if name not in self.omitted]


Kinds = Mapping[str, Kind]


class Encoder:
    """Collects the arrays and shared objects of what it encodes.

    Args:
        kinds: Classes that can be encoded, by name.
    """

    def __init__(self, kinds: Kinds) -> None:
        self.arrays: dict[str, Array] = {}
        self.objects: list[Any] = []
        self._kinds = kinds
        self._numbers: dict[int, int] = {}
        self._names: dict[tuple[tuple[int, ...], bytes], str] = {}  # by content

    def encode(self, value: Any, place: str = "") -> Any:
        """JSON for a value that is found at some place in the model.

        Raises:
            CannotSaveError: A part of it has no file representation.
        """
        kind = self._kinds.get(type(value).__name__)
        if kind is not None and kind.cls is type(value) and is_dataclass(value):
            return self._shared(value, kind, place)
        if isinstance(value, np.ndarray):
            return self._array(value, place)
        return encode_plain(value, lambda item, i: self.encode(item, f"{place}.{i}"))

    def _shared(self, value: Any, kind: Kind, place: str) -> Any:
        if not kind.shared:
            return self._parts(value, kind, place)
        if id(value) not in self._numbers:
            # Its parts come first in the list, so that references go back only.
            parts = self._parts(value, kind, place)
            self._numbers[id(value)] = len(self.objects)
            self.objects.append(parts)
        return {"object": self._numbers[id(value)]}

    def _parts(self, value: Any, kind: Kind, place: str) -> Any:
        parts: dict[str, Any] = {"class": kind.cls.__name__}
        for name in kind.kept:
            part = getattr(value, name)
            if part is None and name in kind.optional:
                continue
            if kind.check is None and isinstance(part, np.ndarray):
                part = part.tolist()
            parts[name] = self.encode(part, f"{place}.{name}" if place else name)
        return parts

    def _array(self, array: Array, place: str) -> Any:
        array = np.ascontiguousarray(array, dtype=np.float64)
        # Sums may be large; a digest of them is not.
        key = array.shape, hashlib.sha256(array.data).digest()
        if array.size >= _WORTH_SHARING and key in self._names:
            return {"array": self._names[key]}
        self._names[key] = place
        self.arrays[place] = array
        return {"array": place}


def encode_plain(value: Any, inner: Callable[[Any, int], Any]) -> Any:
    """JSON for a number, a string, None, or a sequence whose items `inner` encodes."""
    if isinstance(value, tuple | list):
        return [inner(item, i) for i, item in enumerate(value)]
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


class Decoder:
    """Makes what an `Encoder` encoded, and checks it.

    Args:
        kinds: Classes that can be made, by name.
        arrays: Arrays by name.
        objects: The list of shared objects.

    Raises:
        ValueError: Something is missing, foreign, or does not fit.
    """

    def __init__(self, kinds: Kinds, arrays: dict[str, Array], objects: Any) -> None:
        self._kinds = kinds
        self._arrays = arrays
        self._objects: list[Any] = []
        self._used: set[str | int] = set()
        if not isinstance(objects, list):
            raise ValueError("the shared objects are not a list")
        for item in objects:
            shared = self.decode(item)
            kind = kinds.get(type(shared).__name__)
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
        if not isinstance(name, str) or name not in self._kinds:
            raise ValueError(f"unknown class {name!r:.60}")
        return _made(self._kinds[name], parts)

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
        if array.dtype != np.float64:
            raise ValueError(f"array {name:.60} is {array.dtype}{array.shape}")
        self._used.add(name)
        return array

    def _object(self, number: Any) -> Any:
        known = range(len(self._objects))
        if not isinstance(number, int) or number not in known:
            raise ValueError(f"shared object {number!r:.60} is missing")
        self._used.add(int(number))
        return self._objects[number]


def _made(kind: Kind, parts: dict[str, Any]) -> Any:
    """An object of these parts, checked."""
    name = kind.cls.__name__
    if not parts.keys() <= set(kind.kept):
        raise ValueError(f"{name} has no {min(parts.keys() - set(kind.kept))!r:.60}")
    arrays = any(isinstance(part, np.ndarray) for part in parts.values())
    if kind.check is None:
        if arrays:
            raise ValueError(f"{name} holds no array")
        return kind.cls(**parts)
    made = kind.cls(**parts)
    hints = _hints(kind.cls)
    for key, part in parts.items():
        if not conforms(part, hints[key]):
            raise ValueError(f"{key} of {name} is something else")
        if key not in kind.unbounded and not _is_finite(part):
            what = "array" if isinstance(part, np.ndarray) else "number"
            raise ValueError(f"{what} {key} of {name} is not finite")
    kind.check(made)
    return made


def _is_finite(part: Any) -> bool:
    """Whether a number or an array is finite; other parts are not looked into."""
    return not isinstance(part, float | np.ndarray) or bool(np.all(np.isfinite(part)))


@functools.cache
def _hints(cls: type) -> dict[str, Any]:
    return get_type_hints(cls)


def conforms(value: Any, hint: Any) -> bool:
    """Whether a value is what an annotation says.

    Example:
        >>> conforms((1.0, None), tuple[float | None, ...])
        True
        >>> conforms("1.0", float | None)
        False
        >>> conforms(np.zeros(2), Array), conforms([0.0, 0.0], Array)
        (True, False)
    """
    origin, inner = get_origin(hint), get_args(hint)
    # NDArray is an alias of `ndarray[...]` that NumPy 2.5 no longer resolves by itself.
    while hasattr(origin, "__value__"):
        origin = get_origin(origin.__value__)
    if origin in (Union, types.UnionType):
        return any(conforms(value, part) for part in inner)
    if origin is np.ndarray:
        return isinstance(value, np.ndarray)
    if origin is tuple:
        if not isinstance(value, tuple):
            return False
        each = inner[:1] * len(value) if inner[-1] is Ellipsis else inner
        return len(each) == len(value) and all(map(conforms, value, each))
    if hint in (int, float) and isinstance(value, bool):
        return False
    if hint is float and isinstance(value, int):
        return abs(value) <= _LARGEST_INTEGER
    return isinstance(value, hint)
