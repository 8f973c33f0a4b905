"""Results with everything needed to know where they came from."""

import datetime
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kexpfam.experiments import provenance

_HERE = Path(__file__).parent
RESULTS = _HERE / "results"
_LIBRARIES = ("kexpfam", "numpy", "scipy", "scikit-learn")


def commit() -> str:
    """The commit that is checked out."""
    return provenance.commit(_HERE) or ""


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
        "uncommitted_source": provenance.uncommitted(_HERE, ["../src", "*.py"]),
        "machine": {
            name: value
            for name, value in provenance.machine().items()
            if name != "system"
        },
        "versions": provenance.versions(libraries),
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
