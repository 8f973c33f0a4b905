"""Searches of Gaussian processes from one start and from several: loss and CPU time.

KEXPFAM_DATA has to name a folder with regression tables and their masks of test rows in
its subfolder `tables`, as in `weights.py`.

    python benchmarks/starts.py                 writes results/starts.json
    python benchmarks/starts.py pumadyn32nm:0:500 airfoil:0:3000
"""

import json
import sys
import time
from typing import Any

import numpy as np
from record import write_result
from weights import load

from kexpfam.regression import fit_gaussian_process
from kexpfam.regression.process import PROCESS_SPEC, Hyperparameters

# Table, split, and training rows at most
CASES = (
    *(f"pumadyn32nm:{split}:{n}" for n in (500, 3000, 8000) for split in range(3)),
    *(f"skillcraft:{split}:3000" for split in range(3)),
    *(f"airfoil:{split}:3000" for split in range(3)),
    *(f"stock:{split}:500" for split in range(3)),
    *(f"sml:{split}:3000" for split in range(3)),
)


def measured(case: str) -> dict[str, Any]:
    """Mean negative log density of test rows, and CPU seconds, of both searches."""
    name, split, most = case.split(":")
    train, test = load(f"{name}:{split}", int(most))
    mean, _, _ = PROCESS_SPEC.prior(train.shape[1] - 1)
    # With the prior's mean for "similar data" no other starts are tried.
    starts = {"one": [Hyperparameters.from_logs(mean)], "several": []}
    found: dict[str, Any] = {"rows": len(train)}
    for label, similar in starts.items():
        start = time.process_time()
        fit = fit_gaussian_process(train[:, :-1], train[:, -1], similar=similar)
        spent = time.process_time() - start
        location, variance = fit.process.predict(test[:, :-1])
        variance = variance + fit.process.noise_variance
        off = (test[:, -1] - location) ** 2 / variance
        nll = 0.5 * float(np.mean(np.log(2.0 * np.pi * variance) + off))
        found[label] = {"nll": round(nll, 4), "seconds": round(spent, 2)}
    return found


def main() -> None:
    """Measure the cases."""
    result = {}
    for case in sys.argv[1:] or CASES:
        result[case] = measured(case)
        print(case, json.dumps(result[case]), flush=True)
        write_result("starts", result)


if __name__ == "__main__":
    main()
