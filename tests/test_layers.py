"""Imports go down only: a room may import only rooms before it in one list.

The list and the rule are those of CONTRIBUTING.md. A room is a package, or a module
beside the packages. The modules of a room form no cycle either, and are at most five
storeys deep. Imports inside functions count as well: being lazy makes them fast, not
allowed.
"""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import kexpfam

SOURCE = Path(kexpfam.__file__).parent

# `__init__` is the face of the package, its public names; `blocks` a former name.
ORDER = """
_typing errors _row_order _validation _optional _interrupts _parallel _progress
persistence _linalg _roots kernels _heuristics _kernel_density regression trees
base_densities summaries tables data blocks partition score_matching likelihood display
sampling distributions family selection metrics comparison datasets explanation explorer
estimators graphs baselines conformal causal pipeline io bridges __init__ cli __main__
"""
ROOMS = ORDER.split()

STOREYS = 5


def room_of(path: Path) -> str:
    """The room that a file belongs to."""
    return path.relative_to(SOURCE).with_suffix("").parts[0]


def imported_parts(code: str, package: tuple[str, ...]) -> set[str]:
    """Modules and packages of kexpfam that some code imports, however it does."""
    parts = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            names = [alias.name.split(".") for alias in node.names]
            found = [name[1:] for name in names if name[0] == "kexpfam"]
            parts |= {name[0] if name else "__init__" for name in found}
        elif isinstance(node, ast.ImportFrom):
            module = node.module.split(".") if node.module else []
            if node.level:
                module = [*package[: len(package) - node.level + 1], *module]
            if module[:1] != ["kexpfam"]:
                continue
            if len(module) > 1:
                parts.add(module[1])
            else:  # from kexpfam import name: a submodule, or a public name
                parts |= {alias.name for alias in node.names}
    return parts


def files() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def imported_modules(path: Path, room: str) -> set[str]:
    """Modules of a room that one of its files imports; the room itself is its face."""
    found, inside = set(), {file.stem for file in (SOURCE / room).rglob("*.py")}
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name.split(".") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            own = ["kexpfam", room] if node.level else []
            module = [*own, *(node.module or "").split(".")] if node.module else own
            names = [[*module, alias.name] for alias in node.names]
        for name in names:
            if name[:2] == ["kexpfam", room]:
                found |= {name[2] if name[2:3] and name[2] in inside else "__init__"}
    return found - {path.stem}


def storeys(below: dict[str, set[str]]) -> int:
    """The longest chain of imports; raises CycleError if there is a cycle."""
    height: dict[str, int] = {}
    for module in TopologicalSorter(below).static_order():
        height[module] = 1 + max((height[m] for m in below.get(module, ())), default=0)
    return max(height.values())


@pytest.mark.parametrize("path", files(), ids=lambda p: str(p.relative_to(SOURCE)))
def test_a_room_imports_only_rooms_before_it(path):
    room = room_of(path)
    assert room in ROOMS, f"{room} is not in the list: find its place"
    package = ("kexpfam", *path.relative_to(SOURCE).parts[:-1])
    used = imported_parts(path.read_text(), package) - {room}
    names = set(kexpfam.__all__) - set(ROOMS)
    used = {"__init__" if part in names else part for part in used}
    upward = used - set(ROOMS[: ROOMS.index(room)])
    assert not upward, f"{room} must not import {', '.join(sorted(upward))}"


def test_every_room_of_the_list_is_there_once():
    assert sorted(ROOMS) == sorted({room_of(path) for path in files()})
    page = (SOURCE.parents[1] / "CONTRIBUTING.md").read_text()
    assert " ".join(ROOMS) in " ".join(page.split())


@pytest.mark.parametrize("room", [r for r in ROOMS if (SOURCE / r).is_dir()])
def test_a_room_is_at_most_five_storeys_deep_and_has_no_cycle(room):
    paths = (SOURCE / room).rglob("*.py")
    depth = storeys({path.stem: imported_modules(path, room) for path in paths})
    assert depth <= STOREYS, f"{room} has {depth} storeys"


def test_the_reproduction_uses_public_names_only():
    documented = {path.stem for path in (SOURCE.parents[1] / "docs/api").glob("*.md")}
    for path in (SOURCE.parents[1] / "reproduction").glob("*.py"):
        used = imported_parts(path.read_text(), ("reproduction",)) - {"__init__"}
        assert used <= documented | set(kexpfam.__all__), path.name


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("from kexpfam.estimators import KCEF", {"estimators"}),
        ("import kexpfam.family.spec as f", {"family"}),
        ("import kexpfam", {"__init__"}),
        ("from kexpfam import estimators, kernels", {"estimators", "kernels"}),
        ("from kexpfam import KCEF", {"KCEF"}),
        ("def f():\n    from kexpfam.io import load", {"io"}),
        ("if True:\n    import kexpfam.cli", {"cli"}),
        ("from ..estimators import KCEF", {"estimators"}),
        ("from . import base", {"kernels"}),
        ("from .. import io", {"io"}),
        ("import numpy.linalg\nfrom scipy import stats", set()),
    ],
)
def test_every_way_to_import_is_seen(code, expected):
    assert imported_parts(code, ("kexpfam", "kernels")) == expected
