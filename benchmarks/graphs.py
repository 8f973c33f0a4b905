"""Joint densities along graphs: draws and fits, as ratios in one run.

The red wines (11 columns, 1599 rows; the folder is named by KEXPFAM_DATA), a full graph
of `KCEF`. Draws, with the paper's base density and with the default: 2,000 rows,
ancestral, by the inverse distribution function and by the paper's protocol of
Hamiltonian Monte Carlo, one chain for each row and column with 100 + 1000 iterations,
on the same model. Compiling is timed by a run of two draws. Fits: all factors in one
process and in two, alternating; a fit before warms up the processes. `--only draws` or
`--only fit` measures one of the two and keeps the other.
"""

import argparse
import json
import time
import warnings
from statistics import median
from typing import Any

import numpy as np
from record import RESULTS, write_result

from kexpfam import KCEF, FactorizedDensity
from kexpfam.datasets import load_benchmark
from kexpfam.errors import SamplingWarning
from kexpfam.sampling import HMC

DRAWS, REPEATS = 2000, 3

# The paper's family, and the default, where most factors stand on a Gaussian process.
FACTORS = {"N(0, 4) base": KCEF(base="gaussian"), "default": KCEF()}


def seconds(work: Any) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def measure_draws(model: FactorizedDensity) -> dict[str, Any]:
    def paper(draws: int) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SamplingWarning)
            model.sample(draws, random_state=0, sampler="paper")

    model.sample(DRAWS, random_state=0)
    inverse = [seconds(lambda: model.sample(DRAWS, random_state=0)) for _ in range(5)]
    chains = seconds(lambda: paper(DRAWS))
    # Few draws: nearly all of it is compiling, one program for each column.
    compiling = seconds(lambda: paper(2))
    return {
        "draws": DRAWS,
        "columns": model.n_features_in_,
        "protocol": repr(HMC.paper()),
        "inverse_cdf_seconds": inverse,
        "paper_seconds": chains,
        "paper_seconds_for_two_draws": compiling,
        "ratio": (chains - compiling) / median(inverse),
        "ratio_with_compilation": chains / median(inverse),
    }


def measure_fit(Y: np.ndarray) -> dict[str, Any]:
    def fit(n_jobs: int) -> None:
        FactorizedDensity(factor=KCEF(), n_jobs=n_jobs, random_state=0).fit(Y)

    fit(2)
    one, two = [], []
    for _ in range(REPEATS):
        one.append(seconds(lambda: fit(1)))
        two.append(seconds(lambda: fit(2)))
    return {
        "rows": len(Y),
        "one_process_seconds": one,
        "two_processes_seconds": two,
        "ratio": median(one) / median(two),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=("draws", "fit"))
    only = parser.parse_args().only
    known = RESULTS / "graphs.json"
    result: dict[str, Any] = {}
    if only is not None and known.exists():
        result = json.loads(known.read_text())["result"]
    Y = load_benchmark("red_wine").data
    if only != "draws":
        result["fit"] = measure_fit(Y)
        print(result["fit"], flush=True)
        record(result)
    if only != "fit":
        result["draws"] = {}
        for name, factor in FACTORS.items():
            model = FactorizedDensity(factor=factor, random_state=0, n_jobs=2).fit(Y)
            result["draws"][name] = measure_draws(model)
            print(name, result["draws"][name], flush=True)
        record(result)


def record(result: dict[str, Any]) -> None:
    libraries = ("kexpfam", "numpy", "scipy", "scikit-learn", "jax", "blackjax")
    print(write_result("graphs", result, libraries=libraries))


if __name__ == "__main__":
    main()
