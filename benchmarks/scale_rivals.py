"""Time and held-out log density of several methods on 10⁵ rows, in one run.

    python benchmarks/scale_rivals.py            needs ngboost and quantile-forest
    python benchmarks/scale_rivals.py --report   the table of the written file

Rows of `scale_data`: ten columns, a known density with two branches. Each method is
fitted once, on two cores, with its defaults or as its entry says; times are of the fit
alone, and of log densities of 20,000 fresh rows. Quantile methods become densities by a
piecewise constant interpolation of their levels, with exponential tails, and one per
cent of a normal that ignores x, so that no row costs them thousands of nats.
"""

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from record import RESULTS, write_result
from scale_data import log_density, make_rows

from kexpfam import KCEF, AutoKCEF

Array = np.ndarray
LogDensity = Callable[[Array, Array], Array]

# Levels of the quantile methods, and the least width between two of them, relative to
# the deviation of y: without it, ties would have an infinite density.
LEVELS = np.concatenate([[0.005, 0.02], np.linspace(0.05, 0.95, 19), [0.98, 0.995]])
NARROWEST = 1e-3
DEFENSIVE = 0.01


def fit_kcef(X: Array, y: Array) -> LogDensity:
    return KCEF(random_state=0).fit(X, y).score_samples


def fit_auto(X: Array, y: Array) -> LogDensity:
    model = AutoKCEF(lower=-np.inf, atoms=False, random_state=0)
    return model.fit(X, y).score_samples


def _normal(moments: Callable[[Array], tuple[Array, Array]]) -> LogDensity:
    def log_p(X: Array, y: Array) -> Array:
        mean, deviation = moments(X)
        u = (y - mean) / deviation
        return -0.5 * u**2 - np.log(deviation) - 0.5 * np.log(2.0 * np.pi)

    return log_p


def fit_ngboost(X: Array, y: Array) -> LogDensity:
    from ngboost import NGBRegressor

    model = NGBRegressor(n_estimators=500, verbose=False, random_state=0).fit(X, y)

    def moments(X: Array) -> tuple[Array, Array]:
        parameters = model.pred_dist(X).params
        return parameters["loc"], parameters["scale"]

    return _normal(moments)


def fit_boosted_moments(X: Array, y: Array) -> LogDensity:
    """Histogram boosting of the mean, and of the log squared held-out residual."""
    from sklearn.ensemble import HistGradientBoostingRegressor
    from sklearn.model_selection import cross_val_predict

    def booster() -> Any:
        return HistGradientBoostingRegressor(
            early_stopping=True, max_iter=1000, random_state=0
        )

    mean = booster().fit(X, y)
    residual = y - cross_val_predict(booster(), X, y, cv=3)
    log_square = np.log(np.maximum(residual**2, 1e-12))
    scale = booster().fit(X, log_square)
    # The mean of log χ² is −1.27: what is left is found from the residuals themselves.
    rough = np.exp(0.5 * scale.predict(X))
    factor = float(np.sqrt(np.mean((residual / rough) ** 2)))
    return _normal(lambda X: (mean.predict(X), factor * np.exp(0.5 * scale.predict(X))))


def fit_inducing_process(X: Array, y: Array) -> LogDensity:
    """A Gaussian process with inducing points and constant noise."""
    from kexpfam.regression import fit_gaussian_process

    process = fit_gaussian_process(X, y).process

    def moments(X: Array) -> tuple[Array, Array]:
        mean, variance = process.predict(X)
        return mean, np.sqrt(variance + process.noise_variance)

    return _normal(moments)


