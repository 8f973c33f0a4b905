"""LSCDE and conditional kernel density estimates on the paper's fourteen R data sets.

KEXPFAM_DATA names the folder of the sets. The protocol, and the layout of
`results/baselines.json`, are in `protocol.py`; `--report` prints the table of the file,
with the column that the KCEF paper prints for LSCDE. LSCDE is tuned by held-out
likelihood and by held-out squared loss.
"""

import argparse
import json
from dataclasses import dataclass
from typing import Any

import numpy as np
from protocol import SEEDS, SETS, run, seed_range
from record import RESULTS, write_result
from rival_methods import Fitted

from kexpfam.baselines import LSCDE, ConditionalKDE
from kexpfam.experiments.published import TABLE1

OUT = RESULTS / "baselines.json"


@dataclass(frozen=True)
class Baseline:
    """How a baseline is made and fitted."""

    description: str
    estimator: type[LSCDE | ConditionalKDE]
    arguments: tuple[tuple[str, Any], ...] = ()
    can_vanish: bool = True

    def fit(self, X: np.ndarray, y: np.ndarray, seed: int) -> Fitted:
        model = self.estimator(random_state=seed, **dict(self.arguments))
        return Fitted(model.fit(X, y))


METHODS = {
    "LSCDE": Baseline("100 centres, 20 x 20 grid, 5-fold likelihood", LSCDE),
    "LSCDE, squared loss": Baseline(
        "100 centres, 20 x 20 grid, 5-fold squared loss",
        LSCDE,
        (("select", "squared_loss"),),
    ),
    "ConditionalKDE": Baseline(
        "one width per column, leave-one-out likelihood", ConditionalKDE
    ),
}


def report() -> None:
    summary = json.loads(OUT.read_text())["result"]["summary"]
    print("| set | LSCDE, published | " + " | ".join(METHODS) + " |")
    print("| --- " * (len(METHODS) + 2) + "|")
    for name, printed in TABLE1.items():
        found = [summary[name][method] for method in METHODS]
        cells = [f"{f['mean']:.2f} ± {f['standard_error']:.2f}" for f in found]
        print(f"| {name} | {printed['LSCDE']:.2f} | " + " | ".join(cells) + " |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=seed_range, default=SEEDS, metavar="100:120")
    parser.add_argument("--report", action="store_true")
    options = parser.parse_args()
    if not options.report:
        run(
            SETS,
            options.seeds,
            METHODS,
            OUT,
            lambda found: write_result("baselines", found, path=OUT),
        )
    report()


if __name__ == "__main__":
    main()
