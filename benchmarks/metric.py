"""What a metric of x by average outer products of gradients gains, in nats.

    python benchmarks/metric.py [--tables NAME ...] [--splits 3 4] [--folds 2]
        [--methods NAME ...] [--report]

A Gaussian process with a lengthscale for each column is fitted to standardised x. With
the gradients g_i of its mean at the training rows, M = Σ_i g_i g_i' / n is the metric
of recursive feature machines (Radhakrishnan, Beaglehole, Pandit and Belkin 2024). It is
used in three ways: x is replaced by M^½ x ("root"), by its components along the
eigenvectors of M ("directions"), or the three leading ones are added to the columns of
x ("added"). The metric is learned once, or three times, each time by a process on the
M^½ x before. The same estimator is fitted to each, and to x as it is ("x"): a process
alone with normal noise, a `KCEF` around one, or an `AutoKCEF`. "isotropic" is a process
with one lengthscale for all columns of M^½ x, as in the paper, beside "process, x".
"beside, directions" is an `AutoKCEF` on x with such a `KCEF` on directions as an
expert, whose weight is learned from fits without each fold; "beside, x" has a `KCEF` on
x as an expert. Both are compared with "AutoKCEF, x".

Test rows of the given splits are not used: the training rows, at most 1,000, are cut
into five folds, of which the first few are held out one after another. Metrics and fits
see the others only. Figures are mean log densities of the rows that are held out, in
deviations of y; gains are mean differences to "x" on the same rows, with standard
errors over these rows. Splits share most of their training rows, so that errors over
several splits are too small. Needs `KEXPFAM_DATA` with `tables/`. `results/metric.json`
is continued: what is there is not run again. `--report` prints it.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterable
from typing import Any, Self

import numpy as np
from design_tables import data
from record import RESULTS, write_result
from scipy.stats import norm
from sklearn.base import BaseEstimator
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    WhiteKernel,
)

from kexpfam import KCEF, AutoKCEF
from kexpfam.regression import GaussianProcess, fit_gaussian_process
from reproduction.tables import table as markdown

TABLES = (
    "servo",
    "concreteslump",
    "machine",
    "autompg",
    "stock",
    "airfoil",
    "skillcraft",
    "pumadyn32nm",
)
USES = ("x", "root, 1", "directions, 1", "added, 1", "added, 3")
ROWS, FOLDS, ADDED = 1000, 5, 3


class Process:
    """A Gaussian process of this package, with normal noise."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> Self:
        self._process = fit_gaussian_process(X, y).process
        return self

    def score_samples(self, X: np.ndarray, y: np.ndarray) -> np.ndarray:
        mean, variance = self._process.predict(X)
        return norm.logpdf(y, mean, np.sqrt(variance + self._process.noise_variance))


class IsotropicProcess:
    """The same sum of kernels, with one lengthscale, learned from as many rows."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> Self:
        p = X.shape[1]
        curve = ConstantKernel(0.5) * RBF(2.0 * np.sqrt(p), (1e-2, 1e4))
        line = ConstantKernel(0.5, (1e-6, 1e3)) * DotProduct(0.1, "fixed")
        kernel = curve + line + WhiteKernel(0.2, (1e-8, 1e2))
        some = GaussianProcessRegressor(kernel).fit(X[:400], y[:400])
        self._process = GaussianProcessRegressor(some.kernel_, optimizer=None).fit(X, y)
        return self

    def score_samples(self, X: np.ndarray, y: np.ndarray) -> np.ndarray:
        return norm.logpdf(y, *self._process.predict(X, return_std=True))


class OnDirections(BaseEstimator):
    """A `KCEF` around a process, on the eigenvectors of a metric of its own."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> Self:
        self._columns = columns("directions", learned_metric(X, y, 1))
        self._model = around_a_process().fit(X @ self._columns, y)
        return self

    def given(self, X: np.ndarray) -> Any:
        return self._model.given(X @ self._columns)


def around_a_process() -> KCEF:
    return KCEF(base="gaussian_process", random_state=0, n_jobs=1)


def average(**experts: Any) -> AutoKCEF:
    others = experts or None
    return AutoKCEF(
        experts=others, lower=-np.inf, atoms=False, random_state=0, n_jobs=1
    )


ESTIMATORS: dict[str, Callable[[], Any]] = {
    "process": Process,
    "isotropic": IsotropicProcess,
    "KCEF": around_a_process,
    "AutoKCEF": average,
    "beside, x": lambda: average(process=around_a_process()),
    "beside, directions": lambda: average(process=OnDirections()),
}


def mean_gradients(process: GaussianProcess, X: np.ndarray) -> np.ndarray:
    """Gradients of the mean of a process, (n, p).

    With μ(x) = Σ_i α_i (S(x, x_i) + σ_l² x·x_i + c),
    ∇μ(x) = Σ_i α_i (S(x, x_i) (x_i − x)/ℓ² + σ_l² x_i), all in standard units.
    """
    h, C, alpha = process.hyperparameters, process.X, process.coefficients
    Z = process.x_scaling.forward(X)
    U, V = Z / h.lengthscales, C / h.lengthscales
    squares = (U**2).sum(axis=1)[:, None] + (V**2).sum(axis=1) - 2.0 * U @ V.T
    S = h.signal_variance * np.exp(-0.5 * squares) * alpha
    slopes = (S @ C - S.sum(axis=1)[:, None] * Z) / h.lengthscales**2
    slopes += h.linear_variance * (alpha @ C)
    return slopes * process.y_scaling.scale[0] / process.x_scaling.scale


