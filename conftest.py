"""What is collected: doctests of a module only where it can be imported.

Files whose examples train networks, compile or fit many models are slow.

And Ctrl-C works: shells let programs in the background ignore it, which tests of it,
and the programs that they start, would inherit.
"""

import signal
from importlib.util import find_spec
from pathlib import Path

import pytest

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Classes that inherit from those of another library, which need not be there.
NEEDS = {"src/kexpfam/bridges/skpro.py": "skpro", "docs/sections.py": "griffe"}

collect_ignore = [path for path, module in NEEDS.items() if not find_spec(module)]

ROOT = Path(__file__).parent
SLOW = {
    "docs/baselines.md",
    "docs/graphs.md",
    "docs/sampling.md",
    "docs/scale.md",
    "docs/tutorials/multimodal.md",
    "src/kexpfam/baselines/rnade.py",
    "src/kexpfam/graphs/held_out.py",
    "tests/baselines/test_rnade.py",
    "tests/benchmarks/test_rivals.py",
    "tests/data/test_memory.py",
    "tests/estimators/test_properties.py",
    "tests/reproduction/test_figure1.py",
    "tests/reproduction/test_table1_table2.py",
    "tests/reproduction/test_table3.py",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give slow files the marker that single tests give themselves."""
    for item in items:
        if item.path.relative_to(ROOT).as_posix() in SLOW:
            item.add_marker(pytest.mark.slow)
