"""Which value to put in where x is missing, for kernels: held-out log density.

    python benchmarks/filled_in.py [--splits 0 1 2] [--rows 300]

`KCEF` is fitted to rows of the diamonds (log price) and of airquality (Ozone), beside a
column that says where a value is missing, with one of several values in its place: the
median (what `TableCoder` puts in), the mean, a value three standard deviations below
the smallest, or one in the middle between the median and the upper quartile; and with
the median without a column that says where. Gaps of the diamonds are made as in
`tree_views.py`; those of airquality are its own. Figures are nats a row on other rows,
minus those of the median, with standard errors over rows. Rows of a split are drawn
without replacement, with the split as seed.
"""

import argparse
import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from record import write_result
from tree_views import GAPS, NUMBERS, read, with_gaps

from kexpfam import KCEF

FILLED = ("mean", "extreme", "upper", "median, not said where")


def value(known: pd.Series, how: str) -> float:
    """The value that is put in."""
    if how.startswith("median"):
        return float(known.median())
    if how == "mean":
        return float(known.mean())
    if how == "extreme":
        return float(known.min() - 3.0 * known.std())
    return float(0.5 * (known.median() + known.quantile(0.75)))


def numbers(table: pd.DataFrame, train: pd.DataFrame, how: str) -> pd.DataFrame:
    """Columns of numbers without gaps, and those that say where they were."""
    parts = {}
    for name in table.columns:
        gone = table[name].isna()
        parts[name] = table[name].fillna(value(train[name], how))
        if train[name].isna().any() and how != "median, not said where":
            parts[f"{name} is missing"] = gone.astype(float)
    return pd.DataFrame(parts)


def rows_of(name: str, gaps: str, split: int, rows: int) -> tuple[Any, Any, Any, Any]:
    """Training and other rows, with their responses."""
    if name == "airquality":
        path = Path(os.environ["KEXPFAM_DATA"]) / "tables" / "airquality.csv"
        table = pd.read_csv(path).dropna(subset="Ozone")
        table = table.sample(frac=1.0, random_state=split).reset_index(drop=True)
        columns, target = ["Solar.R", "Wind", "Temp"], np.log(table["Ozone"])
        table, rows = table[columns].astype(float), len(table) // 2
    else:
        table, response = read(name)
        table = table.sample(2 * rows, random_state=split).reset_index(drop=True)
        target = table[response]
        table = with_gaps(table[NUMBERS[name]], name, gaps, split)
    return table[:rows], target[:rows], table[rows:], target[rows:]


def compared(name: str, gaps: str, split: int, rows: int) -> dict[str, Any]:
    """All values on one split."""
    train, y, new, truth = rows_of(name, gaps, split, rows)
    found = {}
    for how in ("median", *FILLED):
        model = KCEF(random_state=0, time_budget=60)
        model.fit(numbers(train, train, how), y)
        found[how] = model.score_samples(numbers(new, train, how), truth)
    case: dict[str, Any] = {"table": name, "gaps": gaps, "split": split}
    for how in FILLED:
        gain = found[how] - found["median"]
        error = gain.std(ddof=1) / np.sqrt(len(gain))
        case[how] = [round(float(gain.mean()), 4), round(float(error), 4)]
    return case


def main() -> None:
    """Compare, print, and write the result."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--splits", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--rows", type=int, default=300)
    chosen = parser.parse_args()
    tables = [("airquality", "its own"), *(("diamonds", gaps) for gaps in GAPS[1:])]
    cases = []
    for name, gaps in tables:
        for split in chosen.splits:
            cases.append(compared(name, gaps, split, chosen.rows))
            print(cases[-1], flush=True)
    write_result("filled_in", {"cases": cases})


if __name__ == "__main__":
    main()
