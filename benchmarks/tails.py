"""What do heavy tails and outliers cost?

Responses are drawn from laws with tails as heavy as Cauchy's, and from a normal one
with a single value of y, or a single row of x, at a million. For each law, model and
number of training rows stands KL(truth ‖ fit), the mean over fresh rows of the true
log density minus the fitted one; fresh rows have no outlier. "clean" is the normal law
without outliers, beside which costs of one can be seen. Of laws without outliers stand
also: the shares of fresh rows that are said to have a mean, and a standard deviation;
over those rows whose truth has them, the mean error of the mean in true standard
deviations, and the median ratio of the fitted to the true standard deviation.

    python benchmarks/tails.py [--quick] [--rows 50 200 1000] [--seeds 3]

adds to `results/tails.json` (not with --quick) after every law. Seeds are 100 and up;
0 and 1 were looked at while constants were chosen.
"""

import argparse
import json
import time
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from record import RESULTS, write_result
from scipy import stats

from kexpfam import KCEF, KEF, AutoKCEF

FIRST_SEED = 100
OUTLIER = 1e6
FRESH = 1000

# The true law of y given x, as a frozen distribution of scipy.
Law = Callable[[np.ndarray], Any]


def _around_a_wave(X: np.ndarray) -> Any:
    return stats.norm(np.sin(3.0 * X[:, 0]), 0.3)


LAWS: dict[str, Law] = {
    "Cauchy": lambda X: stats.cauchy(np.zeros(len(X)), 1.0),
    "Cauchy around a wave": lambda X: stats.cauchy(np.sin(3.0 * X[:, 0]), 0.3),
    "t(2) around a wave": lambda X: stats.t(2, np.sin(3.0 * X[:, 0]), 0.3),
    "t(5) around a wave": lambda X: stats.t(5, np.sin(3.0 * X[:, 0]), 0.3),
    "lognormal, sigma 0.8": lambda X: stats.lognorm(0.8, scale=np.exp(X[:, 0])),
    "lognormal, sigma 2": lambda X: stats.lognorm(2.0, scale=np.exp(X[:, 0])),
    "clean": _around_a_wave,
    "normal": lambda X: stats.norm(np.zeros(len(X)), 1.0),
    "normal, one y": lambda X: stats.norm(np.zeros(len(X)), 1.0),
    "one y": _around_a_wave,
    "one x": _around_a_wave,
    "one x, 3 columns": _around_a_wave,
}
UNCONDITIONAL = ("Cauchy", "normal", "normal, one y")
MODELS: dict[str, Callable[[int], Any]] = {
    "AutoKCEF": lambda seed: AutoKCEF(random_state=seed, n_jobs=1),
    "KCEF": lambda seed: KCEF(random_state=seed, n_jobs=1),
    "KEF": lambda seed: KEF(random_state=seed, n_jobs=1),
}


def sample(name: str, n: int, rng: np.random.Generator) -> tuple[np.ndarray, Any]:
    """Conditions and responses without outliers."""
    X = rng.uniform(-1.0, 1.0, (n, 3 if name.endswith("3 columns") else 1))
    return X, LAWS[name](X).rvs(random_state=rng)


def moments(p: Any, law: Any) -> dict[str, float]:
    """What densities of fresh rows say of their moments, beside the truth."""
    mean, std = p.mean(), p.std()
    found = {"with mean": np.isfinite(mean).mean(), "with std": np.isfinite(std).mean()}
    true_mean, true_std = law.mean(), law.std()
    both = np.isfinite(std) & np.isfinite(mean) & np.isfinite(true_std)
    if both.any():
        found["mean error"] = np.abs((mean - true_mean) / true_std)[both].mean()
        found["std ratio"] = np.median((std / true_std)[both])
    return found


def measured(name: str, model: str, n: int, seed: int) -> dict[str, float]:
    """KL(truth ‖ fit), estimated from fresh rows, and moments."""
    rng = np.random.default_rng([seed, n])
    X, y = sample(name, n, rng)
    X_new, y_new = sample(name, FRESH, rng)
    if name.endswith("one y"):
        y[0] = OUTLIER
    if name.startswith("one x"):
        X[0, 0] = OUTLIER
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = MODELS[model](seed)
        try:
            if model == "KEF":
                log_p = found.fit(y[:, None]).score_samples(y_new[:, None])
            else:
                p = found.fit(X, y).given(X_new)
                log_p = p.logpdf(y_new)
        except (ValueError, ArithmeticError) as error:  # a failure is a result, too
            print(f"{name}, {model}, {n} rows, seed {seed}: {error}", flush=True)
            return {"KL": float("inf")}
        law = LAWS[name](X_new)
        own = {} if model == "KEF" or ", one" in name else moments(p, law)
    return {"KL": np.mean(law.logpdf(y_new) - log_p), **own}


def _mean(values: Iterable[float | None]) -> float:
    """Of what is known."""
    return round(float(np.mean([value for value in values if value is not None])), 3)


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few fits, nothing kept")
    parser.add_argument("--rows", type=int, nargs="+", default=[50, 200, 1000])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=FIRST_SEED, help="first seed")
    parser.add_argument("--laws", nargs="+", default=list(LAWS))
    parser.add_argument("--models", nargs="+", default=list(MODELS))
    options = parser.parse_args()
    path = RESULTS / "tails.json"
    kept = not options.quick and options.first == FIRST_SEED
    known = json.loads(path.read_text())["result"] if path.exists() else {}
    result: dict[str, Any] = known if kept else {}
    seeds = range(
        options.first, options.first + (1 if options.quick else options.seeds)
    )
    for name in options.laws:
        for model in options.models:
            # Unconditional densities know nothing of x, and laws without x are theirs.
            if (model == "KEF") != (name in UNCONDITIONAL[1:]) and name != "Cauchy":
                continue
            row = result.setdefault(name, {}).setdefault(model, {})
            for n in options.rows[:1] if options.quick else options.rows:
                start = time.process_time()
                fits = [measured(name, model, n, seed) for seed in seeds]
                spent = (time.process_time() - start) / len(fits)
                costs = [fit["KL"] for fit in fits]
                others = [key for key in fits[0] if key != "KL"]
                row[str(n)] = {
                    "KL": round(float(np.mean(costs)), 4),
                    "each": np.round(costs, 4).tolist(),
                    **{key: _mean(fit.get(key) for fit in fits) for key in others},
                    "CPU seconds per fit": round(spent, 2),
                }
                print(f"{name:24s}{model:10s}{n:6d}", row[str(n)], flush=True)
        if kept:
            write_result("tails", result)


if __name__ == "__main__":
    main()
