"""Other methods for p(y|x) on the paper's fourteen R data sets.

The environment variable KEXPFAM_DATA has to name the folder that holds the sets as CSV,
y in the last column. Besides kexpfam's own dependencies, two methods need the packages
ngboost and quantile-forest; kexpfam itself is not imported. The methods, and how each
chooses its parameters, are in `rival_methods.py`.

Protocol (the paper's Table 1). For seed s the rows are ordered by
`numpy.random.default_rng(s).permutation(n)`; the first floor(n/2) train, the rest test.
Figures are mean negative log densities of the test half in units of the full data's
standard deviation of y (population, `ddof=0`), which is a unit and not information:
each method standardises with statistics of the training half. Where a density can
vanish (`can_vanish`) a test row costs at most 20 nats. Normal distributions are not
floored in `nll`; `nll_floored` has the floor for every method.

Layout of `results/rivals.json`, inside "result":

    methods    {method: {"description", "can_vanish"}}
    splits     {set: {method: {
                   "seed":        [100, 101, ...]  in the order of the run
                   "nll":         mean negative log density, null where the fit failed
                   "nll_floored": the same with every row at most 20 nats
                   "below_floor": test rows below the floor before it is applied
                   "seconds":     wall-clock seconds of the fit, others may share the
                                  machine
               }}}                 lists of one length, entry i belongs to seed i
    failures   [{"set", "method", "seed", "error"}]
    summary    {set: {method: {"mean", "standard_error", "splits", "failed"}}} of nll
               over the splits that did not fail; the standard error is the standard
               deviation (ddof=1) over the root of their number
    commits    every commit that wrote to the file

A run adds what is missing and keeps what is there; failures are kept, too. To measure
a method again, take its entries out of the file. Methods may have different seeds:
compare them on those they share.
"""

import argparse
import json
import os
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from record import RESULTS, commit, write_result
from rival_methods import LOG_FLOOR, METHODS, Method

# The two slow ones last.
SETS = (
    "caution",
    "ftcollinssnow",
    "highway",
    "sniffer",
    "snowgeese",
    "GAGurine",
    "geyser",
    "topo",
    "CobarOre",
    "engel",
    "mcycle",
    "BigMac2003",
    "BostonHousing",
    "heights",
)
SEEDS = range(100, 120)
LIBRARIES = ("numpy", "scipy", "scikit-learn", "ngboost", "quantile-forest")
_LISTS = ("seed", "nll", "nll_floored", "below_floor", "seconds")


def load(name: str) -> np.ndarray:
    """Rows of one set in units of their standard deviation, y last."""
    file = Path(os.environ["KEXPFAM_DATA"]) / f"{name}.csv"
    data = np.loadtxt(file, delimiter=",", skiprows=1)
    return (data - data.mean(axis=0)) / data.std(axis=0)


def measure(data: np.ndarray, method: Method, seed: int) -> dict[str, Any]:
    """One split: the entries of the lists that the file holds."""
    rows = data[np.random.default_rng(seed).permutation(len(data))]
    train, test = np.split(rows, [len(rows) // 2])
    start = time.perf_counter()
    model = method.fit(train[:, :-1], train[:, -1], seed)
    seconds = time.perf_counter() - start
    log_p = model.log_density(test[:, :-1], test[:, -1])
    if np.any(np.isnan(log_p)):
        raise ValueError(f"{np.isnan(log_p).sum()} log densities are not numbers")
    floored = np.maximum(log_p, LOG_FLOOR)
    judged = floored if method.can_vanish else log_p
    return {
        "seed": seed,
        "nll": round(-float(judged.mean()), 6),
        "nll_floored": round(-float(floored.mean()), 6),
        "below_floor": int(np.sum(log_p < LOG_FLOOR)),
        "seconds": round(seconds, 3),
    }


def summarize(splits: dict[str, Any]) -> dict[str, Any]:
    """Mean of nll and its standard error for each set and method."""
    summary: dict[str, Any] = {}
    for name, by_method in splits.items():
        summary[name] = {}
        for method, lists in by_method.items():
            nll = np.array([value for value in lists["nll"] if value is not None])
            enough = len(nll) > 1
            summary[name][method] = {
                "mean": round(float(nll.mean()), 4) if len(nll) else None,
                "standard_error": (
                    round(float(nll.std(ddof=1) / np.sqrt(len(nll))), 4)
                    if enough
                    else None
                ),
                "splits": len(nll),
                "failed": len(lists["nll"]) - len(nll),
            }
    return summary


def run(
    sets: Sequence[str], seeds: Sequence[int], methods: Sequence[str], out: Path
) -> dict[str, Any]:
    """Measure what the file does not have yet; write after every split."""
    result: dict[str, Any] = {"splits": {}, "failures": [], "commits": []}
    if out.exists():
        result = json.loads(out.read_text())["result"]
    for name in sets:
        data = load(name)
        for seed in seeds:
            for method in methods:
                lists = (
                    result["splits"]
                    .setdefault(name, {})
                    .setdefault(method, {key: [] for key in _LISTS})
                )
                if seed in lists["seed"]:
                    continue
                entry = _entry(data, name, method, seed, result["failures"])
                for key in _LISTS:
                    lists[key].append(entry.get(key))
                _write(result, out)
        print(name, json.dumps(result.get("summary", {}).get(name)), flush=True)
    return result


def _entry(
    data: np.ndarray, name: str, method: str, seed: int, failures: list[Any]
) -> dict[str, Any]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what they mean shows in the figures
            return measure(data, METHODS[method], seed)
    except Exception as error:  # any failure of a rival is a result
        text = f"{type(error).__name__}: {error}"
        failures.append({"set": name, "method": method, "seed": seed, "error": text})
        return {"seed": seed}


def _write(result: dict[str, Any], out: Path) -> None:
    result["methods"] = {
        name: {"description": m.description, "can_vanish": m.can_vanish}
        for name, m in METHODS.items()
    }
    result["summary"] = summarize(result["splits"])
    if commit() not in result["commits"]:
        result["commits"].append(commit())
    write_result("rivals", result, libraries=LIBRARIES, path=out)


def table(result: dict[str, Any]) -> str:
    """The summary as a Markdown table; (k) marks a mean of k < 20 splits."""
    methods = list(result["methods"])
    lines = [
        "| set | " + " | ".join(methods) + " |",
        "| --- " * (len(methods) + 1) + "|",
    ]
    for name, by_method in result["summary"].items():
        cells = []
        for method in methods:
            cell = by_method.get(method)
            if cell is None or cell["standard_error"] is None:
                cells.append("")
            else:
                few = f" ({cell['splits']})" if cell["splits"] < len(SEEDS) else ""
                cells.append(f"{cell['mean']:.2f} ± {cell['standard_error']:.2f}{few}")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def seed_range(text: str) -> range:
    """`100:120` as range(100, 120)."""
    first, stop = text.split(":")
    return range(int(first), int(stop))


def main() -> None:
    parser = argparse.ArgumentParser(description="Rival methods on the R data sets.")
    parser.add_argument("--datasets", nargs="+", default=SETS, choices=SETS)
    parser.add_argument("--seeds", type=seed_range, default=SEEDS, metavar="100:120")
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    parser.add_argument("--out", type=Path, default=RESULTS / "rivals.json")
    options = parser.parse_args()
    print(table(run(options.datasets, options.seeds, options.methods, options.out)))


if __name__ == "__main__":
    main()
