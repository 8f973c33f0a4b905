"""Any methods on the fourteen sets of the paper's Table 1.

The protocol, and what figures are, stand in `reproduction/protocol.py`; the runner is
that of the reproduction, too. `results/<suite>.jsonl` has one line for each split with
the fields of `reproduction/README.md`; the number of a split is its seed. A run adds
what is missing and keeps what is there, failures too. To measure a method again, take
its lines out of the file. Methods may have different seeds: compare them on those they
share.
"""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from record import RESULTS

from reproduction.protocol import TABLE1, Method, measure
from reproduction.record import Figures, Suite, Task, read
from reproduction.runner import run
from reproduction.tables import Sample, samples

SEEDS = range(100, 120)
# The slow one last.
SETS = (*(name for name in TABLE1 if name != "heights"), "heights")


def seed_range(text: str) -> range:
    """`100:120` as range(100, 120)."""
    first, stop = text.split(":")
    return range(int(first), int(stop))


def found(name: str, figure: str = "nll") -> dict[str, dict[str, Sample]]:
    """A figure of a suite by set and method."""
    return samples(read(RESULTS / f"{name}.jsonl"), figure)


def suite_of(
    name: str, methods: Mapping[str, Method], sets: Sequence[str], seeds: Sequence[int]
) -> Suite:
    """Methods on some sets and splits."""

    def measured(task: Task, seed: int) -> Figures:
        return measure(task.case, seed, methods[task.method])

    tasks = [
        Task(name, case, method, seed)
        for case in sets
        for seed in seeds
        for method in methods
    ]
    return Suite(name, name, tasks, measured, 0, lambda records, folder: "")


def main(name: str, methods: Mapping[str, Method], report: Callable[[], str]) -> None:
    """Measure what the options ask for, unless it is there, and print the report."""
    parser = argparse.ArgumentParser(description=report.__doc__)
    parser.add_argument("--datasets", nargs="+", default=SETS, choices=SETS)
    parser.add_argument("--seeds", type=seed_range, default=SEEDS, metavar="100:120")
    parser.add_argument("--methods", nargs="+", default=list(methods), choices=methods)
    parser.add_argument("--folder", type=Path, default=RESULTS, help="of results")
    parser.add_argument("--jobs", type=int, help="processes, as many as cores")
    parser.add_argument("--report", action="store_true", help="run nothing")
    options = parser.parse_args()
    if not options.report:
        chosen = {method: methods[method] for method in options.methods}
        suite = suite_of(name, chosen, options.datasets, options.seeds)
        run(
            [(suite, suite.tasks)],
            options.folder,
            jobs=options.jobs,
            stream=sys.stderr,
        )
    print(report())
