"""Result files of scripts that measure once: what was found, and where it came from.

Scripts are started by their path. The folder above, which has `reproduction`, is put on
the path of modules here.
"""

import json
import re
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_HERE = Path(__file__).parent
RESULTS = _HERE / "results"
_LIBRARIES = ("kexpfam", "numpy", "scipy", "scikit-learn")

sys.path.insert(0, str(_HERE.parent))


def write_result(
    name: str,
    result: dict[str, Any],
    *,
    libraries: Sequence[str] = _LIBRARIES,
    path: Path | None = None,
) -> Path:
    """Write one result file with seed-independent metadata.

    Args:
        name: Of the file, without suffix; mostly that of the script.
        result: What it found.
        libraries: Distributions whose versions matter.
        path: Where to, `results/<name>.json` unless given.
    """
    from reproduction.record import origin

    script, *arguments = sys.argv
    command = shlex.join(["python", f"benchmarks/{Path(script).name}", *arguments])
    content = {"command": command, **origin(libraries), "result": result}
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
