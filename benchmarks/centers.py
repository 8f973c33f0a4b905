"""Held-out score and likelihood of low-rank fits, by choice and number of centres.

Three problems of one column of y, 3000 rows to fit and 1000 to judge: heteroscedastic
around a sine (p = 1), nonlinear (p = 5) and bimodal (p = 1). Gaussian kernels with
lengthscales of half and of one median distance, the untuned λ and a tenth of it. Each
method is compared with the exact fit of the same rows: figures are held-out losses in
excess of its losses, means over seeds of the choice. `--report` prints tables of the
written file.
"""

import argparse
import itertools
import json
import time
from typing import Any

import numpy as np
from record import RESULTS, write_result
from scipy.spatial.distance import pdist
from scipy.special import logsumexp

from kexpfam._typing import Array
from kexpfam.base_densities import GaussianBase
from kexpfam.kernels import Gaussian, SumOfProducts, separable
from kexpfam.score_matching import (
    Basis,
    KernelExpansion,
    ScoreSample,
    TiltedDensity,
    choose_centers,
    fit_exact,
    fit_low_rank,
    score_matching_loss,
)

N, HELD_OUT, SEEDS = 3000, 1000, 3
METHODS = ("uniform", "kmeans", "leverage", "pivoted", "random_pivoted")
SIZES = (30, 60, 125, 250, 500)
BASE = GaussianBase(2.0)
NODES = np.linspace(-8.0, 8.0, 801)


def make_problem(name: str) -> tuple[Array, Array]:
    rng = np.random.default_rng(0)
    n = N + HELD_OUT
    if name == "nonlinear, p = 5":
        X = rng.normal(size=(n, 5))
        center = np.sin(X[:, 0]) + 0.5 * X[:, 1] * X[:, 2]
        y = center + 0.4 * rng.standard_normal(n) * (1.0 + (X[:, 3] > 0))
    else:
        X = rng.uniform(-2.0, 2.0, size=(n, 1))
        noise = rng.standard_normal(n)
        if name == "heteroscedastic":
            y = np.sin(2.0 * X[:, 0]) + 0.3 * np.exp(0.4 * X[:, 0]) * noise
        else:
            y = rng.choice([-1.0, 1.0], n) * (0.8 + 0.3 * X[:, 0]) + 0.4 * noise
    return X / X.std(axis=0), (y[:, None] - y.mean()) / y.std()


def as_sample(X: Array, Y: Array) -> ScoreSample:
    n = len(Y)
    gsm_linear = BASE.grad_log_density(Y)
    return ScoreSample(X, Y, np.full(n, 1 / n), gsm_linear, np.ones_like(Y))


def make_kernel(X: Array, Y: Array, factor: float) -> SumOfProducts:
    lengths = [factor * float(np.median(pdist(Z[:1000]))) for Z in (X, Y)]
    return separable(Gaussian(lengths[0]), Gaussian(lengths[1]))


def judge(T: KernelExpansion, test: ScoreSample) -> dict[str, float]:
    log_p = TiltedDensity(BASE, T, test.X).on_grid(NODES[:, None])
    log_z = logsumexp(log_p, axis=1) + np.log(NODES[1] - NODES[0])
    own = T.value(test.X, test.Y) + BASE.log_density(test.Y)
    return {
        "score": score_matching_loss(T, test),
        "log_loss": float(np.mean(log_z - own)),
    }


def measure(name: str, factor: float, share: float) -> dict[str, Any]:
    X, Y = make_problem(name)
    train, test = as_sample(X[:N], Y[:N]), as_sample(X[N:], Y[N:])
    kernel = make_kernel(train.X, train.Y, factor)
    lam = share * 0.2 * N**-0.75 / kernel.resolution**2
    exact = judge(fit_exact(kernel, train, lam).T, test)
    found: dict[str, Any] = {"exact": exact, "lambda": lam}
    for method in METHODS:
        chosen, seconds = [], time.perf_counter()
        for seed in range(SEEDS):
            rng = np.random.default_rng(seed)
            chosen.append(
                [
                    choose_centers(method, kernel, train.X, train.Y, m, rng=rng)
                    for m in SIZES
                ]
            )
        seconds = (time.perf_counter() - seconds) / SEEDS
        found[method] = {"seconds_to_choose_all_sizes": seconds}
        for derivatives in (0, 1):
            excess: dict[str, list[float]] = {key: [] for key in exact}
            for k in range(len(SIZES)):
                figures = [
                    judge(
                        fit_low_rank(Basis(kernel, *bases[k], derivatives), train, lam),
                        test,
                    )
                    for bases in chosen
                ]
                for key, own in excess.items():
                    mean = np.mean([one[key] for one in figures])
                    own.append(round(float(mean - exact[key]), 5))
            found[method]["derivatives" if derivatives else "plain"] = excess
    return found


def report() -> None:
    result = json.loads((RESULTS / "centers.json").read_text())["result"]
    for kind, key in itertools.product(("plain", "derivatives"), ("log_loss", "score")):
        print(f"\n{kind}, {key} in excess of the exact fit, centres {SIZES}")
        for name, found in result["problems"].items():
            print(f"  {name}: exact {found['exact'][key]:.4f}")
            for method in METHODS:
                values = "".join(f"{v:10.4f}" for v in found[method][kind][key])
                print(f"    {method:16s}{values}")


def main() -> None:
    problems = {}
    names = ("heteroscedastic", "nonlinear, p = 5", "bimodal")
    for name, factor, share in itertools.product(names, (0.5, 1.0), (1.0, 0.1)):
        start = time.perf_counter()
        label = f"{name}, lengthscale {factor}, lambda {share}"
        problems[label] = measure(name, factor, share)
        print(label, round(time.perf_counter() - start, 1), "s", flush=True)
        sizes = {"n": N, "held_out": HELD_OUT, "seeds": SEEDS, "centers": SIZES}
        path = write_result("centers", {"sizes": sizes, "problems": problems})
    print(path)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--report", action="store_true")
    if not parser.parse_args().report:
        main()
    report()