def _from_quantiles(quantiles: Callable[[Array], Array], y_seen: Array) -> LogDensity:
    center, unit = float(y_seen.mean()), float(y_seen.std())

    def log_p(X: Array, y: Array) -> Array:
        edges = np.sort(quantiles(X), axis=1)
        widths = np.maximum(np.diff(edges, axis=1), NARROWEST * unit)
        edges = np.concatenate([edges[:, :1], edges[:, :1] + widths.cumsum(1)], axis=1)
        inside = np.log(np.diff(LEVELS)) - np.log(widths)
        cell = (y[:, None] >= edges).sum(axis=1) - 1
        middle = np.clip(cell, 0, widths.shape[1] - 1)
        found = inside[np.arange(len(y)), middle]
        # Exponential tails through the outermost level and the next but one.
        for side, first, inner in ((-1, 0, 2), (1, -1, -3)):
            mass = LEVELS[0] if side < 0 else 1.0 - LEVELS[-1]
            more = LEVELS[2] if side < 0 else 1.0 - LEVELS[-3]
            rate = np.log(more / mass) / np.abs(edges[:, inner] - edges[:, first])
            beyond = side * (y - edges[:, first])
            found = np.where(beyond > 0, np.log(mass * rate) - rate * beyond, found)
        wide = -0.5 * ((y - center) / unit) ** 2 - np.log(unit * np.sqrt(2.0 * np.pi))
        return np.logaddexp(np.log1p(-DEFENSIVE) + found, np.log(DEFENSIVE) + wide)

    return log_p


def fit_quantile_forest(X: Array, y: Array) -> LogDensity:
    from quantile_forest import RandomForestQuantileRegressor

    forest = RandomForestQuantileRegressor(
        n_estimators=100, min_samples_leaf=10, n_jobs=2, random_state=0
    ).fit(X, y)
    return _from_quantiles(lambda X: forest.predict(X, quantiles=LEVELS.tolist()), y)


METHODS: dict[str, tuple[str, Callable[[Array, Array], LogDensity]]] = {
    "KCEF": ("defaults", fit_kcef),
    "AutoKCEF": ("defaults", fit_auto),
    "NGBoost": ("normal, 500 trees, its defaults", fit_ngboost),
    "quantile forest": ("100 trees, leaves of 10, 23 levels", fit_quantile_forest),
    "boosted moments": ("histogram boosting of mean and scale", fit_boosted_moments),
    "Gaussian process": ("inducing points, constant noise", fit_inducing_process),
}


def run(n: int, names: list[str]) -> dict[str, Any]:
    X, y = make_rows(n, 0)
    fresh = make_rows(20_000, 1)
    truth = log_density(*fresh)
    result: dict[str, Any] = {
        "n": n,
        "held_out": len(truth),
        "truth": float(truth.mean()),
        "methods": {},
    }
    for name in names:
        what, fit = METHODS[name]
        start = time.perf_counter()
        log_p = fit(X, y)
        fitted = time.perf_counter()
        found = log_p(*fresh)
        done = time.perf_counter()
        loss = truth - found
        result["methods"][name] = {
            "what": what,
            "fit_seconds": fitted - start,
            "density_seconds": done - fitted,
            "log_density": float(found.mean()),
            "divergence": float(loss.mean()),
            "divergence_error": float(loss.std() / np.sqrt(len(loss))),
            "worst": float(found.min()),
        }
        print(name, json.dumps(result["methods"][name]), flush=True)
    return result


def report(result: dict[str, Any]) -> None:
    print(f"| method | fit, s | log p | KL to the truth ({result['truth']:.3f}) |")
    print("| --- | --- | --- | --- |")
    for name, one in result["methods"].items():
        print(
            f"| {name} ({one['what']}) | {one['fit_seconds']:.0f} | "
            f"{one['log_density']:.3f} | {one['divergence']:.3f} ± "
            f"{one['divergence_error']:.3f} |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(METHODS))
    parser.add_argument("-n", type=int, default=100_000)
    parser.add_argument("--report", action="store_true")
    arguments = parser.parse_args()
    path = RESULTS / "scale_rivals.json"
    if arguments.report:
        report(json.loads(path.read_text())["result"])
        return
    result = run(arguments.n, arguments.names)
    if arguments.names == list(METHODS) and arguments.n == 100_000:
        write_result("scale_rivals", result)
    report(result)


if __name__ == "__main__":
    main()
