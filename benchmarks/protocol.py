"""The protocol of the paper's Table 1, for any method.

For seed s the rows are ordered by
`numpy.random.default_rng(s).permutation(n)`; the first floor(n/2) train, the rest test.
Figures are mean negative log densities of the test half in units of the full data's
standard deviation of y (population, `ddof=0`), which is a unit and not information:
each method standardises with statistics of the training half. Where a density can
vanish (`can_vanish`) a test row costs at most 20 nats. Normal distributions are not
floored in `nll`; `nll_floored` has the floor for every method.

Layout of a result file, inside "result":

    methods    {method: {"description", "can_vanish"}}
    splits     {set: {method: {
                   "seed":        [100, 101, ...]  in the order of the run
                   "nll":         mean negative log density, null where the fit failed
                   "nll_floored": the same with every row at most 20 nats
                   "below_floor": test rows below the floor before it is applied
                   "worst":       largest negative log density of a test row, or null
                                  where an older run did not keep it
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

import json
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from record import commit

from kexpfam.datasets import load_benchmark
from kexpfam.experiments.losses import losses
from kexpfam.experiments.splits import halves, in_units


class Density(Protocol):
    """A fitted conditional density."""

    def log_density(self, X: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Log p(y|x) of each row."""


class Method(Protocol):
    """How to fit, and what the figures need to know about it."""

    @property
    def description(self) -> str:
        """What it is and how its parameters are chosen."""

    @property
    def can_vanish(self) -> bool:
        """Whether its density can be zero at a test row."""

    def fit(self, X: np.ndarray, y: np.ndarray, seed: int) -> Density:
        """Fit to training rows."""


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
_LISTS = ("seed", "nll", "nll_floored", "below_floor", "worst", "seconds")


def load(name: str) -> np.ndarray:
    """Rows of one set in units of their standard deviation, y last."""
    return in_units(load_benchmark(name).data)


def measure(data: np.ndarray, method: Method, seed: int) -> dict[str, Any]:
    """One split: the entries of the lists that the file holds."""
    train, test = halves(data, seed)
    start = time.perf_counter()
    model = method.fit(train[:, :-1], train[:, -1], seed)
    seconds = time.perf_counter() - start
    log_p = model.log_density(test[:, :-1], test[:, -1])
    found = losses(log_p[:, None], vanishing=method.can_vanish)
    return {"seed": seed, **found, "seconds": round(seconds, 3)}


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
    sets: Sequence[str],
    seeds: Sequence[int],
    methods: Mapping[str, Method],
    out: Path,
    record: Callable[[dict[str, Any]], object],
) -> dict[str, Any]:
    """Measure what the file `out` does not have yet; `record` after every split."""
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
                entry = _entry(data, name, method, methods, seed, result["failures"])
                known = len(lists["seed"])
                for key in _LISTS:
                    # Files of earlier runs may lack a list.
                    lists.setdefault(key, [None] * known).append(entry.get(key))
                _describe(result, methods)
                record(result)
        print(name, json.dumps(result.get("summary", {}).get(name)), flush=True)
    return result


def _entry(
    data: np.ndarray,
    name: str,
    method: str,
    methods: Mapping[str, Method],
    seed: int,
    failures: list[Any],
) -> dict[str, Any]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what they mean shows in the figures
            return measure(data, methods[method], seed)
    except Exception as error:  # any failure is a result
        text = f"{type(error).__name__}: {error}"
        failures.append({"set": name, "method": method, "seed": seed, "error": text})
        return {"seed": seed}


def _describe(result: dict[str, Any], methods: Mapping[str, Method]) -> None:
    known = result.setdefault("methods", {})
    for name, method in methods.items():
        known[name] = {
            "description": method.description,
            "can_vanish": method.can_vanish,
        }
    result["summary"] = summarize(result["splits"])
    if commit() not in result["commits"]:
        result["commits"].append(commit())


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
