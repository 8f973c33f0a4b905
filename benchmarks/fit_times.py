"""How long does `AutoKCEF` take beside NGBoost, and what of many rows?

    python benchmarks/fit_times.py [--tables NAME ...] [--rows 500 5000] [--large NAME]
        [--splits 2]

CPU seconds of fits with one thread of BLAS and one of ours, defaults of every method,
on tables of `design_tables.py`; rivals need the environment described in `README.md`.
Each method is fitted to few rows first, so that nothing is imported while it is timed.
A large table, with all its training rows, is for `AutoKCEF` alone: also the size of its
file, and densities of test rows in a CPU second. Writes `results/fit_times.json` after
every fit.
"""

import argparse
import os
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from design_tables import data, methods
from record import RESULTS, write_result

METHODS = ("AutoKCEF", "ngboost_stopped", "ngboost")


def rows_of(name: str, split: int, most: int | None) -> tuple[np.ndarray, ...]:
    """X and y of training rows, drawn with the split as seed, and of test rows."""
    rows, test = data(name, split)
    train = np.random.default_rng(split).permutation(np.flatnonzero(~test))[:most]
    return rows[train, :-1], rows[train, -1], rows[test, :-1], rows[test, -1]


def timed(method: str, name: str, split: int, most: int | None) -> dict[str, Any]:
    """One fit: its CPU seconds, and what it predicts."""
    X, y, test_X, test_y = rows_of(name, split, most)
    make = methods()[method].make
    make(0).fit(X[:450], y[:450])  # imports, and what is computed once
    start = time.process_time()
    model = make(0).fit(X, y)
    seconds = time.process_time() - start
    start = time.process_time()
    log_p = np.asarray(model.score_samples(test_X, test_y))
    scoring = time.process_time() - start
    found = {
        "table": name,
        "split": split,
        "rows": len(y),
        "columns": X.shape[1],
        "method": method,
        "fit_cpu_seconds": round(seconds, 3),
        "nll": round(-float(log_p.mean()), 4),
        "densities_a_cpu_second": round(len(test_y) / scoring),
    }
    if method == "AutoKCEF" and most is None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.kexpfam"
            model.save(path)
            found["file_megabytes"] = round(path.stat().st_size / 1e6, 1)
    return found


def ratios(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Sums of times over splits, `AutoKCEF` beside each rival."""
    cases = dict.fromkeys((run["table"], run["rows"]) for run in runs)
    found = []
    for table, rows in cases:
        own = [run for run in runs if (run["table"], run["rows"]) == (table, rows)]
        total = {
            method: sum(r["fit_cpu_seconds"] for r in own if r["method"] == method)
            for method in METHODS
        }
        ratio = {
            f"of {rival}": round(total["AutoKCEF"] / total[rival], 2)
            for rival in METHODS[1:]
            if total[rival]
        }
        found.append({"table": table, "rows": rows, **ratio})
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", nargs="*", default=["skillcraft", "power"])
    parser.add_argument("--rows", nargs="*", type=int, default=[500, 5000])
    parser.add_argument("--large", nargs="*", default=["kin40k"])
    parser.add_argument("--splits", type=int, default=2)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if os.environ.get("OPENBLAS_NUM_THREADS") != "1":
        raise SystemExit("Set OPENBLAS_NUM_THREADS=1, so that times are comparable.")
    tasks = [
        (method, table, split, rows)
        for rows in options.rows
        for table in options.tables
        for split in range(options.splits)
        for method in METHODS
    ]
    tasks += [("AutoKCEF", table, 0, None) for table in options.large]
    runs: list[dict[str, Any]] = []
    for task in tasks:
        runs.append(timed(*task))
        print(runs[-1], flush=True)
        write_result("fit_times", {"ratios": ratios(runs), "runs": runs})
    print(*ratios(runs), sep="\n")
    print(RESULTS / "fit_times.json")


if __name__ == "__main__":
    main()
