"""Changes are what they say, one at a time, and areas name what is there."""

import ast

import pytest

from tests.mutants.areas import AREAS, ROOT
from tests.mutants.changes import changed, changes

TEXT = '''
"""A text, 1 + 1."""
LIMIT = 0.5


def f(x: int = 3, *, wide: bool = True) -> int:
    """2 + 2."""
    if not x < 3 and wide:
        raise ValueError(f"{x + 1} is below {2 + 1}")
    x -= 1
    return max(-x, LIMIT * 2)
'''


def said(text):
    return {change.said for change in changes(text)}


def test_every_kind_of_change_is_made():
    assert said(TEXT) == {
        "0.5  ->  1.0",
        "3  ->  4",
        "True  ->  False",
        "not x < 3 and wide  ->  not x < 3 or wide",
        "not x < 3  ->  x < 3",
        "x < 3  ->  x <= 3",
        "x < 3  ->  x >= 3",
        "x -= 1  ->  x += 1",
        "1  ->  2",
        "max(-x, LIMIT * 2)  ->  min(-x, LIMIT * 2)",
        "-x  ->  x",
        "LIMIT * 2  ->  LIMIT / 2",
        "2  ->  3",
    }


def test_a_change_is_one_and_the_rest_stays():
    plain = ast.unparse(ast.parse(TEXT)).splitlines()
    for change in changes(TEXT):
        lines = ast.unparse(changed(TEXT, change)).splitlines()
        different = [
            i
            for i, pair in enumerate(zip(plain, lines, strict=True))
            if pair[0] != pair[1]
        ]
        assert len(different) == 1, change.said
        before, after = change.said.split("  ->  ")
        assert before in plain[different[0]]
        assert after in lines[different[0]]


@pytest.mark.parametrize("area", AREAS)
def test_modules_and_their_tests_are_there(area):
    for module in AREAS[area].modules:
        files = [*AREAS[area].own(module), *AREAS[area].others(module)]
        assert files[0] == f"src/kexpfam/{module}.py"
        assert len(set(files)) == len(files) > 1
        for file in files:
            assert (ROOT / file).is_file(), file


def test_every_change_of_a_module_is_a_program():
    module = next(iter(AREAS["kernels"].modules))
    text = (ROOT / f"src/kexpfam/{module}.py").read_text(encoding="utf-8")
    found = changes(text)
    assert len(found) > 20
    for change in found:
        compile(changed(text, change), module, "exec")
