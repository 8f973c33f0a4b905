"""Results with everything needed to know where they came from."""

import datetime
import importlib.metadata
import json
import os
import platform
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
_LIBRARIES = ("kexpfam", "numpy", "scipy", "scikit-learn")


def _git(*arguments: str) -> str:
    return subprocess.run(
        ["git", *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parent,
    ).stdout.strip()


def commit() -> str:
    """The commit that is checked out."""
    return _git("rev-parse", "--short", "HEAD")


def write_result(
    name: str,
    result: dict[str, Any],
    *,
    libraries: Sequence[str] = _LIBRARIES,
    path: Path | None = None,
) -> Path:
    """Write one result file with seed-independent metadata.

    Args:
        name: The script, without suffix.
        result: What it found.
        libraries: Distributions whose versions matter.
        path: Where to, `results/<name>.json` unless given.
    """
    content = {
        "command": f"python benchmarks/{name}.py",
        "date": datetime.date.today().isoformat(),
        "commit": commit(),
        "uncommitted_source": bool(
            _git("status", "--porcelain", "--", "../src", "*.py")
        ),
        "machine": {
            "cores": os.cpu_count(),
            "processor": platform.processor() or platform.machine(),
            "python": platform.python_version(),
        },
        "versions": {lib: importlib.metadata.version(lib) for lib in libraries},
        "result": result,
    }
    path = path or RESULTS / f"{name}.json"
    path.parent.mkdir(exist_ok=True)
    text = json.dumps(content, indent=2) + "\n"
    # Lists of numbers stand on one line: thousands of lines of one number help nobody.
    text = re.sub(r'\[[^][{}"]*\]', lambda found: " ".join(found[0].split()), text)
    # A run that is stopped while it writes must not lose what it has.
    partial = path.with_suffix(".partial")
    partial.write_text(text)
    partial.replace(path)
    return path
