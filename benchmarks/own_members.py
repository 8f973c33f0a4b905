"""Is an average ever worse than the best of its own members?

    python benchmarks/own_members.py [--tables NAME ...] [--rows 500 3000 0]
        [--splits 0 1 2] [--report]

`AutoKCEF()` is fitted to so many training rows of a split (0 for all, at most 60,000,
which no table has), drawn with the split's number as seed. Each member alone, and the
best single family, is then asked about the same test rows as the average: those of the
split, and training rows that were not fitted to, 5,000 in all at most. `behind` is the
log loss of the average minus that of the member which turns out to be best on these
test rows, which nobody could have known; `behind chosen` minus that of the one that was
best on held-out rows. Both with standard errors over test rows. The aim is 0.02.

The best of many members on few test rows is mostly the luckiest. `behind, cross-fitted`
is what is left of `behind` without luck: the member that is best on one half of the
test rows is compared on the other half, over many halvings. `--report` has its mean
over splits, with a standard error over splits. Half of ten rows picks members badly,
so that a negative figure there says little. `behind by luck` is what the best would be
ahead by on average if all members were exactly as good as the average, by bootstrap of
test rows (White's reality check, 2000), and `luck` how often that is as much as was
found. Members that are worse than the average leave less to luck than that.

Tables with fewer training rows than asked for are fitted once, to all of them. Tables
and splits are those of `design_tables.py`. Adds to `results/own_members.json` after
each fit; what is there is not run again. `--report` prints the table. Needs
`KEXPFAM_DATA`; run with `OPENBLAS_NUM_THREADS=1`.
"""

import argparse
import json
import time
import warnings
from typing import Any

import numpy as np
from design_tables import TABLES, data
from record import RESULTS, write_result

from kexpfam import AutoKCEF
from reproduction.tables import table

MOST_ROWS, MOST_TESTS = 60_000, 5000
SIZES = 500, 3000
AIM = 0.02


