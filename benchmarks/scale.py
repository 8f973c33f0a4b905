"""Fits to many rows: speed against BLAS, growth with n, memory, workers, centres.

    python benchmarks/scale.py                  everything but the rivals
    python benchmarks/scale.py statistics dask  only some parts
    python benchmarks/scale.py --report         tables of the written file

Ratios are between figures of one run. Each part is written as soon as it is done.
"""

import argparse
import contextlib
import json
import os
import statistics as averages
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from record import RESULTS, write_result
from scale_data import log_density, make_rows
from scipy.linalg import blas

from kexpfam import KCEF
from kexpfam._typing import Array
from kexpfam.base_densities import BaseDensity
from kexpfam.errors import IllConditionedError
from kexpfam.kernels import Gaussian, separable
from kexpfam.score_matching import Basis, ScoreSample, statistics
from kexpfam.selection import Selection
from kexpfam.selection.spec import default_coordinates
from reproduction.record import commit

THREADS = 2
PANEL = 1024

# A model with nothing to choose: what is measured is passes over rows.
SETTLED: dict[str, Any] = {
    "kernel_x": Gaussian(3.0),
    "kernel_y": Gaussian(0.8),
    "regularization": 1e-3,
    "random_state": 0,
}


def seconds(work: Callable[..., Any], *arguments: Any, **options: Any) -> float:
    start = time.perf_counter()
    work(*arguments, **options)
    return time.perf_counter() - start


def rank_k_updates(n: int, m: int) -> None:
    """As many rank-k updates as n rows need, on all cores, and nothing else.

    By BLAS's own threads: SciPy's wrapper keeps other threads of Python waiting.
    """
    C = np.zeros((m, m), order="F")
    F = np.ones((PANEL, m))
    for start in range(0, n, PANEL):
        part = F[: min(PANEL, n - start)]
        blas.dsyrk(1.0, part.T, beta=1.0, c=C, lower=1, overwrite_c=1)


def score_rows(n: int, m: int) -> tuple[Basis, ScoreSample]:
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(n, 10)), rng.normal(size=(n, 1))
    kernel = separable(Gaussian(3.0), Gaussian(0.8))
    sample = ScoreSample(X, Y, np.full(n, 1.0 / n), -Y / 4.0, np.ones((n, 1)))
    return Basis(kernel, X[:m].copy(), Y[:m].copy(), 0), sample


def measure_statistics() -> dict[str, Any]:
    """C and b of 200,000 rows and 1000 centres, against dsyrk alone; and of 10⁶."""
    m, found = 1000, {}
    for n, repeats in ((200_000, 7), (1_000_000, 3)):
        basis, sample = score_rows(n, m)
        own, bound = [], []
        for _ in range(repeats):
            bound.append(seconds(rank_k_updates, n, m))
            own.append(seconds(statistics, basis, sample, n_jobs=THREADS))
        ratios = [a / b for a, b in zip(own, bound, strict=True)]
        found[str(n)] = {
            "seconds": averages.median(own),
            "syrk_seconds": averages.median(bound),
            "ratio": averages.median(ratios),
            "ratios": [round(ratio, 3) for ratio in ratios],
        }
    return found


def measure_growth() -> dict[str, Any]:
    """Time of a settled fit with 500 centres against n, and its exponent."""
    sizes = [10_000, 31_623, 100_000, 316_228, 1_000_000]
    own: dict[int, list[float]] = {n: [] for n in sizes}
    sums: dict[int, list[float]] = {n: [] for n in sizes}
    for _ in range(3):
        for n in sizes:
            X, y = make_rows(n, 0)
            model = KCEF(**SETTLED, n_components=500)
            own[n].append(seconds(model.fit, X, y))
            basis, sample = score_rows(n, 500)
            sums[n].append(seconds(statistics, basis, sample, n_jobs=THREADS))
    fit = [averages.median(own[n]) for n in sizes]
    statistic = [averages.median(sums[n]) for n in sizes]
    return {
        "n": sizes,
        "fit_seconds": fit,
        "statistics_seconds": statistic,
        "fit_exponent": _slope(sizes, fit),
        "fit_exponent_from_100000": _slope(sizes[2:], fit[2:]),
        "statistics_exponent": _slope(sizes, statistic),
    }


