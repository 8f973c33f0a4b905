"""What ranks of ordered categories gain on one-hot coding, in nats.

    python benchmarks/table_coding.py [--splits 0 1 2] [--rows 500] [--models NAME ...]

`AutoKCEF` and `KCEF` are fitted to 500 rows of the diamonds, with cut, color and
clarity as ranks (`ordered=`) and as texts (one column for each category), and scored on
500 other rows. Rows of a split are drawn without replacement, with the split as seed.
Differences are of the same rows, with standard errors over them. No row was looked at
for choosing anything else than that ranks are the coding of ordered categories.
Needs `KEXPFAM_DATA` with `tables/diamonds.csv.gz`, and pandas.
"""

import argparse
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from record import write_result

from kexpfam import KCEF, AutoKCEF

ORDERS = {
    "cut": ["Fair", "Good", "Very Good", "Premium", "Ideal"],
    "color": ["J", "I", "H", "G", "F", "E", "D"],
    "clarity": ["I1", "SI2", "SI1", "VS2", "VS1", "VVS2", "VVS1", "IF"],
}
MODELS = {"AutoKCEF": AutoKCEF, "KCEF": KCEF}


def scored(model: Any, train: pd.DataFrame, test: pd.DataFrame) -> dict[str, Any]:
    """Log densities of the test rows, coverage of 90 % intervals, and CPU seconds."""
    start = time.process_time()
    model.fit(train, "price")
    seconds = time.process_time() - start
    low, high = model.predict_interval(test, 0.9).T
    inside = (test["price"] >= low) & (test["price"] <= high)
    return {
        "log_p": model.score_samples(test, test["price"]),
        "coverage": float(inside.mean()),
        "columns": len(model.coder_.coding_.columns),
        "cpu_seconds": round(seconds, 1),
    }


def compared(name: str, split: int, rows: int) -> dict[str, Any]:
    """Both codings on one split."""
    folder = Path(os.environ["KEXPFAM_DATA"]) / "tables"
    table = pd.read_csv(folder / "diamonds.csv.gz").drop(columns="rownames")
    drawn = table.sample(2 * rows, random_state=split)
    train, test = drawn[:rows], drawn[rows:]
    found = {
        coding: scored(MODELS[name](random_state=0, ordered=order), train, test)
        for coding, order in (("ranks", ORDERS), ("one-hot", None))
    }
    gain = found["ranks"]["log_p"] - found["one-hot"]["log_p"]
    for part in found.values():
        part["log_density"] = round(float(np.mean(part.pop("log_p"))), 4)
    return {
        "model": name,
        "split": split,
        "rows": rows,
        "gain": round(float(gain.mean()), 4),
        "standard_error": round(float(gain.std(ddof=1) / np.sqrt(len(gain))), 4),
        **found,
    }


def main() -> None:
    """Compare, print, and write the result."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--splits", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--rows", type=int, default=500)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    chosen = parser.parse_args()
    cases = []
    for name in chosen.models:
        for split in chosen.splits:
            cases.append(compared(name, split, chosen.rows))
            print(cases[-1], flush=True)
    write_result("table_coding", {"cases": cases})


if __name__ == "__main__":
    main()
