"""Which classes files may hold, and what their objects must be like.

A class registers itself where it is defined. A small value whose constructor checks its
arguments, such as a kernel, needs no more than `@saved_value`. A fitted part says of
each field what it holds, in one line of axes and rules:

    @saved_fit({"X": "n p moderate", "noise": "n positive", "x_scaling": "p"})

The axes of an array are letters, numbers and sums of them, `m+p+1`; a letter is the
same size everywhere in an object, and not zero, except for `p`, the columns of x, and
`s`, the splits of trees. The first axis of a tuple is its length. What follows it, or
all that is said of a part with axes of its own, are letters of that part: `p` has to be
the `p` here, `p=1` to be 1.

The rules are in `_RULES`, and `>=name` for a number that is not below another field.
Numbers are finite without saying, unless a field is `unbounded`. Files leave out what
is `omitted`, and what is `optional` where it is None. Arrays are of doubles, or of one
of the types that are named, `int16 int32`: large ones are kept as they are. A relation
that has no such words is checked by a method `check_saved` of the class, which raises
ValueError.
"""

import functools
import re
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

# What numbers can be, and what is said of those that are not. Numbers in standard units
# are not beyond 1e75: four of them can be multiplied. Log scales beyond 300 have no
# squares that a double can hold, and integers up to 2⁵³ are doubles, too.
_RULES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "positive": (lambda a: a > 0, "must be positive"),
    "nonnegative": (lambda a: a >= 0, "must not be negative"),
    "some": (lambda a: np.any(a > 0), "are all zero"),
    "moderate": (lambda a: np.abs(a) <= 1e75, "is too large"),
    "divisor": (lambda a: np.abs(a) >= 1.0 / 1e75, "is too small"),
    "log_scale": (lambda a: np.abs(a) < 300.0, "has no exponential"),
    "share": (lambda a: a <= 1, "is not a share"),
    "whole": (lambda a: (a == np.rint(a)) & (np.abs(a) <= 2**53), "is not whole"),
}
_FLAGS = frozenset({"unbounded", "omitted", "optional"})
# Types of arrays that are kept as they are, if a field says so.
COMPACT = frozenset({"float32", "float64", "int16", "int32", "uint8"})
_MAY_BE_EMPTY = frozenset({"p", "s"})
Cls = TypeVar("Cls", bound=type)


@dataclass(frozen=True)
class Declared:
    """What is said of a field."""

    axes: tuple[str, ...] = ()  # of an array, or letters of a part
    rules: tuple[str, ...] = ()  # names in `_RULES`, looked at in this order
    flags: frozenset[str] = frozenset()  # names in `_FLAGS`
    least: str = ""  # field that it is not below, or none
    types: frozenset[str] = frozenset()  # names in `COMPACT`; none for doubles

    @classmethod
    def read(cls, text: str) -> "Declared":
        """What some words say; ValueError if one is none of ours."""
        words = text.split()
        least = "".join(word[2:] for word in words if word.startswith(">="))
        words = [word for word in words if not word.startswith(">=")]
        rules = [word for word in words if word in _RULES]
        types = COMPACT.intersection(words)
        other = {*_FLAGS, *_RULES, *types}
        axes = [word for word in words if word not in other]
        axis = re.compile(r"([A-Za-z]=)?([A-Za-z]|\d+)(\+([A-Za-z]|\d+))*")
        if not all(map(axis.fullmatch, axes)):
            raise ValueError(f"{text!r} is not a declaration of a field")
        flags = _FLAGS.intersection(words)
        return cls(tuple(axes), tuple(rules), flags, least, types)


@dataclass(frozen=True)
class Kind:
    """How objects of a dataclass are kept in files."""

    cls: type
    name: str  # what files call it
    stored: dict[str, str]  # names in files of the fields that files keep
    # None if the constructor checks its arguments, and objects hold no arrays
    declared: dict[str, Declared] | None = None
    shared: bool = False  # stored once if it occurs several times

    def said(self, name: str) -> Declared:
        """What is said of a field."""
        return (self.declared or {}).get(name, Declared())