def _slope(sizes: list[int], times: list[float]) -> float:
    return float(np.polyfit(np.log(sizes), np.log(times), 1)[0])


MEMORY_SCRIPT = """
import json, sys, time
import numpy as np
from kexpfam import KCEF
from kexpfam.data import peak_resident, resident_now
from kexpfam.kernels import Gaussian
folder, n, m, chosen = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
X = np.memmap(f"{folder}/x", dtype=float, mode="r", shape=(n, 10))
y = np.memmap(f"{folder}/y", dtype=float, mode="r", shape=(n,))
start = resident_now()
clock = time.perf_counter()
if chosen == "chosen":
    model = KCEF(random_state=0).fit(X, y)
else:
    model = KCEF(kernel_x=Gaussian(3.0), kernel_y=Gaussian(0.8), regularization=1e-3,
                 n_components=m, random_state=0).fit(X, y)
print(json.dumps({"n": n, "n_components": len(model.family_.T.Y),
    "rows_mib": 88 * n / 2**20, "seconds": time.perf_counter() - clock,
    "start_mib": start / 2**20,
    "peak_above_start_mib": (peak_resident() - start) / 2**20}))
"""


def measure_memory() -> dict[str, Any]:
    """Peak memory above the start of fits to memory-mapped rows, each in a process."""
    found: dict[str, Any] = {"budget_mib": 1024.0, "fits": []}
    runs = [(100_000, 1000, "settled"), (1_000_000, 1000, "settled")]
    runs += [(4_000_000, 1000, "settled"), (1_000_000, 0, "chosen")]
    for n, m, chosen in runs:
        with tempfile.TemporaryDirectory() as folder:
            _write_rows(Path(folder), n)
            script = [sys.executable, "-c", MEMORY_SCRIPT, folder, str(n), str(m)]
            done = subprocess.run(
                [*script, chosen], capture_output=True, text=True, check=True
            )
        found["fits"].append({"kind": chosen} | json.loads(done.stdout))
    return found


def _write_rows(folder: Path, n: int) -> None:
    with open(folder / "x", "wb") as x_file, open(folder / "y", "wb") as y_file:
        for seed, start in enumerate(range(0, n, 100_000)):
            X, y = make_rows(min(100_000, n - start), seed)
            X.tofile(x_file)
            y.tofile(y_file)


