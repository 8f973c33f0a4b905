"""Joint densities along graphs: draws and fits, as ratios in one run.

The red wines (11 columns, 1599 rows; the folder is named by KEXPFAM_DATA), a full graph
of `KCEF`. Draws, with the paper's base density and with the default: 2,000 rows,
ancestral, by the inverse distribution function and by the paper's protocol of
Hamiltonian Monte Carlo, one chain for each row and column with 100 + 1000 iterations,
on the same model. Compiling is timed by a run of two draws. Of draws there are
processor seconds as well, which say more on a busy machine. Fits: all factors in one
process and in two, alternating; a fit before warms up the processes. `--only draws` or
`--only fit` measures one of the two and keeps the other, `--factors` those of one kind.
"""

import argparse
import json
import os
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


def seconds(work: Any) -> tuple[float, float]:
    """Of the clock, and of processors."""
    start, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - start, time.process_time() - cpu


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
    found: dict[str, Any] = {
        "draws": DRAWS,
        "columns": model.n_features_in_,
        "protocol": repr(HMC.paper()),
        "load_at_end": os.getloadavg()[0],
    }
    for k, kind in enumerate(("", "cpu_")):
        own = [times[k] for times in inverse]
        found |= {
            f"inverse_cdf_{kind}seconds": own,
            f"paper_{kind}seconds": chains[k],
            f"paper_{kind}seconds_for_two_draws": compiling[k],
            f"{kind}ratio": (chains[k] - compiling[k]) / median(own),
            f"{kind}ratio_with_compilation": chains[k] / median(own),
        }
    return found


def measure_fit(Y: np.ndarray) -> dict[str, Any]:
    def fit(n_jobs: int) -> None:
        FactorizedDensity(factor=KCEF(), n_jobs=n_jobs, random_state=0).fit(Y)

    fit(2)
    one, two = [], []
    for _ in range(REPEATS):
        one.append(seconds(lambda: fit(1))[0])
        two.append(seconds(lambda: fit(2))[0])
    return {
        "rows": len(Y),
        "one_process_seconds": one,
        "two_processes_seconds": two,
        "ratio": median(one) / median(two),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=("draws", "fit"))
    parser.add_argument("--factors", choices=list(FACTORS), default=None)
    given = parser.parse_args()
    only = given.only
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
        names = list(FACTORS) if given.factors is None else [given.factors]
        result["draws"] = {} if given.factors is None else result.get("draws", {})
        for name in names:
            factor = FACTORS[name]
            model = FactorizedDensity(factor=factor, random_state=0, n_jobs=2).fit(Y)
            result["draws"][name] = measure_draws(model)
            print(name, result["draws"][name], flush=True)
        record(result)


def record(result: dict[str, Any]) -> None:
    libraries = ("kexpfam", "numpy", "scipy", "scikit-learn", "jax", "blackjax")
    print(write_result("graphs", result, libraries=libraries))


if __name__ == "__main__":
    main()
