"""What is declared of a class is what its objects in files are."""

import json
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pytest

from kexpfam._typing import Array, Indices
from kexpfam.persistence import made, saved_fit, saved_value
from kexpfam.persistence.encoding import Decoder, Encoder
from kexpfam.persistence.registry import conforms


@saved_fit({"numbers": "n"}, shared=True)
@dataclass(frozen=True)
class Leaf:
    """A shared thing with an array."""

    numbers: Array


@saved_fit(
    {
        "leaves": "k n",
        "table": "n p positive moderate divisor",
        "sums": "n+p+1 nonnegative some",
        "trunk": "n=3",
        "folds": "k whole",
        "share": "nonnegative share",
        "low": "log_scale",
        "high": "unbounded >=low",
        "thought": "omitted",
        "note": "optional",
    },
    name="Trunk",
    names={"table": "matrix"},
)
@dataclass(frozen=True)
class Branch:
    """Everything that can be declared."""

    leaves: tuple[Leaf | None, ...]
    table: Array
    sums: Array
    trunk: Leaf | None = None
    folds: Indices | None = None
    share: float = 0.5
    low: float = 0.0
    high: float = 1.0
    thought: int = 5
    note: str | None = None
    pair: tuple[float, float] = (0.0, 1.0)

    def check_saved(self):
        """Refuse what is special."""
        if self.note == "special":
            raise ValueError("the note is special")


@saved_fit({"small": "s int16 int32", "wide": "s float32"})
@dataclass(frozen=True)
class Compact:
    """Arrays that are kept as they are."""

    small: Indices
    wide: Array


@saved_value
@dataclass(frozen=True)
class Toy:
    """A value without arrays."""

    size: float


SOUND = {
    "leaves": (Leaf(np.ones(2)), None, Leaf(np.zeros(2))),
    "matrix": np.ones((2, 1)),
    "sums": np.array([0.0, 0.0, 0.0, 1.0]),
    "trunk": Leaf(np.ones(3)),
    "folds": np.array([0.0, 1.0, 1.0]),
}


def test_a_sound_object_is_made_with_its_indices_and_defaults():
    branch = made(Branch, SOUND)
    assert branch.folds.dtype == np.intp
    assert branch.thought == 5
    assert made(Branch, {**SOUND, "high": np.inf}).high == np.inf
    empty = {**SOUND, "matrix": np.ones((2, 0)), "sums": np.ones(3)}
    assert made(Branch, empty).table.shape == (2, 0)  # p may be zero


LEAVES = SOUND["leaves"]
UNSOUND = {
    "foreign": ({"colour": 1}, "Trunk has no 'colour'"),
    "by its own name": ({"table": np.ones((2, 1))}, "Trunk has no 'table'"),
    "omitted": ({"thought": 1}, "Trunk has no 'thought'"),
    "type": ({"share": "0.5"}, "share of Trunk is something else"),
    "type of an item": ({"leaves": (*LEAVES[:2], 3.0)}, "leaves of Trunk is something"),
    "NaN": ({"matrix": np.full((2, 1), np.nan)}, "array table of Trunk is not finite"),
    "infinite": ({"share": np.inf}, "share of Trunk is not finite"),
    "infinite in a tuple": ({"pair": (0.0, np.inf)}, "pair of Trunk is not finite"),
    "zero": ({"matrix": np.zeros((2, 1))}, "array table of Trunk must be positive"),
    "large": ({"matrix": np.full((2, 1), 1e200)}, "array table of Trunk is too large"),
    "small": ({"matrix": np.full((2, 1), 1e-200)}, "array table of Trunk is too small"),
    "negative": ({"sums": -np.ones(4)}, "array sums of Trunk must not be negative"),
    "all zero": ({"sums": np.zeros(4)}, "array sums of Trunk are all zero"),
    "not whole": ({"folds": np.full(3, 0.5)}, "array folds of Trunk is not whole"),
    "no index": ({"folds": np.full(3, 1e200)}, "array folds of Trunk is not whole"),
    "beyond a share": ({"share": 1.5}, "share of Trunk is not a share"),
    "beyond exponentials": ({"low": -400.0}, "low of Trunk has no exponential"),
    "disorder": ({"low": 2.0}, "high of Trunk is below low"),
    "rank": (
        {"matrix": np.ones(2)},
        r"array table of Trunk is \(2,\) instead of \(n, p\)",
    ),
    "size": (
        {"matrix": np.ones((3, 1))},
        r"array table of Trunk is \(3, 1\) instead of \(n, p\): 3 is not n = 2",
    ),
    "sum": (
        {"sums": np.ones(5)},
        r"array sums of Trunk is \(5,\) instead of \(n\+p\+1\): 5 is not n\+p\+1 = 4",
    ),
    "size of a part": (
        {"trunk": Leaf(np.ones(2))},
        "trunk of Trunk has arrays with n = 2: 2 is not 3",
    ),
    "size of an item": (
        {"leaves": (*LEAVES[:2], Leaf(np.ones(3)))},
        "leaves of Trunk has arrays with n = 3: 3 is not n = 2",
    ),
    "length": ({"folds": np.zeros(2)}, r"folds of Trunk is \(2,\) .*: 2 is not k = 3"),
    "no items": ({"leaves": ()}, "leaves of Trunk has 0 parts: k is not zero"),
    "no rows": (
        {"leaves": (None,) * 3, "matrix": np.ones((0, 1))},
        "array table of Trunk .*: n is not zero",
    ),
    "special": ({"note": "special"}, "the note is special"),
}


