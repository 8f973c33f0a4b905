"""One change and the tests of its area, in a process of its own.

The process is a fork of one that has imported all that is slow to import, and nothing
of the library. There the changed module is compiled when it is imported, so that no
file is touched.
"""

import importlib
import importlib.abc
import importlib.machinery
import os
import resource
import signal
import sys
from pathlib import Path

from tests.mutants.areas import ROOT
from tests.mutants.changes import Change, changed

SLOW_IMPORTS = (
    "numpy",
    "scipy.stats",
    "scipy.optimize",
    "scipy.spatial.distance",
    "sklearn.ensemble",
    "sklearn.linear_model",
    "pandas",
    "safetensors.numpy",
    "click",
    "pytest",
)
MEMORY = 8 << 30
KILLED, SURVIVED, TOO_LONG = "killed", "survived", "too long"


class _Changed(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports one module with a change."""

    def __init__(self, module, change):
        self.name, self.path = name_of(module), path_of(module)
        self.change = change

    def find_spec(self, fullname, path=None, target=None):
        if fullname != self.name:
            return None
        spec = importlib.machinery.ModuleSpec(fullname, self, origin=str(self.path))
        spec.has_location = True
        return spec

    def exec_module(self, module):
        tree = changed(self.path.read_text(encoding="utf-8"), self.change)
        exec(compile(tree, str(self.path), "exec"), module.__dict__)


def path_of(module: str) -> Path:
    """The file of a module that an area names."""
    return ROOT / "src" / "kexpfam" / f"{module}.py"


def name_of(module: str) -> str:
    """How a module that an area names is imported."""
    return f"kexpfam.{module.replace('/', '.')}"


def prepare() -> None:
    """Import what is slow to import, so that forks need not."""
    for name in SLOW_IMPORTS:
        importlib.import_module(name)
    if any(name.split(".")[0] == "kexpfam" for name in sys.modules):
        raise RuntimeError("the library was imported before it could be changed")


def run(files: list[str], module: str, change: Change | None, seconds: float):
    """What tests say of a change, or of none, and the processor seconds they took."""
    if not files:
        return SURVIVED, 0.0
    child = os.fork()
    if not child:
        _tests(files, module, change, seconds)
    _, status, used = os.wait4(child, 0)
    took = used.ru_utime + used.ru_stime
    ended = os.waitstatus_to_exitcode(status)
    if ended in (-signal.SIGXCPU, -signal.SIGKILL, -signal.SIGALRM):
        return TOO_LONG, took
    return (SURVIVED if ended == 0 else KILLED), took


def _tests(files, module, change, seconds):
    """Run tests, in a child; does not come back."""
    code = 99
    try:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        whole = int(seconds) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (whole, whole + 5))
        signal.alarm(20 * whole)  # one that sleeps, on a machine that is busy
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        os.chdir(ROOT)
        if change is not None:
            sys.meta_path.insert(0, _Changed(module, change))
        import pytest

        words = ["-x", "-q", "--no-header", "-p", "no:cacheprovider", "-p", "no:xdist"]
        code = int(pytest.main([*words, *files]))
    finally:
        os._exit(code)
