"""Size and power of the tests in `kexpfam.comparison`, by simulation.

Rejection rates at 5 % with their Monte Carlo standard errors. Samples are normal with
unit variance in two columns, all but the reference shifted by so much in each. Ties are
symmetric about the reference, or have its distribution; for the power of the relative
test the first sample is farther than the second. `--report` prints the written file.
"""

import argparse
import json
import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from record import RESULTS, write_result

from kexpfam._typing import Array
from kexpfam.comparison import classifier_score, mmd_test, relative_mmd_test

LEVEL, COLUMNS = 0.05, 2
PERMUTATIONS = 199  # 0.05 (1 + 199) is a whole number, so that the level is exact

# Rows of reference, first and second, and how often each case is simulated.
RELATIVE_SIZES = ((50, 50, 50), (200, 200, 200), (500, 500, 500), (400, 100, 200))
RELATIVE_TIES = (0.0, 0.2, 0.6)
RELATIVE_EFFECTS = ((0.3, 0.1), (0.4, 0.1), (0.6, 0.1))
RELATIVE_REPEATS = 400

PAIR_SIZES = ((50, 50), (200, 200), (300, 100))
PAIR_EFFECTS = (0.0, 0.3, 0.5)
PERMUTATION_REPEATS, CLASSIFIER_REPEATS = 500, 100


def drawn(rng: np.random.Generator, n: int, shift: float) -> Array:
    return rng.normal(shift, 1.0, size=(n, COLUMNS))


def rate(rejections: list[bool]) -> dict[str, float]:
    share = float(np.mean(rejections))
    # With none or all rejected the plain formula would claim certainty.
    smoothed = (sum(rejections) + 1) / (len(rejections) + 2)
    error = math.sqrt(smoothed * (1.0 - smoothed) / len(rejections))
    return {"rejected": round(share, 4), "standard_error": round(error, 4)}


def relative_case(
    sizes: tuple[int, int, int], first: float, second: float
) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    results = [
        relative_mmd_test(
            drawn(rng, sizes[0], 0.0),
            drawn(rng, sizes[1], first),
            drawn(rng, sizes[2], second),
        )
        for _ in range(RELATIVE_REPEATS)
    ]
    spread = float(np.std([result.difference for result in results], ddof=1))
    claimed = math.sqrt(np.mean([result.standard_error**2 for result in results]))
    return {
        "rows": sizes,
        "shifts": [first, second],
        **rate([result.p_value < LEVEL for result in results]),
        "error_over_true_error": round(claimed / spread, 3),
    }


def pair_case(
    test: Callable[..., Any], sizes: tuple[int, int], shift: float, repeats: int
) -> dict[str, Any]:
    rng = np.random.default_rng(1)
    results = [
        test(drawn(rng, sizes[0], 0.0), drawn(rng, sizes[1], shift), random_state=rng)
        for _ in range(repeats)
    ]
    rejections = [result.p_value <= LEVEL for result in results]
    found = {"rows": sizes, "shift": shift, **rate(rejections)}
    if hasattr(results[0], "accuracy"):
        mean = float(np.mean([result.accuracy for result in results]))
        found["mean_accuracy"] = round(mean, 3)
    return found


def permutation_test(first: Array, second: Array, random_state: Any) -> Any:
    return mmd_test(
        first, second, n_permutations=PERMUTATIONS, random_state=random_state
    )


def large_case(n: int) -> dict[str, Any]:
    rng = np.random.default_rng(2)
    samples = [drawn(rng, n, 0.0) for _ in range(3)]
    start = time.perf_counter()
    relative_mmd_test(*samples)
    return {"rows": [n] * 3, "seconds": round(time.perf_counter() - start, 2)}


def report() -> None:
    result = json.loads((RESULTS / "comparison.json").read_text())["result"]
    for part in ("relative_tie", "relative_power", "permutation", "classifier"):
        print(f"\n{part}")
        for case in result[part]:
            print("  " + ", ".join(f"{key} {value}" for key, value in case.items()))


def main() -> None:
    result: dict[str, Any] = {
        "level": LEVEL,
        "columns": COLUMNS,
        "repeats": {
            "relative": RELATIVE_REPEATS,
            "permutation": PERMUTATION_REPEATS,
            "classifier": CLASSIFIER_REPEATS,
        },
        "permutations": PERMUTATIONS,
    }
    result["relative_tie"] = [
        relative_case(sizes, shift, 0.0 - shift)
        for sizes in RELATIVE_SIZES
        for shift in RELATIVE_TIES
    ]
    result["relative_power"] = [
        relative_case(sizes, *shifts)
        for sizes in RELATIVE_SIZES
        for shifts in RELATIVE_EFFECTS
    ]
    result["relative_time"] = [large_case(n) for n in (2000, 20_000)]
    print("relative test done", flush=True)
    for name, test, repeats in (
        ("permutation", permutation_test, PERMUTATION_REPEATS),
        ("classifier", classifier_score, CLASSIFIER_REPEATS),
    ):
        result[name] = [
            pair_case(test, sizes, shift, repeats)
            for sizes in PAIR_SIZES
            for shift in PAIR_EFFECTS
        ]
        print(f"{name} done", flush=True)
    print(write_result("comparison", result))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--report", action="store_true")
    if not parser.parse_args().report:
        main()
    report()
