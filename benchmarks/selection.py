"""kexpfam's own estimators on the paper's fourteen R data sets, and beside the rivals.

The environment variable KEXPFAM_DATA has to name the folder that holds the sets as CSV,
y in the last column. The protocol, and `results/selection.jsonl`, are described in
`table1.py`; the rivals' figures on the same splits come from `results/rivals.jsonl`.

    python benchmarks/selection.py              all sets, seeds 100 to 119; resumable
    python benchmarks/selection.py --datasets geyser --seeds 0:2 --folder mine
    python benchmarks/selection.py --report     tables from the result files
    python benchmarks/selection.py --time       fit times beside NGBoost's, one run

Seeds 0 to 39 were looked at while the estimators were designed; 100 to 119 were not.
"""

import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from record import RESULTS, write_result
from table1 import found, main

from kexpfam import KCEF, AutoKCEF
from reproduction.methods import paper_kcef
from reproduction.protocol import TABLE1, Method
from reproduction.tables import (
    Sample,
    at_or_below,
    cell,
    differences,
    mean_and_error,
    paragraphs,
    table,
)

METHODS = {
    "AutoKCEF": Method(
        lambda seed: AutoKCEF(lower=-np.inf, atoms=False, random_state=seed),
        description="default",
    ),
    "KCEF": Method(lambda seed: KCEF(random_state=seed), description="default"),
    "KCEF_paper": Method(
        paper_kcef,
        description="N(0, 2²) base, held-out score on the 20 × 20 grid, exact fit",
    ),
}

# Sizes at which fits are timed, with this many columns of x.
TIMED_ROWS = (500, 2000)
TIMED_COLUMNS = 5
REPEATS = 3


def report() -> str:
    """The tables: against the paper's, and against the rivals on shared seeds."""
    own, worst, rivals = (
        found("selection"),
        found("selection", "worst"),
        found("rivals"),
    )
    rows, reached, tied = [], 0, 0
    for name, printed in TABLE1.items():
        if "AutoKCEF" not in own.get(name, {}):
            continue
        auto, published = own[name]["AutoKCEF"], min(printed.values())
        rival, theirs, ours = best_rival(auto, rivals[name])
        rows.append(
            [
                name,
                f"{published:.2f}",
                *(cell(own[name].get(method), digits=3) for method in METHODS),
                f"{max(worst[name]['AutoKCEF'].values.values()):.1f}",
                rival,
                f"{theirs.mean:.3f}",
                f"{ours.mean:.3f}",
            ]
        )
        reached += at_or_below(auto, published)
        error = mean_and_error(differences(ours, theirs).tolist())[1]
        tied += ours.mean <= theirs.mean + error
    header = ["set", "published best", *METHODS, "worst point", "best rival"]
    return paragraphs(
        table([*header, "rival's mean", "AutoKCEF there"], rows),
        f"AutoKCEF at or below the best published column (two decimals): "
        f"{reached} of {len(rows)}; best, or tied within one standard error of "
        f"the paired difference, among the rivals: {tied} of {len(rows)}.",
    )


def best_rival(
    auto: Sample, rivals: Mapping[str, Sample]
) -> tuple[str, Sample, Sample]:
    """The rival with the smallest mean on the seeds it shares with AutoKCEF.

    Returns:
        Its name, its losses and AutoKCEF's on these seeds.
    """
    shared = {
        name: sorted(set(auto.values) & set(sample.values))
        for name, sample in rivals.items()
    }
    pairs = [
        (
            name,
            Sample({seed: rivals[name].values[seed] for seed in seeds}),
            Sample({seed: auto.values[seed] for seed in seeds}),
        )
        for name, seeds in shared.items()
        if len(seeds) > 1
    ]
    return min(pairs, key=lambda pair: pair[1].mean)


def timed() -> dict[str, Any]:
    """Median fit seconds of each estimator and of NGBoost, alternating, in one run."""
    from ngboost import NGBRegressor

    makers: dict[str, Callable[[], Any]] = {
        "NGBoost": lambda: NGBRegressor(verbose=False),
        "KCEF": lambda: KCEF(random_state=0),
        "AutoKCEF": lambda: AutoKCEF(lower=-np.inf, atoms=False, random_state=0),
    }
    times: dict[str, Any] = {}
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
        times[str(n)] = {
            "seconds": {name: round(value, 3) for name, value in medians.items()},
            "ratio_to_ngboost": {
                name: round(value / medians["NGBoost"], 3)
                for name, value in medians.items()
            },
        }
    return times


def write_times() -> None:
    """Measure fit times, and write them to a file of their own."""
    times = timed()
    print(json.dumps(times, indent=2))
    libraries = ("kexpfam", "numpy", "scipy", "scikit-learn", "ngboost")
    path = RESULTS / "selection_time.json"
    write_result("selection", times, libraries=libraries, path=path)


if __name__ == "__main__":
    if sys.argv[1:] == ["--time"]:
        write_times()
    else:
        main("selection", METHODS, report)