def measure_dask() -> dict[str, Any]:
    """A settled fit to 10⁶ rows of a Dask array, on one and on two worker processes."""
    import dask.array
    from distributed import Client, LocalCluster

    n, chunk = 1_000_000, 50_000
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _write_rows(folder, n)
        X = np.memmap(folder / "x", dtype=float, mode="r", shape=(n, 10))
        y = np.memmap(folder / "y", dtype=float, mode="r", shape=(n,))
        for count, part in enumerate(range(0, n, chunk)):
            np.save(folder / f"x{count}.npy", X[part : part + chunk])
            np.save(folder / f"y{count}.npy", y[part : part + chunk])
        times: dict[int, list[float]] = {1: [], 2: []}
        for workers in (1, 2, 1, 2, 1, 2):
            with (
                LocalCluster(
                    n_workers=workers, threads_per_worker=1, dashboard_address=":0"
                ) as cluster,
                Client(cluster) as client,
            ):
                big = _from_files(dask.array, folder, "x", n // chunk, chunk, 10)
                small = _from_files(dask.array, folder, "y", n // chunk, chunk, None)
                client.run(_warm_up)
                model = KCEF(**SETTLED, n_components=1000)
                times[workers].append(seconds(model.fit, big, small, client=client))
        found["seconds"] = {str(k): averages.median(v) for k, v in times.items()}
        found["all_seconds"] = {str(k): v for k, v in times.items()}
        found["speedup"] = found["seconds"]["1"] / found["seconds"]["2"]
    return found


def _warm_up() -> None:
    """Import what a worker needs, which is not what is measured."""
    import kexpfam  # noqa: F401


def _from_files(
    array: Any, folder: Path, name: str, count: int, chunk: int, columns: int | None
) -> Any:
    shape = (chunk,) if columns is None else (chunk, columns)
    import dask

    parts = [
        array.from_delayed(
            dask.delayed(np.load)(str(folder / f"{name}{k}.npy")), shape, float
        )
        for k in range(count)
    ]
    return array.concatenate(parts)


def measure_components() -> dict[str, Any]:
    """Held-out likelihood against the number of centres, beside the exact fit.

    The default model chooses base density, kernel and λ. Exact and low-rank fits have
    these too; each has the best of five λ around the chosen one, on the held-out rows.
    """
    sizes = [16, 32, 64, 128, 256, 512, 1024]
    found: dict[str, Any] = {"n": 3000, "held_out": 5000, "problems": {}}
    for name, (rows, truth) in COMPONENT_PROBLEMS.items():
        (X, y), fresh = rows(3000, 0), rows(5000, 1)
        default = KCEF(random_state=0).fit(X, y)
        lams = [default.regularization_ * factor for factor in (0.1, 0.3, 1, 3, 10)]
        given = {"kernel": default.kernel_, "base": _base_of(default), "select": None}

        def best(
            lams: list[float] = lams,
            given: dict[str, Any] = given,
            data: tuple[Array, Array] = (X, y),
            fresh: tuple[Array, Array] = fresh,
            **more: Any,
        ) -> float:
            models = [
                KCEF(**given, **more, regularization=lam, random_state=0)
                for lam in lams
            ]
            scores = []
            for model in models:
                with contextlib.suppress(IllConditionedError):  # λ below rounding
                    scores.append(model.fit(*data).score(*fresh))
            return max(scores)

        exact = best()
        found["problems"][name] = {
            "chosen": repr(given["base"]) + ", " + repr(default.kernel_),
            "exact": exact,
            "truth": float(truth(*fresh).mean()),
            "n_components": sizes,
            "log_density": [best(n_components=m) for m in sizes],
            "default_n_components": len(default.family_.T.Y),
            "default_log_density": default.score(*fresh),
            "default_falls_short_by": exact - default.score(*fresh),
            "more_would_help": bool(
                default.components_ and default.components_.more_would_help
            ),
        }
    _draw_components(found)
    return found


def _base_of(model: KCEF) -> Any:
    """The base density that a model chose, as one to be given."""
    assert isinstance(model.selection_, Selection)
    chosen = model.selection_.chosen
    spec = next(s for s in default_coordinates() if s.name == chosen.coordinates)
    assert not spec.transform_x, "columns of x are not skewed here"
    if isinstance(spec.base, BaseDensity):
        return chosen.base
    base: Any = spec.base
    return replace(base, noise=chosen.base)


def _few_columns(n: int, seed: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.0, 2.0, size=(n, 1))
    return X, np.sin(2.0 * X[:, 0]) + 0.3 * np.exp(0.4 * X[:, 0]) * rng.normal(size=n)


def _few_truth(X: Array, y: Array) -> Array:
    width = 0.3 * np.exp(0.4 * X[:, 0])
    u = (y - np.sin(2.0 * X[:, 0])) / width
    return -0.5 * u**2 - np.log(width) - 0.5 * np.log(2.0 * np.pi)


def _five_columns(n: int, seed: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5))
    width = 0.4 * (1.0 + (X[:, 3] > 0))
    center = np.sin(X[:, 0]) + 0.5 * X[:, 1] * X[:, 2]
    return X, center + width * rng.normal(size=n)


def _five_truth(X: Array, y: Array) -> Array:
    width = 0.4 * (1.0 + (X[:, 3] > 0))
    u = (y - np.sin(X[:, 0]) - 0.5 * X[:, 1] * X[:, 2]) / width
    return -0.5 * u**2 - np.log(width) - 0.5 * np.log(2.0 * np.pi)


COMPONENT_PROBLEMS = {
    "heteroscedastic, p = 1": (_few_columns, _few_truth),
    "nonlinear, p = 5": (_five_columns, _five_truth),
    "ten columns": (make_rows, log_density),
}


def _draw_components(found: dict[str, Any]) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(found["problems"]), figsize=(11, 3.4))
    for ax, (name, one) in zip(axes, found["problems"].items(), strict=True):
        ax.plot(one["n_components"], one["log_density"], "o-", label="low-rank")
        ax.axhline(one["exact"], color="k", lw=1, label="exact")
        ax.plot(
            one["default_n_components"],
            one["default_log_density"],
            "s",
            color="tab:red",
            label="default",
        )
        ax.set_xscale("log")
        ax.set_title(name, fontsize=10)
        ax.set_xlabel("centres")
    axes[0].set_ylabel("held-out log density")
    axes[0].legend(frameon=False)
    figure.tight_layout()
    figure.savefig(RESULTS / "scale_components.png", dpi=130)
    plt.close(figure)


