"""How far fits, predictions and imports are from what they cannot do without.

    python benchmarks/speed.py [--only NAME ...]

Each entry is measured alternately with its bound, in one run: wall and processor
seconds of both, medians, and their ratios. What the bounds are:

* exact fit, n = 2,000, everything given: one LAPACK Cholesky factorisation of that
  size, in place and in memory that is already there; also with one thread for all;
* low-rank fit, n = 200,000, p = 10, m = 1,000, everything given: BLAS' symmetric
  products of that size;
* predictions of default fits to 2,000 x 5: one product (10,000 x 2,000)(2,000 x 300);
  regions of 200 rows have a time only, and so have two columns of y, a row in a block;
* import: `import sklearn.base`, both with their bytecode;
* fit of `AutoKCEF` to 2,000 x 5: NGBoost, where it is installed;
* memory of the exact fit: n x n matrices of float64.

An aim is of the wall seconds of two cores that have nothing else to do: the load before
an entry is in the result, and processor seconds tell more on a busy machine. `--only`
keeps what is known of the others.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from record import RESULTS, write_result
from scipy.linalg import blas, lapack
from threadpoolctl import threadpool_limits

from kexpfam import KCEF, AutoKCEF
from kexpfam.base_densities import GaussianBase
from kexpfam.kernels import Gaussian

N, P, PREDICTED, COLUMNS, REGIONS = 2000, 5, 10_000, 300, 200
# The threads of OpenBLAS keep their cores busy for a while after a call, waiting for
# the next; a pause keeps that out of what is measured next.
PAUSE = 0.05

Action = Callable[[], Any]


def alternate(*actions: Action, repeats: int) -> list[tuple[float, float]]:
    """Median wall and processor seconds of actions that take turns."""
    times: list[list[tuple[float, float]]] = [[] for _ in actions]
    for _ in range(repeats):
        for action, record in zip(actions, times, strict=True):
            time.sleep(PAUSE)
            wall, cpu = time.perf_counter(), time.process_time()
            action()
            record.append((time.perf_counter() - wall, time.process_time() - cpu))
    return [
        (median(wall for wall, _ in own), median(cpu for _, cpu in own))
        for own in times
    ]


def beside(
    what: str,
    action: Action,
    bound: Action | None,
    *,
    repeats: int,
    aim_ratio: float | None = None,
    aim_seconds: float | None = None,
    before: Action = lambda: None,
) -> dict[str, Any]:
    """An entry: an action, its bound, and what it aims at."""
    action()
    _, (wall, cpu), (least, least_cpu) = alternate(
        before, action, bound or (lambda: None), repeats=repeats
    )
    entry: dict[str, Any] = {"what": what, "seconds": wall, "cpu_seconds": cpu}
    if bound is not None:
        entry |= {"bound_seconds": least, "bound_cpu_seconds": least_cpu}
        entry |= {"ratio": wall / least, "cpu_ratio": cpu / least_cpu}
    aims = {"aim_ratio": aim_ratio, "aim_seconds": aim_seconds}
    return entry | {name: aim for name, aim in aims.items() if aim is not None}


def make_data(n: int, seed: int, p: int = P) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    return X, np.sin(X[:, 0]) + 0.5 * rng.normal(size=n)


def exact_fit(threads: int | None = None) -> dict[str, Any]:
    X, y = make_data(N, 0)
    A = np.random.default_rng(1).normal(size=(N, N))
    spd = np.asfortranarray(A @ A.T + N * np.eye(N))
    work = np.empty_like(spd, order="F")

    def refill() -> None:
        work[...] = spd

    # The factorisation comes after the fit in each round, with the matrix refilled.
    with threadpool_limits(threads, user_api="blas"):
        return beside(
            "exact fit, n = 2,000, beside one Cholesky"
            + (", one thread" if threads == 1 else ""),
            lambda: KCEF(select=None, n_jobs=threads).fit(X, y),
            lambda: lapack.dpotrf(work, lower=1, overwrite_a=1, clean=0),
            repeats=15,
            aim_ratio=1.6,
            before=refill,
        )


def low_rank_fit() -> dict[str, Any]:
    n, m, height = 200_000, 1000, 8000
    X, y = make_data(n, 0, 10)
    given = KCEF(
        kernel_x=Gaussian(2.0),
        kernel_y=Gaussian(1.0),
        regularization=1e-3,
        base=GaussianBase(scale=2.0),
        n_components=m,
        random_state=0,
    )
    block = np.asfortranarray(np.random.default_rng(1).normal(size=(m, height)))

    def products() -> None:
        total = np.zeros((m, m), order="F")
        for _ in range(n // height):
            total = blas.dsyrk(1.0, block, beta=1.0, c=total, lower=1, overwrite_c=1)

    return beside(
        "low-rank fit, n = 200,000, p = 10, m = 1,000, beside syrk",
        lambda: given.fit(X, y),
        products,
        repeats=3,
        aim_ratio=1.5,
    )


def predictions(kind: Any) -> dict[str, dict[str, Any]]:
    X, y = make_data(N, 0)
    new, y_new = make_data(PREDICTED, 2)
    model = kind(random_state=0).fit(X, y)
    rng = np.random.default_rng(3)
    left, right = rng.normal(size=(PREDICTED, N)), rng.normal(size=(N, COLUMNS))
    name = kind.__name__

    def product() -> None:
        _ = left @ right

    return {
        f"{name}_score_samples": beside(
            f"{name}: log densities of 10,000 rows, beside one product",
            lambda: model.score_samples(new, y_new),
            product,
            repeats=5,
            aim_seconds=0.25,
        ),
        f"{name}_three_quantiles": beside(
            f"{name}: three quantiles of 10,000 rows, beside one product",
            lambda: model.predict_quantiles(new, [0.05, 0.5, 0.95]),
            product,
            repeats=5,
            aim_seconds=0.4,
        ),
        f"{name}_regions": beside(
            f"{name}: highest-density regions of 200 rows",
            lambda: model.given(new[:REGIONS]).hpd(0.9),
            None,
            repeats=7,
            aim_seconds=0.05,
        ),
    }


def two_columns(what: str, **given: Any) -> dict[str, Any]:
    """The joint family, whose log Z is an integral in the plane, a row of a block."""
    rows = 200
    X, first = make_data(500 + rows, 0)
    second = 0.5 * X[:, 1] + 0.3 * first
    second = second + 0.5 * np.random.default_rng(1).normal(size=len(X))
    Y = np.column_stack([first, second])
    model = KCEF(random_state=0, **given).fit(X[:500], Y[:500])
    found = beside(
        what,
        lambda: model.score_samples(X[500:], Y[500:]),
        None,
        repeats=3,
        aim_seconds=0.003,
    )
    return found | {name: found[name] / rows for name in ("seconds", "cpu_seconds")}


def auto_fit() -> dict[str, Any]:
    X, y = make_data(N, 0)
    bound = None
    if find_spec("ngboost"):
        from ngboost import NGBRegressor

        def bound() -> None:
            NGBRegressor(verbose=False, random_state=0).fit(X, y)

    return beside(
        "AutoKCEF fit to 2,000 x 5, beside NGBoost",
        lambda: AutoKCEF(random_state=0).fit(X, y),
        bound,
        repeats=3,
        aim_ratio=1.0,
    )


def imports(statement: str) -> dict[str, Any]:
    """In new processes, with bytecode as an installed package has it."""
    clocks = "time.perf_counter(), time.process_time()"
    code = (
        f"import time; a = [{clocks}]; {{}}; b = [{clocks}]; "
        "print(*(y - x for x, y in zip(a, b)))"
    )
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHONDO")}
    statements = statement, "import sklearn.base"
    times: list[list[list[float]]] = [[], []]
    with tempfile.TemporaryDirectory() as folder:
        environment["PYTHONPYCACHEPREFIX"] = folder
        for turn in range(6):
            for own, what in zip(times, statements, strict=True):
                run = subprocess.run(
                    [sys.executable, "-c", code.format(what)],
                    capture_output=True,
                    text=True,
                    check=True,
                    env=environment,
                )
                if turn:  # the first one compiles
                    own.append([float(part) for part in run.stdout.split()])
    (wall, cpu), (least, least_cpu) = (
        [median(column) for column in zip(*own, strict=True)] for own in times
    )
    return {
        "what": f"`{statement}`, beside `import sklearn.base`",
        "seconds": wall,
        "cpu_seconds": cpu,
        "bound_seconds": least,
        "bound_cpu_seconds": least_cpu,
        "ratio": wall / least,
        "cpu_ratio": cpu / least_cpu,
        "aim_ratio": 1.15,
    }


def memory() -> dict[str, Any]:
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
print((peak() - before) * 1024 / (8 * 4000 * 4000))
"""
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    return {
        "what": "memory of the exact fit, n = 4,000, in its matrices",
        "ratio": float(run.stdout),
    }


