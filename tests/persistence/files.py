"""Files taken apart, spoiled, written again, and refused."""

import copy
import functools
import json
import tempfile
import warnings
from dataclasses import fields, is_dataclass
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save as safetensors_bytes

from kexpfam import load
from kexpfam.errors import FileFormatError
from tests.persistence.models import fitted, options


def parts_of(path):
    """Arrays and description of a file."""
    with safe_open(str(path), framework="np") as content:
        names = content.keys()  # not a mapping: iterating it does not work
        arrays = {name: content.get_tensor(name) for name in names}
        return arrays, json.loads(content.metadata()["kexpfam"])


@functools.cache
def parts(name):
    """Arrays and description of the file of a model."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model")
        fitted(name).save(path, **options(name))
        return parts_of(path)


def write(path, arrays, description):
    """A file without a checksum, which would say of each change that it is damage."""
    if isinstance(description, dict):
        description = {k: v for k, v in description.items() if k != "sha256"}
    text = description if isinstance(description, str) else json.dumps(description)
    whole = {k: np.ascontiguousarray(a) if a.ndim else a for k, a in arrays.items()}
    path.write_bytes(safetensors_bytes(whole, metadata={"kexpfam": text}))


def refuses(path, *words):
    """`load` refuses with one clear sentence that names the file."""
    # A refusal must not rest on the test run turning NumPy's warnings into errors.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(FileFormatError) as caught:
            load(path)
    text = str(caught.value)
    assert repr(str(path)) in text
    assert text.endswith(".")
    assert "\n" not in text
    assert len(text) < 500 + len(str(path))
    for word in words:
        assert word in text


def places(value, place=()):
    """Every place in a description."""
    yield place
    if isinstance(value, dict | list):
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        for key, part in pairs:
            yield from places(part, (*place, key))


def at(description, place):
    """What is at a place."""
    for step in place:
        description = description[step]
    return description


def changed(description, place, value):
    """A description with another value at a place, or without it if there is none."""
    description = copy.deepcopy(description)
    if value is ...:
        del at(description, place[:-1])[place[-1]]
    else:
        at(description, place[:-1])[place[-1]] = value
    return description


def place_of(description, name, key):
    """The place of a field in the first object of a class."""
    for place in places(description):
        found = at(description, place)
        if isinstance(found, dict) and found.get("class") == name:
            return (*place, key)
    raise AssertionError(name)


def arrays_in(value, place=""):
    """All arrays in a tree of dataclasses, and all else that it is made of."""
    if is_dataclass(value):
        for part in fields(value):
            yield from arrays_in(getattr(value, part.name), f"{place}.{part.name}")
    elif isinstance(value, tuple):
        for i, item in enumerate(value):
            yield from arrays_in(item, f"{place}.{i}")
    else:
        yield place, value


def same(one, other):
    """Whether two trees of dataclasses are the same to the last bit."""
    pairs = list(arrays_in(one)), list(arrays_in(other))
    return [p for p, _ in pairs[0]] == [p for p, _ in pairs[1]] and all(
        np.array_equal(a, b, equal_nan=isinstance(a, float))
        and type(a) is type(b)
        and getattr(a, "dtype", None) == getattr(b, "dtype", None)
        for (_, a), (_, b) in zip(*pairs, strict=True)
    )
