"""`AutoKCEF` and other methods on regression tables with given splits.

    python benchmarks/design_tables.py [--tables NAME ...] [--splits 3] [--rows N]
        [--methods NAME ...] [--report]

The environment variable KEXPFAM_DATA has to name a folder whose subfolder `tables` has
the tables and their splits (a tenth of the rows tests). `diamonds` has no splits: 2,000
rows drawn with the split's number as seed test, and its ordered columns are numbers.
y is in its own units, losses are mean negative log densities of test rows, and every
method has its defaults. `--rows` limits the training rows, drawn with the number of the
split as seed. Rivals need an environment of their own, described in `README.md`; their
definitions are in `table_rivals.py`.

`results/tables.jsonl` has one line for each split, as in the reproduction; what is
there is not run again. `--report` prints the table.
"""

import argparse
import os
import sys
import time
from pathlib import Path

import numpy as np
from record import RESULTS

from kexpfam import AutoKCEF
from reproduction.protocol import Method, losses
from reproduction.record import Figures, Record, Suite, Task, read
from reproduction.runner import run
from reproduction.tables import in_words, samples, table

# With a y that is continuous, or nearly: of `forest` half are 0, `pol` has 11 values.
TABLES = (
    "servo",
    "machine",
    "concreteslump",
    "autompg",
    "stock",
    "airfoil",
    "skillcraft",
    "sml",
    "pumadyn32nm",
    "power",
    "elevators",
    "bike",
    "kin40k",
)
ORDERED = {
    "cut": ["Fair", "Good", "Very Good", "Premium", "Ideal"],
    "color": list("JIHGFED"),
    "clarity": ["I1", "SI2", "SI1", "VS2", "VS1", "VVS2", "VVS1", "IF"],
}


def data(name: str, split: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows with y in the last column, and which of them test."""
    folder = Path(os.environ["KEXPFAM_DATA"]) / "tables"
    if name == "diamonds":
        rows = diamonds(folder)
        test = np.zeros(len(rows), dtype=bool)
        test[np.random.default_rng(split).permutation(len(rows))[:2000]] = True
        return rows, test
    rows = np.loadtxt(folder / f"{name}.csv.gz", delimiter=",")
    masks = np.loadtxt(folder / f"{name}_test_mask.csv.gz", delimiter=",")
    return rows, masks[:, split] == 1


def diamonds(folder: Path) -> np.ndarray:
    """Price last, ordered categories by their rank."""
    text = np.genfromtxt(
        folder / "diamonds.csv.gz", delimiter=",", dtype=str, encoding="utf-8"
    )
    names = [name.strip('"') for name in text[0]]
    columns = {}
    for name, column in zip(names, text[1:].T, strict=True):
        plain = np.char.strip(column, '"')
        if name in ORDERED:
            columns[name] = np.array([ORDERED[name].index(one) for one in plain], float)
        elif name not in ("", "rownames"):
            columns[name] = plain.astype(float)
    price = columns.pop("price")
    return np.column_stack([*columns.values(), price])


def measured(task: Task, seed: int) -> Figures:
    """One method on one split."""
    method = methods()[task.method]
    rows, test = data(task.case, task.split)
    train = np.random.default_rng(task.split).permutation(np.flatnonzero(~test))
    train = train[: task.rows]
    X, y = rows[:, :-1], rows[:, -1]
    start, cpu = time.perf_counter(), time.process_time()
    model = method.make(seed).fit(X[train], y[train])
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    start = time.perf_counter()
    log_p = model.score_samples(X[test], y[test])
    return {
        "train_rows": len(train),
        "test_rows": int(test.sum()),
        **losses(log_p[:, None], vanishing=method.can_vanish),
        "fit_seconds": round(seconds, 3),
        "fit_cpu_seconds": round(cpu, 3),
        "score_seconds": round(time.perf_counter() - start, 3),
    }


def methods() -> dict[str, Method]:
    """All methods by name."""
    from table_rivals import METHODS

    # Rivals have densities, so that this is one too, whatever the table looks like.
    own = Method(
        lambda seed: AutoKCEF(lower=-np.inf, atoms=False, random_state=seed),
        False,
        "the defaults",
    )
    return {"AutoKCEF": own, **METHODS}


def report(records: list[Record]) -> str:
    """Mean losses by table and number of rows; the best mean is marked."""
    done = [record for record in records if record.error is None]
    names = [m for m in methods() if any(r.task.method == m for r in done)]
    cases: dict[tuple[str, int | None], list[Record]] = {}
    for r in done:
        # A limit that no table of this size reaches is none.
        limit = r.task.rows if r.figures["train_rows"] == r.task.rows else None
        cases.setdefault((r.task.case, limit), []).append(r)
    lines = []
    for (case, _), own in cases.items():
        means = samples(own, "nll")[case]
        found = {
            name: list(means[name].values.values()) if name in means else []
            for name in names
        }
        best = min(np.mean(v) for v in found.values() if v)
        size = own[0].figures["train_rows"]
        cells = [
            f"**{in_words(v)}**" if v and np.mean(v) == best else in_words(v)
            for v in found.values()
        ]
        lines.append([case, str(size), *cells])
    return table(["table", "rows", *names], lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", nargs="+", default=list(TABLES))
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--rows", type=int, help="training rows, at most")
    parser.add_argument("--methods", nargs="+", default=["AutoKCEF"])
    parser.add_argument("--folder", type=Path, default=RESULTS, help="of results")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--report", action="store_true", help="run nothing")
    options = parser.parse_args()
    tasks = [
        Task("tables", case, method, split, options.rows)
        for case in options.tables
        for split in range(options.splits)
        for method in options.methods
    ]
    suite = Suite("tables", "tables", tasks, measured, 0, lambda *_: "")
    if not options.report:
        run([(suite, tasks)], options.folder, jobs=options.jobs, stream=sys.stderr)
    print(report(read(options.folder / "tables.jsonl")))


if __name__ == "__main__":
    main()
