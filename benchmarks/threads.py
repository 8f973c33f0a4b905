"""Are default threads ever slower than one thread of BLAS, alone or beside other work?

    python benchmarks/threads.py [--rounds 3]

`AutoKCEF` is fitted to 500 rows of 26 columns, and predicts 2,000 rows, in processes of
their own that take turns: with the threads that BLAS has by default, and with
OPENBLAS_NUM_THREADS=1; first alone, then beside two processes that never rest. What
counts are ratios of neighbours, default over one thread. Writes `results/threads.json`.
"""

import argparse
import os
import subprocess
import sys
from statistics import median

from record import write_result

JOB = """
import time, warnings
import numpy as np
from kexpfam import AutoKCEF
warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
X = rng.normal(size=(2500, 26))
y = np.sin(X[:, 0]) + 0.5 * X[:, 1] + 0.5 * rng.normal(size=2500)
AutoKCEF(random_state=0).fit(X[:40], y[:40])
start, cpu = time.perf_counter(), time.process_time()
model = AutoKCEF(random_state=0).fit(X[:500], y[:500])
middle, cpu_fit = time.perf_counter(), time.process_time() - cpu
model.predict_quantiles(X[500:], [0.05, 0.5, 0.95])
print(middle - start, cpu_fit, time.perf_counter() - middle)
"""
BUSY = "import math\nwhile True: math.sqrt(2.0)"


def seconds(threads: str | None) -> list[float]:
    """Of the fit, its CPU time, and of predictions."""
    environment = {k: v for k, v in os.environ.items() if not k.endswith("NUM_THREADS")}
    if threads is not None:
        environment["OPENBLAS_NUM_THREADS"] = threads
    run = subprocess.run(
        [sys.executable, "-c", JOB],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    return [float(part) for part in run.stdout.split()]


def compared(rounds: int) -> dict[str, dict[str, float]]:
    """Default threads and one, in turns."""
    default: list[list[float]] = []
    single: list[list[float]] = []
    for turn in range(rounds):
        both = [(None, default), ("1", single)]
        for threads, times in both if turn % 2 == 0 else both[::-1]:
            times.append(seconds(threads))
    names = ("fit_seconds", "fit_cpu_seconds", "quantiles_seconds")
    return {
        name: {
            "default": median(a[k] for a in default),
            "one_thread": median(b[k] for b in single),
            "ratio": median(a[k] / b[k] for a, b in zip(default, single, strict=True)),
        }
        for k, name in enumerate(names)
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    load = os.getloadavg()[0]
    found = {"alone": compared(arguments.rounds)}
    others = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(2)]
    try:
        found["beside_two_busy_processes"] = compared(arguments.rounds)
    finally:
        for other in others:
            other.kill()
    for place, figures in found.items():
        for name, values in figures.items():
            print(place, name, {k: round(v, 3) for k, v in values.items()})
    print(write_result("threads", {"load_at_start": load, **found}))


if __name__ == "__main__":
    main()