def measure_evaluation() -> dict[str, Any]:
    """Microseconds per row of densities of a fit to 10⁵ rows, against their number."""
    X, y = make_rows(100_000, 0)
    small = KCEF(random_state=0).fit(X[:5000], y[:5000])
    model = KCEF(random_state=0).fit(X, y)
    found: dict[str, Any] = {
        "n_components": len(model.family_.T.Y),
        "n_components_of_5000_rows": len(small.family_.T.Y),
        "rows": {},
    }
    for n in (10_000, 100_000, 1_000_000):
        X, y = make_rows(n, 1)
        levels = [0.05, 0.5, 0.95]
        times = {
            "score_samples": seconds(model.score_samples, X, y),
            "predict_quantiles": seconds(model.predict_quantiles, X, levels),
            "sample": seconds(model.sample, X, 1, random_state=0),
        }
        found["rows"][str(n)] = {k: 1e6 * v / n for k, v in times.items()}
    X, y = make_rows(100_000, 1)
    found["score_samples_of_fit_to_5000_rows"] = (
        1e6 * seconds(small.score_samples, X, y) / len(y)
    )
    return found


def measure_tuning() -> dict[str, Any]:
    """A whole fit to 10⁵ rows, everything chosen, against one settled fit."""
    X, y = make_rows(100_000, 0)
    whole, settled = [], []
    for _ in range(3):
        model = KCEF(random_state=0)
        whole.append(seconds(model.fit, X, y))
        one = KCEF(**SETTLED, n_components=1000)
        settled.append(seconds(one.fit, X, y))
    return {
        "chosen_seconds": averages.median(whole),
        "settled_seconds_1000_centres": averages.median(settled),
        "ratio": averages.median(whole) / averages.median(settled),
    }


PARTS: dict[str, Callable[[], dict[str, Any]]] = {
    "statistics": measure_statistics,
    "growth": measure_growth,
    "memory": measure_memory,
    "dask": measure_dask,
    "components": measure_components,
    "evaluation": measure_evaluation,
    "tuning": measure_tuning,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], default=list(PARTS))
    parser.add_argument("--report", action="store_true")
    arguments = parser.parse_args()
    path = RESULTS / "scale.json"
    result = json.loads(path.read_text())["result"] if path.exists() else {}
    if arguments.report:
        print(json.dumps(result, indent=2))
        return
    for part in arguments.parts:
        found = PARTS[part]()
        result[part] = found | {"commit": commit(), "load": os.getloadavg()[0]}
        print(part, json.dumps(found, indent=2), flush=True)
        write_result("scale", result)


if __name__ == "__main__":
    main()
