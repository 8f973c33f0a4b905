"""Seconds that fits with a time budget take on all rows of the diamonds.

    python benchmarks/time_budget.py [--cpu] [--budgets 20 40]

`AutoKCEF` and `KCEF` with `time_budget`, on 53,940 rows with texts as they come, each
in a process of its own. With `--cpu` the clock of the budget is that of processor time,
for a machine that others use. Needs `KEXPFAM_DATA` with tables, and pandas; run with
`OPENBLAS_NUM_THREADS=1`.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from record import write_result

FIT = """
import json, sys, time, warnings
name, budget, path, cpu = sys.argv[1:]
if cpu == "cpu":
    time.monotonic = time.process_time
import pandas as pd
import kexpfam
warnings.simplefilter("ignore")
table = pd.read_csv(path)
begun = time.perf_counter(), time.process_time()
model = getattr(kexpfam, name)(time_budget=float(budget), random_state=0)
model.fit(table, "price")
wall, cpu = time.perf_counter() - begun[0], time.process_time() - begun[1]
stopped = getattr(model, "stopped_", None) or model.selection_.reason
score = model.score(table[::50], "price")
print(json.dumps([round(wall, 1), round(cpu, 1), round(score, 3), stopped]))
"""


def measured(name: str, budget: float, clock: str) -> dict[str, Any]:
    """One fit."""
    path = Path(os.environ["KEXPFAM_DATA"]) / "tables" / "diamonds.csv.gz"
    words = [sys.executable, "-c", FIT, name, str(budget), str(path), clock]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    wall, cpu, score, stopped = json.loads(done.stdout)
    return {
        "estimator": name,
        "budget": budget,
        "wall": wall,
        "cpu": cpu,
        "log density of every fiftieth row": score,
        "stopped": stopped,
    }


def main() -> None:
    """Measure, print, and write the result."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--budgets", nargs="+", type=float, default=[20.0, 40.0])
    chosen = parser.parse_args()
    clock = "cpu" if chosen.cpu else "wall"
    fits = []
    for name in ("AutoKCEF", "KCEF"):
        for budget in chosen.budgets:
            fits.append(measured(name, budget, clock))
            print(fits[-1], flush=True)
    write_result("time_budget", {"clock of the budget": clock, "fits": fits})


if __name__ == "__main__":
    main()