def learned_metric(Z: np.ndarray, y: np.ndarray, times: int) -> np.ndarray:
    """M with trace p, (p, p), learned so many times."""
    root = np.eye(Z.shape[1])
    for _ in range(times):
        process = fit_gaussian_process(Z @ root, y).process
        assert isinstance(process, GaussianProcess)
        G = mean_gradients(process, Z @ root) @ root  # the chain rule; a root is even
        M = G.T @ G
        M *= len(M) / np.trace(M)
        root = symmetric_root(M)
    return M


def symmetric_root(M: np.ndarray) -> np.ndarray:
    values, vectors = np.linalg.eigh(M)
    return (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T


def columns(use: str, M: np.ndarray) -> np.ndarray:
    """What x is multiplied by from the right, (p, q)."""
    if use == "root":
        return symmetric_root(M)
    directions = np.linalg.eigh(M)[1][:, ::-1]
    if use == "directions":
        return directions
    return np.column_stack([np.eye(len(M)), directions[:, :ADDED]])


def held_out(
    table: str, split: int, folds: int, method: str
) -> tuple[np.ndarray, float, float]:
    """Log densities of held-out rows, and seconds of the processor: metric and fit."""
    name, use, *times = method.split(", ")
    if method in ESTIMATORS:
        name, use = method, "x"
    rows, test = data(table, split)
    train = np.random.default_rng(split).permutation(np.flatnonzero(~test))[:ROWS]
    fold, log_p, learning, fitting = np.arange(len(train)) % FOLDS, [], 0.0, 0.0
    for k in range(folds):
        seen, unseen = train[fold != k], train[fold == k]
        std = rows[seen].std(axis=0)
        D = (rows - rows[seen].mean(axis=0)) / np.where(std > 0, std, 1.0)
        X, y = D[:, :-1], D[:, -1]
        start = time.process_time()
        if use != "x":
            X = X @ columns(use, learned_metric(X[seen], y[seen], int(times[0])))
        learning, start = learning + time.process_time() - start, time.process_time()
        model = ESTIMATORS[name]().fit(X[seen], y[seen])
        fitting += time.process_time() - start
        log_p.append(model.score_samples(X[unseen], y[unseen]))
    return np.concatenate(log_p), learning, fitting


def report(cases: Iterable[dict[str, Any]]) -> str:
    """Gains by table, and their mean over tables with its standard error."""
    cases, lines = list(cases), []
    for method in dict.fromkeys(case["method"] for case in cases):
        name = method.split(", ")[0]
        others = {"isotropic": "process", "beside": "AutoKCEF"}
        base = f"{others.get(name, name)}, x"
        if method == base:
            continue
        means, slower = [], []
        for table in dict.fromkeys(case["table"] for case in cases):
            pairs = [
                (case, other)
                for case in cases
                for other in cases
                if (case["method"], other["method"]) == (method, base)
                and case["table"] == other["table"] == table
                and case["split"] == other["split"]
                and len(case["log_p"]) == len(other["log_p"])
            ]
            if not pairs:
                continue
            gains = np.concatenate(
                [np.subtract(case["log_p"], other["log_p"]) for case, other in pairs]
            )
            error = gains.std(ddof=1) / np.sqrt(len(gains))
            means.append(gains.mean())
            slower += [
                (case["metric_seconds"] + case["fit_seconds"]) / other["fit_seconds"]
                for case, other in pairs
            ]
            own = np.concatenate([other["log_p"] for _, other in pairs]).mean()
            gain = f"{gains.mean():+.3f} ± {error:.3f}"
            lines.append([method, table, str(len(gains)), f"{own:.3f}", gain, ""])
        error = np.std(means, ddof=1) / np.sqrt(len(means)) if len(means) > 1 else 0.0
        gain = f"{np.mean(means):+.3f} ± {error:.3f}, median {np.median(means):+.3f}"
        time_ratio = f"{np.median(slower):.2f}"
        lines.append([method, f"{len(means)} tables", "", "", gain, time_ratio])
    return markdown(["method", "table", "rows", "x", "gain", "times the time"], lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", nargs="+", default=list(TABLES))
    parser.add_argument("--splits", nargs="+", type=int, default=[3, 4])
    parser.add_argument("--folds", type=int, default=2, help="that are held out")
    parser.add_argument("--methods", nargs="+", help='such as "KCEF, added, 1"')
    parser.add_argument("--report", action="store_true", help="run nothing")
    options = parser.parse_args()
    path = RESULTS / "metric.json"
    cases = json.loads(path.read_text())["result"]["cases"] if path.exists() else []
    methods = options.methods or [
        "isotropic, root, 1",
        "isotropic, root, 3",
        "beside, x",
        "beside, directions",
        *(f"{name}, {use}" for name in ("process", "KCEF", "AutoKCEF") for use in USES),
    ]
    known = {(case["table"], case["split"], case["method"]) for case in cases}
    for table in [] if options.report else options.tables:
        for split in options.splits:
            for method in methods:
                if (table, split, method) in known:
                    continue
                log_p, learning, fitting = held_out(table, split, options.folds, method)
                print(table, split, method, log_p.mean().round(4), flush=True)
                cases.append(
                    {
                        "table": table,
                        "split": split,
                        "method": method,
                        "metric_seconds": round(learning, 2),
                        "fit_seconds": round(fitting, 2),
                        "log_p": np.round(log_p, 4).tolist(),
                    }
                )
                write_result("metric", {"rows": ROWS, "folds": FOLDS, "cases": cases})
    print(report(cases))


if __name__ == "__main__":
    main()