_by_name: dict[str, Kind] = {}
_by_class: dict[type, Kind] = {}


def saved_value(cls: Cls) -> Cls:
    """Let files hold objects of a dataclass whose constructor checks its arguments."""
    _register(Kind(cls, cls.__name__, {part.name: part.name for part in fields(cls)}))
    return cls


def saved_fit(
    declared: Mapping[str, str] | None = None,
    *,
    shared: bool = False,
    name: str | None = None,
    names: Mapping[str, str] | None = None,
) -> Callable[[Cls], Cls]:
    """Let files hold objects of a dataclass whose fields are as declared.

    Args:
        declared: Axes and rules of some fields, in the words of this module.
        shared: Whether an object that occurs several times is stored once.
        name: What files call the class, if that is not its name.
        names: What files call some fields, if these are not their names.

    Example:
        >>> import numpy as np
        >>> from kexpfam._typing import Array
        >>> @saved_fit({"center": "p", "scale": "p positive"})
        ... @dataclass(frozen=True)
        ... class Units:
        ...     center: Array
        ...     scale: Array
        >>> made(Units, {"center": np.zeros(2), "scale": np.zeros(2)})
        Traceback (most recent call last):
        ...
        ValueError: array scale of Units must be positive
    """
    said = {key: Declared.read(text) for key, text in (declared or {}).items()}

    def registered(cls: Cls) -> Cls:
        known = [part.name for part in fields(cls)]
        if not said.keys() | (names or {}).keys() <= set(known):
            raise ValueError(f"{cls.__name__} has no fields that are declared")
        kept = [k for k in known if "omitted" not in said.get(k, Declared()).flags]
        stored = {key: (names or {}).get(key, key) for key in kept}
        _register(Kind(cls, name or cls.__name__, stored, said, shared))
        return cls

    return registered


def _register(kind: Kind) -> None:
    known = _by_name.get(kind.name, kind).cls
    if repr(known) != repr(kind.cls):  # the same after a reload
        raise ValueError(f"files have another class {kind.name!r}, {known!r}")
    _by_name[kind.name] = _by_class[kind.cls] = kind


def kind_of(value: object) -> Kind | None:
    """How a value is kept in files; None unless its very class is registered."""
    return _by_class.get(type(value))


def kind_named(name: object) -> Kind:
    """The class that files call so, if there is one."""
    if not isinstance(name, str) or name not in _by_name:
        raise ValueError(f"unknown class {name!r:.60}")
    return _by_name[name]


def made(cls: type, parts: Mapping[str, Any]) -> Any:
    """An object of a registered class, from its parts by their names in files, checked.

    A part that is missing is a TypeError, and one not as declared a ValueError.
    """
    kind = _by_class[cls]
    places = {stored: name for name, stored in kind.stored.items()}
    foreign = parts.keys() - places.keys()
    if foreign:
        raise ValueError(f"{kind.name} has no {min(foreign)!r:.60}")
    held = {places[stored]: part for stored, part in parts.items()}
    if kind.declared is None:
        if any(isinstance(part, np.ndarray) for part in held.values()):
            raise ValueError(f"{kind.name} holds no array")
        return cls(**held)
    value = cls(**{name: _checked(kind, name, part) for name, part in held.items()})
    _letters(value)
    if hasattr(value, "check_saved"):
        value.check_saved()
    return value