def parts(
    name: str, split: int, rows: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Training and test rows."""
    all_rows, mask = data(name, split)
    train = np.random.default_rng(split).permutation(np.flatnonzero(~mask))
    test = np.concatenate([np.flatnonzero(mask), train[rows:]])[:MOST_TESTS]
    train, X, y = train[:rows], all_rows[:, :-1], all_rows[:, -1]
    return X[train], y[train], X[test], y[test]


def single_log_densities(
    model: AutoKCEF, X: np.ndarray, y: np.ndarray
) -> tuple[list[str], np.ndarray, int]:
    """Names of members, their log densities (k, n), and which was best before."""
    names, found, held_out = [], [], []
    for member in model.members_:
        one = member.family.density(X) if member.family else member.expert.given(X)
        names.append(f"{member.base}; {member.candidate.method}; {member.kernel}")
        found.append(one.logpdf(y))
        held_out.append(member.held_out)
    chosen = int(np.argmax(held_out))
    names.append("best_")
    found.append(model.best_.score_samples(X, y))
    return names, np.stack(found), chosen


def compared(log_p: np.ndarray, single: np.ndarray) -> tuple[float, float]:
    """Log loss of an average minus that of a member, and its standard error."""
    gap = single - log_p
    return round(float(gap.mean()), 4), round(float(gap.std() / len(gap) ** 0.5), 4)


def cross_fitted(log_p: np.ndarray, single: np.ndarray, halvings: int = 500) -> float:
    """Log loss of an average minus that of the member that is best on other rows."""
    gap, rng = single - log_p, np.random.default_rng(0)
    found = []
    for _ in range(halvings):
        halves = np.array_split(rng.permutation(len(log_p)), 2)
        for half, other in (halves, halves[::-1]):
            best = int(np.argmax(gap[:, half].mean(axis=1)))
            found.append(gap[best, other].mean())
    return round(float(np.mean(found)), 4)


def by_luck(
    log_p: np.ndarray, single: np.ndarray, draws: int = 2000
) -> tuple[float, float]:
    """What the best of members as good as the average is ahead by; how often more."""
    gap, rng = single - log_p, np.random.default_rng(0)
    rows = rng.integers(len(log_p), size=(draws, len(log_p)))
    centred = gap - gap.mean(axis=1, keepdims=True)
    best = np.max([own[rows].mean(axis=1) for own in centred], axis=0)
    found = gap.mean(axis=1).max()
    return round(float(best.mean()), 4), round(float(np.mean(best >= found)), 3)


def measured(name: str, split: int, rows: int) -> dict[str, Any]:
    """One fit, and its members."""
    train_X, train_y, X, y = parts(name, split, rows)
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = AutoKCEF(lower=-np.inf, atoms=False, random_state=split, n_jobs=1)
        model.fit(train_X, train_y)
    seconds = time.process_time() - start
    log_p = model.score_samples(X, y)
    names, singles, chosen = single_log_densities(model, X, y)
    best = int(np.argmax(singles.mean(axis=1)))
    behind, error = compared(log_p, singles[best])
    lucky, luck = by_luck(log_p, singles)
    behind_chosen, error_chosen = compared(log_p, singles[chosen])
    return {
        "table": name,
        "split": split,
        "train rows": len(train_y),
        "test rows": len(y),
        "log loss": round(-float(log_p.mean()), 4),
        "behind": behind,
        "standard error": error,
        "best": names[best],
        "behind, cross-fitted": cross_fitted(log_p, singles),
        "behind by luck": lucky,
        "luck": luck,
        "behind chosen": behind_chosen,
        "standard error chosen": error_chosen,
        "members": len(model.members_),
        "CPU seconds": round(seconds, 1),
    }


def report(fits: list[dict[str, Any]]) -> str:
    """Differences by table, number of rows and split."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for fit in fits:
        size = fit["train rows"]
        label = str(size) if size in SIZES else f"all, {size - size % 10}"
        groups.setdefault((fit["table"], label), []).append(fit)
    lines = []
    for (name, rows), own in groups.items():
        cells = [f"{f['behind']:+.3f} ± {f['standard error']:.3f}" for f in own]
        chosen = [f"{f['behind chosen']:+.3f}" for f in own]
        worst = max(f["behind"] for f in own)
        verdict = "yes" if worst <= AIM else "no"
        key = "behind, cross-fitted"
        crossed = np.array([f[key] for f in own if key in f])
        cell = ""
        if len(crossed) > 1:
            error = crossed.std(ddof=1) / len(crossed) ** 0.5
            cell = f"{crossed.mean():+.3f} ± {error:.3f} ({len(crossed)} splits)"
        luck = [
            f"{f['behind by luck']:+.3f} ({f['luck']:.2f})" for f in own if "luck" in f
        ]
        beside = ["; ".join(cells), cell, "; ".join(luck), "; ".join(chosen)]
        lines.append([name, rows, *beside, verdict])
    header = [
        "table",
        "rows",
        "behind the best on test rows",
        "cross-fitted",
        "by luck",
    ]
    return table([*header, "behind the best held out", f"within {AIM}"], lines)


def known() -> list[dict[str, Any]]:
    """Fits that were measured before."""
    path = RESULTS / "own_members.json"
    return json.loads(path.read_text())["result"]["fits"] if path.exists() else []


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tables", nargs="+", default=[*TABLES, "diamonds"])
    parser.add_argument("--rows", type=int, nargs="+", default=[*SIZES, 0])
    parser.add_argument("--splits", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--report", action="store_true")
    parser.add_argument("--dry", action="store_true", help="write nothing")
    options = parser.parse_args()
    if options.report:
        print(report(known()))
        return
    for rows in options.rows:
        for split in options.splits:
            for name in options.tables:
                available = int(np.count_nonzero(~data(name, split)[1]))
                size = min(rows or MOST_ROWS, available)
                keys = {"table": name, "split": split, "train rows": size}
                if any(keys.items() <= fit.items() for fit in known()):
                    continue
                found = measured(name, split, size)
                print(found, flush=True)
                if not options.dry:
                    fits = [*known(), found]  # another run may have added to them
                    worst = max(fit["behind"] for fit in fits)
                    write_result("own_members", {"worst": worst, "fits": fits})


if __name__ == "__main__":
    main()
