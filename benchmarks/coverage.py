"""How often do intervals of `AutoKCEF` cover, and how calibrated are its densities?

For each family of `families.py`, number of training rows and seed an average is fitted,
and 500 fresh rows tell what share of them its central intervals hold. Beside the shares
averaged over families and seeds, with their standard errors, stand those of
the average without its map of PIT values, log losses, and the Kolmogorov-Smirnov
distance of PIT values from uniform ones.

    python benchmarks/coverage.py [--quick] [--rows 12 30 100 1000] [--seeds 12 8 4 2]

adds to `results/coverage.json` (not with --quick) after every number of rows. `--seeds`
says how many there are for each number of rows. They are 100 and up; 0 to 2 were looked
at while constants were chosen. Families are those there are, so standard errors are of
seeds: they come from how fits vary within families.
"""

import argparse
import json
import time
import warnings
from typing import Any

import numpy as np
from families import FAMILIES, Family
from record import RESULTS, write_result
from scipy import stats

from kexpfam import AutoKCEF
from kexpfam.distributions import RecalibratedDensity

LEVELS = (0.5, 0.8, 0.9, 0.95)
FIRST_SEED = 100


def measured(family: Family, n: int, seed: int, fresh: int) -> dict[str, np.ndarray]:
    """Coverage, log loss and distance of PIT values from uniform ones, of one fit."""
    rng = np.random.default_rng([seed, n])
    X, y = family.sample(n, rng)
    X_new, y_new = family.sample(fresh, rng)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = AutoKCEF(lower=-np.inf, atoms=False, random_state=seed, n_jobs=1)
        density = model.fit(X, y).given(X_new)
    kinds: dict[str, Any] = {"density": density, "without map": density}
    if isinstance(density, RecalibratedDensity):
        kinds["without map"] = density.density
    found = {}
    for kind, p in kinds.items():
        pit = p.cdf(y_new)
        distance = stats.kstest(pit, "uniform").statistic
        shares = [np.mean(np.abs(pit - 0.5) <= 0.5 * level) for level in LEVELS]
        found[kind] = np.array([*shares, -np.mean(p.logpdf(y_new)), distance])
    return found


def summary(fits: list[dict[str, np.ndarray]], families: int) -> dict[str, Any]:
    """Means over fits, family after family for each seed; errors of the coverage."""
    result: dict[str, Any] = {"fits": len(fits)}
    for kind in fits[0]:
        figures = np.stack([fit[kind] for fit in fits])
        mean = figures.mean(axis=0)
        within = figures.reshape(-1, families, figures.shape[1])
        spread = within.var(axis=0, ddof=1 if len(within) > 1 else 0).mean(axis=0)
        error = np.sqrt(spread / len(fits))
        coverage = dict(zip(map(str, LEVELS), mean.round(4).tolist(), strict=False))
        result[kind] = {
            "coverage": coverage,
            "standard errors": error[: len(LEVELS)].round(4).tolist(),
            "log loss": round(float(mean[-2]), 4),
            "PIT distance": round(float(mean[-1]), 4),
        }
    return result


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two fits, nothing kept")
    parser.add_argument("--rows", type=int, nargs="+", default=[12, 30, 100, 1000])
    parser.add_argument("--seeds", type=int, nargs="+", default=[12, 8, 4, 2])
    options = parser.parse_args()
    rows, seeds, families = options.rows, options.seeds, list(FAMILIES)
    if options.quick:
        rows, seeds, families = [12], [1], families[:2]
    # One number of seeds for each number of rows, or the same for all.
    counts = dict(
        zip(rows, seeds * len(rows) if len(seeds) == 1 else seeds, strict=False)
    )
    path = RESULTS / "coverage.json"
    known = json.loads(path.read_text())["result"] if path.exists() else {}
    result: dict[str, Any] = {} if options.quick else known
    for n in rows:
        start = time.process_time()
        fits = [
            measured(FAMILIES[name], n, seed, 100 if options.quick else 500)
            for seed in range(FIRST_SEED, FIRST_SEED + counts[n])
            for name in families
        ]
        result[f"{n} rows"] = summary(fits, len(families))
        spent = time.process_time() - start
        last = FIRST_SEED + counts[n] - 1
        result[f"{n} rows"]["seeds"] = [FIRST_SEED, last]
        result[f"{n} rows"]["CPU seconds per fit"] = round(spent / len(fits), 2)
        print(n, result[f"{n} rows"], flush=True)
        if not options.quick:
            write_result("coverage", result)


if __name__ == "__main__":
    main()
