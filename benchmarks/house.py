"""How large the package is, and how long the way of a fit, here and at other commits.

    python benchmarks/house.py [COMMIT ...]

Lines and modules of `src`, upper-case constants of modules, and public names that two
modules define. Of `KCEF().fit` and `AutoKCEF().fit` on 40 rows: functions that are
entered (those without a name, comprehensions and lambdas, counted apart), modules and
rooms they are in, how often the next new function is in another file, and classes of
the package that are built, in the rooms where a fit is put together.
"""

import argparse
import ast
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from record import write_result

ROOT = Path(__file__).resolve().parent.parent

WALK = """
import json, sys
from pathlib import Path
import numpy as np
import kexpfam
source = str(Path(kexpfam.__file__).parent) + "/"
rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, size=(40, 1))
y = np.sin(3 * X[:, 0]) + 0.2 * rng.normal(size=40)

def walk(estimator):
    order, built = {}, set()
    def profile(frame, event, _):
        code = frame.f_code
        if event != "call":
            return
        if code.co_filename.startswith(source):
            order.setdefault((code.co_filename[len(source):], code.co_qualname))
        if code.co_name == "__init__" and "self" in frame.f_locals:
            kind = type(frame.f_locals["self"])
            room = kind.__module__.split(".")[1:2]
            if kind.__module__.startswith("kexpfam.") and room[0] in (
                "data", "family", "selection", "estimators", "models"
            ):
                built.add(kind.__name__)
    sys.setprofile(profile)
    estimator.fit(X, y)
    sys.setprofile(None)
    files = [file for file, _ in order]
    named = [name for _, name in order if not name.endswith(">")]
    return {
        "functions": len(named),
        "comprehensions and lambdas": len(order) - len(named),
        "modules": len(set(files)),
        "rooms": len({file.split("/")[0] for file in files}),
        "changes of file": sum(a != b for a, b in zip(files, files[1:])),
        "classes": sorted(built),
    }

models = kexpfam.KCEF, kexpfam.AutoKCEF
print(json.dumps({m.__name__: walk(m(n_jobs=1, random_state=0)) for m in models}))
"""


def size(source: Path) -> dict[str, Any]:
    """Numbers of what stands in a folder."""
    homes: Counter[str] = Counter()
    lines = constants = 0
    files = list(source.rglob("*.py"))
    for file in files:
        text = file.read_text(encoding="utf8")
        lines += text.count("\n")
        for node in ast.parse(text).body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef):
                homes[node.name] += not node.name.startswith("_")
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                targets = (
                    node.targets if isinstance(node, ast.Assign) else [node.target]
                )
                names = [t.id for t in targets if isinstance(t, ast.Name)]
                constants += sum(name.isupper() for name in names)
    twice = sum(count > 1 for count in homes.values())
    found = {"lines": lines, "modules": len(files), "constants": constants}
    return found | {"names defined twice": twice}


def measured(source: Path) -> dict[str, Any]:
    """Both, of the package in a folder."""
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", WALK],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONPATH": str(source)},
    )
    walks: dict[str, Any] = json.loads(run.stdout)
    return size(source / "kexpfam") | walks


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("commits", nargs="*")
    found = {}
    for commit in parser.parse_args().commits:
        with tempfile.TemporaryDirectory() as folder:
            tree = Path(folder) / "tree"
            git = ["git", "-C", str(ROOT), "worktree"]
            add = [*git, "add", "--quiet", "--detach", str(tree), commit]
            subprocess.run(add, check=True)
            try:
                found[commit] = measured(tree / "src")
            finally:
                subprocess.run([*git, "remove", "--force", str(tree)], check=True)
    found["now"] = measured(ROOT / "src")
    print(write_result("house", found))


if __name__ == "__main__":
    main()
