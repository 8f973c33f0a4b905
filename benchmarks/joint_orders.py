"""Joint densities of the wines, averaged over orders of the columns.

    python benchmarks/joint_orders.py [--cases red_wine] [--splits 0] [--orders 8]
        [--folder FOLDER]

The same as `FactorizedDensity(factor=AutoKCEF(), orders=K)` on the protocol of the
paper's Table 2 (`reproduction/protocol.py`: nine tenths train; columns in units of
their standard deviations; seed 500 + split), for K = 1, 2, 4, ... up to `--orders`,
whose factors are each fitted once. Log densities of test rows under each factor are
kept in a folder, and what is there is not fitted again, so that a run can be stopped
and started at any factor. Cases may be followed by ", distinct rows".

Adds to `results/joint_orders.json` after each split: mean loss of the average of the
first K orders, that of each order alone, and CPU seconds of fits. Needs `KEXPFAM_DATA`.
"""

import argparse
import json
import math
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from record import RESULTS, write_result
from scipy import special

from kexpfam import AutoKCEF
from kexpfam.graphs.factors import fit_factor
from kexpfam.graphs.orders import averaged_graphs, distinct_nodes
from kexpfam.graphs.structure import Node

FIRST_SEED = 500


def fitted(
    node: Node, train: np.ndarray, test: np.ndarray, seed: int, path: Path
) -> dict[str, Any]:
    """Log densities of test rows under one factor, and CPU seconds of its fit."""
    if path.exists():
        known: dict[str, Any] = json.loads(path.read_text())
        return known
    # A density, as others have, whatever a column looks like
    model = AutoKCEF(lower=-math.inf, atoms=False, n_jobs=1, random_state=seed)
    start = time.process_time()
    factor, _ = fit_factor(node, model, train, None)
    seconds = time.process_time() - start
    found = {"seconds": seconds, "log_p": factor.log_density(test).tolist()}
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(found))
    partial.replace(path)
    print(f"{path.stem}: {seconds:.1f} CPU s", flush=True)
    return found


def measured(case: str, split: int, count: int, folder: Path) -> dict[str, Any]:
    """Losses and times of one split."""
    from reproduction.protocol import joint_split

    seed = FIRST_SEED + split
    train, test = joint_split(case, seed)
    rng = np.random.default_rng(seed).spawn(1)[0]  # as `FactorizedDensity` does
    graphs = averaged_graphs("full", range(train.shape[1]), None, None, count, rng)
    known = {}
    for node in distinct_nodes(graphs):
        before = "-".join(map(str, sorted(node.parents)))
        name = f"{case}, split {split}, {node.columns[0]} given {before or 'nothing'}"
        known[node] = fitted(node, train, test, seed, folder / f"{name}.json")
    totals = np.array(
        [sum(np.array(known[v]["log_p"]) for v in graph.nodes) for graph in graphs]
    )
    result: dict[str, Any] = {"train rows": len(train), "test rows": len(test)}
    result["each order alone"] = (-totals.mean(axis=1)).round(4).tolist()
    for k in (2**j for j in range(int(math.log2(count)) + 1)):
        log_p = special.logsumexp(totals[:k], axis=0) - math.log(k)
        gain = log_p - totals[0]
        own = distinct_nodes(graphs[:k])
        result[f"{k} orders"] = {
            "loss": round(-float(log_p.mean()), 4),
            "gain on one": round(float(gain.mean()), 4),
            "standard error": round(float(gain.std() / len(gain) ** 0.5), 4),
            "worst row": round(-float(log_p.min()), 2),
            "factors": len(own),
            "CPU seconds": round(sum(known[v]["seconds"] for v in own), 1),
        }
    return result


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cases", nargs="+", default=["red_wine"])
    parser.add_argument("--splits", type=int, nargs="+", default=[0])
    parser.add_argument("--orders", type=int, default=8)
    place = Path(tempfile.gettempdir()) / "kexpfam_joint_orders"
    parser.add_argument("--folder", type=Path, default=place)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    path = RESULTS / "joint_orders.json"
    for case in options.cases:
        for split in options.splits:
            found = measured(case, split, options.orders, options.folder)
            result = json.loads(path.read_text())["result"] if path.exists() else {}
            result.setdefault(case, {})[f"split {split}"] = found
            print(case, split, found, flush=True)
            write_result("joint_orders", result)


if __name__ == "__main__":
    main()
