"""Where results come from: commit, versions and machine.

Nothing is imported for its version: that would take seconds, and threads with it.
"""

import importlib.metadata
import os
import platform
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import kexpfam

_PACKAGE = Path(kexpfam.__file__).parent
_LIBRARIES = ("kexpfam", "numpy", "scipy", "scikit-learn", "jax", "optax")


def _git(folder: Path, *arguments: str) -> str | None:
    """What git says in a folder; None if it fails or is not there."""
    try:
        answer = subprocess.run(
            ["git", *arguments], capture_output=True, text=True, check=False, cwd=folder
        )
    except OSError:
        return None
    return answer.stdout.strip() if answer.returncode == 0 else None


def commit(folder: Path = _PACKAGE) -> str | None:
    """The commit that is checked out, or None if the folder is not in a repository.

    A folder whose files git does not follow is none: an installed package may well lie
    inside the repository of somebody's own project.
    """
    if not _git(folder, "ls-files", "--", "."):
        return None
    return _git(folder, "rev-parse", "--short", "HEAD")


def uncommitted(folder: Path = _PACKAGE, paths: Iterable[str] = (".",)) -> bool:
    """Whether files differ from the commit.

    Args:
        folder: Where git is asked.
        paths: What to look at, relative to the folder.
    """
    return bool(_git(folder, "status", "--porcelain", "--", *paths))


def versions(libraries: Iterable[str] = _LIBRARIES) -> dict[str, str]:
    """Versions of distributions; those that are not installed are left out.

    Example:
        >>> list(versions(["numpy", "no-such-library"]))
        ['numpy']
    """
    found = {}
    for library in libraries:
        try:
            found[library] = (
                kexpfam.__version__
                if library == "kexpfam"  # a source tree on the path is not installed
                else importlib.metadata.version(library)
            )
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def machine() -> dict[str, Any]:
    """Cores, processor, Python and system.

    Example:
        >>> list(machine())
        ['cores', 'processor', 'python', 'system']
    """
    return {
        "cores": os.cpu_count(),
        "processor": _processor(),
        "python": platform.python_version(),
        "system": platform.system(),
    }


def _processor() -> str:
    # On Linux, `platform` knows the architecture only.
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2] for line in lines if line.startswith("model name")]
    return " ".join((names or [platform.processor()])[0].split()) or platform.machine()


def origin() -> dict[str, Any]:
    """Commit, versions and machine, as they stand in a result file.

    Example:
        >>> list(origin())
        ['commit', 'uncommitted', 'versions', 'machine']
    """
    found = commit()
    return {
        "commit": found,
        "uncommitted": found is not None and uncommitted(),
        "versions": versions(),
        "machine": machine(),
    }
