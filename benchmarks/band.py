"""How often does the band of a density hold the truth?

For each simulated law, number of rows and seed an `AutoKCEF(bootstrap=...)` is fitted,
or a single `KCEF(bootstrap=...)`, and the true density is looked for in
`given(x).band(level)` at quantiles of the truth, at some x. Beside the shares stand
what they are made of: the standard deviation of √p that a band has on average, that of
fits to different rows, and the bias, which no band knows of.

    python benchmarks/band.py [--quick] [--rows 200 800] [--seeds 12 4] [--model KCEF]

adds to `results/band.json` (not with --quick) after every law. Seeds are 100 and up; 0
to 7, at 200 rows, were looked at while the band was designed: its scale, and what is
added to the variance of replicates.
"""

import argparse
import json
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from record import RESULTS, write_result
from scipy import stats

from kexpfam import KCEF, AutoKCEF
from kexpfam.datasets import (
    make_abrupt,
    make_bimodal,
    make_heteroscedastic,
    make_skewed,
)

LAWS: dict[str, Callable[..., Any]] = {
    "skewed": make_skewed,
    "heteroscedastic": make_heteroscedastic,
    "bimodal": make_bimodal,
    "abrupt": make_abrupt,
}
MODELS = {"AutoKCEF": AutoKCEF, "KCEF": KCEF}
LEVELS = (0.5, 0.8, 0.9, 0.95)
PLACES = (0.1, 0.3, 0.5, 0.7, 0.9)  # quantiles of x
POINTS = (0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 0.98)  # quantiles of the truth given x
FIRST_SEED = 100


def measured(name: str, law: str, n: int, seed: int, bootstrap: int) -> dict[str, Any]:
    """Log densities, the truth, and the bands of one fit; and CPU seconds."""
    data = LAWS[law](n, random_state=seed)
    seconds = []
    for count in (0, bootstrap):
        start = time.process_time()
        model: Any = MODELS[name](random_state=0, n_jobs=1, bootstrap=count)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(data.X, data.y)
        seconds.append(time.process_time() - start)
    # The same places for all seeds, so that their fits can be compared.
    x = np.quantile(LAWS[law](20_000, random_state=0).X[:, 0], PLACES)[:, None]
    y = data.quantile(x, POINTS)
    p, truth = model.given(x), np.exp(data.logpdf(x, y))
    bands = [p.band(level, y) for level in LEVELS]
    held = [(b.lower <= truth) & (truth <= b.upper) for b in bands]
    root = np.sqrt(p.pdf(y))
    factor = stats.t(bootstrap - 1).ppf(0.5 * (1.0 + LEVELS[0]))
    return {
        "held": np.array(held),
        "error": root - np.sqrt(truth),
        "std": (np.sqrt(bands[0].upper) - root) / factor,
        "seconds": seconds,
    }


def summary(fits: list[dict[str, Any]]) -> dict[str, Any]:
    """Shares held, with standard errors over fits, and parts of the error."""
    held = np.stack([fit["held"].mean(axis=(1, 2)) for fit in fits])
    by_point = np.stack([fit["held"][2] for fit in fits]).mean(axis=(0, 1))
    error = np.stack([fit["error"] for fit in fits])
    between_fits = error.std(axis=0, ddof=1) if len(fits) > 1 else np.zeros(1)
    alone, together = np.mean([fit["seconds"] for fit in fits], axis=0)
    return {
        "fits": len(fits),
        "coverage": _by(LEVELS, held.mean(axis=0)),
        "standard errors": _by(LEVELS, held.std(axis=0) / np.sqrt(len(fits))),
        "coverage of 0.9 by quantile of the truth": _by(POINTS, by_point),
        "std of √p in the band": _mean_root(fit["std"] for fit in fits),
        "std of √p between fits": _mean_root([between_fits]),
        "bias of √p": _mean_root([error.mean(axis=0)]),
        "CPU seconds": round(float(alone), 2),
        "CPU seconds with replicates": round(float(together), 2),
    }


def _by(keys: Any, values: Any) -> dict[str, float]:
    rounded = np.round(values, 3).tolist()
    return dict(zip(map(str, keys), rounded, strict=True))


def _mean_root(parts: Any) -> float:
    """Root of the mean square."""
    return round(float(np.sqrt(np.mean(np.square(np.stack(list(parts)))))), 3)


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one fit, nothing kept")
    parser.add_argument("--rows", type=int, nargs="+", default=[200, 800])
    parser.add_argument("--seeds", type=int, nargs="+", default=[12, 4])
    parser.add_argument("--bootstrap", type=int, default=10)
    parser.add_argument("--model", choices=list(MODELS), default="AutoKCEF")
    options = parser.parse_args()
    rows, seeds, laws = options.rows, options.seeds, list(LAWS)
    if options.quick:
        rows, seeds, laws = [60], [1], laws[:1]
    path = RESULTS / "band.json"
    known = json.loads(path.read_text())["result"] if path.exists() else {}
    result: dict[str, Any] = {} if options.quick else known
    for n, count in zip(rows, seeds, strict=True):
        every: list[dict[str, Any]] = []
        key = f"{n} rows, {options.bootstrap} replicates"
        key += "" if options.model == "AutoKCEF" else f", {options.model}"
        own = result.setdefault(key, {})
        for law in laws:
            last = FIRST_SEED + count
            fits = [
                measured(options.model, law, n, seed, options.bootstrap)
                for seed in range(FIRST_SEED, last)
            ]
            every += fits
            own[law] = summary(fits)
            print(n, law, own[law], flush=True)
            if not options.quick:
                write_result("band", result)
        held = np.stack([fit["held"].mean(axis=(1, 2)) for fit in every])
        own["all laws"] = _by(LEVELS, held.mean(axis=0))
        own["seeds"] = [FIRST_SEED, last - 1]
        print(n, own["all laws"], flush=True)
        if not options.quick:
            write_result("band", result)


if __name__ == "__main__":
    main()
