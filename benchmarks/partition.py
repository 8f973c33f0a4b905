"""log Z of a KEF in several dimensions: importance sampling against tempered particles.

500 rows of (a) a normal distribution with correlations of one half and (b) two normal
modes eight standard deviations apart, with 0.3 and 0.7 of the rows, in 2 to 25
dimensions. One fit each, untuned, at 100 centres, and for (b) a sharp one with a
hundredth of that regularisation; then log Z of that fit from eight seeds by either
method, with the stated errors, and by quadrature in two dimensions. Also, once, the
seconds of tempering the exact fit, which has 500 centres and their derivatives.
`--report` prints a table of the written file.
"""

import argparse
import json
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from record import RESULTS, write_result

from kexpfam import KEF
from kexpfam._typing import Array
from kexpfam.distributions import MultivariateDensity
from kexpfam.errors import NormalizationWarning
from kexpfam.family import FittedFamily, Spec

N, SEEDS, CENTERS = 500, 8, 100
DIMENSIONS = (2, 3, 5, 8, 10, 15, 25)
EXACT_DIMENSIONS = (3, 5, 8)


class LowRankKEF(KEF):
    """A KEF at some centres, so that many repetitions are affordable."""

    def _spec(self) -> Spec:
        return replace(super()._spec(), n_components=CENTERS)


def make_rows(name: str, d: int) -> Array:
    rng = np.random.default_rng(0)
    noise = rng.standard_normal((N, d))
    if name == "normal":
        return noise @ np.linalg.cholesky(0.5 * np.eye(d) + 0.5).T
    side = np.where(rng.random((N, 1)) < 0.3, -4.0, 4.0)
    return noise + side / np.sqrt(d)


def estimates(family: FittedFamily, method: str) -> dict[str, Any]:
    def density(seed: int) -> MultivariateDensity:
        p = replace(family, seed=seed).density(np.empty((1, 0)), partition=method)
        assert isinstance(p, MultivariateDensity)
        return p

    seconds, found = timed(lambda: [density(seed) for seed in range(SEEDS)])
    log_z = np.array([p.log_partition[0] for p in found])
    errors = np.array([p.log_partition_error[0] for p in found])
    tails = [float(p.tail_index[0]) for p in found if p.tail_index is not None]
    return {
        "log_z": log_z.tolist(),
        "mean": float(log_z.mean()),
        "spread": float(log_z.std(ddof=1)),
        "stated": float(np.sqrt(np.mean(errors**2))),
        "tail_index": max(tails) if method == "importance" else None,
        "unreliable": sum(bool(p._partition.unreliable[0]) for p in found),
        "seconds": seconds / SEEDS,
    }


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def measure(name: str, d: int) -> dict[str, Any]:
    rows = make_rows(name, d)
    settings: dict[str, Any] = {
        "select": None,
        "random_state": 0,
        "partition": "importance",
    }
    model = LowRankKEF(**settings).fit(rows)
    if name.endswith("sharp"):
        lam = 0.01 * model.regularization_
        model = model.set_params(regularization=lam).fit(rows)
    family = model.family_
    found: dict[str, Any] = {m: estimates(family, m) for m in ("importance", "smc")}
    if d == 2:
        p = family.density(np.empty((1, 0)))
        found["quadrature"] = {"log_z": float(p.log_partition[0])}
    if name == "two modes" and d in EXACT_DIMENSIONS:
        exact = KEF(**settings).fit(rows).family_
        nothing = np.empty((1, 0))
        seconds, _ = timed(lambda: exact.density(nothing, partition="smc"))
        found["exact fit"] = {"smc_seconds": seconds}
    return found


def report() -> None:
    result = json.loads((RESULTS / "partition.json").read_text())["result"]
    print("| rows | d | method | log Z | spread | stated | unreliable | seconds |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for name, found in result["problems"].items():
        for d, methods in found.items():
            for method in ("importance", "smc"):
                m = methods[method]
                print(
                    f"| {name} | {d} | {method} | {m['mean']:.3f} | "
                    f"{m['spread']:.3f} | {m['stated']:.3f} | {m['unreliable']} | "
                    f"{m['seconds']:.1f} |"
                )
            if "quadrature" in methods:
                truth = methods["quadrature"]["log_z"]
                print(f"| {name} | {d} | quadrature | {truth:.3f} | | | | |")


def main() -> None:
    warnings.simplefilter("ignore", NormalizationWarning)  # is what is measured
    problems: dict[str, Any] = {
        "normal": {},
        "two modes": {},
        "two modes, sharp": {},
    }
    sizes = {"n": N, "seeds": SEEDS, "centers": CENTERS}
    for name, found in problems.items():
        for d in DIMENSIONS:
            start = time.perf_counter()
            found[str(d)] = measure(name, d)
            print(name, d, round(time.perf_counter() - start, 1), "s", flush=True)
            write_result("partition", {"sizes": sizes, "problems": problems})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--report", action="store_true")
    if not parser.parse_args().report:
        main()
    report()
