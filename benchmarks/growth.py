"""How time grows with rows, columns, centres and rows of prediction, beside rivals.

    python benchmarks/growth.py [--only AXIS ...] [--methods NAME ...]
        [--sizes N ...] [--seconds 300]

CPU seconds, so that other work on the machine counts little, with one thread of BLAS,
of default fits of `AutoKCEF` and `KCEF`, of NGBoost where it is installed (normal, 500
trees, its defaults), and of histogram boosting (scikit-learn, one fit for each of three
quantiles). Axes, from the sizes given here:

* `rows`: fits to n rows of 5 columns;
* `columns`: fits to 2,000 rows of p columns, of which the first two matter;
* `centres`: a low-rank `KCEF` of 50,000 rows with everything given;
* `predictions`: three quantiles of many rows by fits to 2,000 x 5 (NGBoost's are those
  of its normal law).

Every size runs in a process of its own, which fits few rows first, so that nothing is
imported while it is timed. Sizes grow until one takes longer than `--seconds`; larger
ones are left out. An exponent is the slope of log time against log size, over all
sizes and over the upper half of them. Writes `results/growth.json` after every size,
and `results/growth.png`; `--only` keeps what is known of other axes, `--methods` of
other methods, and `--sizes` of other sizes.
"""

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
from record import RESULTS, write_result

LEVELS = (0.05, 0.5, 0.95)
ROWS, COLUMNS = 2000, 5
SIZES = {
    "rows": (1000, 3162, 10_000, 31_623, 100_000, 316_228, 1_000_000),
    "columns": (2, 5, 12, 30, 100, 300),
    "centres": (125, 250, 500, 1000, 2000),
    "predictions": (100, 1000, 10_000, 100_000),
}
METHODS = {
    "rows": ("AutoKCEF", "KCEF", "NGBoost", "histogram boosting"),
    "columns": ("AutoKCEF", "KCEF", "NGBoost", "histogram boosting"),
    "centres": ("KCEF",),
    "predictions": ("AutoKCEF", "KCEF", "NGBoost", "histogram boosting"),
}
NAMES = {
    "rows": "rows of a fit",
    "columns": "columns of x",
    "centres": "centres",
    "predictions": "rows of prediction",
}