@pytest.mark.parametrize(("change", "words"), UNSOUND.values(), ids=UNSOUND)
def test_what_is_not_as_declared_is_refused(change, words):
    with pytest.raises(ValueError, match=words):
        made(Branch, {**SOUND, **change})


def test_arrays_of_declared_types_are_kept_as_they_are():
    for dtype in (np.int16, np.int32):
        thing = Compact(np.arange(100, dtype=dtype), np.ones(100, dtype=np.float32))
        encoder = Encoder()
        text = json.dumps(encoder.encode(thing))
        assert [a.dtype for a in encoder.arrays.values()] == [dtype, np.float32]
        loaded = Decoder(encoder.arrays, []).decode(json.loads(text))
        assert loaded.small.dtype == dtype
        assert np.array_equal(loaded.small, thing.small)
    empty = {"small": np.zeros(0, dtype=np.int16), "wide": np.zeros(0, np.float32)}
    assert made(Compact, empty).small.size == 0  # s may be zero


@pytest.mark.parametrize(
    ("cls", "parts", "words"),
    [
        (Compact, {"small": np.zeros(2)}, "array small of Compact is float64"),
        (Compact, {"wide": np.zeros(2)}, "array wide of Compact is float64"),
        (Branch, {"matrix": np.ones((2, 1), np.float32)}, "table of Trunk is float32"),
    ],
)
def test_arrays_of_other_types_are_refused(cls, parts, words):
    small = {"small": np.zeros(2, np.int16), "wide": np.zeros(2, np.float32)}
    sound = SOUND if cls is Branch else small
    with pytest.raises(ValueError, match=words):
        made(cls, {**sound, **parts})


def test_equal_bytes_of_other_types_are_other_arrays():
    encoder = Encoder()
    encoder.encode(Compact(np.zeros(100, np.int32), np.zeros(100, np.float32)))
    assert len(encoder.arrays) == 2


def test_a_missing_part_is_an_error():
    with pytest.raises(TypeError, match="sums"):
        made(Branch, {key: part for key, part in SOUND.items() if key != "sums"})


def test_a_value_holds_no_arrays():
    with pytest.raises(ValueError, match="Toy holds no array"):
        made(Toy, {"size": np.ones(1)})
    assert Encoder().encode(Toy(np.ones(2))) == {"class": "Toy", "size": [1.0, 1.0]}


def test_declarations_are_read_when_they_are_made():
    with pytest.raises(ValueError, match="'n postive' is not a declaration"):
        saved_fit({"numbers": "n postive"})
    with pytest.raises(ValueError, match="Toy has no fields"):
        saved_fit({"width": "positive"})(Toy)
    with pytest.raises(ValueError, match="files have another class 'Toy'"):
        saved_fit(name="Toy")(Leaf)


def test_shared_objects_and_equal_arrays_are_stored_once():
    long = Leaf(np.arange(100.0))
    leaves = (long, long, Leaf(np.arange(100.0)), None)
    tree = Branch(leaves, np.ones((100, 1)), np.arange(102.0), note="told")
    encoder = Encoder()
    text = json.dumps(encoder.encode(tree))
    assert list(encoder.arrays) == ["leaves.0.numbers", "matrix", "sums"]
    assert len(encoder.objects) == 2
    assert '"note"' in text
    decoder = Decoder(encoder.arrays, encoder.objects)
    again = decoder.decode(json.loads(text))
    decoder.finish()
    assert again.leaves[0] is again.leaves[1]
    assert again.leaves[0] is not again.leaves[2]
    assert again.leaves[3] is None
    assert np.array_equal(again.leaves[2].numbers, np.arange(100.0))


@pytest.mark.parametrize(
    ("value", "hint", "expected"),
    [
        (1, float, True),
        (10**400, float, False),
        (True, float, False),
        (True, int, False),
        (True, bool, True),
        (1.0, int, False),
        (None, float | None, True),
        ((1.0, 2.0), tuple[float, float], True),
        ((1.0,), tuple[float, float], False),
        ((), tuple[float, ...], True),
        ((1.0, "a"), tuple[float, ...], False),
        ([1.0], tuple[float, ...], False),
        (np.ones(2), float, False),
        (np.ones(2), Array, True),
        (np.ones(2), Indices | None, True),
        ("a", str, True),
        ("a", Literal["a", "b"], True),
        ("c", Literal["a", "b"], False),
        (np.ones(2), Literal["a", "b"], False),
    ],
)
def test_values_are_compared_with_annotations(value, hint, expected):
    assert conforms(value, hint) is expected


def test_whole_numbers_are_numbers_as_far_as_doubles_hold_all_of_them():
    """From 2⁵³ on, one more is the same double."""
    for whole in (0, -3, 2**40, 2**53, -(2**53)):
        assert conforms(whole, float)
    for whole in (2**53 + 1, -(2**53) - 1, 10**400):
        assert not conforms(whole, float)
