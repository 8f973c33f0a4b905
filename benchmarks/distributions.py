"""Seconds that densities take, as a user feels them: `given(X)` at 1000 rows.

An `AutoKCEF` (300 training rows on which about fifteen families share the weight) and a
`KCEF` are asked for everything that p(y|x) has. Each method is timed on new densities,
so that what it computes first and keeps counts; `again` is a second call. Regions are
those of all rows, pictures those of one density and of the whole model.

Figures are processor seconds of one thread, since the machine may be loaded: they still
vary by a third or so, but not with what others do, and are the wall-clock seconds of a
machine that is idle. Run it with OPENBLAS_NUM_THREADS=1.
"""

import time
from collections.abc import Callable
from typing import Any

import matplotlib as mpl
import numpy as np
from record import write_result

from kexpfam import KCEF, AutoKCEF, metrics

N, ROWS = 300, 1000
FEW, MANY = [[0.05, 0.5, 0.95]], np.linspace(0.01, 0.99, 99)[None]

METHODS: dict[str, Callable[[Any, np.ndarray], Any]] = {
    "logpdf": lambda p, y: p.logpdf(y),
    "cdf": lambda p, y: p.cdf(y),
    "ppf, 3 levels": lambda p, y: p.ppf(FEW),
    "ppf, 99 levels": lambda p, y: p.ppf(MANY),
    "mean": lambda p, y: p.mean(),
    "std": lambda p, y: p.std(),
    "mode": lambda p, y: p.mode(),
    "entropy": lambda p, y: p.entropy(),
    "hpd": lambda p, y: p.hpd(0.9),
    "rvs, 100 each": lambda p, y: p.rvs(100, random_state=0),
}


def make_data(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A weak slope in much noise: many families say the same, and share the weight."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, size=(n, 1))
    return x, x[:, 0] + rng.normal(size=n)


def seconds(action: Callable[..., Any], *arguments: Any) -> float:
    start = time.process_time()
    action(*arguments)
    return time.process_time() - start


def measure(model: Any, X: np.ndarray, y: np.ndarray) -> dict[str, float]:
    found = {"given": seconds(model.given, X)}
    for name, method in METHODS.items():
        p = model.given(X)
        found[name] = seconds(method, p, y)
        found[f"{name}, again"] = seconds(method, p, y)
    one = model.given(X)[0]
    one.plot()  # matplotlib itself is slow the first time
    found["p[0].plot"] = seconds(one.plot)
    found["model.plot"] = seconds(model.plot, X[:N], y[:N])
    found["score_samples"] = seconds(model.score_samples, X, y)
    found["evaluate"] = seconds(metrics.evaluate, model, X, y)
    return found


if __name__ == "__main__":
    mpl.use("Agg")
    training, (X, y) = make_data(N, 0), make_data(ROWS, 1)
    result: dict[str, Any] = {"training_rows": N, "rows": ROWS, "unit": "CPU seconds"}
    for kind in (AutoKCEF, KCEF):
        model = kind(random_state=0, n_jobs=1).fit(*training)
        parts = getattr(model.given(X[:1]), "components", [None])
        result[kind.__name__] = {"components": len(parts)} | measure(model, X, y)
    print(f"{'':24} {'AutoKCEF':>9} {'KCEF':>9}")
    for name, figure in result["AutoKCEF"].items():
        print(f"{name:24} {figure:9.3f} {result['KCEF'][name]:9.3f}")
    print(write_result("distributions", result))
