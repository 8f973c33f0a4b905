"""Low-rank score matching by conjugate gradients against forming and factorising C.

n = 20000 rows with two columns of x, Gaussian kernels, the untuned λ and ten times it,
one thread for both. The direct way costs n·m² operations, conjugate gradients n·m for
each iteration, and 2·m³ for a preconditioner of 2·m rows. Features are computed again
in each pass, or kept where they fit into memory. Run with OPENBLAS_NUM_THREADS=1.
"""

import time
from typing import Any

import numpy as np
from record import write_result

from kexpfam._parallel import single_threaded_blas
from kexpfam.base_densities import GaussianBase
from kexpfam.kernels import Gaussian, separable
from kexpfam.score_matching import (
    Basis,
    KernelExpansion,
    RowsInMemory,
    ScoreSample,
    fit_iterative,
    fit_low_rank,
)

N, SIZES, TOLERANCE = 20000, (500, 1000, 2000, 4000), 1e-6
MEMORY = {"features computed in each pass": 0, "features kept, 1 GiB": 2**30}
KERNEL = separable(Gaussian(1.0), Gaussian(1.0))
LAMBDA = 0.2 * N**-0.75


def make_sample() -> ScoreSample:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 2))
    Y = np.sin(2.0 * X[:, :1]) + 0.5 * np.exp(0.3 * X[:, 1:]) * rng.normal(size=(N, 1))
    Y = (Y - Y.mean()) / Y.std()
    gsm_linear = GaussianBase(1.5).grad_log_density(Y)
    return ScoreSample(X, Y, np.full(N, 1 / N), gsm_linear, np.ones_like(Y))


def distance(T: KernelExpansion, other: KernelExpansion, sample: ScoreSample) -> float:
    """Largest difference of gradients at some rows, relative to the largest."""
    a, b = (f.gradient(sample.X[-1000:], sample.Y[-1000:]) for f in (T, other))
    return float(np.abs(a - b).max() / np.abs(b).max())


def measure(sample: ScoreSample, m: int, lam: float) -> dict[str, Any]:
    basis = Basis(KERNEL, sample.X[:m], sample.Y[:m], derivatives=0)
    start = time.perf_counter()
    direct = fit_low_rank(basis, sample, lam, n_jobs=1)
    seconds = time.perf_counter() - start
    found: dict[str, Any] = {"direct_seconds": seconds}
    for name, memory in MEMORY.items():
        start = time.perf_counter()
        rows = RowsInMemory(basis, sample, n_jobs=1, memory=memory)
        fit = fit_iterative(basis, rows, lam, tolerance=TOLERANCE)
        own = time.perf_counter() - start
        found[name] = {
            "seconds": own,
            "ratio_to_direct": own / seconds,
            "iterations": fit.iterations,
            "stopped": fit.stopped,
            "gradient_difference": distance(fit.T, direct, sample),
        }
    return found


def main() -> None:
    sample, result = make_sample(), {}
    with single_threaded_blas():
        for m in SIZES:
            for factor in (1.0, 10.0):
                label = f"{m} centres, lambda {factor * LAMBDA:.2g}"
                result[label] = measure(sample, m, factor * LAMBDA)
                print(label, result[label], flush=True)
    print(write_result("iterative", {"n": N, "tolerance": TOLERANCE, **result}))


if __name__ == "__main__":
    main()