def _checked(kind: Kind, name: str, part: Any) -> Any:
    """A part that is as declared; indices come as doubles."""
    said, place = kind.said(name), f"{name} of {kind.name}"
    if not conforms(part, _hints(kind.cls)[name]):
        raise ValueError(f"{place} is something else")
    place = f"array {place}" if isinstance(part, np.ndarray) else place
    for found in _types(part) - (said.types or {"float64"}):
        raise ValueError(f"{place} is {found}")
    if "unbounded" not in said.flags and not _is_finite(part):
        raise ValueError(f"{place} is not finite")
    if part is None:
        return None
    for rule in said.rules:
        holds, otherwise = _RULES[rule]
        if not np.all(holds(np.asarray(part))):
            raise ValueError(f"{place} {otherwise}")
    return part.astype(np.intp) if "whole" in said.rules else part


def _types(part: Any) -> set[str]:
    """Types of arrays in a part; objects were looked into when they were made."""
    items = part if isinstance(part, tuple) else (part,)
    return {str(item.dtype) for item in items if isinstance(item, np.ndarray)}


def _is_finite(part: Any) -> bool:
    """Whether numbers are finite; objects were looked into when they were made."""
    if isinstance(part, tuple):
        return all(map(_is_finite, part))
    return not isinstance(part, float | np.ndarray) or bool(np.all(np.isfinite(part)))


def _letters(value: Any) -> dict[str, int]:
    """Sizes that the letters of an object stand for; ValueError if one has two."""
    kind = _by_class[type(value)]
    letters: dict[str, int] = {}
    for name, said in (kind.declared or {}).items():
        part = getattr(value, name)
        if said.least and part < getattr(value, said.least):
            raise ValueError(f"{name} of {kind.name} is below {said.least}")
        if part is None or not said.axes:
            continue
        for axis, size, problem in _sizes(f"{name} of {kind.name}", part, said.axes):
            if axis.isalpha():
                letters.setdefault(axis, size)
            expected = sum(
                int(term) if term.isdigit() else letters[term]
                for term in axis.split("+")
            )
            if size != expected:
                known = axis if axis.isdigit() else f"{axis} = {expected}"
                raise ValueError(f"{problem}: {size} is not {known}")
            if not size and axis not in _MAY_BE_EMPTY:
                raise ValueError(f"{problem}: {axis} is not zero")
    return letters


def columns_of_x(value: Any) -> int | None:
    """What the letter p stands for in an object; None if it says nothing of it."""
    return _letters(value).get("p")


def _sizes(
    place: str, part: Any, axes: tuple[str, ...]
) -> Iterator[tuple[str, int, str]]:
    """Each axis that is declared, the size of the part along it, and how to say so."""
    if isinstance(part, np.ndarray):
        problem = f"array {place} is {part.shape} instead of ({', '.join(axes)})"
        if part.ndim != len(axes):
            raise ValueError(problem)
        for axis, size in zip(axes, part.shape, strict=True):
            yield axis, size, problem
        return
    items = [part]
    if isinstance(part, tuple):
        yield axes[0], len(part), f"{place} has {len(part)} parts"
        items, axes = [item for item in part if item is not None], axes[1:]
    for item in items:
        inner = _letters(item)
        for axis in axes:
            letter, _, outer = axis.partition("=")
            size = inner[letter]
            problem = f"{place} has arrays with {letter} = {size}"
            yield outer or letter, size, problem


@functools.cache
def _hints(cls: type) -> dict[str, Any]:
    return get_type_hints(cls)


def conforms(value: Any, hint: Any) -> bool:
    """Whether a value is what an annotation says."""
    origin, inner = get_origin(hint), get_args(hint)
    # NDArray is an alias of `ndarray[...]` that NumPy 2.5 no longer resolves by itself.
    while hasattr(origin, "__value__"):
        origin = get_origin(origin.__value__)
    if origin in (Union, types.UnionType):
        return any(conforms(value, part) for part in inner)
    if hint is Any:
        return True
    if origin in (Sequence, Mapping, Iterable):
        sequence = origin is not Mapping
        return isinstance(value, tuple | list if sequence else Mapping)
    if origin is Literal:
        return isinstance(value, str) and value in inner
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
        return abs(value) <= 2**53  # beyond, it may be no double
    return isinstance(value, hint)
