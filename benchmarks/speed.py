"""Speed and memory of the exact fit and of evaluation, as ratios in one run.

Each figure is divided by its bound, measured alternately with it on the same machine:

* fit, n = 2000, d_y = 1: one LAPACK Cholesky factorisation of that size, in place and
  in memory that is already there; and, for comparison, `scipy.linalg.cholesky`;
* score_samples, 1000 rows against 2000: the matrix products that it contains;
* predictions of default fits to 2000 rows, as processor seconds of all threads, so that
  a busy machine shows less: 10,000 log densities and three quantiles of 10,000 rows
  against one product (10,000 x 2000)(2000 x 300), and regions of 200 rows;
* import: `import sklearn, scipy.stats`;
* memory: n x n matrices of float64.
"""

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from record import write_result
from scipy import linalg
from scipy.linalg import lapack

from kexpfam import KCEF, AutoKCEF

N, P, QUERIES = 2000, 5, 1000
PREDICTED, COLUMNS, REGIONS = 10_000, 300, 200


# The threads of OpenBLAS keep their cores busy for a while after a call, waiting for
# the next; a pause keeps that out of what is measured next.
PAUSE = 0.05


def alternate(*actions: Callable[[], Any], repeats: int = 25) -> list[float]:
    """Median seconds of each action, taken in turns so that noise hits all alike."""
    times: list[list[float]] = [[] for _ in actions]
    for _ in range(repeats):
        for action, record in zip(actions, times, strict=True):
            time.sleep(PAUSE)
            start = time.perf_counter()
            action()
            record.append(time.perf_counter() - start)
    return [median(record) for record in times]


def make_data(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, P))
    return X, np.sin(X[:, 0]) + 0.5 * rng.normal(size=n)


def measure_fit() -> dict[str, float]:
    X, y = make_data(N, 0)
    rng = np.random.default_rng(1)
    A = rng.normal(size=(N, N))
    spd = np.asfortranarray(A @ A.T + N * np.eye(N))
    work = np.empty_like(spd, order="F")

    def cholesky() -> None:
        lapack.dpotrf(work, lower=1, overwrite_a=1, clean=0)

    def refill() -> None:
        work[...] = spd

    _, bound, ordinary, fit = alternate(
        refill,
        cholesky,
        lambda: linalg.cholesky(spd, lower=True, check_finite=False),
        lambda: KCEF(select=None).fit(X, y),
    )
    return {
        "dpotrf_in_place_seconds": bound,
        "scipy_cholesky_seconds": ordinary,
        "fit_seconds": fit,
        "ratio": fit / bound,
        "ratio_to_scipy_cholesky": fit / ordinary,
    }


def measure_evaluation() -> dict[str, float]:
    X, y = make_data(N, 0)
    X_new, y_new = make_data(QUERIES, 2)
    model = KCEF(select=None).fit(X, y)
    # The products: the kernel matrix of x times the features of every quadrature node.
    densities: Any = model.given(X_new)
    nodes = densities._line.cells.nodes.size
    rng = np.random.default_rng(3)
    left, right = rng.normal(size=(QUERIES, N)), rng.normal(size=(nodes, N))
    bound, evaluation = alternate(
        lambda: left @ right.T, lambda: model.score_samples(X_new, y_new)
    )
    return {
        "nodes": nodes,
        "products_seconds": bound,
        "score_samples_seconds": evaluation,
        "ratio": evaluation / bound,
    }


def measure_predictions(kind: Any) -> dict[str, float]:
    """Processor seconds, the least of three runs each, after a first one."""
    X, y = make_data(N, 0)
    X_new, y_new = make_data(PREDICTED, 2)
    model = kind(random_state=0).fit(X, y)
    rng = np.random.default_rng(3)
    left, right = rng.normal(size=(PREDICTED, N)), rng.normal(size=(N, COLUMNS))
    actions: dict[str, Callable[[], Any]] = {
        "product": lambda: left @ right,
        "score_samples": lambda: model.score_samples(X_new, y_new),
        "three_quantiles": lambda: model.predict_quantiles(X_new, [0.05, 0.5, 0.95]),
        "regions": lambda: model.given(X_new[:REGIONS]).hpd(0.9),
    }
    seconds = {}
    for name, action in actions.items():
        action()
        runs = []
        for _ in range(3):
            start = time.process_time()
            action()
            runs.append(time.process_time() - start)
        seconds[name] = min(runs)
    figures = {f"{name}_cpu_seconds": value for name, value in seconds.items()}
    for name in ("score_samples", "three_quantiles"):
        figures[f"{name}_ratio"] = seconds[name] / seconds["product"]
    return figures


def in_new_process(code: str) -> float:
    """The number that a fresh interpreter prints."""
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    return float(run.stdout)


def measure_import() -> dict[str, float]:
    clock = "time.perf_counter()"
    timed = f"import time; t = {clock}; import {{}}; print({clock} - t)"
    ours, bound = [], []
    for _ in range(7):
        bound.append(in_new_process(timed.format("sklearn, scipy.stats")))
        ours.append(in_new_process(timed.format("kexpfam")))
    return {
        "bound_seconds": median(bound),
        "kexpfam_seconds": median(ours),
        "ratio": median(ours) / median(bound),
    }


def measure_memory() -> dict[str, float]:
    code = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from speed import make_data
from kexpfam import KCEF
X, y = make_data(4000, 0)
KCEF(select=None).fit(X[:50], y[:50]).score_samples(X[:50], y[:50])
def peak():
    return int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0])
before = peak()
KCEF(select=None).fit(X, y)
after = peak()
print((after - before) * 1024 / (8 * 4000 * 4000))
"""
    return {"n": 4000, "peak_in_matrices": in_new_process(code)}


if __name__ == "__main__":
    result = {
        "fit": measure_fit(),
        "evaluation": measure_evaluation(),
        "predictions": measure_predictions(KCEF),
        "predictions_of_an_average": measure_predictions(AutoKCEF),
        "import": measure_import(),
        "memory": measure_memory(),
    }
    for name, figures in result.items():
        print(name, {key: round(value, 4) for key, value in figures.items()})
    print(write_result("speed", result))
