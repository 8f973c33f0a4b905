"""Are standard deviations those of residuals, and PIT values uniform, on tables?

    python benchmarks/table_calibration.py [--tables NAME ...] [--splits 6 7 8]
        [--rows 1000] [--all-others]

`AutoKCEF()` is fitted to at most so many training rows of a split, and asked about its
test rows. `std / error` is the root of the mean variance over the root mean squared
error of the mean, of the test rows of all splits together, with a standard error over
rows. It is within 5 % if 1 is no farther from it than 0.05 and one standard error: from
a hundred rows it is itself known to a tenth. Beside it stand log loss, the worst row in
nats, coverage of 90 % intervals and the Kolmogorov-Smirnov distance of PIT values from
uniform ones. With --all-others, all rows that were not fitted to test, at most 5,000 of
them: from m rows a distance of 1.36/√m is exceeded one time in twenty by chance.

Tables and splits are those of `design_tables.py`, with hitters and airquality, of which
a quarter tests, drawn with the split as seed. Rows of training are drawn with the
number of the split as seed. Constants were chosen on splits 3 to 5, after others had
looked at 0 to 2. Adds to `results/table_calibration.json` after each table; needs
`KEXPFAM_DATA`, and pandas.
"""

import argparse
import json
import os
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from record import RESULTS, write_result
from scipy import stats

from kexpfam import AutoKCEF

FRAMES = {"hitters": "Salary", "airquality": "Ozone"}
MOST_OTHERS = 5000
LEVEL = 0.9
TOLERANCE = 0.05  # Of a standard deviation, beside one standard error


def frame(name: str, split: int) -> tuple[Any, np.ndarray, Any, np.ndarray]:
    """Training and test rows of a table as it comes, where its response is known."""
    folder, response = Path(os.environ["KEXPFAM_DATA"]) / "tables", FRAMES[name]
    table = pd.read_csv(folder / f"{name}.csv").drop(columns="rownames")
    table = table.dropna(subset=[response])
    table = table.iloc[np.random.default_rng(split).permutation(len(table))]
    X, y = table.drop(columns=response), table[response].to_numpy(float)
    quarter = len(table) // 4
    return X[quarter:], y[quarter:], X[:quarter], y[:quarter]


def numbers(
    name: str, split: int, rows: int, *, all_others: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The same of a table of numbers."""
    from design_tables import data

    table, mask = data(name, split)
    train = np.random.default_rng(split).permutation(np.flatnonzero(~mask))
    test = np.flatnonzero(mask)
    if all_others:
        test = np.concatenate([test, train[rows:]])[:MOST_OTHERS]
    train = train[:rows]
    X, y = table[:, :-1], table[:, -1]
    return X[train], y[train], X[test], y[test]


def measured(train_X: Any, train_y: Any, X: Any, y: np.ndarray) -> dict[str, Any]:
    """Numbers of each test row under one fit."""
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = AutoKCEF(random_state=0, n_jobs=1).fit(train_X, train_y)
    seconds = time.process_time() - start
    p = model.given(X)
    # Of a response with an atom there are many PIT values: one is drawn.
    high, mass = p.cdf(y), getattr(p, "pmf", np.zeros_like)(y)
    pit = high - np.random.default_rng(0).random(len(y)) * mass
    return {
        "squares": np.square(y - p.mean()),
        "variances": p.var(),
        "losses": -p.logpdf(y),
        "pit": np.clip(pit, 0.0, 1.0),
        "seconds": seconds,
    }


def summary(fits: list[dict[str, Any]]) -> dict[str, Any]:
    """Numbers of all test rows together."""

    def rows(name: str) -> np.ndarray:
        return np.concatenate([fit[name] for fit in fits])

    squares, variances, pit = rows("squares"), rows("variances"), rows("pit")
    ratio = float(np.sqrt(variances.mean() / squares.mean()))
    gaps = squares / squares.mean() - variances / variances.mean()
    error = 0.5 * ratio * float(gaps.std()) / len(gaps) ** 0.5
    within = np.abs(pit - 0.5) <= 0.5 * LEVEL
    return {
        "test rows": len(squares),
        "std / error": round(ratio, 3),
        "standard error": round(error, 3),
        "within 5 %": bool(abs(ratio - 1.0) <= TOLERANCE + error),
        "log loss": round(float(rows("losses").mean()), 4),
        "worst row": round(float(rows("losses").max()), 2),
        f"coverage of {LEVEL:.0%}": round(float(within.mean()), 4),
        "PIT distance": round(float(stats.kstest(pit, "uniform").statistic), 4),
        "by chance": round(1.36 / len(pit) ** 0.5, 4),
        "CPU seconds per fit": round(float(np.mean([f["seconds"] for f in fits])), 1),
    }


def main() -> None:
    """Measure, print and write."""
    from design_tables import TABLES

    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tables", nargs="+", default=[*FRAMES, *TABLES])
    parser.add_argument("--splits", type=int, nargs="+", default=[6, 7, 8])
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--all-others", action="store_true")
    parser.add_argument("--dry", action="store_true", help="write nothing")
    options = parser.parse_args()
    path = RESULTS / "table_calibration.json"
    known = json.loads(path.read_text())["result"] if path.exists() else {}
    splits, others = options.splits, options.all_others
    key = f"{options.rows} rows" + (", all others test" if others else "")
    key += f", splits {' '.join(map(str, splits))}"
    result: dict[str, Any] = known.setdefault(key, {})
    for name in options.tables:
        fits = []
        for split in splits:
            if name in FRAMES:
                fits.append(measured(*frame(name, split)))
            else:
                parts = numbers(name, split, options.rows, all_others=others)
                fits.append(measured(*parts))
        result[name] = summary(fits)
        print(f"{name:14s}", result[name], flush=True)
        if not options.dry:
            write_result("table_calibration", known)


if __name__ == "__main__":
    main()
