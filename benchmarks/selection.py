"""kexpfam's own estimators on the paper's fourteen R data sets, and beside the rivals.

The environment variable KEXPFAM_DATA has to name the folder that holds the sets as CSV,
y in the last column. The protocol and the layout of `results/selection.json` are in
`protocol.py`; the rivals' figures on the same splits come from `results/rivals.json`.

    python benchmarks/selection.py              all sets, seeds 100 to 119; resumable
    python benchmarks/selection.py --quick      four sets, two splits, in two minutes;
                                                writes no result file
    python benchmarks/selection.py --report     tables from the result files
    python benchmarks/selection.py --time       fit times beside NGBoost's, one run

Seeds 0 to 39 were looked at while the estimators were designed; 100 to 119 were not.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from protocol import SEEDS, SETS, run, seed_range
from record import RESULTS, write_result

from kexpfam import KCEF, AutoKCEF
from kexpfam.experiments.methods import paper_kcef
from kexpfam.experiments.published import TABLE1

# Best printed column of the paper's Table 1 for each set, and its KCEF column.
PUBLISHED_BEST = {name: min(printed.values()) for name, printed in TABLE1.items()}
PUBLISHED_KCEF = {name: printed["KCEF"] for name, printed in TABLE1.items()}


@dataclass(frozen=True)
class Fitted:
    """An estimator behind the interface of the protocol."""

    model: Any

    def log_density(self, X: np.ndarray, y: np.ndarray) -> np.ndarray:
        return self.model.score_samples(X, y)


@dataclass(frozen=True)
class Estimator:
    """A kexpfam estimator as a method of the protocol."""

    description: str
    make: Callable[[int], Any]
    can_vanish: bool = False

    def fit(self, X: np.ndarray, y: np.ndarray, seed: int) -> Fitted:
        return Fitted(self.make(seed).fit(X, y))


METHODS = {
    "AutoKCEF": Estimator("default", lambda seed: AutoKCEF(random_state=seed)),
    "KCEF": Estimator("default", lambda seed: KCEF(random_state=seed)),
    "KCEF_paper": Estimator(
        "N(0, 2²) base, held-out score on the 20 × 20 grid, exact fit",
        paper_kcef,
    ),
}
QUICK_SETS = ("caution", "geyser", "topo", "mcycle")

# Sizes at which fits are timed, with this many columns of x.
TIMED_ROWS = (500, 2000)
TIMED_COLUMNS = 5
REPEATS = 3


def report() -> str:
    """The tables: against the paper's, and against the rivals on shared seeds."""
    own = json.loads((RESULTS / "selection.json").read_text())["result"]
    rivals = json.loads((RESULTS / "rivals.json").read_text())["result"]
    lines = ["| set | published best | " + " | ".join(METHODS) + " | worst point | "]
    lines[0] += "best rival | rival's mean | AutoKCEF there |"
    lines.append("| --- " * (len(METHODS) + 6) + "|")
    tally = {"reached": 0, "best or tied": 0}
    for name, published in PUBLISHED_BEST.items():
        if name not in own["summary"]:
            continue
        cells = [name, f"{published:.2f}"]
        for method in METHODS:
            cell = own["summary"][name].get(method)
            known = cell is not None and cell["standard_error"] is not None
            text = f"{cell['mean']:.3f} ± {cell['standard_error']:.3f}" if known else ""
            cells.append(text)
        auto = own["splits"][name]["AutoKCEF"]
        cells.append(f"{max(auto['worst']):.1f}")
        rival, theirs, ours, error = best_rival(auto, rivals["splits"].get(name, {}))
        cells += [rival, f"{theirs:.3f}", f"{ours:.3f}"]
        lines.append("| " + " | ".join(cells) + " |")
        mean = own["summary"][name]["AutoKCEF"]["mean"]
        tally["reached"] += round(mean, 2) <= published
        tally["best or tied"] += ours <= theirs + error
    count = len(lines) - 2
    lines.append("")
    lines.append(
        f"AutoKCEF at or below the best published column (two decimals): "
        f"{tally['reached']} of {count}; best, or tied within one standard error of "
        f"the paired difference, among the rivals: {tally['best or tied']} of {count}."
    )
    return "\n".join(lines)


def best_rival(
    auto: dict[str, list[Any]], rivals: dict[str, Any]
) -> tuple[str, float, float, float]:
    """The rival with the smallest mean on the seeds it shares with AutoKCEF.

    Returns:
        Its name, its mean, AutoKCEF's mean on the same seeds, and the standard error of
        their paired difference.
    """
    mine = dict(zip(auto["seed"], auto["nll"], strict=True))
    best = ("none", np.inf, np.inf, 0.0)
    for method, lists in rivals.items():
        pairs = [
            (value, mine[seed])
            for seed, value in zip(lists["seed"], lists["nll"], strict=True)
            if value is not None and mine.get(seed) is not None
        ]
        if len(pairs) < 2:
            continue
        theirs, ours = np.array(pairs).T
        if theirs.mean() < best[1]:
            error = (ours - theirs).std(ddof=1) / np.sqrt(len(pairs))
            best = (method, float(theirs.mean()), float(ours.mean()), float(error))
    return best


def timed() -> dict[str, Any]:
    """Median fit seconds of each estimator and of NGBoost, alternating, in one run."""
    from ngboost import NGBRegressor

    makers: dict[str, Callable[[], Any]] = {
        "NGBoost": lambda: NGBRegressor(verbose=False),
        "KCEF": lambda: KCEF(random_state=0),
        "AutoKCEF": lambda: AutoKCEF(random_state=0),
    }
    found: dict[str, Any] = {}
    for n in TIMED_ROWS:
        rng = np.random.default_rng(n)
        X = rng.normal(size=(n, TIMED_COLUMNS))
        noise = (0.2 + 0.3 * np.abs(X[:, 1])) * rng.gamma(2.0, size=n)
        y = np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 2] + noise
        seconds: dict[str, list[float]] = {name: [] for name in makers}
        for _ in range(REPEATS):
            for name, make in makers.items():
                start = time.perf_counter()
                make().fit(X, y)
                seconds[name].append(time.perf_counter() - start)
        medians = {name: statistics.median(values) for name, values in seconds.items()}
        found[str(n)] = {
            "seconds": {name: round(value, 3) for name, value in medians.items()},
            "ratio_to_ngboost": {
                name: round(value / medians["NGBoost"], 3)
                for name, value in medians.items()
            },
        }
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="kexpfam on the R data sets.")
    parser.add_argument("--datasets", nargs="+", default=SETS, choices=SETS)
    parser.add_argument("--seeds", type=seed_range, default=SEEDS, metavar="100:120")
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--report", action="store_true")
    parser.add_argument("--time", action="store_true")
    options = parser.parse_args()
    if options.report:
        print(report())
        return
    if options.time:
        found = timed()
        print(json.dumps(found, indent=2))
        libraries = ("kexpfam", "numpy", "scipy", "scikit-learn", "ngboost")
        path = RESULTS / "selection_time.json"
        write_result("selection", found, libraries=libraries, path=path)
        return
    if options.quick:
        with tempfile.TemporaryDirectory() as folder:
            quick = {name: METHODS[name] for name in ("AutoKCEF", "KCEF")}
            out = Path(folder) / "selection.json"
            run(QUICK_SETS, range(2), quick, out, lambda _: None)
        return
    chosen = {name: METHODS[name] for name in options.methods}
    run(
        options.datasets,
        options.seeds,
        chosen,
        RESULTS / "selection.json",
        lambda found: write_result("selection", found),
    )
    print(report())


if __name__ == "__main__":
    main()
