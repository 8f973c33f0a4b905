"""Size and speed of forests by leaf size, number of trees and principal components.

kin40k, training rows of the first split without 2,000 that judge. A forest predicts the
indicators of twelve quantile bins of y: the error is the mean squared one of the
judging rows, summed over bins (11/12 if nothing is known), and the out-of-bag one of
training rows for all trees. Components are those of out-of-bag predictions. Rows per
second are of predictions on all cores, and for each second of processor time.
KEXPFAM_DATA names the folder with `tables/`. `--report` prints the written file as a
table.
"""

import argparse
import json
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from record import RESULTS, write_result

from kexpfam._typing import Array
from kexpfam.trees import Forest, fit_boosting, fit_forest

JUDGES, BINS, COMPONENTS = 2000, 12, (3, 6)
LEAVES, TREES = (1, 3, 5, 10), (100, 200, 300)
TIMED = 10_000  # Rows whose prediction is timed


def load() -> tuple[Array, Array]:
    """Conditions and responses of the training rows of the first split."""
    folder = Path(os.environ["KEXPFAM_DATA"], "tables")
    rows = np.loadtxt(folder / "kin40k.csv.gz", delimiter=",")
    test = np.loadtxt(folder / "kin40k_test_mask.csv.gz", delimiter=",")[:, 0] == 1
    return rows[~test, :-1], rows[~test, -1]


def error(Y: Array, predicted: Array) -> float:
    return float(np.mean(np.sum((Y - predicted) ** 2, axis=1)))


def measure(forest: Forest, X: Array, judges: Array, bins: Array) -> dict[str, Any]:
    forest.predict(X[:1])  # its nodes are made
    wall, processor = time.perf_counter(), time.process_time()
    forest.predict(X[:TIMED])
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    return {
        "megabytes": round(forest.nbytes / 1e6, 1),
        "rows_per_second": round(TIMED / wall),
        "rows_per_processor_second": round(TIMED / processor),
        "error": round(error(bins, forest.predict(judges)), 4),
    }


def run() -> dict[str, Any]:
    X, y = load()
    edges = np.quantile(y[JUDGES:], np.arange(1, BINS) / BINS)
    Y = np.eye(BINS)[np.searchsorted(edges, y)]
    judges, bins, X, Y = X[:JUDGES], Y[:JUDGES], X[JUDGES:], Y[JUDGES:]
    found: dict[str, Any] = {"rows": len(X), "cores": os.cpu_count(), "leaves": {}}
    for least in LEAVES:
        clock = time.process_time()
        fit = fit_forest(
            X, Y, np.ones(len(X)), np.random.default_rng(0), trees=300, min_leaf=least
        )
        figures: dict[str, Any] = {
            "fit_processor_seconds": round(time.process_time() - clock, 1),
            "leaves_of_a_tree": round(len(fit.forest.values) / 300),
            "out_of_bag_error": round(error(Y, fit.held_out), 4),
        }
        for trees in TREES:
            fewer = replace(fit.forest.first(trees), scale=1 / trees)
            figures[f"{trees} trees"] = measure(fewer, X, judges, bins)
            for r in COMPONENTS:
                small = fewer.compressed(r, fit.held_out)
                name = f"{trees} trees, {r} components"
                figures[name] = measure(small, X, judges, bins)
        found["leaves"][str(least)] = figures
        write_result("trees", found)
        print(least, figures, flush=True)
    clock = time.process_time()
    boosted = fit_boosting(X, y[JUDGES:], np.ones(len(X)), np.random.default_rng(0))
    found["boosting of y"] = {
        "fit_processor_seconds": round(time.process_time() - clock, 1),
        "rounds": boosted.forest.n_trees,
        **measure(boosted.forest, X, judges, y[:JUDGES, None]),
    }
    return found


def report() -> None:
    result = json.loads((RESULTS / "trees.json").read_text())["result"]
    print("| leaf | forest | MB | rows/s | per processor second | error |")
    print("| --: | :-- | --: | --: | --: | --: |")
    for least, figures in result["leaves"].items():
        for name, cell in figures.items():
            if isinstance(cell, dict):
                print("|", least, "|", name, "|", *[f"{v} |" for v in cell.values()])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--report", action="store_true")
    if parser.parse_args().report:
        report()
    else:
        write_result("trees", run())
