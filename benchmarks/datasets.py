"""Rows per second that the paper's grid is drawn with.

A million rows of 2, 5 and 20 columns by `make_grid`, with whole frequencies and with
others, which have a normaliser. `samples_per_second` counts single numbers, rows times
columns, per processor second of one thread. `ratio` compares with two uniform numbers
for each, which rejection cannot do without. Medians of repeated runs.
"""

import time
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

import numpy as np
from record import write_result

from kexpfam.datasets import make_grid

ROWS, COLUMNS, REPEATS = 10**6, (2, 5, 20), 5
FREQUENCIES = {"whole, 2": 2.0, "not whole, 1.3": 1.3}


def seconds(action: Callable[[], Any]) -> float:
    start = time.process_time()
    action()
    return time.process_time() - start


def measure(columns: int, frequency: float) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    draw = partial(
        make_grid,
        ROWS,
        columns,
        frequencies_own=frequency,
        frequencies_before=frequency,
        random_state=rng,
    )
    uniform = partial(rng.random, (2, columns, ROWS))
    drawn, bound = [], []
    for _ in range(REPEATS):
        bound.append(seconds(uniform))
        drawn.append(seconds(draw))
    return {
        "seconds": [round(second, 4) for second in drawn],
        "uniform_seconds": [round(second, 4) for second in bound],
        "samples_per_second": round(ROWS * columns / median(drawn)),
        "ratio": round(median(drawn) / median(bound), 2),
    }


if __name__ == "__main__":
    found: dict[str, Any] = {"rows": ROWS, "unit": "CPU seconds"}
    for name, frequency in FREQUENCIES.items():
        for columns in COLUMNS:
            label = f"{columns} columns, frequencies {name}"
            found[label] = measure(columns, frequency)
            print(label, found[label], flush=True)
    print(write_result("datasets", found))