def make_data(n: int, p: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Waves whose noise is wider on one side of the second column."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    width = np.where(X[:, 1] > 0, 0.6, 0.3)
    return X, np.sin(2.0 * X[:, 0]) + width * rng.normal(size=n)


class Boosting:
    """Three quantiles by histogram boosting."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> "Boosting":
        from sklearn.ensemble import HistGradientBoostingRegressor

        self.models = [
            HistGradientBoostingRegressor(
                loss="quantile", quantile=level, random_state=0
            ).fit(X, y)
            for level in LEVELS
        ]
        return self

    def predict_quantiles(self, X: np.ndarray, levels: Any) -> np.ndarray:
        return np.column_stack([model.predict(X) for model in self.models])


class NaturalBoosting:
    """NGBoost's normal law."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> "NaturalBoosting":
        from ngboost import NGBRegressor

        self.model = NGBRegressor(verbose=False, random_state=0).fit(X, y)
        return self

    def predict_quantiles(self, X: np.ndarray, levels: Any) -> np.ndarray:
        law = self.model.pred_dist(X)
        return np.column_stack([law.ppf(level) for level in levels])


def makers() -> dict[str, Callable[[], Any]]:
    from kexpfam import KCEF, AutoKCEF

    return {
        "AutoKCEF": lambda: AutoKCEF(random_state=0),
        "KCEF": lambda: KCEF(random_state=0),
        "NGBoost": NaturalBoosting,
        "histogram boosting": Boosting,
    }


def cpu_seconds(work: Callable[[], Any]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def measure(axis: str, method: str, size: int) -> float:
    """CPU seconds of one size, in this process."""
    warnings.simplefilter("ignore")
    make = makers()[method]
    if axis == "centres":
        from kexpfam import KCEF
        from kexpfam.base_densities import GaussianBase
        from kexpfam.kernels import Gaussian

        X, y = make_data(50_000, 10, 0)
        given: dict[str, Any] = {
            "kernel_x": Gaussian(2.0),
            "kernel_y": Gaussian(1.0),
            "regularization": 1e-3,
            "base": GaussianBase(scale=2.0),
            "random_state": 0,
        }
        KCEF(n_components=50, **given).fit(X[:500], y[:500])
        model = KCEF(n_components=size, **given)
        return cpu_seconds(lambda: model.fit(X, y))
    X, y = make_data(ROWS, COLUMNS, 1)
    if axis == "predictions":
        model = make().fit(X, y)
        new = make_data(size, COLUMNS, 2)[0]
        model.predict_quantiles(new[:100], LEVELS)
        return cpu_seconds(lambda: model.predict_quantiles(new, LEVELS))
    make().fit(X[:450], y[:450])
    p = size if axis == "columns" else COLUMNS
    X, y = make_data(size if axis == "rows" else ROWS, p, 0)
    return cpu_seconds(lambda: make().fit(X, y))


def in_a_process(axis: str, method: str, size: int) -> float:
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    run = subprocess.run(
        [sys.executable, __file__, "--measure", axis, method, str(size)],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    return float(run.stdout)


def exponents(sizes: list[int], seconds: list[float]) -> dict[str, float]:
    """Slopes of log time, over all sizes and over the upper half."""
    found = {}
    for name, first in (("all", 0), ("upper half", len(sizes) // 2)):
        if len(sizes) - first > 1:
            logs = np.log(sizes[first:]), np.log(seconds[first:])
            found[name] = float(np.polyfit(*logs, 1)[0])
    return found


def grown(
    axis: str, method: str, limit: float, asked: list[int], known: dict[int, float]
) -> dict[str, Any]:
    """Times of one method along an axis, until one takes too long."""
    for size in asked:
        known[size] = found = in_a_process(axis, method, size)
        print(axis, method, size, round(found, 3), flush=True)
        if found > limit:
            break
    sizes = sorted(known)
    seconds = [known[size] for size in sizes]
    left_out = [size for size in SIZES[axis] if size not in sizes]
    return {
        "sizes": sizes,
        "cpu_seconds": seconds,
        "exponents": exponents(sizes, seconds),
        "left_out": left_out,
    }


def picture(result: dict[str, Any]) -> None:
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib import pyplot as plt

    axes = [axis for axis in SIZES if axis in result]
    figure, panels = plt.subplots(
        1, len(axes), figsize=(3.6 * len(axes), 3.4), squeeze=False
    )
    for panel, axis in zip(panels[0], axes, strict=True):
        for method, found in result[axis].items():
            panel.loglog(found["sizes"], found["cpu_seconds"], "o-", label=method)
        panel.set_xlabel(NAMES[axis])
        panel.grid(alpha=0.3)
    panels[0, 0].set_ylabel("CPU seconds")
    panels[0, 0].legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(RESULTS / "growth.png", dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", choices=list(SIZES), default=list(SIZES))
    parser.add_argument("--methods", nargs="*")
    parser.add_argument("--sizes", nargs="*", type=int)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        axis, method, size = options.measure
        print(measure(axis, method, int(size)))
        return
    known, result = RESULTS / "growth.json", {}
    if known.exists():
        result = json.loads(known.read_text())["result"]
    for axis in options.only:
        known_methods = result.setdefault(axis, {})
        for method in options.methods or METHODS[axis]:
            if method == "NGBoost" and not find_spec("ngboost"):
                continue
            before: dict[int, float] = {}
            if options.sizes and method in known_methods:
                one = known_methods[method]
                before = dict(zip(one["sizes"], one["cpu_seconds"], strict=True))
            asked = options.sizes or list(SIZES[axis])
            known_methods[method] = grown(axis, method, options.seconds, asked, before)
            write_result("growth", result)
    picture(result)
    print(known)


if __name__ == "__main__":
    main()
