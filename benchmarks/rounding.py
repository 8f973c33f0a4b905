"""Rounded y: how near is a density to the law that was rounded?

Rows of three laws with unit standard deviation given x, about, are recorded to a tenth,
a half, one and two. `AutoKCEF` and `KCEF` are fitted to what was recorded, and their
log density of fresh rows that nobody rounded stands beside that of the law itself.
A density with spikes on recorded values loses there, whatever recorded rows say.

    python benchmarks/rounding.py [--quick] [--seeds 100 101] [--before]

writes `results/rounding.json` (not with --quick); with `--before` beside what is there,
for the code that is on the path. Seed 0 was looked at while the bound was chosen.
"""

import argparse
import json
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from record import RESULTS, write_result
from scipy import special, stats

from kexpfam import KCEF, AutoKCEF

Array = np.ndarray
ROWS, FRESH = 500, 4000
WIDTHS = (0.1, 0.5, 1.0, 2.0)


def _normal(X: Array) -> Any:
    return stats.norm(np.sin(3.0 * X[:, 0]), 1.0)


def _two_modes(X: Array, rng: np.random.Generator) -> Array:
    side = np.where(rng.random(len(X)) < special.expit(2.0 * X[:, 0]), 1.2, -1.2)
    return side + 0.5 * rng.normal(size=len(X))


def _two_modes_log_p(X: Array, y: Array) -> Array:
    share = special.expit(2.0 * X[:, 0])
    parts = [stats.norm.logpdf(y, m, 0.5) for m in (1.2, -1.2)]
    return special.logsumexp(parts, axis=0, b=[share, 1.0 - share])


def _skewed(X: Array) -> Any:
    return stats.gamma(1.5, loc=X[:, 0] + 5.0, scale=np.exp(0.5 * X[:, 1]))


LAWS: dict[str, tuple[Callable[..., Array], Callable[..., Array]]] = {
    "normal": (
        lambda X, rng: _normal(X).rvs(random_state=rng),
        lambda X, y: _normal(X).logpdf(y),
    ),
    "two modes": (_two_modes, _two_modes_log_p),
    "skewed": (
        lambda X, rng: _skewed(X).rvs(random_state=rng),
        lambda X, y: _skewed(X).logpdf(y),
    ),
}
ESTIMATORS = {"AutoKCEF": AutoKCEF, "KCEF": KCEF}


def loss(kind: str, law: str, width: float, seed: int, rows: int, fresh: int) -> float:
    """Nats a row that are lost beside the law, on rows that were not rounded."""
    draw, log_p = LAWS[law]
    rng = np.random.default_rng([seed, rows])
    X, X_new = (rng.uniform(-1.0, 1.0, size=(n, 2)) for n in (rows, fresh))
    y, y_new = draw(X, rng), draw(X_new, rng)
    recorded = np.round(y / width) * width if width else y
    # Few whole numbers are a density here, too.
    how = {"counts": False, "atoms": False} if kind == "AutoKCEF" else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = ESTIMATORS[kind](random_state=seed, n_jobs=1, **how).fit(X, recorded)
        found = model.score_samples(X_new, y_new)
    return float(np.mean(log_p(X_new, y_new) - found))


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one fit, nothing kept")
    parser.add_argument("--before", action="store_true", help="keep as before")
    parser.add_argument("--seeds", type=int, nargs="+", default=[100, 101])
    options = parser.parse_args()
    sizes = (60, 200) if options.quick else (ROWS, FRESH)
    found: dict[str, dict[str, list[float]]] = {}
    start = time.process_time()
    for kind in ESTIMATORS:
        for law in list(LAWS)[: 1 if options.quick else None]:
            for width in (1.0,) if options.quick else (0.0, *WIDTHS):
                losses = [
                    round(loss(kind, law, width, seed, *sizes), 5)
                    for seed in options.seeds[: 1 if options.quick else None]
                ]
                found.setdefault(f"{kind}, {law}", {})[f"{width:g}"] = losses
                print(f"{kind:9} {law:10} {width:4g} {losses}", flush=True)
    if options.quick:
        return
    kept: dict[str, Any] = {}
    if (RESULTS / "rounding.json").exists():
        kept = json.loads((RESULTS / "rounding.json").read_text())["result"]
    name = "nats lost before" if options.before else "nats lost"
    kept |= {"seeds": options.seeds, "rows": sizes, name: found}
    write_result("rounding", kept | {"seconds": round(time.process_time() - start, 1)})


if __name__ == "__main__":
    main()
