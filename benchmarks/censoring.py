"""What is lost where responses are censored?

Responses of three laws are right-censored by limits drawn independently of them, about
30 % of the rows. Models see limits and which rows are censored; fresh rows are not
censored. Beside `AutoKCEF` and `KCEF` stand the law's own parametric model, fitted by
censored maximum likelihood, and `KCEF` that takes limits for responses. What is shown
is the log loss of fresh rows minus that of the truth, in nats.

    python benchmarks/censoring.py [--quick] [--rows 500] [--seeds 2]

adds to `results/censoring.json` (not with --quick) after every law. Seeds are 100 and
up; seed 0 was looked at before.
"""

import argparse
import json
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from record import RESULTS, write_result
from scipy import optimize, special, stats

from kexpfam import KCEF, AutoKCEF

FIRST_SEED = 100
FRESH = 2000
CENSORED = 0.3


@dataclass(frozen=True)
class Law:
    """A parametric family of laws of y given x, and its true parameters."""

    theta: tuple[float, ...]
    # Log density and log survival at (x, y), as functions of the parameters
    logpdf: Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]
    logsf: Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]
    draw: Callable[[np.ndarray, np.random.Generator], np.ndarray]
    # Limits that censor, from draws of their own
    limit: Callable[[np.ndarray, float], np.ndarray]

    def fitted(self, x: Any, y: Any, censored: Any) -> np.ndarray:
        """Parameters by censored maximum likelihood, from the true ones on."""

        def loss(theta: np.ndarray) -> float:
            log_p = np.where(
                censored, self.logsf(theta, x, y), self.logpdf(theta, x, y)
            )
            return -float(log_p.mean())

        options = {"maxiter": 4000, "xatol": 1e-5, "fatol": 1e-8}
        start = np.array(self.theta)
        found = optimize.minimize(loss, start, method="Nelder-Mead", options=options)
        return np.asarray(found.x)


def _normal(t: Any, x: Any) -> Any:
    return stats.norm(t[0] + t[1] * x, np.exp(t[2]))


def _weibull(t: Any, x: Any) -> Any:
    return stats.weibull_min(np.exp(t[2]), scale=np.exp(t[0] + t[1] * x))


def _mixed(t: Any, x: Any, y: Any, name: str) -> Any:
    share = special.expit(t[4])
    middle, away, width = t[0] + t[1] * x, np.exp(t[2]), np.exp(t[3])
    parts = [
        np.log(mass) + getattr(stats.norm(middle + sign * away, width), name)(y)
        for mass, sign in ((share, 1.0), (1.0 - share, -1.0))
    ]
    return np.logaddexp(*parts)


def _draw_mixed(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    sign = np.where(rng.random(len(x)) < 0.5, 1.0, -1.0)
    return x + sign + 0.4 * rng.normal(size=len(x))


LAWS = {
    "normal, linear": Law(
        (0.5, 2.0, 0.0),
        lambda t, x, y: _normal(t, x).logpdf(y),
        lambda t, x, y: _normal(t, x).logsf(y),
        lambda x, rng: _normal((0.5, 2.0, 0.0), x).rvs(random_state=rng),
        lambda y, shift: y + shift,
    ),
    "Weibull": Law(
        (0.0, 0.8, 0.4),
        lambda t, x, y: _weibull(t, x).logpdf(y),
        lambda t, x, y: _weibull(t, x).logsf(y),
        lambda x, rng: _weibull((0.0, 0.8, 0.4), x).rvs(random_state=rng),
        lambda y, shift: y * np.exp(shift),
    ),
    "two modes": Law(
        (0.0, 1.0, 0.0, float(np.log(0.4)), 0.0),
        lambda t, x, y: _mixed(t, x, y, "logpdf"),
        lambda t, x, y: _mixed(t, x, y, "logsf"),
        _draw_mixed,
        lambda y, shift: y + shift,
    ),
}


def shift_of(law: Law) -> float:
    """The shift of limits that censors about 30 % of the rows."""
    rng = np.random.default_rng(1)
    x = rng.uniform(-1.0, 1.0, 20_000)
    y, other = law.draw(x, rng), law.draw(rng.permutation(x), rng)

    def excess(shift: float) -> float:
        return float(np.mean(y > law.limit(other, shift))) - CENSORED

    return float(optimize.brentq(excess, -5.0, 5.0, xtol=1e-2))


def measured(law: Law, n: int, seed: int) -> tuple[dict[str, float], dict[str, float]]:
    """Log loss above that of the truth, and CPU seconds, of each model."""
    rng = np.random.default_rng([seed, n])
    x, x_new = rng.uniform(-1.0, 1.0, n), rng.uniform(-1.0, 1.0, FRESH)
    y, y_new = law.draw(x, rng), law.draw(x_new, rng)
    limits = law.limit(law.draw(rng.permutation(x), rng), shift_of(law))
    censored, seen = y > limits, np.minimum(y, limits)
    truth = law.logpdf(np.array(law.theta), x_new, y_new)
    X, X_new = x[:, None], x_new[:, None]
    models: dict[str, Callable[[], np.ndarray]] = {
        "parametric": lambda: law.logpdf(law.fitted(x, seen, censored), x_new, y_new),
        "AutoKCEF": lambda: (
            AutoKCEF(random_state=seed, n_jobs=1)
            .fit(X, seen, censoring=censored)
            .given(X_new)
            .logpdf(y_new)
        ),
        "KCEF": lambda: (
            KCEF(random_state=seed, n_jobs=1)
            .fit(X, seen, censoring=censored)
            .given(X_new)
            .logpdf(y_new)
        ),
        "KCEF, limits as responses": lambda: (
            KCEF(random_state=seed, n_jobs=1).fit(X, seen).given(X_new).logpdf(y_new)
        ),
    }
    losses, spent = {"share censored": float(censored.mean())}, {}
    for name, log_p in models.items():
        start = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            losses[name] = float(np.mean(truth - log_p()))
        spent[name] = time.process_time() - start
    return losses, spent


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few fits, nothing kept")
    parser.add_argument("--rows", type=int, default=500)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--first", type=int, default=FIRST_SEED, help="first seed")
    parser.add_argument("--laws", nargs="+", default=list(LAWS))
    options = parser.parse_args()
    n, count = (40, 1) if options.quick else (options.rows, options.seeds)
    path = RESULTS / "censoring.json"
    kept = not options.quick and options.first == FIRST_SEED
    known = json.loads(path.read_text())["result"] if path.exists() else {}
    result: dict[str, Any] = known if kept else {}
    for name in options.laws:
        seeds = range(options.first, options.first + count)
        runs = [measured(LAWS[name], n, seed) for seed in seeds]
        row: dict[str, Any] = {"rows": n}
        for model in runs[0][0]:
            each = np.round([losses[model] for losses, _ in runs], 4)
            row[model] = {"mean": round(float(each.mean()), 4), "each": each.tolist()}
        for model in runs[0][1]:
            mean = np.mean([spent[model] for _, spent in runs])
            row[model]["CPU seconds"] = round(float(mean), 1)
        result[name] = row
        print(name, json.dumps(row), flush=True)
        if kept:
            write_result("censoring", result)


if __name__ == "__main__":
    main()
