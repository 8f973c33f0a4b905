"""What trees gain by seeing gaps and categories of a table as such, in nats.

    python benchmarks/tree_views.py [--splits 0 1 2] [--rows 1000]

The location of a learned summary (extremely randomised trees and a random forest,
stacked) is fitted to rows of the diamonds (log price) and of the flights (arrival
delay), and predicts as many other rows. Trees see coded columns: a median beside a
column that says where values are missing, and a column of zeros and ones for each
category; or NaN for what is missing; or a further column with held-out means of y for
each group of zeros and ones; or both. Gaps are made in columns of numbers: in a fifth
of the rows at random, or in two fifths of the rows above the median. Figures are nats a
row, log of the ratio of root mean squared errors, positive where it is better than the
coded columns. Rows of a split are drawn without replacement, with the split as seed.
Needs `KEXPFAM_DATA` with tables, and pandas.
"""

import argparse
import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from record import write_result

from kexpfam.summaries import ColumnKinds
from kexpfam.summaries.learners import ForestLearner, ViewedLearner, stacked
from kexpfam.tables import Coding, as_table

LEARNERS = [
    ForestLearner("extra", trees=100),
    ForestLearner("random", trees=100, max_features=0.5),
]
NUMBERS = {
    "diamonds": ["carat", "depth", "table", "x", "y", "z"],
    "flights": ["dep_delay", "distance", "dep_time", "sched_dep_time"],
}
GAPS = ("none", "at random", "above the median")


def read(name: str) -> tuple[pd.DataFrame, str]:
    """A table, and the name of its response."""
    folder = Path(os.environ["KEXPFAM_DATA"]) / "tables"
    table = pd.read_csv(folder / f"{name}.csv.gz")
    if name == "diamonds":
        table["price"] = np.log(table["price"])
        return table.drop(columns="rownames"), "price"
    table = table[table["arr_delay"].notna()]
    return table.drop(columns=["arr_time", "air_time"]), "arr_delay"


def with_gaps(table: pd.DataFrame, name: str, gaps: str, seed: int) -> pd.DataFrame:
    """A table of which some numbers are missing."""
    rng, found = np.random.default_rng(seed), table.copy()
    for column in NUMBERS[name]:
        values = table[column].astype(float)
        draws = rng.random(len(table))
        gone = draws < (0.2 if gaps == "at random" else 0.4)
        if gaps == "above the median":
            gone &= values > values.median()
        found[column] = values.mask(gone) if gaps != "none" else values
    return found


def compared(name: str, gaps: str, split: int, rows: int) -> dict[str, Any]:
    """Errors of all views on one split."""
    table, target = read(name)
    drawn = table.sample(2 * rows, random_state=split).reset_index(drop=True)
    y = drawn.pop(target).to_numpy(float)
    drawn = with_gaps(drawn, name, gaps, split)
    Y = y[:rows, None]
    coding = Coding.learn(drawn[:rows], Y=Y)
    X = coding.training(as_table(drawn[:rows]), Y)
    new = coding.transform(drawn[rows:]).X
    kinds = coding.kinds or ColumnKinds()
    views = {
        "coded": None,
        "missing values": ColumnKinds(gaps=kinds.gaps),
        "categories": ColumnKinds(groups=kinds.groups),
        "both": kinds,
    }
    errors = {}
    for view, own in views.items():
        learners = [
            learner if own is None else ViewedLearner(learner, own)
            for learner in LEARNERS
        ]
        rng, weights = np.random.default_rng(0), np.ones(rows)
        parts = [learner.cross_fit(X, Y, weights, rng) for learner in learners]
        model = stacked(parts, y[:rows], weights).model
        left = y[rows:] - model.predict(new)[:, 0]
        errors[view] = 0.5 * float(np.log(np.mean(left**2)))
    gains = {
        k: round(errors["coded"] - e, 4) for k, e in errors.items() if k != "coded"
    }
    return {"table": name, "gaps": gaps, "split": split, "rows": rows, **gains}


def main() -> None:
    """Compare, print, and write the result."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--splits", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--rows", type=int, default=1000)
    chosen = parser.parse_args()
    cases = []
    for name in NUMBERS:
        for gaps in GAPS:
            for split in chosen.splits:
                cases.append(compared(name, gaps, split, chosen.rows))
                print(cases[-1], flush=True)
    write_result("tree_views", {"cases": cases})


if __name__ == "__main__":
    main()