ENTRIES: dict[str, Callable[[], dict[str, Any]]] = {
    "exact_fit": lambda: {"exact_fit": exact_fit()},
    "exact_fit_one_thread": lambda: {"exact_fit_one_thread": exact_fit(1)},
    "low_rank_fit": lambda: {"low_rank_fit": low_rank_fit()},
    "KCEF": lambda: predictions(KCEF),
    "AutoKCEF": lambda: predictions(AutoKCEF),
    "two_columns": lambda: {
        "two_columns": two_columns("KCEF: two columns of y, a row of a block")
    },
    "two_columns_by_x": lambda: {
        "two_columns_by_x": two_columns(
            "KCEF: two columns of y with a given kernel of x, a row of a block",
            kernel_x=Gaussian(2.0),
        ),
    },
    "auto_fit": lambda: {"auto_fit": auto_fit()},
    "import": lambda: {
        "import": imports("import kexpfam"),
        "import_estimators": imports("from kexpfam import KCEF"),
    },
    "memory": lambda: {"memory": memory()},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", choices=list(ENTRIES), default=None)
    only = parser.parse_args().only
    result: dict[str, Any] = {}
    known = RESULTS / "speed.json"
    if only is not None and known.exists():
        result = json.loads(known.read_text())["result"]
    result["blas_threads"] = os.environ.get("OPENBLAS_NUM_THREADS", "default")
    for name in only or ENTRIES:
        load = os.getloadavg()[0]
        for key, entry in ENTRIES[name]().items():
            result[key] = entry | {"load_at_start": load}
            figures = {k: v for k, v in entry.items() if k != "what"}
            rounded = {k: round(v, 4) for k, v in figures.items()}
            print(entry["what"], rounded, flush=True)
        print(write_result("speed", result), flush=True)


if __name__ == "__main__":
    main()
