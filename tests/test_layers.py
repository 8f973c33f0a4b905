"""Imports go down only: each module may use the layers below it, and no other.

The table is that of CONTRIBUTING.md. Imports inside functions count as well: being lazy
makes them fast, not allowed.
"""

import ast
from pathlib import Path

import pytest

import kexpfam

SOURCE = Path(kexpfam.__file__).parent

FOUNDATION = {
    "_typing",
    "errors",
    "_validation",
    "_optional",
    "_interrupts",
    "_parallel",
    "_progress",
    "persistence",
}
PARTS = {
    "blocks",
    "data",
    "_linalg",
    "_roots",
    "_heuristics",
    "_kernel_density",
    "kernels",
    "regression",
    "base_densities",
    "display",
}
FITTING = {"score_matching"}
USING = {
    "partition",
    "sampling",
    "distributions",
    "likelihood",
    "metrics",
    "selection",
    "islands",
    "comparison",
}

MAY_IMPORT = {
    # layer 0
    **dict.fromkeys(FOUNDATION, FOUNDATION),
    # layer 1
    **dict.fromkeys(PARTS, FOUNDATION),
    "blocks": FOUNDATION | {"_linalg"},
    "kernels": FOUNDATION | {"_linalg"},
    "regression": FOUNDATION | {"_linalg"},
    "_heuristics": FOUNDATION | {"kernels"},
    "base_densities": FOUNDATION | {"_kernel_density", "regression"},
    # layer 2
    **dict.fromkeys(FITTING, FOUNDATION | PARTS),
    "datasets": FOUNDATION | PARTS,
    # layer 3
    **dict.fromkeys(USING, FOUNDATION | PARTS),
    "sampling": FOUNDATION | PARTS | {"partition"},
    "distributions": FOUNDATION | PARTS | {"partition", "sampling"},
    "likelihood": FOUNDATION | PARTS | FITTING | {"partition"},
    "selection": FOUNDATION | PARTS | FITTING | {"partition", "likelihood"},
    "metrics": FOUNDATION | PARTS | {"partition"},
    # layer 4
    "models": FOUNDATION | PARTS | FITTING | USING,
    # layer 5
    "graphs": FOUNDATION | PARTS | FITTING | USING | {"models"},
    "baselines": FOUNDATION | PARTS | FITTING | USING | {"models"},
    "explorer": FOUNDATION | PARTS | {"metrics"},
    **dict.fromkeys(
        ("conformal", "causal"), FOUNDATION | PARTS | FITTING | USING | {"models"}
    ),
    # layer 6
    "bridges": FOUNDATION | PARTS | FITTING | USING | {"models"},
    "io": FOUNDATION | PARTS | FITTING | USING | {"models", "graphs"},
}

# These two gather what is below them: the public names, and the command line.
UNRESTRICTED = {"__init__", "cli", "__main__"}


def part_of(path: Path) -> str:
    """The module or package of the table that a file belongs to."""
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


@pytest.mark.parametrize("path", files(), ids=lambda p: str(p.relative_to(SOURCE)))
def test_imports_go_down_only(path):
    part = part_of(path)
    if part in UNRESTRICTED:
        return
    assert part in MAY_IMPORT, f"{part} is in no layer: add it to this table"
    package = ("kexpfam", *path.relative_to(SOURCE).parts[:-1])
    used = imported_parts(path.read_text(), package) - {part}
    upward = used - MAY_IMPORT[part]
    assert not upward, f"{part} must not import {', '.join(sorted(upward))}"


def test_the_reproduction_uses_public_names_only():
    documented = {path.stem for path in (SOURCE.parents[1] / "docs/api").glob("*.md")}
    for path in (SOURCE.parents[1] / "reproduction").glob("*.py"):
        used = imported_parts(path.read_text(), ("reproduction",)) - {"__init__"}
        assert used <= documented | set(kexpfam.__all__), path.name


def test_the_table_itself_has_no_cycle():
    seen: set[str] = set()
    remaining = {part: set(below) - {part} for part, below in MAY_IMPORT.items()}
    remaining |= {part: set() for part in FOUNDATION}  # one layer, and a small one
    while remaining:
        free = {part for part, below in remaining.items() if below <= seen}
        assert free, f"cycle among {sorted(remaining)}"
        seen |= free
        remaining = {p: b for p, b in remaining.items() if p not in free}


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("from kexpfam.models import KCEF", {"models"}),
        ("import kexpfam.models.family as f", {"models"}),
        ("import kexpfam", {"__init__"}),
        ("from kexpfam import models, kernels", {"models", "kernels"}),
        ("from kexpfam import KCEF", {"KCEF"}),
        ("def f():\n    from kexpfam.io import load", {"io"}),
        ("if True:\n    import kexpfam.cli", {"cli"}),
        ("from ..models import KCEF", {"models"}),
        ("from . import base", {"kernels"}),
        ("from .. import io", {"io"}),
        ("import numpy.linalg\nfrom scipy import stats", set()),
    ],
)
def test_every_way_to_import_is_seen(code, expected):
    assert imported_parts(code, ("kexpfam", "kernels")) == expected
