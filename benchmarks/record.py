"""Results with everything needed to know where they came from."""

import datetime
import importlib.metadata
import json
import os
import platform
import subprocess
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


def write_result(name: str, result: dict[str, Any]) -> Path:
    """Write one result file with seed-independent metadata."""
    content = {
        "command": f"python benchmarks/{name}.py",
        "date": datetime.date.today().isoformat(),
        "commit": _git("rev-parse", "--short", "HEAD"),
        "uncommitted_source": bool(
            _git("status", "--porcelain", "--", "../src", "*.py")
        ),
        "machine": {
            "cores": os.cpu_count(),
            "processor": platform.processor() or platform.machine(),
            "python": platform.python_version(),
        },
        "versions": {lib: importlib.metadata.version(lib) for lib in _LIBRARIES},
        "result": result,
    }
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps(content, indent=2) + "\n")
    return path
